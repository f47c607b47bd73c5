// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/error.h"
#include "topoopt/core/readers/json.h"
#include "topoopt/core/readers/readers.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace topoopt
{

namespace
{

struct Alias
{
    const char* letters;
    CommName name;
};

constexpr CommName
Coll(CollectiveKind kind, bool vector = false)
{
    return {OpKind::Collective, kind, vector, false};
}

using K = CollectiveKind;

// Letters only: "all_to_all", "alltoall" and "ALLTOALL" are one name.
constexpr std::array<Alias, 44> kAliases{{
    {"allgather", Coll(K::AllGather)},
    {"allgatherbase", Coll(K::AllGather)},
    {"allgathercoalesced", Coll(K::AllGather)},
    {"allgatherintotensor", Coll(K::AllGather)},
    {"allgatherintotensorcoalesced", Coll(K::AllGather)},
    {"allgatherv", Coll(K::AllGather, true)},
    {"allreduce", Coll(K::AllReduce)},
    {"allreducecoalesced", Coll(K::AllReduce)},
    {"alltoall", Coll(K::AllToAll)},
    {"alltoallbase", Coll(K::AllToAllV)},
    {"alltoallsingle", Coll(K::AllToAll)},
    {"alltoallv", Coll(K::AllToAllV)},
    {"barrier", Coll(K::Barrier)},
    {"broadcast", Coll(K::Broadcast)},
    {"broadcastcoalesced", Coll(K::Broadcast)},
    {"broadcastoop", Coll(K::Broadcast)},
    {"gather", Coll(K::Gather)},
    {"incast", Coll(K::Gather)},
    {"multicast", Coll(K::Broadcast)},
    {"reduce", Coll(K::Reduce)},
    {"reduceoop", Coll(K::Reduce)},
    {"reducescatter", Coll(K::ReduceScatter)},
    {"reducescatterbase", Coll(K::ReduceScatter)},
    {"reducescattercoalesced", Coll(K::ReduceScatter)},
    {"reducescattertensor", Coll(K::ReduceScatter)},
    {"reducescattertensorcoalesced", Coll(K::ReduceScatter)},
    {"reducescatterv", Coll(K::ReduceScatter, true)},
    {"scatter", Coll(K::Scatter)},
    {"send", {OpKind::Send, K::Barrier, false, false}},
    {"isend", {OpKind::Send, K::Barrier, false, false}},
    {"recv", {OpKind::Recv, K::Barrier, false, false}},
    {"irecv", {OpKind::Recv, K::Barrier, false, false}},
    {"recvanysource", {OpKind::Recv, K::Barrier, false, false}},
    {"wait", {OpKind::Wait, K::Barrier, false, false}},
    {"init", {OpKind::Nothing, K::Barrier, false, true}},
    {"batchisendirecv", {OpKind::Batch, K::Barrier, false, false}},
    {"ncclbroadcast", Coll(K::Broadcast)},
    {"ncclallreduce", Coll(K::AllReduce)},
    {"ncclallgather", Coll(K::AllGather)},
    {"ncclreducescatter", Coll(K::ReduceScatter)},
    {"ncclalltoall", Coll(K::AllToAll)},
    {"ncclalltoallv", Coll(K::AllToAllV)},
    {"ncclsend", {OpKind::Send, K::Barrier, false, false}},
    {"ncclrecv", {OpKind::Recv, K::Barrier, false, false}},
}};

struct Dtype
{
    const char* name;
    std::uint32_t bytes;
};

constexpr std::array<Dtype, 40> kDtypes{{
    {"bool", 1},
    {"byte", 1},
    {"uint8", 1},
    {"int8", 1},
    {"char", 1},
    {"signed char", 1},
    {"unsigned char", 1},
    {"float8_e4m3fn", 1},
    {"float8_e5m2", 1},
    {"half", 2},
    {"float16", 2},
    {"bfloat16", 2},
    {"short", 2},
    {"int16", 2},
    {"uint16", 2},
    {"float", 4},
    {"float32", 4},
    {"int", 4},
    {"int32", 4},
    {"uint32", 4},
    {"double", 8},
    {"float64", 8},
    {"long", 8},
    {"int64", 8},
    {"uint64", 8},
    {"complexfloat", 8},
    {"complex64", 8},
    {"complexdouble", 16},
    {"complex128", 16},
    {"long int", 8},
    {"short int", 2},
    {"c10::half", 2},
    {"c10::bfloat16", 2},
    {"float8_e4m3", 1},
    {"float8e4m3fn", 1},
    {"float8e5m2", 1},
    {"c10::complex<float>", 8},
    {"c10::complex<double>", 16},
    {"float8_e4m3fnuz", 1},
    {"float8_e5m2fnuz", 1},
}};

} // namespace

bool
ParseCommName(std::string_view name, CommName& out)
{
    constexpr std::size_t kLongest = 64;
    std::string letters;
    for (const char c : name.substr(0, kLongest))
    {
        if (std::isalpha(static_cast<unsigned char>(c)) != 0)
        {
            letters.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
        }
    }
    for (const Alias& alias : kAliases)
    {
        if (letters == alias.letters)
        {
            out = alias.name;
            return true;
        }
    }
    return false;
}

std::string
KnownCommNames()
{
    return "all_gather, all_gather_v, all_reduce, all_to_all, all_to_allv, barrier, "
           "batch_isend_irecv, broadcast, gather, incast, init, irecv, isend, multicast, recv, "
           "reduce, reduce_scatter, reduce_scatter_v, scatter, send, wait";
}

std::uint32_t
DtypeBytes(std::string_view dtype)
{
    constexpr std::size_t kLongest = 64;
    std::string lower;
    for (const char c : dtype.substr(0, kLongest))
    {
        lower.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
    }
    for (const char* prefix : {"torch.", "nccl"})
    {
        if (lower.rfind(prefix, 0) == 0)
        {
            lower.erase(0, std::string_view(prefix).size());
        }
    }
    for (const Dtype& known : kDtypes)
    {
        if (lower == known.name)
        {
            return known.bytes;
        }
    }
    return 0;
}

std::uint32_t
MemberIndex(const TraceSet& set, std::uint32_t group, RankId rank)
{
    const auto& members = set.groups[group].members;
    if (members.empty())
    {
        return rank < set.ranks.size() ? rank : UINT32_MAX;
    }
    const auto at = std::find(members.begin(), members.end(), rank);
    return at == members.end() ? UINT32_MAX : static_cast<std::uint32_t>(at - members.begin());
}

namespace
{

/** Splits in elements: they sum to @p total, or count rows of which total is a multiple. */
std::vector<Bytes>
CheckSplits(const std::vector<std::int64_t>& splits,
            std::int64_t total,
            std::uint32_t n,
            std::uint32_t elementBytes,
            const char* which,
            const std::string& place)
{
    if (splits.empty())
    {
        if (total % n != 0)
        {
            throw SpecError(place + ": found " + std::to_string(total) + " elements and no " +
                            which + ", expected a multiple of " + std::to_string(n) +
                            " (an uneven call whose splits were not logged?)");
        }
        return std::vector<Bytes>(n, CheckedBytes(place, total / n, elementBytes));
    }
    if (splits.size() != n)
    {
        throw SpecError(place + ": found " + std::to_string(splits.size()) + " entries in " +
                        which + ", expected " + std::to_string(n) + " (group size)");
    }
    std::int64_t sum = 0;
    for (const std::int64_t split : splits)
    {
        if (split < 0 || __builtin_add_overflow(sum, split, &sum))
        {
            throw SpecError(place + ": found " + std::to_string(split) + " in " + which +
                            ", expected 0 or more");
        }
    }
    // Some loggers count rows of the first dimension (docs/traces.md 1.2).
    std::int64_t row = 1;
    if (sum != total)
    {
        if (sum == 0 || total % sum != 0)
        {
            throw SpecError(place + ": " + which + " sums to " + std::to_string(sum) +
                            ", expected " + std::to_string(total) +
                            " (the size) or a divisor of it");
        }
        row = total / sum;
    }
    std::vector<Bytes> bytes;
    for (const std::int64_t split : splits)
    {
        bytes.push_back(CheckedBytes(place, split * row, elementBytes));
    }
    return bytes;
}

} // namespace

void
SetSizes(TraceSet& set,
         RankTrace& trace,
         TraceOp& op,
         const CommName& name,
         const ElementSizes& sizes,
         std::uint32_t n,
         std::uint32_t member,
         const std::string& place)
{
    const std::uint32_t elem = op.elementBytes;
    const std::int64_t in = sizes.in;
    const std::int64_t out = sizes.out;
    op.bytes = CheckedBytes(place, in, elem);
    if (out >= 0)
    {
        (void)CheckedBytes(place, out, elem);
    }
    const auto expectOut = [&](std::int64_t expected) {
        if (out >= 0 && out != expected)
        {
            set.Warn(std::string(Name(op.collective)) +
                     ": output size is not what the input size implies; the input size holds");
        }
    };
    const auto store = [&](const std::vector<Bytes>& first, const std::vector<Bytes>& second) {
        op.splits = trace.splits.size();
        trace.splits.insert(trace.splits.end(), first.begin(), first.end());
        trace.splits.insert(trace.splits.end(), second.begin(), second.end());
    };
    switch (op.collective)
    {
    case CollectiveKind::AllReduce:
        expectOut(in);
        break;
    case CollectiveKind::AllGather:
        if (name.vector)
        {
            // Each member sends its own shard, of any size, to every other one.
            op.collective = CollectiveKind::AllToAllV;
            store(std::vector<Bytes>(n, op.bytes),
                  sizes.outSplit.empty()
                      ? std::vector<Bytes>(n, kUnknownSplit)
                      : CheckSplits(sizes.outSplit, out, n, elem, "out_split", place));
            break;
        }
        if (out >= 0 && in <= INT64_MAX / n)
        {
            expectOut(in * n);
        }
        break;
    case CollectiveKind::ReduceScatter:
        if (name.vector)
        {
            op.collective = CollectiveKind::AllToAllV;
            store(CheckSplits(sizes.inSplit, in, n, elem, "in_split", place),
                  out < 0 ? std::vector<Bytes>(n, kUnknownSplit)
                          : std::vector<Bytes>(n, CheckedBytes(place, out, elem)));
            break;
        }
        if (out >= 0 && out <= INT64_MAX / n && out * n != in)
        {
            expectOut(-1);
        }
        break;
    case CollectiveKind::AllToAll:
    case CollectiveKind::AllToAllV:
    {
        const std::int64_t outTotal = out >= 0 ? out : in;
        if (sizes.inSplit.empty() && sizes.outSplit.empty())
        {
            if (outTotal != in)
            {
                throw SpecError(place + ": found " + std::to_string(in) + " elements in and " +
                                std::to_string(outTotal) + " out without splits, expected equal");
            }
            (void)CheckSplits({}, in, n, elem, "splits", place);
            break;
        }
        store(CheckSplits(sizes.inSplit, in, n, elem, "in_split", place),
              CheckSplits(sizes.outSplit, outTotal, n, elem, "out_split", place));
        break;
    }
    case CollectiveKind::Broadcast:
    case CollectiveKind::Reduce:
    case CollectiveKind::Gather:
        // Only the root (broadcast) or every rank (gather, reduce) has an input; loggers write 0 elsewhere.
        op.sizeUnknown = in == 0 && member != op.root;
        break;
    case CollectiveKind::Scatter:
        // One rank's part is the output; the root's input has n of them.
        op.bytes = out > 0 ? CheckedBytes(place, out, elem) : CheckedBytes(place, in / n, elem);
        op.sizeUnknown = out <= 0 && in == 0;
        break;
    case CollectiveKind::Barrier:
        op.bytes = 0;
        break;
    }
}

std::map<std::string, std::uint32_t>
ReadGroupFile(const std::string& path, TraceSet& set)
{
    std::map<std::string, std::uint32_t> groups;
    Input input(TraceFile{path, UINT32_MAX, nullptr});
    JsonHandlers handlers;
    handlers.array = "\n"; // no member has this name: all of them come whole
    handlers.member = [&](std::string_view key, JsonValue value) {
        std::vector<RankId> members;
        if (!value.Is(JsonType::Array) || value.Size() == 0)
        {
            throw SpecError(path + ": group \"" + std::string(key) + "\": found " + value.Show() +
                            ", expected an array of ranks");
        }
        for (JsonValue v = value.First(); v; v = v.Next())
        {
            std::int64_t rank = 0;
            if (!v.ToInt(rank) || rank < 0 || rank >= INT32_MAX)
            {
                throw SpecError(path + ": group \"" + std::string(key) + "\": found " + v.Show() +
                                ", expected a rank");
            }
            members.push_back(static_cast<RankId>(rank));
        }
        groups[std::string(key)] = set.Group(std::string(key), members);
    };
    StreamJson(input, handlers);
    return groups;
}

std::vector<std::string>
JsonKeys(std::string_view head)
{
    std::vector<std::string> keys;
    if (head.substr(0, 3) == "\xef\xbb\xbf")
    {
        head.remove_prefix(3);
    }
    std::size_t at = head.find_first_not_of(" \t\r\n");
    if (at == std::string_view::npos || (head[at] != '{' && head[at] != '['))
    {
        return keys;
    }
    const bool array = head[at] == '[';
    if (array)
    {
        keys.emplace_back("[");
    }
    // Strings followed by a colon at depth 1 (2 within an array).
    std::size_t depth = 0;
    const std::size_t wanted = array ? 2 : 1;
    std::string last;
    bool haveLast = false;
    for (; at < head.size(); ++at)
    {
        const char c = head[at];
        if (c == '"')
        {
            std::size_t end = at + 1;
            while (end < head.size() && head[end] != '"')
            {
                end += head[end] == '\\' ? 2 : 1;
            }
            if (end >= head.size())
            {
                break;
            }
            last = std::string(head.substr(at + 1, end - at - 1));
            haveLast = true;
            at = end;
            continue;
        }
        if (c == ':' && haveLast && depth == wanted)
        {
            keys.push_back((array ? "[]." : "") + last);
        }
        depth += c == '{' || c == '[' ? 1 : 0;
        if (c == '}' || c == ']')
        {
            if (--depth == 0)
            {
                break;
            }
        }
        haveLast = haveLast && (c == ' ' || c == '\t' || c == '\n' || c == '\r');
    }
    if (!array && keys.empty())
    {
        keys.emplace_back("{");
    }
    return keys;
}

bool
HasKey(const std::vector<std::string>& keys, std::string_view key)
{
    return std::find(keys.begin(), keys.end(), key) != keys.end();
}

std::vector<std::vector<std::string>>
HeadLines(std::string_view head, std::size_t most)
{
    std::vector<std::vector<std::string>> lines;
    if (head.substr(0, 3) == "\xef\xbb\xbf")
    {
        head.remove_prefix(3);
    }
    while (!head.empty() && lines.size() < most)
    {
        const std::size_t end = std::min(head.find('\n'), head.size());
        std::string_view line = head.substr(0, end);
        head.remove_prefix(std::min(end + 1, head.size()));
        std::vector<std::string> words;
        std::size_t at = 0;
        while ((at = line.find_first_not_of(" \t\r", at)) != std::string_view::npos)
        {
            const std::size_t stop = std::min(line.find_first_of(" \t\r", at), line.size());
            words.emplace_back(line.substr(at, stop - at));
            at = stop;
        }
        if (!words.empty() && words[0][0] != '#')
        {
            lines.push_back(std::move(words));
        }
    }
    return lines;
}

} // namespace topoopt
