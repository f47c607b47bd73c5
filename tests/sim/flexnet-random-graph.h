// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_TESTS_FLEXNET_RANDOM_GRAPH_H
#define TOPOOPT_TESTS_FLEXNET_RANDOM_GRAPH_H

#include "topoopt/core/random.h"
#include "topoopt/core/readers/flexnet.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace topoopt::test
{

/** What a random graph is made of. */
struct RandomGraphShape
{
    std::uint32_t nodes = 0;         ///< 0: random
    std::uint64_t mostPackets = 150; ///< of a message
    bool rings = true;               ///< in the file
    bool even = false;               ///< equal sizes and run times, so that ties abound
    bool alike =
        false; ///< all AllReduces have all servers and rings of one link each; more of them
};

/**
 * A small verified graph on a circulant with routes of one to three paths: layers of compute tasks, messages
 * between them, AllReduces of several sizes and groups.
 */
inline FlexNetGraph
RandomGraph(std::uint64_t seed, const RandomGraphShape& shape)
{
    Rng rng(seed, "flexnet-random-graph");
    const auto below = [&rng](std::uint64_t n) {
        return static_cast<std::uint32_t>(rng.Next() % n);
    };
    FlexNetGraph g;
    g.file = "random" + std::to_string(seed);
    g.nodes = shape.nodes != 0 ? shape.nodes : 4 + below(7);
    const std::uint32_t n = g.nodes;

    // A circulant of jump 1 and perhaps another; both directions of every cable exist.
    std::vector<std::uint32_t> jumps{1};
    if (below(2) == 0 && n > 5)
    {
        jumps.push_back(2 + below(n / 2 - 1));
    }
    for (const std::uint32_t jump : jumps)
    {
        const std::uint32_t cables = 1 + below(5) / 4;
        for (NodeId i = 0; i < n; ++i)
        {
            const NodeId to = (i + jump) % n;
            const bool known =
                std::any_of(g.connections.begin(),
                            g.connections.end(),
                            [&](const FlexNetConnection& c) {
                                return (c.a == i && c.b == to) || (c.a == to && c.b == i);
                            });
            if (!known)
            {
                g.connections.push_back({i, to, cables});
            }
        }
    }
    const auto walk = [&](NodeId src, NodeId dst, bool up, std::uint32_t jump) {
        FlexNetPath path;
        path.nodes.push_back(src);
        std::uint32_t left = up ? (dst + n - src) % n : (src + n - dst) % n;
        while (left > 0)
        {
            const std::uint32_t step = left >= jump ? jump : 1;
            path.nodes.push_back((path.nodes.back() + (up ? step : n - step)) % n);
            left -= step;
        }
        return path;
    };
    for (NodeId a = 0; a < n; ++a)
    {
        for (NodeId b = 0; b < n; ++b)
        {
            FlexNetRoute route{a, b, {}};
            if (a != b)
            {
                route.paths.push_back(walk(a, b, true, jumps.back()));
                if (below(2) == 0)
                {
                    route.paths.push_back(walk(a, b, false, 1));
                }
                if (below(3) == 0)
                {
                    route.paths.push_back(walk(a, b, true, 1));
                }
            }
            g.routes.push_back(route);
        }
    }
    std::vector<std::uint32_t> sizes{n};
    for (std::uint32_t size = 2; size < n; ++size)
    {
        if (n % size == 0)
        {
            sizes.push_back(size);
        }
    }
    if (shape.alike)
    {
        sizes = {n};
        g.rings.push_back({n, {{1}, {n - 1}}});
    }
    else if (shape.rings)
    {
        for (const std::uint32_t size : sizes)
        {
            FlexNetRings rings;
            rings.groupSize = size;
            // n / size steps of 1 are one hop of the ring; in other orders, of other lengths for size n.
            rings.jumps.push_back(std::vector<std::uint32_t>(n / size, 1));
            if (size == n)
            {
                rings.jumps.push_back({n - 1});
            }
            if (below(2) == 0)
            {
                rings.jumps.push_back(std::vector<std::uint32_t>(n / size, n - 1));
            }
            g.rings.push_back(rings);
        }
    }

    std::uint64_t id = 1000 + below(1000);
    for (NodeId i = 0; i < n; ++i)
    {
        g.devices.push_back({FlexNetDeviceKind::Gpu, id, i, i, 0, 0});
        id += 1 + below(3);
    }
    const std::uint32_t firstPair = n;
    for (NodeId a = 0; a < n; ++a)
    {
        for (NodeId b = 0; b < n; ++b)
        {
            g.devices.push_back(
                {FlexNetDeviceKind::NetworkNominal, id++, 0, std::uint64_t{a} * n + b, 0, 0});
        }
    }
    const auto bytes = [&]() -> Bytes {
        if (shape.even)
        {
            return 8936 * std::uint64_t{30} + 1;
        }
        switch (below(5))
        {
        case 0:
            return 1 + below(9000);
        case 1:
            return 8936 * (1 + std::uint64_t{below(12)}) + below(3);
        default:
            return 1 + rng.Next() % (8936 * shape.mostPackets);
        }
    };
    const auto runtime = [&]() -> float {
        return shape.even ? 0.05F : 0.002F * static_cast<float>(below(60));
    };
    // Each layer: a compute task per server, then messages that the next layer waits for.
    std::vector<std::uint32_t> last;
    const std::uint32_t layers = 1 + below(3);
    for (std::uint32_t layer = 0; layer < layers; ++layer)
    {
        std::vector<std::uint32_t> computes;
        for (NodeId i = 0; i < n; ++i)
        {
            for (std::uint32_t j = below(3); j < 3; ++j)
            {
                FlexNetTask task;
                task.kind = layer % 2 == 0 ? FlexNetTaskKind::Forward : FlexNetTaskKind::Backward;
                task.id = id;
                id += 1 + below(50);
                task.device = i;
                task.runtimeMs = runtime();
                computes.push_back(static_cast<std::uint32_t>(g.tasks.size()));
                g.tasks.push_back(task);
            }
        }
        for (const std::uint32_t message : last)
        {
            g.tasks[message].next.push_back(computes[below(computes.size())]);
        }
        last.clear();
        const std::uint32_t pattern = below(3); // random pairs, incast, all to all
        const std::uint32_t some = pattern == 2 ? n * (n - 1) : 1 + below(4 * n);
        const std::uint32_t messages = shape.alike && seed % 3 == 0 ? 0 : some;
        const std::uint32_t allReduces = shape.alike ? 3 + below(8) : 3;
        const NodeId sink = below(n);
        for (std::uint32_t m = 0; m < messages; ++m)
        {
            NodeId src = pattern == 2 ? m / (n - 1) : below(n);
            NodeId dst = pattern == 2   ? (src + 1 + m % (n - 1)) % n
                         : pattern == 1 ? sink
                                        : below(n);
            if (src == dst)
            {
                src = (src + 1) % n;
            }
            FlexNetTask task;
            task.kind = FlexNetTaskKind::Message;
            task.id = id;
            id += 1 + below(50);
            task.device = firstPair + src * n + dst;
            task.bytes = bytes();
            const auto index = static_cast<std::uint32_t>(g.tasks.size());
            g.tasks.push_back(task);
            last.push_back(index);
            g.tasks[computes[below(computes.size())]].next.push_back(index);
        }
        for (std::uint32_t a = below(4); a < allReduces; ++a)
        {
            FlexNetTask task;
            task.kind = FlexNetTaskKind::AllReduce;
            task.id = id;
            id += 1 + below(50);
            task.runtimeMs = below(2) == 0 ? 0 : runtime();
            task.bytes =
                below(3) == 0 ? below(20000) : bytes() * (1 + below(n)) * (shape.alike ? n : 1);
            const std::uint32_t size = sizes[below(sizes.size())];
            const NodeId first = below(n / size);
            for (std::uint32_t member = 0; member < size; ++member)
            {
                task.next.push_back(first + member * (n / size));
            }
            const auto index = static_cast<std::uint32_t>(g.tasks.size());
            g.tasks.push_back(task);
            for (const std::uint32_t compute : computes)
            {
                if (below(3) != 0)
                {
                    g.tasks[compute].next.push_back(index);
                }
            }
        }
    }
    VerifyFlexNet(g);
    return g;
}

} // namespace topoopt::test

#endif // TOPOOPT_TESTS_FLEXNET_RANDOM_GRAPH_H
