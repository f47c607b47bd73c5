// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/random.h"
#include "topoopt/core/topologies/builders.h"
#include "topoopt/core/topologies/options.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace topoopt
{

namespace
{

using Edge = std::pair<ServerId, ServerId>;

std::vector<ServerId>
RandomOrder(ServerId n, Rng& rng)
{
    std::vector<ServerId> order(n);
    std::iota(order.begin(), order.end(), 0);
    rng.Shuffle(order);
    return order;
}

bool
IsConnected(ServerId n, const std::vector<Edge>& edges)
{
    std::vector<ServerId> parent(n);
    std::iota(parent.begin(), parent.end(), 0);
    const auto root = [&](ServerId at) {
        while (parent[at] != at)
        {
            parent[at] = parent[parent[at]];
            at = parent[at];
        }
        return at;
    };
    ServerId parts = n;
    for (const auto& [a, b] : edges)
    {
        const ServerId x = root(a);
        const ServerId y = root(b);
        parts -= x != y ? 1 : 0;
        parent[x] = y;
    }
    return parts == 1;
}

/** Union of random rings over all servers and, for an odd degree, a random matching. */
std::vector<Edge>
WithParallels(ServerId n, std::uint32_t degree, Rng& rng)
{
    std::vector<Edge> edges;
    for (std::uint32_t ring = 0; ring < degree / 2; ++ring)
    {
        const std::vector<ServerId> order = RandomOrder(n, rng);
        for (ServerId i = 0; i < n; ++i)
        {
            edges.emplace_back(order[i], order[(i + 1) % n]);
        }
    }
    if (degree % 2 != 0)
    {
        const std::vector<ServerId> order = RandomOrder(n, rng);
        for (ServerId i = 0; i + 1 < n; i += 2)
        {
            edges.emplace_back(order[i], order[i + 1]);
        }
    }
    return edges;
}

/** Some simple graph of the degree, @pre degree < n; with both odd, one server has one cable less. */
std::vector<Edge>
SomeRegular(ServerId n, std::uint32_t degree)
{
    std::vector<Edge> edges;
    const bool halfStep = degree % 2 != 0 && n % 2 == 0;
    const bool oddBoth = degree % 2 != 0 && n % 2 != 0;
    const std::uint32_t first = oddBoth ? 2 : 1;
    for (std::uint32_t offset = first; offset < first + degree / 2; ++offset)
    {
        for (ServerId i = 0; i < n; ++i)
        {
            edges.emplace_back(i, (i + offset) % n);
        }
    }
    for (ServerId i = 0; halfStep && i < n / 2; ++i)
    {
        edges.emplace_back(i, i + n / 2);
    }
    for (ServerId i = 0; oddBoth && i + 1 < n; i += 2)
    {
        edges.emplace_back(i, i + 1);
    }
    return edges;
}

/**
 * A random simple regular graph: double edge swaps, which keep degrees, many times over; again if the
 * outcome is not connected.
 */
std::vector<Edge>
Simple(ServerId n, std::uint32_t degree, Rng& rng)
{
    if (degree == 2)
    {
        return WithParallels(n, 2, rng); // one ring: swaps would tear it
    }
    std::vector<Edge> edges = SomeRegular(n, degree);
    std::set<Edge> present;
    const auto key = [](ServerId a, ServerId b) { return Edge{std::min(a, b), std::max(a, b)}; };
    for (const auto& [a, b] : edges)
    {
        present.insert(key(a, b));
    }
    constexpr std::uint64_t kSwapsPerEdge = 20;
    do
    {
        for (std::uint64_t swap = 0; swap < kSwapsPerEdge * edges.size(); ++swap)
        {
            Edge& x = edges[rng.Below(edges.size())];
            Edge& y = edges[rng.Below(edges.size())];
            Edge other = y;
            if (rng.Below(2) == 1)
            {
                std::swap(other.first, other.second);
            }
            const Edge one = key(x.first, other.second);
            const Edge two = key(other.first, x.second);
            if (&x == &y || one.first == one.second || two.first == two.second || one == two ||
                present.count(one) != 0 || present.count(two) != 0)
            {
                continue;
            }
            present.erase(key(x.first, x.second));
            present.erase(key(y.first, y.second));
            present.insert(one);
            present.insert(two);
            x = one;
            y = two;
        }
    } while (!IsConnected(n, edges));
    return edges;
}

} // namespace

/**
 * A connected random regular graph, the baseline that TopoOpt's authors call expander; without parallel
 * cables unless asked. With an odd number of servers and of NICs one NIC stays free.
 */
Fabric
BuildExpander(const FabricSpec& spec, const FabricContext& context)
{
    const FabricOptions options(spec);
    const ServerId n = context.servers.count;
    const std::uint32_t degree = context.servers.nics;
    const bool parallel = options.Flag("parallel", false);
    if (n > 2 && degree < 2)
    {
        options.FailServers("nics", std::to_string(degree), "2 or more for a connected graph");
    }
    if (n > 1 && degree >= n && !parallel)
    {
        options.FailServers("nics",
                            std::to_string(degree),
                            "1.." + std::to_string(n - 1) + " for " + std::to_string(n) +
                                " servers, or 'parallel: true'");
    }
    Rng rng(context.seed, "expander");
    std::vector<Edge> edges;
    if (n == 2)
    {
        edges.assign(degree, {0, 1});
    }
    else if (n > 2)
    {
        edges = parallel ? WithParallels(n, degree, rng) : Simple(n, degree, rng);
    }
    Fabric fabric = NewFabric(spec, n);
    const BitRate rate = options.Rate("rate", context.servers.rate);
    const SimTime delay = options.Time("delay", context.servers.linkDelay);
    for (const auto& [a, b] : edges)
    {
        const LinkId link = fabric.topology.AddDuplexLink(a, b, rate, delay);
        const std::uint32_t nicA = fabric.topology.links[link].srcPort;
        const std::uint32_t nicB = fabric.topology.links[link].dstPort;
        fabric.circuits.push_back({0, a * degree + nicA, b * degree + nicB, a, nicA, b, nicB});
    }
    RouteDirect(fabric, context.demand, ReadRouting(options, context, DirectRouting::KShortest));
    return fabric;
}

} // namespace topoopt
