// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/topology.h"

#include <stdexcept>

namespace topoopt
{

Topology::Topology(std::uint32_t serverCount)
    : servers(serverCount),
      m_out(serverCount),
      m_in(serverCount),
      m_ports(serverCount)
{
    for (std::uint32_t s = 0; s < serverCount; ++s)
    {
        names.push_back("s" + std::to_string(s));
    }
}

NodeId
Topology::AddSwitch(const std::string& name)
{
    names.push_back(name);
    m_out.emplace_back();
    m_in.emplace_back();
    m_ports.push_back(0);
    return NodeCount() - 1;
}

LinkId
Topology::AddLink(NodeId src, NodeId dst, BitRate rate, SimTime delay)
{
    if (src >= NodeCount() || dst >= NodeCount() || src == dst || rate.bps == 0 || delay < 0)
    {
        throw std::invalid_argument("AddLink: bad end, rate or delay");
    }
    const auto id = static_cast<LinkId>(links.size());
    links.push_back({src, dst, rate, delay, kNoId, m_ports[src]++, m_ports[dst]++});
    m_out[src].push_back(id);
    m_in[dst].push_back(id);
    return id;
}

LinkId
Topology::AddDuplexLink(NodeId a, NodeId b, BitRate rate, SimTime delay)
{
    const LinkId forth = AddLink(a, b, rate, delay);
    const auto back = static_cast<LinkId>(links.size());
    links.push_back({b, a, rate, delay, forth, links[forth].dstPort, links[forth].srcPort});
    links[forth].reverse = back;
    m_out[b].push_back(back);
    m_in[a].push_back(back);
    return forth;
}

std::vector<std::uint32_t>
Topology::DistancesTo(NodeId dst, bool throughServers) const
{
    std::vector<std::uint32_t> distance(NodeCount(), kNoId);
    std::vector<NodeId> frontier{dst};
    distance[dst] = 0;
    for (std::size_t at = 0; at < frontier.size(); ++at)
    {
        const NodeId node = frontier[at];
        if (!throughServers && IsServer(node) && node != dst)
        {
            continue;
        }
        for (LinkId link : m_in[node])
        {
            const NodeId from = links[link].src;
            if (distance[from] == kNoId)
            {
                distance[from] = distance[node] + 1;
                frontier.push_back(from);
            }
        }
    }
    return distance;
}

} // namespace topoopt
