// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_TRACE_H
#define TOPOOPT_CORE_TRACE_H

#include "topoopt/core/fabric.h"
#include "topoopt/core/task-graph.h"

#include <array>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace topoopt
{

/** How a trace is read and replayed; the keys beside `workload.trace`, spelled as below. */
struct TraceOptions
{
    /** timing: `dependency` (as soon as dependencies allow) or `kept` (recorded starts are lower bounds). */
    bool timingKept = false;
    /** align: recorded starts count from the smallest of all ranks (`global`) or of each rank (`per-rank`). */
    bool alignPerRank = false;
    /** compute_scale: factor on every recorded compute duration; 0 is legal. */
    double computeScale = 1.0;
    /** scale_bytes: factor on every size; whole elements, at least one if the size was not 0. */
    double scaleBytes = 1.0;
    /** max_ops: only the first operations of each rank (0 = all); whole collectives and messages only. */
    std::uint64_t maxOps = 0;
    /** first_iteration: stop where a second iteration marker begins. */
    bool firstIteration = false;
    /** serialise: collectives of one rank and group run one after the other (`group`), or freely (`none`). */
    bool serialise = true;
    /** allgather_size: the size in Chakra and layer tables is one rank's `input` or the whole `output`. */
    bool allGatherOutput = false;
    /** comm_size_unit: `bytes` or `elements` (Chakra, as STAGE writes it), with elem_bytes each. */
    bool sizesAreElements = false;
    std::uint32_t elementBytes = 1;
    /** skip_unknown: operations of unknown kind are left out and counted instead of refused. */
    bool skipUnknown = false;
    /** skip_unplaceable: sends and receives without a peer are left out and counted. */
    bool skipUnplaceable = false;
    /** cpu_compute: durations of host-side compute nodes count too (Chakra, Kineto). */
    bool cpuCompute = false;
    /** ctrl_deps: control dependencies are enforced as well (Chakra). */
    bool controlDeps = false;
    /** one_trace: a single file stands for this many ranks (0 = no). */
    std::uint32_t oneTrace = 0;
    /** ranks: of a layer table that does not say for how many it is (0 = it says so). */
    std::uint32_t ranks = 0;
    /** partial: ranks may be missing; the trace is summarised but not matched, so it cannot run. */
    bool partial = false;
    /** groups_file: a JSON file {"name": [ranks]} with process groups. */
    std::string groupsFile;
    /** ranks_map: a file with the server of rank 0, 1, ...; empty = rank r on server r / gpus. */
    std::string ranksMap;
    /** gpus_per_server: rank r on server r / k, whatever the servers have (0 = as many as they have). */
    std::uint32_t gpusPerServer = 0;

    /**
     * Reads the options; whatever is not among the keys above is an error.
     * @param places option -> place for messages; may lack entries
     * @throws SpecError for an unknown key (with the nearest known one) or a bad value
     */
    static TraceOptions Parse(const std::map<std::string, std::string>& options,
                              const std::map<std::string, std::string>& places = {});

    /** "timing=kept compute_scale=0": the options that differ from the defaults; stamped into outputs. */
    [[nodiscard]] std::string Stamp() const;
};

/** Per-rank counts of what a trace holds; indices are the kinds' values. */
struct RankCounts
{
    std::array<std::uint64_t, 10> collectives{}; ///< by CollectiveKind
    std::array<Bytes, 10> collectiveBytes{};     ///< this rank's input bytes, by CollectiveKind
    std::uint64_t sends = 0;
    std::uint64_t recvs = 0;
    Bytes sendBytes = 0;
    Bytes recvBytes = 0;
    std::uint64_t waits = 0;
    std::uint64_t computes = 0;
    SimTime computeTime = 0; ///< sum of durations, before scaling
};

/** A workload as read: what runs, and what is worth knowing about where it came from. */
struct LoadedWorkload
{
    TaskGraph graph;
    std::shared_ptr<Fabric> fabric; ///< the fabric that the file describes, or null
    std::string format;             ///< name in TraceFormats()
    std::vector<std::string> files; ///< in rank order
    std::vector<RankCounts> ranks;  ///< one per rank; empty for flow lists
    /** Facts of the format, e.g. "nodes", "waits_without_operation"; sorted by name. */
    std::map<std::string, std::int64_t> facts;
    /** Lists of such facts, e.g. the request numbers of those waits on the lowest rank. */
    std::map<std::string, std::vector<std::int64_t>> lists;
    /** Measures that are no whole numbers, e.g. "mean_bytes" of a size distribution. */
    std::map<std::string, double> measures;
    std::string stamp;    ///< the options that differ from the defaults
    bool partial = false; ///< not matched; the graph is empty
};

struct TraceFile;
struct TraceSet;

/** One row of the table of formats. */
struct TraceFormat
{
    std::string name;    ///< "param-basic"
    std::string help;    ///< one line
    bool perRank = true; ///< one file per rank; false: one for all
    bool flows = false;  ///< for `workload.flows`, else for `workload.trace`
    /** Whether the first bytes (decompressed, up to 64 KiB) look like this format. */
    bool (*probe)(std::string_view head) = nullptr;
    /** Reads the files of all ranks, sorted by rank. Null for flow lists. */
    void (*load)(const std::vector<TraceFile>& files,
                 const TraceOptions& options,
                 TraceSet& set) = nullptr;
    /** The rank that a file's content names, else its name's. Null: names alone decide. */
    std::uint32_t (*rankOf)(const TraceFile& file) = nullptr;
};

/** All formats that can be read, in the order in which they are tried; also for `topoopt list`. */
[[nodiscard]] const std::vector<TraceFormat>& TraceFormats();

/**
 * Reads a trace: a directory with one file per rank, a prefix of such files, or one of them (its
 * siblings are found). Content decides the format; gzip and bzip2 are seen by their magic bytes.
 *
 * Cost: streams each file once; memory for the operations, not for the text.
 * @throws SpecError with file, place, rank and operation for everything that could not be replayed,
 *         including operations that do not match between ranks and deadlocks
 */
[[nodiscard]] LoadedWorkload LoadTrace(const std::string& path, const TraceOptions& options);

/** The same for files in memory; names give the ranks as on disk. */
[[nodiscard]] LoadedWorkload LoadTraceFiles(const std::vector<TraceFile>& files,
                                            const TraceOptions& options);

/**
 * Server of each rank: rank / gpus (`gpus_per_server` if that is given), or the file of `ranks_map` (one server per
 * line or separated by white space, `#` comments).
 * @throws SpecError "PLACE: found 8 ranks, 4 servers x 1 GPU, ..." if they do not fit
 */
[[nodiscard]] std::vector<ServerId> MapRanks(std::uint32_t ranks,
                                             ServerId servers,
                                             std::uint32_t gpus,
                                             const TraceOptions& options,
                                             const std::string& place = "servers");

/** What `topoopt inspect` prints. */
struct TraceSummary
{
    struct Collective
    {
        CollectiveKind kind = CollectiveKind::AllReduce;
        std::uint32_t members = 0;  ///< group size
        Bytes bytes = 0;            ///< CollectiveCall::bytes; AllToAllV: the sum of all pairs
        std::uint64_t calls = 0;    ///< matched calls with these three values
        Bytes ringBytesPerEdge = 0; ///< the largest edge's; 0 for kinds that use no ring
        Bytes bytesPerPair = 0;     ///< of the direct algorithm; 0 if pairs differ
    };

    struct Pair
    {
        RankId src = 0;
        RankId dst = 0;
        std::uint64_t messages = 0;
        Bytes bytes = 0;
    };

    std::string format;
    std::vector<std::string> files;
    std::uint32_t ranks = 0;
    std::uint64_t tasks = 0;
    std::vector<CommGroup> groups;
    std::vector<Collective> collectives; ///< sorted by kind, members, bytes
    std::vector<RankCounts> perRank;
    std::vector<Pair> transfers; ///< send/recv by pair, sorted; self-sends included
    std::uint64_t transferCount = 0;
    Bytes transferBytes = 0;
    std::vector<Pair>
        wirePairs; ///< sums over everything (algorithm below), off the diagonal, sorted
    Bytes wireBytes = 0;
    Bytes allToAllOffDiagonal = 0;   ///< all all-to-all(v) together, own parts left out
    std::vector<Bytes> allToAllRow0; ///< bytes of rank 0 to each rank, own part included
    std::map<std::string, std::int64_t> facts;
    std::map<std::string, std::vector<std::int64_t>> lists;
    std::map<std::string, double> measures;
    std::vector<std::string> warnings;
    std::string stamp;
    bool partial = false;
};

/**
 * Counts and bytes of a workload. Wire bytes assume one ring in group order for AllReduce, AllGather and
 * ReduceScatter, a chain from (to) the root for Broadcast (Reduce), and direct messages otherwise.
 * Cost: O(tasks + sum over collectives of n, or n*n for all-to-all).
 */
[[nodiscard]] TraceSummary Summarise(const LoadedWorkload& workload);

/** A message that a collective sends by the algorithms of Summarise(); src and dst are ranks, bytes above 0. */
struct PairBytes
{
    RankId src = 0;
    RankId dst = 0;
    Bytes bytes = 0;
};

/** What @p call puts on the wire by the algorithms of Summarise(), one entry per ordered pair; no self-sends. */
[[nodiscard]] std::vector<PairBytes> DefaultMessages(const CollectiveCall& call,
                                                     const std::vector<RankId>& members);

/** For people. */
void PrintText(const TraceSummary& summary, std::ostream& out);
/** One JSON object; the keys are the members' names in snake_case. */
void PrintJson(const TraceSummary& summary, std::ostream& out);

} // namespace topoopt

#endif // TOPOOPT_CORE_TRACE_H
