// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_FLEXNET_SIMULATION_H
#define TOPOOPT_FLEXNET_SIMULATION_H

#include "topoopt/core/readers/flexnet.h"
#include "topoopt/core/units.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace topoopt
{

/** Which fabric a FlexNet task graph runs on. */
enum class FlexNetFabricKind : std::uint8_t
{
    FromFile, ///< the connections, routes and rings that the graph carries
    Star,     ///< every server on one switch (ideal-switch); AllReduces are single rings
    FatTree   ///< three layers of k-port switches; AllReduces are single rings
};

/** Settings of a run; the defaults are those of the reference's golden runs. */
struct FlexNetConfig
{
    FlexNetFabricKind fabric = FlexNetFabricKind::FromFile;
    BitRate rate{100'000'000'000};          ///< of one cable
    SimTime delay = kMicrosecond;           ///< one-way propagation of every link
    std::uint32_t slowStartPackets = 10000; ///< initial slow-start threshold of every flow
    /**
     * Limit of every output queue but those of servers, in packets of 8936 B. From-file fabrics have no
     * limit, as in the reference.
     */
    std::uint64_t queuePackets = 60000;
    std::uint32_t fatTreeDegree = 0; ///< k, even; 0: the least that holds the servers
    bool trains = true;              ///< results do not depend on it
    SimTime stop = kNever;           ///< events after this are not run
};

/** One flow, finished or not. */
struct FlexNetFlowRecord
{
    /** Numbered by task in order of being begun; those of an AllReduce by round, then member, then ring. */
    std::uint64_t id = 0;
    std::uint32_t src = 0;
    std::uint32_t dst = 0;
    Bytes bytes = 0;        ///< as asked
    Bytes size = 0;         ///< as the reference logs it: at least one packet of 8936 B
    SimTime start = 0;      ///< when its SYN was handed to the first queue
    SimTime end = kNever;   ///< arrival of the last byte
    std::uint64_t task = 0; ///< index of its task in FlexNetGraph::tasks
    bool allReduce = false; ///< part of an AllReduce, else a message
    std::uint32_t ring = 0;
    std::uint32_t round = 0;
    std::uint32_t hops = 0;
    SimTime ideal = 0; ///< duration alone on its path, with an unlimited window
    std::uint64_t timeouts = 0;
    std::uint64_t retransmits = 0; ///< SYNs and data packets sent again
};

/** One finished task. */
struct FlexNetTaskRecord
{
    std::uint64_t task = 0; ///< index in FlexNetGraph::tasks
    SimTime ready = 0;      ///< all its predecessors had finished
    SimTime start = 0;      ///< its device was free; AllReduce and message: equal to `ready`
    SimTime end = 0;
};

/** What one link has carried. */
struct FlexNetLinkCounters
{
    NodeId from = 0; ///< servers first, then switches (Fat-tree: edge, aggregation, core)
    NodeId to = 0;
    std::uint64_t packets = 0; ///< served, SYNs included
    Bytes bytes = 0;
    std::uint64_t marks = 0;
    std::uint64_t drops = 0;
    SimTime busy = 0;
};

/** Totals of a run. */
struct FlexNetTotals
{
    std::uint64_t flows = 0;    ///< begun
    std::uint64_t finished = 0; ///< of these
    std::uint64_t tasks = 0;    ///< finished
    Bytes askedBytes = 0;
    Bytes wireBytes = 0; ///< sum over links
    /** Every data packet and SYN, once per link that it was put on; acknowledgements take no link. */
    std::uint64_t packetHops = 0;
    std::uint64_t events = 0; ///< handled by the engine
    std::uint64_t marks = 0;
    std::uint64_t drops = 0;
    std::uint64_t timeouts = 0;
    std::uint64_t retransmits = 0;
    /** Trains: simultaneous events whose order decided a mark and could not be worked out. */
    std::uint64_t guessedOrders = 0;
    /** Trains: flows that were not run because another one, in the same state on another link, stood for them. */
    std::uint64_t sharedFlows = 0;
};

/** What a run says while it goes. Every method may be left as it is. */
class FlexNetObserver
{
  public:
    virtual ~FlexNetObserver() = default;

    /** In order of end, as in the reference's log; simultaneous ones by id. */
    virtual void FlowFinished(const FlexNetFlowRecord& /* record */)
    {
    }

    /** In the order in which they finished; simultaneous ones by index. */
    virtual void TaskFinished(const FlexNetTaskRecord& /* record */)
    {
    }

    /** Called every few ten thousand events. @return false to end the run */
    virtual bool Progress(SimTime /* now */, const FlexNetTotals& /* totals */)
    {
        return true;
    }
};

/** What a run came to. */
struct FlexNetRunResult
{
    bool complete = false;   ///< every task finished
    SimTime finalFinish = 0; ///< the reference's FinalFinish: the latest end of a task
    SimTime now = 0;         ///< of the last event
    FlexNetTotals totals;
    std::vector<FlexNetLinkCounters> links;
    std::vector<FlexNetFlowRecord> unfinished; ///< by id
    std::vector<std::string> violations;       ///< identities that do not hold; empty = all hold
    /** Not complete: who waits for what, one line each, the first hundred. */
    std::vector<std::string> waiting;
};

class FlexNetEngine;

/**
 * The reference packet simulator's results, to the picosecond: `compat: flexnet`.
 *
 * One FlexNet task graph on one fabric, with everything that makes the reference what it is: packets of
 * 8936 B without headers, a SYN of one byte, acknowledgements that take no time, DCTCP with its constants,
 * marking on dequeue, rings with barriers, integer divisions, devices that retry, tasks without predecessors
 * starting 1 ps apart in hash order, and simultaneous events in order of insertion. doc/flexnet-compat.rst
 * has the rules. Nothing here is used by the default engine.
 *
 * Runs inside ns-3 events: as far as ns-3's next event in one go.
 * Cost: O(packet-hops) without trains. Memory: what is in flight, plus the tasks.
 */
class FlexNetSimulation
{
  public:
    /**
     * @p graph and @p observer must outlive this.
     * @throws SpecError if the graph cannot run there: no connections, too many servers for the Fat-tree,
     * a rate beyond 8 Tbit/s, a flow of 2^32 packets
     */
    FlexNetSimulation(const FlexNetGraph& graph,
                      const FlexNetConfig& config,
                      FlexNetObserver& observer);
    ~FlexNetSimulation();
    FlexNetSimulation(const FlexNetSimulation&) = delete;
    FlexNetSimulation& operator=(const FlexNetSimulation&) = delete;

    /** Schedules itself with ns-3, beginning now; call before Simulator::Run(). */
    void Start();
    /** The state now; after Simulator::Run(), that of the end. Cost: O(links + flows in flight + tasks). */
    [[nodiscard]] FlexNetRunResult Result() const;

  private:
    void Pump();

    std::unique_ptr<FlexNetEngine> m_engine;
    SimTime m_origin = 0; ///< ns-3's time at Start()
};

/** Runs a graph from beginning to end on ns-3's clock, which must be at picosecond resolution. */
FlexNetRunResult RunFlexNet(const FlexNetGraph& graph,
                            const FlexNetConfig& config,
                            FlexNetObserver& observer);

} // namespace topoopt

#endif // TOPOOPT_FLEXNET_SIMULATION_H
