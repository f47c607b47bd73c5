// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/circulant.h"
#include "topoopt/core/error.h"
#include "topoopt/core/random.h"
#include "topoopt/core/select-permutations.h"
#include "topoopt/core/topology-finder.h"
#include "topoopt/core/topology-report.h"
#include "topoopt/core/totient-perms.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

namespace topoopt
{
namespace
{

using Strides = std::vector<std::uint32_t>;

TopologyReport
Report(std::uint32_t n, std::uint32_t d, bool flexnet, const Demand* demand = nullptr)
{
    // Means do not depend on which shortest paths are taken, and ECMP's loads are quick to sum.
    TopologyRequest request;
    request.servers = n;
    request.degree = d;
    request.demand = demand;
    request.finder.flexnet = flexnet;
    request.routing.kind = DirectRouting::Ecmp;
    return MakeTopologyReport(request);
}

/** No NIC has two cables, no server too many, rings are rings. */
void
CheckFound(const FoundTopology& found)
{
    std::set<std::pair<ServerId, std::uint32_t>> nics;
    for (const Cable& cable : found.cables)
    {
        EXPECT_LT(cable.a, found.servers);
        EXPECT_LT(cable.b, found.servers);
        EXPECT_NE(cable.a, cable.b);
        EXPECT_LT(cable.nicA, found.degree);
        EXPECT_LT(cable.nicB, found.degree);
        EXPECT_TRUE(nics.insert({cable.a, cable.nicA}).second);
        EXPECT_TRUE(nics.insert({cable.b, cable.nicB}).second);
    }
    std::set<std::pair<std::uint32_t, std::uint32_t>> ports;
    for (const Circuit& circuit : CircuitsOf(found))
    {
        EXPECT_TRUE(ports.insert({circuit.panel, circuit.portA}).second);
        EXPECT_TRUE(ports.insert({circuit.panel, circuit.portB}).second);
    }
    if (found.servers > 1)
    {
        EXPECT_EQ(HopsBetweenServers(WireTopology(found, {1}, 0)).unreachable, 0U);
    }
}

TEST(TotientPerms, AreTheStridesThatVisitEveryMember)
{
    for (std::uint32_t n = 2; n <= 60; ++n)
    {
        Strides expected;
        for (std::uint32_t p = 1; p < n; ++p)
        {
            std::set<std::uint32_t> seen;
            for (std::uint32_t at = 0; seen.insert(at).second; at = (at + p) % n)
            {
            }
            if (seen.size() == n)
            {
                expected.push_back(p);
            }
        }
        EXPECT_EQ(TotientPerms(n), expected) << n;
    }
    EXPECT_EQ(TotientPerms(20, CandidateSet::Prime), (Strides{1, 3, 7, 11, 13, 17, 19}));
    EXPECT_EQ(TotientPerms(2, CandidateSet::Prime), (Strides{1}));
    EXPECT_THROW((void)TotientPerms(1), std::invalid_argument);
}

TEST(SelectPermutations, ReleasedCodeTable)
{
    const auto select = [](std::uint32_t n, std::uint32_t pairs) {
        return SelectPermutations(n, TotientPerms(n), pairs, {GeoRounding::LowerBound, true, true});
    };
    EXPECT_EQ(select(12, 2), (Strides{1, 5}));
    EXPECT_EQ(select(16, 2), (Strides{1, 5}));
    EXPECT_EQ(select(16, 4), (Strides{1, 3, 5, 9}));
    EXPECT_EQ(select(64, 2), (Strides{1, 9}));
    EXPECT_EQ(select(64, 4), (Strides{1, 3, 9, 23}));
    EXPECT_EQ(select(128, 2), (Strides{1, 13}));
    EXPECT_EQ(select(128, 3), (Strides{1, 7, 27}));
    EXPECT_EQ(select(128, 4), (Strides{1, 5, 13, 39}));
    EXPECT_EQ(select(256, 2), (Strides{1, 17}));
    EXPECT_EQ(select(256, 4), (Strides{1, 5, 17, 65}));
    EXPECT_EQ(select(432, 2), (Strides{1, 23}));
    EXPECT_EQ(select(432, 4), (Strides{1, 5, 23, 95}));
}

TEST(SelectPermutations, PaperExampleAndRoundings)
{
    // The paper's example has one NIC per ring: n = 16, three rings, x = 16^(1/3).
    for (GeoRounding rounding : {GeoRounding::LowerBound, GeoRounding::Nearest})
    {
        EXPECT_EQ(SelectPermutations(16, TotientPerms(16), 3, {rounding, false, false}),
                  (Strides{1, 3, 7}));
    }
    // The authors' published 128-server demo.
    for (GeoRounding rounding : {GeoRounding::Floor, GeoRounding::Nearest})
    {
        EXPECT_EQ(SelectPermutations(128, TotientPerms(128), 4, {rounding, true, true}),
                  (Strides{1, 3, 11, 37}));
    }
    // On duplex cables 9 of 16 is 7 the other way; all four choices differ.
    EXPECT_EQ(SelectPermutations(16, TotientPerms(16), 4), (Strides{1, 3, 5, 9}));
    // 4 and 6 servers have one ring and its reverse: a second choice is a parallel ring.
    EXPECT_EQ(SelectPermutations(4, TotientPerms(4), 2), (Strides{1, 1}));
    EXPECT_EQ(SelectPermutations(6, TotientPerms(6), 3), (Strides{1, 1, 1}));
    EXPECT_EQ(SelectPermutations(6, TotientPerms(6), 3, {GeoRounding::LowerBound, true, true}),
              (Strides{1, 5, 1}));
    EXPECT_THROW((void)SelectPermutations(6, {}, 1), std::invalid_argument);
    EXPECT_THROW((void)SelectPermutations(6, {6}, 1), std::invalid_argument);
}

TEST(SelectPermutations, KeepThePaperDiameterBound)
{
    for (std::uint32_t n : {16U, 27U, 64U, 97U, 128U, 256U, 432U, 1000U})
    {
        for (std::uint32_t pairs : {1U, 2U, 3U, 4U})
        {
            const FoundTopology found = FindTopology(AllReduceOverAll(n), 2 * pairs);
            const HopStatistics hops = HopsBetweenServers(WireTopology(found, {1}, 0), true);
            // Digits to the base n^(1/pairs), one per stride.
            EXPECT_LE(hops.diameter, pairs * std::pow(n, 1.0 / pairs)) << n << " " << pairs;
            EXPECT_EQ(hops.unreachable, 0U);
        }
    }
}

TEST(CoinChange, IsTheShortestPathOfTheCirculant)
{
    Rng rng(1, "coins");
    for (int round = 0; round < 300; ++round)
    {
        const auto n = static_cast<std::uint32_t>(2 + rng.Below(40));
        std::vector<std::uint32_t> coins;
        for (std::uint64_t c = 1 + rng.Below(5); c > 0; --c)
        {
            coins.push_back(static_cast<std::uint32_t>(1 + rng.Below(n - 1)));
        }
        // Bellman-Ford over residues, unlike the breadth-first search under test.
        std::vector<std::uint32_t> best(n, kNoId);
        best[0] = 0;
        for (std::uint32_t pass = 0; pass < n; ++pass)
        {
            for (std::uint32_t r = 0; r < n; ++r)
            {
                for (std::uint32_t coin : coins)
                {
                    if (best[r] != kNoId)
                    {
                        best[(r + coin) % n] = std::min(best[(r + coin) % n], best[r] + 1);
                    }
                }
            }
        }
        Rng ties(static_cast<std::uint64_t>(round), "ties");
        for (Rng* random : {static_cast<Rng*>(nullptr), &ties})
        {
            const CoinChangeTable table = CoinChangeMod(n, coins, random);
            EXPECT_EQ(table.length, best);
            for (std::uint32_t r = 0; r < n; ++r)
            {
                std::uint64_t sum = 0;
                for (std::uint32_t coin : table.path[r])
                {
                    sum += coins[coin];
                }
                if (best[r] == kNoId)
                {
                    EXPECT_TRUE(table.path[r].empty());
                    continue;
                }
                EXPECT_EQ(table.path[r].size(), best[r]);
                EXPECT_EQ(sum % n, r);
            }
        }
    }
    EXPECT_THROW((void)CoinChangeMod(5, {0}), std::invalid_argument);
    EXPECT_THROW((void)CoinChangeMod(5, {5}), std::invalid_argument);
}

TEST(CoinChange, SpreadsEvenlyOverCoins)
{
    // Random shortest paths put 196 and 161 flows on a link of either stride. Most distances can be made
    // in one way only, so the ties that are left cannot make it 178.5 for both.
    const CoinChangeTable table = CoinChangeMod(128, {1, 127, 13, 115});
    std::vector<int> use(4);
    for (const auto& path : table.path)
    {
        for (std::uint32_t coin : path)
        {
            ++use[coin];
        }
    }
    EXPECT_EQ(std::accumulate(use.begin(), use.end(), 0), 714);
    EXPECT_LE(*std::max_element(use.begin(), use.end()), 190);
    EXPECT_GE(*std::min_element(use.begin(), use.end()), 165);
}

TEST(TopologyReport, HopStatisticsOfTheAuthors)
{
    struct Row
    {
        std::uint32_t n;
        std::uint32_t d;
        std::uint32_t diameter;
        double mean;
        double digits;
    };

    for (const Row& row : {Row{128, 4, 10, 5.6220472, 1e-7},
                           Row{128, 6, 6, 3.6693, 1e-4},
                           Row{128, 8, 5, 2.9606, 1e-4},
                           Row{16, 4, 4, 2.1333, 1e-4},
                           Row{16, 8, 2, 1.4667, 1e-4},
                           Row{12, 4, 3, 1.8182, 1e-4}})
    {
        const TopologyReport report = Report(row.n, row.d, true);
        EXPECT_EQ(report.hops.diameter, row.diameter);
        EXPECT_NEAR(report.hops.mean, row.mean, row.digits / 2);
        EXPECT_NEAR(report.uniformTax, row.mean, row.digits / 2);
    }
    const std::vector<double> four =
        {.031496, .094488, .188976, .314961, .472441, .637795, .779528, .889764, .968504, 1};
    const std::vector<double> eight = {.062992, .299213, .708661, .968504, 1};
    const std::vector<double> reported4 = Report(128, 4, true).hops.cdf;
    const std::vector<double> reported8 = Report(128, 8, true).hops.cdf;
    ASSERT_EQ(reported4.size(), four.size());
    ASSERT_EQ(reported8.size(), eight.size());
    for (std::size_t h = 0; h < four.size(); ++h)
    {
        EXPECT_NEAR(reported4[h], four[h], 5e-7);
    }
    for (std::size_t h = 0; h < eight.size(); ++h)
    {
        EXPECT_NEAR(reported8[h], eight[h], 5e-7);
    }
    // The demo's strides.
    TopologyRequest demo;
    demo.servers = 128;
    demo.degree = 8;
    demo.finder.flexnet = true;
    demo.finder.rounding = GeoRounding::Nearest;
    const TopologyReport report = MakeTopologyReport(demo);
    EXPECT_EQ(report.found.FullStrides(), (Strides{1, 3, 11, 37}));
    EXPECT_EQ(report.hops.diameter, 5U);
    EXPECT_NEAR(report.hops.mean, 2.9291, 5e-5);
    const std::vector<double> cdf = {.063, .2992, .7244, .9843, 1};
    for (std::size_t h = 0; h < cdf.size(); ++h)
    {
        EXPECT_NEAR(report.hops.cdf[h], cdf[h], 5e-4);
    }
}

TEST(TopologyReport, LinkLoadsOfTheRandomRouter)
{
    struct Row
    {
        std::uint32_t n;
        std::uint32_t d;
        GeoRounding rounding;
        double least;
        double mean;
        double most;
        std::vector<double> byStride;
    };

    for (const Row& row :
         {Row{128, 4, GeoRounding::LowerBound, 65.8, 178.50, 322.4, {196.3, 160.7}},
          Row{128, 8, GeoRounding::LowerBound, 8.0, 47.00, 136.4, {46.2, 50.9, 41.0, 49.9}},
          Row{128, 8, GeoRounding::Nearest, 8.8, 46.50, 140.0, {38.0, 43.3, 49.6, 55.1}},
          Row{16, 4, GeoRounding::LowerBound, 1.2, 8.00, 16.8, {9.8, 6.2}},
          Row{12, 4, GeoRounding::LowerBound, 1.2, 5.00, 10.8, {5.1, 4.9}}})
    {
        LoadStatistics sum;
        std::vector<double> byStride(row.byStride.size());
        constexpr int kSeeds = 5;
        for (int seed = 1; seed <= kSeeds; ++seed)
        {
            TopologyRequest request;
            request.servers = row.n;
            request.degree = row.d;
            request.finder.flexnet = true;
            request.finder.rounding = row.rounding;
            request.routing.kind = DirectRouting::RandomTree;
            request.routing.seed = static_cast<std::uint64_t>(seed);
            const TopologyReport report = MakeTopologyReport(request);
            sum.least += report.uniform.least / kSeeds;
            sum.mean += report.uniform.mean / kSeeds;
            sum.most += report.uniform.most / kSeeds;
            for (std::size_t k = 0; k < byStride.size(); ++k)
            {
                byStride[k] += report.uniformByStride[k].second / kSeeds;
            }
        }
        EXPECT_NEAR(sum.mean, row.mean, 0.005) << row.n;
        // The figures are means of five unknown seeds.
        EXPECT_NEAR(sum.least, row.least, 0.15 * row.least + 1.5) << row.n << " " << row.d;
        EXPECT_NEAR(sum.most, row.most, 0.12 * row.most) << row.n << " " << row.d;
        for (std::size_t k = 0; k < byStride.size(); ++k)
        {
            EXPECT_NEAR(byStride[k], row.byStride[k], 0.04 * row.byStride[k] + 0.25)
                << row.n << " " << row.d << " " << k;
        }
    }
}

TEST(TopologyReport, BatchSweepOfDlrm)
{
    const double shares[] = {.025, .049, .099, .197, .395, .790};
    const double taxes4[] = {1.111, 1.218, 1.415, 1.762, 2.309, 3.040};
    const double taxes8[] = {1.047, 1.092, 1.176, 1.323, 1.555, 1.865};
    for (int row = 0; row < 6; ++row)
    {
        Demand demand = AllReduceOverAll(128);
        demand.allReduces[0].bytes = 1'359'273'988;
        for (ServerId src = 0; src < 128; ++src)
        {
            for (ServerId dst = 0; dst < 128; ++dst)
            {
                demand.At(src, dst) = src == dst ? 0 : (2ULL * 4 * 128 * 8) * (64ULL << row);
            }
        }
        const TopologyReport four = Report(128, 4, true, &demand);
        const TopologyReport eight = Report(128, 8, true, &demand);
        EXPECT_NEAR(four.demand.pairBytes / four.demand.allReduceBytes, shares[row], 5.01e-4);
        EXPECT_NEAR(four.demand.tax, taxes4[row], 6e-4); // one entry is rounded up
        EXPECT_NEAR(eight.demand.tax, taxes8[row], 5.01e-4);
        EXPECT_GE(four.demand.ratio, 1);
        // Nothing to do with the bytes: bytes that travel one hop.
        if (row < 2)
        {
            const double direct =
                (eight.demand.allReduceBytes + eight.demand.pairBytes * eight.hops.cdf[0]) /
                (eight.demand.allReduceBytes + eight.demand.pairBytes);
            EXPECT_NEAR(direct, row == 0 ? .977427 : .955915, 5e-7);
        }
    }
}

TEST(FlexnetRings, OfTheAuthorsTwelveServerFile)
{
    const FoundTopology found = FindTopology(AllReduceOverAll(12), 4, {true});
    EXPECT_EQ(found.FullStrides(), (Strides{1, 5}));
    Rng ties(1, "coin-change");
    const Circulant circulant(found, &ties, true);
    const auto sizes = [&](const std::vector<ServerId>& group) {
        std::vector<std::size_t> hops;
        for (const Ring& ring : circulant.Rings(group))
        {
            for (const Path& path : ring.hops)
            {
                EXPECT_EQ(path.size(), ring.hops[0].size());
            }
            hops.push_back(ring.hops[0].size());
        }
        return hops;
    };
    EXPECT_EQ(sizes({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}),
              (std::vector<std::size_t>{1, 1, 1, 1}));
    EXPECT_EQ(sizes({1, 3, 5, 7, 9, 11}), (std::vector<std::size_t>{2, 2}));
    EXPECT_EQ(sizes({0, 3, 6, 9}), (std::vector<std::size_t>{3, 3}));
    EXPECT_EQ(sizes({0, 4, 8}), (std::vector<std::size_t>{2, 2}));
    EXPECT_EQ(sizes({5, 11}), (std::vector<std::size_t>{2, 2}));
}

TEST(FindTopology, FlexnetGivesTheHeaviestSizeAllButTwoNics)
{
    Demand demand(12);
    for (ServerId start = 0; start < 2; ++start)
    {
        AllReduceDemand group{{}, 1000};
        for (ServerId k = 0; k < 6; ++k)
        {
            group.members.push_back(start + 2 * k);
        }
        demand.allReduces.push_back(group);
    }
    demand.At(0, 5) = 123456; // no NIC for it in the released code
    const FoundTopology found = FindTopology(demand, 4, {true});
    EXPECT_EQ(found.FullStrides(), (Strides{1, 2}));
    CheckFound(found);
    const Circulant circulant(found, nullptr, true);
    EXPECT_EQ(circulant.Rings({0, 2, 4, 6, 8, 10}).size(), 2U);
    EXPECT_EQ(circulant.Rings({0, 2, 4, 6, 8, 10})[0].hops[0].size(), 1U);
    EXPECT_EQ(circulant.Rings({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}).size(), 2U);

    // Groups of two take a double link between the halves.
    Demand halves(12);
    for (ServerId i = 0; i < 6; ++i)
    {
        halves.allReduces.push_back({{i, i + 6}, 10});
    }
    const FoundTopology doubled = FindTopology(halves, 4, {true});
    EXPECT_EQ(doubled.FullStrides(), (Strides{1, 6}));
    CheckFound(doubled);
    demand.allReduces.push_back({{0, 1, 2, 3, 4}, 10});
    EXPECT_THROW((void)FindTopology(demand, 4, {true}), SpecError);
}

TEST(FindTopology, SplitsNicsByBytes)
{
    Demand demand = AllReduceOverAll(16);
    demand.allReduces[0].bytes = 1000; // 30000 on the wire
    const auto ringNics = [&](Bytes mp, std::uint32_t d) {
        demand.At(3, 9) = mp;
        const FoundTopology found = FindTopology(demand, d);
        CheckFound(found);
        return found.ringNics;
    };
    EXPECT_EQ(ringNics(0, 8), 8U);
    EXPECT_EQ(ringNics(1, 8), 8U);       // rounded up in favour of AllReduce
    EXPECT_EQ(ringNics(10'000, 8), 6U);  // 8 * 3/4
    EXPECT_EQ(ringNics(30'000, 8), 4U);  // half
    EXPECT_EQ(ringNics(900'000, 8), 2U); // never without a ring
    EXPECT_EQ(ringNics(30'000, 3), 2U);
    EXPECT_THROW((void)ringNics(0, 3), SpecError);
    EXPECT_THROW((void)ringNics(30'000, 1), SpecError);
    TopologyFinderOptions fixed;
    fixed.split = DegreeSplit::Fixed;
    fixed.mpNics = 2;
    EXPECT_EQ(FindTopology(demand, 4, fixed).ringNics, 2U);
    fixed.mpNics = 1;
    EXPECT_THROW((void)FindTopology(demand, 4, fixed), SpecError);
    fixed.mpNics = 4;
    EXPECT_THROW((void)FindTopology(demand, 4, fixed), SpecError);
}

TEST(FindTopology, MatchesTheHeaviestPairsAndDiscounts)
{
    Demand demand(6);
    demand.At(0, 3) = 1000;
    demand.At(3, 0) = 1;
    demand.At(1, 4) = 600;
    demand.At(2, 5) = 500;
    demand.At(0, 1) = 400;
    demand.At(3, 4) = 400;
    TopologyFinderOptions options;
    options.split = DegreeSplit::Fixed;
    options.mpNics = 2;
    const FoundTopology found = FindTopology(demand, 4, options);
    CheckFound(found);
    std::multiset<std::pair<ServerId, ServerId>> cables;
    for (const Cable& cable : found.cables)
    {
        if (!cable.ring)
        {
            cables.insert({cable.a, cable.b});
        }
    }
    // First 03 14 25 (2101); halved, 01 34 25 (1050) is as heavy as 03 14 25 (1050.5) rounded down.
    EXPECT_EQ(cables.size(), 6U);
    EXPECT_EQ(cables.count({2, 5}), 2U);
    EXPECT_EQ(cables.count({0, 3}) + cables.count({0, 1}), 2U);
}

TEST(FindTopology, DisjointGroupsDoNotCompeteAndOverlappingOnesDo)
{
    Demand demand(16);
    for (ServerId start = 0; start < 4; ++start)
    {
        demand.allReduces.push_back({{start, start + 4, start + 8, start + 12}, 1'000'000});
    }
    FoundTopology found = FindTopology(demand, 6);
    CheckFound(found);
    // One ring over all for connection; the other two layers to each group.
    ASSERT_EQ(found.ringSets.size(), 5U);
    for (std::size_t i = 0; i < 4; ++i)
    {
        EXPECT_EQ(found.ringSets[i].strides.size(), 2U);
    }
    EXPECT_EQ(found.ringSets[4].members.size(), 16U);
    EXPECT_EQ(found.ringSets[4].strides, (Strides{1}));

    // A second family across the first: servers share their two free layers.
    for (ServerId start = 0; start < 16; start += 4)
    {
        demand.allReduces.push_back({{start, start + 1, start + 2, start + 3}, 1'000'000});
    }
    found = FindTopology(demand, 6);
    CheckFound(found);
    EXPECT_EQ(found.ringSets.size(), 9U);
    for (std::size_t i = 0; i < 8; ++i)
    {
        EXPECT_EQ(found.ringSets[i].strides.size(), 1U);
    }
    // Rings of the finder come back with their links.
    RoutingOptions routing;
    const Fabric fabric = DirectConnectFabric(found, {1'000'000'000}, 0, &demand, routing);
    for (const AllReduceDemand& group : demand.allReduces)
    {
        const std::vector<Ring> rings = RingsOf(fabric, group.members);
        ASSERT_EQ(rings.size(), 2U);
        for (const Ring& ring : rings)
        {
            for (std::size_t k = 0; k < 4; ++k)
            {
                ASSERT_EQ(ring.hops[k].size(), 1U);
                CheckPath(fabric.topology,
                          ring.hops[k],
                          group.members[ring.order[k]],
                          group.members[ring.order[(k + 1) % 4]]);
            }
        }
    }
}

TEST(FindTopology, RandomDemandsGiveValidConnectedTopologies)
{
    Rng rng(7, "finder");
    for (int round = 0; round < 120; ++round)
    {
        const auto n = static_cast<ServerId>(2 + rng.Below(30));
        const auto d = static_cast<std::uint32_t>(2 * (1 + rng.Below(4)));
        Demand demand(n);
        for (std::uint64_t groups = rng.Below(5); groups > 0; --groups)
        {
            std::vector<ServerId> members(n);
            std::iota(members.begin(), members.end(), 0);
            rng.Shuffle(members);
            members.resize(1 + rng.Below(n));
            demand.allReduces.push_back({members, rng.Below(3) * 1'000'000});
        }
        for (std::uint64_t pairs = rng.Below(40); pairs > 0; --pairs)
        {
            const auto a = static_cast<ServerId>(rng.Below(n));
            const auto b = static_cast<ServerId>(rng.Below(n));
            demand.At(a, b) = a == b ? 0 : rng.Below(10'000'000);
        }
        const FoundTopology found = FindTopology(demand, d);
        CheckFound(found);
        RoutingOptions routing;
        routing.kind = static_cast<DirectRouting>(rng.Below(5));
        const Fabric fabric = DirectConnectFabric(found, {1'000'000'000}, 0, &demand, routing);
        for (ServerId dst = 1; dst < n; ++dst)
        {
            double sum = 0;
            for (const auto& [path, share] : fabric.router->Paths(0, dst))
            {
                CheckPath(fabric.topology, path, 0, dst);
                sum += share;
            }
            EXPECT_NEAR(sum, 1, 1e-12);
            CheckPath(fabric.topology, fabric.router->Route(0, dst, rng.Next()), 0, dst);
        }
        for (const AllReduceDemand& group : demand.allReduces)
        {
            for (const Ring& ring : RingsOf(fabric, group.members))
            {
                std::set<std::uint32_t> members(ring.order.begin(), ring.order.end());
                EXPECT_EQ(members.size(), group.members.size());
                EXPECT_EQ(ring.order.size(), group.members.size());
                for (std::size_t k = 0; k < ring.hops.size(); ++k)
                {
                    CheckPath(fabric.topology,
                              ring.hops[k],
                              group.members[ring.order[k]],
                              group.members[ring.order[(k + 1) % ring.order.size()]]);
                }
            }
        }
        // No routing beats the bounds.
        TopologyRequest request;
        request.servers = n;
        request.degree = d;
        request.demand = &demand;
        request.routing = routing;
        const TopologyReport report = MakeTopologyReport(request);
        EXPECT_GE(report.demand.ratio, 1 - 1e-9);
        EXPECT_GE(report.demand.tax, 1 - 1e-9);
        EXPECT_GE(report.hops.mean, report.moore.meanHops - 1e-9);
        EXPECT_GE(report.hops.diameter, report.moore.diameter);
    }
}

TEST(TopologyReport, TextAndJsonSayTheSame)
{
    const TopologyReport report = Report(128, 4, true);
    const std::string text = TopologyReportText(report);
    EXPECT_NE(text.find("1 x 128 servers, strides +-1 +-13"), std::string::npos) << text;
    EXPECT_NE(text.find("5.6220472"), std::string::npos);
    const nlohmann::json json = nlohmann::json::parse(TopologyReportJson(report));
    EXPECT_EQ(json["rings"][0]["strides"], (Strides{1, 13}));
    EXPECT_EQ(json["diameter"], 10);
    EXPECT_EQ(json["hop_cdf"].size(), 10U);
    EXPECT_EQ(TopologyReportText(Report(1, 2, false)).empty(), false);
    EXPECT_EQ(Report(2, 1, false).hops.mean, 1);
}

} // namespace
} // namespace topoopt
