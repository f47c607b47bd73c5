// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

namespace topoopt
{

namespace
{

/** Bytes of every ordered pair, as they come; sorted at the end. */
class PairSums
{
  public:
    void Add(RankId src, RankId dst, Bytes bytes, std::uint64_t messages = 1)
    {
        if (src != dst && bytes > 0)
        {
            auto& pair = m_pairs[{src, dst}];
            pair.first += messages;
            pair.second += bytes;
            m_total += bytes;
        }
    }

    void Write(std::vector<TraceSummary::Pair>& pairs, Bytes& total) const
    {
        for (const auto& [key, sums] : m_pairs)
        {
            pairs.push_back({key.first, key.second, sums.first, sums.second});
        }
        total = m_total;
    }

  private:
    std::map<std::pair<RankId, RankId>, std::pair<std::uint64_t, Bytes>> m_pairs;
    Bytes m_total = 0;
};

/**
 * What ring edge k -> k+1 carries: every chunk but one in the reduce-scatter half, every chunk but another one in the
 * all-gather half. Chunk c belongs to member c at the end of the reduce-scatter half.
 */
Bytes
RingEdge(const CollectiveCall& call, std::uint32_t n, std::uint32_t k)
{
    const auto chunk = [&](std::uint32_t c) {
        return PartOf(call.bytes, n, c % n, call.elementBytes);
    };
    switch (call.kind)
    {
    case CollectiveKind::AllReduce:
        return 2 * call.bytes - chunk(k + 1) - chunk(k + 2);
    case CollectiveKind::AllGather:
        return (n - 1) * call.bytes;
    case CollectiveKind::ReduceScatter:
        return call.bytes - chunk(k + 1);
    default:
        return 0;
    }
}

template <typename Sums>
void
AddWire(const CollectiveCall& call, const std::vector<RankId>& members, Sums& sums)
{
    const auto n = static_cast<std::uint32_t>(members.size());
    switch (call.kind)
    {
    case CollectiveKind::AllReduce:
    case CollectiveKind::AllGather:
    case CollectiveKind::ReduceScatter:
        for (std::uint32_t k = 0; k < n && n > 1; ++k)
        {
            sums.Add(members[k], members[(k + 1) % n], RingEdge(call, n, k));
        }
        break;
    case CollectiveKind::Broadcast:
    case CollectiveKind::Reduce:
        for (std::uint32_t k = 0; k + 1 < n; ++k)
        {
            const RankId near = members[(call.root + k) % n];
            const RankId far = members[(call.root + k + 1) % n];
            const bool out = call.kind == CollectiveKind::Broadcast;
            sums.Add(out ? near : far, out ? far : near, call.bytes);
        }
        break;
    case CollectiveKind::Gather:
    case CollectiveKind::Scatter:
        for (std::uint32_t k = 0; k < n; ++k)
        {
            const bool in = call.kind == CollectiveKind::Gather;
            sums.Add(in ? members[k] : members[call.root],
                     in ? members[call.root] : members[k],
                     call.bytes);
        }
        break;
    case CollectiveKind::AllToAll:
    case CollectiveKind::AllToAllV:
        for (std::uint32_t i = 0; i < n; ++i)
        {
            for (std::uint32_t j = 0; j < n; ++j)
            {
                sums.Add(members[i],
                         members[j],
                         call.kind == CollectiveKind::AllToAll
                             ? PartOf(call.bytes, n, j, call.elementBytes)
                             : call.pairBytes[static_cast<std::size_t>(i) * n + j]);
            }
        }
        break;
    case CollectiveKind::Barrier:
        break;
    }
}

TraceSummary::Collective
RowOf(const CollectiveCall& call, std::uint32_t n)
{
    TraceSummary::Collective row;
    row.kind = call.kind;
    row.members = n;
    row.bytes = call.bytes;
    row.calls = 1;
    for (std::uint32_t k = 0; n > 1 && k < n; ++k)
    {
        row.ringBytesPerEdge = std::max(row.ringBytesPerEdge, RingEdge(call, n, k));
    }
    if (call.kind == CollectiveKind::AllToAllV)
    {
        bool equal = n > 1;
        for (std::uint32_t i = 0; i < n; ++i)
        {
            for (std::uint32_t j = 0; j < n; ++j)
            {
                const Bytes pair = call.pairBytes[static_cast<std::size_t>(i) * n + j];
                row.bytes += pair;
                equal = equal && (i == j || pair == call.pairBytes[1]);
            }
        }
        row.bytesPerPair = equal ? call.pairBytes[1] : 0;
    }
    else if (call.kind == CollectiveKind::AllToAll)
    {
        row.bytesPerPair = call.bytes % n == 0 ? call.bytes / n : 0;
    }
    return row;
}

const char*
PlainName(std::size_t kind)
{
    return Name(static_cast<CollectiveKind>(kind));
}

/** Collects instead of summing. */
struct PairList
{
    std::vector<PairBytes> pairs;

    void Add(RankId src, RankId dst, Bytes bytes)
    {
        if (src != dst && bytes > 0)
        {
            pairs.push_back({src, dst, bytes});
        }
    }
};

} // namespace

std::vector<PairBytes>
DefaultMessages(const CollectiveCall& call, const std::vector<RankId>& members)
{
    PairList list;
    AddWire(call, members, list);
    return std::move(list.pairs);
}

TraceSummary
Summarise(const LoadedWorkload& workload)
{
    const TaskGraph& graph = workload.graph;
    TraceSummary out;
    out.format = workload.format;
    out.files = workload.files;
    out.ranks = graph.ranks;
    out.tasks = graph.tasks.size();
    out.groups = graph.groups;
    out.perRank = workload.ranks;
    out.facts = workload.facts;
    out.lists = workload.lists;
    out.measures = workload.measures;
    out.warnings = graph.warnings;
    out.stamp = workload.stamp;
    out.partial = workload.partial;

    std::map<std::tuple<CollectiveKind, std::uint32_t, Bytes>, TraceSummary::Collective> rows;
    PairSums wire;
    for (const CollectiveCall& call : graph.collectives)
    {
        const std::vector<RankId>& members = graph.groups[call.group].members;
        const TraceSummary::Collective row =
            RowOf(call, static_cast<std::uint32_t>(members.size()));
        const auto [at, isNew] =
            rows.emplace(std::make_tuple(row.kind, row.members, row.bytes), row);
        if (!isNew)
        {
            ++at->second.calls;
            at->second.bytesPerPair =
                at->second.bytesPerPair == row.bytesPerPair ? row.bytesPerPair : 0;
            at->second.ringBytesPerEdge =
                std::max(at->second.ringBytesPerEdge, row.ringBytesPerEdge);
        }
        AddWire(call, members, wire);
        const bool toAll =
            call.kind == CollectiveKind::AllToAll || call.kind == CollectiveKind::AllToAllV;
        const auto n = static_cast<std::uint32_t>(members.size());
        for (std::uint32_t i = 0; toAll && i < n; ++i)
        {
            for (std::uint32_t j = 0; j < n; ++j)
            {
                const Bytes pair = call.kind == CollectiveKind::AllToAll
                                       ? PartOf(call.bytes, n, j, call.elementBytes)
                                       : call.pairBytes[static_cast<std::size_t>(i) * n + j];
                out.allToAllOffDiagonal += i == j ? 0 : pair;
                if (members[i] == 0)
                {
                    out.allToAllRow0.resize(graph.ranks);
                    out.allToAllRow0[members[j]] += pair;
                }
            }
        }
    }
    for (const auto& [key, row] : rows)
    {
        out.collectives.push_back(row);
    }
    std::map<std::pair<RankId, RankId>, std::pair<std::uint64_t, Bytes>> transfers;
    for (const TransferCall& transfer : graph.transfers)
    {
        auto& sums = transfers[{transfer.src, transfer.dst}];
        ++sums.first;
        sums.second += transfer.bytes;
        ++out.transferCount;
        out.transferBytes += transfer.bytes;
        wire.Add(transfer.src, transfer.dst, transfer.bytes);
    }
    for (const auto& [key, sums] : transfers)
    {
        out.transfers.push_back({key.first, key.second, sums.first, sums.second});
    }
    wire.Write(out.wirePairs, out.wireBytes);
    return out;
}

void
PrintText(const TraceSummary& summary, std::ostream& out)
{
    const auto digits = out.precision(12);
    out << "format       " << summary.format << "\n"
        << "files        " << summary.files.size();
    if (!summary.files.empty())
    {
        out << " (" << summary.files.front() << (summary.files.size() > 1 ? ", ...)" : ")");
    }
    out << "\nranks        " << summary.ranks << "\ntasks        " << summary.tasks << "\n";
    if (!summary.stamp.empty())
    {
        out << "options      " << summary.stamp << "\n";
    }
    for (const auto& [name, value] : summary.facts)
    {
        out << name << "  " << value << "\n";
    }
    for (const auto& [name, value] : summary.measures)
    {
        out << name << "  " << value << "\n";
    }
    for (const CommGroup& group : summary.groups)
    {
        out << "group        '" << group.name << "', " << group.members.size() << " ranks\n";
    }
    for (const TraceSummary::Collective& row : summary.collectives)
    {
        out << "collective   " << Name(row.kind) << ", " << row.members << " ranks, " << row.bytes
            << " B: " << row.calls << (row.calls == 1 ? " call" : " calls");
        if (row.ringBytesPerEdge > 0)
        {
            out << ", ring " << row.ringBytesPerEdge << " B per edge";
        }
        if (row.bytesPerPair > 0)
        {
            out << ", " << row.bytesPerPair << " B per pair";
        }
        out << "\n";
    }
    if (summary.transferCount > 0)
    {
        out << "messages     " << summary.transferCount << ", " << summary.transferBytes << " B\n";
    }
    if (!summary.perRank.empty())
    {
        const RankCounts& first = summary.perRank.front();
        out << "first rank  ";
        for (std::size_t k = 0; k < first.collectives.size(); ++k)
        {
            if (first.collectives[k] > 0)
            {
                out << " " << first.collectives[k] << " " << PlainName(k) << " ("
                    << first.collectiveBytes[k] << " B)";
            }
        }
        out << " " << first.sends << " sends " << first.recvs << " receives " << first.waits
            << " waits " << first.computes << " computes\n";
    }
    SimTime most = 0;
    SimTime least = summary.perRank.empty() ? 0 : INT64_MAX;
    for (const RankCounts& counts : summary.perRank)
    {
        most = std::max(most, counts.computeTime);
        least = std::min(least, counts.computeTime);
    }
    out << "compute      " << FormatTime(least) << " to " << FormatTime(most) << " per rank\n"
        << "wire         " << summary.wireBytes
        << " B between ranks (rings in group order, else direct), "
        << (summary.wireBytes + 1499) / 1500 << " packets of 1500 B per hop\n";
    if (summary.partial)
    {
        out << "partial      ranks are missing: this trace cannot run\n";
    }
    for (const std::string& warning : summary.warnings)
    {
        out << "warning      " << warning << "\n";
    }
    out.precision(digits);
}

void
PrintJson(const TraceSummary& summary, std::ostream& out)
{
    // Keys in the order in which they are put, so that the text is stable and readable.
    using Json = nlohmann::ordered_json;
    // Of pairs and members, only this many are listed; sums are always whole.
    constexpr std::size_t kMost = 10000;
    const auto pairs = [](const std::vector<TraceSummary::Pair>& list) {
        Json array = Json::array();
        for (const TraceSummary::Pair& pair : list)
        {
            if (array.size() < kMost)
            {
                array.push_back({{"src", pair.src},
                                 {"dst", pair.dst},
                                 {"messages", pair.messages},
                                 {"bytes", pair.bytes}});
            }
        }
        return array;
    };
    Json json;
    json["format"] = summary.format;
    json["files"] = summary.files;
    json["ranks"] = summary.ranks;
    json["tasks"] = summary.tasks;
    json["options"] = summary.stamp;
    json["partial"] = summary.partial;
    json["facts"] = summary.facts;
    json["lists"] = summary.lists;
    json["measures"] = summary.measures;
    json["groups"] = Json::array();
    for (const CommGroup& group : summary.groups)
    {
        json["groups"].push_back({{"name", group.name}, {"members", group.members}});
    }
    json["collectives"] = Json::array();
    for (const TraceSummary::Collective& row : summary.collectives)
    {
        json["collectives"].push_back({{"kind", Name(row.kind)},
                                       {"members", row.members},
                                       {"bytes", row.bytes},
                                       {"calls", row.calls},
                                       {"ring_bytes_per_edge", row.ringBytesPerEdge},
                                       {"bytes_per_pair", row.bytesPerPair}});
    }
    json["per_rank"] = Json::array();
    for (const RankCounts& counts : summary.perRank)
    {
        Json calls = Json::object();
        Json bytes = Json::object();
        for (std::size_t k = 0; k < counts.collectives.size(); ++k)
        {
            if (counts.collectives[k] > 0)
            {
                calls[PlainName(k)] = counts.collectives[k];
                bytes[PlainName(k)] = counts.collectiveBytes[k];
            }
        }
        json["per_rank"].push_back({{"collectives", calls},
                                    {"collective_bytes", bytes},
                                    {"sends", counts.sends},
                                    {"send_bytes", counts.sendBytes},
                                    {"recvs", counts.recvs},
                                    {"recv_bytes", counts.recvBytes},
                                    {"waits", counts.waits},
                                    {"computes", counts.computes},
                                    {"compute_time_ps", counts.computeTime}});
    }
    json["transfers"] = {{"count", summary.transferCount},
                         {"bytes", summary.transferBytes},
                         {"pairs", pairs(summary.transfers)}};
    json["all_to_all"] = {{"off_diagonal_bytes", summary.allToAllOffDiagonal},
                          {"rank0_row", summary.allToAllRow0}};
    json["wire"] = {{"bytes", summary.wireBytes}, {"pairs", pairs(summary.wirePairs)}};
    json["warnings"] = summary.warnings;
    out << json.dump(1, ' ', false, Json::error_handler_t::replace) << "\n";
}

} // namespace topoopt
