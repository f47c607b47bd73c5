// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/cluster-run.h"
#include "ns3/experiment.h"
#include "topoopt/core/error.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace topoopt::test
{
namespace
{

namespace fs = std::filesystem;

/** Two kinds of small jobs that take about a millisecond alone. */
const std::string kDlrm = "model: dlrm, tables: 4, rows: 1000, dim: 64, bottom: 512, "
                          "bottom_layers: 2, top: 512, top_layers: 2, measured: none, "
                          "batch_per_gpu: 64, servers: 4";
const std::string kBert = "model: bert, layers: 1, sequence: 16, hidden: 256, heads: 4, "
                          "measured: none, batch_per_gpu: 4, servers: 4";

class ClusterRun : public testing::Test
{
  protected:
    void SetUp() override
    {
        m_directory = fs::read_symlink("/proc/self/exe").parent_path() / "cluster-run-test" /
                      testing::UnitTest::GetInstance()->current_test_info()->name();
        fs::remove_all(m_directory);
        fs::create_directories(m_directory);
    }

    void TearDown() override
    {
        fs::remove_all(m_directory);
    }

    /** A scenario on 8 servers with two NICs of 10 Gb/s, @p text being its workload and the rest. */
    [[nodiscard]] Experiment Read(const std::string& text,
                                  const std::vector<std::string>& overrides = {}) const
    {
        const std::string file = (m_directory / "scenario.yaml").string();
        std::ofstream(file) << "servers: {count: 8, nics: 2, rate: 10Gbps, gpus: 1}\n" << text;
        return Prepare(ReadScenario(file, overrides));
    }

    [[nodiscard]] ExperimentResult Run(const std::string& text,
                                       const std::vector<std::string>& overrides = {},
                                       const std::string& output = "") const
    {
        const Experiment experiment = Read(text, overrides);
        ExperimentResult result =
            RunExperiment(experiment,
                          output.empty() ? "" : (m_directory / output).string(),
                          false,
                          nullptr);
        EXPECT_TRUE(result.Good());
        for (const RunSummary& run : result.runs)
        {
            for (const std::string& violation : run.violations)
            {
                ADD_FAILURE() << run.fabric << ": " << violation;
            }
            for (const std::string& line : run.waiting)
            {
                ADD_FAILURE() << run.fabric << ": " << line;
            }
        }
        return result;
    }

    /** Rows of a table by column. */
    [[nodiscard]] std::vector<std::map<std::string, std::string>> Table(
        const std::string& name) const
    {
        std::ifstream in(m_directory / name);
        std::vector<std::string> header;
        std::vector<std::map<std::string, std::string>> rows;
        for (std::string line; std::getline(in, line);)
        {
            if (line.empty() || line[0] == '#')
            {
                continue;
            }
            std::vector<std::string> cells;
            std::string cell;
            bool quoted = false;
            for (const char c : line + ",")
            {
                if (c == '"')
                {
                    quoted = !quoted;
                }
                else if (c == ',' && !quoted)
                {
                    cells.push_back(std::exchange(cell, ""));
                }
                else
                {
                    cell += c;
                }
            }
            if (header.empty())
            {
                header = cells;
                continue;
            }
            std::map<std::string, std::string> row;
            for (std::size_t k = 0; k < header.size(); ++k)
            {
                row[header[k]] = cells.at(k);
            }
            rows.push_back(row);
        }
        return rows;
    }

    fs::path m_directory;
};

std::string
TwoJobs(const std::string& first, const std::string& second)
{
    return "workload: {jobs: [{" + first + "}, {" + second + "}]}\n";
}

/** Iteration time of a job that has the fabric for itself. */
SimTime
Alone(const ExperimentResult& result, std::size_t run = 0)
{
    return result.runs.at(run).iterationTimes.at(0);
}

TEST_F(ClusterRun, JobsThatShareNoLinkRunAsIfAlone)
{
    const std::string rest = "fabrics: [ideal-switch]\n";
    const ExperimentResult both =
        Run(TwoJobs(kDlrm + ", iterations: 3", kBert + ", iterations: 2, arrival: 100us") + rest,
            {},
            "out");
    const SimTime dlrm = Alone(Run("workload: {jobs: [{" + kDlrm + "}]}\n" + rest));
    const SimTime bert = Alone(Run("workload: {jobs: [{" + kBert + "}]}\n" + rest));
    // And the job alone is what it is without a cluster.
    const std::string model = "workload: {" + kDlrm + "}\n" + rest;
    const auto cut = model.find(", servers: 4");
    const ExperimentResult dedicated =
        Run(model.substr(0, cut) + model.substr(cut + 12), {"servers.count=4"});
    EXPECT_EQ(dedicated.runs[0].iterationTimes, std::vector<SimTime>({dlrm}));
    EXPECT_EQ(both.runs[0].iterationTimes, std::vector<SimTime>({dlrm, bert}));
    const auto jobs = Table("out/ideal-switch/jobs.csv");
    ASSERT_EQ(jobs.size(), 2U);
    EXPECT_EQ(jobs[0].at("end_ps"), std::to_string(3 * dlrm));
    EXPECT_EQ(jobs[1].at("start_ps"), std::to_string(100 * kMicrosecond));
    EXPECT_EQ(jobs[1].at("end_ps"), std::to_string(100 * kMicrosecond + 2 * bert));
    EXPECT_EQ(jobs[1].at("server_list"), "4-7");
    EXPECT_EQ(jobs[1].at("iteration_p99_ps"), std::to_string(bert));
    // Every flow is one of its job's, in its servers, while it runs.
    std::map<std::string, int> flows;
    for (const auto& flow : Table("out/ideal-switch/flows.csv"))
    {
        const bool second = flow.at("job") == "1";
        ++flows[flow.at("job") + "/" + flow.at("iteration")];
        EXPECT_EQ(std::stoul(flow.at("src_server")) >= 4, second);
        EXPECT_EQ(std::stoul(flow.at("dst_server")) >= 4, second);
        EXPECT_LE(std::stoll(flow.at("end_ps")), std::stoll(jobs[second ? 1 : 0].at("end_ps")));
        EXPECT_GE(std::stoll(flow.at("start_ps")), std::stoll(jobs[second ? 1 : 0].at("start_ps")));
    }
    EXPECT_EQ(flows.size(), 5U);
    EXPECT_EQ(flows["0/0"], flows["0/2"]);
    EXPECT_EQ(flows["1/0"], flows["1/1"]);
}

/** Leaves of 4 servers with one spine of the NICs' rate; random placement spreads jobs over both. */
const std::string kTight = "fabrics: [{kind: leaf-spine, servers_per_leaf: 4, spines: 1, "
                           "uplink_rate: 20Gbps}]\n";

TEST_F(ClusterRun, JobsOnOneFabricInterfere)
{
    const std::string jobs = "workload: {placement: random, jobs: [{" + kDlrm +
                             ", iterations: 3}, {" + kDlrm + ", iterations: 3}]}\n" + kTight;
    const std::string one =
        "workload: {placement: random, jobs: [{" + kDlrm + ", iterations: 3}]}\n" + kTight;
    for (const std::string fidelity : {"packet", "flow"})
    {
        const std::vector<std::string> how = {"engine.fidelity=" + fidelity};
        const ExperimentResult both = Run(jobs, how, fidelity);
        const ExperimentResult again = Run(jobs, how, fidelity + "-again");
        EXPECT_EQ(both.runs[0].fingerprint, again.runs[0].fingerprint);
        EXPECT_NE(both.runs[0].fingerprint, 0U);
        EXPECT_GT(both.runs[0].iterationTimes.at(0), Alone(Run(one, how))) << fidelity;
    }
    const ExperimentResult slow = Run(jobs, {"engine.trains=false"}, "single");
    const ExperimentResult fast = Run(jobs, {}, "trains");
    EXPECT_EQ(slow.runs[0].fingerprint, fast.runs[0].fingerprint);
    EXPECT_EQ(slow.runs[0].packetHops, fast.runs[0].packetHops);
}

TEST_F(ClusterRun, FluidIsNearPackets)
{
    // Four jobs at a time that share a Fat-tree, two more that wait.
    const std::string text = "workload: {placement: random, jobs: [{" + kDlrm +
                             ", iterations: 4}, {" + kBert + ", iterations: 5}, {" + kBert +
                             ", iterations: 2}, {" + kDlrm + ", iterations: 3, arrival: 1ms}, {" +
                             kBert + ", iterations: 3}, {" + kDlrm + ", iterations: 2}]}\n" +
                             "fabrics: [fat-tree, oversubscribed-fat-tree, topoopt]\n";
    // Fluid flows lose nothing, so nor may packets.
    const std::vector<std::string> more = {"servers.count=16",
                                           "servers.rate=50Gbps",
                                           "engine.buffer=64MB"};
    const ExperimentResult packet = Run(text, more);
    std::vector<std::string> how = more;
    how.emplace_back("engine.fidelity=flow");
    const ExperimentResult flow = Run(text, how);
    for (std::size_t run = 0; run < packet.runs.size(); ++run)
    {
        const RunSummary& p = packet.runs[run];
        const RunSummary& f = flow.runs[run];
        ASSERT_EQ(p.iterationTimes.size(), 6U);
        EXPECT_GT(p.packetHops, 0U);
        EXPECT_EQ(p.drops, 0U);
        EXPECT_EQ(f.packetHops, 0U);
        const auto ratio = [](SimTime a, SimTime b) {
            return static_cast<double>(a) / static_cast<double>(b);
        };
        EXPECT_NEAR(ratio(f.cluster->iterationMean, p.cluster->iterationMean), 1, 0.12) << p.fabric;
        std::printf("%s: iteration mean %.4f, p99 %.4f, makespan %.4f of the packet engine's\n",
                    p.fabric.c_str(),
                    ratio(f.cluster->iterationMean, p.cluster->iterationMean),
                    ratio(f.cluster->iterationP99, p.cluster->iterationP99),
                    ratio(f.cluster->makespan, p.cluster->makespan));
    }
}

TEST_F(ClusterRun, AShardIsADedicatedPatchPanel)
{
    const std::string rest = "fabrics: [{kind: topoopt, panel: {move: 1s, flip: 5ms}}]\n";
    const ExperimentResult both =
        Run(TwoJobs(kDlrm + ", iterations: 1000", kBert + ", iterations: 7") + rest, {}, "out");
    const auto dedicated = [&](const std::string& job) {
        const auto cut = job.find(", servers: 4");
        return Run("workload: {" + job.substr(0, cut) + "}\nfabrics: [topoopt]\niterations: 3\n",
                   {"servers.count=4"})
            .runs[0]
            .iterationTimes;
    };
    const std::vector<SimTime> dlrm = dedicated(kDlrm);
    const std::vector<SimTime> bert = dedicated(kBert);
    // Why one iteration is enough: in isolation all are equal.
    EXPECT_EQ(dlrm, std::vector<SimTime>(3, dlrm[0]));
    EXPECT_EQ(bert, std::vector<SimTime>(3, bert[0]));
    EXPECT_EQ(both.runs[0].iterationTimes, std::vector<SimTime>({dlrm[0], bert[0]}));
    const auto jobs = Table("out/topoopt/jobs.csv");
    // 4 servers x 2 NICs are 4 circuits; the robot does one job after the other.
    EXPECT_EQ(jobs[0].at("patching_ps"), std::to_string(4 * kSecond));
    EXPECT_EQ(jobs[0].at("start_ps"), std::to_string(4 * kSecond + 5 * kMillisecond));
    EXPECT_EQ(jobs[0].at("run_ps"), std::to_string(1000 * dlrm[0]));
    EXPECT_EQ(jobs[1].at("patch_begin_ps"), jobs[0].at("patch_end_ps"));
    EXPECT_EQ(jobs[1].at("start_ps"), std::to_string(8 * kSecond + 5 * kMillisecond));
    EXPECT_EQ(jobs[1].at("queueing_ps"), std::to_string(4 * kSecond));
}

TEST_F(ClusterRun, LookAheadOnAndOffDifferByWhatItHides)
{
    const std::string eight =
        "{" + kBert.substr(0, kBert.find(", servers: 4")) + ", servers: 8, iterations: 4000}";
    const ExperimentResult result =
        Run("workload: {jobs: [" + eight + ", " + eight + ", " + eight +
                "]}\nfabrics: [{kind: topoopt, panel: {move: 50ms, flip: 2ms}}, "
                "{kind: topoopt, name: off, panel: {move: 50ms, look_ahead: false}}]\n",
            {},
            "out");
    const auto on = Table("out/topoopt/jobs.csv");
    const auto off = Table("out/off/jobs.csv");
    SimTime gained = 0;
    for (std::size_t k = 0; k < 3; ++k)
    {
        gained += std::stoll(on[k].at("hidden_patching_ps")) - std::stoll(on[k].at("flip_ps"));
        EXPECT_EQ(std::stoll(off[k].at("start_ps")) - std::stoll(on[k].at("start_ps")), gained);
        EXPECT_EQ(off[k].at("hidden_patching_ps"), "0");
    }
    EXPECT_GT(gained, 0);
    EXPECT_EQ(result.runs[0].iterationTimes, result.runs[1].iterationTimes);
}

TEST_F(ClusterRun, GeneratedJobsAreTheSameOnAllFabrics)
{
    const std::string text = "workload: {queue: backfill, placement: best-fit, jobs: {arrivals: "
                             "poisson, load: 0.8, count: 12, iterations: 2, mix: [{" +
                             kDlrm + ", weight: 0.5}, {" + kBert +
                             ", weight: 0.5}]}}\nfabrics: [ideal-switch, fat-tree, {kind: topoopt, "
                             "panel: {move: 1us, flip: 0ps}}]\nengine: {fidelity: flow}\n";
    const ExperimentResult result = Run(text, {}, "out");
    const auto a = Table("out/ideal-switch/jobs.csv");
    const auto b = Table("out/fat-tree/jobs.csv");
    const auto c = Table("out/topoopt/jobs.csv");
    ASSERT_EQ(a.size(), 12U);
    std::map<std::string, int> names;
    for (std::size_t k = 0; k < a.size(); ++k)
    {
        ++names[a[k].at("name")];
        EXPECT_EQ(a[k].at("arrival_ps"), b[k].at("arrival_ps"));
        EXPECT_EQ(a[k].at("arrival_ps"), c[k].at("arrival_ps"));
        EXPECT_EQ(a[k].at("name"), c[k].at("name"));
    }
    EXPECT_EQ(names.size(), 2U);
    EXPECT_GT(result.runs[0].cluster->utilisation, 0.3);
    std::ostringstream table;
    PrintTable(result, table);
    EXPECT_NE(table.str().find("utilisation"), std::string::npos);
    std::ostringstream check;
    PrintCheck(Read(text), check);
    EXPECT_NE(check.str().find("12 jobs of 2 kind(s) on 8 servers, queue backfill"),
              std::string::npos)
        << check.str();
    EXPECT_NE(check.str().find("\njob 11 "), std::string::npos);
}

TEST_F(ClusterRun, StopLeavesJobsUnfinishedAndSaysSo)
{
    const Experiment experiment =
        Read(TwoJobs(kDlrm + ", iterations: 1000", kBert + ", iterations: 1") +
                 "fabrics: [ideal-switch, topoopt]\n",
             {"stop=2ms", "workload.jobs.0.servers=8"});
    const ExperimentResult result = RunExperiment(experiment, "", false, nullptr);
    EXPECT_FALSE(result.Good());
    for (const RunSummary& run : result.runs)
    {
        EXPECT_FALSE(run.complete) << run.fabric;
        EXPECT_TRUE(run.violations.empty()) << run.fabric;
        ASSERT_FALSE(run.waiting.empty());
        EXPECT_EQ(run.waiting.back(), "2 of 2 jobs have not ended");
    }
}

TEST_F(ClusterRun, BadJobsAreRefusedWithTheirPlace)
{
    const auto refused = [this](const std::string& text, const std::string& part) {
        try
        {
            static_cast<void>(Read(text));
            ADD_FAILURE() << text;
        }
        catch (const SpecError& error)
        {
            EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
            EXPECT_NE(std::string(error.what()).find("scenario.yaml:2:"), std::string::npos)
                << error.what();
        }
    };
    const std::string end = "\nfabrics: [ideal-switch]\n";
    refused("workload: {jobs: [{model: bert, servers: 9}]}" + end,
            "workload.jobs.0.servers: found '9', expected a whole number 1..8");
    refused("workload: {jobs: [{servers: 4}]}" + end, "model, taskgraph or trace");
    refused("workload: {jobs: [{model: bert}]}" + end, "how many servers");
    refused("workload: {jobs: [{model: bert, servers: 4, layres: 2}]}" + end, "layres");
    refused("workload: {jobs: [{model: bert, servers: 4, arrival: 3}]}" + end, "arrival");
    refused("workload: {jobs: [{model: bert, servers: 4}], queue: lifo}" + end, "fifo, backfill");
    refused("workload: {jobs: {mix: [{model: bert, servers: 4}]}}" + end, "count and load");
    refused("workload: {jobs: {arrivals: poisson, count: 3, mix: [{model: bert, servers: 4}]}}" +
                end,
            "load and interval");
    refused("workload: {jobs: {lod: 1, mix: [{model: bert, servers: 4}]}}" + end, "lod");
    refused("workload: {jobs: {load: -1, mix: [{model: bert, servers: 4}]}}" + end,
            "workload.jobs.load: found '-1', expected a number 1e-06..100");
    refused("workload: {jobs: []}" + end, "found an empty list, expected a list of jobs");
    refused("workload: {jobs: {load: 1, mix: {model: bert, servers: 4}}}" + end,
            "workload.jobs.mix: found a section, expected a list of jobs with weights");
    refused("workload: {jobs: {load: 1, mix: [{model: bert, servers: 4, weight: nan}]}}" + end,
            "workload.jobs.mix.0.weight: found 'nan', expected a number");
    refused("workload: {jobs: 3}" + end, "list of jobs");
    refused("fabrics: [{kind: topoopt, reconfiguration: {policy: greedy}}]\nworkload: {jobs: [{" +
                kBert + "}]}\n",
            "a policy with a shared cluster");
}

} // namespace
} // namespace topoopt::test
