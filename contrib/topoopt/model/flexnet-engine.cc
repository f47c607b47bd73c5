// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/flexnet-engine.h"

#include "ns3/flexnet-flow.h"
#include "ns3/flexnet-trains.h"
#include "topoopt/core/error.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace topoopt
{

namespace
{

constexpr std::uint32_t kFirstPackets = 8; ///< packets; a power of two
constexpr std::uint32_t kFlowsPerBlock = 256;
constexpr std::uint64_t kFirstWindow = 100;
constexpr std::uint64_t kLeastTimeout = 10 * static_cast<std::uint64_t>(kMillisecond);
constexpr SimTime kScanPeriod = kMillisecond;
constexpr std::uint64_t kEventsPerHeartbeat = 1U << 16;

} // namespace

FlexNetEngine::FlexNetEngine(const FlexNetGraph& graph,
                             const FlexNetConfig& config,
                             FlexNetObserver& observer)
    : m_graph(graph),
      m_config(config),
      m_observer(observer),
      m_paths(graph, config),
      m_events(static_cast<std::uint32_t>(2 * m_paths.Links().size()))
{
    if (config.delay <= 0)
    {
        throw SpecError(graph.file,
                        "found a delay of " + FormatTime(config.delay) +
                            " per link, expected more than 0");
    }
    if (config.queuePackets == 0 || config.queuePackets > UINT32_MAX)
    {
        throw SpecError(graph.file,
                        "found queues of " + std::to_string(config.queuePackets) +
                            " packets, expected 1..2^32-1");
    }
    if (config.slowStartPackets == 0 || config.slowStartPackets > UINT32_MAX / kFlexNetMss)
    {
        throw SpecError(graph.file,
                        "found a slow-start threshold of " +
                            std::to_string(config.slowStartPackets) + " packets, expected 1.." +
                            std::to_string(UINT32_MAX / kFlexNetMss));
    }
    BuildPorts();
    PrepareTasks();
    if (config.trains && FlexNetTrains::Fit(*this))
    {
        m_trains = std::make_unique<FlexNetTrains>(*this);
    }
    ScheduleIndex(m_scanner, kScanPeriod);
    StartTasks();
    if (m_trains != nullptr)
    {
        m_lockstep = FlexNetLockstep::Of(graph, config, m_paths);
        TryLockstep();
    }
}

FlexNetEngine::~FlexNetEngine() = default;

void
FlexNetEngine::BuildPorts()
{
    m_delayLine = m_events.LineOf(m_config.delay);
    m_ports.resize(m_paths.Links().size());
    for (std::size_t i = 0; i < m_ports.size(); ++i)
    {
        const FlexNetLink& link = m_paths.Links()[i];
        Port& port = m_ports[i];
        port.synTime = link.psPerByte;
        port.dataTime = link.psPerByte * kFlexNetMss;
        port.dataLine = m_events.LineOf(port.dataTime);
        port.synLine = m_events.LineOf(port.synTime);
        port.markAbove = link.serverQueue ? UINT64_MAX : kFlexNetMarkAbove;
        port.limit = link.serverQueue || m_config.fabric == FlexNetFabricKind::FromFile
                         ? UINT64_MAX / 2
                         : m_config.queuePackets * kFlexNetMss;
    }
    m_scanner = static_cast<std::uint32_t>(2 * m_ports.size());
}

// ---- Events

SimTime
FlexNetEngine::RunTo(SimTime horizon)
{
    const SimTime next = RunEvents(horizon);
    TellFinished();
    return next;
}

SimTime
FlexNetEngine::RunEvents(SimTime horizon)
{
    if (m_trains != nullptr)
    {
        return m_trains->RunTo(horizon);
    }
    const auto links = static_cast<std::uint32_t>(m_ports.size());
    std::uint64_t untilHeartbeat = kEventsPerHeartbeat;
    while (!m_over)
    {
        const unsigned line = m_events.Next();
        const FlexNetEvents::Entry event = m_events.Head(line);
        if (event.time > m_config.stop)
        {
            m_now = m_config.stop;
            m_over = true;
            break;
        }
        if (event.time >= horizon)
        {
            return event.time;
        }
        m_events.Pop(line);
        m_now = event.time;
        ++m_totals.events;
        const std::uint32_t index = FlexNetEvents::IndexOf(event);
        if (index < links)
        {
            EndOfTransmission(index);
        }
        else if (index < 2 * links)
        {
            Arrival(index - links);
        }
        else
        {
            RunPending(index);
        }
        if (--untilHeartbeat == 0)
        {
            untilHeartbeat = kEventsPerHeartbeat;
            if (!m_observer.Progress(m_now, Totals()))
            {
                m_over = true;
            }
        }
    }
    return kNever;
}

void
FlexNetEngine::RunPending(std::uint32_t index)
{
    if (index == m_scanner)
    {
        Scan();
        return;
    }
    const std::uint32_t slot = index - m_scanner - 1;
    const Pending pending = m_pending[slot];
    m_pending[slot].nextFree = m_freePending;
    m_freePending = slot;
    --m_pendingCount;
    if (pending.flow != nullptr)
    {
        --m_pendingFlows;
        FlowEvent(*pending.flow);
    }
    else
    {
        TaskEvent(pending.task);
    }
}

void
FlexNetEngine::ScheduleIndex(std::uint32_t index, SimTime time)
{
    if (m_trains != nullptr)
    {
        m_trains->Schedule(index, time);
    }
    else
    {
        m_events.Push(FlexNetEvents::kHeap, time, index);
    }
}

void
FlexNetEngine::SchedulePending(Flow* flow, std::uint32_t task, SimTime time)
{
    std::uint32_t slot = m_freePending;
    if (slot != kNoId)
    {
        m_freePending = m_pending[slot].nextFree;
    }
    else
    {
        slot = static_cast<std::uint32_t>(m_pending.size());
        if (slot >= FlexNetEvents::kMaxIndex - m_scanner)
        {
            throw SpecError(m_graph.file,
                            "found more than " + std::to_string(slot) +
                                " tasks and flows that wait for their time at once");
        }
        m_pending.emplace_back();
    }
    m_pending[slot].flow = flow;
    m_pending[slot].task = task;
    ++m_pendingCount;
    m_pendingFlows += flow != nullptr ? 1 : 0;
    ScheduleIndex(m_scanner + 1 + slot, time);
}

void
FlexNetEngine::ScheduleFlow(Flow& flow, SimTime time)
{
    SchedulePending(&flow, 0, time);
}

void
FlexNetEngine::ScheduleTask(std::uint32_t task, SimTime time)
{
    SchedulePending(nullptr, task, time);
}

// ---- Links

void
FlexNetEngine::Grow(Port& port)
{
    const std::uint32_t count = port.tail - port.head;
    const std::uint32_t capacity = port.ring == nullptr ? kFirstPackets : 2 * (port.mask + 1);
    if (capacity == 0)
    {
        throw std::length_error("a queue of 2^31 packets");
    }
    auto ring = std::make_unique<Packet[]>(capacity);
    for (std::uint32_t i = 0; i < count; ++i)
    {
        ring[i] = port.ring[(port.head + i) & port.mask];
    }
    port.ring = std::move(ring);
    port.mask = capacity - 1;
    port.queued -= port.head;
    port.tail = count;
    port.head = 0;
}

inline void
FlexNetEngine::Put(std::uint32_t link, const Packet& packet)
{
    Port& port = m_ports[link];
    const bool syn = packet.number == 0;
    const Bytes bytes = syn ? 1 : kFlexNetMss;
    if (port.size + bytes > port.limit)
    {
        ++port.counters.drops;
        for (const std::uint32_t* next = packet.next - 1; *next != kNoId; ++next)
        {
            m_droppedWireHops += bytes;
        }
        --packet.flow->inFlight;
        FreeIfOver(*packet.flow);
        return;
    }
    if (port.ring == nullptr || port.tail - port.head > port.mask)
    {
        Grow(port);
    }
    const bool idle = port.tail == port.queued;
    port.ring[port.tail & port.mask] = packet;
    ++port.tail;
    port.size += bytes;
    if (idle)
    {
        m_events.Push(syn ? port.synLine : port.dataLine,
                      m_now + (syn ? port.synTime : port.dataTime),
                      link);
    }
}

inline void
FlexNetEngine::EndOfTransmission(std::uint32_t link)
{
    Port& port = m_ports[link];
    Packet& packet = port.ring[port.queued & port.mask];
    if (port.size > port.markAbove) // with this packet
    {
        packet.marked = true;
        ++port.counters.marks;
    }
    ++port.counters.packets;
    if (packet.number == 0)
    {
        port.size -= 1;
        ++port.counters.syns;
    }
    else
    {
        port.size -= kFlexNetMss;
    }
    packet.due = m_now + m_config.delay;
    // The arrival is inserted before the next transmission, as in the reference.
    if (port.head == port.queued)
    {
        m_events.Push(m_delayLine, packet.due, static_cast<std::uint32_t>(m_ports.size()) + link);
    }
    ++port.queued;
    if (port.queued != port.tail)
    {
        const bool syn = port.ring[port.queued & port.mask].number == 0;
        m_events.Push(syn ? port.synLine : port.dataLine,
                      m_now + (syn ? port.synTime : port.dataTime),
                      link);
    }
}

inline void
FlexNetEngine::Arrival(std::uint32_t link)
{
    Port& port = m_ports[link];
    Packet packet = port.ring[port.head & port.mask];
    ++port.head;
    const std::uint32_t next = *packet.next;
    if (next != kNoId)
    {
        ++packet.next;
        Put(next, packet);
    }
    else
    {
        Deliver(packet);
    }
    // Only the first packet on a wire has its event pending; the next one's is inserted after all that
    // this arrival has led to.
    if (port.head != port.queued)
    {
        const SimTime due = port.ring[port.head & port.mask].due;
        m_events.Push(due - m_now == port.dataTime ? port.dataLine : FlexNetEvents::kHeap,
                      due,
                      static_cast<std::uint32_t>(m_ports.size()) + link);
    }
}

// ---- Transport

FlexNetEngine::Flow*
FlexNetEngine::StartFlow(std::uint64_t id,
                         NodeId src,
                         NodeId dst,
                         Bytes bytes,
                         const FlexNetPathLinks* path,
                         SimTime start,
                         SimTime timeout,
                         std::uint32_t task,
                         std::uint32_t ring,
                         std::uint32_t round,
                         const FlexNetLockstep::Block* block)
{
    if (bytes / kFlexNetMss >= UINT32_MAX - 1)
    {
        throw SpecError(m_graph.file,
                        NameOf(task) + ": found a flow of " + std::to_string(bytes) +
                            " bytes, expected fewer than 2^32 packets");
    }
    if (m_freeFlows == nullptr)
    {
        m_flowBlocks.push_back(std::make_unique<Flow[]>(kFlowsPerBlock));
        for (std::uint32_t i = kFlowsPerBlock; i-- > 0;)
        {
            m_flowBlocks.back()[i].after = m_freeFlows;
            m_freeFlows = &m_flowBlocks.back()[i];
        }
    }
    Flow& flow = *m_freeFlows;
    m_freeFlows = flow.after;
    flow = Flow();
    flow.id = id;
    flow.block = block;
    m_totals.flows += flow.Width();
    m_totals.sharedFlows += flow.Width() - 1;
    flow.src = src;
    flow.dst = dst;
    flow.asked = bytes;
    flow.size = std::max<Bytes>(bytes, kFlexNetMss);
    flow.lastNumber = static_cast<std::uint32_t>((flow.size - 1 + kFlexNetMss - 1) / kFlexNetMss);
    flow.path = path;
    flow.start = start;
    flow.slowStart = m_config.slowStartPackets * kFlexNetMss;
    flow.timeout = static_cast<std::uint64_t>(timeout);
    flow.task = task;
    flow.ring = ring;
    flow.round = round;
    m_totals.askedBytes += flow.Width() * bytes;
    flow.before = m_lastFlow;
    (m_lastFlow != nullptr ? m_lastFlow->after : m_firstFlow) = &flow;
    m_lastFlow = &flow;
    ++m_unfinishedFlows;
    ScheduleFlow(flow, start);
    return &flow;
}

void
FlexNetEngine::FlowEvent(Flow& flow)
{
    if (!flow.timedOut)
    {
        flow.cwnd = kFirstWindow * kFlexNetMss;
        flow.established = false;
        Send(flow);
        return;
    }
    flow.timedOut = false;
    if (flow.recovering)
    {
        const auto flight = static_cast<std::uint32_t>(flow.highestSent - flow.lastAcked);
        flow.cwnd = std::min(flow.slowStart, flight + kFlexNetMss);
    }
    flow.seen = 0;
    flow.marked = 0;
    flow.slowStart = std::max(flow.cwnd / 2, 2 * kFlexNetMss);
    flow.window = flow.cwnd;
    flow.cwnd = kFlexNetMss;
    flow.recovering = false;
    flow.recoverUpTo = flow.highestSent;
    if (flow.established)
    {
        flow.highestSent = flow.lastAcked + kFlexNetMss;
    }
    flow.duplicates = 0;
    Retransmit(flow);
    FreeIfOver(flow);
}

/** Hands packets to the first queue of the flow's path. */
inline void
FlexNetEngine::PutFirst(Flow& flow, std::uint32_t number, std::uint32_t count)
{
    flow.inFlight += count;
    flow.wireBytes += number == 0 ? 1 : std::uint64_t{count} * kFlexNetMss;
    const std::uint32_t* const links = flow.path->links.data();
    if (m_trains != nullptr)
    {
        m_trains->Put(links[0], flow, links + 1, number, count, m_now, 0);
        return;
    }
    Packet packet;
    packet.flow = &flow;
    packet.next = links + 1;
    packet.sent = m_now;
    for (std::uint32_t i = 0; i < count; ++i)
    {
        packet.number = number + i;
        Put(links[0], packet);
    }
}

inline void
FlexNetEngine::Send(Flow& flow)
{
    if (!flow.established)
    {
        flow.highestSent = 1;
        PutFirst(flow, 0, 1);
        if (flow.deadline == 0)
        {
            flow.deadline = static_cast<std::uint64_t>(m_now) + flow.timeout;
        }
        return;
    }
    const std::uint64_t upTo = flow.lastAcked + flow.cwnd;
    if (upTo < flow.highestSent + kFlexNetMss || flow.highestSent >= flow.size)
    {
        return;
    }
    const auto count = static_cast<std::uint32_t>(
        std::min((upTo - flow.highestSent) / kFlexNetMss,
                 (flow.size - flow.highestSent + kFlexNetMss - 1) / kFlexNetMss));
    const auto number = static_cast<std::uint32_t>((flow.highestSent - 1) / kFlexNetMss + 1);
    flow.highestSent += std::uint64_t{count} * kFlexNetMss;
    if (flow.everSent < flow.highestSent)
    {
        const std::uint64_t fresh = (flow.highestSent - flow.everSent) / kFlexNetMss;
        flow.retransmits += count - std::min<std::uint64_t>(count, fresh);
        flow.everSent = flow.highestSent;
    }
    else
    {
        flow.retransmits += count;
    }
    flow.quiet = flow.clean && flow.highestSent >= flow.size;
    PutFirst(flow, number, count);
    if (flow.deadline == 0)
    {
        flow.deadline = static_cast<std::uint64_t>(m_now) + flow.timeout;
    }
}

void
FlexNetEngine::Retransmit(Flow& flow)
{
    ++flow.retransmits;
    if (!flow.established)
    {
        PutFirst(flow, 0, 1);
        return;
    }
    PutFirst(flow, static_cast<std::uint32_t>((flow.lastAcked - 1) / kFlexNetMss + 1), 1);
    if (flow.deadline == 0)
    {
        flow.deadline = static_cast<std::uint64_t>(m_now) + flow.timeout;
    }
}

void
FlexNetEngine::Deliver(const Packet& packet)
{
    Flow& flow = *packet.flow;
    const std::uint64_t first =
        packet.number == 0 ? 1 : (packet.number - std::uint64_t{1}) * kFlexNetMss + 2;
    if (first == flow.received + 1)
    {
        flow.received += packet.number == 0 ? 1 : kFlexNetMss;
        if (flow.early != nullptr)
        {
            std::size_t fits = 0;
            while (fits < flow.early->size() && (*flow.early)[fits] == flow.received + 1)
            {
                flow.received += kFlexNetMss;
                ++fits;
            }
            flow.early->erase(flow.early->begin(),
                              flow.early->begin() + static_cast<std::ptrdiff_t>(fits));
        }
    }
    else if (first > flow.received + 1)
    {
        if (flow.early == nullptr)
        {
            flow.early = std::make_unique<std::vector<std::uint64_t>>();
        }
        const auto at = std::lower_bound(flow.early->begin(), flow.early->end(), first);
        if (at == flow.early->end() || *at != first)
        {
            flow.early->insert(at, first);
        }
    }
    Acknowledge(flow, flow.received, packet.marked, packet.sent);
    --flow.inFlight;
    FreeIfOver(flow);
}

void
FlexNetEngine::Acknowledge(Flow& flow, std::uint64_t upTo, bool marked, SimTime sent)
{
    // DCTCP, before anything is known about the acknowledgement.
    ++flow.seen;
    if (marked)
    {
        ++flow.marked;
        flow.slowStart = std::min(flow.slowStart, flow.cwnd);
    }
    if (flow.seen * kFlexNetMss >= flow.window)
    {
        const double fraction = static_cast<double>(flow.marked) / flow.seen;
        flow.alfa = 15.0 / 16.0 * flow.alfa + 1.0 / 16.0 * fraction;
        flow.seen = 0;
        flow.marked = 0;
        if (flow.alfa > 0)
        {
            flow.cwnd = static_cast<std::uint32_t>(flow.cwnd * (1 - flow.alfa / 2));
            flow.cwnd = std::max(flow.cwnd, kFlexNetMss);
            flow.slowStart = flow.cwnd;
        }
        flow.window = flow.cwnd;
    }
    if (upTo < flow.lastAcked)
    {
        return;
    }
    if (upTo == 1)
    {
        flow.established = true;
    }
    const auto trip = static_cast<std::uint64_t>(m_now - sent);
    if (trip != 0)
    {
        if (flow.rtt > 0)
        {
            const std::uint64_t distance = trip > flow.rtt ? trip - flow.rtt : flow.rtt - trip;
            flow.deviation = 3 * flow.deviation / 4 + distance / 4;
            flow.rtt = 7 * flow.rtt / 8 + trip / 8;
        }
        else
        {
            flow.rtt = trip;
            flow.deviation = trip / 2;
        }
        flow.timeout = flow.rtt + 4 * flow.deviation;
    }
    flow.timeout = std::max(flow.timeout, kLeastTimeout);
    if (upTo >= flow.size && !flow.done)
    {
        FinishFlow(flow);
        flow.lastAcked = 1; // as the reference has it: a boolean in the wrong place
    }
    if (upTo > flow.lastAcked)
    {
        flow.deadline = static_cast<std::uint64_t>(m_now) + flow.timeout;
        if (upTo >= flow.highestSent)
        {
            flow.highestSent = upTo;
            flow.deadline = 0;
        }
        if (!flow.recovering)
        {
            flow.lastAcked = upTo;
            flow.duplicates = 0;
            const auto room = static_cast<std::int32_t>(
                static_cast<std::uint32_t>(flow.lastAcked + flow.cwnd - flow.highestSent));
            if (room >= 0)
            {
                const std::uint32_t step = std::min(static_cast<std::uint32_t>(room), kFlexNetMss);
                flow.cwnd += flow.cwnd < flow.slowStart ? std::min(flow.slowStart - flow.cwnd, step)
                                                        : step * kFlexNetMss / flow.cwnd;
            }
            Send(flow);
            return;
        }
        if (upTo >= flow.recoverUpTo)
        {
            const auto flight = static_cast<std::uint32_t>(flow.highestSent - upTo);
            flow.cwnd = std::min(flow.slowStart, flight + kFlexNetMss);
            flow.lastAcked = upTo;
            flow.duplicates = 0;
            flow.recovering = false;
            Send(flow);
            return;
        }
        const auto fresh = static_cast<std::uint32_t>(upTo - flow.lastAcked);
        flow.lastAcked = upTo;
        flow.cwnd = (fresh < flow.cwnd ? flow.cwnd - fresh : 0) + kFlexNetMss;
        Retransmit(flow);
        Send(flow);
        return;
    }
    if (flow.recovering)
    {
        flow.cwnd += kFlexNetMss;
        Send(flow);
        return;
    }
    if (++flow.duplicates != 3)
    {
        Send(flow);
        return;
    }
    if (flow.lastAcked < flow.recoverUpTo)
    {
        return;
    }
    flow.seen = 0;
    flow.marked = 0;
    flow.slowStart = std::max(flow.cwnd / 2, 2 * kFlexNetMss);
    flow.window = flow.cwnd;
    Retransmit(flow);
    flow.cwnd = flow.slowStart + 3 * kFlexNetMss;
    flow.recovering = true;
    flow.recoverUpTo = flow.highestSent;
}

void
FlexNetEngine::Scan()
{
    const auto now = static_cast<std::uint64_t>(m_now);
    constexpr auto period = static_cast<std::uint64_t>(kScanPeriod);
    const auto late = [now](const Flow& flow) {
        return flow.deadline != 0 && now > flow.deadline && flow.highestSent != 0 && !flow.timedOut;
    };
    for (Flow* flow = m_firstFlow; flow != nullptr; flow = flow->after)
    {
        if (!late(*flow))
        {
            continue;
        }
        if (m_trains != nullptr)
        {
            // Acknowledgements that nobody has looked at only move the deadline away.
            m_trains->Settle(*flow);
            if (!late(*flow))
            {
                continue;
            }
            m_trains->Disturb(*flow);
        }
        ++flow->timeouts;
        m_totals.timeouts += flow->Width();
        flow->timedOut = true;
        std::uint64_t delay = now - flow->deadline;
        while (delay > period)
        {
            delay >>= 1;
        }
        ScheduleFlow(*flow, m_now + static_cast<SimTime>((period - delay) / 200));
        flow->timeout *= 2;
        flow->deadline = now + flow->timeout;
    }
    if (m_unfinishedFlows == 0 && m_pendingCount == 0)
    {
        m_over = true; // nothing will ever happen again
        return;
    }
    ScheduleIndex(m_scanner, m_now + kScanPeriod);
    TryLockstep();
}

void
FlexNetEngine::TryLockstep()
{
    if (m_lockstep && !m_lockstep->begun && m_messagesLeft == 0 && m_pendingFlows == 0)
    {
        m_trains->TryLockstep(*m_lockstep);
    }
}

void
FlexNetEngine::FinishFlow(Flow& flow)
{
    flow.done = true;
    flow.end = m_now;
    Unlist(flow);
    m_totals.finished += flow.Width();
    m_totals.retransmits += flow.Width() * flow.retransmits;
    const FlexNetFlowRecord record = RecordOf(flow);
    if (record.end - record.start < record.ideal && m_violations.size() < 10)
    {
        m_violations.push_back("flow " + std::to_string(record.id) + " took " +
                               FormatTime(record.end - record.start) +
                               ", less than alone on its path: " + FormatTime(record.ideal));
    }
    TellEarlier();
    m_finishedFlows.push_back({record, flow.block});
    FlowDone(flow);
}

/** Tells the observer what finished before now, since something finishes now. */
void
FlexNetEngine::TellEarlier()
{
    if (m_finishedAt != m_now)
    {
        TellFinished();
        m_finishedAt = m_now;
    }
}

/** Tells the observer what has finished; by number, since an order of simultaneous events means nothing to it. */
void
FlexNetEngine::TellFinished()
{
    struct Row
    {
        std::uint64_t id;
        std::uint32_t member; ///< kNoId: the flow's own
        std::uint32_t index;  ///< in m_finishedFlows
    };

    std::vector<Row> rows;
    for (std::uint32_t i = 0; i < m_finishedFlows.size(); ++i)
    {
        const auto& [record, block] = m_finishedFlows[i];
        if (block == nullptr)
        {
            rows.push_back({record.id, kNoId, i});
            continue;
        }
        for (const std::uint32_t member : block->members)
        {
            rows.push_back({m_lockstep->IdOf(record.id, *block, member), member, i});
        }
    }
    const auto before = [](const Row& a, const Row& b) { return a.id < b.id; };
    if (!std::is_sorted(rows.begin(), rows.end(), before))
    {
        std::sort(rows.begin(), rows.end(), before);
    }
    for (const Row& row : rows)
    {
        const auto& [record, block] = m_finishedFlows[row.index];
        m_observer.FlowFinished(
            row.member == kNoId ? record : m_lockstep->RecordOf(record, *block, row.member));
    }
    m_finishedFlows.clear();
    std::sort(
        m_finishedTasks.begin(),
        m_finishedTasks.end(),
        [](const FlexNetTaskRecord& a, const FlexNetTaskRecord& b) { return a.task < b.task; });
    for (const FlexNetTaskRecord& record : m_finishedTasks)
    {
        m_observer.TaskFinished(record);
    }
    m_finishedTasks.clear();
}

void
FlexNetEngine::FreeIfOver(Flow& flow)
{
    if (!flow.done || flow.inFlight > 0 || flow.timedOut)
    {
        return;
    }
    m_putWireHops += flow.Width() * flow.wireBytes * flow.path->Hops();
    Free(flow);
}

void
FlexNetEngine::Free(Flow& flow)
{
    flow.done = false;
    flow.path = nullptr;
    flow.early.reset();
    flow.after = m_freeFlows;
    m_freeFlows = &flow;
}

/** Takes a flow out of the list of the unfinished. */
void
FlexNetEngine::Unlist(Flow& flow)
{
    (flow.before != nullptr ? flow.before->after : m_firstFlow) = flow.after;
    (flow.after != nullptr ? flow.after->before : m_lastFlow) = flow.before;
    flow.before = nullptr;
    flow.after = nullptr;
    --m_unfinishedFlows;
}

FlexNetFlowRecord
FlexNetEngine::RecordOf(const Flow& flow) const
{
    FlexNetFlowRecord record;
    record.id = flow.id;
    record.src = flow.src;
    record.dst = flow.dst;
    record.bytes = flow.asked;
    record.size = flow.size;
    record.start = flow.start;
    record.end = flow.end;
    record.task = flow.task;
    record.allReduce = m_graph.tasks[flow.task].kind == FlexNetTaskKind::AllReduce;
    record.ring = flow.ring;
    record.round = flow.round;
    record.hops = flow.path->Hops();
    // The SYN, then whole packets, store and forward; the slowest link sets the pace.
    const auto packets = static_cast<SimTime>(flow.lastNumber);
    const auto mss = static_cast<SimTime>(kFlexNetMss);
    record.ideal = flow.path->psPerByteSum +
                   2 * static_cast<SimTime>(record.hops) * m_config.delay +
                   mss * (flow.path->psPerByteSum + (packets - 1) * flow.path->psPerByteMax);
    record.timeouts = flow.timeouts;
    record.retransmits = flow.retransmits;
    return record;
}

// ---- Results

FlexNetTotals
FlexNetEngine::Totals() const
{
    FlexNetTotals totals = m_totals;
    for (const Port& port : m_ports)
    {
        totals.packetHops += port.counters.packets;
        totals.wireBytes += port.counters.WireBytes();
        totals.marks += port.counters.marks;
        totals.drops += port.counters.drops;
    }
    return totals;
}

FlexNetRunResult
FlexNetEngine::Result() const
{
    if (m_trains != nullptr)
    {
        m_trains->FallBackAll();
        m_trains->ServeAll();
    }
    FlexNetRunResult result;
    result.complete = m_totals.tasks == m_tasks.size();
    result.finalFinish = m_finalFinish;
    result.now = m_now;
    result.totals = Totals();
    for (std::size_t i = 0; i < m_ports.size(); ++i)
    {
        const Port& port = m_ports[i];
        FlexNetLinkCounters counters;
        counters.from = m_paths.Links()[i].from;
        counters.to = m_paths.Links()[i].to;
        counters.packets = port.counters.packets;
        counters.bytes = port.counters.WireBytes();
        counters.marks = port.counters.marks;
        counters.drops = port.counters.drops;
        counters.busy = port.Busy();
        result.links.push_back(counters);
    }
    for (const UnfinishedFlow& flow : Unfinished())
    {
        result.unfinished.push_back(flow.record);
        result.totals.retransmits += flow.record.retransmits;
    }
    result.violations = CheckPhysics();
    if (!result.complete)
    {
        result.waiting = DescribeWaiting();
    }
    return result;
}

std::vector<FlexNetEngine::UnfinishedFlow>
FlexNetEngine::Unfinished() const
{
    std::vector<UnfinishedFlow> flows;
    for (const Flow* flow = m_firstFlow; flow != nullptr; flow = flow->after)
    {
        const FlexNetFlowRecord record = RecordOf(*flow);
        if (flow->block == nullptr)
        {
            flows.push_back({record, flow->received});
            continue;
        }
        for (const std::uint32_t member : flow->block->members)
        {
            flows.push_back({m_lockstep->RecordOf(record, *flow->block, member), flow->received});
        }
    }
    std::sort(flows.begin(), flows.end(), [](const UnfinishedFlow& a, const UnfinishedFlow& b) {
        return a.record.id < b.record.id;
    });
    return flows;
}

std::vector<std::string>
FlexNetEngine::CheckPhysics() const
{
    std::vector<std::string> violations = m_violations;
    // What links have carried is what flows have sent, over their hops, less what has not got there.
    Bytes carried = 0;
    Bytes waiting = m_droppedWireHops + (m_trains != nullptr ? m_trains->Owed() : 0);
    for (std::size_t i = 0; i < m_ports.size(); ++i)
    {
        const Port& port = m_ports[i];
        carried += port.counters.WireBytes();
        Bytes size = 0;
        for (std::uint32_t at = port.head; at != port.tail; ++at)
        {
            const Packet& packet = port.ring[at & port.mask];
            const Bytes bytes = packet.number == 0 ? 1 : kFlexNetMss;
            const bool queued = at - port.head >= port.queued - port.head;
            size += queued ? bytes : 0;
            waiting += queued ? bytes : 0;
            for (const std::uint32_t* next = packet.next; *next != kNoId; ++next)
            {
                waiting += bytes;
            }
        }
        const std::string name = "link " + std::to_string(m_paths.Links()[i].from) + "->" +
                                 std::to_string(m_paths.Links()[i].to);
        if (size != port.size)
        {
            violations.push_back(name + ": its queue holds " + std::to_string(size) +
                                 " B, its counter says " + std::to_string(port.size));
        }
        const SimTime busy = port.Busy();
        if (busy > m_now)
        {
            violations.push_back(name + ": busy for " + FormatTime(busy) + " of " +
                                 FormatTime(m_now));
        }
    }
    Bytes put = m_putWireHops;
    for (const auto& block : m_flowBlocks)
    {
        for (std::uint32_t i = 0; i < kFlowsPerBlock; ++i)
        {
            const Flow& flow = block[i];
            put += flow.path != nullptr ? flow.Width() * flow.wireBytes * flow.path->Hops() : 0;
        }
    }
    if (carried + waiting != put)
    {
        violations.push_back("links carried " + std::to_string(carried) + " B and are owed " +
                             std::to_string(waiting) + " B, flows sent " + std::to_string(put) +
                             " B x hops");
    }
    return violations;
}

} // namespace topoopt
