// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/task-graph.h"

#include "topoopt/core/error.h"

#include <algorithm>

namespace topoopt
{

const char*
Name(CollectiveKind kind)
{
    switch (kind)
    {
    case CollectiveKind::AllReduce:
        return "all_reduce";
    case CollectiveKind::Reduce:
        return "reduce";
    case CollectiveKind::AllGather:
        return "all_gather";
    case CollectiveKind::Gather:
        return "gather";
    case CollectiveKind::Scatter:
        return "scatter";
    case CollectiveKind::Broadcast:
        return "broadcast";
    case CollectiveKind::AllToAll:
        return "all_to_all";
    case CollectiveKind::AllToAllV:
        return "all_to_allv";
    case CollectiveKind::ReduceScatter:
        return "reduce_scatter";
    case CollectiveKind::Barrier:
        return "barrier";
    }
    return "?";
}

const char*
Name(TaskKind kind)
{
    switch (kind)
    {
    case TaskKind::Compute:
        return "compute";
    case TaskKind::Collective:
        return "collective";
    case TaskKind::Send:
        return "send";
    case TaskKind::Recv:
        return "recv";
    case TaskKind::Transfer:
        return "transfer";
    case TaskKind::Join:
        return "join";
    }
    return "?";
}

TaskId
TaskGraph::Add(const Task& task)
{
    tasks.push_back(task);
    return static_cast<TaskId>(tasks.size() - 1);
}

void
TaskGraph::AddDependency(TaskId before, TaskId after)
{
    m_edges.emplace_back(before, after);
}

std::uint32_t
TaskGraph::InternName(const std::string& text)
{
    const auto at =
        std::lower_bound(m_nameOrder.begin(),
                         m_nameOrder.end(),
                         text,
                         [this](std::uint32_t i, const std::string& t) { return names[i] < t; });
    if (at != m_nameOrder.end() && names[*at] == text)
    {
        return *at;
    }
    const auto index = static_cast<std::uint32_t>(names.size());
    names.push_back(text);
    m_nameOrder.insert(at, index);
    return index;
}

std::string
TaskGraph::Describe(TaskId task) const
{
    const Task& t = tasks[task];
    std::string out =
        "rank " + std::to_string(t.rank) + " " + Name(t.kind) + " " + std::to_string(t.sourceId);
    if (t.name != kNoId)
    {
        out += " (\"" + names[t.name] + "\")";
    }
    return out;
}

void
TaskGraph::Finalize(const std::string& place)
{
    const auto count = static_cast<TaskId>(tasks.size());
    for (TaskId id = 0; id < count; ++id)
    {
        const Task& task = tasks[id];
        if (task.rank >= ranks)
        {
            throw SpecError(place,
                            Describe(id) + ": rank out of range, expected 0.." +
                                std::to_string(ranks) + " exclusive");
        }
        const bool collective = task.kind == TaskKind::Collective;
        const bool transfer = task.kind == TaskKind::Send || task.kind == TaskKind::Recv ||
                              task.kind == TaskKind::Transfer;
        if ((collective && task.object >= collectives.size()) ||
            (transfer && task.object >= transfers.size()))
        {
            throw SpecError(place, Describe(id) + ": refers to no operation");
        }
    }

    // Every member of every collective exactly once; every transfer sent once and received at most once.
    std::vector<std::vector<std::uint8_t>> seen(collectives.size());
    std::vector<std::uint8_t> sent(transfers.size());
    std::vector<std::uint8_t> received(transfers.size());
    for (std::size_t c = 0; c < collectives.size(); ++c)
    {
        seen[c].resize(groups.at(collectives[c].group).members.size());
    }
    for (TaskId id = 0; id < count; ++id)
    {
        const Task& task = tasks[id];
        if (task.kind == TaskKind::Collective)
        {
            const auto& members = groups[collectives[task.object].group].members;
            if (task.member >= members.size() || members[task.member] != task.rank ||
                seen[task.object][task.member]++ != 0)
            {
                throw SpecError(place, Describe(id) + ": is not one member of its group, once");
            }
        }
        else if (task.kind == TaskKind::Send || task.kind == TaskKind::Transfer)
        {
            ++sent[task.object];
        }
        else if (task.kind == TaskKind::Recv)
        {
            ++received[task.object];
        }
    }
    for (std::size_t c = 0; c < collectives.size(); ++c)
    {
        for (std::size_t m = 0; m < seen[c].size(); ++m)
        {
            if (seen[c][m] == 0)
            {
                const CommGroup& group = groups[collectives[c].group];
                throw SpecError(place,
                                std::string(Name(collectives[c].kind)) + " number " +
                                    std::to_string(collectives[c].sequence) + " of group '" +
                                    group.name + "': rank " + std::to_string(group.members[m]) +
                                    " never calls it");
            }
        }
    }
    for (std::size_t t = 0; t < transfers.size(); ++t)
    {
        if (sent[t] != 1 || received[t] > 1)
        {
            throw SpecError(place,
                            "message " + std::to_string(transfers[t].src) + "->" +
                                std::to_string(transfers[t].dst) + " of " +
                                std::to_string(transfers[t].bytes) + " B: found " +
                                std::to_string(sent[t]) + " sends and " +
                                std::to_string(received[t]) + " receives, expected one of each");
        }
    }

    std::sort(m_edges.begin(), m_edges.end());
    m_edges.erase(std::unique(m_edges.begin(), m_edges.end()), m_edges.end());
    m_successorStart.assign(count + 1, 0);
    m_predecessorCount.assign(count, 0);
    m_successors.resize(m_edges.size());
    for (std::size_t e = 0; e < m_edges.size(); ++e)
    {
        const auto [before, after] = m_edges[e];
        if (before >= count || after >= count)
        {
            throw SpecError(place,
                            "a dependency names task " + std::to_string(std::max(before, after)) +
                                " of " + std::to_string(count));
        }
        ++m_successorStart[before + 1];
        ++m_predecessorCount[after];
        m_successors[e] = after;
    }
    for (TaskId id = 0; id < count; ++id)
    {
        m_successorStart[id + 1] += m_successorStart[id];
    }
    m_edges.clear();
    m_edges.shrink_to_fit();

    // Kahn's algorithm; what is left over lies on or behind a cycle, so walking back finds one.
    std::vector<std::uint32_t> open = m_predecessorCount;
    std::vector<TaskId> ready;
    for (TaskId id = 0; id < count; ++id)
    {
        if (open[id] == 0)
        {
            ready.push_back(id);
        }
    }
    std::size_t done = 0;
    while (!ready.empty())
    {
        const TaskId id = ready.back();
        ready.pop_back();
        ++done;
        for (const TaskId* s = SuccessorsBegin(id); s != SuccessorsEnd(id); ++s)
        {
            if (--open[*s] == 0)
            {
                ready.push_back(*s);
            }
        }
    }
    if (done == count)
    {
        return;
    }
    std::vector<TaskId> predecessor(count, kNoId);
    TaskId at = kNoId;
    for (TaskId id = 0; id < count; ++id)
    {
        if (open[id] == 0)
        {
            continue;
        }
        at = at == kNoId ? id : at;
        for (const TaskId* s = SuccessorsBegin(id); s != SuccessorsEnd(id); ++s)
        {
            predecessor[*s] = open[*s] > 0 && predecessor[*s] == kNoId ? id : predecessor[*s];
        }
    }
    std::vector<std::uint8_t> visited(count);
    while (visited[at] == 0)
    {
        visited[at] = 1;
        at = predecessor[at];
    }
    std::string cycle;
    const TaskId first = at;
    do
    {
        cycle = " -> " + Describe(at) + cycle;
        at = predecessor[at];
    } while (at != first);
    throw SpecError(place, "dependency cycle: " + Describe(first) + cycle);
}

Bytes
PartOf(Bytes bytes, std::uint32_t parts, std::uint32_t index, std::uint32_t elementBytes)
{
    const Bytes elements = (bytes + elementBytes - 1) / elementBytes;
    const Bytes base = elements / parts;
    const Bytes extra = elements % parts;
    const auto edge = [&](Bytes part) {
        return std::min(bytes, (part * base + std::min(part, extra)) * elementBytes);
    };
    return edge(index + Bytes{1}) - edge(index);
}

} // namespace topoopt
