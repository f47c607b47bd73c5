// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/flexnet-paths.h"

#include "ns3/flexnet-events.h"
#include "topoopt/core/error.h"

#include <algorithm>
#include <string>

namespace topoopt
{

namespace
{

constexpr std::uint64_t kModulus = 2147483647; ///< 2^31 - 1
/** glibc throws away this many numbers after seeding. */
constexpr int kDiscarded = 310;

} // namespace

GlibcRandom::GlibcRandom(std::uint32_t seed)
{
    std::uint64_t word = seed == 0 ? 1 : seed;
    for (std::uint32_t& slot : m_words)
    {
        slot = static_cast<std::uint32_t>(word);
        word = word * 16807 % kModulus;
    }
    for (int i = 0; i < kDiscarded; ++i)
    {
        Step();
    }
}

std::uint32_t
GlibcRandom::Step()
{
    // x(n) = x(n-31) + x(n-3); the oldest word is the one that is replaced.
    m_words[m_at] += m_words[(m_at + 28) % 31];
    const std::uint32_t word = m_words[m_at];
    m_at = (m_at + 1) % 31;
    return word;
}

std::uint32_t
GlibcRandom::Next()
{
    return Step() >> 1;
}

FlexNetPaths::FlexNetPaths(const FlexNetGraph& graph, const FlexNetConfig& config)
    : m_graph(graph),
      m_config(config)
{
    switch (config.fabric)
    {
    case FlexNetFabricKind::FromFile:
        BuildFromFile();
        break;
    case FlexNetFabricKind::Star:
        BuildStar();
        break;
    case FlexNetFabricKind::FatTree:
        BuildFatTree(config.fatTreeDegree);
        break;
    }
    if (m_links.size() > FlexNetEvents::kMaxIndex / 4)
    {
        throw SpecError(graph.file,
                        "found a fabric of " + std::to_string(m_links.size()) +
                            " links, expected at most " +
                            std::to_string(FlexNetEvents::kMaxIndex / 4));
    }
}

std::uint32_t
FlexNetPaths::AddLink(NodeId from, NodeId to, std::uint64_t bps, bool serverQueue)
{
    FlexNetLink link;
    link.from = from;
    link.to = to;
    link.serverQueue = serverQueue;
    link.psPerByte = bps == 0 ? 0 : static_cast<SimTime>(8e12 / static_cast<double>(bps));
    if (link.psPerByte == 0 || link.psPerByte > kSecond)
    {
        throw SpecError(m_graph.file,
                        "link " + std::to_string(from) + "->" + std::to_string(to) +
                            ": found a rate of " + std::to_string(bps) +
                            " bit/s, expected 8 bit/s..8 Tbit/s");
    }
    const auto index = static_cast<std::uint32_t>(m_links.size());
    m_links.push_back(link);
    m_linkOf[Pair(from, to)] = index;
    return index;
}

std::uint32_t
FlexNetPaths::LinkOf(NodeId from, NodeId to) const
{
    const auto found = m_linkOf.find(Pair(from, to));
    if (found == m_linkOf.end())
    {
        throw SpecError(m_graph.file,
                        "found a hop " + std::to_string(from) + "->" + std::to_string(to) +
                            ", expected a listed connection");
    }
    return found->second;
}

void
FlexNetPaths::BuildFromFile()
{
    if (m_graph.connections.empty())
    {
        throw SpecError(m_graph.file, "found no connections, expected a graph with a fabric");
    }
    for (const FlexNetConnection& connection : m_graph.connections)
    {
        // Parallel cables are one link; saturated rather than wrapped, AddLink() refuses it.
        const std::uint64_t bps = m_config.rate.bps > UINT64_MAX / std::max(1U, connection.count)
                                      ? UINT64_MAX
                                      : m_config.rate.bps * connection.count;
        AddLink(connection.a, connection.b, bps, false);
        AddLink(connection.b, connection.a, bps, false);
    }
    for (const FlexNetRoute& route : m_graph.routes)
    {
        auto& listed = m_listed[Pair(route.src, route.dst)];
        for (const FlexNetPath& path : route.paths)
        {
            listed.push_back(&path);
        }
    }
    m_rings = !m_graph.rings.empty();
    for (const FlexNetRings& rings : m_graph.rings)
    {
        m_ringPaths.resize(m_ringPaths.size() + rings.jumps.size());
    }
}

void
FlexNetPaths::BuildStar()
{
    const NodeId hub = m_graph.nodes;
    for (NodeId server = 0; server < m_graph.nodes; ++server)
    {
        AddLink(server, hub, m_config.rate.bps, true);
        AddLink(hub, server, m_config.rate.bps, false);
    }
}

void
FlexNetPaths::BuildFatTree(std::uint32_t degree)
{
    constexpr std::uint64_t kMaxDegree = 128;
    const auto servers = [](std::uint64_t k) { return k * k * k / 4; };
    std::uint64_t k = degree;
    if (k == 0)
    {
        k = 2;
        while (k <= kMaxDegree && servers(k) < m_graph.nodes)
        {
            k += 2;
        }
    }
    if (k % 2 != 0 || k > kMaxDegree || servers(k) < m_graph.nodes)
    {
        throw SpecError(m_graph.file,
                        "found " + std::to_string(m_graph.nodes) + " servers and k = " +
                            std::to_string(k) + ", expected an even k up to " +
                            std::to_string(kMaxDegree) + " with k^3/4 >= servers");
    }
    m_half = static_cast<std::uint32_t>(k / 2);
    const std::uint32_t edge = m_graph.nodes;
    const std::uint32_t aggregation = edge + 2 * m_half * m_half;
    const std::uint32_t core = aggregation + 2 * m_half * m_half;
    for (NodeId server = 0; server < m_graph.nodes; ++server)
    {
        AddLink(server, edge + server / m_half, m_config.rate.bps, true);
        AddLink(edge + server / m_half, server, m_config.rate.bps, false);
    }
    const auto duplex = [this](NodeId a, NodeId b) {
        AddLink(a, b, m_config.rate.bps, false);
        AddLink(b, a, m_config.rate.bps, false);
    };
    for (std::uint32_t pod = 0; pod < 2 * m_half; ++pod)
    {
        for (std::uint32_t a = 0; a < m_half; ++a)
        {
            const NodeId upper = aggregation + pod * m_half + a;
            for (std::uint32_t e = 0; e < m_half; ++e)
            {
                duplex(edge + pod * m_half + e, upper);
            }
            for (std::uint32_t c = 0; c < m_half; ++c)
            {
                duplex(upper, core + a * m_half + c);
            }
        }
    }
}

std::uint32_t
FlexNetPaths::Count(NodeId src, NodeId dst) const
{
    switch (m_config.fabric)
    {
    case FlexNetFabricKind::FromFile:
    {
        const auto found = m_listed.find(Pair(src, dst));
        return found == m_listed.end() ? 0 : static_cast<std::uint32_t>(found->second.size());
    }
    case FlexNetFabricKind::Star:
        return 1;
    case FlexNetFabricKind::FatTree:
        break;
    }
    if (src / m_half == dst / m_half)
    {
        return 1;
    }
    return src / m_half / m_half == dst / m_half / m_half ? m_half : m_half * m_half;
}

std::vector<NodeId>
FlexNetPaths::NodesOf(NodeId src, NodeId dst, std::uint32_t way) const
{
    if (m_config.fabric == FlexNetFabricKind::FromFile)
    {
        return m_listed.at(Pair(src, dst))[way]->nodes;
    }
    if (m_config.fabric == FlexNetFabricKind::Star)
    {
        return {src, m_graph.nodes, dst};
    }
    const NodeId edge = m_graph.nodes;
    const NodeId aggregation = edge + 2 * m_half * m_half;
    const NodeId core = aggregation + 2 * m_half * m_half;
    const std::uint32_t from = src / m_half;
    const std::uint32_t to = dst / m_half;
    if (from == to)
    {
        return {src, edge + from, dst};
    }
    const std::uint32_t fromPod = from / m_half;
    const std::uint32_t toPod = to / m_half;
    if (fromPod == toPod)
    {
        return {src, edge + from, aggregation + fromPod * m_half + way, edge + to, dst};
    }
    // Aggregation switches ascending, then cores ascending.
    const std::uint32_t upper = way / m_half;
    return {src,
            edge + from,
            aggregation + fromPod * m_half + upper,
            core + way,
            aggregation + toPod * m_half + upper,
            edge + to,
            dst};
}

const FlexNetPathLinks*
FlexNetPaths::Intern(const std::vector<NodeId>& nodes)
{
    FlexNetPathLinks path;
    path.links.reserve(nodes.size());
    for (std::size_t hop = 1; hop < nodes.size(); ++hop)
    {
        const std::uint32_t link = LinkOf(nodes[hop - 1], nodes[hop]);
        path.links.push_back(link);
        path.psPerByteSum += m_links[link].psPerByte;
        path.psPerByteMax = std::max(path.psPerByteMax, m_links[link].psPerByte);
    }
    path.links.push_back(kNoId);
    m_paths.push_back(std::move(path));
    return &m_paths.back();
}

const FlexNetPathLinks*
FlexNetPaths::Path(NodeId src, NodeId dst, std::uint32_t way)
{
    auto& ways = m_ways[Pair(src, dst)];
    if (ways.size() <= way)
    {
        ways.resize(std::size_t{way} + 1);
    }
    if (ways[way] == nullptr)
    {
        ways[way] = Intern(NodesOf(src, dst, way));
    }
    return ways[way];
}

const FlexNetRings&
FlexNetPaths::Rings(std::size_t group) const
{
    for (const FlexNetRings& rings : m_graph.rings)
    {
        if (rings.groupSize == group)
        {
            return rings;
        }
    }
    throw SpecError(m_graph.file, "found no rings for a group of " + std::to_string(group));
}

const FlexNetPathLinks*
FlexNetPaths::RingPath(const FlexNetRings& rings, std::uint32_t ring, NodeId node, NodeId& end)
{
    std::size_t first = 0;
    for (const FlexNetRings* before = m_graph.rings.data(); before != &rings; ++before)
    {
        first += before->jumps.size();
    }
    std::vector<NodeId> nodes{node};
    for (const std::uint32_t jump : rings.jumps[ring])
    {
        nodes.push_back((nodes.back() + jump) % m_graph.nodes);
    }
    end = nodes.back();
    auto& made = m_ringPaths[first + ring];
    if (made.size() <= node)
    {
        made.resize(std::size_t{node} + 1);
    }
    if (made[node] == nullptr)
    {
        made[node] = Intern(nodes);
    }
    return made[node];
}

} // namespace topoopt
