// SPDX-License-Identifier: GPL-2.0-only
// `compat: flexnet`: what a packet-hop costs, in empty ns-3 events of the same run, trains on and off.
#include "empty-event.h"
#include "ns3/flexnet-simulation.h"
#include "ns3/simulator.h"
#include "topoopt/core/readers/flexnet.h"

#include <algorithm>
#include <benchmark/benchmark.h>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace topoopt::perf
{

namespace
{

/** The smallest of three: what the machine can do when the others leave it alone. */
double
Unit()
{
    static const double unit =
        std::min(EmptyEventSeconds(), std::min(EmptyEventSeconds(), EmptyEventSeconds()));
    return unit;
}

void
Measure(benchmark::State& state,
        const FlexNetGraph& graph,
        FlexNetFabricKind fabric,
        std::uint64_t gbps)
{
    const double unit = Unit();
    FlexNetConfig config;
    config.fabric = fabric;
    config.rate.bps = gbps * 1'000'000'000;
    config.trains = state.range(0) != 0;
    double seconds = 1e9;
    FlexNetRunResult result;
    for ([[maybe_unused]] auto _ : state)
    {
        FlexNetObserver silent;
        const double before = CpuSeconds();
        result = RunFlexNet(graph, config, silent);
        const double spent = CpuSeconds() - before;
        ns3::Simulator::Destroy();
        state.SetIterationTime(spent);
        seconds = std::min(seconds, spent);
        if (!result.complete || !result.violations.empty())
        {
            state.SkipWithError("the run did not complete");
            return;
        }
    }
    const auto hops = static_cast<double>(result.totals.packetHops);
    state.counters["empty_event_ns"] = unit * 1e9;
    state.counters["packet_hops"] = hops;
    state.counters["flows"] = static_cast<double>(result.totals.flows);
    state.counters["engine_events"] = static_cast<double>(result.totals.events);
    state.counters["ns_per_hop"] = seconds / hops * 1e9;
    state.counters["empty_events_per_hop"] = seconds / hops / unit;
}

/** One AllReduce of @p bytes over 128 servers on rings of jumps 1 and 13, both ways. */
FlexNetGraph
RingGraph(Bytes bytes)
{
    constexpr std::uint32_t servers = 128;
    FlexNetGraph graph;
    graph.file = "ring128";
    graph.nodes = servers;
    FlexNetRings rings;
    rings.groupSize = servers;
    FlexNetTask task;
    task.kind = FlexNetTaskKind::AllReduce;
    task.bytes = bytes;
    for (const std::uint32_t jump : {1U, 13U})
    {
        for (NodeId i = 0; i < servers; ++i)
        {
            graph.connections.push_back({i, (i + jump) % servers, 1});
        }
        rings.jumps.push_back({jump});
        rings.jumps.push_back({servers - jump});
    }
    for (NodeId i = 0; i < servers; ++i)
    {
        task.next.push_back(i);
    }
    graph.rings.push_back(rings);
    graph.tasks.push_back(task);
    VerifyFlexNet(graph);
    return graph;
}

void
Ring128(benchmark::State& state)
{
    Measure(state, RingGraph(1'000'000'000), FlexNetFabricKind::FromFile, 100);
}

/** A published graph from the shared directory, skipped where there is none. */
void
Shared(benchmark::State& state, const char* name, FlexNetFabricKind fabric, std::uint64_t gbps)
{
    const char* shared = std::getenv("TOPOOPT_SHARED");
    const std::filesystem::path root =
        shared != nullptr ? std::filesystem::path(shared)
                          : std::filesystem::path(TOPOOPT_SOURCE_DIR) / ".." / "shared";
    const std::filesystem::path path = root / "golden" / "taskgraphs" / name;
    if (!std::filesystem::exists(path))
    {
        state.SkipWithError("no shared directory with task graphs");
        return;
    }
    Measure(state, ReadFlexNet(path.string()), fabric, gbps);
}

constexpr auto kFile = FlexNetFabricKind::FromFile;
constexpr auto kStar = FlexNetFabricKind::Star;

} // namespace

// Argument: trains.
BENCHMARK(Ring128)
    ->Name("FlexNetRing128")
    ->Arg(0)
    ->Arg(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Shared, dlrm128_d4, "dlrm128_d4.fbuf.gz", kFile, 100)
    ->Name("FlexNetDlrm128D4")
    ->Arg(0)
    ->Arg(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Shared, dlrm128_d8, "dlrm128_d8.fbuf.gz", kFile, 100)
    ->Name("FlexNetDlrm128D8")
    ->Arg(0)
    ->Arg(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Shared, vgg16, "100vgg_16.fbuf", kStar, 100)
    ->Name("FlexNetVgg16Star")
    ->Arg(0)
    ->Arg(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

} // namespace topoopt::perf
