// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_COIN_CHANGE_H
#define TOPOOPT_CORE_COIN_CHANGE_H

#include "topoopt/core/random.h"

#include <cstdint>
#include <vector>

namespace topoopt
{

/**
 * For every distance on a circulant graph the fewest strides that add up to it.
 *
 * Because the graph looks the same from every server, one table of n entries holds all n(n-1) routes.
 */
struct CoinChangeTable
{
    std::uint32_t n = 0;
    std::vector<std::uint32_t>
        coins; ///< residues mod n, in the caller's order; repeats = parallel links
    std::vector<std::uint32_t>
        length; ///< by residue: how many coins; kNoId if it cannot be reached
    /** By residue: indices into coins, in the order in which they are travelled. */
    std::vector<std::vector<std::uint32_t>> path;
};

/**
 * Fewest coins for every residue mod @p n (breadth first over residues).
 *
 * Of several shortest ways the table takes those that keep the use of all coins even, counted over one
 * flow per residue, in ascending order of coins; with @p ties, one of the last coins at random, as the
 * released code does (each later one replaces the earlier with probability 1/2).
 *
 * @param n number of residues, >= 1
 * @param coins each in [1, n-1]
 * Cost: O(n * coins * longest path), times the ways compared (64 at most, fewer for large n). Deterministic in its arguments.
 * @throws std::invalid_argument on a coin outside the range
 * @see Wang et al., TopoOpt, NSDI 2023, "CoinChangeMod". Deviation: the tie rule, which the paper leaves
 *      open.
 */
[[nodiscard]] CoinChangeTable CoinChangeMod(std::uint32_t n,
                                            const std::vector<std::uint32_t>& coins,
                                            Rng* ties = nullptr);

} // namespace topoopt

#endif // TOPOOPT_CORE_COIN_CHANGE_H
