// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CLUSTER_RUN_H
#define TOPOOPT_CLUSTER_RUN_H

#include "ns3/cluster-workload.h"
#include "ns3/fabric-run.h"
#include "topoopt/core/cluster.h"

#include <vector>

namespace topoopt
{

/** Columns of jobs.csv. */
inline constexpr const char* kJobColumns =
    "job,name,servers,iterations,arrival_ps,assigned_ps,patch_begin_ps,patch_end_ps,start_ps,end_"
    "ps,"
    "queueing_ps,patching_ps,hidden_patching_ps,flip_ps,run_ps,iteration_mean_ps,iteration_p50_ps,"
    "iteration_p99_ps,overtook,server_list,status";

/**
 * Runs the jobs of a shared cluster on one fabric and writes its tables and jobs.csv.
 *
 * On a shared fabric all running jobs are simulated together, by packets or by fluid flows as engine.fidelity says,
 * and the scheduler decides while time goes on. Behind a patch panel a job has its shard for itself: one iteration
 * per kind of job is simulated on a shard of its size, all others take as long, and the schedule follows
 * by calculation; the tables of flows, operations and links then hold the simulated shards.
 * @throws SpecError if the tables cannot be written, or jobs would run for more than 100 days
 */
[[nodiscard]] RunSummary RunClusterOnFabric(const Scenario& scenario,
                                            const ClusterWorkload& cluster,
                                            const ClusterFabric& fabric,
                                            const RunOptions& options);

} // namespace topoopt

#endif // TOPOOPT_CLUSTER_RUN_H
