// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/routing.h"

#include "topoopt/core/error.h"
#include "topoopt/core/random.h"

#include <algorithm>
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

void
Router::AddLoads(ServerId dst, const std::vector<double>& bytes, std::vector<double>& loads) const
{
    for (ServerId src = 0; src < bytes.size(); ++src)
    {
        if (src == dst || bytes[src] == 0)
        {
            continue;
        }
        for (const auto& [path, share] : Paths(src, dst))
        {
            for (LinkId link : path)
            {
                loads[link] += share * bytes[src];
            }
        }
    }
}

EcmpRouter::EcmpRouter(const Topology& topology, std::uint64_t seed, bool serversForward)
    : m_topology(topology),
      m_seed(seed),
      m_serversForward(serversForward),
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
        m_distances[root] = m_topology.DistancesTo(root, m_serversForward);
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
            choices += IsNext(m_hops[hop], distance, distance[at]) ? 1 : 0;
        }
        std::uint64_t pick = choices == 1 ? 0 : Mix64(Mix64(flowKey, at), m_seed) % choices;
        std::uint32_t hop = m_begin[at];
        while (!IsNext(m_hops[hop], distance, distance[at]) || pick-- != 0)
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
        choices += IsNext(m_hops[hop], distance, distance[at]) ? 1 : 0;
    }
    for (std::uint32_t hop = m_begin[at]; hop < m_begin[at + 1]; ++hop)
    {
        if (IsNext(m_hops[hop], distance, distance[at]))
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
EcmpRouter::AddLoads(ServerId dst,
                     const std::vector<double>& bytes,
                     std::vector<double>& loads) const
{
    const NodeId root = m_root.at(dst);
    const std::vector<std::uint32_t>& distance = Distances(root);
    std::vector<double> at(m_topology.NodeCount());
    std::vector<NodeId> order;
    double total = 0;
    for (ServerId src = 0; src < bytes.size(); ++src)
    {
        if (src != dst && bytes[src] > 0)
        {
            if (distance[src] == kNoId)
            {
                NoWay(src, dst);
            }
            at[src] = bytes[src];
            total += bytes[src];
        }
    }
    // From far to near, by counting how many nodes are at each distance.
    std::vector<std::uint32_t> first;
    for (std::uint32_t hops : distance)
    {
        if (hops != kNoId)
        {
            first.resize(std::max<std::size_t>(first.size(), hops + 1U));
            ++first[hops];
        }
    }
    std::uint32_t sum = 0;
    for (auto count = first.rbegin(); count != first.rend(); ++count)
    {
        sum += *count;
        *count = sum - *count;
    }
    order.resize(sum);
    for (NodeId node = 0; node < m_topology.NodeCount(); ++node)
    {
        if (distance[node] != kNoId)
        {
            order[first[distance[node]]++] = node;
        }
    }
    order.pop_back(); // the root
    for (NodeId node : order)
    {
        if (at[node] == 0)
        {
            continue;
        }
        double choices = 0;
        for (std::uint32_t hop = m_begin[node]; hop < m_begin[node + 1]; ++hop)
        {
            choices += IsNext(m_hops[hop], distance, distance[node]) ? 1 : 0;
        }
        for (std::uint32_t hop = m_begin[node]; hop < m_begin[node + 1]; ++hop)
        {
            if (IsNext(m_hops[hop], distance, distance[node]))
            {
                loads[m_hops[hop].link] += at[node] / choices;
                at[m_hops[hop].to] += at[node] / choices;
            }
        }
    }
    if (m_last[dst] != kNoId)
    {
        loads[m_last[dst]] += total;
    }
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
        if (m_others)
        {
            return m_others->Route(src, dst, flowKey);
        }
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
        if (m_others)
        {
            return m_others->Paths(src, dst);
        }
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

RandomShortestRouter::RandomShortestRouter(const Topology& topology, Draw draw, std::uint64_t seed)
    : m_topology(topology),
      m_draw(draw),
      m_seed(seed),
      m_neighbours(topology.NodeCount()),
      m_before(topology.servers)
{
    for (NodeId node = 0; node < topology.NodeCount(); ++node)
    {
        std::vector<NodeId>& neighbours = m_neighbours[node];
        for (LinkId link : topology.Out(node))
        {
            neighbours.push_back(topology.links[link].dst);
        }
        std::sort(neighbours.begin(), neighbours.end());
        neighbours.erase(std::unique(neighbours.begin(), neighbours.end()), neighbours.end());
    }
}

std::vector<NodeId>
RandomShortestRouter::Search(NodeId src, NodeId stop, std::uint64_t key) const
{
    Rng rng(Mix64(m_seed, key), "random-shortest");
    std::vector<NodeId> before(m_topology.NodeCount(), kNoId);
    std::vector<std::uint32_t> distance(m_topology.NodeCount(), kNoId);
    std::vector<bool> visited(m_topology.NodeCount());
    std::vector<NodeId> queue{src};
    std::vector<NodeId> neighbours;
    distance[src] = 0;
    for (std::size_t at = 0; at < queue.size() && queue[at] != stop; ++at)
    {
        const NodeId node = queue[at];
        visited[node] = true;
        neighbours = m_neighbours[node];
        rng.Shuffle(neighbours);
        for (NodeId next : neighbours)
        {
            if (visited[next])
            {
                continue;
            }
            const bool first = distance[next] == kNoId;
            if (first || (m_draw == Draw::PerPair && distance[next] == distance[node] + 1 &&
                          rng.Below(2) == 1))
            {
                distance[next] = distance[node] + 1;
                before[next] = node;
                queue.push_back(next);
            }
        }
    }
    return before;
}

std::vector<NodeId>
RandomShortestRouter::Nodes(ServerId src, ServerId dst) const
{
    if (src == dst || src >= m_before.size() || dst >= m_before.size())
    {
        NoWay(src, dst);
    }
    const auto walk = [&](const std::vector<NodeId>& before) {
        if (before[dst] == kNoId)
        {
            NoWay(src, dst);
        }
        std::vector<NodeId> nodes{dst};
        while (nodes.back() != src)
        {
            nodes.push_back(before[nodes.back()]);
        }
        std::reverse(nodes.begin(), nodes.end());
        return nodes;
    };
    if (m_draw == Draw::PerSource)
    {
        if (m_before[src].empty())
        {
            m_before[src] = Search(src, kNoId, src);
        }
        return walk(m_before[src]);
    }
    const auto known = m_nodes.find({src, dst});
    if (known != m_nodes.end())
    {
        return known->second;
    }
    return m_nodes[{src, dst}] = walk(Search(src, dst, Mix64(src, dst)));
}

std::vector<LinkId>
RandomShortestRouter::LinksBetween(NodeId a, NodeId b) const
{
    std::vector<LinkId> links;
    for (LinkId link : m_topology.Out(a))
    {
        if (m_topology.links[link].dst == b)
        {
            links.push_back(link);
        }
    }
    return links;
}

Path
RandomShortestRouter::Route(ServerId src, ServerId dst, std::uint64_t flowKey) const
{
    const std::vector<NodeId> nodes = Nodes(src, dst);
    Path path;
    for (std::size_t i = 0; i + 1 < nodes.size(); ++i)
    {
        const std::vector<LinkId> links = LinksBetween(nodes[i], nodes[i + 1]);
        path.push_back(links[Mix64(Mix64(flowKey, nodes[i]), m_seed) % links.size()]);
    }
    return path;
}

std::vector<std::pair<Path, double>>
RandomShortestRouter::Paths(ServerId src, ServerId dst) const
{
    const std::vector<NodeId> nodes = Nodes(src, dst);
    std::vector<std::pair<Path, double>> out{{{}, 1.0}};
    for (std::size_t i = 0; i + 1 < nodes.size(); ++i)
    {
        const std::vector<LinkId> links = LinksBetween(nodes[i], nodes[i + 1]);
        std::vector<std::pair<Path, double>> longer;
        for (const auto& [path, weight] : out)
        {
            for (LinkId link : links)
            {
                longer.emplace_back(path, weight / static_cast<double>(links.size()));
                longer.back().first.push_back(link);
            }
        }
        out = std::move(longer);
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
