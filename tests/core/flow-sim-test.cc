// SPDX-License-Identifier: GPL-2.0-only
#include "one-collective.h"
#include "topoopt/core/flow-sim.h"
#include "topoopt/core/max-min.h"
#include "topoopt/core/random.h"
#include "topoopt/core/readers/flexnet.h"
#include "topoopt/core/strategy.h"
#include "topoopt/core/topology-kinds.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <limits>

using namespace topoopt;

namespace
{

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr BitRate k100G{100'000'000'000};

struct TestFlow
{
    std::vector<LinkUse> uses;
    double weight;
    double cap;
};

/** Progressive filling, one bottleneck at a time, everything recomputed at every step. */
std::vector<double>
BruteForce(const std::vector<double>& capacities, const std::vector<TestFlow>& flows)
{
    std::vector<double> rates(flows.size(), -1.0);
    for (;;)
    {
        double level = kInfinity;
        for (std::size_t l = 0; l < capacities.size(); ++l)
        {
            double left = capacities[l];
            double active = 0;
            for (std::size_t f = 0; f < flows.size(); ++f)
            {
                for (const LinkUse& use : flows[f].uses)
                {
                    if (use.link == l)
                    {
                        (rates[f] < 0 ? active : left) +=
                            rates[f] < 0 ? use.times * flows[f].weight : -(use.times * rates[f]);
                    }
                }
            }
            level = active > 0 ? std::min(level, left / active) : level;
        }
        for (std::size_t f = 0; f < flows.size(); ++f)
        {
            level = rates[f] < 0 ? std::min(level, flows[f].cap / flows[f].weight) : level;
        }
        if (level == kInfinity)
        {
            return rates;
        }
        // Freeze everything that meets its limit at this level.
        std::vector<bool> full(capacities.size());
        for (std::size_t l = 0; l < capacities.size(); ++l)
        {
            double used = 0;
            bool any = false;
            for (std::size_t f = 0; f < flows.size(); ++f)
            {
                for (const LinkUse& use : flows[f].uses)
                {
                    if (use.link == l)
                    {
                        used += use.times * (rates[f] < 0 ? flows[f].weight * level : rates[f]);
                        any = any || rates[f] < 0;
                    }
                }
            }
            full[l] = any && used >= capacities[l] * (1 - 1e-9);
        }
        std::vector<double> next = rates;
        for (std::size_t f = 0; f < flows.size(); ++f)
        {
            bool stop = rates[f] < 0 && flows[f].cap / flows[f].weight <= level * (1 + 1e-9);
            for (const LinkUse& use : flows[f].uses)
            {
                stop = stop || (rates[f] < 0 && full[use.link]);
            }
            next[f] = stop ? std::min(flows[f].cap, flows[f].weight * level) : rates[f];
        }
        rates = next;
    }
}

TestFlow
RandomFlow(Rng& rng, std::size_t links)
{
    TestFlow flow;
    for (LinkId l = 0; l < links; ++l)
    {
        if (rng.Below(3) == 0)
        {
            flow.uses.push_back({l, static_cast<std::uint32_t>(1 + rng.Below(2))});
        }
    }
    if (flow.uses.empty())
    {
        flow.uses.push_back({static_cast<LinkId>(rng.Below(links)), 1});
    }
    flow.weight = rng.Below(2) == 0 ? 1.0 : 0.25 + rng.Uniform() * 4;
    flow.cap = rng.Below(3) == 0 ? 0.1 + rng.Uniform() * 5 : kInfinity;
    return flow;
}

/** A ring of servers with one cable to each neighbour, shortest paths, rings in both directions. */
Fabric
Circle(std::uint32_t n, SimTime delay = kMicrosecond)
{
    Fabric fabric;
    fabric.kind = "test";
    fabric.topology = Topology(n);
    for (ServerId i = 0; i < n; ++i)
    {
        fabric.topology.AddDuplexLink(i, (i + 1) % n, k100G, delay);
    }
    fabric.router = std::make_shared<EcmpRouter>(fabric.topology, 1);
    return fabric;
}

TaskGraph
OneTransfer(std::uint32_t ranks, RankId src, RankId dst, Bytes bytes)
{
    TaskGraph graph;
    graph.ranks = ranks;
    graph.transfers.push_back({src, dst, bytes, 0});
    Task task;
    task.kind = TaskKind::Transfer;
    task.rank = src;
    task.object = 0;
    graph.Add(task);
    graph.Finalize("test");
    return graph;
}

TaskGraph
OneCollective(CollectiveKind kind, std::uint32_t ranks, Bytes bytes)
{
    CollectiveCall call;
    call.kind = kind;
    call.bytes = bytes;
    return test::OneCollective(ranks, call);
}

std::string
SharedDirectory()
{
    const char* shared = std::getenv("TOPOOPT_SHARED");
    return shared != nullptr ? shared : std::string(TOPOOPT_SOURCE_DIR) + "/../shared";
}

} // namespace

TEST(MaxMin, AgreesWithBruteForce)
{
    for (std::uint64_t seed = 0; seed < 300; ++seed)
    {
        Rng rng(seed, "max-min");
        const std::size_t links = 1 + rng.Below(6);
        std::vector<double> capacities;
        for (std::size_t l = 0; l < links; ++l)
        {
            capacities.push_back(0.5 + rng.Uniform() * 10);
        }
        std::vector<TestFlow> flows(1 + rng.Below(8));
        MaxMin solver(capacities);
        std::vector<MaxMin::FlowId> ids;
        for (TestFlow& flow : flows)
        {
            flow = RandomFlow(rng, links);
            ids.push_back(solver.Add(flow.uses, flow.weight, flow.cap));
        }
        (void)solver.Solve();
        const std::vector<double> expected = BruteForce(capacities, flows);
        for (std::size_t f = 0; f < flows.size(); ++f)
        {
            EXPECT_NEAR(solver.Rate(ids[f]), expected[f], 1e-9 * (1 + expected[f])) << seed;
        }
    }
}

TEST(MaxMin, ChangesOneByOneGiveTheSameAsAllAtOnce)
{
    for (std::uint64_t seed = 0; seed < 60; ++seed)
    {
        Rng rng(seed, "max-min-steps");
        const std::size_t links = 4 + rng.Below(12);
        const std::vector<double> capacities(links, 10.0);
        MaxMin solver(capacities);
        std::vector<std::pair<MaxMin::FlowId, TestFlow>> alive;
        for (int step = 0; step < 60; ++step)
        {
            if (!alive.empty() && rng.Below(2) == 0)
            {
                const std::size_t k = rng.Below(alive.size());
                solver.Remove(alive[k].first);
                alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(k));
            }
            else
            {
                const TestFlow flow = RandomFlow(rng, links);
                alive.emplace_back(solver.Add(flow.uses, flow.weight, flow.cap), flow);
            }
            (void)solver.Solve();
            std::vector<TestFlow> flows;
            for (const auto& [id, flow] : alive)
            {
                flows.push_back(flow);
            }
            const std::vector<double> expected = BruteForce(capacities, flows);
            for (std::size_t f = 0; f < flows.size(); ++f)
            {
                ASSERT_NEAR(solver.Rate(alive[f].first), expected[f], 1e-9 * (1 + expected[f]))
                    << seed << " " << step;
            }
        }
    }
}

TEST(MaxMin, OnlyReportsWhatChanged)
{
    MaxMin solver({10.0, 10.0, 10.0});
    const auto a = solver.Add({{0, 1}}, 1, kInfinity);
    const auto b = solver.Add({{1, 1}}, 1, kInfinity);
    EXPECT_EQ(solver.Solve().size(), 2U);
    EXPECT_FALSE(solver.Dirty());
    const auto c = solver.Add({{1, 1}, {2, 1}}, 1, kInfinity);
    EXPECT_EQ(solver.Solve(), (std::vector<MaxMin::FlowId>{b, c}));
    EXPECT_DOUBLE_EQ(solver.Rate(a), 10.0);
    EXPECT_DOUBLE_EQ(solver.Rate(c), 5.0);
    solver.Remove(b);
    EXPECT_EQ(solver.Solve(), (std::vector<MaxMin::FlowId>{c}));
    EXPECT_DOUBLE_EQ(solver.Rate(c), 10.0);
}

/** Docs/topoopt-spec 7.1: closed form of one flow in the reference's transport, equal to its log. */
TEST(FlowSim, OneMessageTakesTheClosedForm)
{
    struct Row
    {
        Bytes bytes;
        std::uint32_t hops;
        double us;
    };

    for (const Row& row : {Row{8936, 1, 2.71496},
                           Row{32768, 1, 4.8596},
                           Row{131072, 1, 12.7233},
                           Row{524288, 1, 44.178},
                           Row{524288, 2, 46.893},
                           Row{524288, 3, 49.6081},
                           Row{524288, 5, 55.0378},
                           Row{15'859'712, 1, 1270.91}})
    {
        FlowSimOptions options;
        options.wire = FlowWire::FlexNet();
        const FlowSimResult result =
            SimulateFlows(OneTransfer(12, 0, row.hops, row.bytes), Circle(12), options);
        EXPECT_NEAR(static_cast<double>(result.finish) / 1e6, row.us, row.us * 1e-5 + 1e-4)
            << row.bytes;
        EXPECT_TRUE(result.complete);
        ASSERT_EQ(result.flows.size(), 1U);
        EXPECT_EQ(result.flows[0].hops, row.hops);
        EXPECT_EQ(result.flows[0].end, result.finish);
    }
}

TEST(FlowSim, TwoMessagesShareALink)
{
    TaskGraph graph;
    graph.ranks = 4;
    for (const Bytes bytes : {Bytes{8'956'000}, Bytes{17'912'000}})
    {
        Task task;
        task.kind = TaskKind::Transfer;
        task.rank = 0;
        task.object = static_cast<std::uint32_t>(graph.transfers.size());
        graph.transfers.push_back({0, 1, bytes, 0});
        graph.Add(task);
    }
    graph.Finalize("test");
    const FlowSimResult result = SimulateFlows(graph, Circle(4));
    // Half the rate each until the smaller one is through.
    const SimTime small = TxTime(2 * 1000 * 9038, k100G) + kMicrosecond;
    const SimTime large = TxTime(3 * 1000 * 9038, k100G) + kMicrosecond;
    EXPECT_NEAR(static_cast<double>(result.taskEnd[0]), static_cast<double>(small), 10);
    EXPECT_NEAR(static_cast<double>(result.taskEnd[1]), static_cast<double>(large), 10);
}

/** Docs/topoopt-spec 7.3: empty-network time of one AllReduce over a full ring. */
TEST(FlowSim, RingAllReduceTakesTheClosedForm)
{
    const std::uint32_t g = 16;
    FlowSimOptions options;
    options.wire = FlowWire::FlexNet();
    for (const Bytes bytes : {Bytes{64}, Bytes{1} << 20U, Bytes{67'108'864}})
    {
        const FlowSimResult result =
            SimulateFlows(OneCollective(CollectiveKind::AllReduce, g, bytes), Circle(g), options);
        const double packets = std::max(1.0, std::ceil(static_cast<double>(bytes) / g / 8936));
        const double step = 1.0 + 8e-5 + packets * 0.71488 + 1.0;
        EXPECT_NEAR(static_cast<double>(result.finish) / 1e6, 2 * (g - 1) * step, 0.01) << bytes;
    }
}

TEST(FlowSim, RingsAsFlowsAreNearTheirMessages)
{
    for (const CollectiveKind kind :
         {CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::ReduceScatter})
    {
        const TaskGraph graph = OneCollective(kind, 8, 8'000'000);
        FlowSimOptions options;
        const FlowSimResult fast = SimulateFlows(graph, Circle(8), options);
        options.ringsAsFlows = false;
        const FlowSimResult slow = SimulateFlows(graph, Circle(8), options);
        EXPECT_TRUE(fast.complete && slow.complete);
        EXPECT_NEAR(static_cast<double>(fast.finish),
                    static_cast<double>(slow.finish),
                    static_cast<double>(slow.finish) * 0.002)
            << Name(kind);
        for (std::size_t l = 0; l < fast.linkBytes.size(); ++l)
        {
            EXPECT_NEAR(fast.linkBytes[l], slow.linkBytes[l], 100 + slow.linkBytes[l] * 1e-4);
        }
    }
}

/** Steps follow each other round the ring and pay for each hop in turn, unless a barrier makes all wait for the slowest. */
TEST(FlowSim, RingWithOneLongHopPaysForItOncePerRound)
{
    const std::uint32_t n = 8;
    const SimTime slow = 50 * kMicrosecond;
    Fabric fabric = Circle(n);
    fabric.topology = Topology(n);
    for (ServerId i = 0; i < n; ++i)
    {
        fabric.topology.AddDuplexLink(i, (i + 1) % n, k100G, i == 3 ? slow : kMicrosecond);
    }
    fabric.router = std::make_shared<EcmpRouter>(fabric.topology, 1);
    const Bytes bytes = 8 * 8956;
    const SimTime packet = TxTime(9038, k100G);
    for (const auto& [kind, steps, slowSteps] : {std::tuple{CollectiveKind::AllReduce, 14, 2},
                                                 std::tuple{CollectiveKind::ReduceScatter, 7, 1}})
    {
        const TaskGraph graph = OneCollective(kind, n, bytes);
        FlowSimOptions options;
        const SimTime expected =
            steps * packet + slowSteps * slow + (steps - slowSteps) * kMicrosecond;
        EXPECT_NEAR(static_cast<double>(SimulateFlows(graph, fabric, options).finish),
                    static_cast<double>(expected),
                    100)
            << Name(kind);
        options.ringsAsFlows = false;
        EXPECT_NEAR(static_cast<double>(SimulateFlows(graph, fabric, options).finish),
                    static_cast<double>(expected),
                    100)
            << Name(kind);
        options.ringsAsFlows = true;
        options.wire.barrier = true;
        EXPECT_NEAR(static_cast<double>(SimulateFlows(graph, fabric, options).finish),
                    static_cast<double>(steps * (packet + slow)),
                    100)
            << Name(kind);
    }
}

/** Both ways of moving a ring take the same paths, and so meet on the same links of a Fat-tree; short chunks meet less often. */
TEST(FlowSim, RingsOnAFatTreeAreNearTheirMessages)
{
    for (const std::uint64_t seed : {1, 2, 3, 4, 5})
    {
        for (const auto& [bytes, tolerance] :
             {std::pair{Bytes{65'536}, 0.25}, std::pair{Bytes{16'000'000}, 0.02}})
        {
            FabricSpec spec;
            spec.kind = "fat-tree";
            FabricContext context;
            context.servers.count = 16;
            context.servers.nics = 1;
            context.seed = seed;
            const Fabric fabric = BuildFabric(spec, context);
            const TaskGraph graph = OneCollective(CollectiveKind::AllReduce, 16, bytes);
            FlowSimOptions options;
            const FlowSimResult fast = SimulateFlows(graph, fabric, options);
            options.ringsAsFlows = false;
            const FlowSimResult slow = SimulateFlows(graph, fabric, options);
            EXPECT_NEAR(static_cast<double>(fast.finish),
                        static_cast<double>(slow.finish),
                        static_cast<double>(slow.finish) * tolerance)
                << seed << ' ' << bytes;
            for (std::size_t l = 0; l < fast.linkBytes.size(); ++l)
            {
                EXPECT_NEAR(fast.linkBytes[l], slow.linkBytes[l], 100 + slow.linkBytes[l] * 1e-3)
                    << seed;
            }
        }
    }
}

TEST(FlowSim, EveryCollectiveEnds)
{
    for (const CollectiveKind kind : {CollectiveKind::AllReduce,
                                      CollectiveKind::Reduce,
                                      CollectiveKind::AllGather,
                                      CollectiveKind::Gather,
                                      CollectiveKind::Scatter,
                                      CollectiveKind::Broadcast,
                                      CollectiveKind::AllToAll,
                                      CollectiveKind::ReduceScatter,
                                      CollectiveKind::Barrier})
    {
        for (const std::uint32_t ranks : {1U, 2U, 5U, 8U, 16U})
        {
            // 16 ranks on 8 servers: neighbours share one.
            const FlowSimResult result =
                SimulateFlows(OneCollective(kind, ranks, 1'000'000), Circle(8));
            EXPECT_TRUE(result.complete) << Name(kind) << ranks;
        }
    }
}

TEST(FlowSim, DoublingTheRateHalvesTheTimeOfLargeMessages)
{
    const TaskGraph graph = OneCollective(CollectiveKind::AllToAll, 8, 80'000'000);
    Fabric slow = Circle(8, 0);
    Fabric fast = Circle(8, 0);
    for (Link& link : fast.topology.links)
    {
        link.rate.bps *= 2;
    }
    const auto a = static_cast<double>(SimulateFlows(graph, slow).finish);
    const auto b = static_cast<double>(SimulateFlows(graph, fast).finish);
    EXPECT_NEAR(a / b, 2.0, 1e-6);
}

TEST(FlowSim, LinksAreNeverBusierThanTime)
{
    ModelOptions modelOptions;
    modelOptions.roots = {TOPOOPT_SOURCE_DIR};
    modelOptions.configuration = "shared-16";
    const Model model = LoadModel("dlrm", modelOptions);
    BuildOptions build;
    build.roots = modelOptions.roots;
    const TaskGraph graph = BuildIteration(model, DataParallel(model, 16), 16, 1, 2, build);
    FabricContext context;
    context.servers.count = 16;
    context.servers.nics = 4;
    FabricSpec spec;
    spec.kind = "topoopt";
    const Fabric fabric = BuildFabric(spec, context);
    FlowSimOptions options;
    const FlowSimResult exact = SimulateFlows(graph, fabric, options);
    ASSERT_TRUE(exact.complete);
    ASSERT_EQ(exact.iterations.size(), 2U);
    // The second iteration is like the first, but for paths that a hash draws anew.
    EXPECT_NEAR(static_cast<double>(exact.iterations[1]),
                static_cast<double>(exact.iterations[0]),
                0.05 * static_cast<double>(exact.iterations[0]));
    for (std::size_t l = 0; l < exact.linkBytes.size(); ++l)
    {
        EXPECT_LE(exact.linkBytes[l] * 8e12 / 100e9,
                  static_cast<double>(exact.finish) * (1 + 1e-9));
    }
    // Deterministic, and a quantum changes little.
    const FlowSimResult again = SimulateFlows(graph, fabric, options);
    EXPECT_EQ(again.taskEnd, exact.taskEnd);
    options.quantum = 10 * kMicrosecond;
    const FlowSimResult coarse = SimulateFlows(graph, fabric, options);
    EXPECT_LT(coarse.solves, exact.solves);
    EXPECT_NEAR(static_cast<double>(coarse.finish),
                static_cast<double>(exact.finish),
                0.02 * static_cast<double>(exact.finish));
}

/** The last task of a job may be a computation: nothing is looked up in a job that is over. */
TEST(FlowSim, MayEndWithAComputation)
{
    TaskGraph graph;
    graph.ranks = 3;
    TaskId last = kNoId;
    for (const RankId rank : {0U, 2U, 1U})
    {
        Task task;
        task.kind = TaskKind::Compute;
        task.rank = rank;
        task.duration = 5 * kMicrosecond;
        const TaskId id = graph.Add(task);
        if (last != kNoId)
        {
            graph.AddDependency(last, id);
        }
        last = id;
    }
    graph.Finalize("test");
    const FlowSimResult result = SimulateFlows(graph, Circle(3));
    EXPECT_TRUE(result.complete);
    EXPECT_EQ(result.finish, 15 * kMicrosecond);
}

TEST(FlowSim, StopsWhenToldTo)
{
    const TaskGraph graph = OneTransfer(4, 0, 1, 1'000'000'000);
    FlowSimOptions options;
    options.stop = kMillisecond;
    const FlowSimResult stopped = SimulateFlows(graph, Circle(4), options);
    EXPECT_FALSE(stopped.complete);
    EXPECT_EQ(stopped.flows.at(0).end, kNever);
    std::atomic<bool> interrupt{true};
    options = {};
    options.interrupt = &interrupt;
    EXPECT_FALSE(SimulateFlows(graph, Circle(4), options).complete);
}

/** Published and converted task graphs of the reference, against its packet simulator. */
TEST(FlowSim, IsNearTheReferencePacketSimulator)
{
    const std::filesystem::path directory =
        std::filesystem::path(SharedDirectory()) / "golden" / "taskgraphs";
    if (!std::filesystem::is_directory(directory))
    {
        GTEST_SKIP() << "no " << directory;
    }

    struct Row
    {
        const char* file;
        std::uint64_t gbps;
        double ms;
        bool star;
    };

    for (const Row& row : {Row{"transformer_d4.fbuf", 100, 62.815131375, false},
                           Row{"transformer_d8.fbuf", 100, 62.643560175, false},
                           Row{"vgg_d4.fbuf", 100, 100.480326542, false},
                           Row{"dlrm_d4.fbuf", 100, 21.801435997, false},
                           Row{"dlrm_d8.fbuf", 100, 15.400924696, false},
                           Row{"candle_dp_d4.fbuf", 100, 217.122040886, false},
                           Row{"ring12_d4.fbuf", 25, 216.909837702, false},
                           Row{"ring12_d4.fbuf", 100, 185.543802982, false},
                           Row{"100dlrm_16.fbuf", 100, 61.166911877, true},
                           Row{"100transformer_16.fbuf", 100, 63.968900175, true},
                           Row{"100vgg_16.fbuf", 100, 210.403519839, true}})
    {
        const FlexNetGraph graph = ReadFlexNet((directory / row.file).string());
        const TaskGraph tasks = FlexNetTaskGraph(graph);
        const BitRate rate{row.gbps * 1'000'000'000};
        Fabric fabric;
        if (row.star)
        {
            FabricContext context;
            context.servers.count = tasks.ranks;
            context.servers.rate = rate;
            FabricSpec spec;
            spec.kind = "ideal-switch";
            fabric = BuildFabric(spec, context);
        }
        else
        {
            fabric = FlexNetFabric(graph, rate, kMicrosecond, 1);
        }
        FlowSimOptions options;
        options.wire = FlowWire::FlexNet();
        const double ms = static_cast<double>(SimulateFlows(tasks, fabric, options).finish) / 1e9;
        std::printf("%-24s %3u Gbps: %.4f ms, reference %.4f ms, %+.2f %%\n",
                    row.file,
                    static_cast<unsigned>(row.gbps),
                    ms,
                    row.ms,
                    (ms / row.ms - 1) * 100);
        EXPECT_NEAR(ms, row.ms, 0.03 * row.ms) << row.file;
    }
}

/** The same jobs built from model files: BERT and VGG on {1, 5}, within the fluid model's own error. */
TEST(FlowSim, ModelsOnTheCirculantMeetTheReference)
{
    struct Row
    {
        const char* model;
        double ms;
        double tolerance;
    };

    for (const Row& row : {Row{"bert", 62.815131375, 1e-4},
                           Row{"vgg16", 100.480326542, 0.002},
                           // The reference draws one route per displacement; ours balances.
                           Row{"dlrm", 21.801435997, 0.10},
                           Row{"candle", 217.122040886, 0.02}})
    {
        ModelOptions modelOptions;
        modelOptions.roots = {TOPOOPT_SOURCE_DIR};
        modelOptions.configuration = "shared-16";
        const Model model = LoadModel(row.model, modelOptions);
        BuildOptions build;
        build.roots = modelOptions.roots;
        build.flexnet = true;
        const TaskGraph graph = BuildIteration(model, DataParallel(model, 16), 16, 1, 1, build);
        FabricContext context;
        context.servers.count = 16;
        context.servers.nics = 4;
        FabricSpec spec;
        spec.kind = "topoopt";
        FlowSimOptions options;
        options.wire = FlowWire::FlexNet();
        const double ms =
            static_cast<double>(SimulateFlows(graph, BuildFabric(spec, context), options).finish) /
            1e9;
        std::printf("%s: %.4f ms, reference %.4f ms\n", row.model, ms, row.ms);
        EXPECT_NEAR(ms, row.ms, row.tolerance * row.ms) << row.model;
    }
}
