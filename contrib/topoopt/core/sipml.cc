// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/sipml.h"

#include "topoopt/core/topologies/options.h"
#include "topoopt/core/topology-finder.h"

#include <algorithm>
#include <lemon/network_simplex.h>
#include <lemon/static_graph.h>
#include <queue>
#include <tuple>

namespace topoopt
{

std::vector<double>
DirectedDemand(const Demand& demand)
{
    const std::size_t n = demand.servers;
    std::vector<double> bytes(n * n);
    for (std::size_t pair = 0; pair < bytes.size(); ++pair)
    {
        bytes[pair] = static_cast<double>(demand.pairs[pair]);
    }
    for (const AllReduceDemand& group : demand.allReduces)
    {
        const std::size_t size = group.members.size();
        const double sent = 2.0 * (static_cast<double>(size) - 1) / static_cast<double>(size) *
                            static_cast<double>(group.bytes);
        for (std::size_t k = 0; size > 1 && k < size; ++k)
        {
            bytes[group.members[k] * n + group.members[(k + 1) % size]] += sent;
        }
    }
    return bytes;
}

double
WorthOf(const DirectedCircuits& circuits, ServerId servers, const std::vector<double>& demand)
{
    std::vector<double> next = demand;
    double worth = 0;
    for (const auto& [from, to] : circuits)
    {
        double& pair = next[std::size_t{from} * servers + to];
        worth += pair;
        pair /= 2;
    }
    return worth;
}

DirectedCircuits
PlanOcs(ServerId servers, std::uint32_t degree, const std::vector<double>& demand, Reach reach)
{
    const std::size_t n = servers;
    DirectedCircuits circuits;
    if (n < 2 || degree == 0)
    {
        return circuits;
    }
    const std::uint32_t rings = reach == Reach::All ? 1 : 0;
    // Whole numbers, so that all is exact; small enough for sums over all circuits.
    constexpr double kLargest = 1LL << 40;
    const double most = *std::max_element(demand.begin(), demand.end());
    const double scale = most > 0 ? kLargest / most : 0;

    struct Copy
    {
        std::int64_t worth;
        std::int64_t capacity;
    };

    std::vector<Copy> copies;
    std::vector<std::pair<int, int>> ends;
    for (ServerId from = 0; from < n; ++from)
    {
        for (ServerId to = 0; to < n; ++to)
        {
            if (from == to)
            {
                continue;
            }
            const bool inRing = rings == 1 && to == (from + 1) % servers;
            double worth = demand[std::size_t{from} * n + to] * scale / (inRing ? 2 : 1);
            for (std::uint32_t left = degree - rings; left > 0;)
            {
                const auto whole = static_cast<std::int64_t>(worth);
                const std::uint32_t capacity = whole > 0 ? 1 : left;
                ends.emplace_back(static_cast<int>(from), static_cast<int>(n + to));
                copies.push_back({whole, capacity});
                left -= capacity;
                worth /= 2;
            }
        }
    }
    lemon::StaticDigraph graph;
    graph.build(static_cast<int>(2 * n), ends.begin(), ends.end());
    lemon::StaticDigraph::ArcMap<std::int64_t> cost(graph);
    lemon::StaticDigraph::ArcMap<std::int64_t> capacity(graph);
    for (std::size_t k = 0; k < copies.size(); ++k)
    {
        const auto arc = graph.arc(static_cast<int>(k));
        cost[arc] = -copies[k].worth;
        capacity[arc] = copies[k].capacity;
    }
    lemon::StaticDigraph::NodeMap<std::int64_t> supply(graph);
    for (std::size_t k = 0; k < 2 * n; ++k)
    {
        const std::int64_t each = degree - rings;
        supply[graph.node(static_cast<int>(k))] = k < n ? each : -each;
    }
    lemon::NetworkSimplex<lemon::StaticDigraph, std::int64_t, std::int64_t> simplex(graph);
    simplex.upperMap(capacity).costMap(cost).supplyMap(supply);
    static_cast<void>(simplex.run()); // servers in a ring are a solution, so there is a best one
    for (ServerId from = 0; from < n && rings > 0; ++from)
    {
        circuits.emplace_back(from, (from + 1) % servers);
    }
    for (std::size_t k = 0; k < copies.size(); ++k)
    {
        const auto from = static_cast<ServerId>(ends[k].first);
        const auto to = static_cast<ServerId>(ends[k].second) - servers;
        const std::int64_t lit = simplex.flow(graph.arc(static_cast<int>(k)));
        for (std::int64_t circuit = 0; circuit < lit; ++circuit)
        {
            circuits.emplace_back(from, to);
        }
    }
    return circuits;
}

namespace
{

/** Free wavelengths on the segments of both fibres. */
class FibreRing
{
  public:
    FibreRing(ServerId servers, std::uint32_t wavelengths)
        : m_servers(servers),
          m_wavelengths(wavelengths),
          m_free(2ULL * servers * wavelengths, true)
    {
    }

    /** Takes a wavelength from @p from to @p to along the shorter way. @return whether there was one */
    bool Take(ServerId from, ServerId to)
    {
        const ServerId up = (to + m_servers - from) % m_servers;
        const bool forth = 2 * up <= m_servers;
        const ServerId hops = forth ? up : m_servers - up;
        for (std::uint32_t wavelength = 0; wavelength < m_wavelengths; ++wavelength)
        {
            bool free = true;
            for (ServerId hop = 0; hop < hops && free; ++hop)
            {
                free = m_free[Segment(from, hop, forth, wavelength)];
            }
            if (free)
            {
                for (ServerId hop = 0; hop < hops; ++hop)
                {
                    m_free[Segment(from, hop, forth, wavelength)] = false;
                }
                return true;
            }
        }
        return false;
    }

  private:
    [[nodiscard]] std::size_t Segment(ServerId from,
                                      ServerId hop,
                                      bool forth,
                                      std::uint32_t wavelength) const
    {
        // Segment s joins server s and s + 1; the second fibre runs the other way.
        const ServerId segment =
            forth ? (from + hop) % m_servers : (from + m_servers - hop - 1) % m_servers;
        return ((forth ? 0ULL : m_servers) + segment) * m_wavelengths + wavelength;
    }

    ServerId m_servers;
    std::uint32_t m_wavelengths;
    std::vector<bool> m_free;
};

} // namespace

DirectedCircuits
PlanWavelengths(ServerId servers,
                std::uint32_t degree,
                std::uint32_t wavelengths,
                std::vector<double> demand,
                Reach reach)
{
    const std::size_t n = servers;
    DirectedCircuits circuits;
    if (n < 2)
    {
        return circuits;
    }
    std::vector<std::uint32_t> sending(n);
    std::vector<std::uint32_t> receiving(n);
    FibreRing fibre(servers, wavelengths);
    const auto take = [&](ServerId from, ServerId to) {
        if (sending[from] == degree || receiving[to] == degree || !fibre.Take(from, to))
        {
            return false;
        }
        ++sending[from];
        ++receiving[to];
        circuits.emplace_back(from, to);
        return true;
    };
    for (ServerId from = 0; from < n && reach == Reach::All; ++from)
    {
        const ServerId to = from + 1 < servers ? from + 1 : 0;
        take(from, to);
        demand[from * n + to] /= 2;
    }
    // Largest first; of equals the lowest pair.
    std::priority_queue<std::tuple<double, std::int64_t>> queue;
    for (std::size_t pair = 0; pair < n * n; ++pair)
    {
        if (pair / n != pair % n && demand[pair] >= 1)
        {
            queue.emplace(demand[pair], -static_cast<std::int64_t>(pair));
        }
    }
    while (!queue.empty())
    {
        const auto [bytes, minusPair] = queue.top();
        queue.pop();
        const auto pair = static_cast<std::size_t>(-minusPair);
        if (take(static_cast<ServerId>(pair / n), static_cast<ServerId>(pair % n)) && bytes >= 2)
        {
            queue.emplace(bytes / 2, minusPair);
        }
    }
    for (bool changed = true; changed;)
    {
        changed = false;
        for (ServerId from = 0; from < n; ++from)
        {
            changed |= take(from, from > 0 ? from - 1 : servers - 1);
            changed |= take(from, from + 1 < servers ? from + 1 : 0);
        }
    }
    return circuits;
}

std::vector<double>
DemandOf(const FabricContext& context)
{
    return context.demand != nullptr ? DirectedDemand(*context.demand)
                                     : DirectedDemand(AllReduceOverAll(context.servers.count));
}

Fabric
BuildDirected(const FabricSpec& spec,
              const FabricContext& context,
              const DirectedCircuits& circuits)
{
    const FabricOptions options(spec);
    const ServerSpec& servers = context.servers;
    Fabric fabric = NewFabric(spec, servers.count);
    const BitRate rate = options.Rate("rate", servers.rate);
    const SimTime delay = options.Time("delay", servers.linkDelay);
    std::vector<std::uint32_t> sending(servers.count);
    std::vector<std::uint32_t> receiving(servers.count);
    for (const auto& [from, to] : circuits)
    {
        const LinkId link = fabric.topology.AddLink(from, to, rate, delay);
        // A NIC sends one circuit and receives another, so both directions count from 0.
        const std::uint32_t nicA = sending[from]++;
        const std::uint32_t nicB = receiving[to]++;
        fabric.topology.links[link].srcPort = nicA;
        fabric.topology.links[link].dstPort = nicB;
        fabric.circuits.push_back(
            {0, from * servers.nics + nicA, to * servers.nics + nicB, from, nicA, to, nicB});
    }
    RouteDirect(fabric, context.demand, ReadRouting(options, context, DirectRouting::Balanced));
    return fabric;
}

} // namespace topoopt
