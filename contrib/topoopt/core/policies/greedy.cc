// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/circuit-plan.h"
#include "topoopt/core/random.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>
#include <tuple>

namespace topoopt::policies
{

namespace
{

/**
 * OCS-reconfig with host forwarding, the released code's heuristic (`dheu`): u = the larger backlog of the two directions; the pair
 * of largest u gets a duplex circuit and u := floor(u / 2) while u > 0 and both servers have ports; servers
 * without any circuit are chained by a random walk; the ports that are left are paired at random; parts that are not
 * connected trade circuits of small u until they are. Of equals the lowest pair. Random choices from (seed, number of the plan).
 *
 * Deviation: the released code takes effectively arbitrary victims when it joins parts; here it is the circuit of smallest u that
 * is no bridge.
 */
class Greedy final : public ReconfigurationPolicy
{
  public:
    explicit Greedy(std::uint64_t seed)
        : m_seed(seed)
    {
    }

    std::optional<CircuitPlan> Next(const PlanView& view) override
    {
        m_n = view.servers;
        m_u.assign(std::size_t{m_n} * m_n, 0);
        for (ServerId a = 0; a < m_n; ++a)
        {
            for (ServerId b = 0; b < m_n; ++b)
            {
                const double u = std::floor(std::max(view.backlog[std::size_t{a} * m_n + b],
                                                     view.backlog[std::size_t{b} * m_n + a]));
                m_u[std::size_t{a} * m_n + b] = u;
            }
        }
        m_free = view.nics;
        m_edges.clear();
        Rng rng(Mix64(m_seed, m_plans++), "greedy");
        ServeBacklog();
        ChainTheRest(view.nics, rng);
        PairFreePorts(rng);
        Connect(view.nics);
        CircuitPlan plan;
        plan.circuits = m_edges;
        return plan;
    }

  private:
    void Join(ServerId a, ServerId b)
    {
        m_edges.emplace_back(a, b);
        --m_free[a];
        --m_free[b];
    }

    void ServeBacklog()
    {
        std::priority_queue<std::tuple<double, std::int64_t>> queue;
        for (ServerId a = 0; a < m_n; ++a)
        {
            for (ServerId b = a + 1; b < m_n; ++b)
            {
                const std::size_t pair = std::size_t{a} * m_n + b;
                if (m_u[pair] > 0)
                {
                    queue.emplace(m_u[pair], -static_cast<std::int64_t>(pair));
                }
            }
        }
        while (!queue.empty())
        {
            const auto [u, minusPair] = queue.top();
            queue.pop();
            const auto pair = static_cast<std::size_t>(-minusPair);
            const auto a = static_cast<ServerId>(pair / m_n);
            const auto b = static_cast<ServerId>(pair % m_n);
            if (m_free[a] == 0 || m_free[b] == 0)
            {
                continue;
            }
            Join(a, b);
            if (std::floor(u / 2) > 0)
            {
                queue.emplace(std::floor(u / 2), minusPair);
            }
        }
    }

    void ChainTheRest(const std::vector<std::uint32_t>& nics, Rng& rng)
    {
        std::vector<ServerId> lonely;
        for (ServerId s = 0; s < m_n; ++s)
        {
            if (m_free[s] > 0 && m_free[s] == nics[s])
            {
                lonely.push_back(s);
            }
        }
        rng.Shuffle(lonely);
        for (std::size_t k = 1; k < lonely.size(); ++k)
        {
            if (m_free[lonely[k - 1]] > 0)
            {
                Join(lonely[k - 1], lonely[k]);
            }
        }
    }

    void PairFreePorts(Rng& rng)
    {
        std::vector<ServerId> open;
        for (ServerId s = 0; s < m_n; ++s)
        {
            if (m_free[s] > 0)
            {
                open.push_back(s);
            }
        }
        while (open.size() >= 2)
        {
            const std::size_t first = rng.Below(open.size());
            const std::size_t second = (first + 1 + rng.Below(open.size() - 1)) % open.size();
            Join(open[first], open[second]);
            for (std::size_t at : {std::max(first, second), std::min(first, second)})
            {
                if (m_free[open[at]] == 0)
                {
                    open.erase(open.begin() + static_cast<std::ptrdiff_t>(at));
                }
            }
        }
    }

    /** Number of the part that each server is in, without edge @p skip. */
    [[nodiscard]] std::vector<ServerId> Parts(std::size_t skip) const
    {
        std::vector<ServerId> root(m_n);
        std::iota(root.begin(), root.end(), 0);
        const auto find = [&root](ServerId at) {
            while (root[at] != at)
            {
                root[at] = root[root[at]];
                at = root[at];
            }
            return at;
        };
        for (std::size_t k = 0; k < m_edges.size(); ++k)
        {
            const ServerId a = find(m_edges[k].first);
            const ServerId b = find(m_edges[k].second);
            if (k != skip)
            {
                root[std::max(a, b)] = std::min(a, b);
            }
        }
        std::vector<ServerId> parts(m_n);
        for (ServerId s = 0; s < m_n; ++s)
        {
            parts[s] = find(s);
        }
        return parts;
    }

    /** The edge of smallest u in a part, one that is no bridge if there is any; none: size. */
    [[nodiscard]] std::size_t Victim(const std::vector<ServerId>& parts,
                                     ServerId part,
                                     bool& bridge) const
    {
        std::vector<std::pair<double, std::size_t>> candidates;
        for (std::size_t k = 0; k < m_edges.size(); ++k)
        {
            const auto& [a, b] = m_edges[k];
            if (parts[a] == part)
            {
                candidates.emplace_back(m_u[std::size_t{a} * m_n + b], k);
            }
        }
        std::sort(candidates.begin(), candidates.end());
        for (const auto& [u, k] : candidates)
        {
            const std::vector<ServerId> without = Parts(k);
            if (without[m_edges[k].first] == without[m_edges[k].second])
            {
                bridge = false;
                return k;
            }
        }
        bridge = true;
        return candidates.empty() ? m_edges.size() : candidates.front().second;
    }

    /** @p nics by server; those without any take no part */
    void Connect(const std::vector<std::uint32_t>& nics)
    {
        const auto has = std::find_if(nics.begin(), nics.end(), [](auto n) { return n > 0; });
        const auto home = static_cast<ServerId>(has - nics.begin());
        std::vector<bool> hopeless(m_n);
        for (ServerId round = 0; round < m_n; ++round)
        {
            const std::vector<ServerId> parts = Parts(m_edges.size());
            ServerId other = home;
            while (other < m_n &&
                   (nics[other] == 0 || hopeless[other] || parts[other] == parts[home]))
            {
                ++other;
            }
            if (other == m_n)
            {
                return;
            }
            if (!Join(parts, home, other))
            {
                hopeless[other] = true;
            }
        }
    }

    /** Joins the parts of two servers by trading circuits; false if there are none to spare. */
    [[nodiscard]] bool Join(const std::vector<ServerId>& parts, ServerId home, ServerId other)
    {
        bool bridgeA = false;
        bool bridgeB = false;
        const std::size_t a = Victim(parts, parts[home], bridgeA);
        const std::size_t b = Victim(parts, parts[other], bridgeB);
        const bool lonelyHome = a == m_edges.size();
        if (!lonelyHome && b != m_edges.size())
        {
            // Two trees without a free port stay apart: one NIC per server.
            const bool spare = !bridgeA || !bridgeB;
            if (spare)
            {
                std::swap(m_edges[a].second, m_edges[b].second);
            }
            return spare;
        }
        // A server without circuits: it goes in between the ends of one, or takes one end over.
        const std::size_t edge = lonelyHome ? b : a;
        const ServerId lonely = lonelyHome ? home : other;
        if (edge == m_edges.size())
        {
            return false;
        }
        const ServerId far = m_edges[edge].second;
        if (m_free[lonely] >= 2)
        {
            m_edges[edge].second = lonely;
            m_edges.emplace_back(lonely, far);
            m_free[lonely] -= 2;
            return true;
        }
        if (lonelyHome ? bridgeB : bridgeA)
        {
            return false;
        }
        m_edges[edge].second = lonely;
        --m_free[lonely];
        ++m_free[far];
        return true;
    }

    std::uint64_t m_seed;
    std::uint64_t m_plans = 0;
    ServerId m_n = 0;
    std::vector<double> m_u;
    std::vector<std::uint32_t> m_free; ///< ports by server
    ServerCircuits m_edges;
};

} // namespace

std::unique_ptr<ReconfigurationPolicy>
BuildGreedy(const PolicyContext& context)
{
    return std::make_unique<Greedy>(context.seed);
}

} // namespace topoopt::policies
