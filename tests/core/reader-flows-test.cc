// SPDX-License-Identifier: GPL-2.0-only
// Flow lists, size distributions, matrices and topology files.
#include "../temp-path.h"
#include "topoopt/core/trace-flows.h"
#include "trace-support.h"

#include <algorithm>
#include <cmath>

namespace topoopt
{
namespace
{

using test::ErrorOf;

TraceFile
File(const std::string& name, const std::string& content)
{
    return {name, UINT32_MAX, std::make_shared<const std::string>(content)};
}

LoadedWorkload
Flows(const std::string& text,
      std::uint32_t servers = 0,
      const std::map<std::string, std::string>& options = {})
{
    ServerSpec spec;
    spec.count = servers;
    return LoadFlowsFile(File("f.txt", text), FlowOptions::Parse(options), spec);
}

/** A file under the test's temporary directory. */
std::string
Write(const std::string& name, const std::string& text)
{
    const std::string path = test::TempPath(name);
    std::ofstream(path, std::ios::binary) << text;
    return path;
}

TEST(HpccFlows, StartsSizesAndIdsAreExactAndSorted)
{
    const LoadedWorkload w =
        Flows("3\n2 0 3 100 7 2.000001000\n0 1 3 100 5368709120 2\n1 2 3 200 1 2.000001\n", 4);
    EXPECT_EQ(w.format, "hpcc-flows");
    EXPECT_EQ(w.graph.ranks, 4u);
    ASSERT_EQ(w.graph.tasks.size(), 3u);
    EXPECT_EQ(w.graph.tasks[0].notBefore, 2 * kSecond);
    EXPECT_EQ(w.graph.tasks[0].sourceId, 1u);
    EXPECT_EQ(w.graph.transfers[0].bytes, 5368709120u);
    EXPECT_EQ(w.graph.tasks[1].notBefore, 2 * kSecond + kMicrosecond);
    EXPECT_EQ(w.graph.tasks[1].rank, 2u) << "equal starts keep the file's order";
    EXPECT_EQ(w.graph.tasks[2].rank, 1u);
    EXPECT_EQ(w.graph.tasks[0].kind, TaskKind::Transfer);
    ASSERT_EQ(w.graph.warnings.size(), 1u);
    EXPECT_HAS(w.graph.warnings[0], "sorted");
}

TEST(HpccFlows, DialectsGiveTheSameFlows)
{
    const std::string plain = "2\n0 1 3 100 10 1\n1 2 3 100 20 1.5\n";
    const auto shape = [](const LoadedWorkload& w) {
        std::ostringstream out;
        for (std::size_t i = 0; i < w.graph.transfers.size(); ++i)
        {
            const TransferCall& t = w.graph.transfers[i];
            out << t.src << " " << t.dst << " " << t.bytes << " " << w.graph.tasks[i].notBefore
                << "\n";
        }
        return out.str();
    };
    const std::string want = shape(Flows(plain));
    EXPECT_EQ(shape(Flows("\xef\xbb\xbf"
                          "2\r\n0 1 3 100 10 1\r\n1 2 3 100 20 1.5")),
              want);
    EXPECT_EQ(
        shape(Flows(
            "# list\n2\n\n0\t1\t3\t100\t10\t1 # first\n \n1 2 3 100 20 1.5\n\nprose follows\n")),
        want);
    EXPECT_EQ(shape(Flows("2\n7 0 1 3 100 10 1\n8 1 2 3 100 20 1.5\n")), want);
    EXPECT_EQ(Flows("2\n7 0 1 3 100 10 1\n8 1 2 3 100 20 1.5\n").graph.tasks[1].sourceId, 8u);
}

TEST(HpccFlows, ErrorsNameLineAndColumn)
{
    const auto error = [](const std::string& line) {
        return ErrorOf([&] { Flows("2\n0 1 3 100 10 1\n" + line + "\n", 4); });
    };
    EXPECT_HAS(error("0 one 3 100 10 1"), "f.txt:3:2: found 'one', expected a host, 0..3");
    EXPECT_HAS(error("0 4 3 100 10 1"), "f.txt:3:2: found '4'");
    EXPECT_HAS(error("0 1 3 100 10"), "f.txt:3:6: found 5 columns, expected 6");
    EXPECT_HAS(error("0 1 3 100 -5 1"), "f.txt:3:5: found '-5'");
    EXPECT_HAS(error("0 1 3 100 9223372036854775808 1"), "f.txt:3:5");
    EXPECT_HAS(error("0 1 3 100 1.5 1"), "f.txt:3:5: found '1.5'");
    EXPECT_HAS(error("0 1 3 100 5 nan"), "f.txt:3:6: found 'nan'");
    EXPECT_HAS(error("0 1 3 100 5 inf"), "f.txt:3:6");
    EXPECT_HAS(error("0 1 3 100 5 -1"), "f.txt:3:6");
    EXPECT_HAS(error("1 1 3 100 5 1"), "f.txt:3:2");
    EXPECT_HAS(error(""), "found 1 flows, expected 2");
    EXPECT_HAS(ErrorOf([] { Flows(""); }), "empty file");
    EXPECT_HAS(ErrorOf([] { Flows("hello world\n"); }), "no known flow list");
    EXPECT_HAS(ErrorOf([] { Flows("0 0\n10 100\n"); }), "size distribution");
}

TEST(HpccFlows, ZeroFlowsAndZeroBytes)
{
    EXPECT_EQ(Flows("0\n", 4).graph.tasks.size(), 0u);
    const LoadedWorkload w = Flows("2\n0 1 3 100 0 1\n0 1 3 100 9 2\n", 4);
    ASSERT_EQ(w.graph.tasks.size(), 2u);
    EXPECT_EQ(w.graph.tasks[0].kind, TaskKind::Join);
    EXPECT_EQ(w.graph.transfers.size(), 1u);
    EXPECT_EQ(w.facts.at("empty_flows"), 1);
}

TEST(HpccFlows, OptionsCutScaleAndAlign)
{
    const std::string text = "3\n0 1 3 100 10 2\n0 1 3 100 20 3\n0 1 3 100 1 4\n";
    const LoadedWorkload w =
        Flows(text, 0, {{"align", "first"}, {"max_ops", "2"}, {"scale_bytes", "0.04"}});
    ASSERT_EQ(w.graph.tasks.size(), 2u);
    EXPECT_EQ(w.graph.tasks[0].notBefore, 0);
    EXPECT_EQ(w.graph.tasks[1].notBefore, kSecond);
    EXPECT_EQ(w.graph.transfers[0].bytes, 1u);
    EXPECT_EQ(w.stamp, "align=first max_ops=2 scale_bytes=0.04");
    EXPECT_HAS(ErrorOf([&] { Flows(text, 0, {{"alighn", "first"}}); }), "did you mean 'align'?");
}

TEST(HpccFlows, HostsOfATopologyFileNeedNotBeTheFirstNumbers)
{
    // Node 0 is a switch; hosts 1 and 2.
    const std::string topology =
        Write("hpcc-top.txt", "3 1 2\n0\n1 0 100Gbps 1us 0\n2 0 25Gbps 0.001ms 0.1\n");
    const LoadedWorkload w = Flows("1\n2 1 3 100 10 0\n", 0, {{"topology", topology}});
    ASSERT_NE(w.fabric, nullptr);
    EXPECT_EQ(w.fabric->topology.servers, 2u);
    EXPECT_EQ(w.graph.transfers[0].src, 1u);
    EXPECT_EQ(w.graph.transfers[0].dst, 0u);
    EXPECT_EQ(w.fabric->topology.links.size(), 4u);
    EXPECT_EQ(w.fabric->topology.links[2].rate, BitRate{25'000'000'000});
    EXPECT_EQ(w.fabric->topology.links[2].delay, kMicrosecond);
    EXPECT_EQ(w.fabric->router->Route(1, 0, 7).size(), 2u);
    ASSERT_EQ(w.graph.warnings.size(), 1u);
    EXPECT_HAS(w.graph.warnings[0], "error rate");
    EXPECT_HAS(ErrorOf([&] {
                   Flows("1\n0 1 3 100 10 0\n", 0, {{"topology", topology}});
               }),
               "f.txt:2:1: found '0'");
}

TEST(TopologyFile, BadOnesAreRefusedWithTheLine)
{
    const auto read = [](const std::string& text) {
        std::vector<std::string> warnings;
        return ErrorOf([&] { (void)ReadTopologyFile(File("t.txt", text), 1, nullptr, warnings); });
    };
    EXPECT_EQ(read("2 0 1\n\n0 1 100Gbps 1us 0\n"), "no error");
    EXPECT_HAS(read("2 0 1\n\n0 1 100 1us 0\n"), "t.txt:3:3");
    EXPECT_HAS(read("2 0 1\n0 2 100Gbps 1us 0\n"), "t.txt:2:2");
    EXPECT_HAS(read("2 0 2\n0 1 100Gbps 1us 0\n"), "found 1 links, expected 2");
    EXPECT_HAS(read("3 0 1\n0 1 100Gbps 1us 0\n"), "no way from host");
    EXPECT_HAS(read("4 0 2\n0 1 100Gbps 1us 0\n2 3 1Gbps 1us 0\n"), "no way from host n2");
    EXPECT_HAS(read("1000000 0 1\n0 1 100Gbps 1us 0\n"), "each of 1000000 hosts");
    EXPECT_EQ(read("3 1 1\n2\n0 1 100Gbps 1us 0\n"), "no error") << "a spare switch";
    EXPECT_HAS(read("2 2 1\n0 1\n0 1 100Gbps 1us 0\n"), "expected at least one host");
    EXPECT_HAS(read("3 1 1\n5\n"), "t.txt:2:1");
}

TEST(TopologyFile, SimaiAndHtsimHaveTheCountsOfTheirFormulas)
{
    std::vector<std::string> warnings;
    // 4 GPUs, 2 per server, 2 NVSwitches, 1 switch.
    const auto simai = ReadTopologyFile(
        File(
            "s.txt",
            "7 2 2 1 8 A100\n4 5 6\n0 4 2400Gbps 25ns 0\n1 4 2400Gbps 25ns 0\n2 5 2400Gbps 25ns 0\n"
            "3 5 2400Gbps 25ns 0\n0 6 100Gbps 1us 0\n1 6 100Gbps 1us 0\n2 6 100Gbps 1us 0\n3 6 "
            "100Gbps 1us 0\n"),
        1,
        nullptr,
        warnings);
    EXPECT_EQ(simai->kind, "simai-topology");
    EXPECT_EQ(simai->topology.servers, 4u);
    EXPECT_EQ(simai->topology.NodeCount(), 7u);

    // A 4-ary fat tree: 16 hosts, 8 edge, 8 aggregation, 4 core; 48 cables.
    const auto tree =
        ReadTopologyFile(File("f.topo",
                              "Nodes 16\nTiers 3\nPodsize 4\nTier 0\nDownlink_speed_Gbps "
                              "100\nRadix_Down 2\nRadix_Up 2\n"
                              "Downlink_Latency_ns 500\nSwitch_Latency_ns 100\nTier "
                              "1\nDownlink_speed_Gbps 100\nRadix_Down 2\n"
                              "Radix_Up 2\nDownlink_Latency_ns 500\nTier 2\nDownlink_speed_Gbps "
                              "100\nRadix_Down 4\nDownlink_Latency_ns 500\n"),
                         1,
                         nullptr,
                         warnings);
    EXPECT_EQ(tree->topology.servers, 16u);
    EXPECT_EQ(tree->topology.NodeCount(), 16u + 20u);
    EXPECT_EQ(tree->topology.links.size(), 2u * 48u);
    EXPECT_EQ(tree->router->Route(0, 1, 1).size(), 2u);
    EXPECT_EQ(tree->router->Route(0, 3, 1).size(), 4u);
    EXPECT_EQ(tree->router->Route(0, 15, 1).size(), 6u);
    EXPECT_EQ(tree->router->Paths(0, 15).size(), 4u);
    const Path path = tree->router->Route(0, 1, 1);
    EXPECT_EQ(tree->topology.links[path[0]].delay, 500 * kNanosecond);
    EXPECT_EQ(tree->topology.links[path[1]].delay, 600 * kNanosecond) << "the switch's own latency";
}

const char* const kRing =
    "Nodes 3\nConnections 3\nTriggers 2\n0->1 id 1 start 0 size 100 send_done_trigger 1\n"
    "1->2 id 2 trigger 1 size 200 send_done_trigger 2\n2->0 id 3 trigger 2 size 300\n"
    "trigger id 1 oneshot\ntrigger id 2 oneshot\n";

TEST(HtsimMatrix, TriggersAreDependencies)
{
    const LoadedWorkload w = Flows(kRing);
    EXPECT_EQ(w.format, "htsim-cm");
    ASSERT_EQ(w.graph.tasks.size(), 3u);
    EXPECT_EQ(w.facts.at("triggers"), 2);
    ASSERT_EQ(w.graph.SuccessorsEnd(0) - w.graph.SuccessorsBegin(0), 1);
    EXPECT_EQ(*w.graph.SuccessorsBegin(0), 1u);
    EXPECT_EQ(*w.graph.SuccessorsBegin(1), 2u);
    EXPECT_EQ(w.graph.transfers[2].bytes, 300u);
}

TEST(HtsimMatrix, ABarrierWaitsForAllThatFireIt)
{
    const LoadedWorkload w =
        Flows("Nodes 4\nConnections 3\nTriggers 1\n0->1 id 1 start 0 size 1 recv_done_trigger 5\n"
              "1->2 id 2 start 0 size 1 send_done_trigger 5\n2->3 id 3 trigger 5 size 1\n"
              "trigger id 5 barrier count 2\n");
    EXPECT_EQ(w.graph.PredecessorCounts()[2], 2u);
}

TEST(HtsimMatrix, WhatCannotBeReplayedIsRefused)
{
    const auto replaced = [](const std::string& from, const std::string& to) {
        std::string text = kRing;
        text.replace(text.find(from), from.size(), to);
        return ErrorOf([&] { Flows(text, 3); });
    };
    EXPECT_EQ(replaced("size 100", "size 100"), "no error");
    EXPECT_HAS(replaced("Connections 3", "Connections 4"), "found 3 connections, expected 4");
    EXPECT_HAS(replaced("Triggers 2", "Triggers 1"), "found 2 triggers, expected 1");
    EXPECT_HAS(replaced("size 100", "size 0"), "endless");
    EXPECT_HAS(replaced("start 0", "start 5"), "start_unit: ps or us");
    EXPECT_HAS(replaced("0->1", "0->3"), "f.txt:4:1: found '0->3', expected SRC->DST, both 0..2");
    EXPECT_HAS(replaced("Nodes 3", "Nodes 4"), "expected at most 3");
    EXPECT_HAS(replaced("id 3 trigger 2", "id 3 trigger 9"), "trigger 9 is used but not defined");
    EXPECT_HAS(replaced("send_done_trigger 1", "send_done_trigger 2"), "nothing fires it");
    EXPECT_HAS(replaced("start 0", "trigger 2"), "dependency cycle");
    EXPECT_HAS(replaced("oneshot", "sometimes"), "oneshot, multishot or barrier");
    EXPECT_EQ(Flows("Nodes 2\nConnections 1\n0->1 start 3 size 1\n", 0, {{"start_unit", "us"}})
                  .graph.tasks[0]
                  .notBefore,
              3 * kMicrosecond);
}

TEST(OperaFlows, ReadsWithoutAFinalNewline)
{
    const LoadedWorkload w = Flows("176 638 1870 1636369\n540 469 1850000 3929208", 648);
    EXPECT_EQ(w.format, "opera");
    EXPECT_EQ(w.graph.tasks[1].notBefore, 3929208 * kNanosecond);
    EXPECT_EQ(w.facts.at("bytes"), 1851870);
    EXPECT_HAS(ErrorOf([] { Flows("1 2 3 4\n1 2 3\n"); }), "f.txt:2:4");
}

TEST(SizeDistribution, PercentFractionCommaAndAtoms)
{
    const auto read = [](const std::string& text) {
        return SizeDistribution::Read(File("c.txt", text));
    };
    EXPECT_DOUBLE_EQ(read("0 0\n1000 50\n10000 90\n1000000 100\n").Mean(), 52950.0);
    EXPECT_DOUBLE_EQ(read("0,0\n1000,0.5\n10000,0.9\n1000000,1\n").Mean(), 52950.0);
    EXPECT_DOUBLE_EQ(read("0 0\n1000 0.5\n2000 1\n").Mean(), 1000.0)
        << "ends at 1: a fraction, not a percent";
    const SizeDistribution steps = read("0 0\n1000 50\n1000 80\n2000 100\n");
    EXPECT_EQ(steps.At(0.6), 1000u);
    EXPECT_EQ(steps.At(0.9), 1500u);
    EXPECT_EQ(steps.At(0.25), 500u);
    EXPECT_EQ(steps.At(0.0), 1u);
    const SizeDistribution noZero = read("123.5\n1000,0.5\n2000,1.0\n");
    EXPECT_EQ(noZero.At(0.1), 1000u) << "the mass of the first point sits at its size";
    EXPECT_DOUBLE_EQ(noZero.Mean(), 0.5 * 1000 + 0.5 * 1500);
    EXPECT_HAS(ErrorOf([&] { read("0 0\n1000 50\n900 60\n2000 100\n"); }), "c.txt:3:1");
    EXPECT_HAS(ErrorOf([&] { read("0 0\n1000 50\n2000 40\n3000 100\n"); }), "c.txt:3:2");
    EXPECT_HAS(ErrorOf([&] { read("0 0\n1000 97\n"); }), "97");
    EXPECT_HAS(ErrorOf([&] { read("0 0\n1000 nan\n"); }), "c.txt:2:2");
}

TEST(SizeDistribution, PoissonArrivalsMeetLoadAndAreSeeded)
{
    const std::string cdf = Write("poisson.cdf", "0 0\n10000 50\n100000 100\n");
    ServerSpec servers;
    servers.count = 16;
    servers.nics = 2;
    servers.rate = BitRate{50'000'000'000};
    const auto draw = [&](std::uint64_t seed, const std::string& matrix) {
        std::map<std::string, std::string> options{{"cdf", cdf},
                                                   {"load", "0.5"},
                                                   {"duration", "20ms"}};
        if (!matrix.empty())
        {
            options["matrix"] = matrix;
        }
        return LoadFlows("", FlowOptions::Parse(options), servers, seed);
    };
    const LoadedWorkload w = draw(1, "");
    // 16 servers x 100 Gb/s x 0.5 x 20 ms = 2e9 B; a mean of 30000 B gives about 66667 flows.
    const double expected = 16 * 100e9 / 8 * 0.5 * 0.02;
    const double flows = expected / 30000;
    const auto bytes = static_cast<double>(w.facts.at("bytes"));
    EXPECT_NEAR(static_cast<double>(w.graph.tasks.size()), flows, 5 * std::sqrt(flows));
    EXPECT_NEAR(bytes / expected, 1.0, 0.02);
    std::vector<double> sent(16);
    for (const TransferCall& t : w.graph.transfers)
    {
        EXPECT_NE(t.src, t.dst);
        sent[t.src] += static_cast<double>(t.bytes);
    }
    for (const double s : sent)
    {
        EXPECT_NEAR(s / (expected / 16), 1.0, 0.1);
    }
    for (std::size_t i = 1; i < w.graph.tasks.size(); ++i)
    {
        ASSERT_LE(w.graph.tasks[i - 1].notBefore, w.graph.tasks[i].notBefore);
    }
    const auto same = [](const LoadedWorkload& a, const LoadedWorkload& b) {
        return a.graph.transfers.size() == b.graph.transfers.size() &&
               std::equal(a.graph.transfers.begin(),
                          a.graph.transfers.end(),
                          b.graph.transfers.begin(),
                          [](const TransferCall& x, const TransferCall& y) {
                              return x.src == y.src && x.dst == y.dst && x.bytes == y.bytes;
                          });
    };
    EXPECT_TRUE(same(w, draw(1, "")));
    EXPECT_FALSE(same(w, draw(2, "")));

    // Only rack 0 sends to rack 1 (3/4) and within itself (1/4).
    const std::string matrix =
        Write("m.json", R"({"matrix":{"inner":[[1,3],[0,0]]},"nr_racks":2})");
    const LoadedWorkload m = draw(1, matrix);
    std::size_t within = 0;
    for (const TransferCall& t : m.graph.transfers)
    {
        EXPECT_LT(t.src, 8u);
        within += t.dst < 8 ? 1 : 0;
    }
    EXPECT_NEAR(static_cast<double>(within) / static_cast<double>(m.graph.transfers.size()),
                0.25,
                0.02);
    EXPECT_HAS(
        ErrorOf([&] { draw(1, Write("m3.json", R"({"matrix":[[1,1,1],[1,1,1],[1,1,1]]})")); }),
        "3 racks");
}

TEST(TrafficMatrix, FbflowCountsUsableRows)
{
    std::string text;
    const auto row = [](const std::string& length,
                        const std::string& from,
                        const std::string& to,
                        const char* flags) {
        return "1475305136\t" + length + "\ta\tb\tc\td\t6\te\tf\t" + from + "\t" + to + "\tp\tq\t" +
               flags + "\n";
    };
    text += row("100", "r2", "r1", "0\t0") + row("50", "r1", "r2", "0\t0") +
            row("7", "r1", "r2", "1\t0") + row("9", "\\N", "r2", "0\t0") +
            row("30", "r2", "r1", "0\t0");
    const TrafficMatrix m = TrafficMatrix::Read(File("f.tsv", text));
    EXPECT_EQ(m.rows, 5u);
    EXPECT_EQ(m.usableRows, 3u);
    EXPECT_EQ(m.usableBytes, 180u);
    EXPECT_EQ(m.weights, (std::vector<double>{0, 50, 130, 0})) << "racks in order of their names";
    EXPECT_HAS(ErrorOf([&] { (void)TrafficMatrix::Read(File("f.tsv", text + "1 2 3\n")); }),
               "f.tsv:6: found 3 columns");
    EXPECT_HAS(
        ErrorOf([&] { (void)TrafficMatrix::Read(File("f.tsv", row("-1", "a", "b", "0\t0"))); }),
        "f.tsv:1:2");
    EXPECT_HAS(
        ErrorOf([&] { (void)TrafficMatrix::Read(File("f.tsv", row("1", "a", "b", "0\t2"))); }),
        "f.tsv:1:15");
    EXPECT_HAS(
        ErrorOf([&] { (void)TrafficMatrix::Read(File("m.json", R"({"matrix":[[1,2],[3]]})")); }),
        "row 1");
}

} // namespace
} // namespace topoopt
