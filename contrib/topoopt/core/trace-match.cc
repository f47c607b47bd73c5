// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/error.h"
#include "topoopt/core/trace-set.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <tuple>

namespace topoopt
{

std::uint32_t
TraceSet::Group(const std::string& name, const std::vector<RankId>& members)
{
    const auto [at, isNew] = m_groupIndex.emplace(std::make_pair(name, members),
                                                  static_cast<std::uint32_t>(groups.size()));
    if (isNew)
    {
        groups.push_back({name, members});
    }
    return at->second;
}

std::uint32_t
TraceSet::Name(std::string_view name)
{
    constexpr std::size_t kLongest = 200;
    constexpr std::size_t kMost = 200000;
    const std::string_view kept = name.substr(0, kLongest);
    const auto at = m_nameIndex.find(kept);
    if (at != m_nameIndex.end())
    {
        return at->second;
    }
    // A generator that gives every node its own name must not fill the memory.
    if (names.size() > kMost)
    {
        return kMost;
    }
    if (names.size() == kMost)
    {
        names.emplace_back("(one of more than 200000 names)");
        return kMost;
    }
    std::string text(kept);
    for (char& c : text)
    {
        c = static_cast<unsigned char>(c) < 0x20 || c == '\x7f' ? '?' : c;
    }
    names.push_back(text);
    m_nameIndex.emplace(std::string(kept), static_cast<std::uint32_t>(names.size() - 1));
    return static_cast<std::uint32_t>(names.size() - 1);
}

void
TraceSet::Warn(const std::string& text, std::uint64_t times)
{
    warnings[text] += times;
}

std::string
TraceSet::Describe(std::uint32_t rank, const TraceOp& op) const
{
    std::string out =
        ranks[rank].file + " rank " + std::to_string(rank) + " node " + std::to_string(op.id);
    if (op.name < names.size() && !names[op.name].empty())
    {
        out += " (\"" + names[op.name] + "\")";
    }
    return out;
}

Bytes
CheckedBytes(const std::string& place, std::int64_t count, std::uint32_t elementBytes)
{
    if (count < 0)
    {
        throw SpecError(place + ": found size " + std::to_string(count) + ", expected 0 or more");
    }
    if (elementBytes != 0 && count > INT64_MAX / elementBytes)
    {
        throw SpecError(place + ": found " + std::to_string(count) + " elements of " +
                        std::to_string(elementBytes) + " B, expected less than 2^63 B");
    }
    return static_cast<Bytes>(count) * elementBytes;
}

void
OrderProgram(TraceSet& set, std::uint32_t rank, const std::vector<RequestKey>& keys)
{
    RankTrace& trace = set.ranks[rank];
    const auto count = static_cast<std::uint32_t>(trace.ops.size());
    std::vector<std::uint32_t> waited(count, UINT32_MAX); // of a Wait: the operation it waits for
    // By whole key, and by request number alone for waits that do not name the group.
    std::map<RequestKey, std::uint32_t> open;
    std::map<std::uint64_t, std::uint32_t> byRequest;
    std::int64_t unmatched = 0;
    for (std::uint32_t i = 0; i < count; ++i)
    {
        TraceOp& op = trace.ops[i];
        const RequestKey& key = keys[i];
        if (!key.valid)
        {
            continue;
        }
        if (op.kind != OpKind::Wait)
        {
            if (!open.emplace(key, i).second)
            {
                set.Warn(
                    "a request was opened again before a wait for it; the later operation has it");
                open[key] = i;
            }
            byRequest[key.request] = i;
            continue;
        }
        std::uint32_t found = UINT32_MAX;
        if (const auto at = open.find(key); at != open.end())
        {
            found = at->second;
        }
        else if (const auto any = byRequest.find(key.request);
                 any != byRequest.end() && keys[any->second].p2p == key.p2p &&
                 (key.group == UINT32_MAX || keys[any->second].group == UINT32_MAX))
        {
            found = any->second;
        }
        if (found == UINT32_MAX)
        {
            ++unmatched;
            if (rank == 0)
            {
                set.lists["waits_without_operation_rank0"].push_back(
                    static_cast<std::int64_t>(key.request));
            }
            continue;
        }
        waited[i] = found;
        trace.ops[found].async = true;
        open.erase(keys[found]);
        // Another group's operation may have the same number.
        if (const auto at = byRequest.find(key.request);
            at != byRequest.end() && at->second == found)
        {
            byRequest.erase(at);
        }
    }
    if (unmatched > 0)
    {
        set.facts["waits_without_operation"] += unmatched;
        set.Warn("wait for an operation issued before the trace began; taken as done",
                 static_cast<std::uint64_t>(unmatched));
    }
    for (std::uint32_t i = 0; rank == 0 && i < count; ++i)
    {
        const TraceOp& op = trace.ops[i];
        if (keys[i].valid && op.kind != OpKind::Wait && op.kind != OpKind::Nothing && !op.async)
        {
            set.lists["operations_without_wait_rank0"].push_back(
                static_cast<std::int64_t>(keys[i].request));
        }
    }

    std::uint32_t host = UINT32_MAX;
    std::vector<std::uint32_t> batch;
    std::int64_t last = -1;
    bool timeBack = false;
    for (std::uint32_t i = 0; i < count; ++i)
    {
        TraceOp& op = trace.ops[i];
        op.deps = trace.deps.size();
        if (host != UINT32_MAX)
        {
            trace.deps.push_back(host);
        }
        if (waited[i] != UINT32_MAX)
        {
            trace.deps.push_back(waited[i]);
        }
        if (op.kind == OpKind::Batch)
        {
            trace.deps.insert(trace.deps.end(), batch.begin(), batch.end());
            batch.clear();
        }
        op.depCount = static_cast<std::uint32_t>(trace.deps.size() - op.deps);
        if (op.batched)
        {
            batch.push_back(i);
        }
        else if (!op.async)
        {
            host = i;
        }
        // Compute nodes of linked traces have device times, which run behind the host's.
        if (op.start >= 0 && op.kind != OpKind::Compute)
        {
            timeBack = timeBack || op.start < last;
            last = op.start;
        }
    }
    if (timeBack)
    {
        set.Warn("recorded start times go back within a rank; program order holds");
    }
}

namespace
{

/** Whether every dependency points to a smaller id; then ascending id is the canonical order. */
bool
IdsAscend(const RankTrace& trace)
{
    for (const TraceOp& op : trace.ops)
    {
        for (std::uint32_t d = 0; d < op.depCount; ++d)
        {
            if (trace.ops[trace.deps[op.deps + d]].id >= op.id)
            {
                return false;
            }
        }
    }
    return true;
}

/** Successor lists of one rank. */
struct RankEdges
{
    std::vector<std::uint32_t> start;
    std::vector<std::uint32_t> successors;
    std::vector<std::uint32_t> open; ///< number of dependencies

    explicit RankEdges(const RankTrace& trace)
        : start(trace.ops.size() + 1),
          successors(trace.deps.size()),
          open(trace.ops.size())
    {
        for (const TraceOp& op : trace.ops)
        {
            for (std::uint32_t d = 0; d < op.depCount; ++d)
            {
                ++start[trace.deps[op.deps + d] + 1];
            }
        }
        for (std::size_t i = 1; i < start.size(); ++i)
        {
            start[i] += start[i - 1];
        }
        std::vector<std::uint32_t> fill(start.begin(), start.end() - 1);
        for (std::uint32_t i = 0; i < trace.ops.size(); ++i)
        {
            const TraceOp& op = trace.ops[i];
            open[i] = op.depCount;
            for (std::uint32_t d = 0; d < op.depCount; ++d)
            {
                successors[fill[trace.deps[op.deps + d]]++] = i;
            }
        }
    }
};

/**
 * Orders the operations of a rank: those of @p chosen (a predicate) by "take the smallest id all of whose
 * chosen predecessors are taken", all others as early as possible.
 * @return the chosen ones in that order; all of them unless the rank has a cycle
 */
template <typename Chosen>
std::vector<std::uint32_t>
CanonicalOrder(const RankTrace& trace, const RankEdges& edges, Chosen chosen)
{
    std::vector<std::uint32_t> open = edges.open;
    std::vector<std::uint32_t> order;
    std::vector<std::uint32_t> free; // not chosen and ready
    using Entry = std::pair<std::uint64_t, std::uint32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    const auto release = [&](std::uint32_t i) {
        if (chosen(i))
        {
            ready.emplace(trace.ops[i].id, i);
        }
        else
        {
            free.push_back(i);
        }
    };
    for (std::uint32_t i = 0; i < trace.ops.size(); ++i)
    {
        if (open[i] == 0)
        {
            release(i);
        }
    }
    while (!free.empty() || !ready.empty())
    {
        std::uint32_t at = 0;
        if (!free.empty())
        {
            at = free.back();
            free.pop_back();
        }
        else
        {
            at = ready.top().second;
            ready.pop();
            order.push_back(at);
        }
        for (std::uint32_t e = edges.start[at]; e < edges.start[at + 1]; ++e)
        {
            if (--open[edges.successors[e]] == 0)
            {
                release(edges.successors[e]);
            }
        }
    }
    return order;
}

/** All operations of a rank in canonical order. @throws SpecError with the cycle if there is one */
std::vector<std::uint32_t>
RankOrder(const TraceSet& set, std::uint32_t rank, bool ascending)
{
    const RankTrace& trace = set.ranks[rank];
    std::vector<std::uint32_t> order(trace.ops.size());
    for (std::uint32_t i = 0; i < order.size(); ++i)
    {
        order[i] = i;
    }
    if (trace.programOrder)
    {
        return order;
    }
    if (ascending)
    {
        std::sort(order.begin(), order.end(), [&trace](std::uint32_t a, std::uint32_t b) {
            return trace.ops[a].id < trace.ops[b].id;
        });
        return order;
    }
    const RankEdges edges(trace);
    order = CanonicalOrder(trace, edges, [](std::uint32_t) { return true; });
    if (order.size() == trace.ops.size())
    {
        return order;
    }
    // Every operation that is left has a dependency that is left; following those finds the cycle.
    std::vector<std::uint8_t> done(trace.ops.size());
    for (const std::uint32_t i : order)
    {
        done[i] = 1;
    }
    std::uint32_t at = 0;
    while (done[at] != 0)
    {
        ++at;
    }
    std::vector<std::uint8_t> visited(trace.ops.size());
    const auto before = [&](std::uint32_t i) {
        const TraceOp& op = trace.ops[i];
        std::uint32_t d = 0;
        while (done[trace.deps[op.deps + d]] != 0)
        {
            ++d;
        }
        return trace.deps[op.deps + d];
    };
    while (visited[at] == 0)
    {
        visited[at] = 1;
        at = before(at);
    }
    constexpr std::size_t kLongest = 50;
    std::vector<std::uint32_t> cycle{at};
    for (std::uint32_t i = before(at); i != at; i = before(i))
    {
        cycle.push_back(i);
    }
    // `before` walks against the order of time; start at the smallest id so that the text is stable.
    std::reverse(cycle.begin(), cycle.end());
    std::rotate(cycle.begin(),
                std::min_element(cycle.begin(),
                                 cycle.end(),
                                 [&trace](std::uint32_t a, std::uint32_t b) {
                                     return trace.ops[a].id < trace.ops[b].id;
                                 }),
                cycle.end());
    std::string text;
    for (std::size_t i = 0; i < cycle.size() && i < kLongest; ++i)
    {
        text += std::to_string(trace.ops[cycle[i]].id) + " -> ";
    }
    text += cycle.size() > kLongest ? "..." : std::to_string(trace.ops[cycle[0]].id);
    throw SpecError(trace.file + " rank " + std::to_string(rank) +
                    ": data dependencies form a cycle: nodes " + text);
}

struct MessageKey
{
    RankId src = 0;
    RankId dst = 0;
    std::int64_t tag = 0;

    friend bool operator<(const MessageKey& a, const MessageKey& b)
    {
        return std::tie(a.src, a.dst, a.tag) < std::tie(b.src, b.dst, b.tag);
    }
};

class Matcher
{
  public:
    Matcher(TraceSet& set, const TraceOptions& options, LoadedWorkload& out)
        : m_set(set),
          m_options(options),
          m_graph(out.graph)
    {
    }

    void Run()
    {
        ResolveGroups();
        OrderRanks();
        MatchCollectives();
        MatchMessages();
        MakeTasks();
        MakeEdges();
        m_graph.Finalize(m_set.place);
    }

  private:
    /** An operation of a rank. */
    struct Ref
    {
        std::uint32_t rank = 0;
        std::uint32_t op = 0;
    };

    struct Edge
    {
        TaskId before = 0;
        TaskId after = 0;
        std::uint32_t group = UINT32_MAX; ///< of a serialisation edge
    };

    [[nodiscard]] std::string Describe(Ref ref) const
    {
        return m_set.Describe(ref.rank, m_set.ranks[ref.rank].ops[ref.op]);
    }

    /** Fills in "all ranks", checks members, and makes equal groups one. */
    void ResolveGroups()
    {
        const auto count = static_cast<std::uint32_t>(m_set.ranks.size());
        m_graph.ranks = count;
        std::map<std::pair<std::string, std::vector<RankId>>, std::uint32_t> known;
        std::vector<std::uint8_t> used(m_set.groups.size());
        for (const RankTrace& trace : m_set.ranks)
        {
            for (const TraceOp& op : trace.ops)
            {
                if (op.kind == OpKind::Collective)
                {
                    used[op.group] = 1;
                }
            }
        }
        m_groupOf.assign(m_set.groups.size(), UINT32_MAX);
        for (std::size_t g = 0; g < m_set.groups.size(); ++g)
        {
            CommGroup group = m_set.groups[g];
            if (group.members.empty())
            {
                for (RankId r = 0; r < count; ++r)
                {
                    group.members.push_back(r);
                }
            }
            std::vector<RankId> sorted = group.members;
            std::sort(sorted.begin(), sorted.end());
            const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
            if (twice != sorted.end())
            {
                throw SpecError(m_set.place,
                                "group '" + group.name + "': rank " + std::to_string(*twice) +
                                    " twice");
            }
            if (sorted.back() >= count)
            {
                throw SpecError(m_set.place,
                                "group '" + group.name + "': found rank " +
                                    std::to_string(sorted.back()) + ", expected 0.." +
                                    std::to_string(count - 1) + " (" + std::to_string(count) +
                                    " ranks have a file)");
            }
            if (used[g] == 0)
            {
                continue;
            }
            const auto [at, isNew] =
                known.emplace(std::make_pair(group.name, group.members),
                              static_cast<std::uint32_t>(m_graph.groups.size()));
            if (isNew)
            {
                m_graph.groups.push_back(group);
            }
            m_groupOf[g] = at->second;
        }
    }

    void OrderRanks()
    {
        const auto count = static_cast<std::uint32_t>(m_set.ranks.size());
        m_calls.resize(m_graph.groups.size());
        for (std::size_t g = 0; g < m_calls.size(); ++g)
        {
            m_calls[g].resize(m_graph.groups[g].members.size());
            for (std::uint32_t m = 0; m < m_calls[g].size(); ++m)
            {
                m_member[{static_cast<std::uint32_t>(g), m_graph.groups[g].members[m]}] = m;
            }
        }
        m_keep.resize(count);
        for (std::uint32_t r = 0; r < count; ++r)
        {
            OrderRank(r);
        }
    }

    void OrderRank(std::uint32_t r)
    {
        const RankTrace& trace = m_set.ranks[r];
        const bool ascending = trace.programOrder || IdsAscend(trace);
        const std::vector<std::uint32_t> order = RankOrder(m_set, r, ascending);
        m_keep[r].assign(trace.ops.size(), 1);
        for (std::size_t position = 0; position < order.size(); ++position)
        {
            const TraceOp& op = trace.ops[order[position]];
            if ((m_options.maxOps != 0 && position >= m_options.maxOps) ||
                (m_options.firstIteration && op.iteration > 1))
            {
                m_keep[r][order[position]] = 0;
            }
        }

        // Keyed by group, or by message key behind all groups.
        std::map<std::uint32_t, std::vector<std::uint32_t>> perGroup;
        std::map<std::pair<bool, MessageKey>, std::vector<std::uint32_t>> perKey;
        for (const std::uint32_t i : order)
        {
            const TraceOp& op = trace.ops[i];
            if (op.kind == OpKind::Collective)
            {
                perGroup[m_groupOf[op.group]].push_back(i);
            }
            else if (op.kind == OpKind::Send || op.kind == OpKind::Recv)
            {
                if (op.peer >= m_graph.ranks)
                {
                    throw SpecError(m_set.Describe(r, op) + ": found peer rank " +
                                    std::to_string(op.peer) + ", expected 0.." +
                                    std::to_string(m_graph.ranks - 1));
                }
                const bool send = op.kind == OpKind::Send;
                perKey[{send, {send ? r : op.peer, send ? op.peer : r, op.tag}}].push_back(i);
            }
        }
        if (!ascending)
        {
            const RankEdges edges(trace);
            for (auto& [group, calls] : perGroup)
            {
                Reorder(trace, edges, calls);
            }
            for (auto& [key, calls] : perKey)
            {
                Reorder(trace, edges, calls);
            }
        }
        for (const auto& [group, calls] : perGroup)
        {
            const auto member = m_member.find({group, r});
            if (member == m_member.end())
            {
                throw SpecError(Describe({r, calls[0]}) + ": rank " + std::to_string(r) +
                                " is no member of group '" + m_graph.groups[group].name +
                                "' = " + Members(m_graph.groups[group]));
            }
            m_calls[group][member->second] = calls;
        }
        for (const auto& [key, calls] : perKey)
        {
            auto& side = key.first ? m_sends[key.second] : m_recvs[key.second];
            side.insert(side.end(), calls.begin(), calls.end());
        }
    }

    static void Reorder(const RankTrace& trace,
                        const RankEdges& edges,
                        std::vector<std::uint32_t>& calls)
    {
        if (calls.size() < 2)
        {
            return;
        }
        std::vector<std::uint8_t> in(trace.ops.size());
        for (const std::uint32_t i : calls)
        {
            in[i] = 1;
        }
        calls = CanonicalOrder(trace, edges, [&in](std::uint32_t i) { return in[i] != 0; });
    }

    static std::string Members(const CommGroup& group)
    {
        constexpr std::size_t kMost = 16;
        std::string text = "[";
        for (std::size_t i = 0; i < group.members.size() && i < kMost; ++i)
        {
            text += (i == 0 ? "" : ",") + std::to_string(group.members[i]);
        }
        return text + (group.members.size() > kMost ? ",...]" : "]");
    }

    void MatchCollectives()
    {
        for (std::uint32_t g = 0; g < m_calls.size(); ++g)
        {
            std::size_t most = 0;
            for (const auto& calls : m_calls[g])
            {
                most = std::max(most, calls.size());
            }
            for (std::size_t k = 0; k < most; ++k)
            {
                MatchCall(g, k);
            }
        }
    }

    void MatchCall(std::uint32_t g, std::size_t k)
    {
        const CommGroup& group = m_graph.groups[g];
        const auto n = static_cast<std::uint32_t>(group.members.size());
        std::vector<Ref> refs;
        std::uint32_t missing = UINT32_MAX;
        for (std::uint32_t m = 0; m < n; ++m)
        {
            if (k < m_calls[g][m].size())
            {
                refs.push_back({group.members[m], m_calls[g][m][k]});
            }
            else if (missing == UINT32_MAX)
            {
                missing = group.members[m];
            }
        }
        const auto op = [this](Ref ref) -> const TraceOp& {
            return m_set.ranks[ref.rank].ops[ref.op];
        };
        const TraceOp& first = op(refs[0]);
        const std::string call = "call " + std::to_string(k + 1) + " of group '" + group.name + "'";
        if (missing != UINT32_MAX)
        {
            throw SpecError(Describe(refs[0]) + ": " + Name(first.collective) + ", " + call +
                            ": rank " + std::to_string(missing) + " never calls it");
        }

        CollectiveCall made;
        made.kind = first.collective;
        made.group = g;
        made.sequence = static_cast<std::uint32_t>(k);
        made.elementBytes = first.elementBytes;
        made.name = m_set.names[first.name];
        made.root = UINT32_MAX;
        bool anySplits = false;
        std::uint32_t sized = UINT32_MAX; // a member whose size is known
        for (std::uint32_t m = 0; m < n; ++m)
        {
            const TraceOp& other = op(refs[m]);
            const bool toAll = (other.collective == CollectiveKind::AllToAll ||
                                other.collective == CollectiveKind::AllToAllV) &&
                               (first.collective == CollectiveKind::AllToAll ||
                                first.collective == CollectiveKind::AllToAllV);
            if (other.collective != first.collective && !toAll)
            {
                throw SpecError(Describe(refs[m]) + ": " + call + ": found " +
                                Name(other.collective) + ", but rank " +
                                std::to_string(refs[0].rank) + " node " + std::to_string(first.id) +
                                " calls " + Name(first.collective));
            }
            anySplits = anySplits || other.splits != UINT64_MAX;
            made.elementBytes = std::min(made.elementBytes, other.elementBytes);
            if (other.root != UINT32_MAX)
            {
                if (made.root != UINT32_MAX && made.root != other.root)
                {
                    throw SpecError(Describe(refs[m]) + ": " + call + ": found root " +
                                    std::to_string(group.members[other.root]) +
                                    ", but another member says " +
                                    std::to_string(group.members[made.root]));
                }
                made.root = other.root;
            }
            if (!other.sizeUnknown)
            {
                sized = sized == UINT32_MAX ? m : sized;
                if (made.kind != CollectiveKind::AllToAllV && !toAll &&
                    other.bytes != op(refs[sized]).bytes)
                {
                    throw SpecError(Describe(refs[m]) + ": " + Name(made.kind) + ", " + call +
                                    ": found " + std::to_string(other.bytes) + " B, but rank " +
                                    std::to_string(refs[sized].rank) + " node " +
                                    std::to_string(op(refs[sized]).id) + " has " +
                                    std::to_string(op(refs[sized]).bytes) + " B");
                }
            }
        }
        const bool rooted =
            made.kind == CollectiveKind::Broadcast || made.kind == CollectiveKind::Reduce ||
            made.kind == CollectiveKind::Gather || made.kind == CollectiveKind::Scatter;
        if (made.root == UINT32_MAX)
        {
            made.root = 0;
            if (rooted && n > 1)
            {
                m_set.Warn(std::string(Name(made.kind)) +
                           " without a recorded root: the group's first rank taken");
            }
        }
        if (made.kind == CollectiveKind::AllToAll || made.kind == CollectiveKind::AllToAllV)
        {
            MergeAllToAll(made, refs, anySplits, call);
        }
        else
        {
            made.bytes = Scaled(sized == UINT32_MAX ? 0 : op(refs[sized]).bytes, made.elementBytes);
        }

        bool keep = true;
        for (const Ref ref : refs)
        {
            keep = keep && m_keep[ref.rank][ref.op] != 0;
        }
        if (!keep)
        {
            for (const Ref ref : refs)
            {
                m_set.ranks[ref.rank].ops[ref.op].kind = OpKind::Nothing;
            }
            return;
        }
        for (std::uint32_t m = 0; m < n; ++m)
        {
            TraceOp& mine = m_set.ranks[refs[m].rank].ops[refs[m].op];
            // From here on `group` is the collective and `root` the member.
            mine.group = static_cast<std::uint32_t>(m_graph.collectives.size());
            mine.root = m;
        }
        m_graph.collectives.push_back(std::move(made));
    }

    void MergeAllToAll(CollectiveCall& made,
                       const std::vector<Ref>& refs,
                       bool anySplits,
                       const std::string& call)
    {
        const auto n = static_cast<std::uint32_t>(refs.size());
        const auto op = [this](Ref ref) -> const TraceOp& {
            return m_set.ranks[ref.rank].ops[ref.op];
        };
        bool equal = true;
        for (const Ref ref : refs)
        {
            equal = equal && op(ref).bytes == op(refs[0]).bytes;
        }
        if (!anySplits)
        {
            if (!equal)
            {
                throw SpecError(Describe(refs[0]) + ": " + call + ": all_to_all of " +
                                std::to_string(op(refs[0]).bytes) +
                                " B meets other sizes on other ranks and has no splits");
            }
            made.kind = CollectiveKind::AllToAll;
            made.bytes = Scaled(op(refs[0]).bytes, made.elementBytes);
            return;
        }
        made.kind = CollectiveKind::AllToAllV;
        made.pairBytes.assign(static_cast<std::size_t>(n) * n, 0);
        const auto part = [&](std::uint32_t m, std::uint32_t other, bool out) -> Bytes {
            const TraceOp& mine = op(refs[m]);
            if (mine.splits == UINT64_MAX)
            {
                return PartOf(mine.bytes, n, other, mine.elementBytes);
            }
            return m_set.ranks[refs[m].rank].splits[mine.splits + (out ? n : 0) + other];
        };
        for (std::uint32_t i = 0; i < n; ++i)
        {
            for (std::uint32_t j = 0; j < n; ++j)
            {
                const Bytes in = part(i, j, false);
                const Bytes out = part(j, i, true);
                if (in != out && out != kUnknownSplit)
                {
                    throw SpecError(
                        Describe(refs[i]) + ": all_to_allv, " + call + ", pair (" +
                        std::to_string(refs[i].rank) + "," + std::to_string(refs[j].rank) +
                        "): rank " + std::to_string(refs[i].rank) + " sends " +
                        std::to_string(in / op(refs[i]).elementBytes) + " elements (" +
                        std::to_string(in) + " B), rank " + std::to_string(refs[j].rank) +
                        " expects " + std::to_string(out / op(refs[j]).elementBytes) + " (" +
                        std::to_string(out) + " B)");
                }
                made.pairBytes[static_cast<std::size_t>(i) * n + j] = Scaled(in, made.elementBytes);
            }
        }
    }

    [[nodiscard]] Bytes Scaled(Bytes bytes, std::uint32_t elementBytes) const
    {
        if (m_options.scaleBytes == 1.0 || bytes == 0)
        {
            return bytes;
        }
        const double elements = static_cast<double>(bytes) / elementBytes * m_options.scaleBytes;
        const double whole = std::max(1.0, std::round(elements));
        if (whole * elementBytes >= 0x1.0p63)
        {
            throw SpecError("scale_bytes: a size becomes " + std::to_string(whole * elementBytes) +
                            " B, expected less than 2^63");
        }
        return static_cast<Bytes>(whole) * elementBytes;
    }

    void MatchMessages()
    {
        for (const auto& [key, sends] : m_sends)
        {
            const auto at = m_recvs.find(key);
            const std::size_t received = at == m_recvs.end() ? 0 : at->second.size();
            if (received < sends.size())
            {
                throw SpecError(Describe({key.src, sends[received]}) + ": send to rank " +
                                std::to_string(key.dst) + ", tag " + std::to_string(key.tag) +
                                ": found " + std::to_string(sends.size()) + " sends and " +
                                std::to_string(received) + " receives");
            }
        }
        for (const auto& [key, recvs] : m_recvs)
        {
            const auto at = m_sends.find(key);
            const std::size_t sent = at == m_sends.end() ? 0 : at->second.size();
            if (sent < recvs.size())
            {
                throw SpecError(Describe({key.dst, recvs[sent]}) + ": receive from rank " +
                                std::to_string(key.src) + ", tag " + std::to_string(key.tag) +
                                ": found " + std::to_string(recvs.size()) + " receives and " +
                                std::to_string(sent) + " sends");
            }
        }
        for (const auto& [key, sends] : m_sends)
        {
            const auto& recvs = m_recvs[key];
            for (std::size_t k = 0; k < sends.size(); ++k)
            {
                TraceOp& send = m_set.ranks[key.src].ops[sends[k]];
                TraceOp& recv = m_set.ranks[key.dst].ops[recvs[k]];
                if (!recv.sizeUnknown && send.bytes != recv.bytes)
                {
                    throw SpecError(Describe({key.src, sends[k]}) + ": send of " +
                                    std::to_string(send.bytes) + " B to rank " +
                                    std::to_string(key.dst) + ", tag " + std::to_string(key.tag) +
                                    ", meets a receive of " + std::to_string(recv.bytes) +
                                    " B (node " + std::to_string(recv.id) + ")");
                }
                if (m_keep[key.src][sends[k]] == 0 || m_keep[key.dst][recvs[k]] == 0)
                {
                    send.kind = OpKind::Nothing;
                    recv.kind = OpKind::Nothing;
                    continue;
                }
                send.group = static_cast<std::uint32_t>(m_graph.transfers.size());
                recv.group = send.group;
                m_graph.transfers.push_back(
                    {key.src, key.dst, Scaled(send.bytes, send.elementBytes), key.tag});
            }
        }
        m_sends.clear();
        m_recvs.clear();
    }

    /** Index in the graph of each name of the set; in sorted order, which is what InternName() is fast for. */
    std::vector<std::uint32_t> InternNames()
    {
        std::vector<std::uint32_t> order(m_set.names.size());
        for (std::uint32_t i = 0; i < order.size(); ++i)
        {
            order[i] = i;
        }
        std::sort(order.begin(), order.end(), [this](std::uint32_t a, std::uint32_t b) {
            return m_set.names[a] < m_set.names[b];
        });
        std::vector<std::uint32_t> nameOf(m_set.names.size(), kNoId);
        for (const std::uint32_t i : order)
        {
            nameOf[i] = m_graph.InternName(m_set.names[i]);
        }
        return nameOf;
    }

    void MakeTasks()
    {
        const std::vector<std::uint32_t> nameOf = InternNames();
        std::int64_t base = INT64_MAX;
        std::vector<std::int64_t> rankBase(m_set.ranks.size(), INT64_MAX);
        for (std::size_t r = 0; r < m_set.ranks.size(); ++r)
        {
            for (const TraceOp& op : m_set.ranks[r].ops)
            {
                if (op.start >= 0)
                {
                    rankBase[r] = std::min(rankBase[r], op.start);
                }
            }
            base = std::min(base, rankBase[r]);
        }
        if (m_options.timingKept && base == INT64_MAX)
        {
            m_set.Warn("timing: kept, but no operation has a recorded start");
        }
        std::size_t count = 0;
        for (const RankTrace& trace : m_set.ranks)
        {
            count += trace.ops.size();
        }
        if (count >= kNoId)
        {
            throw SpecError(m_set.place, "found 2^32 operations or more");
        }
        m_graph.tasks.reserve(count);
        m_taskOf.resize(m_set.ranks.size());
        for (std::uint32_t r = 0; r < m_set.ranks.size(); ++r)
        {
            RankTrace& trace = m_set.ranks[r];
            m_taskOf[r].assign(trace.ops.size(), kNoId);
            for (std::uint32_t i = 0; i < trace.ops.size(); ++i)
            {
                const TraceOp& op = trace.ops[i];
                if (m_keep[r][i] == 0)
                {
                    continue;
                }
                Task task;
                task.rank = r;
                task.sourceId = op.id;
                task.name = nameOf[op.name];
                switch (op.kind)
                {
                case OpKind::Compute:
                    task.kind = TaskKind::Compute;
                    task.duration = ScaledTime(op);
                    break;
                case OpKind::Collective:
                    task.kind = TaskKind::Collective;
                    task.object = op.group;
                    task.member = op.root;
                    break;
                case OpKind::Send:
                case OpKind::Recv:
                    task.kind = op.kind == OpKind::Send ? TaskKind::Send : TaskKind::Recv;
                    task.object = op.group;
                    break;
                case OpKind::Wait:
                case OpKind::Batch:
                case OpKind::Nothing:
                    task.kind = TaskKind::Join;
                    break;
                }
                if (m_options.timingKept && op.start >= 0)
                {
                    const std::int64_t ns =
                        op.start - (m_options.alignPerRank ? rankBase[r] : base);
                    if (ns > INT64_MAX / kNanosecond / 2)
                    {
                        throw SpecError(m_set.Describe(r, op) +
                                        ": found a recorded start more than 53 days after the "
                                        "first (clocks of ranks differ? align: per-rank)");
                    }
                    task.notBefore = ns * kNanosecond;
                }
                m_taskOf[r][i] = m_graph.Add(task);
            }
        }
    }

    [[nodiscard]] SimTime ScaledTime(const TraceOp& op) const
    {
        if (m_options.computeScale == 1.0)
        {
            return op.duration;
        }
        const double scaled = static_cast<double>(op.duration) * m_options.computeScale;
        if (scaled >= 0x1.0p62)
        {
            throw SpecError("compute_scale: a duration becomes " + std::to_string(scaled / 1e12) +
                            " s, expected less than 53 days");
        }
        return static_cast<SimTime>(std::llround(scaled));
    }

    void MakeEdges()
    {
        std::vector<Edge> edges;
        for (std::uint32_t r = 0; r < m_set.ranks.size(); ++r)
        {
            RankTrace& trace = m_set.ranks[r];
            for (std::uint32_t i = 0; i < trace.ops.size(); ++i)
            {
                const TraceOp& op = trace.ops[i];
                for (std::uint32_t d = 0; d < op.depCount; ++d)
                {
                    AddEdge(edges,
                            m_taskOf[r][trace.deps[op.deps + d]],
                            m_taskOf[r][i],
                            UINT32_MAX);
                }
            }
            trace = RankTrace{trace.file, {}, {}, {}, trace.programOrder, trace.computeTime};
        }
        const std::size_t own = edges.size();
        if (m_options.serialise)
        {
            for (std::uint32_t g = 0; g < m_calls.size(); ++g)
            {
                for (std::size_t m = 0; m < m_calls[g].size(); ++m)
                {
                    const auto& tasks = m_taskOf[m_graph.groups[g].members[m]];
                    for (std::size_t k = 1; k < m_calls[g][m].size(); ++k)
                    {
                        AddEdge(edges, tasks[m_calls[g][m][k - 1]], tasks[m_calls[g][m][k]], g);
                    }
                }
            }
        }
        CheckDeadlock(edges, own);
        for (const Edge& edge : edges)
        {
            m_graph.AddDependency(edge.before, edge.after);
        }
    }

    static void AddEdge(std::vector<Edge>& edges, TaskId before, TaskId after, std::uint32_t group)
    {
        if (before != kNoId && after != kNoId)
        {
            edges.push_back({before, after, group});
        }
    }

    /** Each collective is one vertex here: no member can pass it before all have come. */
    [[nodiscard]] std::uint32_t Vertex(TaskId task) const
    {
        const Task& t = m_graph.tasks[task];
        return t.kind == TaskKind::Collective
                   ? static_cast<std::uint32_t>(m_graph.tasks.size()) + t.object
                   : task;
    }

    /**
     * The union of all ranks must be acyclic, with an edge from each send to its receive. If only serialisation
     * closes a cycle, the groups on it are no longer serialised.
     */
    void CheckDeadlock(std::vector<Edge>& edges, std::size_t own)
    {
        std::vector<TaskId> sender(m_graph.transfers.size(), kNoId);
        for (TaskId t = 0; t < m_graph.tasks.size(); ++t)
        {
            if (m_graph.tasks[t].kind == TaskKind::Send)
            {
                sender[m_graph.tasks[t].object] = t;
            }
        }
        std::vector<Edge> all = edges;
        for (TaskId t = 0; t < m_graph.tasks.size(); ++t)
        {
            if (m_graph.tasks[t].kind == TaskKind::Recv)
            {
                all.push_back({sender[m_graph.tasks[t].object], t, UINT32_MAX});
            }
        }
        for (;;)
        {
            const std::vector<Edge> cycle = FindCycle(all);
            if (cycle.empty())
            {
                return;
            }
            std::uint32_t group = UINT32_MAX;
            for (const Edge& edge : cycle)
            {
                group = group == UINT32_MAX ? edge.group : group;
            }
            if (group == UINT32_MAX)
            {
                Deadlock(cycle);
            }
            m_set.Warn("group '" + m_graph.groups[group].name +
                       "': running its collectives one after the other would deadlock; they may "
                       "overlap");
            const auto drop = [group](const Edge& edge) { return edge.group == group; };
            all.erase(std::remove_if(all.begin(), all.end(), drop), all.end());
            edges.erase(
                std::remove_if(edges.begin() + static_cast<std::ptrdiff_t>(own), edges.end(), drop),
                edges.end());
        }
    }

    [[noreturn]] void Deadlock(const std::vector<Edge>& cycle) const
    {
        constexpr std::size_t kMost = 12;
        std::string text;
        for (std::size_t i = 0; i < cycle.size() && i < kMost; ++i)
        {
            text += m_graph.Describe(cycle[i].before) + " -> ";
        }
        text += cycle.size() > kMost ? "..." : m_graph.Describe(cycle[0].before);
        throw SpecError(m_set.place, "deadlock, the ranks wait for each other: " + text);
    }

    /** Edges of one cycle in order, or nothing. O(vertices + edges). */
    [[nodiscard]] std::vector<Edge> FindCycle(const std::vector<Edge>& edges) const
    {
        const std::size_t count = m_graph.tasks.size() + m_graph.collectives.size();
        std::vector<std::uint32_t> start(count + 1);
        std::vector<std::uint32_t> open(count);
        for (const Edge& edge : edges)
        {
            ++start[Vertex(edge.before) + 1];
            ++open[Vertex(edge.after)];
        }
        for (std::size_t v = 0; v < count; ++v)
        {
            start[v + 1] += start[v];
        }
        std::vector<std::uint32_t> fill(start.begin(), start.end() - 1);
        std::vector<std::uint32_t> out(edges.size());
        for (std::uint32_t e = 0; e < edges.size(); ++e)
        {
            out[fill[Vertex(edges[e].before)]++] = e;
        }
        std::vector<std::uint32_t> ready;
        for (std::uint32_t v = 0; v < count; ++v)
        {
            if (open[v] == 0)
            {
                ready.push_back(v);
            }
        }
        std::size_t done = 0;
        while (!ready.empty())
        {
            const std::uint32_t v = ready.back();
            ready.pop_back();
            ++done;
            for (std::uint32_t e = start[v]; e < start[v + 1]; ++e)
            {
                if (--open[Vertex(edges[out[e]].after)] == 0)
                {
                    ready.push_back(Vertex(edges[out[e]].after));
                }
            }
        }
        if (done == count)
        {
            return {};
        }
        // What is left over lies on or behind a cycle: walk backwards along edges between such vertices.
        std::vector<std::uint32_t> into(count, UINT32_MAX);
        std::uint32_t at = UINT32_MAX;
        for (std::uint32_t e = 0; e < edges.size(); ++e)
        {
            const std::uint32_t before = Vertex(edges[e].before);
            const std::uint32_t after = Vertex(edges[e].after);
            if (open[before] > 0 && open[after] > 0 &&
                (into[after] == UINT32_MAX || edges[into[after]].group != UINT32_MAX))
            {
                into[after] = e;
            }
            at = at == UINT32_MAX && open[after] > 0 ? after : at;
        }
        std::vector<std::uint8_t> visited(count);
        while (visited[at] == 0)
        {
            visited[at] = 1;
            at = Vertex(edges[into[at]].before);
        }
        std::vector<Edge> cycle;
        const std::uint32_t first = at;
        do
        {
            cycle.push_back(edges[into[at]]);
            at = Vertex(edges[into[at]].before);
        } while (at != first);
        std::reverse(cycle.begin(), cycle.end());
        return cycle;
    }

    TraceSet& m_set;
    const TraceOptions& m_options;
    TaskGraph& m_graph;
    std::vector<std::uint32_t> m_groupOf; ///< TraceSet group -> graph group
    std::map<std::pair<std::uint32_t, RankId>, std::uint32_t> m_member;
    /** [group][member]: operations in canonical order. */
    std::vector<std::vector<std::vector<std::uint32_t>>> m_calls;
    std::map<MessageKey, std::vector<std::uint32_t>> m_sends;
    std::map<MessageKey, std::vector<std::uint32_t>> m_recvs;
    std::vector<std::vector<std::uint8_t>> m_keep;
    std::vector<std::vector<TaskId>> m_taskOf;
};

void
Count(const TraceSet& set, LoadedWorkload& out)
{
    out.ranks.resize(set.ranks.size());
    for (std::size_t r = 0; r < set.ranks.size(); ++r)
    {
        RankCounts& counts = out.ranks[r];
        for (const TraceOp& op : set.ranks[r].ops)
        {
            switch (op.kind)
            {
            case OpKind::Collective:
                ++counts.collectives[static_cast<std::size_t>(op.collective)];
                counts.collectiveBytes[static_cast<std::size_t>(op.collective)] += op.bytes;
                break;
            case OpKind::Send:
                ++counts.sends;
                counts.sendBytes += op.bytes;
                break;
            case OpKind::Recv:
                ++counts.recvs;
                counts.recvBytes += op.bytes;
                break;
            case OpKind::Wait:
                ++counts.waits;
                break;
            case OpKind::Compute:
                ++counts.computes;
                counts.computeTime += op.duration;
                break;
            case OpKind::Batch:
            case OpKind::Nothing:
                break;
            }
        }
    }
}

} // namespace

void
BuildTaskGraph(TraceSet& set, const TraceOptions& options, LoadedWorkload& out)
{
    Count(set, out);
    if (options.firstIteration)
    {
        bool marked = false;
        for (const RankTrace& trace : set.ranks)
        {
            marked = marked || (!trace.ops.empty() && trace.ops.back().iteration > 0);
        }
        if (!marked)
        {
            throw SpecError(set.place, "first_iteration: the trace has no iteration markers");
        }
    }
    out.partial = options.partial;
    if (!options.partial)
    {
        Matcher(set, options, out).Run();
    }
    else
    {
        out.graph.ranks = static_cast<std::uint32_t>(set.ranks.size());
        out.graph.Finalize(set.place);
    }
    out.facts = std::move(set.facts);
    out.lists = std::move(set.lists);
    for (const auto& [text, times] : set.warnings)
    {
        out.graph.warnings.push_back(text +
                                     (times > 1 ? " (" + std::to_string(times) + " times)" : ""));
    }
}

} // namespace topoopt
