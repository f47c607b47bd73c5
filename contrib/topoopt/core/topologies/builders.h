// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_TOPOLOGIES_BUILDERS_H
#define TOPOOPT_CORE_TOPOLOGIES_BUILDERS_H

#include "topoopt/core/topology-kinds.h"

namespace topoopt
{

// One builder per fabric, defined in the file of its name; topology-kinds.cc lists them.
Fabric BuildFatTree(const FabricSpec& spec, const FabricContext& context);
Fabric BuildIdealSwitch(const FabricSpec& spec, const FabricContext& context);
Fabric BuildTopoOpt(const FabricSpec& spec, const FabricContext& context);

} // namespace topoopt

#endif // TOPOOPT_CORE_TOPOLOGIES_BUILDERS_H
