// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/error.h"
#include "topoopt/core/sweep-points.h"
#include "topoopt/core/sweep.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace topoopt
{
namespace
{

namespace fs = std::filesystem;

/** A scenario, and a program that stands for topoopt: it writes what a run would and counts its calls. */
class SweepTest : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
        const fs::path build = fs::read_symlink("/proc/self/exe").parent_path();
        m_directory = build / "sweep-test" / info->name();
        fs::remove_all(m_directory);
        fs::create_directories(m_directory);
        Write("s.yaml",
              "servers: {count: 8}\nworkload: {model: dlrm}\nfabrics: [topoopt, fat-tree]\n");
        // Arguments: run SCENARIO -o DIR --quiet --set ... It becomes what it waits for: a shell told of an interrupt
        // would wait for its child first.
        Write("program",
              "#!/bin/sh\n"
              "here=" +
                  m_directory.string() +
                  "\n"
                  "echo \"$*\" >> \"$here/calls\"\n"
                  "case \"$*\" in\n"
                  "*\"$(cat \"$here/bad\" 2>/dev/null || echo none)\"*)\n"
                  "    echo first; echo 'x.yaml:1: found it' >&2; exit 2;;\n"
                  "esac\n"
                  "case \"$*\" in *seed=666*) kill -9 $$;; *seed=777*) exec sleep 30;; esac\n"
                  "cat > \"$4/summary.json\" <<END\n"
                  "{\"runs\": [{\"fabric\": \"topoopt\", \"iteration_time_ps\": [10, 20], "
                  "\"flows\": 7, \"run_s\": 0.5,\n"
                  "  \"fingerprint\": \"a,b\"}, {\"fabric\": \"fat-tree\", \"iteration_time_ps\": "
                  "[], \"extra\": 1.5}]}\n"
                  "END\n");
        chmod((m_directory / "program").c_str(), 0755);
    }

    void TearDown() override
    {
        fs::remove_all(m_directory);
    }

    std::string Write(const std::string& name, const std::string& text)
    {
        std::ofstream(m_directory / name, std::ios::binary) << text;
        return (m_directory / name).string();
    }

    std::string Read(const std::string& name)
    {
        std::ifstream in(m_directory / name);
        std::ostringstream text;
        text << in.rdbuf();
        return text.str();
    }

    std::size_t Calls()
    {
        const std::string calls = Read("calls");
        return static_cast<std::size_t>(std::count(calls.begin(), calls.end(), '\n'));
    }

    SweepOptions Options(const std::string& sweep)
    {
        SweepOptions options;
        options.file = Write("w.yaml", sweep);
        options.output = (m_directory / "out").string();
        options.program = (m_directory / "program").string();
        options.version = "1";
        options.jobs = 2;
        options.report = [this](const std::string& line) { m_lines += line + "\n"; };
        return options;
    }

    std::string Complaint(const std::string& sweep)
    {
        try
        {
            static_cast<void>(ReadSweep(Write("w.yaml", sweep), {}));
        }
        catch (const SpecError& error)
        {
            return std::string(error.what()).substr(m_directory.string().size() + 1);
        }
        return "";
    }

    fs::path m_directory;
    std::string m_lines;
};

TEST_F(SweepTest, GridTimesPoints)
{
    const Sweep sweep =
        ReadSweep(Write("w.yaml",
                        "scenario: s.yaml\nset: {stop: 1s}\n"
                        "grid:\n  servers.nics: [2, 4]\n  engine: [{mtu: 1500}, {mtu: 9000}]\n"
                        "points:\n  - {seed: 1}\n  - {seed: 2, servers.rate: 25Gbps}\n"),
                  {"iterations=3"});
    EXPECT_EQ(sweep.common, (std::vector<std::string>{"stop=1s", "iterations=3"}));
    EXPECT_EQ(sweep.columns,
              (std::vector<std::string>{"seed", "servers.nics", "engine", "servers.rate"}));
    ASSERT_EQ(sweep.points.size(), 8u);
    EXPECT_EQ(sweep.points[1].assignments,
              (std::vector<std::string>{"seed=1", "servers.nics=2", "engine={mtu: 9000}"}));
    EXPECT_EQ(sweep.points[1].values, (std::vector<std::string>{"1", "2", "{mtu: 9000}", ""}));
    EXPECT_EQ(sweep.points[6].assignments,
              (std::vector<std::string>{"seed=2",
                                        "servers.rate=25Gbps",
                                        "servers.nics=4",
                                        "engine={mtu: 1500}"}));
    EXPECT_EQ(sweep.points[6].name.substr(0, 27), "seed=2,rate=25Gbps,nics=4,e");
}

TEST_F(SweepTest, NamesDependOnSettingsAlone)
{
    const std::string one = "scenario: s.yaml\ngrid: {servers.nics: [2, 4]}\n";
    const std::string more = "scenario: s.yaml\ngrid: {servers.nics: [1, 2, 3, 4]}\n";
    const Sweep a = ReadSweep(Write("a.yaml", one), {});
    const Sweep b = ReadSweep(Write("b.yaml", more), {});
    EXPECT_EQ(a.points[0].name, "nics=2");
    EXPECT_EQ(a.points[1].name, b.points[3].name);
    // Two paths with the same last part, values that fit no file name.
    const Sweep c =
        ReadSweep(Write("c.yaml",
                        "scenario: s.yaml\ngrid:\n  fabrics.0.rate: [10Gbps]\n"
                        "  fabrics.1.rate: [1Gbps]\n  name: [x]\n  workload.note: [a b, a_b]\n"),
                  {});
    EXPECT_EQ(c.points[1].name, "fabrics.0.rate=10Gbps,fabrics.1.rate=1Gbps,name=x,note=a_b");
    EXPECT_EQ(
        c.points[0].name.rfind("fabrics.0.rate=10Gbps,fabrics.1.rate=1Gbps,name=x,note=_a_b_-", 0),
        0u);
}

TEST_F(SweepTest, BadSweepsAreRefused)
{
    const std::vector<std::pair<const char*, const char*>> cases = {
        {"grid: {seed: [1]}", "w.yaml:1:1: scenario: found no such key"},
        {"scenario: s.yaml", "w.yaml:1:1: found neither a grid nor points"},
        {"scenario: s.yaml\ngird: {seed: [1]}",
         "w.yaml:2:1: gird: found an unknown key, did you mean 'grid'?"},
        {"scenario: s.yaml\ngrid: {seed: 1}", "w.yaml:2:14: grid.seed: found '1', expected a list"},
        {"scenario: s.yaml\ngrid: {seed: []}", "w.yaml:2:14: grid.seed: found an empty list"},
        {"scenario: s.yaml\ngrid: {seed: [1, 1]}", "w.yaml: found the point seed=1 twice"},
        {"scenario: s.yaml\npoints: {seed: 1}", "w.yaml:2:9: points: found a section"},
        {"scenario: s.yaml\npoints: [{}]", "w.yaml:2:10: points.0: found an empty section"},
        {"scenario: s.yaml\ngrid: {seed: [1]}\npoints: [{seed: 1}]",
         "w.yaml: point seed=1,seed=1: found 'seed' set by"},
        {"scenario: s.yaml\ngrid: {sede: [1]}",
         "w.yaml: point sede=1: --set sede=1: sede: found an unknown key"},
        {"scenario: s.yaml\ngrid: {stop: [1s, 2]}",
         "w.yaml: point stop=2: --set stop=2: stop: found '2' (no unit)"},
        {"scenario: none.yaml\ngrid: {seed: [1]}", "w.yaml: point seed=1: "}};
    for (const auto& [text, expected] : cases)
    {
        const std::string message = Complaint(text);
        EXPECT_EQ(message.substr(0, std::string(expected).size()), expected) << message;
    }
    std::string huge = "scenario: s.yaml\ngrid:\n";
    for (const char* path : {"seed", "iterations", "servers.nics"})
    {
        huge += std::string("  ") + path + ": [";
        for (int k = 1; k <= 50; ++k)
        {
            huge += std::to_string(k) + ", ";
        }
        huge += "99]\n";
    }
    EXPECT_NE(Complaint(huge).find("found more than 100000 points"), std::string::npos);
}

TEST_F(SweepTest, TheTableIsTidy)
{
    EXPECT_EQ(RunSweep(Options(
                  "scenario: s.yaml\ngrid: {seed: [1, 2], fabrics: [[topoopt, fat-tree]]}\n")),
              0);
    const std::string name = ReadSweep((m_directory / "w.yaml").string(), {}).points[0].name;
    EXPECT_EQ(Read("out/" + name + "/log.txt"), "");
    std::string expected =
        "point,seed,fabrics,fabric,iteration,iteration_time_ps,extra,fingerprint,flows\n";
    for (const char* seed : {"1", "2"})
    {
        const Sweep sweep = ReadSweep((m_directory / "w.yaml").string(), {});
        const std::string begin = "\"" + sweep.points[seed[0] == '1' ? 0 : 1].name + "\"," + seed +
                                  ",\"[topoopt, fat-tree]\",";
        expected += begin + "topoopt,0,10,,\"a,b\",7\n" + begin + "topoopt,1,20,,\"a,b\",7\n" +
                    begin + "fat-tree,0,,1.5,,\n";
    }
    EXPECT_EQ(Read("out/sweep.csv"), expected);
    EXPECT_NE(Read("calls").find("run " + (m_directory / "s.yaml").string() + " -o "),
              std::string::npos);
}

TEST_F(SweepTest, WhatIsDoneIsNotRunAgain)
{
    SweepOptions options = Options("scenario: s.yaml\ngrid: {seed: [1, 2, 3]}\n");
    EXPECT_EQ(RunSweep(options), 0);
    const std::string table = Read("out/sweep.csv");
    EXPECT_EQ(Calls(), 3u);
    EXPECT_EQ(RunSweep(options), 0);
    EXPECT_EQ(Calls(), 3u);
    EXPECT_NE(m_lines.find("3 of 3 points were done before"), std::string::npos) << m_lines;
    // Half a point: killed before its mark was written.
    fs::remove(m_directory / "out/seed=2/done");
    EXPECT_EQ(RunSweep(options), 0);
    EXPECT_EQ(Calls(), 4u);
    EXPECT_EQ(Read("out/sweep.csv"), table);
    // A grid that grew, another setting for all, another program, and the user's wish.
    EXPECT_EQ(RunSweep(Options("scenario: s.yaml\ngrid: {seed: [0, 1, 2, 3]}\n")), 0);
    EXPECT_EQ(Calls(), 5u);
    EXPECT_EQ(RunSweep(Options("scenario: s.yaml\nset: {stop: 2s}\ngrid: {seed: [0, 1, 2, 3]}\n")),
              0);
    EXPECT_EQ(Calls(), 9u);
    options = Options("scenario: s.yaml\nset: {stop: 2s}\ngrid: {seed: [0, 1, 2, 3]}\n");
    options.version = "2";
    EXPECT_EQ(RunSweep(options), 0);
    EXPECT_EQ(Calls(), 13u);
    options.again = true;
    EXPECT_EQ(RunSweep(options), 0);
    EXPECT_EQ(Calls(), 17u);
    options.again = false;
    Write("s.yaml", "servers: {count: 4}\nworkload: {model: dlrm}\nfabrics: [topoopt]\n");
    EXPECT_EQ(RunSweep(options), 0);
    EXPECT_EQ(Calls(), 21u);
}

TEST_F(SweepTest, FailuresAreListedAndTheRestGoesOn)
{
    Write("bad", "seed=2");
    SweepOptions options = Options("scenario: s.yaml\ngrid: {seed: [1, 2, 666, 3]}\n");
    EXPECT_EQ(RunSweep(options), 1);
    EXPECT_EQ(Read("out/failed.txt"),
              "seed=2: exit code 2: x.yaml:1: found it\nseed=666: signal 9\n");
    const std::string end =
        "failed:\n  seed=2: exit code 2: x.yaml:1: found it\n  seed=666: signal 9\n"
        "2 of 4 points are not done; the same command goes on with them\n";
    EXPECT_EQ(m_lines.substr(m_lines.size() - end.size()), end) << m_lines;
    EXPECT_NE(Read("out/sweep.csv").find("seed=3"), std::string::npos);
    EXPECT_EQ(Read("out/sweep.csv").find("seed=2"), std::string::npos);
    Write("bad", "none");
    EXPECT_EQ(RunSweep(options), 1);
    EXPECT_EQ(Calls(), 6u) << "only what had failed";
    EXPECT_EQ(Read("out/failed.txt"), "seed=666: signal 9\n");
}

TEST_F(SweepTest, AnInterruptStopsTheRuns)
{
    std::atomic<bool> flag{false};
    SweepOptions options = Options("scenario: s.yaml\ngrid: {seed: [1, 777, 2]}\n");
    options.jobs = 1;
    options.interrupt = &flag;
    options.report = [&](const std::string& line) {
        m_lines += line + "\n";
        flag = true; // the first point has ended
    };
    EXPECT_EQ(RunSweep(options), 1);
    EXPECT_EQ(Calls(), 1u);
    flag = false;
    options.report = nullptr;
    options.file = Write("w.yaml", "scenario: s.yaml\npoints: [{seed: 777}]\n");
    std::atomic<bool> over{false};
    // The run has begun once its log is there; it would sleep for half a minute.
    std::thread interrupter([&] {
        while (!over && !fs::exists(m_directory / "out/seed=777/log.txt"))
        {
            usleep(1000);
        }
        flag = true;
    });
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(RunSweep(options), 1);
    over = true;
    interrupter.join();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
    EXPECT_NE(Read("out/failed.txt").find("interrupted"), std::string::npos);
}

TEST_F(SweepTest, ADirectoryInUseIsLeftAlone)
{
    SweepOptions options = Options("scenario: s.yaml\ngrid: {seed: [1, 2]}\n");
    fs::create_directories(m_directory / "out/seed=1");
    const int log = open((m_directory / "out/seed=1/log.txt").c_str(), O_WRONLY | O_CREAT, 0644);
    ASSERT_EQ(flock(log, LOCK_EX), 0);
    EXPECT_EQ(RunSweep(options), 1);
    EXPECT_EQ(Read("out/failed.txt"), "seed=1: another process is running it\n");
    close(log);
    EXPECT_EQ(RunSweep(options), 0);
    EXPECT_FALSE(fs::exists(m_directory / "out/failed.txt"));
}

TEST_F(SweepTest, OnePointOfAJobArray)
{
    SweepOptions options = Options("scenario: s.yaml\ngrid: {seed: [1, 2, 3]}\n");
    options.slurm = true;
    EXPECT_EQ(RunSweep(options), 0);
    EXPECT_EQ(Calls(), 0u);
    const std::string script = Read("out/sweep.sbatch");
    EXPECT_NE(script.find("#SBATCH --array=0-2%2\n"), std::string::npos) << script;
    EXPECT_NE(script.find(" sweep '" + options.file + "' -o '" + options.output +
                          "' --only \"$SLURM_ARRAY_TASK_ID\"\n"),
              std::string::npos)
        << script;
    options.slurm = false;
    options.only = 1;
    EXPECT_EQ(RunSweep(options), 0);
    EXPECT_EQ(Calls(), 1u);
    EXPECT_NE(Read("out/sweep.csv").find("seed=2"), std::string::npos);
    options.only = 3;
    EXPECT_THROW(static_cast<void>(RunSweep(options)), SpecError);
}

TEST_F(SweepTest, OutputThatCannotBeWritten)
{
    SweepOptions options = Options("scenario: s.yaml\ngrid: {seed: [1]}\n");
    Write("file", "");
    options.output = (m_directory / "file/out").string();
    EXPECT_THROW(static_cast<void>(RunSweep(options)), SpecError);
    options.output = (m_directory / "file").string();
    EXPECT_THROW(static_cast<void>(RunSweep(options)), SpecError);
    options = Options("scenario: s.yaml\ngrid: {seed: [1]}\n");
    options.program = (m_directory / "none").string();
    EXPECT_EQ(RunSweep(options), 1);
    EXPECT_EQ(Read("out/failed.txt"), "seed=1: exit code 127\n");
}

} // namespace
} // namespace topoopt
