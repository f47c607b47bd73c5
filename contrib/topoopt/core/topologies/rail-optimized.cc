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

/** Where the cables of a rail-optimized fabric are. */
struct Rails
{
    std::uint32_t pod = 0;    ///< servers per pod
    std::uint32_t rails = 0;  ///< = NICs per server
    std::uint32_t spines = 0; ///< 0 with one pod
    std::vector<LinkId> up;   ///< [server * rails + rail], server to rail switch
    std::vector<LinkId> high; ///< [(pod * rails + rail) * spines + spine], rail switch to spine

    /** Along rail @p rail all the way; between pods over the spine that @p spine names. */
    [[nodiscard]] Path Along(ServerId src,
                             ServerId dst,
                             std::uint32_t rail,
                             std::uint32_t spine) const
    {
        const LinkId down = up[dst * rails + rail] + 1;
        if (src / pod == dst / pod)
        {
            return {up[src * rails + rail], down};
        }
        const auto between = [&](ServerId server) {
            return high[(server / pod * rails + rail) * spines + spine];
        };
        return {up[src * rails + rail], between(src), between(dst) + 1, down};
    }
};

} // namespace

/**
 * NIC r of every server of a pod on the pod's rail switch r; with several pods a tier of spines above
 * them, as many as a rail switch has servers by default. One ring per rail.
 */
Fabric
BuildRailOptimized(const FabricSpec& spec, const FabricContext& context)
{
    const FabricOptions options(spec);
    const ServerSpec& servers = context.servers;
    const std::uint32_t n = servers.count;
    Rails rails;
    rails.rails = servers.nics;
    rails.pod = options.Count("pod", n, 1, n);
    const std::uint32_t pods = (n + rails.pod - 1) / rails.pod;
    rails.spines = options.Count("spines", rails.pod, 1, 4096);
    const BitRate rate = options.Rate("rate", servers.rate);
    const SimTime delay = options.Time("delay", servers.linkDelay);
    constexpr std::uint64_t kMostLinks = 1U << 22;
    if (static_cast<std::uint64_t>(pods) * rails.rails * rails.spines > kMostLinks)
    {
        options.Fail("spines",
                     std::to_string(rails.spines) + " with " + std::to_string(pods) + " pods",
                     "at most " + std::to_string(kMostLinks) + " links to rail switches");
    }
    rails.spines = pods > 1 ? rails.spines : 0;
    Fabric fabric = NewFabric(spec, n);
    Topology& topology = fabric.topology;
    std::vector<NodeId> rail;
    std::vector<NodeId> spine;
    for (std::uint32_t r = 0; r < pods * rails.rails; ++r)
    {
        rail.push_back(topology.AddSwitch("rail" + std::to_string(r / rails.rails) + "." +
                                          std::to_string(r % rails.rails)));
    }
    for (std::uint32_t s = 0; s < rails.spines; ++s)
    {
        spine.push_back(topology.AddSwitch("spine" + std::to_string(s)));
    }
    for (ServerId s = 0; s < n; ++s)
    {
        for (std::uint32_t r = 0; r < rails.rails; ++r)
        {
            rails.up.push_back(
                topology.AddDuplexLink(s, rail[s / rails.pod * rails.rails + r], rate, delay));
        }
    }
    for (NodeId r : rail)
    {
        for (NodeId s : spine)
        {
            rails.high.push_back(topology.AddDuplexLink(r, s, rate, delay));
        }
    }
    fabric.rings = [rails](const std::vector<ServerId>& group) {
        std::vector<Ring> rings;
        for (std::uint32_t r = 0; r < rails.rails; ++r)
        {
            Ring ring;
            for (std::uint32_t k = 0; k < group.size(); ++k)
            {
                ring.order.push_back(k);
                ring.hops.push_back(rails.Along(group[k],
                                                group[(k + 1) % group.size()],
                                                r,
                                                rails.spines > 0 ? group[k] % rails.spines : 0));
            }
            rings.push_back(std::move(ring));
        }
        return rings;
    };
    fabric.router = std::make_shared<EcmpRouter>(topology, context.seed, false);
    fabric.nicChoice = "any rail, by a hash of the flow; ring r of an AllReduce keeps to rail r";
    return fabric;
}

} // namespace topoopt
