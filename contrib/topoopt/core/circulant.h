// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_CIRCULANT_H
#define TOPOOPT_CORE_CIRCULANT_H

#include "topoopt/core/coin-change.h"
#include "topoopt/core/fabric.h"
#include "topoopt/core/ids.h"
#include "topoopt/core/routing.h"
#include "topoopt/core/topology-finder.h"

#include <cstdint>
#include <vector>

namespace topoopt
{

/**
 * Rings of constant stride over all servers as a graph that looks the same from each of them: its routes
 * and rings.
 *
 * Coins 2k and 2k + 1 are +p_k and -p_k, in the order of the strides. Two servers have one coin per cable.
 */
class Circulant
{
  public:
    /**
     * @param found with IsCirculant(); links are those of WireTopology
     * @param ties random ties of CoinChangeMod; null = balanced
     * @param flexnet rings of smaller groups as the released code has them, see Rings
     */
    explicit Circulant(const FoundTopology& found, Rng* ties = nullptr, bool flexnet = false);

    [[nodiscard]] std::uint32_t Servers() const
    {
        return m_table.n;
    }

    [[nodiscard]] const CoinChangeTable& Table() const
    {
        return m_table;
    }

    /** The link that leaves @p server for the server @p coin further. */
    [[nodiscard]] LinkId LinkOf(ServerId server, std::uint32_t coin) const
    {
        return m_links[static_cast<std::size_t>(server) * m_table.coins.size() + coin];
    }

    /** Fewest hops, ties as CoinChangeMod left them. @pre src != dst, both < Servers() */
    [[nodiscard]] Path PathOf(ServerId src, ServerId dst) const;

    /**
     * Rings for a group.
     *
     * All servers: one ring per stride and direction, each over its own links only. A group at a
     * regular spacing s, s + n/g, ...: of the rings q coprime to g those whose steps take fewest hops, at
     * most as many as there are coins; the released code keeps one of them and its reverse unless a
     * step is one hop. Any other group: by ascending server, forth and back.
     * @throws std::invalid_argument on a repeated or unknown member
     */
    [[nodiscard]] std::vector<Ring> Rings(const std::vector<ServerId>& group) const;

  private:
    [[nodiscard]] Path Walk(ServerId src, const std::vector<std::uint32_t>& coins) const;
    [[nodiscard]] Ring RingThrough(const std::vector<ServerId>& servers,
                                   const std::vector<std::uint32_t>& memberOf) const;
    [[nodiscard]] Ring RingOfSteps(ServerId start,
                                   std::uint32_t size,
                                   const std::vector<std::uint32_t>& coins,
                                   const std::vector<std::uint32_t>& memberOf) const;

    CoinChangeTable m_table;
    std::vector<LinkId> m_links; ///< server-major, then coin
    bool m_flexnet;
};

/** Fewest strides along a Circulant. */
class CoinChangeRouter final : public Router
{
  public:
    explicit CoinChangeRouter(Circulant circulant);

    [[nodiscard]] Path Route(ServerId src, ServerId dst, std::uint64_t flowKey) const override;
    [[nodiscard]] std::vector<std::pair<Path, double>> Paths(ServerId src,
                                                             ServerId dst) const override;
    void AddLoads(ServerId dst,
                  const std::vector<double>& bytes,
                  std::vector<double>& loads) const override;

  private:
    Circulant m_circulant;
};

} // namespace topoopt

#endif // TOPOOPT_CORE_CIRCULANT_H
