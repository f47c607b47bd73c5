// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/writers/writers.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace topoopt
{

namespace
{

using OrderedJson = nlohmann::ordered_json;

const char*
DtypeOf(std::uint32_t elementBytes)
{
    switch (elementBytes)
    {
    case 2:
        return "half";
    case 4:
        return "float";
    case 8:
        return "double";
    case 16:
        return "complexdouble";
    default:
        return "byte";
    }
}

class ParamWriter
{
  public:
    explicit ParamWriter(const TaskGraph& graph)
        : m_graph(graph),
          m_before(Predecessors(graph)),
          m_waited(graph.tasks.size()),
          m_request(graph.tasks.size())
    {
    }

    WrittenTrace Write()
    {
        m_number = GroupNumbers(m_graph, m_losses);
        AddCommonLosses(m_graph, false, m_losses);
        std::vector<std::vector<TaskId>> order(m_graph.ranks);
        for (const TaskId task : GlobalOrder())
        {
            order[m_graph.tasks[task].rank].push_back(task);
        }
        for (const Task& task : m_graph.tasks)
        {
            m_timed = m_timed || task.notBefore > 0;
        }
        WrittenTrace out;
        for (RankId rank = 0; rank < m_graph.ranks; ++rank)
        {
            out.files["rank-" + std::to_string(rank) + ".json"] = Rank(rank, order[rank]);
        }
        std::map<std::pair<RankId, RankId>, std::int64_t> tags;
        for (const TransferCall& transfer : m_graph.transfers)
        {
            const auto [at, isNew] =
                tags.emplace(std::make_pair(transfer.src, transfer.dst), transfer.tag);
            m_losses.Add("tags of messages", !isNew && at->second != transfer.tag ? 1 : 0);
        }
        out.dropped = m_losses.Lines();
        return out;
    }

  private:
    /**
     * An order of all tasks in which every rank can issue its own: dependencies, receives after their sends, members of
     * a collective together; otherwise by number.
     */
    [[nodiscard]] std::vector<TaskId> GlobalOrder() const
    {
        const auto tasks = static_cast<std::uint32_t>(m_graph.tasks.size());
        const std::size_t count = tasks + m_graph.collectives.size();
        // A collective's vertex stands behind its members' and in front of their successors.
        std::vector<std::vector<std::uint32_t>> next(count);
        std::vector<std::uint32_t> open(count);
        const auto edge = [&](std::uint32_t a, std::uint32_t b) {
            next[a].push_back(b);
            ++open[b];
        };
        std::vector<TaskId> sender(m_graph.transfers.size(), kNoId);
        for (TaskId t = 0; t < tasks; ++t)
        {
            const Task& task = m_graph.tasks[t];
            if (task.kind == TaskKind::Send || task.kind == TaskKind::Transfer)
            {
                sender[task.object] = t;
            }
        }
        for (TaskId t = 0; t < tasks; ++t)
        {
            const Task& task = m_graph.tasks[t];
            const bool collective = task.kind == TaskKind::Collective;
            if (collective)
            {
                edge(t, tasks + task.object);
            }
            if (task.kind == TaskKind::Recv)
            {
                edge(sender[task.object], t);
            }
            for (const TaskId* s = m_graph.SuccessorsBegin(t); s != m_graph.SuccessorsEnd(t); ++s)
            {
                edge(collective ? tasks + task.object : t, *s);
            }
        }
        std::vector<std::uint32_t> heap;
        const std::greater<> later;
        for (std::uint32_t v = 0; v < count; ++v)
        {
            if (open[v] == 0)
            {
                heap.push_back(v);
            }
        }
        std::make_heap(heap.begin(), heap.end(), later);
        std::vector<TaskId> order;
        while (!heap.empty())
        {
            std::pop_heap(heap.begin(), heap.end(), later);
            const std::uint32_t v = heap.back();
            heap.pop_back();
            if (v < tasks)
            {
                order.push_back(v);
            }
            for (const std::uint32_t s : next[v])
            {
                if (--open[s] == 0)
                {
                    heap.push_back(s);
                    std::push_heap(heap.begin(), heap.end(), later);
                }
            }
        }
        return order;
    }

    std::string Rank(RankId rank, const std::vector<TaskId>& order)
    {
        m_steps.clear();
        m_requests = 0;
        for (std::size_t g = 0; g < m_graph.groups.size(); ++g)
        {
            const auto& members = m_graph.groups[g].members;
            if (std::find(members.begin(), members.end(), rank) != members.end())
            {
                m_steps.push_back({{"comms", "init"},
                                   {"pg_id", m_number[g]},
                                   {"world_size", members.size()},
                                   {"global_ranks", members}});
            }
        }
        for (std::size_t i = 0; i < order.size(); ++i)
        {
            // Blocking if the next step waits for it anyway; a Join is a wait, so it needs a request.
            const TaskId task = order[i];
            bool blocking = i + 1 == order.size();
            if (!blocking && m_graph.tasks[order[i + 1]].kind != TaskKind::Join)
            {
                const auto& before = m_before[order[i + 1]];
                blocking = std::binary_search(before.begin(), before.end(), task);
            }
            Step(task, blocking);
        }
        for (TaskId t = 0; t < m_graph.tasks.size(); ++t)
        {
            const Task& task = m_graph.tasks[t];
            if (task.kind == TaskKind::Transfer && m_graph.transfers[task.object].dst == rank)
            {
                m_steps.push_back(PointToPoint(m_graph.transfers[task.object], false));
            }
        }
        std::string text = "[";
        for (const OrderedJson& step : m_steps)
        {
            text += (text.size() > 1 ? ",\n " : "\n ") + step.dump();
        }
        return text + "\n]\n";
    }

    void Step(TaskId id, bool blocking)
    {
        const Task& task = m_graph.tasks[id];
        bool waits = false;
        for (const TaskId before : m_before[id])
        {
            const Task& other = m_graph.tasks[before];
            if (other.rank != task.rank)
            {
                m_losses.Add("dependencies between ranks that no message or collective stands for");
                continue;
            }
            if (other.kind == TaskKind::Transfer)
            {
                m_losses.Add("dependencies on the delivery of a message at its source (kept: on "
                             "its sending)");
            }
            if (m_waited[before] == 1)
            {
                m_waited[before] = 2;
                waits = true;
                m_steps.push_back({{"comms", "wait"}, {"req", m_request[before]}, {"pg_id", 0}});
            }
        }
        OrderedJson step;
        switch (task.kind)
        {
        case TaskKind::Compute:
            m_losses.Add("computations");
            return;
        case TaskKind::Join:
            m_losses.Add("points in the order that wait for no communication", waits ? 0 : 1);
            m_losses.Add("delays", task.duration > 0 ? 1 : 0);
            m_losses.Add("earliest starts of waits", task.notBefore > 0 ? 1 : 0);
            return;
        case TaskKind::Collective:
            step = Collective(task);
            break;
        case TaskKind::Send:
        case TaskKind::Transfer:
            m_steps.push_back(Timed(PointToPoint(m_graph.transfers[task.object], true), task));
            return;
        case TaskKind::Recv:
            step = PointToPoint(m_graph.transfers[task.object], false);
            break;
        }
        m_request[id] = m_requests++;
        step["req"] = m_request[id];
        const bool needed = m_graph.SuccessorsBegin(id) != m_graph.SuccessorsEnd(id);
        if (!blocking)
        {
            m_waited[id] = needed ? 1 : 2;
            m_losses.Add("concurrency of communication that nothing waits for", needed ? 0 : 1);
        }
        m_steps.push_back(Timed(std::move(step), task));
    }

    OrderedJson Timed(OrderedJson step, const Task& task)
    {
        if (m_timed)
        {
            m_losses.Add("digits of starts below 1 ns", task.notBefore % kNanosecond != 0 ? 1 : 0);
            step["startTime_ns"] = task.notBefore / kNanosecond;
        }
        return step;
    }

    OrderedJson PointToPoint(const TransferCall& transfer, bool send) const
    {
        return {{"comms", send ? "isend" : "irecv"},
                {"pg_id", 0},
                {"src_rank", transfer.src},
                {"dst_rank", transfer.dst},
                {"use_batch", false},
                {"in_msg_size", transfer.bytes},
                {"out_msg_size", transfer.bytes},
                {"dtype", "byte"}};
    }

    OrderedJson Collective(const Task& task)
    {
        const CollectiveCall& call = m_graph.collectives[task.object];
        const auto& members = m_graph.groups[call.group].members;
        const std::size_t n = members.size();
        OrderedJson step = {{"comms", Name(call.kind)},
                            {"pg_id", m_number[call.group]},
                            {"world_size", n}};
        if (call.kind == CollectiveKind::Barrier)
        {
            return step;
        }
        bool whole = call.bytes % call.elementBytes == 0;
        for (const Bytes pair : call.pairBytes)
        {
            whole = whole && pair % call.elementBytes == 0;
        }
        whole = whole && (call.kind != CollectiveKind::AllToAll ||
                          call.bytes % (n * call.elementBytes) == 0);
        const std::uint32_t known =
            std::string(DtypeOf(call.elementBytes)) == "byte" ? 1 : call.elementBytes;
        const std::uint32_t elem = whole ? known : 1;
        m_losses.Add("element sizes of collectives",
                     elem != call.elementBytes && task.member == 0 ? 1 : 0);
        Bytes in = call.bytes / elem;
        Bytes out = in;
        switch (call.kind)
        {
        case CollectiveKind::AllGather:
            out = in * n;
            break;
        case CollectiveKind::ReduceScatter:
            out = in / n;
            break;
        case CollectiveKind::Scatter:
            in = in * n;
            break;
        case CollectiveKind::AllToAll:
            if (call.bytes % n != 0)
            {
                Splits(step, call, task, n, elem, in, out);
            }
            break;
        case CollectiveKind::AllToAllV:
            Splits(step, call, task, n, elem, in, out);
            break;
        case CollectiveKind::Gather:
            out = in * n;
            break;
        default:
            break;
        }
        step["in_msg_size"] = in;
        step["out_msg_size"] = out;
        step["dtype"] = DtypeOf(elem);
        if (call.kind == CollectiveKind::Broadcast || call.kind == CollectiveKind::Reduce ||
            call.kind == CollectiveKind::Gather || call.kind == CollectiveKind::Scatter)
        {
            step["root"] = members[call.root];
        }
        return step;
    }

    static void Splits(OrderedJson& step,
                       const CollectiveCall& call,
                       const Task& task,
                       std::size_t n,
                       std::uint32_t elem,
                       Bytes& in,
                       Bytes& out)
    {
        const auto pair = [&](std::size_t from, std::size_t to) {
            return (call.kind == CollectiveKind::AllToAllV ? call.pairBytes[from * n + to]
                                                           : PartOf(call.bytes,
                                                                    static_cast<std::uint32_t>(n),
                                                                    static_cast<std::uint32_t>(to),
                                                                    elem)) /
                   elem;
        };
        std::vector<Bytes> first;
        std::vector<Bytes> second;
        in = 0;
        out = 0;
        for (std::size_t m = 0; m < n; ++m)
        {
            first.push_back(pair(task.member, m));
            second.push_back(pair(m, task.member));
            in += first.back();
            out += second.back();
        }
        step["comms"] = "all_to_allv";
        step["in_split"] = first;
        step["out_split"] = second;
    }

    const TaskGraph& m_graph;
    std::vector<std::vector<TaskId>> m_before;
    std::vector<std::uint8_t>
        m_waited; ///< by task: 1 = asynchronous and not waited for yet, 2 = waited for
    std::vector<std::uint32_t> m_request; ///< by task: its request number
    std::uint32_t m_requests = 0;         ///< so far in this rank
    std::vector<std::uint32_t> m_number;  ///< of each group; 0 means all ranks
    std::vector<OrderedJson> m_steps;
    Losses m_losses;
    bool m_timed = false;
};

} // namespace

WrittenTrace
WriteParamBasic(const TaskGraph& graph, const std::string& /* stem */)
{
    return ParamWriter(graph).Write();
}

} // namespace topoopt
