// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_MIN_MAX_ROUTING_H
#define TOPOOPT_CORE_MIN_MAX_ROUTING_H

#include "topoopt/core/demand.h"
#include "topoopt/core/routing.h"
#include "topoopt/core/topology.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace topoopt
{

/** When MinMaxRoutes stops. */
struct MinMaxOptions
{
    double gap = 0.01;          ///< certified distance from the optimum that is good enough
    std::uint32_t sweeps = 300; ///< looks at every pair at most so often
};

/** The paths of one ordered pair and their shares, which sum to 1. */
struct SplitPair
{
    ServerId src = 0;
    ServerId dst = 0;
    std::vector<std::pair<Path, double>> paths;
};

/** Routes and how good they are. */
struct MinMaxResult
{
    std::vector<SplitPair> pairs; ///< every pair with demand, ascending
    double seconds = 0;           ///< of the busiest link, background included
    double bound = 0;             ///< no routes at all, split or not, stay below this

    /** seconds / bound - 1; 0 if nothing moves */
    [[nodiscard]] double Gap() const
    {
        return bound > 0 ? seconds / bound - 1 : 0;
    }
};

/**
 * Splits every pair's demand over paths so that the busiest link is done as early as possible: the
 * minimum-congestion multicommodity flow.
 *
 * Primal: a soft maximum of the link times is lowered by moving flow from each pair's dearer paths to its cheapest
 * one, found by Dijkstra under the gradient as lengths, with Newton steps; the soft maximum is sharpened
 * as the gap closes. Dual: any lengths l >= 0 certify that no routing is done before
 * (sum l b + sum demand * distance) / sum l c, with b the background bytes and c the rates; the best such value
 * met is the bound.
 *
 * @param background bytes already on each link that cannot move (AllReduce rings); empty = none
 * Cost per sweep: one Dijkstra per source and O(paths * hops) per pair. Deterministic.
 * @throws SpecError if a pair with demand has no path
 * @throws std::invalid_argument if sizes do not fit
 */
[[nodiscard]] MinMaxResult MinMaxRoutes(const Topology& topology,
                                        const Demand& demand,
                                        const std::vector<double>& background,
                                        const MinMaxOptions& options = {});

/** A router that splits as the result says, by a hash of the flow; @p others answers for other pairs. */
[[nodiscard]] std::shared_ptr<const Router> SplitRouter(const MinMaxResult& result,
                                                        std::uint64_t seed,
                                                        std::shared_ptr<const Router> others);

} // namespace topoopt

#endif // TOPOOPT_CORE_MIN_MAX_ROUTING_H
