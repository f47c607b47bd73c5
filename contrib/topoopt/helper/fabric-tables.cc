// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/fabric-tables.h"

#include "ns3/csv-file.h"
#include "ns3/patch-list.h"
#include "topoopt/core/error.h"
#include "topoopt/core/random.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

namespace topoopt
{

namespace
{

/** One row per directed link. @return hash of the rows */
std::uint64_t
WriteLinks(const std::string& file,
           const RunOptions& options,
           const Topology& topology,
           const std::vector<LinkCounters>& links,
           SimTime end,
           const std::vector<LinkOutage>& outages)
{
    CsvFile csv(file,
                options.head,
                std::string(kLinkColumns) +
                    (outages.empty() ? "" : ",drops_dark,drops_down,dark_ps"));
    for (LinkId id = 0; id < links.size(); ++id)
    {
        const Link& link = topology.links[id];
        const LinkCounters& counters = links[id];
        const auto queue =
            static_cast<std::uint64_t>(static_cast<unsigned __int128>(counters.maxBacklog) *
                                       link.rate.bps / 8'000'000'000'000ULL);
        csv.Add(id).Add(topology.names[link.src]).Add(topology.names[link.dst]);
        csv.Add(link.rate.bps).Add(counters.bytes).Add(counters.packets);
        csv.Add(counters.drops).Add(counters.marks).Add(counters.busy).Add(queue);
        csv.AddDecimal(end > 0 ? static_cast<double>(counters.busy) / static_cast<double>(end) : 0);
        if (!outages.empty())
        {
            const LinkOutage& outage = outages[id];
            csv.Add(outage.lostDark).Add(outage.lostDown);
            csv.Add(outage.dark + (outage.state == LinkState::Up ? 0 : end - outage.since));
        }
        csv.EndRow();
    }
    return csv.Close();
}

/** Bytes asked for between servers, and bytes carried between nodes. @return hash of the rows */
std::uint64_t
WriteMatrices(const RunOptions& options,
              const Topology& topology,
              const Demand& demand,
              const std::vector<LinkCounters>& links)
{
    if (topology.NodeCount() > kMaxMatrixNodes)
    {
        return 0;
    }
    std::vector<Bytes> carried(std::size_t{topology.NodeCount()} * topology.NodeCount());
    for (LinkId id = 0; id < links.size(); ++id)
    {
        const Link& link = topology.links[id];
        carried[std::size_t{link.src} * topology.NodeCount() + link.dst] += links[id].bytes;
    }
    const std::vector<std::string> servers(topology.names.begin(),
                                           topology.names.begin() + topology.servers);
    const std::uint64_t hash =
        Mix64(0, WriteMatrix(options, "matrix_demand.csv", servers, demand.pairs));
    return Mix64(hash, WriteMatrix(options, "matrix_link.csv", topology.names, carried));
}

/** Nodes, links and which ring each link serves, for drawings. */
void
WriteTopology(const std::string& file, const Fabric& fabric)
{
    const Topology& topology = fabric.topology;
    std::map<std::pair<NodeId, NodeId>, std::uint32_t> ringOf;
    // Rings over each connected part: the shards of a cluster are not connected to each other.
    std::vector<bool> known(topology.servers);
    std::uint32_t firstRing = 0;
    for (ServerId first = 0; first < topology.servers && fabric.rings; ++first)
    {
        if (known[first])
        {
            continue;
        }
        std::vector<ServerId> part;
        const std::vector<std::uint32_t> distances = topology.DistancesTo(first);
        for (ServerId s = first; s < topology.servers; ++s)
        {
            if (distances[s] != kNoId)
            {
                known[s] = true;
                part.push_back(s);
            }
        }
        if (part.size() < 2)
        {
            continue;
        }
        const std::vector<Ring> rings = RingsOf(fabric, part);
        for (std::uint32_t r = 0; r < rings.size(); ++r)
        {
            const std::vector<std::uint32_t>& order = rings[r].order;
            for (std::size_t k = 0; k < order.size(); ++k)
            {
                ringOf.try_emplace({part[order[k]], part[order[(k + 1) % order.size()]]},
                                   firstRing + r);
            }
        }
        firstRing += static_cast<std::uint32_t>(rings.size());
    }
    nlohmann::ordered_json json;
    json["servers"] = topology.servers;
    for (NodeId node = 0; node < topology.NodeCount(); ++node)
    {
        json["nodes"].push_back({{"name", topology.names[node]},
                                 {"kind", topology.IsServer(node) ? "server" : "switch"}});
    }
    json["links"] = nlohmann::ordered_json::array();
    for (LinkId id = 0; id < topology.links.size(); ++id)
    {
        const Link& link = topology.links[id];
        const auto ring = ringOf.find({link.src, link.dst});
        const bool direct = topology.IsServer(link.src) && topology.IsServer(link.dst);
        nlohmann::ordered_json entry{{"id", id},
                                     {"src", link.src},
                                     {"dst", link.dst},
                                     {"rate_bps", link.rate.bps},
                                     {"ring", nullptr},
                                     {"mp", direct && ring == ringOf.end()}};
        if (ring != ringOf.end())
        {
            entry["ring"] = ring->second;
        }
        json["links"].push_back(std::move(entry));
    }
    std::ofstream out(file);
    out << json.dump() << "\n";
    if (!out.flush())
    {
        throw SpecError(file, std::string("cannot be written: ") + std::strerror(errno));
    }
}

} // namespace

std::uint64_t
WriteMatrix(const RunOptions& options,
            const std::string& name,
            const std::vector<std::string>& nodes,
            const std::vector<Bytes>& cells)
{
    std::string header = "from";
    for (const std::string& node : nodes)
    {
        header += "," + node;
    }
    CsvFile csv(options.directory + "/" + name, options.head, header);
    auto cell = cells.begin();
    for (const std::string& node : nodes)
    {
        csv.Add(node);
        for (std::size_t k = 0; k < nodes.size(); ++k)
        {
            csv.Add(*cell++);
        }
        csv.EndRow();
    }
    return csv.Close();
}

std::uint64_t
WriteFabricTables(const RunOptions& options,
                  const Fabric& fabric,
                  const Demand& demand,
                  const std::vector<LinkCounters>& links,
                  SimTime end,
                  const std::vector<LinkOutage>& outages)
{
    const std::string& dir = options.directory;
    std::uint64_t hash =
        Mix64(0, WriteLinks(dir + "/links.csv", options, fabric.topology, links, end, outages));
    hash = Mix64(hash, WriteMatrices(options, fabric.topology, demand, links));
    WriteTopology(dir + "/topology.json", fabric);
    if (!fabric.circuits.empty())
    {
        hash = Mix64(hash, WritePatchList(dir + "/patches.csv", options.head, fabric.circuits));
    }
    return hash;
}

} // namespace topoopt
