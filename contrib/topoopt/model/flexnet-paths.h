// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_FLEXNET_PATHS_H
#define TOPOOPT_FLEXNET_PATHS_H

#include "ns3/flexnet-simulation.h"
#include "topoopt/core/readers/flexnet.h"

#include <array>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

namespace topoopt
{

/** One direction of a cable bundle: a queue, a transmitter and a wire. */
struct FlexNetLink
{
    NodeId from = 0;
    NodeId to = 0;
    SimTime psPerByte = 0;    ///< truncated, as the reference does it
    bool serverQueue = false; ///< a NIC of star and Fat-tree: neither limit nor marks
};

/** The links of a flow, in order. */
struct FlexNetPathLinks
{
    std::vector<std::uint32_t> links; ///< then kNoId
    SimTime psPerByteSum = 0;
    SimTime psPerByteMax = 0;

    [[nodiscard]] std::uint32_t Hops() const
    {
        return static_cast<std::uint32_t>(links.size() - 1);
    }
};

/** The pseudo-random numbers of glibc's rand() after srand(), whatever the platform. */
class GlibcRandom
{
  public:
    explicit GlibcRandom(std::uint32_t seed);
    std::uint32_t Next();

  private:
    std::uint32_t Step();

    std::array<std::uint32_t, 31> m_words{};
    std::uint32_t m_at = 3; ///< the generator begins with its fourth word
};

/**
 * Links and paths of the fabrics that the reference simulator knows.
 *
 * Paths are made when first asked for and stay where they are, so memory follows the pairs that talk.
 */
class FlexNetPaths
{
  public:
    /** @throws SpecError if the graph does not fit the fabric */
    FlexNetPaths(const FlexNetGraph& graph, const FlexNetConfig& config);

    [[nodiscard]] const std::vector<FlexNetLink>& Links() const
    {
        return m_links;
    }

    /** Number of ways from @p src to @p dst; 0 if there is none. */
    [[nodiscard]] std::uint32_t Count(NodeId src, NodeId dst) const;
    /** One of them. @pre way < Count(src, dst) */
    const FlexNetPathLinks* Path(NodeId src, NodeId dst, std::uint32_t way);

    /** Whether AllReduces use the file's rings. */
    [[nodiscard]] bool HasRings() const
    {
        return m_rings;
    }

    /** Jump lists of a group size. @pre HasRings() and the graph was verified */
    [[nodiscard]] const FlexNetRings& Rings(std::size_t group) const;
    /** The walk of ring @p ring from node @p node. @param end where it ends */
    const FlexNetPathLinks* RingPath(const FlexNetRings& rings,
                                     std::uint32_t ring,
                                     NodeId node,
                                     NodeId& end);

  private:
    void BuildFromFile();
    void BuildStar();
    void BuildFatTree(std::uint32_t degree);
    std::uint32_t AddLink(NodeId from, NodeId to, std::uint64_t bps, bool serverQueue);
    [[nodiscard]] std::uint32_t LinkOf(NodeId from, NodeId to) const;
    [[nodiscard]] std::vector<NodeId> NodesOf(NodeId src, NodeId dst, std::uint32_t way) const;
    const FlexNetPathLinks* Intern(const std::vector<NodeId>& nodes);

    static std::uint64_t Pair(NodeId a, NodeId b)
    {
        return std::uint64_t{a} << 32 | b;
    }

    const FlexNetGraph& m_graph;
    FlexNetConfig m_config;
    bool m_rings = false;
    std::uint32_t m_half = 0; ///< Fat-tree: ports of a switch in one direction
    std::vector<FlexNetLink> m_links;
    std::unordered_map<std::uint64_t, std::uint32_t> m_linkOf;
    std::unordered_map<std::uint64_t, std::vector<const FlexNetPath*>> m_listed; ///< from-file
    /** Ways made so far, by pair; null where not yet made. */
    std::unordered_map<std::uint64_t, std::vector<const FlexNetPathLinks*>> m_ways;
    std::deque<FlexNetPathLinks> m_paths;
    std::vector<std::vector<const FlexNetPathLinks*>> m_ringPaths; ///< by ring, then node
};

} // namespace topoopt

#endif // TOPOOPT_FLEXNET_PATHS_H
