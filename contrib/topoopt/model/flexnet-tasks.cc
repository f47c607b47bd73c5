// SPDX-License-Identifier: GPL-2.0-only
// The tasks of a FlexNet graph: devices, messages and AllReduces.
#include "ns3/flexnet-engine.h"
#include "ns3/flexnet-flow.h"
#include "topoopt/core/error.h"

#include <algorithm>
#include <string>

namespace topoopt
{

namespace
{

constexpr SimTime kPathTimeout = 10 * kMillisecond; ///< first timeout of messages and file rings
constexpr SimTime kRingTimeout = kMillisecond;      ///< of single rings
/** An AllReduce of fewer bytes per member than this takes one round. */
constexpr std::uint64_t kSmall = 9000;
constexpr std::size_t kMostLines = 100;

} // namespace

SimTime
FlexNetEngine::TimeOf(const FlexNetTask& task)
{
    return task.kind == FlexNetTaskKind::AllReduce ? FlexNetAllReduceDelay(task.runtimeMs)
                                                   : FlexNetComputeTime(task.runtimeMs);
}

void
FlexNetEngine::PrepareTasks()
{
    m_tasks.resize(m_graph.tasks.size());
    m_devices.resize(m_graph.devices.size());
    const auto check = [this](std::uint32_t index, NodeId src, NodeId dst) {
        const bool known = m_config.fabric == FlexNetFabricKind::FromFile ||
                           (src < m_graph.nodes && dst < m_graph.nodes);
        if (!known || m_paths.Count(src, dst) == 0)
        {
            throw SpecError(m_graph.file,
                            NameOf(index) + ": found no path " + std::to_string(src) + "->" +
                                std::to_string(dst) + ", expected one");
        }
    };
    for (std::uint32_t index = 0; index < m_graph.tasks.size(); ++index)
    {
        const FlexNetTask& task = m_graph.tasks[index];
        if (m_graph.IsFlow(task))
        {
            const FlexNetDevice& device = m_graph.devices[task.device];
            check(index, m_graph.SourceOf(device), m_graph.DestinationOf(device));
            ++m_messagesLeft;
        }
        if (task.kind == FlexNetTaskKind::AllReduce && !m_paths.HasRings() && task.next.size() > 1)
        {
            for (std::size_t member = 0; member < task.next.size(); ++member)
            {
                check(index, task.next[member], task.next[(member + 1) % task.next.size()]);
            }
        }
        if (task.kind != FlexNetTaskKind::AllReduce)
        {
            for (const std::uint32_t next : task.next)
            {
                ++m_tasks[next].waitsFor;
            }
        }
    }
}

void
FlexNetEngine::StartTasks()
{
    // One picosecond apart, in the order of the reference's hash table.
    SimTime time = 0;
    for (const std::uint32_t task : FlexNetReferenceOrder(m_graph))
    {
        if (m_tasks[task].waitsFor == 0)
        {
            m_tasks[task].phase = TaskPhase::Ready;
            ScheduleTask(task, time++);
        }
    }
    m_over = m_tasks.empty();
}

const FlexNetPathLinks*
FlexNetEngine::PickPath(NodeId src, NodeId dst)
{
    const std::uint32_t ways = m_paths.Count(src, dst);
    const std::uint32_t way = m_random.Next() % ways; // StartTasks() has seen that there is one
    m_random.Next();                                  // the way back, which takes no time
    return m_paths.Path(src, dst, way);
}

void
FlexNetEngine::TaskEvent(std::uint32_t index)
{
    const FlexNetTask& task = m_graph.tasks[index];
    Task& state = m_tasks[index];
    if (task.kind == FlexNetTaskKind::AllReduce)
    {
        state.phase = TaskPhase::Running;
        state.start = m_now;
        BeginAllReduce(index);
        return;
    }
    Device& device = m_devices[task.device];
    if (m_graph.IsFlow(task))
    {
        const NodeId src = m_graph.SourceOf(m_graph.devices[task.device]);
        const NodeId dst = m_graph.DestinationOf(m_graph.devices[task.device]);
        state.phase = TaskPhase::Running;
        state.start = m_now;
        // A task without predecessors has been ready since 0, whatever the time of its event.
        StartFlow(m_nextFlowId++,
                  src,
                  dst,
                  task.bytes,
                  PickPath(src, dst),
                  state.ready,
                  kPathTimeout,
                  index,
                  0,
                  0,
                  nullptr);
    }
    else if (state.phase == TaskPhase::Running)
    {
        device.busy = false;
        FinishTask(index);
    }
    else if (!device.busy)
    {
        device.busy = true;
        state.phase = TaskPhase::Running;
        state.start = m_now;
        state.finish = m_now + TimeOf(task);
        device.busyUpTo = state.finish;
        ScheduleTask(index, state.finish);
    }
    else
    {
        ScheduleTask(index, device.busyUpTo);
    }
}

void
FlexNetEngine::FinishTask(std::uint32_t index)
{
    Task& state = m_tasks[index];
    state.phase = TaskPhase::Finished;
    ++m_totals.tasks;
    m_finalFinish = std::max(m_finalFinish, state.finish);
    FlexNetTaskRecord record;
    record.task = index;
    record.ready = state.ready;
    record.start = state.start;
    record.end = state.finish;
    TellEarlier();
    m_finishedTasks.push_back(record);
    const FlexNetTask& task = m_graph.tasks[index];
    m_messagesLeft -= m_graph.IsFlow(task) ? 1 : 0;
    if (task.kind != FlexNetTaskKind::AllReduce)
    {
        for (const std::uint32_t next : task.next)
        {
            if (--m_tasks[next].waitsFor == 0)
            {
                m_tasks[next].phase = TaskPhase::Ready;
                m_tasks[next].ready = state.finish;
                ScheduleTask(next, state.finish);
            }
        }
    }
    if (m_totals.tasks == m_tasks.size())
    {
        m_over = true;
    }
}

void
FlexNetEngine::BeginAllReduce(std::uint32_t index)
{
    const FlexNetTask& task = m_graph.tasks[index];
    Task& state = m_tasks[index];
    const std::size_t group = task.next.size();
    if (group <= 1)
    {
        state.finish = state.ready;
        FinishTask(index);
        return;
    }
    auto operation = std::make_unique<AllReduce>();
    operation->task = index;
    operation->begin = state.ready + TimeOf(task);
    operation->size = task.bytes;
    if (!m_paths.HasRings())
    {
        // The reference keeps this one in 32 bits.
        operation->size = static_cast<std::uint32_t>(task.bytes / group > 0 ? task.bytes : group);
    }
    const double share = 2.0 * static_cast<double>(group - 1) / static_cast<double>(group);
    if (operation->size < kSmall * group)
    {
        operation->size = static_cast<Bytes>(static_cast<double>(operation->size) * share);
    }
    // The reference asks after the first round whether the operation was a small one.
    const bool small = static_cast<double>(operation->size) / share <=
                       static_cast<double>(kSmall) * static_cast<double>(group);
    operation->rounds = small ? 1 : static_cast<std::uint32_t>(2 * (group - 1));
    operation->part = operation->size / group;
    operation->rings.resize(1);
    if (m_paths.HasRings())
    {
        const FlexNetRings& rings = m_paths.Rings(group);
        operation->part /= rings.jumps.size();
        operation->rings.resize(rings.jumps.size());
        for (std::uint32_t ring = 0; ring < operation->rings.size(); ++ring)
        {
            for (std::uint32_t member = 0; member < group; ++member)
            {
                NodeId end = 0;
                operation->rings[ring].paths.push_back(m_paths.RingPath(rings, ring, member, end));
                operation->rings[ring].ends.push_back(end);
            }
        }
    }
    operation->firstFlow = m_nextFlowId;
    m_nextFlowId += std::uint64_t{operation->rounds} * group * operation->rings.size();
    std::uint32_t slot = static_cast<std::uint32_t>(m_allReduces.size());
    if (!m_freeAllReduces.empty())
    {
        slot = m_freeAllReduces.back();
        m_freeAllReduces.pop_back();
    }
    else
    {
        m_allReduces.emplace_back();
    }
    state.allReduce = slot;
    m_allReduces[slot] = std::move(operation);
    AllReduce& running = *m_allReduces[slot];
    const bool lockstep = m_lockstep && m_lockstep->begun;
    for (std::uint32_t ring = 0; lockstep && ring < running.rings.size(); ++ring)
    {
        StartRound(running, ring);
    }
    for (std::uint32_t member = 0; !lockstep && member < group; ++member)
    {
        for (std::uint32_t ring = 0; ring < running.rings.size(); ++ring)
        {
            StartPart(running, member, ring, nullptr);
        }
    }
}

void
FlexNetEngine::StartRound(AllReduce& operation, std::uint32_t ring)
{
    if (m_lockstep && m_lockstep->begun)
    {
        for (const FlexNetLockstep::Block& block : m_lockstep->rings[ring].blocks)
        {
            StartPart(operation, block.last, ring, &block);
        }
        return;
    }
    const std::size_t group = m_graph.tasks[operation.task].next.size();
    for (std::uint32_t member = 0; member < group; ++member)
    {
        StartPart(operation, member, ring, nullptr);
    }
}

void
FlexNetEngine::StartPart(AllReduce& operation,
                         std::uint32_t member,
                         std::uint32_t ring,
                         const FlexNetLockstep::Block* block)
{
    const std::vector<std::uint32_t>& group = m_graph.tasks[operation.task].next;
    const AllReduce::Ring& state = operation.rings[ring];
    const SimTime start = state.round > 0 ? m_now : operation.begin;
    const NodeId src = group[member];
    const std::uint64_t id =
        operation.firstFlow +
        (std::uint64_t{state.round} * group.size() + member) * operation.rings.size() + ring;
    if (m_paths.HasRings())
    {
        StartFlow(id,
                  src,
                  state.ends[member],
                  operation.part,
                  state.paths[member],
                  start,
                  kPathTimeout,
                  operation.task,
                  ring,
                  state.round,
                  block);
        return;
    }
    const NodeId dst = group[(member + 1) % group.size()];
    StartFlow(id,
              src,
              dst,
              operation.part,
              PickPath(src, dst),
              start,
              kRingTimeout,
              operation.task,
              ring,
              state.round,
              block);
}

void
FlexNetEngine::FlowDone(const Flow& flow)
{
    const std::uint32_t index = flow.task;
    const FlexNetTask& task = m_graph.tasks[index];
    Task& state = m_tasks[index];
    if (task.kind != FlexNetTaskKind::AllReduce)
    {
        state.finish = m_now;
        FinishTask(index);
        return;
    }
    AllReduce& operation = *m_allReduces[state.allReduce];
    AllReduce::Ring& ring = operation.rings[flow.ring];
    ring.arrived += flow.Width();
    if (ring.arrived < task.next.size())
    {
        return;
    }
    ring.arrived = 0;
    if (++ring.round < operation.rounds)
    {
        StartRound(operation, flow.ring);
        return;
    }
    if (++operation.ringsDone == operation.rings.size())
    {
        m_freeAllReduces.push_back(state.allReduce);
        m_allReduces[state.allReduce].reset();
        state.allReduce = kNoId;
        state.finish = m_now;
        FinishTask(index);
    }
}

std::string
FlexNetEngine::NameOf(std::uint32_t index) const
{
    const FlexNetTask& task = m_graph.tasks[index];
    std::string kind = "task";
    switch (task.kind)
    {
    case FlexNetTaskKind::Forward:
        kind = "forward";
        break;
    case FlexNetTaskKind::Backward:
        kind = "backward";
        break;
    case FlexNetTaskKind::Update:
        kind = "update";
        break;
    case FlexNetTaskKind::Barrier:
        kind = "barrier";
        break;
    case FlexNetTaskKind::Message:
        kind = "message";
        break;
    case FlexNetTaskKind::AllReduce:
        kind = "allreduce";
        break;
    }
    return kind + " task " + std::to_string(task.id);
}

std::vector<std::string>
FlexNetEngine::DescribeWaiting() const
{
    // By the server that waits, then by task.
    std::vector<std::pair<std::uint64_t, std::string>> lines;
    const auto server = [this](std::uint32_t index) -> std::uint64_t {
        const FlexNetTask& task = m_graph.tasks[index];
        if (task.kind == FlexNetTaskKind::AllReduce)
        {
            return task.next.empty() ? 0 : task.next.front();
        }
        const FlexNetDevice& device = m_graph.devices[task.device];
        return m_graph.IsFlow(task) ? m_graph.SourceOf(device) : device.node;
    };
    for (const auto& [flow, received] : Unfinished())
    {
        if (lines.size() == kMostLines)
        {
            break;
        }
        lines.emplace_back(flow.dst,
                           "server " + std::to_string(flow.dst) + ": " +
                               NameOf(static_cast<std::uint32_t>(flow.task)) + " waits for flow " +
                               std::to_string(flow.id) + " from server " +
                               std::to_string(flow.src) + ": " +
                               std::to_string(std::min(received, flow.size)) + " of " +
                               std::to_string(flow.size) + " B arrived");
    }
    for (std::uint32_t i = 0; i < m_tasks.size() && lines.size() < 2 * kMostLines; ++i)
    {
        const Task& state = m_tasks[i];
        const FlexNetTask& task = m_graph.tasks[i];
        const std::string name = "server " + std::to_string(server(i)) + ": " + NameOf(i);
        if (state.phase == TaskPhase::Ready)
        {
            lines.emplace_back(server(i), name + " waits for its device");
        }
        else if (state.phase == TaskPhase::Running && task.kind != FlexNetTaskKind::AllReduce &&
                 !m_graph.IsFlow(task))
        {
            lines.emplace_back(server(i), name + " computes until " + FormatTime(state.finish));
        }
    }
    if (lines.size() < kMostLines)
    {
        for (std::uint32_t i = 0; i < m_tasks.size() && lines.size() < kMostLines; ++i)
        {
            if (m_tasks[i].phase == TaskPhase::Waiting)
            {
                lines.emplace_back(server(i),
                                   "server " + std::to_string(server(i)) + ": " + NameOf(i) +
                                       " waits for " + std::to_string(m_tasks[i].waitsFor) +
                                       " tasks");
            }
        }
    }
    std::stable_sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) {
        return a.first < b.first;
    });
    std::vector<std::string> text;
    for (const auto& line : lines)
    {
        if (text.size() == kMostLines)
        {
            break;
        }
        text.push_back(line.second);
    }
    return text;
}

} // namespace topoopt
