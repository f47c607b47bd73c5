// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_DEMAND_H
#define TOPOOPT_CORE_DEMAND_H

#include "topoopt/core/ids.h"
#include "topoopt/core/units.h"

#include <cstddef>
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

} // namespace topoopt

#endif // TOPOOPT_CORE_DEMAND_H
