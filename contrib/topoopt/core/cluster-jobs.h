// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_CLUSTER_JOBS_H
#define TOPOOPT_CORE_CLUSTER_JOBS_H

#include "topoopt/core/cluster.h"
#include "topoopt/core/scenario.h"
#include "topoopt/core/units.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace topoopt
{

/** What a job runs; jobs of one kind differ only in when they come and how long they stay. */
struct JobKind
{
    std::string name;
    WorkloadSpec workload; ///< model, task graph or trace
    std::map<std::string, std::string> strategy;
    std::uint32_t servers = 0;
    std::string place; ///< for messages
};

/** One job of a shared cluster. */
struct ClusterEntry
{
    std::uint32_t kind = 0;
    std::uint32_t iterations = 1;
    SimTime arrival = 0;
    SimTime estimate = 0; ///< of the user; 0 = none
};

/** How jobs of a mix arrive. */
enum class ArrivalRule : std::uint8_t
{
    Listed,   ///< no mix: the jobs are listed
    Together, ///< all at time 0
    Poisson
};

/** An item of a mix. */
struct MixItem
{
    std::uint32_t kind = 0;
    double weight = 1;
    std::uint32_t iterations = 1;
};

/** The section `workload: {jobs: ...}`. */
struct JobsSpec
{
    std::vector<JobKind> kinds;
    std::vector<ClusterEntry> listed; ///< ArrivalRule::Listed
    ArrivalRule arrivals = ArrivalRule::Listed;
    std::vector<MixItem> mix;
    std::uint32_t count = 0; ///< 0: Together: as many as `load` of the servers hold
    double load =
        0; ///< Together: share of the servers; Poisson: offered server time over all server time
    SimTime interval = 0; ///< Poisson: mean time between arrivals instead of `load`
    QueueRule queue = QueueRule::Fifo;
    ServerChoice placement = ServerChoice::Contiguous;
};

/**
 * Reads the jobs of a scenario.
 *
 * A list of jobs `{model | taskgraph | trace, servers, iterations, arrival, strategy, estimate, name}`; further keys are
 * options of that workload. Or `{arrivals: together | poisson, mix: [...], count, load | interval}`, whose mix is a list of jobs
 * with `weight` instead of `arrival`; servers, iterations and strategy may stand beside `mix` for all. Missing strategy and
 * iterations are the scenario's. `queue` and `placement` stand beside `jobs`.
 * @throws SpecError PLACE: workload.jobs.N.KEY: found, expected
 */
[[nodiscard]] JobsSpec ReadJobs(const Scenario& scenario);

/**
 * The jobs of a spec in order of arrival.
 *
 * Kinds are drawn by weight and intervals from an exponential distribution, each from a stream of its own, so that the same seed
 * gives the same mix at every load. A Poisson process of load L has one arrival per E[servers * run time] / (L * all servers).
 * @param runTimes  of one iteration by kind; only for ArrivalRule::Poisson with a load
 * @throws SpecError  more than 100000 jobs, or arrivals later than 100 days
 */
[[nodiscard]] std::vector<ClusterEntry> DrawJobs(const JobsSpec& spec,
                                                 std::uint32_t servers,
                                                 const std::vector<SimTime>& runTimes,
                                                 std::uint64_t seed,
                                                 const std::string& place);

/**
 * The options `panel.move`, `panel.flip` and `panel.look_ahead` of a fabric, which are removed from it.
 * @throws SpecError
 */
[[nodiscard]] PanelSpec TakePanel(FabricSpec& fabric);

} // namespace topoopt

#endif // TOPOOPT_CORE_CLUSTER_JOBS_H
