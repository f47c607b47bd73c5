// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/error.h"
#include "topoopt/core/topologies/builders.h"
#include "topoopt/core/topologies/options.h"

#include <string>

namespace topoopt
{

/** The fabric that came with the workload (a task graph with its links, routes and rings). */
Fabric
BuildFromFile(const FabricSpec& spec, const FabricContext& context)
{
    const FabricOptions options(spec);
    if (context.fromFile == nullptr)
    {
        throw SpecError(spec.place.empty() ? "fabric" : spec.place,
                        spec.kind + ": found a workload without a fabric of its own, expected one "
                                    "such as a FlexNet task graph");
    }
    if (context.fromFile->topology.servers != context.servers.count)
    {
        options.FailServers("count",
                            std::to_string(context.servers.count),
                            std::to_string(context.fromFile->topology.servers) +
                                " as in the workload's file");
    }
    Fabric fabric = *context.fromFile;
    fabric.kind = spec.kind;
    fabric.name = spec.name.empty() ? spec.kind : spec.name;
    return fabric;
}

} // namespace topoopt
