// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_PLAN_H
#define TOPOOPT_CORE_PLAN_H

#include "topoopt/core/demand.h"
#include "topoopt/core/fabric.h"
#include "topoopt/core/scenario.h"
#include "topoopt/core/search.h"
#include "topoopt/core/strategy.h"
#include "topoopt/core/task-graph.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace topoopt
{

/**
 * What a search decided, complete enough to run: a job's strategy, and the fabric with the demand
 * that it was wired for. Written as YAML that people can read and diff.
 */
struct Plan
{
    std::string name;
    std::string file; ///< where it was read from
    std::uint64_t seed = 1;
    ServerSpec servers;
    EngineSpec engine; ///< what it was made for, and runs on
    std::map<std::string, std::string> collectives;
    ResultSpec results;
    WorkloadSpec workload;                              ///< a model
    std::map<std::string, std::string> strategyOptions; ///< compat, memory
    Strategy strategy;
    FabricSpec fabric;
    Demand demand; ///< that the fabric is wired for
    /** Neighbours of every server in order of ports; empty if the fabric has switches. Checked when the fabric is built. */
    std::vector<std::vector<ServerId>> cables;
    double startMs =
        0; ///< of the start by the search's judge, SimulateFlows() unless packets judged every round
    double confirmedMs = 0; ///< of the result by the same
    double estimateMs = 0;
    double packetStartMs = 0; ///< on packets; 0 = not run
    double packetMs = 0;      ///< of the result; never above packetStartMs
    std::uint32_t proposals = 0;
    std::uint32_t topologies = 0;
    bool interrupted = false;
    std::vector<SearchRound> rounds;
};

/** YAML of a plan; ReadPlan() gives an equal plan. */
[[nodiscard]] std::string WritePlan(const Plan& plan);

/** Whether a file is a plan and no scenario: its first key is `plan`. @throws SpecError if it is no YAML */
[[nodiscard]] bool IsPlanFile(const std::string& file);

/** @throws SpecError FILE:LINE:COL: key: found, expected */
[[nodiscard]] Plan ReadPlan(const std::string& file);

/**
 * A scenario with the plan's job, servers, seed and fabric, for a run: its task graph is PlanTaskGraph(), its
 * fabric PlanFabric().
 */
[[nodiscard]] Scenario ScenarioOf(const Plan& plan);

/** The plan's fabric. @throws SpecError if its cables are not those of the plan (another version wires differently) */
[[nodiscard]] Fabric PlanFabric(const Plan& plan);

/** The plan's job. @throws SpecError if the strategy does not fit the model file any more */
[[nodiscard]] TaskGraph PlanTaskGraph(const Plan& plan, std::uint32_t iterations);

/** What a caller of MakePlan() may ask for besides the scenario. */
struct PlanRequest
{
    std::string
        from; ///< an earlier plan to go on from; "" = data parallelism, or the scenario's `strategy.kind`
    const std::atomic<bool>* interrupt = nullptr;
    std::function<void(const std::string&)> log;
    /**
     * Milliseconds on packets, < 0 if interrupted; null = packets are not asked. When: `strategy.confirm` of the
     * scenario. `final` (the default): the search is judged by SimulateFlows(), and at its end the start and the best are
     * run; a best that is worse than the start gives way to the improvement before it, and so on back to the
     * start. `rounds`: what every round finds is run. `none`: never.
     */
    std::function<double(const TaskGraph&, const Fabric&)> confirm;
};

/**
 * Searches strategy and topology for a scenario with a model: `topoopt plan`.
 *
 * The fabric is the first one of kind topoopt, else the first one, which then is not moved. Interrupted, it answers the
 * best so far.
 * @throws SpecError  no model, an earlier plan for another job, or anything that ResolveModelJob() or
 *         BuildFabric() says
 */
[[nodiscard]] Plan MakePlan(const Scenario& scenario, const PlanRequest& request);

/** "0-3,8,16-31/5": runs a-b with steps, in order. */
[[nodiscard]] std::string FormatNumbers(const std::vector<std::uint32_t>& numbers);
/** The inverse; at most @p most numbers. @throws std::invalid_argument */
[[nodiscard]] std::vector<std::uint32_t> ParseNumbers(const std::string& text, std::size_t most);

} // namespace topoopt

#endif // TOPOOPT_CORE_PLAN_H
