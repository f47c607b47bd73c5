// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_MATCHING_H
#define TOPOOPT_CORE_MATCHING_H

#include <cstdint>
#include <utility>
#include <vector>

namespace topoopt
{

/** One edge that may be matched. */
struct WeightedPair
{
    std::uint32_t a = 0;
    std::uint32_t b = 0;
    std::uint64_t weight = 0;
};

/**
 * A matching of greatest total weight (Edmonds' blossom algorithm, LEMON's implementation).
 *
 * @param vertices number of vertices; pairs name 0 .. vertices-1
 * @param pairs edges, a != b; those of weight 0 are never matched; weights beyond 2^56 lose their lowest
 *        bits so that the dual variables fit
 * @return matched pairs with a < b, ascending
 *
 * Cost: O(pairs * vertices * log vertices) at worst. With many pairs only the heaviest few of each vertex go
 * in at first, then those that the dual variables do not rule out, until none is left: still exact.
 * Deterministic in the order of @p pairs.
 * @throws std::invalid_argument on a pair outside the range
 */
[[nodiscard]] std::vector<std::pair<std::uint32_t, std::uint32_t>> MaximumWeightMatching(
    std::uint32_t vertices,
    const std::vector<WeightedPair>& pairs);

/**
 * At least half the greatest weight: heaviest pair first, then improvements by replacing up to two
 * matched pairs by one. O(pairs log pairs), for graphs on which the exact one takes too long.
 * Same contract otherwise.
 */
[[nodiscard]] std::vector<std::pair<std::uint32_t, std::uint32_t>> GreedyMatching(
    std::uint32_t vertices,
    const std::vector<WeightedPair>& pairs);

/**
 * The assignment of every row to a column of its own with greatest total weight, no row to its own index
 * (shortest augmenting paths, the Hungarian method).
 *
 * @param n rows and columns, >= 2
 * @param weights n * n, row-major, >= 0; the diagonal is ignored
 * @return column of each row
 * Cost: O(n^3). Deterministic.
 * @throws std::invalid_argument if n < 2 or the sizes differ
 */
[[nodiscard]] std::vector<std::uint32_t> MaximumWeightAssignment(
    std::uint32_t n,
    const std::vector<double>& weights);

} // namespace topoopt

#endif // TOPOOPT_CORE_MATCHING_H
