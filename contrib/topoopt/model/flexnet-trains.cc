// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/flexnet-trains.h"

#include "ns3/flexnet-train-port.h"

#include <algorithm>
#include <stdexcept>

namespace topoopt
{

namespace
{

constexpr unsigned kGroupBits =
    24; ///< of a stamp: number within the group, and a bit of a label: 1 for arrivals
constexpr std::uint64_t kGroups = std::uint64_t{1} << (63 - kGroupBits);
constexpr std::uint32_t kFirstRuns = 8; ///< runs; a power of two
constexpr std::uint64_t kRunsPerHeartbeat = 1U << 14;

} // namespace

FlexNetTrains::FlexNetTrains(FlexNetEngine& engine)
    : m_engine(engine),
      m_ports(engine.m_ports.size())
{
    m_delayLine = m_order.LineOf(engine.m_config.delay);
    for (std::size_t i = 0; i < m_ports.size(); ++i)
    {
        m_ports[i].dataTime = engine.m_ports[i].dataTime;
        m_ports[i].synTime = engine.m_ports[i].synTime;
        m_ports[i].foresees = engine.m_config.delay % m_ports[i].dataTime != 0;
        m_ports[i].perTime = 1.0 / static_cast<double>(m_ports[i].dataTime);
        m_ports[i].dataLine = m_order.LineOf(m_ports[i].dataTime);
        m_ports[i].synLine = m_order.LineOf(m_ports[i].synTime);
        m_ports[i].limit = engine.m_ports[i].limit;
        m_ports[i].markAbove = engine.m_ports[i].markAbove;
    }
    m_order.Reserve(engine.m_scanner + 1);
    m_current.inserted = -1;
    m_current.parentInserted = -1;
}

FlexNetTrains::~FlexNetTrains() = default;

bool
FlexNetTrains::Fit(const FlexNetEngine& engine)
{
    for (const FlexNetEngine::Port& port : engine.m_ports)
    {
        // Back-to-back packets must meet on the wire, so that arrivals insert each other.
        if (port.dataTime >= engine.m_config.delay)
        {
            return false;
        }
    }
    for (std::uint32_t i = 0; i < engine.m_graph.tasks.size(); ++i)
    {
        const FlexNetTask& task = engine.m_graph.tasks[i];
        // Such a message is sent at 0, even if its task's turn comes later: time runs backwards.
        if (engine.m_graph.IsFlow(task) && engine.m_tasks[i].waitsFor == 0)
        {
            return false;
        }
        // Other events must not look like a link's.
        const SimTime time = FlexNetEngine::TimeOf(task);
        for (const FlexNetEngine::Port& port : engine.m_ports)
        {
            if (time == port.dataTime && time != 0)
            {
                return false;
            }
        }
    }
    return true;
}

// ---- Order

std::uint64_t
FlexNetTrains::Label(bool longGap, std::uint64_t stamp)
{
    if (!longGap)
    {
        return std::uint64_t{1} << 63 | stamp;
    }
    // Younger chains first; those of one time by their order there.
    const std::uint64_t group = stamp >> kGroupBits;
    const std::uint64_t index = stamp & ((std::uint64_t{1} << kGroupBits) - 1);
    return (kGroups - 1 - group) << kGroupBits | index;
}

void
FlexNetTrains::BeginEvent(SimTime inserted)
{
    if (m_engine.m_now != m_groupTime)
    {
        m_groupTime = m_engine.m_now;
        ++m_group;
        m_indexInGroup = 0;
    }
    m_stamp = m_group << kGroupBits | m_indexInGroup++ << 1;
    m_word = m_stamp;
    m_isArrival = false;
    m_current.inserted = inserted;
}

FlexNetRank
FlexNetTrains::ChildOfNow()
{
    return {m_engine.m_now, m_current.inserted, m_word, m_children++};
}

/** Rank of what the arrival at @p time, the last one before, inserts after all else it does. */
FlexNetRank
FlexNetTrains::AfterArrival(const Port& port, SimTime time) const
{
    if (port.chain.time == time)
    {
        return {time, port.chain.inserted, port.chain.stamp, UINT64_MAX};
    }
    return {time, time - port.dataTime, port.chain.label | 1, UINT64_MAX};
}

void
FlexNetTrains::Schedule(std::uint32_t slot, SimTime time)
{
    m_order.Reserve(slot + 1);
    if (time == m_engine.m_now && m_groupTime >= 0)
    {
        m_immediate.push_back(slot);
        return;
    }
    m_order.Set(slot, time, ChildOfNow());
}

SimTime
FlexNetTrains::RunTo(SimTime horizon)
{
    FlexNetEngine& engine = m_engine;
    const auto links = static_cast<std::uint32_t>(m_ports.size());
    std::uint64_t untilHeartbeat = kRunsPerHeartbeat;
    while (!engine.m_over)
    {
        std::uint32_t slot = 0;
        const FlexNetOrder::Entry event = m_order.Top();
        if (!m_immediate.empty() && event.time > engine.m_now)
        {
            slot = m_immediate.front();
            m_immediate.pop_front();
            m_current = {engine.m_now, engine.m_now, 0, 0};
            BeginEvent(engine.m_now);
        }
        else
        {
            if (event.time > engine.m_config.stop)
            {
                engine.m_now = engine.m_config.stop;
                engine.m_over = true;
                break;
            }
            if (event.time >= horizon)
            {
                return event.time;
            }
            slot = event.slot;
            engine.m_now = event.time;
            m_current = m_order.Rank(slot);
            BeginEvent(m_current.inserted);
            m_order.Remove(slot);
        }
        ++engine.m_totals.events;
        if (slot < links)
        {
            Arrival(slot);
        }
        else if (slot < 2 * links)
        {
            QueueEvent(slot - links);
        }
        else
        {
            engine.RunPending(slot);
        }
        if (--untilHeartbeat == 0)
        {
            untilHeartbeat = kRunsPerHeartbeat;
            ServeAll();
            if (!engine.m_observer.Progress(engine.m_now, engine.Totals()))
            {
                engine.m_over = true;
            }
        }
    }
    SettleAll();
    return kNever;
}

// ---- Queues

void
FlexNetTrains::Grow(Port& port)
{
    const std::uint32_t count = port.tail - port.head;
    const std::uint32_t capacity = port.ring == nullptr ? kFirstRuns : 2 * (port.mask + 1);
    if (capacity == 0)
    {
        throw std::length_error("a queue of 2^31 packets");
    }
    auto ring = std::make_unique<Run[]>(capacity);
    for (std::uint32_t i = 0; i < count; ++i)
    {
        ring[i] = port.At(port.head + i);
    }
    port.ring = std::move(ring);
    port.mask = capacity - 1;
    port.served -= port.head; // not behind the head: Put() has served the queue up to now
    port.nextRun -= port.head;
    port.queueRun -= port.head;
    port.soleFrom -= port.head; // may be far behind
    port.tail = count;
    port.head = 0;
}

void
FlexNetTrains::ServeCount(Port& port, Run& run, std::uint32_t count)
{
    if (run.number == 0)
    {
        if (port.size > port.markAbove)
        {
            run.marks |= 1;
            ++port.counters.marks;
        }
        port.size -= 1;
        const SimTime end = run.first - m_engine.m_config.delay;
        const SimTime start = end - port.synTime;
        const bool first = start == port.busySince;
        port.syns.Add({end,
                       first ? port.busyInserted : start - port.servedTime,
                       first ? port.busyWord : port.queueLabel,
                       first || port.syns.Last().end <= port.busySince});
        port.servedTime = port.synTime;
        ++port.counters.syns;
        ++port.counters.packets;
    }
    else
    {
        if (port.size > port.markAbove)
        {
            // Each leaves a queue one packet shorter.
            const auto marked = static_cast<std::uint32_t>(
                std::min<Bytes>(count,
                                (port.size - port.markAbove + kFlexNetMss - 1) / kFlexNetMss));
            const std::uint64_t bits =
                marked == kMostInRun ? UINT64_MAX : (std::uint64_t{1} << marked) - 1;
            run.marks |= bits << port.transmitted;
            port.counters.marks += marked;
        }
        port.size -= Bytes{count} * kFlexNetMss;
        port.servedTime = port.dataTime;
        port.counters.packets += count;
    }
    port.transmitted += count;
    if (port.transmitted == run.count && port.served + 1 != port.tail)
    {
        ++port.served;
        port.transmitted = 0;
    }
}

/** Transmissions that ended before now; before @p joining bytes join now, if that matters. */
void
FlexNetTrains::Serve(Port& port, Bytes joining)
{
    const SimTime bound = m_engine.m_now + m_engine.m_config.delay; // by arrivals
    while (port.served != port.tail)
    {
        Run& run = port.At(port.served);
        if (port.transmitted == run.count)
        {
            return; // the last run; more may be appended to it
        }
        const SimTime next = run.first + static_cast<SimTime>(port.transmitted) * port.dataTime;
        if (next >= bound)
        {
            const auto crosses = [&port, joining](Bytes level) {
                return port.size <= level && port.size + joining > level;
            };
            if (next == bound && joining > 0 && (crosses(port.markAbove) || crosses(port.limit)) &&
                QueueFirst(port, run, port.transmitted))
            {
                ServeCount(port, run, 1);
            }
            return;
        }
        const SimTime last = run.first + static_cast<SimTime>(run.count - 1) * port.dataTime;
        const std::uint32_t count =
            last < bound ? run.count - port.transmitted : port.TimesIn(bound - 1 - next) + 1;
        ServeCount(port, run, count);
    }
}

/** Whether the transmission that ends now does so before the event that is being run. */
bool
FlexNetTrains::QueueFirst(const Port& port, const Run& run, std::uint32_t offset)
{
    const SimTime now = m_engine.m_now;
    const SimTime start = now - (run.number == 0 ? port.synTime : port.dataTime);
    if (start != m_current.inserted)
    {
        return start < m_current.inserted;
    }
    if (start == port.busySince)
    {
        // Inserted by the event that joined the idle queue.
        if (port.busyInserted != m_current.parentInserted)
        {
            return port.busyInserted < m_current.parentInserted;
        }
        return port.busyWord <= m_current.parentWord;
    }
    // Inserted by the end of the transmission before.
    const SimTime inserted = start - (offset > 0 ? port.dataTime : port.servedTime);
    if (inserted != m_current.parentInserted)
    {
        return inserted < m_current.parentInserted;
    }
    if (!m_isArrival)
    {
        ++m_engine.m_totals.guessedOrders;
        return true;
    }
    // Both parents belong to chains.
    const Port& from = m_ports[m_arrivalLink];
    for (std::uint32_t back = 0; port.syns.Last(back).end > port.busySince; ++back)
    {
        // The queue's chain begins after a short gap, that of a SYN: it comes after all older ones.
        const Syn& syn = port.syns.Last(back);
        const Chain& chain = from.chains.Last(back + m_chainsSince);
        if (syn.end != chain.time)
        {
            return syn.end < chain.time && chain.label >> 63 != 0;
        }
        if (chain.inserted != syn.end - port.synTime)
        {
            return syn.end - port.synTime < chain.inserted;
        }
        if (syn.parentInserted != chain.parentInserted)
        {
            return syn.parentInserted < chain.parentInserted;
        }
        if (syn.parentKnown)
        {
            return syn.parentWord <= chain.parentWord;
        }
        // What inserted the two belongs to the chains before.
        if (back + 2 == Recent<Syn>::kCount)
        {
            ++m_engine.m_totals.guessedOrders;
            return true;
        }
    }
    return port.queueLabel <= m_current.parentWord;
}

void
FlexNetTrains::Put(std::uint32_t link,
                   Flow& flow,
                   const std::uint32_t* next,
                   std::uint32_t number,
                   std::uint32_t count,
                   SimTime sent,
                   std::uint64_t marks)
{
    Port& port = m_ports[link];
    const SimTime now = m_engine.m_now;
    const bool syn = number == 0;
    const Bytes bytes = syn ? 1 : Bytes{count} * kFlexNetMss;
    if (port.ahead >= now && !port.running)
    {
        // An arrival at this very moment comes first if it was inserted first.
        FallBack(link, now, true);
    }
    Serve(port, bytes);
    if (port.size + bytes > port.limit)
    {
        // Only single packets get here: a server's own queue has no limit.
        ++port.counters.drops;
        for (const std::uint32_t* hop = next - 1; *hop != kNoId; ++hop)
        {
            m_engine.m_droppedWireHops += bytes;
        }
        Disturb(flow);
        --flow.inFlight;
        m_engine.FreeIfOver(flow);
        return;
    }
    port.size += bytes;
    const SimTime time = syn ? port.synTime : port.dataTime;
    const SimTime delay = m_engine.m_config.delay;
    bool idle = port.free < now;
    if (port.free == now)
    {
        // The last transmission ends now: before this, or after?
        const Run* const run = port.served != port.tail ? &port.At(port.served) : nullptr;
        idle = run == nullptr || port.transmitted == run->count;
        if (!idle && QueueFirst(port, *run, port.transmitted))
        {
            ServeCount(port, port.At(port.served), 1);
            idle = true;
        }
    }
    if (idle)
    {
        port.busySince = now;
        port.busyInserted = m_current.inserted;
        port.busyWord = m_word;
        const SimTime gap = now - m_current.inserted;
        port.queueLabel = gap == port.dataTime ? m_word : Label(gap > port.dataTime, m_stamp);
    }
    port.free = std::max(port.free, now);
    // An arrival is inserted by the one before if that is still to come when the transmission ends.
    const bool byQueue = idle && port.last <= now + time;
    Run* const tail = port.tail != port.head ? &port.At(port.tail - 1) : nullptr;
    const bool append = tail != nullptr && !idle && !syn && tail->flow == &flow &&
                        tail->number != 0 && tail->number + tail->count == number &&
                        tail->next == next && tail->count + count <= kMostInRun &&
                        (count == 1 && tail->count == 1 ? sent >= tail->sent
                                                        : sent == tail->SentAt(tail->count) &&
                                                              (count == 1 || tail->step == 0));
    const bool pending = port.waits || port.running || m_order.Has(link);
    if (append)
    {
        tail->marks |= marks << tail->count;
        tail->step = tail->count == 1 ? (sent - tail->sent) : tail->step;
        const std::uint32_t first = tail->count;
        tail->count = static_cast<std::uint16_t>(tail->count + count);
        tail->quiet = flow.quiet;
        tail->ends = number + count - 1 == flow.lastNumber;
        port.free += static_cast<SimTime>(count) * time;
        port.last = port.free + delay;
        if (!pending)
        {
            if (!flow.quiet || *next != kNoId)
            {
                ScheduleArrival(link, port.tail - 1, first);
            }
            else if (tail->ends)
            {
                ScheduleArrival(link, port.tail - 1, tail->count - 1U);
            }
        }
        return;
    }
    if (port.soleFlow != &flow)
    {
        port.soleFlow = &flow;
        port.soleFrom = port.tail;
    }
    const std::uint32_t firstRun = port.tail - port.head;
    while (count > 0)
    {
        if (port.ring == nullptr || port.tail - port.head > port.mask)
        {
            Grow(port);
        }
        const std::uint32_t part = std::min(count, kMostInRun);
        Run& run = port.At(port.tail);
        run.flow = &flow;
        run.next = next;
        run.sent = sent;
        run.step = 0;
        run.before = port.last;
        run.first = port.free + time + delay;
        run.marks = marks;
        run.number = number;
        run.count = static_cast<std::uint16_t>(part);
        run.acknowledged = 0;
        run.quiet = flow.quiet;
        run.ends = number + part - 1 == flow.lastNumber;
        run.byQueue = false;
        if (port.served + 1 == port.tail && port.served != port.tail &&
            port.transmitted == port.At(port.served).count)
        {
            port.served = port.tail;
            port.transmitted = 0;
        }
        ++port.tail;
        port.free += static_cast<SimTime>(part) * time;
        port.last = port.free + delay;
        number += part;
        count -= part;
    }
    if (byQueue)
    {
        port.At(port.head + firstRun).byQueue = true;
        port.queueRun = port.head + firstRun;
        m_order.SetInLine(syn ? port.synLine : port.dataLine,
                          static_cast<std::uint32_t>(m_ports.size()) + link,
                          now + time,
                          ChildOfNow());
    }
    if (!pending)
    {
        port.nextRun = port.head + firstRun;
        port.nextOffset = 0;
        FindNext(link);
    }
}

// ---- Arrivals

/** The pending event of a link is the arrival of packet @p offset of run @p run. */
void
FlexNetTrains::ScheduleArrival(std::uint32_t link, std::uint32_t index, std::uint32_t offset)
{
    Port& port = m_ports[link];
    const Run& run = port.At(index);
    port.nextRun = index;
    port.nextOffset = offset;
    port.waits = false;
    const SimTime time = run.first + static_cast<SimTime>(offset) * port.dataTime;
    const SimTime before = offset > 0 ? time - port.dataTime : run.before;
    // It has waited in the queue and is out of the caches; it will be needed soon.
    constexpr std::size_t line = 64;
    const char* const flow = reinterpret_cast<const char*>(run.flow);
    for (std::size_t at = 0; at < sizeof(Flow); at += line)
    {
        __builtin_prefetch(flow + at, 1, 2);
    }
    if (m_follows && before == m_engine.m_now && time - before == port.dataTime)
    {
        m_order.SetInLine(port.dataLine, link, time, AfterArrival(port, before));
        return;
    }
    m_order.Set(link, time, AfterArrival(port, before));
}

/** Looks for the next arrival that does something, from nextRun and nextOffset on. */
void
FlexNetTrains::FindNext(std::uint32_t link)
{
    Port& port = m_ports[link];
    std::uint32_t offset = port.nextOffset;
    for (std::uint32_t index = port.nextRun; index != port.tail; ++index, offset = 0)
    {
        const Run& run = port.At(index);
        if (offset == run.count)
        {
            continue;
        }
        if (offset == 0)
        {
            if (run.byQueue)
            {
                port.nextRun = index;
                port.nextOffset = 0;
                port.waits = true;
                return;
            }
            if (run.first - run.before != port.dataTime)
            {
                ScheduleArrival(link, index, 0);
                return;
            }
        }
        if (*run.next != kNoId || !(run.quiet || run.flow->quiet))
        {
            ScheduleArrival(link, index, offset);
            return;
        }
        if (run.ends)
        {
            ScheduleArrival(link, index, run.count - 1U);
            return;
        }
    }
    port.nextRun = port.tail;
    port.nextOffset = 0;
}

/** The end of a transmission after which the wire may be empty. */
void
FlexNetTrains::QueueEvent(std::uint32_t link)
{
    Port& port = m_ports[link];
    Run& run = port.At(port.queueRun);
    const SimTime now = m_engine.m_now;
    if (run.number != 0)
    {
        m_word = port.queueLabel;
    }
    if (run.before == now)
    {
        // The arrival before is simultaneous: has it been?
        if (m_order.Has(link))
        {
            run.byQueue = false;
            return;
        }
        if (port.chain.time != now && m_current < AfterArrival(port, now - port.dataTime))
        {
            run.byQueue = false;
            if (port.waits)
            {
                ScheduleArrival(link, port.queueRun, 0);
            }
            return;
        }
    }
    // Nothing else is left on the wire, so this is the next arrival.
    run.byQueue = false;
    port.nextRun = port.queueRun;
    port.nextOffset = 0;
    port.waits = false;
    m_order.SetInLine(m_delayLine, link, run.first, ChildOfNow());
}

/** Lets the sender know of packets acknowledged .. @p upTo - 1 of a run. Nothing comes of it but numbers. */
void
FlexNetTrains::Acknowledge(Run& run, std::uint32_t upTo)
{
    if (run.acknowledged >= upTo)
    {
        return;
    }
    Flow& flow = *run.flow;
    const SimTime now = m_engine.m_now;
    const SimTime time = m_ports[flow.path->links[flow.path->Hops() - 1]].dataTime;
    for (std::uint32_t i = run.acknowledged; i < upTo; ++i)
    {
        m_engine.m_now = run.first + static_cast<SimTime>(i) * time;
        flow.received = (run.number + std::uint64_t{i}) * kFlexNetMss + 1;
        --flow.inFlight;
        m_engine.Acknowledge(flow, flow.received, (run.marks >> i & 1) != 0, run.SentAt(i));
    }
    run.acknowledged = static_cast<std::uint16_t>(upTo);
    m_engine.m_now = now;
}

inline FlexNetTrains::Packet
FlexNetTrains::PacketOf(const Run& run, std::uint32_t offset)
{
    Packet packet;
    packet.flow = run.flow;
    packet.next = run.next;
    packet.sent = run.SentAt(offset);
    packet.number = run.number + offset;
    packet.marked = (run.marks >> offset & 1) != 0;
    return packet;
}

inline void
FlexNetTrains::PassOver(Port& port, Run& run, std::uint32_t offset)
{
    run.acknowledged = static_cast<std::uint16_t>(offset + 1);
    port.arrived = offset + 1;
    if (port.arrived == run.count && port.head + 1 != port.tail)
    {
        ++port.head;
        port.arrived = 0;
    }
}

void
FlexNetTrains::Arrival(std::uint32_t link)
{
    Port& port = m_ports[link];
    const SimTime now = m_engine.m_now;
    Flow& flow = *port.At(port.nextRun).flow;
    const bool atEnd = *port.At(port.nextRun).next == kNoId;
    const bool ends =
        atEnd && flow.quiet && port.At(port.nextRun).number + port.nextOffset == flow.lastNumber;
    if (!ends || port.head != port.nextRun)
    {
        Serve(port, 0); // the marks of what arrives; nobody asks for those of a flow that is over
    }
    // What has arrived before without being an event.
    for (; port.head != port.nextRun; ++port.head)
    {
        Run& run = port.At(port.head);
        Acknowledge(run, run.count);
        port.arrived = 0;
    }
    Run& run = port.At(port.head);
    const std::uint32_t offset = port.nextOffset;
    const SimTime before = offset > 0 ? now - port.dataTime : run.before;
    m_isArrival = true;
    m_arrivalLink = link;
    m_chainsSince = 0;
    if (now - before == port.dataTime)
    {
        m_word = port.chain.label | 1;
    }
    else
    {
        port.chain.time = now;
        port.chain.inserted = m_current.inserted;
        port.chain.stamp = m_stamp;
        port.chain.label = Label(now - before > port.dataTime, m_stamp);
        port.chain.parentInserted = m_current.parentInserted;
        port.chain.parentWord = m_current.parentWord;
        port.chains.Add(port.chain);
        m_chainsSince = 1;
    }
    const Packet packet = PacketOf(run, offset);
    if (atEnd && !ends)
    {
        Acknowledge(run, offset);
    }
    PassOver(port, run, offset);
    port.running = true;
    if (!atEnd)
    {
        Put(*packet.next,
            flow,
            packet.next + 1,
            packet.number,
            1,
            packet.sent,
            packet.marked ? 1 : 0);
    }
    else if (ends)
    {
        flow.inFlight = 0;
        m_engine.FinishFlow(flow);
        m_engine.FreeIfOver(flow);
    }
    else
    {
        m_engine.Deliver(packet);
    }
    port.running = false;
    if (atEnd && !ends)
    {
        LookAhead(link, flow);
    }
    port.nextRun = port.head;
    port.nextOffset = port.arrived;
    m_follows = true;
    FindNext(link);
    m_follows = false;
}

// ---- Flows that have a link for themselves

/** Whether the next arrival concerns only this flow and is before @p bound. */
bool
FlexNetTrains::RunsByItself(const Port& port, const Flow& flow, SimTime bound) const
{
    if (flow.quiet || port.head == port.tail)
    {
        return false;
    }
    const Run& run = port.At(port.head);
    if (port.arrived == run.count ||
        (port.arrived == 0 && (run.byQueue || run.first - run.before != port.dataTime)))
    {
        return false;
    }
    const SimTime time = run.first + static_cast<SimTime>(port.arrived) * port.dataTime;
    return time < bound && time < port.free; // what it sends finds the queue busy
}

/** Runs arrivals of a flow before @p bound that concern only itself. */
void
FlexNetTrains::RunAlone(std::uint32_t link, Flow& flow, SimTime bound)
{
    Port& port = m_ports[link];
    const SimTime now = m_engine.m_now;
    port.running = true;
    while (RunsByItself(port, flow, bound))
    {
        Run& run = port.At(port.head);
        const std::uint32_t offset = port.arrived;
        m_engine.m_now = run.first + static_cast<SimTime>(offset) * port.dataTime;
        port.ahead = m_engine.m_now;
        Serve(port, 0);
        const Packet packet = PacketOf(run, offset);
        PassOver(port, run, offset);
        m_engine.Deliver(packet);
    }
    port.running = false;
    m_engine.m_now = now;
}

/** After an arrival of @p flow: runs it ahead of time if it has the link for itself. */
void
FlexNetTrains::LookAhead(std::uint32_t link, Flow& flow)
{
    Port& port = m_ports[link];
    if (!port.foresees || !flow.clean || flow.done || flow.path->Hops() != 1 ||
        port.soleFlow != &flow || port.waits ||
        static_cast<std::int32_t>(port.head - port.soleFrom) < 0 ||
        !RunsByItself(port, flow, kNever))
    {
        return;
    }
    if (port.before == nullptr)
    {
        port.before = std::make_unique<Ahead>();
    }
    port.before->flow = &flow;
    port.before->flowState = flow;
    port.before->portState = port;
    port.before->runs.clear();
    for (std::uint32_t run = port.head; run != port.tail; ++run)
    {
        port.before->runs.push_back(port.At(run));
    }
    RunAlone(link, flow, kNever);
}

/** Goes back to before running ahead, and from there to the arrivals before @p bound; with @p ties, also to
 * one at @p bound if it comes before the event that is being run. */
void
FlexNetTrains::FallBack(std::uint32_t link, SimTime bound, bool ties)
{
    Port& port = m_ports[link];
    const Ahead& before = *port.before;
    Flow& flow = *before.flow;
    m_order.Remove(link);
    static_cast<FlowState&>(flow) = before.flowState;
    static_cast<PortState&>(port) = before.portState;
    for (std::uint32_t i = 0; i < before.runs.size(); ++i)
    {
        port.At(port.head + i) = before.runs[i];
    }
    RunAlone(link, flow, bound);
    if (ties && RunsByItself(port, flow, bound + 1))
    {
        const Run& run = port.At(port.head);
        const SimTime last = port.arrived > 0 ? bound - port.dataTime : run.before;
        if (AfterArrival(port, last) < m_current)
        {
            RunAlone(link, flow, bound + 1);
        }
    }
    port.ahead = kNoArrival;
    Restart(link);
}

void
FlexNetTrains::Restart(std::uint32_t link)
{
    Port& port = m_ports[link];
    port.waits = false;
    port.nextRun = port.head;
    port.nextOffset = port.arrived;
    FindNext(link);
}

void
FlexNetTrains::FallBackAll()
{
    for (std::uint32_t link = 0; link < m_ports.size(); ++link)
    {
        if (m_ports[link].ahead >= m_engine.m_now)
        {
            FallBack(link, m_engine.m_now, true);
        }
    }
}

/** Passes over arrivals before now that were no events. */
void
FlexNetTrains::Skip(std::uint32_t link)
{
    Port& port = m_ports[link];
    const bool stops = port.waits || m_order.Has(link);
    while (port.head != port.tail)
    {
        Run& run = port.At(port.head);
        while (port.arrived < run.count &&
               run.first + static_cast<SimTime>(port.arrived) * port.dataTime < m_engine.m_now &&
               !(stops && port.head == port.nextRun && port.arrived == port.nextOffset))
        {
            ++port.arrived;
        }
        if (*run.next == kNoId)
        {
            Acknowledge(run, port.arrived);
        }
        if (port.arrived < run.count || port.head + 1 == port.tail)
        {
            return;
        }
        ++port.head;
        port.arrived = 0;
    }
}

void
FlexNetTrains::Settle(Flow& flow)
{
    if (flow.quiet)
    {
        const std::uint32_t link = flow.path->links[flow.path->Hops() - 1];
        Serve(m_ports[link], 0);
        Skip(link);
    }
}

void
FlexNetTrains::Disturb(Flow& flow)
{
    flow.clean = false;
    if (!flow.quiet)
    {
        return;
    }
    const std::uint32_t link = flow.path->links[flow.path->Hops() - 1];
    Port& port = m_ports[link];
    Settle(flow);
    flow.quiet = false;
    for (std::uint32_t run = port.head; run != port.tail; ++run)
    {
        port.At(run).quiet = port.At(run).quiet && port.At(run).flow != &flow;
    }
    if (!port.running)
    {
        m_order.Remove(link);
        Restart(link);
    }
}

void
FlexNetTrains::SettleAll()
{
    // What was due now and not run has been left alone by whoever stopped the run, or by the last task.
    for (std::uint32_t link = 0; link < m_ports.size(); ++link)
    {
        if (m_ports[link].ahead > m_engine.m_now)
        {
            FallBack(link, m_engine.m_now + 1, false);
        }
        if (m_ports[link].ring != nullptr)
        {
            ++m_engine.m_now;
            Serve(m_ports[link], 0);
            Skip(link);
            --m_engine.m_now;
        }
    }
    CopyCounters();
}

void
FlexNetTrains::ServeAll()
{
    for (Port& port : m_ports)
    {
        Serve(port, 0);
    }
    CopyCounters();
}

void
FlexNetTrains::CopyCounters() const
{
    for (std::size_t i = 0; i < m_ports.size(); ++i)
    {
        m_engine.m_ports[i].counters = m_ports[i].counters;
    }
    for (const StandIn& other : m_standIns)
    {
        PortCounters& counters = m_engine.m_ports[other.link].counters;
        const PortCounters& now = m_ports[other.first].counters;
        counters.packets += now.packets - other.before.packets;
        counters.syns += now.syns - other.before.syns;
        counters.marks += now.marks - other.before.marks;
        counters.drops += now.drops - other.before.drops;
    }
}

Bytes
FlexNetTrains::Owed() const
{
    Bytes owed = 0;
    for (const Port& port : m_ports)
    {
        for (std::uint32_t index = port.head; index != port.tail; ++index)
        {
            const Run& run = port.At(index);
            const Bytes bytes = run.number == 0 ? 1 : kFlexNetMss;
            std::uint64_t hops = 0;
            for (const std::uint32_t* next = run.next; *next != kNoId; ++next)
            {
                ++hops;
            }
            const std::uint32_t arrived = index == port.head ? port.arrived : 0;
            std::uint32_t queued = run.count;
            if (index - port.head < port.served - port.head)
            {
                queued = 0;
            }
            else if (index == port.served)
            {
                queued = run.count - port.transmitted;
            }
            owed += port.width * bytes * (hops * (run.count - arrived) + queued);
        }
    }
    return owed;
}

} // namespace topoopt
