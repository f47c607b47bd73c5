// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_TESTS_ONE_COLLECTIVE_H
#define TOPOOPT_TESTS_ONE_COLLECTIVE_H

#include "topoopt/core/task-graph.h"

#include <cstdint>

namespace topoopt::test
{

/** A job that is one call over ranks 0..@p ranks - 1. */
inline TaskGraph
OneCollective(std::uint32_t ranks, const CollectiveCall& call)
{
    TaskGraph graph;
    graph.ranks = ranks;
    graph.groups.push_back({"all", {}});
    graph.collectives.push_back(call);
    for (RankId r = 0; r < ranks; ++r)
    {
        graph.groups[0].members.push_back(r);
        Task task;
        task.kind = TaskKind::Collective;
        task.rank = r;
        task.object = 0;
        task.member = r;
        graph.Add(task);
    }
    graph.Finalize("test");
    return graph;
}

/** The least k with 2^k >= @p n. */
inline std::uint32_t
CeilLog2(std::uint32_t n)
{
    std::uint32_t k = 0;
    while ((1U << k) < n)
    {
        ++k;
    }
    return k;
}

} // namespace topoopt::test

#endif // TOPOOPT_TESTS_ONE_COLLECTIVE_H
