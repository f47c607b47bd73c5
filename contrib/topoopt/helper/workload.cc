// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/workload.h"

#include "topoopt/core/error.h"
#include "topoopt/core/readers/flexnet.h"
#include "topoopt/core/trace.h"

#include <algorithm>
#include <map>
#include <set>

namespace topoopt
{

namespace
{

Workload
FromTrace(const Scenario& scenario)
{
    const TraceOptions options =
        TraceOptions::Parse(scenario.workload.options, scenario.workload.places);
    LoadedWorkload loaded = LoadTrace(scenario.workload.path, options);
    Workload workload;
    workload.placement =
        MapRanks(loaded.graph.ranks,
                 scenario.servers.count,
                 loaded.graph.ranks <= scenario.servers.count ? 1 : scenario.servers.gpus,
                 options);
    workload.graph = std::move(loaded.graph);
    workload.fabric = std::move(loaded.fabric);
    workload.stamp = std::move(loaded.stamp);
    return workload;
}

Workload
FromTaskGraph(const Scenario& scenario)
{
    if (!scenario.workload.options.empty())
    {
        const auto& [key, value] = *scenario.workload.options.begin();
        throw SpecError(scenario.workload.place,
                        "workload." + key + ": found \"" + value +
                            "\", expected no option beside a task graph");
    }
    const FlexNetGraph file = ReadFlexNet(scenario.workload.path);
    Workload workload;
    workload.graph = FlexNetTaskGraph(file);
    workload.placement.resize(workload.graph.ranks);
    for (RankId rank = 0; rank < workload.graph.ranks; ++rank)
    {
        workload.placement[rank] = rank;
    }
    workload.fabric = std::make_shared<Fabric>(
        FlexNetFabric(file, scenario.servers.rate, scenario.servers.linkDelay, scenario.seed));
    return workload;
}

} // namespace

Workload
LoadWorkload(const Scenario& scenario)
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
    default:
        throw SpecError(scenario.workload.place, "this kind of workload cannot be run yet");
    }
    workload.repeats = scenario.iterations;
    workload.demand = DemandOf(workload.graph, workload.placement, scenario.servers.count);
    return workload;
}

Demand
DemandOf(const TaskGraph& graph, const std::vector<ServerId>& placement, ServerId servers)
{
    Demand demand(servers);
    const auto add = [&](RankId src, RankId dst, Bytes bytes) {
        if (placement[src] != placement[dst])
        {
            demand.At(placement[src], placement[dst]) += bytes;
        }
    };
    std::map<std::vector<ServerId>, std::size_t> groups;
    for (const CollectiveCall& call : graph.collectives)
    {
        const std::vector<RankId>& members = graph.groups[call.group].members;
        const auto n = static_cast<std::uint32_t>(members.size());
        switch (call.kind)
        {
        case CollectiveKind::AllToAllV:
            for (std::uint32_t i = 0; i < n; ++i)
            {
                for (std::uint32_t j = 0; j < n; ++j)
                {
                    add(members[i], members[j], call.pairBytes[std::size_t{i} * n + j]);
                }
            }
            break;
        case CollectiveKind::AllToAll:
            for (std::uint32_t i = 0; i < n; ++i)
            {
                for (std::uint32_t j = 0; j < n; ++j)
                {
                    add(members[i], members[j], PartOf(call.bytes, n, j, call.elementBytes));
                }
            }
            break;
        case CollectiveKind::Gather:
        case CollectiveKind::Scatter:
            for (std::uint32_t i = 0; i < n; ++i)
            {
                const bool gather = call.kind == CollectiveKind::Gather;
                add(members[gather ? i : call.root], members[gather ? call.root : i], call.bytes);
            }
            break;
        default:
        {
            std::vector<ServerId> group;
            std::set<ServerId> seen;
            for (RankId member : members)
            {
                if (seen.insert(placement[member]).second)
                {
                    group.push_back(placement[member]);
                }
            }
            if (group.size() < 2 || call.bytes == 0)
            {
                break;
            }
            const auto [it, isNew] = groups.try_emplace(group, demand.allReduces.size());
            if (isNew)
            {
                demand.allReduces.push_back({group, 0});
            }
            // All of them go round a ring; an AllReduce goes twice, the others once.
            const Bytes vector =
                call.kind == CollectiveKind::AllGather ? call.bytes * n : call.bytes;
            demand.allReduces[it->second].bytes +=
                call.kind == CollectiveKind::AllReduce ? vector : vector / 2;
            break;
        }
        }
    }
    for (const TransferCall& call : graph.transfers)
    {
        add(call.src, call.dst, call.bytes);
    }
    return demand;
}

} // namespace topoopt
