// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/circuit-plan.h"

#include <cmath>
#include <queue>
#include <tuple>

namespace topoopt::policies
{

namespace
{

/**
 * OCS-reconfig without host forwarding: the largest backlog gets a one-way circuit and is halved, until ports or backlog are
 * used up; of equals the lowest pair. Ports for which there is no backlog stay dark.
 */
class GreedyDirect final : public ReconfigurationPolicy
{
  public:
    std::optional<CircuitPlan> Next(const PlanView& view) override
    {
        const std::size_t n = view.servers;
        std::priority_queue<std::tuple<double, std::int64_t>> queue;
        for (std::size_t pair = 0; pair < n * n; ++pair)
        {
            if (pair / n != pair % n && view.backlog[pair] >= 1)
            {
                queue.emplace(view.backlog[pair], -static_cast<std::int64_t>(pair));
            }
        }
        std::vector<std::uint32_t> sending(n);
        std::vector<std::uint32_t> receiving(n);
        CircuitPlan plan;
        plan.duplex = false;
        while (!queue.empty())
        {
            const auto [bytes, minusPair] = queue.top();
            queue.pop();
            const auto pair = static_cast<std::size_t>(-minusPair);
            const auto from = static_cast<ServerId>(pair / n);
            const auto to = static_cast<ServerId>(pair % n);
            if (sending[from] == view.nics[from] || receiving[to] == view.nics[to])
            {
                continue;
            }
            ++sending[from];
            ++receiving[to];
            plan.circuits.emplace_back(from, to);
            if (bytes >= 2)
            {
                queue.emplace(std::floor(bytes / 2), minusPair);
            }
        }
        return plan;
    }
};

} // namespace

std::unique_ptr<ReconfigurationPolicy>
BuildGreedyDirect(const PolicyContext&)
{
    return std::make_unique<GreedyDirect>();
}

} // namespace topoopt::policies
