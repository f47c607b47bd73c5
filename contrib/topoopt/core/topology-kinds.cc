// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/topology-kinds.h"

#include "topoopt/core/error.h"
#include "topoopt/core/scenario.h"
#include "topoopt/core/topologies/builders.h"
#include "topoopt/core/topologies/options.h"

#include <algorithm>

namespace topoopt
{

namespace
{

/** "found 'X', expected one of A, B (did you mean 'A'?)". */
std::string
NoSuch(const std::string& found, const std::vector<std::string>& known)
{
    if (known.empty())
    {
        return "found '" + found + "', expected no options";
    }
    std::string text = "found '" + found + "', expected one of ";
    for (std::size_t i = 0; i < known.size(); ++i)
    {
        text += (i == 0 ? "" : ", ") + known[i];
    }
    const std::string near = Suggest(found, known);
    return near.empty() ? text : text + " (did you mean '" + near + "'?)";
}

} // namespace

const std::vector<FabricKind>&
FabricKinds()
{
    static const std::vector<FabricKind> kinds = {
        {"expander",
         "random regular graph, connected, servers forward",
         {"delay", "k", "parallel", "rate", "routing"},
         &BuildExpander},
        {"fat-tree",
         "k-ary Clos with full bisection, ECMP per flow, one NIC per server",
         {"delay", "k", "rate"},
         &BuildFatTree},
        {"file",
         "a network from a YAML or HPCC topology file",
         {"file", "k", "routing", "servers_forward"},
         &BuildFile},
        {"from-file", "the network that the workload's file brings along", {}, &BuildFromFile},
        {"full-mesh", "a cable between every two servers", {"delay", "rate"}, &BuildFullMesh},
        {"hypercube",
         "servers joined where their numbers differ in one bit, dimension order",
         {"delay", "rate"},
         &BuildHypercube},
        {"ideal-switch",
         "one switch without limits, one NIC per server as fast as all its NICs",
         {"delay", "rate"},
         &BuildIdealSwitch},
        {"leaf-spine",
         "two tiers of switches, ECMP per flow, one NIC per server",
         {"delay", "rate", "servers_per_leaf", "spines", "uplink_rate"},
         &BuildLeafSpine},
        {"ocs-reconfig",
         "optical circuit switch that starts as a random regular graph; see reconfiguration:",
         {"delay", "k", "parallel", "rate", "routing"},
         &BuildExpander,
         Optics::CircuitSwitch},
        {"oversubscribed-fat-tree",
         "Fat-tree with ratio:1 fewer uplinks at its edge, one NIC per server",
         {"delay", "k", "rate", "ratio"},
         &BuildOversubscribedFatTree},
        {"rail-optimized",
         "NIC r of every server on rail switch r, spines above if there are several pods",
         {"delay", "pod", "rate", "spines"},
         &BuildRailOptimized},
        {"sipml-ocs",
         "SiP-ML's optical circuit switches as a static plan: one permutation per NIC",
         {"delay", "k", "rate", "routing"},
         &BuildSipMlOcs,
         Optics::CircuitSwitch},
        {"sipml-ring",
         "SiP-ML's ring of wavelengths as a static plan",
         {"delay", "k", "rate", "routing", "wavelengths"},
         &BuildSipMlRing,
         Optics::CircuitSwitch},
        {"topoopt",
         "patch panel wired for the job: AllReduce rings of chosen strides, servers forward",
         {"candidates",
          "compat",
          "delay",
          "discount",
          "k",
          "mp_nics",
          "rate",
          "rounding",
          "routing",
          "search",
          "split"},
         &BuildTopoOpt,
         Optics::PatchPanel},
        {"torus",
         "torus of two, three or given dimensions, dimension order",
         {"delay", "dims", "rate"},
         &BuildTorus},
    };
    return kinds;
}

const FabricKind&
FindFabricKind(const FabricSpec& spec)
{
    const std::string place = spec.place.empty() ? "fabric" : spec.place;
    const std::vector<FabricKind>& kinds = FabricKinds();
    const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const FabricKind& candidate) {
        return spec.kind == candidate.name;
    });
    if (kind == kinds.end())
    {
        std::vector<std::string> names;
        for (const FabricKind& candidate : kinds)
        {
            names.emplace_back(candidate.name);
        }
        throw SpecError(place, "fabric kind: " + NoSuch(spec.kind, names));
    }
    const std::vector<std::string> known(kind->options.begin(), kind->options.end());
    for (const auto& [key, value] : spec.options)
    {
        // What changes a fabric during a run is not the builder's business.
        if (key.rfind("reconfiguration.", 0) != 0 &&
            std::find(known.begin(), known.end(), key) == known.end())
        {
            throw SpecError(place, spec.kind + " option: " + NoSuch(key, known));
        }
    }
    return *kind;
}

Fabric
BuildFabric(const FabricSpec& spec, const FabricContext& context)
{
    const FabricKind& kind = FindFabricKind(spec);
    const FabricOptions options(spec);
    constexpr std::uint32_t kMostServers = 1U << 16;
    constexpr std::uint32_t kMostNics = 256;
    if (context.servers.count == 0 || context.servers.count > kMostServers)
    {
        options.FailServers("count",
                            std::to_string(context.servers.count),
                            "1.." + std::to_string(kMostServers));
    }
    if (context.servers.nics == 0 || context.servers.nics > kMostNics)
    {
        options.FailServers("nics",
                            std::to_string(context.servers.nics),
                            "1.." + std::to_string(kMostNics));
    }
    return kind.build(spec, context);
}

} // namespace topoopt
