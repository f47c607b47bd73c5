// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/packet-network.h"

#include "ns3/log.h"
#include "ns3/peek-scheduler.h"
#include "ns3/simulator.h"
#include "ns3/trace-source-accessor.h"
#include "topoopt/core/error.h"
#include "topoopt/core/random.h"

#include <algorithm>
#include <stdexcept>

namespace topoopt
{

NS_LOG_COMPONENT_DEFINE("TopooptPacketNetwork");
NS_OBJECT_ENSURE_REGISTERED(PacketNetwork);

namespace
{

/**
 * Own bytes in a port from which on its host hands it no more. They delay whatever else the server sends or relays, so they are
 * few, and no more at a higher rate: steps of small rings would wait for those of large ones.
 */
constexpr Bytes kHandedToNic = 50'000;
constexpr std::size_t kBlock = 1024; ///< records that a pool allocates at once
/** Identities that fail are reported one by one up to this many. */
constexpr std::size_t kMaxViolations = 10;
/** Nothing moves any more: no packet has arrived in order for this many timeouts, each doubled up to 64 times. */
constexpr SimTime kStallTimeouts = 256;

/** A message without progress sends a probe this many times per timeout. */
constexpr SimTime kProbesPerTimeout = 8;

/** Events between two calls of the heartbeat; about a millisecond. */
constexpr std::uint32_t kHeartbeatPeriod = 1U << 14;

enum TrainFlag : std::uint8_t
{
    kAck = 1,
    kMissing = 2,    ///< acknowledgement that asks to go back to `sequence`
    kAckRequest = 4, ///< the last packet asks for an acknowledgement
    kMarked = 8,     ///< congestion experienced, all packets
    kMarkedHere = 16 ///< and it was this link that marked them
};

/** Asks for the memory of an object, if there is one. */
template <typename Object>
void
Prefetch(const Object* object)
{
    for (std::size_t at = 0; object != nullptr && at < sizeof(Object); at += 64)
    {
        __builtin_prefetch(reinterpret_cast<const char*>(object) + at, 1, 3);
    }
}

} // namespace

/** A path with what follows from it. */
struct PacketNetwork::Route
{
    std::vector<LinkId> links; ///< ends with kNoId
    std::vector<LinkId> back;  ///< the acknowledgements' way, ends with kNoId
    std::uint32_t hops = 0;
    std::uint64_t window = 0;   ///< that keeps the idle path full, in 1/kWindowUnit packets
    std::uint64_t cap = 0;      ///< that keeps the path full if the receiver sends, too
    Bytes lastBytes = 0;        ///< of the last message; a step's messages are alike
    SimTime lastIdeal = kNever; ///< what Ideal() says of it; kNever: not asked yet
};

/** One message: sender, receiver and bookkeeping. The first cache line is what most arrivals need. */
struct alignas(64) PacketNetwork::Flow
{
    // Receiver.
    std::uint32_t expected = 0; ///< first packet not received in order
    std::uint32_t lastSeen = 0; ///< one above the packet that arrived last
    std::uint32_t unacked = 0;  ///< packets since the last acknowledgement
    std::uint32_t unackedMarked = 0;
    std::uint64_t live = 0; ///< packets of the message in the network, both directions
    std::uint32_t packets = 0;
    std::uint32_t lastWire = 0; ///< bytes on the wire of the last packet
    Route* route = nullptr;
    Flow* next = nullptr; ///< in a host queue, or in the free list
    bool missingSent = false;
    bool everMissing = false; ///< has asked to go back
    bool waiting = false;     ///< in a host queue
    bool over = false;        ///< acknowledged completely
    bool parked = false;      ///< no route, no timer; `waiting`, but in no host queue
    bool behind = false; ///< another of its queue pair; no timer; `waiting`, but in no host queue
    bool reordered = false; ///< its packets may come by several ways
    unsigned timeouts = 0;  ///< in a row
    SenderState sender;
    SimTime lastProgress = 0;
    // Times.
    SimTime due = 0;         ///< when the sender is looked at next
    Flow* earlier = nullptr; ///< in the list of timers, which is in order of `due`
    Flow* later = nullptr;
    std::uint64_t retransmits = 0;
    Message message;
    SimTime start = 0;
    SimTime end = kNever;
    SimTime acknowledged = kNever;
    SimTime ideal = 0;
    std::uint64_t id = 0;
    Flow* successor = nullptr; ///< is behind this one
};

/**
 * Packets of one message that follow each other on a link at equal distances; often a single one.
 *
 * Two cache lines: what an arrival needs, and what is needed when something is taken on, or cut back.
 */
struct alignas(64) PacketNetwork::Train
{
    SimTime arrival = 0;   ///< of packet 0, whole, at the far end
    SimTime gap = 0;       ///< between arrivals of successive packets
    Train* next = nullptr; ///< in the link's FIFO, or in the free list
    Flow* flow = nullptr;
    const LinkId* links = nullptr; ///< the path, ends with kNoId
    std::uint32_t count = 0;
    std::uint32_t advanced = 0; ///< packets that have been taken to the next link
    std::uint32_t sequence = 0; ///< number of packet 0; acknowledgement: first packet not received
    std::uint32_t wire = 0;     ///< bytes of each packet
    std::uint16_t hop = 0;
    std::uint8_t flags = 0;
    std::uint32_t marked = 0;    ///< of `covered`, marked
    std::uint32_t covered = 0;   ///< acknowledgement: data packets it stands for
    SimTime joined = 0;          ///< when packet 0 joined the queue
    SimTime joinedGap = 0;       ///< the same for its successors
    Train* upstream = nullptr;   ///< train of the previous link that this one continues
    Train* downstream = nullptr; ///< newest train of the next link that continues this one
};

/** One directed link: FIFO queue, transmitter and what is in flight. */
struct alignas(64) PacketNetwork::Port
{
    SimTime free = 0;          ///< the last packet in the queue has left
    SimTime headTime = kNever; ///< the arrival that stands in the event heap
    SimTime openUntil = -1;    ///< the last train's packets join until then, ahead of time
    Train* head = nullptr;     ///< first train with packets not taken on
    Train* tail = nullptr;
    SimTime psPerByte = 0; ///< 0: the rate does not divide 8e12
    SimTime markAbove = kNever;
    SimTime dropAbove = kNever;
    SimTime delay = 0;
    Flow* headFlow = nullptr; ///< of the first train; for PrefetchNext(), may be gone
    Train* retired = nullptr; ///< last train that was taken on completely; may have to come back
    Train* last = nullptr;    ///< that joined last; valid while openUntil has not passed
    BitRate rate;
    LinkCounters counters;
    // Backlog that the last train's packets met: of the first, growth per packet, how many.
    SimTime lastBacklog = 0;
    SimTime lastGrowth = 0;
    std::uint32_t lastCount = 0;

    [[nodiscard]] SimTime TransmissionTime(Bytes wire) const
    {
        return psPerByte != 0 ? static_cast<SimTime>(wire) * psPerByte : TxTime(wire, rate);
    }
};

/** Messages of a host that wait for room in a NIC's queue, served in turn. */
struct PacketNetwork::HostQueue
{
    struct Burst
    {
        SimTime departure; ///< its last bit leaves
        Bytes bytes;
    };

    std::deque<Burst> bursts; ///< own packets in the port's queue
    Bytes bytes = 0;
    Bytes limit = 0;
    Flow* head = nullptr; ///< waiting messages
    Flow* tail = nullptr;
    SimTime wakeTime = kNever; ///< that stands in the event heap

    void Drain(SimTime now)
    {
        while (!bursts.empty() && bursts.front().departure <= now)
        {
            bytes -= bursts.front().bytes;
            bursts.pop_front();
        }
    }
};

/** What of a link matters only when its light goes on or off. */
struct PacketNetwork::Status
{
    LinkOutage outage;
    SimTime buffer = 0; ///< dropAbove while there is light
    Bytes limit = 0;    ///< of its host queue while it may send
};

Bytes
MessageWireBytes(Bytes bytes, Bytes payload)
{
    const Bytes full = bytes == 0 ? 0 : (bytes - 1) / payload;
    return full * WireBytes(payload) + WireBytes(bytes - full * payload);
}

ns3::TypeId
PacketNetwork::GetTypeId()
{
    static ns3::TypeId tid =
        ns3::TypeId("topoopt::PacketNetwork")
            .SetParent<ns3::Object>()
            .SetGroupName("TopoOpt")
            .AddConstructor<PacketNetwork>()
            .AddTraceSource("Transmit",
                            "A packet joins the queue of a link.",
                            ns3::MakeTraceSourceAccessor(&PacketNetwork::m_transmitTrace),
                            "topoopt::PacketNetwork::PacketTrace")
            .AddTraceSource("Drop",
                            "A packet finds a full buffer or no light.",
                            ns3::MakeTraceSourceAccessor(&PacketNetwork::m_dropTrace),
                            "topoopt::PacketNetwork::PacketTrace")
            .AddTraceSource("Cut",
                            "A link loses its light: what it was sending, or was to send later.",
                            ns3::MakeTraceSourceAccessor(&PacketNetwork::m_cutTrace),
                            "topoopt::PacketNetwork::CutTrace")
            .AddTraceSource("MessageStart",
                            "A message is handed to the transport.",
                            ns3::MakeTraceSourceAccessor(&PacketNetwork::m_startTrace),
                            "topoopt::PacketNetwork::MessageTrace")
            .AddTraceSource("MessageEnd",
                            "The last byte of a message has arrived.",
                            ns3::MakeTraceSourceAccessor(&PacketNetwork::m_endTrace),
                            "topoopt::PacketNetwork::MessageTrace");
    return tid;
}

PacketNetwork::PacketNetwork() = default;
PacketNetwork::~PacketNetwork() = default;

void
PacketNetwork::DoDispose()
{
    m_pump.Cancel();
    m_listener = nullptr;
    ns3::Object::DoDispose();
}

void
PacketNetwork::Build(const Topology& topology, const PacketNetworkConfig& config)
{
    if (config.mtu <= kHeaderBytes || config.mtu > 65'536)
    {
        throw SpecError("engine.mtu",
                        "found " + FormatBytes(config.mtu) +
                            ", expected 45B..65536B (44 B are headers)");
    }
    m_config = config;
    m_payload = config.mtu - kHeaderBytes;
    m_ackEvery = config.ackEvery != 0
                     ? config.ackEvery
                     : static_cast<std::uint32_t>((64 * 1024 + m_payload - 1) / m_payload);
    m_whole = config.ackEvery != 0 ? config.ackEvery : 2 * m_ackEvery;
    m_config.control = config.control != nullptr ? config.control : &DctcpControl();
    m_servers = topology.servers;
    m_links = topology.links;
    m_ports.resize(m_links.size());
    m_hostQueues.resize(m_links.size());
    m_status.resize(m_links.size());
    for (LinkId id = 0; id < m_links.size(); ++id)
    {
        InitPort(id, topology.IsServer(m_links[id].src));
    }
}

void
PacketNetwork::InitPort(LinkId id, bool fromServer)
{
    constexpr std::uint64_t kPicosecondBits = 8'000'000'000'000;
    const Link& link = m_links[id];
    Port& port = m_ports[id];
    port.rate = link.rate;
    port.delay = link.delay;
    port.psPerByte = kPicosecondBits % link.rate.bps == 0
                         ? static_cast<SimTime>(kPicosecondBits / link.rate.bps)
                         : 0;
    const Bytes perMicrosecond = link.rate.bps / 8'000'000;
    const Bytes ecn =
        m_config.ecn != 0 ? m_config.ecn : std::max<Bytes>(200'000, 32 * perMicrosecond);
    const Bytes buffer = m_config.buffer != 0
                             ? m_config.buffer
                             : std::max({Bytes{2'000'000}, 160 * perMicrosecond, 5 * ecn});
    port.markAbove = TxTime(ecn, link.rate);
    port.dropAbove = TxTime(buffer, link.rate);
    m_status[id].buffer = port.dropAbove;
    if (fromServer)
    {
        m_hostQueues[id] = std::make_unique<HostQueue>();
        m_status[id].limit = std::max(std::min(ecn / 4, kHandedToNic), Bytes{2} * m_config.mtu);
        m_hostQueues[id]->limit = m_status[id].limit;
    }
}

std::vector<LinkId>
PacketNetwork::ReverseOf(const Path& path) const
{
    std::vector<LinkId> back;
    for (auto link = path.rbegin(); link != path.rend(); ++link)
    {
        if (m_links[*link].reverse == kNoId)
        {
            break;
        }
        back.push_back(m_links[*link].reverse);
    }
    if (back.size() == path.size())
    {
        return back;
    }
    // A one-way link: acknowledgements take a shortest way, lowest link numbers first.
    const NodeId from = m_links[path.back()].dst;
    const NodeId to = m_links[path.front()].src;
    std::vector<LinkId> cameBy;
    std::vector<NodeId> frontier{from};
    for (const Link& link : m_links)
    {
        cameBy.resize(std::max<std::size_t>(cameBy.size(), std::max(link.src, link.dst) + 1),
                      kNoId);
    }
    while (!frontier.empty() && cameBy[to] == kNoId)
    {
        std::vector<NodeId> nextFrontier;
        for (NodeId node : frontier)
        {
            for (LinkId id = 0; id < m_links.size(); ++id)
            {
                const NodeId dst = m_links[id].dst;
                if (m_links[id].src == node && dst != from && cameBy[dst] == kNoId &&
                    m_status[id].outage.state == LinkState::Up)
                {
                    cameBy[dst] = id;
                    nextFrontier.push_back(dst);
                }
            }
        }
        frontier = std::move(nextFrontier);
    }
    if (cameBy[to] == kNoId)
    {
        throw SpecError("topology",
                        "found no way back from node " + std::to_string(from) + " to node " +
                            std::to_string(to) + ", expected one for acknowledgements");
    }
    back.clear();
    for (NodeId node = to; node != from; node = m_links[back.back()].src)
    {
        back.push_back(cameBy[node]);
    }
    std::reverse(back.begin(), back.end());
    return back;
}

std::uint32_t
PacketNetwork::AddRoute(const Path& path)
{
    return AddRoute(path, {});
}

std::uint32_t
PacketNetwork::AddRoute(const Path& path, const Path& back)
{
    std::uint64_t hash = path.size();
    for (LinkId link : path)
    {
        hash = Mix64(hash, link);
    }
    const auto [begin, end] = m_routeIndex.equal_range(hash);
    for (auto it = begin; it != end; ++it)
    {
        const Route& known = *m_routes[it->second];
        if (known.hops == path.size() &&
            std::equal(path.begin(), path.end(), known.links.begin()) &&
            (back.empty() || (known.back.size() == back.size() + 1 &&
                              std::equal(back.begin(), back.end(), known.back.begin()))))
        {
            return it->second;
        }
    }
    auto route = std::make_unique<Route>();
    route->links = path;
    route->back = back.empty() ? ReverseOf(path) : back;
    route->hops = static_cast<std::uint32_t>(path.size());
    SimTime roundTrip = 0;
    SimTime slowest = 1;
    SimTime queues = 0;
    for (LinkId id : path)
    {
        const SimTime transmission = m_ports[id].TransmissionTime(WireBytes(m_payload));
        roundTrip += transmission + m_ports[id].delay;
        slowest = std::max(slowest, transmission);
        queues += m_status[id].buffer;
    }
    for (LinkId id : route->back)
    {
        roundTrip += m_ports[id].TransmissionTime(kAckWireBytes) + m_ports[id].delay;
        queues += m_status[id].buffer;
    }
    const auto packets = [slowest](SimTime time) {
        return static_cast<std::uint64_t>((time + slowest - 1) / slowest);
    };
    route->window = (packets(roundTrip) + 2 * m_ackEvery) * kWindowUnit;
    // Acknowledgements may wait behind what the receiver's host has handed to the same NIC; unless windows can grow to allow
    // for it, traffic both ways leaves gaps.
    const LinkId first = route->back[0];
    const SimTime wait = m_hostQueues[first] == nullptr
                             ? 0
                             : m_ports[first].TransmissionTime(m_status[first].limit +
                                                               m_ackEvery * WireBytes(m_payload));
    route->cap = route->window + packets(wait) * kWindowUnit;
    m_timeout = std::max(m_timeout, 2 * (roundTrip + queues));
    route->links.push_back(kNoId);
    route->back.push_back(kNoId);
    const auto number = static_cast<std::uint32_t>(m_routes.size());
    m_routes.push_back(std::move(route));
    m_routeIndex.emplace(hash, number);
    return number;
}

SimTime
PacketNetwork::Ideal(std::uint32_t number, Bytes bytes) const
{
    const Route& route = *m_routes[number];
    const Bytes full = bytes == 0 ? 0 : (bytes - 1) / m_payload;
    const Bytes lastWire = WireBytes(bytes - full * m_payload);
    // Equal packets: number k leaves hop h at (sum of transmissions and delays up to h) + k * (slowest so far).
    SimTime passed = 0;
    SimTime slowest = 0;
    SimTime end = 0; // the last packet, whole, at the far end
    for (std::uint32_t h = 0; h < route.hops; ++h)
    {
        const Port& port = m_ports[route.links[h]];
        SimTime before = 0; // the last full packet has left this hop
        if (full > 0)
        {
            const SimTime transmission = port.TransmissionTime(WireBytes(m_payload));
            slowest = std::max(slowest, transmission);
            passed += transmission;
            before = passed + static_cast<SimTime>(full - 1) * slowest;
            passed += port.delay;
        }
        end = std::max(end, before) + port.TransmissionTime(lastWire) + port.delay;
    }
    return end;
}

SimTime
PacketNetwork::Now() const
{
    return m_now;
}

PacketNetwork::Train*
PacketNetwork::NewTrain()
{
    if (m_freeTrains == nullptr)
    {
        m_trainBlocks.push_back(std::make_unique<Train[]>(kBlock));
        Train* const block = m_trainBlocks.back().get();
        for (std::size_t k = kBlock; k-- > 0;)
        {
            FreeTrain(&block[k]);
        }
    }
    Train* const train = m_freeTrains;
    m_freeTrains = train->next;
    return train;
}

void
PacketNetwork::FreeTrain(Train* train)
{
    train->next = m_freeTrains;
    m_freeTrains = train;
}

PacketNetwork::Flow*
PacketNetwork::NewFlow()
{
    if (m_freeFlows == nullptr)
    {
        m_flowBlocks.push_back(std::make_unique<Flow[]>(kBlock));
        Flow* const block = m_flowBlocks.back().get();
        for (std::size_t k = kBlock; k-- > 0;)
        {
            block[k].over = true;
            block[k].next = m_freeFlows;
            m_freeFlows = &block[k];
        }
    }
    Flow* const flow = m_freeFlows;
    m_freeFlows = flow->next;
    *flow = Flow{};
    return flow;
}

std::uint64_t
PacketNetwork::Send(const Message& message)
{
    Flow& flow = *NewFlow();
    flow.id = m_totals.messages++;
    flow.message = message;
    flow.start = m_now;
    flow.lastProgress = m_now;
    ++m_unfinished;
    if (message.src == message.dst)
    {
        m_totals.localBytes += message.bytes;
        flow.ideal = TxTime(message.bytes, m_config.intraRate);
        m_locals.emplace(flow.id, &flow);
        m_events.Push({m_now + flow.ideal, Key(EventClass::Local, flow.id)});
        return flow.id;
    }
    m_totals.askedBytes += message.bytes;
    const Bytes full = message.bytes == 0 ? 0 : (message.bytes - 1) / m_payload;
    if (full >= UINT32_MAX - 1)
    {
        throw SpecError("message " + std::to_string(flow.id),
                        "found " + FormatBytes(message.bytes) + ", expected at most 2^32 packets");
    }
    flow.packets = static_cast<std::uint32_t>(full + 1);
    flow.lastWire = static_cast<std::uint32_t>(WireBytes(message.bytes - full * m_payload));
    if (message.queuePair != nullptr)
    {
        if (message.queuePair->last != nullptr)
        {
            static_cast<Flow*>(message.queuePair->last)->successor = &flow;
            flow.behind = true;
            flow.waiting = true;
        }
        message.queuePair->last = &flow;
    }
    if (message.route == kParked)
    {
        flow.parked = true;
        flow.waiting = true;
        flow.ideal = kNever;
        return flow.id;
    }
    flow.route = m_routes[message.route].get();
    if (flow.route->lastIdeal == kNever || flow.route->lastBytes != message.bytes)
    {
        flow.route->lastBytes = message.bytes;
        flow.route->lastIdeal = Ideal(message.route, message.bytes);
    }
    flow.ideal = flow.route->lastIdeal;
    flow.sender.cap = flow.route->cap;
    flow.sender.window = flow.route->window;
    m_config.control->Start(flow.sender);
    if (!m_startTrace.IsEmpty())
    {
        m_startTrace(RecordOf(flow));
    }
    if (!flow.behind)
    {
        StartTimer(flow);
        TrySend(flow);
    }
    return flow.id;
}

void
PacketNetwork::CallAt(SimTime time, std::uint64_t cookie)
{
    ++m_pendingCalls;
    m_events.Push({std::max(time, m_now), Key(EventClass::Call, cookie)});
}

void
PacketNetwork::Start(SimTime stop)
{
    m_stop = stop;
    const bool watched = !m_transmitTrace.IsEmpty() || !m_dropTrace.IsEmpty() ||
                         !m_startTrace.IsEmpty() || !m_endTrace.IsEmpty();
    m_trains = m_config.trains && !watched;
    m_stepped = watched || ns3::PeekScheduler::NextTimeStep() == INT64_MIN;
    if (!m_events.Empty())
    {
        m_pump = ns3::Simulator::Schedule(
            ns3::TimeStep(static_cast<std::uint64_t>(m_events.Top().time)) - ns3::Simulator::Now(),
            &PacketNetwork::Pump,
            this);
    }
}

void
PacketNetwork::Pump()
{
    // Nothing of ours schedules ns-3 events, so the next one is known for the whole of this call.
    const SimTime horizon =
        m_stepped ? ns3::Simulator::Now().GetTimeStep() + 1 : ns3::PeekScheduler::NextTimeStep();
    std::uint32_t untilHeartbeat = kHeartbeatPeriod;
    while (!m_events.Empty() && m_unfinished + m_pendingCalls > 0 && !m_stalled)
    {
        const EventHeap::Entry event = m_events.Top();
        if (event.time > m_stop)
        {
            m_now = m_stop;
            break;
        }
        if (event.time >= horizon)
        {
            m_pump = ns3::Simulator::Schedule(
                ns3::TimeStep(static_cast<std::uint64_t>(event.time)) - ns3::Simulator::Now(),
                &PacketNetwork::Pump,
                this);
            return;
        }
        if (--untilHeartbeat == 0)
        {
            untilHeartbeat = kHeartbeatPeriod;
            if (m_heartbeat && !m_heartbeat())
            {
                break;
            }
        }
        const std::uint64_t id = IdOf(event.key);
        m_currentKey = event.key;
        PrefetchNext();
        switch (ClassOf(event.key))
        {
        case EventClass::Arrival:
            if (m_ports[id].headTime != event.time)
            {
                m_events.Pop(); // moved since
                continue;
            }
            m_now = event.time;
            OnArrival(static_cast<LinkId>(id));
            break;
        case EventClass::HostQueue:
            m_events.Pop();
            if (m_hostQueues[id]->wakeTime != event.time)
            {
                continue;
            }
            m_now = event.time;
            m_hostQueues[id]->wakeTime = kNever;
            ServeHostQueue(static_cast<LinkId>(id));
            break;
        case EventClass::Timers:
            if (m_timerEvent != event.time)
            {
                m_events.Pop();
                continue;
            }
            if (m_firstTimer != nullptr && m_firstTimer->due <= event.time)
            {
                m_now = event.time;
            }
            OnTimers(event.time);
            break;
        case EventClass::Local:
            m_events.Pop();
            m_now = event.time;
            OnLocal(id);
            break;
        case EventClass::Call:
            m_events.Pop();
            m_now = event.time;
            --m_pendingCalls;
            m_listener->Due(id);
            break;
        case EventClass::Control:
            m_events.Pop();
            m_now = event.time;
            m_controller->ControlDue(id);
            CheckHope();
            break;
        }
        ++m_totals.events;
    }
    Settle();
}

void
PacketNetwork::PrefetchNext() const
{
    const EventHeap::Entry* const next = m_events.Second();
    if (next == nullptr)
    {
        return;
    }
    const std::uint64_t id = IdOf(next->key);
    switch (ClassOf(next->key))
    {
    case EventClass::Arrival:
        Prefetch(m_ports[id].head);
        Prefetch(m_ports[id].headFlow);
        break;
    case EventClass::HostQueue:
        Prefetch(m_hostQueues[id]->head);
        break;
    default:
        break;
    }
}

SimTime
PacketNetwork::FirstArrival(Port& port) const
{
    const Train* const train = port.head;
    if (train == nullptr)
    {
        return kNever;
    }
    port.headFlow = train->flow;
    std::uint32_t index = train->advanced;
    // At the receiver only the last packet of an expected train has an effect: the others just count.
    if (m_trains && train->links[train->hop + 1] == kNoId && (train->flags & kAck) == 0)
    {
        const Train* const last = LastOfBurst(*train);
        if ((last != train || index + 1 < train->count) &&
            train->sequence + index == train->flow->expected && !train->flow->reordered)
        {
            return last->arrival + (last->count - 1) * last->gap;
        }
    }
    return train->arrival + index * train->gap;
}

const PacketNetwork::Train*
PacketNetwork::LastOfBurst(const Train& train)
{
    // Only Inject() makes trains that ask for nothing, and appends what does ask in the same breath.
    const bool split = train.hop == 0 && (train.flags & (kAck | kAckRequest)) == 0;
    return split ? train.next : &train;
}

void
PacketNetwork::PopHead(Port& port)
{
    port.head = port.head->next;
    if (port.head == nullptr)
    {
        port.tail = nullptr;
    }
}

void
PacketNetwork::PopTail(Port& port)
{
    Train* before = nullptr;
    for (Train* train = port.head; train != port.tail; train = train->next)
    {
        before = train;
    }
    port.tail = before;
    (before == nullptr ? port.head : before->next) = nullptr;
}

void
PacketNetwork::OnArrival(LinkId link)
{
    Port& port = m_ports[link];
    Train* train = port.head;
    Prefetch(train->next); // the head when this one has gone
    const bool here = train->links[train->hop + 1] == kNoId;
    if (!here)
    {
        Forward(link, train);
        port.headTime = FirstArrival(port);
        if (port.headTime != kNever)
        {
            m_events.ReplaceTop({port.headTime, m_currentKey});
        }
        else
        {
            m_events.Pop();
        }
        return;
    }
    Flow& flow = *train->flow;
    m_listener->Expect(flow.message.cookie);
    if (m_trains && train->sequence + train->advanced == flow.expected && !flow.reordered &&
        LastOfBurst(*train) != train)
    {
        ReceiveInOrder(*train, train->count - train->advanced);
        PopHead(port);
        FreeTrain(train);
        train = port.head;
    }
    const std::uint32_t sequence = train->sequence + train->advanced;
    const bool isAck = (train->flags & kAck) != 0;
    const bool inOrder = !isAck && sequence == flow.expected;
    if (inOrder)
    {
        const bool whole = m_trains && !flow.reordered;
        ReceiveInOrder(*train, whole ? train->count - train->advanced : 1);
    }
    else
    {
        ++train->advanced;
        --flow.live;
        m_arrivedWireHops += Bytes{train->wire} * (train->hop + 1u);
    }
    const bool last = train->advanced == train->count;
    const bool asked = last && (train->flags & kAckRequest) != 0;
    // The link is in order again before anything reacts: the reaction may send on this very link.
    if (last)
    {
        PopHead(port);
    }
    port.headTime = FirstArrival(port);
    if (port.headTime != kNever)
    {
        m_events.ReplaceTop({port.headTime, m_currentKey});
    }
    else
    {
        m_events.Pop();
    }
    if (isAck)
    {
        const Train ack = *train;
        FreeTrain(train);
        ReceiveAck(ack);
        return;
    }
    if (last)
    {
        FreeTrain(train);
    }
    if (inOrder)
    {
        AnswerInOrder(flow, asked);
    }
    else
    {
        AnswerOutOfOrder(flow, sequence, asked);
    }
}

bool
PacketNetwork::Settles(const Train& ack) const
{
    // On its last link nothing holds it up. The sender has sent everything once, and will not do otherwise before.
    const Flow& flow = *ack.flow;
    return ack.links[ack.hop + 1] == kNoId && (ack.flags & (kAck | kMissing)) == kAck &&
           ack.sequence == flow.packets && m_controller == nullptr && !flow.over && !flow.waiting &&
           !flow.everMissing && flow.retransmits == 0 && flow.sender.sent == flow.packets &&
           ack.arrival - flow.lastProgress < ProbeDelay();
}

void
PacketNetwork::ReceiveInOrder(Train& train, std::uint32_t packets)
{
    Flow& flow = *train.flow;
    train.advanced += packets;
    flow.live -= packets;
    flow.expected += packets;
    flow.lastSeen = flow.expected;
    m_lastProgress = m_now;
    flow.missingSent = false;
    flow.unacked += packets;
    flow.unackedMarked += (train.flags & kMarked) != 0 ? packets : 0;
    m_arrivedWireHops += Bytes{packets} * train.wire * (train.hop + 1u);
}

void
PacketNetwork::Forward(LinkId inLink, Train* train)
{
    const LinkId outLink = train->links[train->hop + 1];
    Port& in = m_ports[inLink];
    Port& out = m_ports[outLink];
    if (out.openUntil >= m_now)
    {
        CutOpenTrain(outLink);
    }
    const SimTime start = std::max(out.free, m_now);
    const SimTime backlog = start - m_now;
    const SimTime transmission = out.TransmissionTime(train->wire);
    std::uint32_t packets = 1;
    if (backlog > out.dropAbove)
    {
        NS_LOG_LOGIC("drop on link " << outLink);
        CountLoss(outLink, *train, 1, start);
        m_droppedWireHops += Bytes{train->wire} * (train->hop + 1u);
        Flow& flow = *train->flow;
        if (++train->advanced == train->count)
        {
            PopHead(in);
            Retire(in, train);
        }
        --flow.live;
        FinishIfOver(flow);
        return;
    }
    const bool marked = backlog > out.markAbove && (train->flags & kAck) == 0;
    SimTime gap = transmission;
    const std::uint32_t remaining = train->count - train->advanced;
    if (m_trains && remaining > 1)
    {
        // How many successors meet the same fate: the backlog they meet is backlog + k * (gap out - gap in).
        const SimTime change = transmission - train->gap;
        std::int64_t successors = remaining - 1;
        if (change > 0)
        {
            const SimTime bound = marked ? out.dropAbove : std::min(out.markAbove, out.dropAbove);
            successors = std::min<std::int64_t>(successors, (bound - backlog) / change);
        }
        else if (change < 0 && backlog == 0)
        {
            gap = train->gap; // each finds the port idle
        }
        else if (change < 0)
        {
            // Until the queue has run empty, or is short enough for no mark.
            const SimTime floor = marked ? out.markAbove + 1 : 0;
            successors = std::min<std::int64_t>(successors, (backlog - floor) / -change);
        }
        packets += static_cast<std::uint32_t>(successors);
    }
    Train* onward = train;
    if (train->count == 1)
    {
        PopHead(in);
        onward->upstream = nullptr;
        onward->joinedGap = 0;
    }
    else
    {
        onward = NewTrain();
        onward->flow = train->flow;
        onward->links = train->links;
        onward->hop = train->hop;
        onward->wire = train->wire;
        onward->covered = 0;
        onward->marked = 0;
        onward->sequence = train->sequence + train->advanced;
        onward->upstream = train;
        onward->count = packets;
        onward->flags = train->flags;
        train->downstream = onward;
        const SimTime inGap = train->gap;
        train->advanced += packets;
        if (train->advanced == train->count)
        {
            PopHead(in);
            Retire(in, train);
        }
        else
        {
            onward->flags &= static_cast<std::uint8_t>(~kAckRequest);
        }
        onward->joinedGap = inGap;
    }
    onward->advanced = 0;
    onward->downstream = nullptr;
    onward->joined = m_now;
    onward->gap = gap;
    ++onward->hop;
    onward->flags &= static_cast<std::uint8_t>(~kMarkedHere);
    if (marked)
    {
        onward->flags |= kMarked | kMarkedHere;
        out.counters.marks += packets;
    }
    Append(outLink, onward, start, transmission);
}

void
PacketNetwork::Append(LinkId link, Train* train, SimTime start, SimTime transmission)
{
    Port& port = m_ports[link];
    NoteBacklog(port);
    const SimTime successors = train->count - 1;
    train->arrival = start + transmission + port.delay;
    train->next = nullptr;
    port.free = start + successors * train->gap + transmission;
    port.last = train;
    port.openUntil = successors > 0 && train->upstream != nullptr
                         ? train->joined + successors * train->joinedGap
                         : -1;
    port.lastBacklog = start - m_now;
    port.lastCount = train->count;
    port.lastGrowth = train->gap - train->joinedGap;
    port.counters.packets += train->count;
    port.counters.bytes += Bytes{train->count} * train->wire;
    port.counters.busy += train->count * transmission;
    if (!m_transmitTrace.IsEmpty())
    {
        for (std::uint32_t k = 0; k < train->count; ++k)
        {
            m_transmitTrace(link, train->flow->id, train->wire, start + k * train->gap);
        }
    }
    if (Settles(*train))
    {
        Flow& flow = *train->flow;
        const SimTime acknowledged = train->arrival;
        if (m_trains)
        {
            // Its arrival is no event: all it does is done.
            m_arrivedWireHops += Bytes{train->wire} * (train->hop + 1u);
            --flow.live;
            port.last = nullptr;
            FreeTrain(train);
        }
        else
        {
            Join(link, train);
        }
        Finish(flow, acknowledged);
        return;
    }
    Join(link, train);
}

void
PacketNetwork::Join(LinkId link, Train* train)
{
    Port& port = m_ports[link];
    (port.tail != nullptr ? port.tail->next : port.head) = train;
    port.tail = train;
    if (port.headTime == kNever && (train->hop > 0 || (train->flags & (kAck | kAckRequest)) != 0))
    {
        port.headTime = FirstArrival(port);
        if (port.headTime != kNever)
        {
            m_events.Push({port.headTime, Key(EventClass::Arrival, link)});
        }
    }
}

void
PacketNetwork::NoteBacklog(Port& port) const
{
    SimTime most = port.lastBacklog;
    if (port.lastGrowth > 0 && port.lastCount > 1)
    {
        most += port.lastGrowth * (port.lastCount - 1);
    }
    port.counters.maxBacklog = std::max(port.counters.maxBacklog, most);
}

void
PacketNetwork::Retire(Port& port, Train* train)
{
    if (train->count == 1)
    {
        FreeTrain(train);
        return;
    }
    if (port.retired != nullptr)
    {
        FreeTrain(port.retired);
    }
    port.retired = train;
}

void
PacketNetwork::CutOpenTrain(LinkId link)
{
    Port& port = m_ports[link];
    Train& train = *port.last;
    port.openUntil = -1;
    const LinkId inLink = train.links[train.hop - 1];
    // A packet has joined if its arrival comes before the event being handled.
    const SimTime since = m_now - train.joined;
    std::int64_t kept = since / train.joinedGap + 1;
    if (since % train.joinedGap == 0 && Key(EventClass::Arrival, inLink) >= m_currentKey)
    {
        --kept;
    }
    if (kept >= train.count)
    {
        return;
    }
    const std::uint32_t returned = train.count - static_cast<std::uint32_t>(kept);
    Train* const upstream = train.upstream;
    CutTo(link, &train, static_cast<std::uint32_t>(kept));
    Port& in = m_ports[inLink];
    upstream->advanced -= returned;
    if (in.retired == upstream)
    {
        in.retired = nullptr;
        upstream->next = in.head;
        in.head = upstream;
        in.tail = in.tail == nullptr ? upstream : in.tail;
    }
    in.headTime = FirstArrival(in);
    m_events.Push({in.headTime, Key(EventClass::Arrival, inLink)});
}

void
PacketNetwork::CutTo(LinkId link, Train* train, std::uint32_t count)
{
    Port& port = m_ports[link];
    const std::uint32_t removed = train->count - count;
    port.counters.packets -= removed;
    port.counters.bytes -= Bytes{removed} * train->wire;
    port.counters.busy -= removed * port.TransmissionTime(train->wire);
    port.counters.marks -= (train->flags & kMarkedHere) != 0 ? removed : 0;
    port.lastCount = count;
    port.free = train->arrival + (count - 1) * train->gap - port.delay;
    train->count = count;
    train->flags &= static_cast<std::uint8_t>(~kAckRequest);
    if (port.openUntil >= 0)
    {
        port.openUntil = train->joined + (count - 1) * train->joinedGap;
    }
    if (train->advanced > count)
    {
        Train* const next = train->downstream;
        CutTo(train->links[train->hop + 1], next, next->count - (train->advanced - count));
        train->advanced = count;
    }
    if (port.head != train)
    {
        return; // taken on completely, or not yet looked at
    }
    const bool here = train->links[train->hop + 1] == kNoId;
    if (here)
    {
        // Counting was put off to the arrival of a packet that is no longer part of the train.
        ReceiveArrived(*train);
    }
    if (train->advanced == count)
    {
        PopTail(port); // it joined last
        port.headTime = kNever;
        if (here)
        {
            FreeTrain(train);
        }
        else
        {
            Retire(port, train);
        }
    }
    else if (here)
    {
        port.headTime = FirstArrival(port);
        m_events.Push({port.headTime, Key(EventClass::Arrival, link)});
    }
}

void
PacketNetwork::ReceiveArrived(Train& train)
{
    if ((train.flags & kAck) != 0 || train.sequence + train.advanced != train.flow->expected)
    {
        return;
    }
    std::uint32_t arrived = 0;
    while (train.advanced + arrived < train.count &&
           train.arrival + (train.advanced + arrived) * train.gap <= m_now)
    {
        ++arrived;
    }
    if (arrived > 0)
    {
        ReceiveInOrder(train, arrived);
    }
}

void
PacketNetwork::Settle()
{
    m_currentKey = UINT64_MAX; // whatever is due now has happened
    for (LinkId link = 0; link < m_ports.size(); ++link)
    {
        if (m_ports[link].openUntil > m_now)
        {
            CutOpenTrain(link);
        }
    }
    for (Port& port : m_ports)
    {
        NoteBacklog(port);
        // Packets of an unfinished train that have reached their receiver by now.
        for (Train* train = port.head; train != nullptr && train->links[train->hop + 1] == kNoId;
             train = train->advanced == train->count ? train->next : nullptr)
        {
            ReceiveArrived(*train);
        }
        for (const Train* train = port.head; train != nullptr; train = train->next)
        {
            m_inFlightWireHops +=
                Bytes{train->count - train->advanced} * train->wire * (train->hop + 1u);
        }
        // A run that was stopped: all that has joined a queue leaves without a break. At the end of a whole run
        // acknowledgements that change nothing count as sent.
        port.counters.busy -= m_unfinished > 0 ? std::max<SimTime>(0, port.free - m_now) : 0;
    }
}

void
PacketNetwork::AnswerOutOfOrder(Flow& flow, std::uint32_t sequence, bool asked)
{
    const bool wentBack = sequence < flow.lastSeen;
    flow.lastSeen = sequence + 1;
    if (sequence < flow.expected)
    {
        // Received before: the sender went back further than it had to.
        if (asked)
        {
            SendAck(flow, false);
        }
    }
    else if (!flow.missingSent || wentBack)
    {
        flow.missingSent = true;
        flow.everMissing = true;
        SendAck(flow, true);
    }
    FinishIfOver(flow);
}

void
PacketNetwork::AnswerInOrder(Flow& flow, bool asked)
{
    if (flow.expected < flow.packets)
    {
        if (asked)
        {
            SendAck(flow, false);
        }
        return;
    }
    flow.end = m_now;
    m_totals.deliveredBytes += flow.message.bytes;
    const MessageRecord record = RecordOf(flow);
    if (record.end - record.start < record.ideal && m_violations.size() < kMaxViolations)
    {
        m_violations.push_back("message " + std::to_string(record.id) + " took " +
                               std::to_string(record.end - record.start) + " ps, alone it needs " +
                               std::to_string(record.ideal) + " ps");
    }
    if (!m_endTrace.IsEmpty())
    {
        m_endTrace(record);
    }
    m_listener->Delivered(record);
    // What the arrival set off leaves first: the acknowledgement of a step never delays the next step.
    SendAck(flow, false);
}

void
PacketNetwork::SendAck(Flow& flow, bool missing)
{
    Train* const ack = NewTrain();
    ack->flow = &flow;
    ack->links = flow.route->back.data();
    ack->hop = 0;
    ack->flags = static_cast<std::uint8_t>(kAck | (missing ? kMissing : 0));
    ack->sequence = flow.expected;
    ack->covered = flow.unacked;
    ack->marked = flow.unackedMarked;
    ack->wire = kAckWireBytes;
    ack->count = 1;
    flow.unacked = 0;
    flow.unackedMarked = 0;
    ++flow.live;
    EnqueueLocal(ack->links[0], ack);
}

void
PacketNetwork::ReceiveAck(const Train& ack)
{
    Flow& flow = *ack.flow;
    if (flow.over)
    {
        FinishIfOver(flow);
        return;
    }
    SenderState& sender = flow.sender;
    if (ack.sequence > sender.acked)
    {
        sender.acked = ack.sequence;
        sender.sent = std::max(sender.sent, sender.acked);
        flow.lastProgress = m_now;
        flow.timeouts = 0;
    }
    if (sender.acked == flow.packets)
    {
        Finish(flow, m_now);
        return;
    }
    if (ack.covered > 0)
    {
        m_config.control->Acknowledged(sender, {ack.covered, ack.marked});
    }
    if ((ack.flags & kMissing) != 0 && ack.sequence == sender.acked && sender.sent > sender.acked)
    {
        flow.retransmits += sender.sent - sender.acked;
        m_config.control->Lost(sender);
        sender.sent = sender.acked;
    }
    TrySend(flow);
}

void
PacketNetwork::Finish(Flow& flow, SimTime acknowledged)
{
    flow.over = true;
    flow.acknowledged = acknowledged;
    if (flow.parked)
    {
        flow.parked = false;
        flow.waiting = false;
    }
    else if (flow.route != nullptr)
    {
        StopTimer(flow);
    }
    --m_unfinished;
    m_totals.retransmits += flow.retransmits;
    m_listener->Finished(RecordOf(flow));
    FinishIfOver(flow);
}

void
PacketNetwork::FinishIfOver(Flow& flow)
{
    if (flow.over && flow.live == 0 && !flow.waiting)
    {
        flow.next = m_freeFlows;
        m_freeFlows = &flow;
    }
}

void
PacketNetwork::OnLocal(std::uint64_t id)
{
    const auto it = m_locals.find(id);
    Flow& flow = *it->second;
    m_locals.erase(it);
    flow.end = m_now;
    if (!m_endTrace.IsEmpty())
    {
        m_endTrace(RecordOf(flow));
    }
    m_listener->Delivered(RecordOf(flow));
    Finish(flow, m_now);
}

SimTime
PacketNetwork::ProbeDelay() const
{
    return m_timeout / kProbesPerTimeout;
}

void
PacketNetwork::StartTimer(Flow& flow)
{
    // The timeout never shrinks, so appending keeps the list in order.
    flow.due = m_now + ProbeDelay();
    flow.earlier = m_lastTimer;
    flow.later = nullptr;
    (m_lastTimer == nullptr ? m_firstTimer : m_lastTimer->later) = &flow;
    m_lastTimer = &flow;
    if (m_timerEvent == kNever)
    {
        m_timerEvent = flow.due;
        m_events.Push({m_timerEvent, Key(EventClass::Timers, 0)});
    }
}

void
PacketNetwork::StopTimer(Flow& flow)
{
    (flow.earlier == nullptr ? m_firstTimer : flow.earlier->later) = flow.later;
    (flow.later == nullptr ? m_lastTimer : flow.later->earlier) = flow.earlier;
}

void
PacketNetwork::OnTimers(SimTime time)
{
    // One event serves all: it may come for a message that is over, and then moves on to the next.
    m_events.Pop();
    m_timerEvent = kNever;
    if (m_firstTimer == nullptr)
    {
        return;
    }
    if (m_firstTimer->due > time)
    {
        m_timerEvent = m_firstTimer->due;
        m_events.Push({m_timerEvent, Key(EventClass::Timers, 0)});
        return;
    }
    Flow& flow = *m_firstTimer;
    StopTimer(flow);
    StartTimer(flow);
    if (m_timerEvent != m_firstTimer->due)
    {
        m_timerEvent = m_firstTimer->due;
        m_events.Push({m_timerEvent, Key(EventClass::Timers, 0)});
    }
    const SimTime patience = m_timeout << std::min(flow.timeouts, 6U);
    if (flow.sender.sent > flow.sender.acked && m_now - flow.lastProgress >= patience)
    {
        ++flow.timeouts;
        flow.lastProgress = m_now;
        flow.retransmits += flow.sender.sent - flow.sender.acked;
        m_config.control->TimedOut(flow.sender);
        flow.sender.sent = flow.sender.acked;
        TrySend(flow);
    }
    else if (flow.sender.sent > flow.sender.acked && !flow.waiting &&
             m_now - flow.lastProgress >= ProbeDelay())
    {
        Probe(flow);
    }
    CheckHope();
}

void
PacketNetwork::Probe(Flow& flow)
{
    // If the end of what was sent is lost nothing tells the receiver; if the answer is, nothing tells the sender.
    const std::uint32_t last = flow.sender.sent - 1;
    const LinkId link = flow.route->links[0];
    if (m_hostQueues[link]->limit == 0)
    {
        return; // no light, so it would only be lost
    }
    ++flow.retransmits;
    const std::uint32_t wire =
        last + 1 == flow.packets ? flow.lastWire : static_cast<std::uint32_t>(WireBytes(m_payload));
    EnqueueData(flow, last, 1, wire, true);
    NoteBurst(link, wire);
}

void
PacketNetwork::CheckHope()
{
    m_stalled =
        m_stalled || (m_unfinished > 0 && m_pendingCalls == 0 && m_locals.empty() &&
                      m_now - std::max(m_lastProgress, m_helpDue) > kStallTimeouts * m_timeout);
}

std::uint32_t
PacketNetwork::Sendable(const Flow& flow) const
{
    const SenderState& sender = flow.sender;
    const std::uint64_t window = sender.window / kWindowUnit;
    const std::uint64_t outstanding = sender.sent - sender.acked;
    if (outstanding >= window)
    {
        return 0;
    }
    const std::uint64_t remaining = flow.packets - sender.sent;
    const std::uint64_t room = std::min(remaining, window - outstanding);
    // Few packets wait for more room, so that bursts do not fall apart.
    const std::uint64_t worthwhile =
        std::min({std::uint64_t{m_ackEvery}, std::max<std::uint64_t>(1, window / 2), remaining});
    return room >= worthwhile ? static_cast<std::uint32_t>(room) : 0;
}

void
PacketNetwork::TrySend(Flow& flow)
{
    if (flow.waiting)
    {
        return;
    }
    std::uint32_t sendable = Sendable(flow);
    if (sendable == 0)
    {
        return;
    }
    HostQueue& queue = *m_hostQueues[flow.route->links[0]];
    if (queue.head == nullptr)
    {
        queue.Drain(m_now);
        while (sendable > 0 && queue.bytes < queue.limit)
        {
            Inject(flow, sendable);
            sendable = Sendable(flow);
        }
    }
    if (sendable > 0)
    {
        WaitForHostQueue(flow);
    }
}

void
PacketNetwork::WaitForHostQueue(Flow& flow)
{
    const LinkId link = flow.route->links[0];
    HostQueue& queue = *m_hostQueues[link];
    flow.waiting = true;
    flow.next = nullptr;
    (queue.head == nullptr ? queue.head : queue.tail->next) = &flow;
    queue.tail = &flow;
    if (queue.wakeTime == kNever)
    {
        ScheduleHostQueue(link);
    }
}

void
PacketNetwork::ScheduleHostQueue(LinkId link)
{
    // When half the room is free: the port never idles, and a wake-up serves several bursts.
    HostQueue& queue = *m_hostQueues[link];
    if (queue.limit == 0)
    {
        return; // closed; whoever opens it serves it
    }
    Bytes left = queue.bytes;
    for (const HostQueue::Burst& burst : queue.bursts)
    {
        left -= burst.bytes;
        queue.wakeTime = burst.departure;
        if (2 * left <= queue.limit)
        {
            break;
        }
    }
    m_events.Push({queue.wakeTime, Key(EventClass::HostQueue, link)});
}

void
PacketNetwork::ServeHostQueue(LinkId link)
{
    HostQueue& queue = *m_hostQueues[link];
    queue.Drain(m_now);
    // While a message is being served nobody may schedule another wake-up.
    queue.wakeTime = m_now;
    while (queue.head != nullptr && queue.bytes < queue.limit)
    {
        Flow& flow = *queue.head;
        queue.head = flow.next;
        flow.waiting = false;
        const std::uint32_t sendable = flow.over ? 0 : Sendable(flow);
        if (sendable > 0)
        {
            Inject(flow, sendable);
            if (Sendable(flow) > 0)
            {
                WaitForHostQueue(flow);
            }
        }
        FinishIfOver(flow);
    }
    queue.wakeTime = kNever;
    if (queue.head != nullptr)
    {
        ScheduleHostQueue(link);
    }
}

void
PacketNetwork::Inject(Flow& flow, std::uint32_t sendable)
{
    const std::uint32_t packets =
        std::min(sendable, flow.packets <= m_whole ? m_whole : m_ackEvery);
    SenderState& sender = flow.sender;
    if (sender.sent == sender.acked)
    {
        flow.lastProgress = m_now; // nothing was under way that could have been lost
    }
    const LinkId link = flow.route->links[0];
    const bool end = sender.sent + packets == flow.packets;
    const auto fullWire = static_cast<std::uint32_t>(WireBytes(m_payload));
    const std::uint32_t shorter = end && flow.lastWire != fullWire ? 1 : 0;
    // Every burst ends with a request for an acknowledgement: a window never waits for packets not asked for.
    Bytes bytes = 0;
    for (std::uint32_t part = 0; part < 2; ++part)
    {
        const std::uint32_t count = part == 0 ? packets - shorter : shorter;
        if (count == 0)
        {
            continue;
        }
        const std::uint32_t wire = part == 0 ? fullWire : flow.lastWire;
        const std::uint32_t sequence = sender.sent;
        sender.sent += count;
        bytes += Bytes{count} * wire;
        EnqueueData(flow, sequence, count, wire, part == 1 || shorter == 0);
    }
    NoteBurst(link, bytes);
    if (end && flow.message.queuePair != nullptr)
    {
        SentWhole(flow);
    }
}

void
PacketNetwork::NoteBurst(LinkId link, Bytes bytes)
{
    HostQueue& queue = *m_hostQueues[link];
    queue.bytes += bytes;
    queue.bursts.push_back({m_ports[link].free, bytes});
}

void
PacketNetwork::EnqueueData(Flow& flow,
                           std::uint32_t sequence,
                           std::uint32_t count,
                           std::uint32_t wire,
                           bool asks)
{
    Train* const train = NewTrain();
    train->flow = &flow;
    train->links = flow.route->links.data();
    train->hop = 0;
    train->flags = asks ? kAckRequest : 0;
    train->sequence = sequence;
    train->wire = wire;
    train->count = count;
    train->covered = 0;
    train->marked = 0;
    flow.live += count;
    EnqueueLocal(train->links[0], train);
}

void
PacketNetwork::SentWhole(Flow& flow)
{
    QueuePair& queuePair = *flow.message.queuePair;
    flow.message.queuePair = nullptr; // what is sent again keeps nobody waiting
    if (queuePair.last == &flow)
    {
        queuePair.last = nullptr;
    }
    if (flow.successor == nullptr)
    {
        return;
    }
    Flow& next = *flow.successor;
    flow.successor = nullptr;
    next.behind = false;
    if (!next.parked)
    {
        next.waiting = false;
        next.lastProgress = m_now;
        StartTimer(next);
        TrySend(next);
    }
}

void
PacketNetwork::EnqueueLocal(LinkId link, Train* train)
{
    Port& port = m_ports[link];
    if (port.dropAbove < 0)
    {
        // An acknowledgement without light; data waits in the host queue.
        CountLoss(link, *train, train->count, m_now);
        train->flow->live -= train->count;
        FreeTrain(train);
        return;
    }
    if (port.openUntil >= m_now)
    {
        CutOpenTrain(link);
    }
    const SimTime start = std::max(port.free, m_now);
    const SimTime transmission = port.TransmissionTime(train->wire);
    if (start - m_now > port.markAbove && (train->flags & kAck) == 0)
    {
        train->flags |= kMarked;
        port.counters.marks += train->count;
    }
    train->advanced = 0;
    train->upstream = nullptr;
    train->downstream = nullptr;
    train->joined = m_now;
    train->joinedGap = 0;
    train->gap = transmission;
    Append(link, train, start, transmission);
}

void
PacketNetwork::CountLoss(LinkId link, const Train& train, std::uint64_t packets, SimTime start)
{
    m_ports[link].counters.drops += packets;
    m_totals.drops += packets;
    LinkOutage& outage = m_status[link].outage;
    if (outage.state == LinkState::Dark)
    {
        outage.lostDark += packets;
        m_totals.lostDark += packets;
    }
    else if (outage.state == LinkState::Down)
    {
        outage.lostDown += packets;
        m_totals.lostDown += packets;
    }
    for (std::uint64_t k = 0; k < packets && !m_dropTrace.IsEmpty(); ++k)
    {
        m_dropTrace(link, train.flow->id, train.wire, start);
    }
}

void
PacketNetwork::ControlAt(SimTime time, std::uint64_t cookie, bool helps)
{
    time = std::max(time, m_now);
    m_helpDue = helps ? std::max(m_helpDue, time) : m_helpDue;
    m_events.Push({time, Key(EventClass::Control, cookie)});
}

LinkId
PacketNetwork::AddLink(const Link& link, LinkState state)
{
    const auto id = static_cast<LinkId>(m_links.size());
    m_links.push_back(link);
    m_ports.emplace_back();
    m_hostQueues.emplace_back();
    m_status.emplace_back();
    InitPort(id, link.src < m_servers);
    if (m_held && m_hostQueues[id] != nullptr)
    {
        m_hostQueues[id]->limit = 0;
    }
    SetLinkState(id, state);
    return id;
}

LinkOutage
PacketNetwork::Outage(LinkId link) const
{
    return m_status[link].outage;
}

void
PacketNetwork::SetLinkState(LinkId link, LinkState state)
{
    Status& status = m_status[link];
    LinkOutage& outage = status.outage;
    if (outage.state == state)
    {
        return;
    }
    const bool hadLight = outage.state == LinkState::Up;
    if (!hadLight)
    {
        outage.dark += m_now - outage.since;
    }
    outage.state = state;
    outage.since = m_now;
    if (state == LinkState::Up)
    {
        m_ports[link].dropAbove = status.buffer;
        OpenHostQueue(link);
    }
    else if (hadLight)
    {
        LoseTraffic(link);
        m_ports[link].dropAbove = -1;
        if (m_hostQueues[link] != nullptr)
        {
            HostQueue& queue = *m_hostQueues[link];
            queue.bursts.clear();
            queue.bytes = 0;
            queue.limit = 0;
            queue.wakeTime = kNever;
        }
    }
}

void
PacketNetwork::OpenHostQueue(LinkId link)
{
    if (m_hostQueues[link] != nullptr && !m_held && m_status[link].outage.state == LinkState::Up)
    {
        m_hostQueues[link]->limit = m_status[link].limit;
        ServeHostQueue(link);
    }
}

void
PacketNetwork::HoldSources(bool held)
{
    m_held = held;
    for (LinkId link = 0; link < m_hostQueues.size(); ++link)
    {
        if (held && m_hostQueues[link] != nullptr)
        {
            m_hostQueues[link]->limit = 0;
        }
        else if (!held)
        {
            OpenHostQueue(link);
        }
    }
}

void
PacketNetwork::LoseTraffic(LinkId link)
{
    Port& port = m_ports[link];
    if (port.openUntil >= m_now)
    {
        CutOpenTrain(link);
    }
    // Packets that were taken on ahead of time have not arrived yet; at most one train of a link has such.
    for (const Train* train : {port.retired, port.head})
    {
        if (train == nullptr || train->advanced == 0 || train->links[train->hop + 1] == kNoId)
        {
            continue;
        }
        const LinkId onward = train->links[train->hop + 1];
        const Port& next = m_ports[onward];
        if (next.openUntil >= m_now && next.last == train->downstream &&
            next.last->upstream == train)
        {
            CutOpenTrain(onward);
        }
    }
    // Those that have reached their receiver but were not counted one by one.
    if (port.head != nullptr && port.head->links[port.head->hop + 1] == kNoId)
    {
        ReceiveArrived(*port.head);
    }
    while (port.head != nullptr)
    {
        Train* const train = port.head;
        Flow& flow = *train->flow;
        PopHead(port);
        const SimTime transmission = port.TransmissionTime(train->wire);
        const std::uint32_t lost = train->count - train->advanced;
        // Packet k begins at first + k * gap; those that have not begun never were on the link.
        const SimTime first = train->arrival - port.delay - transmission;
        const SimTime begun = m_now > first ? (m_now - first + train->gap - 1) / train->gap : 0;
        const auto sent = static_cast<std::uint32_t>(
            std::clamp<SimTime>(begun - train->advanced, 0, SimTime{lost}));
        const std::uint32_t unsent = lost - sent;
        port.counters.packets -= unsent;
        port.counters.bytes -= Bytes{unsent} * train->wire;
        port.counters.busy -= unsent * transmission;
        if (sent > 0)
        {
            const SimTime lastEnds =
                first + (SimTime{train->advanced} + sent - 1) * train->gap + transmission;
            port.counters.busy -= std::max<SimTime>(0, lastEnds - m_now);
            if (lastEnds > m_now)
            {
                m_cutTrace(link, m_now, lastEnds);
            }
        }
        for (std::uint32_t k = sent; k < lost && !m_cutTrace.IsEmpty(); ++k)
        {
            const SimTime start = first + (SimTime{train->advanced} + k) * train->gap;
            m_cutTrace(link, start, start + transmission);
        }
        m_droppedWireHops += Bytes{sent} * train->wire * (train->hop + 1u) +
                             Bytes{unsent} * train->wire * train->hop;
        CountLoss(link, *train, lost, m_now);
        FreeTrain(train);
        flow.live -= lost;
        FinishIfOver(flow);
    }
    port.headTime = kNever;
    port.openUntil = -1;
    port.last = nullptr;
    port.free = std::min(port.free, m_now);
}

SimTime
PacketNetwork::BusyUntil() const
{
    SimTime until = m_now;
    for (const Port& port : m_ports)
    {
        if (port.tail != nullptr)
        {
            until = std::max(until, port.tail->arrival + (port.tail->count - 1) * port.tail->gap);
        }
    }
    return until;
}

std::vector<PacketNetwork::Flow*>
PacketNetwork::ActiveFlows() const
{
    std::vector<Flow*> flows;
    for (const auto& block : m_flowBlocks)
    {
        for (std::size_t k = 0; k < kBlock; ++k)
        {
            Flow& flow = block[k];
            if (!flow.over && flow.message.src != flow.message.dst)
            {
                flows.push_back(&flow);
            }
        }
    }
    std::sort(flows.begin(), flows.end(), [](const Flow* a, const Flow* b) {
        return a->id < b->id;
    });
    return flows;
}

std::vector<ActiveMessage>
PacketNetwork::Active() const
{
    std::vector<ActiveMessage> messages;
    for (const Flow* flow : ActiveFlows())
    {
        ActiveMessage active;
        active.record = RecordOf(*flow);
        active.unacknowledged =
            flow->message.bytes -
            std::min(flow->message.bytes, Bytes{flow->sender.acked} * m_payload);
        active.inNetwork = flow->live;
        for (const std::vector<LinkId>* links :
             {flow->route != nullptr ? &flow->route->links : nullptr,
              flow->route != nullptr ? &flow->route->back : nullptr})
        {
            for (std::size_t h = 0; links != nullptr && (*links)[h] != kNoId; ++h)
            {
                if (active.darkLink == kNoId && m_status[(*links)[h]].outage.state != LinkState::Up)
                {
                    active.darkLink = (*links)[h];
                }
            }
        }
        messages.push_back(active);
    }
    return messages;
}

void
PacketNetwork::Reroute(std::uint64_t id, std::uint32_t route)
{
    Reroute({{id, route}});
}

void
PacketNetwork::Reroute(const std::vector<std::pair<std::uint64_t, std::uint32_t>>& routes)
{
    const std::vector<Flow*> flows = ActiveFlows();
    for (const auto& [id, route] : routes)
    {
        const auto at = std::lower_bound(
            flows.begin(),
            flows.end(),
            id,
            [](const Flow* flow, std::uint64_t wanted) { return flow->id < wanted; });
        if (at != flows.end() && (*at)->id == id && (*at)->message.route != route)
        {
            MoveFlow(**at, route);
        }
    }
}

void
PacketNetwork::LeaveHostQueue(Flow& flow)
{
    HostQueue& queue = *m_hostQueues[flow.route->links[0]];
    Flow* before = nullptr;
    for (Flow* at = queue.head; at != &flow; at = at->next)
    {
        before = at;
    }
    (before == nullptr ? queue.head : before->next) = flow.next;
    queue.tail = queue.tail == &flow ? before : queue.tail;
    flow.waiting = false;
}

void
PacketNetwork::MoveFlow(Flow& flow, std::uint32_t number)
{
    const bool wasParked = flow.parked;
    if (wasParked)
    {
        flow.parked = false;
        flow.waiting = flow.behind;
    }
    else if (flow.waiting && !flow.behind)
    {
        LeaveHostQueue(flow);
    }
    if (flow.live > 0 && !flow.reordered)
    {
        // From now on another packet may overtake those under way, so each is counted when it comes.
        const LinkId last = flow.route->links[flow.route->hops - 1];
        Port& port = m_ports[last];
        if (port.head != nullptr && port.head->flow == &flow)
        {
            Train* const train = port.head;
            ReceiveArrived(*train);
            if (train->advanced == train->count)
            {
                PopHead(port);
                FreeTrain(train);
            }
        }
        flow.reordered = true;
        if (port.head != nullptr && port.head->flow == &flow)
        {
            port.headTime = FirstArrival(port);
            m_events.Push({port.headTime, Key(EventClass::Arrival, last)});
        }
    }
    SenderState& sender = flow.sender;
    flow.retransmits += sender.sent - sender.acked;
    sender.sent = sender.acked;
    flow.message.route = number;
    if (number == kParked)
    {
        flow.parked = true;
        flow.waiting = true;
        if (!wasParked && !flow.behind)
        {
            StopTimer(flow); // as long as nothing can be sent it costs nothing
        }
        return;
    }
    if (wasParked && !flow.behind)
    {
        StartTimer(flow);
    }
    flow.route = m_routes[number].get();
    flow.ideal = std::min(flow.ideal, Ideal(number, flow.message.bytes));
    sender.cap = flow.route->cap;
    sender.window = flow.route->window;
    m_config.control->Start(sender);
    flow.timeouts = 0;
    flow.lastProgress = m_now;
    TrySend(flow);
}

MessageRecord
PacketNetwork::RecordOf(const Flow& flow) const
{
    MessageRecord record;
    record.id = flow.id;
    record.message = flow.message;
    record.start = flow.start;
    record.end = flow.end;
    record.acknowledged = flow.acknowledged;
    record.ideal = flow.ideal != kNever ? flow.ideal : 0;
    record.retransmits = flow.retransmits;
    record.delivered = flow.end != kNever ? flow.message.bytes
                                          : std::min(flow.message.bytes, flow.expected * m_payload);
    if (flow.route != nullptr)
    {
        record.hops = flow.route->hops;
        record.sourceLink = flow.route->links[0];
        record.path = flow.route->links.data();
    }
    return record;
}

NetworkTotals
PacketNetwork::Totals() const
{
    NetworkTotals totals = m_totals;
    totals.unfinished = m_unfinished;
    for (const Port& port : m_ports)
    {
        totals.wireBytes += port.counters.bytes;
        totals.packetHops += port.counters.packets;
    }
    return totals;
}

std::vector<LinkCounters>
PacketNetwork::Links() const
{
    std::vector<LinkCounters> counters;
    counters.reserve(m_ports.size());
    for (const Port& port : m_ports)
    {
        counters.push_back(port.counters);
    }
    return counters;
}

std::vector<MessageRecord>
PacketNetwork::Unfinished() const
{
    std::vector<MessageRecord> records;
    for (const auto& block : m_flowBlocks)
    {
        for (std::size_t k = 0; k < kBlock; ++k)
        {
            if (!block[k].over)
            {
                records.push_back(RecordOf(block[k]));
            }
        }
    }
    std::sort(records.begin(), records.end(), [](const MessageRecord& a, const MessageRecord& b) {
        return a.id < b.id;
    });
    return records;
}

std::vector<std::string>
PacketNetwork::CheckPhysics() const
{
    std::vector<std::string> violations = m_violations;
    const NetworkTotals totals = Totals();
    if (m_unfinished == 0)
    {
        if (totals.askedBytes != totals.deliveredBytes)
        {
            violations.push_back("delivered " + std::to_string(totals.deliveredBytes) +
                                 " B of payload, asked for " + std::to_string(totals.askedBytes) +
                                 " B");
        }
    }
    const Bytes accounted = m_arrivedWireHops + m_droppedWireHops + m_inFlightWireHops;
    if (totals.wireBytes != accounted)
    {
        violations.push_back("links carried " + std::to_string(totals.wireBytes) +
                             " B, packets account for " + std::to_string(accounted) + " B");
    }
    for (LinkId link = 0; link < m_ports.size(); ++link)
    {
        const Port& port = m_ports[link];
        const std::string name = "link " + std::to_string(link);
        if (port.counters.busy > port.free)
        {
            violations.push_back(name + " was busy for " + std::to_string(port.counters.busy) +
                                 " ps until " + std::to_string(port.free) + " ps");
        }
        const SimTime buffer = m_status[link].buffer;
        if (m_hostQueues[link] == nullptr && port.counters.maxBacklog > buffer)
        {
            violations.push_back(name + " queued " + std::to_string(port.counters.maxBacklog) +
                                 " ps, its buffer holds " + std::to_string(buffer) + " ps");
        }
    }
    return violations;
}

} // namespace topoopt
