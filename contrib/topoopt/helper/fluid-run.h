// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_FLUID_RUN_H
#define TOPOOPT_FLUID_RUN_H

#include "ns3/csv-file.h"
#include "ns3/fabric-run.h"
#include "topoopt/core/demand.h"
#include "topoopt/core/flow-sim.h"

#include <optional>
#include <vector>

namespace topoopt
{

/** Writes the flows of a fluid run as they come and keeps their sums. */
class FluidRecorder
{
  public:
    /** Fabric and options must stay. */
    FluidRecorder(const Scenario& scenario, const Fabric& fabric, const RunOptions& options);

    /** One row of flows.csv, finished or not; @p job is its column, @p graph what the job runs. */
    void Add(const FlowRecord& flow, std::uint32_t job, const TaskGraph& graph);
    /**
     * Closes the table, writes what the links carried in [0, @p end], and fills in what is known of the flows.
     * @param linkBytes on the wire, by link
     */
    void Close(RunSummary& summary, const std::vector<double>& linkBytes, SimTime end);

  private:
    const Fabric& m_fabric;
    const RunOptions& m_options;
    ServerSpec m_servers;
    Bytes m_payload;
    bool m_relayed;
    std::optional<CsvFile> m_csv;
    Percentiles m_fcts;
    std::uint64_t m_flows = 0;
    std::uint64_t m_unfinished = 0;
    Demand m_pairs;
    Bytes m_demand = 0;
    double m_tax = 0;
    double m_maxSlowdown = 0;
};

} // namespace topoopt

#endif // TOPOOPT_FLUID_RUN_H
