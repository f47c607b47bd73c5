// SPDX-License-Identifier: GPL-2.0-only
// The fast engine of `compat: flexnet` against the reference's results and against the slow witness.
#include "../core/flexnet-witness.h"
#include "../sanitizers.h"
#include "flexnet-random-graph.h"
#include "ns3/flexnet-order.h"
#include "ns3/flexnet-paths.h"
#include "ns3/flexnet-simulation.h"
#include "ns3/peek-scheduler.h"
#include "ns3/simulator.h"
#include "topoopt/core/error.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>
#include <zlib.h>

namespace topoopt
{
namespace
{

namespace fs = std::filesystem;

class Collector : public FlexNetObserver
{
  public:
    void FlowFinished(const FlexNetFlowRecord& record) override
    {
        flows.push_back(record);
    }

    void TaskFinished(const FlexNetTaskRecord& record) override
    {
        tasks.push_back(record);
    }

    bool Progress(SimTime /* now */, const FlexNetTotals& /* totals */) override
    {
        ++beats;
        return beats < beatsAllowed;
    }

    std::vector<FlexNetFlowRecord> flows;
    std::vector<FlexNetTaskRecord> tasks;
    std::uint64_t beats = 0;
    std::uint64_t beatsAllowed = UINT64_MAX;
};

FlexNetRunResult
Simulate(const FlexNetGraph& graph, const FlexNetConfig& config, Collector& collector)
{
    FlexNetRunResult result = RunFlexNet(graph, config, collector);
    ns3::Simulator::Destroy();
    return result;
}

FlexNetWitness::Flow
AsWitness(const FlexNetFlowRecord& record)
{
    return {record.src,
            record.dst,
            record.size,
            static_cast<std::uint64_t>(record.start),
            static_cast<std::uint64_t>(record.end - record.start),
            record.hops};
}

std::string
Digits(const FlexNetWitness::Flow& flow)
{
    return std::to_string(flow.src) + ">" + std::to_string(flow.dst) + " " +
           std::to_string(flow.bytes) + " B, start " + std::to_string(flow.start) + ", fct " +
           std::to_string(flow.fct) + ", " + std::to_string(flow.hops) + " hops";
}

FlexNetWitness::Kind
WitnessKind(FlexNetFabricKind kind)
{
    switch (kind)
    {
    case FlexNetFabricKind::FromFile:
        return FlexNetWitness::Kind::FromFile;
    case FlexNetFabricKind::Star:
        return FlexNetWitness::Kind::Star;
    default:
        return FlexNetWitness::Kind::FatTree;
    }
}

/** Lines of flows with their ends: simultaneous ones, whose order in a log means nothing, in order of the text. */
using Log = std::vector<std::pair<std::uint64_t, std::string>>;

template <typename Text>
Log
LogOf(const std::vector<FlexNetWitness::Flow>& flows, Text text)
{
    Log log;
    for (const FlexNetWitness::Flow& flow : flows)
    {
        log.emplace_back(flow.start + flow.fct, text(flow));
    }
    std::stable_sort(log.begin(), log.end());
    return log;
}

/** What was recorded, which must be in order of end and, among simultaneous ones, of id. */
std::vector<FlexNetWitness::Flow>
InOrder(const std::vector<FlexNetFlowRecord>& records)
{
    std::vector<FlexNetWitness::Flow> flows;
    for (std::size_t i = 0; i < records.size(); ++i)
    {
        flows.push_back(AsWitness(records[i]));
        if (i > 0)
        {
            EXPECT_LT(std::tie(records[i - 1].end, records[i - 1].id),
                      std::tie(records[i].end, records[i].id));
        }
    }
    return flows;
}

std::vector<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t, SimTime>>
IdsOf(const std::vector<FlexNetFlowRecord>& records)
{
    std::vector<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t, SimTime>> ids;
    for (const FlexNetFlowRecord& record : records)
    {
        ids.emplace_back(record.id, record.src, record.ring, record.end);
    }
    return ids;
}

std::vector<std::pair<std::uint64_t, SimTime>>
TasksOf(const std::vector<FlexNetTaskRecord>& records)
{
    std::vector<std::pair<std::uint64_t, SimTime>> tasks;
    for (const FlexNetTaskRecord& record : records)
    {
        tasks.emplace_back(record.task, record.end);
    }
    return tasks;
}

/** Runs the witness and the engine, trains on and off; everything must be equal. @return the witness's run; adds to @p shared the
 * flows that others stood for */
std::unique_ptr<FlexNetWitness>
ExpectEqual(const FlexNetGraph& graph, FlexNetConfig config, std::uint64_t& shared)
{
    decltype(IdsOf({})) ids;
    decltype(TasksOf({})) tasks;
    FlexNetWitness::Options options;
    options.fabric = WitnessKind(config.fabric);
    options.rate = config.rate.bps;
    options.delay = static_cast<std::uint64_t>(config.delay);
    options.ssthresh = config.slowStartPackets;
    options.queuePackets = config.queuePackets;
    auto witness = std::make_unique<FlexNetWitness>(graph, options);
    const std::uint64_t finish = witness->Run();
    EXPECT_TRUE(witness->Complete());
    std::uint64_t packetHops = 0;
    std::vector<FlexNetLinkCounters> links;
    for (const bool trains : {false, true})
    {
        config.trains = trains;
        Collector collector;
        const FlexNetRunResult result = Simulate(graph, config, collector);
        EXPECT_TRUE(result.complete);
        EXPECT_EQ(result.finalFinish, static_cast<SimTime>(finish));
        EXPECT_EQ(result.totals.marks, witness->marks)
            << result.totals.guessedOrders << " orders guessed";
        EXPECT_EQ(result.totals.drops, witness->drops);
        EXPECT_EQ(result.totals.timeouts, witness->timeouts);
        EXPECT_EQ(collector.tasks.size(), graph.tasks.size());
        EXPECT_TRUE(result.unfinished.empty());
        for (const std::string& violation : result.violations)
        {
            ADD_FAILURE() << violation;
        }
        EXPECT_EQ(collector.flows.size(), witness->finished.size());
        const Log mine = LogOf(InOrder(collector.flows), Digits);
        const Log theirs = LogOf(witness->finished, Digits);
        for (std::size_t i = 0; i < std::min(mine.size(), theirs.size()); ++i)
        {
            EXPECT_EQ(mine[i], theirs[i]) << "flow " << i << ", trains " << trains;
            if (mine[i] != theirs[i])
            {
                return witness;
            }
        }
        shared += result.totals.sharedFlows;
        if (!trains)
        {
            ids = IdsOf(collector.flows);
            tasks = TasksOf(collector.tasks);
            EXPECT_EQ(result.totals.sharedFlows, 0U);
            packetHops = result.totals.packetHops;
            links = result.links;
            continue;
        }
        EXPECT_EQ(IdsOf(collector.flows), ids);
        EXPECT_EQ(TasksOf(collector.tasks), tasks);
        EXPECT_EQ(result.totals.packetHops, packetHops);
        for (std::size_t i = 0; i < links.size(); ++i)
        {
            EXPECT_EQ(result.links[i].packets, links[i].packets) << "link " << i;
            EXPECT_EQ(result.links[i].bytes, links[i].bytes) << "link " << i;
            EXPECT_EQ(result.links[i].marks, links[i].marks) << "link " << i;
            EXPECT_EQ(result.links[i].busy, links[i].busy) << "link " << i;
        }
    }
    return witness;
}

// ---- Random graphs against the witness

struct Case
{
    const char* name;
    FlexNetFabricKind fabric = FlexNetFabricKind::FromFile;
    std::uint64_t rate = 100'000'000'000;
    SimTime delay = kMicrosecond;
    std::uint32_t slowStart = 10000;
    std::uint64_t queue = 60000;
    test::RandomGraphShape shape;
    int seeds = 12;
    bool mustTimeOut = false;
    bool mustDrop = false;
    bool mustShare = false; ///< flows that another one stands for
};

void
PrintTo(const Case& c, std::ostream* os)
{
    *os << c.name;
}

class FlexNetRandom : public testing::TestWithParam<Case>
{
};

TEST_P(FlexNetRandom, EqualsTheWitness)
{
    const Case& c = GetParam();
    FlexNetConfig config;
    config.fabric = c.fabric;
    config.rate.bps = c.rate;
    config.delay = c.delay;
    config.slowStartPackets = c.slowStart;
    config.queuePackets = c.queue;
    std::uint64_t timeouts = 0;
    std::uint64_t drops = 0;
    std::uint64_t shared = 0;
    int seeds = test::kSanitized ? (c.seeds + 2) / 3 : c.seeds;
    if (const char* more = std::getenv("TOPOOPT_TEST_SEEDS"))
    {
        seeds = std::atoi(more);
    }
    for (int seed = 0; seed < seeds && !HasFailure(); ++seed)
    {
        SCOPED_TRACE(std::string(c.name) + " seed " + std::to_string(seed));
        const FlexNetGraph graph = test::RandomGraph(static_cast<std::uint64_t>(seed), c.shape);
        const auto witness = ExpectEqual(graph, config, shared);
        timeouts += witness->timeouts;
        drops += witness->drops;
    }
    // The cases are what they say.
    EXPECT_TRUE(!c.mustTimeOut || timeouts > 0);
    EXPECT_TRUE(!c.mustDrop || drops > 0);
    EXPECT_TRUE(!c.mustShare || shared > 0);
}

constexpr auto kFile = FlexNetFabricKind::FromFile;
constexpr auto kStar = FlexNetFabricKind::Star;
constexpr auto kFatTree = FlexNetFabricKind::FatTree;
constexpr std::uint64_t kG = 1'000'000'000;

INSTANTIATE_TEST_SUITE_P(
    Graphs,
    FlexNetRandom,
    testing::Values(
        Case{"flat", kFile, 100 * kG, kMicrosecond, 10000, 60000, {0, 150, true, false}, 25},
        Case{"flatEven", kFile, 100 * kG, kMicrosecond, 10000, 60000, {0, 150, true, true}, 25},
        Case{"flatSmall", kFile, 100 * kG, kMicrosecond, 10000, 60000, {0, 4, true, false}, 25},
        Case{"flatNoRings", kFile, 100 * kG, kMicrosecond, 10000, 60000, {0, 150, false, false}},
        Case{"flatLarge", kFile, 100 * kG, kMicrosecond, 10000, 60000, {5, 1500, true, false}, 6},
        Case{"flat25", kFile, 25 * kG, kMicrosecond, 10000, 60000, {0, 150, true, false}},
        Case{"flat25Even", kFile, 25 * kG, kMicrosecond, 10000, 60000, {0, 150, true, true}},
        // 60 ps per byte times 8936 B = 536.16 ns, which divides nothing; 133 Gb/s.
        Case{"flatOdd", kFile, 133'333'333'333, 536'160, 10000, 60000, {0, 150, true, true}},
        // Transmission and propagation take the same time.
        Case{"flatTies", kFile, 100 * kG, 714'880, 10000, 60000, {0, 150, true, true}},
        Case{"flatTwiceTies", kFile, 100 * kG, 1'429'760, 10000, 60000, {0, 60, true, true}},
        Case{"flatLong", kFile, 100 * kG, 200 * kMicrosecond, 10000, 60000, {0, 400, true, false}},
        Case{"flatTimeouts", kFile, kG, kMicrosecond, 10000, 60000, {0, 150, true, false}, 8, true},
        Case{"flatSlow", kFile, kG / 10, kMicrosecond, 50, 60000, {0, 100, true, false}, 8, true},
        Case{"rings",
             kFile,
             100 * kG,
             kMicrosecond,
             10000,
             60000,
             {0, 150, true, false, true},
             25,
             false,
             false,
             true},
        Case{"ringsEven",
             kFile,
             100 * kG,
             kMicrosecond,
             10000,
             60000,
             {0, 150, true, true, true},
             25,
             false,
             false,
             true},
        Case{"ringsTies",
             kFile,
             100 * kG,
             1'429'760,
             10000,
             60000,
             {9, 60, true, true, true},
             40,
             false,
             false,
             true},
        Case{"ringsSlow",
             kFile,
             kG / 4,
             kMillisecond,
             10000,
             60000,
             {0, 60, true, false, true},
             12,
             true,
             false,
             true},
        Case{"star", kStar, 100 * kG, kMicrosecond, 10000, 60000, {0, 150, true, false}},
        Case{"starEven", kStar, 100 * kG, kMicrosecond, 10000, 60000, {0, 150, true, true}},
        Case{"starDrops",
             kStar,
             10 * kG,
             kMicrosecond,
             10000,
             60,
             {0, 150, true, false},
             12,
             true,
             true},
        Case{"starTight", kStar, kG, kMicrosecond, 20, 3, {0, 40, true, false}, 8, true, true},
        Case{"fatTree", kFatTree, 100 * kG, kMicrosecond, 10000, 60000, {16, 60, true, false}, 8},
        Case{"fatTreeEven", kFatTree, 40 * kG, kMicrosecond, 10000, 60000, {16, 60, true, true}, 8},
        Case{"fatTreeDrops",
             kFatTree,
             10 * kG,
             kMicrosecond,
             10000,
             55,
             {16, 60, true, false},
             6,
             true,
             true}),
    [](const auto& param) { return std::string(param.param.name); });

// ---- The reference's own results

std::string
Golden(const std::string& name)
{
    const char* shared = std::getenv("TOPOOPT_SHARED");
    const fs::path root =
        shared != nullptr ? fs::path(shared) : fs::path(TOPOOPT_SOURCE_DIR) / ".." / "shared";
    const fs::path path = root / "golden" / name;
    return fs::exists(path) ? path.string() : std::string();
}

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

enum class Cost
{
    Quick,
    Seconds, ///< only where the compiler optimises
    Large    ///< only if TOPOOPT_GOLDEN_LARGE is set
};

struct Row
{
    const char* graph;
    FlexNetFabricKind kind;
    std::uint64_t gbps;
    SimTime finish;
    Cost cost = Cost::Quick;
    std::uint64_t timeouts = 0;
    const char* flows = ""; ///< log of the run, empty if none was kept
};

void
PrintTo(const Row& row, std::ostream* os)
{
    *os << row.graph << " " << row.gbps << "G";
}

class FlexNetReference : public testing::TestWithParam<std::tuple<Row, bool>>
{
};

TEST_P(FlexNetReference, EveryFlowAndTheEndAreEqual)
{
    const auto& [row, trains] = GetParam();
    const std::string path = Golden(std::string("taskgraphs/") + row.graph);
    if (path.empty())
    {
        GTEST_SKIP() << "no shared directory with golden data";
    }
    if (row.cost == Cost::Large && std::getenv("TOPOOPT_GOLDEN_LARGE") == nullptr)
    {
        GTEST_SKIP() << "takes long; set TOPOOPT_GOLDEN_LARGE to run it";
    }
#ifndef NDEBUG
    if (row.cost != Cost::Quick)
    {
        GTEST_SKIP() << "takes seconds without optimisation; runs in release builds";
    }
#endif
    const FlexNetGraph graph = ReadFlexNet(path);
    FlexNetConfig config;
    config.fabric = row.kind;
    config.rate.bps = row.gbps * kG;
    config.queuePackets = row.kind == kFatTree ? 10000 : 60000;
    config.trains = trains;
    Collector collector;
    const FlexNetRunResult result = Simulate(graph, config, collector);
    EXPECT_TRUE(result.complete);
    EXPECT_EQ(result.finalFinish, row.finish);
    EXPECT_EQ(result.totals.drops, 0U);
    EXPECT_EQ(result.totals.timeouts, row.timeouts);
    EXPECT_EQ(result.violations, std::vector<std::string>());
    if (row.flows[0] == '\0')
    {
        return;
    }
    std::vector<std::string> lines = Lines(Golden(std::string("results/") + row.flows));
    ASSERT_EQ(lines.size(), collector.flows.size() + 1);
    // The log has no exact times, so the groups of simultaneous flows are those of the run.
    const Log mine = LogOf(InOrder(collector.flows), FlexNetWitness::Line);
    for (std::size_t i = 0; i < mine.size(); ++i)
    {
        if (i == 0 || mine[i].first != mine[i - 1].first)
        {
            auto last = i + 1;
            while (last < mine.size() && mine[last].first == mine[i].first)
            {
                ++last;
            }
            std::sort(lines.begin() + static_cast<std::ptrdiff_t>(i),
                      lines.begin() + static_cast<std::ptrdiff_t>(last));
        }
        ASSERT_EQ(mine[i].second, lines[i]) << "line " << i + 1;
    }
    EXPECT_EQ("FinalFinish " + std::to_string(row.finish), lines.back());
}

constexpr auto kQuick = Cost::Quick;
constexpr auto kSeconds = Cost::Seconds;
constexpr auto kLarge = Cost::Large;

INSTANTIATE_TEST_SUITE_P(
    Results,
    FlexNetReference,
    testing::Combine(
        testing::Values(
            Row{"ring12_d4.fbuf",
                kFile,
                25,
                216909837702,
                kQuick,
                0,
                "flat25_ring12_d4.fct.txt.gz"},
            Row{"ring12_d4.fbuf", kFile, 50, 188013715142},
            Row{"ring12_d4.fbuf",
                kFile,
                100,
                185543802982,
                kQuick,
                0,
                "flat100_ring12_d4.fct.txt.gz"},
            Row{"transformer_d4.fbuf",
                kFile,
                100,
                62815131375,
                kQuick,
                0,
                "flat100_transformer_4.fct.txt.gz"},
            Row{"transformer_d8.fbuf", kFile, 100, 62643560175},
            Row{"vgg_d4.fbuf", kFile, 100, 100480326542, kQuick, 0, "flat100_vgg_4.fct.txt.gz"},
            Row{"dlrm_d4.fbuf", kFile, 100, 21801435997, kQuick, 0, "flat100_dlrm_4.fct.txt.gz"},
            Row{"dlrm_d8.fbuf", kFile, 100, 15400924696},
            Row{"candle_dp_d4.fbuf", kFile, 100, 217122040886, kSeconds},
            Row{"dlrm128_d4.fbuf.gz", kFile, 100, 79809105884, kLarge},
            Row{"dlrm128_d8.fbuf.gz", kFile, 100, 44561442499, kLarge},
            Row{"100dlrm_16.fbuf",
                kStar,
                100,
                61166911877,
                kQuick,
                77,
                "star100_100dlrm_16.fct.txt.gz"},
            Row{"100transformer_16.fbuf", kStar, 100, 63968900175},
            Row{"100vgg_16.fbuf",
                kStar,
                100,
                210403519839,
                kSeconds,
                800,
                "star100_100vgg_16.fct.txt.gz"},
            Row{"25dlrm_128.fbuf.gz", kStar, 100, 221764309018, kLarge, 600},
            Row{"25dlrm_128.fbuf.gz", kStar, 400, 64017290280, kLarge},
            Row{"100dlrm_16.fbuf", kFatTree, 100, 61243775878, kSeconds, 94},
            Row{"100transformer_16.fbuf", kFatTree, 100, 64739791791, kSeconds},
            Row{"100vgg_16.fbuf", kFatTree, 100, 210772724959, kSeconds, 832}),
        testing::Bool()));

// ---- Closed forms and the interface

/** One message of @p bytes over @p hops links of a chain; @p cables in the middle one. */
FlexNetGraph
Chain(std::uint32_t hops, Bytes bytes, std::uint32_t cables = 1)
{
    FlexNetGraph g;
    g.file = "chain";
    g.nodes = hops + 1;
    FlexNetRoute route{0, hops, {{{0}, 1.0F}}};
    for (NodeId i = 0; i < hops; ++i)
    {
        g.connections.push_back({i + 1, i, i == hops / 2 ? cables : 1});
        route.paths[0].nodes.push_back(i + 1);
    }
    g.routes.push_back(route);
    g.devices.push_back({FlexNetDeviceKind::NetworkNominal, 1, 0, hops, 0, 0});
    g.devices.push_back({FlexNetDeviceKind::Gpu, 2, 0, 0, 0, 0});
    g.tasks.push_back({FlexNetTaskKind::Forward, 4, 1, 0.5F, 0, {1}, 0});
    g.tasks.push_back({FlexNetTaskKind::Message, 5, 0, 0, bytes, {}, 0});
    VerifyFlexNet(g);
    return g;
}

TEST(FlexNetSimulation, AFlowAloneTakesTheClosedFormAndIsRecorded)
{
    for (const bool trains : {false, true})
    {
        for (const std::uint32_t hops : {1U, 2U, 5U})
        {
            for (const Bytes bytes : {Bytes{1}, Bytes{8937}, Bytes{8938}, Bytes{524288}})
            {
                const FlexNetGraph graph = Chain(hops, bytes);
                FlexNetConfig config;
                config.trains = trains;
                Collector collector;
                const FlexNetRunResult result = Simulate(graph, config, collector);
                ASSERT_EQ(collector.flows.size(), 1U);
                const FlexNetFlowRecord& flow = collector.flows[0];
                const SimTime packets =
                    bytes <= 8937 ? 1 : static_cast<SimTime>((bytes - 1 + 8935) / 8936);
                const SimTime fct = hops * (1'000'000 + 80) + packets * 714'880 + hops * 1'000'000 +
                                    (hops - 1) * 714'880;
                EXPECT_EQ(flow.end - flow.start, fct);
                EXPECT_EQ(flow.ideal, fct);
                EXPECT_EQ(flow.start, FlexNetComputeTime(0.5F));
                EXPECT_EQ(flow.bytes, bytes);
                EXPECT_EQ(flow.size, std::max<Bytes>(bytes, 8936));
                EXPECT_EQ(flow.task, 1U);
                EXPECT_FALSE(flow.allReduce);
                EXPECT_EQ(flow.hops, hops);
                EXPECT_EQ(flow.timeouts + flow.retransmits, 0U);
                EXPECT_EQ(result.finalFinish, flow.end);
                EXPECT_EQ(result.totals.packetHops,
                          hops * (static_cast<std::uint64_t>(packets) + 1));
                ASSERT_EQ(collector.tasks.size(), 2U);
                EXPECT_EQ(collector.tasks[0].task, 0U);
                EXPECT_EQ(collector.tasks[0].end, FlexNetComputeTime(0.5F));
                EXPECT_EQ(collector.tasks[1].ready, FlexNetComputeTime(0.5F));
                EXPECT_TRUE(result.waiting.empty());
                // Links 1, 3, ... go up.
                for (std::uint32_t h = 0; h < hops; ++h)
                {
                    const FlexNetLinkCounters& link = result.links[2 * h + 1];
                    EXPECT_EQ(link.from, h);
                    EXPECT_EQ(link.to, h + 1);
                    EXPECT_EQ(link.bytes, 1 + static_cast<Bytes>(packets) * 8936);
                    EXPECT_EQ(link.busy, static_cast<SimTime>(link.bytes) * 80);
                    EXPECT_EQ(result.links[2 * h].packets, 0U);
                }
            }
        }
    }
}

TEST(FlexNetSimulation, TheSlowestLinkSetsThePace)
{
    const FlexNetGraph graph = Chain(3, 50 * 8936, 4);
    for (const bool trains : {false, true})
    {
        FlexNetConfig config;
        config.trains = trains;
        Collector collector;
        Simulate(graph, config, collector);
        ASSERT_EQ(collector.flows.size(), 1U);
        EXPECT_EQ(collector.flows[0].end - collector.flows[0].start, collector.flows[0].ideal);
    }
}

/** Stops a run early, trains on and off. @return flows that others stood for */
std::uint64_t
ExpectEqualWhenStopped(const FlexNetGraph& graph)
{
    Collector whole;
    const FlexNetRunResult end = Simulate(graph, {}, whole);
    EXPECT_TRUE(end.complete);
    std::uint64_t shared = 0;
    for (const SimTime stop : {end.finalFinish / 5, end.finalFinish / 2, end.finalFinish - 1})
    {
        std::vector<FlexNetRunResult> results;
        for (const bool trains : {false, true})
        {
            FlexNetConfig config;
            config.stop = stop;
            config.trains = trains;
            Collector collector;
            const FlexNetRunResult result = Simulate(graph, config, collector);
            EXPECT_FALSE(result.complete);
            EXPECT_EQ(result.now, stop);
            EXPECT_FALSE(result.waiting.empty());
            EXPECT_EQ(result.violations, std::vector<std::string>());
            EXPECT_EQ(result.totals.flows, collector.flows.size() + result.unfinished.size());
            // What finished is a prefix of the whole run.
            for (std::size_t i = 0; i < collector.flows.size(); ++i)
            {
                EXPECT_EQ(collector.flows[i].id, whole.flows[i].id);
                EXPECT_EQ(collector.flows[i].end, whole.flows[i].end);
            }
            shared += result.totals.sharedFlows;
            EXPECT_GT(whole.flows[collector.flows.size()].end, stop);
            results.push_back(result);
        }
        EXPECT_EQ(results[0].waiting, results[1].waiting);
        EXPECT_EQ(results[0].totals.packetHops, results[1].totals.packetHops);
        EXPECT_EQ(results[0].totals.marks, results[1].totals.marks);
        EXPECT_EQ(IdsOf(results[0].unfinished), IdsOf(results[1].unfinished));
        for (std::size_t i = 0; i < results[0].links.size(); ++i)
        {
            EXPECT_EQ(results[0].links[i].packets, results[1].links[i].packets);
            EXPECT_EQ(results[0].links[i].bytes, results[1].links[i].bytes);
        }
    }
    return shared;
}

TEST(FlexNetSimulation, AStoppedRunSaysWhoWaitsForWhat)
{
    ExpectEqualWhenStopped(
        ReadFlexNet(std::string(TOPOOPT_SOURCE_DIR) + "/traces/reference-small.fbuf"));
}

TEST(FlexNetSimulation, AStoppedRunInLockstepSaysTheSame)
{
    std::uint64_t shared = 0;
    for (std::uint64_t seed = 0; seed < 10 && !HasFailure(); ++seed)
    {
        shared += ExpectEqualWhenStopped(test::RandomGraph(seed, {0, 150, true, false, true}));
    }
    EXPECT_GT(shared, 0U);
}

TEST(FlexNetSimulation, AnObserverEndsTheRun)
{
    const FlexNetGraph graph = test::RandomGraph(3, {8, 3000, true, false});
    FlexNetConfig config;
    config.trains = false;
    Collector collector;
    collector.beatsAllowed = 1;
    const FlexNetRunResult result = Simulate(graph, config, collector);
    EXPECT_EQ(collector.beats, 1U);
    EXPECT_FALSE(result.complete);
    EXPECT_EQ(result.violations, std::vector<std::string>());
}

void
Count(std::uint64_t* count)
{
    ++*count;
}

TEST(FlexNetSimulation, SharesTheClockWithOtherEvents)
{
    const FlexNetGraph graph = test::RandomGraph(5, {});
    for (const bool trains : {false, true})
    {
        FlexNetConfig config;
        config.trains = trains;
        Collector alone;
        const FlexNetRunResult expected = Simulate(graph, config, alone);
        ns3::PeekScheduler::Install();
        std::uint64_t count = 0;
        for (int i = 0; i < 500; ++i)
        {
            ns3::Simulator::Schedule(ns3::NanoSeconds(777 * i), &Count, &count);
        }
        Collector collector;
        const FlexNetRunResult result = Simulate(graph, config, collector);
        EXPECT_EQ(count, 500U);
        EXPECT_EQ(result.finalFinish, expected.finalFinish);
        ASSERT_EQ(collector.flows.size(), alone.flows.size());
        for (std::size_t i = 0; i < alone.flows.size(); ++i)
        {
            ASSERT_EQ(collector.flows[i].id, alone.flows[i].id);
            ASSERT_EQ(collector.flows[i].end, alone.flows[i].end);
        }
    }
}

std::string
ErrorOf(const FlexNetGraph& graph, const FlexNetConfig& config)
{
    FlexNetObserver observer;
    try
    {
        const FlexNetSimulation simulation(graph, config, observer);
    }
    catch (const SpecError& error)
    {
        return error.what();
    }
    return "";
}

TEST(FlexNetSimulation, RefusesWhatItCannotRun)
{
    FlexNetGraph graph = test::RandomGraph(1, {});
    FlexNetConfig config;
    EXPECT_EQ(ErrorOf(graph, config), "");
    config.rate.bps = 0;
    EXPECT_NE(ErrorOf(graph, config).find("rate"), std::string::npos);
    config.rate.bps = 9'000 * kG;
    EXPECT_NE(ErrorOf(graph, config).find("rate"), std::string::npos);
    config = {};
    config.delay = 0;
    EXPECT_NE(ErrorOf(graph, config).find("delay"), std::string::npos);
    config = {};
    config.queuePackets = 0;
    EXPECT_NE(ErrorOf(graph, config).find("queues"), std::string::npos);
    config = {};
    config.slowStartPackets = 0;
    EXPECT_NE(ErrorOf(graph, config).find("threshold"), std::string::npos);
    config = {};
    config.fabric = kFatTree;
    config.fatTreeDegree = 2;
    EXPECT_NE(ErrorOf(graph, config).find("k = 2"), std::string::npos);
    config.fatTreeDegree = 5;
    EXPECT_NE(ErrorOf(graph, config).find("even"), std::string::npos);
    config.fatTreeDegree = 6; // more than it needs
    EXPECT_EQ(ErrorOf(graph, config), "");
    graph.connections.clear();
    config = {};
    EXPECT_NE(ErrorOf(graph, config).find("no connections"), std::string::npos);
}

TEST(FlexNetSimulation, ALargerFatTreeThanNeededStillDelivers)
{
    const FlexNetGraph graph = test::RandomGraph(2, {16, 40, true, false});
    FlexNetConfig config;
    config.fabric = kFatTree;
    config.fatTreeDegree = 6;
    std::vector<SimTime> finishes;
    for (const bool trains : {false, true})
    {
        config.trains = trains;
        Collector collector;
        const FlexNetRunResult result = Simulate(graph, config, collector);
        EXPECT_TRUE(result.complete);
        EXPECT_EQ(result.violations, std::vector<std::string>());
        finishes.push_back(result.finalFinish);
    }
    EXPECT_EQ(finishes[0], finishes[1]);
}

#ifdef __GLIBC__
TEST(FlexNetRandomNumbers, AreThoseOfGlibc)
{
    for (const std::uint32_t seed : {0U, 1U, 13U, 123456U})
    {
        GlibcRandom random(seed);
        std::srand(seed);
        for (int i = 0; i < 1000; ++i)
        {
            ASSERT_EQ(random.Next(), static_cast<std::uint32_t>(std::rand())) << seed << " " << i;
        }
    }
}
#endif

TEST(FlexNetOrder, GivesWhatASortedSetGives)
{
    Rng rng(7, "flexnet-order");
    constexpr std::uint32_t kSlots = 60;
    FlexNetOrder order;
    order.Reserve(kSlots);
    const std::vector<SimTime> offsets{5, 12};
    std::vector<unsigned> lines;
    for (const SimTime offset : offsets)
    {
        lines.push_back(order.LineOf(offset));
    }
    using Key = std::tuple<SimTime, SimTime, std::uint64_t, std::uint32_t>;
    std::set<Key> expected;
    std::map<std::uint32_t, Key> of;
    SimTime now = 0;
    std::uint64_t child = 0;
    for (int step = 0; step < 20000; ++step)
    {
        const auto slot = static_cast<std::uint32_t>(rng.Next() % kSlots);
        const std::uint64_t what = rng.Next() % 8;
        if (what < 5)
        {
            const bool inLine = what < 3;
            const std::size_t line = rng.Next() % 2;
            const SimTime time =
                inLine ? now + offsets[line] : now + 1 + static_cast<SimTime>(rng.Next() % 30);
            const FlexNetRank rank{now, 0, 0, child++};
            if (inLine)
            {
                order.SetInLine(lines[line], slot, time, rank);
            }
            else
            {
                order.Set(slot, time, rank);
            }
            expected.erase(of[slot]);
            of[slot] = {time, now, rank.child, slot};
            expected.insert(of[slot]);
        }
        else if (what == 5)
        {
            order.Remove(slot);
            expected.erase(of[slot]);
            of.erase(slot);
        }
        else if (!expected.empty())
        {
            const FlexNetOrder::Entry top = order.Top();
            ASSERT_EQ(top.slot, std::get<3>(*expected.begin())) << step;
            ASSERT_EQ(top.time, std::get<0>(*expected.begin()));
            now = top.time;
            order.Remove(top.slot);
            of.erase(top.slot);
            expected.erase(expected.begin());
        }
        for (std::uint32_t i = 0; i < kSlots; ++i)
        {
            ASSERT_EQ(order.Has(i), of.count(i) != 0);
        }
    }
}

} // namespace
} // namespace topoopt
