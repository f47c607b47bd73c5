// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_EXECUTOR_H
#define TOPOOPT_EXECUTOR_H

#include "ns3/message-network.h"
#include "topoopt/core/collectives.h"
#include "topoopt/core/fabric.h"
#include "topoopt/core/task-graph.h"

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace topoopt
{

/** What a message belongs to. */
struct MessageContext
{
    std::uint32_t operation = 0; ///< collectives first, then transfers
    std::uint32_t iteration = 0;
    const char* kind = "";       ///< "all_reduce", ..., "send"
    std::uint32_t group = kNoId; ///< index into TaskGraph::groups; kNoId for a transfer
    std::uint32_t channel = 0;
    std::uint32_t step = 0; ///< the receiver's step
    RankId srcRank = 0;
    RankId dstRank = 0;
    std::uint32_t serverHops = 0; ///< links that begin at a server: 1 + relays
};

/** One collective or transfer, over all its ranks; one row of ops.csv. */
struct OperationRecord
{
    std::uint32_t operation = 0;
    std::uint32_t iteration = 0;
    SimTime start = 0; ///< first rank's
    SimTime end = kNever;
};

/** One task of one rank; one row of tasks.csv. */
struct TaskRecord
{
    TaskId task = 0;
    std::uint32_t iteration = 0;
    SimTime start = 0;
    SimTime end = 0;
};

/** Told what happens, as it happens; nothing is kept. */
class ExecutionObserver
{
  public:
    virtual ~ExecutionObserver() = default;
    virtual void MessageFinished(const MessageRecord& record, const MessageContext& context) = 0;
    virtual void OperationFinished(const OperationRecord& record) = 0;
    virtual void TaskFinished(const TaskRecord& record) = 0;
};

/** A way that a message is to take. */
struct RouteAnswer
{
    std::uint32_t route = kParked; ///< of MessageNetwork::AddRoute(); kParked: there is no way now
    std::uint32_t serverHops = 0;  ///< links that begin at a server
};

/** Answers which way messages go where that changes during a run. Asked for every message. */
class RouteSource
{
  public:
    virtual ~RouteSource() = default;

    /** @param path what the collective would take; null = whatever way the fabric has */
    [[nodiscard]] virtual RouteAnswer RouteFor(ServerId src,
                                               ServerId dst,
                                               std::uint64_t flowKey,
                                               const Path* path) = 0;
};

/** May make collectives wait for something. */
class CollectiveGate
{
  public:
    virtual ~CollectiveGate() = default;

    /** Whether a member may begin now; if not, it does at TaskExecutor::PassGate(). */
    [[nodiscard]] virtual bool MayBegin(std::uint32_t collective, std::uint32_t iteration) = 0;
};

/** Parameters of a TaskExecutor. */
struct ExecutorConfig
{
    const TaskGraph* graph = nullptr;
    const Fabric* fabric = nullptr;
    const CollectiveChoice* collectives = nullptr;
    std::vector<ServerId> placement; ///< server of each rank
    std::uint32_t iterations = 1;
    std::uint64_t seed = 1;
    RouteSource* routes = nullptr;  ///< null: the fabric's router, each way asked for once
    CollectiveGate* gate = nullptr; ///< null: nothing waits
};

/**
 * Executes a task graph on a network: computes one at a time per rank, collectives as step programs, messages
 * eager. Iterations follow each other: the next begins when the last task of the one before has ended.
 *
 * Memory follows what is under way: a collective's state exists from its first member's start to its last
 * member's end.
 */
class TaskExecutor final : public NetworkListener
{
  public:
    TaskExecutor(const ExecutorConfig& config,
                 MessageNetwork& network,
                 ExecutionObserver& observer);
    ~TaskExecutor() override;

    /** Starts everything that waits for nothing; call once, before MessageNetwork::Start(). */
    void Begin();

    /** Begins what the gate has kept back, if it lets it pass now. */
    void PassGate();

    [[nodiscard]] bool Done() const
    {
        return m_iteration == m_config.iterations;
    }

    /** Duration of every finished iteration. */
    [[nodiscard]] const std::vector<SimTime>& IterationTimes() const
    {
        return m_iterationTimes;
    }

    /** Finished tasks over all tasks of all iterations, 0..1. */
    [[nodiscard]] double Progress() const;
    /** Operations that have begun and not ended, by start. */
    [[nodiscard]] std::vector<OperationRecord> UnfinishedOperations() const;
    /** Who waits for what: one line for each task that has begun and not ended, at most @p limit, then a count. */
    [[nodiscard]] std::vector<std::string> DescribeWaiting(std::size_t limit) const;
    /** The context of a message that has not finished. */
    [[nodiscard]] const MessageContext& ContextOf(const Message& message) const;

    void Expect(std::uint64_t cookie) override;
    void Delivered(const MessageRecord& record) override;
    void Finished(const MessageRecord& record) override;
    void Due(std::uint64_t cookie) override;

  private:
    struct Instance;

    /** What a message is for; one cache line. */
    struct alignas(64) Pending
    {
        MessageContext context;
        TaskId task = kNoId;        ///< Transfer: ends on delivery
        std::uint32_t peer = 0;     ///< collective: receiving member
        std::uint32_t next = kNoId; ///< free list
    };

    enum class State : std::uint8_t
    {
        Blocked,
        Begun,
        Ended
    };

    void BeginIteration();
    void EndIteration();
    void RunReady();
    void BeginTask(TaskId task);
    void EndTask(TaskId task);
    void BeginCompute(TaskId task);
    void BeginMember(TaskId task);
    void EnterSteps(Instance& instance, std::uint32_t channel, std::uint32_t member);
    void EndMember(Instance& instance, std::uint32_t member);
    void SendTransfer(std::uint32_t transfer, TaskId task);
    std::uint32_t NewPending();
    std::uint32_t RouteOf(ServerId src,
                          ServerId dst,
                          std::uint64_t flowKey,
                          const Path* path,
                          std::uint32_t& serverHops);

    ExecutorConfig m_config;
    const TaskGraph& m_graph;
    MessageNetwork& m_network;
    ExecutionObserver& m_observer;
    std::uint32_t m_iteration = 0;
    SimTime m_iterationStart = 0;
    std::uint32_t m_left = 0; ///< tasks of this iteration that have not ended
    std::vector<std::uint32_t> m_predecessorsLeft;
    std::vector<State> m_states;
    std::vector<SimTime> m_starts;
    std::deque<TaskId> m_ready;
    std::vector<TaskId> m_kept;    ///< begun, kept back by the gate
    std::vector<bool> m_computing; ///< by rank
    std::vector<std::deque<TaskId>> m_computeQueues;
    std::vector<std::unique_ptr<Instance>> m_instances; ///< by collective; null = not under way
    std::vector<TaskId> m_receiveTask;                  ///< by transfer; posted Recv, kNoId = none
    std::vector<bool> m_arrived;                        ///< by transfer
    std::vector<std::vector<TaskId>> m_memberTasks;     ///< by collective, member -> task
    std::vector<Pending> m_pending;
    std::uint32_t m_freePending = kNoId;
    std::vector<CollectiveSend> m_sends; ///< scratch

    struct RouteKey
    {
        ServerId src;
        ServerId dst;
        std::uint64_t flow;

        bool operator==(const RouteKey& other) const
        {
            return src == other.src && dst == other.dst && flow == other.flow;
        }
    };

    struct RouteKeyHash
    {
        std::size_t operator()(const RouteKey& key) const;
    };

    struct KnownRoute
    {
        std::uint32_t route;
        std::uint32_t serverHops;
    };

    std::unordered_map<RouteKey, KnownRoute, RouteKeyHash> m_routes; ///< looked up, never iterated
    std::vector<SimTime> m_iterationTimes;
};

} // namespace topoopt

#endif // TOPOOPT_EXECUTOR_H
