// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/error.h"
#include "topoopt/core/random.h"
#include "topoopt/core/scenario.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace topoopt
{
namespace
{

namespace fs = std::filesystem;

const char* const kMinimal = "servers: {count: 8}\n"
                             "workload: {model: dlrm}\n"
                             "fabrics: [topoopt]\n";

/** Gives each test a directory of its own in the build tree, named relative to the working directory. */
class ScenarioFile : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
        const fs::path build = fs::read_symlink("/proc/self/exe").parent_path();
        m_directory = fs::relative(build / "scenario-test" / info->name());
        fs::remove_all(m_directory);
        fs::create_directories(m_directory);
    }

    void TearDown() override
    {
        fs::remove_all(m_directory);
    }

    std::string Write(const std::string& text, const std::string& name = "x.yaml")
    {
        const fs::path path = m_directory / name;
        std::ofstream(path, std::ios::binary) << text;
        return path.string();
    }

    Scenario Read(const std::string& text, const std::vector<std::string>& overrides = {})
    {
        return ReadScenario(Write(text), overrides);
    }

    /** The message of the SpecError with the directory cut off; "" if nothing was thrown. */
    std::string Complaint(const std::string& text, const std::vector<std::string>& overrides = {})
    {
        try
        {
            static_cast<void>(Read(text, overrides));
        }
        catch (const SpecError& error)
        {
            std::string message = error.what();
            EXPECT_EQ(message.find('\n'), std::string::npos) << message;
            const std::string prefix = m_directory.string() + "/";
            for (std::size_t at; (at = message.find(prefix)) != std::string::npos;)
            {
                message.erase(at, prefix.size());
            }
            return message;
        }
        return "";
    }

    fs::path m_directory;
};

/** Equality of everything but file and places, which a copy may not share. */
void
ExpectSame(const Scenario& a, const Scenario& b)
{
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.seed, b.seed);
    EXPECT_EQ(a.servers.count, b.servers.count);
    EXPECT_EQ(a.servers.nics, b.servers.nics);
    EXPECT_EQ(a.servers.rate, b.servers.rate);
    EXPECT_EQ(a.servers.gpus, b.servers.gpus);
    EXPECT_EQ(a.servers.intraRate, b.servers.intraRate);
    EXPECT_EQ(a.servers.linkDelay, b.servers.linkDelay);
    EXPECT_EQ(a.workload.kind, b.workload.kind);
    EXPECT_EQ(a.workload.path, b.workload.path);
    EXPECT_EQ(a.workload.options, b.workload.options);
    EXPECT_EQ(a.strategy, b.strategy);
    ASSERT_EQ(a.fabrics.size(), b.fabrics.size());
    for (std::size_t i = 0; i < a.fabrics.size(); ++i)
    {
        EXPECT_EQ(a.fabrics[i].kind, b.fabrics[i].kind);
        EXPECT_EQ(a.fabrics[i].name, b.fabrics[i].name);
        EXPECT_EQ(a.fabrics[i].options, b.fabrics[i].options);
    }
    EXPECT_EQ(a.engine.fidelity, b.engine.fidelity);
    EXPECT_EQ(a.engine.transport, b.engine.transport);
    EXPECT_EQ(a.engine.mtu, b.engine.mtu);
    EXPECT_EQ(a.engine.compat, b.engine.compat);
    EXPECT_EQ(a.engine.trains, b.engine.trains);
    EXPECT_EQ(a.engine.ackEvery, b.engine.ackEvery);
    EXPECT_EQ(a.engine.buffer, b.engine.buffer);
    EXPECT_EQ(a.engine.ecn, b.engine.ecn);
    EXPECT_EQ(a.collectives, b.collectives);
    EXPECT_EQ(a.results.flows, b.results.flows);
    EXPECT_EQ(a.iterations, b.iterations);
    EXPECT_EQ(a.stop, b.stop);
}

const char* const kFull = R"(# everything at once
version: 1
name: all-keys
seed: 18446744073709551615
servers: {count: 128, nics: 4, rate: 25Gbps, gpus: 8, intra_rate: 1.6Tbps, link_delay: 500ns}
workload:
  trace: ../traces/dlrm
  compute_scale: 0
  groups: [0, 3, 5]
  map: {first: a, second: {third: "null"}}
strategy: {search: mcmc, budget: 4000}
fabrics:
  - topoopt
  - kind: fat-tree
    name: cheap.tree
    rate: equal-cost
  - {kind: from-file, file: nets/a.yaml}
engine:
  fidelity: flow
  transport: dcqcn
  mtu: 1044
  compat: flexnet
  trains: off
  ack_every: 1
  buffer: 2MiB
  ecn: 65 KB
collectives: {all_reduce: ring, all_to_all: direct}
results: {flows: csv.gz}
iterations: 3
stop: 1.5ms
)";

TEST_F(ScenarioFile, EveryKeyArrives)
{
    const Scenario s = Read(kFull);
    EXPECT_EQ(s.name, "all-keys");
    EXPECT_EQ(s.seed, UINT64_MAX);
    EXPECT_EQ(s.servers.count, 128u);
    EXPECT_EQ(s.servers.nics, 4u);
    EXPECT_EQ(s.servers.rate.bps, 25'000'000'000u);
    EXPECT_EQ(s.servers.gpus, 8u);
    EXPECT_EQ(s.servers.intraRate.bps, 1'600'000'000'000u);
    EXPECT_EQ(s.servers.linkDelay, 500 * kNanosecond);
    EXPECT_EQ(s.workload.kind, WorkloadKind::Trace);
    EXPECT_EQ(fs::path(s.workload.path), m_directory.parent_path() / "traces/dlrm");
    const std::map<std::string, std::string> options = {{"compute_scale", "0"},
                                                        {"groups", "0,3,5"},
                                                        {"map.first", "a"},
                                                        {"map.second.third", "null"}};
    EXPECT_EQ(s.workload.options, options);
    EXPECT_EQ(s.workload.places.at("compute_scale"), s.file + ":8:18");
    EXPECT_EQ(s.strategy.at("search"), "mcmc");
    EXPECT_EQ(s.strategy.at("budget"), "4000");
    ASSERT_EQ(s.fabrics.size(), 3u);
    EXPECT_EQ(s.fabrics[0].kind, "topoopt");
    EXPECT_EQ(s.fabrics[0].name, "topoopt");
    EXPECT_EQ(s.fabrics[0].place, s.file + ":13:5");
    EXPECT_EQ(s.fabrics[1].kind, "fat-tree");
    EXPECT_EQ(s.fabrics[1].name, "cheap.tree");
    EXPECT_EQ(s.fabrics[1].options.at("rate"), "equal-cost");
    EXPECT_EQ(fs::path(s.fabrics[2].options.at("file")), m_directory / "nets/a.yaml");
    EXPECT_EQ(s.engine.fidelity, "flow");
    EXPECT_EQ(s.engine.transport, "dcqcn");
    EXPECT_EQ(s.engine.mtu, 1044u);
    EXPECT_EQ(s.engine.compat, "flexnet");
    EXPECT_FALSE(s.engine.trains);
    EXPECT_EQ(s.engine.ackEvery, 1u);
    EXPECT_EQ(s.engine.buffer, Bytes{2} << 20);
    EXPECT_EQ(s.engine.ecn, 65'000u);
    EXPECT_EQ(s.collectives.at("all_to_all"), "direct");
    EXPECT_EQ(s.results.flows, "csv.gz");
    EXPECT_EQ(s.iterations, 3u);
    EXPECT_EQ(s.stop, 1'500 * kMicrosecond);
}

TEST_F(ScenarioFile, DefaultsStandWhereNothingIsSaid)
{
    const Scenario s = Read(kMinimal);
    EXPECT_EQ(s.name, "x");
    EXPECT_EQ(s.seed, 1u);
    EXPECT_EQ(s.servers.nics, 1u);
    EXPECT_EQ(s.servers.linkDelay, kMicrosecond);
    EXPECT_EQ(s.workload.kind, WorkloadKind::Model);
    EXPECT_EQ(s.workload.path, "dlrm");
    EXPECT_TRUE(s.strategy.empty());
    EXPECT_EQ(s.engine.fidelity, "packet");
    EXPECT_EQ(s.engine.transport, "dctcp");
    EXPECT_EQ(s.engine.mtu, 9000u);
    EXPECT_TRUE(s.engine.trains);
    EXPECT_EQ(s.results.flows, "csv");
    EXPECT_EQ(s.stop, 10 * kSecond);
}

TEST_F(ScenarioFile, WrittenAndReadAgainItIsTheSame)
{
    const std::vector<std::string> texts = {
        kFull,
        kMinimal,
        "name: c\nservers: {count: 2}\nstop: 1ps\nstrategy: hybrid\n"
        "workload: {flows: {cdf: web.txt, load: 0.5, duration: 10ms}}\n"
        "fabrics: [{kind: ring, name: \"~\", rate: \"\"}]\n",
        "servers: {count: 9}\nworkload: {model: ./models/m.yaml, batch_per_gpu: 128}\n"
        "fabrics: [{kind: a, note: 'x: [y', odd: \"a\\tb\\n# c\"}, {kind: b, cut: {links: [1, "
        "2]}}]\n",
        "servers: {count: 64}\nworkload: {jobs: [{model: dlrm, servers: 16, start: 1s}, {trace: "
        "/t/u},\n"
        "  {model: a}, {model: b}, {model: c}, {model: d}, {model: e}, {model: f}, {model: g},\n"
        "  {model: h}, {model: i, at: {x: [{y: 1}, z]}}], placement: packed}\nfabrics: "
        "[topoopt]\n"};
    for (std::string text : texts)
    {
        const std::size_t tilde = text.find("\"~\"");
        if (tilde != std::string::npos)
        {
            text.replace(tilde, 3, "t");
        }
        const Scenario first = Read(text);
        const Scenario beside =
            ReadScenario(Write(WriteScenario(first), "copy.yaml"), {"name=" + first.name});
        ExpectSame(first, beside);
        // A manifest lies elsewhere, and runs all the same.
        fs::create_directories(m_directory / "out" / "deep");
        const std::string manifest = WriteScenario(first, (m_directory / "out/deep").string());
        ExpectSame(first, ReadScenario(Write(manifest, "out/deep/manifest.yaml"), {}));
        EXPECT_EQ(WriteScenario(first), WriteScenario(beside));
        EXPECT_EQ(manifest.find(fs::current_path().string()), std::string::npos);
    }
}

TEST_F(ScenarioFile, JobsAreFlatOptions)
{
    const Scenario s = Read("servers: {count: 4}\nfabrics: [topoopt]\n"
                            "workload:\n  jobs:\n    - {model: dlrm, servers: 2}\n"
                            "    - {trace: t, start: 1ms}\n");
    EXPECT_EQ(s.workload.kind, WorkloadKind::Jobs);
    EXPECT_EQ(s.workload.options.at("jobs.0.model"), "dlrm");
    EXPECT_EQ(fs::path(s.workload.options.at("jobs.1.trace")), m_directory / "t");
    EXPECT_EQ(s.workload.places.at("jobs.1.start"), s.file + ":6:25");
}

TEST_F(ScenarioFile, MergeKeysAndAliases)
{
    const Scenario s =
        Read("servers: {count: 4}\nworkload: {model: m}\n"
             "fabrics:\n  - &base {kind: fat-tree, name: a, rate: 10Gbps, oversub: 2}\n"
             "  - {<<: *base, name: b, rate: 20Gbps}\n"
             "  - {<<: [{name: c}, *base]}\n");
    ASSERT_EQ(s.fabrics.size(), 3u);
    EXPECT_EQ(s.fabrics[1].options.at("rate"), "20Gbps");
    EXPECT_EQ(s.fabrics[1].options.at("oversub"), "2");
    EXPECT_EQ(s.fabrics[2].name, "c");
    EXPECT_EQ(s.fabrics[2].options.at("rate"), "10Gbps");
    EXPECT_NE(
        Complaint(std::string(kMinimal) + "engine: {<<: 3}\n").find("x.yaml:4:14: <<: found '3'"),
        std::string::npos);
}

TEST_F(ScenarioFile, OverridesReachEverything)
{
    const Scenario s = Read(kFull,
                            {"seed=7",
                             "servers.rate=400Gbps",
                             "fabrics.0.kind=expander",
                             "fabrics.0.degree=3",
                             "fabrics.3=ideal-switch",
                             "strategy=data-parallel",
                             "engine.mtu=9000",
                             "workload.compute_scale=2",
                             "collectives={all_reduce: tree}",
                             "results.flows=none",
                             "results.flows=csv"});
    EXPECT_EQ(s.seed, 7u);
    EXPECT_EQ(s.servers.rate.bps, 400'000'000'000u);
    ASSERT_EQ(s.fabrics.size(), 4u);
    EXPECT_EQ(s.fabrics[0].kind, "expander");
    EXPECT_EQ(s.fabrics[0].options.at("degree"), "3");
    EXPECT_EQ(s.fabrics[0].PlaceOf("degree"), "--set fabrics.0.degree=3");
    EXPECT_EQ(s.fabrics[1].PlaceOf("rate"), s.file + ":16:11");
    EXPECT_EQ(s.fabrics[1].PlaceOf("none"), s.fabrics[1].place);
    EXPECT_EQ(s.fabrics[3].kind, "ideal-switch");
    EXPECT_TRUE(s.strategy.empty());
    EXPECT_EQ(s.engine.mtu, 9000u);
    EXPECT_EQ(s.engine.transport, "dcqcn");
    EXPECT_EQ(s.workload.options.at("compute_scale"), "2");
    EXPECT_EQ(s.workload.places.at("compute_scale"), "--set workload.compute_scale=2");
    EXPECT_EQ(s.collectives.size(), 1u);
    EXPECT_EQ(s.results.flows, "csv");
    // Sections that the file does not have, and a value that stands for one.
    const Scenario t =
        Read(kMinimal, {"engine.trains=off", "fabrics.0.rate=10Gbps", "strategy.search=mcmc"});
    EXPECT_FALSE(t.engine.trains);
    EXPECT_EQ(t.fabrics[0].kind, "topoopt");
    EXPECT_EQ(t.fabrics[0].options.at("rate"), "10Gbps");
    EXPECT_EQ(t.strategy.at("search"), "mcmc");
}

TEST_F(ScenarioFile, AnotherKindOfWorkloadReplacesTheFirst)
{
    const std::string here = Write("", "flows-here.txt");
    const Scenario s = Read(kFull, {"workload.load=1", "workload.flows=" + here});
    EXPECT_EQ(s.workload.kind, WorkloadKind::Flows);
    EXPECT_EQ(s.workload.path, here) << "relative to the working directory, as it exists there";
    EXPECT_EQ(s.workload.options.size(), 1u) << "options of the trace went with it";
    EXPECT_EQ(s.workload.options.at("load"), "1");
    const Scenario t = Read(kFull, {"workload.taskgraph=flows-here.txt"});
    EXPECT_EQ(t.workload.path, here) << "not in the working directory, so beside the scenario";
    const Scenario u = Read(kFull, {"workload.trace=other"});
    EXPECT_EQ(u.workload.options.size(), 4u) << "the same kind keeps its options";
    EXPECT_NE(Complaint(kFull, {"workload={model: a, flows: b}"})
                  .find("workload: found both 'model' and 'flows'"),
              std::string::npos);
}

struct Bad
{
    const char* text;
    const char* message; ///< the whole complaint begins with this
};

TEST_F(ScenarioFile, BadInputIsNamedAndPlaced)
{
    const std::string rest = "servers: {count: 8}\nworkload: {model: dlrm}\nfabrics: [topoopt]\n";
    const std::vector<Bad> documents = {
        {"", "x.yaml: found nothing, expected YAML"},
        {"# only a comment\n", "x.yaml: found nothing, expected YAML"},
        {"---\n", "x.yaml: found an empty file, expected a scenario"},
        {"- a\n", "x.yaml:1:1: found a list, expected a section with the keys version, name"},
        {"just text", "x.yaml:1:1: found 'just text', expected a section"},
        {"\xff\xfe", "x.yaml@0: found a byte that is not UTF-8"},
        {"name: \xc3\x28", "x.yaml@6: found a byte that is not UTF-8"},
        {"name: \xed\xa0\x80", "x.yaml@6: found a byte that is not UTF-8"},
        {"servers:\n\tcount: 8\n", "x.yaml:2:1: found a tab in the indentation, expected blanks"},
        {"servers: {count: 8", "x.yaml:1:"},
        {"servers: *nobody\n", "x.yaml:1:10: found text that is not YAML"},
        {"servers: &a [*a]\n", "x.yaml:1:14: found an alias inside the value that it names"},
        {"? [a]\n: b\n",
         "x.yaml:1:3: found a list or section as a key (is a bracket left open?), expected a name"},
        {"~: 3\n", "x.yaml:1:1: found nothing as a key"},
        {"servers: !secret {count: 8}\n", "x.yaml:1:10: found the tag '!secret', expected none"},
        {"servers: {count: 8}\n...\n---\na: b\n", "x.yaml:4:1: found a second document"},
        {"servers: {count: 8}\nworkload: {model: d}\n",
         "x.yaml:1:1: fabrics: found no such key, expected a list"},
        {"workload: {model: d}\nfabrics: [a]\n", "x.yaml:1:1: servers: found no such key"},
        {"servers: {nics: 4}\nworkload: {model: d}\nfabrics: [a]\n",
         "x.yaml:1:10: servers.count: found no such key, expected the number of servers"},
        {"servers: 8\nworkload: {model: d}\nfabrics: [a]\n",
         "x.yaml:1:10: servers: found '8', expected a section with the keys count"},
        {"servers: {count: 8}\nworkload: {}\nfabrics: [a]\n",
         "x.yaml:2:11: workload: found no kind of workload, expected model"},
        {"servers: {count: 8}\nworkload: {modle: d}\nfabrics: [a]\n",
         "x.yaml:2:12: workload.modle: found an unknown key, did you mean 'model'?"},
        {"servers: {count: 8}\nworkload: {model: d, trace: e}\nfabrics: [a]\n",
         "x.yaml:2:22: workload: found both 'model' and 'trace', expected one of"},
        {"servers: {count: 8}\nworkload: {trace: }\nfabrics: [a]\n",
         "x.yaml:2:12: workload.trace: found nothing, expected a path"},
        {"servers: {count: 8}\nworkload: {trace: [a]}\nfabrics: [a]\n",
         "x.yaml:2:19: workload.trace: found a list, expected a path"},
        {"servers: {count: 8}\nworkload: {flows: {load: 1}}\nfabrics: [a]\n",
         "x.yaml:2:19: workload.flows.cdf: found no such key"},
        {"servers: {count: 8}\nworkload: {jobs: dlrm}\nfabrics: [a]\n",
         "x.yaml:2:18: workload.jobs: found 'dlrm', expected a list of jobs, or a section with a "
         "mix of them"},
        {"servers: {count: 8}\nworkload: {jobs: [dlrm]}\nfabrics: [a]\n",
         "x.yaml:2:19: workload.jobs.0: found 'dlrm', expected a section"},
        {"servers: {count: 8}\nworkload: {model: d, x: }\nfabrics: [a]\n",
         "x.yaml:2:22: workload.x: found nothing, expected a value"},
        {"servers: {count: 8}\nworkload: {model: d, x.y: 1}\nfabrics: [a]\n",
         "x.yaml:2:22: workload: found the key 'x.y', expected a key without dots"},
        {"servers: {count: 8}\nworkload: {model: d}\nfabrics: []\n",
         "x.yaml:3:10: fabrics: found an empty list, expected a list such as"},
        {"servers: {count: 8}\nworkload: {model: d}\nfabrics: topoopt\n",
         "x.yaml:3:10: fabrics: found 'topoopt', expected a list such as"},
        {"servers: {count: 8}\nworkload: {model: d}\nfabrics: [[a]]\n",
         "x.yaml:3:11: fabrics.0: found a list, expected the kind of a fabric"},
        {"servers: {count: 8}\nworkload: {model: d}\nfabrics: [{rate: 1Gbps}]\n",
         "x.yaml:3:11: fabrics.0.kind: found no such key"},
        {"servers: {count: 8}\nworkload: {model: d}\nfabrics: [a, {kind: a}]\n",
         "x.yaml:3:21: fabrics.1: found a second fabric called 'a' (first at x.yaml:3:11), "
         "expected a `name:`"},
        {"servers: {count: 8}\nworkload: {model: d}\nfabrics: [{kind: a, name: ../b}]\n",
         "x.yaml:3:27: fabrics.0.name: found '../b', expected a name of"}};
    for (const Bad& bad : documents)
    {
        const std::string message = Complaint(bad.text);
        EXPECT_EQ(message.substr(0, std::string(bad.message).size()), bad.message)
            << message << "\nfor\n"
            << bad.text;
    }
    const std::vector<Bad> fourth = {
        {"sevrers: {count: 9}",
         "x.yaml:4:1: sevrers: found an unknown key, did you mean 'servers'?"},
        {"zzzzzzzz: 1",
         "x.yaml:4:1: zzzzzzzz: found an unknown key, expected one of version, name"},
        {"servers: {count: 9}", "x.yaml:4:1: found the key 'servers' twice (first at x.yaml:1:1)"},
        {"version: 2", "x.yaml:4:10: version: found '2', expected a whole number in 1..1"},
        {"name: a/b", "x.yaml:4:7: name: found 'a/b', expected a name"},
        {"name: [a]", "x.yaml:4:7: name: found a list, expected a text"},
        {"seed: -1",
         "x.yaml:4:7: seed: found '-1', expected a whole number in 0..18446744073709551615"},
        {"seed: 18446744073709551616", "x.yaml:4:7: seed: found '18446744073709551616', expected"},
        {"seed: 010", "x.yaml:4:7: seed: found '010', expected"},
        {"seed: 1e3", "x.yaml:4:7: seed: found '1e3', expected"},
        {"seed: .nan", "x.yaml:4:7: seed: found '.nan', expected"},
        {"seed: ~", "x.yaml:4:1: seed: found nothing, expected"},
        {"iterations: 0", "x.yaml:4:13: iterations: found '0', expected a whole number in 1.."},
        {"iterations: 9223372036854775808", "x.yaml:4:13: iterations: found '9223372036854775808'"},
        {"iterations: 1.5", "x.yaml:4:13: iterations: found '1.5', expected a whole number"},
        {"stop: 10", "x.yaml:4:7: stop: found '10' (no unit), expected a time with its unit"},
        {"stop: 0s", "x.yaml:4:7: stop: found '0s', expected 1ps to"},
        {"stop: nan", "x.yaml:4:7: stop: found 'nan'"},
        {"stop: -1s", "x.yaml:4:7: stop: found '-1s'"},
        {"stop: 9223372036854775808ps",
         "x.yaml:4:7: stop: found '9223372036854775808ps' (too large)"},
        {"stop: \"1\\n2\"", "x.yaml:4:7: stop: found '1\\x0a2'"},
        {"stop: [1s]", "x.yaml:4:7: stop: found a list, expected a time"},
        {"engine: {mtu: 44}",
         "x.yaml:4:15: engine.mtu: found '44', expected a whole number in 45.."},
        {"engine: {mtu: 9KB, mtu: 1}", "x.yaml:4:20: found the key 'mtu' twice"},
        {"engine: {mtu: 9Gbps}",
         "x.yaml:4:15: engine.mtu: found '9Gbps' (unknown unit), expected a size"},
        {"engine: {buffer: 1000}",
         "x.yaml:4:18: engine.buffer: found '1000' (no unit), expected a size"},
        {"engine: {trains: maybe}",
         "x.yaml:4:18: engine.trains: found 'maybe', expected one of true, false, on, off, yes, "
         "no"},
        {"engine: {fidelity: pakcet}",
         "x.yaml:4:20: engine.fidelity: found 'pakcet', expected one of packet, flow, did you "
         "mean 'packet'?"},
        {"engine: {transprot: dctcp}",
         "x.yaml:4:10: engine.transprot: found an unknown key, did you mean 'transport'?"},
        {"engine:", "x.yaml:4:1: engine: found nothing, expected a section"},
        {"collectives: {allreduce: ring}",
         "x.yaml:4:15: collectives.allreduce: found an unknown key, did you mean 'all_reduce'?"},
        {"collectives: [ring]", "x.yaml:4:14: collectives: found a list, expected a section"},
        {"results: {flows: csvv}",
         "x.yaml:4:18: results.flows: found 'csvv', expected one of none, csv, csv.gz, did you "
         "mean"},
        {"strategy: [a]", "x.yaml:4:11: strategy: found a list, expected a name"},
        {"strategy: {a: []}", "x.yaml:4:15: strategy.a: found an empty list"},
        {"strategy: {a: [[1]]}", "x.yaml:4:16: strategy.a: found a list in a list"},
        {"strategy: {a: ['1,2']}",
         "x.yaml:4:16: strategy.a: found '1,2' in a list, expected text without commas"}};
    for (const Bad& bad : fourth)
    {
        const std::string message = Complaint(rest + bad.text + "\n");
        EXPECT_EQ(message.substr(0, std::string(bad.message).size()), bad.message)
            << message << "\nfor\n"
            << bad.text;
    }
    for (const char* servers : {"count: 0",
                                "count: -8",
                                "count: 1000001",
                                "count: 8, nics: 0",
                                "count: 8, gpus: 99999999999",
                                "count: 8, rate: 100",
                                "count: 8, rate: 0Gbps",
                                "count: 8, link_delay: 1",
                                "count: 8, link_delay: 2s",
                                "count: 8, rate: 100Gbps Gbps"})
    {
        EXPECT_NE(Complaint("servers: {" + std::string(servers) +
                            "}\nworkload: {model: d}\nfabrics: [a]\n"),
                  "")
            << servers;
    }
}

TEST_F(ScenarioFile, BadOverridesNameTheOverride)
{
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"seed", "--set seed: found no path and value, expected a.b=value"},
        {"=3", "--set =3: found no path and value"},
        {"a..b=3", "--set a..b=3: found an empty key in the path"},
        {"seed=", "--set seed=: found nothing, expected"},
        {"seed=x", "--set seed=x: seed: found 'x', expected a whole number"},
        {"sede=3", "--set sede=3: sede: found an unknown key, did you mean 'seed'?"},
        {"servers.cuont=3",
         "--set servers.cuont=3: servers.cuont: found an unknown key, did you mean 'count'?"},
        {"seed=[a", "--set seed=[a: found a list or section as a key (is a bracket left open?)"},
        {"seed={a: 1, a: 2}", "--set seed={a: 1, a: 2}: found the key 'a' twice"},
        {"fabrics.5.kind=a", "--set fabrics.5.kind=a: fabrics: found the index '5', expected 0..1"},
        {"fabrics.x=a", "--set fabrics.x=a: fabrics: found the index 'x', expected 0..1"},
        {"fabrics.99999999999999999999=a",
         "--set fabrics.99999999999999999999=a: fabrics: found the index"},
        {"fabrics=topoopt", "--set fabrics=topoopt: fabrics: found 'topoopt', expected a list"},
        {"workload.model.x=1",
         "--set workload.model.x=1: workload.model: found the value 'dlrm', expected a section"},
        {"stop=5", "--set stop=5: stop: found '5' (no unit)"}};
    for (const auto& [override, expected] : cases)
    {
        const std::string message = Complaint(kMinimal, {override});
        EXPECT_EQ(message.substr(0, expected.size()), expected) << message;
    }
}

TEST_F(ScenarioFile, FilesThatCannotBeRead)
{
    EXPECT_THROW(static_cast<void>(ReadScenario((m_directory / "none.yaml").string(), {})),
                 SpecError);
    EXPECT_THROW(static_cast<void>(ReadScenario(m_directory.string(), {})), SpecError);
    EXPECT_NE(Complaint("name: " + std::string(std::size_t{5} << 20, 'x'))
                  .find("expected a smaller file"),
              std::string::npos);
}

TEST_F(ScenarioFile, ManyLaughsAndDeepNestsAreRefused)
{
    std::string laughs = "a: &a [x, x, x, x, x, x, x, x, x, x]\n";
    for (char c = 'b'; c < 'm'; ++c)
    {
        laughs += std::string(1, c) + ": &" + c + " [";
        for (int k = 0; k < 10; ++k)
        {
            laughs += std::string(k == 0 ? "" : ", ") + "*" + static_cast<char>(c - 1);
        }
        laughs += "]\n";
    }
    EXPECT_NE(Complaint(laughs).find("found more than 200000 values"), std::string::npos);
    EXPECT_NE(Complaint(std::string(100'000, '[')), "");
    std::string deep;
    for (int k = 0; k < 3000; ++k)
    {
        deep += std::string(static_cast<std::size_t>(k), ' ') + "a:\n";
    }
    EXPECT_NE(Complaint(deep), "");
}

/** Whatever a byte becomes, the answer is a scenario or a SpecError. */
TEST_F(ScenarioFile, DamagedFilesNeverCrash)
{
    const std::uint64_t seed = 20240131;
    SCOPED_TRACE(seed);
    Rng rng(seed, "scenario-test");
    const std::string alphabet = "{}[]:,-&*!|>'\"%@`#?~<.\n\t 01a\xc3\xff";
    int refused = 0;
    for (int round = 0; round < 1000; ++round)
    {
        std::string text = kFull;
        for (std::uint64_t hits = 1 + rng.Below(4); hits > 0; --hits)
        {
            const std::size_t at = rng.Below(text.size());
            const char c = alphabet[rng.Below(alphabet.size())];
            switch (rng.Below(3))
            {
            case 0:
                text[at] = c;
                break;
            case 1:
                text.insert(at, 1, c);
                break;
            default:
                text.erase(at, 1 + rng.Below(20));
            }
        }
        refused += Complaint(text).empty() ? 0 : 1;
    }
    EXPECT_GT(refused, 300);
    EXPECT_LT(refused, 1000);
}

} // namespace
} // namespace topoopt
