// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_FLEXNET_ENGINE_H
#define TOPOOPT_FLEXNET_ENGINE_H

#include "ns3/flexnet-events.h"
#include "ns3/flexnet-lockstep.h"
#include "ns3/flexnet-paths.h"
#include "ns3/flexnet-simulation.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace topoopt
{

class FlexNetTrains;

/**
 * What FlexNetSimulation runs: the reference simulator's queues, transport and tasks on picoseconds of its own.
 *
 * A link is one ring of packets: those on the wire, then those in the queue. A packet is 32 bytes and
 * moves from ring to ring; a hop is two events, the end of its transmission and its arrival, both nearly
 * always in FIFO lines (FlexNetEvents) rather than in a heap. The reference decides ties by order of
 * insertion, so the two insertions are kept in its order.
 */
class FlexNetEngine
{
  public:
    FlexNetEngine(const FlexNetGraph& graph,
                  const FlexNetConfig& config,
                  FlexNetObserver& observer);
    ~FlexNetEngine();

    /** Runs events before @p horizon. @return time of the next event, kNever when there is nothing more to do */
    SimTime RunTo(SimTime horizon);
    [[nodiscard]] FlexNetRunResult Result() const;
    /** What a task that is no message waits for once it is on: its run time, or the delay of an AllReduce's start. */
    [[nodiscard]] static SimTime TimeOf(const FlexNetTask& task);

  private:
    friend class FlexNetTrains;

    struct Packet;
    struct Port;
    struct PortCounters;
    struct FlowState;
    struct Flow;
    struct AllReduce;

    struct FinishedFlow
    {
        FlexNetFlowRecord record;
        const FlexNetLockstep::Block* block = nullptr;
    };

    struct UnfinishedFlow
    {
        FlexNetFlowRecord record;
        std::uint64_t received = 0; ///< up to this byte
    };

    enum class TaskPhase : std::uint8_t
    {
        Waiting,
        Ready,
        Running,
        Finished
    };

    struct Task
    {
        SimTime ready = 0;
        SimTime start = 0;
        SimTime finish = 0;
        std::uint32_t waitsFor = 0;
        std::uint32_t allReduce = kNoId; ///< index in m_allReduces while it runs
        TaskPhase phase = TaskPhase::Waiting;
    };

    struct Device
    {
        SimTime busyUpTo = 0;
        bool busy = false;
    };

    /** A flow's or task's event while it is pending; few are at a time. */
    struct Pending
    {
        Flow* flow = nullptr; ///< null: a task
        std::uint32_t task = 0;
        std::uint32_t nextFree = kNoId;
    };

    // Network.
    void BuildPorts();
    void PutFirst(Flow& flow, std::uint32_t number, std::uint32_t count);
    void Put(std::uint32_t link, const Packet& packet);
    void EndOfTransmission(std::uint32_t link);
    void Arrival(std::uint32_t link);
    static void Grow(Port& port);

    // Transport.
    Flow* StartFlow(std::uint64_t id,
                    NodeId src,
                    NodeId dst,
                    Bytes bytes,
                    const FlexNetPathLinks* path,
                    SimTime start,
                    SimTime timeout,
                    std::uint32_t task,
                    std::uint32_t ring,
                    std::uint32_t round,
                    const FlexNetLockstep::Block* block);
    void FlowEvent(Flow& flow);
    void Send(Flow& flow);
    void Retransmit(Flow& flow);
    void Deliver(const Packet& packet);
    void Acknowledge(Flow& flow, std::uint64_t upTo, bool marked, SimTime sent);
    void Scan();
    void FinishFlow(Flow& flow);
    void TellEarlier();
    void TellFinished();
    void FreeIfOver(Flow& flow);
    void Free(Flow& flow);
    void Unlist(Flow& flow);
    /** By id. */
    [[nodiscard]] std::vector<UnfinishedFlow> Unfinished() const;
    [[nodiscard]] FlexNetFlowRecord RecordOf(const Flow& flow) const;

    SimTime RunEvents(SimTime horizon);
    void TryLockstep();

    // Tasks.
    void PrepareTasks();
    void StartTasks();
    void TaskEvent(std::uint32_t task);
    void BeginAllReduce(std::uint32_t task);
    void StartRound(AllReduce& operation, std::uint32_t ring);
    void StartPart(AllReduce& operation,
                   std::uint32_t member,
                   std::uint32_t ring,
                   const FlexNetLockstep::Block* block);
    void FlowDone(const Flow& flow);
    void FinishTask(std::uint32_t task);
    const FlexNetPathLinks* PickPath(NodeId src, NodeId dst);
    [[nodiscard]] std::string NameOf(std::uint32_t task) const;
    [[nodiscard]] std::vector<std::string> DescribeWaiting() const;

    void RunPending(std::uint32_t index);
    void ScheduleIndex(std::uint32_t index, SimTime time);
    void ScheduleFlow(Flow& flow, SimTime time);
    void ScheduleTask(std::uint32_t task, SimTime time);
    void SchedulePending(Flow* flow, std::uint32_t task, SimTime time);
    [[nodiscard]] FlexNetTotals Totals() const;
    [[nodiscard]] std::vector<std::string> CheckPhysics() const;

    const FlexNetGraph& m_graph;
    FlexNetConfig m_config;
    FlexNetObserver& m_observer;
    FlexNetPaths m_paths;
    FlexNetEvents m_events;
    std::uint32_t m_scanner = 0; ///< event index of the timeout scanner; pending ones follow
    std::vector<Port> m_ports;   ///< by link
    unsigned m_delayLine = 0;
    std::vector<Pending> m_pending;
    std::uint32_t m_freePending = kNoId;
    std::uint32_t m_pendingCount = 0;
    std::uint32_t m_pendingFlows = 0; ///< of these

    std::vector<std::unique_ptr<Flow[]>> m_flowBlocks;
    Flow* m_freeFlows = nullptr;
    Flow* m_firstFlow = nullptr; ///< unfinished ones in order of start
    Flow* m_lastFlow = nullptr;
    std::uint64_t m_unfinishedFlows = 0;
    std::uint64_t m_nextFlowId = 0;
    // What has finished now and the observer has not been told of yet.
    std::vector<FinishedFlow> m_finishedFlows;
    std::vector<FlexNetTaskRecord> m_finishedTasks;
    SimTime m_finishedAt = 0;

    std::vector<Task> m_tasks;
    std::vector<Device> m_devices;
    std::uint64_t m_messagesLeft = 0; ///< tasks that have not finished
    std::vector<std::unique_ptr<AllReduce>> m_allReduces;
    std::vector<std::uint32_t> m_freeAllReduces;
    GlibcRandom m_random{13};

    SimTime m_now = 0;
    SimTime m_finalFinish = 0;
    bool m_over = false; ///< finished, stopped or stuck
    FlexNetTotals m_totals;
    Bytes m_putWireHops = 0;     ///< bytes x hops that flows gone by now have sent
    Bytes m_droppedWireHops = 0; ///< of these, what drops have spared the links
    std::vector<std::string> m_violations;
    std::unique_ptr<FlexNetTrains> m_trains; ///< null: every packet by itself
    std::optional<FlexNetLockstep> m_lockstep;
};

} // namespace topoopt

#endif // TOPOOPT_FLEXNET_ENGINE_H
