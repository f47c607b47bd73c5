// SPDX-License-Identifier: GPL-2.0-only
// Commands that simulate or search: run, check, plan, sweep.
#include "command.h"
#include "ns3/experiment.h"
#include "topoopt/core/plan.h"
#include "topoopt/core/sweep.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <unistd.h>

namespace topoopt::cli
{

namespace
{

std::atomic<bool> g_interrupt{false};

extern "C" void
OnSignal(int)
{
    if (g_interrupt.exchange(true))
    {
        std::_Exit(kIncomplete);
    }
}

/** Of a scenario, or of a plan; the file's first key decides. */
Experiment
ExperimentFrom(const Parser& parser)
{
    if (!IsPlanFile(parser.inputs[0]))
    {
        return Prepare(ScenarioFrom(parser));
    }
    if (parser.Has("set") || parser.Has("seed"))
    {
        throw SpecError(parser.inputs[0],
                        "found a plan and --set or --seed, expected them with the scenario that it "
                        "is made from");
    }
    return PreparePlan(parser.inputs[0]);
}

} // namespace

const std::atomic<bool>*
CatchInterrupts()
{
    std::signal(SIGINT, OnSignal);
    std::signal(SIGTERM, OnSignal);
    return &g_interrupt;
}

std::string
OwnPath()
{
    std::error_code error;
    const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
    return error ? "topoopt" : self.string();
}

Scenario
ScenarioFrom(const Parser& parser)
{
    std::vector<std::string> overrides;
    if (parser.Has("set"))
    {
        overrides = parser.values["set"].as<std::vector<std::string>>();
    }
    if (parser.Has("seed"))
    {
        overrides.push_back("seed=" + parser.values["seed"].as<std::string>());
    }
    return ReadScenario(parser.inputs[0], overrides);
}

void
AddScenarioOptions(Parser& parser)
{
    parser.Add()("set",
                 po::value<std::vector<std::string>>()->value_name("a.b=VALUE")->composing(),
                 "override a key of the scenario; may be repeated")(
        "seed",
        po::value<std::string>()->value_name("N"),
        "the same as --set seed=N");
}

int
Run(const Command& command, const Arguments& arguments)
{
    Parser parser(command);
    parser.Add()("output,o",
                 po::value<std::string>()->value_name("DIR"),
                 "where results go (default: results/NAME of the scenario)")(
        "json",
        "print summary.json instead of the table")("quiet,q", "no progress and no table");
    AddScenarioOptions(parser);
    if (!parser.Parse(arguments, 1, 1))
    {
        return kDone;
    }
    const Experiment experiment = ExperimentFrom(parser);
    const std::string directory = parser.Has("output") ? parser.values["output"].as<std::string>()
                                                       : "results/" + experiment.scenario.name;
    const bool quiet = parser.Has("quiet");
    for (const std::string& warning : experiment.workload.graph.warnings)
    {
        std::cerr << "warning: " << warning << "\n";
    }
    const ExperimentResult result = RunExperiment(experiment,
                                                  directory,
                                                  !quiet && isatty(STDERR_FILENO) != 0,
                                                  CatchInterrupts());
    if (parser.Has("json"))
    {
        std::cout << SummaryJson(experiment, result);
    }
    else if (!quiet)
    {
        PrintTable(result, std::cout);
        std::cout << "results in " << directory << "\n";
    }
    for (const RunSummary& run : result.runs)
    {
        for (const std::string& violation : run.violations)
        {
            std::cerr << run.fabric << ": physics check: " << violation << "\n";
        }
        if (!run.complete)
        {
            std::cerr << run.fabric << ": not complete: " << run.unfinished << " of " << run.flows
                      << " flows unfinished"
                      << (result.interrupted ? " (interrupted)"
                          : run.stalled      ? " and nothing moves any more"
                                        : ", stop time " + FormatTime(experiment.scenario.stop))
                      << "; waiting:\n";
            for (const std::string& line : run.waiting)
            {
                std::cerr << "  " << line << "\n";
            }
        }
    }
    return result.Good() ? kDone : kIncomplete;
}

int
Check(const Command& command, const Arguments& arguments)
{
    Parser parser(command);
    AddScenarioOptions(parser);
    if (!parser.Parse(arguments, 1, 1))
    {
        return kDone;
    }
    PrintCheck(ExperimentFrom(parser), std::cout);
    return kDone;
}

int
PlanJob(const Command& command, const Arguments& arguments)
{
    Parser parser(command);
    parser.Add()("output,o",
                 po::value<std::string>()->value_name("PLAN.yaml"),
                 "where the plan goes (default: stdout)")(
        "from",
        po::value<std::string>()->value_name("PLAN.yaml"),
        "go on from an earlier plan")("quiet,q", "no log of rounds on stderr");
    AddScenarioOptions(parser);
    if (!parser.Parse(arguments, 1, 1))
    {
        return kDone;
    }
    PlanRequest request;
    request.interrupt = CatchInterrupts();
    if (parser.Has("from"))
    {
        request.from = parser.values["from"].as<std::string>();
    }
    if (!parser.Has("quiet"))
    {
        request.log = [](const std::string& line) { std::cerr << line << "\n"; };
    }
    const Scenario scenario = ScenarioFrom(parser);
    request.confirm = [&](const TaskGraph& graph, const Fabric& fabric) {
        const double ms = PacketMilliseconds(scenario, graph, fabric, request.interrupt);
        if (request.log && ms >= 0)
        {
            char line[64];
            std::snprintf(line, sizeof line, "on packets: %.4f ms", ms);
            request.log(line);
        }
        return ms;
    };
    const Plan plan = MakePlan(scenario, request);
    if (!parser.Has("output"))
    {
        std::cout << WritePlan(plan);
        return plan.interrupted ? kIncomplete : kDone;
    }
    const std::string file = parser.values["output"].as<std::string>();
    std::ofstream out(file);
    out << WritePlan(plan);
    if (!out.flush())
    {
        throw SpecError(file, "cannot be written");
    }
    return plan.interrupted ? kIncomplete : kDone;
}

int
Sweep(const Command& command, const Arguments& arguments)
{
    Parser parser(command);
    SweepOptions options;
    parser.Add()("output,o",
                 po::value<std::string>(&options.output)->value_name("DIR"),
                 "where results go (default: results/NAME of the sweep's file)")(
        "jobs,j",
        po::value<std::string>()->value_name("N"),
        "points at a time (default: 1)")(
        "set",
        po::value<std::vector<std::string>>(&options.overrides)
            ->value_name("a.b=VALUE")
            ->composing(),
        "override a key of the scenario in all points; may be repeated")(
        "again",
        "run points that are done, too")("slurm", "write a job array instead of running")(
        "only",
        po::value<std::string>()->value_name("N"),
        "run point N alone, from 0; what a task of the job array does")("quiet,q", "no progress");
    if (!parser.Parse(arguments, 1, 1))
    {
        return kDone;
    }
    options.file = parser.inputs[0];
    options.program = OwnPath();
    options.version = kVersion;
    options.jobs = parser.Has("jobs") ? parser.Number("jobs", 1, 4096) : 1;
    options.again = parser.Has("again");
    options.slurm = parser.Has("slurm");
    if (parser.Has("only"))
    {
        options.only = parser.Number("only", 0, 1'000'000);
    }
    if (options.output.empty())
    {
        options.output =
            (std::filesystem::path("results") / std::filesystem::path(options.file).stem())
                .string();
    }
    if (!parser.Has("quiet"))
    {
        options.report = [](const std::string& line) { std::cerr << line << "\n"; };
    }
    options.interrupt = CatchInterrupts();
    return RunSweep(options);
}

} // namespace topoopt::cli
