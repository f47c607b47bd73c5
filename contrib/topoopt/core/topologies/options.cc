// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/topologies/options.h"

#include "topoopt/core/cost.h"
#include "topoopt/core/error.h"

namespace topoopt
{

void
FabricOptions::FailServers(const std::string& key,
                           const std::string& found,
                           const std::string& expected) const
{
    throw SpecError(m_spec.place.empty() ? "fabric" : m_spec.place,
                    "servers." + key + " for fabric " + m_spec.kind + ": found " + found +
                        ", expected " + expected);
}

RoutingOptions
ReadRouting(const FabricOptions& options, const FabricContext& context, DirectRouting fallback)
{
    RoutingOptions routing;
    routing.kind = static_cast<DirectRouting>(
        options.Choice("routing", DirectRoutingNames(), static_cast<std::size_t>(fallback)));
    routing.k = options.Count("k", routing.k, 1, 64);
    routing.seed = context.seed;
    if (options.Has("k") && routing.kind != DirectRouting::KShortest)
    {
        options.Fail("k", "it without 'routing: k-shortest'", "both or none");
    }
    return routing;
}

BitRate
SetClosRate(Fabric& fabric, const FabricOptions& options, const ServerSpec& servers)
{
    BitRate rate = Times(servers.rate, servers.nics, options);
    if (options.Has("rate") && options.Text("rate") == "equal-cost")
    {
        const PriceTable prices = ReadPrices();
        const double dollars = BillOf(DirectPorts(servers, Optics::PatchPanel), prices).total;
        rate =
            EqualCostRate(fabric.topology, Optics::Cable, dollars, prices, options.Where("rate"));
    }
    else
    {
        rate = options.Rate("rate", rate);
    }
    for (Link& link : fabric.topology.links)
    {
        link.rate = rate;
    }
    return rate;
}

NicSpread
SpreadNics(const ServerSpec& servers, std::uint32_t directions, const FabricOptions& options)
{
    NicSpread spread{1, servers.rate};
    if (directions > 0 && servers.nics % directions == 0)
    {
        spread.lanes = servers.nics / directions;
    }
    else if (directions > 0)
    {
        spread.rate.bps = Times(servers.rate, servers.nics, options).bps / directions;
    }
    spread.rate = options.Rate("rate", spread.rate);
    if (spread.rate.bps == 0)
    {
        options.FailServers("rate", "less than 1 bps per cable", "more");
    }
    return spread;
}

BitRate
Times(BitRate rate, std::uint32_t factor, const FabricOptions& options)
{
    if (rate.bps == 0 || factor == 0 || rate.bps > UINT64_MAX / factor)
    {
        options.FailServers("rate",
                            std::to_string(factor) + " x " + std::to_string(rate.bps) + "bps",
                            "a product above 0 that fits into 64 bits");
    }
    return {rate.bps * factor};
}

Fabric
NewFabric(const FabricSpec& spec, std::uint32_t count)
{
    Fabric fabric;
    fabric.kind = spec.kind;
    fabric.name = spec.name.empty() ? spec.kind : spec.name;
    fabric.topology = Topology(count);
    return fabric;
}

} // namespace topoopt
