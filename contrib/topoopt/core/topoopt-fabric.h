// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_TOPOOPT_FABRIC_H
#define TOPOOPT_CORE_TOPOOPT_FABRIC_H

#include "topoopt/core/demand.h"
#include "topoopt/core/fabric.h"
#include "topoopt/core/topology-finder.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace topoopt
{

/** How traffic that is not on a ring finds its way over a direct-connect fabric. */
enum class DirectRouting : std::uint8_t
{
    Balanced,   ///< one shortest path per pair, even over the links
    Ecmp,       ///< any shortest path, by a hash of the flow
    KShortest,  ///< the k paths of fewest hops, by a hash of the flow
    Random,     ///< one random shortest path per pair (the released code)
    RandomTree, ///< a random tree of shortest paths per source
    MinMax ///< split over paths so that the busiest link carries least; Balanced without demand
};

/** Names of DirectRouting in its order, as options spell them. */
[[nodiscard]] const std::vector<std::string>& DirectRoutingNames();

/** Choices for routes over a given topology. */
struct RoutingOptions
{
    DirectRouting kind = DirectRouting::Balanced;
    std::uint32_t k = 4; ///< of KShortest
    std::uint64_t seed = 1;
    double gap = 0.01; ///< of MinMax
    /** Balanced and MinMax look at the demand of no more pairs than this; beyond, they are CoinChangeMod or ECMP. */
    std::uint64_t balancedPairs = 200'000;
};

/**
 * Gives @p fabric, whose topology and rings are set and whose servers forward, its router and the
 * sentence on NICs.
 * @param demand what the job moves; null = unknown
 * @param regular answers for Balanced when the demand is unknown or has too many pairs; null = ECMP
 */
void RouteDirect(Fabric& fabric,
                 const Demand* demand,
                 const RoutingOptions& routing,
                 std::shared_ptr<const Router> regular = nullptr);

/**
 * Wires and routes what TopologyFinder found: topology, patch list, rings and router.
 * @param demand what the job moves; null = unknown
 * @param flexnet random ties in CoinChangeMod and the released code's rings of smaller groups
 */
[[nodiscard]] Fabric DirectConnectFabric(const FoundTopology& found,
                                         BitRate rate,
                                         SimTime delay,
                                         const Demand* demand,
                                         const RoutingOptions& routing,
                                         bool flexnet = false);

} // namespace topoopt

#endif // TOPOOPT_CORE_TOPOOPT_FABRIC_H
