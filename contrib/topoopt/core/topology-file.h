// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_TOPOLOGY_FILE_H
#define TOPOOPT_CORE_TOPOLOGY_FILE_H

#include "topoopt/core/topology.h"

#include <string>

namespace topoopt
{

/**
 * Reads a network in the HPCC topology format if the file begins with a digit, else from YAML.
 *
 * YAML:
 * @code
 * servers: 4                     # called s0 .. s3
 * switches: [left, right]        # may be missing
 * rate: 100Gbps                  # of links that say nothing
 * delay: 1us
 * links:
 *   - {from: s0, to: left}       # a cable, both directions
 *   - {from: left, to: right, rate: 400Gbps, delay: 500ns, count: 2}
 *   - {from: s1, to: s2, simplex: true}
 * @endcode
 * HPCC: `nodes switches links`, the switch ids, then `src dst rate delay error_rate` per cable; the other ids are
 * servers, renumbered in their order. Error rates other than 0 are refused.
 *
 * Every server must have a cable and reach every other one.
 * @throws SpecError `FILE:LINE:COL: ...` for anything else
 */
[[nodiscard]] Topology ReadTopologyFile(const std::string& file);

} // namespace topoopt

#endif // TOPOOPT_CORE_TOPOLOGY_FILE_H
