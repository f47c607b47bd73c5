// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/topologies/builders.h"
#include "topoopt/core/topologies/options.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace topoopt
{

namespace
{

/** Servers of a full three-tier tree of k-port switches. */
std::uint64_t
Capacity(std::uint64_t k)
{
    return k * k * k / 4;
}

/** Three tiers of switches with @p k ports; pods and edge switches without servers are left out. */
void
WireFatTree(Topology& topology, std::uint32_t k, BitRate rate, SimTime delay)
{
    const std::uint32_t n = topology.servers;
    const std::uint32_t half = k / 2;
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
    for (std::uint32_t a = 0; edges > 1 && a < pods * half; ++a)
    {
        aggregation.push_back(
            topology.AddSwitch("agg" + std::to_string(a / half) + "." + std::to_string(a % half)));
    }
    for (std::uint32_t c = 0; pods > 1 && c < half * half; ++c)
    {
        core.push_back(topology.AddSwitch("core" + std::to_string(c)));
    }
    for (ServerId s = 0; s < n; ++s)
    {
        topology.AddDuplexLink(s, edge[s / half], rate, delay);
    }
    for (std::uint32_t e = 0; edges > 1 && e < edges; ++e)
    {
        for (std::uint32_t a = 0; a < half; ++a)
        {
            topology.AddDuplexLink(edge[e], aggregation[e / half * half + a], rate, delay);
        }
    }
    for (std::uint32_t a = 0; pods > 1 && a < pods * half; ++a)
    {
        for (std::uint32_t c = 0; c < half; ++c)
        {
            topology.AddDuplexLink(aggregation[a], core[a % half * half + c], rate, delay);
        }
    }
}

} // namespace

/**
 * Full-bisection k-ary Clos of Al-Fares et al. (SIGCOMM 2008): k pods of k/2 edge and k/2 aggregation
 * switches, (k/2)^2 cores, all links alike. Default k: the smallest that holds the servers.
 */
Fabric
BuildFatTree(const FabricSpec& spec, const FabricContext& context)
{
    const FabricOptions options(spec);
    const ServerSpec& servers = context.servers;
    std::uint32_t smallest = 2;
    while (Capacity(smallest) < servers.count)
    {
        smallest += 2;
    }
    constexpr std::uint32_t kLargest = 1024;
    const std::uint32_t k = options.Count("k", smallest, 2, std::max(smallest, kLargest));
    if (k % 2 != 0 || k < smallest)
    {
        options.Fail("k",
                     std::to_string(k) + " (" + std::to_string(Capacity(k / 2 * 2)) + " servers)",
                     "an even number, " + std::to_string(smallest) + " or more for " +
                         std::to_string(servers.count) + " servers");
    }
    Fabric fabric = NewFabric(spec, servers.count);
    WireFatTree(fabric.topology, k, servers.rate, options.Time("delay", servers.linkDelay));
    const BitRate rate = SetClosRate(fabric, options, servers);
    fabric.router = std::make_shared<EcmpRouter>(fabric.topology, context.seed, false);
    fabric.nicChoice = "one NIC of " + FormatBitRate(rate) + " per server";
    return fabric;
}

} // namespace topoopt
