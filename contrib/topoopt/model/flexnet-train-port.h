// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_FLEXNET_TRAIN_PORT_H
#define TOPOOPT_FLEXNET_TRAIN_PORT_H

#include "ns3/flexnet-trains.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace topoopt
{

/** Consecutive packets of one flow, back to back. Packet i arrives at first + i * (a data packet's time). */
struct FlexNetTrains::Run
{
    Flow* flow = nullptr;
    const std::uint32_t* next = nullptr; ///< link after this one
    SimTime sent = 0;                    ///< packet 0
    SimTime step = 0;                    ///< between the sending of one packet and the next
    SimTime first = 0;                   ///< arrival of packet 0
    SimTime before = 0;                  ///< arrival of the packet in front of this run
    std::uint64_t marks = 0;             ///< by packet
    std::uint32_t number = 0;            ///< of packet 0 within the flow
    std::uint16_t count = 0;
    std::uint16_t acknowledged = 0; ///< packets from the front that the sender knows of
    bool quiet = false;             ///< its flow was when it joined the queue, and is
    bool ends = false;              ///< its last packet is its flow's last
    bool byQueue =
        false; ///< its first arrival is inserted by the end of transmission: an empty wire

    [[nodiscard]] SimTime SentAt(std::uint32_t packet) const
    {
        return sent + static_cast<SimTime>(packet) * step;
    }
};

/** Everything about a link that running a flow on it changes, but the runs themselves. */
struct FlexNetTrains::PortState
{
    std::uint32_t head = 0; ///< first run with packets that have not arrived
    std::uint32_t tail = 0;
    std::uint32_t arrived = 0;     ///< packets of the first run
    std::uint32_t served = 0;      ///< run in transmission
    std::uint32_t transmitted = 0; ///< its packets
    std::uint32_t nextRun = 0;     ///< whose arrival is the pending event
    std::uint32_t nextOffset = 0;
    std::uint32_t queueRun = 0; ///< that has an end of transmission pending
    bool waits = false;         ///< for that
    bool running = false;       ///< an arrival; the next one is looked for afterwards
    unsigned dataLine = 0;
    unsigned synLine = 0;
    SimTime dataTime = 0;
    SimTime synTime = 0;
    double perTime = 0; ///< 1 / dataTime
    SimTime free = 0;   ///< end of the last transmission known
    SimTime last = kNoArrival;
    Bytes size = 0; ///< of the queue when somebody last looked
    Bytes limit = 0;
    Bytes markAbove = 0;
    // The chain of arrivals that are one transmission apart.
    Chain chain;
    // The chain of transmissions.
    SimTime busySince = kNoArrival;
    SimTime busyInserted = 0;
    std::uint64_t busyWord = 0;
    std::uint64_t queueLabel = 0;
    SimTime servedTime = 0; ///< of the last transmission that has ended: how long it took
    /** Transmissions of SYNs, the last ones. */
    Recent<Syn> syns;
    Recent<Chain> chains; ///< of arrivals; the last one is `chain`
    PortCounters counters;
    // All runs from this one on are of one flow.
    const Flow* soleFlow = nullptr;
    std::uint32_t soleFrom = 0;

    /** How many transmissions of a data packet are over after @p time; at most kMostInRun. */
    [[nodiscard]] std::uint32_t TimesIn(SimTime time) const
    {
        // A product is faster than a division; off by one at most.
        auto times = static_cast<SimTime>(static_cast<double>(time) * perTime);
        times -= times * dataTime > time ? 1 : 0;
        times += (times + 1) * dataTime <= time ? 1 : 0;
        return static_cast<std::uint32_t>(times);
    }
};

/** Where a link and its flow were before they were run ahead of time. */
struct FlexNetTrains::Ahead
{
    Flow* flow = nullptr;
    FlowState flowState;
    PortState portState;
    std::vector<Run> runs;
};

struct FlexNetTrains::Port : FlexNetTrains::PortState
{
    std::uint32_t width = 1; ///< links that it stands for
    std::unique_ptr<Run[]> ring;
    std::uint32_t mask = 0;
    bool foresees = false;         ///< no arrival coincides with an end of transmission
    SimTime ahead = kNoArrival;    ///< time of the last arrival that was run ahead of time
    std::unique_ptr<Ahead> before; ///< where it was then

    Run& At(std::uint32_t run) const
    {
        return ring[run & mask];
    }

    /** Whether all packets have arrived; a run that may have packets appended can be left. */
    [[nodiscard]] bool Empty() const
    {
        return head == tail || (head + 1 == tail && arrived == At(head).count);
    }
};

} // namespace topoopt

#endif // TOPOOPT_FLEXNET_TRAIN_PORT_H
