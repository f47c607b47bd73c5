// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/topologies/builders.h"
#include "topoopt/core/topologies/options.h"
#include "topoopt/core/totient-perms.h"

#include <memory>
#include <string>
#include <vector>

namespace topoopt
{

/**
 * A cable between every two servers; NICs that are no multiple of the other servers become one for each, as fast
 * together (SpreadNics()). An AllReduce over a group of g runs on the rings of all strides
 * coprime to g at once, none of which shares a link with another.
 */
Fabric
BuildFullMesh(const FabricSpec& spec, const FabricContext& context)
{
    const FabricOptions options(spec);
    const ServerSpec& servers = context.servers;
    const std::uint32_t n = servers.count;
    const NicSpread nics = SpreadNics(servers, n > 1 ? n - 1 : 0, options);
    Fabric fabric = NewFabric(spec, n);
    const SimTime delay = options.Time("delay", servers.linkDelay);
    for (ServerId a = 0; a < n; ++a)
    {
        for (ServerId b = a + 1; b < n; ++b)
        {
            for (std::uint32_t lane = 0; lane < nics.lanes; ++lane)
            {
                fabric.topology.AddDuplexLink(a, b, nics.rate, delay);
            }
        }
    }
    fabric.rings = [](const std::vector<ServerId>& group) {
        std::vector<Ring> rings;
        const auto size = static_cast<std::uint32_t>(group.size());
        for (std::uint32_t stride : TotientPerms(size))
        {
            Ring ring;
            for (std::uint32_t k = 0; k < size; ++k)
            {
                ring.order.push_back(
                    static_cast<std::uint32_t>(static_cast<std::uint64_t>(k) * stride % size));
            }
            rings.push_back(std::move(ring)); // every step is the pair's own cable
        }
        return rings;
    };
    fabric.router = std::make_shared<EcmpRouter>(fabric.topology, context.seed);
    fabric.nicChoice = "a NIC with a cable to the other server, by a hash of the flow";
    return fabric;
}

} // namespace topoopt
