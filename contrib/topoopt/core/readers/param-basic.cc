// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/error.h"
#include "topoopt/core/readers/json.h"
#include "topoopt/core/readers/readers.h"

#include <cctype>

namespace topoopt
{

namespace
{

/** Reads one rank's array of steps. */
class ParamReader
{
  public:
    ParamReader(TraceSet& set, std::uint32_t rank, const TraceOptions& options)
        : m_set(set),
          m_trace(set.ranks[rank]),
          m_rank(rank),
          m_options(options)
    {
    }

    void Read(const TraceFile& file)
    {
        Input input(file);
        JsonHandlers handlers;
        handlers.element = [this](JsonValue step, std::uint64_t index, std::uint64_t byte) {
            m_index = index;
            m_byte = byte;
            Step(step);
        };
        StreamJson(input, handlers);
        OrderProgram(m_set, m_rank, m_keys);
    }

  private:
    [[nodiscard]] std::string Where(const std::string& name) const
    {
        return PlaceAtByte(m_trace.file, m_byte) + " rank " + std::to_string(m_rank) + " node " +
               std::to_string(m_index) + (name.empty() ? "" : " (\"" + name + "\")");
    }

    /** A whole number that is there, or the default. */
    std::int64_t Int(JsonValue step, const char* key, std::int64_t otherwise, bool required = false)
    {
        const JsonValue value = step[key];
        std::int64_t number = otherwise;
        if (!value || value.Is(JsonType::Null))
        {
            if (required)
            {
                throw SpecError(Where(m_name) + ": key \"" + key + "\" is missing");
            }
            return otherwise;
        }
        if (!value.ToInt(number))
        {
            throw SpecError(Where(m_name) + ": " + key + ": found " + value.Show() +
                            ", expected a whole number below 2^63");
        }
        return number;
    }

    std::vector<std::int64_t> List(JsonValue step, const char* key)
    {
        std::vector<std::int64_t> numbers;
        const JsonValue value = step[key];
        if (!value || value.Is(JsonType::Null))
        {
            return numbers;
        }
        if (!value.Is(JsonType::Array))
        {
            throw SpecError(Where(m_name) + ": " + key + ": found " + value.Show() +
                            ", expected an array of whole numbers");
        }
        for (JsonValue v = value.First(); v; v = v.Next())
        {
            std::int64_t number = 0;
            if (!v.ToInt(number))
            {
                throw SpecError(Where(m_name) + ": " + key + ": found " + v.Show() +
                                ", expected a whole number");
            }
            numbers.push_back(number);
        }
        return numbers;
    }

    std::vector<RankId> Ranks(JsonValue step)
    {
        std::vector<RankId> ranks;
        for (const std::int64_t rank : List(step, "global_ranks"))
        {
            if (rank < 0 || rank >= static_cast<std::int64_t>(m_set.ranks.size()))
            {
                throw SpecError(Where(m_name) + ": global_ranks: found rank " +
                                std::to_string(rank) + ", but " +
                                std::to_string(m_set.ranks.size()) + " ranks have a file");
            }
            ranks.push_back(static_cast<RankId>(rank));
        }
        return ranks;
    }

    void Markers(JsonValue step)
    {
        for (const char* key : {"markers", "marker_stack"})
        {
            const JsonValue list = step[key];
            for (JsonValue v = list.Is(JsonType::Array) ? list.First() : JsonValue(); v;
                 v = v.Next())
            {
                // "## iteration 3 ##", "step_4", "ProfilerStep#5": a change of such a label is a boundary.
                const std::string text(v.AsString());
                std::string lower = text;
                for (char& c : lower)
                {
                    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
                }
                if ((lower.find("iter") != std::string::npos ||
                     lower.find("step") != std::string::npos) &&
                    text != m_lastMarker)
                {
                    m_lastMarker = text;
                    ++m_iteration;
                }
            }
        }
    }

    void Step(JsonValue step)
    {
        m_name.clear();
        const JsonValue comms = step["comms"];
        const JsonValue compute = step["compute"];
        if (!step.Is(JsonType::Object) ||
            (!comms.Is(JsonType::String) && !compute.Is(JsonType::String)))
        {
            throw SpecError(Where("") + ": found " + step.Show() +
                            ", expected an object with \"comms\" or \"compute\"");
        }
        m_name = std::string(comms ? comms.AsString() : compute.AsString()).substr(0, 100);
        Markers(step);
        TraceOp op;
        op.id = m_index;
        op.name = m_set.Name(m_name);
        op.iteration = m_iteration;
        const std::int64_t start = Int(step, "startTime_ns", -1);
        if (step["startTime_ns"] && start < 0)
        {
            throw SpecError(Where(m_name) + ": startTime_ns: found " + std::to_string(start) +
                            ", expected 0 or more");
        }
        op.start = start;
        if (!comms)
        {
            Compute(step, op);
            return;
        }
        CommName name;
        if (!ParseCommName(m_name, name))
        {
            if (m_options.skipUnknown)
            {
                ++m_set.facts["skipped_unknown"];
                m_set.Warn("operation '" + m_name + "' is unknown and left out");
                return;
            }
            throw SpecError(Where(m_name) + ": unknown operation, expected one of " +
                            KnownCommNames());
        }
        const std::int64_t pg = Int(step, "pg_id", 0);
        if (name.init)
        {
            Init(step, pg);
            return;
        }
        op.kind = name.kind;
        op.collective = name.collective;
        op.group = GroupOf(step, pg);
        RequestKey key = Request(step, op.group);
        if (op.kind == OpKind::Collective)
        {
            Collective(step, name, op);
        }
        else if (op.kind == OpKind::Send || op.kind == OpKind::Recv)
        {
            PointToPoint(step, op);
        }
        else if (op.kind == OpKind::Wait && !key.valid)
        {
            throw SpecError(Where(m_name) + ": key \"req\" is missing");
        }
        Add(op, key);
    }

    void Add(const TraceOp& op, const RequestKey& key)
    {
        m_trace.ops.push_back(op);
        m_keys.push_back(key);
    }

    void Compute(JsonValue step, TraceOp& op)
    {
        // gemm and emb_lookup carry shapes, not durations (docs/traces.md 1.3): they take no time.
        const std::int64_t count = Int(step, "count", 1);
        if (count < 0)
        {
            throw SpecError(Where(m_name) + ": count: found " + std::to_string(count) +
                            ", expected 0 or more");
        }
        op.kind = OpKind::Compute;
        m_set.Warn("compute steps have no duration in this format; they take no time");
        Add(op, RequestKey{});
    }

    void Init(JsonValue step, std::int64_t pg)
    {
        const std::int64_t world = Int(step, "world_size", -1);
        std::vector<RankId> ranks;
        const auto files = static_cast<std::int64_t>(m_set.ranks.size());
        if (pg == 0 && world >= 0 && world != files && !m_options.partial)
        {
            throw SpecError(Where(m_name) + ": world_size: found " + std::to_string(world) +
                            ", but " + std::to_string(files) + " ranks have a file");
        }
        if (!m_options.partial)
        {
            ranks = Ranks(step);
        }
        if (world >= 0 && !ranks.empty() && static_cast<std::size_t>(world) != ranks.size())
        {
            throw SpecError(Where(m_name) + ": world_size: found " + std::to_string(world) +
                            ", but " + std::to_string(ranks.size()) + " global_ranks");
        }
        if (ranks.empty() && pg != 0 && world >= 0 && world != files && !m_options.partial)
        {
            throw SpecError(Where(m_name) + ": group " + std::to_string(pg) + " of " +
                            std::to_string(world) + " ranks lists no global_ranks");
        }
        m_groups[pg] = m_set.Group(std::to_string(pg), ranks);
    }

    std::uint32_t GroupOf(JsonValue step, std::int64_t pg)
    {
        const std::vector<RankId> ranks = m_options.partial ? std::vector<RankId>{} : Ranks(step);
        if (!ranks.empty())
        {
            m_groups[pg] = m_set.Group(std::to_string(pg), ranks);
        }
        const auto at = m_groups.find(pg);
        if (at != m_groups.end())
        {
            return at->second;
        }
        if (pg != 0)
        {
            throw SpecError(Where(m_name) + ": pg_id: found group " + std::to_string(pg) +
                            ", which no init step defines");
        }
        return m_groups[0] = m_set.Group("0", {});
    }

    RequestKey Request(JsonValue step, std::uint32_t group)
    {
        RequestKey key;
        key.group = group;
        JsonValue req = step["req"];
        if (req.Is(JsonType::Array) && req.Size() == 2)
        {
            key.p2p = req.At(1).AsBool();
            std::int64_t flag = 0;
            key.p2p = key.p2p || (req.At(1).ToInt(flag) && flag != 0);
            req = req.First();
        }
        else
        {
            // A plain number is unique in its process; a wait may name another group.
            key.group = UINT32_MAX;
        }
        std::int64_t number = 0;
        if (!req || req.Is(JsonType::Null))
        {
            return key;
        }
        if (!req.ToInt(number))
        {
            throw SpecError(Where(m_name) + ": req: found " + req.Show() +
                            ", expected a whole number or [number, is p2p]");
        }
        key.request = static_cast<std::uint64_t>(number);
        key.valid = number >= 0;
        return key;
    }

    std::uint32_t Elements(JsonValue step)
    {
        const JsonValue dtype = step["dtype"];
        if (!dtype.Is(JsonType::String))
        {
            throw SpecError(Where(m_name) + ": dtype: found " + dtype.Show() +
                            ", expected a name such as \"float\"");
        }
        const std::uint32_t bytes = DtypeBytes(dtype.AsString());
        if (bytes == 0)
        {
            throw SpecError(
                Where(m_name) + ": dtype: found " + dtype.Show() +
                ", expected bool, int8, uint8, half, bfloat16, short, float, int, double, "
                "long or an alias of these");
        }
        return bytes;
    }

    void Collective(JsonValue step, const CommName& name, TraceOp& op)
    {
        const std::uint32_t n = GroupSize(m_set, op.group);
        const std::uint32_t member = MemberIndex(m_set, op.group, m_rank);
        if (member == UINT32_MAX)
        {
            throw SpecError(Where(m_name) + ": rank " + std::to_string(m_rank) +
                            " is no member of group " + m_set.groups[op.group].name);
        }
        const std::int64_t world = Int(step, "world_size", -1);
        if (world >= 0 && world != n && !m_options.partial)
        {
            throw SpecError(Where(m_name) + ": world_size: found " + std::to_string(world) +
                            ", but group " + m_set.groups[op.group].name + " has " +
                            std::to_string(n) + " members");
        }
        const bool rooted =
            op.collective == CollectiveKind::Broadcast || op.collective == CollectiveKind::Reduce ||
            op.collective == CollectiveKind::Gather || op.collective == CollectiveKind::Scatter;
        const std::int64_t root = Int(step, "root", -1);
        if (rooted && root >= 0)
        {
            op.root = root < INT32_MAX ? MemberIndex(m_set, op.group, static_cast<RankId>(root))
                                       : UINT32_MAX;
            if (op.root == UINT32_MAX)
            {
                throw SpecError(Where(m_name) + ": root: found rank " + std::to_string(root) +
                                ", which is no member of group " + m_set.groups[op.group].name);
            }
        }
        if (op.collective == CollectiveKind::Barrier)
        {
            return;
        }
        ElementSizes sizes;
        // torch_ucc writes sizes only if they are not 0.
        sizes.in = Int(step, "in_msg_size", 0);
        sizes.out = Int(step, "out_msg_size", -1);
        if (!step["in_msg_size"] && !step["out_msg_size"] && !step["seqnum"])
        {
            throw SpecError(Where(m_name) + ": key \"in_msg_size\" is missing");
        }
        if (sizes.out < 0 && step["out_msg_size"])
        {
            throw SpecError(Where(m_name) + ": out_msg_size: found " + std::to_string(sizes.out) +
                            ", expected 0 or more");
        }
        op.elementBytes = step["dtype"] || sizes.in > 0 || sizes.out > 0 ? Elements(step) : 1;
        if (name.vector || op.collective == CollectiveKind::AllToAll ||
            op.collective == CollectiveKind::AllToAllV)
        {
            sizes.inSplit = List(step, "in_split");
            sizes.outSplit = List(step, "out_split");
        }
        SetSizes(m_set, m_trace, op, name, sizes, n, member, Where(m_name));
    }

    void PointToPoint(JsonValue step, TraceOp& op)
    {
        const bool send = op.kind == OpKind::Send;
        const char* mine = send ? "src_rank" : "dst_rank";
        const char* other = send ? "dst_rank" : "src_rank";
        const std::int64_t peer = Int(step, other, -1);
        const std::int64_t self = Int(step, mine, m_rank);
        if (peer < 0 || peer >= static_cast<std::int64_t>(m_set.ranks.size()))
        {
            if (peer < 0 && m_options.skipUnplaceable)
            {
                ++m_set.facts["skipped_unplaceable"];
                op.kind = OpKind::Nothing;
                return;
            }
            throw SpecError(Where(m_name) + ": " + other + ": found " + step[other].Show() +
                            ", expected a rank 0.." + std::to_string(m_set.ranks.size() - 1));
        }
        if (self != static_cast<std::int64_t>(m_rank))
        {
            throw SpecError(Where(m_name) + ": " + mine + ": found " + std::to_string(self) +
                            ", expected " + std::to_string(m_rank) + ", this rank");
        }
        op.peer = static_cast<RankId>(peer);
        op.elementBytes = Elements(step);
        const char* size = !send && step["out_msg_size"] ? "out_msg_size" : "in_msg_size";
        op.bytes = CheckedBytes(Where(m_name), Int(step, size, 0, true), op.elementBytes);
        op.batched = step["use_batch"].AsBool();
    }

    TraceSet& m_set;
    RankTrace& m_trace;
    std::uint32_t m_rank;
    const TraceOptions& m_options;
    std::map<std::int64_t, std::uint32_t> m_groups; ///< pg_id -> group
    std::vector<RequestKey> m_keys;
    std::string m_name;
    std::string m_lastMarker;
    std::uint64_t m_index = 0;
    std::uint64_t m_byte = 0;
    std::uint32_t m_iteration = 0;
};

} // namespace

bool
ProbeParamBasic(std::string_view head)
{
    const auto keys = JsonKeys(head);
    return HasKey(keys, "[") && !HasKey(keys, "[].ph");
}

void
LoadParamBasic(const std::vector<TraceFile>& files, const TraceOptions& options, TraceSet& set)
{
    for (std::uint32_t r = 0; r < files.size(); ++r)
    {
        ParamReader(set, r, options).Read(files[r]);
    }
    set.facts["operations"] = 0;
    for (const RankTrace& trace : set.ranks)
    {
        set.facts["operations"] += static_cast<std::int64_t>(trace.ops.size());
    }
}

} // namespace topoopt
