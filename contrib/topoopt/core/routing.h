// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_ROUTING_H
#define TOPOOPT_CORE_ROUTING_H

#include "topoopt/core/ids.h"
#include "topoopt/core/random.h"
#include "topoopt/core/topology.h"

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace topoopt
{

/** The links a packet takes, in order, from source server to destination server; never empty. */
using Path = std::vector<LinkId>;

/** The flow key of a collective's messages: all of a pair in one group and channel go one way, like those of a queue pair. */
inline std::uint64_t
CollectiveFlowKey(std::uint32_t group, std::uint32_t channel)
{
    return Mix64(group, channel);
}

/** The flow key of a transfer; each may go its own way. */
inline std::uint64_t
TransferFlowKey(RankId src, RankId dst, std::uint32_t transfer)
{
    return Mix64(std::uint64_t{src} << 32 | dst, transfer);
}

/**
 * Answers "which way does this flow go". One per fabric; deterministic in its arguments and its seed.
 */
class Router
{
  public:
    virtual ~Router() = default;

    /**
     * @param src,dst servers, src != dst
     * @param flowKey distinguishes flows of one pair (ECMP hashes it); any value
     * @throws SpecError if there is no way
     */
    [[nodiscard]] virtual Path Route(ServerId src, ServerId dst, std::uint64_t flowKey) const = 0;

    /** All paths that Route() may answer for a pair, with their probabilities (sum 1). */
    [[nodiscard]] virtual std::vector<std::pair<Path, double>> Paths(ServerId src,
                                                                     ServerId dst) const = 0;

    /**
     * Adds to @p loads (by link) what flows to @p dst put on the links, split as Paths() says.
     * @param bytes by source server; what @p dst sends itself is ignored
     */
    virtual void AddLoads(ServerId dst,
                          const std::vector<double>& bytes,
                          std::vector<double>& loads) const;
};

/**
 * Shortest paths by hops; at every node one of the equal next links by a hash of (flow, node, seed), as
 * ECMP does per flow.
 *
 * Distances to a node are found when first asked for and kept: O(nodes) each. A server with one NIC
 * shares those of its switch, so a Clos keeps one table per edge switch. Not thread-safe.
 */
class EcmpRouter final : public Router
{
  public:
    /** @p serversForward false: no path leads through a server, as behind switches */
    EcmpRouter(const Topology& topology, std::uint64_t seed, bool serversForward = true);

    [[nodiscard]] Path Route(ServerId src, ServerId dst, std::uint64_t flowKey) const override;
    [[nodiscard]] std::vector<std::pair<Path, double>> Paths(ServerId src,
                                                             ServerId dst) const override;
    /** Without enumerating paths: O(links) per destination. */
    void AddLoads(ServerId dst,
                  const std::vector<double>& bytes,
                  std::vector<double>& loads) const override;

  private:
    /** One outgoing link of a node. */
    struct Hop
    {
        LinkId link;
        NodeId to;
    };

    [[nodiscard]] const std::vector<std::uint32_t>& Distances(NodeId root) const;

    /** Whether @p hop is one of the next links from a node at distance @p from of the table's root. */
    [[nodiscard]] bool IsNext(const Hop& hop,
                              const std::vector<std::uint32_t>& distance,
                              std::uint32_t from) const
    {
        return distance[hop.to] + 1 == from &&
               (m_serversForward || distance[hop.to] == 0 || !m_topology.IsServer(hop.to));
    }

    void Enumerate(const std::vector<std::uint32_t>& distance,
                   NodeId at,
                   LinkId last,
                   double weight,
                   Path& prefix,
                   std::vector<std::pair<Path, double>>& out) const;

    Topology m_topology;
    std::uint64_t m_seed;
    bool m_serversForward;
    std::vector<std::uint32_t> m_begin; ///< by node, into m_hops
    std::vector<Hop> m_hops;
    std::vector<NodeId> m_root; ///< by server: where its table ends; itself, or its only neighbour
    std::vector<LinkId> m_last; ///< by server: the link from there, kNoId if it is itself
    mutable std::vector<std::vector<std::uint32_t>> m_distances; ///< by root, empty = not yet
};

/** Explicit paths with weights per ordered pair; a flow picks one by a hash of its key. */
class TableRouter final : public Router
{
  public:
    /** @p others answers for pairs without an entry; null = there is no way */
    explicit TableRouter(std::uint64_t seed, std::shared_ptr<const Router> others = nullptr)
        : m_seed(seed),
          m_others(std::move(others))
    {
    }

    /** @p weight > 0; weights of a pair are normalised when used. */
    void Add(ServerId src, ServerId dst, Path path, double weight);

    [[nodiscard]] Path Route(ServerId src, ServerId dst, std::uint64_t flowKey) const override;
    [[nodiscard]] std::vector<std::pair<Path, double>> Paths(ServerId src,
                                                             ServerId dst) const override;

  private:
    std::uint64_t m_seed;
    std::shared_ptr<const Router> m_others;
    std::map<std::pair<ServerId, ServerId>, std::vector<std::pair<Path, double>>> m_table;
};

/**
 * One shortest path per ordered pair, drawn at random.
 *
 * PerPair is the released code of TopoOpt: a breadth-first search for every pair, neighbours shuffled at
 * each node; a later predecessor at the same distance replaces the earlier one with probability 1/2 and queues
 * the node once more. PerSource is one search per source in which the first predecessor stays, so that
 * the paths of a source form a tree. Parallel links of a step are picked by a hash of the flow.
 *
 * Reproducible: each pair or source has its own random stream. Paths are drawn when first asked for.
 */
class RandomShortestRouter final : public Router
{
  public:
    enum class Draw : std::uint8_t
    {
        PerPair,
        PerSource
    };

    RandomShortestRouter(const Topology& topology, Draw draw, std::uint64_t seed);

    [[nodiscard]] Path Route(ServerId src, ServerId dst, std::uint64_t flowKey) const override;
    [[nodiscard]] std::vector<std::pair<Path, double>> Paths(ServerId src,
                                                             ServerId dst) const override;

  private:
    [[nodiscard]] std::vector<NodeId> Search(NodeId src, NodeId stop, std::uint64_t key) const;
    [[nodiscard]] std::vector<NodeId> Nodes(ServerId src, ServerId dst) const;
    [[nodiscard]] std::vector<LinkId> LinksBetween(NodeId a, NodeId b) const;

    Topology m_topology;
    Draw m_draw;
    std::uint64_t m_seed;
    std::vector<std::vector<NodeId>> m_neighbours; ///< by node, without repeats
    mutable std::vector<std::vector<NodeId>>
        m_before; ///< PerSource: by source; kNoId = not reached
    mutable std::map<std::pair<ServerId, ServerId>, std::vector<NodeId>> m_nodes; ///< PerPair
};

/** @throws std::invalid_argument unless @p path is a walk of @p topology from @p src to @p dst */
void CheckPath(const Topology& topology, const Path& path, NodeId src, NodeId dst);

} // namespace topoopt

#endif // TOPOOPT_CORE_ROUTING_H
