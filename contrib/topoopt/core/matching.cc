// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/matching.h"

#include "topoopt/core/ids.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <lemon/matching.h>
#include <lemon/smart_graph.h>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <tuple>

namespace topoopt
{

namespace
{

void
CheckPairs(std::uint32_t vertices, const std::vector<WeightedPair>& pairs)
{
    for (const WeightedPair& pair : pairs)
    {
        if (pair.a >= vertices || pair.b >= vertices || pair.a == pair.b)
        {
            throw std::invalid_argument("matching: a pair is a loop or outside the vertices");
        }
    }
}

std::vector<std::pair<std::uint32_t, std::uint32_t>>
FromMates(const std::vector<std::uint32_t>& mate)
{
    std::vector<std::pair<std::uint32_t, std::uint32_t>> matched;
    for (std::uint32_t v = 0; v < mate.size(); ++v)
    {
        if (mate[v] != kNoId && v < mate[v])
        {
            matched.emplace_back(v, mate[v]);
        }
    }
    return matched;
}

/** What the blossom algorithm answers for some of the pairs. */
struct Solved
{
    std::vector<std::uint32_t> mate;
    /**
     * Dual variables, kScale times too large: a pair (a, b) of weight w left out of the graph cannot improve
     * the matching if y_a + y_b >= kScale w. (Duals of blossoms would only help it.)
     */
    std::vector<std::int64_t> dual;
};

using Graph = lemon::SmartGraph;
using Matching = lemon::MaxWeightedMatching<Graph, Graph::EdgeMap<std::int64_t>>;
constexpr std::int64_t kScale = Matching::dualScale;

Solved
Solve(std::uint32_t vertices, const std::vector<WeightedPair>& pairs)
{
    Graph graph;
    graph.reserveNode(static_cast<int>(vertices));
    graph.reserveEdge(static_cast<int>(pairs.size()));
    std::vector<Graph::Node> nodes;
    for (std::uint32_t v = 0; v < vertices; ++v)
    {
        nodes.push_back(graph.addNode());
    }
    for (const WeightedPair& pair : pairs)
    {
        graph.addEdge(nodes[pair.a], nodes[pair.b]);
    }
    Graph::EdgeMap<std::int64_t> weight(graph);
    for (std::size_t e = 0; e < pairs.size(); ++e)
    {
        weight[Graph::edgeFromId(static_cast<int>(e))] = static_cast<std::int64_t>(pairs[e].weight);
    }
    Matching matching(graph, weight);
    matching.run();
    Solved solved;
    for (std::uint32_t v = 0; v < vertices; ++v)
    {
        const Graph::Node other = matching.mate(nodes[v]);
        solved.mate.push_back(
            other == lemon::INVALID ? kNoId : static_cast<std::uint32_t>(Graph::id(other)));
        solved.dual.push_back(matching.nodeValue(nodes[v]));
    }
    return solved;
}

/**
 * Moves the indices of the @p perVertex heaviest pairs of each vertex out of @p left, which is in the order
 * to prefer.
 */
std::vector<std::size_t>
TakeHeaviest(std::uint32_t vertices,
             const std::vector<WeightedPair>& pairs,
             std::vector<std::size_t>& left,
             std::uint32_t perVertex)
{
    std::vector<std::uint32_t> taken(vertices);
    std::vector<std::size_t> out;
    std::vector<std::size_t> rest;
    for (std::size_t i : left)
    {
        std::uint32_t& a = taken[pairs[i].a];
        std::uint32_t& b = taken[pairs[i].b];
        if (a < perVertex || b < perVertex)
        {
            ++a;
            ++b;
            out.push_back(i);
        }
        else
        {
            rest.push_back(i);
        }
    }
    left = std::move(rest);
    return out;
}

} // namespace

std::vector<std::pair<std::uint32_t, std::uint32_t>>
MaximumWeightMatching(std::uint32_t vertices, const std::vector<WeightedPair>& pairs)
{
    CheckPairs(vertices, pairs);
    std::uint64_t heaviest = 0;
    for (const WeightedPair& pair : pairs)
    {
        heaviest = std::max(heaviest, pair.weight);
    }
    unsigned shift = 0;
    while (heaviest >> shift >= 1ULL << 56)
    {
        ++shift;
    }
    std::vector<WeightedPair> positive;
    for (const WeightedPair& pair : pairs)
    {
        if (pair.weight >> shift != 0)
        {
            positive.push_back({pair.a, pair.b, pair.weight >> shift});
        }
    }
    constexpr std::uint32_t kPerVertex = 12;
    if (positive.size() <= 4ULL * kPerVertex * vertices)
    {
        return FromMates(Solve(vertices, positive).mate);
    }

    // Of many pairs a few per vertex nearly always hold the optimum; the duals tell which others could matter.
    std::vector<std::size_t> left(positive.size());
    std::iota(left.begin(), left.end(), 0);
    // Equal weights by distance around the circle, or all would want the same few partners.
    const auto turn = [&](const WeightedPair& pair) {
        const std::uint32_t up = pair.a < pair.b ? pair.b - pair.a : pair.a - pair.b;
        return std::min(up, vertices - up);
    };
    std::sort(left.begin(), left.end(), [&](std::size_t x, std::size_t y) {
        const WeightedPair& p = positive[x];
        const WeightedPair& q = positive[y];
        return p.weight != q.weight ? p.weight > q.weight
                                    : std::tuple(turn(p), x) < std::tuple(turn(q), y);
    });
    std::vector<WeightedPair> chosen;
    const auto choose = [&](const std::vector<std::size_t>& indices) {
        for (std::size_t i : indices)
        {
            chosen.push_back(positive[i]);
        }
    };
    choose(TakeHeaviest(vertices, positive, left, kPerVertex));
    for (;;)
    {
        Solved solved = Solve(vertices, chosen);
        std::vector<std::size_t> wanted;
        std::vector<std::size_t> rest;
        for (std::size_t i : left)
        {
            const WeightedPair& pair = positive[i];
            const bool settled = solved.dual[pair.a] + solved.dual[pair.b] >=
                                 kScale * static_cast<std::int64_t>(pair.weight);
            (settled ? rest : wanted).push_back(i);
        }
        if (wanted.empty())
        {
            return FromMates(solved.mate);
        }
        choose(TakeHeaviest(vertices, positive, wanted, kPerVertex));
        left.clear();
        std::merge(rest.begin(),
                   rest.end(),
                   wanted.begin(),
                   wanted.end(),
                   std::back_inserter(left));
    }
}

std::vector<std::pair<std::uint32_t, std::uint32_t>>
GreedyMatching(std::uint32_t vertices, const std::vector<WeightedPair>& pairs)
{
    CheckPairs(vertices, pairs);
    std::vector<WeightedPair> sorted = pairs;
    std::sort(sorted.begin(), sorted.end(), [](const WeightedPair& x, const WeightedPair& y) {
        return std::tuple(y.weight, x.a, x.b) < std::tuple(x.weight, y.a, y.b);
    });
    std::vector<std::uint32_t> mate(vertices, kNoId);
    std::vector<std::uint64_t> held(vertices);
    // A second and third look let a pair replace what it now outweighs.
    constexpr int kPasses = 3;
    for (int pass = 0; pass < kPasses; ++pass)
    {
        bool changed = false;
        for (const WeightedPair& pair : sorted)
        {
            if (pair.weight == 0 || mate[pair.a] == pair.b ||
                pair.weight <= held[pair.a] + held[pair.b])
            {
                continue;
            }
            for (std::uint32_t v : {pair.a, pair.b})
            {
                if (mate[v] != kNoId)
                {
                    held[mate[v]] = 0;
                    mate[mate[v]] = kNoId;
                }
            }
            mate[pair.a] = pair.b;
            mate[pair.b] = pair.a;
            held[pair.a] = held[pair.b] = pair.weight;
            changed = true;
        }
        if (!changed)
        {
            break;
        }
    }
    return FromMates(mate);
}

std::vector<std::uint32_t>
MaximumWeightAssignment(std::uint32_t n, const std::vector<double>& weights)
{
    if (n < 2 || weights.size() != static_cast<std::size_t>(n) * n)
    {
        throw std::invalid_argument("MaximumWeightAssignment: fewer than two rows, or not square");
    }
    const double heaviest = *std::max_element(weights.begin(), weights.end());
    // Dearer than any detour, so that no row keeps its own index: n >= 2 leaves a way out.
    const double own = (heaviest + 1) * 2 * n;
    const auto cost = [&](std::size_t row, std::size_t column) {
        return row == column ? own : heaviest - weights[row * n + column];
    };
    // Rows and columns count from 1; column 0 holds the row that looks for a place.
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    std::vector<double> rowPrice(n + 1);
    std::vector<double> columnPrice(n + 1);
    std::vector<std::size_t> rowOf(n + 1);
    std::vector<std::size_t> before(n + 1);
    for (std::size_t row = 1; row <= n; ++row)
    {
        std::vector<double> distance(n + 1, kInfinity);
        std::vector<bool> done(n + 1);
        std::size_t column = 0;
        rowOf[0] = row;
        do
        {
            done[column] = true;
            const std::size_t at = rowOf[column];
            double least = kInfinity;
            std::size_t next = 0;
            for (std::size_t other = 1; other <= n; ++other)
            {
                if (done[other])
                {
                    continue;
                }
                const double reduced = cost(at - 1, other - 1) - rowPrice[at] - columnPrice[other];
                if (reduced < distance[other])
                {
                    distance[other] = reduced;
                    before[other] = column;
                }
                if (distance[other] < least)
                {
                    least = distance[other];
                    next = other;
                }
            }
            for (std::size_t other = 0; other <= n; ++other)
            {
                if (done[other])
                {
                    rowPrice[rowOf[other]] += least;
                    columnPrice[other] -= least;
                }
                else
                {
                    distance[other] -= least;
                }
            }
            column = next;
        } while (rowOf[column] != 0);
        while (column != 0)
        {
            rowOf[column] = rowOf[before[column]];
            column = before[column];
        }
    }
    std::vector<std::uint32_t> columnOf(n);
    for (std::size_t column = 1; column <= n; ++column)
    {
        columnOf[rowOf[column] - 1] = static_cast<std::uint32_t>(column - 1);
    }
    return columnOf;
}

} // namespace topoopt
