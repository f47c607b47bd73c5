// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/csv-file.h"
#include "ns3/fabric-run.h"
#include "ns3/packet-network.h"
#include "topoopt/core/flow-sim.h"

#include <algorithm>
#include <chrono>
#include <optional>

namespace topoopt
{

RunSummary
RunFluidOnFabric(const Scenario& scenario,
                 const Workload& workload,
                 const Fabric& fabric,
                 const RunOptions& options)
{
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    const CollectiveChoice collectives(scenario.collectives);
    FlowSimOptions fluid;
    fluid.ranksToServers = workload.placement;
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
    std::optional<CsvFile> csv;
    if (!options.directory.empty() && scenario.results.flows != "none")
    {
        csv.emplace(options.directory + "/flows." + scenario.results.flows,
                    options.head,
                    std::string(kFlowColumns) + ",messages");
    }
    Percentiles fcts;
    double tax = 0;
    // Where every node is a server, every hop after the first is a relay; switches are no servers.
    const bool relayed = fabric.topology.NodeCount() == fabric.topology.servers;
    std::uint64_t id = 0;
    const Bytes payload = scenario.engine.mtu - kHeaderBytes;
    for (const FlowRecord& flow : result.flows)
    {
        const bool local = flow.src == flow.dst;
        const bool done = flow.end != kNever;
        const SimTime fct = flow.end - flow.start;
        ++summary.flows;
        summary.unfinished += done ? 0 : 1;
        summary.demandBytes += local ? 0 : flow.bytes;
        tax += local ? 0.0 : static_cast<double>(flow.bytes) * (relayed ? flow.hops : 1);
        // Messages that follow each other over idle links of the NICs' rate, store and forward.
        const Bytes each = flow.bytes / std::max(1U, flow.messages);
        const SimTime ideal =
            local
                ? TxTime(each, scenario.servers.intraRate)
                : flow.messages * (TxTime(MessageWireBytes(each, payload), scenario.servers.rate) +
                                   flow.hops * scenario.servers.linkDelay +
                                   (flow.hops - 1) * TxTime(WireBytes(std::min(each, payload)),
                                                            scenario.servers.rate));
        if (done && !local)
        {
            fcts.Add(fct);
            summary.maxSlowdown =
                std::max(summary.maxSlowdown,
                         ideal > 0 ? static_cast<double>(fct) / static_cast<double>(ideal) : 1.0);
        }
        if (csv)
        {
            const bool collective = flow.collective != kNoId;
            csv->Add(id).Add(collective ? flow.collective
                                        : static_cast<std::uint32_t>(
                                              workload.graph.collectives.size() + flow.transfer));
            csv->Add(std::uint32_t{0}).Add(std::uint32_t{0});
            csv->Add(collective ? Name(workload.graph.collectives[flow.collective].kind) : "send");
            csv->Add(flow.src).Add(flow.dst).Add(flow.bytes).Add(flow.start);
            if (done)
            {
                csv->Add(flow.end).Add(fct).Add(ideal);
                csv->AddDecimal(ideal > 0 ? static_cast<double>(fct) / static_cast<double>(ideal)
                                          : 1.0);
            }
            else
            {
                csv->Skip().Skip().Add(ideal).Skip();
            }
            csv->Add(flow.hops).Add(std::uint32_t{0}).Add(done ? "done" : "unfinished");
            csv->Add(flow.messages).EndRow();
        }
        ++id;
    }
    double wire = 0;
    for (double bytes : result.linkBytes)
    {
        wire += bytes;
    }
    summary.wireBytes = static_cast<Bytes>(wire);
    summary.bandwidthTax =
        summary.demandBytes > 0 ? tax / static_cast<double>(summary.demandBytes) : 1.0;
    summary.events = result.events;
    summary.fctP50 = fcts.At(50);
    summary.fctP99 = fcts.At(99);
    summary.fctMax = fcts.Max();
    if (csv)
    {
        summary.fingerprint = csv->Hash();
        csv->Close();
    }
    summary.peakRssBytes = PeakRssBytes();
    summary.runSeconds = std::chrono::duration<double>(Clock::now() - start).count();
    return summary;
}

} // namespace topoopt
