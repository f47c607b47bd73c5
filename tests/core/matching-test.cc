// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/k-shortest.h"
#include "topoopt/core/matching.h"
#include "topoopt/core/random.h"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <set>

namespace topoopt
{
namespace
{

/** Greatest weight by dynamic programming over subsets. */
std::uint64_t
BestBySubsets(std::uint32_t n, const std::vector<WeightedPair>& pairs)
{
    std::vector<std::vector<std::uint64_t>> weight(n, std::vector<std::uint64_t>(n));
    for (const WeightedPair& pair : pairs)
    {
        weight[pair.a][pair.b] = std::max(weight[pair.a][pair.b], pair.weight);
        weight[pair.b][pair.a] = weight[pair.a][pair.b];
    }
    std::vector<std::uint64_t> best(std::size_t{1} << n);
    for (std::size_t set = 1; set < best.size(); ++set)
    {
        std::uint32_t first = 0;
        while ((set >> first & 1) == 0)
        {
            ++first;
        }
        const std::size_t rest = set & ~(std::size_t{1} << first);
        best[set] = best[rest];
        for (std::uint32_t other = first + 1; other < n; ++other)
        {
            if ((rest >> other & 1) != 0)
            {
                best[set] =
                    std::max(best[set],
                             best[rest & ~(std::size_t{1} << other)] + weight[first][other]);
            }
        }
    }
    return best.back();
}

std::uint64_t
WeightOf(const std::vector<std::pair<std::uint32_t, std::uint32_t>>& matched,
         const std::vector<WeightedPair>& pairs)
{
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> weights;
    for (const WeightedPair& pair : pairs)
    {
        std::uint64_t& weight = weights[{std::min(pair.a, pair.b), std::max(pair.a, pair.b)}];
        weight = std::max(weight, pair.weight);
    }
    std::set<std::uint32_t> seen;
    std::uint64_t total = 0;
    for (const auto& [a, b] : matched)
    {
        EXPECT_LT(a, b);
        EXPECT_TRUE(seen.insert(a).second);
        EXPECT_TRUE(seen.insert(b).second);
        const std::uint64_t weight = weights[{a, b}];
        EXPECT_GT(weight, 0U);
        total += weight;
    }
    return total;
}

TEST(MaximumWeightMatching, EqualsBruteForce)
{
    Rng rng(3, "matching");
    for (int round = 0; round < 600; ++round)
    {
        const auto n = static_cast<std::uint32_t>(1 + rng.Below(round % 50 == 0 ? 14 : 9));
        const std::uint64_t density = 1 + rng.Below(10);
        const std::uint64_t largest = round % 3 == 0 ? 1 : round % 3 == 1 ? 5 : 1ULL << 40;
        std::vector<WeightedPair> pairs;
        for (std::uint32_t a = 0; a < n; ++a)
        {
            for (std::uint32_t b = a + 1; b < n; ++b)
            {
                if (rng.Below(10) < density)
                {
                    pairs.push_back({a, b, rng.Below(largest + 1)});
                }
            }
        }
        const std::uint64_t best = BestBySubsets(n, pairs);
        EXPECT_EQ(WeightOf(MaximumWeightMatching(n, pairs), pairs), best);
        EXPECT_GE(2 * WeightOf(GreedyMatching(n, pairs), pairs), best);
    }
}

/** Greatest weight of a matching that pairs vertices of two halves, by assignment. */
double
BestOfHalves(std::uint32_t half, const std::vector<WeightedPair>& pairs)
{
    // Rows and columns are doubled so that nobody is forced into a pair of weight 0 with itself.
    const std::uint32_t n = 2 * half;
    std::vector<double> weights(static_cast<std::size_t>(n) * n);
    for (const WeightedPair& pair : pairs)
    {
        weights[static_cast<std::size_t>(pair.a) * n + pair.b] = static_cast<double>(pair.weight);
    }
    const std::vector<std::uint32_t> columns = MaximumWeightAssignment(n, weights);
    double sum = 0;
    for (std::size_t row = 0; row < n; ++row)
    {
        sum += weights[row * n + columns[row]];
    }
    return sum;
}

TEST(MaximumWeightMatching, IsExactWithManyPairs)
{
    Rng rng(17, "dense");
    for (int round = 0; round < 6; ++round)
    {
        // Enough pairs that not all go into the first graph.
        const std::uint32_t half = 105;
        const std::uint64_t largest = round % 3 == 0 ? 1 : round % 3 == 1 ? 20 : 1ULL << 30;
        std::vector<WeightedPair> pairs;
        for (std::uint32_t a = 0; a < half; ++a)
        {
            for (std::uint32_t b = 0; b < half; ++b)
            {
                // Some vertices are wanted by all: the heaviest pairs of most lead to the same few.
                const std::uint64_t pull = b < 10 && round % 2 == 0 ? largest : 0;
                pairs.push_back({a, half + b, 1 + pull + rng.Below(largest)});
            }
        }
        EXPECT_EQ(static_cast<double>(WeightOf(MaximumWeightMatching(2 * half, pairs), pairs)),
                  BestOfHalves(half, pairs));
    }
}

TEST(MaximumWeightMatching, EqualAndHugeWeights)
{
    std::vector<WeightedPair> pairs;
    for (std::uint32_t a = 0; a < 64; ++a)
    {
        for (std::uint32_t b = a + 1; b < 64; ++b)
        {
            pairs.push_back({a, b, UINT64_MAX});
        }
    }
    EXPECT_EQ(MaximumWeightMatching(64, pairs).size(), 32U);
    EXPECT_TRUE(MaximumWeightMatching(5, {}).empty());
    EXPECT_THROW((void)MaximumWeightMatching(3, {{0, 3, 1}}), std::invalid_argument);
    EXPECT_THROW((void)MaximumWeightMatching(3, {{1, 1, 1}}), std::invalid_argument);
}

TEST(MaximumWeightAssignment, EqualsBruteForce)
{
    Rng rng(9, "assignment");
    for (int round = 0; round < 300; ++round)
    {
        const auto n = static_cast<std::uint32_t>(2 + rng.Below(6));
        const std::uint64_t largest = round % 2 == 0 ? 3 : 1'000'000;
        std::vector<double> weights(static_cast<std::size_t>(n) * n);
        for (double& weight : weights)
        {
            weight = static_cast<double>(rng.Below(largest));
        }
        const auto total = [&](const std::vector<std::uint32_t>& columns) {
            double sum = 0;
            for (std::size_t row = 0; row < n; ++row)
            {
                if (columns[row] == row)
                {
                    return -1.0;
                }
                sum += weights[row * n + columns[row]];
            }
            return sum;
        };
        std::vector<std::uint32_t> order(n);
        std::iota(order.begin(), order.end(), 0);
        double best = -1;
        do
        {
            best = std::max(best, total(order));
        } while (std::next_permutation(order.begin(), order.end()));
        std::vector<std::uint32_t> found = MaximumWeightAssignment(n, weights);
        EXPECT_EQ(total(found), best);
        std::sort(found.begin(), found.end());
        for (std::uint32_t i = 0; i < n; ++i)
        {
            EXPECT_EQ(found[i], i);
        }
    }
    EXPECT_THROW((void)MaximumWeightAssignment(1, {0}), std::invalid_argument);
}

TEST(KShortestPaths, EqualsEnumeration)
{
    Rng rng(5, "yen");
    for (int round = 0; round < 200; ++round)
    {
        const auto n = static_cast<std::uint32_t>(2 + rng.Below(6));
        Topology topology(n);
        for (std::uint64_t links = rng.Below(3 * n); links > 0; --links)
        {
            const auto a = static_cast<NodeId>(rng.Below(n));
            const auto b = static_cast<NodeId>(rng.Below(n));
            if (a != b)
            {
                topology.AddLink(a, b, {1}, 0);
            }
        }
        std::vector<Path> all;
        Path prefix;
        std::vector<bool> seen(n);
        const std::function<void(NodeId)> walk = [&](NodeId at) {
            if (at == 1)
            {
                all.push_back(prefix);
                return;
            }
            seen[at] = true;
            for (LinkId link : topology.Out(at))
            {
                if (!seen[topology.links[link].dst])
                {
                    prefix.push_back(link);
                    walk(topology.links[link].dst);
                    prefix.pop_back();
                }
            }
            seen[at] = false;
        };
        walk(0);
        std::vector<std::size_t> lengths;
        for (const Path& path : all)
        {
            lengths.push_back(path.size());
        }
        std::sort(lengths.begin(), lengths.end());
        for (std::uint32_t k : {1U, 3U, 1000U})
        {
            const std::vector<Path> found = KShortestPaths(topology, 0, 1, k);
            ASSERT_EQ(found.size(), std::min<std::size_t>(k, all.size()));
            EXPECT_EQ(std::set<Path>(found.begin(), found.end()).size(), found.size());
            for (std::size_t i = 0; i < found.size(); ++i)
            {
                EXPECT_EQ(found[i].size(), lengths[i]);
                EXPECT_NE(std::find(all.begin(), all.end(), found[i]), all.end());
            }
        }
    }
}

} // namespace
} // namespace topoopt
