// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/circulant.h"
#include "topoopt/core/select-permutations.h"
#include "topoopt/core/topologies/builders.h"
#include "topoopt/core/topologies/options.h"
#include "topoopt/core/totient-perms.h"

#include <memory>
#include <string>
#include <vector>

namespace topoopt
{

namespace
{

/** Strides for @p nics NICs per server; empty = one cable or none. */
std::vector<std::uint32_t>
Strides(const ServerSpec& servers, const FabricOptions& options)
{
    const std::uint32_t n = servers.count;
    const std::uint32_t d = servers.nics;
    if (n == 1 || (n == 2 && d == 1))
    {
        return {};
    }
    if (d % 2 != 0)
    {
        options.FailServers("nics",
                            std::to_string(d),
                            "an even number (" + (d > 1 ? std::to_string(d - 1) + " or " : "") +
                                std::to_string(d + 1) +
                                "): each ring takes one NIC for either direction");
    }
    return SelectPermutations(n, TotientPerms(n), d / 2);
}

} // namespace

/**
 * The patch-panel fabric of Wang et al. (NSDI 2023): AllReduce rings of geometrically spread strides,
 * reached beyond the neighbours through other servers.
 */
Fabric
BuildTopoOpt(const FabricSpec& spec, const FabricContext& context)
{
    const FabricOptions options(spec);
    const ServerSpec& servers = context.servers;
    Fabric fabric = NewFabric(spec, servers.count);
    const Circulant circulant(fabric.topology,
                              Strides(servers, options),
                              options.Rate("rate", servers.rate),
                              options.Time("delay", servers.linkDelay));
    fabric.circuits = circulant.Circuits();
    fabric.rings = [circulant](const std::vector<ServerId>& group) {
        return circulant.Rings(group);
    };
    fabric.router = std::make_shared<CoinChangeRouter>(circulant);
    fabric.nicChoice = "the NIC of the first stride of the pair's route";
    return fabric;
}

} // namespace topoopt
