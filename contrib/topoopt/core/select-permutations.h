// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_SELECT_PERMUTATIONS_H
#define TOPOOPT_CORE_SELECT_PERMUTATIONS_H

#include <cstdint>
#include <vector>

namespace topoopt
{

/** Which candidate stands for a term of the geometric progression. */
enum class GeoRounding : std::uint8_t
{
    LowerBound, ///< the smallest one not below the term (the released code)
    Floor,      ///< the largest one not above it
    Nearest     ///< the closest one; the smaller of two equally close
};

/** How SelectPermutations picks. */
struct SelectOptions
{
    GeoRounding rounding = GeoRounding::LowerBound;
    /** A ring and its reverse come together on duplex cables, so p and n - p are the same choice. */
    bool duplex = true;
    /** The released code's ratio, (last / first)^(1/m) kept as a running product, and p beside n - p. */
    bool flexnet = false;
};

/**
 * Strides near a geometric progression, so that few of them add up to any distance.
 *
 * Term i of the progression is c * x^i with c the smallest candidate and x = n^(1/count); each term takes
 * the unused candidate that the rounding names. If all candidates are used (small n, many NICs), the
 * selection repeats from its start: parallel rings.
 *
 * @param n ring size, >= 2
 * @param candidates strides, ascending, without repeats, each in [1, n-1]; not empty
 * @param count how many, >= 1
 * @return @p count strides; without repeats they ascend
 *
 * Cost: O(count * candidates). Deterministic.
 * @throws std::invalid_argument on arguments outside these ranges
 * @see Wang et al., TopoOpt, NSDI 2023, "SelectPermutations".
 */
[[nodiscard]] std::vector<std::uint32_t> SelectPermutations(
    std::uint32_t n,
    const std::vector<std::uint32_t>& candidates,
    std::uint32_t count,
    const SelectOptions& options = {});

} // namespace topoopt

#endif // TOPOOPT_CORE_SELECT_PERMUTATIONS_H
