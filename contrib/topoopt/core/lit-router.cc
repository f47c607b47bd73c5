// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/lit-router.h"

#include "topoopt/core/random.h"

#include <algorithm>

namespace topoopt
{

LitRouter::LitRouter(const Topology& topology,
                     const std::vector<bool>& usable,
                     std::uint64_t seed,
                     Relays relays)
    : m_servers(topology.servers),
      m_seed(seed),
      m_relays(relays),
      m_out(topology.NodeCount()),
      m_in(topology.NodeCount())
{
    const std::size_t links = std::min(usable.size(), topology.links.size());
    for (LinkId id = 0; id < links; ++id)
    {
        if (usable[id])
        {
            const Link& link = topology.links[id];
            m_out[link.src].push_back({id, link.dst});
            m_in[link.dst].push_back({id, link.src});
        }
    }
}

const LitRouter::Table&
LitRouter::Distances(ServerId dst, bool throughServers) const
{
    Table& distance = m_tables[std::uint64_t{dst} * 2 + (throughServers ? 1 : 0)];
    if (!distance.empty())
    {
        return distance;
    }
    distance.assign(m_out.size(), kNoId);
    distance[dst] = 0;
    std::vector<NodeId> frontier{dst};
    for (std::size_t at = 0; at < frontier.size(); ++at)
    {
        const NodeId node = frontier[at];
        if (!throughServers && node < m_servers && node != dst)
        {
            continue;
        }
        for (const Hop& hop : m_in[node])
        {
            if (distance[hop.other] == kNoId)
            {
                distance[hop.other] = distance[node] + 1;
                frontier.push_back(hop.other);
            }
        }
    }
    return distance;
}

Path
LitRouter::Find(ServerId src, ServerId dst, std::uint64_t flowKey) const
{
    Path path;
    for (bool throughServers : {false, true})
    {
        if (throughServers && m_relays == Relays::None)
        {
            break;
        }
        const Table& distance = Distances(dst, throughServers);
        if (distance[src] == kNoId)
        {
            continue;
        }
        for (NodeId at = src; at != dst;)
        {
            const auto isNext = [&](const Hop& hop) {
                return distance[hop.other] + 1 == distance[at] &&
                       (throughServers || hop.other >= m_servers || hop.other == dst);
            };
            const auto choices = static_cast<std::uint64_t>(
                std::count_if(m_out[at].begin(), m_out[at].end(), isNext));
            std::uint64_t pick = choices == 1 ? 0 : Mix64(Mix64(flowKey, at), m_seed) % choices;
            auto hop = m_out[at].begin();
            while (!isNext(*hop) || pick-- != 0)
            {
                ++hop;
            }
            path.push_back(hop->link);
            at = hop->other;
        }
        break;
    }
    return path;
}

} // namespace topoopt
