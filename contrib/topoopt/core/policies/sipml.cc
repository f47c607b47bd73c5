// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/sipml.h"

#include "topoopt/core/circuit-plan.h"
#include "topoopt/core/option-values.h"

namespace topoopt::policies
{

namespace
{

/**
 * SiP-ML's planners over the backlog instead of the demand of an iteration. Where nobody passes traffic on, no circuit is spent on
 * joining all servers.
 */
class SipMl final : public ReconfigurationPolicy
{
  public:
    /** @p wavelengths 0: circuit switches, a permutation per NIC */
    SipMl(std::uint32_t wavelengths, bool forwarding)
        : m_wavelengths(wavelengths),
          m_reach(forwarding ? Reach::All : Reach::Direct)
    {
    }

    std::optional<CircuitPlan> Next(const PlanView& view) override
    {
        CircuitPlan plan;
        plan.duplex = false;
        plan.circuits =
            m_wavelengths == 0
                ? PlanOcs(view.servers, view.degree, view.backlog, m_reach)
                : PlanWavelengths(view.servers, view.degree, m_wavelengths, view.backlog, m_reach);
        return plan;
    }

  private:
    std::uint32_t m_wavelengths;
    Reach m_reach;
};

} // namespace

std::unique_ptr<ReconfigurationPolicy>
BuildSipMlOcs(const PolicyContext& context)
{
    return std::make_unique<SipMl>(0, context.forwarding);
}

std::unique_ptr<ReconfigurationPolicy>
BuildSipMlRing(const PolicyContext& context)
{
    constexpr std::uint32_t kMost = 4096;
    const std::map<std::string, std::string> noPlaces;
    const OptionValues options(context.options, noPlaces, context.place, "reconfiguration.");
    const std::uint32_t wavelengths = options.Count("wavelengths", context.degree, 1, kMost);
    return std::make_unique<SipMl>(wavelengths, context.forwarding);
}

} // namespace topoopt::policies
