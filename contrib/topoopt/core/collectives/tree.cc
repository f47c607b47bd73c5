// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/collectives.h"

#include <algorithm>

namespace topoopt::collectives
{

namespace
{

/** A message of a round is handed over in at most this many pieces. */
constexpr Bytes kMostPieces = 65536;

/**
 * Binomial tree; one channel, one step per round, ceil(log2 n) rounds up or down and twice that for AllReduce.
 *
 * Members are numbered from the root (AllReduce: member 0). On the way up, member v receives from v + 2^k
 * in round k until it has reached its lowest set bit, in which round it sends to v - 2^k; the way down is
 * the same reversed in time. Gather and Scatter carry whole subtrees, so that they move more than a direct
 * exchange: the sum over all members but the root of their subtrees' parts.
 *
 * On the way down what passes in a round is handed over in pieces, so that a member with several children serves them
 * one after the other, round by round, although it knows the payload from the start. On the way up it is one message:
 * children of one member may meet there, and the transport has to share the link between them.
 */
class Tree final : public CollectiveProgram
{
  public:
    explicit Tree(const CollectiveContext& context)
        : m_call(*context.call),
          m_size(static_cast<std::uint32_t>(context.servers.size())),
          m_root(m_call.kind == CollectiveKind::AllReduce ? 0 : m_call.root)
    {
        while ((std::uint64_t{1} << m_rounds) < m_size)
        {
            ++m_rounds;
        }
    }

    std::uint32_t Channels() const override
    {
        return 1;
    }

    std::uint32_t Steps(std::uint32_t, std::uint32_t) const override
    {
        return m_call.kind == CollectiveKind::AllReduce ? 2 * m_rounds : m_rounds;
    }

    std::uint32_t Step(std::uint32_t,
                       std::uint32_t member,
                       std::uint32_t step,
                       std::vector<CollectiveSend>& sends) const override
    {
        sends.clear();
        const bool up =
            m_call.kind == CollectiveKind::AllReduce
                ? step < m_rounds
                : m_call.kind == CollectiveKind::Reduce || m_call.kind == CollectiveKind::Gather;
        const std::uint32_t round = step % m_rounds;
        const std::uint64_t distance = std::uint64_t{1} << (up ? round : m_rounds - 1 - round);
        const std::uint64_t place = (std::uint64_t{member} + m_size - m_root) % m_size;
        const std::uint64_t offset = place % (2 * distance);
        const bool isChild = offset == distance;
        const bool isParent = offset == 0 && place + distance < m_size;
        if (!isChild && !isParent)
        {
            return 0;
        }
        const std::uint64_t child = isChild ? place : place + distance;
        const Bytes bytes = EdgeBytes(child, distance);
        const Bytes pieces =
            up ? 1 : std::clamp<Bytes>((bytes + kBurst - 1) / kBurst, 1, kMostPieces);
        if (up ? isChild : isParent)
        {
            const std::uint64_t to = isChild ? place - distance : child;
            for (Bytes piece = 0; piece < pieces; ++piece)
            {
                sends.push_back({static_cast<std::uint32_t>((to + m_root) % m_size),
                                 step,
                                 PartOf(bytes,
                                        static_cast<std::uint32_t>(pieces),
                                        static_cast<std::uint32_t>(piece),
                                        1),
                                 nullptr});
            }
        }
        return (up ? isParent : isChild) ? static_cast<std::uint32_t>(pieces) : 0;
    }

  private:
    /** What passes between @p child and its parent; @p span is the size of a full subtree. */
    [[nodiscard]] Bytes EdgeBytes(std::uint64_t child, std::uint64_t span) const
    {
        const bool parts =
            m_call.kind == CollectiveKind::Gather || m_call.kind == CollectiveKind::Scatter;
        return parts ? m_call.bytes * std::min(span, m_size - child) : m_call.bytes;
    }

    const CollectiveCall& m_call;
    std::uint32_t m_size;
    std::uint32_t m_root;
    std::uint32_t m_rounds = 0;
};

} // namespace

std::unique_ptr<CollectiveProgram>
BuildTree(const CollectiveContext& context)
{
    return std::make_unique<Tree>(context);
}

} // namespace topoopt::collectives
