// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/topology-search.h"

#include "topoopt/core/graph-metrics.h"
#include "topoopt/core/random.h"
#include "topoopt/core/topoopt-fabric.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace topoopt
{

namespace
{

/** The busiest link, then the sum of squares: the smaller, the better. */
using Score = std::pair<double, double>;

Score
ScoreOf(const FoundTopology& found, const Demand& demand)
{
    RoutingOptions routing;
    routing.kind = DirectRouting::Ecmp;
    const Fabric fabric = DirectConnectFabric(found, {8}, 0, nullptr, routing, false);
    std::vector<double> loads = AllReduceLoads(fabric, demand);
    const std::vector<double> pairs = PairLoads(fabric.topology, *fabric.router, demand);
    Score score{0, 0};
    for (std::size_t link = 0; link < loads.size(); ++link)
    {
        const double load = loads[link] + pairs[link];
        score.first = std::max(score.first, load);
        score.second += load * load;
    }
    return score;
}

/** Clearly better: rounding errors of sums do not count. */
bool
Better(const Score& a, const Score& b)
{
    constexpr double kNoise = 1e-9;
    if (a.first < b.first * (1 - kNoise))
    {
        return true;
    }
    return a.first <= b.first && a.second < b.second * (1 - kNoise);
}

/** Random changes that keep every NIC to one cable and the servers connected. */
class Mover
{
  public:
    explicit Mover(std::uint64_t seed)
        : m_rng(seed, "topology-search")
    {
    }

    /** Changes @p found. @return whether there was something to change */
    bool Move(FoundTopology& found)
    {
        std::vector<std::uint32_t> matched;
        for (std::uint32_t c = 0; c < found.cables.size(); ++c)
        {
            if (!found.cables[c].ring)
            {
                matched.push_back(c);
            }
        }
        if (!matched.empty() && m_rng.Below(4) != 0)
        {
            return m_rng.Below(3) != 0 ? Exchange(found, matched) : Shift(found, matched);
        }
        return Restride(found);
    }

  private:
    bool Restride(FoundTopology& found)
    {
        std::vector<RingSet*> sets;
        for (RingSet& set : found.ringSets)
        {
            if (!set.strides.empty() && set.members.size() > 4)
            {
                sets.push_back(&set);
            }
        }
        if (sets.empty())
        {
            return false;
        }
        RingSet& set = *sets[m_rng.Below(sets.size())];
        const auto size = static_cast<std::uint32_t>(set.members.size());
        const std::vector<std::uint32_t> candidates = TotientPerms(size);
        const std::size_t ring = m_rng.Below(set.strides.size());
        const std::uint32_t stride = candidates[m_rng.Below(candidates.size())];
        if (stride == set.strides[ring] || stride == size - set.strides[ring])
        {
            return false;
        }
        set.strides[ring] = stride;
        for (std::uint32_t m = 0; m < size; ++m)
        {
            found.cables[set.firstCable[ring] + m].b = set.members[(m + stride) % size];
        }
        return true;
    }

    /** a-b and c-d on the same NIC become a-c and b-d, or a-d and b-c. */
    bool Exchange(FoundTopology& found, const std::vector<std::uint32_t>& matched)
    {
        Cable& x = found.cables[matched[m_rng.Below(matched.size())]];
        std::vector<Cable*> others;
        for (std::uint32_t c : matched)
        {
            if (found.cables[c].nicA == x.nicA && &found.cables[c] != &x)
            {
                others.push_back(&found.cables[c]);
            }
        }
        if (others.empty())
        {
            return false;
        }
        Cable& y = *others[m_rng.Below(others.size())];
        if (m_rng.Below(2) == 0)
        {
            std::swap(x.b, y.a);
        }
        else
        {
            std::swap(x.b, y.b);
        }
        return true;
    }

    /** a-b becomes a-c, c having nothing on that NIC. */
    bool Shift(FoundTopology& found, const std::vector<std::uint32_t>& matched)
    {
        Cable& x = found.cables[matched[m_rng.Below(matched.size())]];
        std::vector<bool> taken(found.servers);
        for (const Cable& cable : found.cables)
        {
            if (cable.nicA == x.nicA)
            {
                taken[cable.a] = true;
            }
            if (cable.nicB == x.nicA)
            {
                taken[cable.b] = true;
            }
        }
        std::vector<ServerId> free;
        for (ServerId server = 0; server < found.servers; ++server)
        {
            if (!taken[server])
            {
                free.push_back(server);
            }
        }
        if (free.empty())
        {
            return false;
        }
        (m_rng.Below(2) == 0 ? x.a : x.b) = free[m_rng.Below(free.size())];
        return true;
    }

    Rng m_rng;
};

} // namespace

double
TopologyTime(const FoundTopology& found, const Demand& demand)
{
    return ScoreOf(found, demand).first;
}

TopologySearchResult
SearchTopology(const Demand& demand, std::uint32_t degree, const TopologySearchOptions& options)
{
    TopologySearchResult result;
    result.found = FindTopology(demand, degree, options.finder);
    Score best = ScoreOf(result.found, demand);
    result.startTime = best.first;
    result.evaluations = 1;
    const bool pairs = std::any_of(demand.pairs.begin(), demand.pairs.end(), [](Bytes bytes) {
        return bytes > 0;
    });
    if (demand.servers > 2 && !options.finder.flexnet)
    {
        TopologyFinderOptions split = options.finder;
        split.split = DegreeSplit::Fixed;
        for (split.mpNics = degree % 2;
             pairs && split.mpNics + 2 <= degree && result.evaluations < options.evaluations;
             split.mpNics += 2)
        {
            FoundTopology found = FindTopology(demand, degree, split);
            const Score score = ScoreOf(found, demand);
            ++result.evaluations;
            if (Better(score, best))
            {
                best = score;
                result.found = std::move(found);
            }
        }
        Mover mover(options.seed);
        // A change that cannot be made costs a try as well, or there might be no end.
        for (; result.evaluations < options.evaluations; ++result.evaluations)
        {
            FoundTopology found = result.found;
            if (!mover.Move(found))
            {
                continue;
            }
            const Score score = ScoreOf(found, demand);
            if (Better(score, best))
            {
                best = score;
                result.found = std::move(found);
            }
        }
    }
    result.time = best.first;
    return result;
}

} // namespace topoopt
