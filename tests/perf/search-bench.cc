// SPDX-License-Identifier: GPL-2.0-only
// How fast strategies are judged and searched.
#include "topoopt/core/alternating.h"
#include "topoopt/core/topology-kinds.h"

#include <benchmark/benchmark.h>
#include <memory>
#include <string>

namespace topoopt::perf
{

namespace
{

/** A job of a model file on TopoOpt with 4 x 100 Gbps per server. */
struct Job
{
    explicit Job(const std::string& name, std::uint32_t servers)
    {
        ModelOptions options;
        options.roots = {TOPOOPT_SOURCE_DIR};
        options.servers = servers;
        model = LoadModel(name, options);
        times = std::make_unique<ComputeTimes>(model, options.roots);
        problem.model = &model;
        problem.times = times.get();
        problem.servers = servers;
        problem.topology = [servers](const Demand& demand) {
            FabricContext context;
            context.servers.count = servers;
            context.servers.nics = 4;
            context.demand = &demand;
            FabricSpec spec;
            spec.kind = "topoopt";
            return BuildFabric(spec, context);
        };
        start = DataParallel(model, servers);
    }

    Model model;
    std::unique_ptr<ComputeTimes> times;
    SearchProblem problem;
    Strategy start;
};

/** A walk's inner loop: a proposal, a full evaluation. Goal: at least 200/s on DLRM-16. */
void
EstimateProposals(benchmark::State& state, const char* model)
{
    const Job job(model, static_cast<std::uint32_t>(state.range(0)));
    SearchOptions options;
    options.ignoreMemory = true;
    const SearchSpace space(job.model, *job.times, job.problem.servers, options);
    IterationEstimator estimator(job.model, *job.times, job.problem.servers, 1, {});
    estimator.Set(job.start);
    const Fabric fabric = job.problem.topology(estimator.CurrentDemand());
    estimator.SetFabric(fabric);
    Rng rng(1, "bench");
    std::int64_t proposals = 0;
    for (auto _ : state)
    {
        proposals += Walk(estimator, space, job.problem, options, 50, rng).proposals;
    }
    state.counters["evaluations/s"] =
        benchmark::Counter(static_cast<double>(proposals), benchmark::Counter::kIsRate);
}

/** The fluid simulator, data parallel. */
void
FluidIteration(benchmark::State& state, const char* model)
{
    const Job job(model, static_cast<std::uint32_t>(state.range(0)));
    BuildOptions build;
    build.times = job.times.get();
    const TaskGraph graph = BuildIteration(job.model, job.start, job.problem.servers, 1, 1, build);
    const Demand demand = DemandOf(graph, BlockPlacement(graph.ranks, job.problem.servers));
    const Fabric fabric = job.problem.topology(demand);
    FlowSimOptions options;
    options.recordFlows = false;
    options.quantum = 20 * kMicrosecond;
    std::uint64_t events = 0;
    for (auto _ : state)
    {
        events += SimulateFlows(graph, fabric, options).events;
    }
    state.counters["iterations/s"] =
        benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
    state.counters["events/s"] =
        benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
}

/** The whole search with topology moves, two threads. Goal: 4000 proposals on DLRM-128 in 60 s. */
void
AlternatingSearch(benchmark::State& state, const char* model)
{
    const Job job(model, static_cast<std::uint32_t>(state.range(0)));
    SearchOptions options;
    options.ignoreMemory = true;
    options.budget = 4000;
    SearchResult result;
    for (auto _ : state)
    {
        result = Optimise(job.problem, job.start, options);
    }
    state.counters["proposals"] = result.proposals;
    state.counters["topologies"] = result.topologies;
    state.counters["start_ms"] = result.startMs;
    state.counters["found_ms"] = result.confirmedMs;
}

BENCHMARK_CAPTURE(EstimateProposals, dlrm, "dlrm")
    ->Arg(16)
    ->Arg(128)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(EstimateProposals, candle, "candle")
    ->Arg(16)
    ->Arg(128)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(FluidIteration, dlrm, "dlrm")->Arg(16)->Arg(128)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(AlternatingSearch, dlrm, "dlrm")
    ->Arg(16)
    ->Arg(128)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

} // namespace

} // namespace topoopt::perf
