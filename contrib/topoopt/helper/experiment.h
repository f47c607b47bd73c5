// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_EXPERIMENT_H
#define TOPOOPT_EXPERIMENT_H

#include "ns3/cluster-workload.h"
#include "ns3/fabric-run.h"
#include "topoopt/core/scenario.h"

#include <atomic>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

namespace topoopt
{

/** Version in every output. */
inline constexpr const char* kVersion = "0.1.0";

/** A scenario with everything read and built that a run needs; nothing has been simulated or written. */
struct Experiment
{
    Scenario scenario;
    Workload workload;
    std::string planText; ///< the plan that is run, as YAML; "" = the scenario itself is run
    std::vector<Fabric>
        fabrics; ///< of scenario.fabrics, with distinct names; only named under compat
    std::shared_ptr<const ClusterWorkload>
        cluster;                               ///< `workload: {jobs: ...}`; workload is empty then
    std::vector<ClusterFabric> clusterFabrics; ///< of a cluster, like fabrics
    std::vector<std::string> changes;          ///< CheckChanges() of every fabric
};

/**
 * Reads the workload and builds the fabrics of a scenario.
 * @throws SpecError for everything in the input that would stop a run
 */
[[nodiscard]] Experiment Prepare(const Scenario& scenario);

/** The same for a plan of `topoopt plan`: its job on its fabric, on packets. @throws SpecError as ReadPlan() */
[[nodiscard]] Experiment PreparePlan(const std::string& file);

/**
 * Milliseconds of one iteration on packets, by the scenario's engine: what PlanRequest::confirm asks for. Nothing is written.
 *
 * @param graph as BuildIteration() made it for the scenario's servers
 * @return < 0 if interrupted
 * @throws SpecError if it does not come to an end
 */
[[nodiscard]] double PacketMilliseconds(const Scenario& scenario,
                                        const TaskGraph& graph,
                                        const Fabric& fabric,
                                        const std::atomic<bool>* interrupt);

/**
 * What would run: ranks, operations, bytes, and for each fabric its links and an estimate of packet-hops,
 * run time and memory, as text.
 */
void PrintCheck(const Experiment& experiment, std::ostream& out);

/** Outcome of all runs of a scenario. */
struct ExperimentResult
{
    std::vector<RunSummary> runs;
    bool interrupted = false;

    /** Every run finished, and no identity was violated. */
    [[nodiscard]] bool Good() const;
};

/**
 * Runs a scenario on each of its fabrics and writes the result directory (design in doc/topoopt.rst).
 *
 * @param directory created if needed; "" = nothing is written
 * @param progress whether to show a line on stderr
 * @param interrupt set from a signal handler; runs end early and count as incomplete
 * @throws SpecError if the directory cannot be written, before anything is simulated
 */
[[nodiscard]] ExperimentResult RunExperiment(const Experiment& experiment,
                                             const std::string& directory,
                                             bool progress,
                                             const std::atomic<bool>* interrupt);

/** The table at the end of `topoopt run`. */
void PrintTable(const ExperimentResult& result, std::ostream& out);

/** summary.json. */
[[nodiscard]] std::string SummaryJson(const Experiment& experiment, const ExperimentResult& result);

} // namespace topoopt

#endif // TOPOOPT_EXPERIMENT_H
