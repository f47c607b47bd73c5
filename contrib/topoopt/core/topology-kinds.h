// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_TOPOLOGY_KINDS_H
#define TOPOOPT_CORE_TOPOLOGY_KINDS_H

#include "topoopt/core/demand.h"
#include "topoopt/core/fabric.h"

#include <cstdint>
#include <string>
#include <vector>

namespace topoopt
{

/** What a builder may look at besides its own options. */
struct FabricContext
{
    ServerSpec servers;
    std::uint64_t seed = 1;
    const Demand* demand =
        nullptr; ///< what the job moves; null = unknown, build for AllReduce over all
    const Fabric* fromFile = nullptr; ///< fabric that came with the workload; null = none
};

/** What the far end of a server's NIC is plugged into; what `topoopt cost` counts. */
enum class Optics : std::uint8_t
{
    Cable,        ///< the other end of the link itself
    PatchPanel,   ///< 1x2 switch, active and look-ahead panel
    CircuitSwitch ///< optical circuit switch
};

/** One entry of the table of fabrics. */
struct FabricKind
{
    const char* name;
    const char* help;                 ///< one line for `topoopt list`
    std::vector<const char*> options; ///< option keys that Build understands
    Fabric (*build)(const FabricSpec& spec, const FabricContext& context);
    Optics optics = Optics::Cable;
};

/** All fabrics, sorted by name. Adding one: a file in topologies/, its declaration and its entry here. */
[[nodiscard]] const std::vector<FabricKind>& FabricKinds();

/** The table entry of @p spec, whose options it knows all. @throws SpecError with a suggestion */
[[nodiscard]] const FabricKind& FindFabricKind(const FabricSpec& spec);

/**
 * Builds the fabric that @p spec names.
 * @throws SpecError: unknown kind or option (with a suggestion), a value that does not fit
 */
[[nodiscard]] Fabric BuildFabric(const FabricSpec& spec, const FabricContext& context);

} // namespace topoopt

#endif // TOPOOPT_CORE_TOPOLOGY_KINDS_H
