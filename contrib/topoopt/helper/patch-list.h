// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_PATCH_LIST_H
#define TOPOOPT_PATCH_LIST_H

#include "topoopt/core/fabric.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace topoopt
{

/**
 * Writes what a technician or a robot has to plug: a row per cable, `panel,port_a,port_b,server_a,nic_a,server_b,nic_b`,
 * everything counted from 0.
 * @param head `# key=value` lines in front
 * @return hash of the rows
 * @throws SpecError if the file cannot be written
 */
std::uint64_t WritePatchList(const std::string& file,
                             const std::vector<std::pair<std::string, std::string>>& head,
                             const std::vector<Circuit>& circuits);

} // namespace topoopt

#endif // TOPOOPT_PATCH_LIST_H
