// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/matching.h"

#include "topoopt/core/ids.h"

#include <algorithm>
#include <cstddef>
#include <lemon/matching.h>
#include <lemon/smart_graph.h>
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

} // namespace topoopt
