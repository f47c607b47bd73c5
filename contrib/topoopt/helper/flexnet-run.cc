// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/flexnet-run.h"

#include "ns3/csv-file.h"
#include "ns3/fabric-tables.h"
#include "ns3/flexnet-simulation.h"
#include "ns3/peek-scheduler.h"
#include "ns3/progress.h"
#include "ns3/simulator.h"
#include "ns3/stopwatch.h"
#include "topoopt/core/error.h"
#include "topoopt/core/random.h"
#include "topoopt/core/strategy-flexnet.h"

#include <algorithm>
#include <optional>

namespace topoopt
{

namespace
{

std::string
NodeName(const FlexNetGraph& graph, NodeId node)
{
    return node < graph.nodes ? "s" + std::to_string(node)
                              : "w" + std::to_string(node - graph.nodes);
}

/** Writes flows and operations as they finish. */
class FlexNetRecorder final : public FlexNetObserver
{
  public:
    FlexNetRecorder(const Scenario& scenario,
                    const FlexNetGraph& graph,
                    const std::string& fabric,
                    const RunOptions& options)
        : m_graph(graph),
          m_options(options),
          m_progress(options.progress, fabric),
          m_demand(graph.nodes)
    {
        if (options.directory.empty())
        {
            return;
        }
        if (scenario.results.flows != "none")
        {
            m_flows.emplace(options.directory + "/flows." + scenario.results.flows,
                            options.head,
                            std::string(kFlowColumns) + ",size,ring,round,timeouts");
        }
        m_ops.emplace(options.directory + "/ops.csv", options.head, kOperationColumns);
    }

    void FlowFinished(const FlexNetFlowRecord& record) override
    {
        Row(record);
    }

    void Row(const FlexNetFlowRecord& record)
    {
        ++flows;
        demandBytes += record.bytes;
        m_demand.At(record.src, record.dst) += record.bytes;
        const bool done = record.end != kNever;
        double slowdown = 1;
        if (done)
        {
            const SimTime fct = record.end - record.start;
            slowdown = static_cast<double>(fct) / static_cast<double>(record.ideal);
            maxSlowdown = std::max(maxSlowdown, slowdown);
            fcts.Add(fct);
        }
        else
        {
            fcts.AddUnfinished();
        }
        if (!m_flows)
        {
            return;
        }
        CsvFile& csv = *m_flows;
        csv.Add(record.id).Add(m_graph.tasks[record.task].id).Add(std::uint32_t{0});
        csv.Add(std::uint32_t{0}).Add(record.allReduce ? "all_reduce" : "send");
        csv.Add(record.src).Add(record.dst).Add(record.bytes).Add(record.start);
        if (done)
        {
            csv.Add(record.end)
                .Add(record.end - record.start)
                .Add(record.ideal)
                .AddDecimal(slowdown);
        }
        else
        {
            csv.Skip().Skip().Add(record.ideal).Skip();
        }
        csv.Add(record.hops).Add(record.retransmits).Add(done ? "done" : "unfinished");
        csv.Add(record.size).Add(record.ring).Add(record.round).Add(record.timeouts);
        csv.EndRow();
    }

    void TaskFinished(const FlexNetTaskRecord& record) override
    {
        const FlexNetTask& task = m_graph.tasks[record.task];
        const bool allReduce = task.kind == FlexNetTaskKind::AllReduce;
        if (!m_ops || (!allReduce && !m_graph.IsFlow(task)))
        {
            return;
        }
        CsvFile& csv = *m_ops;
        csv.Add(task.id).Add(std::uint32_t{0}).Add(std::uint32_t{0});
        csv.Add(allReduce ? "all_reduce" : "send").Skip().Skip();
        csv.Add(allReduce ? static_cast<std::uint64_t>(task.next.size()) : std::uint64_t{2});
        csv.Add(task.bytes).Add(record.start).Add(record.end).Add(record.end - record.start);
        csv.Add("done").EndRow();
    }

    bool Progress(SimTime now, const FlexNetTotals& totals) override
    {
        m_progress.Update(static_cast<double>(totals.tasks) /
                              static_cast<double>(std::max<std::size_t>(1, m_graph.tasks.size())),
                          now,
                          totals.events);
        return m_options.interrupt == nullptr ||
               !m_options.interrupt->load(std::memory_order_relaxed);
    }

    std::uint64_t Close(const FlexNetRunResult& result)
    {
        std::uint64_t hash = 0;
        if (!m_options.directory.empty())
        {
            CsvFile csv(m_options.directory + "/links.csv", m_options.head, kLinkColumns);
            for (std::size_t id = 0; id < result.links.size(); ++id)
            {
                const FlexNetLinkCounters& link = result.links[id];
                csv.Add(static_cast<std::uint64_t>(id)).Add(NodeName(m_graph, link.from));
                csv.Add(NodeName(m_graph, link.to));
                const double bits = static_cast<double>(link.bytes) * 8e12;
                csv.Add(link.busy > 0 ? static_cast<std::uint64_t>(
                                            bits / static_cast<double>(link.busy) + 0.5)
                                      : std::uint64_t{0});
                csv.Add(link.bytes).Add(link.packets).Add(link.drops).Add(link.marks);
                csv.Add(link.busy).Skip();
                csv.AddDecimal(result.now > 0 ? static_cast<double>(link.busy) /
                                                    static_cast<double>(result.now)
                                              : 0);
                csv.EndRow();
            }
            hash = csv.Close();
            std::vector<std::string> servers;
            for (ServerId s = 0; s < m_graph.nodes; ++s)
            {
                servers.push_back("s" + std::to_string(s));
            }
            hash =
                Mix64(hash, WriteMatrix(m_options, "matrix_demand.csv", servers, m_demand.pairs));
        }
        for (std::optional<CsvFile>* csv : {&m_flows, &m_ops})
        {
            if (*csv)
            {
                hash = Mix64(hash, (*csv)->Close());
            }
        }
        return hash;
    }

    std::uint64_t flows = 0;
    Bytes demandBytes = 0;
    double maxSlowdown = 0;
    Percentiles fcts;

  private:
    const FlexNetGraph& m_graph;
    const RunOptions& m_options;
    ProgressLine m_progress;
    std::optional<CsvFile> m_flows;
    std::optional<CsvFile> m_ops;
    Demand m_demand;
};

FlexNetConfig
ConfigOf(const Scenario& scenario, const FabricSpec& spec)
{
    FlexNetConfig config;
    config.rate = scenario.servers.rate;
    config.delay = scenario.servers.linkDelay;
    config.trains = scenario.engine.trains;
    config.stop = scenario.stop;
    if (spec.kind == "from-file")
    {
        config.fabric = FlexNetFabricKind::FromFile;
    }
    else if (spec.kind == "topoopt")
    {
        // Its other options are the builder's.
        config.fabric = FlexNetFabricKind::FromFile;
        if (const auto rate = spec.options.find("rate"); rate != spec.options.end())
        {
            config.rate = ParseBitRate(rate->second);
        }
        return config;
    }
    else if (spec.kind == "ideal-switch")
    {
        config.fabric = FlexNetFabricKind::Star;
    }
    else if (spec.kind == "fat-tree")
    {
        config.fabric = FlexNetFabricKind::FatTree;
        config.queuePackets = 10'000;
    }
    else
    {
        throw SpecError(
            spec.place,
            "fabrics: found \"" + spec.kind +
                "\", expected topoopt, from-file, ideal-switch or fat-tree with `compat: "
                "flexnet`");
    }
    for (const auto& [key, value] : spec.options)
    {
        try
        {
            if (key == "rate")
            {
                config.rate = ParseBitRate(value);
                continue;
            }
            if (key == "k" && config.fabric == FlexNetFabricKind::FatTree)
            {
                config.fatTreeDegree = static_cast<std::uint32_t>(std::stoul(value));
                continue;
            }
        }
        catch (const std::exception& error)
        {
            throw SpecError(spec.place, spec.kind + "." + key + ": " + error.what());
        }
        throw SpecError(
            spec.place,
            spec.kind + "." + key +
                ": found an option that `compat: flexnet` does not have, expected rate" +
                (config.fabric == FlexNetFabricKind::FatTree ? " or k" : ""));
    }
    return config;
}

} // namespace

void
CheckFlexNetFabric(const FabricSpec& spec)
{
    static_cast<void>(ConfigOf(Scenario{}, spec));
}

RunSummary
RunFlexNetOnFabric(const Scenario& scenario,
                   const Workload& workload,
                   const FabricSpec& spec,
                   const Fabric& fabric,
                   const RunOptions& options)
{
    const Stopwatch setup;
    RunSummary summary;
    summary.fabric = spec.name.empty() ? spec.kind : spec.name;
    summary.kind = spec.kind;
    summary.fidelity = "packet";
    std::optional<FlexNetGraph> own;
    if (spec.kind == "topoopt")
    {
        own = *workload.flexNet;
        CarryFabric(*own, fabric);
    }
    const FlexNetGraph& graph = own ? *own : *workload.flexNet;
    const FlexNetConfig config = ConfigOf(scenario, spec);
    FlexNetRecorder recorder(scenario, graph, summary.fabric, options);
    ns3::PeekScheduler::Install();
    FlexNetSimulation simulation(graph, config, recorder);
    simulation.Start();
    summary.setupSeconds = setup.Seconds();
    const Stopwatch run;
    ns3::Simulator::Run();
    summary.runSeconds = run.Seconds();

    const FlexNetRunResult result = simulation.Result();
    for (const FlexNetFlowRecord& record : result.unfinished)
    {
        recorder.Row(record);
    }
    summary.complete = result.complete;
    summary.waiting = result.waiting;
    summary.violations = result.violations;
    if (result.complete)
    {
        summary.iterationTimes = {result.finalFinish};
    }
    summary.flows = recorder.flows;
    summary.unfinished = result.unfinished.size();
    summary.demandBytes = recorder.demandBytes;
    summary.wireBytes = result.totals.wireBytes;
    Bytes leaving = 0;
    for (const FlexNetLinkCounters& link : result.links)
    {
        leaving += link.from < graph.nodes ? link.bytes : 0;
    }
    summary.bandwidthTax = recorder.demandBytes > 0 ? static_cast<double>(leaving) /
                                                          static_cast<double>(recorder.demandBytes)
                                                    : 1.0;
    summary.packetHops = result.totals.packetHops;
    summary.events = result.totals.events;
    summary.drops = result.totals.drops;
    summary.retransmits = result.totals.retransmits;
    summary.fctP50 = recorder.fcts.At(50);
    summary.fctP99 = recorder.fcts.At(99);
    summary.fctMax = recorder.fcts.Max();
    summary.maxSlowdown = recorder.maxSlowdown;
    summary.fingerprint = recorder.Close(result);
    summary.peakRssBytes = PeakRssBytes();
    ns3::Simulator::Destroy();
    return summary;
}

} // namespace topoopt
