// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_READERS_READERS_H
#define TOPOOPT_CORE_READERS_READERS_H

#include "topoopt/core/readers/input.h"
#include "topoopt/core/trace-set.h"

#include <string>
#include <string_view>
#include <vector>

namespace topoopt
{

/**
 * Names of the keys of the outermost JSON object as far as @p head shows them; "[" if the text is an array,
 * "" if it is no JSON. An element of an array has its keys with "[]." in front.
 */
[[nodiscard]] std::vector<std::string> JsonKeys(std::string_view head);

/** Whether @p keys has @p key. */
[[nodiscard]] bool HasKey(const std::vector<std::string>& keys, std::string_view key);

/** First lines of a text, comments and blank lines left out, split at white space; at most @p most. */
[[nodiscard]] std::vector<std::vector<std::string>> HeadLines(std::string_view head,
                                                              std::size_t most);

/** What a collective's name stands for. */
struct CommName
{
    OpKind kind = OpKind::Nothing;
    CollectiveKind collective = CollectiveKind::Barrier;
    bool vector = false; ///< all_gather_v, reduce_scatter_v: sizes differ by member
    bool init = false;
};

/**
 * Meaning of a PyTorch/PARAM operation name: lower case, letters only, then the aliases of docs/traces.md 1.3.
 * @return false if it is unknown
 */
[[nodiscard]] bool ParseCommName(std::string_view name, CommName& out);

/** Bytes of an element of a PyTorch, PARAM or NCCL dtype; 0 = unknown. */
[[nodiscard]] std::uint32_t DtypeBytes(std::string_view dtype);

/** "all_gather, all_reduce, ...": what ParseCommName() knows, for messages. */
[[nodiscard]] std::string KnownCommNames();

/** Sizes of one collective in elements, as PyTorch-like loggers write them. */
struct ElementSizes
{
    std::int64_t in = 0;
    std::int64_t out = -1; ///< -1 = not recorded
    std::vector<std::int64_t> inSplit;
    std::vector<std::int64_t> outSplit;
};

/**
 * Sets kind, bytes and splits of a collective from sizes in elements, and checks them (docs/traces.md 1.9).
 * @param op kind, collective, group, elementBytes are set
 * @param n members of its group
 * @param place how messages name the operation
 */
void SetSizes(TraceSet& set,
              RankTrace& trace,
              TraceOp& op,
              const CommName& name,
              const ElementSizes& sizes,
              std::uint32_t n,
              std::uint32_t member,
              const std::string& place);

/** Reads {"name": [ranks], ...} into groups; @return name -> group index. */
[[nodiscard]] std::map<std::string, std::uint32_t> ReadGroupFile(const std::string& path,
                                                                 TraceSet& set);

/** Number of members; world if it has none listed. */
[[nodiscard]] inline std::uint32_t
GroupSize(const TraceSet& set, std::uint32_t group)
{
    const auto& members = set.groups[group].members;
    return static_cast<std::uint32_t>(members.empty() ? set.ranks.size() : members.size());
}

/** Index of @p rank in a group. @return UINT32_MAX if it is no member */
[[nodiscard]] std::uint32_t MemberIndex(const TraceSet& set, std::uint32_t group, RankId rank);

// One reader per format; see TraceFormats().
bool ProbeParamBasic(std::string_view head);
void LoadParamBasic(const std::vector<TraceFile>& files,
                    const TraceOptions& options,
                    TraceSet& set);
bool ProbeTorchEt(std::string_view head);
void LoadTorchEt(const std::vector<TraceFile>& files, const TraceOptions& options, TraceSet& set);
bool ProbeChakra(std::string_view head);
void LoadChakra(const std::vector<TraceFile>& files, const TraceOptions& options, TraceSet& set);
bool ProbeChakraJson(std::string_view head);
void LoadChakraJson(const std::vector<TraceFile>& files,
                    const TraceOptions& options,
                    TraceSet& set);
bool ProbeKineto(std::string_view head);
void LoadKineto(const std::vector<TraceFile>& files, const TraceOptions& options, TraceSet& set);
/** The rank that a Kineto file says it is of, else that of its name. @throws SpecError if neither says */
std::uint32_t KinetoRank(const TraceFile& file);

// One file for all ranks.
bool ProbeLayerTable(std::string_view head);
void LoadLayerTable(const std::vector<TraceFile>& files,
                    const TraceOptions& options,
                    TraceSet& set);
bool ProbeGoal(std::string_view head);
void LoadGoal(const std::vector<TraceFile>& files, const TraceOptions& options, TraceSet& set);

// Flow lists and what goes with them; see trace-flows.h.
bool ProbeHpccFlows(std::string_view head);
bool ProbeConnectionMatrix(std::string_view head);
bool ProbeOperaFlows(std::string_view head);
bool ProbeSizeCdf(std::string_view head);
bool ProbeRackMatrix(std::string_view head);
bool ProbeFbflow(std::string_view head);
bool ProbeHpccTopology(std::string_view head);
bool ProbeHtsimTopology(std::string_view head);

} // namespace topoopt

#endif // TOPOOPT_CORE_READERS_READERS_H
