// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/fluid-run.h"

#include "ns3/fabric-tables.h"
#include "ns3/packet-network.h"
#include "ns3/stopwatch.h"
#include "topoopt/core/random.h"

#include <algorithm>
#include <numeric>

namespace topoopt
{

FluidRecorder::FluidRecorder(const Scenario& scenario,
                             const Fabric& fabric,
                             const RunOptions& options)
    : m_fabric(fabric),
      m_options(options),
      m_servers(scenario.servers),
      m_payload(scenario.engine.mtu - kHeaderBytes),
      // Where every node is a server, every hop after the first is a relay; switches are no servers.
      m_relayed(fabric.topology.NodeCount() == fabric.topology.servers)
{
    if (!options.directory.empty() && scenario.results.flows != "none")
    {
        m_csv.emplace(options.directory + "/flows." + scenario.results.flows,
                      options.head,
                      std::string(kFlowColumns) + ",messages");
    }
    if (!options.directory.empty() && fabric.topology.servers <= kMaxMatrixNodes)
    {
        m_pairs = Demand(fabric.topology.servers);
    }
}

void
FluidRecorder::Add(const FlowRecord& flow, std::uint32_t job, const TaskGraph& graph)
{
    const bool local = flow.src == flow.dst;
    const bool done = flow.end != kNever;
    const SimTime fct = flow.end - flow.start;
    m_unfinished += done ? 0 : 1;
    m_demand += local ? 0 : flow.bytes;
    if (!local && m_pairs.servers > 0)
    {
        m_pairs.At(flow.src, flow.dst) += flow.bytes;
    }
    m_tax += local ? 0.0 : static_cast<double>(flow.bytes) * (m_relayed ? flow.hops : 1);
    // Messages that follow each other over idle links of the NICs' rate, store and forward.
    const Bytes each = flow.bytes / std::max(1U, flow.messages);
    const SimTime ideal =
        local ? TxTime(each, m_servers.intraRate)
              : flow.messages * (TxTime(MessageWireBytes(each, m_payload), m_servers.rate) +
                                 flow.hops * m_servers.linkDelay +
                                 (flow.hops - 1) *
                                     TxTime(WireBytes(std::min(each, m_payload)), m_servers.rate));
    const double slowdown = ideal > 0 ? static_cast<double>(fct) / static_cast<double>(ideal) : 1.0;
    if (done && !local && flow.bytes > 0)
    {
        m_fcts.Add(fct);
        m_maxSlowdown = std::max(m_maxSlowdown, slowdown);
    }
    else if (!done && !local && flow.bytes > 0)
    {
        m_fcts.AddUnfinished();
    }
    const std::uint64_t id = m_flows++;
    if (!m_csv)
    {
        return;
    }
    CsvFile& csv = *m_csv;
    const bool collective = flow.collective != kNoId;
    csv.Add(id).Add(collective
                        ? flow.collective
                        : static_cast<std::uint32_t>(graph.collectives.size() + flow.transfer));
    csv.Add(job).Add(flow.iteration);
    csv.Add(collective ? Name(graph.collectives[flow.collective].kind) : "send");
    csv.Add(flow.src).Add(flow.dst).Add(flow.bytes).Add(flow.start);
    if (done)
    {
        csv.Add(flow.end).Add(fct).Add(ideal).AddDecimal(slowdown);
    }
    else
    {
        csv.Skip().Skip().Add(ideal).Skip();
    }
    csv.Add(flow.hops).Add(std::uint32_t{0}).Add(done ? "done" : "unfinished");
    csv.Add(flow.messages).EndRow();
}

void
FluidRecorder::Close(RunSummary& summary, const std::vector<double>& linkBytes, SimTime end)
{
    summary.flows = m_flows;
    summary.unfinished = m_unfinished;
    summary.demandBytes = m_demand;
    summary.bandwidthTax = m_demand > 0 ? m_tax / static_cast<double>(m_demand) : 1.0;
    summary.maxSlowdown = m_maxSlowdown;
    summary.fctP50 = m_fcts.At(50);
    summary.fctP99 = m_fcts.At(99);
    summary.fctMax = m_fcts.Max();
    summary.wireBytes =
        static_cast<Bytes>(std::accumulate(linkBytes.begin(), linkBytes.end(), 0.0));
    if (!m_options.directory.empty())
    {
        std::vector<LinkCounters> links(linkBytes.size());
        for (std::size_t id = 0; id < links.size(); ++id)
        {
            links[id].bytes = static_cast<Bytes>(linkBytes[id]);
            links[id].busy =
                std::min(end, TxTime(links[id].bytes, m_fabric.topology.links[id].rate));
        }
        summary.fingerprint = WriteFabricTables(m_options, m_fabric, m_pairs, links, end);
    }
    if (m_csv)
    {
        summary.fingerprint = Mix64(summary.fingerprint, m_csv->Close());
    }
}

RunSummary
RunFluidOnFabric(const Scenario& scenario,
                 const Workload& workload,
                 const Fabric& fabric,
                 const RunOptions& options)
{
    const Stopwatch watch;
    const CollectiveChoice collectives(scenario.collectives);
    FlowSimOptions fluid;
    fluid.ranksToServers = workload.placement;
    fluid.iterations = workload.repeats;
    fluid.collectives = &collectives;
    fluid.wire = FlowWire::Roce(scenario.engine.mtu);
    fluid.intraRate = scenario.servers.intraRate;
    fluid.stop = scenario.stop;
    fluid.interrupt = options.interrupt;
    const FlowSimResult result = SimulateFlows(workload.graph, fabric, fluid);

    RunSummary summary;
    summary.fabric = fabric.name;
    summary.kind = fabric.kind;
    summary.fidelity = "flow";
    summary.complete = result.complete;
    summary.iterationTimes = result.iterations;
    FluidRecorder recorder(scenario, fabric, options);
    for (const FlowRecord& flow : result.flows)
    {
        recorder.Add(flow, 0, workload.graph);
    }
    recorder.Close(summary, result.linkBytes, result.finish);
    summary.events = result.events;
    summary.peakRssBytes = PeakRssBytes();
    summary.runSeconds = watch.Seconds();
    return summary;
}

} // namespace topoopt
