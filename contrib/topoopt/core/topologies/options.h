// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_TOPOLOGIES_OPTIONS_H
#define TOPOOPT_CORE_TOPOLOGIES_OPTIONS_H

#include "topoopt/core/fabric.h"
#include "topoopt/core/option-values.h"
#include "topoopt/core/topology-finder.h"
#include "topoopt/core/topology-kinds.h"
#include "topoopt/core/topoopt-fabric.h"
#include "topoopt/core/units.h"

#include <cstdint>
#include <string>
#include <vector>

namespace topoopt
{

/** The options of a fabric; their path in messages is KIND.KEY. */
class FabricOptions : public OptionValues
{
  public:
    explicit FabricOptions(const FabricSpec& spec)
        : OptionValues(spec.options, spec.places, spec.place, spec.kind + "."),
          m_spec(spec)
    {
    }

    /** For a value that the scenario gives for all fabrics: `PLACE: servers.KEY for fabric KIND: ...`. */
    [[noreturn]] void FailServers(const std::string& key,
                                  const std::string& found,
                                  const std::string& expected) const;

  private:
    const FabricSpec& m_spec;
};

/** Reads the options `routing` and `k` of a fabric whose servers forward. */
[[nodiscard]] RoutingOptions ReadRouting(const FabricOptions& options,
                                         const FabricContext& context,
                                         DirectRouting fallback);

/**
 * The rate of all links of a Clos from option `rate`: a rate, or `equal-cost`, the one at which @p fabric as
 * wired costs what TopoOpt with all its NICs does (prices of traces/prices.yaml). Sets it on the links; default: as fast
 * as all NICs of a server together.
 * @return the rate
 */
BitRate SetClosRate(Fabric& fabric, const FabricOptions& options, const ServerSpec& servers);

/** The options of fabric `topoopt` that decide its wiring and its routes. */
struct TopoOptOptions
{
    TopologyFinderOptions finder;
    RoutingOptions routing;
    std::uint32_t search = 0; ///< evaluations of SearchTopology(); 0 = TopologyFinder as it is
};

/** Reads them from @p spec; what `topoopt topology` takes, too. @throws SpecError */
[[nodiscard]] TopoOptOptions ReadTopoOptOptions(const FabricSpec& spec,
                                                const FabricContext& context);

/** How a server's NICs serve a fabric that needs one for each of several directions. */
struct NicSpread
{
    std::uint32_t lanes = 1; ///< parallel cables per direction
    BitRate rate;            ///< of a cable
};

/**
 * NICs as they are if they are a multiple of @p directions; else one NIC per direction, together as fast as those
 * that a server has, as a switched fabric takes one NIC as fast as all. Option `rate` sets the rate of a cable.
 */
[[nodiscard]] NicSpread SpreadNics(const ServerSpec& servers,
                                   std::uint32_t directions,
                                   const FabricOptions& options);

/** @p rate times @p factor; an unusable product is a SpecError. */
[[nodiscard]] BitRate Times(BitRate rate, std::uint32_t factor, const FabricOptions& options);

/** An empty fabric of the given spec over @p count servers. */
[[nodiscard]] Fabric NewFabric(const FabricSpec& spec, std::uint32_t count);

} // namespace topoopt

#endif // TOPOOPT_CORE_TOPOLOGIES_OPTIONS_H
