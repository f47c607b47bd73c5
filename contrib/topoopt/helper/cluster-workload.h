// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CLUSTER_WORKLOAD_H
#define TOPOOPT_CLUSTER_WORKLOAD_H

#include "ns3/workload.h"
#include "topoopt/core/cluster-jobs.h"
#include "topoopt/core/fabric.h"

#include <memory>
#include <string>
#include <vector>

namespace topoopt
{

/** A kind of job with everything that running it needs; its servers are 0 .. servers-1. */
struct LoadedKind
{
    JobKind spec;
    Workload workload;
};

/** The jobs of a shared cluster. */
struct ClusterWorkload
{
    JobsSpec spec;
    std::vector<LoadedKind> kinds;
    std::vector<ClusterEntry> jobs; ///< by arrival; a job's number is its place here
};

/**
 * Reads the jobs of a scenario, their workloads, and draws those that are random.
 *
 * A Poisson load is measured in run times of a fluid simulation on an ideal switch, so that all fabrics get the same jobs.
 * @throws SpecError
 */
[[nodiscard]] ClusterWorkload LoadCluster(const Scenario& scenario);

/** A fabric of a shared cluster. */
struct ClusterFabric
{
    /**
     * Shared by all jobs; or, behind a patch panel, the shards of the kinds of jobs side by side: the first
     * job of each kind, in order of number. Shards have no circuit in common, so their jobs do not interfere.
     */
    Fabric fabric;
    bool sharded = false;
    PanelSpec panel;                     ///< sharded
    std::vector<std::uint32_t> members;  ///< sharded: jobs whose shards they are
    std::vector<std::uint32_t> circuits; ///< sharded: by kind
};

/** @throws SpecError as BuildFabric() */
[[nodiscard]] ClusterFabric BuildClusterFabric(const FabricSpec& spec,
                                               const Scenario& scenario,
                                               const ClusterWorkload& cluster);

/** The jobs as text, a line each, for `topoopt check`. */
[[nodiscard]] std::string DescribeJobs(const ClusterWorkload& cluster, std::size_t most);

} // namespace topoopt

#endif // TOPOOPT_CLUSTER_WORKLOAD_H
