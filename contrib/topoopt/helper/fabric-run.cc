// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/fabric-run.h"

#include "ns3/executor.h"
#include "ns3/network-changes.h"
#include "ns3/packet-network.h"
#include "ns3/peek-scheduler.h"
#include "ns3/progress.h"
#include "ns3/run-recorder.h"
#include "ns3/simulator.h"

#include <chrono>
#include <sys/resource.h>

namespace topoopt
{

namespace
{

using Clock = std::chrono::steady_clock;

constexpr std::size_t kWaitingLines = 20;

double
SecondsSince(Clock::time_point start)
{
    return std::chrono::duration<double>(Clock::now() - start).count();
}

} // namespace

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
    NetworkChanges changes(scenario, workload.placement, fabric, options, *network);
    RunRecorder recorder(scenario,
                         changes.Now(),
                         options,
                         workload.graph.tasks.size() * std::uint64_t{workload.repeats});
    recorder.SetJob({0, &workload.graph, &workload.placement});
    recorder.SetChanges(changes.Live(), changes.Failures());
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
        summary.waiting = changes.Lacks(kWaitingLines);
        const std::vector<std::string> waiting = executor.DescribeWaiting(kWaitingLines);
        summary.waiting.insert(summary.waiting.end(), waiting.begin(), waiting.end());
    }
    changes.Summarise(summary);
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
    summary.fingerprint =
        recorder.Close(options, network->Links(), network->Now(), changes.Outages());
    summary.peakRssBytes = PeakRssBytes();
    network->Dispose();
    ns3::Simulator::Destroy();
    return summary;
}

} // namespace topoopt
