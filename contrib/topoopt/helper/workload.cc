// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/workload.h"

#include "topoopt/core/error.h"
#include "topoopt/core/strategy-flexnet.h"
#include "topoopt/core/strategy.h"
#include "topoopt/core/trace-flows.h"

namespace topoopt
{

std::vector<ServerId>
PlaceRanks(std::uint32_t ranks, const Scenario& scenario, const TraceOptions& options)
{
    const bool oneEach = ranks <= scenario.servers.count && options.ranksMap.empty();
    return MapRanks(ranks,
                    scenario.servers.count,
                    oneEach ? 1 : scenario.servers.gpus,
                    options,
                    scenario.file + ": servers");
}

namespace
{

/** The same demand among @p servers servers, those beyond the last that took part idle. */
Demand
Widen(Demand demand, ServerId servers)
{
    if (demand.servers == servers)
    {
        return demand;
    }
    Demand wide(servers);
    wide.allReduces = std::move(demand.allReduces);
    for (ServerId src = 0; src < demand.servers; ++src)
    {
        for (ServerId dst = 0; dst < demand.servers; ++dst)
        {
            wide.At(src, dst) = demand.At(src, dst);
        }
    }
    return wide;
}

Workload
FromTrace(const Scenario& scenario)
{
    const TraceOptions options =
        TraceOptions::Parse(scenario.workload.options, scenario.workload.places);
    LoadedWorkload loaded = LoadTrace(scenario.workload.path, options);
    Workload workload;
    workload.placement = PlaceRanks(loaded.graph.ranks, scenario, options);
    workload.graph = std::move(loaded.graph);
    workload.fabric = std::move(loaded.fabric);
    workload.stamp = std::move(loaded.stamp);
    return workload;
}

Workload
FromTaskGraph(Scenario& scenario)
{
    if (!scenario.workload.options.empty())
    {
        const auto& [key, value] = *scenario.workload.options.begin();
        throw SpecError(scenario.workload.place,
                        "workload." + key + ": found \"" + value +
                            "\", expected no option beside a task graph");
    }
    Workload workload;
    workload.flexNet = std::make_shared<FlexNetGraph>(ReadFlexNet(scenario.workload.path));
    const FlexNetGraph& file = *workload.flexNet;
    scenario.servers.count = file.nodes;
    workload.graph = FlexNetTaskGraph(file);
    workload.placement = PlaceRanks(workload.graph.ranks, scenario);
    if (!file.connections.empty())
    {
        workload.fabric = std::make_shared<Fabric>(
            FlexNetFabric(file, scenario.servers.rate, scenario.servers.linkDelay, scenario.seed));
    }
    return workload;
}

Workload
FromFlows(const Scenario& scenario)
{
    const FlowOptions options =
        FlowOptions::Parse(scenario.workload.options, scenario.workload.places);
    LoadedWorkload loaded =
        LoadFlows(scenario.workload.path, options, scenario.servers, scenario.seed);
    Workload workload;
    workload.graph = std::move(loaded.graph);
    workload.fabric = std::move(loaded.fabric);
    workload.stamp = std::move(loaded.stamp);
    workload.placement = PlaceRanks(workload.graph.ranks, scenario);
    return workload;
}

} // namespace

Workload
LoadWorkload(Scenario& scenario)
{
    Workload workload;
    switch (scenario.workload.kind)
    {
    case WorkloadKind::Trace:
        workload = FromTrace(scenario);
        break;
    case WorkloadKind::TaskGraph:
        workload = FromTaskGraph(scenario);
        break;
    case WorkloadKind::Flows:
        workload = FromFlows(scenario);
        break;
    case WorkloadKind::Model:
        workload.graph = BuildModelWorkload(scenario.workload,
                                            scenario.servers,
                                            StrategyOf(scenario),
                                            1,
                                            scenario.seed);
        workload.placement = PlaceRanks(workload.graph.ranks, scenario);
        if (scenario.engine.compat == "flexnet")
        {
            workload.flexNet =
                std::make_shared<FlexNetGraph>(ToFlexNet(workload.graph, scenario.workload.place));
        }
        break;
    case WorkloadKind::Jobs:
        throw SpecError(
            scenario.workload.place,
            "workload.jobs: found jobs of a shared cluster, expected one job: model, taskgraph, "
            "trace or flows");
    }
    workload.repeats = scenario.iterations;
    workload.demand = Widen(DemandOf(workload.graph, workload.placement), scenario.servers.count);
    return workload;
}

} // namespace topoopt
