// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_TOTIENT_PERMS_H
#define TOPOOPT_CORE_TOTIENT_PERMS_H

#include <cstdint>
#include <vector>

namespace topoopt
{

/** Which strides TotientPerms offers. */
enum class CandidateSet : std::uint8_t
{
    Coprime, ///< every stride whose ring visits all members
    Prime    ///< 1 and the primes among them: O(n / ln n) instead of phi(n)
};

/**
 * Every ring that visits n members by a constant stride.
 *
 * Member i's successor on ring p is (i + p) mod n; that is a single cycle exactly when gcd(p, n) = 1, so
 * there are phi(n) of them. Ring n - p is ring p run backwards.
 *
 * @param n members, >= 2
 * @return strides, ascending, each in [1, n-1]; never empty, 1 is always there
 *
 * Cost: O(n log n) time. Deterministic.
 * @throws std::invalid_argument if n < 2
 * @see Wang et al., TopoOpt, NSDI 2023, "TotientPerms". Deviation: with Prime the stride 1 stays, so
 *      that the progression of SelectPermutations has its first member.
 */
[[nodiscard]] std::vector<std::uint32_t> TotientPerms(std::uint32_t n,
                                                      CandidateSet set = CandidateSet::Coprime);

} // namespace topoopt

#endif // TOPOOPT_CORE_TOTIENT_PERMS_H
