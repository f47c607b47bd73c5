// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/coin-change.h"

#include "topoopt/core/ids.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <stdexcept>

namespace topoopt
{

namespace
{

using Coins = std::vector<std::uint32_t>;

/**
 * Distinct ways, as sorted lists, to make each residue with fewest coins; not more than @p most each.
 * @param order residues by ascending length
 */
std::vector<std::vector<Coins>>
WaysOf(const CoinChangeTable& table, const std::vector<std::uint32_t>& order, std::size_t most)
{
    std::vector<std::vector<Coins>> ways(table.n);
    ways[0] = {{}};
    std::set<Coins> found;
    for (std::size_t at = 1; at < order.size(); ++at)
    {
        const std::uint32_t r = order[at];
        found.clear();
        for (std::uint32_t coin = 0; coin < table.coins.size() && found.size() < most; ++coin)
        {
            const std::uint32_t rest = (r + table.n - table.coins[coin]) % table.n;
            if (table.length[rest] == kNoId || table.length[rest] + 1 != table.length[r])
            {
                continue;
            }
            for (const Coins& way : ways[rest])
            {
                Coins longer = way;
                longer.insert(std::upper_bound(longer.begin(), longer.end(), coin), coin);
                found.insert(std::move(longer));
                if (found.size() == most)
                {
                    break;
                }
            }
        }
        ways[r].assign(found.begin(), found.end());
    }
    return ways;
}

/** How often each coin is used over all residues. */
class CoinUse
{
  public:
    explicit CoinUse(std::size_t coins)
        : m_use(coins)
    {
    }

    void Add(const Coins& path, std::int64_t sign)
    {
        for (std::uint32_t coin : path)
        {
            m_use[coin] += sign;
        }
    }

    /** Growth of the sum of squares if @p path were added. */
    [[nodiscard]] std::int64_t Growth(const Coins& path)
    {
        std::int64_t growth = 0;
        for (std::uint32_t coin : path)
        {
            growth += 2 * m_use[coin] + 1;
            ++m_use[coin];
        }
        Add(path, -1);
        return growth;
    }

  private:
    std::vector<std::int64_t> m_use;
};

/** Fills in paths such that all coins are used as evenly as single changes can make them. */
void
ChooseEvenly(CoinChangeTable& table, const std::vector<std::uint32_t>& order)
{
    constexpr std::size_t kWays = 16384;
    const std::size_t most = std::clamp<std::size_t>(kWays / table.n, 2, 64);
    const std::vector<std::vector<Coins>> ways = WaysOf(table, order, most);
    CoinUse use(table.coins.size());
    // Those without a choice first.
    std::vector<std::uint32_t> open;
    for (std::size_t at = 1; at < order.size(); ++at)
    {
        const std::uint32_t r = order[at];
        if (ways[r].size() == 1)
        {
            table.path[r] = ways[r].front();
            use.Add(table.path[r], 1);
        }
        else
        {
            open.push_back(r);
        }
    }
    constexpr int kPasses = 8;
    bool changed = true;
    for (int pass = 0; pass < kPasses && changed; ++pass)
    {
        changed = false;
        for (std::uint32_t r : open)
        {
            use.Add(table.path[r], -1);
            const Coins* best = nullptr;
            std::int64_t bestGrowth = 0;
            for (const Coins& way : ways[r])
            {
                const std::int64_t growth = use.Growth(way);
                if (best == nullptr || growth < bestGrowth)
                {
                    best = &way;
                    bestGrowth = growth;
                }
            }
            if (table.path[r] != *best)
            {
                table.path[r] = *best;
                changed = true;
            }
            use.Add(table.path[r], 1);
        }
    }
}

} // namespace

CoinChangeTable
CoinChangeMod(std::uint32_t n, const std::vector<std::uint32_t>& coins, Rng* ties)
{
    CoinChangeTable table;
    table.n = n;
    table.coins = coins;
    table.length.assign(n, kNoId);
    table.path.resize(n);
    for (std::uint32_t coin : coins)
    {
        if (coin == 0 || coin >= n)
        {
            throw std::invalid_argument("CoinChangeMod: a coin is not in [1, n-1]");
        }
    }
    if (n == 0)
    {
        return table;
    }
    const auto minus = [n](std::uint32_t r, std::uint32_t coin) {
        return r >= coin ? r - coin : r + n - coin;
    };
    std::vector<std::uint32_t> order{0};
    order.reserve(n);
    table.length[0] = 0;
    for (std::size_t at = 0; at < order.size(); ++at)
    {
        const std::uint32_t r = order[at];
        for (std::uint32_t coin : coins)
        {
            const std::uint32_t next = minus(r, n - coin);
            if (table.length[next] == kNoId)
            {
                table.length[next] = table.length[r] + 1;
                order.push_back(next);
            }
        }
    }

    if (ties == nullptr)
    {
        ChooseEvenly(table, order);
        return table;
    }
    for (std::size_t at = 1; at < order.size(); ++at)
    {
        const std::uint32_t r = order[at];
        std::uint32_t last = kNoId;
        for (std::uint32_t coin = 0; coin < coins.size(); ++coin)
        {
            const std::uint32_t rest = minus(r, coins[coin]);
            if (table.length[rest] != kNoId && table.length[rest] + 1 == table.length[r] &&
                (last == kNoId || ties->Below(2) == 1))
            {
                last = coin;
            }
        }
        table.path[r] = table.path[minus(r, coins[last])];
        table.path[r].push_back(last);
    }
    return table;
}

} // namespace topoopt
