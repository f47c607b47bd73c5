// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_FABRIC_RUN_H
#define TOPOOPT_FABRIC_RUN_H

#include "ns3/change-reports.h"
#include "ns3/percentiles.h"
#include "ns3/workload.h"
#include "topoopt/core/scenario.h"

#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace topoopt
{

/** Columns of flows.csv that every fidelity writes; more may follow. */
inline constexpr const char* kFlowColumns =
    "flow_id,op_id,job,iteration,kind,src_server,dst_server,bytes,start_ps,end_ps,fct_ps,ideal_ps,"
    "slowdown,hops,retransmits,status";
inline constexpr const char* kOperationColumns =
    "op_id,job,iteration,kind,name,group,ranks,bytes,start_ps,end_ps,duration_ps,status";
inline constexpr const char* kLinkColumns =
    "link_id,src,dst,rate_bps,bytes,packets,drops,marks,busy_ps,max_queue_bytes,utilisation";

/** Highest resident memory of this process so far. */
[[nodiscard]] std::uint64_t PeakRssBytes();

/** What a shared cluster adds to a run; the means are over jobs that have ended, each counting the same. */
struct ClusterSummary
{
    std::uint64_t jobs = 0;
    std::uint64_t finished = 0;
    std::uint64_t overtook = 0; ///< started before a job that had arrived earlier
    SimTime makespan = 0;       ///< first arrival to last end
    SimTime waitingMean = 0;    ///< arrival to start
    SimTime queueingMean = 0;   ///< the part of it for servers and for the robot's other work
    SimTime queueingMax = 0;
    SimTime patchingMean = 0; ///< work of the robot
    SimTime hiddenMean = 0;   ///< the part of it behind other jobs
    SimTime iterationMean = 0;
    SimTime iterationP50 = 0; ///< over all iterations, those of a job weighing 1 together
    SimTime iterationP99 = 0;
    double utilisation = 0;
    double occupation = 0; ///< the same with servers that wait for robot or switches
    double fragmentation = 0;
    SimTime fragmentedWait = 0;
};

/** What is left of a run when its tables are written; one element of summary.json's `runs`. */
struct RunSummary
{
    std::string fabric;
    std::string kind;
    std::string fidelity;
    std::vector<SimTime> iterationTimes;
    std::uint64_t flows = 0;
    std::uint64_t unfinished = 0;
    Bytes demandBytes = 0;   ///< payload asked of the fabric
    Bytes wireBytes = 0;     ///< sum over links, all headers and acknowledgements
    double bandwidthTax = 0; ///< payload bytes leaving servers (relays again) over demandBytes
    std::uint64_t packetHops = 0;
    std::uint64_t events = 0;
    std::uint64_t drops = 0;
    std::uint64_t retransmits = 0;
    double setupSeconds = 0;
    double runSeconds = 0;
    std::uint64_t peakRssBytes = 0;
    double costUsd = -1; ///< < 0: unknown
    std::uint64_t fingerprint = 0;
    SimTime fctP50 = 0;
    SimTime fctP99 = 0;
    SimTime fctMax = 0;
    double maxSlowdown = 0;
    bool complete = false;
    bool stalled = false;                ///< nothing moved any more
    std::vector<std::string> violations; ///< of the physics check
    std::vector<std::string> waiting;    ///< if not complete: who waits for what
    std::optional<ClusterSummary> cluster;
    bool changed = false;       ///< links could go dark or fail, by plan or by failure
    std::uint64_t lostDark = 0; ///< packets; of the drops
    std::uint64_t lostDown = 0;
    std::string policy; ///< that changed circuits; "" = none
    ReconfigurationReport reconfiguration;
    std::vector<FailureReport> failures;
    std::vector<SimTime>
        unfailedTimes; ///< iterations of the same run without failures, if there were any
};

/** How a run behaves towards its surroundings. */
struct RunOptions
{
    std::string directory; ///< for the tables; "" = none are written
    bool progress = false; ///< a line on stderr, rewritten a few times per second
    const std::atomic<bool>* interrupt = nullptr;
    std::vector<std::pair<std::string, std::string>> head; ///< `# key=value` lines of every table
    bool failures = true;                                  ///< false: as if the scenario had none
};

/**
 * Simulates a workload on one fabric and writes its tables.
 *
 * @param fabric built and routed; its servers are the scenario's
 * @throws SpecError if the tables cannot be written or the fabric has no way between two servers
 */
[[nodiscard]] RunSummary RunOnFabric(const Scenario& scenario,
                                     const Workload& workload,
                                     const Fabric& fabric,
                                     const RunOptions& options);

/**
 * The same by fluid flows (`engine.fidelity: flow`): max-min fair rates instead of packets, core/flow-sim.h. A flow's
 * ideal is that of the packet engine; the model is coarser, so a slowdown may be a little below 1.
 */
[[nodiscard]] RunSummary RunFluidOnFabric(const Scenario& scenario,
                                          const Workload& workload,
                                          const Fabric& fabric,
                                          const RunOptions& options);

} // namespace topoopt

#endif // TOPOOPT_FABRIC_RUN_H
