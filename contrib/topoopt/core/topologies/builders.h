// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_TOPOLOGIES_BUILDERS_H
#define TOPOOPT_CORE_TOPOLOGIES_BUILDERS_H

#include "topoopt/core/topology-kinds.h"

namespace topoopt
{

// One builder per fabric, defined in the file of its name; topology-kinds.cc lists them.
Fabric BuildExpander(const FabricSpec& spec, const FabricContext& context);
Fabric BuildFatTree(const FabricSpec& spec, const FabricContext& context);
Fabric BuildFile(const FabricSpec& spec, const FabricContext& context);
Fabric BuildFromFile(const FabricSpec& spec, const FabricContext& context);
Fabric BuildFullMesh(const FabricSpec& spec, const FabricContext& context);
Fabric BuildHypercube(const FabricSpec& spec, const FabricContext& context);
Fabric BuildIdealSwitch(const FabricSpec& spec, const FabricContext& context);
Fabric BuildLeafSpine(const FabricSpec& spec, const FabricContext& context);
Fabric BuildOversubscribedFatTree(const FabricSpec& spec, const FabricContext& context);
Fabric BuildRailOptimized(const FabricSpec& spec, const FabricContext& context);
Fabric BuildSipMlOcs(const FabricSpec& spec, const FabricContext& context);
Fabric BuildSipMlRing(const FabricSpec& spec, const FabricContext& context);
Fabric BuildTopoOpt(const FabricSpec& spec, const FabricContext& context);
Fabric BuildTorus(const FabricSpec& spec, const FabricContext& context);

} // namespace topoopt

#endif // TOPOOPT_CORE_TOPOLOGIES_BUILDERS_H
