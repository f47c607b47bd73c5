// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/topologies/builders.h"
#include "topoopt/core/topologies/options.h"

#include <memory>

namespace topoopt
{

/**
 * One switch without limits and one NIC per server, as fast as all NICs of a server together: two links
 * from any server to any other, and no congestion but at the receiver.
 */
Fabric
BuildIdealSwitch(const FabricSpec& spec, const FabricContext& context)
{
    const FabricOptions options(spec);
    const ServerSpec& servers = context.servers;
    Fabric fabric = NewFabric(spec, servers.count);
    const BitRate rate = options.Rate("rate", Times(servers.rate, servers.nics, options));
    const SimTime delay = options.Time("delay", servers.linkDelay);
    const NodeId hub = fabric.topology.AddSwitch("switch");
    for (ServerId s = 0; s < servers.count; ++s)
    {
        fabric.topology.AddDuplexLink(s, hub, rate, delay);
    }
    fabric.router = std::make_shared<EcmpRouter>(fabric.topology, context.seed, false);
    fabric.nicChoice = "one NIC of " + FormatBitRate(rate) + " per server";
    return fabric;
}

} // namespace topoopt
