// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_ROUTING_H
#define TOPOOPT_CORE_ROUTING_H

#include "topoopt/core/ids.h"
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
    EcmpRouter(const Topology& topology, std::uint64_t seed);

    [[nodiscard]] Path Route(ServerId src, ServerId dst, std::uint64_t flowKey) const override;
    [[nodiscard]] std::vector<std::pair<Path, double>> Paths(ServerId src,
                                                             ServerId dst) const override;

  private:
    /** One outgoing link of a node. */
    struct Hop
    {
        LinkId link;
        NodeId to;
    };

    [[nodiscard]] const std::vector<std::uint32_t>& Distances(NodeId root) const;
    void Enumerate(const std::vector<std::uint32_t>& distance,
                   NodeId at,
                   LinkId last,
                   double weight,
                   Path& prefix,
                   std::vector<std::pair<Path, double>>& out) const;

    Topology m_topology;
    std::uint64_t m_seed;
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
    explicit TableRouter(std::uint64_t seed)
        : m_seed(seed)
    {
    }

    /** @p weight > 0; weights of a pair are normalised when used. */
    void Add(ServerId src, ServerId dst, Path path, double weight);

    [[nodiscard]] Path Route(ServerId src, ServerId dst, std::uint64_t flowKey) const override;
    [[nodiscard]] std::vector<std::pair<Path, double>> Paths(ServerId src,
                                                             ServerId dst) const override;

  private:
    std::uint64_t m_seed;
    std::map<std::pair<ServerId, ServerId>, std::vector<std::pair<Path, double>>> m_table;
};

/** @throws std::invalid_argument unless @p path is a walk of @p topology from @p src to @p dst */
void CheckPath(const Topology& topology, const Path& path, NodeId src, NodeId dst);

} // namespace topoopt

#endif // TOPOOPT_CORE_ROUTING_H
