// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/experiment.h"

#include "ns3/cluster-run.h"
#include "ns3/flexnet-run.h"
#include "ns3/network-changes.h"
#include "ns3/packet-network.h"
#include "topoopt/core/collectives.h"
#include "topoopt/core/cost.h"
#include "topoopt/core/error.h"
#include "topoopt/core/plan.h"
#include "topoopt/core/strategy-flexnet.h"
#include "topoopt/core/topology-kinds.h"
#include "topoopt/core/trace.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <set>

namespace topoopt
{

namespace
{

namespace fs = std::filesystem;

/** A plan has no stop time; an iteration that is not over by then never will be. */
constexpr SimTime kPlanStop = 1000 * kSecond;

void
WriteFile(const fs::path& file, const std::string& text)
{
    std::ofstream out(file, std::ios::binary);
    out << text;
    if (!out.flush())
    {
        throw SpecError(file.string(), std::string("cannot be written: ") + std::strerror(errno));
    }
}

void
MakeDirectory(const fs::path& directory)
{
    std::error_code error;
    fs::create_directories(directory, error);
    if (error || !fs::is_directory(directory))
    {
        throw SpecError(directory.string(),
                        "found no directory that can be made (" + error.message() +
                            "), expected a place to write results");
    }
}

std::string
Fixed(double value, int digits)
{
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    return text;
}

/** "1.234 ms": four significant digits and a unit that fits. */
std::string
Readable(SimTime time)
{
    struct Unit
    {
        SimTime size;
        const char* name;
    };

    for (const Unit& unit : {Unit{kSecond, "s"},
                             Unit{kMillisecond, "ms"},
                             Unit{kMicrosecond, "us"},
                             Unit{kNanosecond, "ns"}})
    {
        if (time >= unit.size)
        {
            const double value = static_cast<double>(time) / static_cast<double>(unit.size);
            return Fixed(value, value < 10 ? 3 : value < 100 ? 2 : 1) + " " + unit.name;
        }
    }
    return std::to_string(time) + " ps";
}

std::string
Hex(std::uint64_t value)
{
    char text[20];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
    return text;
}

std::vector<std::pair<std::string, std::string>>
HeadOf(const Experiment& experiment, const Fabric& fabric)
{
    std::vector<std::pair<std::string, std::string>> head{
        {"topoopt", kVersion},
        {"format", "1"},
        {"scenario", experiment.scenario.name},
        {"seed", std::to_string(experiment.scenario.seed)},
        {"fabric", fabric.name},
        {"fidelity", experiment.scenario.engine.fidelity},
        {"flow", "one message of a collective step or transfer"},
        {"times", "ps; fct = last byte delivered - handed to the transport"},
    };
    if (!experiment.workload.stamp.empty())
    {
        head.emplace_back("replay", experiment.workload.stamp);
    }
    return head;
}

/** Payload that the fabric would carry, collectives expanded as they will run. */
Bytes
MovedBytes(const Experiment& experiment,
           const Workload& workload,
           const std::vector<ServerId>& placement,
           const Fabric& fabric,
           Bytes& packetHops)
{
    const CollectiveChoice choice(experiment.scenario.collectives);
    const TaskGraph& graph = workload.graph;
    const Bytes payload = experiment.scenario.engine.mtu - kHeaderBytes;
    Bytes moved = 0;
    packetHops = 0;
    std::vector<CollectiveSend> sends;
    const auto add = [&](ServerId src, ServerId dst, Bytes bytes, const Path* path) {
        if (src == dst)
        {
            return;
        }
        moved += bytes;
        const std::size_t hops =
            path != nullptr ? path->size() : fabric.router->Route(src, dst, 0).size();
        packetHops += hops * std::max<Bytes>(1, (bytes + payload - 1) / payload);
    };
    for (const CollectiveCall& call : graph.collectives)
    {
        const std::vector<RankId>& members = graph.groups[call.group].members;
        if (members.size() < 2)
        {
            continue;
        }
        std::vector<ServerId> servers;
        for (RankId rank : members)
        {
            servers.push_back(placement[rank]);
        }
        const auto program = choice.Build({&call, servers, &fabric});
        for (std::uint32_t channel = 0; channel < program->Channels(); ++channel)
        {
            for (std::uint32_t m = 0; m < members.size(); ++m)
            {
                const std::uint32_t steps = program->Steps(channel, m);
                for (std::uint32_t step = 0; step < steps; ++step)
                {
                    program->Step(channel, m, step, sends);
                    for (const CollectiveSend& send : sends)
                    {
                        add(servers[m], servers[send.peer], send.bytes, send.path);
                    }
                }
            }
        }
    }
    for (const TransferCall& call : graph.transfers)
    {
        add(placement[call.src], placement[call.dst], call.bytes, nullptr);
    }
    return moved;
}

/** Mean of iteration times, 0 if there is none. */
double
MeanOf(const std::vector<SimTime>& times)
{
    double sum = 0;
    for (SimTime time : times)
    {
        sum += static_cast<double>(time);
    }
    return times.empty() ? 0 : sum / static_cast<double>(times.size());
}

/** Mean iteration over that of the same run without failures; 0 = unknown. */
double
SlowdownOf(const RunSummary& run)
{
    const double unfailed = MeanOf(run.unfailedTimes);
    return unfailed > 0 ? MeanOf(run.iterationTimes) / unfailed : 0;
}

/** Lines below the table on what changed during the runs. */
void
PrintChanges(const ExperimentResult& result, std::ostream& out)
{
    for (const RunSummary& run : result.runs)
    {
        if (!run.policy.empty())
        {
            out << run.fabric << ": " << run.policy << " changed circuits "
                << run.reconfiguration.changes << " times, "
                << Readable(run.reconfiguration.changing) << " in all; servers held back for "
                << Readable(run.reconfiguration.held) << "\n";
        }
        for (const FailureReport& failure : run.failures)
        {
            out << run.fabric << ": " << failure.kind << ": " << failure.what;
            if (failure.applies)
            {
                out << " at " << Readable(failure.at) << " hit " << failure.hit << " messages";
                if (failure.recovered != kNever && failure.hit > 0)
                {
                    out << ", the last arrived " << Readable(failure.recovered - failure.at)
                        << " later";
                }
                out << (failure.repaired == kNever
                            ? ", not repaired"
                            : ", repaired after " + Readable(failure.repaired - failure.at));
            }
            out << "\n";
        }
        if (SlowdownOf(run) > 0)
        {
            out << run.fabric << ": iterations take " << Fixed(SlowdownOf(run), 3)
                << " of the time without failures\n";
        }
    }
}

/** @p time, or null if it never came. */
nlohmann::ordered_json
TimeOrNull(SimTime time)
{
    return time == kNever ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(time);
}

/** What summary.json says of a run in which links went dark or failed. */
void
AddChanges(const RunSummary& run, nlohmann::ordered_json& entry)
{
    if (!run.changed)
    {
        return;
    }
    entry["drops_by_cause"] = {{"buffer", run.drops - run.lostDark - run.lostDown},
                               {"dark", run.lostDark},
                               {"down", run.lostDown}};
    if (!run.policy.empty())
    {
        entry["reconfiguration"] = {{"policy", run.policy},
                                    {"asked", run.reconfiguration.asked},
                                    {"changes", run.reconfiguration.changes},
                                    {"circuits", run.reconfiguration.circuits},
                                    {"held_ps", run.reconfiguration.held},
                                    {"changing_ps", run.reconfiguration.changing}};
    }
    if (!run.failures.empty())
    {
        entry["failures"] = nlohmann::ordered_json::array();
        for (const FailureReport& failure : run.failures)
        {
            entry["failures"].push_back(
                {{"kind", failure.kind},
                 {"what", failure.what},
                 {"applies", failure.applies},
                 {"at_ps", TimeOrNull(failure.at)},
                 {"detected_ps", TimeOrNull(failure.detected)},
                 {"repaired_ps", TimeOrNull(failure.repaired)},
                 {"messages_hit", failure.hit},
                 {"recovery_ps",
                  TimeOrNull(failure.recovered == kNever ? kNever
                                                         : failure.recovered - failure.at)}});
        }
    }
    if (!run.unfailedTimes.empty())
    {
        entry["unfailed_iteration_time_ps"] = run.unfailedTimes;
        entry["slowdown_by_failures"] = SlowdownOf(run);
    }
}

/** Which server each rank is on, who has none, and how much computation there is: 0 must be visible. */
void
PrintPlacement(const Experiment& experiment, std::ostream& out)
{
    constexpr std::size_t kMost = 64;
    const std::vector<ServerId>& placement = experiment.workload.placement;
    out << "placement  server of each rank:";
    for (std::size_t r = 0; r < placement.size() && r < kMost; ++r)
    {
        out << " " << placement[r];
    }
    const std::set<ServerId> used(placement.begin(), placement.end());
    out << (placement.size() > kMost ? " ...; " : "; ")
        << experiment.scenario.servers.count - used.size() << " servers idle\n";
    std::vector<SimTime> compute(experiment.workload.graph.ranks);
    for (const Task& task : experiment.workload.graph.tasks)
    {
        compute[task.rank] += task.kind == TaskKind::Compute ? task.duration : 0;
    }
    if (!compute.empty())
    {
        const auto [least, most] = std::minmax_element(compute.begin(), compute.end());
        out << "compute    " << FormatTime(*least) << " to " << FormatTime(*most) << " per rank\n";
    }
}

/** A graph of a model, one rank per server or GPU. */
Workload
WorkloadOf(const Scenario& scenario, TaskGraph graph)
{
    Workload workload;
    workload.graph = std::move(graph);
    workload.placement = PlaceRanks(workload.graph.ranks, scenario);
    if (scenario.engine.compat == "flexnet")
    {
        workload.flexNet = std::make_shared<FlexNetGraph>(ToFlexNet(workload.graph, scenario.file));
    }
    return workload;
}

/** What `topoopt check` says of a shared cluster. */
void
PrintClusterCheck(const Experiment& experiment, std::ostream& out)
{
    const ClusterWorkload& cluster = *experiment.cluster;
    constexpr std::size_t kMostLines = 100;
    out << "workload   " << cluster.jobs.size() << " jobs of " << cluster.kinds.size()
        << " kind(s) on " << experiment.scenario.servers.count << " servers, queue "
        << QueueRuleNames()[static_cast<std::size_t>(cluster.spec.queue)] << ", placement "
        << ServerChoiceNames()[static_cast<std::size_t>(cluster.spec.placement)] << "\n"
        << DescribeJobs(cluster, kMostLines);
    for (const ClusterFabric& fabric : experiment.clusterFabrics)
    {
        // Bytes and hops of an iteration of each kind, on the first servers that hold it.
        std::vector<Bytes> moved(cluster.kinds.size(), 0);
        std::vector<Bytes> hops(cluster.kinds.size(), 0);
        ServerId first = 0;
        const auto count = [&](std::uint32_t number) {
            const LoadedKind& kind = cluster.kinds[number];
            std::vector<ServerId> placement = kind.workload.placement;
            for (ServerId& server : placement)
            {
                server += first;
            }
            moved[number] =
                MovedBytes(experiment, kind.workload, placement, fabric.fabric, hops[number]);
            first += fabric.sharded ? kind.spec.servers : 0;
        };
        Bytes allMoved = 0;
        Bytes allHops = 0;
        if (fabric.sharded)
        {
            std::uint64_t circuits = 0;
            for (const std::uint32_t job : fabric.members)
            {
                const std::uint32_t number = cluster.jobs[job].kind;
                count(number);
                allMoved += moved[number];
                allHops += hops[number];
            }
            for (const ClusterEntry& job : cluster.jobs)
            {
                circuits += fabric.circuits[job.kind];
            }
            out << "fabric     " << fabric.fabric.name << ": " << fabric.members.size()
                << " shard(s) simulated for an iteration each, " << circuits
                << " circuits to patch in " << FormatTime(fabric.panel.move) << " each, look-ahead "
                << (fabric.panel.lookAhead ? "on" : "off") << ", ";
        }
        else
        {
            for (std::uint32_t number = 0; number < cluster.kinds.size(); ++number)
            {
                count(number);
            }
            for (const ClusterEntry& job : cluster.jobs)
            {
                allMoved += moved[job.kind] * job.iterations;
                allHops += hops[job.kind] * job.iterations;
            }
            out << "fabric     " << fabric.fabric.name << ": shared by all jobs, "
                << fabric.fabric.topology.NodeCount() << " nodes, "
                << fabric.fabric.topology.links.size() << " links, ";
        }
        out << allMoved << " B to move, about " << allHops << " data packet-hops, "
            << Fixed(static_cast<double>(allHops) * 1.5e-7, 1) << " s on packets without trains\n";
    }
}

} // namespace

Experiment
Prepare(const Scenario& scenario)
{
    Experiment experiment;
    experiment.scenario = scenario;
    (void)FindTransport(scenario.engine.transport, scenario.file + ": engine.transport");
    (void)CollectiveChoice(scenario.collectives);
    const bool jobs = scenario.workload.kind == WorkloadKind::Jobs;
    if (jobs)
    {
        auto cluster = std::make_shared<ClusterWorkload>(LoadCluster(scenario));
        for (const LoadedKind& kind : cluster->kinds)
        {
            for (const std::string& warning : kind.workload.graph.warnings)
            {
                experiment.workload.graph.warnings.push_back(kind.spec.name + ": " + warning);
            }
        }
        experiment.cluster = std::move(cluster);
    }
    else
    {
        experiment.workload = LoadWorkload(experiment.scenario);
    }
    FabricContext context;
    context.servers = experiment.scenario.servers;
    context.seed = scenario.seed;
    context.demand = &experiment.workload.demand;
    context.fromFile = experiment.workload.fabric.get();
    std::set<std::string> names;
    const bool compat = scenario.engine.compat == "flexnet";
    if (compat && scenario.engine.fidelity != "packet")
    {
        throw SpecError(scenario.file,
                        "engine.fidelity: found " + scenario.engine.fidelity +
                            ", expected packet with `compat: flexnet`");
    }
    if (compat && experiment.workload.flexNet == nullptr)
    {
        throw SpecError(
            scenario.workload.place,
            "workload: found neither task graph nor model, expected `taskgraph: FILE` or "
            "`model: NAME` with `compat: flexnet`");
    }
    const bool failing = !scenario.failures.events.empty();
    if (failing && (compat || jobs || scenario.engine.fidelity != "packet"))
    {
        throw SpecError(scenario.failures.events[0].place,
                        "failures: found them with " +
                            (compat ? std::string("compat: flexnet")
                             : jobs ? std::string("a shared cluster")
                                    : "fidelity: " + scenario.engine.fidelity) +
                            ", expected one job on fidelity: packet without compat");
    }
    for (const FabricSpec& spec : scenario.fabrics)
    {
        Fabric fabric;
        if (compat)
        {
            CheckFlexNetFabric(spec);
            if (spec.kind == "topoopt")
            {
                fabric = BuildFabric(FlexNetFabricSpec(spec), context);
            }
            fabric.kind = spec.kind;
            fabric.name = spec.name.empty() ? spec.kind : spec.name;
        }
        else if (jobs)
        {
            experiment.clusterFabrics.push_back(
                BuildClusterFabric(spec, scenario, *experiment.cluster));
            fabric = experiment.clusterFabrics.back().fabric;
        }
        else
        {
            fabric = BuildFabric(spec, context);
        }
        if (!names.insert(fabric.name).second)
        {
            throw SpecError(spec.place,
                            "fabrics: found two named \"" + fabric.name +
                                "\", expected distinct names (give one a `name:`)");
        }
        if (jobs && ReconfigurationOf(scenario, spec).policy != "static")
        {
            throw SpecError(spec.place,
                            spec.kind + ".reconfiguration: found a policy with a shared cluster, "
                                        "expected one job (the panel of a cluster is `panel:`)");
        }
        const std::vector<std::string> changes =
            CheckChanges(scenario, spec, fabric, experiment.workload.graph.collectives.size());
        experiment.changes.insert(experiment.changes.end(), changes.begin(), changes.end());
        experiment.fabrics.push_back(std::move(fabric));
    }
    return experiment;
}

double
PacketMilliseconds(const Scenario& scenario,
                   const TaskGraph& graph,
                   const Fabric& fabric,
                   const std::atomic<bool>* interrupt)
{
    Scenario packets = scenario;
    packets.engine.fidelity = "packet";
    packets.failures.events.clear();
    packets.results.flows = "none";
    packets.stop = kPlanStop;
    const Workload workload = WorkloadOf(packets, graph);
    RunOptions options;
    options.interrupt = interrupt;
    FabricSpec spec;
    spec.kind = fabric.kind;
    const RunSummary run = packets.engine.compat == "flexnet"
                               ? RunFlexNetOnFabric(packets, workload, spec, fabric, options)
                               : RunOnFabric(packets, workload, fabric, options);
    if (interrupt != nullptr && interrupt->load())
    {
        return -1;
    }
    if (!run.complete || run.iterationTimes.empty())
    {
        throw SpecError(scenario.file,
                        "an iteration on packets does not come to an end on " + fabric.name + ": " +
                            std::to_string(run.unfinished) + " flows unfinished" +
                            (run.waiting.empty() ? "" : "; " + run.waiting.front()));
    }
    return static_cast<double>(run.iterationTimes.back()) / 1e9;
}

Experiment
PreparePlan(const std::string& file)
{
    const Plan plan = ReadPlan(file);
    Experiment experiment;
    experiment.scenario = ScenarioOf(plan);
    experiment.scenario.file = file;
    experiment.scenario.stop = kPlanStop;
    experiment.planText = WritePlan(plan);
    experiment.workload = WorkloadOf(experiment.scenario, PlanTaskGraph(plan, 1));
    experiment.workload.demand = plan.demand;
    experiment.fabrics.push_back(PlanFabric(plan));
    Fabric& fabric = experiment.fabrics.back();
    fabric.name = fabric.name.empty() ? fabric.kind : fabric.name;
    return experiment;
}

void
PrintCheck(const Experiment& experiment, std::ostream& out)
{
    const TaskGraph& graph = experiment.workload.graph;
    out << "scenario   " << experiment.scenario.name << ", seed " << experiment.scenario.seed
        << "\n";
    if (experiment.cluster != nullptr)
    {
        for (const std::string& warning : graph.warnings)
        {
            out << "warning    " << warning << "\n";
        }
        PrintClusterCheck(experiment, out);
        return;
    }
    out << "workload   " << graph.ranks << " ranks on " << experiment.scenario.servers.count
        << " servers, " << graph.tasks.size() << " tasks, " << graph.collectives.size()
        << " collectives, " << graph.transfers.size() << " messages, "
        << experiment.workload.repeats << " iteration(s)\n";
    PrintPlacement(experiment, out);
    if (!experiment.workload.stamp.empty())
    {
        out << "replay     " << experiment.workload.stamp << "\n";
    }
    for (const std::string& warning : graph.warnings)
    {
        out << "warning    " << warning << "\n";
    }
    for (const Fabric& fabric : experiment.fabrics)
    {
        if (fabric.router == nullptr)
        {
            out << "fabric     " << fabric.name << ": by the rules of the released simulator\n";
            continue;
        }
        Bytes packetHops = 0;
        const Bytes moved = MovedBytes(experiment,
                                       experiment.workload,
                                       experiment.workload.placement,
                                       fabric,
                                       packetHops);
        packetHops *= experiment.workload.repeats;
        // A packet-hop of the engine costs about 0.15 us; see the benchmark in tests/perf.
        out << "fabric     " << fabric.name << ": " << fabric.topology.NodeCount() << " nodes, "
            << fabric.topology.links.size() << " links, " << moved * experiment.workload.repeats
            << " B to move, about " << packetHops << " data packet-hops, "
            << Fixed(static_cast<double>(packetHops) * 1.5e-7, 1) << " s without trains\n";
    }
    for (const std::string& line : experiment.changes)
    {
        out << line << "\n";
    }
}

bool
ExperimentResult::Good() const
{
    return !interrupted && std::all_of(runs.begin(), runs.end(), [](const RunSummary& run) {
        return run.complete && run.violations.empty();
    });
}

ExperimentResult
RunExperiment(const Experiment& experiment,
              const std::string& directory,
              bool progress,
              const std::atomic<bool>* interrupt)
{
    ExperimentResult result;
    const fs::path root(directory);
    if (!directory.empty())
    {
        MakeDirectory(root);
        for (const Fabric& fabric : experiment.fabrics)
        {
            MakeDirectory(root / fabric.name);
        }
        WriteFile(root / "manifest.yaml",
                  "# topoopt " + std::string(kVersion) + ", result format 1\n" +
                      (experiment.planText.empty() ? WriteScenario(experiment.scenario, directory)
                                                   : experiment.planText));
    }
    std::optional<PriceTable> prices;
    try
    {
        prices = ReadPrices();
    }
    catch (const SpecError&)
    {
        // A program without its data simulates all the same; costs are then unknown.
    }
    for (const Fabric& fabric : experiment.fabrics)
    {
        if (interrupt != nullptr && interrupt->load())
        {
            break;
        }
        RunOptions options;
        options.directory = directory.empty() ? "" : (root / fabric.name).string();
        options.progress = progress;
        options.interrupt = interrupt;
        options.head = HeadOf(experiment, fabric);
        const Scenario& scenario = experiment.scenario;
        if (scenario.engine.compat == "flexnet")
        {
            const FabricSpec& spec = scenario.fabrics[result.runs.size()];
            result.runs.push_back(
                RunFlexNetOnFabric(scenario, experiment.workload, spec, fabric, options));
        }
        else if (experiment.cluster != nullptr)
        {
            result.runs.push_back(RunClusterOnFabric(scenario,
                                                     *experiment.cluster,
                                                     experiment.clusterFabrics[result.runs.size()],
                                                     options));
        }
        else if (scenario.engine.fidelity == "flow")
        {
            result.runs.push_back(RunFluidOnFabric(scenario, experiment.workload, fabric, options));
        }
        else
        {
            std::vector<SimTime> unfailed;
            if (!scenario.failures.events.empty())
            {
                RunOptions without = options;
                without.directory.clear();
                without.failures = false;
                unfailed =
                    RunOnFabric(scenario, experiment.workload, fabric, without).iterationTimes;
            }
            result.runs.push_back(RunOnFabric(scenario, experiment.workload, fabric, options));
            result.runs.back().unfailedTimes = unfailed;
        }
        if (prices && fabric.router != nullptr)
        {
            const std::size_t run = result.runs.size() - 1;
            // Shards come and go; the panel has a port for every NIC of every server.
            const bool sharded =
                experiment.cluster != nullptr && experiment.clusterFabrics[run].sharded;
            result.runs.back().costUsd =
                sharded ? BillOf(DirectPorts(scenario.servers, Optics::PatchPanel), *prices).total
                        : BillOf(fabric, *prices).total;
        }
    }
    result.interrupted = interrupt != nullptr && interrupt->load();
    if (!directory.empty())
    {
        WriteFile(root / "summary.json", SummaryJson(experiment, result));
    }
    return result;
}

namespace
{

/** Columns as wide as they need to be, the first to the left. */
void
PrintRows(const std::vector<std::vector<std::string>>& rows, std::ostream& out)
{
    std::vector<std::size_t> widths(rows[0].size());
    for (const auto& row : rows)
    {
        for (std::size_t c = 0; c < row.size(); ++c)
        {
            widths[c] = std::max(widths[c], row[c].size());
        }
    }
    for (const auto& row : rows)
    {
        for (std::size_t c = 0; c < row.size(); ++c)
        {
            const std::string pad(widths[c] - row[c].size(), ' ');
            out << (c == 0 ? row[c] + pad : "  " + pad + row[c]);
        }
        out << "\n";
    }
}

/** The table of a shared cluster. */
void
PrintClusterTable(const ExperimentResult& result, std::ostream& out)
{
    std::vector<std::vector<std::string>> rows{{"fabric",
                                                "jobs",
                                                "iteration",
                                                "p50",
                                                "p99",
                                                "queueing",
                                                "patching",
                                                "hidden",
                                                "utilisation",
                                                "fragmentation",
                                                "wall"}};
    for (const RunSummary& run : result.runs)
    {
        const ClusterSummary& cluster = *run.cluster;
        rows.push_back(
            {run.fabric,
             cluster.finished == cluster.jobs
                 ? std::to_string(cluster.jobs)
                 : std::to_string(cluster.finished) + " of " + std::to_string(cluster.jobs),
             Readable(cluster.iterationMean),
             Readable(cluster.iterationP50),
             Readable(cluster.iterationP99),
             Readable(cluster.queueingMean),
             Readable(cluster.patchingMean),
             Readable(cluster.hiddenMean),
             Fixed(cluster.utilisation, 3),
             Fixed(cluster.fragmentation, 3),
             Fixed(run.setupSeconds + run.runSeconds, 2) + " s"});
    }
    PrintRows(rows, out);
}

} // namespace

void
PrintTable(const ExperimentResult& result, std::ostream& out)
{
    if (!result.runs.empty() && result.runs[0].cluster)
    {
        PrintClusterTable(result, out);
        return;
    }
    std::vector<std::vector<std::string>> rows{{"fabric",
                                                "iteration",
                                                "FCT p50",
                                                "FCT p99",
                                                "FCT max",
                                                "flows",
                                                "tax",
                                                "packet-hops",
                                                "wall"}};
    for (const RunSummary& run : result.runs)
    {
        std::string iteration = "-";
        if (!run.iterationTimes.empty())
        {
            SimTime sum = 0;
            for (SimTime time : run.iterationTimes)
            {
                sum += time;
            }
            iteration = Readable(sum / static_cast<SimTime>(run.iterationTimes.size()));
        }
        const std::string flows = run.unfinished == 0 ? std::to_string(run.flows)
                                                      : std::to_string(run.flows - run.unfinished) +
                                                            " of " + std::to_string(run.flows);
        rows.push_back({run.fabric,
                        iteration,
                        run.fctP50 != kNever ? Readable(run.fctP50) : "unfinished",
                        run.fctP99 != kNever ? Readable(run.fctP99) : "unfinished",
                        Readable(run.fctMax),
                        flows,
                        Fixed(run.bandwidthTax, 3),
                        std::to_string(run.packetHops),
                        Fixed(run.setupSeconds + run.runSeconds, 2) + " s"});
    }
    PrintRows(rows, out);
    PrintChanges(result, out);
}

std::string
SummaryJson(const Experiment& experiment, const ExperimentResult& result)
{
    nlohmann::ordered_json json;
    json["topoopt"] = kVersion;
    json["format"] = 1;
    json["scenario"] = experiment.scenario.name;
    json["seed"] = experiment.scenario.seed;
    json["replay"] = experiment.workload.stamp;
    json["complete"] = result.Good();
    json["runs"] = nlohmann::ordered_json::array();
    for (const RunSummary& run : result.runs)
    {
        nlohmann::ordered_json entry;
        entry["fabric"] = run.fabric;
        entry["kind"] = run.kind;
        entry["fidelity"] = run.fidelity;
        entry["complete"] = run.complete;
        entry["iteration_time_ps"] = run.iterationTimes;
        entry["flows"] = run.flows;
        entry["unfinished"] = run.unfinished;
        entry["demand_bytes"] = run.demandBytes;
        entry["wire_bytes"] = run.wireBytes;
        entry["bandwidth_tax"] = run.bandwidthTax;
        entry["packet_hops"] = run.packetHops;
        entry["events"] = run.events;
        entry["drops"] = run.drops;
        entry["retransmits"] = run.retransmits;
        // Null where so many have not ended.
        entry["fct_p50_ps"] = nullptr;
        entry["fct_p99_ps"] = nullptr;
        if (run.fctP50 != kNever)
        {
            entry["fct_p50_ps"] = run.fctP50;
        }
        if (run.fctP99 != kNever)
        {
            entry["fct_p99_ps"] = run.fctP99;
        }
        entry["fct_max_ps"] = run.fctMax;
        entry["max_slowdown"] = run.maxSlowdown;
        entry["setup_s"] = run.setupSeconds;
        entry["run_s"] = run.runSeconds;
        entry["peak_rss_bytes"] = run.peakRssBytes;
        entry["cost_usd"] = nullptr;
        if (run.costUsd >= 0)
        {
            entry["cost_usd"] = run.costUsd;
        }
        entry["fingerprint"] = Hex(run.fingerprint);
        AddChanges(run, entry);
        entry["violations"] = run.violations;
        entry["waiting"] = run.waiting;
        if (run.cluster)
        {
            const ClusterSummary& cluster = *run.cluster;
            entry["jobs"] = cluster.jobs;
            entry["jobs_finished"] = cluster.finished;
            entry["jobs_overtook"] = cluster.overtook;
            entry["makespan_ps"] = cluster.makespan;
            entry["waiting_mean_ps"] = cluster.waitingMean;
            entry["queueing_mean_ps"] = cluster.queueingMean;
            entry["queueing_max_ps"] = cluster.queueingMax;
            entry["patching_mean_ps"] = cluster.patchingMean;
            entry["hidden_patching_mean_ps"] = cluster.hiddenMean;
            entry["iteration_mean_ps"] = cluster.iterationMean;
            entry["iteration_p50_ps"] = cluster.iterationP50;
            entry["iteration_p99_ps"] = cluster.iterationP99;
            entry["utilisation"] = cluster.utilisation;
            entry["occupation"] = cluster.occupation;
            entry["fragmentation"] = cluster.fragmentation;
            entry["fragmented_wait_ps"] = cluster.fragmentedWait;
        }
        json["runs"].push_back(std::move(entry));
    }
    return json.dump(2) + "\n";
}

} // namespace topoopt
