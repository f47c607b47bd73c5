// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_LIT_ROUTER_H
#define TOPOOPT_CORE_LIT_ROUTER_H

#include "topoopt/core/routing.h"
#include "topoopt/core/topology.h"

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace topoopt
{

/**
 * Shortest paths over those links of a topology that can be used now, one of the equal ones by a hash.
 *
 * A path leads through servers only if there is none that does not, as behind switches. Unlike the other routers it answers "there is
 * no way", and it is made again whenever a link comes or goes: O(nodes + links), then a search per destination that is asked for.
 */
class LitRouter
{
  public:
    enum class Relays : std::uint8_t
    {
        Servers, ///< servers pass traffic on
        None     ///< one link or, through switches, no server in between
    };

    /** @p usable by link; links beyond its end are not */
    LitRouter(const Topology& topology,
              const std::vector<bool>& usable,
              std::uint64_t seed,
              Relays relays);

    /** Empty = there is no way. */
    [[nodiscard]] Path Find(ServerId src, ServerId dst, std::uint64_t flowKey) const;

  private:
    struct Hop
    {
        LinkId link;
        NodeId other;
    };

    using Table = std::vector<std::uint32_t>; ///< hops to a destination, by node

    [[nodiscard]] const Table& Distances(ServerId dst, bool throughServers) const;

    std::uint32_t m_servers;
    std::uint64_t m_seed;
    Relays m_relays;
    std::vector<std::vector<Hop>> m_out; ///< by node, usable links alone
    std::vector<std::vector<Hop>> m_in;
    mutable std::unordered_map<std::uint64_t, Table> m_tables; ///< looked up, never iterated
};

} // namespace topoopt

#endif // TOPOOPT_CORE_LIT_ROUTER_H
