// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/circuit-plan.h"

namespace topoopt::policies
{

namespace
{

/** TopoOpt proper: nothing changes within a job. */
class Static final : public ReconfigurationPolicy
{
  public:
    std::optional<CircuitPlan> Next(const PlanView&) override
    {
        return std::nullopt;
    }
};

} // namespace

std::unique_ptr<ReconfigurationPolicy>
BuildStatic(const PolicyContext&)
{
    return std::make_unique<Static>();
}

} // namespace topoopt::policies
