// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_ALTERNATING_H
#define TOPOOPT_CORE_ALTERNATING_H

#include "topoopt/core/search.h"

#include <string>

namespace topoopt
{

/**
 * The alternating optimisation of strategy (Comp x Comm) and topology (Comm x Topo).
 *
 * Every round walks over strategies on the best topology so far, `restarts` chains in `threads` threads, then makes a
 * topology for the demand of each chain's best, and keeps the pair of strategy and topology that the estimate likes
 * most, if the confirmation agrees that it is better than the best so far (by 0.3 % if that is SimulateFlows()). Walks are hotter the longer nothing better was found. It ends after five rounds without gain, after `rounds`
 * rounds, or when interrupted. With options.flexnet it is FlexNetSearch(); with options.fixedTopology the topology
 * stays what @p start's demand asks for.
 *
 * Models with a rank per GPU, whose useful strategies are grids, are searched by trying the hybrids of HybridGrid()
 * that fit, cheapest bound first, `budget` of them at most (24 if more), each on the topology for its own demand.
 *
 * Deterministic in the seed, whatever the number of threads.
 * @param start  a strategy that fits, e.g. data parallelism, or that of an earlier plan
 * @throws SpecError from the topology builder
 */
[[nodiscard]] SearchResult Optimise(const SearchProblem& problem,
                                    const Strategy& start,
                                    const SearchOptions& options);

/** One point of the grid of hybrids, with a lower bound of its iteration time. */
struct HybridCandidate
{
    HybridOptions options;
    Strategy strategy;
    double boundMs = 0;
};

/**
 * All combinations of tensor (within a server), pipeline, expert and micro-batch counts that are
 * legal and fit into memory, by ascending bound: pipelined compute, gradients at line rate.
 */
[[nodiscard]] std::vector<HybridCandidate> HybridGrid(const SearchProblem& problem,
                                                      BitRate perServer,
                                                      bool ignoreMemory);

} // namespace topoopt

#endif // TOPOOPT_CORE_ALTERNATING_H
