// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_WRITERS_WRITERS_H
#define TOPOOPT_CORE_WRITERS_WRITERS_H

#include "topoopt/core/trace-write.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace topoopt
{

/** Counts losses by kind. */
class Losses
{
  public:
    void Add(const std::string& what, std::uint64_t times = 1)
    {
        if (times > 0)
        {
            m_counts[what] += times;
        }
    }

    [[nodiscard]] std::vector<std::string> Lines() const
    {
        std::vector<std::string> lines;
        for (const auto& [what, times] : m_counts)
        {
            lines.push_back(what + ": " + std::to_string(times));
        }
        return lines;
    }

  private:
    std::map<std::string, std::uint64_t> m_counts;
};

/** Predecessors of every task, ascending. */
[[nodiscard]] std::vector<std::vector<TaskId>> Predecessors(const TaskGraph& graph);

/**
 * A number for each group, for formats that number them. Names that are numbers are kept if each is there once; the group of all
 * ranks that has no name of its own ("", "0", "world") is number 0.
 * @param losses counts the names that are given up
 */
[[nodiscard]] std::vector<std::uint32_t> GroupNumbers(const TaskGraph& graph, Losses& losses);

/** Counts what no target holds (ends of iterations), and, unless @p names, names that are more than the kind of operation. */
void AddCommonLosses(const TaskGraph& graph, bool names, Losses& losses);

/** A message of the flow formats. */
struct FlatMessage
{
    RankId src = 0;
    RankId dst = 0;
    Bytes bytes = 0;
    SimTime start = 0;
    std::uint64_t id = 0;
    std::vector<std::uint32_t> after; ///< messages that must have been delivered
};

/**
 * All messages of a graph: transfers, and collectives by DefaultMessages(). `after` is filled if asked for.
 * What they cannot carry is counted in @p losses.
 */
[[nodiscard]] std::vector<FlatMessage> Flatten(const TaskGraph& graph,
                                               bool dependencies,
                                               Losses& losses);

WrittenTrace WriteChakra(const TaskGraph& graph, const std::string& stem);
WrittenTrace WriteParamBasic(const TaskGraph& graph, const std::string& stem);
WrittenTrace WriteHpccFlows(const TaskGraph& graph, const std::string& stem);
WrittenTrace WriteConnectionMatrix(const TaskGraph& graph, const std::string& stem);

} // namespace topoopt

#endif // TOPOOPT_CORE_WRITERS_WRITERS_H
