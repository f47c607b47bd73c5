// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_DEMAND_H
#define TOPOOPT_CORE_DEMAND_H

#include "topoopt/core/ids.h"
#include "topoopt/core/units.h"

#include <cstddef>
#include <string>
#include <vector>

namespace topoopt
{

/** Bytes that one AllReduce group reduces per iteration. */
struct AllReduceDemand
{
    std::vector<ServerId> members; ///< in group order, no repeats
    Bytes bytes = 0;               ///< sum over the group's tensors of the vector size S
};

/**
 * What must move per iteration: AllReduces, whose rings the fabric may choose (mutable), and
 * point-to-point traffic, whose ends are given (model parallel).
 */
struct Demand
{
    ServerId servers = 0;
    std::vector<AllReduceDemand> allReduces;
    std::vector<Bytes> pairs; ///< servers*servers, row = source; diagonal 0

    explicit Demand(ServerId n = 0)
        : servers(n),
          pairs(static_cast<std::size_t>(n) * n)
    {
    }

    [[nodiscard]] Bytes At(ServerId src, ServerId dst) const
    {
        return pairs[static_cast<std::size_t>(src) * servers + dst];
    }

    Bytes& At(ServerId src, ServerId dst)
    {
        return pairs[static_cast<std::size_t>(src) * servers + dst];
    }
};

/**
 * Reads point-to-point demand: either a square matrix, one row of comma-separated byte counts per source,
 * or rows `src,dst,bytes` under that header. Lines that are empty or begin with # are skipped; the diagonal is
 * ignored; with rows, a repeated pair adds up.
 *
 * @param servers how many there are; 0 = as the file says
 * @throws SpecError `FILE:LINE:COL: ...` for anything else, or another number of servers
 */
[[nodiscard]] Demand ReadDemandCsv(const std::string& file, ServerId servers = 0);

} // namespace topoopt

#endif // TOPOOPT_CORE_DEMAND_H
