// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_TOPOLOGY_SEARCH_H
#define TOPOOPT_CORE_TOPOLOGY_SEARCH_H

#include "topoopt/core/demand.h"
#include "topoopt/core/topology-finder.h"

#include <cstdint>

namespace topoopt
{

/** How far SearchTopology goes. */
struct TopologySearchOptions
{
    TopologyFinderOptions finder;    ///< the start point
    std::uint32_t evaluations = 500; ///< topologies looked at, start points included
    std::uint64_t seed = 1;
};

/** What SearchTopology found; times are those of TopologyTime. */
struct TopologySearchResult
{
    FoundTopology found;
    double startTime = 0; ///< of FindTopology's answer
    double time = 0;      ///< of @p found, never above startTime
    std::uint32_t evaluations = 0;
};

/**
 * What the search lowers: bytes on the busiest cable direction when rings split evenly, groups without rings of their
 * own run forth and back in order of servers, and pairs split evenly over all shortest paths.
 * Cost: O(servers * cables).
 */
[[nodiscard]] double TopologyTime(const FoundTopology& found, const Demand& demand);

/**
 * Improves on TopologyFinder for a demand by local search: first the other ways to split the NICs between rings and
 * model-parallel cables, then from the best of them one random change after the other, kept if the busiest link
 * carries less (or the same with less on all links together): another stride for a ring, the partners of two
 * matched pairs exchanged, or a matched pair moved to a server whose NIC is free.
 *
 * Deterministic in its arguments. @throws as FindTopology
 */
[[nodiscard]] TopologySearchResult SearchTopology(const Demand& demand,
                                                  std::uint32_t degree,
                                                  const TopologySearchOptions& options = {});

} // namespace topoopt

#endif // TOPOOPT_CORE_TOPOLOGY_SEARCH_H
