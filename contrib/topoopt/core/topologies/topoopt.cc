// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/error.h"
#include "topoopt/core/topologies/builders.h"
#include "topoopt/core/topologies/options.h"
#include "topoopt/core/topology-finder.h"
#include "topoopt/core/topology-search.h"
#include "topoopt/core/topoopt-fabric.h"

#include <string>
#include <vector>

namespace topoopt
{

TopoOptOptions
ReadTopoOptOptions(const FabricSpec& spec, const FabricContext& context)
{
    const FabricOptions options(spec);
    TopoOptOptions read;
    TopologyFinderOptions& finder = read.finder;
    finder.flexnet = options.Choice("compat", {"none", "flexnet"}, 0) == 1;
    finder.candidates =
        static_cast<CandidateSet>(options.Choice("candidates", {"coprime", "prime"}, 0));
    finder.rounding = static_cast<GeoRounding>(
        options.Choice("rounding", {"lower-bound", "floor", "nearest"}, 0));
    finder.discount = static_cast<MpDiscount>(options.Choice("discount", {"half", "harmonic"}, 0));
    finder.split = static_cast<DegreeSplit>(
        options.Choice("split", {"proportional", "allreduce", "fixed"}, 0));
    finder.mpNics = options.Count("mp_nics", 0, 0, context.servers.nics);
    if (options.Has("mp_nics") && finder.split != DegreeSplit::Fixed)
    {
        options.Fail("mp_nics", "it without 'split: fixed'", "both or none");
    }

    read.routing = ReadRouting(options,
                               context,
                               finder.flexnet ? DirectRouting::Random : DirectRouting::Balanced);
    read.search = options.Has("search") ? options.Count("search", 0, 1, 1'000'000) : 0;
    return read;
}

/**
 * The patch-panel fabric of Wang et al. (NSDI 2023): AllReduce rings of geometrically spread strides and
 * cables for the model-parallel demand; servers forward for each other.
 */
Fabric
BuildTopoOpt(const FabricSpec& spec, const FabricContext& context)
{
    const FabricOptions options(spec);
    const ServerSpec& servers = context.servers;

    const TopoOptOptions chosen = ReadTopoOptOptions(spec, context);
    const Demand unknown = AllReduceOverAll(context.demand == nullptr ? servers.count : 0);
    const Demand& demand = context.demand == nullptr ? unknown : *context.demand;
    FoundTopology found;
    try
    {
        if (chosen.search > 0)
        {
            TopologySearchOptions search;
            search.finder = chosen.finder;
            search.seed = context.seed;
            search.evaluations = chosen.search;
            found = SearchTopology(demand, servers.nics, search).found;
        }
        else
        {
            found = FindTopology(demand, servers.nics, chosen.finder);
        }
    }
    catch (const SpecError& error)
    {
        throw SpecError(spec.place.empty() ? "fabric" : spec.place,
                        spec.kind + ": " + error.what());
    }
    Fabric fabric = DirectConnectFabric(found,
                                        options.Rate("rate", servers.rate),
                                        options.Time("delay", servers.linkDelay),
                                        context.demand,
                                        chosen.routing,
                                        chosen.finder.flexnet);
    fabric.kind = spec.kind;
    fabric.name = spec.name.empty() ? spec.kind : spec.name;
    return fabric;
}

} // namespace topoopt
