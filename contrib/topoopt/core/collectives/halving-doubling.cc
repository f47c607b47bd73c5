// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/collectives.h"

#include <algorithm>
#include <utility>

namespace topoopt::collectives
{

namespace
{

/**
 * Recursive halving for ReduceScatter, recursive doubling for AllGather, one after the other for AllReduce
 * (Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, 2005).
 *
 * With p the largest power of two not above n and r = n - p, the first 2r members form pairs of which the
 * odd one takes part for both (fold-in): one round before and one after. Nodes 0..p-1 are those that take part;
 * node v holds the data of its members. In a round a node exchanges with the one at half the distance of the
 * round before (doubling: twice), and sends what lies on the other's side.
 *
 * Bytes are exact for every n. The even one of a pair keeps its own part at home: it sends all but that part of
 * its input to a ReduceScatter and is sent all but that part by an AllGather.
 *
 * Nodes that stand for no pair have nothing to wait for at first. Lest they send to a node that is still being given its
 * partner's data, where both would share a link and hold up everybody, nodes announce themselves when there are pairs:
 * two that exchange more than one burst first tell each other, with a message of 0 bytes, that they have come to this round
 * (as rendezvous protocols of MPI libraries do). Smaller messages are sent at once. Where ranges differ in size, the node that
 * sends the larger one must not go on before the other has it, either: they tell each other that, too.
 *
 * An AllReduce may give any node any range, so its nodes are numbered by reversed bits: the largest
 * messages go to the neighbour in group order, which is often the nearest.
 */
class HalvingDoubling final : public CollectiveProgram
{
  public:
    explicit HalvingDoubling(const CollectiveContext& context)
        : m_call(*context.call),
          m_size(static_cast<std::uint32_t>(context.servers.size()))
    {
        while (m_size >> (m_rounds + 1) != 0)
        {
            ++m_rounds;
        }
        m_nodes = std::uint32_t{1} << m_rounds;
        m_folded = m_size - m_nodes;
        // Range of node v: [m_edges[v], m_edges[v + 1]).
        m_edges.assign(1, 0);
        for (std::uint32_t node = 0; node < m_nodes; ++node)
        {
            Bytes range = 0;
            if (m_call.kind == CollectiveKind::AllReduce)
            {
                range = PartOf(m_call.bytes, m_nodes, node, m_call.elementBytes);
            }
            else
            {
                const std::uint32_t last = MemberOf(node);
                range = Own(last) + (node < m_folded ? Own(last - 1) : 0);
            }
            m_edges.push_back(m_edges.back() + range);
        }
        if (m_folded > 0)
        {
            m_stages.push_back({Stage::FoldIn, 0});
        }
        for (std::uint32_t round = 0; round < Exchanges(); ++round)
        {
            if (m_folded > 0 && Largest(Bit(round)) > kBurst)
            {
                m_stages.push_back({Stage::Announce, round});
            }
            m_stages.push_back({Stage::Exchange, round});
            if (m_folded > 0 && Largest(Bit(round)) > kBurst &&
                m_call.kind != CollectiveKind::AllReduce)
            {
                m_stages.push_back({Stage::Confirm, round});
            }
        }
        if (m_folded > 0)
        {
            m_stages.push_back({Stage::FoldOut, 0});
        }
    }

    std::uint32_t Channels() const override
    {
        return 1;
    }

    std::uint32_t Steps(std::uint32_t, std::uint32_t) const override
    {
        return static_cast<std::uint32_t>(m_stages.size());
    }

    std::uint32_t Step(std::uint32_t,
                       std::uint32_t member,
                       std::uint32_t step,
                       std::vector<CollectiveSend>& sends) const override
    {
        sends.clear();
        const auto [stage, round] = m_stages[step];
        const bool inPair = member < 2 * m_folded;
        const bool away = inPair && member % 2 == 0;
        if (stage == Stage::FoldIn || stage == Stage::FoldOut)
        {
            const bool in = stage == Stage::FoldIn;
            if (inPair && away == in)
            {
                sends.push_back({away ? member + 1 : member - 1,
                                 step,
                                 FoldBytes(away ? member : member - 1, in),
                                 nullptr});
            }
            return inPair && away != in ? 1 : 0;
        }
        if (away)
        {
            return 0;
        }
        const std::uint32_t node = NodeOf(member);
        const std::uint32_t bit = Bit(round);
        const std::uint32_t peer = node ^ (std::uint32_t{1} << bit);
        // Halving sends the peer's side of the common range, doubling its own.
        const std::uint32_t side = ((Halves(round) ? peer : node) >> bit) << bit;
        sends.push_back(
            {MemberOf(peer), step, stage == Stage::Exchange ? RangeBytes(side, bit) : 0, nullptr});
        return 1;
    }

  private:
    /** What members do in a step. */
    enum class Stage : std::uint8_t
    {
        FoldIn,   ///< one of a pair hands its data to the other
        Announce, ///< "I have come to this round"
        Exchange,
        Confirm, ///< "I have all of it"
        FoldOut  ///< and is given the result
    };

    [[nodiscard]] bool Halves(std::uint32_t round) const
    {
        return m_call.kind == CollectiveKind::ReduceScatter ||
               (m_call.kind == CollectiveKind::AllReduce && round < m_rounds);
    }

    /** The bit in which a node and its peer of a round differ. */
    [[nodiscard]] std::uint32_t Bit(std::uint32_t round) const
    {
        return Halves(round)                              ? m_rounds - 1 - round
               : m_call.kind == CollectiveKind::AllReduce ? round - m_rounds
                                                          : round;
    }

    /** Bytes of the 2^@p bit nodes from @p first. */
    [[nodiscard]] Bytes RangeBytes(std::uint32_t first, std::uint32_t bit) const
    {
        return m_edges[first + (std::size_t{1} << bit)] - m_edges[first];
    }

    /** The most that two nodes exchange whose numbers differ in @p bit. */
    [[nodiscard]] Bytes Largest(std::uint32_t bit) const
    {
        Bytes largest = 0;
        for (std::uint32_t first = 0; first < m_nodes; first += std::uint32_t{1} << bit)
        {
            largest = std::max(largest, RangeBytes(first, bit));
        }
        return largest;
    }

    [[nodiscard]] std::uint32_t Exchanges() const
    {
        return m_call.kind == CollectiveKind::AllReduce ? 2 * m_rounds : m_rounds;
    }

    /** The part of the payload that belongs to a member; not for AllReduce. */
    [[nodiscard]] Bytes Own(std::uint32_t member) const
    {
        return m_call.kind == CollectiveKind::AllGather
                   ? m_call.bytes
                   : PartOf(m_call.bytes, m_size, member, m_call.elementBytes);
    }

    /** What the even member @p away of a pair sends in the first round, or is sent in the last. */
    [[nodiscard]] Bytes FoldBytes(std::uint32_t away, bool in) const
    {
        switch (m_call.kind)
        {
        case CollectiveKind::ReduceScatter:
            return in ? m_call.bytes - Own(away) : Own(away);
        case CollectiveKind::AllGather:
            return in ? m_call.bytes : m_call.bytes * (m_size - 1);
        default:
            return m_call.bytes;
        }
    }

    [[nodiscard]] std::uint32_t Reversed(std::uint32_t node) const
    {
        std::uint32_t reversed = 0;
        for (std::uint32_t bit = 0; bit < m_rounds; ++bit)
        {
            reversed |= ((node >> bit) & 1) << (m_rounds - 1 - bit);
        }
        return reversed;
    }

    /** @pre @p member takes part */
    [[nodiscard]] std::uint32_t NodeOf(std::uint32_t member) const
    {
        const std::uint32_t node = member < 2 * m_folded ? member / 2 : member - m_folded;
        return m_call.kind == CollectiveKind::AllReduce ? Reversed(node) : node;
    }

    [[nodiscard]] std::uint32_t MemberOf(std::uint32_t node) const
    {
        node = m_call.kind == CollectiveKind::AllReduce ? Reversed(node) : node;
        return node < m_folded ? 2 * node + 1 : node + m_folded;
    }

    const CollectiveCall& m_call;
    std::uint32_t m_size;
    std::uint32_t m_rounds = 0; ///< log2 of m_nodes
    std::uint32_t m_nodes = 1;  ///< p
    std::uint32_t m_folded = 0; ///< r
    std::vector<Bytes> m_edges;
    std::vector<std::pair<Stage, std::uint32_t>> m_stages; ///< of each step: what, and the round
};

} // namespace

std::unique_ptr<CollectiveProgram>
BuildHalvingDoubling(const CollectiveContext& context)
{
    return std::make_unique<HalvingDoubling>(context);
}

} // namespace topoopt::collectives
