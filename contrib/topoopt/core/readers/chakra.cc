// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/error.h"
#include "topoopt/core/readers/json.h"
#include "topoopt/core/readers/readers.h"

#include <algorithm>
#include <array>
#include <deque>
#include <filesystem>
#include <numeric>
#include <optional>

namespace topoopt
{

namespace
{

/** Node types of the schema; numbers as in the file. */
enum ChakraType : std::int64_t
{
    kInvalid = 0,
    kMetadata = 1,
    kMemLoad = 2,
    kMemStore = 3,
    kComp = 4,
    kSend = 5,
    kRecv = 6,
    kColl = 7
};

/** A number attribute: which of the encodings it had decides whether it counts as one. */
struct Attribute
{
    bool present = false;
    bool integer = false; ///< an integer member of the oneof, or a bool
    std::int64_t value = 0;
    std::string found; ///< for messages, if it is no integer

    [[nodiscard]] std::string Show() const
    {
        return !present ? "nothing" : integer ? std::to_string(value) : found;
    }
};

/** A node as either dialect gives it. */
struct ChakraNode
{
    std::uint64_t byte = 0; ///< of its end, for messages
    std::uint64_t record = 0;
    std::uint64_t id = 0;
    std::int64_t type = 0;
    std::uint64_t startMicros = 0;
    std::uint64_t durationMicros = 0;
    std::string name;
    std::vector<std::uint64_t> dataDeps;
    std::vector<std::uint64_t> controlDeps;
    Attribute cpu;
    Attribute commType;
    Attribute commSize;
    Attribute commSrc;
    Attribute commDst;
    Attribute commTag;
    Attribute root;
    Attribute operations;
    std::string group;  ///< pg_name, or the number of comm_group
    std::string inputs; ///< of a metadata node: the text of its values

    void Clear()
    {
        *this = ChakraNode{};
    }
};

/** Turns the nodes of one rank into operations; shared by the protobuf and the JSON dialect. */
class ChakraRank
{
  public:
    ChakraRank(TraceSet& set,
               std::uint32_t rank,
               const TraceOptions& options,
               const std::map<std::string, std::uint32_t>& groupFile)
        : m_set(set),
          m_trace(set.ranks[rank]),
          m_rank(rank),
          m_options(options),
          m_groups(groupFile)
    {
        m_trace.programOrder = false;
    }

    [[nodiscard]] std::string Where(const ChakraNode& node) const
    {
        return PlaceAtByte(m_trace.file, node.byte) + " rank " + std::to_string(m_rank) + " node " +
               std::to_string(node.id) +
               (node.name.empty() ? "" : " (\"" + Printable(node.name) + "\")");
    }

    void Add(const ChakraNode& node)
    {
        ++m_set.facts["nodes"];
        TraceOp op;
        op.id = node.id;
        op.name = m_set.Name(node.name);
        op.group = UINT32_MAX;
        if (node.startMicros > 0)
        {
            if (node.startMicros > INT64_MAX / 1000)
            {
                throw SpecError(Where(node) + ": start_time_micros: found " +
                                std::to_string(node.startMicros) + ", expected below 2^63 ns");
            }
            op.start = static_cast<std::int64_t>(node.startMicros) * 1000;
        }
        op.kind = OpKind::Nothing;
        switch (node.type)
        {
        case kMetadata:
            Groups(node);
            break;
        case kMemLoad:
        case kMemStore:
        case kComp:
            Compute(node, op);
            break;
        case kSend:
        case kRecv:
            PointToPoint(node, op);
            break;
        case kColl:
            Collective(node, op);
            break;
        default:
            throw SpecError(Where(node) + ": type: found " + std::to_string(node.type) +
                            ", expected 1..7 (metadata, mem load, mem store, comp, send, recv, "
                            "collective)");
        }
        m_dataStart.push_back(m_dataDeps.size());
        m_dataDeps.insert(m_dataDeps.end(), node.dataDeps.begin(), node.dataDeps.end());
        for (const std::uint64_t id : node.controlDeps)
        {
            m_set.facts["ctrl_deps_to_self"] += id == node.id ? 1 : 0;
        }
        if (m_options.controlDeps)
        {
            m_controlStart.push_back(m_controlDeps.size());
        }
        m_controlDeps.insert(m_controlDeps.end(), node.controlDeps.begin(), node.controlDeps.end());
        m_ids.push_back(node.id);
        m_names.push_back(op.name);
        m_bytes.push_back(node.byte);
        m_opOf.push_back(kNoId);
        if (m_ids.size() > UINT32_MAX / 2)
        {
            throw SpecError(Where(node) + ": more than 2^31 nodes");
        }
        // What takes no time need not become an operation; see Finish().
        if (op.kind != OpKind::Nothing || (m_options.timingKept && op.start >= 0))
        {
            Keep(static_cast<std::uint32_t>(m_ids.size() - 1), op);
        }
    }

    /**
     * Resolves what may stand behind its use: dependencies and groups.
     *
     * Most nodes of a converted trace are host records without effect. One with at most one predecessor among the
     * kept nodes is left out and its predecessor takes its place, which changes no time and saves most of the memory.
     */
    void Finish()
    {
        const auto count = static_cast<std::uint32_t>(m_ids.size());
        m_dataStart.push_back(m_dataDeps.size());
        if (m_options.controlDeps)
        {
            m_controlStart.push_back(m_controlDeps.size());
        }
        SortIds();
        bool ascending = true;
        for (std::uint32_t i = 0; i < count; ++i)
        {
            for (std::size_t d = m_dataStart[i]; d < m_dataStart[i + 1]; ++d)
            {
                const std::uint64_t id = m_dataDeps[d];
                const std::uint32_t at = Find(id);
                if (at == kNoId)
                {
                    throw SpecError(Where(i) + ": depends on node " + std::to_string(id) +
                                    ", which is not in the file");
                }
                if (at == i)
                {
                    throw SpecError(Where(i) + ": depends on itself");
                }
                m_dataDeps[d] = at;
                ascending = ascending && id < m_ids[i];
            }
        }
        for (std::uint64_t& id : m_controlDeps)
        {
            const std::uint32_t at = Find(id);
            m_set.facts["ctrl_deps_to_absent_nodes"] += at == kNoId ? 1 : 0;
            id = at;
        }
        WarnOfLooseCollectives();
        Contract(Order(ascending && !m_options.controlDeps));
        for (std::uint32_t op = 0; op < m_trace.ops.size(); ++op)
        {
            if (m_trace.ops[op].kind == OpKind::Collective)
            {
                SetGroup(op);
            }
        }
    }

  private:
    static std::string Printable(const std::string& name)
    {
        std::string text = name.substr(0, 100);
        for (char& c : text)
        {
            c = static_cast<unsigned char>(c) < 0x20 || c == '\x7f' ? '?' : c;
        }
        return text;
    }

    /** @param i a node, by its place in the file */
    [[nodiscard]] std::string Where(std::uint32_t i) const
    {
        ChakraNode node;
        node.byte = m_bytes[i];
        node.id = m_ids[i];
        node.name = m_set.names[m_names[i]];
        return Where(node);
    }

    /** Makes node @p i an operation. */
    void Keep(std::uint32_t i, const TraceOp& op)
    {
        m_opOf[i] = static_cast<std::uint32_t>(m_trace.ops.size());
        m_nodeOf.push_back(i);
        m_trace.ops.push_back(op);
    }

    /** Fills m_byId unless the file is in order of its ids. */
    void SortIds()
    {
        const auto count = static_cast<std::uint32_t>(m_ids.size());
        bool sorted = true;
        for (std::uint32_t i = 1; i < count; ++i)
        {
            sorted = sorted && m_ids[i - 1] < m_ids[i];
        }
        if (sorted)
        {
            return;
        }
        m_byId.resize(count);
        std::iota(m_byId.begin(), m_byId.end(), 0U);
        std::sort(m_byId.begin(), m_byId.end(), [this](std::uint32_t a, std::uint32_t b) {
            return m_ids[a] != m_ids[b] ? m_ids[a] < m_ids[b] : a < b;
        });
        for (std::uint32_t i = 1; i < count; ++i)
        {
            if (m_ids[m_byId[i]] == m_ids[m_byId[i - 1]])
            {
                throw SpecError(Where(m_byId[i]) + ": found node id " +
                                std::to_string(m_ids[m_byId[i]]) + " twice");
            }
        }
    }

    /** The node with an id, by its place in the file; kNoId if there is none. O(log nodes). */
    [[nodiscard]] std::uint32_t Find(std::uint64_t id) const
    {
        std::uint32_t low = 0;
        auto high = static_cast<std::uint32_t>(m_ids.size());
        while (low < high)
        {
            const std::uint32_t middle = low + (high - low) / 2;
            const std::uint32_t node = m_byId.empty() ? middle : m_byId[middle];
            if (m_ids[node] == id)
            {
                return node;
            }
            (m_ids[node] < id ? low : high) = m_ids[node] < id ? middle + 1 : middle;
        }
        return kNoId;
    }

    void WarnOfLooseCollectives()
    {
        std::uint64_t collectives = 0;
        std::uint64_t loose = 0;
        for (std::size_t op = 0; op < m_trace.ops.size(); ++op)
        {
            if (m_trace.ops[op].kind == OpKind::Collective)
            {
                const std::uint32_t i = m_nodeOf[op];
                ++collectives;
                loose += m_dataStart[i] == m_dataStart[i + 1] ? 1 : 0;
            }
        }
        if (loose >= 2 && loose == collectives)
        {
            m_set.Warn(
                std::to_string(loose) + " of " + std::to_string(collectives) +
                " collectives of a rank have no predecessor; is the conversion right? They run "
                "one after the other in the order of their ids");
        }
    }

    /** Calls @p visit with every predecessor of node @p i. */
    template <typename Visit>
    void ForPredecessors(std::uint32_t i, Visit visit) const
    {
        for (std::size_t d = m_dataStart[i]; d < m_dataStart[i + 1]; ++d)
        {
            visit(static_cast<std::uint32_t>(m_dataDeps[d]));
        }
        if (m_options.controlDeps)
        {
            for (std::size_t d = m_controlStart[i]; d < m_controlStart[i + 1]; ++d)
            {
                const auto at = static_cast<std::uint32_t>(m_controlDeps[d]);
                if (at != kNoId && at != i)
                {
                    visit(at);
                }
            }
        }
    }

    /** All nodes, predecessors first; fewer than all if there is a cycle. */
    [[nodiscard]] std::vector<std::uint32_t> Order(bool ascending) const
    {
        const auto count = static_cast<std::uint32_t>(m_ids.size());
        if (ascending && !m_byId.empty())
        {
            return m_byId;
        }
        std::vector<std::uint32_t> order;
        order.reserve(count);
        if (ascending)
        {
            order.resize(count);
            std::iota(order.begin(), order.end(), 0U);
            return order;
        }
        std::vector<std::uint32_t> open(count);
        std::vector<std::uint32_t> start(std::size_t{count} + 1);
        for (std::uint32_t i = 0; i < count; ++i)
        {
            ForPredecessors(i, [&](std::uint32_t before) {
                ++open[i];
                ++start[before + 1];
            });
        }
        for (std::uint32_t i = 0; i < count; ++i)
        {
            start[i + 1] += start[i];
        }
        std::vector<std::uint32_t> fill(start.begin(), start.end() - 1);
        std::vector<std::uint32_t> next(start.back());
        for (std::uint32_t i = 0; i < count; ++i)
        {
            ForPredecessors(i, [&](std::uint32_t before) { next[fill[before]++] = i; });
        }
        for (std::uint32_t i = 0; i < count; ++i)
        {
            if (open[i] == 0)
            {
                order.push_back(i);
            }
        }
        for (std::size_t at = 0; at < order.size(); ++at)
        {
            for (std::uint32_t e = start[order[at]]; e < start[order[at] + 1]; ++e)
            {
                if (--open[next[e]] == 0)
                {
                    order.push_back(next[e]);
                }
            }
        }
        return order;
    }

    /** Leaves out nodes without effect and gives the others their dependencies. */
    void Contract(std::vector<std::uint32_t> order)
    {
        const auto count = static_cast<std::uint32_t>(m_ids.size());
        const bool cyclic = order.size() < count;
        TraceOp nothing;
        nothing.kind = OpKind::Nothing;
        const auto keep = [&](std::uint32_t i) {
            nothing.id = m_ids[i];
            nothing.name = m_names[i];
            Keep(i, nothing);
        };
        if (cyclic)
        {
            // Kept whole, so that the cycle is found and printed with all its nodes.
            order.resize(count);
            std::iota(order.begin(), order.end(), 0U);
            for (std::uint32_t i = 0; i < count; ++i)
            {
                if (m_opOf[i] == kNoId)
                {
                    keep(i);
                }
            }
        }
        // Of each node: the operation with which it ends, or none.
        std::vector<std::uint32_t> end(count, kNoId);
        for (std::uint32_t i = 0; cyclic && i < count; ++i)
        {
            end[i] = m_opOf[i];
        }
        std::int64_t left = 0;
        std::vector<std::uint32_t> before;
        for (const std::uint32_t i : order)
        {
            before.clear();
            ForPredecessors(i, [&](std::uint32_t at) {
                if (end[at] != kNoId)
                {
                    before.push_back(end[at]);
                }
            });
            std::sort(before.begin(), before.end());
            before.erase(std::unique(before.begin(), before.end()), before.end());
            if (m_opOf[i] == kNoId)
            {
                if (before.size() < 2)
                {
                    end[i] = before.empty() ? kNoId : before[0];
                    ++left;
                    continue;
                }
                keep(i);
            }
            end[i] = m_opOf[i];
            TraceOp& op = m_trace.ops[m_opOf[i]];
            op.deps = m_trace.deps.size();
            op.depCount = static_cast<std::uint32_t>(before.size());
            m_trace.deps.insert(m_trace.deps.end(), before.begin(), before.end());
        }
        m_set.facts["records_without_effect"] += left;
    }

    /** A PyTorch group list, a Python repr around JSON: ['[{"pg_name": "0", "ranks": [..]}]']. */
    void Groups(const ChakraNode& node)
    {
        const std::size_t begin = node.inputs.find("[{");
        if (begin == std::string::npos || node.name.find("process_group") == std::string::npos)
        {
            return;
        }
        const std::size_t end = node.inputs.rfind("}]");
        JsonTape tape;
        try
        {
            if (end == std::string::npos || end < begin)
            {
                throw SpecError("cut off");
            }
            ParseJsonText("", std::string_view(node.inputs).substr(begin, end + 2 - begin), tape);
        }
        catch (const SpecError&)
        {
            throw SpecError(Where(node) + ": the list of process groups is cut off, so groups are "
                                          "unknown; give them in a file (groups_file: FILE)");
        }
        const JsonValue list = tape.Root();
        for (JsonValue g = list.Is(JsonType::Array) ? list.First() : JsonValue(); g; g = g.Next())
        {
            std::vector<RankId> members;
            const std::string name(g["pg_name"].AsString());
            const JsonValue ranks = g["ranks"];
            for (JsonValue v = ranks.Is(JsonType::Array) ? ranks.First() : JsonValue(); v;
                 v = v.Next())
            {
                std::int64_t rank = 0;
                if (!v.ToInt(rank) || rank < 0 || rank > INT32_MAX)
                {
                    throw SpecError(Where(node) + ": group \"" + name + "\": found rank " +
                                    v.Show());
                }
                members.push_back(static_cast<RankId>(rank));
            }
            m_groups[name] = m_set.Group(name, m_options.partial ? std::vector<RankId>{} : members);
        }
    }

    void Compute(const ChakraNode& node, TraceOp& op)
    {
        const bool host = node.cpu.value != 0;
        if (host && !m_options.cpuCompute)
        {
            ++m_set.facts["host_compute_nodes"];
            return;
        }
        if (node.durationMicros > INT64_MAX / kMicrosecond / 2)
        {
            throw SpecError(Where(node) + ": duration_micros: found " +
                            std::to_string(node.durationMicros) + ", expected less than 53 days");
        }
        if (node.durationMicros == 0 && node.operations.present)
        {
            m_set.Warn("compute nodes have num_ops but no duration; they take no time");
        }
        op.kind = OpKind::Compute;
        op.duration = static_cast<SimTime>(node.durationMicros) * kMicrosecond;
    }

    std::int64_t Integer(const ChakraNode& node, const Attribute& attribute, const char* name) const
    {
        if (!attribute.present || !attribute.integer)
        {
            throw SpecError(Where(node) + ": " + name + ": found " + attribute.Show() +
                            ", expected an integer attribute");
        }
        return attribute.value;
    }

    Bytes Size(const ChakraNode& node) const
    {
        const std::int64_t size = Integer(node, node.commSize, "comm_size");
        return CheckedBytes(Where(node) + ": comm_size",
                            size,
                            m_options.sizesAreElements ? m_options.elementBytes : 1);
    }

    void PointToPoint(const ChakraNode& node, TraceOp& op)
    {
        const bool send = node.type == kSend;
        const Attribute& peer = send ? node.commDst : node.commSrc;
        const Attribute& self = send ? node.commSrc : node.commDst;
        const char* name = send ? "comm_dst" : "comm_src";
        if (!peer.present || (m_options.skipUnplaceable && !node.commSize.present))
        {
            if (node.cpu.value != 0 || m_options.skipUnplaceable)
            {
                ++m_set.facts[node.cpu.value != 0 ? "host_comm_nodes" : "skipped_unplaceable"];
                return;
            }
            throw SpecError(Where(node) + ": " + (send ? "send" : "receive") + " without " + name +
                            ", so its peer is unknown (PyTorch's converter drops it); "
                            "skip_unplaceable: true leaves such nodes out");
        }
        const std::int64_t rank = Integer(node, peer, name);
        const auto count = static_cast<std::int64_t>(m_set.ranks.size());
        if (rank < 0 || (rank >= count && !m_options.partial))
        {
            throw SpecError(Where(node) + ": " + name + ": found " + std::to_string(rank) +
                            ", expected 0.." + std::to_string(count - 1));
        }
        if (self.present && self.integer && self.value != static_cast<std::int64_t>(m_rank))
        {
            throw SpecError(Where(node) + ": " + (send ? "comm_src" : "comm_dst") + ": found " +
                            std::to_string(self.value) + ", expected " + std::to_string(m_rank) +
                            ", this rank");
        }
        op.kind = send ? OpKind::Send : OpKind::Recv;
        op.peer = static_cast<RankId>(rank);
        op.tag = node.commTag.present ? Integer(node, node.commTag, "comm_tag") : 0;
        if (send || node.commSize.present)
        {
            op.bytes = Size(node);
        }
        op.sizeUnknown = !node.commSize.present;
        op.elementBytes = m_options.sizesAreElements ? m_options.elementBytes : 1;
    }

    void Collective(const ChakraNode& node, TraceOp& op)
    {
        static constexpr std::array<CollectiveKind, 10> kinds{CollectiveKind::AllReduce,
                                                              CollectiveKind::Reduce,
                                                              CollectiveKind::AllGather,
                                                              CollectiveKind::Gather,
                                                              CollectiveKind::Scatter,
                                                              CollectiveKind::Broadcast,
                                                              CollectiveKind::AllToAll,
                                                              CollectiveKind::ReduceScatter,
                                                              CollectiveKind::ReduceScatter,
                                                              CollectiveKind::Barrier};
        if (!node.commType.present)
        {
            if (node.cpu.value != 0 || m_options.skipUnplaceable)
            {
                // The host's record of an operation that a GPU node stands for.
                ++m_set.facts[node.cpu.value != 0 ? "host_comm_nodes" : "skipped_unplaceable"];
                return;
            }
            throw SpecError(Where(node) +
                            ": collective without comm_type (if the file is Chakra 0.0.x, "
                            "convert it first); skip_unplaceable: true leaves it out");
        }
        const std::int64_t type = Integer(node, node.commType, "comm_type");
        if (type < 0 || type >= static_cast<std::int64_t>(kinds.size()))
        {
            throw SpecError(
                Where(node) + ": comm_type: found " + std::to_string(type) +
                ", expected 0..9 (all_reduce, reduce, all_gather, gather, scatter, "
                "broadcast, all_to_all, reduce_scatter, reduce_scatter_block, barrier)");
        }
        op.kind = OpKind::Collective;
        op.collective = kinds[static_cast<std::size_t>(type)];
        op.elementBytes = m_options.sizesAreElements ? m_options.elementBytes : 1;
        if (op.collective != CollectiveKind::Barrier)
        {
            op.bytes = Size(node);
        }
        if (node.root.present)
        {
            const std::int64_t root = Integer(node, node.root, "root");
            if (root < 0 || root > INT32_MAX)
            {
                throw SpecError(Where(node) + ": root: found " + std::to_string(root));
            }
            op.peer = static_cast<RankId>(root);
        }
        // Resolved in Finish(): the group list may stand further down.
        const auto [at, isNew] =
            m_groupNames.emplace(node.group, static_cast<std::uint32_t>(m_groupTexts.size()));
        if (isNew)
        {
            m_groupTexts.push_back(node.group);
        }
        op.group = at->second;
    }

    void SetGroup(std::uint32_t number)
    {
        const std::uint32_t i = m_nodeOf[number];
        TraceOp& op = m_trace.ops[number];
        const std::string name = m_groupTexts[op.group];
        const auto at = m_groups.find(name);
        if (at != m_groups.end())
        {
            op.group = at->second;
        }
        else if (name.empty() || name == "0" || m_options.partial)
        {
            op.group = m_set.Group(name.empty() ? "world" : name, {});
        }
        else
        {
            std::string known;
            for (const auto& [other, group] : m_groups)
            {
                known += known.size() < 100 ? (known.empty() ? "" : ", ") + other : "";
            }
            throw SpecError(Where(i) + ": pg_name: found group \"" + name.substr(0, 60) +
                            "\", expected " +
                            (known.empty() ? "none: no groups are defined" : known) +
                            " (in the trace, or in comm_group.json beside it)");
        }
        if (m_options.partial)
        {
            return;
        }
        const std::uint32_t n = GroupSize(m_set, op.group);
        if (op.peer != kNoId)
        {
            op.root = MemberIndex(m_set, op.group, op.peer);
            if (op.root == UINT32_MAX)
            {
                throw SpecError(Where(i) + ": root: found rank " + std::to_string(op.peer) +
                                ", which is no member of group \"" + name + "\"");
            }
        }
        if (op.collective == CollectiveKind::AllGather && m_options.allGatherOutput)
        {
            if (op.bytes % n != 0)
            {
                throw SpecError(Where(i) + ": comm_size: found " + std::to_string(op.bytes) +
                                " B of output, expected a multiple of " + std::to_string(n));
            }
            op.bytes /= n;
        }
    }

    TraceSet& m_set;
    RankTrace& m_trace;
    std::uint32_t m_rank;
    const TraceOptions& m_options;
    std::map<std::string, std::uint32_t> m_groups; ///< as this rank knows them
    std::map<std::string, std::uint32_t> m_groupNames;
    std::vector<std::string> m_groupTexts;
    // By node, in the order of the file. Deques: a vector that grows holds everything one and a half times.
    std::deque<std::uint64_t> m_ids;
    std::deque<std::uint32_t> m_names; ///< index into TraceSet::names
    std::deque<std::uint64_t> m_bytes; ///< place in the file
    std::deque<std::uint32_t> m_opOf;  ///< index into RankTrace::ops; kNoId = none
    std::deque<std::uint64_t> m_dataStart;
    std::deque<std::uint64_t> m_controlStart; ///< only if they are enforced
    std::deque<std::uint64_t> m_dataDeps;     ///< ids; nodes from Finish() on
    std::deque<std::uint64_t> m_controlDeps;
    std::vector<std::uint32_t> m_byId;   ///< nodes in order of their ids; empty = as they are
    std::vector<std::uint32_t> m_nodeOf; ///< node of each operation
};

/** Fields of one protobuf message in memory; every length is checked against its end. */
class Wire
{
  public:
    Wire(std::string_view bytes, const std::string& place)
        : m_bytes(bytes),
          m_place(place)
    {
    }

    std::uint32_t field = 0;
    std::uint32_t type = 0;
    std::uint64_t number = 0; ///< of wire types 0, 1, 5
    std::string_view text;    ///< of wire type 2

    /** Next field. @return false at the end */
    bool Next()
    {
        if (m_bytes.empty())
        {
            return false;
        }
        const std::uint64_t key = Varint();
        field = static_cast<std::uint32_t>(key >> 3);
        type = static_cast<std::uint32_t>(key & 7);
        if (field == 0 || key >> 32 != 0)
        {
            Fail("found field number " + std::to_string(key >> 3));
        }
        switch (type)
        {
        case 0:
            number = Varint();
            break;
        case 1:
            number = Fixed(8);
            break;
        case 2:
        {
            const std::uint64_t length = Varint();
            if (length > m_bytes.size())
            {
                Fail("field " + std::to_string(field) + ": found length " + std::to_string(length) +
                     ", expected at most " + std::to_string(m_bytes.size()));
            }
            text = m_bytes.substr(0, length);
            m_bytes.remove_prefix(length);
            break;
        }
        case 5:
            number = Fixed(4);
            break;
        default:
            Fail("field " + std::to_string(field) + ": found wire type " + std::to_string(type));
        }
        return true;
    }

    /** A repeated scalar: one more value, or a packed run of them. */
    void Numbers(std::vector<std::uint64_t>& out) const
    {
        if (type == 0)
        {
            out.push_back(number);
            return;
        }
        if (type != 2)
        {
            Fail("field " + std::to_string(field) + ": found wire type " + std::to_string(type));
        }
        Wire packed(text, m_place);
        while (!packed.m_bytes.empty())
        {
            out.push_back(packed.Varint());
        }
    }

    [[noreturn]] void Fail(const std::string& what) const
    {
        throw SpecError(m_place + ": no protobuf message: " + what);
    }

  private:
    std::uint64_t Varint()
    {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 70; shift += 7)
        {
            if (m_bytes.empty())
            {
                Fail("found the end inside a number");
            }
            const auto byte = static_cast<unsigned char>(m_bytes.front());
            m_bytes.remove_prefix(1);
            value |= shift < 64 ? static_cast<std::uint64_t>(byte & 0x7f) << shift : 0;
            if ((byte & 0x80) == 0)
            {
                return value;
            }
        }
        Fail("found a number of more than 10 bytes");
    }

    std::uint64_t Fixed(std::size_t size)
    {
        if (m_bytes.size() < size)
        {
            Fail("found the end inside a number");
        }
        std::uint64_t value = 0;
        for (std::size_t i = 0; i < size; ++i)
        {
            value |= static_cast<std::uint64_t>(static_cast<unsigned char>(m_bytes[i])) << (8 * i);
        }
        m_bytes.remove_prefix(size);
        return value;
    }

    std::string_view m_bytes;
    const std::string& m_place;
};

/** The value of an attribute: field numbers of the oneof as in the schema. */
void
SetNumber(Attribute& out, const Wire& wire)
{
    const auto zigzag = [](std::uint64_t n) {
        return static_cast<std::int64_t>(n >> 1) ^ -static_cast<std::int64_t>(n & 1);
    };
    out.present = true;
    out.integer = true;
    const bool varint = wire.type == 0;
    const std::uint64_t n = wire.number;
    switch (wire.field)
    {
    case 7: // int32
    case 9: // int64
        out.integer = varint;
        out.value = static_cast<std::int64_t>(n);
        break;
    case 11: // uint32
    case 13: // uint64
        out.integer = varint && n <= INT64_MAX;
        out.value = static_cast<std::int64_t>(n);
        out.found = std::to_string(n);
        break;
    case 15: // sint32
    case 17: // sint64
        out.integer = varint;
        out.value = zigzag(n);
        break;
    case 19: // fixed32
        out.integer = wire.type == 5;
        out.value = static_cast<std::int64_t>(n);
        break;
    case 21: // fixed64
        out.integer = wire.type == 1 && n <= INT64_MAX;
        out.value = static_cast<std::int64_t>(n);
        out.found = std::to_string(n);
        break;
    case 23: // sfixed32
        out.integer = wire.type == 5;
        out.value = static_cast<std::int32_t>(static_cast<std::uint32_t>(n));
        break;
    case 25: // sfixed64
        out.integer = wire.type == 1;
        out.value = static_cast<std::int64_t>(n);
        break;
    case 27: // bool
        out.integer = varint;
        out.value = n != 0 ? 1 : 0;
        break;
    default:
        out.integer = false;
        break;
    }
    if (!out.integer && out.found.empty())
    {
        out.found = wire.field == 3    ? "a double"
                    : wire.field == 5  ? "a float"
                    : wire.field == 29 ? "a string"
                    : wire.field == 31 ? "bytes"
                                       : "a list";
    }
}

/** Reads the records of one protobuf trace. */
class ProtoReader
{
  public:
    ProtoReader(const TraceFile& file, ChakraRank& rank, std::uint32_t number)
        : m_input(file),
          m_rank(rank),
          m_number(number)
    {
    }

    void Read()
    {
        for (m_record = 0; NextRecord(); ++m_record)
        {
            if (m_record == 0)
            {
                Metadata();
            }
            else
            {
                Node();
            }
        }
        if (m_record == 0)
        {
            throw SpecError(m_input.Name(), "found an empty file, expected a Chakra trace");
        }
        m_rank.Finish();
    }

  private:
    [[nodiscard]] std::string Place() const
    {
        return PlaceAtByte(m_input.Name(), m_at) + " rank " + std::to_string(m_number) +
               " record " + std::to_string(m_record);
    }

    /** Length and bytes of a record into m_bytes. @return false at a clean end */
    bool NextRecord()
    {
        m_at = m_input.Offset();
        int byte = m_input.Get();
        if (byte < 0)
        {
            return false;
        }
        std::uint64_t length = 0;
        unsigned shift = 0;
        for (;; byte = m_input.Get(), shift += 7)
        {
            if (byte < 0)
            {
                throw SpecError(Place() + ": the file ends inside the record's length");
            }
            length |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
            if (shift >= 35 || length > INT32_MAX)
            {
                throw SpecError(Place() +
                                ": found a record length of 2^31 B or more (no Chakra trace?)");
            }
            if ((byte & 0x80) == 0)
            {
                break;
            }
        }
        // Grows with what is there, so that a false length allocates nothing.
        m_bytes.clear();
        constexpr std::size_t kStep = 65536;
        while (m_bytes.size() < length)
        {
            const std::size_t have = m_bytes.size();
            const std::size_t want = std::min<std::size_t>(kStep, length - have);
            m_bytes.resize(have + want);
            const std::size_t got = m_input.Read(m_bytes.data() + have, want);
            if (got < want)
            {
                throw SpecError(Place() + ": the file ends inside a record of " +
                                std::to_string(length) + " B, " + std::to_string(have + got) +
                                " B are there");
            }
        }
        return true;
    }

    void Metadata()
    {
        const std::string place = Place();
        Wire wire(m_bytes, place);
        while (wire.Next())
        {
            if (wire.type != 2)
            {
                // A node: the first versions had no metadata record.
                throw SpecError(place +
                                ": no GlobalMetadata in front (looks like Chakra 0.0.1, whose "
                                "schema differs; convert it with Chakra's own tools)");
            }
            if (wire.field == 2)
            {
                CheckAttribute(wire.text, place);
            }
        }
    }

    /** 0.0.2 and 0.0.3 had a type tag where the documentation string is now. */
    static void CheckAttribute(std::string_view bytes, const std::string& place)
    {
        Wire wire(bytes, place);
        while (wire.Next())
        {
            if (wire.field == 2 && wire.type == 0)
            {
                throw SpecError(place +
                                ": attribute with a type tag (looks like Chakra 0.0.2 or 0.0.3, "
                                "whose collectives have other numbers; convert it with "
                                "Chakra's own tools)");
            }
        }
    }

    void Node()
    {
        const std::string place = Place();
        m_node.Clear();
        m_node.byte = m_at;
        m_node.record = m_record;
        Wire wire(m_bytes, place);
        std::string_view inputs;
        while (wire.Next())
        {
            const auto expect = [&](std::uint32_t type) {
                if (wire.type != type)
                {
                    wire.Fail("field " + std::to_string(wire.field) + ": found wire type " +
                              std::to_string(wire.type) + ", expected " + std::to_string(type));
                }
            };
            switch (wire.field)
            {
            case 1:
                expect(0);
                m_node.id = wire.number;
                break;
            case 2:
                expect(2);
                m_node.name = std::string(wire.text.substr(0, 200));
                break;
            case 3:
                expect(0);
                m_node.type =
                    static_cast<std::int64_t>(std::min<std::uint64_t>(wire.number, INT64_MAX));
                break;
            case 4:
                wire.Numbers(m_node.controlDeps);
                break;
            case 5:
                wire.Numbers(m_node.dataDeps);
                break;
            case 6:
                expect(0);
                m_node.startMicros = wire.number;
                break;
            case 7:
                expect(0);
                m_node.durationMicros = wire.number;
                break;
            case 8:
                expect(2);
                inputs = wire.text;
                break;
            case 10:
                expect(2);
                Attributes(wire.text, place);
                break;
            default:
                break; // unknown fields are skipped
            }
        }
        if (m_node.type == kMetadata)
        {
            Wire io(inputs, place);
            while (io.Next())
            {
                if (io.field == 1 && io.type == 2)
                {
                    m_node.inputs = std::string(io.text);
                }
            }
        }
        m_rank.Add(m_node);
    }

    void Attributes(std::string_view bytes, const std::string& place)
    {
        Wire wire(bytes, place);
        std::string_view name;
        while (wire.Next())
        {
            if (wire.field == 1 && wire.type == 2)
            {
                name = wire.text;
            }
            else if (wire.field == 2 && wire.type == 0)
            {
                CheckAttribute(bytes, place);
            }
            else if (wire.field >= 3)
            {
                Value(name, wire);
            }
        }
    }

    void Value(std::string_view name, const Wire& wire)
    {
        Attribute* out = name == "is_cpu_op"   ? &m_node.cpu
                         : name == "comm_type" ? &m_node.commType
                         : name == "comm_size" ? &m_node.commSize
                         : name == "comm_src"  ? &m_node.commSrc
                         : name == "comm_dst"  ? &m_node.commDst
                         : name == "comm_tag"  ? &m_node.commTag
                         : name == "comm_root" || name == "root" || name == "root_rank"
                             ? &m_node.root
                         : name == "num_ops" ? &m_node.operations
                                             : nullptr;
        if (out != nullptr)
        {
            SetNumber(*out, wire);
        }
        else if (name == "pg_name" || name == "comm_group")
        {
            if (wire.field == 29 && wire.type == 2)
            {
                m_node.group = std::string(wire.text);
                return;
            }
            Attribute number;
            SetNumber(number, wire);
            if (number.integer)
            {
                m_node.group = std::to_string(number.value);
            }
        }
    }

    Input m_input;
    ChakraRank& m_rank;
    std::uint32_t m_number;
    std::string m_bytes;
    ChakraNode m_node;
    std::uint64_t m_record = 0;
    std::uint64_t m_at = 0;
};

/** Reads the "workload_graph" dialect. */
class JsonReader
{
  public:
    JsonReader(const TraceFile& file, ChakraRank& rank, std::uint32_t number)
        : m_file(file),
          m_rank(rank),
          m_number(number)
    {
    }

    void Read()
    {
        Input input(m_file);
        JsonHandlers handlers;
        handlers.array = "workload_graph";
        handlers.element = [this](JsonValue value, std::uint64_t index, std::uint64_t byte) {
            Node(value, index, byte);
        };
        if (!StreamJson(input, handlers))
        {
            throw SpecError(m_file.path, "found no \"workload_graph\"");
        }
        m_rank.Finish();
    }

  private:
    [[noreturn]] void Fail(const char* key, JsonValue value, const char* expected) const
    {
        throw SpecError(m_rank.Where(m_node) + ": " + key + ": found " + value.Show() +
                        ", expected " + expected);
    }

    std::uint64_t Unsigned(JsonValue node, const char* key, bool required) const
    {
        std::int64_t number = 0;
        const JsonValue value = node[key];
        if ((value || required) && (!value.ToInt(number) || number < 0))
        {
            Fail(key, value, "a whole number of 0 or more");
        }
        return static_cast<std::uint64_t>(number);
    }

    void Deps(JsonValue node, const char* key, std::vector<std::uint64_t>& out) const
    {
        const JsonValue list = node[key];
        for (JsonValue v = list.Is(JsonType::Array) ? list.First() : JsonValue(); v; v = v.Next())
        {
            std::int64_t id = 0;
            if (!v.ToInt(id) || id < 0)
            {
                Fail(key, v, "a node id");
            }
            out.push_back(static_cast<std::uint64_t>(id));
        }
    }

    static Attribute Number(JsonValue value)
    {
        Attribute out;
        out.present = static_cast<bool>(value) && !value.Is(JsonType::Null);
        if (value.Is(JsonType::Bool))
        {
            out.integer = true;
            out.value = value.AsBool() ? 1 : 0;
        }
        else if (out.present)
        {
            out.integer = value.ToInt(out.value);
            out.found = value.Show();
        }
        return out;
    }

    void Node(JsonValue node, std::uint64_t index, std::uint64_t byte)
    {
        m_node.Clear();
        m_node.byte = byte;
        m_node.record = index;
        if (!node.Is(JsonType::Object))
        {
            throw SpecError(PlaceAtByte(m_file.path, byte) + " rank " + std::to_string(m_number) +
                            ": found " + node.Show() + ", expected an object");
        }
        m_node.name = std::string(node["Name"].AsString().substr(0, 200));
        m_node.id = Unsigned(node, "Id", true);
        m_node.type = static_cast<std::int64_t>(Unsigned(node, "NodeType", true));
        m_node.durationMicros = Unsigned(node, "runtime", false);
        Deps(node, "data_deps", m_node.dataDeps);
        Deps(node, "ctrlDeps", m_node.controlDeps);
        Deps(node, "ctrl_deps", m_node.controlDeps);
        m_node.cpu = Number(node["is_cpu_op"]);
        m_node.commType = Number(node["comm_type"]);
        m_node.commSize = Number(node["comm_size"]);
        m_node.commSrc = Number(node["comm_src"]);
        m_node.commDst = Number(node["comm_dst"]);
        m_node.commTag = Number(node["comm_tag"]);
        const JsonValue group = node["pg_name"];
        m_node.group = group.Is(JsonType::String) ? std::string(group.AsString())
                       : group                    ? Number(group).Show()
                                                  : "";
        m_rank.Add(m_node);
    }

    const TraceFile& m_file;
    ChakraRank& m_rank;
    std::uint32_t m_number;
    ChakraNode m_node;
};

/** Groups given by option, or in a file beside the trace. */
std::map<std::string, std::uint32_t>
FindGroups(const std::vector<TraceFile>& files, const TraceOptions& options, TraceSet& set)
{
    namespace fs = std::filesystem;
    if (!options.groupsFile.empty())
    {
        return ReadGroupFile(options.groupsFile, set);
    }
    if (files[0].content)
    {
        return {};
    }
    const fs::path first(files[0].path);
    const std::string name = first.filename().string();
    for (const std::string& beside :
         {std::string("comm_group.json"), name.substr(0, name.find('.')) + ".json"})
    {
        const fs::path path = first.parent_path() / beside;
        std::error_code error;
        if (path != first && fs::is_regular_file(path, error))
        {
            return ReadGroupFile(path.string(), set);
        }
    }
    return {};
}

template <typename Reader>
void
LoadAll(const std::vector<TraceFile>& files, const TraceOptions& options, TraceSet& set)
{
    const auto groups = FindGroups(files, options, set);
    for (std::uint32_t r = 0; r < files.size(); ++r)
    {
        ChakraRank rank(set, r, options, groups);
        Reader(files[r], rank, r).Read();
    }
}

} // namespace

bool
ProbeChakra(std::string_view head)
{
    if (head.empty() || !JsonKeys(head).empty())
    {
        return false;
    }
    // Text has no control bytes; a protobuf trace has some in its first few lengths.
    const auto first = head.substr(0, 64);
    const bool text = std::none_of(first.begin(), first.end(), [](char c) {
        return static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r';
    });
    if (text)
    {
        return false;
    }
    std::size_t at = 0;
    while (at < head.size() && (static_cast<unsigned char>(head[at]) & 0x80) != 0)
    {
        ++at;
    }
    if (at >= 10 || at + 1 >= head.size())
    {
        // An endless or cut length: let the reader say where.
        return at > 0 || head.size() <= 2;
    }
    const auto tag = static_cast<unsigned char>(head[at + 1]);
    return head[0] == '\0' || tag == 0x0a || tag == 0x12 || tag == 0x08;
}

void
LoadChakra(const std::vector<TraceFile>& files, const TraceOptions& options, TraceSet& set)
{
    LoadAll<ProtoReader>(files, options, set);
}

bool
ProbeChakraJson(std::string_view head)
{
    return HasKey(JsonKeys(head), "workload_graph");
}

void
LoadChakraJson(const std::vector<TraceFile>& files, const TraceOptions& options, TraceSet& set)
{
    LoadAll<JsonReader>(files, options, set);
}

} // namespace topoopt
