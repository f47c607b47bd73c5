// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/scenario.h"

#include <algorithm>
#include <cstddef>

namespace topoopt
{

namespace
{

/**
 * Fewest insertions, deletions, replacements and swaps of neighbours that turn @p a into @p b, each
 * letter touched once (optimal string alignment). O(|a| |b|).
 */
std::size_t
EditDistance(const std::string& a, const std::string& b)
{
    std::vector<std::size_t> before(b.size() + 1);
    std::vector<std::size_t> last(b.size() + 1);
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j)
    {
        last[j] = j;
    }
    for (std::size_t i = 1; i <= a.size(); ++i)
    {
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j)
        {
            row[j] = std::min(
                {last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
            {
                row[j] = std::min(row[j], before[j - 2] + 1);
            }
        }
        std::swap(before, last);
        std::swap(last, row);
    }
    return last[b.size()];
}

} // namespace

std::string
Suggest(const std::string& text, const std::vector<std::string>& candidates)
{
    // The distance is quadratic and a typing error is short.
    constexpr std::size_t kLongest = 200;
    if (text.empty() || text.size() > kLongest)
    {
        return "";
    }
    const std::size_t near = std::max<std::size_t>(1, text.size() / 3);
    std::string best;
    std::size_t bestDistance = near + 1;
    for (const std::string& candidate : candidates)
    {
        if (candidate.size() > text.size() + near || text.size() > candidate.size() + near)
        {
            continue;
        }
        const std::size_t distance = EditDistance(text, candidate);
        if (distance < bestDistance)
        {
            bestDistance = distance;
            best = candidate;
        }
    }
    return best;
}

} // namespace topoopt
