// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_FLOW_SIM_H
#define TOPOOPT_CORE_FLOW_SIM_H

#include "topoopt/core/collectives.h"
#include "topoopt/core/fabric.h"
#include "topoopt/core/ids.h"
#include "topoopt/core/task-graph.h"
#include "topoopt/core/units.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace topoopt
{

/** What a message costs besides its bytes, and how much of it is under way at once. */
struct FlowWire
{
    Bytes payload = 8956;      ///< of a packet
    Bytes overhead = 82;       ///< of a packet, on the wire
    bool wholePackets = false; ///< the last packet is filled up
    Bytes setup = 0;           ///< bytes that go ahead of a message and delay it by their own trip
    Bytes window = 100'000;    ///< bytes of one message that compete for a link at a time
    bool barrier = false; ///< no member of a ring begins a step before all have ended the last one

    /** The packet engine's RoCE-like transport at @p mtu. */
    [[nodiscard]] static FlowWire Roce(Bytes mtu);
    /** The reference simulator's: 8936 B packets without headers, a 1 B SYN, 100 packets of window. */
    [[nodiscard]] static FlowWire FlexNet();

    [[nodiscard]] Bytes OnWire(Bytes bytes) const;
};

/** A flow of the result: a message, or what a ring moves over one of its hops in one collective. */
struct FlowRecord
{
    std::uint32_t collective = kNoId; ///< index, or
    std::uint32_t transfer = kNoId;
    ServerId src = 0;
    ServerId dst = 0;
    std::uint32_t hops = 0;
    std::uint32_t messages = 1;
    Bytes bytes = 0; ///< payload of all messages
    SimTime start = 0;
    SimTime end = kNever;
    std::uint32_t job = 0; ///< number of FlowSimulation::Start()
    std::uint32_t iteration = 0;
};

/** Options of SimulateFlows and FlowSimulation. */
struct FlowSimOptions
{
    std::vector<ServerId> ranksToServers; ///< empty = ranks in blocks, ranks / servers on each
    std::uint32_t iterations = 1;         ///< how often the graph runs, one after the other
    const CollectiveChoice* collectives = nullptr; ///< null = the defaults
    FlowWire wire;
    BitRate intraRate{200'000'000'000}; ///< between ranks of a server; no contention
    /**
     * Rates are recomputed at most this often; a flow that starts in between waits. 0 = at every start and end.
     */
    SimTime quantum = 0;
    /**
     * Ring AllReduce, AllGather and ReduceScatter as one flow per ring that takes all its links at once;
     * false = message by message, as every other collective.
     */
    bool ringsAsFlows = true;
    bool recordFlows = true;
    /** Told of each flow as it ends; nothing is kept then. */
    std::function<void(const FlowRecord&)> onFlow;
    SimTime stop = kNever;
    const std::atomic<bool>* interrupt = nullptr; ///< looked at between events
};

/** What a run of the fluid model answers. */
struct FlowSimResult
{
    bool complete = false;
    SimTime finish = 0;              ///< end of the last task
    std::vector<SimTime> iterations; ///< duration of each iteration that ended
    std::vector<SimTime> taskEnd;    ///< kNever = not finished
    std::vector<FlowRecord> flows;   ///< in order of start
    std::vector<double> linkBytes;   ///< on the wire
    std::uint64_t solves = 0;
    std::uint64_t events = 0;
};

/**
 * Runs a task graph on a fabric with fluid flows.
 *
 * Rates are weighted max-min fair (max-min.h). A message's weight is what it has under way, min(bytes,
 * window): links are FIFOs, so a step of a ring that waits behind others gets a share in proportion to its size. A
 * message ends when its bytes have left at its rate and the last packet has crossed the remaining hops.
 * The steps of a ring follow each other at the pace of the slowest hop: a ring is a flow through all its links,
 * capped at chunk / (chunk time + latency), which is exact in an empty network. Compute tasks
 * run one at a time per rank in order of readiness, then of number.
 *
 * Deterministic. Cost: O(flows that interact) per start and end of a flow.
 * @param graph  finalized
 * @throws SpecError  a rank without a server, a pair without a route
 */
[[nodiscard]] FlowSimResult SimulateFlows(const TaskGraph& graph,
                                          const Fabric& fabric,
                                          const FlowSimOptions& options = {});

/**
 * The same for several jobs that share the fabric and come while it runs.
 *
 * The caller starts jobs between calls of Run() and is told when they end, so that a scheduler decides what comes next.
 * Events at one time go by kind, job and number; a single job behaves as in SimulateFlows(), which is made of this.
 */
class FlowSimulation
{
  public:
    /** @param options  ranksToServers, iterations and stop do not matter */
    FlowSimulation(const Fabric& fabric, const FlowSimOptions& options);
    ~FlowSimulation();
    FlowSimulation(const FlowSimulation&) = delete;
    FlowSimulation& operator=(const FlowSimulation&) = delete;

    /**
     * Starts a job now.
     * @param graph  finalized; must outlive this
     * @return its number: 0, 1, ...
     * @throws SpecError  a rank without a server
     */
    std::uint32_t Start(const TaskGraph& graph,
                        const std::vector<ServerId>& ranksToServers,
                        std::uint32_t iterations);

    /**
     * Runs until jobs end, or to @p until (kNever: until nothing is left), or until interrupted.
     * @return the jobs that ended at Now(), which then is not after @p until
     * @throws SpecError  a pair without a route
     */
    std::vector<std::uint32_t> Run(SimTime until);

    [[nodiscard]] SimTime Now() const;
    /** Nothing is left that could happen. */
    [[nodiscard]] bool Idle() const;
    [[nodiscard]] const std::vector<SimTime>& IterationTimes(std::uint32_t job) const;
    /** Flows that have begun and not ended; only with FlowSimOptions::onFlow. */
    [[nodiscard]] std::vector<FlowRecord> UnderWay() const;
    [[nodiscard]] const std::vector<double>& LinkBytes() const;
    [[nodiscard]] std::uint64_t Events() const;

  private:
    class Engine;
    friend FlowSimResult SimulateFlows(const TaskGraph& graph,
                                       const Fabric& fabric,
                                       const FlowSimOptions& options);
    std::unique_ptr<Engine> m_engine;
};

} // namespace topoopt

#endif // TOPOOPT_CORE_FLOW_SIM_H
