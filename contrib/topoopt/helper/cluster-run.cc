// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/cluster-run.h"

#include "ns3/executor.h"
#include "ns3/fluid-run.h"
#include "ns3/packet-run.h"
#include "ns3/peek-scheduler.h"
#include "ns3/progress.h"
#include "ns3/shared-network.h"
#include "ns3/simulator.h"
#include "ns3/stopwatch.h"
#include "topoopt/core/error.h"
#include "topoopt/core/plan.h"
#include "topoopt/core/random.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace topoopt
{

namespace
{

constexpr SimTime kMaxRun = 100LL * 24 * 3600 * kSecond;

/** A job that is to be simulated. */
struct SimulatedJob
{
    std::uint32_t label = 0; ///< its number in the tables
    const LoadedKind* kind = nullptr;
    std::uint32_t iterations = 1;
};

/** What is simulated together. */
struct SharedRun
{
    const Scenario* scenario = nullptr;
    const Fabric* fabric = nullptr;
    const RunOptions* options = nullptr;
    std::vector<SimulatedJob> jobs;
    std::vector<ClusterJob> wanted; ///< by job
    ClusterOptions cluster;
};

/** What came of it. */
struct SharedOutcome
{
    std::vector<JobSchedule> jobs;
    ClusterUse use;
    std::vector<std::vector<SimTime>> iterations; ///< by job
};

/** Server of each rank of a job that has got servers. */
std::vector<ServerId>
PlacementOf(const LoadedKind& kind, const std::vector<ServerId>& servers)
{
    std::vector<ServerId> placement;
    for (const ServerId local : kind.workload.placement)
    {
        placement.push_back(servers[local]);
    }
    return placement;
}

/** Passes on what one job's executor reports, under the job's name. */
class JobObserver final : public ExecutionObserver
{
  public:
    JobObserver(RunRecorder& recorder, const RecordedJob& job)
        : m_recorder(recorder),
          m_job(job)
    {
    }

    void MessageFinished(const MessageRecord& record, const MessageContext& context) override
    {
        Recorder().MessageFinished(record, context);
    }

    void OperationFinished(const OperationRecord& record) override
    {
        Recorder().OperationFinished(record);
    }

    void TaskFinished(const TaskRecord& record) override
    {
        Recorder().TaskFinished(record);
    }

    [[nodiscard]] RunRecorder& Recorder()
    {
        m_recorder.SetJob(m_job);
        return m_recorder;
    }

  private:
    RunRecorder& m_recorder;
    RecordedJob m_job;
};

/** Jobs on one packet network: an executor per running job, started and replaced as the scheduler says. */
class PacketCluster
{
  public:
    PacketCluster(const SharedRun& run, RunSummary& summary)
        : m_run(run),
          m_summary(summary),
          m_collectives(run.scenario->collectives),
          m_scheduler(run.cluster, run.wanted)
    {
        m_outcome.iterations.resize(run.jobs.size());
    }

    SharedOutcome Run()
    {
        const Stopwatch setup;
        const Scenario& scenario = *m_run.scenario;
        const RunOptions& options = *m_run.options;
        ns3::PeekScheduler::Install();
        m_network = ns3::CreateObject<PacketNetwork>();
        m_network->Build(m_run.fabric->topology, PacketConfigOf(scenario));
        m_shared = std::make_unique<SharedNetwork>(*m_network);
        std::uint64_t tasks = 0;
        for (const SimulatedJob& job : m_run.jobs)
        {
            tasks += job.kind->workload.graph.tasks.size() * std::uint64_t{job.iterations};
        }
        m_recorder = std::make_unique<RunRecorder>(scenario, *m_run.fabric, options, tasks);
        m_recorder->Sample(*m_network);
        m_shared->SetAfter([this](std::uint32_t view) { LookAt(view); });
        ProgressLine progress(options.progress, m_run.fabric->name);
        m_network->SetHeartbeat([&] {
            progress.Update(static_cast<double>(m_ended) / static_cast<double>(m_run.jobs.size()),
                            m_network->Now(),
                            m_network->Totals().events);
            return options.interrupt == nullptr ||
                   !options.interrupt->load(std::memory_order_relaxed);
        });
        m_shared->CallAt(0, [this] { Turn(); });
        m_network->Start(scenario.stop);
        m_summary.setupSeconds = setup.Seconds();
        const Stopwatch run;
        ns3::Simulator::Run();
        m_summary.runSeconds = run.Seconds();
        Conclude();
        m_network->Dispose();
        ns3::Simulator::Destroy();
        m_outcome.jobs = m_scheduler.Jobs();
        m_outcome.use = m_scheduler.Use();
        return std::move(m_outcome);
    }

  private:
    /** A job that has started; a view of the network each. */
    struct Running
    {
        std::uint32_t job = 0;
        std::vector<ServerId> placement;
        std::unique_ptr<JobObserver> observer;
        std::unique_ptr<TaskExecutor> executor; ///< null once nothing refers to it any more
        bool over = false;
    };

    void LookAt(std::uint32_t view)
    {
        Running& running = *m_running[view];
        if (running.over || !running.executor->Done())
        {
            return;
        }
        running.over = true;
        m_outcome.iterations[running.job] = running.executor->IterationTimes();
        m_over.push_back(running.job);
        m_leaving.push_back(view);
        ++m_ended;
        // After everything else of this instant, so that the order of ends in it does not matter.
        m_shared->CallAt(m_network->Now(), [this] { Turn(); });
    }

    void Turn()
    {
        const SimTime now = m_network->Now();
        if (!m_over.empty() || m_scheduler.Next() <= now)
        {
            std::vector<std::uint32_t> ended = std::exchange(m_over, {});
            std::sort(ended.begin(), ended.end());
            for (const std::uint32_t job : m_scheduler.Advance(now, ended))
            {
                Start(job);
            }
        }
        const SimTime next = m_scheduler.Next();
        if (next != kNever && next != m_called)
        {
            m_called = next;
            m_shared->CallAt(next, [this] { Turn(); });
        }
        // Acknowledgements of a job's last messages may come after its end.
        const auto gone = [this](std::uint32_t view) {
            if (m_shared->Outstanding(view) > 0)
            {
                return false;
            }
            m_running[view]->executor.reset();
            return true;
        };
        m_leaving.erase(std::remove_if(m_leaving.begin(), m_leaving.end(), gone), m_leaving.end());
    }

    void Start(std::uint32_t job)
    {
        const SimulatedJob& simulated = m_run.jobs[job];
        const Workload& workload = simulated.kind->workload;
        MessageNetwork& view = m_shared->NewView();
        m_running.push_back(std::make_unique<Running>());
        Running& running = *m_running.back();
        running.job = job;
        running.placement = PlacementOf(*simulated.kind, m_scheduler.Jobs()[job].servers);
        running.observer = std::make_unique<JobObserver>(
            *m_recorder,
            RecordedJob{simulated.label, &workload.graph, &running.placement});
        ExecutorConfig config;
        config.graph = &workload.graph;
        config.fabric = m_run.fabric;
        config.collectives = &m_collectives;
        config.placement = running.placement;
        config.iterations = simulated.iterations;
        config.seed = m_run.scenario->seed;
        running.executor = std::make_unique<TaskExecutor>(config, view, *running.observer);
        const auto number = static_cast<std::uint32_t>(m_running.size() - 1);
        running.executor->Begin();
        LookAt(number);
    }

    void Conclude()
    {
        for (MessageRecord record : m_network->Unfinished())
        {
            Running& running = *m_running[SharedNetwork::ViewOf(record)];
            running.observer->Recorder().Row(record, running.executor->ContextOf(record.message));
        }
        const RunOptions& options = *m_run.options;
        SummarisePackets(*m_network,
                         *m_recorder,
                         m_scheduler.Done(),
                         *m_run.scenario,
                         options,
                         m_summary);
        for (const auto& running : m_running)
        {
            if (running->executor == nullptr)
            {
                continue;
            }
            for (const OperationRecord& record : running->executor->UnfinishedOperations())
            {
                running->observer->Recorder().OperationFinished(record);
            }
            const std::size_t room =
                kWaitingLines - std::min(kWaitingLines, m_summary.waiting.size());
            if (running->over || room == 0)
            {
                continue;
            }
            for (const std::string& line : running->executor->DescribeWaiting(room))
            {
                m_summary.waiting.push_back(
                    "job " + std::to_string(m_run.jobs[running->job].label) + ": " + line);
            }
        }
        m_summary.fingerprint = m_recorder->Close(options, m_network->Links(), m_network->Now());
    }

    const SharedRun& m_run;
    RunSummary& m_summary;
    CollectiveChoice m_collectives;
    ClusterScheduler m_scheduler;
    ns3::Ptr<PacketNetwork> m_network;
    std::unique_ptr<SharedNetwork> m_shared;
    std::unique_ptr<RunRecorder> m_recorder;
    std::vector<std::unique_ptr<Running>> m_running; ///< by view
    std::vector<std::uint32_t> m_over;               ///< jobs that ended in this instant
    std::vector<std::uint32_t> m_leaving;            ///< views of jobs that are over
    SimTime m_called = kNever;
    std::uint64_t m_ended = 0;
    SharedOutcome m_outcome;
};

/** The same by fluid flows. */
SharedOutcome
RunFluid(const SharedRun& run, RunSummary& summary)
{
    const Stopwatch watch;
    const Scenario& scenario = *run.scenario;
    const RunOptions& options = *run.options;
    const CollectiveChoice collectives(scenario.collectives);
    FluidRecorder recorder(scenario, *run.fabric, options);
    std::vector<std::uint32_t> started; ///< jobs by number in the simulation
    const auto record = [&](const FlowRecord& flow) {
        const SimulatedJob& job = run.jobs[started[flow.job]];
        recorder.Add(flow, job.label, job.kind->workload.graph);
    };
    FlowSimOptions fluid;
    fluid.collectives = &collectives;
    fluid.wire = FlowWire::Roce(scenario.engine.mtu);
    fluid.intraRate = scenario.servers.intraRate;
    fluid.interrupt = options.interrupt;
    fluid.onFlow = record;
    FlowSimulation simulation(*run.fabric, fluid);
    ClusterScheduler scheduler(run.cluster, run.wanted);
    ProgressLine progress(options.progress, run.fabric->name);
    std::uint64_t ended = 0;
    SharedOutcome outcome;
    outcome.iterations.resize(run.jobs.size());
    while (!scheduler.Done())
    {
        const SimTime next = scheduler.Next();
        std::vector<std::uint32_t> over = simulation.Run(std::min(next, scenario.stop));
        if ((options.interrupt != nullptr && options.interrupt->load()) ||
            (over.empty() && (next == kNever || next > scenario.stop)))
        {
            break;
        }
        for (std::uint32_t& job : over)
        {
            const std::uint32_t number = job;
            job = started[number];
            outcome.iterations[job] = simulation.IterationTimes(number);
            ++ended;
        }
        std::sort(over.begin(), over.end());
        for (const std::uint32_t job : scheduler.Advance(simulation.Now(), over))
        {
            const SimulatedJob& simulated = run.jobs[job];
            started.push_back(job);
            simulation.Start(simulated.kind->workload.graph,
                             PlacementOf(*simulated.kind, scheduler.Jobs()[job].servers),
                             simulated.iterations);
        }
        progress.Update(static_cast<double>(ended) / static_cast<double>(run.jobs.size()),
                        simulation.Now(),
                        simulation.Events());
    }
    for (const FlowRecord& flow : simulation.UnderWay())
    {
        record(flow);
    }
    recorder.Close(summary, simulation.LinkBytes(), simulation.Now());
    summary.complete = scheduler.Done();
    summary.events = simulation.Events();
    summary.runSeconds = watch.Seconds();
    outcome.jobs = scheduler.Jobs();
    outcome.use = scheduler.Use();
    return outcome;
}

SharedOutcome
Simulate(const SharedRun& run, RunSummary& summary)
{
    return run.scenario->engine.fidelity == "flow" ? RunFluid(run, summary)
                                                   : PacketCluster(run, summary).Run();
}

/** Run time of one iteration of each kind alone on servers 0, 1, ... of a shared fabric, by fluid flows. */
std::vector<SimTime>
TimesAlone(const Scenario& scenario, const ClusterWorkload& cluster, const Fabric& fabric)
{
    const CollectiveChoice collectives(scenario.collectives);
    std::vector<SimTime> times;
    for (const LoadedKind& kind : cluster.kinds)
    {
        FlowSimOptions fluid;
        fluid.ranksToServers = kind.workload.placement;
        fluid.collectives = &collectives;
        fluid.wire = FlowWire::Roce(scenario.engine.mtu);
        fluid.intraRate = scenario.servers.intraRate;
        fluid.recordFlows = false;
        times.push_back(SimulateFlows(kind.workload.graph, fabric, fluid).finish);
    }
    return times;
}

/** @p iteration times @p iterations. */
SimTime
RunTime(const LoadedKind& kind, std::uint32_t iterations, SimTime iteration)
{
    if (iteration > kMaxRun / iterations)
    {
        throw SpecError(kind.spec.place,
                        "workload.jobs: found " + std::to_string(iterations) + " iterations of " +
                            FormatTime(iteration) + ", expected a job of at most 100 days");
    }
    return iteration * iterations;
}

ClusterOptions
OptionsOf(const Scenario& scenario, const ClusterWorkload& cluster)
{
    ClusterOptions options;
    options.servers = scenario.servers.count;
    options.queue = cluster.spec.queue;
    options.placement = cluster.spec.placement;
    options.seed = scenario.seed;
    return options;
}

/** Iteration times of one job. */
struct Spread
{
    SimTime mean = 0;
    SimTime p50 = 0;
    SimTime p99 = 0;
};

/** Nearest-rank percentiles of weighted values, which are sorted by this. */
Spread
SpreadOf(std::vector<std::pair<SimTime, double>> values)
{
    Spread spread;
    if (values.empty())
    {
        return spread;
    }
    std::sort(values.begin(), values.end());
    double weights = 0;
    double sum = 0;
    for (const auto& [value, weight] : values)
    {
        weights += weight;
        sum += weight * static_cast<double>(value);
    }
    spread.mean = static_cast<SimTime>(sum / weights + 0.5);
    const auto at = [&](double share) {
        double below = 0;
        for (const auto& [value, weight] : values)
        {
            below += weight;
            // Sums of weights are not exact.
            if (below >= share * weights * (1 - 1e-12))
            {
                return value;
            }
        }
        return values.back().first;
    };
    spread.p50 = at(0.5);
    spread.p99 = at(0.99);
    return spread;
}

std::vector<std::pair<SimTime, double>>
Weighted(const std::vector<SimTime>& times)
{
    std::vector<std::pair<SimTime, double>> values;
    for (const SimTime time : times)
    {
        values.emplace_back(time, 1.0 / static_cast<double>(times.size()));
    }
    return values;
}

void
WriteJobs(const ClusterWorkload& cluster,
          const SharedOutcome& outcome,
          const RunOptions& options,
          RunSummary& summary)
{
    CsvFile csv(options.directory + "/jobs.csv", options.head, kJobColumns);
    const auto time = [&csv](SimTime value) {
        if (value == kNever)
        {
            csv.Skip();
        }
        else
        {
            csv.Add(value);
        }
    };
    for (std::uint32_t job = 0; job < cluster.jobs.size(); ++job)
    {
        const JobSchedule& at = outcome.jobs[job];
        const ClusterEntry& entry = cluster.jobs[job];
        const JobKind& kind = cluster.kinds[entry.kind].spec;
        csv.Add(job).Add(kind.name).Add(kind.servers).Add(entry.iterations);
        time(at.arrival);
        time(at.assigned);
        const bool patched = at.patchEnd != kNever && at.patchEnd > at.patchBegin;
        time(patched ? at.patchBegin : kNever);
        time(patched ? at.patchEnd : kNever);
        time(at.start);
        time(at.end);
        time(at.start == kNever ? kNever : at.Queueing());
        csv.Add(at.Patching());
        csv.Add(at.start == kNever ? SimTime{0} : at.Hidden());
        csv.Add(at.flip);
        time(at.end == kNever ? kNever : at.end - at.start);
        const Spread spread = SpreadOf(Weighted(outcome.iterations[job]));
        const bool any = !outcome.iterations[job].empty();
        time(any ? spread.mean : kNever);
        time(any ? spread.p50 : kNever);
        time(any ? spread.p99 : kNever);
        csv.Add(std::uint32_t{at.overtook ? 1U : 0U});
        csv.Add(FormatNumbers(at.servers));
        csv.Add(at.end != kNever        ? "done"
                : at.start != kNever    ? "running"
                : at.assigned != kNever ? "assigned"
                                        : "queued");
        csv.EndRow();
    }
    summary.fingerprint = Mix64(summary.fingerprint, csv.Close());
}

ClusterSummary
Summarise(const SharedOutcome& outcome)
{
    ClusterSummary summary;
    summary.jobs = outcome.jobs.size();
    std::vector<std::pair<SimTime, double>> values;
    double waiting = 0;
    double queueing = 0;
    double patching = 0;
    double hidden = 0;
    for (std::size_t job = 0; job < outcome.jobs.size(); ++job)
    {
        const JobSchedule& at = outcome.jobs[job];
        if (at.end == kNever)
        {
            continue;
        }
        ++summary.finished;
        summary.overtook += at.overtook ? 1 : 0;
        waiting += static_cast<double>(at.start - at.arrival);
        queueing += static_cast<double>(at.Queueing());
        patching += static_cast<double>(at.Patching());
        hidden += static_cast<double>(at.Hidden());
        summary.queueingMax = std::max(summary.queueingMax, at.Queueing());
        const auto own = Weighted(outcome.iterations[job]);
        values.insert(values.end(), own.begin(), own.end());
    }
    const auto mean = [&summary](double sum) {
        return summary.finished == 0
                   ? SimTime{0}
                   : static_cast<SimTime>(sum / static_cast<double>(summary.finished) + 0.5);
    };
    summary.waitingMean = mean(waiting);
    summary.queueingMean = mean(queueing);
    summary.patchingMean = mean(patching);
    summary.hiddenMean = mean(hidden);
    const Spread spread = SpreadOf(std::move(values));
    summary.iterationMean = spread.mean;
    summary.iterationP50 = spread.p50;
    summary.iterationP99 = spread.p99;
    summary.makespan = outcome.use.to - outcome.use.from;
    summary.utilisation = outcome.use.utilisation;
    summary.occupation = outcome.use.occupation;
    summary.fragmentation = outcome.use.fragmentation;
    summary.fragmentedWait = outcome.use.fragmentedWait;
    return summary;
}

} // namespace

RunSummary
RunClusterOnFabric(const Scenario& scenario,
                   const ClusterWorkload& cluster,
                   const ClusterFabric& fabric,
                   const RunOptions& options)
{
    RunSummary summary;
    summary.fabric = fabric.fabric.name;
    summary.kind = fabric.fabric.kind;
    summary.fidelity = scenario.engine.fidelity;
    ClusterOptions rules = OptionsOf(scenario, cluster);
    SharedRun run;
    run.scenario = &scenario;
    run.fabric = &fabric.fabric;
    run.options = &options;
    std::vector<ClusterJob> wanted;
    for (const ClusterEntry& entry : cluster.jobs)
    {
        wanted.push_back(
            {cluster.kinds[entry.kind].spec.servers, entry.arrival, entry.estimate, 0});
    }
    SharedOutcome outcome;
    if (fabric.sharded)
    {
        // The shards of one job of each kind side by side, an iteration each, all at once.
        run.cluster.servers = fabric.fabric.topology.servers;
        for (const std::uint32_t job : fabric.members)
        {
            const LoadedKind& kind = cluster.kinds[cluster.jobs[job].kind];
            run.jobs.push_back({job, &kind, 1});
            run.wanted.push_back({kind.spec.servers, 0, 0, 0});
        }
        const SharedOutcome alone = Simulate(run, summary);
        std::vector<SimTime> iteration(cluster.kinds.size(), 0);
        for (std::size_t k = 0; k < fabric.members.size(); ++k)
        {
            iteration[cluster.jobs[fabric.members[k]].kind] =
                alone.iterations[k].empty() ? kNever : alone.iterations[k][0];
        }
        rules.panel = fabric.panel;
        if (summary.complete)
        {
            std::vector<SimTime> durations;
            for (std::size_t job = 0; job < wanted.size(); ++job)
            {
                const ClusterEntry& entry = cluster.jobs[job];
                durations.push_back(
                    RunTime(cluster.kinds[entry.kind], entry.iterations, iteration[entry.kind]));
                wanted[job].circuits = fabric.circuits[entry.kind];
                wanted[job].estimate = entry.estimate > 0 ? entry.estimate : durations[job];
            }
            FixedSchedule schedule = ScheduleJobs(rules, wanted, durations, scenario.stop);
            outcome.jobs = std::move(schedule.jobs);
            outcome.use = schedule.use;
            for (std::size_t job = 0; job < wanted.size(); ++job)
            {
                const bool started = outcome.jobs[job].start != kNever;
                outcome.iterations.push_back(
                    started ? std::vector<SimTime>{iteration[cluster.jobs[job].kind]}
                            : std::vector<SimTime>{});
            }
        }
        else
        {
            outcome.jobs.resize(wanted.size());
            outcome.iterations.resize(wanted.size());
        }
    }
    else
    {
        run.cluster = rules;
        const std::vector<SimTime> alone = rules.queue == QueueRule::Backfill
                                               ? TimesAlone(scenario, cluster, fabric.fabric)
                                               : std::vector<SimTime>(cluster.kinds.size(), 0);
        for (std::uint32_t job = 0; job < wanted.size(); ++job)
        {
            const ClusterEntry& entry = cluster.jobs[job];
            const LoadedKind& kind = cluster.kinds[entry.kind];
            run.jobs.push_back({job, &kind, entry.iterations});
            if (entry.estimate == 0)
            {
                wanted[job].estimate = RunTime(kind, entry.iterations, alone[entry.kind]);
            }
        }
        run.wanted = wanted;
        outcome = Simulate(run, summary);
    }
    for (const std::string& violation : CheckSchedule(rules, wanted, outcome.jobs))
    {
        summary.violations.push_back(violation);
    }
    const auto notEnded = [](const JobSchedule& job) { return job.end == kNever; };
    const auto left = std::count_if(outcome.jobs.begin(), outcome.jobs.end(), notEnded);
    if (left > 0)
    {
        summary.complete = false;
        summary.waiting.push_back(std::to_string(left) + " of " +
                                  std::to_string(outcome.jobs.size()) + " jobs have not ended");
    }
    for (const std::vector<SimTime>& times : outcome.iterations)
    {
        if (!times.empty())
        {
            summary.iterationTimes.push_back(SpreadOf(Weighted(times)).mean);
        }
    }
    summary.cluster = Summarise(outcome);
    if (!options.directory.empty())
    {
        WriteJobs(cluster, outcome, options, summary);
    }
    summary.peakRssBytes = PeakRssBytes();
    return summary;
}

} // namespace topoopt
