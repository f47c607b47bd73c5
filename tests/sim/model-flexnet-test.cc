// SPDX-License-Identifier: GPL-2.0-only
// Jobs built from model files, run by the rules of the released simulator: its golden times.
#include "ns3/experiment.h"
#include "ns3/flexnet-run.h"
#include "topoopt/core/error.h"
#include "topoopt/core/plan.h"
#include "topoopt/core/strategy-flexnet.h"

#include <cstdio>
#include <gtest/gtest.h>
#include <string>

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

} // namespace topoopt
