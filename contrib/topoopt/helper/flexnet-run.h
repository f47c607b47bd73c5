// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_FLEXNET_RUN_H
#define TOPOOPT_FLEXNET_RUN_H

#include "ns3/fabric-run.h"

namespace topoopt
{

/**
 * Runs a FlexNet task graph by the rules of the released simulator (`engine.compat: flexnet`) and writes the
 * tables of RunOnFabric().
 *
 * Fabrics: from-file, topoopt (the one that was built, its rings and routes written into the graph),
 * ideal-switch (their star) and fat-tree (option k). All links have the rate of one NIC of the scenario, or
 * the fabric's option `rate`. The FCT is theirs: from the flow's start, before its SYN, to
 * the last byte's arrival.
 * @throws SpecError for another fabric, another kind of workload, or files that cannot be written
 */
[[nodiscard]] RunSummary RunFlexNetOnFabric(const Scenario& scenario,
                                            const Workload& workload,
                                            const FabricSpec& spec,
                                            const Fabric& fabric,
                                            const RunOptions& options);

/** What makes a fabric unusable under `compat: flexnet`, as SpecError; returns if it is usable. */
void CheckFlexNetFabric(const FabricSpec& spec);

} // namespace topoopt

#endif // TOPOOPT_FLEXNET_RUN_H
