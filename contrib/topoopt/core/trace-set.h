// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_TRACE_SET_H
#define TOPOOPT_CORE_TRACE_SET_H

#include "topoopt/core/trace.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace topoopt
{

/** What a rank does next, before ranks are matched with each other. */
enum class OpKind : std::uint8_t
{
    Compute,
    Collective,
    Send,
    Recv,
    Wait,   ///< for the operation with the same key
    Batch,  ///< starts the batched sends and receives before it
    Nothing ///< host bookkeeping; takes no time, keeps the order
};

/** A split that the logger of one side does not know. */
inline constexpr Bytes kUnknownSplit = UINT64_MAX;

/** The key by which a wait finds its operation. */
struct RequestKey
{
    std::uint64_t request = 0;
    std::uint32_t group = UINT32_MAX; ///< group name's index; UINT32_MAX = unknown
    bool p2p = false;
    bool valid = false;

    friend bool operator<(const RequestKey& a, const RequestKey& b)
    {
        return std::tie(a.request, a.group, a.p2p) < std::tie(b.request, b.group, b.p2p);
    }
};

/** One operation of one rank; about 110 bytes. */
struct TraceOp
{
    OpKind kind = OpKind::Nothing;
    CollectiveKind collective = CollectiveKind::Barrier;
    bool async = false;       ///< program order: later operations need not wait for it
    bool batched = false;     ///< program order: starts with the next Batch
    bool sizeUnknown = false; ///< a rooted collective whose logger wrote no size on this rank
    std::uint32_t elementBytes = 1;
    std::uint32_t group = 0;         ///< index into TraceSet::groups
    std::uint32_t root = UINT32_MAX; ///< member index; UINT32_MAX = not recorded
    RankId peer = kNoId;             ///< Send: destination, Recv: source
    Bytes bytes = 0;                 ///< as CollectiveCall::bytes
    std::int64_t tag = 0;
    SimTime duration = 0;
    std::int64_t start = -1;     ///< recorded, in ns since any epoch; -1 = none
    std::uint64_t id = 0;        ///< node id or index in the file
    std::uint32_t name = 0;      ///< index into TraceSet::names
    std::uint32_t iteration = 0; ///< how many iteration markers came before it
    std::uint64_t splits =
        UINT64_MAX; ///< AllToAllV: n input splits at RankTrace::splits[splits], then n output (kUnknownSplit = not recorded)
    std::uint64_t deps = 0; ///< first of depCount entries in RankTrace::deps
    std::uint32_t depCount = 0;
};

/** What one rank does. */
struct RankTrace
{
    std::string file;
    std::vector<TraceOp> ops;
    std::vector<std::uint32_t> deps; ///< indices into ops
    std::vector<Bytes> splits;       ///< bytes
    /** True: `ops` is the order in which the host issued them; false: only deps hold. */
    bool programOrder = true;
    SimTime computeTime = 0;
};

/** All ranks, groups and names of a trace, as a reader hands them over. */
struct TraceSet
{
    std::vector<RankTrace> ranks;
    /** Identity of a group = name and members; no members = all ranks (filled in by the matcher). */
    std::vector<CommGroup> groups;
    std::vector<std::string> names;
    std::map<std::string, std::uint64_t> warnings; ///< text -> how often
    std::map<std::string, std::int64_t> facts;
    std::map<std::string, std::vector<std::int64_t>> lists;
    /** Place of the whole trace for messages that concern several ranks. */
    std::string place;

    std::uint32_t Group(const std::string& name, const std::vector<RankId>& members);
    std::uint32_t Name(std::string_view name);
    void Warn(const std::string& text, std::uint64_t times = 1);

    /** "FILE rank R node ID ("name")": how messages name an operation. */
    [[nodiscard]] std::string Describe(std::uint32_t rank, const TraceOp& op) const;

  private:
    std::map<std::pair<std::string, std::vector<RankId>>, std::uint32_t> m_groupIndex;
    std::map<std::string, std::uint32_t, std::less<>> m_nameIndex;
};

/**
 * Gives a rank in program order its dependencies: an operation is asynchronous exactly if a wait with its key
 * follows; everything else blocks what comes after it (PARAM's rule, docs/traces.md 1.3).
 *
 * @param keys one per operation; of a Wait: what it waits for
 * A wait without operation counts as done; a request that is opened twice belongs to the later operation;
 * both are warnings.
 */
void OrderProgram(TraceSet& set, std::uint32_t rank, const std::vector<RequestKey>& keys);

/**
 * Matches the ranks: collectives per group in canonical order, messages FIFO per (source, destination, tag),
 * and checks that the trace can finish (docs/traces.md 1.9). The set is consumed.
 *
 * Cost: O((operations + dependencies) * groups of a rank whose node ids contradict its dependencies), else linear.
 * @throws SpecError naming rank and operation
 */
void BuildTaskGraph(TraceSet& set, const TraceOptions& options, LoadedWorkload& out);

/** Bytes of @p count elements. @throws SpecError at @p place if negative or 2^63 and more */
[[nodiscard]] Bytes CheckedBytes(const std::string& place,
                                 std::int64_t count,
                                 std::uint32_t elementBytes);

} // namespace topoopt

#endif // TOPOOPT_CORE_TRACE_SET_H
