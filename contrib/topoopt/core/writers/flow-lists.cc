// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/readers/readers.h"
#include "topoopt/core/trace.h"
#include "topoopt/core/writers/writers.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <set>

namespace topoopt
{

std::vector<std::vector<TaskId>>
Predecessors(const TaskGraph& graph)
{
    std::vector<std::vector<TaskId>> before(graph.tasks.size());
    for (TaskId t = 0; t < graph.tasks.size(); ++t)
    {
        for (const TaskId* s = graph.SuccessorsBegin(t); s != graph.SuccessorsEnd(t); ++s)
        {
            before[*s].push_back(t);
        }
    }
    return before;
}

std::vector<std::uint32_t>
GroupNumbers(const TaskGraph& graph, Losses& losses)
{
    const std::size_t count = graph.groups.size();
    std::vector<std::uint32_t> numbers(count);
    std::size_t whole = count; // the group that needs no name
    std::set<std::uint32_t> used{0};
    bool keep = true;
    for (std::size_t g = 0; g < count; ++g)
    {
        const CommGroup& group = graph.groups[g];
        const std::string& name = group.name;
        bool all = group.members.size() == graph.ranks;
        for (std::size_t m = 0; all && m < graph.ranks; ++m)
        {
            all = group.members[m] == m;
        }
        if (all && whole == count && (name.empty() || name == "0" || name == "world"))
        {
            whole = g;
            continue;
        }
        std::uint32_t number = 0;
        const auto end = std::from_chars(name.data(), name.data() + name.size(), number);
        keep = keep && end.ec == std::errc() && std::to_string(number) == name &&
               number <= INT32_MAX && used.insert(number).second;
        numbers[g] = number;
    }
    std::uint32_t next = 0;
    for (std::size_t g = 0; g < count && !keep; ++g)
    {
        numbers[g] = g == whole ? 0 : ++next;
        losses.Add("names of groups",
                   g != whole && graph.groups[g].name != std::to_string(numbers[g]) ? 1 : 0);
    }
    return numbers;
}

void
AddCommonLosses(const TaskGraph& graph, bool names, Losses& losses)
{
    losses.Add("ends of iterations",
               graph.iterationEnds.size() > 1 ? graph.iterationEnds.size() : 0);
    for (const Task& task : graph.tasks)
    {
        // A Transfer comes from a flow list, which has no names.
        const bool message = task.kind == TaskKind::Send || task.kind == TaskKind::Recv ||
                             task.kind == TaskKind::Collective;
        CommName plain;
        losses.Add("names of operations",
                   !names && message && task.name != kNoId && !graph.names[task.name].empty() &&
                           !ParseCommName(graph.names[task.name], plain)
                       ? 1
                       : 0);
    }
}

namespace
{

/** More messages than this in front of another one are not worth a trigger each. */
constexpr std::size_t kMostBefore = 256;

/** For every task, the messages that must have been delivered before it ends; in dependency order. */
class Ends
{
  public:
    Ends(const TaskGraph& graph, Losses& losses)
        : m_graph(graph),
          m_before(Predecessors(graph)),
          m_losses(losses),
          m_ends(graph.tasks.size()),
          m_starts(graph.tasks.size())
    {
    }

    /** @param own messages that end with each task; @param sends whether the task itself sends one of them */
    void Run(const std::vector<std::vector<std::uint32_t>>& own, const std::vector<bool>& sends)
    {
        std::vector<std::uint32_t> open = m_graph.PredecessorCounts();
        std::vector<TaskId> ready;
        for (TaskId t = 0; t < open.size(); ++t)
        {
            if (open[t] == 0)
            {
                ready.push_back(t);
            }
        }
        while (!ready.empty())
        {
            const TaskId t = ready.back();
            ready.pop_back();
            std::vector<std::uint32_t> before;
            for (const TaskId p : m_before[t])
            {
                before.insert(before.end(), m_ends[p].begin(), m_ends[p].end());
            }
            std::sort(before.begin(), before.end());
            before.erase(std::unique(before.begin(), before.end()), before.end());
            if (before.size() > kMostBefore)
            {
                m_losses.Add("dependencies on more than 256 messages at once");
                before.clear();
            }
            m_starts[t] = before;
            // Whatever waits for this task's messages waits for those before them too, unless it only receives.
            m_ends[t] = own[t].empty() ? before : own[t];
            if (!own[t].empty() && !sends[t])
            {
                m_ends[t].insert(m_ends[t].end(), before.begin(), before.end());
            }
            for (const TaskId* s = m_graph.SuccessorsBegin(t); s != m_graph.SuccessorsEnd(t); ++s)
            {
                if (--open[*s] == 0)
                {
                    ready.push_back(*s);
                }
            }
        }
    }

    [[nodiscard]] const std::vector<std::uint32_t>& Before(TaskId task) const
    {
        return m_starts[task];
    }

  private:
    const TaskGraph& m_graph;
    std::vector<std::vector<TaskId>> m_before;
    Losses& m_losses;
    std::vector<std::vector<std::uint32_t>> m_ends;
    std::vector<std::vector<std::uint32_t>> m_starts;
};

/** Seconds with twelve digits, exact. */
std::string
SecondsText(SimTime time)
{
    char text[48];
    std::snprintf(text,
                  sizeof text,
                  "%lld.%012lld",
                  static_cast<long long>(time / kSecond),
                  static_cast<long long>(time % kSecond));
    return text;
}

} // namespace

std::vector<FlatMessage>
Flatten(const TaskGraph& graph, bool dependencies, Losses& losses)
{
    AddCommonLosses(graph, false, losses);
    std::vector<FlatMessage> messages;
    std::vector<std::vector<std::uint32_t>> own(graph.tasks.size());
    std::vector<std::uint32_t> ofTransfer(graph.transfers.size(), kNoId);
    std::vector<std::uint32_t> firstOf(graph.collectives.size(), kNoId);
    std::vector<TaskId> taskOf;
    std::map<std::pair<std::uint32_t, RankId>, TaskId> memberTask;
    for (TaskId t = 0; t < graph.tasks.size(); ++t)
    {
        if (graph.tasks[t].kind == TaskKind::Collective)
        {
            memberTask[{graph.tasks[t].object, graph.tasks[t].rank}] = t;
        }
    }
    const auto add = [&](RankId src, RankId dst, Bytes bytes, TaskId task) {
        messages.push_back(
            {src, dst, bytes, graph.tasks[task].notBefore, graph.tasks[task].sourceId, {}});
        taskOf.push_back(task);
        return static_cast<std::uint32_t>(messages.size() - 1);
    };
    for (TaskId t = 0; t < graph.tasks.size(); ++t)
    {
        const Task& task = graph.tasks[t];
        switch (task.kind)
        {
        case TaskKind::Compute:
            losses.Add("computations", 1);
            losses.Add("earliest starts of what is no message", task.notBefore > 0 ? 1 : 0);
            break;
        case TaskKind::Collective:
        {
            if (firstOf[task.object] != kNoId)
            {
                break;
            }
            firstOf[task.object] = static_cast<std::uint32_t>(messages.size());
            const CollectiveCall& call = graph.collectives[task.object];
            if (call.kind == CollectiveKind::Barrier)
            {
                losses.Add("barriers (no message stands for them)");
                break;
            }
            losses.Add("collectives, written as their messages");
            for (const PairBytes& pair : DefaultMessages(call, graph.groups[call.group].members))
            {
                const TaskId src = memberTask.at({task.object, pair.src});
                const std::uint32_t m = add(pair.src, pair.dst, pair.bytes, src);
                own[src].push_back(m);
                own[memberTask.at({task.object, pair.dst})].push_back(m);
            }
            break;
        }
        case TaskKind::Send:
        case TaskKind::Transfer:
        {
            const TransferCall& transfer = graph.transfers[task.object];
            if (transfer.src == transfer.dst || transfer.bytes == 0)
            {
                losses.Add("messages of 0 B or to their own rank");
                break;
            }
            losses.Add("tags of messages", transfer.tag != 0 ? 1 : 0);
            ofTransfer[task.object] = add(transfer.src, transfer.dst, transfer.bytes, t);
            if (task.kind == TaskKind::Transfer)
            {
                own[t].push_back(ofTransfer[task.object]);
            }
            break;
        }
        case TaskKind::Join:
            losses.Add("delays", task.duration > 0 ? 1 : 0);
            [[fallthrough]];
        case TaskKind::Recv:
            losses.Add("earliest starts of what is no message", task.notBefore > 0 ? 1 : 0);
            break;
        }
    }
    for (TaskId t = 0; t < graph.tasks.size(); ++t)
    {
        const Task& task = graph.tasks[t];
        if (task.kind == TaskKind::Recv && ofTransfer[task.object] != kNoId)
        {
            own[t].push_back(ofTransfer[task.object]);
        }
    }
    if (!dependencies)
    {
        std::uint64_t edges = 0;
        for (const std::uint32_t count : graph.PredecessorCounts())
        {
            edges += count;
        }
        losses.Add("dependencies", edges);
        return messages;
    }
    Ends ends(graph, losses);
    std::vector<bool> sends(graph.tasks.size());
    for (std::size_t m = 0; m < messages.size(); ++m)
    {
        sends[taskOf[m]] = true;
    }
    ends.Run(own, sends);
    for (std::size_t m = 0; m < messages.size(); ++m)
    {
        messages[m].after = ends.Before(taskOf[m]);
    }
    return messages;
}

WrittenTrace
WriteHpccFlows(const TaskGraph& graph, const std::string& stem)
{
    Losses losses;
    std::vector<FlatMessage> messages = Flatten(graph, false, losses);
    std::stable_sort(messages.begin(),
                     messages.end(),
                     [](const FlatMessage& a, const FlatMessage& b) { return a.start < b.start; });
    std::string text = std::to_string(messages.size()) + "\n";
    for (const FlatMessage& m : messages)
    {
        text += std::to_string(m.src) + " " + std::to_string(m.dst) + " 3 100 " +
                std::to_string(m.bytes) + " " + SecondsText(m.start) + "\n";
    }
    return {{{stem, text}}, losses.Lines()};
}

WrittenTrace
WriteConnectionMatrix(const TaskGraph& graph, const std::string& stem)
{
    Losses losses;
    const std::vector<FlatMessage> messages = Flatten(graph, true, losses);
    // Messages that wait for the same set share a trigger; a connection can fire two.
    std::map<std::vector<std::uint32_t>, std::uint32_t> triggers;
    std::vector<std::vector<std::uint32_t>> sets;
    std::vector<std::uint32_t> startedBy(messages.size(), kNoId);
    for (std::size_t m = 0; m < messages.size(); ++m)
    {
        if (!messages[m].after.empty())
        {
            const auto [at, isNew] =
                triggers.emplace(messages[m].after, static_cast<std::uint32_t>(sets.size()));
            if (isNew)
            {
                sets.push_back(messages[m].after);
            }
            startedBy[m] = at->second;
        }
    }
    std::vector<std::vector<std::uint32_t>> fires(messages.size());
    std::vector<std::uint32_t> count(sets.size());
    for (std::uint32_t s = 0; s < sets.size(); ++s)
    {
        for (const std::uint32_t m : sets[s])
        {
            if (fires[m].size() < 2)
            {
                fires[m].push_back(s);
                ++count[s];
            }
            else
            {
                losses.Add("dependencies (a connection fires two triggers at most)");
            }
        }
    }
    std::vector<std::uint32_t> number(sets.size());
    std::uint32_t used = 0;
    for (std::size_t s = 0; s < sets.size(); ++s)
    {
        number[s] = count[s] > 0 ? ++used : 0;
    }
    std::string text = "Nodes " + std::to_string(std::max(graph.ranks, 1U)) + "\nConnections " +
                       std::to_string(messages.size()) + "\n";
    text += used > 0 ? "Triggers " + std::to_string(used) + "\n" : "";
    for (std::size_t m = 0; m < messages.size(); ++m)
    {
        const FlatMessage& message = messages[m];
        const bool waits = startedBy[m] != kNoId && count[startedBy[m]] > 0;
        text += std::to_string(message.src) + "->" + std::to_string(message.dst) + " id " +
                std::to_string(m + 1);
        text += waits ? " trigger " + std::to_string(number[startedBy[m]])
                      : " start " + std::to_string(message.start);
        losses.Add("starts of messages that a trigger starts", waits && message.start > 0 ? 1 : 0);
        losses.Add("sizes of 2 GiB and more in htsim itself (kept in the file)",
                   message.bytes > INT32_MAX ? 1 : 0);
        text += " size " + std::to_string(message.bytes);
        for (std::size_t f = 0; f < fires[m].size(); ++f)
        {
            text += (f == 0 ? " send_done_trigger " : " recv_done_trigger ") +
                    std::to_string(number[fires[m][f]]);
        }
        text += "\n";
    }
    for (std::size_t s = 0; s < sets.size(); ++s)
    {
        if (count[s] > 0)
        {
            text += "trigger id " + std::to_string(number[s]) +
                    (count[s] == 1 ? " oneshot" : " barrier count " + std::to_string(count[s])) +
                    "\n";
        }
    }
    return {{{stem, text}}, losses.Lines()};
}

} // namespace topoopt
