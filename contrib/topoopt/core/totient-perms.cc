// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/totient-perms.h"

#include <numeric>
#include <stdexcept>

namespace topoopt
{

std::vector<std::uint32_t>
TotientPerms(std::uint32_t n, CandidateSet set)
{
    if (n < 2)
    {
        throw std::invalid_argument("TotientPerms: a ring needs 2 members or more");
    }
    std::vector<bool> composite;
    if (set == CandidateSet::Prime)
    {
        composite.resize(n);
        for (std::uint64_t p = 2; p * p < n; ++p)
        {
            for (std::uint64_t multiple = p * p; multiple < n && !composite[p]; multiple += p)
            {
                composite[multiple] = true;
            }
        }
    }
    std::vector<std::uint32_t> strides;
    for (std::uint32_t p = 1; p < n; ++p)
    {
        if (std::gcd(p, n) == 1 && (set == CandidateSet::Coprime || !composite[p]))
        {
            strides.push_back(p);
        }
    }
    return strides;
}

} // namespace topoopt
