// SPDX-License-Identifier: GPL-2.0-only
// What a packet-hop costs, in empty ns-3 events of the same run.
#include "../core/one-collective.h"
#include "empty-event.h"
#include "ns3/executor.h"
#include "ns3/map-scheduler.h"
#include "ns3/object-factory.h"
#include "ns3/packet-network.h"
#include "ns3/peek-scheduler.h"
#include "ns3/simulator.h"
#include "topoopt/core/topology-kinds.h"
#include "topoopt/core/trace-flows.h"

#include <algorithm>
#include <benchmark/benchmark.h>
#include <ctime>
#include <filesystem>

namespace topoopt::perf
{

double
CpuSeconds()
{
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

namespace
{

std::uint64_t g_left = 0;

void
EmptyEvent()
{
    if (g_left > 0)
    {
        --g_left;
        ns3::Simulator::Schedule(ns3::TimeStep(1000 + g_left % 7), &EmptyEvent);
    }
}

/** Nothing is recorded: the engine alone. */
class Silent final : public ExecutionObserver
{
  public:
    void MessageFinished(const MessageRecord&, const MessageContext&) override
    {
    }

    void OperationFinished(const OperationRecord&) override
    {
    }

    void TaskFinished(const TaskRecord&) override
    {
    }
};

/** One AllReduce of @p bytes over all servers. */
TaskGraph
OneAllReduce(std::uint32_t servers, Bytes bytes)
{
    CollectiveCall call;
    call.kind = CollectiveKind::AllReduce;
    call.bytes = bytes;
    call.elementBytes = 4;
    return test::OneCollective(servers, call);
}

/** Runs a job again and again and reports what a packet-hop costs. */
void
MeasureJob(benchmark::State& state,
           const TaskGraph& graph,
           const Fabric& fabric,
           const PacketNetworkConfig& config)
{
    const CollectiveChoice collectives;
    double seconds = 0;
    double setup = 0;
    double hops = 0;
    double events = 0;
    const double empty = EmptyEventSeconds();
    for (auto _ : state)
    {
        ns3::PeekScheduler::Install();
        const double begin = CpuSeconds();
        const ns3::Ptr<PacketNetwork> network = ns3::CreateObject<PacketNetwork>();
        network->Build(fabric.topology, config);
        Silent observer;
        ExecutorConfig executorConfig;
        executorConfig.graph = &graph;
        executorConfig.fabric = &fabric;
        executorConfig.collectives = &collectives;
        for (ServerId s = 0; s < graph.ranks; ++s)
        {
            executorConfig.placement.push_back(s);
        }
        TaskExecutor executor(executorConfig, *network, observer);
        const double start = CpuSeconds();
        executor.Begin();
        network->Start(kNever);
        ns3::Simulator::Run();
        seconds += CpuSeconds() - start;
        setup += start - begin;
        hops += static_cast<double>(network->Totals().packetHops);
        events += static_cast<double>(network->Totals().events);
        if (!executor.Done() || !network->CheckPhysics().empty())
        {
            state.SkipWithError("the run did not complete");
        }
        network->Dispose();
        ns3::Simulator::Destroy();
    }
    const double emptyNow = std::min(empty, EmptyEventSeconds());
    const auto runs = static_cast<double>(state.iterations());
    state.counters["hops/s"] = hops / seconds;
    state.counters["hops"] = hops / runs;
    state.counters["events/hop"] = events / hops;
    state.counters["empty_events/hop"] = seconds / hops / emptyNow;
    state.counters["empty_event_ns"] = 1e9 * emptyNow;
    state.counters["setup_ms"] = 1e3 * setup / runs;
}

Fabric
BuildKind(const char* kind, std::uint32_t servers, std::uint32_t nics)
{
    FabricContext context;
    context.servers.count = servers;
    context.servers.nics = nics;
    FabricSpec spec;
    spec.kind = kind;
    spec.name = kind;
    return BuildFabric(spec, context);
}

/** An AllReduce over the four rings of a patch-panel fabric; arguments: servers, MB, trains, MTU. */
void
RingAllReduce(benchmark::State& state)
{
    const auto servers = static_cast<std::uint32_t>(state.range(0));
    PacketNetworkConfig config;
    config.trains = state.range(2) != 0;
    config.mtu = static_cast<Bytes>(state.range(3));
    MeasureJob(state,
               OneAllReduce(servers, static_cast<Bytes>(state.range(1)) * 1'000'000),
               BuildKind("topoopt", servers, 4),
               config);
}

/** A flow list on a Fat-tree of 128 hosts: 1000 B of payload per packet, an acknowledgement for each, no trains. */
void
FlowList(benchmark::State& state, const std::string& file)
{
    if (!std::filesystem::exists(file))
    {
        state.SkipWithError("no such file");
        return;
    }
    ServerSpec servers;
    servers.count = 128;
    const LoadedWorkload workload = LoadFlows(file, FlowOptions{}, servers, 1);
    PacketNetworkConfig config;
    config.mtu = 1000 + kHeaderBytes;
    config.ackEvery = 1;
    config.trains = false;
    MeasureJob(state, workload.graph, BuildKind("fat-tree", 128, 1), config);
}

BENCHMARK(RingAllReduce)
    ->ArgNames({"servers", "MB", "trains", "mtu"})
    ->Args({128, 64, 0, 9000})
    ->Args({128, 64, 1, 9000})
    ->Args({128, 64, 0, 1500})
    ->Args({128, 64, 1, 1500})
    ->Args({128, 1000, 1, 9000})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

// The same message sizes at every number of servers: what grows is the number of packet-hops.
BENCHMARK(RingAllReduce)
    ->Name("Scaling")
    ->ArgNames({"servers", "MB", "trains", "mtu"})
    ->Args({16, 10, 0, 9000})
    ->Args({32, 20, 0, 9000})
    ->Args({64, 40, 0, 9000})
    ->Args({128, 80, 0, 9000})
    ->Args({256, 160, 0, 9000})
    ->Args({512, 320, 0, 9000})
    ->Args({1024, 640, 0, 9000})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

#define FLOW_LIST(name, file)                                                   \
    BENCHMARK_CAPTURE(FlowList, name, std::string(TOPOOPT_SOURCE_DIR) + (file)) \
        ->Unit(benchmark::kMillisecond)                                         \
        ->Iterations(1)

FLOW_LIST(own_permutation, "/traces/permutation-128.txt");
FLOW_LIST(perm128, "/../shared/bench/perm128_10MB_hpcc_flow.txt");
FLOW_LIST(ring128, "/../shared/bench/ring128_10MB_hpcc_flow.txt");
FLOW_LIST(a2a8x16, "/../shared/bench/a2a8x16_640KB_hpcc_flow.txt");

} // namespace

double
EmptyEventSeconds()
{
    constexpr std::uint64_t kEvents = 2'000'000;
    ns3::ObjectFactory factory("ns3::MapScheduler");
    ns3::Simulator::SetScheduler(factory);
    g_left = kEvents;
    for (int pending = 0; pending < 1024; ++pending)
    {
        ns3::Simulator::Schedule(ns3::TimeStep(static_cast<std::uint64_t>(pending)), &EmptyEvent);
    }
    const double start = CpuSeconds();
    ns3::Simulator::Run();
    const double seconds = CpuSeconds() - start;
    ns3::Simulator::Destroy();
    return seconds / kEvents;
}

} // namespace topoopt::perf
