// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/fabric-run.h"

#include "ns3/csv-file.h"
#include "ns3/executor.h"
#include "ns3/live-fabric.h"
#include "ns3/packet-network.h"
#include "ns3/peek-scheduler.h"
#include "ns3/progress.h"
#include "ns3/simulator.h"
#include "topoopt/core/error.h"
#include "topoopt/core/random.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sys/resource.h>

namespace topoopt
{

namespace
{

using Clock = std::chrono::steady_clock;

/** A matrix has a row per node; larger fabrics go without. */
constexpr std::uint32_t kMaxMatrixNodes = 2048;
/** tasks.csv is for looking at, not for millions of rows. */
constexpr std::uint64_t kMaxTaskRows = 200'000;
constexpr std::size_t kWaitingLines = 20;

double
SecondsSince(Clock::time_point start)
{
    return std::chrono::duration<double>(Clock::now() - start).count();
}

/** Writes the rows of a run as they come and keeps its sums. */
class Recorder final : public ExecutionObserver
{
  public:
    Recorder(const Scenario& scenario,
             const Workload& workload,
             const Fabric& fabric,
             const RunOptions& options)
        : m_workload(workload),
          m_fabric(fabric),
          m_payload(scenario.engine.mtu - kHeaderBytes)
    {
        if (options.directory.empty())
        {
            return;
        }
        const std::string& dir = options.directory;
        if (scenario.results.flows != "none")
        {
            m_flows.emplace(dir + "/flows." + scenario.results.flows,
                            options.head,
                            std::string(kFlowColumns) +
                                ",fct_ack_ps,wire_bytes,delivered_bytes,group,channel,step,src_"
                                "rank,dst_rank,local,nic");
        }
        m_ops.emplace(dir + "/ops.csv", options.head, kOperationColumns);
        if (workload.graph.tasks.size() * std::uint64_t{workload.repeats} <= kMaxTaskRows)
        {
            m_tasks.emplace(dir + "/tasks.csv",
                            options.head,
                            "rank,server,task,iteration,kind,name,start_ps,end_ps");
        }
        if (m_fabric.topology.servers <= kMaxMatrixNodes)
        {
            m_demand = Demand(m_fabric.topology.servers);
        }
    }

    void MessageFinished(const MessageRecord& record, const MessageContext& context) override
    {
        Row(record, context);
        if (failures != nullptr)
        {
            failures->MessageFinished(record);
        }
    }

    /** One row of flows.csv, finished or not. */
    void Row(const MessageRecord& record, const MessageContext& context)
    {
        const Message& message = record.message;
        const bool local = message.src == message.dst;
        const bool done = record.end != kNever;
        ++flows;
        if (!local)
        {
            // A message that got another way counts with the last one.
            const std::uint32_t hops =
                live != nullptr ? live->ServerHops(message.route) : context.serverHops;
            tax += static_cast<double>(message.bytes) * hops;
            if (m_demand.servers > 0)
            {
                m_demand.At(message.src, message.dst) += message.bytes;
            }
        }
        double slowdown = 1;
        if (done)
        {
            const SimTime fct = record.end - record.start;
            slowdown = record.ideal > 0
                           ? static_cast<double>(fct) / static_cast<double>(record.ideal)
                           : 1.0;
            if (!local)
            {
                fcts.Add(fct);
                maxSlowdown = std::max(maxSlowdown, slowdown);
            }
        }
        if (!m_flows)
        {
            return;
        }
        CsvFile& csv = *m_flows;
        csv.Add(record.id).Add(context.operation).Add(std::uint32_t{0}).Add(context.iteration);
        csv.Add(context.kind)
            .Add(message.src)
            .Add(message.dst)
            .Add(message.bytes)
            .Add(record.start);
        if (done)
        {
            csv.Add(record.end)
                .Add(record.end - record.start)
                .Add(record.ideal)
                .AddDecimal(slowdown);
        }
        else
        {
            csv.Skip().Skip().Add(record.ideal).Skip();
        }
        csv.Add(record.hops).Add(record.retransmits).Add(done ? "done" : "unfinished");
        if (record.acknowledged != kNever)
        {
            csv.Add(record.acknowledged - record.start);
        }
        else
        {
            csv.Skip();
        }
        csv.Add(local ? Bytes{0} : MessageWireBytes(message.bytes, m_payload))
            .Add(record.delivered);
        if (context.group == kNoId)
        {
            csv.Skip().Skip().Skip();
        }
        else
        {
            csv.Add(m_workload.graph.groups[context.group].name)
                .Add(context.channel)
                .Add(context.step);
        }
        csv.Add(context.srcRank).Add(context.dstRank).Add(std::uint32_t{local ? 1U : 0U});
        if (record.sourceLink == kNoId)
        {
            csv.Skip();
        }
        else
        {
            csv.Add(m_fabric.topology.links[record.sourceLink].srcPort);
        }
        csv.EndRow();
    }

    void OperationFinished(const OperationRecord& record) override
    {
        if (!m_ops)
        {
            return;
        }
        const TaskGraph& graph = m_workload.graph;
        CsvFile& csv = *m_ops;
        csv.Add(record.operation).Add(std::uint32_t{0}).Add(record.iteration);
        if (record.operation < graph.collectives.size())
        {
            const CollectiveCall& call = graph.collectives[record.operation];
            const CommGroup& group = graph.groups[call.group];
            Bytes bytes = call.bytes;
            for (Bytes pair : call.pairBytes)
            {
                bytes += pair;
            }
            csv.Add(Name(call.kind)).Add(call.name).Add(group.name);
            csv.Add(static_cast<std::uint64_t>(group.members.size())).Add(bytes);
        }
        else
        {
            const TransferCall& call = graph.transfers[record.operation - graph.collectives.size()];
            csv.Add("send").Skip().Skip().Add(std::uint32_t{2}).Add(call.bytes);
        }
        csv.Add(record.start);
        if (record.end == kNever)
        {
            csv.Skip().Skip().Add("unfinished");
        }
        else
        {
            csv.Add(record.end).Add(record.end - record.start).Add("done");
        }
        csv.EndRow();
    }

    void TaskFinished(const TaskRecord& record) override
    {
        if (!m_tasks)
        {
            return;
        }
        const TaskGraph& graph = m_workload.graph;
        const Task& task = graph.tasks[record.task];
        if (task.kind == TaskKind::Join || task.kind == TaskKind::Send)
        {
            return;
        }
        CsvFile& csv = *m_tasks;
        csv.Add(task.rank)
            .Add(m_workload.placement[task.rank])
            .Add(record.task)
            .Add(record.iteration);
        csv.Add(Name(task.kind));
        if (task.kind == TaskKind::Collective)
        {
            csv.Add(Name(graph.collectives[task.object].kind));
        }
        else if (task.name != kNoId)
        {
            csv.Add(graph.names[task.name]);
        }
        else
        {
            csv.Skip();
        }
        csv.Add(record.start).Add(record.end).EndRow();
    }

    /** Writes what is known only at the end. @return hash of everything written */
    std::uint64_t Close(const RunOptions& options,
                        const std::vector<LinkCounters>& links,
                        const std::vector<LinkOutage>& outages,
                        SimTime end)
    {
        const Topology& topology = m_fabric.topology;
        std::uint64_t hash = 0;
        const auto mix = [&hash](std::optional<CsvFile>& csv) {
            if (csv)
            {
                hash = Mix64(hash, csv->Hash());
                csv->Close();
            }
        };
        if (!options.directory.empty())
        {
            std::optional<CsvFile> csv;
            csv.emplace(options.directory + "/links.csv",
                        options.head,
                        std::string(kLinkColumns) +
                            (outages.empty() ? "" : ",drops_dark,drops_down,dark_ps"));
            for (LinkId id = 0; id < links.size(); ++id)
            {
                const Link& link = topology.links[id];
                const LinkCounters& counters = links[id];
                const auto queue =
                    static_cast<std::uint64_t>(static_cast<unsigned __int128>(counters.maxBacklog) *
                                               link.rate.bps / 8'000'000'000'000ULL);
                csv->Add(id).Add(topology.names[link.src]).Add(topology.names[link.dst]);
                csv->Add(link.rate.bps).Add(counters.bytes).Add(counters.packets);
                csv->Add(counters.drops).Add(counters.marks).Add(counters.busy).Add(queue);
                csv->AddDecimal(
                    end > 0 ? static_cast<double>(counters.busy) / static_cast<double>(end) : 0);
                if (!outages.empty())
                {
                    const LinkOutage& outage = outages[id];
                    csv->Add(outage.lostDark).Add(outage.lostDown);
                    csv->Add(outage.dark +
                             (outage.state == LinkState::Up ? 0 : end - outage.since));
                }
                csv->EndRow();
            }
            mix(csv);
            WriteMatrices(options, links, hash);
            WriteTopology(options.directory + "/topology.json");
        }
        mix(m_flows);
        mix(m_ops);
        mix(m_tasks);
        return hash;
    }

    std::uint64_t flows = 0;
    double tax = 0; ///< payload bytes times links that begin at a server
    double maxSlowdown = 0;
    Percentiles fcts;
    FailureInjector* failures = nullptr; ///< null: none
    const LiveFabric* live = nullptr;    ///< null: nothing changes

  private:
    void WriteMatrices(const RunOptions& options,
                       const std::vector<LinkCounters>& links,
                       std::uint64_t& hash) const
    {
        const Topology& topology = m_fabric.topology;
        if (topology.NodeCount() > kMaxMatrixNodes)
        {
            return;
        }
        std::vector<Bytes> carried(std::size_t{topology.NodeCount()} * topology.NodeCount());
        for (LinkId id = 0; id < links.size(); ++id)
        {
            const Link& link = topology.links[id];
            carried[std::size_t{link.src} * topology.NodeCount() + link.dst] += links[id].bytes;
        }
        const auto write = [&](const char* name, std::uint32_t n, const std::vector<Bytes>& cells) {
            std::string header = "from";
            for (std::uint32_t node = 0; node < n; ++node)
            {
                header += "," + topology.names[node];
            }
            CsvFile csv(options.directory + "/" + name, options.head, header);
            for (std::uint32_t src = 0; src < n; ++src)
            {
                csv.Add(topology.names[src]);
                for (std::uint32_t dst = 0; dst < n; ++dst)
                {
                    csv.Add(cells[std::size_t{src} * n + dst]);
                }
                csv.EndRow();
            }
            hash = Mix64(hash, csv.Hash());
            csv.Close();
        };
        write("matrix_demand.csv", topology.servers, m_demand.pairs);
        write("matrix_link.csv", topology.NodeCount(), carried);
    }

    /** Nodes, links and which ring each link serves, for drawings. */
    void WriteTopology(const std::string& file) const
    {
        const Topology& topology = m_fabric.topology;
        std::vector<ServerId> all(topology.servers);
        for (ServerId s = 0; s < topology.servers; ++s)
        {
            all[s] = s;
        }
        std::map<std::pair<NodeId, NodeId>, std::uint32_t> ringOf;
        if (m_fabric.rings && topology.servers > 1)
        {
            const std::vector<Ring> rings = RingsOf(m_fabric, all);
            for (std::uint32_t r = 0; r < rings.size(); ++r)
            {
                const std::vector<std::uint32_t>& order = rings[r].order;
                for (std::size_t k = 0; k < order.size(); ++k)
                {
                    ringOf.try_emplace({order[k], order[(k + 1) % order.size()]}, r);
                }
            }
        }
        nlohmann::ordered_json json;
        json["servers"] = topology.servers;
        for (NodeId node = 0; node < topology.NodeCount(); ++node)
        {
            json["nodes"].push_back({{"name", topology.names[node]},
                                     {"kind", topology.IsServer(node) ? "server" : "switch"}});
        }
        json["links"] = nlohmann::ordered_json::array();
        for (LinkId id = 0; id < topology.links.size(); ++id)
        {
            const Link& link = topology.links[id];
            const auto ring = ringOf.find({link.src, link.dst});
            const bool direct = topology.IsServer(link.src) && topology.IsServer(link.dst);
            nlohmann::ordered_json entry{{"id", id},
                                         {"src", link.src},
                                         {"dst", link.dst},
                                         {"rate_bps", link.rate.bps},
                                         {"ring", nullptr},
                                         {"mp", direct && ring == ringOf.end()}};
            if (ring != ringOf.end())
            {
                entry["ring"] = ring->second;
            }
            json["links"].push_back(std::move(entry));
        }
        std::ofstream out(file);
        out << json.dump() << "\n";
        if (!out.flush())
        {
            throw SpecError(file, std::string("cannot be written: ") + std::strerror(errno));
        }
    }

    const Workload& m_workload;
    const Fabric& m_fabric;
    Bytes m_payload;
    std::optional<CsvFile> m_flows;
    std::optional<CsvFile> m_ops;
    std::optional<CsvFile> m_tasks;
    Demand m_demand;
};

} // namespace

namespace
{

/** What changes the network during a run, if anything does. */
class Changes
{
  public:
    Changes(const Scenario& scenario,
            const Workload& workload,
            const Fabric& fabric,
            const RunOptions& options,
            PacketNetwork& network)
        : m_fabric(fabric)
    {
        ReconfigurationSpec spec;
        for (const FabricSpec& candidate : scenario.fabrics)
        {
            if ((candidate.name.empty() ? candidate.kind : candidate.name) == fabric.name)
            {
                spec = ReconfigurationOf(scenario, candidate);
            }
        }
        const bool optics = spec.policy != "static" && CanReconfigure(fabric);
        const bool failures = options.failures && !scenario.failures.events.empty();
        if (!optics && !failures)
        {
            return;
        }
        m_live = std::make_unique<LiveFabric>(
            fabric,
            network,
            scenario.seed,
            optics && !spec.forwarding ? LitRouter::Relays::None : LitRouter::Relays::Servers);
        if (optics)
        {
            m_policy = spec.policy;
            m_optics = std::make_unique<Reconfigurator>(spec,
                                                        *m_live,
                                                        scenario.servers.nics,
                                                        fabric.topology.links.empty()
                                                            ? scenario.servers.rate
                                                            : fabric.topology.links[0].rate,
                                                        scenario.seed);
        }
        if (failures)
        {
            m_failures = std::make_unique<FailureInjector>(scenario.failures,
                                                           *m_live,
                                                           workload.placement,
                                                           scenario.seed);
        }
    }

    /** The fabric as it is, which is the given one if nothing changes. */
    [[nodiscard]] const Fabric& Now() const
    {
        return m_live != nullptr ? m_live->Now() : m_fabric;
    }

    [[nodiscard]] LiveFabric* Live() const
    {
        return m_live.get();
    }

    [[nodiscard]] Reconfigurator* Optics() const
    {
        return m_optics.get();
    }

    [[nodiscard]] FailureInjector* Failures() const
    {
        return m_failures.get();
    }

    /** What an incomplete run lacks. */
    [[nodiscard]] std::vector<std::string> Lacks() const
    {
        std::vector<std::string> lines;
        if (m_failures != nullptr)
        {
            lines = m_failures->Lacks();
        }
        if (m_live == nullptr)
        {
            return lines;
        }
        std::map<LinkId, std::uint64_t> dark;
        for (const ActiveMessage& active : m_live->Network().Active())
        {
            dark[active.darkLink] += active.darkLink != kNoId ? 1 : 0;
        }
        const Topology& topology = m_live->Now().topology;
        for (const auto& [link, messages] : dark)
        {
            if (link != kNoId && lines.size() < kWaitingLines)
            {
                const LinkOutage outage = m_live->Network().Outage(link);
                lines.push_back("link " + topology.names[topology.links[link].src] + " -> " +
                                topology.names[topology.links[link].dst] + " has been " +
                                (outage.state == LinkState::Dark ? "dark" : "down") + " since " +
                                FormatTime(outage.since) + "; " + std::to_string(messages) +
                                " message(s) are to take it");
            }
        }
        return lines;
    }

    void Summarise(RunSummary& summary, const NetworkTotals& totals) const
    {
        summary.changed = m_live != nullptr;
        summary.lostDark = totals.lostDark;
        summary.lostDown = totals.lostDown;
        summary.policy = m_policy;
        if (m_optics != nullptr)
        {
            summary.reconfiguration = m_optics->Report();
        }
        if (m_failures != nullptr)
        {
            summary.failures = m_failures->Reports();
        }
    }

  private:
    const Fabric& m_fabric;
    std::string m_policy;
    std::unique_ptr<LiveFabric> m_live;
    std::unique_ptr<Reconfigurator> m_optics;
    std::unique_ptr<FailureInjector> m_failures;
};

} // namespace

bool
CanReconfigure(const Fabric& fabric)
{
    return fabric.router != nullptr && fabric.topology.NodeCount() == fabric.topology.servers;
}

std::uint64_t
PeakRssBytes()
{
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

RunSummary
RunOnFabric(const Scenario& scenario,
            const Workload& workload,
            const Fabric& fabric,
            const RunOptions& options)
{
    const Clock::time_point begin = Clock::now();
    RunSummary summary;
    summary.fabric = fabric.name;
    summary.kind = fabric.kind;
    summary.fidelity = scenario.engine.fidelity;

    ns3::PeekScheduler::Install();
    const CollectiveChoice collectives(scenario.collectives);
    PacketNetworkConfig config;
    config.mtu = scenario.engine.mtu;
    config.ackEvery = scenario.engine.ackEvery;
    config.buffer = scenario.engine.buffer;
    config.ecn = scenario.engine.ecn;
    config.trains = scenario.engine.trains;
    config.intraRate = scenario.servers.intraRate;
    config.control =
        &FindTransport(scenario.engine.transport, scenario.file + ": engine.transport");
    const ns3::Ptr<PacketNetwork> network = ns3::CreateObject<PacketNetwork>();
    network->Build(fabric.topology, config);
    Changes changes(scenario, workload, fabric, options, *network);
    Recorder recorder(scenario, workload, changes.Now(), options);
    recorder.failures = changes.Failures();
    recorder.live = changes.Live();
    ExecutorConfig executorConfig;
    executorConfig.graph = &workload.graph;
    executorConfig.fabric = &changes.Now();
    executorConfig.routes = changes.Live();
    executorConfig.gate = changes.Optics();
    executorConfig.collectives = &collectives;
    executorConfig.placement = workload.placement;
    executorConfig.iterations = workload.repeats;
    executorConfig.seed = scenario.seed;
    TaskExecutor executor(executorConfig, *network, recorder);
    if (changes.Optics() != nullptr)
    {
        changes.Optics()->SetPassGate([&executor] { executor.PassGate(); });
    }
    ProgressLine progress(options.progress, fabric.name);
    network->SetHeartbeat([&] {
        progress.Update(executor.Progress(), network->Now(), network->Totals().events);
        return options.interrupt == nullptr || !options.interrupt->load(std::memory_order_relaxed);
    });
    executor.Begin();
    network->Start(scenario.stop);
    summary.setupSeconds = SecondsSince(begin);
    const Clock::time_point start = Clock::now();
    ns3::Simulator::Run();
    summary.runSeconds = SecondsSince(start);

    for (const MessageRecord& record : network->Unfinished())
    {
        recorder.Row(record, executor.ContextOf(record.message));
    }
    for (const OperationRecord& record : executor.UnfinishedOperations())
    {
        recorder.OperationFinished(record);
    }
    const NetworkTotals totals = network->Totals();
    summary.complete = executor.Done() && totals.unfinished == 0;
    // Stopped before the stop time by nobody: packets go round and round, or nothing is left that could happen.
    const bool interrupted = options.interrupt != nullptr && options.interrupt->load();
    summary.stalled =
        !summary.complete && !interrupted && (network->Stalled() || network->Now() < scenario.stop);
    if (!summary.complete)
    {
        summary.waiting = executor.DescribeWaiting(kWaitingLines);
        const std::vector<std::string> lacks = changes.Lacks();
        summary.waiting.insert(summary.waiting.begin(), lacks.begin(), lacks.end());
    }
    changes.Summarise(summary, totals);
    summary.violations = network->CheckPhysics();
    summary.iterationTimes = executor.IterationTimes();
    summary.flows = recorder.flows;
    summary.unfinished = totals.unfinished;
    summary.demandBytes = totals.askedBytes;
    summary.wireBytes = totals.wireBytes;
    summary.bandwidthTax =
        totals.askedBytes > 0 ? recorder.tax / static_cast<double>(totals.askedBytes) : 1.0;
    summary.packetHops = totals.packetHops;
    summary.events = totals.events;
    summary.drops = totals.drops;
    summary.retransmits = totals.retransmits;
    summary.fctP50 = recorder.fcts.At(50);
    summary.fctP99 = recorder.fcts.At(99);
    summary.fctMax = recorder.fcts.Max();
    summary.maxSlowdown = recorder.maxSlowdown;
    std::vector<LinkOutage> outages;
    const std::vector<LinkCounters> counters = network->Links();
    for (LinkId link = 0; changes.Live() != nullptr && link < counters.size(); ++link)
    {
        outages.push_back(network->Outage(link));
    }
    summary.fingerprint = recorder.Close(options, counters, outages, network->Now());
    summary.peakRssBytes = PeakRssBytes();
    network->Dispose();
    ns3::Simulator::Destroy();
    return summary;
}

} // namespace topoopt
