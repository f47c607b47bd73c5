// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/coin-change.h"

#include "topoopt/core/ids.h"

#include <cstddef>
#include <stdexcept>

namespace topoopt
{

namespace
{

/** How often each coin is used over all residues, and what one more path would do to the evenness. */
class CoinUse
{
  public:
    explicit CoinUse(std::size_t coins)
        : m_use(coins)
    {
    }

    void Add(const std::vector<std::uint32_t>& path, std::int64_t sign)
    {
        for (std::uint32_t coin : path)
        {
            m_use[coin] += sign;
        }
    }

    /** Growth of the sum of squares if @p prefix and then @p last were added. */
    [[nodiscard]] std::int64_t Growth(const std::vector<std::uint32_t>& prefix, std::uint32_t last)
    {
        std::int64_t growth = 0;
        const auto put = [&](std::uint32_t coin) {
            growth += 2 * m_use[coin] + 1;
            ++m_use[coin];
        };
        for (std::uint32_t coin : prefix)
        {
            put(coin);
        }
        put(last);
        Add(prefix, -1);
        --m_use[last];
        return growth;
    }

  private:
    std::vector<std::int64_t> m_use;
};

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

    CoinUse use(coins.size());
    const auto choose = [&](std::uint32_t r) {
        std::uint32_t best = kNoId;
        std::int64_t bestGrowth = 0;
        for (std::uint32_t coin = 0; coin < coins.size(); ++coin)
        {
            const std::uint32_t rest = minus(r, coins[coin]);
            if (table.length[rest] == kNoId || table.length[rest] + 1 != table.length[r])
            {
                continue;
            }
            if (ties != nullptr)
            {
                if (best == kNoId || ties->Below(2) == 1)
                {
                    best = coin;
                }
                continue;
            }
            const std::int64_t growth = use.Growth(table.path[rest], coin);
            if (best == kNoId || growth < bestGrowth)
            {
                best = coin;
                bestGrowth = growth;
            }
        }
        std::vector<std::uint32_t> path = table.path[minus(r, coins[best])];
        path.push_back(best);
        return path;
    };
    // The first pass builds the paths from the near to the far; the others even out what it left.
    constexpr int kPasses = 3;
    for (int pass = 0; pass < (ties != nullptr ? 1 : kPasses); ++pass)
    {
        for (std::size_t at = 1; at < order.size(); ++at)
        {
            const std::uint32_t r = order[at];
            use.Add(table.path[r], -1);
            table.path[r] = choose(r);
            use.Add(table.path[r], 1);
        }
    }
    return table;
}

} // namespace topoopt
