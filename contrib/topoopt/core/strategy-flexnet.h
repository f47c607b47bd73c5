// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_STRATEGY_FLEXNET_H
#define TOPOOPT_CORE_STRATEGY_FLEXNET_H

#include "topoopt/core/fabric.h"
#include "topoopt/core/readers/flexnet.h"
#include "topoopt/core/task-graph.h"

#include <string>

namespace topoopt
{

/**
 * A task graph of BuildIteration() (with BuildOptions::flexnet, one iteration) as the reference's file would
 * have it, so that `engine.compat: flexnet` runs what we build.
 *
 * A rank is a server with one device. An AllReduce's members and the Join before them become one task; ids count from 1 in
 * the graph's order, servers first to last. Run times go through single precision, as in the file. O(graph).
 *
 * @param place for messages
 * @throws SpecError for what the format cannot say: other collectives, sends and receives, tasks that wait for an AllReduce
 */
[[nodiscard]] FlexNetGraph ToFlexNet(const TaskGraph& graph, const std::string& place);

/**
 * Makes @p graph carry @p fabric: cables, a path for every pair of servers, and the rings of every group size
 * among its AllReduces as lists of jumps.
 *
 * Of groups of one size the first one's rings count, as the format has one list per size.
 * @throws SpecError a fabric with switches or one-way links, links of several rates, or rings that are not the same jumps
 *         from every member
 */
void CarryFabric(FlexNetGraph& graph, const Fabric& fabric);

/** The fabric as the released code plugs and routes it, unless the scenario says otherwise. */
[[nodiscard]] FabricSpec FlexNetFabricSpec(const FabricSpec& spec);

} // namespace topoopt

#endif // TOPOOPT_CORE_STRATEGY_FLEXNET_H
