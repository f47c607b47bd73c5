// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/fabric-run.h"

#include "ns3/executor.h"
#include "ns3/network-changes.h"
#include "ns3/packet-run.h"
#include "ns3/peek-scheduler.h"
#include "ns3/progress.h"
#include "ns3/simulator.h"
#include "ns3/stopwatch.h"

#include <sys/resource.h>

namespace topoopt
{

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
    const Stopwatch setup;
    RunSummary summary;
    summary.fabric = fabric.name;
    summary.kind = fabric.kind;
    summary.fidelity = scenario.engine.fidelity;

    ns3::PeekScheduler::Install();
    const CollectiveChoice collectives(scenario.collectives);
    const ns3::Ptr<PacketNetwork> network = ns3::CreateObject<PacketNetwork>();
    network->Build(fabric.topology, PacketConfigOf(scenario));
    NetworkChanges changes(scenario, workload.placement, fabric, options, *network);
    RunRecorder recorder(scenario,
                         changes.Now(),
                         options,
                         workload.graph.tasks.size() * std::uint64_t{workload.repeats});
    recorder.SetJob({0, &workload.graph, &workload.placement});
    recorder.SetChanges(changes.Live(), changes.Failures());
    recorder.Sample(*network);
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
    summary.setupSeconds = setup.Seconds();
    const Stopwatch run;
    ns3::Simulator::Run();
    summary.runSeconds = run.Seconds();

    for (const MessageRecord& record : network->Unfinished())
    {
        recorder.Row(record, executor.ContextOf(record.message));
    }
    for (const OperationRecord& record : executor.UnfinishedOperations())
    {
        recorder.OperationFinished(record);
    }
    SummarisePackets(*network, recorder, executor.Done(), scenario, options, summary);
    if (!summary.complete)
    {
        summary.waiting = changes.Lacks(kWaitingLines);
        const std::vector<std::string> waiting = executor.DescribeWaiting(kWaitingLines);
        summary.waiting.insert(summary.waiting.end(), waiting.begin(), waiting.end());
    }
    changes.Summarise(summary);
    summary.iterationTimes = executor.IterationTimes();
    summary.fingerprint =
        recorder.Close(options, network->Links(), network->Now(), changes.Outages());
    summary.peakRssBytes = PeakRssBytes();
    network->Dispose();
    ns3::Simulator::Destroy();
    return summary;
}

} // namespace topoopt
