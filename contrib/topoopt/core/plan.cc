// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/plan.h"

#include "topoopt/core/alternating.h"
#include "topoopt/core/error.h"
#include "topoopt/core/strategy-flexnet.h"
#include "topoopt/core/topology-kinds.h"
#include "topoopt/core/yaml-document.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace topoopt
{

namespace
{

/** A YAML scalar that reads back as the same text. */
std::string
Quoted(const std::string& text)
{
    std::string out = "\"";
    for (const char c : text)
    {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\')
        {
            out += std::string("\\") + c;
        }
        else if (byte < 0x20 || byte == 0x7f)
        {
            char hex[8];
            std::snprintf(hex, sizeof hex, "\\x%02x", byte);
            out += hex;
        }
        else
        {
            out.push_back(c);
        }
    }
    return out + "\"";
}

std::string
Number(double value)
{
    char text[40];
    std::snprintf(text, sizeof text, "%.9g", value);
    return text;
}

std::string
OptionMap(const std::map<std::string, std::string>& options)
{
    std::string out = "{";
    for (const auto& [key, value] : options)
    {
        out += (out.size() > 1 ? ", " : "") + Quoted(key) + ": " + Quoted(value);
    }
    return out + "}";
}

std::map<std::string, std::string>
ReadOptionMap(const YamlSection& parent,
              const std::string& key,
              std::map<std::string, std::string>* places = nullptr)
{
    std::map<std::string, std::string> out;
    const YamlValue* value = parent.Find(key);
    if (value == nullptr)
    {
        return out;
    }
    const YamlSection section(*value, parent.Path(key), {});
    for (std::size_t i = 0; i < value->keys.size(); ++i)
    {
        section.Text(value->keys[i].text, out[value->keys[i].text]);
        if (places != nullptr)
        {
            (*places)[value->keys[i].text] = value->items[i].place;
        }
    }
    return out;
}

double
Real(const YamlSection& section, const std::string& key)
{
    const YamlValue* value = section.Find(key);
    if (value == nullptr)
    {
        return 0;
    }
    const std::string& text = ScalarOf(*value, section.Path(key), "a number");
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0' || !(number >= 0 && number < 1e18))
    {
        throw SpecError(value->place,
                        section.Path(key) + ": found " + value->Found() + ", expected a number");
    }
    return number;
}

std::vector<std::uint32_t>
Numbers(const YamlSection& section, const std::string& key, std::uint32_t below)
{
    const YamlValue& value = section.Require(key, "numbers such as 0-3,8");
    const std::string& text = ScalarOf(value, section.Path(key), "numbers such as 0-3,8");
    try
    {
        std::vector<std::uint32_t> out = ParseNumbers(text, std::size_t{1} << 22U);
        for (const std::uint32_t number : out)
        {
            if (number >= below)
            {
                throw std::invalid_argument("found " + std::to_string(number) +
                                            ", expected less than " + std::to_string(below));
            }
        }
        return out;
    }
    catch (const std::invalid_argument& error)
    {
        throw SpecError(value.place, section.Path(key) + ": " + error.what());
    }
}

const YamlValue&
List(const YamlSection& section, const std::string& key)
{
    const YamlValue& value = section.Require(key, "a list");
    if (value.kind != YamlKind::List)
    {
        throw SpecError(value.place,
                        section.Path(key) + ": found " + value.Found() + ", expected a list");
    }
    return value;
}

/** Neighbours by server, empty if there are switches. */
std::vector<std::vector<ServerId>>
CablesOf(const Topology& topology)
{
    std::vector<std::vector<ServerId>> out;
    if (topology.NodeCount() != topology.servers)
    {
        return out;
    }
    for (ServerId server = 0; server < topology.servers; ++server)
    {
        out.emplace_back();
        for (const LinkId link : topology.Out(server))
        {
            out.back().push_back(topology.links[link].dst);
        }
    }
    return out;
}

Fabric
BuildFor(const FabricSpec& spec,
         const ServerSpec& servers,
         std::uint64_t seed,
         const Demand& demand)
{
    FabricContext context;
    context.servers = servers;
    context.seed = seed;
    context.demand = &demand;
    return BuildFabric(spec, context);
}

} // namespace

std::string
FormatNumbers(const std::vector<std::uint32_t>& numbers)
{
    std::string out;
    for (std::size_t i = 0; i < numbers.size();)
    {
        // The longest run of one positive step; a step other than 1 must pay for its suffix.
        std::size_t end = i + 1;
        std::uint32_t step = 0;
        if (end < numbers.size() && numbers[end] > numbers[i])
        {
            step = numbers[end] - numbers[i];
            while (end < numbers.size() && numbers[end] > numbers[end - 1] &&
                   numbers[end] - numbers[end - 1] == step)
            {
                ++end;
            }
        }
        if (step > 1 && end - i < 3)
        {
            end = i + 1;
        }
        out += (out.empty() ? "" : ",") + std::to_string(numbers[i]);
        if (end - i > 1)
        {
            out += "-" + std::to_string(numbers[end - 1]);
            out += step > 1 ? "/" + std::to_string(step) : "";
        }
        i = end;
    }
    return out;
}

std::vector<std::uint32_t>
ParseNumbers(const std::string& text, std::size_t most)
{
    std::vector<std::uint32_t> out;
    std::size_t at = 0;
    const auto fail = [&](const std::string& expected) {
        throw std::invalid_argument("found '" + Printable(text) + "' (at character " +
                                    std::to_string(at + 1) + "), expected " + expected);
    };
    const auto number = [&] {
        std::uint64_t value = 0;
        const std::size_t from = at;
        while (at < text.size() && text[at] >= '0' && text[at] <= '9')
        {
            value = value * 10 + static_cast<std::uint64_t>(text[at] - '0');
            if (value >= kNoId)
            {
                fail("a number below 2^32-1");
            }
            ++at;
        }
        if (at == from)
        {
            fail("a number");
        }
        return static_cast<std::uint32_t>(value);
    };
    while (at < text.size())
    {
        const std::uint32_t first = number();
        std::uint32_t last = first;
        std::uint32_t step = 1;
        if (at < text.size() && text[at] == '-')
        {
            ++at;
            last = number();
            if (at < text.size() && text[at] == '/')
            {
                ++at;
                step = number();
            }
        }
        if (last < first || step == 0 || (last - first) % step != 0)
        {
            fail("FIRST-LAST or FIRST-LAST/STEP, ascending");
        }
        if (out.size() + (last - first) / step + 1 > most)
        {
            fail("at most " + std::to_string(most) + " numbers");
        }
        for (std::uint64_t value = first; value <= last; value += step)
        {
            out.push_back(static_cast<std::uint32_t>(value));
        }
        if (at < text.size())
        {
            if (text[at] != ',' || at + 1 == text.size())
            {
                fail("','");
            }
            ++at;
        }
    }
    return out;
}

std::string
WritePlan(const Plan& plan)
{
    std::string out =
        "# Written by `topoopt plan`; run it with `topoopt run`, go on from it with `topoopt plan "
        "--from`.\n";
    out += "plan: 1\n";
    out += "name: " + Quoted(plan.name) + "\n";
    out += "seed: " + std::to_string(plan.seed) + "\n";
    out += "servers: {count: " + std::to_string(plan.servers.count) +
           ", nics: " + std::to_string(plan.servers.nics) +
           ", rate: " + FormatBitRate(plan.servers.rate) +
           ", gpus: " + std::to_string(plan.servers.gpus) +
           ", intra_rate: " + FormatBitRate(plan.servers.intraRate) +
           ", delay: " + FormatTime(plan.servers.linkDelay) + "}\n";
    const EngineSpec& engine = plan.engine;
    out += "engine: {fidelity: " + Quoted(engine.fidelity) +
           ", transport: " + Quoted(engine.transport) + ", mtu: " + std::to_string(engine.mtu) +
           ", compat: " + Quoted(engine.compat) +
           ", trains: " + (engine.trains ? "true" : "false") +
           ", ack_every: " + std::to_string(engine.ackEvery) +
           ", buffer: " + FormatBytes(engine.buffer) + ", ecn: " + FormatBytes(engine.ecn) + "}\n";
    out += plan.collectives.empty() ? "" : "collectives: " + OptionMap(plan.collectives) + "\n";
    out += "results: {flows: " + Quoted(plan.results.flows) +
           ", link_samples: " + (plan.results.linkSamples ? "true" : "false") + "}\n";
    out += "workload: {model: " + Quoted(plan.workload.path) +
           ", options: " + OptionMap(plan.workload.options) + "}\n";
    out += "strategy:\n";
    out += "  name: " + Quoted(plan.strategy.name) + "\n";
    out += "  options: " + OptionMap(plan.strategyOptions) + "\n";
    out += "  stages: " + std::to_string(plan.strategy.stages) + "\n";
    out += "  micro_batches: " + std::to_string(plan.strategy.microBatches) + "\n";
    out += "  splits: # operators in the model's order, and the ranks of their parts\n";
    const std::vector<OperatorSplit>& splits = plan.strategy.operators;
    for (std::size_t i = 0; i < splits.size();)
    {
        std::size_t end = i + 1;
        while (end < splits.size() && splits[end] == splits[i])
        {
            ++end;
        }
        const OperatorSplit& split = splits[i];
        out += "    - {operators: " + std::to_string(end - i) +
               ", data: " + std::to_string(split.dataParts) +
               ", tensor: " + std::to_string(split.tensorParts) +
               ", expert: " + std::to_string(split.expertParts) +
               ", stage: " + std::to_string(split.stage) + ", ranks: \"" +
               FormatNumbers(split.ranks) + "\"}\n";
        i = end;
    }
    out += "fabric:\n";
    out += "  kind: " + Quoted(plan.fabric.kind) + "\n";
    out += "  name: " + Quoted(plan.fabric.name) + "\n";
    out += "  options: " + OptionMap(plan.fabric.options) + "\n";
    out += "  allreduces: # bytes that it is wired for";
    out += plan.demand.allReduces.empty() ? "\n    []\n" : "\n";
    for (const AllReduceDemand& demand : plan.demand.allReduces)
    {
        out += "    - {bytes: " + std::to_string(demand.bytes) + ", servers: \"" +
               FormatNumbers(demand.members) + "\"}\n";
    }
    std::string pairs;
    for (ServerId src = 0; src < plan.demand.servers; ++src)
    {
        std::map<Bytes, std::vector<ServerId>> to;
        for (ServerId dst = 0; dst < plan.demand.servers; ++dst)
        {
            if (plan.demand.At(src, dst) > 0)
            {
                to[plan.demand.At(src, dst)].push_back(dst);
            }
        }
        for (const auto& [bytes, servers] : to)
        {
            pairs += "    - {from: " + std::to_string(src) + ", to: \"" + FormatNumbers(servers) +
                     "\", bytes: " + std::to_string(bytes) + "}\n";
        }
    }
    out += "  pairs:\n" + (pairs.empty() ? "    []\n" : pairs);
    out += "  cables: # neighbours of servers 0, 1, ... in order of ports\n";
    out += plan.cables.empty() ? "    []\n" : "";
    for (const std::vector<ServerId>& neighbours : plan.cables)
    {
        out += "    - \"" + FormatNumbers(neighbours) + "\"\n";
    }
    out += "result: {start_ms: " + Number(plan.startMs) +
           ", confirmed_ms: " + Number(plan.confirmedMs) +
           ", estimate_ms: " + Number(plan.estimateMs) +
           ", packet_start_ms: " + Number(plan.packetStartMs) +
           ", packet_ms: " + Number(plan.packetMs) +
           ", proposals: " + std::to_string(plan.proposals) +
           ", topologies: " + std::to_string(plan.topologies) +
           ", interrupted: " + (plan.interrupted ? "true" : "false") + "}\n";
    out += "rounds:\n";
    out += plan.rounds.empty() ? "  []\n" : "";
    for (const SearchRound& round : plan.rounds)
    {
        out += "  - {round: " + std::to_string(round.round) +
               ", estimate_ms: " + Number(round.estimateMs) +
               ", confirmed_ms: " + Number(round.confirmedMs) +
               ", better: " + (round.better ? "true" : "false") +
               ", proposals: " + std::to_string(round.proposals) +
               ", accepted: " + std::to_string(round.accepted) +
               ", strategy: " + Quoted(round.strategy) + ", topology: " + Quoted(round.topology) +
               "}\n";
    }
    return out;
}

bool
IsPlanFile(const std::string& file)
{
    return ReadYamlFile(file).Find("plan") != nullptr;
}

Plan
ReadPlan(const std::string& file)
{
    const YamlValue document = ReadYamlFile(file);
    const YamlSection top(document,
                          "",
                          {"plan",
                           "name",
                           "seed",
                           "servers",
                           "engine",
                           "collectives",
                           "results",
                           "workload",
                           "strategy",
                           "fabric",
                           "result",
                           "rounds"});
    Plan plan;
    plan.file = file;
    std::uint32_t version = 0;
    (void)top.Require("plan", "1");
    top.Count("plan", 1, 1, version);
    top.Text("name", plan.name);
    top.Count("seed", std::uint64_t{0}, UINT64_MAX, plan.seed);

    const YamlSection servers(top.Require("servers", "a section"),
                              "servers",
                              {"count", "nics", "rate", "gpus", "intra_rate", "delay"});
    (void)servers.Require("count", "the number of servers");
    servers.Count("count", 1, 65'536, plan.servers.count);
    servers.Count("nics", 1, 1024, plan.servers.nics);
    servers.Rate("rate", plan.servers.rate);
    servers.Count("gpus", 1, 1024, plan.servers.gpus);
    servers.Rate("intra_rate", plan.servers.intraRate);
    servers.Time("delay", 0, kSecond, plan.servers.linkDelay);

    if (const YamlValue* value = top.Find("engine"))
    {
        plan.engine = ReadEngine(*value);
    }
    if (const YamlValue* value = top.Find("collectives"))
    {
        plan.collectives = ReadCollectives(*value);
    }
    if (const YamlValue* value = top.Find("results"))
    {
        plan.results = ReadResults(*value, plan.engine);
    }

    const YamlSection workload(top.Require("workload", "a section"),
                               "workload",
                               {"model", "options"});
    plan.workload.kind = WorkloadKind::Model;
    plan.workload.path =
        ScalarOf(workload.Require("model", "a model"), "workload.model", "a model's name or path");
    plan.workload.place = workload.Find("model")->place;
    plan.workload.options = ReadOptionMap(workload, "options", &plan.workload.places);

    const YamlSection strategy(top.Require("strategy", "a section"),
                               "strategy",
                               {"name", "options", "stages", "micro_batches", "splits"});
    strategy.Text("name", plan.strategy.name);
    plan.strategyOptions = ReadOptionMap(strategy, "options");
    strategy.Count("stages", 1, 65'536, plan.strategy.stages);
    strategy.Count("micro_batches", 1, 1'000'000, plan.strategy.microBatches);
    const YamlValue& splits = List(strategy, "splits");
    for (std::size_t i = 0; i < splits.items.size(); ++i)
    {
        const YamlSection item(splits.items[i],
                               "strategy.splits[" + std::to_string(i) + "]",
                               {"operators", "data", "tensor", "expert", "stage", "ranks"});
        OperatorSplit split;
        std::uint32_t operators = 1;
        item.Count("operators", 1, 20'000, operators);
        item.Count("data", 1, 1U << 20U, split.dataParts);
        item.Count("tensor", 1, 1U << 20U, split.tensorParts);
        item.Count("expert", 1, 1U << 20U, split.expertParts);
        item.Count("stage", 0, 65'535, split.stage);
        split.ranks = Numbers(item, "ranks", 1U << 26U);
        if (plan.strategy.operators.size() + operators > 20'000)
        {
            throw SpecError(splits.items[i].place,
                            "strategy.splits: found more than 20000 operators, expected fewer");
        }
        plan.strategy.operators.insert(plan.strategy.operators.end(), operators, split);
    }

    const YamlSection fabric(top.Require("fabric", "a section"),
                             "fabric",
                             {"kind", "name", "options", "allreduces", "pairs", "cables"});
    plan.fabric.kind =
        ScalarOf(fabric.Require("kind", "a kind of fabric"), "fabric.kind", "a kind of fabric");
    plan.fabric.place = fabric.Find("kind")->place;
    plan.fabric.name = plan.fabric.kind;
    fabric.Text("name", plan.fabric.name);
    plan.fabric.options = ReadOptionMap(fabric, "options");
    const std::uint32_t count = plan.servers.count;
    if (std::uint64_t{count} * count > (std::uint64_t{1} << 26U))
    {
        throw SpecError(servers.Find("count")->place,
                        "servers.count: found " + std::to_string(count) +
                            ", expected at most 8192 for a plan");
    }
    plan.demand = Demand(count);
    const YamlValue& reduces = List(fabric, "allreduces");
    for (std::size_t i = 0; i < reduces.items.size(); ++i)
    {
        const YamlSection item(reduces.items[i],
                               "fabric.allreduces[" + std::to_string(i) + "]",
                               {"bytes", "servers"});
        AllReduceDemand demand;
        item.Count("bytes", std::uint64_t{0}, std::uint64_t{1} << 60U, demand.bytes);
        demand.members = Numbers(item, "servers", count);
        plan.demand.allReduces.push_back(std::move(demand));
    }
    const YamlValue& pairs = List(fabric, "pairs");
    for (std::size_t i = 0; i < pairs.items.size(); ++i)
    {
        const YamlSection item(pairs.items[i],
                               "fabric.pairs[" + std::to_string(i) + "]",
                               {"from", "to", "bytes"});
        std::uint32_t from = 0;
        Bytes bytes = 0;
        item.Count("from", 0, count - 1, from);
        item.Count("bytes", std::uint64_t{0}, std::uint64_t{1} << 60U, bytes);
        for (const ServerId to : Numbers(item, "to", count))
        {
            plan.demand.At(from, to) = to == from ? 0 : bytes;
        }
    }
    const YamlValue& cables = List(fabric, "cables");
    for (const YamlValue& line : cables.items)
    {
        try
        {
            plan.cables.push_back(
                ParseNumbers(ScalarOf(line, "fabric.cables", "numbers such as 0-3,8"), 1U << 16U));
        }
        catch (const std::invalid_argument& error)
        {
            throw SpecError(line.place, std::string("fabric.cables: ") + error.what());
        }
    }

    if (const YamlValue* value = top.Find("result"))
    {
        const YamlSection result(*value,
                                 "result",
                                 {"start_ms",
                                  "confirmed_ms",
                                  "estimate_ms",
                                  "packet_start_ms",
                                  "packet_ms",
                                  "proposals",
                                  "topologies",
                                  "interrupted"});
        plan.startMs = Real(result, "start_ms");
        plan.confirmedMs = Real(result, "confirmed_ms");
        plan.estimateMs = Real(result, "estimate_ms");
        plan.packetStartMs = Real(result, "packet_start_ms");
        plan.packetMs = Real(result, "packet_ms");
        result.Count("proposals", 0, UINT32_MAX, plan.proposals);
        result.Count("topologies", 0, UINT32_MAX, plan.topologies);
        result.Bool("interrupted", plan.interrupted);
    }
    if (const YamlValue* value = top.Find("rounds"))
    {
        for (std::size_t i = 0; i < value->items.size(); ++i)
        {
            const YamlSection item(value->items[i],
                                   "rounds[" + std::to_string(i) + "]",
                                   {"round",
                                    "estimate_ms",
                                    "confirmed_ms",
                                    "better",
                                    "proposals",
                                    "accepted",
                                    "strategy",
                                    "topology"});
            SearchRound round;
            item.Count("round", 0, UINT32_MAX, round.round);
            round.estimateMs = Real(item, "estimate_ms");
            round.confirmedMs = Real(item, "confirmed_ms");
            item.Bool("better", round.better);
            item.Count("proposals", 0, UINT32_MAX, round.proposals);
            item.Count("accepted", 0, UINT32_MAX, round.accepted);
            item.Text("strategy", round.strategy);
            item.Text("topology", round.topology);
            plan.rounds.push_back(std::move(round));
        }
    }
    return plan;
}

Scenario
ScenarioOf(const Plan& plan)
{
    Scenario scenario;
    scenario.name = plan.name;
    scenario.file = plan.file;
    scenario.seed = plan.seed;
    scenario.servers = plan.servers;
    scenario.engine = plan.engine;
    scenario.collectives = plan.collectives;
    scenario.results = plan.results;
    scenario.workload = plan.workload;
    scenario.strategy = plan.strategyOptions;
    scenario.fabrics = {plan.fabric};
    return scenario;
}

Fabric
PlanFabric(const Plan& plan)
{
    Fabric fabric = BuildFor(plan.fabric, plan.servers, plan.seed, plan.demand);
    if (!plan.cables.empty() && CablesOf(fabric.topology) != plan.cables)
    {
        throw SpecError(plan.file.empty() ? "plan" : plan.file,
                        "fabric.cables: found cables that this version does not make for the "
                        "plan's demand, expected the same; make the plan anew with --from");
    }
    return fabric;
}

TaskGraph
PlanTaskGraph(const Plan& plan, std::uint32_t iterations)
{
    std::map<std::string, std::string> options = plan.strategyOptions;
    options["memory"] = "ignore"; // judged when the plan was made
    const ModelJob job = ResolveModelJob(plan.workload, plan.servers, options);
    return BuildIteration(job.model,
                          plan.strategy,
                          job.model.servers,
                          job.ranksPerServer,
                          iterations,
                          job.build);
}

Plan
MakePlan(const Scenario& scenario, const PlanRequest& request)
{
    const std::string place = scenario.file.empty() ? "scenario" : scenario.file;
    if (scenario.workload.kind != WorkloadKind::Model)
    {
        throw SpecError(
            place,
            "workload: found no model, expected one: only a model has a strategy to search");
    }
    if (scenario.fabrics.empty())
    {
        throw SpecError(place, "fabrics: found none, expected at least one");
    }
    Plan plan;
    plan.name = scenario.name;
    plan.seed = scenario.seed;
    plan.servers = scenario.servers;
    plan.engine = scenario.engine;
    plan.collectives = scenario.collectives;
    plan.results = scenario.results;
    plan.workload = scenario.workload;
    plan.fabric = scenario.fabrics.front();
    bool movable = false;
    for (const FabricSpec& spec : scenario.fabrics)
    {
        if (spec.kind == "topoopt")
        {
            plan.fabric = spec;
            movable = true;
            break;
        }
    }
    if (scenario.engine.compat == "flexnet")
    {
        plan.fabric = FlexNetFabricSpec(plan.fabric);
    }
    const std::map<std::string, std::string> keys = StrategyOf(scenario);
    SearchOptions options = ReadSearchOptions(keys, scenario.seed, place);
    options.interrupt = request.interrupt;
    options.log = request.log;
    options.fixedTopology = options.fixedTopology || !movable;
    for (const auto& [key, value] : keys)
    {
        if (key == "compat" || key == "memory")
        {
            plan.strategyOptions[key] = value;
        }
    }
    ModelJob job = ResolveModelJob(scenario.workload, scenario.servers, keys);
    const ComputeTimes times(job.model);
    const std::uint32_t ranks = job.model.servers * job.ranksPerServer;

    SearchProblem problem;
    problem.model = &job.model;
    problem.times = &times;
    problem.servers = job.model.servers;
    problem.ranksPerServer = job.ranksPerServer;
    problem.estimate.intraRate = scenario.servers.intraRate;
    problem.estimate.wire =
        options.flexnet ? FlowWire::FlexNet() : FlowWire::Roce(scenario.engine.mtu);
    problem.topology = [&](const Demand& demand) {
        return BuildFor(plan.fabric, plan.servers, plan.seed, demand);
    };
    const auto packets = [&](const Strategy& strategy, const Fabric& fabric) {
        BuildOptions build = job.build;
        build.times = &times;
        return request.confirm(
            BuildIteration(job.model, strategy, problem.servers, problem.ranksPerServer, 1, build),
            fabric);
    };
    if (request.confirm && options.confirm == SearchConfirm::Rounds)
    {
        problem.confirm = packets;
    }
    Plan earlier;
    Strategy from = job.strategy;
    if (!request.from.empty())
    {
        earlier = ReadPlan(request.from);
        if (earlier.workload.path != plan.workload.path ||
            earlier.workload.options != plan.workload.options ||
            earlier.servers.count != plan.servers.count ||
            earlier.servers.nics != plan.servers.nics)
        {
            throw SpecError(request.from,
                            "found a plan for " + earlier.workload.path + " on " +
                                std::to_string(earlier.servers.count) + " servers with " +
                                std::to_string(earlier.servers.nics) +
                                " NICs, expected the scenario's model, options and servers");
        }
        CheckStrategy(job.model, earlier.strategy, ranks);
        from = earlier.strategy;
        problem.startDemand = &earlier.demand;
        plan.rounds = earlier.rounds;
        options.firstRound = earlier.rounds.empty() ? 0 : earlier.rounds.back().round;
    }
    SearchResult result = Optimise(problem, from, options);
    std::size_t chosen = result.steps.size() - 1;
    double startOnPackets = 0;
    double onPackets = 0;
    if (request.confirm && options.confirm == SearchConfirm::Rounds)
    {
        startOnPackets = std::max(result.startMs, 0.0);
        onPackets = std::max(result.confirmedMs, 0.0);
    }
    else if (request.confirm && options.confirm == SearchConfirm::Final && !result.interrupted)
    {
        const auto run = [&](std::size_t step) {
            return packets(result.steps[step].strategy, result.steps[step].fabric);
        };
        const double first = run(0);
        double last = first;
        // A few percent between fluid and packets may turn a small gain into a loss.
        std::size_t at = chosen;
        for (; at > 0 && first >= 0; --at)
        {
            last = run(at);
            if (last < first)
            {
                break;
            }
        }
        if (first >= 0)
        {
            chosen = at;
            startOnPackets = first;
            onPackets = at == 0 ? first : std::max(last, 0.0);
        }
        result.interrupted = options.interrupt != nullptr && options.interrupt->load();
    }
    SearchStep& step = result.steps[chosen];
    plan.strategy = std::move(step.strategy);
    plan.demand = std::move(step.demand);
    plan.cables = CablesOf(step.fabric.topology);
    plan.startMs = earlier.startMs > 0 ? earlier.startMs : std::max(result.startMs, 0.0);
    plan.confirmedMs = std::max(step.confirmedMs, 0.0);
    plan.estimateMs = step.estimateMs;
    plan.packetStartMs = earlier.packetStartMs > 0 ? earlier.packetStartMs : startOnPackets;
    plan.packetMs = onPackets;
    plan.proposals = earlier.proposals + result.proposals;
    plan.topologies = earlier.topologies + result.topologies;
    plan.interrupted = result.interrupted;
    plan.rounds.insert(plan.rounds.end(), result.rounds.begin(), result.rounds.end());
    return plan;
}

} // namespace topoopt
