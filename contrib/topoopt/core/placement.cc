// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/placement.h"

namespace topoopt
{

std::vector<RankId>
PlaceParts(PlacementRule rule, std::uint32_t ranks, std::uint32_t parts, std::uint32_t start)
{
    const std::uint32_t step = rule == PlacementRule::Stride ? ranks / parts : 1;
    std::vector<RankId> out(parts);
    for (std::uint32_t i = 0; i < parts; ++i)
    {
        out[i] = (start + i * step) % ranks;
    }
    return out;
}

std::uint32_t
PlacementStarts(PlacementRule rule, std::uint32_t ranks, std::uint32_t parts)
{
    if (rule == PlacementRule::Stride)
    {
        return ranks / parts;
    }
    return parts == ranks ? 1 : ranks;
}

std::vector<std::uint32_t>
DivisorsOf(std::uint32_t n)
{
    std::vector<std::uint32_t> out;
    for (std::uint32_t d = 1; d <= n; ++d)
    {
        if (n % d == 0)
        {
            out.push_back(d);
        }
    }
    return out;
}

} // namespace topoopt
