// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/k-shortest.h"

#include "topoopt/core/error.h"
#include "topoopt/core/random.h"

#include <algorithm>
#include <set>
#include <string>

namespace topoopt
{

namespace
{

/**
 * A path of fewest hops from @p src to @p dst that avoids the given nodes and links; of several, the one
 * whose links come first. Empty if there is none.
 */
Path
ShortestAvoiding(const Topology& topology,
                 const std::vector<std::uint32_t>& toDst,
                 NodeId src,
                 NodeId dst,
                 const std::vector<bool>& closed,
                 const std::set<LinkId>& cut)
{
    std::vector<LinkId> into(topology.NodeCount(), kNoId);
    std::vector<bool> seen = closed;
    std::vector<NodeId> frontier{src};
    seen[src] = true;
    for (std::size_t at = 0; at < frontier.size() && !seen[dst]; ++at)
    {
        for (LinkId link : topology.Out(frontier[at]))
        {
            const NodeId next = topology.links[link].dst;
            if (!seen[next] && toDst[next] != kNoId && cut.count(link) == 0)
            {
                seen[next] = true;
                into[next] = link;
                frontier.push_back(next);
            }
        }
    }
    Path path;
    for (NodeId node = dst; node != src; node = topology.links[path.back()].src)
    {
        if (into[node] == kNoId)
        {
            return {};
        }
        path.push_back(into[node]);
    }
    std::reverse(path.begin(), path.end());
    return path;
}

} // namespace

std::vector<Path>
KShortestPaths(const Topology& topology, NodeId src, NodeId dst, std::uint32_t k)
{
    const auto shorter = [](const Path& a, const Path& b) {
        return a.size() != b.size() ? a.size() < b.size() : a < b;
    };
    std::vector<Path> found;
    if (src == dst || k == 0)
    {
        return found;
    }
    const std::vector<std::uint32_t> toDst = topology.DistancesTo(dst);
    std::set<Path, decltype(shorter)> candidates(shorter);
    std::vector<bool> closed(topology.NodeCount());
    Path first = ShortestAvoiding(topology, toDst, src, dst, closed, {});
    if (!first.empty())
    {
        candidates.insert(std::move(first));
    }
    while (!candidates.empty() && found.size() < k)
    {
        found.push_back(*candidates.begin());
        candidates.erase(candidates.begin());
        if (found.size() == k)
        {
            break;
        }
        const Path last = found.back();
        std::fill(closed.begin(), closed.end(), false);
        NodeId spur = src;
        for (std::size_t i = 0; i < last.size(); ++i)
        {
            std::set<LinkId> cut;
            for (const Path& path : found)
            {
                if (path.size() > i && std::equal(last.begin(),
                                                  last.begin() + static_cast<std::ptrdiff_t>(i),
                                                  path.begin()))
                {
                    cut.insert(path[i]);
                }
            }
            const Path rest = ShortestAvoiding(topology, toDst, spur, dst, closed, cut);
            if (!rest.empty())
            {
                Path path(last.begin(), last.begin() + static_cast<std::ptrdiff_t>(i));
                path.insert(path.end(), rest.begin(), rest.end());
                candidates.insert(std::move(path));
            }
            closed[spur] = true;
            spur = topology.links[last[i]].dst;
        }
    }
    return found;
}

KShortestRouter::KShortestRouter(const Topology& topology, std::uint32_t k, std::uint64_t seed)
    : m_topology(topology),
      m_k(k),
      m_seed(seed)
{
}

const std::vector<Path>&
KShortestRouter::Find(ServerId src, ServerId dst) const
{
    const auto known = m_found.find({src, dst});
    if (known != m_found.end())
    {
        return known->second;
    }
    std::vector<Path> paths;
    if (src < m_topology.servers && dst < m_topology.servers)
    {
        paths = KShortestPaths(m_topology, src, dst, m_k);
    }
    if (paths.empty())
    {
        throw SpecError("fabric",
                        "no path from server " + std::to_string(src) + " to server " +
                            std::to_string(dst));
    }
    return m_found[{src, dst}] = std::move(paths);
}

Path
KShortestRouter::Route(ServerId src, ServerId dst, std::uint64_t flowKey) const
{
    const std::vector<Path>& paths = Find(src, dst);
    return paths[Mix64(Mix64(flowKey, Mix64(src, dst)), m_seed) % paths.size()];
}

std::vector<std::pair<Path, double>>
KShortestRouter::Paths(ServerId src, ServerId dst) const
{
    const std::vector<Path>& paths = Find(src, dst);
    std::vector<std::pair<Path, double>> out;
    for (const Path& path : paths)
    {
        out.emplace_back(path, 1.0 / static_cast<double>(paths.size()));
    }
    return out;
}

} // namespace topoopt
