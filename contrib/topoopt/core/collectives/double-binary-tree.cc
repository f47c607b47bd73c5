// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/collectives.h"

#include <algorithm>

namespace topoopt::collectives
{

namespace
{

/** What the chunks on their way to one member from two children may hold together, so that no buffer overflows. */
constexpr Bytes kMostUnderWay = Bytes{1} << 20;
constexpr Bytes kMostChunks = Bytes{1} << 24;

/**
 * AllReduce over two binary trees, each with half of the payload (Sanders, Speck, Traff: Two-tree algorithms
 * for full bandwidth broadcast, reduction and scan, 2009).
 *
 * A tree is the in-order tree over places 1..n-1 below the root at place 0: a place's height is its
 * number of trailing zero bits, so that odd places are leaves and even ones are inner. The second tree mirrors the
 * places (n even) or shifts them by one (n odd): who is inner in one tree is a leaf in the other, but for
 * one member when n is odd. No place is deeper than ceil(log2 n).
 *
 * A channel is a tree, whose part of the payload is cut into chunks that follow each other. In step s a member waits for
 * its children's sums of chunk s and for its parent's result of chunk s - w; then it passes its own sum up and
 * that result down. A leaf thus has at most w chunks under way that it has no result of. w is 4 d + 4 at depth d.
 * A link carries four messages for each chunk (two of either half), so that the way of a chunk to the root and back, 2 d links
 * at each of which it may meet the other three, takes as long as half of them keep the link busy; the other half makes up for
 * latency and for uneven arrivals. And a child's w is larger than its parent's, so that neither waits for a chunk that the
 * other one holds back.
 */
class DoubleBinaryTree final : public CollectiveProgram
{
  public:
    explicit DoubleBinaryTree(const CollectiveContext& context)
        : m_call(*context.call),
          m_size(static_cast<std::uint32_t>(context.servers.size()))
    {
        std::uint32_t deepest = 0;
        while ((std::uint64_t{1} << deepest) < m_size)
        {
            ++deepest;
        }
        const Bytes chunk = std::min(kBurst, kMostUnderWay / (2 * Window(std::max(deepest, 1U))));
        m_chunks = static_cast<std::uint32_t>(
            std::clamp<Bytes>((m_call.bytes / 2 + chunk - 1) / chunk, 1, kMostChunks));
    }

    std::uint32_t Channels() const override
    {
        return 2;
    }

    std::uint32_t Steps(std::uint32_t tree, std::uint32_t member) const override
    {
        return m_size < 2 ? 0 : m_chunks + Window(Depth(Swap(tree, member))) + 1;
    }

    std::uint32_t Step(std::uint32_t tree,
                       std::uint32_t member,
                       std::uint32_t step,
                       std::vector<CollectiveSend>& sends) const override
    {
        sends.clear();
        const std::uint32_t place = Swap(tree, member);
        std::uint32_t children[2];
        const std::uint32_t count = Children(place, children);
        const std::uint32_t depth = Depth(place);
        const std::uint32_t window = Window(depth);
        if (step > 0)
        {
            // What the step before was left with: a sum to pass up and a result to pass down; the root's sum is
            // the result.
            const std::uint32_t sum = step - 1;
            if (place != 0 && sum < m_chunks)
            {
                sends.push_back({Unswap(tree, Parent(place)), sum, ChunkBytes(tree, sum), nullptr});
            }
            const std::uint32_t result = sum - window; // wraps: none yet
            for (std::uint32_t k = 0; k < count && result < m_chunks; ++k)
            {
                sends.push_back({Unswap(tree, children[k]),
                                 result + Window(depth + 1),
                                 ChunkBytes(tree, result),
                                 nullptr});
            }
        }
        const bool down = place != 0 && step >= window && step - window < m_chunks;
        return (step < m_chunks ? count : 0) + (down ? 1 : 0);
    }

  private:
    /** How many chunks a member at this depth sends up before it must have a result. */
    static std::uint32_t Window(std::uint32_t depth)
    {
        return depth == 0 ? 0 : 4 * depth + 4;
    }

    [[nodiscard]] std::uint32_t Depth(std::uint32_t place) const
    {
        std::uint32_t depth = 0;
        for (; place != 0; place = Parent(place))
        {
            ++depth;
        }
        return depth;
    }

    [[nodiscard]] Bytes ChunkBytes(std::uint32_t tree, std::uint32_t chunk) const
    {
        const Bytes half = PartOf(m_call.bytes, 2, tree, m_call.elementBytes);
        return PartOf(half, m_chunks, chunk, m_call.elementBytes);
    }

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
    std::uint32_t m_chunks = 1; ///< of each tree
};

} // namespace

std::unique_ptr<CollectiveProgram>
BuildDoubleBinaryTree(const CollectiveContext& context)
{
    return std::make_unique<DoubleBinaryTree>(context);
}

} // namespace topoopt::collectives
