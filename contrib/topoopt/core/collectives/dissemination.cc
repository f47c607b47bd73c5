// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/collectives.h"

namespace topoopt::collectives
{

namespace
{

/** Barrier of Hensgen, Finkel and Manber: after round k a member knows of 2^(k+1) others. */
class Dissemination final : public CollectiveProgram
{
  public:
    explicit Dissemination(const CollectiveContext& context)
        : m_size(static_cast<std::uint32_t>(context.servers.size()))
    {
    }

    std::uint32_t Channels() const override
    {
        return 1;
    }

    std::uint32_t Steps(std::uint32_t, std::uint32_t) const override
    {
        std::uint32_t rounds = 0;
        while ((std::uint64_t{1} << rounds) < m_size)
        {
            ++rounds;
        }
        return rounds;
    }

    std::uint32_t Step(std::uint32_t,
                       std::uint32_t member,
                       std::uint32_t step,
                       std::vector<CollectiveSend>& sends) const override
    {
        const std::uint64_t to = (member + (std::uint64_t{1} << step)) % m_size;
        sends.assign(1, {static_cast<std::uint32_t>(to), step, 0, nullptr});
        return 1;
    }

  private:
    std::uint32_t m_size;
};

} // namespace

std::unique_ptr<CollectiveProgram>
BuildDissemination(const CollectiveContext& context)
{
    return std::make_unique<Dissemination>(context);
}

} // namespace topoopt::collectives
