// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_WORKLOAD_H
#define TOPOOPT_WORKLOAD_H

#include "topoopt/core/demand.h"
#include "topoopt/core/fabric.h"
#include "topoopt/core/readers/flexnet.h"
#include "topoopt/core/scenario.h"
#include "topoopt/core/task-graph.h"
#include "topoopt/core/trace.h"

#include <memory>
#include <string>
#include <vector>

namespace topoopt
{

/** What a scenario runs, whatever it was read from. */
struct Workload
{
    TaskGraph graph;
    std::vector<ServerId> placement;       ///< server of each rank
    std::shared_ptr<Fabric> fabric;        ///< that came with it, for `from-file`; may be null
    std::shared_ptr<FlexNetGraph> flexNet; ///< the file as read, for `compat: flexnet`; may be null
    std::string stamp;                     ///< replay options that differ from the defaults
    Demand demand;                         ///< what moves between servers per iteration
    std::uint32_t repeats = 1;             ///< iterations to run, one after the other
};

/**
 * Server of each rank: rank r on server r while there are servers enough and @p options say nothing else, else `gpus`
 * ranks on each.
 * @throws SpecError if there are too few places
 */
[[nodiscard]] std::vector<ServerId> PlaceRanks(std::uint32_t ranks,
                                               const Scenario& scenario,
                                               const TraceOptions& options = {});

/**
 * Reads or builds the workload of a scenario. A task graph says how many servers there are: it replaces
 * @p scenario's count.
 * @throws SpecError: see the readers; also when there are more ranks than places for them
 */
[[nodiscard]] Workload LoadWorkload(Scenario& scenario);

} // namespace topoopt

#endif // TOPOOPT_WORKLOAD_H
