// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_IDS_H
#define TOPOOPT_CORE_IDS_H

#include <cstdint>

namespace topoopt
{

/** Index of a server, 0..n-1. A server's NodeId equals its ServerId. */
using ServerId = std::uint32_t;
/** Index of a server or switch in Topology::nodes; servers come first. */
using NodeId = std::uint32_t;
/** Index of a directed link in Topology::links. */
using LinkId = std::uint32_t;
/** Index of a rank of the workload (a GPU process), 0..ranks-1. */
using RankId = std::uint32_t;
/** Index of a task in TaskGraph::tasks. */
using TaskId = std::uint32_t;

/** "No such thing" for every id above. */
inline constexpr std::uint32_t kNoId = UINT32_MAX;

} // namespace topoopt

#endif // TOPOOPT_CORE_IDS_H
