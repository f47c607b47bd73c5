// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/flow-sim.h"

#include "topoopt/core/drain-queue.h"
#include "topoopt/core/error.h"
#include "topoopt/core/max-min.h"
#include "topoopt/core/random.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
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
    wire.barrier = true;
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

} // namespace

class FlowSimulation::Engine
{
  public:
    struct Job;

  private:
    enum class EventKind : std::uint8_t
    {
        Compute,
        Task,
        FlowDelivered,
        Solve
    };

    struct Event
    {
        SimTime time;
        EventKind kind;
        std::uint32_t job;
        std::uint32_t id;
        bool begins; ///< of a task: it may begin; else it ends

        bool operator<(const Event& other) const // the queue wants the largest on top
        {
            if (time != other.time)
            {
                return time > other.time;
            }
            if (kind != other.kind)
            {
                return kind > other.kind;
            }
            return job != other.job ? job > other.job : id > other.id;
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
        // What it is for.
        std::uint32_t job = 0;
        std::uint32_t transfer = kNoId;
        std::uint32_t collective = kNoId;
        std::uint32_t channel = 0;
        std::uint32_t member = kNoId; ///< receiver; kNoId = a ring as one flow
        std::uint32_t step = 0;
        std::uint32_t record = kNoId;
        std::uint32_t records = 0;
        std::vector<FlowRecord> own; ///< those that are told and not kept
    };

    /** A ring over the members of a group, as a flow. */
    struct RingFlow
    {
        Ring ring;
        std::vector<LinkUse> uses;
        // Latencies without the chunks' own transmissions: of the slowest step, and of n - 1 and of
        // 2 (n - 1) steps that follow each other round the ring.
        SimTime slowest = 0;
        SimTime onceRound = 0;
        SimTime twiceRound = 0;
        double rate = 0; ///< bytes per ps of the slowest link
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

  public:
    Engine(const Fabric& fabric, const FlowSimOptions& options)
        : m_fabric(fabric),
          m_options(options),
          m_choice(options.collectives == nullptr ? m_defaults : *options.collectives),
          m_rates(Capacities(fabric.topology)),
          m_linkBytes(fabric.topology.links.size(), 0.0)
    {
    }

    std::uint32_t Start(const TaskGraph& graph,
                        std::vector<ServerId> servers,
                        std::uint32_t iterations)
    {
        if (servers.empty())
        {
            const std::uint32_t count = m_fabric.topology.servers;
            const std::uint32_t each = count == 0 ? 0 : (graph.ranks + count - 1) / count;
            for (RankId rank = 0; rank < graph.ranks; ++rank)
            {
                servers.push_back(rank / std::max(1U, each));
            }
        }
        if (servers.size() < graph.ranks)
        {
            throw SpecError("flow simulation",
                            "found " + std::to_string(graph.ranks) + " ranks but places for " +
                                std::to_string(servers.size()));
        }
        for (const ServerId server : servers)
        {
            if (server >= m_fabric.topology.servers)
            {
                throw SpecError("flow simulation",
                                "found a rank on server " + std::to_string(server) +
                                    ", expected 0.." + std::to_string(m_fabric.topology.servers) +
                                    " exclusive");
            }
        }
        const auto number = static_cast<std::uint32_t>(m_jobs.size());
        m_jobs.push_back(std::make_unique<Job>(graph, std::move(servers), number, iterations));
        BeginIteration(*m_jobs.back());
        EndIterations();
        // Rates before anything ends.
        StartCompute();
        ScheduleSolve();
        return number;
    }

    std::vector<std::uint32_t> Run(SimTime until)
    {
        while (m_ended.empty() && NextTime() <= until && !NothingLeft())
        {
            if (m_options.interrupt != nullptr && m_options.interrupt->load())
            {
                return {};
            }
            const SimTime time = NextTime();
            m_now = time;
            bool solve = false;
            // Everything that happens now, then new rates once.
            while (!NothingLeft() && NextTime() == time)
            {
                ++m_eventCount;
                if (DrainsNext())
                {
                    const std::uint32_t flow = m_drains.Top().flow;
                    m_drains.Pop();
                    Drained(flow);
                }
                else
                {
                    const Event event = m_events.top();
                    m_events.pop();
                    Handle(event, solve);
                }
                EndIterations();
                StartCompute();
            }
            if (solve)
            {
                Solve();
            }
            ScheduleSolve();
        }
        if (m_ended.empty() && until != kNever)
        {
            m_now = std::max(m_now, until);
        }
        return std::exchange(m_ended, {});
    }

    [[nodiscard]] SimTime Now() const
    {
        return m_now;
    }

    [[nodiscard]] bool Idle() const
    {
        return NothingLeft() && m_ended.empty();
    }

    /** A job; its arrays are gone once it is over. */
    struct Job
    {
        Job(const TaskGraph& itsGraph,
            std::vector<ServerId> itsServers,
            std::uint32_t itsNumber,
            std::uint32_t itsIterations)
            : graph(itsGraph),
              servers(std::move(itsServers)),
              number(itsNumber),
              iterations(itsIterations),
              ranks(graph.ranks),
              groups(graph.groups.size())
        {
        }

        const TaskGraph& graph;
        std::vector<ServerId> servers;
        std::uint32_t number;
        std::uint32_t iterations;
        std::uint32_t iteration = 0; ///< that runs
        std::size_t left = 0;        ///< tasks of it that have not ended
        SimTime iterationStart = 0;
        std::vector<SimTime> iterationTimes;
        std::vector<std::uint32_t> waiting;
        std::vector<RankState> ranks;
        std::vector<GroupState> groups;
        std::vector<CallState> calls;
        std::vector<bool> arrived;
        std::vector<TaskId> receiver;
        std::vector<TaskId> sender;
        std::vector<SimTime> taskEnd;
    };

    [[nodiscard]] const Job& At(std::uint32_t job) const
    {
        return *m_jobs[job];
    }

    [[nodiscard]] std::vector<FlowRecord> UnderWay() const
    {
        std::vector<FlowRecord> records;
        for (const Flow& flow : m_flows)
        {
            records.insert(records.end(), flow.own.begin(), flow.own.end());
        }
        return records;
    }

    /** Gives away what a finished run has gathered. */
    void MoveInto(FlowSimResult& result)
    {
        result.flows = std::move(m_records);
        result.linkBytes = m_linkBytes;
        result.solves = m_solves;
        result.events = m_eventCount;
    }

    [[nodiscard]] const std::vector<double>& LinkBytes() const
    {
        return m_linkBytes;
    }

    [[nodiscard]] std::uint64_t Events() const
    {
        return m_eventCount;
    }

  private:
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

    [[nodiscard]] bool NothingLeft() const
    {
        return m_events.empty() && m_drains.Empty();
    }

    /** Of the next event; kNever if nothing is left. */
    [[nodiscard]] SimTime NextTime() const
    {
        const SimTime event = m_events.empty() ? kNever : m_events.top().time;
        return m_drains.Empty() ? event : std::min(event, m_drains.Top().time);
    }

    /** Whether a flow drains before any other event; tasks come first. */
    [[nodiscard]] bool DrainsNext() const
    {
        if (m_drains.Empty() || m_events.empty())
        {
            return m_events.empty();
        }
        const Event& event = m_events.top();
        const SimTime time = m_drains.Top().time;
        return time != event.time ? time < event.time : event.kind > EventKind::Task;
    }

    // ---- tasks

    void BeginIteration(Job& job)
    {
        const TaskGraph& graph = job.graph;
        job.iterationStart = m_now;
        job.left = graph.tasks.size();
        job.waiting = graph.PredecessorCounts();
        job.calls = std::vector<CallState>(graph.collectives.size());
        job.arrived.assign(graph.transfers.size(), false);
        job.receiver.assign(graph.transfers.size(), kNoId);
        job.sender.assign(graph.transfers.size(), kNoId);
        job.taskEnd.assign(graph.tasks.size(), kNever);
        if (job.left == 0)
        {
            m_over.push_back(job.number);
        }
        const auto count = static_cast<TaskId>(graph.tasks.size());
        for (TaskId id = 0; id < count; ++id)
        {
            if (job.waiting[id] == 0)
            {
                Ready(job, id);
            }
        }
    }

    void EndIterations()
    {
        while (!m_over.empty())
        {
            Job& job = *m_jobs[m_over.back()];
            m_over.pop_back();
            job.iterationTimes.push_back(m_now - job.iterationStart);
            if (++job.iteration < job.iterations)
            {
                BeginIteration(job);
                continue;
            }
            m_ended.push_back(job.number);
            job.calls = std::vector<CallState>();
            job.groups = std::vector<GroupState>();
            job.ranks = std::vector<RankState>();
            job.waiting = {};
        }
    }

    void Handle(const Event& event, bool& solve)
    {
        switch (event.kind)
        {
        case EventKind::Compute:
        {
            Job& job = *m_jobs[event.job];
            const RankId rank = job.graph.tasks[event.id].rank;
            job.ranks[rank].busy = false;
            m_idle.emplace(event.job, rank);
            End(job, event.id);
            break;
        }
        case EventKind::Task:
            if (event.begins)
            {
                Execute(*m_jobs[event.job], event.id);
            }
            else
            {
                End(*m_jobs[event.job], event.id);
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
    }

    void Ready(Job& job, TaskId id)
    {
        const Task& task = job.graph.tasks[id];
        const SimTime at =
            task.notBefore == 0 ? m_now : std::max(m_now, job.iterationStart + task.notBefore);
        if (at > m_now)
        {
            m_events.push({at, EventKind::Task, job.number, id, true});
            return;
        }
        Execute(job, id);
    }

    void Execute(Job& job, TaskId id)
    {
        const Task& task = job.graph.tasks[id];
        switch (task.kind)
        {
        case TaskKind::Compute:
            job.ranks[task.rank].ready.emplace(m_now, id);
            m_idle.emplace(job.number, task.rank);
            break;
        case TaskKind::Join:
            m_events.push({m_now + task.duration, EventKind::Task, job.number, id, false});
            break;
        case TaskKind::Collective:
            Join(job, id);
            break;
        case TaskKind::Send:
        case TaskKind::Transfer:
            job.sender[task.object] = id;
            SendTransfer(job, task.object);
            if (task.kind == TaskKind::Send)
            {
                m_events.push({m_now, EventKind::Task, job.number, id, false});
            }
            break;
        case TaskKind::Recv:
            job.receiver[task.object] = id;
            if (job.arrived[task.object])
            {
                m_events.push({m_now, EventKind::Task, job.number, id, false});
            }
            break;
        }
    }

    void End(Job& job, TaskId id)
    {
        job.taskEnd[id] = m_now;
        if (--job.left == 0)
        {
            m_over.push_back(job.number);
        }
        for (const TaskId* s = job.graph.SuccessorsBegin(id); s != job.graph.SuccessorsEnd(id); ++s)
        {
            if (--job.waiting[*s] == 0)
            {
                Ready(job, *s);
            }
        }
    }

    void StartCompute()
    {
        // Ascending by job and rank; nothing here makes another rank idle.
        for (const auto& [number, rank] : m_idle)
        {
            Job& job = *m_jobs[number];
            if (job.ranks.empty())
            {
                continue; // the task that made the rank idle was the job's last
            }
            RankState& state = job.ranks[rank];
            if (!state.busy && !state.ready.empty())
            {
                const TaskId id = state.ready.begin()->second;
                state.ready.erase(state.ready.begin());
                state.busy = true;
                m_events.push({m_now + job.graph.tasks[id].duration,
                               EventKind::Compute,
                               job.number,
                               id,
                               false});
            }
        }
        m_idle.clear();
    }

    // ---- flows

    std::uint32_t NewFlow(const Job& job)
    {
        const std::uint32_t id = FreeFlow();
        m_flows[id].job = job.number;
        return id;
    }

    std::uint32_t FreeFlow()
    {
        if (m_freeFlows.empty())
        {
            m_flows.emplace_back();
            return static_cast<std::uint32_t>(m_flows.size() - 1);
        }
        const std::uint32_t id = m_freeFlows.back();
        m_freeFlows.pop_back();
        m_flows[id] = Flow();
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

    /** Keeps a record of a flow, or has the flow keep it until it can be told. */
    void Record(Flow& flow, FlowRecord record)
    {
        const Job& job = *m_jobs[flow.job];
        record.job = flow.job;
        record.iteration = job.iteration;
        if (m_options.onFlow)
        {
            flow.own.push_back(record);
        }
        else if (m_options.recordFlows)
        {
            m_records.push_back(record);
            const auto at = static_cast<std::uint32_t>(m_records.size() - 1);
            flow.record = flow.records++ == 0 ? at : flow.record;
        }
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
        Record(flow, record);
        if (path.empty())
        {
            const SimTime time =
                m_options.intraRate.bps == 0 ? 0 : TxTime(bytes, m_options.intraRate);
            m_events.push({m_now + time, EventKind::FlowDelivered, m_flows[id].job, id, false});
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
            m_events.push({m_solveAt, EventKind::Solve, 0, 0, false});
        }
    }

    void Solve()
    {
        ++m_solves;
        m_lastSolve = m_now;
        const std::vector<MaxMin::FlowId>& changed = m_rates.Solve();
        m_drains.BeginChanges(changed.size());
        for (const MaxMin::FlowId share : changed)
        {
            const std::uint32_t id = m_flowOfShare[share];
            Flow& flow = m_flows[id];
            flow.left =
                std::max(0.0, flow.left - flow.rate * static_cast<double>(m_now - flow.since));
            flow.since = m_now;
            flow.rate = m_rates.Rate(share);
            const double time = flow.left / flow.rate;
            if (!(time < 9e18))
            {
                throw SpecError("flow simulation", "found a flow that can never end");
            }
            m_drains.Set({m_now + static_cast<SimTime>(std::ceil(time - 1e-6)), flow.job, id});
        }
        m_drains.Restore();
    }

    void Drained(std::uint32_t id)
    {
        Flow& flow = m_flows[id];
        for (const LinkUse& use : flow.uses)
        {
            m_linkBytes[use.link] += flow.total * use.times;
        }
        m_rates.Remove(flow.share);
        m_flowOfShare[flow.share] = kNoId;
        m_events.push({m_now + flow.latency, EventKind::FlowDelivered, m_flows[id].job, id, false});
    }

    void Delivered(std::uint32_t id)
    {
        const Flow flow = std::move(m_flows[id]);
        m_flows[id].own.clear();
        m_freeFlows.push_back(id);
        for (std::uint32_t r = 0; r < flow.records; ++r)
        {
            m_records[flow.record + r].end = m_now;
        }
        for (FlowRecord record : flow.own)
        {
            record.end = m_now;
            m_options.onFlow(record);
        }
        Job& job = *m_jobs[flow.job];
        if (flow.transfer != kNoId)
        {
            job.arrived[flow.transfer] = true;
            const TaskId sender = job.sender[flow.transfer];
            if (job.graph.tasks[sender].kind == TaskKind::Transfer)
            {
                End(job, sender);
            }
            if (job.receiver[flow.transfer] != kNoId)
            {
                End(job, job.receiver[flow.transfer]);
            }
            return;
        }
        CallState& call = job.calls[flow.collective];
        if (flow.member == kNoId)
        {
            if (--call.ringsLeft == 0)
            {
                EndCall(job, flow.collective);
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
        Advance(job, flow.collective, flow.channel, flow.member);
    }

    void SendTransfer(Job& job, std::uint32_t object)
    {
        const TransferCall& call = job.graph.transfers[object];
        const ServerId src = job.servers[call.src];
        const ServerId dst = job.servers[call.dst];
        const std::uint32_t id = NewFlow(job);
        m_flows[id].transfer = object;
        const std::uint64_t key = TransferFlowKey(call.src, call.dst, object);
        const Path path = src == dst ? Path{} : m_fabric.router->Route(src, dst, key);
        Message(id, src, dst, path, call.bytes);
    }

    // ---- collectives

    GroupState& Group(Job& job, std::uint32_t index)
    {
        GroupState& group = job.groups[index];
        if (group.servers.empty())
        {
            for (const RankId rank : job.graph.groups[index].members)
            {
                group.servers.push_back(job.servers[rank]);
            }
        }
        return group;
    }

    void Join(Job& job, TaskId id)
    {
        const Task& task = job.graph.tasks[id];
        const CollectiveCall& call = job.graph.collectives[task.object];
        CallState& state = job.calls[task.object];
        const std::size_t n = job.graph.groups[call.group].members.size();
        if (state.tasks.empty())
        {
            state.tasks.assign(n, kNoId);
        }
        state.tasks[task.member] = id;
        ++state.arrived;
        if (n == 1)
        {
            m_events.push({m_now, EventKind::Task, job.number, id, false});
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
                StartRings(job, task.object);
            }
            return;
        }
        StartProgram(job, task.object, task.member);
    }

    void EndCall(Job& job, std::uint32_t object)
    {
        const std::vector<TaskId> tasks = job.calls[object].tasks;
        for (const TaskId id : tasks)
        {
            End(job, id);
        }
    }

    const std::vector<RingFlow>& Rings(Job& job, std::uint32_t index)
    {
        GroupState& group = Group(job, index);
        if (group.ringsKnown)
        {
            return group.rings;
        }
        group.ringsKnown = true;
        std::uint32_t channel = 0;
        for (Ring& ring : MemberRings(m_fabric, group.servers))
        {
            const std::uint64_t key = CollectiveFlowKey(index, channel++);
            RingFlow flow;
            std::vector<LinkId> links;
            flow.rate = std::numeric_limits<double>::infinity();
            std::vector<SimTime> latencies; // by hop
            for (std::size_t k = 0; k < ring.order.size(); ++k)
            {
                const ServerId src = group.servers[ring.order[k]];
                const ServerId dst = group.servers[ring.order[(k + 1) % ring.order.size()]];
                Path path;
                if (src != dst)
                {
                    path = ring.hops.empty() || ring.hops[k].empty()
                               ? m_fabric.router->Route(src, dst, key)
                               : ring.hops[k];
                }
                flow.hops.push_back(static_cast<std::uint32_t>(path.size()));
                for (const LinkId link : path)
                {
                    links.push_back(link);
                    flow.rate = std::min(flow.rate, LinkRate(link));
                }
                latencies.push_back(Latency(path, m_options.wire.payload));
            }
            // A chunk waits for the one before it, so the longest way through the steps leaves out the cheapest hop, or two.
            const SimTime round = std::accumulate(latencies.begin(), latencies.end(), SimTime{0});
            SimTime hop = kNever;
            SimTime hops = kNever;
            for (std::size_t k = 0; k < latencies.size(); ++k)
            {
                hop = std::min(hop, latencies[k]);
                hops = std::min(hops, latencies[k] + latencies[(k + 1) % latencies.size()]);
            }
            flow.slowest = *std::max_element(latencies.begin(), latencies.end());
            flow.onceRound = round - hop;
            flow.twiceRound = 2 * round - hops;
            flow.uses = UsesOf(links);
            flow.ring = std::move(ring);
            group.rings.push_back(std::move(flow));
        }
        return group.rings;
    }

    void StartRings(Job& job, std::uint32_t object)
    {
        const CollectiveCall& call = job.graph.collectives[object];
        const auto n = static_cast<std::uint32_t>(job.graph.groups[call.group].members.size());
        const std::vector<RingFlow>& rings = Rings(job, call.group);
        const std::vector<ServerId>& servers = Group(job, call.group).servers;
        CallState& state = job.calls[object];
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
            const std::uint32_t id = NewFlow(job);
            Flow& flow = m_flows[id];
            flow.collective = object;
            for (std::uint32_t k = 0; k < n && (m_options.recordFlows || m_options.onFlow); ++k)
            {
                FlowRecord record;
                record.collective = object;
                record.src = servers[ring.ring.order[k]];
                record.dst = servers[ring.ring.order[(k + 1) % n]];
                record.hops = ring.hops[k];
                record.messages = steps;
                record.bytes = chunk * steps;
                record.start = m_now;
                Record(flow, record);
            }
            if (ring.uses.empty())
            {
                const SimTime time =
                    m_options.intraRate.bps == 0 ? 0 : TxTime(chunk, m_options.intraRate) * steps;
                m_events.push({m_now + time, EventKind::FlowDelivered, m_flows[id].job, id, false});
                continue;
            }
            flow.uses = ring.uses;
            flow.left = wire * steps;
            const SimTime steady = steps == n - 1 ? ring.onceRound : ring.twiceRound;
            const double latency = m_options.wire.barrier ? static_cast<double>(ring.slowest)
                                                          : static_cast<double>(steady) / steps;
            const double cap = wire / (wire / ring.rate + latency);
            Begin(id,
                  std::min(wire, static_cast<double>(m_options.wire.window)),
                  std::max(cap, 1e-12));
        }
    }

    void StartProgram(Job& job, std::uint32_t object, std::uint32_t member)
    {
        CallState& state = job.calls[object];
        if (!state.program)
        {
            const CollectiveCall& call = job.graph.collectives[object];
            state.context = std::make_unique<CollectiveContext>();
            state.context->call = &call;
            state.context->servers = Group(job, call.group).servers;
            state.context->fabric = &m_fabric;
            state.program = m_choice.Build(*state.context);
            const std::size_t n = state.context->servers.size();
            state.channels.resize(n * state.program->Channels());
            state.channelsLeft.assign(n, state.program->Channels());
        }
        for (std::uint32_t c = 0; c < state.program->Channels(); ++c)
        {
            Enter(job, object, c, member);
            Advance(job, object, c, member);
        }
    }

    /** Enters the current step of a channel: its messages go out. */
    void Enter(Job& job, std::uint32_t object, std::uint32_t channel, std::uint32_t member)
    {
        CallState& state = job.calls[object];
        const std::uint32_t channels = state.program->Channels();
        ChannelState& at = state.channels[std::size_t{member} * channels + channel];
        at.entered = true;
        if (at.step >= state.program->Steps(channel, member))
        {
            return;
        }
        const std::uint64_t key = CollectiveFlowKey(job.graph.collectives[object].group, channel);
        std::vector<CollectiveSend> sends;
        at.expected = state.program->Step(channel, member, at.step, sends);
        for (const CollectiveSend& send : sends)
        {
            const ServerId src = state.context->servers[member];
            const ServerId dst = state.context->servers[send.peer];
            const std::uint32_t id = NewFlow(job);
            Flow& flow = m_flows[id];
            flow.collective = object;
            flow.channel = channel;
            flow.member = send.peer;
            flow.step = send.peerStep;
            Path path;
            if (src != dst)
            {
                path = send.path != nullptr ? *send.path : m_fabric.router->Route(src, dst, key);
            }
            Message(id, src, dst, path, send.bytes);
        }
    }

    /** Leaves steps whose messages have all arrived. */
    void Advance(Job& job, std::uint32_t object, std::uint32_t channel, std::uint32_t member)
    {
        CallState& state = job.calls[object];
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
            Enter(job, object, channel, member);
        }
        // This channel has ended; once.
        state.channels[index].entered = false;
        if (--state.channelsLeft[member] == 0)
        {
            m_events.push({m_now, EventKind::Task, job.number, state.tasks[member], false});
        }
    }

    const Fabric& m_fabric;
    FlowSimOptions m_options;
    CollectiveChoice m_defaults;
    const CollectiveChoice& m_choice;
    MaxMin m_rates;
    std::vector<std::unique_ptr<Job>> m_jobs;
    std::set<std::pair<std::uint32_t, RankId>> m_idle; ///< ranks of jobs to look at
    std::vector<std::uint32_t> m_over;                 ///< jobs whose iteration is over
    std::vector<std::uint32_t> m_ended; ///< jobs that are over and have not been told
    std::vector<Flow> m_flows;
    std::vector<std::uint32_t> m_freeFlows;
    std::vector<std::uint32_t> m_flowOfShare;
    std::priority_queue<Event> m_events;
    DrainQueue m_drains;
    SimTime m_now = 0;
    SimTime m_solveAt = kNever;
    SimTime m_lastSolve = kNever;
    std::vector<FlowRecord> m_records;
    std::vector<double> m_linkBytes;
    std::uint64_t m_solves = 0;
    std::uint64_t m_eventCount = 0;
};

FlowSimulation::FlowSimulation(const Fabric& fabric, const FlowSimOptions& options)
    : m_engine(std::make_unique<Engine>(fabric, options))
{
}

FlowSimulation::~FlowSimulation() = default;

std::uint32_t
FlowSimulation::Start(const TaskGraph& graph,
                      const std::vector<ServerId>& ranksToServers,
                      std::uint32_t iterations)
{
    return m_engine->Start(graph, ranksToServers, iterations);
}

std::vector<std::uint32_t>
FlowSimulation::Run(SimTime until)
{
    return m_engine->Run(until);
}

SimTime
FlowSimulation::Now() const
{
    return m_engine->Now();
}

bool
FlowSimulation::Idle() const
{
    return m_engine->Idle();
}

const std::vector<SimTime>&
FlowSimulation::IterationTimes(std::uint32_t job) const
{
    return m_engine->At(job).iterationTimes;
}

std::vector<FlowRecord>
FlowSimulation::UnderWay() const
{
    return m_engine->UnderWay();
}

const std::vector<double>&
FlowSimulation::LinkBytes() const
{
    return m_engine->LinkBytes();
}

std::uint64_t
FlowSimulation::Events() const
{
    return m_engine->Events();
}

FlowSimResult
SimulateFlows(const TaskGraph& graph, const Fabric& fabric, const FlowSimOptions& options)
{
    FlowSimulation simulation(fabric, options);
    const std::uint32_t number =
        simulation.m_engine->Start(graph, options.ranksToServers, options.iterations);
    while (simulation.Run(options.stop).empty() && !simulation.Idle() &&
           simulation.Now() < options.stop &&
           (options.interrupt == nullptr || !options.interrupt->load()))
    {
    }
    const FlowSimulation::Engine::Job& job = simulation.m_engine->At(number);
    FlowSimResult result;
    simulation.m_engine->MoveInto(result);
    result.taskEnd = job.taskEnd;
    result.complete = job.iteration == job.iterations;
    for (const SimTime end : result.taskEnd)
    {
        result.finish = std::max(result.finish, end == kNever ? 0 : end);
    }
    if (options.iterations > 1 || graph.iterationEnds.empty())
    {
        result.iterations = job.iterationTimes;
        return result;
    }
    SimTime before = 0;
    for (const TaskId id : graph.iterationEnds)
    {
        if (result.taskEnd[id] == kNever)
        {
            break;
        }
        result.iterations.push_back(result.taskEnd[id] - before);
        before = result.taskEnd[id];
    }
    return result;
}

} // namespace topoopt
