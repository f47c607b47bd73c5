// SPDX-License-Identifier: GPL-2.0-only
// The command line: argv, stdout, exit codes. Everything else is in contrib/topoopt.

#include "ns3/experiment.h"
#include "ns3/nstime.h"
#include "ns3/transport.h"
#include "topoopt/core/collectives.h"
#include "topoopt/core/error.h"
#include "topoopt/core/readers/flexnet.h"
#include "topoopt/core/scenario.h"
#include "topoopt/core/sweep.h"
#include "topoopt/core/topology-kinds.h"
#include "topoopt/core/trace.h"

#include <atomic>
#include <boost/program_options.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <string>
#include <unistd.h>
#include <vector>

namespace po = boost::program_options;
namespace fs = std::filesystem;
using namespace topoopt;

namespace
{

constexpr int kDone = 0;
constexpr int kIncomplete = 1;
constexpr int kBadInput = 2;

std::atomic<bool> g_interrupt{false};

extern "C" void
OnSignal(int)
{
    if (g_interrupt.exchange(true))
    {
        std::_Exit(kIncomplete); // asked twice: at once
    }
}

using Arguments = std::vector<std::string>;

struct Command
{
    const char* name;
    const char* usage;
    const char* help;
    int (*run)(const Command& command, const Arguments& arguments);
};

/** Options of a command with `--help`; positional arguments collect under "input". */
class Parser
{
  public:
    explicit Parser(const Command& command)
        : m_command(command),
          m_visible("Options"),
          m_all()
    {
        m_visible.add_options()("help,h", "print this and exit");
    }

    po::options_description_easy_init Add()
    {
        return m_visible.add_options();
    }

    /**
     * @param inputs smallest and largest number of positional arguments
     * @return false if help was printed
     */
    bool Parse(const Arguments& arguments, std::size_t least, std::size_t most)
    {
        m_all.add(m_visible);
        m_all.add_options()("input", po::value<std::vector<std::string>>()->default_value({}, ""));
        po::positional_options_description positional;
        positional.add("input", -1);
        try
        {
            po::store(po::command_line_parser(arguments)
                          .options(m_all)
                          .positional(positional)
                          .style(po::command_line_style::default_style &
                                 ~po::command_line_style::allow_guessing)
                          .run(),
                      values);
            po::notify(values);
        }
        catch (const po::error& error)
        {
            throw SpecError(std::string("topoopt ") + m_command.name,
                            std::string(error.what()) + "; see `topoopt " + m_command.name +
                                " --help`");
        }
        if (values.count("help") > 0)
        {
            std::cout << "Usage: topoopt " << m_command.name << " " << m_command.usage << "\n"
                      << m_command.help << "\n\n"
                      << m_visible;
            return false;
        }
        inputs = values["input"].as<std::vector<std::string>>();
        if (inputs.size() < least || inputs.size() > most)
        {
            throw SpecError(std::string("topoopt ") + m_command.name,
                            "found " + std::to_string(inputs.size()) +
                                " argument(s), expected: topoopt " + m_command.name + " " +
                                m_command.usage);
        }
        return true;
    }

    [[nodiscard]] bool Has(const char* option) const
    {
        return values.count(option) > 0;
    }

    po::variables_map values;
    std::vector<std::string> inputs;

  private:
    const Command& m_command;
    po::options_description m_visible;
    po::options_description m_all;
};

constexpr std::size_t kAnyNumber = SIZE_MAX;

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
        // As text: a lexical cast would take -1 for 2^64-1.
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
    const Experiment experiment = Prepare(ScenarioFrom(parser));
    const std::string directory = parser.Has("output") ? parser.values["output"].as<std::string>()
                                                       : "results/" + experiment.scenario.name;
    const bool quiet = parser.Has("quiet");
    for (const std::string& warning : experiment.workload.graph.warnings)
    {
        std::cerr << "warning: " << warning << "\n";
    }
    std::signal(SIGINT, OnSignal);
    std::signal(SIGTERM, OnSignal);
    const ExperimentResult result =
        RunExperiment(experiment, directory, !quiet && isatty(STDERR_FILENO) != 0, &g_interrupt);
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
                      << (result.interrupted
                              ? " (interrupted)"
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
RunPoints(const Command& command, const Arguments& arguments)
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
    const auto number = [&](const char* name, std::uint32_t least) {
        const std::string text = parser.values[name].as<std::string>();
        const bool digits = !text.empty() && text.size() <= 6 &&
                            text.find_first_not_of("0123456789") == std::string::npos;
        if (!digits || std::stoul(text) < least)
        {
            throw SpecError("topoopt sweep",
                            "--" + std::string(name) + ": found '" + text +
                                "', expected a whole number from " + std::to_string(least));
        }
        return static_cast<std::uint32_t>(std::stoul(text));
    };
    options.file = parser.inputs[0];
    options.program = fs::read_symlink("/proc/self/exe").string();
    options.version = kVersion;
    options.jobs = parser.Has("jobs") ? number("jobs", 1) : 1;
    options.again = parser.Has("again");
    options.slurm = parser.Has("slurm");
    if (parser.Has("only"))
    {
        options.only = number("only", 0);
    }
    if (options.output.empty())
    {
        options.output = (fs::path("results") / fs::path(options.file).stem()).string();
    }
    if (!parser.Has("quiet"))
    {
        options.report = [](const std::string& line) { std::cerr << line << "\n"; };
    }
    options.interrupt = &g_interrupt;
    std::signal(SIGINT, OnSignal);
    std::signal(SIGTERM, OnSignal);
    return RunSweep(options);
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
    PrintCheck(Prepare(ScenarioFrom(parser)), std::cout);
    return kDone;
}

int
InspectTraces(const Command& command, const Arguments& arguments)
{
    Parser parser(command);
    parser.Add()("json", "one JSON object per trace")(
        "option",
        po::value<std::vector<std::string>>()->value_name("KEY=VALUE")->composing(),
        "a reading option, as beside `workload.trace` in a scenario; may be repeated");
    if (!parser.Parse(arguments, 1, kAnyNumber))
    {
        return kDone;
    }
    std::map<std::string, std::string> options;
    if (parser.Has("option"))
    {
        for (const std::string& option : parser.values["option"].as<std::vector<std::string>>())
        {
            const std::size_t equals = option.find('=');
            if (equals == std::string::npos)
            {
                throw SpecError("--option " + option, "found no \"=\", expected KEY=VALUE");
            }
            options[option.substr(0, equals)] = option.substr(equals + 1);
        }
    }
    for (const std::string& path : parser.inputs)
    {
        if (IsFlexNet(path))
        {
            const FlexNetStatistics statistics = Inspect(ReadFlexNet(path));
            std::cout << (parser.Has("json") ? ToJson(statistics) : ToText(statistics));
            continue;
        }
        const TraceSummary summary = Summarise(LoadTrace(path, TraceOptions::Parse(options)));
        if (parser.Has("json"))
        {
            PrintJson(summary, std::cout);
        }
        else
        {
            PrintText(summary, std::cout);
        }
    }
    return kDone;
}

/** scripts/plot.py beside the build or source tree that this program belongs to. */
std::string
PlotScript()
{
    std::error_code error;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    for (fs::path up = self.parent_path(); !error && up != up.root_path(); up = up.parent_path())
    {
        if (fs::exists(up / "scripts" / "plot.py"))
        {
            return (up / "scripts" / "plot.py").string();
        }
    }
    throw SpecError("topoopt plot",
                    "found no scripts/plot.py above " + self.parent_path().string() +
                        ", expected the program inside its source tree");
}

int
Plot(const Command& command, const Arguments& arguments)
{
    Parser parser(command);
    parser.Add()("output,o",
                 po::value<std::string>()->value_name("DIR"),
                 "where figures go (default: DIR/plots of the first directory)")(
        "html",
        "also write report.html, one self-contained file");
    if (!parser.Parse(arguments, 1, kAnyNumber))
    {
        return kDone;
    }
    std::vector<std::string> words{"python3", PlotScript()};
    words.insert(words.end(), parser.inputs.begin(), parser.inputs.end());
    if (parser.Has("output"))
    {
        words.insert(words.end(), {"-o", parser.values["output"].as<std::string>()});
    }
    if (parser.Has("html"))
    {
        words.emplace_back("--html");
    }
    std::vector<char*> argv;
    for (std::string& word : words)
    {
        argv.push_back(word.data());
    }
    argv.push_back(nullptr);
    // Debian's Python has Debian's matplotlib; another one in PATH need not.
    execv("/usr/bin/python3", argv.data());
    throw SpecError("topoopt plot",
                    "found no /usr/bin/python3, expected package python3-matplotlib");
}

void
PrintEntry(const std::string& name, const std::string& help)
{
    std::cout << "  " << std::left << std::setw(24) << name << " " << help << "\n";
}

int
List(const Command& command, const Arguments& arguments)
{
    Parser parser(command);
    if (!parser.Parse(arguments, 0, 0))
    {
        return kDone;
    }
    std::cout << "Fabrics (fabrics: [...])\n";
    for (const FabricKind& kind : FabricKinds())
    {
        PrintEntry(kind.name, kind.help);
    }
    std::cout << "\nTransports (engine: {transport: ...})\n";
    for (const TransportKind& kind : TransportKinds())
    {
        PrintEntry(kind.name, kind.help);
    }
    std::cout << "\nCollectives (collectives: {all_reduce: ...})\n";
    for (const CollectiveAlgorithm& algorithm : CollectiveAlgorithms())
    {
        std::string kinds;
        for (CollectiveKind kind : algorithm.kinds)
        {
            kinds += (kinds.empty() ? "" : ", ") + std::string(Name(kind));
        }
        PrintEntry(algorithm.name, algorithm.help);
        PrintEntry("", "for " + kinds);
    }
    std::cout << "\nFormats (workload: {trace: ...}, inspect, convert; content decides)\n";
    for (const TraceFormat& format : TraceFormats())
    {
        PrintEntry(format.name, format.help);
    }
    PrintEntry("flexnet", "FlexNet task graph (FlatBuffers), workload: {taskgraph: ...}");
    return kDone;
}

const std::vector<Command>&
Commands()
{
    static const std::vector<Command> commands{
        {"run",
         "SCENARIO.yaml [-o DIR] [--set a.b=VALUE]... [--seed N] [--json]",
         "Simulates a scenario on each of its fabrics; results go to DIR.",
         Run},
        {"sweep",
         "SWEEP.yaml [-o DIR] [-j N] [--set a.b=VALUE]... [--again] [--slurm]",
         "Runs a scenario over a grid of settings; goes on where it was killed.",
         RunPoints},
        {"check",
         "SCENARIO.yaml [--set a.b=VALUE]...",
         "Validates a scenario without running it; prints what would run, its bytes and an "
         "estimate.",
         Check},
        {"inspect",
         "TRACE... [--json]",
         "Shows what traces hold: ranks, groups, collectives, bytes. Nothing is simulated.",
         InspectTraces},
        {"plot",
         "DIR... [-o DIR] [--html]",
         "Draws figures from result directories; several are compared in one picture.",
         Plot},
        {"list", "", "Lists fabrics, transports, collectives and formats.", List},
    };
    return commands;
}

void
PrintUsage(std::ostream& out)
{
    out << "topoopt " << kVersion
        << ": packet-level simulation of the networks on which neural networks are trained\n\n"
           "Usage: topoopt COMMAND [ARGUMENTS]\n\n";
    for (const Command& command : Commands())
    {
        out << "  " << std::left << std::setw(10) << command.name << " " << command.help << "\n";
    }
    out << "\n`topoopt COMMAND --help` says more. Exit codes: 0 done, 1 the simulation did not "
           "complete, 2 bad command line or input.\n";
}

int
Main(int argc, char** argv)
{
    const Arguments arguments(argv + 1, argv + argc);
    if (arguments.empty())
    {
        PrintUsage(std::cerr);
        return kBadInput;
    }
    if (arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help")
    {
        PrintUsage(std::cout);
        return kDone;
    }
    if (arguments[0] == "--version")
    {
        std::cout << "topoopt " << kVersion << "\n";
        return kDone;
    }
    std::vector<std::string> names;
    for (const Command& command : Commands())
    {
        if (arguments[0] == command.name)
        {
            return command.run(command, Arguments(arguments.begin() + 1, arguments.end()));
        }
        names.emplace_back(command.name);
    }
    const std::string near = Suggest(arguments[0], names);
    throw SpecError("topoopt",
                    "found command \"" + arguments[0] + "\"" +
                        (near.empty() ? ", expected one of those that `topoopt --help` lists"
                                      : ", did you mean \"" + near + "\"?"));
}

} // namespace

int
main(int argc, char** argv)
{
    ns3::Time::SetResolution(ns3::Time::PS);
    try
    {
        return Main(argc, argv);
    }
    catch (const SpecError& error)
    {
        std::cerr << error.what() << "\n";
        return kBadInput;
    }
    catch (const std::bad_alloc&)
    {
        std::cerr << "out of memory\n";
        return kIncomplete;
    }
    catch (const std::exception& error)
    {
        std::cerr << "internal error: " << error.what() << "\n";
        return kIncomplete;
    }
}
