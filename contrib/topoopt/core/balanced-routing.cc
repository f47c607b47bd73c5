// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/balanced-routing.h"

#include "topoopt/core/error.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>

namespace topoopt
{

namespace
{

/** Finds, among the shortest paths of a pair, the one whose links carry least. */
class LightestShortest
{
  public:
    explicit LightestShortest(const Topology& topology)
        : m_topology(topology),
          m_toDst(topology.NodeCount()),
          m_cost(topology.NodeCount(), kInfinity),
          m_into(topology.NodeCount(), kNoId)
    {
    }

    Path Find(NodeId src, NodeId dst, const std::vector<double>& load)
    {
        if (m_toDst[dst].empty())
        {
            m_toDst[dst] = m_topology.DistancesTo(dst);
        }
        const std::vector<std::uint32_t>& distance = m_toDst[dst];
        if (distance[src] == kNoId)
        {
            throw SpecError("fabric",
                            "no path from server " + std::to_string(src) + " to server " +
                                std::to_string(dst));
        }
        m_order.assign(1, src);
        m_cost[src] = 0;
        for (std::size_t at = 0; at < m_order.size(); ++at)
        {
            const NodeId node = m_order[at];
            if (node == dst)
            {
                break; // the last of its level
            }
            for (LinkId link : m_topology.Out(node))
            {
                const NodeId next = m_topology.links[link].dst;
                if (distance[next] + 1 != distance[node])
                {
                    continue;
                }
                if (m_cost[next] == kInfinity)
                {
                    m_order.push_back(next);
                }
                if (m_cost[node] + load[link] < m_cost[next])
                {
                    m_cost[next] = m_cost[node] + load[link];
                    m_into[next] = link;
                }
            }
        }
        Path path;
        for (NodeId node = dst; node != src; node = m_topology.links[path.back()].src)
        {
            path.push_back(m_into[node]);
        }
        std::reverse(path.begin(), path.end());
        for (NodeId node : m_order)
        {
            m_cost[node] = kInfinity;
        }
        return path;
    }

  private:
    static constexpr double kInfinity = std::numeric_limits<double>::infinity();

    const Topology& m_topology;
    std::vector<std::vector<std::uint32_t>> m_toDst; ///< by node, empty = not yet
    std::vector<double> m_cost;                      ///< of the cheapest way from the source
    std::vector<LinkId> m_into;
    std::vector<NodeId> m_order; ///< nodes met, by distance from the source
};

struct Entry
{
    Bytes bytes;
    ServerId src;
    ServerId dst;
    Path path;
};

} // namespace

std::shared_ptr<const Router>
BalancedRouter(const Topology& topology,
               const Demand& demand,
               std::vector<double> load,
               std::shared_ptr<const Router> others)
{
    if (demand.servers != topology.servers ||
        (!load.empty() && load.size() != topology.links.size()))
    {
        throw std::invalid_argument("BalancedRouter: demand or load of another topology");
    }
    load.resize(topology.links.size());
    std::vector<Entry> entries;
    for (ServerId src = 0; src < demand.servers; ++src)
    {
        for (ServerId dst = 0; dst < demand.servers; ++dst)
        {
            if (src != dst && demand.At(src, dst) > 0)
            {
                entries.push_back({demand.At(src, dst), src, dst, {}});
            }
        }
    }
    // Equal demands in an order that mixes sources, or the first sources would shape all others' ways.
    std::sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
        const auto shift = [&](const Entry& e) {
            return (e.dst + demand.servers - e.src) % demand.servers;
        };
        return std::tuple(b.bytes, shift(a), a.src) < std::tuple(a.bytes, shift(b), b.src);
    });
    LightestShortest finder(topology);
    constexpr int kPasses = 2;
    for (int pass = 0; pass < kPasses; ++pass)
    {
        for (Entry& entry : entries)
        {
            const auto bytes = static_cast<double>(entry.bytes);
            for (LinkId link : entry.path)
            {
                load[link] -= bytes;
            }
            entry.path = finder.Find(entry.src, entry.dst, load);
            for (LinkId link : entry.path)
            {
                load[link] += bytes;
            }
        }
    }
    auto router = std::make_shared<TableRouter>(0, std::move(others));
    for (Entry& entry : entries)
    {
        router->Add(entry.src, entry.dst, std::move(entry.path), 1);
    }
    return router;
}

} // namespace topoopt
