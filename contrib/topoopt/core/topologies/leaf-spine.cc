// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/topologies/builders.h"
#include "topoopt/core/topologies/options.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace topoopt
{

/**
 * Two tiers: every leaf switch has a link to every spine. Default: as many servers per leaf as make a
 * square, and as many spines as a leaf has servers, so that nothing is oversubscribed.
 */
Fabric
BuildLeafSpine(const FabricSpec& spec, const FabricContext& context)
{
    const FabricOptions options(spec);
    const ServerSpec& servers = context.servers;
    const std::uint32_t n = servers.count;
    std::uint32_t side = 1;
    while (side * side < n)
    {
        ++side;
    }
    const std::uint32_t perLeaf = options.Count("servers_per_leaf", side, 1, n);
    const std::uint32_t spines = options.Count("spines", perLeaf, 1, 4096);
    const BitRate rate = options.Rate("rate", Times(servers.rate, servers.nics, options));
    const BitRate uplink = options.Rate("uplink_rate", rate);
    const SimTime delay = options.Time("delay", servers.linkDelay);
    const std::uint32_t leaves = (n + perLeaf - 1) / perLeaf;
    constexpr std::uint64_t kMostLinks = 1U << 22;
    if (static_cast<std::uint64_t>(leaves) * spines > kMostLinks)
    {
        options.Fail("spines",
                     std::to_string(spines) + " with " + std::to_string(leaves) + " leaves",
                     "at most " + std::to_string(kMostLinks) + " links between them");
    }
    Fabric fabric = NewFabric(spec, n);
    Topology& topology = fabric.topology;
    std::vector<NodeId> leaf;
    std::vector<NodeId> spine;
    for (std::uint32_t l = 0; l < leaves; ++l)
    {
        leaf.push_back(topology.AddSwitch("leaf" + std::to_string(l)));
    }
    for (std::uint32_t s = 0; leaves > 1 && s < spines; ++s)
    {
        spine.push_back(topology.AddSwitch("spine" + std::to_string(s)));
    }
    for (ServerId s = 0; s < n; ++s)
    {
        topology.AddDuplexLink(s, leaf[s / perLeaf], rate, delay);
    }
    for (NodeId l : leaf)
    {
        for (NodeId s : spine)
        {
            topology.AddDuplexLink(l, s, uplink, delay);
        }
    }
    fabric.router = std::make_shared<EcmpRouter>(topology, context.seed, false);
    fabric.nicChoice = "one NIC of " + FormatBitRate(rate) + " per server";
    return fabric;
}

} // namespace topoopt
