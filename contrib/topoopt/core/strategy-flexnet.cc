// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/strategy-flexnet.h"

#include "topoopt/core/error.h"

#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace topoopt
{

namespace
{

constexpr std::uint64_t kGpuId = 1;

/** What an AllReduce's tasks wait for, and its delay. */
struct Gathered
{
    std::vector<TaskId> members;
    TaskId join = kNoId; ///< the Join that all members wait for, and nothing else does
};

/** The milliseconds in single precision that the reference reads as @p time, if there are any, else the nearest. */
float
MillisecondsOf(SimTime time, SimTime (*read)(float))
{
    const auto nearest = static_cast<float>(static_cast<double>(time) / 1e9);
    for (const float ms : {nearest,
                           std::nextafter(nearest, std::numeric_limits<float>::infinity()),
                           std::nextafter(nearest, 0.0F)})
    {
        if (read(ms) == time)
        {
            return ms;
        }
    }
    return nearest;
}

/** Nodes that a path visits after its source. */
std::vector<NodeId>
NodesOf(const Fabric& fabric, const Path& path)
{
    std::vector<NodeId> nodes;
    for (const LinkId link : path)
    {
        nodes.push_back(fabric.topology.links[link].dst);
    }
    return nodes;
}

/** A ring as the jumps of one step; the same from every member. */
std::vector<std::uint32_t>
JumpsOf(const FlexNetGraph& graph,
        const Fabric& fabric,
        const std::vector<ServerId>& group,
        const Ring& ring)
{
    std::vector<std::uint32_t> jumps;
    for (std::size_t k = 0; k < ring.order.size(); ++k)
    {
        const ServerId from = group[ring.order[k]];
        const ServerId to = group[ring.order[(k + 1) % ring.order.size()]];
        const Path path = ring.hops.empty() || ring.hops[k].empty()
                              ? fabric.router->Route(from, to, 0)
                              : ring.hops[k];
        std::vector<std::uint32_t> step;
        NodeId at = from;
        for (const NodeId node : NodesOf(fabric, path))
        {
            step.push_back((node + graph.nodes - at) % graph.nodes);
            at = node;
        }
        if (k > 0 && step != jumps)
        {
            throw SpecError(graph.file,
                            "found a ring over " + std::to_string(group.size()) +
                                " servers whose steps differ, expected the same jumps from every "
                                "server: the format of `compat: flexnet` has no other rings");
        }
        jumps = std::move(step);
    }
    return jumps;
}

} // namespace

FlexNetGraph
ToFlexNet(const TaskGraph& graph, const std::string& place)
{
    const auto fail = [&](TaskId task, const std::string& expected) {
        throw SpecError(place,
                        "found " + graph.Describe(task) + ", expected " + expected +
                            ": the format of `compat: flexnet` has nothing else");
    };
    const auto count = static_cast<TaskId>(graph.tasks.size());
    std::vector<Gathered> reduces(graph.collectives.size());
    std::vector<std::vector<TaskId>> before(count);
    for (TaskId id = 0; id < count; ++id)
    {
        const Task& task = graph.tasks[id];
        if (task.kind == TaskKind::Collective)
        {
            if (graph.collectives[task.object].kind != CollectiveKind::AllReduce)
            {
                fail(id, "no collective but AllReduce");
            }
            if (graph.SuccessorsBegin(id) != graph.SuccessorsEnd(id))
            {
                fail(id, "nothing that waits for an AllReduce");
            }
            reduces[task.object].members.push_back(id);
        }
        else if (task.kind == TaskKind::Send || task.kind == TaskKind::Recv)
        {
            fail(id, "messages that are one task");
        }
        for (const TaskId* next = graph.SuccessorsBegin(id); next != graph.SuccessorsEnd(id);
             ++next)
        {
            before[*next].push_back(id);
        }
    }
    // The Join of an AllReduce: all its members wait for it alone, and nobody else waits for it.
    std::vector<bool> merged(count);
    for (std::size_t r = 0; r < reduces.size(); ++r)
    {
        Gathered& reduce = reduces[r];
        const std::vector<TaskId>& first = before[reduce.members.front()];
        bool one = first.size() == 1 && graph.tasks[first[0]].kind == TaskKind::Join;
        for (const TaskId member : reduce.members)
        {
            one = one && before[member] == first;
        }
        if (one &&
            static_cast<std::size_t>(graph.SuccessorsEnd(first[0]) -
                                     graph.SuccessorsBegin(first[0])) == reduce.members.size())
        {
            reduce.join = first[0];
            merged[first[0]] = true;
        }
    }

    FlexNetGraph out;
    out.file = place;
    out.nodes = graph.ranks;
    for (RankId rank = 0; rank < graph.ranks; ++rank)
    {
        FlexNetDevice device;
        device.kind = FlexNetDeviceKind::Gpu;
        device.id = kGpuId + rank;
        device.node = rank;
        device.property = rank;
        out.devices.push_back(device);
    }
    std::map<std::pair<RankId, RankId>, std::uint32_t> deviceOf;
    std::vector<std::uint32_t> indexOf(count, kNoId);
    std::vector<bool> written(reduces.size());
    for (TaskId id = 0; id < count; ++id)
    {
        const Task& task = graph.tasks[id];
        FlexNetTask made;
        made.id = out.tasks.size() + 1;
        const auto index = static_cast<std::uint32_t>(out.tasks.size());
        switch (task.kind)
        {
        case TaskKind::Compute:
        {
            const bool forward = task.name != kNoId && graph.names[task.name].rfind("fw ", 0) == 0;
            made.kind = forward ? FlexNetTaskKind::Forward : FlexNetTaskKind::Backward;
            made.device = task.rank;
            made.runtimeMs = MillisecondsOf(task.duration, FlexNetComputeTime);
            break;
        }
        case TaskKind::Transfer:
        {
            const TransferCall& call = graph.transfers[task.object];
            made.kind = FlexNetTaskKind::Message;
            made.bytes = call.bytes;
            const auto [at, added] =
                deviceOf.emplace(std::make_pair(call.src, call.dst),
                                 static_cast<std::uint32_t>(out.devices.size()));
            if (added)
            {
                FlexNetDevice device;
                device.kind = FlexNetDeviceKind::NetworkNominal;
                device.id = kGpuId + out.devices.size();
                device.node = UINT64_MAX;
                device.property = std::uint64_t{call.src} * graph.ranks + call.dst;
                out.devices.push_back(device);
            }
            made.device = at->second;
            break;
        }
        case TaskKind::Collective:
            if (written[task.object])
            {
                indexOf[id] = indexOf[reduces[task.object].members.front()];
                continue;
            }
            written[task.object] = true;
            made.kind = FlexNetTaskKind::AllReduce;
            made.bytes = graph.collectives[task.object].bytes;
            made.next = graph.groups[graph.collectives[task.object].group].members;
            if (const TaskId join = reduces[task.object].join; join != kNoId)
            {
                made.runtimeMs = MillisecondsOf(graph.tasks[join].duration, FlexNetAllReduceDelay);
                indexOf[join] = index;
            }
            break;
        case TaskKind::Join:
            if (!merged[id])
            {
                fail(id, "no wait but that for an AllReduce");
            }
            continue;
        case TaskKind::Send:
        case TaskKind::Recv:
            continue; // refused above
        }
        indexOf[id] = index;
        out.tasks.push_back(std::move(made));
    }
    for (TaskId id = 0; id < count; ++id)
    {
        const Task& task = graph.tasks[id];
        if (task.kind != TaskKind::Compute && task.kind != TaskKind::Transfer)
        {
            continue;
        }
        std::vector<std::uint32_t>& next = out.tasks[indexOf[id]].next;
        for (const TaskId* after = graph.SuccessorsBegin(id); after != graph.SuccessorsEnd(id);
             ++after)
        {
            // Members of an AllReduce without a Join are one task; successors are sorted, so repeats are neighbours.
            if (next.empty() || next.back() != indexOf[*after])
            {
                next.push_back(indexOf[*after]);
            }
        }
    }
    VerifyFlexNet(out);
    return out;
}

void
CarryFabric(FlexNetGraph& graph, const Fabric& fabric)
{
    const Topology& topology = fabric.topology;
    if (topology.NodeCount() != topology.servers || topology.servers != graph.nodes)
    {
        throw SpecError(
            graph.file,
            "found the fabric " + fabric.name + " with " + std::to_string(topology.servers) +
                " servers and " + std::to_string(topology.NodeCount() - topology.servers) +
                " switches, expected " + std::to_string(graph.nodes) + " servers joined by cables");
    }
    std::map<std::pair<NodeId, NodeId>, std::uint32_t> cables;
    for (const Link& link : topology.links)
    {
        if (link.rate.bps != topology.links[0].rate.bps)
        {
            throw SpecError(graph.file,
                            "found links of " + FormatBitRate(link.rate) + " and " +
                                FormatBitRate(topology.links[0].rate) +
                                ", expected one rate: `compat: flexnet` has no other");
        }
        ++cables[{link.src, link.dst}];
    }
    graph.connections.clear();
    for (const auto& [ends, links] : cables)
    {
        const auto back = cables.find({ends.second, ends.first});
        if (back == cables.end() || back->second != links)
        {
            throw SpecError(graph.file,
                            "found one-way links between servers " + std::to_string(ends.first) +
                                " and " + std::to_string(ends.second) +
                                ", expected cables that carry both ways");
        }
        if (ends.first > ends.second)
        {
            graph.connections.push_back({ends.first, ends.second, links});
        }
    }
    graph.routes.clear();
    for (NodeId src = 0; src < graph.nodes; ++src)
    {
        for (NodeId dst = 0; dst < graph.nodes; ++dst)
        {
            FlexNetRoute route;
            route.src = src;
            route.dst = dst;
            if (src != dst)
            {
                FlexNetPath path;
                path.chance = 1;
                path.nodes.push_back(src);
                for (const NodeId node : NodesOf(fabric, fabric.router->Route(src, dst, 0)))
                {
                    path.nodes.push_back(node);
                }
                route.paths.push_back(std::move(path));
            }
            graph.routes.push_back(std::move(route));
        }
    }
    graph.rings.clear();
    std::map<std::size_t, std::vector<ServerId>> groups;
    for (const FlexNetTask& task : graph.tasks)
    {
        if (task.kind == FlexNetTaskKind::AllReduce && task.next.size() > 1)
        {
            groups.emplace(task.next.size(), task.next);
        }
    }
    for (const auto& [size, group] : groups)
    {
        FlexNetRings rings;
        rings.groupSize = size;
        for (const Ring& ring : RingsOf(fabric, group))
        {
            rings.jumps.push_back(JumpsOf(graph, fabric, group, ring));
        }
        graph.rings.push_back(std::move(rings));
    }
    VerifyFlexNet(graph);
}

FabricSpec
FlexNetFabricSpec(const FabricSpec& spec)
{
    FabricSpec out = spec;
    if (spec.kind == "topoopt")
    {
        out.options.emplace("compat", "flexnet");
    }
    return out;
}

} // namespace topoopt
