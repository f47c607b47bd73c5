// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_STRATEGY_H
#define TOPOOPT_CORE_STRATEGY_H

#include "topoopt/core/demand.h"
#include "topoopt/core/device.h"
#include "topoopt/core/fabric.h"
#include "topoopt/core/ids.h"
#include "topoopt/core/model.h"
#include "topoopt/core/scenario.h"
#include "topoopt/core/task-graph.h"
#include "topoopt/core/units.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace topoopt
{

/**
 * How one operator is split and where its parts run.
 *
 * dataParts share the batch evenly; each is split again into tensorParts that share the operator's weights
 * (an embedding: its rows), or do the same work if it cannot be split that far. A mixture's experts are shared by groups of expertParts consecutive data parts.
 */
struct OperatorSplit
{
    std::uint32_t dataParts = 1;
    std::uint32_t tensorParts = 1;
    std::uint32_t expertParts = 1;
    std::uint32_t stage = 0;   ///< of the pipeline
    std::vector<RankId> ranks; ///< [data * tensorParts + tensor], no repeats

    [[nodiscard]] RankId At(std::uint32_t data, std::uint32_t tensor) const
    {
        return ranks[std::size_t{data} * tensorParts + tensor];
    }

    friend bool operator==(const OperatorSplit& a, const OperatorSplit& b)
    {
        return a.dataParts == b.dataParts && a.tensorParts == b.tensorParts &&
               a.expertParts == b.expertParts && a.stage == b.stage && a.ranks == b.ranks;
    }
};

/** Into how many shards @p split cuts the operator's work and weights: tensorParts, or 1 if they are copies. */
[[nodiscard]] std::uint32_t WeightShards(const Operator& op, const OperatorSplit& split);

/** How a model is spread over the ranks of a job. */
struct Strategy
{
    std::string name = "data-parallel";
    std::vector<OperatorSplit> operators; ///< one per operator of the model
    std::uint32_t stages = 1;
    std::uint32_t microBatches = 1;
};

/** Options of BuildIteration; the defaults describe a real training job. */
struct BuildOptions
{
    /**
     * As the reference simulator has it: an AllReduce starts when the backward passes of all its members
     * have ended, AllReduces of one member exist, and weights are never updated by a task.
     */
    bool flexnet = false;
    BitRate intraRate{200'000'000'000};  ///< between GPUs of a server; 0 = infinitely fast
    std::vector<std::string> roots;      ///< of traces/, for compute times
    const ComputeTimes* times = nullptr; ///< instead of loading them again
};

/** The gist of a strategy: "dense x16; tables 16x1; pipeline 4 of 8 micro-batches". */
[[nodiscard]] std::string Summary(const Model& model, const Strategy& strategy);

/**
 * Data parallelism over all ranks; table t whole on rank t mod ranks.
 * @throws SpecError  the batch cannot be shared evenly
 */
[[nodiscard]] Strategy DataParallel(const Model& model, std::uint32_t ranks);

/** What Hybrid() is told. */
struct HybridOptions
{
    std::uint32_t tensor = 1;             ///< GPUs (or servers) that share an operator's weights
    std::uint32_t pipeline = 1;           ///< stages
    std::uint32_t microBatches = 1;       ///< per iteration
    std::uint32_t expert = 1;             ///< data parts that share a mixture's experts
    std::string embedding = "table-wise"; ///< or row-wise (over all ranks), or data-parallel
};

/**
 * Tensor parallelism over neighbouring ranks, pipeline stages of contiguous operators with about equal compute,
 * data parallelism over the rest. Rank = ((data * stages) + stage) * tensor + shard, so that tensor groups
 * fill servers first.
 * @throws SpecError naming @p place: counts that do not divide what they must
 */
[[nodiscard]] Strategy Hybrid(const Model& model,
                              std::uint32_t ranks,
                              const HybridOptions& options,
                              const ComputeTimes& times,
                              const std::string& place);

/** @throws SpecError if @p strategy does not fit @p model on @p ranks; says which operator and why */
void CheckStrategy(const Model& model, const Strategy& strategy, std::uint32_t ranks);

/** Device memory that a strategy needs, per rank. */
struct MemoryUse
{
    std::vector<double> bytes; ///< by rank: weights, gradients, optimizer state, activations
    double capacity = 0;       ///< of one rank's GPUs together
    RankId worst = 0;

    [[nodiscard]] bool Fits() const
    {
        return bytes.empty() || bytes[worst] <= capacity;
    }
};

/**
 * Weights, gradients (not for tables, whose updates are sparse), optimizer state, and the activations kept for as
 * many micro-batches as 1F1B has in flight. A server rank holds one copy of the weights per GPU, and spreads
 * tables over its GPUs. O(operators * parts).
 */
[[nodiscard]] MemoryUse MemoryOf(const Model& model,
                                 const Strategy& strategy,
                                 std::uint32_t ranks,
                                 const Device& device);

/**
 * The task graph of some training iterations.
 *
 * Per operator, part and micro-batch a forward and a backward task; transfers where a consumer's samples are
 * made on another rank (one message per producer part, consumer part and tensor, as in the reference); tensor
 * and expert collectives; after the last backward pass an AllReduce per weight tensor over the ranks that
 * hold it, overlapping with the rest of the backward pass. A server rank first reduces over its GPUs: 2 S / GPUs at
 * intraRate. Collectives inside one server take that time as part of the compute task. An iteration starts
 * when all tasks of the one before have ended; the Join between them is named "iteration K" and in
 * TaskGraph::iterationEnds.
 *
 * @param servers,ranksPerServer  rank r is on server r / ranksPerServer
 * @param iterations  1..100000
 * @throws SpecError  the strategy does not fit; more than 2^26 tasks
 */
[[nodiscard]] TaskGraph BuildIteration(const Model& model,
                                       const Strategy& strategy,
                                       std::uint32_t servers,
                                       std::uint32_t ranksPerServer,
                                       std::uint32_t iterations,
                                       const BuildOptions& options = {});

/**
 * Bytes that a graph moves between servers, all iterations together.
 *
 * AllReduces, and AllGathers and ReduceScatters as half an AllReduce, are summed by their set of servers, in the
 * order in which the group visits them; everything else counts by pair. @p ranksToServers has an entry per rank.
 */
[[nodiscard]] Demand DemandOf(const TaskGraph& graph, const std::vector<ServerId>& ranksToServers);

/** rank / (ranks / servers) for every rank. */
[[nodiscard]] std::vector<ServerId> BlockPlacement(std::uint32_t ranks, std::uint32_t servers);

/** Model and strategy of a scenario, resolved. */
struct ModelJob
{
    Model model;
    Strategy strategy;
    BuildOptions build;
    std::uint32_t ranksPerServer = 1;
    std::vector<std::string> warnings; ///< e.g. a strategy that does not fit but was to run anyway
};

/**
 * Reads a scenario's `workload: {model: ...}` and `strategy:`.
 *
 * Strategy keys: kind (data-parallel | hybrid | model = what the model file suggests), tensor, pipeline,
 * micro_batches, expert, embedding (table-wise | row-wise | data-parallel), memory (check | ignore), compat (none | flexnet).
 * The keys of a search (doc/workloads.rst) are accepted and left to it. Workload options are those of ModelOptions.
 * @throws SpecError  also if the strategy does not fit into device memory, by how much
 */
[[nodiscard]] ModelJob ResolveModelJob(const WorkloadSpec& workload,
                                       const ServerSpec& servers,
                                       const std::map<std::string, std::string>& strategy);

/** The scenario's strategy keys; `compat` follows `engine.compat` if unset. */
[[nodiscard]] std::map<std::string, std::string> StrategyOf(const Scenario& scenario);

/** ResolveModelJob, then BuildIteration. */
[[nodiscard]] TaskGraph BuildModelWorkload(const WorkloadSpec& workload,
                                           const ServerSpec& servers,
                                           const std::map<std::string, std::string>& strategy,
                                           std::uint32_t iterations,
                                           std::uint64_t seed);

} // namespace topoopt

#endif // TOPOOPT_CORE_STRATEGY_H
