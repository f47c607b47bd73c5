// SPDX-License-Identifier: GPL-2.0-only
// The command line: argv, stdout, exit codes. Everything else is in contrib/topoopt.
#include "command.h"
#include "ns3/experiment.h"
#include "ns3/nstime.h"

#include <iomanip>
#include <iostream>
#include <new>

using namespace topoopt;
using namespace topoopt::cli;

namespace
{

const std::vector<Command>&
Commands()
{
    static const std::vector<Command> commands{
        {"run",
         "SCENARIO.yaml [-o DIR] [--set a.b=VALUE]... [--seed N] [--json]",
         "Simulates a scenario on each of its fabrics; results go to DIR.",
         Run},
        {"check",
         "SCENARIO.yaml [--set a.b=VALUE]...",
         "Validates a scenario without running it; prints what would run, its bytes and an "
         "estimate.",
         Check},
        {"plan",
         "SCENARIO.yaml -o PLAN.yaml [--from PLAN.yaml] [--set a.b=VALUE]...",
         "Optimises strategy and topology together; the plan can be run.",
         PlanJob},
        {"sweep",
         "SWEEP.yaml [-o DIR] [-j N] [--set a.b=VALUE]... [--again] [--slurm]",
         "Runs a scenario at many points, several at a time; goes on where it was killed.",
         Sweep},
        {"topology",
         "--servers N --degree D [--demand FILE.csv] [--compat flexnet] [--json]",
         "Finds a patch-panel topology: permutations, hops, diameter, bounds.",
         FindTopologyFor},
        {"cost",
         "--servers N --degree D [--rate RATE] [--json]",
         "Prices every fabric for the same servers; rate of the Fat-tree that costs the same.",
         Cost},
        {"inspect",
         "TRACE... [--json]",
         "Shows what traces hold: ranks, groups, collectives, bytes. Nothing is simulated.",
         InspectTraces},
        {"convert",
         "IN OUT [--format NAME] [--option KEY=VALUE]...",
         "Writes a trace, task graph, flow list, plan or scenario's workload in another format; "
         "says "
         "what the target cannot hold.",
         Convert},
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
