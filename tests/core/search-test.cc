// SPDX-License-Identifier: GPL-2.0-only
#include "../temp-path.h"
#include "model-support.h"
#include "topoopt/core/alternating.h"
#include "topoopt/core/error.h"
#include "topoopt/core/topology-kinds.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <memory>
#include <set>

using namespace topoopt;
using topoopt::test::kRoots;
using topoopt::test::LoadOwn;

namespace
{

/** A model of a few operators on 4 servers, from text. */
Model
Tiny(const std::string& operators, std::uint32_t batch)
{
    const std::string file = test::TempPath("search-test.yaml");
    std::ofstream(file) << "version: 1\nmodel: tiny\n"
                           "configurations: [{name: one, servers: 4, gpus: 1, batch_per_gpu: "
                        << batch
                        << "}]\n"
                           "inputs: {x: [512], i: [10], s: [64, 256]}\noperators:\n"
                        << operators;
    ModelOptions options;
    options.roots = kRoots;
    return LoadModel(file, options);
}

/** A problem whose topology is TopoOpt's. */
struct Bench
{
    Model model;
    std::unique_ptr<ComputeTimes> times;
    SearchProblem problem;

    Bench(Model m, std::uint32_t nics, BitRate rate = BitRate{100'000'000'000})
        : model(std::move(m)),
          times(std::make_unique<ComputeTimes>(model, kRoots))
    {
        problem.model = &model;
        problem.times = times.get();
        problem.servers = model.servers;
        const std::uint32_t count = model.servers;
        problem.topology = [count, nics, rate](const Demand& demand) {
            FabricContext context;
            context.servers.count = count;
            context.servers.nics = nics;
            context.servers.rate = rate;
            context.demand = &demand;
            FabricSpec spec;
            spec.kind = "topoopt";
            return BuildFabric(spec, context);
        };
    }

    /** The estimate as the judge, so that searches and enumerations mean the same. */
    void JudgeByEstimate()
    {
        problem.confirm = [this](const Strategy& strategy, const Fabric& fabric) {
            IterationEstimator estimator(model,
                                         *times,
                                         problem.servers,
                                         problem.ranksPerServer,
                                         problem.estimate);
            estimator.SetFabric(fabric);
            estimator.Set(strategy);
            return estimator.Run();
        };
    }

    [[nodiscard]] IterationEstimator Estimator() const
    {
        return IterationEstimator(model,
                                  *times,
                                  problem.servers,
                                  problem.ranksPerServer,
                                  problem.estimate);
    }
};

} // namespace

TEST(IterationEstimator, DemandIsThatOfTheTaskGraph)
{
    for (const char* name : {"dlrm", "bert", "candle"})
    {
        Bench bench(LoadOwn(name, "shared-16"), 4);
        const SearchSpace space(bench.model, *bench.times, 16, SearchOptions{});
        IterationEstimator estimator = bench.Estimator();
        estimator.Set(DataParallel(bench.model, 16));
        Rng rng(7, name);
        for (int step = 0; step < 30; ++step)
        {
            for (const auto& [op, split] : space.Propose(estimator.Current(), rng))
            {
                estimator.Change(op, split);
            }
            if (step % 5 != 4)
            {
                continue;
            }
            BuildOptions build;
            build.times = bench.times.get();
            const TaskGraph graph =
                BuildIteration(bench.model, estimator.Current(), 16, 1, 1, build);
            const Demand expected = DemandOf(graph, BlockPlacement(16, 16));
            const Demand demand = estimator.CurrentDemand();
            EXPECT_EQ(demand.pairs, expected.pairs) << name << step;
            std::map<std::vector<ServerId>, double> reduces;
            for (const AllReduceDemand& d : expected.allReduces)
            {
                reduces[d.members] += static_cast<double>(d.bytes);
            }
            for (const AllReduceDemand& d : demand.allReduces)
            {
                // Shards of tensors are rounded up one by one in the graph.
                EXPECT_NEAR(reduces[d.members],
                            static_cast<double>(d.bytes),
                            2000 + 1e-6 * static_cast<double>(d.bytes));
                reduces.erase(d.members);
            }
            EXPECT_TRUE(reduces.empty()) << name << step;
        }
    }
}

TEST(IterationEstimator, ChangesGiveTheSameAsStartingAnew)
{
    Bench bench(LoadOwn("dlrm", "shared-16"), 4);
    const SearchSpace space(bench.model, *bench.times, 16, SearchOptions{});
    IterationEstimator estimator = bench.Estimator();
    const Strategy start = DataParallel(bench.model, 16);
    estimator.Set(start);
    const Fabric fabric = bench.problem.topology(estimator.CurrentDemand());
    estimator.SetFabric(fabric);
    const double before = estimator.Run();
    Rng rng(3, "changes");
    for (int step = 0; step < 40; ++step)
    {
        for (const auto& [op, split] : space.Propose(estimator.Current(), rng))
        {
            estimator.Change(op, split);
        }
        IterationEstimator anew = bench.Estimator();
        anew.SetFabric(fabric);
        anew.Set(estimator.Current());
        EXPECT_EQ(estimator.Run(), anew.Run());
    }
    for (std::uint32_t op = 0; op < start.operators.size(); ++op)
    {
        estimator.Change(op, start.operators[op]);
    }
    EXPECT_EQ(estimator.Run(), before);
}

/** Against the fluid simulator: data parallelism closely, strategies on the way of a walk within some percent. */
TEST(IterationEstimator, IsNearTheFluidSimulator)
{
    std::vector<double> errors;
    for (const char* name : {"dlrm", "candle", "bert", "vgg16", "resnet50", "ncf"})
    {
        Bench bench(LoadOwn(name, "shared-16"), 4);
        SearchOptions options;
        options.ignoreMemory = true;
        const SearchSpace space(bench.model, *bench.times, 16, options);
        IterationEstimator estimator = bench.Estimator();
        estimator.Set(DataParallel(bench.model, 16));
        Fabric fabric = bench.problem.topology(estimator.CurrentDemand());
        estimator.SetFabric(fabric);
        const double estimate = estimator.Run();
        const double flows = ConfirmedMs(bench.problem, estimator.Current(), fabric);
        EXPECT_NEAR(estimate, flows, 0.03 * flows) << name;
        Rng rng(11, name);
        for (int k = 0; k < 6; ++k)
        {
            (void)Walk(estimator, space, bench.problem, options, 30, rng);
            const double ms = estimator.Run();
            errors.push_back(
                std::fabs(ms / ConfirmedMs(bench.problem, estimator.Current(), fabric) - 1));
        }
    }
    std::sort(errors.begin(), errors.end());
    std::printf("estimate against flows, %zu strategies: median %.1f %%, worst %.1f %%\n",
                errors.size(),
                errors[errors.size() / 2] * 100,
                errors.back() * 100);
    EXPECT_LT(errors[errors.size() / 2], 0.03);
    EXPECT_LT(errors.back(), 0.25);
}

/** Small cases solved by enumeration: 95 of 100 seeds must find the optimum. */
TEST(Search, FindsTheOptimumOfSmallCases)
{
    struct Case
    {
        const char* name;
        const char* operators;
        std::uint32_t batch;
        bool tensor;
        bool fixed;
    };

    const char* const table = "  - {op: embedding, inputs: i, rows: 100000, dim: 512, as: t}\n"
                              "  - {op: dense, inputs: t, out: 8192}\n"
                              "  - {op: dense, out: 16}\n";
    const char* const branches = "  - {op: dense, inputs: x, out: 4096, as: a}\n"
                                 "  - {op: dense, inputs: x, out: 4096, as: b}\n"
                                 "  - {op: add, inputs: [a, b]}\n";
    // Much to compute and few weights, then the opposite: best on different numbers of servers.
    const char* const mixed = "  - {op: attention, inputs: s, heads: 8}\n"
                              "  - {op: flat}\n"
                              "  - {op: dense, out: 4096}\n";
    const char* const deep = "  - {op: embedding, inputs: i, rows: 100000, dim: 256, as: t}\n"
                             "  - {op: dense, inputs: x, out: 1024, as: a}\n"
                             "  - {op: concat, inputs: [t, a]}\n"
                             "  - {op: dense, out: 2048}\n"
                             "  - {op: dense, out: 8}\n";
    int between = 0; // optima that are neither data parallelism nor a single server
    for (const Case& c : {Case{"a table beside layers", deep, 256, false, true},
                          Case{"computation, then weights", mixed, 32, true, true},
                          Case{"a wide layer behind a table", table, 64, true, true},
                          Case{"branches on their own topology", branches, 512, false, false}})
    {
        Bench bench(Tiny(c.operators, c.batch), 4, BitRate{50'000'000'000});
        bench.JudgeByEstimate();
        SearchOptions options;
        options.tensor = c.tensor;
        options.fixedTopology = c.fixed;
        options.budget = 3000;
        options.threads = 1;
        const SearchSpace space(bench.model, *bench.times, 4, options);
        const Strategy start = DataParallel(bench.model, 4);

        // All strategies, on the start's topology and perhaps on their own.
        IterationEstimator estimator = bench.Estimator();
        estimator.Set(start);
        const Fabric fabric = bench.problem.topology(estimator.CurrentDemand());
        estimator.SetFabric(fabric);
        const double first = estimator.Run();
        double optimum = first;
        Strategy best = start;
        const auto count = static_cast<std::uint32_t>(bench.model.operators.size());
        std::vector<std::vector<OperatorSplit>> all;
        for (std::uint32_t op = 0; op < count; ++op)
        {
            all.push_back(space.All(op));
            estimator.Change(op, all[op][0]);
        }
        std::vector<std::size_t> at(count, 0);
        std::size_t strategies = 0;
        for (bool more = true; more;)
        {
            ++strategies;
            double ms = estimator.Run();
            if (!c.fixed)
            {
                const Fabric own = bench.problem.topology(estimator.CurrentDemand());
                estimator.SetFabric(own);
                ms = std::min(ms, estimator.Run());
                estimator.SetFabric(fabric);
            }
            if (ms < optimum)
            {
                optimum = ms;
                best = estimator.Current();
            }
            more = false;
            for (std::uint32_t op = 0; op < count && !more; ++op)
            {
                at[op] = (at[op] + 1) % all[op].size();
                estimator.Change(op, all[op][at[op]]);
                more = at[op] != 0;
            }
        }
        std::set<RankId> used;
        for (const OperatorSplit& split : best.operators)
        {
            used.insert(split.ranks.begin(), split.ranks.end());
        }
        between += used.size() > 1 && optimum < first * 0.999 ? 1 : 0;
        int found = 0;
        for (std::uint64_t seed = 0; seed < 100; ++seed)
        {
            options.seed = seed;
            const SearchResult result = Optimise(bench.problem, start, options);
            EXPECT_GE(result.confirmedMs, optimum * (1 - 1e-9));
            found += result.confirmedMs <= optimum * (1 + 1e-9) ? 1 : 0;
        }
        std::printf("%s, batch %u: optimum %.4f ms of %zu strategies (data parallel %.4f), found "
                    "by %d of 100 seeds: %s\n",
                    c.name,
                    c.batch,
                    optimum,
                    strategies,
                    first,
                    found,
                    Summary(bench.model, best).c_str());
        EXPECT_GE(found, 95) << c.name;
    }
    EXPECT_GE(between, 1);
}

TEST(Search, IsTheSameOnAnyNumberOfThreads)
{
    Bench bench(LoadOwn("candle", "shared-16"), 4);
    SearchOptions options;
    options.budget = 160;
    options.rounds = 2;
    options.restarts = 4;
    options.ignoreMemory = true;
    options.threads = 1;
    const Strategy start = DataParallel(bench.model, 16);
    const SearchResult one = Optimise(bench.problem, start, options);
    options.threads = 4;
    const SearchResult four = Optimise(bench.problem, start, options);
    EXPECT_EQ(one.confirmedMs, four.confirmedMs);
    EXPECT_TRUE(one.strategy.operators == four.strategy.operators);
    EXPECT_EQ(one.rounds.size(), four.rounds.size());
    options.seed = 2;
    EXPECT_LE(Optimise(bench.problem, start, options).confirmedMs, one.startMs);
}

TEST(Search, AlternatingBeatsDataParallelismOnBranches)
{
    // Five wide branches: given groups of servers of their own, they reduce far fewer bytes each.
    Bench bench(LoadOwn("candle", "shared-16"), 4);
    SearchOptions options;
    options.budget = 1000;
    options.ignoreMemory = true;
    std::vector<std::string> lines;
    options.log = [&](const std::string& line) { lines.push_back(line); };
    const SearchResult result = Optimise(bench.problem, DataParallel(bench.model, 16), options);
    EXPECT_LT(result.confirmedMs, 0.9 * result.startMs);
    EXPECT_EQ(lines.size(), result.rounds.size());
    EXPECT_EQ(lines.at(0).find("round 1: estimate "), 0U);
    CheckStrategy(bench.model, result.strategy, 16);
    EXPECT_NEAR(ConfirmedMs(bench.problem, result.strategy, result.fabric),
                result.confirmedMs,
                1e-9 * result.confirmedMs);
}

TEST(Search, KeepsTheBestWhenInterrupted)
{
    Bench bench(LoadOwn("dlrm", "shared-16"), 4);
    std::atomic<bool> interrupt{true};
    SearchOptions options;
    options.interrupt = &interrupt;
    const Strategy start = DataParallel(bench.model, 16);
    for (const bool flexnet : {false, true})
    {
        options.flexnet = flexnet;
        const SearchResult result = Optimise(bench.problem, start, options);
        EXPECT_TRUE(result.interrupted);
        EXPECT_TRUE(result.strategy.operators == start.operators);
        EXPECT_EQ(result.confirmedMs, result.startMs);
        EXPECT_GT(result.startMs, 0);
    }
}

TEST(Search, FlexNetProposesWhatTheReferenceDoes)
{
    const Model model = LoadOwn("dlrm", "shared-16");
    const ComputeTimes times(model, kRoots);
    SearchOptions options;
    options.flexnet = true;
    const SearchSpace space(model, times, 16, options);
    Strategy strategy = DataParallel(model, 16);
    Rng rng(5, "proposals");
    const auto last = static_cast<std::uint32_t>(model.operators.size() - 1);
    std::set<std::uint32_t> parts;
    int lastByItself = 0;
    for (int k = 0; k < 4000; ++k)
    {
        const SearchMove move = space.Propose(strategy, rng);
        for (const auto& [op, split] : move)
        {
            EXPECT_EQ(split.tensorParts, 1U);
            if (model.operators[op].IsTable())
            {
                EXPECT_EQ(split.ranks.size(), 1U);
                continue;
            }
            parts.insert(split.dataParts);
            // Regular stride.
            for (std::size_t i = 1; i < split.ranks.size(); ++i)
            {
                EXPECT_EQ(split.ranks[i] - split.ranks[i - 1], 16 / split.dataParts);
            }
            lastByItself += move.size() == 1 && op == last && split.dataParts != 16 ? 1 : 0;
        }
        if (k % 100 == 0 && !move.empty() && move[0].first != last)
        {
            strategy.operators[move[0].first] = move[0].second;
        }
    }
    EXPECT_EQ(parts, (std::set<std::uint32_t>{1, 2, 4, 8, 16}));
    // Only propagation may reach the last operator.
    EXPECT_LT(lastByItself, 100);
}

TEST(Search, FlexNetWalkIsReproducibleAndNeverWorse)
{
    Bench bench(LoadOwn("dlrm", "shared-16"), 4);
    SearchOptions options;
    options.flexnet = true;
    options.budget = 200;
    bench.problem.estimate.wire = FlowWire::FlexNet();
    const Strategy start = DataParallel(bench.model, 16);
    const SearchResult a = Optimise(bench.problem, start, options);
    const SearchResult b = Optimise(bench.problem, start, options);
    EXPECT_EQ(a.proposals, 201U);
    EXPECT_GT(a.topologies, 1U);
    EXPECT_LE(a.confirmedMs, a.startMs);
    EXPECT_EQ(a.confirmedMs, b.confirmedMs);
    EXPECT_TRUE(a.strategy.operators == b.strategy.operators);
}

TEST(Search, HybridGridOrdersWhatFits)
{
    Bench bench(LoadOwn("gpt3", "shared-16"), 8);
    bench.problem.ranksPerServer = 8;
    bench.problem.estimate.intraRate = BitRate{3'600'000'000'000};
    const auto grid = HybridGrid(bench.problem, BitRate{800'000'000'000}, false);
    ASSERT_GT(grid.size(), 5U);
    for (std::size_t i = 0; i < grid.size(); ++i)
    {
        EXPECT_TRUE(i == 0 || grid[i - 1].boundMs <= grid[i].boundMs);
        EXPECT_TRUE(MemoryOf(bench.model, grid[i].strategy, 128, bench.times->GetDevice()).Fits());
    }
    // 13 billion weights at 16 B do not fit into 80 GB unsplit.
    EXPECT_TRUE(std::none_of(grid.begin(), grid.end(), [](const HybridCandidate& c) {
        return c.options.tensor * c.options.pipeline == 1;
    }));
}

TEST(Search, OptionsAreChecked)
{
    const SearchOptions options = ReadSearchOptions(
        {{"search", "mcmc"}, {"budget", "12"}, {"temperature", "0.5"}, {"compat", "flexnet"}},
        9,
        "x");
    EXPECT_TRUE(options.fixedTopology);
    EXPECT_EQ(options.budget, 12U);
    EXPECT_EQ(options.seed, 9U);
    EXPECT_TRUE(options.flexnet);
    for (const auto& [key, value] : std::map<std::string, std::string>{{"search", "mcmcc"},
                                                                       {"budget", "-1"},
                                                                       {"rounds", "0"},
                                                                       {"alpha", "x"},
                                                                       {"threads", "1e3"}})
    {
        EXPECT_THROW((void)ReadSearchOptions({{key, value}}, 1, "x"), SpecError) << key;
    }
}

TEST(Search, TopologiesAreNamedByTheirRings)
{
    Topology topology(6);
    for (ServerId i = 0; i < 6; ++i)
    {
        topology.AddDuplexLink(i, (i + 1) % 6, BitRate{1'000'000'000}, 0);
    }
    EXPECT_EQ(DescribeTopology(topology), "+-1");
    topology.AddDuplexLink(0, 3, BitRate{1'000'000'000}, 0);
    EXPECT_EQ(DescribeTopology(topology), "+-1 and 2 other cables");
    topology.AddSwitch("x");
    EXPECT_EQ(DescribeTopology(topology), "");
}
