// SPDX-License-Identifier: GPL-2.0-only
// Commands that simulate nothing: topology, cost, inspect, convert, plot, list.
#include "command.h"
#include "ns3/optical-device.h"
#include "ns3/patch-list.h"
#include "ns3/transport.h"
#include "ns3/workload.h"
#include "topoopt/core/circuit-plan.h"
#include "topoopt/core/collectives.h"
#include "topoopt/core/cost.h"
#include "topoopt/core/plan.h"
#include "topoopt/core/readers/flexnet.h"
#include "topoopt/core/topologies/options.h"
#include "topoopt/core/topology-finder.h"
#include "topoopt/core/topology-kinds.h"
#include "topoopt/core/topology-report.h"
#include "topoopt/core/trace-flows.h"
#include "topoopt/core/trace-write.h"
#include "topoopt/core/trace.h"

#include <filesystem>
#include <iomanip>
#include <iostream>
#include <optional>
#include <unistd.h>

namespace topoopt::cli
{

namespace
{

namespace fs = std::filesystem;

/** scripts/plot.py beside the build or source tree that this program belongs to. */
std::string
PlotScript()
{
    const fs::path self = OwnPath();
    for (fs::path up = self.parent_path(); up != up.parent_path(); up = up.parent_path())
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

void
PrintEntry(const std::string& name, const std::string& help)
{
    std::cout << "  " << std::left << std::setw(24) << name << " " << help << "\n";
}

/** A rate given as an option. */
BitRate
RateOption(const Parser& parser, const char* option, BitRate otherwise)
{
    if (!parser.Has(option))
    {
        return otherwise;
    }
    try
    {
        return ParseBitRate(parser.values[option].as<std::string>());
    }
    catch (const std::invalid_argument& error)
    {
        throw SpecError("--" + std::string(option), error.what());
    }
}

/** Servers and NICs as options of topology and cost. */
void
AddServerOptions(Parser& parser)
{
    parser.Add()("servers,n", po::value<std::string>()->value_name("N"), "number of servers")(
        "degree,d",
        po::value<std::string>()->value_name("D"),
        "NICs per server")("rate",
                           po::value<std::string>()->value_name("RATE"),
                           "of one NIC (default 100Gbps)")("json", "one JSON object");
}

std::uint32_t
Required(const Parser& parser, const Command& command, const char* option)
{
    if (!parser.Has(option))
    {
        throw SpecError(std::string("topoopt ") + command.name,
                        std::string("found no --") + option + ", expected: topoopt " +
                            command.name + " " + command.usage);
    }
    return parser.Number(option, 1, 1'000'000);
}

/** The job of a plan, a scenario's workload, a task graph, a trace or a flow list. */
TaskGraph
LoadAny(const std::string& path, const std::map<std::string, std::string>& options)
{
    const std::string suffix = fs::path(path).extension().string();
    if (suffix == ".yaml" || suffix == ".yml")
    {
        if (!options.empty())
        {
            throw SpecError(
                path,
                "found --option " + options.begin()->first +
                    ", expected none: a plan or scenario says how its workload is read");
        }
        if (IsPlanFile(path))
        {
            return PlanTaskGraph(ReadPlan(path), 1);
        }
        Scenario scenario = ReadScenario(path, {});
        return LoadWorkload(scenario).graph;
    }
    if (IsFlexNet(path))
    {
        return FlexNetTaskGraph(ReadFlexNet(path));
    }
    const LoadedWorkload workload = LoadAnyFile(path, options);
    for (const std::string& warning : workload.graph.warnings)
    {
        std::cerr << "warning: " << warning << "\n";
    }
    const auto left = workload.facts.find("records_without_effect");
    if (left != workload.facts.end() && left->second > 0)
    {
        std::cerr << "dropped: records that neither communicate nor take time: " << left->second
                  << "\n";
    }
    if (!workload.stamp.empty())
    {
        std::cerr << "options: " << workload.stamp << "\n";
    }
    return workload.graph;
}

} // namespace

void
AddReadingOptions(Parser& parser)
{
    parser.Add()("option",
                 po::value<std::vector<std::string>>()->value_name("KEY=VALUE")->composing(),
                 "a reading option, as beside `workload.trace` in a scenario; may be repeated");
}

std::map<std::string, std::string>
KeyValues(const Parser& parser, const char* name)
{
    std::map<std::string, std::string> options;
    if (!parser.Has(name))
    {
        return options;
    }
    for (const std::string& option : parser.values[name].as<std::vector<std::string>>())
    {
        const std::size_t equals = option.find('=');
        if (equals == std::string::npos)
        {
            throw SpecError("--" + std::string(name) + " " + option,
                            "found no \"=\", expected KEY=VALUE");
        }
        options[option.substr(0, equals)] = option.substr(equals + 1);
    }
    return options;
}

std::map<std::string, std::string>
ReadingOptions(const Parser& parser)
{
    return KeyValues(parser, "option");
}

int
FindTopologyFor(const Command& command, const Arguments& arguments)
{
    Parser parser(command);
    AddServerOptions(parser);
    parser.Add()("demand",
                 po::value<std::string>()->value_name("FILE.csv"),
                 "what moves: a matrix, or a demand with groups (default: one AllReduce over all)")(
        "compat",
        po::value<std::string>()->value_name("none|flexnet")->default_value("none"),
        "flexnet: the choices of TopoOpt's released code")(
        "set",
        po::value<std::vector<std::string>>()->value_name("KEY=VALUE")->composing(),
        "an option of fabric topoopt, as in a scenario: candidates, rounding, split, mp_nics, "
        "discount, "
        "routing, k, search; may be repeated")(
        "seed",
        po::value<std::string>()->value_name("N")->default_value("1"),
        "for routing: random and for search")(
        "patches",
        po::value<std::string>()->value_name("FILE.csv"),
        "write the patch list: a row per cable, panel and its two ports");
    if (!parser.Parse(arguments, 0, 0))
    {
        return kDone;
    }
    TopologyRequest request;
    request.servers = Required(parser, command, "servers");
    request.degree = Required(parser, command, "degree");
    request.rate = RateOption(parser, "rate", request.rate);
    FabricSpec spec;
    spec.kind = "topoopt";
    spec.place = "--set";
    spec.options = KeyValues(parser, "set");
    const std::string compat = parser.values["compat"].as<std::string>();
    if (compat != "none" && compat != "flexnet")
    {
        throw SpecError("--compat", "found \"" + compat + "\", expected none or flexnet");
    }
    spec.options.emplace("compat", compat);
    (void)FindFabricKind(spec);
    FabricContext context;
    context.servers.count = request.servers;
    context.servers.nics = request.degree;
    context.seed = parser.Number("seed", 0, 999'999'999);
    const TopoOptOptions options = ReadTopoOptOptions(spec, context);
    request.finder = options.finder;
    request.routing = options.routing;
    request.search = options.search;
    std::optional<Demand> demand;
    if (parser.Has("demand"))
    {
        demand = ReadDemandCsv(parser.values["demand"].as<std::string>(), request.servers);
        request.demand = &*demand;
    }
    const TopologyReport report = MakeTopologyReport(request);
    if (parser.Has("patches"))
    {
        (void)WritePatchList(parser.values["patches"].as<std::string>(),
                             {},
                             CircuitsOf(report.found));
    }
    std::cout << (parser.Has("json") ? TopologyReportJson(report) : TopologyReportText(report));
    return kDone;
}

int
Cost(const Command& command, const Arguments& arguments)
{
    Parser parser(command);
    AddServerOptions(parser);
    parser.Add()("prices",
                 po::value<std::string>()->value_name("FILE.yaml"),
                 "other prices than traces/prices.yaml");
    if (!parser.Parse(arguments, 0, 0))
    {
        return kDone;
    }
    ServerSpec servers;
    servers.count = Required(parser, command, "servers");
    servers.nics = Required(parser, command, "degree");
    servers.rate = RateOption(parser, "rate", servers.rate);
    const CostReport report = MakeCostReport(
        servers,
        ReadPrices(parser.Has("prices") ? parser.values["prices"].as<std::string>() : ""));
    std::cout << (parser.Has("json") ? CostReportJson(report) : CostReportText(report));
    return kDone;
}

int
InspectTraces(const Command& command, const Arguments& arguments)
{
    Parser parser(command);
    parser.Add()("json", "one JSON object per trace");
    AddReadingOptions(parser);
    if (!parser.Parse(arguments, 1, kAnyNumber))
    {
        return kDone;
    }
    const std::map<std::string, std::string> options = ReadingOptions(parser);
    for (const std::string& path : parser.inputs)
    {
        if (IsFlexNet(path))
        {
            const FlexNetStatistics statistics = Inspect(ReadFlexNet(path));
            std::cout << (parser.Has("json") ? ToJson(statistics) : ToText(statistics));
            continue;
        }
        const TraceSummary summary = InspectFile(path, options);
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

int
Convert(const Command& command, const Arguments& arguments)
{
    Parser parser(command);
    std::string names;
    for (const TraceWriterFormat& format : TraceWriterFormats())
    {
        names += (names.empty() ? "" : ", ") + format.name;
    }
    parser.Add()("format",
                 po::value<std::string>()->value_name("NAME"),
                 (names + " (default: by the suffix of OUT)").c_str());
    AddReadingOptions(parser);
    if (!parser.Parse(arguments, 2, 2))
    {
        return kDone;
    }
    const TaskGraph graph = LoadAny(parser.inputs[0], ReadingOptions(parser));
    const WrittenTrace trace =
        WriteTrace(graph,
                   parser.Has("format") ? parser.values["format"].as<std::string>() : "",
                   parser.inputs[1]);
    SaveTrace(trace, parser.inputs[1]);
    for (const std::string& line : trace.dropped)
    {
        std::cerr << "dropped: " << line << "\n";
    }
    return kDone;
}

int
Plot(const Command& command, const Arguments& arguments)
{
    static_cast<void>(command); // its options, --help among them, are the script's
    std::vector<std::string> words{"python3", PlotScript()};
    words.insert(words.end(), arguments.begin(), arguments.end());
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
    std::cout << "\nReconfiguration policies (reconfiguration: {policy: ...})\n";
    for (const PolicyKind& kind : PolicyKinds())
    {
        PrintEntry(kind.name, kind.help);
    }
    std::cout << "\nOptical devices (reconfiguration: {device: ...})\n";
    for (const DeviceKind& kind : DeviceKinds())
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

} // namespace topoopt::cli
