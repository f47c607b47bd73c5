// SPDX-License-Identifier: GPL-2.0-only
// The slow model of the reference simulator against the reference's own results.
#include "flexnet-witness.h"
#include "golden.h"
#include "topoopt/core/readers/flexnet.h"

#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>
#include <zlib.h>

namespace topoopt
{
namespace
{

using Kind = FlexNetWitness::Kind;

std::vector<std::string>
Lines(const std::string& path)
{
    const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
    std::vector<std::string> lines;
    char line[256];
    while (gzgets(file.get(), line, sizeof line) != nullptr)
    {
        lines.emplace_back(line);
        while (!lines.back().empty() && lines.back().back() == '\n')
        {
            lines.back().pop_back();
        }
    }
    return lines;
}

/** A flow alone: SYN of one byte, then whole packets, store and forward, acknowledged at once. */
std::uint64_t
Alone(std::uint64_t bytes, std::uint64_t hops, std::uint64_t psPerByte, std::uint64_t delay)
{
    const std::uint64_t packets = std::max<std::uint64_t>(1, (bytes + 8934) / 8936);
    return hops * (delay + psPerByte) + (packets + hops - 1) * 8936 * psPerByte + hops * delay;
}

/** One message of @p bytes over @p hops links of a chain. */
FlexNetGraph
Chain(std::uint32_t hops, Bytes bytes)
{
    FlexNetGraph g;
    g.file = "chain";
    g.nodes = hops + 1;
    FlexNetRoute route{0, hops, {{{0}, 1.0F}}};
    for (NodeId i = 0; i < hops; ++i)
    {
        g.connections.push_back({i + 1, i, 1});
        route.paths[0].nodes.push_back(i + 1);
    }
    g.routes.push_back(route);
    g.devices.push_back({FlexNetDeviceKind::NetworkNominal, 1, 0, hops, 0, 0});
    g.tasks.push_back({FlexNetTaskKind::Message, 5, 0, 0, bytes, {}, 0});
    VerifyFlexNet(g);
    return g;
}

TEST(FlexNetWitness, OneFlowAloneTakesTheClosedForm)
{
    for (const std::uint32_t hops : {1U, 2U, 3U, 5U})
    {
        for (const Bytes bytes :
             {Bytes{1}, Bytes{8936}, Bytes{8937}, Bytes{8938}, Bytes{524288}, Bytes{15859712}})
        {
            const FlexNetGraph graph = Chain(hops, bytes);
            FlexNetWitness witness(graph, {});
            EXPECT_EQ(witness.Run(), Alone(bytes, hops, 80, 1'000'000)) << hops << " " << bytes;
            EXPECT_TRUE(witness.Complete());
        }
    }
    // As printed by the reference for 128 servers.
    EXPECT_EQ(Alone(8936, 1, 80, 1'000'000), 2'714'960U);
    EXPECT_EQ(Alone(524288, 5, 80, 1'000'000), 55'037'840U);
}

TEST(FlexNetWitness, ASynBehindALongQueueTimesOut)
{
    // Two flows of one cable; the second's SYN waits behind 100 packets of the first at 100 Mb/s: 71 ms.
    FlexNetGraph graph = Chain(1, 893600);
    graph.tasks.push_back(graph.tasks[0]);
    graph.tasks[1].id = 6;
    graph.tasks.push_back({FlexNetTaskKind::Forward, 7, 1, 5.0F, 0, {1}, 0});
    graph.devices.push_back({FlexNetDeviceKind::Gpu, 2, 0, 0, 0, 0});
    VerifyFlexNet(graph);
    FlexNetWitness::Options options;
    options.rate = 100'000'000;
    FlexNetWitness witness(graph, options);
    witness.Run();
    EXPECT_TRUE(witness.Complete());
    EXPECT_GT(witness.timeouts, 0U);
    EXPECT_EQ(witness.drops, 0U);
}

TEST(FlexNetWitness, OurReferenceGraphGivesTheFlowsOfItsRules)
{
    const FlexNetGraph graph =
        ReadFlexNet(std::string(TOPOOPT_SOURCE_DIR) + "/traces/reference-small.fbuf");
    FlexNetWitness witness(graph, {});
    const std::uint64_t finish = witness.Run();
    EXPECT_TRUE(witness.Complete());
    // 112 messages; of the six AllReduces over 8 servers three take all 2 * 7 rounds on 4 rings, three one.
    EXPECT_EQ(witness.finished.size(), 112U + 3 * 14 * 8 * 4 + 3 * 8 * 4);
    // No flow beats its closed form; those that meet nobody take exactly it.
    std::size_t alone = 0;
    for (const FlexNetWitness::Flow& flow : witness.finished)
    {
        const std::uint64_t least = Alone(flow.bytes, flow.hops, 80, 1'000'000);
        ASSERT_GE(flow.fct, least);
        alone += flow.fct == least ? 1 : 0;
    }
    EXPECT_GT(alone, 0U);
    // A fingerprint: moves only if the graph or the model does.
    EXPECT_EQ(finish, 905'540'323U);
}

struct Row
{
    const char* graph;
    Kind kind;
    std::uint64_t gbps;
    std::uint64_t finish;
    const char* flows; ///< log of the run, empty if none was kept
    bool slow = false; ///< only where the compiler optimises
};

void
PrintTo(const Row& row, std::ostream* os)
{
    *os << row.graph << " " << row.gbps << "G";
}

class FlexNetGolden : public testing::TestWithParam<Row>
{
};

TEST_P(FlexNetGolden, EveryFlowAndTheEndAreEqual)
{
    const Row& row = GetParam();
    const std::string path = test::Golden(std::string("taskgraphs/") + row.graph);
    if (path.empty())
    {
        GTEST_SKIP() << "no shared directory with golden data";
    }
#ifndef NDEBUG
    if (row.slow)
    {
        GTEST_SKIP() << "takes seconds without optimisation; runs in release builds";
    }
#endif
    const FlexNetGraph graph = ReadFlexNet(path);
    FlexNetWitness::Options options;
    options.fabric = row.kind;
    options.rate = row.gbps * 1'000'000'000;
    options.queuePackets = row.kind == Kind::FatTree ? 10000 : 60000;
    FlexNetWitness witness(graph, options);
    EXPECT_EQ(witness.Run(), row.finish);
    EXPECT_TRUE(witness.Complete());
    EXPECT_EQ(witness.drops, 0U);
    if (row.flows[0] == '\0')
    {
        return;
    }
    const std::vector<std::string> lines = Lines(test::Golden(std::string("results/") + row.flows));
    ASSERT_EQ(lines.size(), witness.finished.size() + 1);
    for (std::size_t i = 0; i < witness.finished.size(); ++i)
    {
        ASSERT_EQ(FlexNetWitness::Line(witness.finished[i]), lines[i]) << "line " << i + 1;
    }
    EXPECT_EQ("FinalFinish " + std::to_string(row.finish), lines.back());
}

INSTANTIATE_TEST_SUITE_P(
    Results,
    FlexNetGolden,
    testing::Values(
        Row{"ring12_d4.fbuf",
            Kind::FromFile,
            25,
            216909837702,
            "flat25_ring12_d4.fct.txt.gz",
            true},
        Row{"ring12_d4.fbuf", Kind::FromFile, 50, 188013715142, "", true},
        Row{"ring12_d4.fbuf", Kind::FromFile, 100, 185543802982, "flat100_ring12_d4.fct.txt.gz"},
        Row{"transformer_d4.fbuf",
            Kind::FromFile,
            100,
            62815131375,
            "flat100_transformer_4.fct.txt.gz"},
        Row{"transformer_d8.fbuf", Kind::FromFile, 100, 62643560175, "", true},
        Row{"vgg_d4.fbuf", Kind::FromFile, 100, 100480326542, "flat100_vgg_4.fct.txt.gz", true},
        Row{"dlrm_d4.fbuf", Kind::FromFile, 100, 21801435997, "flat100_dlrm_4.fct.txt.gz"},
        Row{"dlrm_d8.fbuf", Kind::FromFile, 100, 15400924696, "", true},
        Row{"candle_dp_d4.fbuf", Kind::FromFile, 100, 217122040886, "", true},
        Row{"100dlrm_16.fbuf", Kind::Star, 100, 61166911877, "star100_100dlrm_16.fct.txt.gz"},
        Row{"100transformer_16.fbuf", Kind::Star, 100, 63968900175, "", true},
        Row{"100vgg_16.fbuf", Kind::Star, 100, 210403519839, "star100_100vgg_16.fct.txt.gz", true},
        Row{"100dlrm_16.fbuf", Kind::FatTree, 100, 61243775878, "", true},
        Row{"100transformer_16.fbuf", Kind::FatTree, 100, 64739791791, ""},
        Row{"100vgg_16.fbuf", Kind::FatTree, 100, 210772724959, "", true}));

} // namespace
} // namespace topoopt
