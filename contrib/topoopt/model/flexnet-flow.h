// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_FLEXNET_FLOW_H
#define TOPOOPT_FLEXNET_FLOW_H

#include "ns3/flexnet-engine.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace topoopt
{

/** A data packet is a whole MSS: 9000 minus 64. */
inline constexpr std::uint32_t kFlexNetMss = 8936;
/** A packet that leaves a queue longer than this is marked. */
inline constexpr Bytes kFlexNetMarkAbove = 50 * Bytes{kFlexNetMss};

/** A packet on a link or in its queue. */
struct FlexNetEngine::Packet
{
    Flow* flow = nullptr;
    const std::uint32_t* next = nullptr; ///< link after this one, kNoId = the receiver
    SimTime sent = 0;
    /** Position in the flow's packets, 0 = the SYN; until it is on the wire, when `due` is known. */
    std::uint32_t number = 0;
    bool marked = false;
    SimTime due = 0; ///< arrival at the other end
};

/** What a link has transmitted. */
struct FlexNetEngine::PortCounters
{
    std::uint64_t packets = 0;
    std::uint64_t syns = 0; ///< of these
    std::uint64_t marks = 0;
    std::uint64_t drops = 0;

    [[nodiscard]] Bytes WireBytes() const
    {
        return (packets - syns) * kFlexNetMss + syns;
    }
};

/** A link: its queue and its wire. */
struct FlexNetEngine::Port
{
    std::unique_ptr<Packet[]> ring;
    std::uint32_t mask = 0;
    std::uint32_t head = 0;   ///< first on the wire
    std::uint32_t queued = 0; ///< first in the queue: being transmitted
    std::uint32_t tail = 0;
    unsigned dataLine = 0;
    unsigned synLine = 0;
    Bytes size = 0; ///< in the queue, the packet in transmission included
    Bytes limit = 0;
    Bytes markAbove = 0;
    SimTime dataTime = 0; ///< transmission of a data packet
    SimTime synTime = 0;
    PortCounters counters;

    /** How long it has transmitted. */
    [[nodiscard]] SimTime Busy() const
    {
        return static_cast<SimTime>(counters.packets - counters.syns) * dataTime +
               static_cast<SimTime>(counters.syns) * synTime;
    }
};

/**
 * The numbers of a DCTCP sender and receiver.
 *
 * Sequence numbers count bytes as in the reference: the SYN is byte 1, data packet k >= 1 is bytes
 * (k-1) * MSS + 2 .. k * MSS + 1.
 */
struct FlexNetEngine::FlowState
{
    std::uint64_t size = 0;
    std::uint64_t highestSent = 0;
    std::uint64_t lastAcked = 0;
    std::uint32_t cwnd = 0;
    std::uint32_t slowStart = 0;
    std::uint32_t window =
        2 * kFlexNetMss; ///< bytes of acknowledgements until the next look at marks
    std::uint32_t seen = 0;
    std::uint32_t marked = 0;
    std::uint16_t duplicates = 0;
    bool established = false;
    bool done = false;
    bool recovering = false;
    bool timedOut = false;        ///< its event is pending
    bool clean = true;            ///< no timeout, no drop
    bool quiet = false;           ///< trains: clean, and everything has been sent
    std::uint32_t lastNumber = 0; ///< of its last packet
    double alfa = 0;
    std::uint64_t rtt = 0;
    std::uint64_t deviation = 0;
    std::uint64_t timeout = 0;
    std::uint64_t deadline = 0; ///< 0: none
    std::uint64_t recoverUpTo = 0;
    std::uint64_t received = 0; ///< by the receiver: everything up to this byte
    std::uint64_t inFlight = 0; ///< packets in queues and on wires
    std::uint64_t everSent = 0; ///< the largest that highestSent has been
    std::uint64_t timeouts = 0;
    std::uint64_t retransmits = 0;
    Bytes wireBytes = 0; ///< put on the first link
};

/** A flow. */
struct FlexNetEngine::Flow : FlexNetEngine::FlowState
{
    std::unique_ptr<std::vector<std::uint64_t>> early; ///< first bytes beyond a gap, ascending
    const FlexNetPathLinks* path = nullptr;
    Flow* before = nullptr; ///< among the unfinished
    Flow* after = nullptr;  ///< likewise; among the free
    // For the record.
    std::uint64_t id = 0;
    NodeId src = 0;
    NodeId dst = 0;
    Bytes asked = 0;
    SimTime start = 0;
    SimTime end = kNever;
    std::uint32_t task = 0;
    std::uint32_t ring = 0;
    std::uint32_t round = 0;
    /** Those whose flows it stands for; null: only itself. */
    const FlexNetLockstep::Block* block = nullptr;

    [[nodiscard]] std::uint32_t Width() const
    {
        return block == nullptr ? 1 : static_cast<std::uint32_t>(block->members.size());
    }
};

/** An AllReduce under way. */
struct FlexNetEngine::AllReduce
{
    struct Ring
    {
        std::uint32_t round = 0;
        std::uint32_t arrived = 0;                  ///< flows of this round
        std::vector<const FlexNetPathLinks*> paths; ///< by member; empty: chosen per flow
        std::vector<NodeId> ends;                   ///< by member
    };

    std::uint32_t task = 0;
    std::uint64_t firstFlow = 0; ///< id of its first flow
    Bytes size = 0;
    Bytes part = 0; ///< bytes of one flow
    SimTime begin = 0;
    std::uint32_t rounds = 0; ///< of each ring
    std::uint32_t ringsDone = 0;
    std::vector<Ring> rings;
};

} // namespace topoopt

#endif // TOPOOPT_FLEXNET_FLOW_H
