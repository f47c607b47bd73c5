// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_TRACE_WRITE_H
#define TOPOOPT_CORE_TRACE_WRITE_H

#include "topoopt/core/task-graph.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace topoopt
{

/** A trace as files to be written: name -> content; names are relative to the output. */
struct WrittenTrace
{
    std::map<std::string, std::string> files;
    /** What the target cannot hold, one line per kind of loss with a count; empty = nothing was lost. */
    std::vector<std::string> dropped;
};

/** One row of the table of formats that can be written. */
struct TraceWriterFormat
{
    std::string name;   ///< as in TraceFormats() where it can be read
    std::string help;   ///< one line
    std::string suffix; ///< of OUT that asks for this format; "" = only by name
    WrittenTrace (*write)(const TaskGraph& graph, const std::string& stem) = nullptr;
};

/** chakra, param-basic, hpcc-flows, htsim-cm. */
[[nodiscard]] const std::vector<TraceWriterFormat>& TraceWriterFormats();

/**
 * Writes a task graph in another format.
 *
 * - chakra: `STEM.RANK.et` and `comm_group.json`. An uneven all_to_allv becomes sends and receives; a Transfer
 *   becomes a send and a receive, so that its source no longer waits for the delivery. Times in us.
 * - param-basic: `rank-RANK.json`. Program order with waits, so concurrency that these cannot express is
 *   lost; no computation.
 * - hpcc-flows: one file. Messages and their earliest starts; collectives become one flow per pair that exchanges
 *   data, by the algorithms of Summarise(). No dependencies.
 * - htsim-cm: one file. The same messages, starts in ps, and dependencies between messages as triggers.
 *
 * @param format a name of TraceWriterFormats(), or "" to go by the suffix of @p output
 * @throws SpecError if the format is unknown or the graph has nothing that it can hold
 */
[[nodiscard]] WrittenTrace WriteTrace(const TaskGraph& graph,
                                      const std::string& format,
                                      const std::string& output);

/** Writes the files of @p trace to @p output, a file name or a directory. @throws SpecError */
void SaveTrace(const WrittenTrace& trace, const std::string& output);

} // namespace topoopt

#endif // TOPOOPT_CORE_TRACE_WRITE_H
