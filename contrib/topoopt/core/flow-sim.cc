// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/flow-sim.h"

#include "topoopt/core/error.h"
#include "topoopt/core/max-min.h"
#include "topoopt/core/random.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <queue>
#include <set>
#include <utility>

namespace topoopt
{

FlowWire
FlowWire::Roce(Bytes mtu)
{
    FlowWire wire;
    wire.payload = mtu > 44 ? mtu - 44 : 1;
    return wire;
}

FlowWire
FlowWire::FlexNet()
{
    FlowWire wire;
    wire.payload = 8936;
    wire.overhead = 0;
    wire.wholePackets = true;
    wire.setup = 1;
    wire.window = 100 * 8936;
    return wire;
}

Bytes
FlowWire::OnWire(Bytes bytes) const
{
    const Bytes packets = std::max<Bytes>(1, (bytes + payload - 1) / payload);
    const Bytes data = wholePackets ? packets * payload : bytes;
    return data + packets * overhead;
}

namespace
{

/** Merges repeated links of some paths. */
std::vector<LinkUse>
UsesOf(std::vector<LinkId> links)
{
    std::sort(links.begin(), links.end());
    std::vector<LinkUse> uses;
    for (const LinkId link : links)
    {
        if (!uses.empty() && uses.back().link == link)
        {
            ++uses.back().times;
        }
        else
        {
            uses.push_back({link, 1});
        }
    }
    return uses;
}

class FluidRun
{
  public:
    FluidRun(const TaskGraph& graph, const Fabric& fabric, const FlowSimOptions& options)
        : m_graph(graph),
          m_fabric(fabric),
          m_options(options),
          m_servers(options.ranksToServers),
          m_choice(options.collectives == nullptr ? m_defaults : *options.collectives),
          m_rates(Capacities(fabric.topology)),
          m_waiting(graph.PredecessorCounts()),
          m_ranks(graph.ranks),
          m_groups(graph.groups.size()),
          m_calls(graph.collectives.size()),
          m_arrived(graph.transfers.size(), false),
          m_receiver(graph.transfers.size(), kNoId),
          m_sender(graph.transfers.size(), kNoId)
    {
        if (m_servers.empty())
        {
            const std::uint32_t servers = fabric.topology.servers;
            const std::uint32_t each = servers == 0 ? 0 : (graph.ranks + servers - 1) / servers;
            for (RankId rank = 0; rank < graph.ranks; ++rank)
            {
                m_servers.push_back(rank / std::max(1U, each));
            }
        }
        if (m_servers.size() < graph.ranks)
        {
            throw SpecError("flow simulation",
                            "found " + std::to_string(graph.ranks) + " ranks but places for " +
                                std::to_string(m_servers.size()));
        }
        for (const ServerId server : m_servers)
        {
            if (server >= fabric.topology.servers)
            {
                throw SpecError("flow simulation",
                                "found a rank on server " + std::to_string(server) +
                                    ", expected 0.." + std::to_string(fabric.topology.servers) +
                                    " exclusive");
            }
        }
        m_result.taskEnd.assign(graph.tasks.size(), kNever);
        m_result.linkBytes.assign(fabric.topology.links.size(), 0.0);
    }

    FlowSimResult Run()
    {
        const auto count = static_cast<TaskId>(m_graph.tasks.size());
        for (TaskId id = 0; id < count; ++id)
        {
            if (m_waiting[id] == 0)
            {
                Ready(id);
            }
        }
        // Rates before anything ends.
        StartCompute();
        ScheduleSolve();
        while (!m_events.empty())
        {
            if (m_options.interrupt != nullptr && m_options.interrupt->load())
            {
                break;
            }
            const SimTime time = m_events.top().time;
            if (time > m_options.stop)
            {
                break;
            }
            m_now = time;
            bool solve = false;
            // Everything that happens now, then new rates once.
            while (!m_events.empty() && m_events.top().time == time)
            {
                const Event event = m_events.top();
                m_events.pop();
                ++m_result.events;
                switch (event.kind)
                {
                case EventKind::Compute:
                    m_ranks[m_graph.tasks[event.id].rank].busy = false;
                    m_idle.insert(m_graph.tasks[event.id].rank);
                    End(event.id);
                    break;
                case EventKind::Task:
                    if (event.version == 1)
                    {
                        Execute(event.id);
                    }
                    else
                    {
                        End(event.id);
                    }
                    break;
                case EventKind::FlowDrained:
                    if (m_flows[event.id].version == event.version)
                    {
                        Drained(event.id);
                    }
                    break;
                case EventKind::FlowDelivered:
                    Delivered(event.id);
                    break;
                case EventKind::Solve:
                    m_solveAt = kNever;
                    solve = true;
                    break;
                }
                StartCompute();
            }
            if (solve)
            {
                Solve();
            }
            ScheduleSolve();
        }
        Finish();
        return std::move(m_result);
    }

  private:
    enum class EventKind : std::uint8_t
    {
        Compute,
        Task,
        FlowDrained,
        FlowDelivered,
        Solve
    };

    struct Event
    {
        SimTime time;
        EventKind kind;
        std::uint32_t id;
        std::uint32_t version;

        bool operator<(const Event& other) const // the queue wants the largest on top
        {
            if (time != other.time)
            {
                return time > other.time;
            }
            return kind != other.kind ? kind > other.kind : id > other.id;
        }
    };

    struct RankState
    {
        std::set<std::pair<SimTime, TaskId>> ready; ///< compute tasks by (ready time, number)
        bool busy = false;
    };

    /** A flow under way. */
    struct Flow
    {
        MaxMin::FlowId share = kNoId;
        std::vector<LinkUse> uses;
        double left = 0; ///< bytes on the wire
        double total = 0;
        double rate = 0;     ///< bytes per ps
        SimTime since = 0;   ///< when `left` was true
        SimTime latency = 0; ///< after the last byte has left
        std::uint32_t version = 0;
        // What it is for.
        std::uint32_t transfer = kNoId;
        std::uint32_t collective = kNoId;
        std::uint32_t channel = 0;
        std::uint32_t member = kNoId; ///< receiver; kNoId = a ring as one flow
        std::uint32_t step = 0;
        std::uint32_t record = kNoId;
        std::uint32_t records = 0;
    };

    /** A ring over the members of a group, as a flow. */
    struct RingFlow
    {
        Ring ring;
        std::vector<LinkUse> uses;
        SimTime latency = 0; ///< of the slowest step, without its chunk's own transmission
        double rate = 0;     ///< bytes per ps of the slowest link
        std::uint32_t maxHops = 0;
        std::vector<std::uint32_t> hops;
    };

    struct GroupState
    {
        std::vector<ServerId> servers;
        std::vector<RingFlow> rings;
        bool ringsKnown = false;
    };

    struct ChannelState
    {
        std::uint32_t step = 0;
        std::uint32_t expected = 0;
        bool entered = false;
        std::vector<std::uint32_t> received;
    };

    struct CallState
    {
        std::uint32_t arrived = 0;
        std::uint32_t ringsLeft = 0;
        std::vector<TaskId> tasks; ///< by member
        std::unique_ptr<CollectiveProgram> program;
        std::unique_ptr<CollectiveContext> context;
        std::vector<ChannelState> channels; ///< [member * channels + channel]
        std::vector<std::uint32_t> channelsLeft;
    };

    static std::vector<double> Capacities(const Topology& topology)
    {
        std::vector<double> out;
        for (const Link& link : topology.links)
        {
            out.push_back(static_cast<double>(link.rate.bps) / 8e12);
        }
        return out;
    }

    [[nodiscard]] double LinkRate(LinkId link) const
    {
        return static_cast<double>(m_fabric.topology.links[link].rate.bps) / 8e12;
    }

    // ---- tasks

    void Ready(TaskId id)
    {
        const Task& task = m_graph.tasks[id];
        const SimTime at = std::max(m_now, task.notBefore);
        if (at > m_now)
        {
            m_events.push({at, EventKind::Task, id, 1});
            return;
        }
        Execute(id);
    }

    void Execute(TaskId id)
    {
        const Task& task = m_graph.tasks[id];
        switch (task.kind)
        {
        case TaskKind::Compute:
            m_ranks[task.rank].ready.emplace(m_now, id);
            m_idle.insert(task.rank);
            break;
        case TaskKind::Join:
            m_events.push({m_now + task.duration, EventKind::Task, id, 0});
            break;
        case TaskKind::Collective:
            Join(id);
            break;
        case TaskKind::Send:
        case TaskKind::Transfer:
            m_sender[task.object] = id;
            SendTransfer(task.object);
            if (task.kind == TaskKind::Send)
            {
                m_events.push({m_now, EventKind::Task, id, 0});
            }
            break;
        case TaskKind::Recv:
            m_receiver[task.object] = id;
            if (m_arrived[task.object])
            {
                m_events.push({m_now, EventKind::Task, id, 0});
            }
            break;
        }
    }

    void End(TaskId id)
    {
        m_result.taskEnd[id] = m_now;
        for (const TaskId* s = m_graph.SuccessorsBegin(id); s != m_graph.SuccessorsEnd(id); ++s)
        {
            if (--m_waiting[*s] == 0)
            {
                Ready(*s);
            }
        }
    }

    void StartCompute()
    {
        // Ascending by rank; nothing here makes another rank idle.
        for (const RankId rank : m_idle)
        {
            RankState& state = m_ranks[rank];
            if (!state.busy && !state.ready.empty())
            {
                const TaskId id = state.ready.begin()->second;
                state.ready.erase(state.ready.begin());
                state.busy = true;
                m_events.push({m_now + m_graph.tasks[id].duration, EventKind::Compute, id, 0});
            }
        }
        m_idle.clear();
    }

    // ---- flows

    std::uint32_t NewFlow()
    {
        if (m_freeFlows.empty())
        {
            m_flows.emplace_back();
            return static_cast<std::uint32_t>(m_flows.size() - 1);
        }
        const std::uint32_t id = m_freeFlows.back();
        m_freeFlows.pop_back();
        const std::uint32_t version = m_flows[id].version;
        m_flows[id] = Flow();
        m_flows[id].version = version + 1;
        return id;
    }

    void Begin(std::uint32_t id, double weight, double cap)
    {
        Flow& flow = m_flows[id];
        flow.since = m_now;
        flow.total = flow.left;
        flow.share = m_rates.Add(flow.uses, weight, cap);
        if (flow.share >= m_flowOfShare.size())
        {
            m_flowOfShare.resize(flow.share + 1, kNoId);
        }
        m_flowOfShare[flow.share] = id;
    }

    std::uint32_t Record(const FlowRecord& record)
    {
        if (!m_options.recordFlows)
        {
            return kNoId;
        }
        m_result.flows.push_back(record);
        return static_cast<std::uint32_t>(m_result.flows.size() - 1);
    }

    /**
     * One message between servers along @p path, or inside a server if it is empty.
     * What it is for is filled in by the caller before.
     */
    void Message(std::uint32_t id, ServerId src, ServerId dst, const Path& path, Bytes bytes)
    {
        Flow& flow = m_flows[id];
        FlowRecord record;
        record.collective = flow.collective;
        record.transfer = flow.transfer;
        record.src = src;
        record.dst = dst;
        record.hops = static_cast<std::uint32_t>(path.size());
        record.bytes = bytes;
        record.start = m_now;
        flow.record = Record(record);
        flow.records = 1;
        if (path.empty())
        {
            const SimTime time =
                m_options.intraRate.bps == 0 ? 0 : TxTime(bytes, m_options.intraRate);
            m_events.push({m_now + time, EventKind::FlowDelivered, id, 0});
            return;
        }
        const Bytes wire = m_options.wire.OnWire(bytes);
        flow.left = static_cast<double>(wire);
        flow.uses = UsesOf(path);
        flow.latency = Latency(path, std::min(bytes, m_options.wire.payload));
        double line = std::numeric_limits<double>::infinity();
        for (const LinkId link : path)
        {
            line = std::min(line, LinkRate(link));
        }
        Begin(id, static_cast<double>(std::min(wire, m_options.wire.window)), line);
    }

    /** Propagation, the last packet's store and forward behind the first hop, and the setup's trip. */
    [[nodiscard]] SimTime Latency(const Path& path, Bytes lastPacket) const
    {
        SimTime time = 0;
        const Bytes packet = m_options.wire.OnWire(
            m_options.wire.wholePackets ? m_options.wire.payload : lastPacket);
        for (std::size_t h = 0; h < path.size(); ++h)
        {
            const Link& link = m_fabric.topology.links[path[h]];
            time += link.delay + (h == 0 ? 0 : TxTime(packet, link.rate));
            if (m_options.wire.setup > 0)
            {
                time += link.delay + TxTime(m_options.wire.setup, link.rate);
            }
        }
        return time;
    }

    /** Solve now, or as soon as the quantum allows. */
    void ScheduleSolve()
    {
        if (m_rates.Dirty() && m_solveAt == kNever)
        {
            m_solveAt =
                m_lastSolve == kNever ? m_now : std::max(m_now, m_lastSolve + m_options.quantum);
            m_events.push({m_solveAt, EventKind::Solve, 0, 0});
        }
    }

    void Solve()
    {
        ++m_result.solves;
        m_lastSolve = m_now;
        for (const MaxMin::FlowId share : m_rates.Solve())
        {
            const std::uint32_t id = m_flowOfShare[share];
            Flow& flow = m_flows[id];
            flow.left =
                std::max(0.0, flow.left - flow.rate * static_cast<double>(m_now - flow.since));
            flow.since = m_now;
            flow.rate = m_rates.Rate(share);
            ++flow.version;
            const double time = flow.left / flow.rate;
            if (!(time < 9e18))
            {
                throw SpecError("flow simulation", "found a flow that can never end");
            }
            m_events.push({m_now + static_cast<SimTime>(std::ceil(time - 1e-6)),
                           EventKind::FlowDrained,
                           id,
                           flow.version});
        }
    }

    void Drained(std::uint32_t id)
    {
        Flow& flow = m_flows[id];
        ++flow.version;
        for (const LinkUse& use : flow.uses)
        {
            m_result.linkBytes[use.link] += flow.total * use.times;
        }
        m_rates.Remove(flow.share);
        m_flowOfShare[flow.share] = kNoId;
        m_events.push({m_now + flow.latency, EventKind::FlowDelivered, id, 0});
    }

    void Delivered(std::uint32_t id)
    {
        const Flow flow = m_flows[id];
        m_freeFlows.push_back(id);
        for (std::uint32_t r = 0; r < flow.records && flow.record != kNoId; ++r)
        {
            m_result.flows[flow.record + r].end = m_now;
        }
        if (flow.transfer != kNoId)
        {
            m_arrived[flow.transfer] = true;
            const TaskId sender = m_sender[flow.transfer];
            if (m_graph.tasks[sender].kind == TaskKind::Transfer)
            {
                End(sender);
            }
            if (m_receiver[flow.transfer] != kNoId)
            {
                End(m_receiver[flow.transfer]);
            }
            return;
        }
        CallState& call = m_calls[flow.collective];
        if (flow.member == kNoId)
        {
            if (--call.ringsLeft == 0)
            {
                EndCall(flow.collective);
            }
            return;
        }
        const std::uint32_t channels = call.program->Channels();
        ChannelState& state = call.channels[std::size_t{flow.member} * channels + flow.channel];
        if (state.received.size() <= flow.step)
        {
            state.received.resize(flow.step + 1, 0);
        }
        ++state.received[flow.step];
        Advance(flow.collective, flow.channel, flow.member);
    }

    void SendTransfer(std::uint32_t object)
    {
        const TransferCall& call = m_graph.transfers[object];
        const ServerId src = m_servers[call.src];
        const ServerId dst = m_servers[call.dst];
        const std::uint32_t id = NewFlow();
        m_flows[id].transfer = object;
        const Path path = src == dst ? Path{} : m_fabric.router->Route(src, dst, Mix64(1, object));
        Message(id, src, dst, path, call.bytes);
    }

    // ---- collectives

    GroupState& Group(std::uint32_t index)
    {
        GroupState& group = m_groups[index];
        if (group.servers.empty())
        {
            for (const RankId rank : m_graph.groups[index].members)
            {
                group.servers.push_back(m_servers[rank]);
            }
        }
        return group;
    }

    void Join(TaskId id)
    {
        const Task& task = m_graph.tasks[id];
        const CollectiveCall& call = m_graph.collectives[task.object];
        CallState& state = m_calls[task.object];
        const std::size_t n = m_graph.groups[call.group].members.size();
        if (state.tasks.empty())
        {
            state.tasks.assign(n, kNoId);
        }
        state.tasks[task.member] = id;
        ++state.arrived;
        if (n == 1)
        {
            m_events.push({m_now, EventKind::Task, id, 0});
            return;
        }
        const bool ring =
            std::strcmp(m_choice.NameFor(call.kind), "ring") == 0 &&
            (call.kind == CollectiveKind::AllReduce || call.kind == CollectiveKind::AllGather ||
             call.kind == CollectiveKind::ReduceScatter);
        if (ring && m_options.ringsAsFlows)
        {
            if (state.arrived == n)
            {
                StartRings(task.object);
            }
            return;
        }
        StartProgram(task.object, task.member);
    }

    void EndCall(std::uint32_t object)
    {
        const std::vector<TaskId> tasks = m_calls[object].tasks;
        for (const TaskId id : tasks)
        {
            End(id);
        }
    }

    const std::vector<RingFlow>& Rings(std::uint32_t index)
    {
        GroupState& group = Group(index);
        if (group.ringsKnown)
        {
            return group.rings;
        }
        group.ringsKnown = true;
        for (Ring& ring : MemberRings(m_fabric, group.servers))
        {
            RingFlow flow;
            std::vector<LinkId> links;
            flow.rate = std::numeric_limits<double>::infinity();
            for (std::size_t k = 0; k < ring.order.size(); ++k)
            {
                const ServerId src = group.servers[ring.order[k]];
                const ServerId dst = group.servers[ring.order[(k + 1) % ring.order.size()]];
                Path path;
                if (src != dst)
                {
                    path = ring.hops.empty() || ring.hops[k].empty()
                               ? m_fabric.router->Route(src, dst, Mix64(2, index))
                               : ring.hops[k];
                }
                flow.hops.push_back(static_cast<std::uint32_t>(path.size()));
                flow.maxHops = std::max(flow.maxHops, flow.hops.back());
                for (const LinkId link : path)
                {
                    links.push_back(link);
                    flow.rate = std::min(flow.rate, LinkRate(link));
                }
                flow.latency = std::max(flow.latency, Latency(path, m_options.wire.payload));
            }
            flow.uses = UsesOf(links);
            flow.ring = std::move(ring);
            group.rings.push_back(std::move(flow));
        }
        return group.rings;
    }

    void StartRings(std::uint32_t object)
    {
        const CollectiveCall& call = m_graph.collectives[object];
        const auto n = static_cast<std::uint32_t>(m_graph.groups[call.group].members.size());
        const std::vector<RingFlow>& rings = Rings(call.group);
        const std::vector<ServerId>& servers = Group(call.group).servers;
        CallState& state = m_calls[object];
        state.ringsLeft = static_cast<std::uint32_t>(rings.size());
        const std::uint32_t steps = call.kind == CollectiveKind::AllReduce ? 2 * (n - 1) : n - 1;
        for (std::uint32_t r = 0; r < rings.size(); ++r)
        {
            const RingFlow& ring = rings[r];
            const Bytes part =
                PartOf(call.bytes, static_cast<std::uint32_t>(rings.size()), r, call.elementBytes);
            // The largest chunk sets the pace.
            const Bytes chunk = call.kind == CollectiveKind::AllGather
                                    ? part
                                    : PartOf(part, n, 0, call.elementBytes);
            const auto wire = static_cast<double>(m_options.wire.OnWire(chunk));
            const std::uint32_t id = NewFlow();
            Flow& flow = m_flows[id];
            flow.collective = object;
            flow.records = 0;
            for (std::uint32_t k = 0; k < n && m_options.recordFlows; ++k)
            {
                FlowRecord record;
                record.collective = object;
                record.src = servers[ring.ring.order[k]];
                record.dst = servers[ring.ring.order[(k + 1) % n]];
                record.hops = ring.hops[k];
                record.messages = steps;
                record.bytes = chunk * steps;
                record.start = m_now;
                const std::uint32_t at = Record(record);
                flow.record = flow.records++ == 0 ? at : flow.record;
            }
            if (ring.uses.empty())
            {
                const SimTime time =
                    m_options.intraRate.bps == 0 ? 0 : TxTime(chunk, m_options.intraRate) * steps;
                m_events.push({m_now + time, EventKind::FlowDelivered, id, 0});
                continue;
            }
            flow.uses = ring.uses;
            flow.left = wire * steps;
            const double cap = wire / (wire / ring.rate + static_cast<double>(ring.latency));
            Begin(id,
                  std::min(wire, static_cast<double>(m_options.wire.window)),
                  std::max(cap, 1e-12));
        }
    }

    void StartProgram(std::uint32_t object, std::uint32_t member)
    {
        CallState& state = m_calls[object];
        if (!state.program)
        {
            const CollectiveCall& call = m_graph.collectives[object];
            state.context = std::make_unique<CollectiveContext>();
            state.context->call = &call;
            state.context->servers = Group(call.group).servers;
            state.context->fabric = &m_fabric;
            state.program = m_choice.Build(*state.context);
            const std::size_t n = state.context->servers.size();
            state.channels.resize(n * state.program->Channels());
            state.channelsLeft.assign(n, state.program->Channels());
        }
        for (std::uint32_t c = 0; c < state.program->Channels(); ++c)
        {
            Enter(object, c, member);
            Advance(object, c, member);
        }
    }

    /** Enters the current step of a channel: its messages go out. */
    void Enter(std::uint32_t object, std::uint32_t channel, std::uint32_t member)
    {
        CallState& state = m_calls[object];
        const std::uint32_t channels = state.program->Channels();
        ChannelState& at = state.channels[std::size_t{member} * channels + channel];
        at.entered = true;
        if (at.step >= state.program->Steps(channel, member))
        {
            return;
        }
        std::vector<CollectiveSend> sends;
        at.expected = state.program->Step(channel, member, at.step, sends);
        for (const CollectiveSend& send : sends)
        {
            const ServerId src = state.context->servers[member];
            const ServerId dst = state.context->servers[send.peer];
            const std::uint32_t id = NewFlow();
            Flow& flow = m_flows[id];
            flow.collective = object;
            flow.channel = channel;
            flow.member = send.peer;
            flow.step = send.peerStep;
            Path path;
            if (src != dst)
            {
                path = send.path != nullptr ? *send.path
                                            : m_fabric.router->Route(src, dst, Mix64(3, object));
            }
            Message(id, src, dst, path, send.bytes);
        }
    }

    /** Leaves steps whose messages have all arrived. */
    void Advance(std::uint32_t object, std::uint32_t channel, std::uint32_t member)
    {
        CallState& state = m_calls[object];
        const std::uint32_t channels = state.program->Channels();
        const std::size_t index = std::size_t{member} * channels + channel;
        if (!state.channels[index].entered)
        {
            return;
        }
        const std::uint32_t steps = state.program->Steps(channel, member);
        for (;;)
        {
            ChannelState& at = state.channels[index];
            if (at.step >= steps)
            {
                break;
            }
            const std::uint32_t have = at.step < at.received.size() ? at.received[at.step] : 0;
            if (have < at.expected)
            {
                return;
            }
            ++at.step;
            Enter(object, channel, member);
        }
        // This channel has ended; once.
        state.channels[index].entered = false;
        if (--state.channelsLeft[member] == 0)
        {
            m_events.push({m_now, EventKind::Task, state.tasks[member], 0});
        }
    }

    void Finish()
    {
        m_result.complete = true;
        for (const SimTime end : m_result.taskEnd)
        {
            if (end == kNever)
            {
                m_result.complete = false;
            }
            else
            {
                m_result.finish = std::max(m_result.finish, end);
            }
        }
        SimTime before = 0;
        for (const TaskId id : m_graph.iterationEnds)
        {
            if (m_result.taskEnd[id] == kNever)
            {
                break;
            }
            m_result.iterations.push_back(m_result.taskEnd[id] - before);
            before = m_result.taskEnd[id];
        }
        if (m_graph.iterationEnds.empty() && m_result.complete)
        {
            m_result.iterations.push_back(m_result.finish);
        }
    }

    const TaskGraph& m_graph;
    const Fabric& m_fabric;
    const FlowSimOptions& m_options;
    std::vector<ServerId> m_servers;
    CollectiveChoice m_defaults;
    const CollectiveChoice& m_choice;
    MaxMin m_rates;
    std::vector<std::uint32_t> m_waiting;
    std::vector<RankState> m_ranks;
    std::set<RankId> m_idle; ///< ranks to look at
    std::vector<GroupState> m_groups;
    std::vector<CallState> m_calls;
    std::vector<bool> m_arrived;
    std::vector<TaskId> m_receiver;
    std::vector<TaskId> m_sender;
    std::vector<Flow> m_flows;
    std::vector<std::uint32_t> m_freeFlows;
    std::vector<std::uint32_t> m_flowOfShare;
    std::priority_queue<Event> m_events;
    SimTime m_now = 0;
    SimTime m_solveAt = kNever;
    SimTime m_lastSolve = kNever;
    FlowSimResult m_result;
};

} // namespace

FlowSimResult
SimulateFlows(const TaskGraph& graph, const Fabric& fabric, const FlowSimOptions& options)
{
    return FluidRun(graph, fabric, options).Run();
}

} // namespace topoopt
