// SPDX-License-Identifier: GPL-2.0-only
#include "../temp-path.h"
#include "golden.h"
#include "topoopt/core/error.h"
#include "topoopt/core/random.h"
#include "topoopt/core/readers/flexnet.h"
#include "topoopt/core/writers/flexnet.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <zlib.h>

namespace topoopt
{
namespace
{

namespace fs = std::filesystem;

std::string
SmallPath()
{
    return std::string(TOPOOPT_SOURCE_DIR) + "/traces/reference-small.fbuf";
}

std::string
Slurp(const std::string& path)
{
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

/** Expects an error whose one line holds every one of @p parts. */
void
ExpectError(const std::function<void()>& action, const std::vector<std::string>& parts)
{
    try
    {
        action();
        FAIL() << "no error, expected one about " << parts.front();
    }
    catch (const SpecError& error)
    {
        const std::string text = error.what();
        EXPECT_EQ(text.find('\n'), std::string::npos) << text;
        for (const std::string& part : parts)
        {
            EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
        }
    }
}

void
ExpectEqual(const FlexNetGraph& a, const FlexNetGraph& b)
{
    EXPECT_EQ(a.gpusPerNode, b.gpusPerNode);
    EXPECT_EQ(a.nodes, b.nodes);
    EXPECT_EQ(a.switches, b.switches);
    EXPECT_EQ(a.intraBandwidth, b.intraBandwidth);
    EXPECT_EQ(a.dramBandwidth, b.dramBandwidth);
    EXPECT_EQ(a.networkBandwidth, b.networkBandwidth);
    ASSERT_EQ(a.connections.size(), b.connections.size());
    for (std::size_t i = 0; i < a.connections.size(); ++i)
    {
        EXPECT_EQ(a.connections[i].a, b.connections[i].a);
        EXPECT_EQ(a.connections[i].b, b.connections[i].b);
        EXPECT_EQ(a.connections[i].count, b.connections[i].count);
    }
    ASSERT_EQ(a.operators.size(), b.operators.size());
    for (std::size_t i = 0; i < a.operators.size(); ++i)
    {
        EXPECT_EQ(a.operators[i].id, b.operators[i].id);
        EXPECT_EQ(a.operators[i].type, b.operators[i].type);
        EXPECT_EQ(a.operators[i].name, b.operators[i].name);
    }
    ASSERT_EQ(a.tasks.size(), b.tasks.size());
    for (std::size_t i = 0; i < a.tasks.size(); ++i)
    {
        EXPECT_EQ(a.tasks[i].kind, b.tasks[i].kind);
        EXPECT_EQ(a.tasks[i].id, b.tasks[i].id);
        EXPECT_EQ(a.tasks[i].device, b.tasks[i].device);
        EXPECT_EQ(a.tasks[i].runtimeMs, b.tasks[i].runtimeMs);
        EXPECT_EQ(a.tasks[i].bytes, b.tasks[i].bytes);
        EXPECT_EQ(a.tasks[i].next, b.tasks[i].next);
    }
    ASSERT_EQ(a.devices.size(), b.devices.size());
    for (std::size_t i = 0; i < a.devices.size(); ++i)
    {
        EXPECT_EQ(a.devices[i].kind, b.devices[i].kind);
        EXPECT_EQ(a.devices[i].id, b.devices[i].id);
        EXPECT_EQ(a.devices[i].node, b.devices[i].node);
        EXPECT_EQ(a.devices[i].property, b.devices[i].property);
        EXPECT_EQ(a.devices[i].bandwidth, b.devices[i].bandwidth);
    }
    ASSERT_EQ(a.routes.size(), b.routes.size());
    for (std::size_t i = 0; i < a.routes.size(); ++i)
    {
        EXPECT_EQ(a.routes[i].src, b.routes[i].src);
        EXPECT_EQ(a.routes[i].dst, b.routes[i].dst);
        ASSERT_EQ(a.routes[i].paths.size(), b.routes[i].paths.size());
        for (std::size_t p = 0; p < a.routes[i].paths.size(); ++p)
        {
            EXPECT_EQ(a.routes[i].paths[p].nodes, b.routes[i].paths[p].nodes);
            EXPECT_EQ(a.routes[i].paths[p].chance, b.routes[i].paths[p].chance);
        }
    }
    ASSERT_EQ(a.rings.size(), b.rings.size());
    for (std::size_t i = 0; i < a.rings.size(); ++i)
    {
        EXPECT_EQ(a.rings[i].groupSize, b.rings[i].groupSize);
        EXPECT_EQ(a.rings[i].jumps, b.rings[i].jumps);
    }
}

/** Four servers on a cycle: two computes, a message 0->2 over 1, an AllReduce of all. */
FlexNetGraph
Tiny()
{
    FlexNetGraph g;
    g.file = "tiny";
    g.nodes = 4;
    g.networkBandwidth = 1;
    for (NodeId i = 0; i < 4; ++i)
    {
        g.connections.push_back({(i + 1) % 4, i, 1});
    }
    g.devices.push_back({FlexNetDeviceKind::Gpu, 10, 0, 0, 0, 0});
    g.devices.push_back({FlexNetDeviceKind::Gpu, 11, 2, 2, 0, 0});
    g.devices.push_back({FlexNetDeviceKind::NetworkNominal, 12, UINT64_MAX, 0 * 4 + 2, 0, 0});
    g.tasks.push_back({FlexNetTaskKind::Forward, 100, 0, 1.5F, 0, {1}, 0});
    g.tasks.push_back({FlexNetTaskKind::Message, 101, 2, 0, 30000, {2}, 0});
    g.tasks.push_back({FlexNetTaskKind::Backward, 102, 1, 2.0F, 0, {3}, 0});
    g.tasks.push_back({FlexNetTaskKind::AllReduce, 103, kNoId, 0.25F, 4000000, {0, 1, 2, 3}, 0});
    g.routes.push_back({0, 2, {{{0, 1, 2}, 0.5F}, {{0, 3, 2}, 0.5F}}});
    g.rings.push_back({4, {{1}, {3}}});
    return g;
}

TEST(FlexNetReader, ReadsTheReferenceGraph)
{
    const FlexNetGraph graph = ReadFlexNet(SmallPath());
    EXPECT_EQ(graph.nodes, 8U);
    EXPECT_EQ(graph.switches, 0U);
    EXPECT_EQ(graph.operators.at(1).name, "tables");
    EXPECT_EQ(graph.networkBandwidth, 12500000.0F);
    const FlexNetStatistics s = Inspect(graph);
    EXPECT_EQ(s.cables, 16U);
    EXPECT_EQ(s.forward, 40U);
    EXPECT_EQ(s.backward, 40U);
    EXPECT_EQ(s.otherCompute, 2U);
    EXPECT_EQ(s.messages, 112U);
    EXPECT_EQ(s.messagePairs, 56U);
    // Sum over ordered pairs of 65536 * (1 + (s + t) mod 3), forward and backward.
    Bytes bytes = 0;
    for (std::uint32_t a = 0; a < 8; ++a)
    {
        for (std::uint32_t b = 0; b < 8; ++b)
        {
            bytes += a == b ? 0 : 2 * 65536 * (1 + (a + b) % 3);
        }
    }
    EXPECT_EQ(s.messageBytes, bytes);
    EXPECT_EQ(s.allReduces, 14U);
    EXPECT_EQ(s.groups.at(1), std::make_pair(std::uint64_t{8}, Bytes{8} * 4194304));
    EXPECT_EQ(s.groups.at(8).first, 6U);
    EXPECT_EQ(s.rings.at(8), 4U);
}

TEST(FlexNetReader, StatisticsAsTextAndJson)
{
    const FlexNetStatistics s = Inspect(Tiny());
    const std::string text = ToText(s);
    EXPECT_NE(text.find("AllReduce groups, size:count (bytes): 4:1 (4000000 B)\n"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("message bytes: 30000 B between 1 pairs\n"), std::string::npos) << text;
    EXPECT_NE(text.find("GPU busy max/min: 2.000/1.500 ms\n"), std::string::npos) << text;
    const auto json = nlohmann::json::parse(ToJson(s));
    EXPECT_EQ(json["allreduce_groups"][0]["bytes"], 4000000);
    EXPECT_EQ(json["message_pairs"], 1);
    EXPECT_EQ(json["gpu_busy_max_ms"], 2.0);
    EXPECT_EQ(json["rings"][0]["count"], 2);
}

struct Published
{
    const char* file;
    std::uint64_t compute; ///< forward = backward
    std::uint64_t allReduces;
    std::uint64_t messages;
    std::map<std::uint64_t, std::pair<std::uint64_t, Bytes>> groups; ///< bytes 0: not published
    double messageBytes;                                             ///< to four digits
    std::uint64_t pairs;
    double busyMax;
    double busyMin;
};

TEST(FlexNetReader, PublishedGraphsHaveThePublishedStatistics)
{
    const std::vector<Published> table = {
        {"400candle_16.fbuf",
         602,
         140,
         640,
         {{2, {6, 201375744}},
          {4, {50, 1697366016}},
          {8, {48, 1563131904}},
          {16, {36, 1290813452}}},
         1.799e10,
         80,
         117.142,
         96.649},
        {"100dlrm_16.fbuf",
         360,
         62,
         496,
         {{1, {16, 0}}, {8, {10, 20992000}}, {16, {36, 285351940}}},
         1.074e9,
         230,
         17.568,
         7.890},
        {"10dlrm_16.fbuf",
         400,
         62,
         480,
         {{1, {16, 0}}, {16, {46, 306343940}}},
         1.007e9,
         240,
         14.543,
         14.543},
        {"100transformer_16.fbuf", 976, 68, 0, {{16, {68, 226569220}}}, 0, 0, 62.202, 62.202},
        {"100vgg_16.fbuf", 368, 32, 0, {{16, {32, 1157409952}}}, 0, 0, 100.477, 100.477},
        {"25dlrm_128.fbuf.gz",
         3136,
         110,
         16256,
         {{1, {64, 0}}, {128, {46, 1225056260}}},
         8.523e9,
         12224,
         29.768,
         16.842},
        {"ring12_d4.fbuf",
         198,
         36,
         132,
         {{1, {6, 0}}, {12, {30, 964935684}}},
         3.244e8,
         102,
         183.030,
         171.051},
    };
    for (const Published& row : table)
    {
        SCOPED_TRACE(row.file);
        const std::string path = test::Golden(std::string("taskgraphs/") + row.file);
        if (path.empty())
        {
            GTEST_SKIP() << "no shared directory with golden data";
        }
        const FlexNetStatistics s = Inspect(ReadFlexNet(path));
        EXPECT_EQ(s.forward, row.compute);
        EXPECT_EQ(s.backward, row.compute);
        EXPECT_EQ(s.allReduces, row.allReduces);
        EXPECT_EQ(s.messages, row.messages);
        ASSERT_EQ(s.groups.size(), row.groups.size());
        for (const auto& [size, entry] : row.groups)
        {
            ASSERT_EQ(s.groups.count(size), 1U) << size;
            EXPECT_EQ(s.groups.at(size).first, entry.first) << size;
            if (entry.second != 0)
            {
                EXPECT_EQ(s.groups.at(size).second, entry.second) << size;
            }
        }
        EXPECT_NEAR(static_cast<double>(s.messageBytes),
                    row.messageBytes,
                    0.0006 * row.messageBytes);
        EXPECT_EQ(s.messagePairs, row.pairs);
        EXPECT_NEAR(s.busyMaxMs, row.busyMax, 0.0006);
        EXPECT_NEAR(s.busyMinMs, row.busyMin, 0.0006);
    }
}

TEST(FlexNetReader, EveryGoldenGraphIsSoundAndSurvivesWritingAndReading)
{
    const std::string directory = test::Golden("taskgraphs");
    if (directory.empty())
    {
        GTEST_SKIP() << "no shared directory with golden data";
    }
    for (const fs::directory_entry& entry : fs::directory_iterator(directory))
    {
        SCOPED_TRACE(entry.path().string());
        if (entry.file_size() > 300000)
        {
            continue; // the 128-server ones take seconds in a debug build
        }
        const FlexNetGraph graph = ReadFlexNet(entry.path().string());
        ExpectEqual(graph, ParseFlexNet(FlexNetBytes(graph), "written"));
    }
}

void
Cut(const std::string& whole, std::size_t step)
{
    for (std::size_t length = 0; length < whole.size(); length += step)
    {
        // A copy of exactly that size, so that a sanitizer sees reads past the end.
        const std::vector<char> cut(whole.begin(),
                                    whole.begin() + static_cast<std::ptrdiff_t>(length));
        try
        {
            static_cast<void>(ParseFlexNet({cut.data(), cut.size()}, "cut"));
            ADD_FAILURE() << "no error at a length of " << length << " of " << whole.size();
        }
        catch (const SpecError& error)
        {
            EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
        }
    }
}

TEST(FlexNetReader, EveryCutIsOneError)
{
    Cut(FlexNetBytes(Tiny()), 1);
    Cut(Slurp(SmallPath()), 17);
}

TEST(FlexNetReader, FlippedBytesAreReadOrRefused)
{
    const std::string whole = FlexNetBytes(Tiny());
    std::size_t refused = 0;
    for (std::size_t at = 0; at < whole.size(); ++at)
    {
        for (const int bit : {0, 1, 3, 6, 7, 8})
        {
            std::vector<char> damaged(whole.begin(), whole.end());
            damaged[at] = bit == 8 ? static_cast<char>(~damaged[at])
                                   : static_cast<char>(damaged[at] ^ (1 << bit));
            try
            {
                const FlexNetGraph graph = ParseFlexNet({damaged.data(), damaged.size()}, "flip");
                static_cast<void>(ToJson(Inspect(graph)));
                static_cast<void>(FlexNetReferenceOrder(graph));
            }
            catch (const SpecError& error)
            {
                ++refused;
                EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
            }
        }
    }
    EXPECT_GT(refused, whole.size());
}

TEST(FlexNetReader, RandomDamageIsReadOrRefused)
{
    const std::string whole = Slurp(SmallPath());
    Rng rng(7, "flexnet damage");
    for (int round = 0; round < 300; ++round)
    {
        std::vector<char> damaged(whole.begin(), whole.end());
        const std::uint64_t count = 1 + rng.Next() % 8;
        for (std::uint64_t i = 0; i < count; ++i)
        {
            damaged[rng.Next() % damaged.size()] = static_cast<char>(rng.Next());
        }
        try
        {
            static_cast<void>(ParseFlexNet({damaged.data(), damaged.size()}, "damage"));
        }
        catch (const SpecError&)
        {
        }
    }
}

TEST(FlexNetReader, AbsentVectorsAreEmpty)
{
    // Root table with nnode and ngpupernode alone.
    const std::string bytes("\x0c\0\0\0"                      // root at 12
                            "\x08\0\x0c\0\x04\0\x08\0"        // vtable of two slots
                            "\x08\0\0\0\x01\0\0\0\x02\0\0\0", // table: vtable 8 before, 1, 2
                            24);
    const FlexNetGraph graph = ParseFlexNet(bytes, "small");
    EXPECT_EQ(graph.gpusPerNode, 1U);
    EXPECT_EQ(graph.nodes, 2U);
    EXPECT_TRUE(graph.tasks.empty());
    EXPECT_EQ(FlexNetTaskGraph(graph).tasks.size(), 0U);
    EXPECT_TRUE(FlexNetReferenceOrder(graph).empty());
    ExpectError([&] { static_cast<void>(FlexNetFabric(graph, {1000}, 1, 1)); },
                {"small: ", "no connections"});
    ExpectError([] { static_cast<void>(ParseFlexNet("", "none")); }, {"none@0: "});
}

TEST(FlexNetReader, OverlappingVectorsCannotMultiply)
{
    // 300 routes of which each is made to be the first, its 300 paths made to be its first of 300 hops:
    // 27 million hops out of a file of some 100 kB.
    constexpr std::uint32_t kMany = 300;
    FlexNetGraph graph = Tiny();
    graph.nodes = kMany;
    graph.devices[2].property = 2;
    graph.rings.clear();
    graph.routes.clear();
    FlexNetPath path;
    for (std::uint32_t i = 0; i < kMany; ++i)
    {
        path.nodes.push_back(i % 2);
    }
    path.nodes.push_back(2 - kMany % 2);
    path.nodes.push_back(2);
    path.nodes.resize(path.nodes[kMany] == 2 ? kMany + 1 : kMany + 2);
    graph.routes.push_back({0, 2, std::vector<FlexNetPath>(kMany, path)});
    for (std::uint32_t i = 3; i < kMany + 2; ++i)
    {
        graph.routes.push_back({0, i % kMany, {}});
    }
    graph.routes.resize(kMany - 3);
    std::string bytes = FlexNetBytes(graph);
    ASSERT_NO_THROW(static_cast<void>(ParseFlexNet(bytes, "before")));

    const auto get = [&bytes](std::size_t at, std::size_t width) {
        std::size_t value = 0;
        for (std::size_t i = width; i-- > 0;)
        {
            value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
        }
        return value;
    };
    const auto vectorOf = [&](std::size_t table, std::size_t slot) {
        const std::size_t field = table + get(table - get(table, 4) + 4 + 2 * slot, 2);
        return field + get(field, 4);
    };
    const auto first = [&](std::size_t vector) { return vector + 4 + get(vector + 4, 4); };
    const auto makeAllTheFirst = [&](std::size_t vector) {
        const std::size_t target = first(vector);
        for (std::size_t i = 0; i < get(vector, 4); ++i)
        {
            const std::size_t at = vector + 4 + 4 * i;
            for (std::size_t byte = 0; byte < 4; ++byte)
            {
                bytes[at + byte] = static_cast<char>((target - at) >> (8 * byte) & 0xff);
            }
        }
    };
    const std::size_t routes = vectorOf(get(0, 4), 10);
    makeAllTheFirst(vectorOf(first(routes), 2));
    makeAllTheFirst(routes);
    ExpectError([&] { static_cast<void>(ParseFlexNet(bytes, "overlap")); },
                {"overlap@", "vectors that overlap"});
}

TEST(FlexNetReader, UnsoundGraphsAreRefused)
{
    const auto refuse = [](const std::function<void(FlexNetGraph&)>& change,
                           const std::vector<std::string>& parts) {
        FlexNetGraph graph = Tiny();
        change(graph);
        ExpectError([&] { VerifyFlexNet(graph); }, parts);
    };
    ASSERT_NO_THROW(VerifyFlexNet(Tiny()));
    refuse([](FlexNetGraph& g) { g.nodes = 0; }, {"nnode", "found 0"});
    refuse([](FlexNetGraph& g) { g.nodes = 4000000000U; }, {"nnode", "4000000000"});
    refuse([](FlexNetGraph& g) { g.gpusPerNode = 0; }, {"ngpupernode"});
    refuse([](FlexNetGraph& g) { g.devices[1].node = 4; }, {"device 1", "node 4", "0..3"});
    refuse([](FlexNetGraph& g) { g.devices[2].property = 16; }, {"device 2", "property 16"});
    refuse([](FlexNetGraph& g) { g.devices[2].property = 5; },
           {"task 1", "from server 1 to itself"});
    refuse([](FlexNetGraph& g) { g.tasks[0].device = 2; }, {"task 0", "network device"});
    refuse([](FlexNetGraph& g) { g.tasks[0].device = 9; }, {"task 0", "no device"});
    refuse([](FlexNetGraph& g) { g.tasks[0].next = {7}; }, {"task 0", "successor number 7"});
    refuse([](FlexNetGraph& g) { g.tasks[0].runtimeMs = -1; }, {"task 0", "run time"});
    refuse([](FlexNetGraph& g) { g.tasks[0].runtimeMs = std::nanf(""); }, {"task 0", "run time"});
    refuse([](FlexNetGraph& g) { g.tasks[1].bytes = UINT64_MAX; }, {"task 1", "2^50"});
    refuse([](FlexNetGraph& g) { g.tasks[3].next = {0, 1, 2, 4}; }, {"task 3", "server 4"});
    refuse([](FlexNetGraph& g) { g.tasks[3].next = {0, 1, 2, 1}; }, {"task 3", "server 1 twice"});
    refuse([](FlexNetGraph& g) { g.tasks[3].next.clear(); }, {"task 3", "no servers"});
    refuse([](FlexNetGraph& g) { g.tasks[2].next = {0}; },
           {"cycle", "task 0 (id 100) -> task 1 (id 101) -> task 2 (id 102) -> task 0 (id 100)"});
    refuse([](FlexNetGraph& g) { g.tasks[1].next = {1}; }, {"cycle", "task 1"});
    refuse([](FlexNetGraph& g) { g.connections[0].a = 4; }, {"connection 4-0"});
    refuse([](FlexNetGraph& g) { g.connections[0].count = 0; }, {"connection 1-0", "0 cables"});
    refuse(
        [](FlexNetGraph& g) {
            g.connections.push_back({0, 1, 1});
        },
        {"connection 0-1", "twice"});
    refuse([](FlexNetGraph& g) { g.routes.clear(); }, {"task 1", "no route 0->2"});
    refuse([](FlexNetGraph& g) { g.routes[0].paths.clear(); }, {"task 1", "no route 0->2"});
    refuse([](FlexNetGraph& g) { g.routes.push_back(g.routes[0]); }, {"route 0->2", "twice"});
    refuse([](FlexNetGraph& g) { g.routes[0].dst = 4; }, {"route 0->4"});
    refuse(
        [](FlexNetGraph& g) {
            g.routes[0].paths[0].nodes = {0, 2};
        },
        {"route 0->2", "hop 0->2"});
    refuse([](FlexNetGraph& g) { g.routes[0].paths[0].nodes = {0, 1}; }, {"route 0->2"});
    refuse([](FlexNetGraph& g) { g.rings[0].groupSize = 5; }, {"rings of 5"});
    refuse([](FlexNetGraph& g) { g.rings[0].jumps.clear(); }, {"rings of 4", "no jump list"});
    refuse([](FlexNetGraph& g) { g.rings[0].jumps = {{2}}; }, {"rings of 4", "comes back after 4"});
    refuse([](FlexNetGraph& g) { g.rings[0].jumps = {{2, 3}}; }, {"rings of 4", "hop 0->2"});
    refuse([](FlexNetGraph& g) { g.rings = {{2, {{1, 1}}}}; }, {"task 3", "no rings", "4"});
    refuse([](FlexNetGraph& g) { g.rings.push_back(g.rings[0]); }, {"rings of 4", "twice"});
    FlexNetGraph plain = Tiny();
    plain.rings.clear(); // without any rings every AllReduce is one ring in group order
    EXPECT_NO_THROW(VerifyFlexNet(plain));
}

TEST(FlexNetReader, BadReferencesAreNamedWithTheirByte)
{
    const auto change = [](std::uint64_t from, std::uint64_t to) {
        std::string bytes = FlexNetBytes(Tiny());
        std::string a(8, '\0');
        std::string b(8, '\0');
        for (std::size_t i = 0; i < 8; ++i)
        {
            a[i] = static_cast<char>(from >> (8 * i) & 0xff);
            b[i] = static_cast<char>(to >> (8 * i) & 0xff);
        }
        const std::size_t at = bytes.find(a);
        EXPECT_NE(at, std::string::npos);
        return bytes.replace(at, 8, b);
    };
    ExpectError([&] { static_cast<void>(ParseFlexNet(change(101, 999), "f")); },
                {"f@", "task.nexttasks: found 999"}); // the first 101 is a successor of 100
    ExpectError([&] { static_cast<void>(ParseFlexNet(change(10, 99), "f")); },
                {"f@", "task.deviceid: found 99"});
    ExpectError([&] { static_cast<void>(ParseFlexNet(change(102, 100), "f")); }, {"f@"});
}

TEST(FlexNetReader, GzipAndFileErrors)
{
    const fs::path directory = test::TempPath("flexnet-gzip");
    fs::create_directories(directory);
    const FlexNetGraph graph = ReadFlexNet(SmallPath());
    const std::string zipped = (directory / "small.fbuf.gz").string();
    WriteFlexNet(graph, zipped);
    WriteFlexNet(graph, (directory / "small.fbuf").string());
    ExpectEqual(graph, ReadFlexNet(zipped));
    EXPECT_EQ(Slurp((directory / "small.fbuf").string()), FlexNetBytes(graph));
    const std::string bytes = Slurp(zipped);
    ASSERT_LT(bytes.size(), FlexNetBytes(graph).size() / 2);

    const std::string cut = (directory / "cut.fbuf.gz").string();
    std::ofstream(cut, std::ios::binary) << bytes.substr(0, bytes.size() / 2);
    ExpectError([&] { static_cast<void>(ReadFlexNet(cut)); }, {cut + "@"});
    std::string broken = bytes;
    broken[broken.size() / 2] = static_cast<char>(~broken[broken.size() / 2]);
    std::ofstream(cut, std::ios::binary) << broken;
    ExpectError([&] { static_cast<void>(ReadFlexNet(cut)); }, {cut});
    ExpectError([&] { static_cast<void>(ReadFlexNet((directory / "absent").string())); },
                {"absent", "cannot be opened"});
    ExpectError([&] { static_cast<void>(ReadFlexNet(directory.string())); }, {"cannot be"});
    ExpectError([&] { WriteFlexNet(graph, (directory / "no" / "such").string()); },
                {"cannot be written"});
    fs::remove_all(directory);
}

TEST(FlexNetWriter, ReadingGivesWhatWasWritten)
{
    ExpectEqual(Tiny(), ParseFlexNet(FlexNetBytes(Tiny()), "tiny"));
    const FlexNetGraph graph = ReadFlexNet(SmallPath());
    const std::string bytes = FlexNetBytes(graph);
    ExpectEqual(graph, ParseFlexNet(bytes, "small"));
    EXPECT_EQ(bytes, FlexNetBytes(ParseFlexNet(bytes, "small")));
}

TEST(FlexNetFabric, LinksPathsAndRingsOfTheFile)
{
    FlexNetGraph graph = Tiny();
    graph.connections[0].count = 3;
    const Fabric fabric = FlexNetFabric(graph, {100'000'000'000}, 1000, 1);
    EXPECT_EQ(fabric.topology.servers, 4U);
    ASSERT_EQ(fabric.topology.links.size(), 8U);
    EXPECT_EQ(fabric.topology.links[0].rate.bps, 300'000'000'000U);
    EXPECT_EQ(fabric.topology.links[2].rate.bps, 100'000'000'000U);
    EXPECT_EQ(fabric.topology.links[2].delay, 1000);
    const auto paths = fabric.router->Paths(0, 2);
    ASSERT_EQ(paths.size(), 2U);
    for (const auto& [path, chance] : paths)
    {
        EXPECT_EQ(path.size(), 2U);
        EXPECT_DOUBLE_EQ(chance, 0.5);
        EXPECT_NO_THROW(CheckPath(fabric.topology, path, 0, 2));
    }
    EXPECT_THROW(static_cast<void>(fabric.router->Route(2, 0, 0)), SpecError);

    const std::vector<Ring> rings = fabric.rings({0, 1, 2, 3});
    ASSERT_EQ(rings.size(), 2U);
    EXPECT_EQ(rings[0].order, (std::vector<std::uint32_t>{0, 1, 2, 3}));
    EXPECT_EQ(rings[1].order, (std::vector<std::uint32_t>{0, 3, 2, 1}));
    for (std::uint32_t k = 0; k < 4; ++k)
    {
        EXPECT_NO_THROW(CheckPath(fabric.topology, rings[1].hops[k], (4 - k) % 4, (7 - k) % 4));
    }
    // Sizes without jump lists: one ring, ways left to the router.
    const std::vector<Ring> pair = fabric.rings({1, 3});
    ASSERT_EQ(pair.size(), 1U);
    EXPECT_EQ(pair[0].order, (std::vector<std::uint32_t>{0, 1}));
    EXPECT_TRUE(pair[0].hops.empty());
}

TEST(FlexNetFabric, MultiHopRingsOfSubgroups)
{
    FlexNetGraph graph = Tiny();
    graph.rings.push_back({2, {{1, 1}}});
    const Fabric fabric = FlexNetFabric(graph, {1'000'000'000}, 0, 1);
    const std::vector<Ring> rings = fabric.rings({3, 1});
    ASSERT_EQ(rings.size(), 1U);
    ASSERT_EQ(rings[0].hops.size(), 2U);
    EXPECT_NO_THROW(CheckPath(fabric.topology, rings[0].hops[0], 3, 1));
    EXPECT_NO_THROW(CheckPath(fabric.topology, rings[0].hops[1], 1, 3));
    EXPECT_TRUE(fabric.rings({0, 1})[0].hops.empty()); // jumps of 2 never reach server 1
}

TEST(FlexNetTaskGraph, KeepsWorkAndOrder)
{
    const TaskGraph graph = FlexNetTaskGraph(Tiny());
    EXPECT_EQ(graph.ranks, 4U);
    ASSERT_EQ(graph.tasks.size(), 4U + 4U); // the AllReduce is a join and four members
    EXPECT_EQ(graph.tasks[0].kind, TaskKind::Compute);
    EXPECT_EQ(graph.tasks[0].duration, 1'500'000'000);
    EXPECT_EQ(graph.tasks[1].kind, TaskKind::Transfer);
    EXPECT_EQ(graph.transfers.at(0).src, 0U);
    EXPECT_EQ(graph.transfers.at(0).dst, 2U);
    EXPECT_EQ(graph.transfers.at(0).bytes, 30000U);
    EXPECT_EQ(graph.tasks[2].rank, 2U);
    EXPECT_EQ(graph.tasks[3].kind, TaskKind::Join);
    EXPECT_EQ(graph.tasks[3].duration, 250'000'000);
    EXPECT_EQ(graph.PredecessorCounts(), (std::vector<std::uint32_t>{0, 1, 1, 1, 1, 1, 1, 1}));
    ASSERT_EQ(graph.collectives.size(), 1U);
    EXPECT_EQ(graph.collectives[0].bytes, 4000000U);
    EXPECT_EQ(graph.groups.at(0).members, (std::vector<RankId>{0, 1, 2, 3}));

    const FlexNetGraph small = ReadFlexNet(SmallPath());
    const FlexNetStatistics s = Inspect(small);
    const TaskGraph big = FlexNetTaskGraph(small);
    EXPECT_EQ(big.transfers.size(), s.messages);
    EXPECT_EQ(big.collectives.size(), s.allReduces);
    EXPECT_EQ(big.tasks.size(), small.tasks.size() + 8 * 1 + 6 * 8);
}

TEST(FlexNetTimes, AreRoundedAsTheReferenceDoes)
{
    EXPECT_EQ(FlexNetComputeTime(1.5F), 1'500'000'000);
    // 0.7175170183181763 ms: the product is 717517018.3 in double, its float neighbour is 717517056 or ...004.
    const float runtime = 0.7175170183181763F;
    EXPECT_EQ(FlexNetComputeTime(runtime),
              static_cast<SimTime>(runtime * static_cast<float>(1000000000ULL)));
    EXPECT_EQ(FlexNetComputeTime(runtime) % 64, 0); // 24 bits of 2^29..2^30
    EXPECT_EQ(FlexNetAllReduceDelay(runtime), 717'517'018);
}

TEST(FlexNetReferenceOrder, IsThatOfTheStandardLibrarysTable)
{
#ifndef __GLIBCXX__
    GTEST_SKIP() << "the order is that of libstdc++";
#endif
    Rng rng(3, "flexnet order");
    for (const std::size_t count : {1U, 2U, 13U, 14U, 29U, 30U, 500U, 1109U, 1110U, 5000U, 60000U})
    {
        FlexNetGraph graph;
        std::unordered_map<std::uint64_t, std::uint32_t> table;
        while (graph.tasks.size() < count)
        {
            FlexNetTask task;
            task.id = count % 2 == 0 ? 140000000000000 + 16 * (rng.Next() % 1000000) : rng.Next();
            const auto index = static_cast<std::uint32_t>(graph.tasks.size());
            if (table.count(task.id) == 0)
            {
                table[task.id] = index;
                graph.tasks.push_back(task);
            }
        }
        std::vector<std::uint32_t> expected;
        for (const auto& [id, index] : table)
        {
            expected.push_back(index);
        }
        EXPECT_EQ(FlexNetReferenceOrder(graph), expected) << count;
    }
}

} // namespace
} // namespace topoopt
