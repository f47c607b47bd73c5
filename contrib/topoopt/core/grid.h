// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_GRID_H
#define TOPOOPT_CORE_GRID_H

#include "topoopt/core/fabric.h"
#include "topoopt/core/routing.h"
#include "topoopt/core/topology.h"
#include "topoopt/core/units.h"

#include <cstdint>
#include <vector>

namespace topoopt
{

/**
 * Servers at the points of a grid that wraps around in every dimension, first dimension fastest.
 *
 * A dimension of more than two points takes NICs 2i and 2i + 1 of each @em lane for the next and the previous
 * server; with @p folded, one of two points takes a single NIC, as in a hypercube.
 */
class Grid
{
  public:
    /**
     * Wires the grid into @p topology, which has as many servers as points and no cables.
     * @param sizes points per dimension, each >= 2
     * @param lanes parallel cables per step
     */
    Grid(Topology& topology,
         std::vector<std::uint32_t> sizes,
         bool folded,
         std::uint32_t lanes,
         BitRate rate,
         SimTime delay);

    [[nodiscard]] std::uint32_t Lanes() const
    {
        return m_lanes;
    }

    [[nodiscard]] std::uint32_t Servers() const
    {
        return m_servers;
    }

    /**
     * Dimension by dimension, the shorter way around; half way around, up if the coordinates of the
     * source add up to an even number. All on one lane.
     */
    [[nodiscard]] Path DimensionOrder(ServerId src, ServerId dst, std::uint32_t lane) const;

    /**
     * A walk through all servers in which neighbours in the order are neighbours in the grid (boustrophedon,
     * the reflected Gray code in a hypercube). Its end meets its start when the last dimension is even
     * or the only one.
     */
    [[nodiscard]] std::vector<ServerId> Snake() const;

    /** One ring forth and one back per lane along Snake(), for a group of all; else none. */
    [[nodiscard]] std::vector<Ring> Rings(const std::vector<ServerId>& group) const;

  private:
    [[nodiscard]] LinkId LinkOf(ServerId server,
                                std::uint32_t dimension,
                                bool up,
                                std::uint32_t lane) const
    {
        return m_links[((static_cast<std::size_t>(server) * m_sizes.size() + dimension) * 2 +
                        (up ? 1 : 0)) *
                           m_lanes +
                       lane];
    }

    std::vector<std::uint32_t> m_sizes;
    std::uint32_t m_servers = 1;
    std::uint32_t m_lanes;
    std::vector<LinkId> m_links;
};

/** Dimension-order routes; a flow takes one lane by a hash of its key. */
class DimensionOrderRouter final : public Router
{
  public:
    DimensionOrderRouter(Grid grid, std::uint64_t seed);

    [[nodiscard]] Path Route(ServerId src, ServerId dst, std::uint64_t flowKey) const override;
    [[nodiscard]] std::vector<std::pair<Path, double>> Paths(ServerId src,
                                                             ServerId dst) const override;

  private:
    Grid m_grid;
    std::uint64_t m_seed;
};

} // namespace topoopt

#endif // TOPOOPT_CORE_GRID_H
