// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/routing.h"

#include "topoopt/core/error.h"
#include "topoopt/core/random.h"

#include <stdexcept>

namespace topoopt
{

namespace
{

[[noreturn]] void
NoWay(ServerId src, ServerId dst)
{
    throw SpecError("fabric",
                    "no path from server " + std::to_string(src) + " to server " +
                        std::to_string(dst));
}

} // namespace

EcmpRouter::EcmpRouter(const Topology& topology, std::uint64_t seed)
    : m_topology(topology),
      m_seed(seed),
      m_root(topology.servers),
      m_last(topology.servers, kNoId),
      m_distances(topology.NodeCount())
{
    std::vector<std::uint32_t> incoming(topology.servers);
    for (NodeId node = 0; node < topology.NodeCount(); ++node)
    {
        m_begin.push_back(static_cast<std::uint32_t>(m_hops.size()));
        for (LinkId link : topology.Out(node))
        {
            const NodeId to = topology.links[link].dst;
            m_hops.push_back({link, to});
            if (topology.IsServer(to))
            {
                ++incoming[to];
                m_root[to] = node;
                m_last[to] = link;
            }
        }
    }
    m_begin.push_back(static_cast<std::uint32_t>(m_hops.size()));
    for (ServerId server = 0; server < topology.servers; ++server)
    {
        if (incoming[server] != 1)
        {
            m_root[server] = server;
            m_last[server] = kNoId;
        }
    }
}

const std::vector<std::uint32_t>&
EcmpRouter::Distances(NodeId root) const
{
    if (m_distances[root].empty())
    {
        m_distances[root] = m_topology.DistancesTo(root);
    }
    return m_distances[root];
}

Path
EcmpRouter::Route(ServerId src, ServerId dst, std::uint64_t flowKey) const
{
    if (src == dst || src >= m_root.size() || dst >= m_root.size())
    {
        NoWay(src, dst);
    }
    const std::vector<std::uint32_t>& distance = Distances(m_root[dst]);
    if (distance[src] == kNoId)
    {
        NoWay(src, dst);
    }
    Path path;
    path.reserve(distance[src] + 1U);
    for (NodeId at = src; distance[at] != 0;)
    {
        std::uint64_t choices = 0;
        for (std::uint32_t hop = m_begin[at]; hop < m_begin[at + 1]; ++hop)
        {
            choices += distance[m_hops[hop].to] + 1 == distance[at] ? 1 : 0;
        }
        std::uint64_t pick = choices == 1 ? 0 : Mix64(Mix64(flowKey, at), m_seed) % choices;
        std::uint32_t hop = m_begin[at];
        while (distance[m_hops[hop].to] + 1 != distance[at] || pick-- != 0)
        {
            ++hop;
        }
        path.push_back(m_hops[hop].link);
        at = m_hops[hop].to;
    }
    if (m_last[dst] != kNoId)
    {
        path.push_back(m_last[dst]);
    }
    return path;
}

void
EcmpRouter::Enumerate(const std::vector<std::uint32_t>& distance,
                      NodeId at,
                      LinkId last,
                      double weight,
                      Path& prefix,
                      std::vector<std::pair<Path, double>>& out) const
{
    if (distance[at] == 0)
    {
        out.emplace_back(prefix, weight);
        if (last != kNoId)
        {
            out.back().first.push_back(last);
        }
        return;
    }
    std::uint32_t choices = 0;
    for (std::uint32_t hop = m_begin[at]; hop < m_begin[at + 1]; ++hop)
    {
        choices += distance[m_hops[hop].to] + 1 == distance[at] ? 1 : 0;
    }
    for (std::uint32_t hop = m_begin[at]; hop < m_begin[at + 1]; ++hop)
    {
        if (distance[m_hops[hop].to] + 1 == distance[at])
        {
            prefix.push_back(m_hops[hop].link);
            Enumerate(distance, m_hops[hop].to, last, weight / choices, prefix, out);
            prefix.pop_back();
        }
    }
}

std::vector<std::pair<Path, double>>
EcmpRouter::Paths(ServerId src, ServerId dst) const
{
    if (src == dst || src >= m_root.size() || dst >= m_root.size() ||
        Distances(m_root[dst])[src] == kNoId)
    {
        NoWay(src, dst);
    }
    std::vector<std::pair<Path, double>> out;
    Path prefix;
    Enumerate(Distances(m_root[dst]), src, m_last[dst], 1.0, prefix, out);
    return out;
}

void
TableRouter::Add(ServerId src, ServerId dst, Path path, double weight)
{
    if (path.empty() || !(weight > 0))
    {
        throw std::invalid_argument("TableRouter::Add: empty path or weight not above 0");
    }
    m_table[{src, dst}].emplace_back(std::move(path), weight);
}

Path
TableRouter::Route(ServerId src, ServerId dst, std::uint64_t flowKey) const
{
    const auto entry = m_table.find({src, dst});
    if (entry == m_table.end())
    {
        NoWay(src, dst);
    }
    const auto& paths = entry->second;
    if (paths.size() == 1)
    {
        return paths.front().first;
    }
    double total = 0;
    for (const auto& [path, weight] : paths)
    {
        total += weight;
    }
    const std::uint64_t hash = Mix64(Mix64(flowKey, Mix64(src, dst)), m_seed);
    double at = static_cast<double>(hash >> 11) * 0x1.0p-53 * total;
    for (const auto& [path, weight] : paths)
    {
        at -= weight;
        if (at < 0)
        {
            return path;
        }
    }
    return paths.back().first;
}

std::vector<std::pair<Path, double>>
TableRouter::Paths(ServerId src, ServerId dst) const
{
    const auto entry = m_table.find({src, dst});
    if (entry == m_table.end())
    {
        NoWay(src, dst);
    }
    std::vector<std::pair<Path, double>> out = entry->second;
    double total = 0;
    for (const auto& [path, weight] : out)
    {
        total += weight;
    }
    for (auto& [path, weight] : out)
    {
        weight /= total;
    }
    return out;
}

void
CheckPath(const Topology& topology, const Path& path, NodeId src, NodeId dst)
{
    NodeId at = src;
    for (LinkId link : path)
    {
        if (link >= topology.links.size() || topology.links[link].src != at)
        {
            throw std::invalid_argument("path is not a walk from node " + std::to_string(src));
        }
        at = topology.links[link].dst;
    }
    if (at != dst || path.empty())
    {
        throw std::invalid_argument("path from node " + std::to_string(src) + " does not end at " +
                                    std::to_string(dst));
    }
}

} // namespace topoopt
