// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/circulant.h"

#include "topoopt/core/error.h"
#include "topoopt/core/totient-perms.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace topoopt
{

Circulant::Circulant(const FoundTopology& found, Rng* ties, bool flexnet)
    : m_flexnet(flexnet)
{
    if (!found.IsCirculant())
    {
        throw std::invalid_argument("Circulant: there are cables besides rings over all servers");
    }
    const std::uint32_t n = found.servers;
    const std::vector<std::uint32_t> strides = found.FullStrides();
    std::vector<std::uint32_t> coins;
    for (std::uint32_t stride : strides)
    {
        coins.push_back(stride);
        if (n != 2)
        {
            coins.push_back(n - stride);
        }
    }
    m_links.resize(coins.size() * n);
    // The cables of a ring follow one another in the order of servers, two links each.
    for (std::size_t k = 0; k < strides.size(); ++k)
    {
        if (n == 2)
        {
            m_links[k] = static_cast<LinkId>(2 * k);
            m_links[coins.size() + k] = static_cast<LinkId>(2 * k + 1);
            continue;
        }
        for (ServerId i = 0; i < n; ++i)
        {
            const auto forth = static_cast<LinkId>(2 * (k * n + i));
            m_links[i * coins.size() + 2 * k] = forth;
            m_links[(i + strides[k]) % n * coins.size() + 2 * k + 1] = forth + 1;
        }
    }
    m_table = CoinChangeMod(n, coins, ties);
}

Path
Circulant::Walk(ServerId src, const std::vector<std::uint32_t>& coins) const
{
    Path path;
    path.reserve(coins.size());
    ServerId at = src;
    for (std::uint32_t coin : coins)
    {
        path.push_back(LinkOf(at, coin));
        at = (at + m_table.coins[coin]) % m_table.n;
    }
    return path;
}

Path
Circulant::PathOf(ServerId src, ServerId dst) const
{
    return Walk(src, m_table.path[dst >= src ? dst - src : dst + m_table.n - src]);
}

Ring
Circulant::RingOfSteps(ServerId start,
                       std::uint32_t size,
                       const std::vector<std::uint32_t>& coins,
                       const std::vector<std::uint32_t>& memberOf) const
{
    std::uint64_t step = 0;
    for (std::uint32_t coin : coins)
    {
        step += m_table.coins[coin];
    }
    Ring ring;
    ServerId at = start;
    for (std::uint32_t k = 0; k < size; ++k)
    {
        ring.order.push_back(memberOf[at]);
        ring.hops.push_back(Walk(at, coins));
        at = static_cast<ServerId>((at + step) % m_table.n);
    }
    return ring;
}

Ring
Circulant::RingThrough(const std::vector<ServerId>& servers,
                       const std::vector<std::uint32_t>& memberOf) const
{
    Ring ring;
    for (std::size_t k = 0; k < servers.size(); ++k)
    {
        ring.order.push_back(memberOf[servers[k]]);
        ring.hops.push_back(PathOf(servers[k], servers[(k + 1) % servers.size()]));
    }
    return ring;
}

std::vector<Ring>
Circulant::Rings(const std::vector<ServerId>& group) const
{
    const std::uint32_t n = m_table.n;
    std::vector<std::uint32_t> memberOf(n, kNoId);
    for (std::uint32_t member = 0; member < group.size(); ++member)
    {
        if (group[member] >= n || memberOf[group[member]] != kNoId)
        {
            throw std::invalid_argument("Circulant::Rings: server " +
                                        std::to_string(group[member]) +
                                        " is repeated or not on this fabric");
        }
        memberOf[group[member]] = member;
    }
    std::vector<Ring> rings;
    const auto size = static_cast<std::uint32_t>(group.size());
    if (size < 2)
    {
        return rings;
    }
    if (size == n)
    {
        for (std::uint32_t coin = 0; coin < m_table.coins.size(); ++coin)
        {
            if (std::gcd(m_table.coins[coin], n) != 1)
            {
                continue; // a stride for groups at a spacing
            }
            rings.push_back(RingOfSteps(group[0], n, {coin}, memberOf));
        }
        return rings;
    }

    std::vector<ServerId> sorted = group;
    std::sort(sorted.begin(), sorted.end());
    bool regular = n % size == 0;
    for (std::uint32_t k = 1; k < size && regular; ++k)
    {
        regular = sorted[k] - sorted[k - 1] == n / size;
    }
    if (!regular)
    {
        rings.push_back(RingThrough(sorted, memberOf));
        std::reverse(sorted.begin(), sorted.end());
        rings.push_back(RingThrough(sorted, memberOf));
        return rings;
    }
    const std::uint32_t spacing = n / size;
    const std::vector<std::uint32_t> candidates = TotientPerms(size);
    std::uint32_t fewest = kNoId;
    for (std::uint32_t q : candidates)
    {
        fewest = std::min(fewest, m_table.length[q * spacing]);
    }
    for (std::uint32_t q : candidates)
    {
        if (m_table.length[q * spacing] != fewest || rings.size() == m_table.coins.size())
        {
            continue;
        }
        if (m_flexnet && fewest > 1 && !rings.empty())
        {
            break;
        }
        std::vector<std::uint32_t> coins = m_table.path[q * spacing];
        rings.push_back(RingOfSteps(sorted[0], size, coins, memberOf));
        if (m_flexnet && fewest > 1)
        {
            for (std::uint32_t& coin : coins)
            {
                coin ^= 1U; // the same stride the other way
            }
            rings.push_back(RingOfSteps(sorted[0], size, coins, memberOf));
        }
    }
    return rings;
}

CoinChangeRouter::CoinChangeRouter(Circulant circulant)
    : m_circulant(std::move(circulant))
{
}

Path
CoinChangeRouter::Route(ServerId src, ServerId dst, std::uint64_t /*flowKey*/) const
{
    if (src == dst || src >= m_circulant.Servers() || dst >= m_circulant.Servers())
    {
        throw SpecError("fabric",
                        "no path from server " + std::to_string(src) + " to server " +
                            std::to_string(dst));
    }
    return m_circulant.PathOf(src, dst);
}

std::vector<std::pair<Path, double>>
CoinChangeRouter::Paths(ServerId src, ServerId dst) const
{
    return {{Route(src, dst, 0), 1.0}};
}

void
CoinChangeRouter::AddLoads(ServerId dst,
                           const std::vector<double>& bytes,
                           std::vector<double>& loads) const
{
    const CoinChangeTable& table = m_circulant.Table();
    for (ServerId src = 0; src < bytes.size(); ++src)
    {
        if (src == dst || bytes[src] == 0)
        {
            continue;
        }
        ServerId at = src;
        for (std::uint32_t coin : table.path[(dst + table.n - src) % table.n])
        {
            loads[m_circulant.LinkOf(at, coin)] += bytes[src];
            at = (at + table.coins[coin]) % table.n;
        }
    }
}

} // namespace topoopt
