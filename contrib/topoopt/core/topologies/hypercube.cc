// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/grid.h"
#include "topoopt/core/topologies/builders.h"
#include "topoopt/core/topologies/options.h"

#include <memory>
#include <string>
#include <vector>

namespace topoopt
{

/**
 * Servers are joined where their numbers differ in one bit; routes correct the lowest bit first. NICs that are no
 * multiple of the bits become one per bit, as fast together (SpreadNics()).
 */
Fabric
BuildHypercube(const FabricSpec& spec, const FabricContext& context)
{
    const FabricOptions options(spec);
    const ServerSpec& servers = context.servers;
    std::uint32_t dimensions = 0;
    while ((1U << (dimensions + 1)) <= servers.count)
    {
        ++dimensions;
    }
    if (1U << dimensions != servers.count)
    {
        options.FailServers("count",
                            std::to_string(servers.count),
                            "a power of two (" + std::to_string(1U << dimensions) + " or " +
                                std::to_string(2U << dimensions) + ")");
    }
    const NicSpread nics = SpreadNics(servers, dimensions, options);
    Fabric fabric = NewFabric(spec, servers.count);
    const Grid grid(fabric.topology,
                    std::vector<std::uint32_t>(dimensions, 2),
                    true,
                    nics.lanes,
                    nics.rate,
                    options.Time("delay", servers.linkDelay));
    fabric.rings = [grid](const std::vector<ServerId>& group) { return grid.Rings(group); };
    fabric.router = std::make_shared<DimensionOrderRouter>(grid, context.seed);
    fabric.nicChoice = "the NIC of the lowest bit in which the servers differ";
    return fabric;
}

} // namespace topoopt
