// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_BALANCED_ROUTING_H
#define TOPOOPT_CORE_BALANCED_ROUTING_H

#include "topoopt/core/demand.h"
#include "topoopt/core/routing.h"
#include "topoopt/core/topology.h"

#include <memory>
#include <vector>

namespace topoopt
{

/**
 * One shortest path for every pair with demand, chosen so that the links carry evenly; @p others answers for
 * other pairs.
 *
 * Heaviest pair first, each takes the shortest path on which the sum of squares of link loads grows least;
 * a second pass lets each one choose again.
 *
 * @param load bytes that are on each link already (AllReduce rings); empty = none
 * Cost: O(pairs * links near a shortest path), and a table of distances per destination.
 * @throws SpecError if a pair with demand has no path
 */
[[nodiscard]] std::shared_ptr<const Router> BalancedRouter(const Topology& topology,
                                                           const Demand& demand,
                                                           std::vector<double> load,
                                                           std::shared_ptr<const Router> others);

} // namespace topoopt

#endif // TOPOOPT_CORE_BALANCED_ROUTING_H
