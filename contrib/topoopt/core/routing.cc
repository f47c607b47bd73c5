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

/** Depth-first over the shortest-path DAG; @p weight is split evenly at every node. */
void
Enumerate(const Topology& topology,
          const std::vector<std::uint32_t>& distance,
          NodeId at,
          double weight,
          Path& prefix,
          std::vector<std::pair<Path, double>>& out)
{
    if (distance[at] == 0)
    {
        out.emplace_back(prefix, weight);
        return;
    }
    std::vector<LinkId> next;
    for (LinkId link : topology.Out(at))
    {
        if (distance[topology.links[link].dst] + 1 == distance[at])
        {
            next.push_back(link);
        }
    }
    for (LinkId link : next)
    {
        prefix.push_back(link);
        Enumerate(topology,
                  distance,
                  topology.links[link].dst,
                  weight / static_cast<double>(next.size()),
                  prefix,
                  out);
        prefix.pop_back();
    }
}

} // namespace

EcmpRouter::EcmpRouter(const Topology& topology, std::uint64_t seed)
    : m_topology(topology),
      m_seed(seed),
      m_distances(topology.NodeCount())
{
}

const std::vector<std::uint32_t>&
EcmpRouter::Distances(NodeId dst) const
{
    if (m_distances[dst].empty())
    {
        m_distances[dst] = m_topology.DistancesTo(dst);
    }
    return m_distances[dst];
}

Path
EcmpRouter::Route(ServerId src, ServerId dst, std::uint64_t flowKey) const
{
    const std::vector<std::uint32_t>& distance = Distances(dst);
    if (src == dst || distance[src] == kNoId)
    {
        NoWay(src, dst);
    }
    Path path;
    for (NodeId at = src; at != dst;)
    {
        const std::vector<LinkId>& out = m_topology.Out(at);
        std::uint64_t choices = 0;
        for (LinkId link : out)
        {
            choices += distance[m_topology.links[link].dst] + 1 == distance[at] ? 1 : 0;
        }
        std::uint64_t pick = choices == 1 ? 0 : Mix64(Mix64(flowKey, at), m_seed) % choices;
        for (LinkId link : out)
        {
            if (distance[m_topology.links[link].dst] + 1 == distance[at] && pick-- == 0)
            {
                path.push_back(link);
                at = m_topology.links[link].dst;
                break;
            }
        }
    }
    return path;
}

std::vector<std::pair<Path, double>>
EcmpRouter::Paths(ServerId src, ServerId dst) const
{
    const std::vector<std::uint32_t>& distance = Distances(dst);
    if (src == dst || distance[src] == kNoId)
    {
        NoWay(src, dst);
    }
    std::vector<std::pair<Path, double>> out;
    Path prefix;
    Enumerate(m_topology, distance, src, 1.0, prefix, out);
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
