// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_RUN_RECORDER_H
#define TOPOOPT_RUN_RECORDER_H

#include "ns3/csv-file.h"
#include "ns3/executor.h"
#include "ns3/fabric-run.h"
#include "ns3/link-sampler.h"
#include "ns3/packet-network.h"
#include "topoopt/core/demand.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace topoopt
{

class FailureInjector;
class LiveFabric;

/** Whose events a recorder is told of. */
struct RecordedJob
{
    std::uint32_t number = 0; ///< column `job`
    const TaskGraph* graph = nullptr;
    const std::vector<ServerId>* placement = nullptr; ///< server of each rank
};

/** Writes the rows of a run on packets as they come and keeps its sums. */
class RunRecorder final : public ExecutionObserver
{
  public:
    /** @param tasks  how many there will be; there is no tasks.csv with very many */
    RunRecorder(const Scenario& scenario,
                const Fabric& fabric,
                const RunOptions& options,
                std::uint64_t tasks);

    /** Whose events come next; what it points to must stay. */
    void SetJob(const RecordedJob& job)
    {
        m_job = job;
    }

    /** Where messages may change their ways, and who is to know of their end; null: nobody. */
    void SetChanges(const LiveFabric* live, FailureInjector* failures)
    {
        m_live = live;
        m_failures = failures;
    }

    /** Utilisation over time too, if the scenario asks for it; before the network starts. */
    void Sample(PacketNetwork& network);

    void MessageFinished(const MessageRecord& record, const MessageContext& context) override;
    /** One row of flows.csv, finished or not. */
    void Row(const MessageRecord& record, const MessageContext& context);
    void OperationFinished(const OperationRecord& record) override;
    void TaskFinished(const TaskRecord& record) override;

    /**
     * Writes what is known only at the end.
     * @param outages of every link; empty: none could go dark
     * @return hash of everything written
     */
    std::uint64_t Close(const RunOptions& options,
                        const std::vector<LinkCounters>& links,
                        SimTime end,
                        const std::vector<LinkOutage>& outages = {});

    std::uint64_t flows = 0;
    std::uint64_t unfinished = 0;
    double tax = 0; ///< payload bytes times links that begin at a server
    double maxSlowdown = 0;
    Percentiles fcts;

  private:
    const Fabric& m_fabric;
    const LiveFabric* m_live = nullptr;
    FailureInjector* m_failures = nullptr;
    RecordedJob m_job;
    Bytes m_payload;
    std::string m_path; ///< scratch
    std::optional<CsvFile> m_flows;
    std::optional<CsvFile> m_ops;
    std::optional<CsvFile> m_tasks;
    bool m_sampled = false; ///< there is to be a link_samples.csv
    std::unique_ptr<LinkSampler> m_sampler;
    Demand m_demand;
};

} // namespace topoopt

#endif // TOPOOPT_RUN_RECORDER_H
