// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/alternating.h"

#include "topoopt/core/error.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace topoopt
{

namespace
{

void
Log(const SearchOptions& options, const SearchRound& round)
{
    if (!options.log)
    {
        return;
    }
    char times[160];
    std::snprintf(times,
                  sizeof times,
                  "round %u: estimate %.4f ms, confirmed %.4f ms%s, %u of %u proposals accepted; ",
                  round.round,
                  round.estimateMs,
                  round.confirmedMs,
                  round.better ? " (better)" : "",
                  round.accepted,
                  round.proposals);
    options.log(times + round.strategy + (round.topology.empty() ? "" : "; ") + round.topology);
}

std::uint64_t
RateOfServer(const Fabric& fabric)
{
    std::uint64_t bps = 0;
    for (const LinkId link : fabric.topology.Out(0))
    {
        bps += fabric.topology.links[link].rate.bps;
    }
    return bps;
}

/** Gains of the fluid simulator that are smaller may be losses on packets. */
double
Margin(const SearchProblem& problem)
{
    return problem.confirm ? 0.0 : 0.003;
}

/** A strategy on a fabric, with its estimate. */
struct Candidate
{
    Strategy strategy;
    Fabric fabric;
    Demand demand;
    double ms = 0;
};

SearchResult
SearchGrid(const SearchProblem& problem, const Strategy& start, const SearchOptions& options)
{
    SearchResult result;
    const auto demandOf = [&](const Strategy& strategy) {
        BuildOptions build;
        build.intraRate = problem.estimate.intraRate;
        build.times = problem.times;
        const TaskGraph graph = BuildIteration(*problem.model,
                                               strategy,
                                               problem.servers,
                                               problem.ranksPerServer,
                                               1,
                                               build);
        return DemandOf(graph, BlockPlacement(graph.ranks, problem.servers));
    };
    SearchStep first;
    first.strategy = start;
    first.demand = problem.startDemand != nullptr ? *problem.startDemand : demandOf(start);
    first.fabric = problem.topology(first.demand);
    result.topologies = 1;
    result.startMs = ConfirmedMs(problem, start, first.fabric);
    first.confirmedMs = result.startMs;
    first.estimateMs = result.startMs;
    result.Take(std::move(first));
    const std::vector<HybridCandidate> grid =
        HybridGrid(problem, BitRate{RateOfServer(result.fabric)}, options.ignoreMemory);
    const std::size_t most = std::min<std::size_t>(options.budget, 24);
    std::uint32_t count = 0;
    for (const HybridCandidate& candidate : grid)
    {
        // A bound that is above the best ends the search: all that follow are worse.
        if (count >= most || options.Interrupted() || candidate.boundMs > result.confirmedMs)
        {
            break;
        }
        SearchRound round;
        round.round = ++count;
        round.proposals = 1;
        round.estimateMs = candidate.boundMs;
        Demand demand = options.fixedTopology ? result.demand : demandOf(candidate.strategy);
        Fabric fabric = options.fixedTopology ? result.fabric : problem.topology(demand);
        result.topologies += options.fixedTopology ? 0 : 1;
        round.confirmedMs = ConfirmedMs(problem, candidate.strategy, fabric);
        if (round.confirmedMs < 0)
        {
            break; // interrupted
        }
        round.better = round.confirmedMs < result.confirmedMs * (1 - Margin(problem));
        round.accepted = round.better ? 1 : 0;
        const HybridOptions& h = candidate.options;
        round.strategy = "tensor " + std::to_string(h.tensor) + ", pipeline " +
                         std::to_string(h.pipeline) + ", expert " + std::to_string(h.expert) +
                         ", " + std::to_string(h.microBatches) + " micro-batches";
        round.topology = DescribeTopology(fabric.topology);
        if (round.better)
        {
            SearchStep step{candidate.strategy,
                            std::move(fabric),
                            std::move(demand),
                            round.confirmedMs,
                            candidate.boundMs};
            step.strategy.name = round.strategy;
            result.Take(std::move(step));
        }
        Log(options, round);
        result.rounds.push_back(std::move(round));
        ++result.proposals;
    }
    result.interrupted = options.Interrupted();
    return result;
}

} // namespace

std::vector<HybridCandidate>
HybridGrid(const SearchProblem& problem, BitRate perServer, bool ignoreMemory)
{
    const Model& model = *problem.model;
    const std::uint32_t ranks = problem.servers * problem.ranksPerServer;
    std::uint32_t experts = 1;
    for (const Operator& op : model.operators)
    {
        experts = std::max(experts, op.experts);
    }
    std::vector<HybridCandidate> out;
    for (const std::uint32_t tensor : DivisorsOf(problem.ranksPerServer))
    {
        for (const std::uint32_t pipeline : DivisorsOf(ranks / tensor))
        {
            if (pipeline > model.operators.size() / 2)
            {
                continue;
            }
            const std::uint32_t data = ranks / tensor / pipeline;
            for (const std::uint32_t expert : DivisorsOf(experts))
            {
                if (data % expert != 0)
                {
                    continue;
                }
                for (const std::uint32_t micro :
                     {1U, pipeline, 2 * pipeline, 4 * pipeline, 8 * pipeline})
                {
                    const std::uint64_t pieces = std::uint64_t{data} * micro;
                    if (micro == 0 || model.GlobalBatch() % pieces != 0 ||
                        (pipeline == 1 && micro > 8))
                    {
                        continue;
                    }
                    HybridCandidate candidate;
                    candidate.options = {tensor, pipeline, micro, expert, "table-wise"};
                    const bool seen =
                        std::any_of(out.begin(), out.end(), [&](const HybridCandidate& c) {
                            return c.options.tensor == tensor && c.options.pipeline == pipeline &&
                                   c.options.expert == expert && c.options.microBatches == micro;
                        });
                    if (seen)
                    {
                        continue;
                    }
                    try
                    {
                        candidate.strategy =
                            Hybrid(model, ranks, candidate.options, *problem.times, "grid");
                    }
                    catch (const SpecError&)
                    {
                        continue; // heads or experts that do not divide
                    }
                    if (!ignoreMemory &&
                        !MemoryOf(model, candidate.strategy, ranks, problem.times->GetDevice())
                             .Fits())
                    {
                        continue;
                    }
                    // The slowest stage sets the pace; the others fill and drain the pipeline. Per layer and
                    // micro-batch, tensor groups exchange activations inside the server.
                    std::vector<double> stage(pipeline);
                    double weights = 0;
                    const double samples =
                        static_cast<double>(model.GlobalBatch()) / static_cast<double>(pieces);
                    for (std::size_t i = 0; i < model.operators.size(); ++i)
                    {
                        const Operator& op = model.operators[i];
                        const OperatorSplit& split = candidate.strategy.operators[i];
                        const std::uint32_t shards = WeightShards(op, split);
                        const double exchange =
                            op.exchange == TensorExchange::None ||
                                    problem.estimate.intraRate.bps == 0
                                ? 0.0
                                : 4.0 * (shards - 1) / shards * samples *
                                      static_cast<double>(op.outputElements) *
                                      op.outputElementBytes * 8e3 /
                                      static_cast<double>(problem.estimate.intraRate.bps);
                        stage[split.stage] +=
                            static_cast<double>(problem.times->Forward(op, samples, shards) +
                                                problem.times->Backward(op, samples, shards)) /
                                1e9 +
                            exchange;
                        weights +=
                            static_cast<double>(op.ParameterBytes()) / split.expertParts / pipeline;
                    }
                    const double slowest = *std::max_element(stage.begin(), stage.end());
                    double sum = 0;
                    for (const double ms : stage)
                    {
                        sum += ms;
                    }
                    const double reduce = data < 2 ? 0.0
                                                   : 2.0 * (data - 1) / data * weights * 8e3 /
                                                         static_cast<double>(perServer.bps) *
                                                         problem.ranksPerServer / tensor;
                    candidate.boundMs = slowest * (micro - 1) + sum;
                    // Gradients overlap with the last backward pass at best.
                    candidate.boundMs = std::max(candidate.boundMs, reduce);
                    out.push_back(std::move(candidate));
                }
            }
        }
    }
    std::stable_sort(
        out.begin(),
        out.end(),
        [](const HybridCandidate& a, const HybridCandidate& b) { return a.boundMs < b.boundMs; });
    return out;
}

SearchResult
Optimise(const SearchProblem& given, const Strategy& start, const SearchOptions& options)
{
    SearchProblem problem = given;
    std::mutex mutex;
    problem.estimate.mutex = &mutex;
    // A mutex of its own: chains that only ask for routes need not wait while a topology is built.
    std::mutex building;
    problem.topology = [&](const Demand& demand) {
        const std::lock_guard<std::mutex> lock(building);
        return given.topology(demand);
    };
    problem.estimate.flexnet = options.flexnet;
    CheckStrategy(*problem.model, start, problem.servers * problem.ranksPerServer);
    if (problem.model->rankPerGpu || !IterationEstimator::Covers(start))
    {
        return SearchGrid(problem, start, options);
    }
    if (options.flexnet)
    {
        return FlexNetSearch(problem, start, options);
    }
    const std::uint32_t ranks = problem.servers * problem.ranksPerServer;
    const SearchSpace space(*problem.model, *problem.times, ranks, options);
    SearchResult result;
    IterationEstimator judge(*problem.model,
                             *problem.times,
                             problem.servers,
                             problem.ranksPerServer,
                             problem.estimate);
    judge.Set(start);
    SearchStep first;
    first.strategy = start;
    first.demand = problem.startDemand != nullptr ? *problem.startDemand : judge.CurrentDemand();
    first.fabric = problem.topology(first.demand);
    result.topologies = 1;
    judge.SetFabric(first.fabric);
    first.estimateMs = judge.Run();
    result.startMs = ConfirmedMs(problem, start, first.fabric);
    first.confirmedMs = result.startMs;
    result.Take(std::move(first));
    judge.SetFabric(result.fabric);

    const std::uint32_t rounds = std::max(1U, options.rounds);
    const std::uint32_t perChain = options.budget / rounds / std::max(1U, options.restarts);
    std::uint32_t without = 0;
    for (std::uint32_t r = 1; r <= rounds && options.budget > 0 && !options.Interrupted(); ++r)
    {
        // Every second chain first looks for another pair of strategy and topology, then walks there.
        std::vector<WalkResult> found(options.restarts);
        std::vector<JointResult> joint(options.restarts);
        std::vector<std::exception_ptr> errors(options.restarts);
        std::atomic<std::uint32_t> next{0};
        const auto work = [&] {
            for (std::uint32_t chain = next++; chain < options.restarts; chain = next++)
            {
                try
                {
                    Rng rng(Mix64(options.seed, Mix64(r + options.firstRound, chain)), "walk");
                    IterationEstimator estimator(*problem.model,
                                                 *problem.times,
                                                 problem.servers,
                                                 problem.ranksPerServer,
                                                 problem.estimate);
                    estimator.SetFabric(result.fabric);
                    estimator.Set(result.strategy);
                    // Hotter the longer nothing was found, and from chain to chain.
                    SearchOptions own = options;
                    own.temperature *= std::pow(2.0, without) * (chain % 2 == 1 ? 8.0 : 1.0);
                    std::uint32_t left = perChain;
                    const std::uint32_t coarse = perChain / 8;
                    if (chain % 2 == 1 && !options.fixedTopology && coarse > 0)
                    {
                        JointWalk(estimator,
                                  space,
                                  problem,
                                  own,
                                  result.fabric,
                                  result.demand,
                                  coarse,
                                  rng,
                                  joint[chain]);
                        left -= coarse;
                    }
                    found[chain] = Walk(estimator, space, problem, own, left, rng);
                    found[chain].proposals += joint[chain].walk.proposals;
                    found[chain].accepted += joint[chain].walk.accepted;
                }
                catch (...)
                {
                    errors[chain] = std::current_exception();
                }
            }
        };
        std::vector<std::thread> threads;
        for (std::uint32_t t = 1; t < std::min(options.threads, options.restarts); ++t)
        {
            threads.emplace_back(work);
        }
        work();
        for (std::thread& thread : threads)
        {
            thread.join();
        }
        for (const std::exception_ptr& error : errors)
        {
            if (error)
            {
                std::rethrow_exception(error);
            }
        }

        // Comm x Topo: each chain's best on the topology where it was found and on one for its demand.
        SearchRound round;
        round.round = r + options.firstRound;
        std::vector<Candidate> candidates;
        for (std::size_t chain = 0; chain < found.size(); ++chain)
        {
            const WalkResult& walk = found[chain];
            const bool moved = joint[chain].topologies > 0;
            result.topologies += joint[chain].topologies;
            round.proposals += walk.proposals;
            round.accepted += walk.accepted;
            Candidate there{walk.strategy,
                            moved ? joint[chain].fabric : result.fabric,
                            moved ? joint[chain].demand : result.demand,
                            walk.ms};
            if (!options.fixedTopology)
            {
                judge.Set(walk.strategy);
                Candidate own;
                own.strategy = walk.strategy;
                own.demand = judge.CurrentDemand();
                own.fabric = problem.topology(own.demand);
                ++result.topologies;
                judge.SetFabric(own.fabric);
                own.ms = judge.Run();
                judge.SetFabric(result.fabric); // `own` moves
                if (own.ms < there.ms)
                {
                    there = std::move(own);
                }
            }
            candidates.push_back(std::move(there));
        }
        result.proposals += round.proposals;
        std::stable_sort(candidates.begin(),
                         candidates.end(),
                         [](const Candidate& a, const Candidate& b) { return a.ms < b.ms; });
        // The estimate errs by a few percent, so that its second choice may be the better one.
        std::size_t best = 0;
        round.confirmedMs = -1;
        for (std::size_t c = 0; c < std::min<std::size_t>(2, candidates.size()); ++c)
        {
            const Candidate& candidate = candidates[c];
            if (c > 0 && (candidate.ms > 1.05 * candidates[0].ms ||
                          candidate.strategy.operators == candidates[0].strategy.operators))
            {
                break;
            }
            const bool changed = !(candidate.strategy.operators == result.strategy.operators) ||
                                 DescribeTopology(candidate.fabric.topology) !=
                                     DescribeTopology(result.fabric.topology);
            const double ms = changed ? ConfirmedMs(problem, candidate.strategy, candidate.fabric)
                                      : result.confirmedMs;
            if (round.confirmedMs < 0 || ms < round.confirmedMs)
            {
                round.confirmedMs = ms;
                best = c;
            }
        }
        if (problem.confirm && options.Interrupted())
        {
            break; // before a candidate could be confirmed
        }
        Strategy strategy = std::move(candidates[best].strategy);
        Fabric fabric = std::move(candidates[best].fabric);
        Demand demand = std::move(candidates[best].demand);
        round.estimateMs = candidates[best].ms;
        round.better = round.confirmedMs < result.confirmedMs * (1 - Margin(problem));
        round.strategy = Summary(*problem.model, strategy);
        round.topology = DescribeTopology(fabric.topology);
        if (round.better)
        {
            strategy.name = "searched";
            result.Take({std::move(strategy),
                         std::move(fabric),
                         std::move(demand),
                         round.confirmedMs,
                         round.estimateMs});
            without = 0;
        }
        else
        {
            ++without;
        }
        Log(options, round);
        result.rounds.push_back(std::move(round));
        if (without >= 5)
        {
            break;
        }
    }
    result.interrupted = options.Interrupted();
    return result;
}

} // namespace topoopt
