// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_TOPOLOGY_H
#define TOPOOPT_CORE_TOPOLOGY_H

#include "topoopt/core/ids.h"
#include "topoopt/core/units.h"

#include <cstdint>
#include <string>
#include <vector>

namespace topoopt
{

/** One directed capacity src -> dst with its own FIFO at src. */
struct Link
{
    NodeId src = 0;
    NodeId dst = 0;
    BitRate rate;
    SimTime delay = 0;         ///< propagation, ps
    LinkId reverse = kNoId;    ///< the opposite direction of the same cable; kNoId if there is none
    std::uint32_t srcPort = 0; ///< port number at src, 0.. in order of creation
    std::uint32_t dstPort = 0;
};

/**
 * What is wired: servers 0..n-1, then switches, and directed links. No behaviour.
 *
 * Parallel links between two nodes are allowed and stay separate.
 */
class Topology
{
  public:
    explicit Topology(std::uint32_t serverCount = 0);

    std::uint32_t servers = 0;
    std::vector<std::string> names; ///< one per node: "s3", "edge0.1", ...
    std::vector<Link> links;

    [[nodiscard]] std::uint32_t NodeCount() const
    {
        return static_cast<std::uint32_t>(names.size());
    }

    [[nodiscard]] bool IsServer(NodeId node) const
    {
        return node < servers;
    }

    NodeId AddSwitch(const std::string& name);
    /** One cable: two opposite links that know each other. @return the a->b link; b->a is the next id. */
    LinkId AddDuplexLink(NodeId a, NodeId b, BitRate rate, SimTime delay);
    /** One direction alone. */
    LinkId AddLink(NodeId src, NodeId dst, BitRate rate, SimTime delay);

    /** Outgoing links of a node, ascending by id. */
    [[nodiscard]] const std::vector<LinkId>& Out(NodeId node) const
    {
        return m_out[node];
    }

    /** Number of ports in use at a node (a duplex cable takes one). */
    [[nodiscard]] std::uint32_t PortCount(NodeId node) const
    {
        return m_ports[node];
    }

    /**
     * Hops from every node to @p dst over links, kNoId where there is no way. O(nodes + links).
     * @param throughServers whether a server may be on the way
     */
    [[nodiscard]] std::vector<std::uint32_t> DistancesTo(NodeId dst,
                                                         bool throughServers = true) const;

  private:
    std::vector<std::vector<LinkId>> m_out;
    std::vector<std::vector<LinkId>> m_in;
    std::vector<std::uint32_t> m_ports;
};

} // namespace topoopt

#endif // TOPOOPT_CORE_TOPOLOGY_H
