// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/live-rings.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace topoopt
{

namespace
{

/** Steps of the search per member; what decomposes needs little more than one. */
constexpr std::size_t kStepsPerMember = 64;

/** Looks for one ring among circuits. */
class RingSearch
{
  public:
    RingSearch(std::uint32_t members, const std::vector<std::uint32_t>& circuits)
        : m_members(members),
          m_next(members),
          m_visited(members)
    {
        for (std::uint32_t from = 0; from < members; ++from)
        {
            for (std::uint32_t to = 0; to < members; ++to)
            {
                if (from != to && circuits[std::size_t{from} * members + to] > 0)
                {
                    m_next[from].push_back(to);
                }
            }
        }
    }

    /** Empty = none found. */
    [[nodiscard]] std::vector<std::uint32_t> Find()
    {
        std::size_t left = kStepsPerMember * m_members;
        std::vector<std::uint32_t> path;
        std::vector<std::vector<std::uint32_t>> choices; // of each member of the path, best last
        const auto enter = [&](std::uint32_t member) {
            path.push_back(member);
            m_visited[member] = true;
            choices.push_back(ChoicesOf(member));
        };
        enter(0);
        while (!path.empty() && left-- > 0)
        {
            const std::uint32_t at = path.back();
            if (path.size() == m_members &&
                std::find(m_next[at].begin(), m_next[at].end(), 0U) != m_next[at].end())
            {
                return path;
            }
            if (choices.back().empty())
            {
                m_visited[at] = false;
                path.pop_back();
                choices.pop_back();
                continue;
            }
            const std::uint32_t next = choices.back().back();
            choices.back().pop_back();
            enter(next);
        }
        return {};
    }

  private:
    /** Members that may follow; the one with the fewest ways on last, of equals the lowest. */
    [[nodiscard]] std::vector<std::uint32_t> ChoicesOf(std::uint32_t member) const
    {
        std::vector<std::pair<std::size_t, std::uint32_t>> ranked;
        for (std::uint32_t next : m_next[member])
        {
            if (!m_visited[next])
            {
                const auto on = std::count_if(m_next[next].begin(),
                                              m_next[next].end(),
                                              [this](std::uint32_t m) { return !m_visited[m]; });
                ranked.emplace_back(static_cast<std::size_t>(on), next);
            }
        }
        std::sort(ranked.rbegin(), ranked.rend());
        std::vector<std::uint32_t> choices;
        for (const auto& [on, next] : ranked)
        {
            choices.push_back(next);
        }
        return choices;
    }

    std::uint32_t m_members;
    std::vector<std::vector<std::uint32_t>> m_next; ///< whom a member has a circuit to
    std::vector<bool> m_visited;
};

} // namespace

std::vector<std::vector<std::uint32_t>>
RingsOver(std::uint32_t members, std::vector<std::uint32_t> circuits)
{
    std::vector<std::vector<std::uint32_t>> rings;
    const auto take = [&](const std::vector<std::uint32_t>& order) {
        for (std::uint32_t k = 0; k < members; ++k)
        {
            --circuits[std::size_t{order[k]} * members + order[(k + 1) % members]];
        }
        rings.push_back(order);
    };
    for (std::uint32_t stride = 1; stride < members; ++stride)
    {
        if (std::gcd(stride, members) != 1)
        {
            continue;
        }
        std::uint32_t parallel = UINT32_MAX;
        std::vector<std::uint32_t> order(members);
        for (std::uint32_t k = 0; k < members; ++k)
        {
            order[k] = static_cast<std::uint32_t>(std::uint64_t{k} * stride % members);
            parallel =
                std::min(parallel, circuits[std::size_t{k} * members + (k + stride) % members]);
        }
        for (; parallel > 0; --parallel)
        {
            take(order);
        }
    }
    for (;;)
    {
        const std::vector<std::uint32_t> order = RingSearch(members, circuits).Find();
        if (order.empty())
        {
            return rings;
        }
        take(order);
    }
}

} // namespace topoopt
