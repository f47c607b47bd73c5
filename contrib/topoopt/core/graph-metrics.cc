// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/graph-metrics.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <vector>

namespace topoopt
{

HopStatistics
HopsBetweenServers(const Topology& topology, bool symmetric)
{
    HopStatistics hops;
    hops.pairs.resize(1);
    const std::uint32_t n = topology.servers;
    const std::uint32_t roots = symmetric ? std::min(n, 1U) : n;
    const std::uint64_t weight = symmetric ? n : 1;
    for (ServerId root = 0; root < roots; ++root)
    {
        const std::vector<std::uint32_t> distance = topology.DistancesTo(root);
        for (ServerId server = 0; server < n; ++server)
        {
            if (server == root)
            {
                continue;
            }
            if (distance[server] == kNoId)
            {
                hops.unreachable += weight;
                continue;
            }
            if (distance[server] >= hops.pairs.size())
            {
                hops.pairs.resize(distance[server] + 1U);
            }
            hops.pairs[distance[server]] += weight;
        }
    }
    std::uint64_t reached = 0;
    double sum = 0;
    for (std::size_t h = 1; h < hops.pairs.size(); ++h)
    {
        reached += hops.pairs[h];
        sum += static_cast<double>(h) * static_cast<double>(hops.pairs[h]);
    }
    std::uint64_t up = 0;
    for (std::size_t h = 1; h < hops.pairs.size(); ++h)
    {
        up += hops.pairs[h];
        hops.cdf.push_back(static_cast<double>(up) / static_cast<double>(reached));
    }
    hops.diameter = static_cast<std::uint32_t>(hops.pairs.size() - 1);
    hops.mean = reached > 0 ? sum / static_cast<double>(reached) : 0;
    return hops;
}

LoadStatistics
Summarise(const std::vector<double>& loads)
{
    LoadStatistics out;
    if (loads.empty())
    {
        return out;
    }
    out.least = *std::min_element(loads.begin(), loads.end());
    out.most = *std::max_element(loads.begin(), loads.end());
    for (double load : loads)
    {
        out.mean += load;
    }
    out.mean /= static_cast<double>(loads.size());
    return out;
}

std::vector<double>
PairLoads(const Topology& topology, const Router& router, const Demand& demand)
{
    std::vector<double> loads(topology.links.size());
    std::vector<double> column(demand.servers);
    for (ServerId dst = 0; dst < demand.servers; ++dst)
    {
        for (ServerId src = 0; src < demand.servers; ++src)
        {
            column[src] = src == dst ? 0 : static_cast<double>(demand.At(src, dst));
        }
        router.AddLoads(dst, column, loads);
    }
    return loads;
}

Demand
UniformPairs(ServerId servers)
{
    Demand demand(servers);
    for (ServerId src = 0; src < servers; ++src)
    {
        for (ServerId dst = 0; dst < servers; ++dst)
        {
            demand.At(src, dst) = src == dst ? 0 : 1;
        }
    }
    return demand;
}

std::vector<double>
AllReduceLoads(const Fabric& fabric, const Demand& demand)
{
    std::vector<double> loads(fabric.topology.links.size());
    // Steps that the router carries, by destination: there can be exponentially many equal paths.
    std::map<ServerId, std::vector<double>> toward;
    for (const AllReduceDemand& group : demand.allReduces)
    {
        const std::size_t size = group.members.size();
        if (size < 2 || group.bytes == 0)
        {
            continue;
        }
        const std::vector<Ring> rings = RingsOf(fabric, group.members);
        const double sent = 2.0 * static_cast<double>(size - 1) / static_cast<double>(size) *
                            static_cast<double>(group.bytes) / static_cast<double>(rings.size());
        for (const Ring& ring : rings)
        {
            for (std::size_t k = 0; k < size; ++k)
            {
                if (k < ring.hops.size() && !ring.hops[k].empty())
                {
                    for (LinkId link : ring.hops[k])
                    {
                        loads[link] += sent;
                    }
                    continue;
                }
                const ServerId from = group.members[ring.order[k]];
                std::vector<double>& bytes = toward[group.members[ring.order[(k + 1) % size]]];
                bytes.resize(fabric.topology.servers);
                bytes[from] += sent;
            }
        }
    }
    for (const auto& [to, bytes] : toward)
    {
        fabric.router->AddLoads(to, bytes, loads);
    }
    return loads;
}

MooreBound
MooreBoundOf(std::uint32_t servers, std::uint32_t degree)
{
    if (servers < 2 || degree == 0 || (degree == 1 && servers > 2))
    {
        throw std::invalid_argument("MooreBoundOf: no connected network of that degree");
    }
    MooreBound bound;
    std::uint64_t left = servers - 1U;
    std::uint64_t ring = degree;
    double sum = 0;
    while (left > 0)
    {
        ++bound.diameter;
        const std::uint64_t here = std::min(left, ring);
        sum += static_cast<double>(here) * bound.diameter;
        left -= here;
        ring = std::min<std::uint64_t>(ring * (degree - 1U), servers);
    }
    bound.meanHops = sum / (servers - 1.0);
    return bound;
}

namespace
{

/** Bytes that must leave or enter a growing set of servers, and the rates that can carry them. */
class Cut
{
  public:
    Cut(const Topology& topology, const Demand& demand)
        : m_topology(topology),
          m_demand(demand),
          m_inside(topology.NodeCount()),
          m_groupsOf(demand.servers),
          m_membersInside(demand.allReduces.size())
    {
        for (std::uint32_t g = 0; g < demand.allReduces.size(); ++g)
        {
            for (ServerId member : demand.allReduces[g].members)
            {
                m_groupsOf[member].push_back(g);
            }
        }
    }

    void Clear()
    {
        std::fill(m_inside.begin(), m_inside.end(), false);
        std::fill(m_membersInside.begin(), m_membersInside.end(), 0);
        m_out = m_in = m_outRate = m_inRate = m_split = 0;
    }

    void Add(ServerId server)
    {
        for (ServerId other = 0; other < m_demand.servers; ++other)
        {
            const auto to = static_cast<double>(m_demand.At(server, other));
            const auto from = static_cast<double>(m_demand.At(other, server));
            m_out += m_inside[other] ? -from : to;
            m_in += m_inside[other] ? -to : from;
        }
        for (LinkId link : m_topology.Out(server))
        {
            const Link& cable = m_topology.links[link];
            const auto rate = static_cast<double>(cable.rate.bps);
            if (m_inside[cable.dst])
            {
                m_inRate -= rate;
            }
            else
            {
                m_outRate += rate;
            }
            if (cable.reverse != kNoId)
            {
                const auto back = static_cast<double>(m_topology.links[cable.reverse].rate.bps);
                if (m_inside[cable.dst])
                {
                    m_outRate -= back;
                }
                else
                {
                    m_inRate += back;
                }
            }
        }
        for (std::uint32_t g : m_groupsOf[server])
        {
            const AllReduceDemand& group = m_demand.allReduces[g];
            const auto size = static_cast<std::uint32_t>(group.members.size());
            const bool was = m_membersInside[g] > 0;
            ++m_membersInside[g];
            const bool is = m_membersInside[g] < size;
            m_split += (is ? static_cast<double>(group.bytes) : 0.0) -
                       (was ? static_cast<double>(group.bytes) : 0.0);
        }
        m_inside[server] = true;
    }

    /** Seconds that the cut needs; 0 where nothing crosses. */
    [[nodiscard]] double Seconds() const
    {
        // The sum over the members on one side must reach the other, S bytes in either direction.
        double seconds = 0;
        if (m_outRate > 0)
        {
            seconds = std::max(seconds, 8 * (m_out + m_split) / m_outRate);
        }
        if (m_inRate > 0)
        {
            seconds = std::max(seconds, 8 * (m_in + m_split) / m_inRate);
        }
        return seconds;
    }

  private:
    const Topology& m_topology;
    const Demand& m_demand;
    std::vector<bool> m_inside;
    std::vector<std::vector<std::uint32_t>> m_groupsOf;
    std::vector<std::uint32_t> m_membersInside;
    double m_out = 0;
    double m_in = 0;
    double m_split = 0;
    double m_outRate = 0;
    double m_inRate = 0;
};

} // namespace

TimeBounds
TimeBoundsOf(const Topology& topology, const Demand& demand)
{
    TimeBounds bounds;
    double bytes = 0;
    double rates = 0;
    for (Bytes pair : demand.pairs)
    {
        bytes += static_cast<double>(pair);
    }
    for (const AllReduceDemand& group : demand.allReduces)
    {
        if (group.members.size() > 1)
        {
            bytes += 2.0 * static_cast<double>(group.members.size() - 1) *
                     static_cast<double>(group.bytes);
        }
    }
    for (const Link& link : topology.links)
    {
        rates += static_cast<double>(link.rate.bps);
    }
    bounds.capacity = rates > 0 ? 8 * bytes / rates : 0;

    constexpr std::uint32_t kAllRuns = 512;
    const std::uint32_t n = topology.servers;
    Cut cut(topology, demand);
    for (ServerId start = 0; start < n; ++start)
    {
        cut.Clear();
        const std::uint32_t longest = n > kAllRuns && start > 0 ? 1 : n - 1;
        for (std::uint32_t length = 0; length < longest; ++length)
        {
            cut.Add((start + length) % n);
            bounds.cut = std::max(bounds.cut, cut.Seconds());
        }
    }
    return bounds;
}

} // namespace topoopt
