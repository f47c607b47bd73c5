// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/error.h"
#include "topoopt/core/writers/writers.h"

#include <algorithm>
#include <array>
#include <set>

namespace topoopt
{

namespace
{

/** Builds protobuf messages; field numbers are those of the Chakra schema (docs/traces.md 1.1). */
class Message
{
  public:
    void Number(std::uint32_t field, std::uint64_t value)
    {
        Varint(std::uint64_t{field} << 3);
        Varint(value);
    }

    void Text(std::uint32_t field, const std::string& value)
    {
        Varint(std::uint64_t{field} << 3 | 2);
        Varint(value.size());
        bytes += value;
    }

    void Packed(std::uint32_t field, const std::vector<std::uint64_t>& values)
    {
        if (!values.empty())
        {
            Message list;
            for (const std::uint64_t value : values)
            {
                list.Varint(value);
            }
            Text(field, list.bytes);
        }
    }

    /** An attribute with a number under field @p kind of the oneof. */
    void Attribute(const std::string& name, std::uint32_t kind, std::uint64_t value)
    {
        Message attribute;
        attribute.Text(1, name);
        attribute.Number(kind, value);
        Text(10, attribute.bytes);
    }

    void TextAttribute(const std::string& name, const std::string& value)
    {
        Message attribute;
        attribute.Text(1, name);
        attribute.Text(29, value);
        Text(10, attribute.bytes);
    }

    void Varint(std::uint64_t value)
    {
        while (value >= 0x80)
        {
            bytes.push_back(static_cast<char>(value | 0x80));
            value >>= 7;
        }
        bytes.push_back(static_cast<char>(value));
    }

    std::string bytes;
};

constexpr std::uint32_t kInt32 = 7;
constexpr std::uint32_t kInt64 = 9;
constexpr std::uint32_t kBool = 27;

std::uint64_t
CommType(CollectiveKind kind)
{
    switch (kind)
    {
    case CollectiveKind::AllReduce:
        return 0;
    case CollectiveKind::Reduce:
        return 1;
    case CollectiveKind::AllGather:
        return 2;
    case CollectiveKind::Gather:
        return 3;
    case CollectiveKind::Scatter:
        return 4;
    case CollectiveKind::Broadcast:
        return 5;
    case CollectiveKind::AllToAll:
    case CollectiveKind::AllToAllV:
        return 6;
    case CollectiveKind::ReduceScatter:
        return 7;
    case CollectiveKind::Barrier:
        return 9;
    }
    return 9;
}

class ChakraWriter
{
  public:
    ChakraWriter(const TaskGraph& graph, const std::string& stem)
        : m_graph(graph),
          m_stem(stem)
    {
    }

    WrittenTrace Write()
    {
        NumberNodes();
        NumberGroups();
        AddCommonLosses(m_graph, true, m_losses);
        m_before = Predecessors(m_graph);
        m_files.resize(m_graph.ranks);
        for (std::string& file : m_files)
        {
            Message metadata;
            metadata.Text(1, "0.0.4");
            Record(file, metadata);
        }
        ChooseTags();
        for (TaskId task = 0; task < m_graph.tasks.size(); ++task)
        {
            Task(task);
        }
        WrittenTrace out;
        for (std::size_t r = 0; r < m_files.size(); ++r)
        {
            out.files[m_stem + "." + std::to_string(r) + ".et"] = std::move(m_files[r]);
        }
        if (!m_graph.groups.empty())
        {
            out.files["comm_group.json"] = Groups();
        }
        out.dropped = m_losses.Lines();
        return out;
    }

  private:
    static void Record(std::string& file, const Message& message)
    {
        Message length;
        length.Varint(message.bytes.size());
        file += length.bytes + message.bytes;
    }

    /** Keeps the ids of the source where a rank has each once: ties between nodes are broken by id. */
    void NumberNodes()
    {
        std::vector<std::set<std::uint64_t>> ids(m_graph.ranks);
        std::vector<std::uint8_t> unique(m_graph.ranks, 1);
        m_next.assign(m_graph.ranks, 1);
        for (const topoopt::Task& task : m_graph.tasks)
        {
            const bool fits = task.sourceId < UINT64_MAX / 2;
            unique[task.rank] =
                fits && ids[task.rank].insert(task.sourceId).second ? unique[task.rank] : 0;
            m_next[task.rank] =
                fits ? std::max(m_next[task.rank], task.sourceId + 1) : m_next[task.rank];
        }
        m_id.resize(m_graph.tasks.size());
        std::vector<std::uint64_t> sequence(m_graph.ranks);
        for (TaskId t = 0; t < m_id.size(); ++t)
        {
            const topoopt::Task& task = m_graph.tasks[t];
            m_id[t] = unique[task.rank] != 0 ? task.sourceId : ++sequence[task.rank];
            if (unique[task.rank] == 0)
            {
                m_next[task.rank] = sequence[task.rank] + 1;
                m_losses.Add("node numbers of the source (not unique in a rank)");
            }
        }
    }

    /** ASTRA-sim takes names of groups as numbers from 1. */
    void NumberGroups()
    {
        m_group = GroupNumbers(m_graph, m_losses);
        std::uint32_t free = 1;
        while (std::find(m_group.begin(), m_group.end(), free) != m_group.end())
        {
            ++free;
        }
        std::replace(m_group.begin(), m_group.end(), 0U, free);
    }

    /** Tags of messages that the writer makes itself stay clear of the graph's. */
    void ChooseTags()
    {
        std::int64_t most = 0;
        for (const TransferCall& transfer : m_graph.transfers)
        {
            most = std::max(most, transfer.tag);
        }
        m_firstTag = most < INT32_MAX / 2 ? most + 1 : 0;
    }

    /** Nodes of one rank that stand for the end of a task there. */
    [[nodiscard]] std::vector<std::uint64_t> Deps(TaskId task)
    {
        std::vector<std::uint64_t> deps;
        const RankId rank = m_graph.tasks[task].rank;
        for (const TaskId before : m_before[task])
        {
            const topoopt::Task& other = m_graph.tasks[before];
            const auto extra = m_ends.find({before, rank});
            if (extra != m_ends.end())
            {
                deps.insert(deps.end(), extra->second.begin(), extra->second.end());
            }
            else if (other.rank == rank)
            {
                deps.push_back(m_id[before]);
            }
            else
            {
                m_losses.Add("dependencies between ranks that no message or collective stands for");
            }
            if (other.kind == TaskKind::Transfer && other.rank == rank)
            {
                m_losses.Add("dependencies on the delivery of a message at its source (kept: on "
                             "its sending)");
            }
        }
        std::sort(deps.begin(), deps.end());
        deps.erase(std::unique(deps.begin(), deps.end()), deps.end());
        return deps;
    }

    Message Head(std::uint64_t id, const std::string& name, std::uint64_t type) const
    {
        Message node;
        if (id != 0)
        {
            node.Number(1, id);
        }
        node.Text(2, name);
        node.Number(3, type);
        return node;
    }

    void Task(TaskId id)
    {
        const topoopt::Task& task = m_graph.tasks[id];
        const std::string name = task.name == kNoId ? Name(task.kind) : m_graph.names[task.name];
        const std::vector<std::uint64_t> deps = Deps(id);
        switch (task.kind)
        {
        case TaskKind::Compute:
        case TaskKind::Join:
        {
            Message node = Head(m_id[id], name, 4);
            Common(node, task, deps);
            // Readers give host-side nodes no time, so a delay has to be a computation.
            const bool point = task.kind == TaskKind::Join && task.duration == 0;
            node.Attribute("is_cpu_op", kBool, point ? 1 : 0);
            m_losses.Add("delays that occupy nothing, written as computations",
                         task.kind == TaskKind::Join && !point ? 1 : 0);
            Record(m_files[task.rank], node);
            break;
        }
        case TaskKind::Collective:
            Collective(id, name, deps);
            break;
        case TaskKind::Send:
        case TaskKind::Recv:
        case TaskKind::Transfer:
        {
            const TransferCall& transfer = m_graph.transfers[task.object];
            const bool send = task.kind != TaskKind::Recv;
            PointToPoint(task.rank, m_id[id], name, send, transfer, transfer.tag, &task, deps);
            if (task.kind == TaskKind::Transfer)
            {
                // The receiver of a flow list does nothing; here it must take the message.
                const std::uint64_t recv = m_next[transfer.dst]++;
                PointToPoint(transfer.dst, recv, name, false, transfer, transfer.tag, nullptr, {});
                m_ends[{id, transfer.dst}] = {recv};
            }
            break;
        }
        }
    }

    void Common(Message& node, const topoopt::Task& task, const std::vector<std::uint64_t>& deps)
    {
        node.Packed(5, deps);
        if (task.notBefore > 0)
        {
            m_losses.Add("digits of starts below 1 us", task.notBefore % kMicrosecond != 0 ? 1 : 0);
            node.Number(6, static_cast<std::uint64_t>(task.notBefore / kMicrosecond));
        }
        if (task.duration > 0)
        {
            m_losses.Add("digits of durations below 1 us",
                         task.duration % kMicrosecond != 0 ? 1 : 0);
            node.Number(
                7,
                static_cast<std::uint64_t>((task.duration + kMicrosecond / 2) / kMicrosecond));
        }
    }

    void PointToPoint(RankId rank,
                      std::uint64_t id,
                      const std::string& name,
                      bool send,
                      const TransferCall& transfer,
                      std::int64_t tag,
                      const topoopt::Task* task,
                      const std::vector<std::uint64_t>& deps)
    {
        Message node = Head(id, name, send ? 5 : 6);
        const topoopt::Task plain;
        Common(node, task != nullptr ? *task : plain, deps);
        node.Attribute("is_cpu_op", kBool, 0);
        node.Attribute("comm_size", kInt64, transfer.bytes);
        node.Attribute("comm_src", kInt32, transfer.src);
        node.Attribute("comm_dst", kInt32, transfer.dst);
        node.Attribute("comm_tag",
                       tag >= INT32_MIN && tag <= INT32_MAX ? kInt32 : kInt64,
                       static_cast<std::uint64_t>(tag));
        Record(m_files[rank], node);
    }

    void Collective(TaskId id, const std::string& name, const std::vector<std::uint64_t>& deps)
    {
        const topoopt::Task& task = m_graph.tasks[id];
        const CollectiveCall& call = m_graph.collectives[task.object];
        const CommGroup& group = m_graph.groups[call.group];
        const auto n = static_cast<std::uint32_t>(group.members.size());
        if (call.elementBytes != 1 && task.member == 0)
        {
            m_losses.Add("element sizes of collectives");
        }
        Bytes bytes = call.bytes;
        if (call.kind == CollectiveKind::AllToAllV)
        {
            const bool even = std::all_of(call.pairBytes.begin(),
                                          call.pairBytes.end(),
                                          [&](Bytes pair) { return pair == call.pairBytes[0]; });
            if (!even)
            {
                Exchange(id, name, deps);
                return;
            }
            bytes = call.pairBytes[0] * n;
        }
        Message node = Head(m_id[id], name, 7);
        Common(node, task, deps);
        node.Attribute("is_cpu_op", kBool, 0);
        node.Attribute("comm_type", kInt64, CommType(call.kind));
        node.Attribute("comm_size", kInt64, bytes);
        node.TextAttribute("pg_name", std::to_string(m_group[call.group]));
        const bool rooted =
            call.kind == CollectiveKind::Broadcast || call.kind == CollectiveKind::Reduce ||
            call.kind == CollectiveKind::Gather || call.kind == CollectiveKind::Scatter;
        if (rooted)
        {
            node.Attribute("root", kInt32, group.members[call.root]);
        }
        Record(m_files[task.rank], node);
    }

    /** An uneven all_to_allv as one message per pair; the member has ended when all of its own have. */
    void Exchange(TaskId id, const std::string& name, const std::vector<std::uint64_t>& deps)
    {
        const topoopt::Task& task = m_graph.tasks[id];
        const CollectiveCall& call = m_graph.collectives[task.object];
        const std::vector<RankId>& members = m_graph.groups[call.group].members;
        const auto n = static_cast<std::uint32_t>(members.size());
        const std::int64_t tag = m_firstTag + task.object;
        if (task.member == 0)
        {
            m_losses.Add("uneven all_to_allv, written as sends and receives");
        }
        std::vector<std::uint64_t>& ends = m_ends[{id, task.rank}];
        for (std::uint32_t other = 0; other < n; ++other)
        {
            if (other == task.member)
            {
                continue;
            }
            for (const bool send : {true, false})
            {
                const std::uint32_t from = send ? task.member : other;
                const std::uint32_t to = send ? other : task.member;
                const Bytes bytes = call.pairBytes[std::size_t{from} * n + to];
                if (bytes > 0)
                {
                    const std::uint64_t node = m_next[task.rank]++;
                    PointToPoint(task.rank,
                                 node,
                                 name,
                                 send,
                                 {members[from], members[to], bytes, tag},
                                 tag,
                                 &task,
                                 deps);
                    ends.push_back(node);
                }
            }
        }
        if (ends.empty())
        {
            ends = deps;
        }
    }

    [[nodiscard]] std::string Groups() const
    {
        std::string json = "{";
        for (std::size_t g = 0; g < m_graph.groups.size(); ++g)
        {
            json += (g == 0 ? "\"" : ", \"") + std::to_string(m_group[g]) + "\": [";
            const auto& members = m_graph.groups[g].members;
            for (std::size_t m = 0; m < members.size(); ++m)
            {
                json += (m == 0 ? "" : ", ") + std::to_string(members[m]);
            }
            json += "]";
        }
        return json + "}\n";
    }

    const TaskGraph& m_graph;
    std::string m_stem;
    Losses m_losses;
    std::vector<std::string> m_files;
    std::vector<std::uint64_t> m_id;
    std::vector<std::uint64_t> m_next;  ///< free node number of each rank
    std::vector<std::uint32_t> m_group; ///< number of each group
    std::vector<std::vector<TaskId>> m_before;
    /** (task, rank) -> nodes that stand for its end on that rank, if they are not the task's own. */
    std::map<std::pair<TaskId, RankId>, std::vector<std::uint64_t>> m_ends;
    std::int64_t m_firstTag = 0;
};

} // namespace

WrittenTrace
WriteChakra(const TaskGraph& graph, const std::string& stem)
{
    return ChakraWriter(graph, stem).Write();
}

} // namespace topoopt
