// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/topologies/builders.h"
#include "topoopt/core/topologies/options.h"
#include "topoopt/core/topology-file.h"

#include <algorithm>
#include <memory>
#include <string>

namespace topoopt
{

/** A network from a file: YAML or the HPCC topology format, told apart by content. */
Fabric
BuildFile(const FabricSpec& spec, const FabricContext& context)
{
    const FabricOptions options(spec);
    if (!options.Has("file"))
    {
        options.Fail("file", "nothing", "a topology file");
    }
    Fabric fabric = NewFabric(spec, 0);
    fabric.topology = ReadTopologyFile(options.Text("file"));
    if (fabric.topology.servers != context.servers.count)
    {
        options.FailServers("count",
                            std::to_string(context.servers.count),
                            std::to_string(fabric.topology.servers) + " as in " +
                                options.Text("file"));
    }
    const bool switches = fabric.topology.NodeCount() > fabric.topology.servers;
    const bool forward = options.Flag("servers_forward", !switches);
    if (forward)
    {
        RouteDirect(fabric, context.demand, ReadRouting(options, context, DirectRouting::Ecmp));
    }
    else
    {
        if (ReadRouting(options, context, DirectRouting::Ecmp).kind != DirectRouting::Ecmp)
        {
            options.Fail("routing",
                         "'" + options.Text("routing") + "'",
                         "ecmp, or 'servers_forward: true'");
        }
        fabric.router = std::make_shared<EcmpRouter>(fabric.topology, context.seed, false);
        fabric.nicChoice = "any NIC that starts a shortest path, by a hash of the flow";
    }
    return fabric;
}

} // namespace topoopt
