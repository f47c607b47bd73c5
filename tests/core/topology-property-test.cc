// SPDX-License-Identifier: GPL-2.0-only
// Invariants of topologies, routes and rings on random inputs; RapidCheck shrinks what breaks them.
#include "topoopt/core/coin-change.h"
#include "topoopt/core/error.h"
#include "topoopt/core/graph-metrics.h"
#include "topoopt/core/random.h"
#include "topoopt/core/select-permutations.h"
#include "topoopt/core/topology-finder.h"
#include "topoopt/core/topology-kinds.h"
#include "topoopt/core/topoopt-fabric.h"
#include "topoopt/core/totient-perms.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <rapidcheck/gtest.h>
#include <set>
#include <stdexcept>

namespace topoopt
{
namespace
{

/** Each case stands for this many inputs of the same shape. */
constexpr int kInputs = 10;

std::uint32_t
Draw(std::uint32_t least, std::uint32_t most)
{
    return *rc::gen::inRange(least, most + 1);
}

Demand
RandomDemand(ServerId n, std::uint32_t groups, std::uint32_t pairs, Rng& rng)
{
    Demand demand(n);
    for (std::uint32_t g = 0; g < groups; ++g)
    {
        std::vector<ServerId> members(n);
        std::iota(members.begin(), members.end(), 0);
        rng.Shuffle(members);
        members.resize(1 + rng.Below(n));
        demand.allReduces.push_back({members, rng.Below(4) * 250'000});
    }
    for (std::uint32_t p = 0; p < pairs; ++p)
    {
        const auto a = static_cast<ServerId>(rng.Below(n));
        const auto b = static_cast<ServerId>(rng.Below(n));
        demand.At(a, b) = a == b ? 0 : rng.Below(4'000'000);
    }
    return demand;
}

RC_GTEST_PROP(TopologyProperties, FoundTopologiesAreWiredRight, ())
{
    const ServerId n = Draw(2, 40);
    const std::uint32_t d = Draw(1, 9);
    const std::uint32_t groups = Draw(0, 5);
    const std::uint32_t pairs = Draw(0, 60);
    Rng rng(*rc::gen::arbitrary<std::uint64_t>(), "property");
    for (int input = 0; input < kInputs; ++input)
    {
        const Demand demand = RandomDemand(n, groups, pairs, rng);
        TopologyFinderOptions options;
        options.candidates = static_cast<CandidateSet>(rng.Below(2));
        options.rounding = static_cast<GeoRounding>(rng.Below(3));
        options.discount = static_cast<MpDiscount>(rng.Below(2));
        FoundTopology found;
        try
        {
            found = FindTopology(demand, d, options);
        }
        catch (const SpecError&)
        {
            // Only what cannot be: an odd NIC without model-parallel demand, or one NIC among many.
            const bool mp = std::any_of(demand.pairs.begin(), demand.pairs.end(), [](Bytes bytes) {
                return bytes > 0;
            });
            RC_ASSERT(n > 2);
            RC_ASSERT((d == 1 || (d % 2 == 1 && !mp)));
            continue;
        }
        std::set<std::pair<ServerId, std::uint32_t>> nics;
        for (const Cable& cable : found.cables)
        {
            RC_ASSERT(cable.a != cable.b);
            RC_ASSERT(cable.nicA < d);
            RC_ASSERT(cable.nicB < d);
            RC_ASSERT(nics.insert({cable.a, cable.nicA}).second);
            RC_ASSERT(nics.insert({cable.b, cable.nicB}).second);
        }
        const Topology topology = WireTopology(found, {1000}, 0);
        const HopStatistics hops = HopsBetweenServers(topology);
        RC_ASSERT(hops.unreachable == 0U);
        const MooreBound moore = MooreBoundOf(n, std::max(d, n > 2 ? 2U : 1U));
        RC_ASSERT(hops.diameter >= moore.diameter);
        RC_ASSERT(hops.mean >= moore.meanHops - 1e-9);
        // Nobody is left with a free NIC while a matched partner wants one.
        for (ServerId a = 0; n > 2 && a < n; ++a)
        {
            for (ServerId b = a + 1; b < n; ++b)
            {
                if (demand.At(a, b) < (1ULL << d) || d == 0)
                {
                    continue;
                }
                for (std::uint32_t nic = 0; nic < d; ++nic)
                {
                    RC_ASSERT((nics.count({a, nic}) || nics.count({b, nic})));
                }
            }
        }
    }
}

RC_GTEST_PROP(TopologyProperties, RoutesAreWalksWhoseSharesSumToOne, ())
{
    const ServerId n = Draw(2, 24);
    const std::uint32_t d = 2 * Draw(1, 4);
    const auto kind = static_cast<DirectRouting>(
        Draw(0, static_cast<std::uint32_t>(DirectRoutingNames().size()) - 1));
    Rng rng(*rc::gen::arbitrary<std::uint64_t>(), "property");
    for (int input = 0; input < kInputs; ++input)
    {
        const Demand demand = RandomDemand(n, 2, 20, rng);
        RoutingOptions routing;
        routing.kind = kind;
        routing.k = static_cast<std::uint32_t>(1 + rng.Below(5));
        routing.seed = rng.Next();
        routing.gap = 0.1;
        const Fabric fabric =
            DirectConnectFabric(FindTopology(demand, d), {1'000'000'000}, 0, &demand, routing);
        for (int look = 0; look < 20; ++look)
        {
            const auto a = static_cast<ServerId>(rng.Below(n));
            const auto b = static_cast<ServerId>(rng.Below(n));
            if (a == b)
            {
                continue;
            }
            double sum = 0;
            std::set<Path> paths;
            for (const auto& [path, share] : fabric.router->Paths(a, b))
            {
                CheckPath(fabric.topology, path, a, b);
                RC_ASSERT(share > 0);
                sum += share;
                paths.insert(path);
            }
            RC_ASSERT(std::abs(sum - 1) < 1e-9);
            RC_ASSERT(paths.count(fabric.router->Route(a, b, rng.Next())) == 1U);
        }
        // The loads that a router adds up are those of its paths.
        const std::vector<double> loads = PairLoads(fabric.topology, *fabric.router, demand);
        std::vector<double> expected(loads.size());
        for (ServerId a = 0; a < n; ++a)
        {
            for (ServerId b = 0; b < n; ++b)
            {
                if (demand.At(a, b) == 0)
                {
                    continue;
                }
                for (const auto& [path, share] : fabric.router->Paths(a, b))
                {
                    for (LinkId link : path)
                    {
                        expected[link] += share * static_cast<double>(demand.At(a, b));
                    }
                }
            }
        }
        for (std::size_t link = 0; link < loads.size(); ++link)
        {
            RC_ASSERT(std::abs(loads[link] - expected[link]) <= 1e-6 * (1 + expected[link]));
        }
    }
}

RC_GTEST_PROP(TopologyProperties, EveryFabricThatIsBuiltWorks, ())
{
    const auto& kinds = FabricKinds();
    const FabricKind& kind = kinds[Draw(0, static_cast<std::uint32_t>(kinds.size()) - 1)];
    Rng rng(*rc::gen::arbitrary<std::uint64_t>(), "property");
    for (int input = 0; input < kInputs; ++input)
    {
        FabricSpec spec;
        spec.kind = kind.name;
        FabricContext context;
        context.servers.count = static_cast<std::uint32_t>(1 + rng.Below(20));
        context.servers.nics = static_cast<std::uint32_t>(1 + rng.Below(8));
        context.seed = rng.Next();
        const Demand demand = RandomDemand(context.servers.count, 2, 20, rng);
        context.demand = rng.Below(2) == 0 ? nullptr : &demand;
        Fabric fabric;
        try
        {
            fabric = BuildFabric(spec, context);
        }
        catch (const SpecError& error)
        {
            RC_ASSERT(std::string(error.what()).find("expected") != std::string::npos);
            continue;
        }
        const std::uint32_t n = context.servers.count;
        RC_ASSERT(fabric.topology.servers == n);
        std::vector<std::uint64_t> rates(n);
        for (const Link& link : fabric.topology.links)
        {
            const bool sends = fabric.topology.IsServer(link.src);
            const bool receives = fabric.topology.IsServer(link.dst);
            // More ports than NICs only if they share the rate of the NICs (SpreadNics()).
            const bool spreads = link.rate.bps < context.servers.rate.bps;
            RC_ASSERT((spreads || !sends || link.srcPort < context.servers.nics));
            RC_ASSERT((spreads || !receives || link.dstPort < context.servers.nics));
            if (sends)
            {
                rates[link.src] += link.rate.bps;
                RC_ASSERT(rates[link.src] <= context.servers.nics * context.servers.rate.bps);
            }
            // In parentheses: RapidCheck's own || evaluates both sides.
            RC_ASSERT((link.reverse == kNoId ||
                       fabric.topology.links[link.reverse].reverse ==
                           static_cast<LinkId>(&link - fabric.topology.links.data())));
        }
        std::vector<ServerId> group(n);
        std::iota(group.begin(), group.end(), 0);
        rng.Shuffle(group);
        group.resize(1 + rng.Below(n));
        for (const Ring& ring : RingsOf(fabric, group))
        {
            std::set<std::uint32_t> members(ring.order.begin(), ring.order.end());
            RC_ASSERT(members.size() == group.size());
            RC_ASSERT(ring.order.size() == group.size());
            for (std::size_t k = 0; k < ring.hops.size(); ++k)
            {
                CheckPath(fabric.topology,
                          ring.hops[k],
                          group[ring.order[k]],
                          group[ring.order[(k + 1) % group.size()]]);
            }
        }
        for (ServerId b = 1; b < n; ++b)
        {
            CheckPath(fabric.topology, fabric.router->Route(0, b, rng.Next()), 0, b);
            CheckPath(fabric.topology, fabric.router->Route(b, 0, rng.Next()), b, 0);
        }
    }
}

RC_GTEST_PROP(TopologyProperties, SelectedStridesAndTheirDistances, ())
{
    const std::uint32_t n = Draw(2, 400);
    const std::uint32_t count = Draw(1, 6);
    SelectOptions options;
    options.rounding = static_cast<GeoRounding>(Draw(0, 2));
    options.duplex = *rc::gen::arbitrary<bool>();
    options.flexnet = *rc::gen::arbitrary<bool>();
    const std::vector<std::uint32_t> candidates =
        TotientPerms(n, static_cast<CandidateSet>(Draw(0, 1)));
    const std::vector<std::uint32_t> strides = SelectPermutations(n, candidates, count, options);
    RC_ASSERT(strides.size() == count);
    RC_ASSERT(strides[0] == 1U);
    const std::set<std::uint32_t> distinct(strides.begin(), strides.end());
    for (std::uint32_t stride : distinct)
    {
        RC_ASSERT(std::binary_search(candidates.begin(), candidates.end(), stride));
        if (options.duplex && !options.flexnet && n > 2)
        {
            RC_ASSERT(distinct.count(n - stride) == 0U);
        }
    }
    std::vector<std::uint32_t> coins;
    for (std::uint32_t stride : strides)
    {
        coins.push_back(stride);
        coins.push_back(n - stride);
    }
    const CoinChangeTable table = CoinChangeMod(n, coins);
    for (std::uint32_t r = 0; r < n; ++r)
    {
        RC_ASSERT(table.length[r] == table.length[(n - r) % n]);
        const std::uint32_t other = Draw(0, n - 1);
        RC_ASSERT(table.length[(r + other) % n] <= table.length[r] + table.length[other]);
    }
}

} // namespace
} // namespace topoopt
