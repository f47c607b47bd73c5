// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/search.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace topoopt
{

namespace
{

/** Applies a move. @return the move that undoes it */
SearchMove
Apply(IterationEstimator& estimator, const SearchMove& move)
{
    SearchMove undo;
    for (const auto& [op, split] : move)
    {
        undo.emplace_back(op, estimator.Current().operators[op]);
        estimator.Change(op, split);
    }
    std::reverse(undo.begin(), undo.end());
    return undo;
}

} // namespace

WalkResult
Walk(IterationEstimator& estimator,
     const SearchSpace& space,
     const SearchProblem& problem,
     const SearchOptions& options,
     std::uint32_t budget,
     Rng& rng)
{
    WalkResult result;
    double current = estimator.Run();
    result.strategy = estimator.Current();
    result.ms = current;
    const std::uint32_t ranks = problem.servers * problem.ranksPerServer;
    for (; result.proposals < budget && !options.Interrupted(); ++result.proposals)
    {
        const double share = static_cast<double>(result.proposals) / std::max(1U, budget);
        const double temperature = options.temperature * std::pow(0.02, share);
        const SearchMove move = space.Propose(estimator.Current(), rng);
        const double chance = rng.Uniform(); // drawn always, so that streams stay in step
        if (move.empty())
        {
            continue;
        }
        const SearchMove undo = Apply(estimator, move);
        const double ms = estimator.Run();
        bool accept = ms <= current || chance < std::exp(-(ms / current - 1) / temperature);
        if (accept && !options.ignoreMemory)
        {
            accept =
                MemoryOf(*problem.model, estimator.Current(), ranks, problem.times->GetDevice())
                    .Fits();
        }
        if (!accept)
        {
            (void)Apply(estimator, undo);
            continue;
        }
        ++result.accepted;
        current = ms;
        if (ms < result.ms)
        {
            result.ms = ms;
            result.strategy = estimator.Current();
        }
    }
    return result;
}

void
JointWalk(IterationEstimator& estimator,
          const SearchSpace& space,
          const SearchProblem& problem,
          const SearchOptions& options,
          const Fabric& start,
          const Demand& startDemand,
          std::uint32_t budget,
          Rng& rng,
          JointResult& result)
{
    const std::uint32_t ranks = problem.servers * problem.ranksPerServer;
    Strategy strategy = estimator.Current();
    Fabric fabric = start;
    double current = estimator.Run();
    result.walk.strategy = strategy;
    result.walk.ms = current;
    result.fabric = start;
    result.demand = startDemand;
    for (; result.walk.proposals < budget && !options.Interrupted(); ++result.walk.proposals)
    {
        const double share = static_cast<double>(result.walk.proposals) / std::max(1U, budget);
        const double temperature = 4 * options.temperature * std::pow(0.02, share);
        const SearchMove move = space.ProposeCoarse(estimator.Current(), rng);
        const double chance = rng.Uniform();
        if (move.empty())
        {
            continue;
        }
        const SearchMove undo = Apply(estimator, move);
        if (!options.ignoreMemory &&
            !MemoryOf(*problem.model, estimator.Current(), ranks, problem.times->GetDevice())
                 .Fits())
        {
            (void)Apply(estimator, undo);
            continue;
        }
        Demand demand = estimator.CurrentDemand();
        Fabric own = problem.topology(demand);
        ++result.topologies;
        estimator.SetFabric(own);
        const double ms = estimator.Run();
        if (ms > current && chance >= std::exp(-(ms / current - 1) / temperature))
        {
            (void)Apply(estimator, undo);
            estimator.SetFabric(fabric);
            continue;
        }
        ++result.walk.accepted;
        current = ms;
        fabric = std::move(own);
        estimator.SetFabric(fabric);
        if (ms < result.walk.ms)
        {
            result.walk.ms = ms;
            result.walk.strategy = estimator.Current();
            result.fabric = fabric;
            result.demand = std::move(demand);
        }
    }
    estimator.SetFabric(result.fabric);
    estimator.Set(result.walk.strategy);
}

SearchResult
FlexNetSearch(const SearchProblem& problem, const Strategy& start, const SearchOptions& options)
{
    SearchResult result;
    Rng rng(Mix64(options.seed, options.firstRound), "flexnet-search");
    const SearchSpace space(*problem.model,
                            *problem.times,
                            problem.servers * problem.ranksPerServer,
                            options);
    IterationEstimator estimator(*problem.model,
                                 *problem.times,
                                 problem.servers,
                                 problem.ranksPerServer,
                                 problem.estimate);
    estimator.Set(start);
    Demand demand =
        problem.startDemand != nullptr ? *problem.startDemand : estimator.CurrentDemand();
    Fabric fabric = problem.topology(demand);
    ++result.topologies;
    estimator.SetFabric(fabric);
    double current = estimator.Run();
    double best = current;
    double topologyMs = current;
    std::uint32_t unchanged = 0;
    result.strategy = start;
    result.fabric = fabric;
    result.demand = demand;
    result.startMs = ConfirmedMs(problem, start, fabric);
    const SearchStep first{start, fabric, demand, result.startMs, current};
    Strategy currentStrategy = start;
    SearchRound round;

    // Demand of the strategy at hand, accepted or not.
    const auto optimise = [&](double ms, bool forced) {
        if (!forced)
        {
            const double worse = ms - topologyMs;
            const bool go = worse < 0 || (worse != 0 && rng.Uniform() < std::exp(-0.5 * worse)) ||
                            unchanged >= 50;
            if (!go)
            {
                ++unchanged;
                return;
            }
        }
        unchanged = 0;
        topologyMs = ms;
        if (options.fixedTopology)
        {
            return;
        }
        Demand next = estimator.CurrentDemand();
        const bool same = next.pairs == demand.pairs &&
                          next.allReduces.size() == demand.allReduces.size() &&
                          std::equal(next.allReduces.begin(),
                                     next.allReduces.end(),
                                     demand.allReduces.begin(),
                                     [](const AllReduceDemand& a, const AllReduceDemand& b) {
                                         return a.members == b.members && a.bytes == b.bytes;
                                     });
        if (!same)
        {
            fabric = problem.topology(next);
            demand = std::move(next);
            ++result.topologies;
            estimator.SetFabric(fabric);
        }
    };
    const std::uint32_t span = std::clamp(options.budget / 100, 1U, 1000U);
    for (std::uint32_t it = 0; it <= options.budget && !options.Interrupted(); ++it)
    {
        if (it % span == 0 && it > 0)
        {
            currentStrategy = result.strategy;
            current = best;
            fabric = result.fabric;
            demand = result.demand;
            estimator.SetFabric(fabric);
            estimator.Set(currentStrategy);
        }
        const SearchMove move = space.Propose(estimator.Current(), rng);
        const SearchMove undo = Apply(estimator, move);
        const double ms = estimator.Run();
        ++result.proposals;
        bool accept = ms < current;
        if (ms < best)
        {
            best = ms;
            result.strategy = estimator.Current();
            result.fabric = fabric;
            result.demand = demand;
            optimise(ms, true);
        }
        if (!accept)
        {
            accept = rng.Uniform() < std::exp(-options.alpha * (ms - current));
        }
        if (accept)
        {
            ++round.accepted;
            current = ms;
            optimise(ms, true);
        }
        optimise(ms, false);
        if (!accept)
        {
            (void)Apply(estimator, undo);
        }
    }
    result.interrupted = options.Interrupted();
    result.estimateMs = best;
    // The reference reports what it finds; we also do not come out worse than we went in.
    const double confirmed = ConfirmedMs(problem, result.strategy, result.fabric);
    SearchStep found{result.strategy, result.fabric, result.demand, confirmed, best};
    result.Take(first);
    if (confirmed >= 0 && confirmed < result.startMs)
    {
        result.Take(std::move(found));
    }
    round.round = options.firstRound + 1;
    round.estimateMs = best;
    round.confirmedMs = confirmed;
    round.better = confirmed < result.startMs;
    round.proposals = result.proposals;
    round.strategy = Summary(*problem.model, result.strategy);
    round.topology = DescribeTopology(result.fabric.topology);
    result.rounds.push_back(round);
    return result;
}

} // namespace topoopt
