// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_LIVE_RINGS_H
#define TOPOOPT_CORE_LIVE_RINGS_H

#include <cstdint>
#include <vector>

namespace topoopt
{

/**
 * Rings over all members of a group that circuits carry without detours, each circuit in one ring.
 *
 * First those in which each member sends to the one p places on, as TopoOpt wires them, for p without a common divisor with
 * the size of the group, ascending; then a depth-first search among the circuits that are left, to those with the fewest
 * ways on first, given up after 64 steps per member: it finds the last ring of what decomposes into rings, but need not find
 * all of an arbitrary graph.
 *
 * @param members at least 2
 * @param circuits [from * members + to], parallel circuits
 * @return orders that begin with member 0; order[k] sends to order[k + 1], the last to the first
 * Cost: O(members^2) and the search. Deterministic.
 */
[[nodiscard]] std::vector<std::vector<std::uint32_t>> RingsOver(
    std::uint32_t members,
    std::vector<std::uint32_t> circuits);

} // namespace topoopt

#endif // TOPOOPT_CORE_LIVE_RINGS_H
