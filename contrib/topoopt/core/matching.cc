// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/matching.h"

#include "topoopt/core/ids.h"

#include <algorithm>
#include <cstddef>
#include <lemon/matching.h>
#include <lemon/smart_graph.h>
#include <limits>
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

    using Graph = lemon::SmartGraph;
    Graph graph;
    graph.reserveNode(static_cast<int>(vertices));
    std::vector<Graph::Node> nodes;
    for (std::uint32_t v = 0; v < vertices; ++v)
    {
        nodes.push_back(graph.addNode());
    }
    std::vector<std::int64_t> weights;
    for (const WeightedPair& pair : pairs)
    {
        if (pair.weight >> shift != 0)
        {
            graph.addEdge(nodes[pair.a], nodes[pair.b]);
            weights.push_back(static_cast<std::int64_t>(pair.weight >> shift));
        }
    }
    Graph::EdgeMap<std::int64_t> weight(graph);
    for (std::size_t e = 0; e < weights.size(); ++e)
    {
        weight[Graph::edgeFromId(static_cast<int>(e))] = weights[e];
    }
    lemon::MaxWeightedMatching<Graph, Graph::EdgeMap<std::int64_t>> matching(graph, weight);
    matching.run();
    std::vector<std::uint32_t> mate(vertices, kNoId);
    for (std::uint32_t v = 0; v < vertices; ++v)
    {
        const Graph::Node other = matching.mate(nodes[v]);
        if (other != lemon::INVALID)
        {
            mate[v] = static_cast<std::uint32_t>(Graph::id(other));
        }
    }
    return FromMates(mate);
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
