// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/grid.h"

#include "topoopt/core/error.h"
#include "topoopt/core/random.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace topoopt
{

Grid::Grid(Topology& topology,
           std::vector<std::uint32_t> sizes,
           bool folded,
           std::uint32_t lanes,
           BitRate rate,
           SimTime delay)
    : m_sizes(std::move(sizes)),
      m_lanes(lanes)
{
    for (std::uint32_t size : m_sizes)
    {
        m_servers *= size;
        if (size < 2)
        {
            throw std::invalid_argument("Grid: a dimension of fewer than two points");
        }
    }
    if (m_servers != topology.servers || !topology.links.empty() || lanes == 0)
    {
        throw std::invalid_argument("Grid: servers, cables or lanes do not fit");
    }
    m_links.assign(2 * m_sizes.size() * m_servers * lanes, kNoId);
    std::uint32_t nic = 0;
    for (std::uint32_t lane = 0; lane < lanes; ++lane)
    {
        std::uint32_t step = 1;
        for (std::uint32_t d = 0; d < m_sizes.size(); ++d)
        {
            const std::uint32_t size = m_sizes[d];
            const bool single = folded && size == 2;
            for (ServerId s = 0; s < m_servers; ++s)
            {
                const std::uint32_t at = s / step % size;
                if (single && at == 1)
                {
                    continue;
                }
                const ServerId next = at + 1 < size ? s + step : s - (size - 1) * step;
                const LinkId forth = topology.AddDuplexLink(s, next, rate, delay);
                const LinkId back = forth + 1;
                topology.links[forth].srcPort = topology.links[back].dstPort = nic;
                topology.links[forth].dstPort = topology.links[back].srcPort =
                    nic + (single ? 0 : 1);
                const auto put = [&](ServerId server, bool up, LinkId link) {
                    m_links[((server * m_sizes.size() + d) * 2 + (up ? 1 : 0)) * lanes + lane] =
                        link;
                };
                put(s, true, forth);
                put(next, false, back);
                if (single)
                {
                    put(s, false, forth);
                    put(next, true, back);
                }
            }
            nic += single ? 1 : 2;
            step *= size;
        }
    }
}

Path
Grid::DimensionOrder(ServerId src, ServerId dst, std::uint32_t lane) const
{
    Path path;
    std::uint32_t parity = 0;
    std::uint32_t rest = src;
    for (std::uint32_t size : m_sizes)
    {
        parity ^= rest % size % 2;
        rest /= size;
    }
    ServerId at = src;
    std::uint32_t step = 1;
    for (std::uint32_t d = 0; d < m_sizes.size(); ++d)
    {
        const std::uint32_t size = m_sizes[d];
        const std::uint32_t from = src / step % size;
        const std::uint32_t to = dst / step % size;
        const std::uint32_t up = (to + size - from) % size;
        const bool goUp = 2 * up < size || (2 * up == size && parity == 0);
        const std::uint32_t hops = goUp ? up : size - up;
        for (std::uint32_t hop = 0; up != 0 && hop < hops; ++hop)
        {
            path.push_back(LinkOf(at, d, goUp, lane));
            const std::uint32_t now = at / step % size;
            const std::uint32_t then = goUp ? (now + 1) % size : (now + size - 1) % size;
            at = at - now * step + then * step;
        }
        step *= size;
    }
    return path;
}

std::vector<ServerId>
Grid::Snake() const
{
    std::vector<ServerId> walk{0};
    std::uint32_t step = 1;
    for (std::uint32_t size : m_sizes)
    {
        const std::vector<ServerId> layer = walk;
        for (std::uint32_t at = 1; at < size; ++at)
        {
            for (std::size_t i = 0; i < layer.size(); ++i)
            {
                walk.push_back((at % 2 == 1 ? layer[layer.size() - 1 - i] : layer[i]) + at * step);
            }
        }
        step *= size;
    }
    return walk;
}

std::vector<Ring>
Grid::Rings(const std::vector<ServerId>& group) const
{
    std::vector<std::uint32_t> memberOf(m_servers, kNoId);
    for (std::uint32_t member = 0; member < group.size(); ++member)
    {
        if (group[member] >= m_servers || memberOf[group[member]] != kNoId)
        {
            throw std::invalid_argument("rings: server " + std::to_string(group[member]) +
                                        " is repeated or not on this fabric");
        }
        memberOf[group[member]] = member;
    }
    std::vector<Ring> rings;
    if (group.size() != m_servers)
    {
        return rings;
    }
    std::vector<ServerId> walk = Snake();
    for (int direction = 0; direction < 2; ++direction)
    {
        for (std::uint32_t lane = 0; lane < m_lanes; ++lane)
        {
            Ring ring;
            for (std::size_t k = 0; k < walk.size(); ++k)
            {
                ring.order.push_back(memberOf[walk[k]]);
                ring.hops.push_back(DimensionOrder(walk[k], walk[(k + 1) % walk.size()], lane));
            }
            rings.push_back(std::move(ring));
        }
        std::reverse(walk.begin(), walk.end());
    }
    return rings;
}

DimensionOrderRouter::DimensionOrderRouter(Grid grid, std::uint64_t seed)
    : m_grid(std::move(grid)),
      m_seed(seed)
{
}

Path
DimensionOrderRouter::Route(ServerId src, ServerId dst, std::uint64_t flowKey) const
{
    if (src == dst || src >= m_grid.Servers() || dst >= m_grid.Servers())
    {
        throw SpecError("fabric",
                        "no path from server " + std::to_string(src) + " to server " +
                            std::to_string(dst));
    }
    const std::uint64_t hash = Mix64(Mix64(flowKey, Mix64(src, dst)), m_seed);
    return m_grid.DimensionOrder(src, dst, static_cast<std::uint32_t>(hash % m_grid.Lanes()));
}

std::vector<std::pair<Path, double>>
DimensionOrderRouter::Paths(ServerId src, ServerId dst) const
{
    std::vector<std::pair<Path, double>> paths{{Route(src, dst, 0), 1.0}};
    if (m_grid.Lanes() > 1)
    {
        paths.clear();
        for (std::uint32_t lane = 0; lane < m_grid.Lanes(); ++lane)
        {
            paths.emplace_back(m_grid.DimensionOrder(src, dst, lane), 1.0 / m_grid.Lanes());
        }
    }
    return paths;
}

} // namespace topoopt
