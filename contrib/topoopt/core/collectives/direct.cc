// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/collectives.h"

namespace topoopt::collectives
{

namespace
{

/**
 * One channel; every member sends each peer its part, nearest successor first so that receivers are not all
 * hit in the same order. AllReduce is a direct ReduceScatter followed by a direct AllGather.
 */
class Direct final : public CollectiveProgram
{
  public:
    explicit Direct(const CollectiveContext& context)
        : m_call(*context.call),
          m_size(static_cast<std::uint32_t>(context.servers.size()))
    {
    }

    std::uint32_t Channels() const override
    {
        return 1;
    }

    std::uint32_t Steps(std::uint32_t, std::uint32_t) const override
    {
        return m_call.kind == CollectiveKind::AllReduce ? 2 : 1;
    }

    std::uint32_t Step(std::uint32_t,
                       std::uint32_t member,
                       std::uint32_t step,
                       std::vector<CollectiveSend>& sends) const override
    {
        sends.clear();
        std::uint32_t expected = 0;
        for (std::uint32_t k = 1; k < m_size; ++k)
        {
            const std::uint32_t to = (member + k) % m_size;
            if (Has(member, to))
            {
                sends.push_back({to, step, PairBytes(member, to, step), nullptr});
            }
            expected += Has((member + m_size - k) % m_size, member) ? 1 : 0;
        }
        return expected;
    }

  private:
    /** Whether @p src has a message for @p dst. */
    [[nodiscard]] bool Has(std::uint32_t src, std::uint32_t dst) const
    {
        switch (m_call.kind)
        {
        case CollectiveKind::AllToAllV:
            return PairBytes(src, dst, 0) > 0;
        case CollectiveKind::Broadcast:
        case CollectiveKind::Scatter:
            return src == m_call.root;
        case CollectiveKind::Reduce:
        case CollectiveKind::Gather:
            return dst == m_call.root;
        default:
            return true;
        }
    }

    [[nodiscard]] Bytes PairBytes(std::uint32_t src, std::uint32_t dst, std::uint32_t step) const
    {
        switch (m_call.kind)
        {
        case CollectiveKind::AllToAllV:
            return m_call.pairBytes[std::size_t{src} * m_size + dst];
        case CollectiveKind::AllToAll:
        case CollectiveKind::ReduceScatter:
            return PartOf(m_call.bytes, m_size, dst, m_call.elementBytes);
        case CollectiveKind::AllReduce:
            return PartOf(m_call.bytes, m_size, step == 0 ? dst : src, m_call.elementBytes);
        default:
            return m_call.bytes;
        }
    }

    const CollectiveCall& m_call;
    std::uint32_t m_size;
};

} // namespace

std::unique_ptr<CollectiveProgram>
BuildDirect(const CollectiveContext& context)
{
    return std::make_unique<Direct>(context);
}

} // namespace topoopt::collectives
