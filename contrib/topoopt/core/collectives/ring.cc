// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/collectives.h"

#include <algorithm>

namespace topoopt::collectives
{

namespace
{

/** A chain's payload is cut into at most this many chunks. */
constexpr Bytes kMaxChainChunks = Bytes{1} << 20;

/** Where every member stands in every ring. */
class RingProgram : public CollectiveProgram
{
  public:
    explicit RingProgram(const CollectiveContext& context)
        : m_call(*context.call),
          m_size(static_cast<std::uint32_t>(context.servers.size())),
          m_rings(MemberRings(*context.fabric, context.servers)),
          m_places(m_rings.size() * m_size)
    {
        for (std::size_t r = 0; r < m_rings.size(); ++r)
        {
            const Ring& ring = m_rings[r];
            for (std::uint32_t k = 0; k < m_size; ++k)
            {
                const Path* const path =
                    ring.hops.empty() || ring.hops[k].empty() ? nullptr : &ring.hops[k];
                m_places[r * m_size + ring.order[k]] = {k, ring.order[(k + 1) % m_size], path};
            }
        }
    }

  protected:
    /** A member in a ring. Together, as every message asks for all of it at a place of its own. */
    struct Place
    {
        std::uint32_t position = 0;
        std::uint32_t next = 0;     ///< member that follows
        const Path* path = nullptr; ///< to it; null = ask the router
    };

    [[nodiscard]] std::uint32_t RingCount() const
    {
        return static_cast<std::uint32_t>(m_rings.size());
    }

    [[nodiscard]] const Place& PlaceOf(std::uint32_t ring, std::uint32_t member) const
    {
        return m_places[std::size_t{ring} * m_size + member];
    }

    const CollectiveCall& m_call;
    std::uint32_t m_size;
    std::vector<Ring> m_rings;

  private:
    std::vector<Place> m_places; ///< [ring * members + member]
};

/**
 * AllReduce, ReduceScatter, AllGather: the payload is split over the rings, a ring's part over its members.
 *
 * In step s the member at position i passes on the chunk that it received in step s-1. ReduceScatter starts
 * with chunk i-1 so that member i ends with chunk i; AllGather starts with its own chunk i.
 */
class Rounds final : public RingProgram
{
  public:
    explicit Rounds(const CollectiveContext& context)
        : RingProgram(context),
          m_splits(m_rings.size())
    {
        for (std::uint32_t r = 0; r < RingCount(); ++r)
        {
            Split& split = m_splits[r];
            split.bytes = PartOf(m_call.bytes, RingCount(), r, m_call.elementBytes);
            if (m_call.kind == CollectiveKind::AllGather)
            {
                split.least = split.bytes; // every member's shard goes round whole
                continue;
            }
            const Bytes elements = split.bytes / m_call.elementBytes;
            split.whole = split.bytes % m_call.elementBytes == 0;
            split.least = elements / m_size * m_call.elementBytes;
            split.larger = static_cast<std::uint32_t>(elements % m_size);
        }
    }

    std::uint32_t Channels() const override
    {
        return RingCount();
    }

    std::uint32_t Steps(std::uint32_t, std::uint32_t) const override
    {
        return m_call.kind == CollectiveKind::AllReduce ? 2 * (m_size - 1) : m_size - 1;
    }

    std::uint32_t Step(std::uint32_t channel,
                       std::uint32_t member,
                       std::uint32_t step,
                       std::vector<CollectiveSend>& sends) const override
    {
        const Place& place = PlaceOf(channel, member);
        const bool gathering = m_call.kind == CollectiveKind::AllGather || step >= m_size - 1;
        const std::uint32_t round = step % (m_size - 1);
        // Positions own chunks; a reduced chunk starts one place behind its owner.
        const std::uint32_t chunk =
            (place.position + 2 * m_size - round - (gathering ? 0 : 1)) % m_size;
        sends.clear();
        sends.push_back({place.next, step, ChunkBytes(channel, chunk), place.path});
        return 1;
    }

  private:
    /** PartOf() without its divisions: this is asked for every message. */
    [[nodiscard]] Bytes ChunkBytes(std::uint32_t ring, std::uint32_t chunk) const
    {
        const Split& split = m_splits[ring];
        return split.whole ? split.least + (chunk < split.larger ? m_call.elementBytes : 0)
                           : PartOf(split.bytes, m_size, chunk, m_call.elementBytes);
    }

    /** How a ring's part of the payload is divided into chunks. */
    struct Split
    {
        Bytes bytes = 0;
        bool whole = true;        ///< a whole number of elements
        Bytes least = 0;          ///< size of the smaller chunks
        std::uint32_t larger = 0; ///< this many have one element more
    };

    std::vector<Split> m_splits; ///< by ring
};

/**
 * Broadcast from the root along each ring, Reduce along it to the root; chunks follow each other.
 *
 * With c the time of a chunk on a link, a chain of n members over idle links takes n-1 chunks' ways and (k-1) c. In
 * step s a member passes on chunk s-1 and waits for chunk s.
 */
class Chain final : public RingProgram
{
  public:
    explicit Chain(const CollectiveContext& context)
        : RingProgram(context)
    {
        const Bytes part = (m_call.bytes + RingCount() - 1) / RingCount();
        m_chunks = static_cast<std::uint32_t>(
            std::clamp<Bytes>((part + kBurst - 1) / kBurst, 1, kMaxChainChunks));
    }

    std::uint32_t Channels() const override
    {
        return RingCount();
    }

    std::uint32_t Steps(std::uint32_t, std::uint32_t) const override
    {
        return m_chunks + 1;
    }

    std::uint32_t Step(std::uint32_t ring,
                       std::uint32_t member,
                       std::uint32_t step,
                       std::vector<CollectiveSend>& sends) const override
    {
        const Place& place = PlaceOf(ring, member);
        const std::uint32_t root = PlaceOf(ring, m_call.root).position;
        // A broadcast's chain begins at the root; a reduction's ends there.
        const std::uint32_t head =
            m_call.kind == CollectiveKind::Broadcast ? root : (root + 1) % m_size;
        const std::uint32_t behind = (place.position + m_size - head) % m_size;
        sends.clear();
        if (step > 0 && behind + 1 < m_size)
        {
            const Bytes part = PartOf(m_call.bytes, RingCount(), ring, m_call.elementBytes);
            sends.push_back({place.next,
                             step - 1,
                             PartOf(part, m_chunks, step - 1, m_call.elementBytes),
                             place.path});
        }
        return behind > 0 && step < m_chunks ? 1 : 0;
    }

  private:
    std::uint32_t m_chunks;
};

} // namespace

std::unique_ptr<CollectiveProgram>
BuildRing(const CollectiveContext& context)
{
    if (context.call->kind == CollectiveKind::Broadcast ||
        context.call->kind == CollectiveKind::Reduce)
    {
        return std::make_unique<Chain>(context);
    }
    return std::make_unique<Rounds>(context);
}

} // namespace topoopt::collectives
