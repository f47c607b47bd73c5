// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_FLEXNET_TRAINS_H
#define TOPOOPT_FLEXNET_TRAINS_H

#include "ns3/flexnet-flow.h"
#include "ns3/flexnet-order.h"

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace topoopt
{

/**
 * The links of FlexNetEngine with exact trains: only events that matter are run.
 *
 * A queue is FIFO, so when a packet joins it, the end of its transmission and its arrival are known for good,
 * whatever comes later. Packets of one flow that follow each other without a gap are one record, a run, and
 * their times are arithmetic. Ends of transmission are never events: a queue's length, and with it the marks, is worked
 * out when somebody joins the queue or looks. Arrivals are events where they do something: at every hop but the last one,
 * and at the receiver if they end a flow, open it (SYN), or if the sender still has something to send. Other
 * acknowledgements only move the sender's timeout; they are worked out if the flow is in doubt of timing out.
 *
 * A flow that has a link for itself from sender to receiver concerns nobody else as long as it does. It is run ahead of time until
 * all has been sent; if something joins its queue before then, it falls back to where it was and is run up to
 * now.
 *
 * The order of simultaneous events must be the reference's, which depends on when each was inserted, so on
 * events that are not run here. On a link with packets on the wire, an arrival is inserted by the one before it. As long
 * as arrivals are one transmission apart, a chain, two links that have a simultaneous arrival had
 * the one before at the same time, too, and in the same order, back to where the younger of both chains begins. A
 * chain begins after a longer gap (then its first arrival was inserted earlier, so the link comes before
 * all older chains, and stays there) or after the short one in front of a SYN (then it comes after them). So a chain has a label
 * that orders it among all others for as long as it lasts, and beginnings of chains are always events.
 */
class FlexNetTrains
{
  public:
    explicit FlexNetTrains(FlexNetEngine& engine);
    ~FlexNetTrains();

    /** Whether the order of events can be worked out on these links: see the conditions in the source. */
    [[nodiscard]] static bool Fit(const FlexNetEngine& engine);

    SimTime RunTo(SimTime horizon);
    /** Inserts the event of a pending slot or of the scanner. */
    void Schedule(std::uint32_t slot, SimTime time);
    /** Packets @p number .. @p number + @p count - 1 of a flow join the queue of @p link now. */
    void Put(std::uint32_t link,
             FlexNetEngine::Flow& flow,
             const std::uint32_t* next,
             std::uint32_t number,
             std::uint32_t count,
             SimTime sent,
             std::uint64_t marks);
    /** Acknowledges what has arrived before now. */
    void Settle(FlexNetEngine::Flow& flow);
    /** From now on every arrival of this flow is an event. */
    void Disturb(FlexNetEngine::Flow& flow);
    /** Works out everything up to and including now. */
    void SettleAll();
    /** Works out what has left the queues before now and brings the engine's counters up to date. */
    void ServeAll();
    /** Undoes what has been run ahead of time. */
    void FallBackAll();
    /** Lets links stand for others in the same state from now on, if there are enough of them. */
    void TryLockstep(FlexNetLockstep& lockstep);
    /** Bytes x hops that packets in queues and on wires still have before them. */
    [[nodiscard]] Bytes Owed() const;

  private:
    using Flow = FlexNetEngine::Flow;
    using FlowState = FlexNetEngine::FlowState;
    using Packet = FlexNetEngine::Packet;
    using PortCounters = FlexNetEngine::PortCounters;
    struct Run;
    struct PortState;
    struct Port;
    struct Ahead;

    static constexpr std::uint32_t kMostInRun = 64;      ///< packets; one mark bit each
    static constexpr SimTime kNoArrival = INT64_MIN / 4; ///< of a link that has carried nothing

    /** Arrivals of a link that are one transmission apart, by the first one. */
    struct Chain
    {
        SimTime time = INT64_MIN;
        SimTime inserted = 0;
        std::uint64_t stamp = 0;
        std::uint64_t label = 0;
        SimTime parentInserted = 0;
        std::uint64_t parentWord = 0;
    };

    /** A link that another one stands for. */
    struct StandIn
    {
        std::uint32_t link = 0;
        std::uint32_t first = 0; ///< the other one
        PortCounters before;     ///< of the other one when it began to
    };

    /** The transmission of a SYN, after which a chain of transmissions begins; what inserted its end: */
    struct Syn
    {
        SimTime end = kNoArrival;
        SimTime parentInserted = 0;
        std::uint64_t parentWord = 0;
        bool parentKnown = false;
    };

    /** The last few of many. */
    template <typename Item>
    struct Recent
    {
        static constexpr std::uint32_t kCount = 16; ///< a power of two

        std::array<Item, kCount> items;
        std::uint32_t added = 0;

        void Add(const Item& item)
        {
            items[added++ % kCount] = item;
        }

        /** The one that was added @p before ones before the last. @pre before < kCount */
        [[nodiscard]] const Item& Last(std::uint32_t before = 0) const
        {
            return items[(added - 1 - before) % kCount];
        }
    };

    void Arrival(std::uint32_t link);
    void QueueEvent(std::uint32_t link);
    void FindNext(std::uint32_t link);
    void LookAhead(std::uint32_t link, Flow& flow);
    [[nodiscard]] bool RunsByItself(const Port& port, const Flow& flow, SimTime bound) const;
    void RunAlone(std::uint32_t link, Flow& flow, SimTime bound);
    void FallBack(std::uint32_t link, SimTime bound, bool ties);
    void ScheduleArrival(std::uint32_t link, std::uint32_t run, std::uint32_t offset);
    void Serve(Port& port, Bytes joining);
    void ServeCount(Port& port, Run& run, std::uint32_t count);
    [[nodiscard]] bool QueueFirst(const Port& port, const Run& run, std::uint32_t offset);
    void Acknowledge(Run& run, std::uint32_t upTo);
    [[nodiscard]] static Packet PacketOf(const Run& run, std::uint32_t offset);
    /** The packet at @p offset of the first run, which is acknowledged, has arrived. */
    static void PassOver(Port& port, Run& run, std::uint32_t offset);
    void Skip(std::uint32_t link);
    /** Looks for the next arrival that is an event from the first packet that has not arrived. */
    void Restart(std::uint32_t link);
    static void Grow(Port& port);
    void CopyCounters() const;
    [[nodiscard]] FlexNetRank AfterArrival(const Port& port, SimTime time) const;
    [[nodiscard]] FlexNetRank ChildOfNow();
    void BeginEvent(SimTime inserted);
    [[nodiscard]] static bool Alike(const Flow& a, const Flow& b);
    [[nodiscard]] bool Alike(std::uint32_t a, std::uint32_t b) const;
    [[nodiscard]] std::vector<FlexNetLockstep::Block> BlocksOf(
        const std::vector<std::uint32_t>& links) const;
    [[nodiscard]] static std::vector<Flow*> FlowsOn(const Port& port);
    [[nodiscard]] bool Before(std::uint32_t a, std::uint32_t b) const;
    void StandFor(std::uint32_t first, std::uint32_t link);
    [[nodiscard]] static std::uint64_t Label(bool longGap, std::uint64_t stamp);

    FlexNetEngine& m_engine;
    std::vector<Port> m_ports;
    std::vector<StandIn> m_standIns;
    FlexNetOrder
        m_order; ///< slots: arrivals by link, ends of first transmissions by link, then the engine's
    std::deque<std::uint32_t> m_immediate; ///< slots inserted now for now
    std::uint64_t m_group = 0;             ///< of events of one time
    std::uint64_t m_indexInGroup = 0;
    SimTime m_groupTime = -1;
    // The event that is being run.
    FlexNetRank m_current;
    std::uint64_t m_stamp = 0; ///< of it: grows from event to event
    std::uint64_t m_word = 0;  ///< orders it among events inserted at the same time
    bool m_isArrival = false;
    std::uint32_t m_arrivalLink = 0;
    std::uint32_t m_chainsSince = 0; ///< on its link, begun by itself: 0 or 1
    bool m_follows = false;          ///< its link looks for the arrival after it
    unsigned m_delayLine = 0;
    std::uint64_t m_children = 0;
};

} // namespace topoopt

#endif // TOPOOPT_FLEXNET_TRAINS_H
