// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/topoopt-fabric.h"

#include "topoopt/core/balanced-routing.h"
#include "topoopt/core/circulant.h"
#include "topoopt/core/graph-metrics.h"
#include "topoopt/core/k-shortest.h"
#include "topoopt/core/min-max-routing.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace topoopt
{

namespace
{

/**
 * Rings of a group on a graph that is not a circulant: those that TopologyFinder plugged for exactly
 * these members; without any, by ascending server, forth and back, along the router's paths.
 */
std::vector<Ring>
RingsOn(const FoundTopology& found, const std::vector<ServerId>& group)
{
    std::vector<std::pair<ServerId, std::uint32_t>> sorted;
    for (std::uint32_t member = 0; member < group.size(); ++member)
    {
        sorted.emplace_back(group[member], member);
    }
    std::sort(sorted.begin(), sorted.end());
    std::vector<ServerId> servers;
    for (const auto& [server, member] : sorted)
    {
        if (server >= found.servers || (!servers.empty() && servers.back() == server))
        {
            throw std::invalid_argument("rings: server " + std::to_string(server) +
                                        " is repeated or not on this fabric");
        }
        servers.push_back(server);
    }
    std::vector<Ring> rings;
    const auto size = static_cast<std::uint32_t>(group.size());
    const auto set =
        std::find_if(found.ringSets.begin(), found.ringSets.end(), [&](const RingSet& candidate) {
            return candidate.members == servers && !candidate.strides.empty();
        });
    if (set != found.ringSets.end())
    {
        for (std::size_t k = 0; k < set->strides.size(); ++k)
        {
            Ring forth;
            Ring back;
            std::uint32_t at = 0;
            for (std::uint32_t step = 0; step < size; ++step)
            {
                const std::uint32_t next = (at + set->strides[k]) % size;
                forth.order.push_back(sorted[at].second);
                forth.hops.push_back({2 * (set->firstCable[k] + at)});
                back.order.push_back(sorted[next].second);
                back.hops.push_back({2 * (set->firstCable[k] + at) + 1});
                at = next;
            }
            std::reverse(back.order.begin(), back.order.end());
            std::reverse(back.hops.begin(), back.hops.end());
            rings.push_back(std::move(forth));
            rings.push_back(std::move(back));
        }
        return rings;
    }
    Ring forth;
    for (const auto& [server, member] : sorted)
    {
        forth.order.push_back(member);
    }
    Ring back = forth;
    std::reverse(back.order.begin(), back.order.end());
    rings.push_back(std::move(forth));
    if (size > 2)
    {
        rings.push_back(std::move(back));
    }
    return rings;
}

} // namespace

const std::vector<std::string>&
DirectRoutingNames()
{
    static const std::vector<std::string> names =
        {"balanced", "ecmp", "k-shortest", "random", "random-tree", "min-max"};
    return names;
}

void
RouteDirect(Fabric& fabric,
            const Demand* demand,
            const RoutingOptions& routing,
            std::shared_ptr<const Router> regular)
{
    switch (routing.kind)
    {
    case DirectRouting::MinMax:
    case DirectRouting::Balanced:
    {
        std::uint64_t pairs = 0;
        if (demand != nullptr)
        {
            pairs = static_cast<std::uint64_t>(
                std::count_if(demand->pairs.begin(), demand->pairs.end(), [](Bytes bytes) {
                    return bytes > 0;
                }));
        }
        fabric.router = regular ? std::move(regular)
                                : std::make_shared<EcmpRouter>(fabric.topology, routing.seed);
        if (pairs > 0 && pairs <= routing.balancedPairs)
        {
            const std::vector<double> rings = AllReduceLoads(fabric, *demand);
            if (routing.kind == DirectRouting::MinMax)
            {
                MinMaxOptions options;
                options.gap = routing.gap;
                const MinMaxResult result = MinMaxRoutes(fabric.topology, *demand, rings, options);
                fabric.router = SplitRouter(result, routing.seed, fabric.router);
                fabric.nicChoice =
                    "the first NIC of one of the pair's paths, by a hash of the flow";
                break;
            }
            fabric.router = BalancedRouter(fabric.topology, *demand, rings, fabric.router);
        }
        fabric.nicChoice = "the first NIC of the pair's path";
        break;
    }
    case DirectRouting::Ecmp:
        fabric.router = std::make_shared<EcmpRouter>(fabric.topology, routing.seed);
        fabric.nicChoice = "any NIC that starts a shortest path, by a hash of the flow";
        break;
    case DirectRouting::KShortest:
        fabric.router = std::make_shared<KShortestRouter>(fabric.topology, routing.k, routing.seed);
        fabric.nicChoice = "the first NIC of one of the pair's " + std::to_string(routing.k) +
                           " shortest paths, by a hash of the flow";
        break;
    case DirectRouting::Random:
    case DirectRouting::RandomTree:
        fabric.router = std::make_shared<RandomShortestRouter>(
            fabric.topology,
            routing.kind == DirectRouting::Random ? RandomShortestRouter::Draw::PerPair
                                                  : RandomShortestRouter::Draw::PerSource,
            routing.seed);
        fabric.nicChoice = "the first NIC of the pair's path, drawn at random";
        break;
    }
}

Fabric
DirectConnectFabric(const FoundTopology& found,
                    BitRate rate,
                    SimTime delay,
                    const Demand* demand,
                    const RoutingOptions& routing,
                    bool flexnet)
{
    Fabric fabric;
    fabric.topology = WireTopology(found, rate, delay);
    fabric.circuits = CircuitsOf(found);
    std::shared_ptr<const Router> regular;
    if (found.IsCirculant())
    {
        Rng ties(routing.seed, "coin-change");
        const auto circulant =
            std::make_shared<const Circulant>(found, flexnet ? &ties : nullptr, flexnet);
        regular = std::make_shared<CoinChangeRouter>(*circulant);
        fabric.rings = [circulant](const std::vector<ServerId>& group) {
            return circulant->Rings(group);
        };
    }
    else
    {
        fabric.rings = [found](const std::vector<ServerId>& group) {
            return RingsOn(found, group);
        };
    }
    RouteDirect(fabric, demand, routing, std::move(regular));
    return fabric;
}

} // namespace topoopt
