// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_CIRCULANT_H
#define TOPOOPT_CORE_CIRCULANT_H

#include "topoopt/core/coin-change.h"
#include "topoopt/core/fabric.h"
#include "topoopt/core/ids.h"
#include "topoopt/core/routing.h"
#include "topoopt/core/topology.h"
#include "topoopt/core/units.h"

#include <cstdint>
#include <vector>

namespace topoopt
{

/**
 * Servers on rings of constant stride, one cable per server and ring, both directions used.
 *
 * Ring k takes NIC 2k of every server for its successor (i + p_k) mod n and NIC 2k + 1 for its
 * predecessor. With one NIC there can only be two servers and one cable.
 */
class Circulant
{
  public:
    /**
     * Wires the rings into @p topology, which must have no cable yet.
     * @param strides each coprime to the number of servers, repeats allowed; empty = the single cable of
     *        two servers with one NIC each
     */
    Circulant(Topology& topology,
              const std::vector<std::uint32_t>& strides,
              BitRate rate,
              SimTime delay);

    [[nodiscard]] std::uint32_t Servers() const
    {
        return m_table.n;
    }

    /** Coins 2k and 2k + 1 are +p_k and -p_k, as the NICs are. */
    [[nodiscard]] const CoinChangeTable& Table() const
    {
        return m_table;
    }

    /** The link that leaves @p server at NIC @p coin. */
    [[nodiscard]] LinkId LinkOf(ServerId server, std::uint32_t coin) const
    {
        return m_links[static_cast<std::size_t>(server) * m_table.coins.size() + coin];
    }

    /** Fewest hops, ties as CoinChangeMod left them. @pre src != dst, both < Servers() */
    [[nodiscard]] Path PathOf(ServerId src, ServerId dst) const;

    /**
     * Rings for a group.
     *
     * All servers: one ring per NIC, each over its own links only. A group at a regular spacing
     * s, s + n/g, ...: of the rings q coprime to g those whose steps take fewest hops, at most as many as there are
     * NICs. Any other group: by ascending server, forth and back.
     * @throws std::invalid_argument on a repeated or unknown member
     */
    [[nodiscard]] std::vector<Ring> Rings(const std::vector<ServerId>& group) const;

    /** One panel of 2n ports per ring: server i's NIC 2k at port 2i, NIC 2k + 1 at port 2i + 1. */
    [[nodiscard]] std::vector<Circuit> Circuits() const;

  private:
    [[nodiscard]] Ring RingThrough(const std::vector<ServerId>& servers,
                                   const std::vector<std::uint32_t>& memberOf) const;

    CoinChangeTable m_table;
    std::vector<LinkId> m_links; ///< server-major, then coin
};

/** Fewest strides along a Circulant. */
class CoinChangeRouter final : public Router
{
  public:
    explicit CoinChangeRouter(Circulant circulant);

    [[nodiscard]] Path Route(ServerId src, ServerId dst, std::uint64_t flowKey) const override;
    [[nodiscard]] std::vector<std::pair<Path, double>> Paths(ServerId src,
                                                             ServerId dst) const override;

  private:
    Circulant m_circulant;
};

} // namespace topoopt

#endif // TOPOOPT_CORE_CIRCULANT_H
