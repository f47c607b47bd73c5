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

Circulant::Circulant(Topology& topology,
                     const std::vector<std::uint32_t>& strides,
                     BitRate rate,
                     SimTime delay)
{
    const std::uint32_t n = topology.servers;
    if (!topology.links.empty())
    {
        throw std::invalid_argument("Circulant: the topology has cables already");
    }
    std::vector<std::uint32_t> coins;
    for (std::uint32_t stride : strides)
    {
        if (stride == 0 || stride >= n || std::gcd(stride, n) != 1)
        {
            throw std::invalid_argument("Circulant: stride " + std::to_string(stride) +
                                        " makes no ring of " + std::to_string(n));
        }
        coins.push_back(stride);
        coins.push_back(n - stride);
    }
    if (strides.empty() && n == 2)
    {
        coins.push_back(1);
        const LinkId forth = topology.AddDuplexLink(0, 1, rate, delay);
        m_links = {forth, forth + 1};
    }
    else
    {
        m_links.resize(coins.size() * n);
        for (std::uint32_t k = 0; k < strides.size(); ++k)
        {
            for (ServerId i = 0; i < n; ++i)
            {
                const ServerId next = i + strides[k] < n ? i + strides[k] : i + strides[k] - n;
                const LinkId forth = topology.AddDuplexLink(i, next, rate, delay);
                const LinkId back = topology.links[forth].reverse;
                // The port is the NIC: creation order alone would number both ends by who came first.
                topology.links[forth].srcPort = topology.links[back].dstPort = 2 * k;
                topology.links[forth].dstPort = topology.links[back].srcPort = 2 * k + 1;
                m_links[i * coins.size() + 2 * k] = forth;
                m_links[next * coins.size() + 2 * k + 1] = back;
            }
        }
    }
    m_table = CoinChangeMod(n, coins);
}

Path
Circulant::PathOf(ServerId src, ServerId dst) const
{
    const std::uint32_t n = m_table.n;
    const std::uint32_t distance = dst >= src ? dst - src : dst + n - src;
    Path path;
    ServerId at = src;
    for (std::uint32_t coin : m_table.path[distance])
    {
        path.push_back(LinkOf(at, coin));
        at = (at + m_table.coins[coin]) % n;
    }
    return path;
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
            Ring ring;
            ServerId at = group[0];
            for (std::uint32_t k = 0; k < n; ++k)
            {
                ring.order.push_back(memberOf[at]);
                ring.hops.push_back({LinkOf(at, coin)});
                at = (at + m_table.coins[coin]) % n;
            }
            rings.push_back(std::move(ring));
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
        std::vector<ServerId> servers{sorted[0]};
        for (std::uint32_t k = 1; k < size; ++k)
        {
            servers.push_back((servers.back() + q * spacing) % n);
        }
        rings.push_back(RingThrough(servers, memberOf));
    }
    return rings;
}

std::vector<Circuit>
Circulant::Circuits() const
{
    const std::uint32_t n = m_table.n;
    if (m_table.coins.size() == 1)
    {
        return {{0, 0, 1, 0, 0, 1, 0}};
    }
    std::vector<Circuit> circuits;
    for (std::uint32_t k = 0; 2 * k < m_table.coins.size(); ++k)
    {
        for (ServerId i = 0; i < n; ++i)
        {
            const ServerId next = (i + m_table.coins[2 * k]) % n;
            circuits.push_back({k, 2 * i, 2 * next + 1, i, 2 * k, next, 2 * k + 1});
        }
    }
    return circuits;
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

} // namespace topoopt
