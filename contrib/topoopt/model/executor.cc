// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/executor.h"

#include "topoopt/core/random.h"

#include <algorithm>

namespace topoopt
{

namespace
{

/** A route that flows keep forgetting would be looked up for each message; beyond this many it is. */
constexpr std::size_t kMaxRoutes = 1U << 22;

} // namespace

/** A collective under way. */
struct TaskExecutor::Instance
{
    /** A member in a channel. */
    struct Place
    {
        std::uint32_t step = 0;
        std::uint32_t expected = 0; ///< messages for this step
        std::uint32_t received = 0;
        std::uint32_t peer = kNoId; ///< whom the last message went to, and by which route
        std::uint32_t route = 0;
        std::uint32_t serverHops = 0;
        QueuePair queuePair; ///< to `peer`
    };

    std::uint32_t collective = 0;
    std::unique_ptr<CollectiveProgram> program;
    std::vector<ServerId> servers;
    std::vector<Place> places;               ///< [channel * members + member]
    std::vector<std::uint32_t> channelsLeft; ///< by member
    std::vector<bool> begun;                 ///< by member
    std::uint32_t membersLeft = 0;
    std::unordered_map<std::uint64_t, std::uint32_t> early; ///< place and step -> messages
    SimTime start = 0;
};

std::size_t
TaskExecutor::RouteKeyHash::operator()(const RouteKey& key) const
{
    return Mix64(std::uint64_t{key.src} << 32 | key.dst, key.flow);
}

TaskExecutor::TaskExecutor(const ExecutorConfig& config,
                           MessageNetwork& network,
                           ExecutionObserver& observer)
    : m_config(config),
      m_graph(*config.graph),
      m_network(network),
      m_observer(observer),
      m_computing(m_graph.ranks),
      m_computeQueues(m_graph.ranks),
      m_instances(m_graph.collectives.size()),
      m_memberTasks(m_graph.collectives.size())
{
    for (std::size_t c = 0; c < m_graph.collectives.size(); ++c)
    {
        m_memberTasks[c].resize(m_graph.groups[m_graph.collectives[c].group].members.size());
    }
    for (TaskId id = 0; id < m_graph.tasks.size(); ++id)
    {
        const Task& task = m_graph.tasks[id];
        if (task.kind == TaskKind::Collective)
        {
            m_memberTasks[task.object][task.member] = id;
        }
    }
    network.SetListener(this);
}

TaskExecutor::~TaskExecutor() = default;

void
TaskExecutor::Begin()
{
    BeginIteration();
    RunReady();
}

void
TaskExecutor::BeginIteration()
{
    m_iterationStart = m_network.Now();
    m_predecessorsLeft = m_graph.PredecessorCounts();
    m_states.assign(m_graph.tasks.size(), State::Blocked);
    m_starts.assign(m_graph.tasks.size(), 0);
    m_receiveTask.assign(m_graph.transfers.size(), kNoId);
    m_arrived.assign(m_graph.transfers.size(), false);
    m_left = static_cast<std::uint32_t>(m_graph.tasks.size());
    for (TaskId id = 0; id < m_graph.tasks.size(); ++id)
    {
        if (m_predecessorsLeft[id] == 0)
        {
            m_ready.push_back(id);
        }
    }
    if (m_left == 0)
    {
        m_iteration = m_config.iterations;
        m_iterationTimes.assign(m_config.iterations, 0);
    }
}

void
TaskExecutor::RunReady()
{
    if (m_left == 0)
    {
        EndIteration();
    }
    while (!m_ready.empty())
    {
        const TaskId task = m_ready.front();
        m_ready.pop_front();
        const SimTime notBefore = m_iterationStart + m_graph.tasks[task].notBefore;
        if (m_graph.tasks[task].notBefore > 0 && notBefore > m_network.Now())
        {
            m_network.CallAt(notBefore, std::uint64_t{task} * 2);
        }
        else
        {
            BeginTask(task);
        }
        if (m_ready.empty() && m_left == 0)
        {
            EndIteration();
        }
    }
}

void
TaskExecutor::BeginTask(TaskId id)
{
    const Task& task = m_graph.tasks[id];
    m_states[id] = State::Begun;
    m_starts[id] = m_network.Now();
    switch (task.kind)
    {
    case TaskKind::Compute:
        if (m_computing[task.rank])
        {
            m_computeQueues[task.rank].push_back(id);
        }
        else
        {
            BeginCompute(id);
        }
        break;
    case TaskKind::Collective:
        if (m_config.gate != nullptr && !m_config.gate->MayBegin(task.object, m_iteration))
        {
            m_kept.push_back(id);
            break;
        }
        BeginMember(id);
        break;
    case TaskKind::Send:
        SendTransfer(task.object, kNoId);
        EndTask(id);
        break;
    case TaskKind::Transfer:
        SendTransfer(task.object, id);
        break;
    case TaskKind::Recv:
        if (m_arrived[task.object])
        {
            EndTask(id);
        }
        else
        {
            m_receiveTask[task.object] = id;
        }
        break;
    case TaskKind::Join:
        if (task.duration == 0)
        {
            EndTask(id);
        }
        else
        {
            m_network.CallAt(m_network.Now() + task.duration, std::uint64_t{id} * 2 + 1);
        }
        break;
    }
}

void
TaskExecutor::PassGate()
{
    std::vector<TaskId> kept;
    kept.swap(m_kept);
    for (TaskId id : kept)
    {
        BeginTask(id);
    }
    RunReady();
}

void
TaskExecutor::BeginCompute(TaskId id)
{
    m_starts[id] = m_network.Now();
    const Task& task = m_graph.tasks[id];
    if (task.duration == 0)
    {
        EndTask(id);
        return;
    }
    m_computing[task.rank] = true;
    m_network.CallAt(m_network.Now() + task.duration, std::uint64_t{id} * 2 + 1);
}

void
TaskExecutor::EndTask(TaskId id)
{
    m_states[id] = State::Ended;
    --m_left;
    m_observer.TaskFinished({id, m_iteration, m_starts[id], m_network.Now()});
    for (const TaskId* next = m_graph.SuccessorsBegin(id); next != m_graph.SuccessorsEnd(id);
         ++next)
    {
        if (--m_predecessorsLeft[*next] == 0)
        {
            m_ready.push_back(*next);
        }
    }
}

void
TaskExecutor::Due(std::uint64_t cookie)
{
    const auto id = static_cast<TaskId>(cookie / 2);
    if (cookie % 2 == 0)
    {
        BeginTask(id);
    }
    else
    {
        const RankId rank = m_graph.tasks[id].rank;
        if (m_graph.tasks[id].kind == TaskKind::Compute)
        {
            m_computing[rank] = false;
        }
        EndTask(id);
        std::deque<TaskId>& queue = m_computeQueues[rank];
        while (!queue.empty() && !m_computing[rank])
        {
            const TaskId next = queue.front();
            queue.pop_front();
            BeginCompute(next);
        }
    }
    RunReady();
}

std::uint32_t
TaskExecutor::NewPending()
{
    if (m_freePending == kNoId)
    {
        m_pending.emplace_back();
        return static_cast<std::uint32_t>(m_pending.size() - 1);
    }
    const std::uint32_t index = m_freePending;
    m_freePending = m_pending[index].next;
    return index;
}

std::uint32_t
TaskExecutor::RouteOf(ServerId src,
                      ServerId dst,
                      std::uint64_t flowKey,
                      const Path* path,
                      std::uint32_t& serverHops)
{
    if (m_config.routes != nullptr)
    {
        const RouteAnswer answer = m_config.routes->RouteFor(src, dst, flowKey, path);
        serverHops = answer.serverHops;
        return answer.route;
    }
    const auto countServerHops = [this](const Path& links) {
        return static_cast<std::uint32_t>(
            std::count_if(links.begin(), links.end(), [this](LinkId l) {
                return m_config.fabric->topology.IsServer(m_config.fabric->topology.links[l].src);
            }));
    };
    if (path != nullptr)
    {
        serverHops = countServerHops(*path);
        return m_network.AddRoute(*path);
    }
    const RouteKey key{src, dst, flowKey};
    const auto known = m_routes.find(key);
    if (known != m_routes.end())
    {
        serverHops = known->second.serverHops;
        return known->second.route;
    }
    const Path found = m_config.fabric->router->Route(src, dst, flowKey);
    serverHops = countServerHops(found);
    const std::uint32_t route = m_network.AddRoute(found);
    if (m_routes.size() < kMaxRoutes)
    {
        m_routes.emplace(key, KnownRoute{route, serverHops});
    }
    return route;
}

void
TaskExecutor::SendTransfer(std::uint32_t transfer, TaskId task)
{
    const TransferCall& call = m_graph.transfers[transfer];
    const std::uint32_t index = NewPending();
    Pending& pending = m_pending[index];
    pending.task = task;
    pending.context = {static_cast<std::uint32_t>(m_graph.collectives.size()) + transfer,
                       m_iteration,
                       "send",
                       kNoId,
                       0,
                       0,
                       call.src,
                       call.dst,
                       0};
    Message message;
    message.src = m_config.placement[call.src];
    message.dst = m_config.placement[call.dst];
    message.bytes = call.bytes;
    message.cookie = index;
    if (message.src != message.dst)
    {
        message.route = RouteOf(message.src,
                                message.dst,
                                TransferFlowKey(call.src, call.dst, transfer),
                                nullptr,
                                pending.context.serverHops);
    }
    m_network.Send(message);
}

void
TaskExecutor::BeginMember(TaskId id)
{
    const Task& task = m_graph.tasks[id];
    const CollectiveCall& call = m_graph.collectives[task.object];
    const CommGroup& group = m_graph.groups[call.group];
    const auto members = static_cast<std::uint32_t>(group.members.size());
    std::unique_ptr<Instance>& slot = m_instances[task.object];
    if (slot == nullptr)
    {
        slot = std::make_unique<Instance>();
        slot->collective = task.object;
        slot->start = m_network.Now();
        slot->membersLeft = members;
        for (RankId rank : group.members)
        {
            slot->servers.push_back(m_config.placement[rank]);
        }
        slot->begun.resize(members);
        slot->channelsLeft.resize(members);
        if (members > 1)
        {
            slot->program = m_config.collectives->Build({&call, slot->servers, m_config.fabric});
            slot->places.resize(std::size_t{slot->program->Channels()} * members);
        }
    }
    Instance& instance = *slot;
    instance.begun[task.member] = true;
    if (members == 1)
    {
        EndMember(instance, task.member);
        return;
    }
    const std::uint32_t channels = instance.program->Channels();
    instance.channelsLeft[task.member] = channels;
    for (std::uint32_t channel = 0; channel < channels; ++channel)
    {
        EnterSteps(instance, channel, task.member);
    }
    if (instance.channelsLeft[task.member] == 0)
    {
        EndMember(instance, task.member);
    }
}

void
TaskExecutor::EnterSteps(Instance& instance, std::uint32_t channel, std::uint32_t member)
{
    const CollectiveCall& call = m_graph.collectives[instance.collective];
    const CommGroup& group = m_graph.groups[call.group];
    const std::uint64_t placeIndex = std::uint64_t{channel} * group.members.size() + member;
    Instance::Place& place = instance.places[placeIndex];
    const std::uint32_t steps = instance.program->Steps(channel, member);
    for (; place.step < steps; ++place.step)
    {
        place.expected = instance.program->Step(channel, member, place.step, m_sends);
        place.received = 0;
        for (const CollectiveSend& send : m_sends)
        {
            const std::uint32_t index = NewPending();
            Pending& pending = m_pending[index];
            pending.task = kNoId;
            pending.peer = send.peer;
            pending.context = {instance.collective,
                               m_iteration,
                               Name(call.kind),
                               call.group,
                               channel,
                               send.peerStep,
                               group.members[member],
                               group.members[send.peer],
                               0};
            Message message;
            message.src = instance.servers[member];
            message.dst = instance.servers[send.peer];
            message.bytes = send.bytes;
            message.cookie = index;
            if (message.src != message.dst)
            {
                // As on a queue pair, the messages of a channel to one peer take one way.
                const bool anotherPeer = place.peer != send.peer;
                if (anotherPeer)
                {
                    place.peer = send.peer;
                    place.queuePair = {};
                }
                if (anotherPeer || m_config.routes != nullptr)
                {
                    place.route = RouteOf(message.src,
                                          message.dst,
                                          CollectiveFlowKey(call.group, channel),
                                          send.path,
                                          place.serverHops);
                }
                message.route = place.route;
                // And turns, where each step is one message: a ring whose steps pile up before a busy link has
                // no more weight there than one that trickles. A step in pieces has an order of its own.
                message.queuePair = m_sends.size() == 1 ? &place.queuePair : nullptr;
                pending.context.serverHops = place.serverHops;
            }
            m_network.Send(message);
        }
        if (!instance.early.empty())
        {
            const auto early = instance.early.find(placeIndex << 32 | place.step);
            if (early != instance.early.end())
            {
                place.received = early->second;
                instance.early.erase(early);
            }
        }
        if (place.received < place.expected)
        {
            return;
        }
    }
    --instance.channelsLeft[member];
}

void
TaskExecutor::EndMember(Instance& instance, std::uint32_t member)
{
    const std::uint32_t collective = instance.collective;
    const bool last = --instance.membersLeft == 0;
    if (last)
    {
        m_observer.OperationFinished({collective, m_iteration, instance.start, m_network.Now()});
    }
    EndTask(m_memberTasks[collective][member]);
    if (last)
    {
        m_instances[collective].reset();
    }
}

void
TaskExecutor::Expect(std::uint64_t cookie)
{
    __builtin_prefetch(&m_pending[cookie], 0, 3);
}

void
TaskExecutor::Delivered(const MessageRecord& record)
{
    const Pending& pending = m_pending[record.message.cookie];
    const std::uint32_t operation = pending.context.operation;
    if (pending.context.group == kNoId)
    {
        const auto transfer = operation - static_cast<std::uint32_t>(m_graph.collectives.size());
        m_arrived[transfer] = true;
        m_observer.OperationFinished(
            {operation, pending.context.iteration, record.start, record.end});
        if (pending.task != kNoId)
        {
            EndTask(pending.task);
        }
        if (m_receiveTask[transfer] != kNoId)
        {
            EndTask(m_receiveTask[transfer]);
        }
    }
    else
    {
        Instance& instance = *m_instances[operation];
        const std::uint32_t channel = pending.context.channel;
        const std::uint32_t step = pending.context.step;
        const std::uint32_t member = pending.peer;
        const std::uint64_t placeIndex = std::uint64_t{channel} * instance.servers.size() + member;
        Instance::Place& place = instance.places[placeIndex];
        if (!instance.begun[member] || place.step != step)
        {
            ++instance.early[placeIndex << 32 | step];
        }
        else if (++place.received == place.expected)
        {
            ++place.step;
            EnterSteps(instance, channel, member);
            if (instance.channelsLeft[member] == 0)
            {
                EndMember(instance, member);
            }
        }
    }
    RunReady();
}

void
TaskExecutor::EndIteration()
{
    if (m_iteration == m_config.iterations)
    {
        return;
    }
    m_iterationTimes.push_back(m_network.Now() - m_iterationStart);
    if (++m_iteration < m_config.iterations)
    {
        BeginIteration();
    }
}

void
TaskExecutor::Finished(const MessageRecord& record)
{
    const auto index = static_cast<std::uint32_t>(record.message.cookie);
    m_observer.MessageFinished(record, m_pending[index].context);
    m_pending[index].next = m_freePending;
    m_freePending = index;
}

const MessageContext&
TaskExecutor::ContextOf(const Message& message) const
{
    return m_pending[message.cookie].context;
}

double
TaskExecutor::Progress() const
{
    const double perIteration = static_cast<double>(std::max<std::size_t>(1, m_graph.tasks.size()));
    const double done = m_iteration == m_config.iterations ? 0.0 : perIteration - m_left;
    return (m_iteration * perIteration + done) / (m_config.iterations * perIteration);
}

std::vector<OperationRecord>
TaskExecutor::UnfinishedOperations() const
{
    std::vector<OperationRecord> records;
    for (const auto& instance : m_instances)
    {
        if (instance != nullptr)
        {
            records.push_back({instance->collective, m_iteration, instance->start, kNever});
        }
    }
    const auto collectives = static_cast<std::uint32_t>(m_graph.collectives.size());
    for (TaskId id = 0; id < m_graph.tasks.size(); ++id)
    {
        const Task& task = m_graph.tasks[id];
        const bool sends = task.kind == TaskKind::Send || task.kind == TaskKind::Transfer;
        if (sends && m_states[id] != State::Blocked && !m_arrived[task.object])
        {
            records.push_back({collectives + task.object, m_iteration, m_starts[id], kNever});
        }
    }
    return records;
}

std::vector<std::string>
TaskExecutor::DescribeWaiting(std::size_t limit) const
{
    std::vector<std::string> lines;
    std::size_t more = 0;
    for (TaskId id = 0; id < m_graph.tasks.size(); ++id)
    {
        if (m_states.empty() || m_states[id] != State::Begun)
        {
            continue;
        }
        if (lines.size() == limit)
        {
            ++more;
            continue;
        }
        const Task& task = m_graph.tasks[id];
        std::string line =
            "server " + std::to_string(m_config.placement[task.rank]) + ": " + m_graph.Describe(id);
        if (task.kind == TaskKind::Compute)
        {
            line += m_computing[task.rank] ? " has not ended" : " has not begun";
        }
        else if (task.kind == TaskKind::Recv || task.kind == TaskKind::Transfer)
        {
            const TransferCall& call = m_graph.transfers[task.object];
            line += " waits for " + std::to_string(call.bytes) + " B from rank " +
                    std::to_string(call.src) + " to rank " + std::to_string(call.dst);
        }
        else if (task.kind == TaskKind::Collective && m_instances[task.object] == nullptr)
        {
            line += " waits for circuits to be changed";
        }
        else if (task.kind == TaskKind::Collective)
        {
            const Instance& instance = *m_instances[task.object];
            const CommGroup& group = m_graph.groups[m_graph.collectives[task.object].group];
            std::string absent;
            std::uint32_t absentCount = 0;
            for (std::uint32_t m = 0; m < group.members.size(); ++m)
            {
                if (!instance.begun[m] && ++absentCount <= 4)
                {
                    absent += (absentCount == 1 ? "" : ", ") + std::to_string(group.members[m]);
                }
            }
            const std::uint32_t channels = instance.program->Channels();
            line += " (" + std::string(Name(m_graph.collectives[task.object].kind)) +
                    ", operation " + std::to_string(task.object) + ") waits";
            for (std::uint32_t channel = 0; channel < channels; ++channel)
            {
                const Instance::Place& place =
                    instance.places[std::size_t{channel} * group.members.size() + task.member];
                const std::uint32_t steps = instance.program->Steps(channel, task.member);
                if (place.step < steps)
                {
                    line += " in step " + std::to_string(place.step + 1) + " of " +
                            std::to_string(steps) + " for " +
                            std::to_string(place.expected - place.received) + " message(s)";
                    break;
                }
            }
            if (absentCount > 0)
            {
                line += "; " + std::to_string(absentCount) +
                        " rank(s) have not called it: " + absent + (absentCount > 4 ? ", ..." : "");
            }
        }
        lines.push_back(line);
    }
    if (more > 0)
    {
        lines.push_back("and " + std::to_string(more) + " more");
    }
    return lines;
}

} // namespace topoopt
