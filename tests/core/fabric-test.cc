// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/error.h"
#include "topoopt/core/scenario.h"
#include "topoopt/core/topology-kinds.h"

#include <algorithm>
#include <chrono>
#include <gtest/gtest.h>
#include <numeric>
#include <set>

namespace topoopt
{
namespace
{

FabricContext
Servers(std::uint32_t count, std::uint32_t nics)
{
    FabricContext context;
    context.servers.count = count;
    context.servers.nics = nics;
    return context;
}

Fabric
Build(const std::string& kind,
      std::uint32_t count,
      std::uint32_t nics,
      std::map<std::string, std::string> options = {})
{
    FabricSpec spec;
    spec.kind = kind;
    spec.options = std::move(options);
    spec.place = "x.yaml:3:5";
    return BuildFabric(spec, Servers(count, nics));
}

std::string
ErrorOf(const std::string& kind,
        std::uint32_t count,
        std::uint32_t nics,
        std::map<std::string, std::string> options = {})
{
    try
    {
        Build(kind, count, nics, std::move(options));
    }
    catch (const SpecError& error)
    {
        return error.what();
    }
    return "no error";
}

std::vector<ServerId>
All(std::uint32_t n)
{
    std::vector<ServerId> group(n);
    std::iota(group.begin(), group.end(), 0);
    return group;
}

/** Every pair's paths are walks with probabilities that sum to 1, and Route() answers one of them. */
void
CheckRoutes(const Fabric& fabric)
{
    const std::uint32_t n = fabric.topology.servers;
    for (ServerId a = 0; a < n; ++a)
    {
        for (ServerId b = 0; b < n; ++b)
        {
            if (a == b)
            {
                EXPECT_THROW((void)fabric.router->Route(a, b, 1), SpecError);
                continue;
            }
            double sum = 0;
            std::set<Path> paths;
            for (const auto& [path, weight] : fabric.router->Paths(a, b))
            {
                CheckPath(fabric.topology, path, a, b);
                sum += weight;
                paths.insert(path);
            }
            EXPECT_NEAR(sum, 1, 1e-12);
            for (std::uint64_t key = 0; key < 4; ++key)
            {
                EXPECT_TRUE(paths.count(fabric.router->Route(a, b, key)))
                    << fabric.kind << " " << a << " " << b;
            }
        }
    }
}

/** Each ring visits every member once and its hops are walks between the right servers. */
void
CheckRings(const Fabric& fabric, const std::vector<ServerId>& group)
{
    const std::vector<Ring> rings = RingsOf(fabric, group);
    ASSERT_FALSE(rings.empty());
    for (const Ring& ring : rings)
    {
        std::vector<std::uint32_t> order = ring.order;
        std::sort(order.begin(), order.end());
        std::vector<std::uint32_t> members(group.size());
        std::iota(members.begin(), members.end(), 0);
        EXPECT_EQ(order, members);
        for (std::size_t k = 0; k < ring.hops.size(); ++k)
        {
            CheckPath(fabric.topology,
                      ring.hops[k],
                      group[ring.order[k]],
                      group[ring.order[(k + 1) % ring.order.size()]]);
        }
    }
}

TEST(Suggest, FindsTypingErrorsOnly)
{
    const std::vector<std::string> words = {"fat-tree", "ideal-switch", "topoopt", "k"};
    EXPECT_EQ(Suggest("topopt", words), "topoopt");
    EXPECT_EQ(Suggest("fat-rtee", words), "fat-tree");
    EXPECT_EQ(Suggest("idealswitch", words), "ideal-switch");
    EXPECT_EQ(Suggest("torus", words), "");
    EXPECT_EQ(Suggest("K", words), "k");
    EXPECT_EQ(Suggest("", words), "");
    EXPECT_EQ(Suggest(std::string(100000, 'x'), words), "");
}

TEST(FabricKinds, AreSortedAndKnowTheirOptions)
{
    const auto& kinds = FabricKinds();
    for (std::size_t i = 1; i < kinds.size(); ++i)
    {
        EXPECT_LT(std::string(kinds[i - 1].name), kinds[i].name);
    }
    EXPECT_EQ(ErrorOf("fat-tre", 8, 4).find("x.yaml:3:5: fabric kind: found 'fat-tre', expected"),
              0U);
    EXPECT_NE(ErrorOf("fat-tre", 8, 4).find("did you mean 'fat-tree'?"), std::string::npos);
    EXPECT_EQ(
        ErrorOf("ideal-switch", 8, 4, {{"rat", "1Gbps"}}),
        "x.yaml:3:5: ideal-switch option: found 'rat', expected one of delay, rate (did you mean "
        "'rate'?)");
    EXPECT_NE(ErrorOf("ideal-switch", 8, 4, {{"rate", "0Gbps"}}), "no error");
    EXPECT_NE(ErrorOf("ideal-switch", 8, 4, {{"rate", "fast"}}), "no error");
    EXPECT_NE(ErrorOf("ideal-switch", 0, 4), "no error");
    EXPECT_NE(ErrorOf("ideal-switch", 8, 0), "no error");
}

TEST(RingsOfFabric, DefaultsToGroupOrder)
{
    const Fabric fabric = Build("ideal-switch", 5, 2);
    const std::vector<Ring> rings = RingsOf(fabric, {4, 1, 2});
    ASSERT_EQ(rings.size(), 1U);
    EXPECT_EQ(rings[0].order, (std::vector<std::uint32_t>{0, 1, 2}));
    EXPECT_TRUE(rings[0].hops.empty());
    EXPECT_THROW((void)RingsOf(fabric, {}), std::invalid_argument);
}

TEST(IdealSwitch, HasOneNicOfTheSumOfRates)
{
    const Fabric fabric = Build("ideal-switch", 9, 4);
    EXPECT_EQ(fabric.topology.links.size(), 18U);
    for (const Link& link : fabric.topology.links)
    {
        EXPECT_EQ(link.rate.bps, 400'000'000'000U);
        EXPECT_EQ(link.delay, kMicrosecond);
    }
    EXPECT_EQ(fabric.router->Route(3, 7, 0).size(), 2U);
    CheckRoutes(fabric);
    EXPECT_EQ(
        Build("ideal-switch", 2, 4, {{"rate", "25Gbps"}, {"delay", "3ns"}}).topology.links[0].delay,
        3 * kNanosecond);
}

TEST(FatTree, FitsAnyServerCount)
{
    for (std::uint32_t n : {1U, 2U, 3U, 8U, 16U, 17U, 40U})
    {
        const Fabric fabric = Build("fat-tree", n, 1);
        CheckRoutes(fabric);
    }
}

TEST(FatTree, With128ServersIsTheTreeOfTheBenchmark)
{
    const auto start = std::chrono::steady_clock::now();
    const Fabric fabric = Build("fat-tree", 128, 1, {{"k", "8"}, {"delay", "1us"}});
    std::uint64_t hops = 0;
    for (ServerId a = 0; a < 128; ++a)
    {
        hops += fabric.router->Route(a, (a + 1) % 128, 7).size();
    }
    const auto took = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(fabric.topology.NodeCount(), 208U);
    EXPECT_EQ(fabric.topology.links.size(), 768U);
    // The ring of the benchmark: 3,360,000 packet-hops are 10,000 packets over these.
    EXPECT_EQ(hops, 336U);
    // A Debug build on a shared machine; the goal of 20 ms is the benchmark's to check.
    EXPECT_LT(std::chrono::duration<double>(took).count(), 1.0);
    for (NodeId node = 128; node < 208; ++node)
    {
        EXPECT_EQ(fabric.topology.PortCount(node), 8U);
    }
    EXPECT_EQ(fabric.router->Paths(0, 127).size(), 16U);
    EXPECT_EQ(fabric.router->Paths(0, 4).size(), 4U);
    EXPECT_EQ(fabric.router->Paths(0, 1).size(), 1U);
}

TEST(FatTree, SpreadsFlowsOverCores)
{
    const Fabric fabric = Build("fat-tree", 128, 1);
    std::map<LinkId, int> uses;
    for (std::uint64_t key = 0; key < 16000; ++key)
    {
        ++uses[fabric.router->Route(0, 127, key)[2]];
    }
    ASSERT_EQ(uses.size(), 16U);
    for (const auto& [link, count] : uses)
    {
        EXPECT_NEAR(count, 1000, 150);
    }
}

TEST(FatTree, RejectsWhatDoesNotFit)
{
    EXPECT_NE(ErrorOf("fat-tree", 128, 1, {{"k", "6"}}).find("8 or more for 128 servers"),
              std::string::npos);
    EXPECT_NE(ErrorOf("fat-tree", 8, 1, {{"k", "5"}}).find("even"), std::string::npos);
    EXPECT_NE(ErrorOf("fat-tree", 8, 1, {{"k", "-4"}}), "no error");
}

TEST(TopoOpt, EightServersWithFourNicsHaveStridesOneAndThree)
{
    const Fabric fabric = Build("topoopt", 8, 4);
    EXPECT_EQ(fabric.topology.links.size(), 32U);
    for (const Link& link : fabric.topology.links)
    {
        const std::uint32_t distance = (link.dst + 8 - link.src) % 8;
        const std::uint32_t expected[] = {1, 7, 3, 5};
        EXPECT_EQ(distance, expected[link.srcPort]);
        EXPECT_EQ(link.dstPort, link.srcPort ^ 1U);
    }
    const std::vector<Ring> rings = RingsOf(fabric, All(8));
    ASSERT_EQ(rings.size(), 4U);
    EXPECT_EQ(rings[0].order, All(8));
    EXPECT_EQ(rings[2].order, (std::vector<std::uint32_t>{0, 3, 6, 1, 4, 7, 2, 5}));
    std::set<LinkId> used;
    for (const Ring& ring : rings)
    {
        for (const Path& hop : ring.hops)
        {
            EXPECT_EQ(hop.size(), 1U);
            EXPECT_TRUE(used.insert(hop[0]).second) << "rings share a link";
        }
    }
    EXPECT_EQ(used.size(), 32U);
}

TEST(TopoOpt, PatchListNamesEveryNicOnce)
{
    const Fabric fabric = Build("topoopt", 12, 4);
    ASSERT_EQ(fabric.circuits.size(), 24U);
    std::set<std::pair<ServerId, std::uint32_t>> nics;
    std::set<std::pair<std::uint32_t, std::uint32_t>> ports;
    for (std::size_t i = 0; i < fabric.circuits.size(); ++i)
    {
        const Circuit& c = fabric.circuits[i];
        EXPECT_TRUE(nics.insert({c.serverA, c.nicA}).second);
        EXPECT_TRUE(nics.insert({c.serverB, c.nicB}).second);
        EXPECT_TRUE(ports.insert({c.panel, c.portA}).second);
        EXPECT_TRUE(ports.insert({c.panel, c.portB}).second);
        const Link& link = fabric.topology.links[2 * i];
        EXPECT_EQ(link.src, c.serverA);
        EXPECT_EQ(link.srcPort, c.nicA);
        EXPECT_EQ(link.dst, c.serverB);
        EXPECT_EQ(link.dstPort, c.nicB);
    }
}

TEST(TopoOpt, SmallAndOddSizes)
{
    for (std::uint32_t n : {1U, 2U, 3U, 4U, 5U, 7U, 12U, 16U, 31U})
    {
        for (std::uint32_t d : {2U, 4U, 8U})
        {
            const Fabric fabric = Build("topoopt", n, d);
            CheckRoutes(fabric);
            CheckRings(fabric, All(n));
            EXPECT_EQ(fabric.topology.links.size(), n == 1 ? 0U : n * d);
        }
    }
    const Fabric pair = Build("topoopt", 2, 1);
    EXPECT_EQ(pair.topology.links.size(), 2U);
    CheckRoutes(pair);
    CheckRings(pair, All(2));
    EXPECT_EQ(
        ErrorOf("topoopt", 8, 3),
        "x.yaml:3:5: topoopt: servers.nics: found 3, expected an even number (2 or 4): each ring "
              "takes one NIC for either direction");
    EXPECT_NE(ErrorOf("topoopt", 8, 1).find("expected an even number (2)"), std::string::npos);
}

TEST(TopoOpt, RingsOfSmallerGroups)
{
    const Fabric fabric = Build("topoopt", 12, 4);
    CheckRings(fabric, {0, 2, 4, 6, 8, 10});
    CheckRings(fabric, {11, 3, 7});
    CheckRings(fabric, {5, 1, 0, 9});
    CheckRings(fabric, {3, 2});
    CheckRings(fabric, {7});
    // The authors' 12-server file: a ring of every second server takes two hops per step.
    for (const Ring& ring : RingsOf(fabric, {0, 2, 4, 6, 8, 10}))
    {
        for (const Path& hop : ring.hops)
        {
            EXPECT_EQ(hop.size(), 2U);
        }
    }
    EXPECT_THROW((void)RingsOf(fabric, {1, 1}), std::invalid_argument);
    EXPECT_THROW((void)RingsOf(fabric, {1, 12}), std::invalid_argument);
}

} // namespace
} // namespace topoopt
