// SPDX-License-Identifier: GPL-2.0-only
// Jobs built from model files, run by the rules of the released simulator: its golden times.
#include "../temp-path.h"
#include "ns3/experiment.h"
#include "ns3/flexnet-run.h"
#include "topoopt/core/error.h"
#include "topoopt/core/plan.h"
#include "topoopt/core/strategy-flexnet.h"

#include <atomic>
#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <utility>

namespace topoopt
{
namespace
{

/** Data parallelism on 16 servers of four 100G NICs under `compat: flexnet`. */
Scenario
GoldenScenario(const std::string& model)
{
    Scenario scenario;
    scenario.name = model;
    scenario.file = "test";
    scenario.servers.count = 16;
    scenario.servers.nics = 4;
    scenario.servers.gpus = 4;
    scenario.workload.kind = WorkloadKind::Model;
    scenario.workload.path = std::string(TOPOOPT_SOURCE_DIR) + "/traces/models/" + model + ".yaml";
    scenario.engine.compat = "flexnet";
    scenario.stop = 1000 * kSecond;
    FabricSpec fabric;
    fabric.kind = "topoopt";
    fabric.name = "topoopt";
    scenario.fabrics.push_back(fabric);
    return scenario;
}

double
IterationMs(const Scenario& scenario)
{
    const ExperimentResult result = RunExperiment(Prepare(scenario), "", false, nullptr);
    EXPECT_TRUE(result.Good());
    EXPECT_EQ(result.runs.size(), 1U);
    EXPECT_EQ(result.runs[0].iterationTimes.size(), 1U);
    return static_cast<double>(result.runs[0].iterationTimes[0]) / 1e9;
}

} // namespace

/** topoopt-spec section 12: BERT and VGG are met to the picosecond, the others within 2 %. */
TEST(ModelUnderFlexNet, TakesTheGoldenTimes)
{
    struct Row
    {
        const char* model;
        double ms;
        double tolerance; ///< relative
    };

    for (const Row& row : {Row{"bert", 62.815131375, 1e-12},
                           Row{"vgg16", 100.480326542, 1e-12},
                           Row{"dlrm", 21.801435997, 0.02},
                           Row{"candle", 217.122040886, 0.02}})
    {
        const double ms = IterationMs(GoldenScenario(row.model));
        std::printf("%s: %.9f ms, reference %.9f ms, %+.4f %%\n",
                    row.model,
                    ms,
                    row.ms,
                    (ms / row.ms - 1) * 100);
        EXPECT_NEAR(ms, row.ms, row.tolerance * row.ms) << row.model;
    }
}

/** What a plan says it takes on packets is what a run of it takes, and not more than its start. */
TEST(PlanOnPackets, TakesTheTimeThatItSays)
{
    for (const char* compat : {"none", "flexnet"})
    {
        Scenario scenario = GoldenScenario("candle");
        scenario.servers.count = 8;
        scenario.workload.options = {{"width", "512"},
                                     {"feature_layers", "3"},
                                     {"trunk_layers", "2"},
                                     {"batch_per_gpu", "64"}};
        scenario.engine.compat = compat;
        scenario.engine.mtu = 4096;
        scenario.strategy = {{"search", "alternating"}, {"budget", "200"}, {"rounds", "2"}};
        PlanRequest request;
        int asked = 0;
        request.confirm = [&](const TaskGraph& graph, const Fabric& fabric) {
            ++asked;
            return PacketMilliseconds(scenario, graph, fabric, nullptr);
        };
        const Plan plan = MakePlan(scenario, request);
        EXPECT_GE(asked, 1);
        EXPECT_GT(plan.packetStartMs, 0);
        EXPECT_LE(plan.packetMs, plan.packetStartMs);
        const std::string file = test::TempPath("plan-on-packets.yaml");
        std::ofstream(file) << WritePlan(plan);
        const Experiment experiment = PreparePlan(file);
        EXPECT_EQ(experiment.scenario.engine.mtu, 4096U);
        const ExperimentResult result = RunExperiment(experiment, "", false, nullptr);
        ASSERT_TRUE(result.Good()) << compat;
        EXPECT_NEAR(static_cast<double>(result.runs.at(0).iterationTimes.at(0)) / 1e9,
                    plan.packetMs,
                    1e-9 * plan.packetMs)
            << compat;
    }
}

TEST(PlanOnPackets, SaysSoWhenInterrupted)
{
    Scenario scenario = GoldenScenario("vgg16");
    scenario.engine.compat = "none";
    const Experiment experiment = Prepare(scenario);
    const std::atomic<bool> interrupt{true};
    EXPECT_LT(PacketMilliseconds(scenario,
                                 experiment.workload.graph,
                                 experiment.fabrics.at(0),
                                 &interrupt),
              0);
}

/** What the format of the reference cannot say is refused. */
TEST(ModelUnderFlexNet, RefusesWhatTheReferenceDoesNotHave)
{
    Scenario tensor = GoldenScenario("bert");
    tensor.strategy = {{"tensor", "2"}}; // AllReduces that the forward pass waits for
    Scenario torus = GoldenScenario("bert");
    torus.fabrics[0].kind = "torus";
    for (const auto& [scenario, message] :
         {std::pair(tensor, "nothing that waits for an AllReduce"), std::pair(torus, "torus")})
    {
        try
        {
            (void)Prepare(scenario);
            ADD_FAILURE() << message;
        }
        catch (const SpecError& error)
        {
            EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
        }
    }
}

} // namespace topoopt
