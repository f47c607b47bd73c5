// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/min-max-routing.h"

#include "topoopt/core/error.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <stdexcept>
#include <string>

namespace topoopt
{

namespace
{

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/** A path of a pair and the bytes on it. */
struct PathFlow
{
    Path path;
    double bytes = 0;
};

struct Commodity
{
    ServerId src = 0;
    ServerId dst = 0;
    double bytes = 0;
    std::vector<PathFlow> flows;
};

class Solver
{
  public:
    Solver(const Topology& topology, const Demand& demand, const std::vector<double>& background)
        : m_topology(topology),
          m_background(background),
          m_length(topology.links.size()),
          m_stamp(topology.links.size()),
          m_distance(topology.NodeCount()),
          m_into(topology.NodeCount())
    {
        m_background.resize(topology.links.size());
        for (const Link& link : topology.links)
        {
            m_rate.push_back(static_cast<double>(link.rate.bps) / 8);
        }
        for (ServerId src = 0; src < demand.servers; ++src)
        {
            for (ServerId dst = 0; dst < demand.servers; ++dst)
            {
                if (src != dst && demand.At(src, dst) > 0)
                {
                    m_pairs.push_back({src, dst, static_cast<double>(demand.At(src, dst)), {}});
                }
            }
        }
    }

    MinMaxResult Run(const MinMaxOptions& options)
    {
        Start();
        MinMaxResult result;
        std::vector<Commodity> best = m_pairs;
        result.seconds = Seconds();
        if (result.seconds <= 0)
        {
            return Finish(result, best);
        }
        // The soft maximum is off by log(links) / sharpness at most.
        const double logLinks = std::log(static_cast<double>(m_rate.size()) + 1);
        double slack = 0.2;
        double factor = 4;
        double gapBefore = kInfinity;
        for (std::uint32_t sweep = 0; sweep < options.sweeps; ++sweep)
        {
            m_sharpness = logLinks / slack;
            m_reference = Seconds();
            for (LinkId link = 0; link < m_rate.size(); ++link)
            {
                SetLength(link);
            }
            result.bound = std::max(result.bound, Sweep());
            SumLoads();
            const double seconds = Seconds();
            if (seconds < result.seconds)
            {
                result.seconds = seconds;
                best = m_pairs;
            }
            if (result.Gap() <= options.gap)
            {
                break;
            }
            // Sharper as the gap closes: too sharp too soon, and flow moves by too little at a time.
            constexpr std::uint32_t kPatience = 10;
            if (sweep % kPatience == kPatience - 1)
            {
                factor *= result.Gap() > 0.9 * gapBefore ? 0.7 : 1;
                gapBefore = result.Gap();
            }
            slack =
                std::max({std::min(slack, factor * result.Gap()), 0.8 * slack, 0.3 * options.gap});
        }
        return Finish(result, best);
    }

  private:
    static MinMaxResult Finish(MinMaxResult& result, const std::vector<Commodity>& pairs)
    {
        result.bound = std::min(result.bound, result.seconds);
        for (const Commodity& pair : pairs)
        {
            SplitPair split{pair.src, pair.dst, {}};
            double total = 0;
            for (const PathFlow& flow : pair.flows)
            {
                // What rounding leaves behind is no path.
                if (flow.bytes > 1e-9 * pair.bytes)
                {
                    split.paths.emplace_back(flow.path, flow.bytes);
                    total += flow.bytes;
                }
            }
            for (auto& [path, share] : split.paths)
            {
                share /= total;
            }
            result.pairs.push_back(std::move(split));
        }
        return std::move(result);
    }

    /** Everything on a path of fewest seconds on an empty network. */
    void Start()
    {
        for (LinkId link = 0; link < m_rate.size(); ++link)
        {
            m_length[link] = 1 / m_rate[link];
        }
        for (std::size_t at = 0; at < m_pairs.size(); ++at)
        {
            Commodity& pair = m_pairs[at];
            if (at == 0 || pair.src != m_pairs[at - 1].src)
            {
                Dijkstra(pair.src, m_length);
            }
            if (m_distance[pair.dst] == kInfinity)
            {
                throw SpecError("fabric",
                                "no path from server " + std::to_string(pair.src) + " to server " +
                                    std::to_string(pair.dst));
            }
            pair.flows.push_back({PathTo(pair.src, pair.dst), pair.bytes});
        }
        SumLoads();
    }

    /**
     * Every pair once, source by source.
     * @return the dual bound under the lengths at the beginning
     */
    double Sweep()
    {
        double numerator = 0;
        double denominator = 0;
        for (LinkId link = 0; link < m_rate.size(); ++link)
        {
            numerator += m_length[link] * m_background[link];
            denominator += m_length[link] * m_rate[link];
        }
        // The bound needs the lengths as they are now; the moves change them.
        const std::vector<double> frozen = m_length;
        for (std::size_t at = 0; at < m_pairs.size();)
        {
            const ServerId src = m_pairs[at].src;
            const std::size_t first = at;
            Dijkstra(src, frozen);
            for (; at < m_pairs.size() && m_pairs[at].src == src; ++at)
            {
                numerator += m_pairs[at].bytes * m_distance[m_pairs[at].dst];
            }
            Dijkstra(src, m_length);
            for (std::size_t pair = first; pair < at; ++pair)
            {
                Improve(m_pairs[pair]);
            }
        }
        return denominator > 0 ? numerator / denominator : 0;
    }

    /** Moves bytes of one pair to the path that the last Dijkstra found. */
    void Improve(Commodity& pair)
    {
        const Path cheapest = PathTo(pair.src, pair.dst);
        auto target = std::find_if(pair.flows.begin(), pair.flows.end(), [&](const PathFlow& flow) {
            return flow.path == cheapest;
        });
        if (target == pair.flows.end())
        {
            pair.flows.push_back({cheapest, 0});
            target = pair.flows.end() - 1;
        }
        const auto targetIndex = static_cast<std::size_t>(target - pair.flows.begin());
        ++m_now;
        for (LinkId link : cheapest)
        {
            m_stamp[link] = m_now;
        }
        for (std::size_t f = 0; f < pair.flows.size(); ++f)
        {
            PathFlow& flow = pair.flows[f];
            if (f == targetIndex || flow.bytes <= 0)
            {
                continue;
            }
            double saved = 0;
            double curvature = 0;
            const auto look = [&](LinkId link, double sign) {
                saved += sign * m_length[link];
                curvature += m_length[link] * m_sharpness / (m_reference * m_rate[link]);
            };
            for (LinkId link : flow.path)
            {
                if (m_stamp[link] != m_now)
                {
                    look(link, 1);
                }
            }
            for (LinkId link : cheapest)
            {
                if (std::find(flow.path.begin(), flow.path.end(), link) == flow.path.end())
                {
                    look(link, -1);
                }
            }
            if (saved <= 0)
            {
                continue;
            }
            const double moved = std::min(flow.bytes, saved / curvature);
            for (LinkId link : flow.path)
            {
                m_load[link] -= moved;
                SetLength(link);
            }
            for (LinkId link : cheapest)
            {
                m_load[link] += moved;
                SetLength(link);
            }
            flow.bytes -= moved;
            pair.flows[targetIndex].bytes += moved;
        }
        pair.flows.erase(
            std::remove_if(pair.flows.begin(),
                           pair.flows.end(),
                           [&](const PathFlow& flow) { return flow.bytes <= 1e-9 * pair.bytes; }),
            pair.flows.end());
    }

    /** Gradient of the soft maximum of link times. */
    void SetLength(LinkId link)
    {
        // Bounded above against overflow, below so that idle links still prefer fewer hops.
        const double time = m_load[link] / m_rate[link];
        const double exponent = std::min(600.0, m_sharpness * (time / m_reference - 1));
        m_length[link] = (std::exp(exponent) + 1e-8) / m_rate[link];
    }

    void SumLoads()
    {
        m_load = m_background;
        for (const Commodity& pair : m_pairs)
        {
            for (const PathFlow& flow : pair.flows)
            {
                for (LinkId link : flow.path)
                {
                    m_load[link] += flow.bytes;
                }
            }
        }
    }

    [[nodiscard]] double Seconds() const
    {
        double seconds = 0;
        for (LinkId link = 0; link < m_rate.size(); ++link)
        {
            seconds = std::max(seconds, m_load[link] / m_rate[link]);
        }
        return seconds;
    }

    void Dijkstra(NodeId src, const std::vector<double>& length)
    {
        std::fill(m_distance.begin(), m_distance.end(), kInfinity);
        m_distance[src] = 0;
        m_queue.emplace(0, src);
        while (!m_queue.empty())
        {
            const auto [distance, node] = m_queue.top();
            m_queue.pop();
            if (distance > m_distance[node])
            {
                continue;
            }
            for (LinkId link : m_topology.Out(node))
            {
                const NodeId next = m_topology.links[link].dst;
                const double longer = distance + length[link];
                if (longer < m_distance[next])
                {
                    m_distance[next] = longer;
                    m_into[next] = link;
                    m_queue.emplace(longer, next);
                }
            }
        }
    }

    [[nodiscard]] Path PathTo(NodeId src, NodeId dst) const
    {
        Path path;
        for (NodeId node = dst; node != src; node = m_topology.links[path.back()].src)
        {
            path.push_back(m_into[node]);
        }
        std::reverse(path.begin(), path.end());
        return path;
    }

    const Topology& m_topology;
    std::vector<double> m_background;
    std::vector<double> m_rate; ///< bytes per second
    std::vector<double> m_load; ///< bytes
    std::vector<double> m_length;
    std::vector<Commodity> m_pairs; ///< ascending by source
    double m_sharpness = 1;
    double m_reference = 1; ///< seconds
    std::vector<std::uint64_t> m_stamp;
    std::uint64_t m_now = 0;
    std::vector<double> m_distance;
    std::vector<LinkId> m_into;
    std::priority_queue<std::pair<double, NodeId>,
                        std::vector<std::pair<double, NodeId>>,
                        std::greater<>>
        m_queue;
};

} // namespace

MinMaxResult
MinMaxRoutes(const Topology& topology,
             const Demand& demand,
             const std::vector<double>& background,
             const MinMaxOptions& options)
{
    if (demand.servers != topology.servers ||
        (!background.empty() && background.size() != topology.links.size()))
    {
        throw std::invalid_argument("MinMaxRoutes: demand or background of another topology");
    }
    return Solver(topology, demand, background).Run(options);
}

std::shared_ptr<const Router>
SplitRouter(const MinMaxResult& result, std::uint64_t seed, std::shared_ptr<const Router> others)
{
    auto router = std::make_shared<TableRouter>(seed, std::move(others));
    for (const SplitPair& pair : result.pairs)
    {
        for (const auto& [path, share] : pair.paths)
        {
            router->Add(pair.src, pair.dst, path, share);
        }
    }
    return router;
}

} // namespace topoopt
