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
 * A Fat-tree whose edge switches have fewer links up than down: k pods of k/2 edge switches with k/2
 * servers and k/(2 ratio) uplinks each, as many aggregation switches per pod, and k/2 cores for each of those.
 */
Fabric
BuildOversubscribedFatTree(const FabricSpec& spec, const FabricContext& context)
{
    const FabricOptions options(spec);
    const ServerSpec& servers = context.servers;
    const std::uint32_t n = servers.count;
    const std::uint32_t ratio = options.Count("ratio", 2, 1, 64);
    std::uint64_t smallest = 2ULL * ratio;
    while (smallest * smallest * smallest / 4 < n)
    {
        smallest += 2ULL * ratio;
    }
    const std::uint32_t k =
        options.Count("k", static_cast<std::uint32_t>(smallest), 2, 1024 + 2 * ratio);
    if (k % (2 * ratio) != 0 || k < smallest)
    {
        options.Fail("k",
                     std::to_string(k),
                     "a multiple of " + std::to_string(2 * ratio) + ", " +
                         std::to_string(smallest) + " or more for " + std::to_string(n) +
                         " servers at " + std::to_string(ratio) + ":1");
    }
    const BitRate rate = servers.rate; // until all is wired
    const SimTime delay = options.Time("delay", servers.linkDelay);
    Fabric fabric = NewFabric(spec, n);
    Topology& topology = fabric.topology;
    const std::uint32_t half = k / 2;
    const std::uint32_t up = half / ratio;
    const std::uint32_t edges = (n + half - 1) / half;
    const std::uint32_t pods = (edges + half - 1) / half;
    std::vector<NodeId> edge;
    std::vector<NodeId> aggregation;
    std::vector<NodeId> core;
    for (std::uint32_t e = 0; e < edges; ++e)
    {
        edge.push_back(
            topology.AddSwitch("edge" + std::to_string(e / half) + "." + std::to_string(e % half)));
    }
    for (std::uint32_t a = 0; edges > 1 && a < pods * up; ++a)
    {
        aggregation.push_back(
            topology.AddSwitch("agg" + std::to_string(a / up) + "." + std::to_string(a % up)));
    }
    for (std::uint32_t c = 0; pods > 1 && c < up * half; ++c)
    {
        core.push_back(topology.AddSwitch("core" + std::to_string(c)));
    }
    for (ServerId s = 0; s < n; ++s)
    {
        topology.AddDuplexLink(s, edge[s / half], rate, delay);
    }
    for (std::uint32_t e = 0; edges > 1 && e < edges; ++e)
    {
        for (std::uint32_t a = 0; a < up; ++a)
        {
            topology.AddDuplexLink(edge[e], aggregation[e / half * up + a], rate, delay);
        }
    }
    for (std::uint32_t a = 0; pods > 1 && a < pods * up; ++a)
    {
        for (std::uint32_t c = 0; c < half; ++c)
        {
            topology.AddDuplexLink(aggregation[a], core[a % up * half + c], rate, delay);
        }
    }
    const BitRate linkRate = SetClosRate(fabric, options, servers);
    fabric.router = std::make_shared<EcmpRouter>(topology, context.seed, false);
    fabric.nicChoice = "one NIC of " + FormatBitRate(linkRate) + " per server";
    return fabric;
}

} // namespace topoopt
