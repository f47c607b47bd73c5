// SPDX-License-Identifier: GPL-2.0-only
// How long TopologyFinder and the fabrics take to set up. Goals on one quiet core: 128 servers with 4 NICs 50 ms, 1024
// with 8 NICs 2 s, 4096 with AllReduce alone 2 s, a Fat-tree of 128 servers 20 ms.
#include "topoopt/core/graph-metrics.h"
#include "topoopt/core/min-max-routing.h"
#include "topoopt/core/random.h"
#include "topoopt/core/topology-finder.h"
#include "topoopt/core/topology-kinds.h"
#include "topoopt/core/topology-search.h"
#include "topoopt/core/topoopt-fabric.h"

#include <benchmark/benchmark.h>
#include <cstdint>

namespace topoopt::perf
{
namespace
{

/** An AllReduce over all and as many bytes between pairs, uneven, every pair of them or @p perServer a server. */
Demand
HybridDemand(ServerId servers, ServerId perServer)
{
    Demand demand = AllReduceOverAll(servers);
    demand.allReduces[0].bytes = 1'000'000'000;
    Rng rng(1, "bench");
    const std::uint64_t mean = 2'000'000'000ULL / perServer;
    for (ServerId src = 0; src < servers; ++src)
    {
        for (ServerId k = 0; k < perServer; ++k)
        {
            const ServerId dst = perServer + 1 == servers
                                     ? (src + 1 + k) % servers
                                     : static_cast<ServerId>(rng.Below(servers));
            demand.At(src, dst) = src == dst ? 0 : 1 + rng.Below(2 * mean);
        }
    }
    return demand;
}

/** Topology, wiring, rings and routes. */
void
FindAndRoute(benchmark::State& state, const Demand& demand, std::uint32_t degree)
{
    for (auto _ : state)
    {
        const FoundTopology found = FindTopology(demand, degree);
        const Fabric fabric =
            DirectConnectFabric(found, {100'000'000'000}, kMicrosecond, &demand, {});
        benchmark::DoNotOptimize(fabric.router.get());
    }
}

void
Find128AllPairs(benchmark::State& state)
{
    FindAndRoute(state, HybridDemand(128, 127), 4);
}

void
Find1024AllPairs(benchmark::State& state)
{
    FindAndRoute(state, HybridDemand(1024, 1023), 8);
}

void
Find1024Sparse(benchmark::State& state)
{
    FindAndRoute(state, HybridDemand(1024, 16), 8);
}

void
Find4096AllReduce(benchmark::State& state)
{
    FindAndRoute(state, AllReduceOverAll(4096), 8);
}

void
FatTree128(benchmark::State& state)
{
    for (auto _ : state)
    {
        FabricSpec spec;
        spec.kind = "fat-tree";
        FabricContext context;
        context.servers.count = 128;
        const Fabric fabric = BuildFabric(spec, context);
        for (ServerId src = 0; src < 128; ++src)
        {
            for (ServerId dst = 0; dst < 128; ++dst)
            {
                if (src != dst)
                {
                    benchmark::DoNotOptimize(fabric.router->Route(src, dst, src).data());
                }
            }
        }
    }
}

void
FatTree1024Route(benchmark::State& state)
{
    FabricSpec spec;
    spec.kind = "fat-tree";
    FabricContext context;
    context.servers.count = 1024;
    const Fabric fabric = BuildFabric(spec, context);
    std::uint64_t key = 0;
    for (auto _ : state)
    {
        const auto src = static_cast<ServerId>(key * 7 % 1024);
        const auto dst = static_cast<ServerId>((key * 13 + 1) % 1024);
        if (src != dst)
        {
            benchmark::DoNotOptimize(fabric.router->Route(src, dst, key).data());
        }
        ++key;
    }
}

void
MinMax128AllPairs(benchmark::State& state)
{
    const Demand demand = HybridDemand(128, 127);
    const FoundTopology found = FindTopology(demand, 4);
    const Fabric fabric = DirectConnectFabric(found, {100'000'000'000}, 0, nullptr, {});
    const std::vector<double> rings = AllReduceLoads(fabric, demand);
    double gap = 0;
    for (auto _ : state)
    {
        gap = MinMaxRoutes(fabric.topology, demand, rings).Gap();
    }
    state.counters["gap"] = gap;
}

void
Search128AllPairs(benchmark::State& state)
{
    const Demand demand = HybridDemand(128, 127);
    TopologySearchOptions options;
    options.evaluations = 100;
    double gain = 0;
    for (auto _ : state)
    {
        const TopologySearchResult result = SearchTopology(demand, 4, options);
        gain = 1 - result.time / result.startTime;
    }
    state.counters["gain"] = gain;
}

BENCHMARK(Find128AllPairs)->Unit(benchmark::kMillisecond);
BENCHMARK(Find1024Sparse)->Unit(benchmark::kMillisecond);
BENCHMARK(Find1024AllPairs)->Unit(benchmark::kMillisecond);
BENCHMARK(Find4096AllReduce)->Unit(benchmark::kMillisecond);
BENCHMARK(FatTree128)->Unit(benchmark::kMillisecond);
BENCHMARK(FatTree1024Route);
BENCHMARK(MinMax128AllPairs)->Unit(benchmark::kMillisecond);
BENCHMARK(Search128AllPairs)->Unit(benchmark::kMillisecond);

} // namespace
} // namespace topoopt::perf
