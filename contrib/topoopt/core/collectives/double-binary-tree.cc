// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/collectives.h"

#include <algorithm>

namespace topoopt::collectives
{

namespace
{

/** Each chunk has a state per member: at most so many states, but 256 chunks in any case. */
constexpr Bytes kMostStates = Bytes{1} << 22;
constexpr Bytes kFewChunks = 256;

/**
 * AllReduce over two binary trees, each with half of the payload (Sanders, Speck, Traff: Two-tree algorithms
 * for full bandwidth broadcast, reduction and scan, 2009).
 *
 * A tree is the in-order tree over places 1..n-1 below the root at place 0: a place's height is its
 * number of trailing zero bits, so that odd places are leaves and even ones are inner. The second tree mirrors the
 * places (n even) or shifts them by one (n odd): who is inner in one tree is a leaf in the other, but for
 * one member when n is odd. No place is deeper than ceil(log2 n).
 *
 * A channel is one chunk of one tree: the first step waits for the children's sums and the second, after sending
 * the sum to the parent, for the result, which the third passes to the children.
 */
class DoubleBinaryTree final : public CollectiveProgram
{
  public:
    explicit DoubleBinaryTree(const CollectiveContext& context)
        : m_call(*context.call),
          m_size(static_cast<std::uint32_t>(context.servers.size())),
          m_chunks(static_cast<std::uint32_t>(
              std::clamp<Bytes>((m_call.bytes / 2 + kBurst - 1) / kBurst,
                                1,
                                std::max(kFewChunks, kMostStates / std::max(m_size, 1U)))))
    {
    }

    std::uint32_t Channels() const override
    {
        return 2 * m_chunks;
    }

    std::uint32_t Steps(std::uint32_t, std::uint32_t) const override
    {
        return m_size < 2 ? 0 : 3;
    }

    std::uint32_t Step(std::uint32_t channel,
                       std::uint32_t member,
                       std::uint32_t step,
                       std::vector<CollectiveSend>& sends) const override
    {
        sends.clear();
        // Both trees' first chunks come before any second one, as they go out in order of channels.
        const std::uint32_t tree = channel % 2;
        const std::uint32_t place = Swap(tree, member);
        std::uint32_t children[2];
        const std::uint32_t count = Children(place, children);
        if (step == 0)
        {
            return count;
        }
        const Bytes half = PartOf(m_call.bytes, 2, tree, m_call.elementBytes);
        const Bytes chunk = PartOf(half, m_chunks, channel / 2, m_call.elementBytes);
        if (step == 1)
        {
            if (place == 0)
            {
                return 0;
            }
            sends.push_back({Unswap(tree, Parent(place)), 0, chunk, nullptr});
            return 1;
        }
        for (std::uint32_t k = 0; k < count; ++k)
        {
            sends.push_back({Unswap(tree, children[k]), 1, chunk, nullptr});
        }
        return 0;
    }

  private:
    /** Place of a member in a tree. */
    [[nodiscard]] std::uint32_t Swap(std::uint32_t tree, std::uint32_t member) const
    {
        if (tree == 0)
        {
            return member;
        }
        return m_size % 2 == 0 ? m_size - 1 - member : (member + m_size - 1) % m_size;
    }

    [[nodiscard]] std::uint32_t Unswap(std::uint32_t tree, std::uint32_t place) const
    {
        if (tree == 0)
        {
            return place;
        }
        return m_size % 2 == 0 ? m_size - 1 - place : (place + 1) % m_size;
    }

    /** The place @p reach to the right of @p base, or half as far until there is one; kNoId if never. */
    [[nodiscard]] std::uint32_t RightChild(std::uint32_t base, std::uint64_t reach) const
    {
        while (reach > 0 && base + reach >= m_size)
        {
            reach /= 2;
        }
        return reach == 0 ? kNoId : static_cast<std::uint32_t>(base + reach);
    }

    std::uint32_t Children(std::uint32_t place, std::uint32_t (&children)[2]) const
    {
        std::uint32_t count = 0;
        // The root has all other places on its right.
        const std::uint64_t reach =
            place == 0 ? std::uint64_t{1} << 31 : std::uint64_t{place & (~place + 1)} / 2;
        if (place != 0 && reach > 0)
        {
            children[count++] = static_cast<std::uint32_t>(place - reach);
        }
        const std::uint32_t right = RightChild(place, reach);
        if (right != kNoId)
        {
            children[count++] = right;
        }
        return count;
    }

    /** @pre place > 0 */
    [[nodiscard]] std::uint32_t Parent(std::uint32_t place) const
    {
        const std::uint64_t low = place & (~place + 1);
        // The neighbour whose lowest bit is twice as high; beyond the end, its own ancestors follow.
        const std::uint64_t full = (place - low) | (2 * low);
        return static_cast<std::uint32_t>(full < m_size ? full : place - low);
    }

    const CollectiveCall& m_call;
    std::uint32_t m_size;
    std::uint32_t m_chunks; ///< of each tree
};

} // namespace

std::unique_ptr<CollectiveProgram>
BuildDoubleBinaryTree(const CollectiveContext& context)
{
    return std::make_unique<DoubleBinaryTree>(context);
}

} // namespace topoopt::collectives
