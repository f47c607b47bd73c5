// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/topologies/options.h"

#include "topoopt/core/cost.h"
#include "topoopt/core/error.h"
#include "topoopt/core/scenario.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <stdexcept>

namespace topoopt
{

namespace
{

std::string
PlaceOf(const FabricSpec& spec)
{
    return spec.place.empty() ? "fabric" : spec.place;
}

} // namespace

BitRate
FabricOptions::Rate(const std::string& key, BitRate fallback) const
{
    if (!Has(key))
    {
        return fallback;
    }
    try
    {
        const BitRate rate = ParseBitRate(Text(key));
        if (rate.bps == 0)
        {
            Fail(key, Text(key), "a rate above 0");
        }
        return rate;
    }
    catch (const std::invalid_argument& error)
    {
        throw SpecError(PlaceOf(m_spec), m_spec.kind + "." + key + ": " + error.what());
    }
}

SimTime
FabricOptions::Time(const std::string& key, SimTime fallback) const
{
    if (!Has(key))
    {
        return fallback;
    }
    try
    {
        return ParseTime(Text(key));
    }
    catch (const std::invalid_argument& error)
    {
        throw SpecError(PlaceOf(m_spec), m_spec.kind + "." + key + ": " + error.what());
    }
}

std::uint32_t
FabricOptions::Count(const std::string& key,
                     std::uint32_t fallback,
                     std::uint32_t least,
                     std::uint32_t most) const
{
    if (!Has(key))
    {
        return fallback;
    }
    const std::string& text = Text(key);
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    {
        Fail(key,
             "'" + text + "'",
             "a whole number " + std::to_string(least) + ".." + std::to_string(most));
    }
    return value;
}

double
FabricOptions::Number(const std::string& key, double fallback, double least, double most) const
{
    if (!Has(key))
    {
        return fallback;
    }
    const std::string& text = Text(key);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !(value >= least) ||
        !(value <= most))
    {
        Fail(key,
             "'" + text + "'",
             "a number " + std::to_string(least) + ".." + std::to_string(most));
    }
    return value;
}

bool
FabricOptions::Flag(const std::string& key, bool fallback) const
{
    return Choice(key, {"false", "true", "off", "on", "no", "yes"}, fallback ? 1 : 0) % 2 == 1;
}

std::size_t
FabricOptions::Choice(const std::string& key,
                      const std::vector<std::string>& choices,
                      std::size_t fallback) const
{
    if (!Has(key))
    {
        return fallback;
    }
    std::string expected;
    for (std::size_t i = 0; i < choices.size(); ++i)
    {
        if (Text(key) == choices[i])
        {
            return i;
        }
        expected += (i == 0 ? "" : ", ") + choices[i];
    }
    const std::string near = Suggest(Text(key), choices);
    Fail(key,
         "'" + Text(key) + "'",
         "one of " + expected + (near.empty() ? "" : " (did you mean '" + near + "'?)"));
}

std::string
FabricOptions::Where(const std::string& key) const
{
    return PlaceOf(m_spec) + ": " + m_spec.kind + "." + key;
}

void
FabricOptions::Fail(const std::string& key,
                    const std::string& found,
                    const std::string& expected) const
{
    throw SpecError(PlaceOf(m_spec),
                    m_spec.kind + "." + key + ": found " + found + ", expected " + expected);
}

void
FabricOptions::FailServers(const std::string& key,
                           const std::string& found,
                           const std::string& expected) const
{
    throw SpecError(PlaceOf(m_spec),
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
