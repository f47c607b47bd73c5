// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/collectives.h"

#include <utility>

namespace topoopt::collectives
{

namespace
{

/** The members of every server, servers in order of their first member. */
struct Servers
{
    std::vector<ServerId> ids;
    std::vector<std::vector<std::uint32_t>> members;
};

Servers
ByServer(const std::vector<ServerId>& servers)
{
    Servers all;
    std::map<ServerId, std::size_t> index;
    for (std::uint32_t member = 0; member < servers.size(); ++member)
    {
        const auto [at, isNew] = index.try_emplace(servers[member], all.ids.size());
        if (isNew)
        {
            all.ids.push_back(servers[member]);
            all.members.emplace_back();
        }
        all.members[at->second].push_back(member);
    }
    return all;
}

/**
 * AllReduce of m servers with g members each, in three phases of rings: ReduceScatter within the server, AllReduce of
 * every local member's part with the members of the same local index, AllGather within the server.
 *
 * A channel is one of the fabric's rings over the servers with its part of the payload; it takes
 * 2(g-1) + 2(m-1) steps. In step k of a ring the member at position i passes on what it got in step k-1.
 */
class Hierarchical final : public CollectiveProgram
{
  public:
    Hierarchical(const CollectiveContext& context, Servers servers)
        : m_call(*context.call),
          m_members(std::move(servers.members)),
          m_servers(static_cast<std::uint32_t>(m_members.size())),
          m_local(static_cast<std::uint32_t>(m_members[0].size())),
          m_rings(RingsOf(*context.fabric, servers.ids)),
          m_positions(m_rings.size(), std::vector<std::uint32_t>(m_servers)),
          m_places(context.servers.size())
    {
        for (std::size_t ring = 0; ring < m_rings.size(); ++ring)
        {
            for (std::uint32_t k = 0; k < m_servers; ++k)
            {
                m_positions[ring][m_rings[ring].order[k]] = k;
            }
        }
        for (std::uint32_t server = 0; server < m_servers; ++server)
        {
            for (std::uint32_t k = 0; k < m_local; ++k)
            {
                m_places[m_members[server][k]] = {server, k};
            }
        }
    }

    std::uint32_t Channels() const override
    {
        return static_cast<std::uint32_t>(m_rings.size());
    }

    std::uint32_t Steps(std::uint32_t, std::uint32_t) const override
    {
        return 2 * (m_local - 1) + 2 * (m_servers - 1);
    }

    std::uint32_t Step(std::uint32_t channel,
                       std::uint32_t member,
                       std::uint32_t step,
                       std::vector<CollectiveSend>& sends) const override
    {
        const auto [server, local] = m_places[member];
        const Bytes part = PartOf(m_call.bytes, Channels(), channel, m_call.elementBytes);
        const std::uint32_t across = m_local - 1;                 // first step between servers
        const std::uint32_t after = across + 2 * (m_servers - 1); // first step of the AllGather
        sends.clear();
        if (step >= across && step < after)
        {
            const Ring& ring = m_rings[channel];
            const std::uint32_t position = m_positions[channel][server];
            const bool gathering = step - across >= m_servers - 1;
            const std::uint32_t chunk = Chunk(position, m_servers, step - across, gathering);
            const Path* path =
                ring.hops.empty() || ring.hops[position].empty() ? nullptr : &ring.hops[position];
            const Bytes own = PartOf(part, m_local, local, m_call.elementBytes);
            sends.push_back({m_members[ring.order[(position + 1) % m_servers]][local],
                             step,
                             PartOf(own, m_servers, chunk, m_call.elementBytes),
                             path});
            return 1;
        }
        const bool gathering = step >= after;
        const std::uint32_t chunk =
            Chunk(local, m_local, gathering ? step - after : step, gathering);
        sends.push_back({m_members[server][(local + 1) % m_local],
                         step,
                         PartOf(part, m_local, chunk, m_call.elementBytes),
                         nullptr});
        return 1;
    }

  private:
    /** What position @p at of a ring of @p size passes on; a reduced chunk starts one behind its owner. */
    [[nodiscard]] static std::uint32_t Chunk(std::uint32_t at,
                                             std::uint32_t size,
                                             std::uint32_t step,
                                             bool gathering)
    {
        return (at + 2 * size - step % (size - 1) - (gathering ? 0 : 1)) % size;
    }

    const CollectiveCall& m_call;
    std::vector<std::vector<std::uint32_t>> m_members; ///< [server][local index]
    std::uint32_t m_servers;
    std::uint32_t m_local;
    std::vector<Ring> m_rings;
    std::vector<std::vector<std::uint32_t>> m_positions;           ///< [ring][server]
    std::vector<std::pair<std::uint32_t, std::uint32_t>> m_places; ///< server, local index
};

} // namespace

bool
FitsHierarchical(const std::vector<ServerId>& servers)
{
    const Servers all = ByServer(servers);
    if (all.ids.size() < 2 || all.members[0].size() < 2)
    {
        return false;
    }
    for (const std::vector<std::uint32_t>& members : all.members)
    {
        if (members.size() != all.members[0].size())
        {
            return false;
        }
    }
    return true;
}

std::unique_ptr<CollectiveProgram>
BuildHierarchical(const CollectiveContext& context)
{
    if (!FitsHierarchical(context.servers))
    {
        return BuildRing(context);
    }
    return std::make_unique<Hierarchical>(context, ByServer(context.servers));
}

} // namespace topoopt::collectives
