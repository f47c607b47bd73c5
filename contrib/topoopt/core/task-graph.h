// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_TASK_GRAPH_H
#define TOPOOPT_CORE_TASK_GRAPH_H

#include "topoopt/core/ids.h"
#include "topoopt/core/units.h"

#include <cstdint>
#include <string>
#include <vector>

namespace topoopt
{

/** What a task does when its predecessors have finished. */
enum class TaskKind : std::uint8_t
{
    Compute,    ///< occupies its rank's compute device for `duration`; one at a time per rank
    Collective, ///< this rank's part in collectives[object]; ends when this rank's part has ended
    Send,       ///< eager: hands transfers[object] to the transport and ends at once
    Recv,       ///< ends when posted and all bytes of transfers[object] have arrived
    Transfer,   ///< sends transfers[object] and ends when it has been delivered
    Join        ///< a wait, a marker, a synchronisation point; ends `duration` after it could start
};

enum class CollectiveKind : std::uint8_t
{
    AllReduce,
    Reduce,
    AllGather,
    Gather,
    Scatter,
    Broadcast,
    AllToAll,
    AllToAllV,
    ReduceScatter,
    Barrier
};

/** "all_reduce", ...: the spelling of every output and message. */
[[nodiscard]] const char* Name(CollectiveKind kind);
/** "compute", "collective", ... */
[[nodiscard]] const char* Name(TaskKind kind);

/** An ordered set of ranks that call collectives together. */
struct CommGroup
{
    std::string name;
    std::vector<RankId> members; ///< global ranks in group order, no repeats
};

/**
 * One collective that all members of a group execute.
 *
 * `bytes` is the field's usual size (n = group size): AllReduce, Reduce, Broadcast: the vector, N;
 * AllGather: one rank's shard; ReduceScatter: the full input of one rank; AllToAll: the full input of
 * one rank (own part included); Gather, Scatter: one rank's part; Barrier: 0. AllToAllV uses `pairBytes`.
 */
struct CollectiveCall
{
    CollectiveKind kind = CollectiveKind::AllReduce;
    std::uint32_t group = 0;        ///< index into TaskGraph::groups
    std::uint32_t root = 0;         ///< member index; Broadcast, Reduce, Gather, Scatter
    Bytes bytes = 0;                ///< see above
    std::uint32_t elementBytes = 1; ///< payload is split between elements, never inside one
    std::vector<Bytes> pairBytes;   ///< AllToAllV: n*n, [source member][destination member]
    std::string name;               ///< as in the trace; for tables
    std::uint32_t sequence = 0;     ///< number of this call within its group
};

/** One point-to-point message between two ranks. */
struct TransferCall
{
    RankId src = 0;
    RankId dst = 0;
    Bytes bytes = 0;
    std::int64_t tag = 0;
};

/** One node of the graph; 48 bytes, so that millions fit. */
struct Task
{
    TaskKind kind = TaskKind::Join;
    RankId rank = 0;              ///< who executes it
    std::uint32_t object = kNoId; ///< index into collectives or transfers
    std::uint32_t member = 0;     ///< Collective: this rank's index in the group
    SimTime duration =
        0; ///< Compute: run time at scale 1; Join: delay; Join: a delay, occupies nothing
    SimTime notBefore = 0;      ///< lower bound of the start (timing kept); 0 = none
    std::uint64_t sourceId = 0; ///< node id, request or index in the trace, for messages and tables
    std::uint32_t name = kNoId; ///< index into TaskGraph::names
};

/**
 * A workload: what every rank computes and moves, and in which order.
 *
 * A task starts when all its predecessors have finished (and its `notBefore` has passed). Collectives
 * and transfers are already matched: every call knows its group and the task of each member. The graph
 * carries no timing of communication and no topology. Predecessors may be added in any order; the same
 * predecessor twice counts once.
 */
class TaskGraph
{
  public:
    std::uint32_t ranks = 0;
    std::vector<Task> tasks;
    std::vector<CommGroup> groups;
    std::vector<CollectiveCall> collectives;
    std::vector<TransferCall> transfers;
    std::vector<std::string> names;    ///< deduplicated task names
    std::vector<std::string> warnings; ///< what a reader noticed, one line each, repeats counted
    /** Task whose end ends iteration k; empty = one iteration that ends with the last task. */
    std::vector<TaskId> iterationEnds;

    TaskId Add(const Task& task);
    /** @p after waits for @p before. Cost O(1); Finalize() sorts and deduplicates. */
    void AddDependency(TaskId before, TaskId after);
    /** Index of @p text in names; linear probing over a sorted side index, O(log n). */
    std::uint32_t InternName(const std::string& text);

    /**
     * Builds successor lists and checks the graph; call once, after the last Add.
     * @throws SpecError naming @p place: a cycle (printed as "rank r id -> ..."), an id out of range,
     *         a collective with a member missing or twice, a transfer without its receive
     */
    void Finalize(const std::string& place);

    /** Successors of a task; valid after Finalize(). */
    [[nodiscard]] const TaskId* SuccessorsBegin(TaskId task) const
    {
        return m_successors.data() + m_successorStart[task];
    }

    [[nodiscard]] const TaskId* SuccessorsEnd(TaskId task) const
    {
        return m_successors.data() + m_successorStart[task + 1];
    }

    /** Number of distinct predecessors; valid after Finalize(). */
    [[nodiscard]] const std::vector<std::uint32_t>& PredecessorCounts() const
    {
        return m_predecessorCount;
    }

    /** "rank 3 task 17 ("all_reduce")": how messages name a task. */
    [[nodiscard]] std::string Describe(TaskId task) const;

  private:
    std::vector<std::pair<TaskId, TaskId>> m_edges; ///< (before, after), until Finalize()
    std::vector<std::uint32_t> m_successorStart;
    std::vector<TaskId> m_successors;
    std::vector<std::uint32_t> m_predecessorCount;
    std::vector<std::uint32_t> m_nameOrder; ///< indices into names, sorted by text
};

/**
 * Splits @p bytes into @p parts whose sum is exactly @p bytes, each a whole number of elements (the
 * last element may be short if bytes is no multiple of elementBytes); sizes differ by at most one element,
 * larger parts first.
 * @return the size of part @p index
 */
[[nodiscard]] Bytes PartOf(Bytes bytes,
                           std::uint32_t parts,
                           std::uint32_t index,
                           std::uint32_t elementBytes);

} // namespace topoopt

#endif // TOPOOPT_CORE_TASK_GRAPH_H
