// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/cluster-jobs.h"
#include "topoopt/core/error.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <vector>

namespace topoopt::test
{
namespace
{

namespace fs = std::filesystem;

class ClusterJobs : public testing::Test
{
  protected:
    void SetUp() override
    {
        m_file = fs::read_symlink("/proc/self/exe").parent_path() /
                 (std::string("cluster-jobs-") +
                  testing::UnitTest::GetInstance()->current_test_info()->name() + ".yaml");
    }

    void TearDown() override
    {
        fs::remove(m_file);
    }

    [[nodiscard]] Scenario Read(const std::string& workload,
                                const std::vector<std::string>& overrides = {}) const
    {
        std::ofstream(m_file) << "servers: {count: 64}\nstrategy: {kind: hybrid, tensor: 2}\n"
                              << "iterations: 3\nworkload: " << workload
                              << "\nfabrics: [ideal-switch]\n";
        return ReadScenario(m_file.string(), overrides);
    }

    fs::path m_file;
};

TEST_F(ClusterJobs, AListIsReadWithItsDefaults)
{
    const Scenario scenario = Read(
        "{queue: backfill, placement: best-fit, jobs: [{model: dlrm, servers: 8, iterations: 7, "
        "arrival: 2s, batch_per_gpu: 32}, {model: bert, servers: 4, strategy: data-parallel, "
        "estimate: 9s, name: b}, {model: dlrm, servers: 8, batch_per_gpu: 32, arrival: 1s}, "
        "{model: dlrm, servers: 8, strategy: {tensor: 4}}]}");
    const JobsSpec spec = ReadJobs(scenario);
    EXPECT_EQ(spec.queue, QueueRule::Backfill);
    EXPECT_EQ(spec.placement, ServerChoice::BestFit);
    ASSERT_EQ(spec.listed.size(), 4U);
    // The first and third run the same thing.
    ASSERT_EQ(spec.kinds.size(), 3U);
    EXPECT_EQ(spec.listed[2].kind, 0U);
    EXPECT_EQ(spec.kinds[0].name, "dlrm");
    EXPECT_EQ(spec.kinds[0].workload.path, "dlrm");
    EXPECT_EQ(spec.kinds[0].workload.kind, WorkloadKind::Model);
    EXPECT_EQ(spec.kinds[0].workload.options,
              (std::map<std::string, std::string>{{"batch_per_gpu", "32"}}));
    EXPECT_EQ(spec.kinds[0].strategy.at("tensor"), "2");
    EXPECT_EQ(spec.kinds[1].name, "b");
    EXPECT_TRUE(spec.kinds[1].strategy.empty());
    EXPECT_EQ(spec.kinds[2].strategy, (std::map<std::string, std::string>{{"tensor", "4"}}));
    EXPECT_EQ(spec.listed[0].iterations, 7U);
    EXPECT_EQ(spec.listed[1].iterations, 3U);
    EXPECT_EQ(spec.listed[1].estimate, 9 * kSecond);
    // Jobs are numbered by arrival.
    const std::vector<ClusterEntry> jobs = DrawJobs(spec, 64, {}, 1, "place");
    EXPECT_EQ(jobs[0].kind, 1U);
    EXPECT_EQ(jobs[1].kind, 2U);
    EXPECT_EQ(jobs[2].arrival, kSecond);
    EXPECT_EQ(jobs[3].arrival, 2 * kSecond);
    // Patching takes minutes: without `stop` nothing is cut off.
    EXPECT_GT(scenario.stop, 24 * 3600 * kSecond);
}

TEST_F(ClusterJobs, WhatIsWrittenReadsTheSame)
{
    for (const std::string text : {"{queue: backfill, jobs: [{model: dlrm, servers: 8, strategy: "
                                   "{tensor: 4}}, {model: bert, "
                                   "servers: 4, arrival: 3s}]}",
                                   "{jobs: {arrivals: poisson, load: 0.5, count: 9, servers: 16, "
                                   "strategy: data-parallel, mix: "
                                   "[{model: dlrm, weight: 2}, {model: bert, iterations: 5}]}}"})
    {
        const Scenario scenario = Read(text);
        const std::string written = WriteScenario(scenario);
        std::ofstream(m_file) << written;
        const Scenario again = ReadScenario(m_file.string(), {});
        EXPECT_EQ(again.workload.options, scenario.workload.options);
        EXPECT_EQ(again.stop, scenario.stop);
        EXPECT_EQ(WriteScenario(again), written);
        EXPECT_EQ(ReadJobs(again).kinds.size(), 2U);
    }
}

TEST_F(ClusterJobs, TogetherFillsTheGivenShare)
{
    const std::string mix = "servers: 16, mix: [{model: dlrm, weight: 0.35}, {model: bert, "
                            "weight: 0.65}]}}";
    const auto count = [&](const std::string& load) {
        const JobsSpec spec = ReadJobs(Read("{jobs: {load: " + load + ", " + mix));
        return DrawJobs(spec, 432, {}, 1, "place").size();
    };
    EXPECT_EQ(count("0.185"), 5U);
    EXPECT_EQ(count("0.37"), 10U);
    EXPECT_EQ(count("0.556"), 15U);
    EXPECT_EQ(count("0.741"), 20U);
    EXPECT_EQ(count("1.0"), 27U);
}

TEST_F(ClusterJobs, PoissonHasTheMixAndTheLoadThatIsAskedFor)
{
    const JobsSpec spec = ReadJobs(Read(
        "{jobs: {arrivals: poisson, load: 0.8, count: 20000, mix: [{model: dlrm, servers: 8, "
        "weight: 3, iterations: 10}, {model: bert, servers: 16, weight: 1, iterations: 2}]}}"));
    const std::vector<SimTime> runTimes = {50 * kMillisecond, 100 * kMillisecond};
    const std::vector<ClusterEntry> jobs = DrawJobs(spec, 64, runTimes, 7, "place");
    ASSERT_EQ(jobs.size(), 20'000U);
    double work = 0;
    std::map<std::uint32_t, int> kinds;
    SimTime before = 0;
    for (const ClusterEntry& job : jobs)
    {
        EXPECT_GE(job.arrival, before);
        before = job.arrival;
        ++kinds[job.kind];
        work +=
            static_cast<double>(runTimes[job.kind]) * job.iterations * spec.kinds[job.kind].servers;
    }
    // Standard deviation of the count 61, of the sum of intervals 0.7 %.
    EXPECT_NEAR(kinds[0], 15'000, 250);
    EXPECT_NEAR(work / (64 * static_cast<double>(before)), 0.8, 0.03);
    // The same jobs at another load, only faster.
    JobsSpec twice = spec;
    twice.load = 1.6;
    const std::vector<ClusterEntry> more = DrawJobs(twice, 64, runTimes, 7, "place");
    for (std::size_t k = 0; k < 100; ++k)
    {
        EXPECT_EQ(more[k].kind, jobs[k].kind);
        EXPECT_NEAR(static_cast<double>(more[k].arrival),
                    static_cast<double>(jobs[k].arrival) / 2,
                    2);
    }
}

TEST_F(ClusterJobs, PanelOptionsAreTakenFromTheFabric)
{
    FabricSpec fabric;
    fabric.kind = "topoopt";
    fabric.place = "here";
    fabric.options = {{"panel.move", "30s"}, {"panel.look_ahead", "false"}, {"k", "4"}};
    const PanelSpec panel = TakePanel(fabric);
    EXPECT_EQ(panel.move, 30 * kSecond);
    EXPECT_FALSE(panel.lookAhead);
    EXPECT_EQ(panel.flip, PanelSpec().flip);
    EXPECT_EQ(fabric.options.size(), 1U);
    for (const auto& [key, text] :
         std::map<std::string, std::string>{{"panel.move", "30"},
                                            {"panel.flip", "-1s"},
                                            {"panel.look_ahead", "maybe"}})
    {
        FabricSpec bad = fabric;
        bad.options[key] = text;
        try
        {
            static_cast<void>(TakePanel(bad));
            ADD_FAILURE() << key;
        }
        catch (const SpecError& error)
        {
            EXPECT_NE(std::string(error.what()).find("here: topoopt." + key + ": found '" + text),
                      std::string::npos)
                << error.what();
        }
    }
    FabricSpec mistyped = fabric;
    mistyped.options["panel.mov"] = "30s";
    try
    {
        static_cast<void>(TakePanel(mistyped));
        ADD_FAILURE();
    }
    catch (const SpecError& error)
    {
        EXPECT_EQ(std::string(error.what()),
                  "here: topoopt.panel.mov: found an unknown key, expected one of move, flip, "
                  "look_ahead, did you mean 'move'?");
    }
}

TEST_F(ClusterJobs, TooManyOrTooLateAreRefused)
{
    JobsSpec spec = ReadJobs(Read("{jobs: {load: 100, servers: 1, mix: [{model: bert}]}}"));
    EXPECT_THROW(static_cast<void>(DrawJobs(spec, 1'000'000, {}, 1, "place")), SpecError);
    spec =
        ReadJobs(Read("{jobs: {arrivals: poisson, interval: 2400000s, count: 100000, servers: 1, "
                      "mix: [{model: bert}]}}"));
    EXPECT_THROW(static_cast<void>(DrawJobs(spec, 64, {}, 1, "place")), SpecError);
}

} // namespace
} // namespace topoopt::test
