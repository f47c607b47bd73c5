// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/sipml.h"

#include "topoopt/core/circuit-plan.h"
#include "topoopt/core/error.h"

#include <charconv>

namespace topoopt::policies
{

namespace
{

/** SiP-ML's planners over the backlog instead of the demand of an iteration. */
class SipMl final : public ReconfigurationPolicy
{
  public:
    /** @p wavelengths 0: circuit switches, a permutation per NIC */
    explicit SipMl(std::uint32_t wavelengths)
        : m_wavelengths(wavelengths)
    {
    }

    std::optional<CircuitPlan> Next(const PlanView& view) override
    {
        CircuitPlan plan;
        plan.duplex = false;
        plan.circuits =
            m_wavelengths == 0
                ? PlanOcs(view.servers, view.degree, view.backlog)
                : PlanWavelengths(view.servers, view.degree, m_wavelengths, view.backlog);
        return plan;
    }

  private:
    std::uint32_t m_wavelengths;
};

} // namespace

std::unique_ptr<ReconfigurationPolicy>
BuildSipMlOcs(const PolicyContext&)
{
    return std::make_unique<SipMl>(0);
}

std::unique_ptr<ReconfigurationPolicy>
BuildSipMlRing(const PolicyContext& context)
{
    std::uint32_t wavelengths = context.degree;
    const auto option = context.options.find("wavelengths");
    if (option != context.options.end())
    {
        const std::string& text = option->second;
        const auto [end, error] =
            std::from_chars(text.data(), text.data() + text.size(), wavelengths);
        if (error != std::errc() || end != text.data() + text.size() || wavelengths == 0 ||
            wavelengths > 4096)
        {
            throw SpecError(context.place,
                            "reconfiguration.wavelengths: found '" + text +
                                "', expected a whole number in 1..4096");
        }
    }
    return std::make_unique<SipMl>(wavelengths);
}

} // namespace topoopt::policies
