// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_SEARCH_H
#define TOPOOPT_CORE_SEARCH_H

#include "topoopt/core/demand.h"
#include "topoopt/core/device.h"
#include "topoopt/core/fabric.h"
#include "topoopt/core/model.h"
#include "topoopt/core/placement.h"
#include "topoopt/core/random.h"
#include "topoopt/core/search-cost.h"
#include "topoopt/core/strategy.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace topoopt
{

/** When packets are asked; see PlanRequest::confirm. */
enum class SearchConfirm : std::uint8_t
{
    Final,
    Rounds,
    None
};

/** How a strategy (and a topology) is looked for. */
struct SearchOptions
{
    std::uint32_t budget = 4000; ///< proposals in all
    std::uint64_t seed = 1;
    /** The reference's walk: its proposals, absolute temperature, topology moves inside the walk, one chain. */
    bool flexnet = false;
    double alpha = 1.0; ///< flexnet: acceptance exp(-alpha * worse by ms)
    /** Relative temperature at the start of a walk; it falls to 1/50 of it: acceptance exp(-(t/t0 - 1)/T). */
    double temperature = 0.02;
    std::uint32_t restarts = 2; ///< chains of every round, each with its own random stream
    std::uint32_t threads = 2;  ///< chains at a time; the result does not depend on it
    std::uint32_t rounds = 8;   ///< of the alternating optimisation, at most
    std::uint32_t firstRound =
        0; ///< rounds that an earlier search has done; its random numbers are not drawn again
    bool fixedTopology = false;                   ///< Comp x Comm only
    bool tensor = true;                           ///< operators may be split inside a sample, too
    bool ignoreMemory = false;                    ///< strategies need not fit into device memory
    SearchConfirm confirm = SearchConfirm::Final; ///< for the caller of the search
    const std::atomic<bool>* interrupt =
        nullptr; ///< set from a signal handler: keep the best so far
    std::function<void(const std::string&)> log; ///< one line per round; null = none

    [[nodiscard]] bool Interrupted() const
    {
        return interrupt != nullptr && interrupt->load();
    }
};

/** What is searched: a job on servers, and how topologies for it are made. */
struct SearchProblem
{
    const Model* model = nullptr;
    const ComputeTimes* times = nullptr;
    std::uint32_t servers = 0;
    std::uint32_t ranksPerServer = 1;
    EstimateOptions estimate;
    /** The fabric for a demand (TopologyFinder); called from one thread at a time. */
    std::function<Fabric(const Demand&)> topology;
    /** What the first fabric is made for; null = what the start strategy moves. */
    const Demand* startDemand = nullptr;
    /**
     * A second opinion in ms on the candidates of a round, e.g. packets; null = SimulateFlows(). What the result is
     * judged by. < 0: interrupted.
     */
    std::function<double(const Strategy&, const Fabric&)> confirm;
};

/** One round of a search, for its log. */
struct SearchRound
{
    std::uint32_t round = 0;
    double estimateMs = 0;
    double confirmedMs = 0;
    bool better = false;
    std::uint32_t proposals = 0;
    std::uint32_t accepted = 0;
    std::string strategy; ///< Summary()
    std::string topology; ///< DescribeTopology()
};

/** A strategy and the fabric that it was judged on. */
struct SearchStep
{
    Strategy strategy;
    Fabric fabric;
    Demand demand; ///< that the fabric was made for
    double confirmedMs = 0;
    double estimateMs = 0;
};

/** The best strategy found and the fabric it was judged on. */
struct SearchResult
{
    Strategy strategy;
    Fabric fabric;
    Demand demand;          ///< that the fabric was made for
    double startMs = 0;     ///< confirmed time of the start on its own topology
    double confirmedMs = 0; ///< of the result; never above startMs
    double estimateMs = 0;
    std::uint32_t proposals = 0;
    std::uint32_t topologies = 0; ///< built
    bool interrupted = false;
    std::vector<SearchRound> rounds;
    std::vector<SearchStep> steps; ///< the start, then every improvement; the last is the result

    /** Makes @p step the result. */
    void Take(SearchStep step);
};

/** A change of some operators' splits. */
using SearchMove = std::vector<std::pair<std::uint32_t, OperatorSplit>>;

/** The splits that a search may give to the operators of a model, and random moves among them. */
class SearchSpace
{
  public:
    SearchSpace(const Model& model,
                const ComputeTimes& times,
                std::uint32_t ranks,
                const SearchOptions& options);

    /**
     * A proposal.
     *
     * flexnet, as the reference: with probability 1/4 a random operator's split is copied along an edge drawn in
     * proportion to its bytes among operators not yet reached, and on from there with probability 3/4; else one random operator but the last
     * gets a random split: a part count that was measured, on a regular stride from a random start; a table a random server.
     * Default: also tensor splits, blocks of neighbouring servers, runs and whole branches of operators
     * changed alike, and tables that trade places.
     */
    [[nodiscard]] SearchMove Propose(const Strategy& strategy, Rng& rng) const;

    /**
     * A coarse proposal for walks that rewire the fabric for each: a branch gets a random split, or every branch gets a group of
     * servers of its own, as far as they go, the last branch perhaps excepted.
     */
    [[nodiscard]] SearchMove ProposeCoarse(const Strategy& strategy, Rng& rng) const;

    /** All splits of one operator, for exhaustive searches. Can be many. */
    [[nodiscard]] std::vector<OperatorSplit> All(std::uint32_t op) const;

  private:
    struct Shape
    {
        std::uint32_t dataParts;
        std::uint32_t tensorParts;
    };

    [[nodiscard]] OperatorSplit Random(std::uint32_t op, Rng& rng) const;
    [[nodiscard]] bool Adopts(std::uint32_t op, const OperatorSplit& split) const;
    [[nodiscard]] SearchMove Propagate(const Strategy& strategy, Rng& rng) const;

    const Model& m_model;
    std::uint32_t m_ranks;
    bool m_flexnet;
    std::vector<std::vector<Shape>> m_shapes;
    std::vector<std::vector<std::pair<std::uint32_t, double>>> m_neighbours; ///< operator, bytes
    std::vector<std::uint32_t> m_tables;
    std::vector<std::uint32_t> m_others;
    std::vector<std::vector<std::uint32_t>> m_branches; ///< operators that feed only the next one
};

/** What a walk found. */
struct WalkResult
{
    Strategy strategy;
    double ms = 0;
    std::uint32_t proposals = 0;
    std::uint32_t accepted = 0;
};

/**
 * Metropolis-Hastings over strategies on the estimator's fabric, from its current strategy: simulated
 * annealing with a relative temperature. The estimator is left with the last accepted strategy.
 */
[[nodiscard]] WalkResult Walk(IterationEstimator& estimator,
                              const SearchSpace& space,
                              const SearchProblem& problem,
                              const SearchOptions& options,
                              std::uint32_t budget,
                              Rng& rng);

/** A strategy and the fabric made for it. */
struct JointResult
{
    WalkResult walk;
    Fabric fabric;
    Demand demand;
    std::uint32_t topologies = 0;
};

/**
 * A walk over coarse proposals, each judged on the topology for its own demand: what a fixed topology
 * cannot see. From the estimator's current strategy on @p start; the estimator is left on the fabric of the
 * result, which the caller keeps alive.
 */
void JointWalk(IterationEstimator& estimator,
               const SearchSpace& space,
               const SearchProblem& problem,
               const SearchOptions& options,
               const Fabric& start,
               const Demand& startDemand,
               std::uint32_t budget,
               Rng& rng,
               JointResult& result);

/**
 * The reference's interleaved walk over strategies and topologies (topoopt-spec 1.2, 1.4), its oddities included: times are compared
 * across topologies, the best topology is noted before it is re-optimised, and the last simulated strategy's
 * demand is what a topology is made for.
 */
[[nodiscard]] SearchResult FlexNetSearch(const SearchProblem& problem,
                                         const Strategy& start,
                                         const SearchOptions& options);

/** "+-1 +-5" for rings over all servers, "and 12 other cables"; "" if there are switches. */
[[nodiscard]] std::string DescribeTopology(const Topology& topology);

/** Judges by problem.confirm, or by SimulateFlows(). */
[[nodiscard]] double ConfirmedMs(const SearchProblem& problem,
                                 const Strategy& strategy,
                                 const Fabric& fabric);

/**
 * Strategy keys of a scenario: search (mcmc), budget, alpha, temperature, restarts, threads, rounds, memory, compat, confirm.
 * @throws SpecError naming @p place
 */
[[nodiscard]] SearchOptions ReadSearchOptions(const std::map<std::string, std::string>& strategy,
                                              std::uint64_t seed,
                                              const std::string& place);

} // namespace topoopt

#endif // TOPOOPT_CORE_SEARCH_H
