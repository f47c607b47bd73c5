// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/sipml.h"
#include "topoopt/core/topologies/builders.h"

namespace topoopt
{

/**
 * SiP-ML with optical circuit switches (Khani et al., SIGCOMM 2021) as one static plan: directed circuits, a
 * permutation per NIC. Deviations: parallel circuits of a pair count less and less, one
 * permutation is kept as a ring, and servers forward, so that pairs without a circuit are served.
 */
Fabric
BuildSipMlOcs(const FabricSpec& spec, const FabricContext& context)
{
    return BuildDirected(
        spec,
        context,
        PlanOcs(context.servers.count, context.servers.nics, DemandOf(context), Reach::All));
}

} // namespace topoopt
