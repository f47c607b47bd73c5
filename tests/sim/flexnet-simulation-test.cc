// SPDX-License-Identifier: GPL-2.0-only
// The fast engine of `compat: flexnet` against the reference's results and against the slow witness.
#include "../core/flexnet-witness.h"
#include "flexnet-random-graph.h"
#include "ns3/flexnet-simulation.h"
#include "ns3/simulator.h"
#include "topoopt/core/error.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <memory>
#include <string>
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
Run(const FlexNetGraph& graph, const FlexNetConfig& config, Collector& collector)
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

/** Runs the witness and the engine, trains on and off; everything must be equal. @return the witness's run */
std::unique_ptr<FlexNetWitness>
ExpectEqual(const FlexNetGraph& graph, FlexNetConfig config)
{
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
        const FlexNetRunResult result = Run(graph, config, collector);
        EXPECT_TRUE(result.complete);
        EXPECT_EQ(result.finalFinish, static_cast<SimTime>(finish));
        EXPECT_EQ(result.totals.marks, witness->marks);
        EXPECT_EQ(result.totals.drops, witness->drops);
        EXPECT_EQ(result.totals.timeouts, witness->timeouts);
        EXPECT_EQ(collector.tasks.size(), graph.tasks.size());
        EXPECT_TRUE(result.unfinished.empty());
        for (const std::string& violation : result.violations)
        {
            ADD_FAILURE() << violation;
        }
        EXPECT_EQ(collector.flows.size(), witness->finished.size());
        for (std::size_t i = 0; i < std::min(collector.flows.size(), witness->finished.size()); ++i)
        {
            const std::string mine = Digits(AsWitness(collector.flows[i]));
            const std::string theirs = Digits(witness->finished[i]);
            EXPECT_EQ(mine, theirs) << "flow " << i << ", trains " << trains;
            if (mine != theirs)
            {
                return witness;
            }
        }
        if (!trains)
        {
            packetHops = result.totals.packetHops;
            links = result.links;
            continue;
        }
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
    int seeds = c.seeds;
    if (const char* more = std::getenv("TOPOOPT_TEST_SEEDS"))
    {
        seeds = std::atoi(more);
    }
    for (int seed = 0; seed < seeds && !HasFailure(); ++seed)
    {
        SCOPED_TRACE(std::string(c.name) + " seed " + std::to_string(seed));
        const FlexNetGraph graph = test::RandomGraph(static_cast<std::uint64_t>(seed), c.shape);
        const auto witness = ExpectEqual(graph, config);
        timeouts += witness->timeouts;
        drops += witness->drops;
    }
    // The cases are what they say.
    EXPECT_TRUE(!c.mustTimeOut || timeouts > 0);
    EXPECT_TRUE(!c.mustDrop || drops > 0);
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
    [](const auto& info) { return std::string(info.param.name); });

} // namespace
} // namespace topoopt
