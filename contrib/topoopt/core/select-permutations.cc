// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/select-permutations.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>

namespace topoopt
{

namespace
{

/**
 * The unused candidate for @p term, or one past the end if none is left.
 * Each rounding falls back to the nearest unused one on its other side.
 */
std::size_t
PickFor(double term,
        const std::vector<std::uint32_t>& candidates,
        const std::vector<bool>& used,
        GeoRounding rounding,
        double slack)
{
    const std::size_t none = candidates.size();
    std::size_t below = none;
    std::size_t above = none;
    for (std::size_t i = 0; i < candidates.size(); ++i)
    {
        if (used[i])
        {
            continue;
        }
        const double value = candidates[i];
        if (value <= term + slack)
        {
            below = i;
        }
        if (value >= term - slack && above == none)
        {
            above = i;
        }
    }
    if (below == none || above == none)
    {
        return below == none ? above : below;
    }
    switch (rounding)
    {
    case GeoRounding::LowerBound:
        return above;
    case GeoRounding::Floor:
        return below;
    case GeoRounding::Nearest:
        break;
    }
    return term - candidates[below] <= candidates[above] - term ? below : above;
}

} // namespace

std::vector<std::uint32_t>
SelectPermutations(std::uint32_t n,
                   const std::vector<std::uint32_t>& candidates,
                   std::uint32_t count,
                   const SelectOptions& options)
{
    if (n < 2 || candidates.empty() || count == 0 || candidates.front() == 0 ||
        candidates.back() >= n)
    {
        throw std::invalid_argument("SelectPermutations: no candidates, or one outside the ring");
    }
    const double first = candidates.front();
    const double ratio = options.flexnet ? std::pow(candidates.back() / first, 1.0 / count)
                                         : std::pow(static_cast<double>(n) / first, 1.0 / count);
    std::vector<bool> used(candidates.size());
    std::vector<std::uint32_t> selected;
    double term = first;
    for (std::uint32_t i = 0; i < count; ++i)
    {
        // A term that is a candidate up to rounding errors of the power is that candidate.
        const double slack = options.flexnet ? 0 : 1e-9 * term;
        const std::size_t pick = PickFor(term, candidates, used, options.rounding, slack);
        if (pick == candidates.size())
        {
            break;
        }
        used[pick] = true;
        selected.push_back(candidates[pick]);
        if (options.duplex && !options.flexnet)
        {
            const auto twin =
                std::lower_bound(candidates.begin(), candidates.end(), n - candidates[pick]);
            if (twin != candidates.end() && *twin == n - candidates[pick])
            {
                used[static_cast<std::size_t>(twin - candidates.begin())] = true;
            }
        }
        term *= ratio;
    }
    std::sort(selected.begin(), selected.end());
    const std::size_t distinct = selected.size();
    while (selected.size() < count)
    {
        selected.push_back(selected[selected.size() % distinct]);
    }
    return selected;
}

} // namespace topoopt
