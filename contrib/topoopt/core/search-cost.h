// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_SEARCH_COST_H
#define TOPOOPT_CORE_SEARCH_COST_H

#include "topoopt/core/demand.h"
#include "topoopt/core/device.h"
#include "topoopt/core/fabric.h"
#include "topoopt/core/flow-sim.h"
#include "topoopt/core/max-min.h"
#include "topoopt/core/model.h"
#include "topoopt/core/strategy.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace topoopt
{

/** Options of an IterationEstimator. */
struct EstimateOptions
{
    /** AllReduces occupy their links in one piece, as in the reference's search. */
    bool flexnet = false;
    BitRate intraRate{200'000'000'000};
    FlowWire wire;
    double chunkMs = 0.5; ///< an AllReduce gives way to others after so long on a link
    /** Held while the fabric is asked for routes and rings; needed if estimators in threads share a fabric. */
    std::mutex* mutex = nullptr;
};

/**
 * A fast estimate of one iteration's time, for the inner loop of a search.
 *
 * What BuildIteration() and SimulateFlows() would do, coarser: links are FIFOs ("free at" times), a message takes its
 * turn on all links of its path when it starts, a ring AllReduce occupies the links of its rings chunk by chunk, the tensors
 * of one operator are reduced together. Everything that depends on one operator's split is kept, so that changing one
 * operator costs only its own edges; a Run() is one pass over tasks and messages (about 10 ns per hop).
 * Micro-batches, pipeline stages and expert groups are not covered: such strategies are simulated.
 */
class IterationEstimator
{
  public:
    IterationEstimator(const Model& model,
                       const ComputeTimes& times,
                       std::uint32_t servers,
                       std::uint32_t ranksPerServer,
                       const EstimateOptions& options);

    /** Whether a strategy is in reach. */
    [[nodiscard]] static bool Covers(const Strategy& strategy);

    /** Keeps a reference to @p fabric; forgets all routes unless links and rates are the same. */
    void SetFabric(const Fabric& fabric);
    void Set(const Strategy& strategy);
    /** Changes one operator; undone by changing it back. */
    void Change(std::uint32_t op, const OperatorSplit& split);
    /** Milliseconds. @pre SetFabric() and Set() were called */
    [[nodiscard]] double Run();

    [[nodiscard]] const Strategy& Current() const
    {
        return m_strategy;
    }

    /** Of the current strategy, one iteration; the same as DemandOf(BuildIteration()). */
    [[nodiscard]] Demand CurrentDemand() const;

  private:
    /** Something that one part's end sets off at another part. */
    struct Dependency
    {
        std::uint32_t part;  ///< of the other operator
        std::uint32_t route; ///< kLocal, kIntra, or index into m_paths
        double bytes;        ///< payload
        double wire;         ///< on the wire
    };

    /** Dependencies grouped by the part that sets them off. */
    struct Fan
    {
        std::vector<std::uint32_t> start;
        std::vector<Dependency> items;
    };

    struct Edge
    {
        std::uint32_t producer;
        std::uint32_t consumer;
        double bytesPerSample;
        Fan forward;  ///< by producer part
        Fan backward; ///< by consumer part
    };

    struct RingUse
    {
        std::vector<LinkUse> uses;
        double latency = 0; ///< of a step, ms
        double maxPerByte = 0;
    };

    struct Group
    {
        std::vector<RankId> members;
        std::vector<RingUse> rings;
        bool known = false;
        bool oneServer = false;
    };

    struct Reduction
    {
        std::uint32_t group;
        double bytes;
        double delay; ///< inside the server, ms
        double steps; ///< 2 (g-1), or g-1 for a gather
        double share; ///< of the bytes that a step carries: chunk = bytes * share
        std::vector<std::uint32_t> parts; ///< who must have ended
    };

    struct OperatorState
    {
        double forwardMs = 0;
        double backwardMs = 0;
        std::uint32_t shards = 1;
        std::vector<Reduction> gradients;
        std::vector<Reduction> forwardTensor; ///< by data part; empty = none
        std::vector<Reduction> backwardTensor;
        std::vector<std::uint32_t> reductionOf; ///< part -> index into gradients, kNoId = none
        std::vector<std::uint32_t> forwardNeeds;
        std::vector<std::uint32_t> backwardNeeds;
        std::uint32_t first = 0; ///< of its parts in the run's arrays
    };

    struct Event
    {
        double time;
        std::uint64_t what;

        bool operator<(const Event& other) const
        {
            return time != other.time ? time > other.time : what > other.what;
        }
    };

    [[nodiscard]] ServerId ServerOf(RankId rank) const
    {
        return rank / m_ranksPerServer;
    }

    void BuildOperator(std::uint32_t op);
    void BuildEdge(std::uint32_t edge);
    void CountNeeds(std::uint32_t op);
    std::uint32_t GroupOf(const std::vector<RankId>& members);
    const std::vector<RingUse>& RingsOfGroup(std::uint32_t group);
    std::uint32_t RouteOf(ServerId src, ServerId dst, std::uint32_t key);
    void Resolve(Edge& edge);

    double Send(double now, std::uint32_t route, double bytes, double wire);
    /** Time of a reduction's bytes on its slowest link in an empty network. */
    double AloneMs(const Reduction& reduction);
    /** One chunk of a reduction. @return its end */
    double Occupy(double now, const Reduction& reduction, double fraction);

    const Model& m_model;
    const ComputeTimes& m_times;
    std::uint32_t m_servers;
    std::uint32_t m_ranksPerServer;
    EstimateOptions m_options;
    double m_gpusPerRank;
    const Fabric* m_fabric = nullptr;
    Strategy m_strategy;
    std::vector<OperatorState> m_operators;
    std::vector<Edge> m_edges;
    std::vector<std::vector<std::uint32_t>> m_inEdges;
    std::vector<std::vector<std::uint32_t>> m_outEdges;
    std::map<std::vector<RankId>, std::uint32_t> m_groupOf;
    std::vector<Group> m_groups;

    std::vector<std::uint32_t> m_routeOf; ///< [(src * servers + dst) * kKeys + key]
    std::vector<Path> m_paths;
    std::vector<double> m_perByte; ///< ms per byte by link
    std::vector<double> m_delay;   ///< ms by link
    std::vector<Link> m_links;     ///< of the fabric whose routes are known

    // One run.
    std::vector<double> m_free;
    std::vector<double> m_rankFree;
    std::vector<std::uint32_t> m_forwardLeft;
    std::vector<std::uint32_t> m_backwardLeft;
    std::vector<double> m_forwardReady;
    std::vector<double> m_backwardReady;
    std::vector<std::vector<std::uint32_t>> m_gradientLeft;
    std::vector<std::vector<std::uint32_t>> m_tensorLeft;
    std::vector<Event> m_heap;
};

} // namespace topoopt

#endif // TOPOOPT_CORE_SEARCH_COST_H
