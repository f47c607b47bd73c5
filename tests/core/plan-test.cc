// SPDX-License-Identifier: GPL-2.0-only
#include "../temp-path.h"
#include "topoopt/core/error.h"
#include "topoopt/core/flow-sim.h"
#include "topoopt/core/plan.h"
#include "topoopt/core/random.h"

#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>
#include <stdexcept>
#include <vector>

using namespace topoopt;

namespace
{

Scenario
CandleScenario(std::uint32_t budget)
{
    Scenario scenario;
    scenario.name = "candle \"16\"";
    scenario.file = "test";
    scenario.seed = 3;
    scenario.servers.count = 16;
    scenario.servers.nics = 4;
    scenario.servers.gpus = 4;
    scenario.workload.kind = WorkloadKind::Model;
    scenario.workload.path = std::string(TOPOOPT_SOURCE_DIR) + "/traces/models/candle.yaml";
    scenario.strategy = {{"search", "alternating"},
                         {"budget", std::to_string(budget)},
                         {"rounds", "2"},
                         {"memory", "ignore"}};
    FabricSpec fabric;
    fabric.kind = "topoopt";
    fabric.name = "topoopt";
    fabric.options = {{"routing", "balanced"}};
    scenario.fabrics.push_back(fabric);
    return scenario;
}

std::string
Save(const std::string& text, const std::string& name)
{
    const std::string file = test::TempPath(name);
    std::ofstream(file) << text;
    return file;
}

std::string
ErrorOfPlan(const std::string& text)
{
    try
    {
        (void)ReadPlan(Save(text, "bad-plan.yaml"));
    }
    catch (const SpecError& error)
    {
        return error.what();
    }
    return "";
}

std::string
Replaced(std::string text, const std::string& from, const std::string& to)
{
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
}

} // namespace

TEST(Numbers, AreWrittenAsRuns)
{
    EXPECT_EQ(FormatNumbers({0, 1, 2, 3, 8, 16, 21, 26, 31}), "0-3,8,16-31/5");
    EXPECT_EQ(FormatNumbers({}), "");
    EXPECT_EQ(FormatNumbers({10, 11, 0, 1}), "10-11,0-1");
    EXPECT_EQ(FormatNumbers({5, 3}), "5,3");
    for (std::uint64_t seed = 0; seed < 200; ++seed)
    {
        Rng rng(seed, "numbers");
        std::vector<std::uint32_t> numbers(rng.Below(20));
        for (std::uint32_t& number : numbers)
        {
            number = static_cast<std::uint32_t>(rng.Below(12));
        }
        EXPECT_EQ(ParseNumbers(FormatNumbers(numbers), 100), numbers) << seed;
    }
    for (const char* bad :
         {"a", "1,", ",1", "3-1", "0-9/4", "0-9/0", "1 2", "-1", "4294967295", "0-4294967294"})
    {
        EXPECT_THROW((void)ParseNumbers(bad, 1000), std::invalid_argument) << bad;
    }
}

TEST(Plan, CanBeWrittenReadRunAndResumed)
{
    const Scenario scenario = CandleScenario(200);
    const Plan plan = MakePlan(scenario, {});
    EXPECT_LE(plan.confirmedMs, plan.startMs);
    EXPECT_GT(plan.confirmedMs, 0);
    EXPECT_EQ(plan.cables.size(), 16U);

    const std::string text = WritePlan(plan);
    const std::string file = Save(text, "plan.yaml");
    EXPECT_TRUE(IsPlanFile(file));
    Plan read = ReadPlan(file);
    EXPECT_EQ(WritePlan(read), text);
    EXPECT_EQ(read.name, scenario.name);
    EXPECT_TRUE(read.strategy.operators == plan.strategy.operators);
    EXPECT_EQ(read.demand.pairs, plan.demand.pairs);

    // It runs, and takes the time it says.
    const TaskGraph graph = PlanTaskGraph(read, 2);
    EXPECT_EQ(graph.iterationEnds.size(), 2U);
    FlowSimOptions options;
    options.quantum = 20 * kMicrosecond;
    options.wire = FlowWire::Roce(scenario.engine.mtu);
    const FlowSimResult result = SimulateFlows(PlanTaskGraph(read, 1), PlanFabric(read), options);
    EXPECT_NEAR(static_cast<double>(result.finish) / 1e9,
                plan.confirmedMs,
                1e-6 * plan.confirmedMs);

    // Going on from it is never worse, keeps its log, and needs the same job.
    PlanRequest request;
    request.from = file;
    const Plan next = MakePlan(scenario, request);
    EXPECT_LE(next.confirmedMs, plan.confirmedMs * (1 + 1e-9));
    EXPECT_GT(next.rounds.size(), plan.rounds.size());
    EXPECT_EQ(next.rounds.back().round, plan.rounds.back().round + 2);
    EXPECT_EQ(next.startMs, read.startMs);
    Scenario other = scenario;
    other.servers.nics = 8;
    EXPECT_THROW((void)MakePlan(other, request), SpecError);

    // Cables that the demand does not give are noticed.
    std::swap(read.cables[0], read.cables[1]);
    EXPECT_THROW((void)PlanFabric(read), SpecError);
}

TEST(Plan, InterruptedKeepsTheStart)
{
    std::atomic<bool> interrupt{true};
    PlanRequest request;
    request.interrupt = &interrupt;
    const Plan plan = MakePlan(CandleScenario(200), request);
    EXPECT_TRUE(plan.interrupted);
    EXPECT_EQ(plan.confirmedMs, plan.startMs);
    EXPECT_NO_THROW((void)PlanFabric(plan));
}

/** Packets decide at the end between the start and what was found, step by step back to the start. */
TEST(Plan, IsConfirmedOnPacketsAtTheEnd)
{
    const Scenario scenario = CandleScenario(200);
    const Plan fluid = MakePlan(scenario, {});
    ASSERT_LT(fluid.confirmedMs, fluid.startMs);
    EXPECT_EQ(fluid.packetMs, 0);

    PlanRequest request;
    std::vector<double> answers{100, 90};
    std::size_t asked = 0;
    request.confirm = [&](const TaskGraph& graph, const Fabric& fabric) {
        EXPECT_EQ(graph.ranks, fabric.topology.servers);
        return answers.at(std::min(asked++, answers.size() - 1));
    };
    const Plan better = MakePlan(scenario, request);
    EXPECT_EQ(asked, 2U);
    EXPECT_TRUE(better.strategy.operators == fluid.strategy.operators);
    EXPECT_DOUBLE_EQ(better.packetStartMs, 100);
    EXPECT_DOUBLE_EQ(better.packetMs, 90);
    EXPECT_EQ(better.confirmedMs, fluid.confirmedMs);

    // Whatever packets find worse is not taken.
    asked = 0;
    answers = {100, 110};
    const Plan worse = MakePlan(scenario, request);
    EXPECT_GE(asked, 2U);
    EXPECT_DOUBLE_EQ(worse.packetMs, 100);
    EXPECT_EQ(worse.confirmedMs, worse.startMs);
    for (const OperatorSplit& split : worse.strategy.operators)
    {
        EXPECT_EQ(split.dataParts, 16U);
    }
    EXPECT_NO_THROW((void)PlanFabric(worse));
    const std::string text = WritePlan(worse);
    EXPECT_EQ(WritePlan(ReadPlan(Save(text, "confirmed-plan.yaml"))), text);

    // An interrupt meanwhile: what the fluid simulator found stands.
    asked = 0;
    answers = {-1};
    const Plan interrupted = MakePlan(scenario, request);
    EXPECT_EQ(asked, 1U);
    EXPECT_TRUE(interrupted.strategy.operators == fluid.strategy.operators);
    EXPECT_EQ(interrupted.packetMs, 0);
}

TEST(Plan, IsConfirmedOnPacketsWhenTheScenarioSays)
{
    Scenario scenario = CandleScenario(100);
    scenario.strategy["confirm"] = "rounds";
    PlanRequest request;
    int asked = 0;
    request.confirm = [&](const TaskGraph&, const Fabric&) {
        ++asked;
        return 100.0 + asked; // never better than the start
    };
    const Plan plan = MakePlan(scenario, request);
    EXPECT_GE(asked, 2);
    EXPECT_DOUBLE_EQ(plan.confirmedMs, 101.0);
    EXPECT_DOUBLE_EQ(plan.packetMs, 101.0);
    asked = 0;
    scenario.strategy["confirm"] = "none";
    (void)MakePlan(scenario, request);
    EXPECT_EQ(asked, 0);
    scenario.strategy["confirm"] = "packets";
    EXPECT_THROW((void)MakePlan(scenario, request), SpecError);
}

/** The walk, the memory check and the fabric follow the engine unless the scenario says otherwise. */
TEST(Plan, CompatFollowsTheEngine)
{
    Scenario scenario = CandleScenario(20);
    scenario.strategy.erase("memory");
    scenario.workload.options = {{"width", "16384"}, {"feature_layers", "16"}};
    EXPECT_THROW((void)MakePlan(scenario, {}), SpecError) << "94 GB of weights do not fit";
    scenario.engine.compat = "flexnet";
    const Plan plan = MakePlan(scenario, {});
    EXPECT_EQ(plan.proposals, 21U) << "the reference's loop";
    EXPECT_EQ(plan.strategyOptions.at("compat"), "flexnet");
    EXPECT_EQ(plan.fabric.options.at("compat"), "flexnet");
    EXPECT_EQ(ScenarioOf(ReadPlan(Save(WritePlan(plan), "flexnet-plan.yaml"))).engine.compat,
              "flexnet");
    scenario.strategy["compat"] = "none";
    EXPECT_THROW((void)MakePlan(scenario, {}), SpecError);
}

TEST(Plan, NeedsAModelAndAFabric)
{
    Scenario scenario = CandleScenario(10);
    scenario.fabrics.clear();
    EXPECT_THROW((void)MakePlan(scenario, {}), SpecError);
    scenario = CandleScenario(10);
    scenario.workload.kind = WorkloadKind::Trace;
    EXPECT_THROW((void)MakePlan(scenario, {}), SpecError);
}

TEST(Plan, ErrorsNameTheirPlace)
{
    const std::string text = WritePlan(MakePlan(CandleScenario(0), {}));
    EXPECT_EQ(ErrorOfPlan(text), "");
    EXPECT_NE(ErrorOfPlan(Replaced(text, "plan: 1", "plan: 2")).find("plan: found '2'"),
              std::string::npos);
    EXPECT_NE(ErrorOfPlan(Replaced(text, "stages: 1", "stages: 0")).find("strategy.stages"),
              std::string::npos);
    EXPECT_NE(
        ErrorOfPlan(Replaced(text, "ranks: \"0-15\"", "ranks: \"15-0\"")).find("ranks: found"),
        std::string::npos);
    EXPECT_NE(ErrorOfPlan(Replaced(text, "micro_batches", "micro_batchs")).find("did you mean"),
              std::string::npos);
    EXPECT_NE(
        ErrorOfPlan(Replaced(text, "servers: \"0-15\"", "servers: \"0-16\"")).find("found 16"),
        std::string::npos);
    EXPECT_NE(ErrorOfPlan(Replaced(Replaced(text, "fidelity: \"packet\"", "fidelity: flow"),
                                   "link_samples: false",
                                   "link_samples: on"))
                  .find("results.link_samples: found on with fidelity: flow"),
              std::string::npos);
    // A strategy of another shape is found out when it is to run.
    const Plan bad =
        ReadPlan(Save(Replaced(text, "operators: 71", "operators: 70"), "plan-of-70.yaml"));
    EXPECT_THROW((void)PlanTaskGraph(bad, 1), SpecError);
}
