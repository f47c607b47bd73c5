// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/sipml.h"
#include "topoopt/core/topologies/builders.h"
#include "topoopt/core/topologies/options.h"

namespace topoopt
{

/**
 * SiP-ML on a ring of wavelengths (Khani et al., SIGCOMM 2021) as one static plan. Deviations: wavelengths
 * are given out greedily in place of the linear program, one to each next neighbour first, and servers forward,
 * so that pairs without a circuit are served.
 */
Fabric
BuildSipMlRing(const FabricSpec& spec, const FabricContext& context)
{
    const FabricOptions options(spec);
    const ServerSpec& servers = context.servers;
    const std::uint32_t wavelengths = options.Count("wavelengths", servers.nics, 1, 4096);
    return BuildDirected(
        spec,
        context,
        PlanWavelengths(servers.count, servers.nics, wavelengths, DemandOf(context), Reach::All));
}

} // namespace topoopt
