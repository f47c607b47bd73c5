// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_PLACEMENT_H
#define TOPOOPT_CORE_PLACEMENT_H

#include "topoopt/core/ids.h"

#include <cstdint>
#include <vector>

namespace topoopt
{

/** How the parts of an operator are laid over ranks. */
enum class PlacementRule : std::uint8_t
{
    Stride, ///< start + i * (ranks / parts): groups of one size are rotations of each other
    Block   ///< start + i, wrapping around
};

/**
 * Ranks of an operator's parts.
 * @param parts  1..ranks; with Stride a divisor of ranks
 * @param start  Stride: 0..ranks/parts-1; Block: 0..ranks-1
 */
[[nodiscard]] std::vector<RankId> PlaceParts(PlacementRule rule,
                                             std::uint32_t ranks,
                                             std::uint32_t parts,
                                             std::uint32_t start);

/** Number of different starts. */
[[nodiscard]] std::uint32_t PlacementStarts(PlacementRule rule,
                                            std::uint32_t ranks,
                                            std::uint32_t parts);

/** All divisors of @p n, ascending. */
[[nodiscard]] std::vector<std::uint32_t> DivisorsOf(std::uint32_t n);

} // namespace topoopt

#endif // TOPOOPT_CORE_PLACEMENT_H
