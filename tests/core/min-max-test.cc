// SPDX-License-Identifier: GPL-2.0-only
#include "../temp-path.h"
#include "topoopt/core/error.h"
#include "topoopt/core/graph-metrics.h"
#include "topoopt/core/min-max-routing.h"
#include "topoopt/core/random.h"
#include "topoopt/core/topology-finder.h"
#include "topoopt/core/topology-report.h"
#include "topoopt/core/topology-search.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <numeric>
#include <set>
#include <sstream>
#include <sys/wait.h>

namespace topoopt
{
namespace
{

struct Instance
{
    Topology topology;
    Demand demand;
    std::vector<double> background;
};

/** A connected random graph with one-way, parallel and unequal links. */
Instance
RandomInstance(Rng& rng)
{
    const auto n = static_cast<std::uint32_t>(2 + rng.Below(9));
    Instance instance{Topology(n), Demand(n), {}};
    const auto rate = [&] { return BitRate{(1 + rng.Below(4)) * 8'000'000}; };
    for (ServerId s = 0; s < n; ++s)
    {
        instance.topology.AddLink(s, (s + 1) % n, rate(), 0);
    }
    for (std::uint64_t extra = rng.Below(2 * n); extra > 0; --extra)
    {
        const auto a = static_cast<NodeId>(rng.Below(n));
        const auto b = static_cast<NodeId>(rng.Below(n));
        if (a != b)
        {
            instance.topology.AddDuplexLink(a, b, rate(), 0);
        }
    }
    for (std::uint64_t pairs = 1 + rng.Below(2 * n); pairs > 0; --pairs)
    {
        const auto a = static_cast<NodeId>(rng.Below(n));
        const auto b = static_cast<NodeId>(rng.Below(n));
        instance.demand.At(a, b) = a == b ? 0 : 1 + rng.Below(1'000'000);
    }
    for (std::size_t link = 0; link < instance.topology.links.size(); ++link)
    {
        instance.background.push_back(rng.Below(3) == 0 ? static_cast<double>(rng.Below(500'000))
                                                        : 0);
    }
    return instance;
}

void
CheckResult(const Instance& instance, const MinMaxResult& result)
{
    std::vector<double> load = instance.background;
    load.resize(instance.topology.links.size());
    std::size_t pairs = 0;
    for (const SplitPair& pair : result.pairs)
    {
        double sum = 0;
        for (const auto& [path, share] : pair.paths)
        {
            CheckPath(instance.topology, path, pair.src, pair.dst);
            EXPECT_GT(share, 0);
            sum += share;
            for (LinkId link : path)
            {
                load[link] += share * static_cast<double>(instance.demand.At(pair.src, pair.dst));
            }
        }
        EXPECT_NEAR(sum, 1, 1e-9);
        ++pairs;
    }
    EXPECT_EQ(pairs,
              static_cast<std::size_t>(std::count_if(instance.demand.pairs.begin(),
                                                     instance.demand.pairs.end(),
                                                     [](Bytes bytes) { return bytes > 0; })));
    double seconds = 0;
    for (std::size_t link = 0; link < load.size(); ++link)
    {
        seconds =
            std::max(seconds,
                     8 * load[link] / static_cast<double>(instance.topology.links[link].rate.bps));
    }
    EXPECT_NEAR(seconds, result.seconds, 1e-6 * seconds);
    EXPECT_LE(result.bound, result.seconds);
}

TEST(MinMaxRoutes, GapHoldsAgainstLinearProgram)
{
    Rng rng(11, "min-max");
    std::vector<Instance> instances;
    std::ostringstream text;
    text.precision(17);
    for (int i = 0; i < 60; ++i)
    {
        instances.push_back(RandomInstance(rng));
    }
    // A case of use: the paper's topology with rings as background.
    {
        Demand demand = AllReduceOverAll(12);
        demand.allReduces[0].bytes = 300'000;
        for (ServerId a = 0; a < 12; ++a)
        {
            for (ServerId b = 0; b < 12; ++b)
            {
                demand.At(a, b) = a == b ? 0 : 10'000 * (1 + (a * b) % 5);
            }
        }
        const FoundTopology found = FindTopology(demand, 4);
        const Fabric fabric = DirectConnectFabric(found, {8'000'000}, 0, nullptr, {});
        instances.push_back({fabric.topology, demand, AllReduceLoads(fabric, demand)});
    }
    for (const Instance& instance : instances)
    {
        std::size_t pairs = 0;
        std::ostringstream lines;
        for (ServerId a = 0; a < instance.demand.servers; ++a)
        {
            for (ServerId b = 0; b < instance.demand.servers; ++b)
            {
                if (instance.demand.At(a, b) > 0)
                {
                    ++pairs;
                    lines << a << ' ' << b << ' ' << instance.demand.At(a, b) << '\n';
                }
            }
        }
        text << instance.topology.NodeCount() << ' ' << instance.topology.links.size() << ' '
             << pairs << '\n';
        for (std::size_t link = 0; link < instance.topology.links.size(); ++link)
        {
            const Link& l = instance.topology.links[link];
            text << l.src << ' ' << l.dst << ' ' << static_cast<double>(l.rate.bps) / 8 << ' '
                 << instance.background[link] << '\n';
        }
        text << lines.str();
    }
    std::vector<MinMaxResult> results;
    for (const Instance& instance : instances)
    {
        results.push_back(
            MinMaxRoutes(instance.topology, instance.demand, instance.background, {0.01, 1000}));
        CheckResult(instance, results.back());
        EXPECT_LE(results.back().Gap(), 0.01) << results.size();
    }

    const std::string file = test::TempPath("min-max-instances.txt");
    std::ofstream(file) << text.str();
    const std::string command =
        "/usr/bin/python3 " TOPOOPT_SOURCE_DIR "/tests/core/min-max-witness.py < " + file;
    FILE* pipe = popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    std::vector<double> optima;
    double optimum = 0;
    while (std::fscanf(pipe, "%lf", &optimum) == 1)
    {
        optima.push_back(optimum);
    }
    const int status = pclose(pipe);
    if (WEXITSTATUS(status) == 77)
    {
        GTEST_SKIP() << "python3-scipy is not installed: no linear program to compare with";
    }
    ASSERT_EQ(status, 0);
    ASSERT_EQ(optima.size(), instances.size());
    for (std::size_t i = 0; i < optima.size(); ++i)
    {
        EXPECT_LE(results[i].bound, optima[i] * (1 + 1e-6)) << i;
        EXPECT_GE(results[i].seconds, optima[i] * (1 - 1e-6)) << i;
    }
}

TEST(MinMaxRoutes, ClosedForms)
{
    // Two ways around a ring of four, both used: half the time of one way.
    Topology square(4);
    for (ServerId s = 0; s < 4; ++s)
    {
        square.AddDuplexLink(s, (s + 1) % 4, {8'000}, 0);
    }
    Demand demand(4);
    demand.At(0, 2) = 1000;
    MinMaxResult result = MinMaxRoutes(square, demand, {}, {1e-4, 1000});
    EXPECT_NEAR(result.seconds, 0.5, 1e-4);
    ASSERT_EQ(result.pairs.size(), 1U);
    EXPECT_EQ(result.pairs[0].paths.size(), 2U);
    // Nothing to move, or nothing that can.
    EXPECT_EQ(MinMaxRoutes(square, Demand(4), {}).seconds, 0);
    EXPECT_EQ(MinMaxRoutes(square, Demand(4), {1000, 0, 0, 0, 0, 0, 0, 0}).seconds, 1);
    Topology apart(3);
    apart.AddDuplexLink(0, 1, {8}, 0);
    Demand far(3);
    far.At(0, 2) = 1;
    EXPECT_THROW((void)MinMaxRoutes(apart, far, {}), SpecError);
    EXPECT_THROW((void)MinMaxRoutes(square, Demand(3), {}), std::invalid_argument);
}

TEST(MinMaxRoutes, BeatOneShortestPathPerPair)
{
    const Demand demand = UniformPairs(24);
    TopologyRequest request;
    request.servers = 24;
    request.degree = 4;
    request.demand = &demand;
    request.finder.split = DegreeSplit::AllReduceOnly;
    request.routing.kind = DirectRouting::RandomTree;
    const TopologyReport random = MakeTopologyReport(request);
    request.routing.kind = DirectRouting::Balanced;
    const TopologyReport balanced = MakeTopologyReport(request);
    request.routing.kind = DirectRouting::MinMax;
    const TopologyReport best = MakeTopologyReport(request);
    EXPECT_LT(balanced.demand.seconds, random.demand.seconds);
    EXPECT_LE(best.demand.seconds, balanced.demand.seconds * 1.01);
    EXPECT_GE(best.demand.ratio, 1 - 1e-9);
}

/** Least mean distance over all choices of strides, by enumeration. */
double
BestMeanHops(std::uint32_t n, std::uint32_t rings)
{
    const std::vector<std::uint32_t> candidates = TotientPerms(n);
    double best = 1e9;
    std::vector<std::size_t> pick(rings);
    for (;;)
    {
        Topology topology(n);
        for (std::size_t p : pick)
        {
            for (ServerId s = 0; s < n; ++s)
            {
                topology.AddDuplexLink(s, (s + candidates[p]) % n, {1}, 0);
            }
        }
        best = std::min(best, HopsBetweenServers(topology, true).mean);
        std::size_t at = 0;
        while (at < rings && ++pick[at] == candidates.size())
        {
            pick[at++] = 0;
        }
        if (at == rings)
        {
            return best;
        }
    }
}

TEST(SelectPermutations, AgainstBruteForceOnSmallRings)
{
    int optimal = 0;
    int all = 0;
    for (std::uint32_t n = 5; n <= 9; ++n)
    {
        for (std::uint32_t rings = 1; rings <= 3; ++rings)
        {
            const FoundTopology found = FindTopology(AllReduceOverAll(n), 2 * rings);
            const double mean = HopsBetweenServers(WireTopology(found, {1}, 0), true).mean;
            const double best = BestMeanHops(n, rings);
            EXPECT_GE(mean, best - 1e-12);
            EXPECT_LE(mean, 1.1 * best) << n << " " << rings;
            optimal += mean <= best + 1e-12 ? 1 : 0;
            ++all;
        }
    }
    EXPECT_GE(optimal, all - 1);
}

TEST(SearchTopology, IsNeverWorseAndFindsTheBestStrides)
{
    // Only strides can change: all NICs are in rings.
    for (std::uint32_t n : {11U, 13U, 17U, 19U})
    {
        const Demand uniform = UniformPairs(n);
        TopologySearchOptions options;
        options.finder.split = DegreeSplit::AllReduceOnly;
        options.evaluations = 1;
        const double start = SearchTopology(uniform, 4, options).time;
        double best = start;
        for (std::uint32_t stride : TotientPerms(n))
        {
            for (std::uint32_t other : TotientPerms(n))
            {
                FoundTopology found = FindTopology(AllReduceOverAll(n), 4);
                for (std::uint32_t ring = 0; ring < 2; ++ring)
                {
                    const std::uint32_t p = ring == 0 ? stride : other;
                    found.ringSets[0].strides[ring] = p;
                    for (ServerId m = 0; m < n; ++m)
                    {
                        found.cables[found.ringSets[0].firstCable[ring] + m].b = (m + p) % n;
                    }
                }
                best = std::min(best, TopologyTime(found, uniform));
            }
        }
        options.evaluations = 400;
        const TopologySearchResult result = SearchTopology(uniform, 4, options);
        EXPECT_EQ(result.startTime, start);
        EXPECT_LE(result.time, start);
        EXPECT_GE(result.time, best * (1 - 1e-9));
        EXPECT_LE(result.time, best * 1.02) << n;
    }
}

TEST(SearchTopology, RandomDemandsStayValid)
{
    Rng rng(13, "search");
    for (int round = 0; round < 25; ++round)
    {
        const auto n = static_cast<ServerId>(2 + rng.Below(14));
        const auto d = static_cast<std::uint32_t>(2 * (1 + rng.Below(3)));
        Demand demand = AllReduceOverAll(n);
        demand.allReduces[0].bytes = rng.Below(3) * 100'000;
        for (std::uint64_t pairs = rng.Below(30); pairs > 0; --pairs)
        {
            const auto a = static_cast<ServerId>(rng.Below(n));
            const auto b = static_cast<ServerId>(rng.Below(n));
            demand.At(a, b) = a == b ? 0 : rng.Below(1'000'000);
        }
        TopologySearchOptions options;
        options.evaluations = 80;
        options.seed = static_cast<std::uint64_t>(round);
        const TopologySearchResult result = SearchTopology(demand, d, options);
        EXPECT_LE(result.time, result.startTime);
        EXPECT_EQ(result.startTime, TopologyTime(FindTopology(demand, d), demand));
        EXPECT_NEAR(result.time, TopologyTime(result.found, demand), 1e-9 * result.time);
        std::set<std::pair<ServerId, std::uint32_t>> nics;
        for (const Cable& cable : result.found.cables)
        {
            EXPECT_NE(cable.a, cable.b);
            EXPECT_TRUE(nics.insert({cable.a, cable.nicA}).second);
            EXPECT_TRUE(nics.insert({cable.b, cable.nicB}).second);
            EXPECT_LT(cable.nicA, d);
            EXPECT_LT(cable.nicB, d);
        }
        if (n > 1)
        {
            const Topology topology = WireTopology(result.found, {1}, 0);
            EXPECT_EQ(HopsBetweenServers(topology).unreachable, 0U);
        }
        const TopologySearchResult again = SearchTopology(demand, d, options);
        EXPECT_EQ(again.time, result.time);
    }
}

} // namespace
} // namespace topoopt
