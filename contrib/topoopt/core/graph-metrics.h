// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_GRAPH_METRICS_H
#define TOPOOPT_CORE_GRAPH_METRICS_H

#include "topoopt/core/demand.h"
#include "topoopt/core/fabric.h"
#include "topoopt/core/topology.h"

#include <cstdint>
#include <vector>

namespace topoopt
{

/** Distances between servers, over ordered pairs of different servers. */
struct HopStatistics
{
    std::uint64_t unreachable = 0;    ///< ordered pairs without a path; the rest leaves them out
    std::uint32_t diameter = 0;       ///< hops
    double mean = 0;                  ///< hops
    std::vector<std::uint64_t> pairs; ///< [h] = ordered pairs at h hops, [0] = 0
    std::vector<double> cdf;          ///< [h-1] = share of pairs at h hops or fewer
};

/**
 * Breadth-first search from every server, or from server 0 alone if the caller knows that the graph looks
 * the same from each (@p symmetric). O(servers * links).
 */
[[nodiscard]] HopStatistics HopsBetweenServers(const Topology& topology, bool symmetric = false);

/** Smallest, mean and largest of a quantity over links. */
struct LoadStatistics
{
    double least = 0;
    double mean = 0;
    double most = 0;
};

[[nodiscard]] LoadStatistics Summarise(const std::vector<double>& loads);

/** Bytes that each link carries for the pairs of @p demand along the paths of @p router. */
[[nodiscard]] std::vector<double> PairLoads(const Topology& topology,
                                            const Router& router,
                                            const Demand& demand);

/** One byte from every server to every other: loads come out in pairs per link. */
[[nodiscard]] Demand UniformPairs(ServerId servers);

/**
 * Bytes that each link carries for the AllReduces of @p demand: each group splits its S bytes evenly over the
 * rings of the fabric, and each member sends 2 (g-1)/g of a ring's part to its successor.
 */
[[nodiscard]] std::vector<double> AllReduceLoads(const Fabric& fabric, const Demand& demand);

/** What no network of this degree can beat. */
struct MooreBound
{
    std::uint32_t diameter = 0;
    double meanHops = 0;
};

/**
 * Least diameter and mean distance of @p servers servers with @p degree cables each: at most
 * degree * (degree-1)^(h-1) servers are h hops away.
 * @pre servers >= 2; degree >= 2, or 1 with two servers
 */
[[nodiscard]] MooreBound MooreBoundOf(std::uint32_t servers, std::uint32_t degree);

/** Lower bounds on the time, in seconds, in which a topology moves a demand, whatever the routes. */
struct TimeBounds
{
    /** Every byte takes one link at least, an AllReduce needs 2 (g-1) S of them: over all link rates. */
    double capacity = 0;
    /** The tightest of the cuts tried: single servers and runs of consecutive servers. */
    double cut = 0;
};

/** Cost: O(links + groups) per cut tried, which are all runs up to 512 servers, prefixes beyond. */
[[nodiscard]] TimeBounds TimeBoundsOf(const Topology& topology, const Demand& demand);

} // namespace topoopt

#endif // TOPOOPT_CORE_GRAPH_METRICS_H
