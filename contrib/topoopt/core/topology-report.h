// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_TOPOLOGY_REPORT_H
#define TOPOOPT_CORE_TOPOLOGY_REPORT_H

#include "topoopt/core/demand.h"
#include "topoopt/core/graph-metrics.h"
#include "topoopt/core/topology-finder.h"
#include "topoopt/core/topoopt-fabric.h"
#include "topoopt/core/units.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace topoopt
{

/** What `topoopt topology` asks. */
struct TopologyRequest
{
    std::uint32_t servers = 0;
    std::uint32_t degree = 0;
    BitRate rate{100'000'000'000};
    const Demand* demand = nullptr; ///< null = one AllReduce over all servers, and no MP demand
    TopologyFinderOptions finder;
    RoutingOptions routing;
    std::uint32_t search = 0; ///< evaluations of SearchTopology; 0 = TopologyFinder as it is
};

/** How a demand fares on a topology; times are seconds at full link rate without latency. */
struct DemandReport
{
    double allReduceBytes = 0; ///< on the wire if every ring step is one hop
    double pairBytes = 0;      ///< model-parallel
    double tax = 0;            ///< bytes on all links / bytes demanded, >= 1
    LoadStatistics load;       ///< bytes per link
    double seconds = 0;        ///< time of the busiest link
    TimeBounds bounds;         ///< no routing on this topology is faster
    /** seconds / the larger bound: how far from possible, >= 1. */
    double ratio = 0;
};

/** What `topoopt topology` answers. */
struct TopologyReport
{
    TopologyRequest request;
    FoundTopology found;
    std::uint32_t matchingCables = 0;
    std::uint32_t unusedNics = 0;
    HopStatistics hops;
    MooreBound moore;
    double uniformTax = 0;  ///< of one flow per ordered pair: links per flow
    LoadStatistics uniform; ///< of one flow per ordered pair: flows per link
    std::vector<std::pair<std::uint32_t, double>> uniformByStride; ///< mean over both directions
    bool hasDemand = false;
    DemandReport demand;
};

/** Finds the topology and measures it. @throws SpecError as FindTopology */
[[nodiscard]] TopologyReport MakeTopologyReport(const TopologyRequest& request);

/** For people; ends with a newline. */
[[nodiscard]] std::string TopologyReportText(const TopologyReport& report);
/** For programs: one JSON object, keys with their unit where they have one. */
[[nodiscard]] std::string TopologyReportJson(const TopologyReport& report);

} // namespace topoopt

#endif // TOPOOPT_CORE_TOPOLOGY_REPORT_H
