// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_K_SHORTEST_H
#define TOPOOPT_CORE_K_SHORTEST_H

#include "topoopt/core/ids.h"
#include "topoopt/core/routing.h"
#include "topoopt/core/topology.h"

#include <cstdint>
#include <map>
#include <vector>

namespace topoopt
{

/**
 * The @p k loop-free paths of fewest hops (Yen 1971), parallel links being different paths.
 *
 * @return at most @p k paths, ascending by (hops, links); fewer if there are no more; empty if none
 * Cost: O(k * hops * links). Deterministic.
 */
[[nodiscard]] std::vector<Path> KShortestPaths(const Topology& topology,
                                               NodeId src,
                                               NodeId dst,
                                               std::uint32_t k);

/** Flows spread evenly over the k shortest paths of their pair, by a hash of the flow. */
class KShortestRouter final : public Router
{
  public:
    KShortestRouter(const Topology& topology, std::uint32_t k, std::uint64_t seed);

    [[nodiscard]] Path Route(ServerId src, ServerId dst, std::uint64_t flowKey) const override;
    [[nodiscard]] std::vector<std::pair<Path, double>> Paths(ServerId src,
                                                             ServerId dst) const override;

  private:
    [[nodiscard]] const std::vector<Path>& Find(ServerId src, ServerId dst) const;

    Topology m_topology;
    std::uint32_t m_k;
    std::uint64_t m_seed;
    mutable std::map<std::pair<ServerId, ServerId>, std::vector<Path>>
        m_found; ///< when first asked for
};

} // namespace topoopt

#endif // TOPOOPT_CORE_K_SHORTEST_H
