// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_FABRIC_TABLES_H
#define TOPOOPT_FABRIC_TABLES_H

#include "ns3/fabric-run.h"
#include "ns3/message-network.h"
#include "ns3/packet-network.h"
#include "topoopt/core/demand.h"

#include <cstdint>
#include <string>
#include <vector>

namespace topoopt
{

/** A matrix has a row per node; larger fabrics go without. */
inline constexpr std::uint32_t kMaxMatrixNodes = 2048;

/**
 * Writes a matrix of bytes between nodes.
 * @param name  of the file
 * @param cells row by row, row = source
 * @return hash of all rows
 * @throws SpecError naming the file if it cannot be written
 */
std::uint64_t WriteMatrix(const RunOptions& options,
                          const std::string& name,
                          const std::vector<std::string>& nodes,
                          const std::vector<Bytes>& cells);

/**
 * Writes what a fabric is and what its links carried: links.csv, matrix_demand.csv and matrix_link.csv, topology.json, and
 * patches.csv where there are circuits to patch. What does not apply to a way of simulating is 0 in its counters.
 *
 * @param demand  bytes asked for between servers; of no servers if there are more nodes than kMaxMatrixNodes
 * @param outages of every link; empty: none could go dark
 * @return hash of all rows
 * @throws SpecError naming the file if one cannot be written
 */
std::uint64_t WriteFabricTables(const RunOptions& options,
                                const Fabric& fabric,
                                const Demand& demand,
                                const std::vector<LinkCounters>& links,
                                SimTime end,
                                const std::vector<LinkOutage>& outages = {});

} // namespace topoopt

#endif // TOPOOPT_FABRIC_TABLES_H
