// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/error.h"
#include "topoopt/core/readers/json.h"
#include "topoopt/core/readers/readers.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace topoopt
{

namespace
{

/** Thrown by a handler to stop a parse early; never leaves this file. */
struct Enough
{
};

/** One event with collective metadata. */
struct Event
{
    double ts = 0;  ///< us
    double dur = 0; ///< us
    std::uint64_t index = 0;
    std::uint64_t byte = 0;
    std::string label;
    CommName name;
    std::string group;
    std::vector<RankId> members; ///< as the event lists them; empty = not, or cut off
    std::int64_t groupSize = -1;
    std::int64_t groupStart = -1;
    std::int64_t groupStride = -1;
    std::int64_t source = -1;
    std::int64_t destination = -1;
    std::int64_t root = -1;
    std::uint32_t elementBytes = 1;
    ElementSizes sizes;
};

class KinetoReader
{
  public:
    KinetoReader(TraceSet& set, std::uint32_t rank, const TraceOptions& options)
        : m_set(set),
          m_trace(set.ranks[rank]),
          m_rank(rank),
          m_options(options)
    {
    }

    void Read(const TraceFile& file)
    {
        Input input(file);
        std::int64_t world = -1;
        JsonHandlers handlers;
        handlers.array = "traceEvents";
        handlers.element = [this](JsonValue event, std::uint64_t index, std::uint64_t byte) {
            Add(event, index, byte);
        };
        handlers.member = [&](std::string_view key, JsonValue value) {
            if (key == "distributedInfo")
            {
                value["world_size"].ToInt(world);
                Groups(value["pg_config"]);
            }
        };
        if (!StreamJson(input, handlers))
        {
            throw SpecError(file.path, "found no \"traceEvents\"");
        }
        if (m_bareKernels > 0 && m_kernels.empty() && m_host.empty())
        {
            throw SpecError(
                file.path,
                "found " + std::to_string(m_bareKernels) +
                    " NCCL kernels without collective metadata (a profile of 2023 or "
                    "before), expected \"Collective name\" in their args; use the PyTorch "
                    "execution trace of the same run");
        }
        const auto files = static_cast<std::int64_t>(m_set.ranks.size());
        if (world >= 0 && world != files && !m_options.partial)
        {
            throw SpecError(file.path,
                            "world_size: found " + std::to_string(world) + ", but " +
                                std::to_string(files) + (files == 1 ? " rank has" : " ranks have") +
                                " a file");
        }
        Resolve();
    }

  private:
    [[nodiscard]] std::string Where(const Event& event) const
    {
        return PlaceAtByte(m_trace.file, event.byte) + " rank " + std::to_string(m_rank) +
               " node " + std::to_string(event.index) +
               (event.label.empty() ? "" : " (\"" + event.label + "\")");
    }

    void Groups(JsonValue config)
    {
        for (JsonValue g = config.Is(JsonType::Array) ? config.First() : JsonValue(); g;
             g = g.Next())
        {
            std::vector<RankId> members;
            const JsonValue ranks = g["ranks"];
            for (JsonValue v = ranks.Is(JsonType::Array) ? ranks.First() : JsonValue(); v;
                 v = v.Next())
            {
                std::int64_t rank = 0;
                if (!v.ToInt(rank) || rank < 0 || rank > INT32_MAX)
                {
                    throw SpecError(m_trace.file, "pg_config: found rank " + v.Show());
                }
                members.push_back(static_cast<RankId>(rank));
            }
            const std::string name(g["pg_name"].AsString());
            m_groups[name] = m_set.Group(name, m_options.partial ? std::vector<RankId>{} : members);
        }
    }

    void Add(JsonValue json, std::uint64_t index, std::uint64_t byte)
    {
        ++m_set.facts["events"];
        const JsonValue args = json["args"];
        const JsonValue collective = args["Collective name"];
        const std::string_view category = json["cat"].AsString();
        const std::string_view name = json["name"].AsString();
        const bool kernel = category == "kernel";
        if (!collective)
        {
            m_bareKernels += kernel && name.substr(0, 4) == "nccl" ? 1 : 0;
            return;
        }
        if (!kernel && name != "record_param_comms")
        {
            return;
        }
        Event event;
        event.index = index;
        event.byte = byte;
        event.label = std::string(collective.AsString().substr(0, 100));
        if (!json["ts"].ToDouble(event.ts) || event.ts < 0)
        {
            throw SpecError(Where(event) + ": ts: found " + json["ts"].Show() +
                            ", expected a time in us");
        }
        if (json["dur"] && (!json["dur"].ToDouble(event.dur) || event.dur < 0))
        {
            throw SpecError(Where(event) + ": dur: found " + json["dur"].Show() +
                            ", expected a time in us");
        }
        if (!ParseCommName(event.label, event.name))
        {
            if (m_options.skipUnknown)
            {
                ++m_set.facts["skipped_unknown"];
                return;
            }
            throw SpecError(Where(event) + ": unknown operation, expected one of " +
                            KnownCommNames());
        }
        if (event.name.kind == OpKind::Wait)
        {
            ++m_set.facts["waits"];
            return;
        }
        if (event.name.init || event.name.kind == OpKind::Batch)
        {
            return;
        }
        Arguments(event, args);
        (kernel ? m_kernels : m_host).push_back(std::move(event));
    }

    void Arguments(Event& event, JsonValue args) const
    {
        const std::string_view group = args["Process Group Name"].AsString();
        event.group = std::string(group.substr(0, 100));
        args["Group size"].ToInt(event.groupSize);
        args["Global rank start"].ToInt(event.groupStart);
        args["Global rank stride"].ToInt(event.groupStride);
        args["Src Rank"].ToInt(event.source);
        args["Dst Rank"].ToInt(event.destination);
        args["Root Rank"].ToInt(event.root);
        bool cut = false;
        for (const std::int64_t rank : List(event, args["Process Group Ranks"], cut))
        {
            if (rank < 0 || rank > INT32_MAX)
            {
                throw SpecError(Where(event) + ": Process Group Ranks: found " +
                                std::to_string(rank));
            }
            event.members.push_back(static_cast<RankId>(rank));
        }
        if (cut)
        {
            event.members.clear();
        }
        const bool sized = event.name.collective != CollectiveKind::Barrier ||
                           event.name.kind != OpKind::Collective;
        if (!sized)
        {
            return;
        }
        const JsonValue in = args["In msg nelems"];
        const JsonValue out = args["Out msg nelems"];
        if (!in.ToInt(event.sizes.in) || (out && !out.ToInt(event.sizes.out)))
        {
            throw SpecError(Where(event) + ": In/Out msg nelems: found " + in.Show() + " and " +
                            out.Show() + ", expected whole numbers");
        }
        event.elementBytes = DtypeBytes(args["dtype"].AsString());
        if (event.elementBytes == 0)
        {
            throw SpecError(Where(event) + ": dtype: found " + args["dtype"].Show());
        }
        bool cutIn = false;
        bool cutOut = false;
        event.sizes.inSplit = List(event, args["In split size"], cutIn);
        event.sizes.outSplit = List(event, args["Out split size"], cutOut);
        if (cutIn || cutOut)
        {
            throw SpecError(
                Where(event) + ": the profiler cut the list of splits at " +
                std::to_string(event.sizes.inSplit.size()) +
                " entries, so the sizes are lost; use the PyTorch execution trace of the "
                "same run");
        }
    }

    /** "[1, 2, ...]" as numbers; @p cut if it ends in dots. */
    std::vector<std::int64_t> List(const Event& event, JsonValue value, bool& cut) const
    {
        std::vector<std::int64_t> numbers;
        if (value.Is(JsonType::Array))
        {
            for (JsonValue v = value.First(); v; v = v.Next())
            {
                std::int64_t number = 0;
                if (!v.ToInt(number))
                {
                    throw SpecError(Where(event) + ": found " + v.Show() + " in a list of numbers");
                }
                numbers.push_back(number);
            }
            return numbers;
        }
        std::string_view text = value.AsString();
        constexpr const char* kBetween = " ,[]";
        std::size_t at = 0;
        while ((at = text.find_first_not_of(kBetween, at)) != std::string_view::npos)
        {
            const std::size_t end = std::min(text.find_first_of(kBetween, at), text.size());
            const std::string_view word = text.substr(at, end - at);
            at = end;
            if (word == "...")
            {
                cut = true;
                continue;
            }
            std::int64_t number = 0;
            const auto result = std::from_chars(word.data(), word.data() + word.size(), number);
            if (result.ec != std::errc() || result.ptr != word.data() + word.size())
            {
                throw SpecError(Where(event) + ": found '" + std::string(word.substr(0, 40)) +
                                "' in a list of numbers");
            }
            numbers.push_back(number);
        }
        return numbers;
    }

    std::uint32_t GroupOf(const Event& event)
    {
        const auto known = m_groups.find(event.group);
        if (known != m_groups.end())
        {
            return known->second;
        }
        const auto files = static_cast<std::int64_t>(m_set.ranks.size());
        if (m_options.partial)
        {
            return m_set.Group(event.group, {});
        }
        if (!event.members.empty())
        {
            return m_set.Group(event.group, event.members);
        }
        if (event.groupSize > 0 && event.groupSize <= files && event.groupStart >= 0 &&
            event.groupStride > 0 && event.groupStart < files && event.groupStride <= files &&
            event.groupStart + (event.groupSize - 1) * event.groupStride < files)
        {
            std::vector<RankId> members;
            for (std::int64_t i = 0; i < event.groupSize; ++i)
            {
                members.push_back(static_cast<RankId>(event.groupStart + i * event.groupStride));
            }
            return m_set.Group(event.group, members);
        }
        if (event.groupSize == files || event.groupSize < 0)
        {
            return m_set.Group(event.group.empty() ? "0" : event.group, {});
        }
        throw SpecError(Where(event) + ": group \"" + event.group + "\" of " +
                        std::to_string(event.groupSize) + " ranks is defined nowhere");
    }

    /**
     * Each collective is a host record and a kernel; kernels have the true times and stand in issue order on
     * their stream, so they are taken if there is one for each host record.
     */
    void Resolve()
    {
        const bool kernels =
            !m_kernels.empty() && (m_host.empty() || m_kernels.size() == m_host.size());
        if (!kernels && !m_kernels.empty())
        {
            m_set.Warn("communication kernels and host records differ in number; host records are "
                       "taken, without gaps of computation");
        }
        std::vector<Event>& events = kernels ? m_kernels : m_host;
        std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
            return a.ts < b.ts;
        });
        double idle = -1; // end of communication so far
        for (const Event& event : events)
        {
            if (kernels && idle >= 0 && event.ts > idle)
            {
                TraceOp gap;
                gap.kind = OpKind::Compute;
                gap.id = event.index;
                gap.name = m_set.Name("gap");
                const double ps = (event.ts - idle) * 1e6;
                if (ps > 4.6e18)
                {
                    throw SpecError(Where(event) + ": found a gap of more than 53 days before it");
                }
                gap.duration = static_cast<SimTime>(std::llround(ps));
                Append(gap);
            }
            idle = std::max(idle, event.ts + event.dur);
            TraceOp op;
            op.kind = event.name.kind;
            op.collective = event.name.collective;
            op.id = event.index;
            op.name = m_set.Name(event.label);
            op.elementBytes = event.elementBytes;
            if (event.ts < 9e15)
            {
                op.start = static_cast<std::int64_t>(std::llround(event.ts * 1000));
            }
            Operation(event, op);
            Append(op);
        }
        m_kernels.clear();
        m_host.clear();
        OrderProgram(m_set, m_rank, m_keys);
    }

    void Append(const TraceOp& op)
    {
        m_trace.ops.push_back(op);
        m_keys.emplace_back();
    }

    void Operation(const Event& event, TraceOp& op)
    {
        op.group = GroupOf(event);
        const std::uint32_t n = GroupSize(m_set, op.group);
        const std::uint32_t member = MemberIndex(m_set, op.group, m_rank);
        if (member == UINT32_MAX)
        {
            throw SpecError(Where(event) + ": rank " + std::to_string(m_rank) +
                            " is no member of group \"" + m_set.groups[op.group].name + "\"");
        }
        if (m_options.partial)
        {
            op.bytes = CheckedBytes(Where(event), event.sizes.in, op.elementBytes);
            return;
        }
        if (op.kind != OpKind::Collective)
        {
            const bool send = op.kind == OpKind::Send;
            const std::int64_t peer = send ? event.destination : event.source;
            if (peer < 0 || peer >= static_cast<std::int64_t>(m_set.ranks.size()))
            {
                if (m_options.skipUnplaceable)
                {
                    ++m_set.facts["skipped_unplaceable"];
                    op.kind = OpKind::Nothing;
                    return;
                }
                throw SpecError(Where(event) + ": " + (send ? "Dst Rank" : "Src Rank") +
                                ": found " + std::to_string(peer) + ", expected the peer's rank");
            }
            op.peer = static_cast<RankId>(peer);
            op.bytes = CheckedBytes(Where(event), event.sizes.in, op.elementBytes);
            return;
        }
        if (event.root >= 0)
        {
            op.root = event.root > INT32_MAX
                          ? UINT32_MAX
                          : MemberIndex(m_set, op.group, static_cast<RankId>(event.root));
        }
        SetSizes(m_set, m_trace, op, event.name, event.sizes, n, member, Where(event));
    }

    TraceSet& m_set;
    RankTrace& m_trace;
    std::uint32_t m_rank;
    const TraceOptions& m_options;
    std::map<std::string, std::uint32_t> m_groups;
    std::vector<Event> m_kernels;
    std::vector<Event> m_host;
    std::vector<RequestKey> m_keys;
    std::uint64_t m_bareKernels = 0;
};

} // namespace

bool
ProbeKineto(std::string_view head)
{
    const auto keys = JsonKeys(head);
    return HasKey(keys, "traceEvents") || HasKey(keys, "distributedInfo") ||
           HasKey(keys, "schemaVersion");
}

std::uint32_t
KinetoRank(const TraceFile& file)
{
    std::int64_t rank = -1;
    Input input(file);
    JsonHandlers handlers;
    handlers.array = "traceEvents";
    handlers.element = [](JsonValue, std::uint64_t, std::uint64_t) {};
    handlers.member = [&rank](std::string_view key, JsonValue value) {
        if (key == "distributedInfo")
        {
            value["rank"].ToInt(rank);
            throw Enough();
        }
    };
    try
    {
        StreamJson(input, handlers);
    }
    catch (const Enough&)
    {
        if (rank >= 0 && rank <= 1000000)
        {
            return static_cast<std::uint32_t>(rank);
        }
    }
    if (file.rank == UINT32_MAX)
    {
        throw SpecError(file.path,
                        "rank unknown: neither distributedInfo.rank nor a number in the name");
    }
    return file.rank;
}

void
LoadKineto(const std::vector<TraceFile>& files, const TraceOptions& options, TraceSet& set)
{
    for (std::uint32_t r = 0; r < files.size(); ++r)
    {
        KinetoReader(set, r, options).Read(files[r]);
    }
}

} // namespace topoopt
