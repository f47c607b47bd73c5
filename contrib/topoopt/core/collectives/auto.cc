// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/collectives.h"
#include "topoopt/core/random.h"

#include <algorithm>
#include <set>
#include <utility>

namespace topoopt::collectives
{

namespace
{

/** What a switch or a relaying server takes in before it sends on, in the estimate. */
constexpr Bytes kFrame = 9000;

/** Estimates how long programs take on the links that their messages would use. */
class Estimator
{
  public:
    explicit Estimator(const CollectiveContext& context)
        : m_context(context),
          m_loads(context.fabric->topology.links.size())
    {
    }

    /**
     * One step that all members do together: the longest way's latency, and the time that the busiest
     * link needs for all bytes of the step. Messages within a server cost nothing.
     */
    [[nodiscard]] SimTime Round(const CollectiveProgram& program, std::uint32_t step)
    {
        Add(program, step);
        return Take();
    }

    /** All steps, one after the other, of which the longest chain of messages has @p hops. */
    [[nodiscard]] SimTime Rounds(const CollectiveProgram& program, std::uint32_t hops)
    {
        SimTime time = 0;
        SimTime latency = 0;
        for (std::uint32_t step = 0; step < program.Steps(0, 0); ++step)
        {
            Add(program, step);
            latency = std::max(latency, m_latency);
            m_latency = 0;
            time += Take();
        }
        return time + latency * hops;
    }

    /**
     * Chunks that follow each other: the latency of @p hops messages, and the busiest link's bytes of all steps,
     * @p factor times those of @p program.
     */
    [[nodiscard]] SimTime Pipelined(const CollectiveProgram& program,
                                    std::uint32_t hops,
                                    double factor)
    {
        std::uint32_t steps = 0;
        for (std::uint32_t channel = 0; channel < program.Channels(); ++channel)
        {
            for (std::uint32_t member = 0; member < m_context.servers.size(); ++member)
            {
                steps = std::max(steps, program.Steps(channel, member));
            }
        }
        for (std::uint32_t step = 0; step < steps; ++step)
        {
            Add(program, step);
        }
        const SimTime latency = std::exchange(m_latency, 0);
        return static_cast<SimTime>(static_cast<double>(Take()) * factor) + latency * hops;
    }

  private:
    void Add(const CollectiveProgram& program, std::uint32_t step)
    {
        const auto members = static_cast<std::uint32_t>(m_context.servers.size());
        for (std::uint32_t channel = 0; channel < program.Channels(); ++channel)
        {
            for (std::uint32_t member = 0; member < members; ++member)
            {
                if (step >= program.Steps(channel, member))
                {
                    continue;
                }
                program.Step(channel, member, step, m_sends);
                for (const CollectiveSend& send : m_sends)
                {
                    AddMessage(m_context.servers[member], channel, send);
                }
            }
        }
    }

    void AddMessage(ServerId src, std::uint32_t channel, const CollectiveSend& send)
    {
        const ServerId dst = m_context.servers[send.peer];
        if (src == dst)
        {
            return;
        }
        Path routed;
        if (send.path == nullptr)
        {
            routed =
                m_context.fabric->router->Route(src, dst, Mix64(m_context.call->group, channel));
        }
        const Path& path = send.path == nullptr ? routed : *send.path;
        SimTime latency = 0;
        for (const LinkId link : path)
        {
            const Link& l = m_context.fabric->topology.links[link];
            latency += l.delay;
            // The last link's time is in its load.
            latency += link == path.back() ? 0 : TxTime(std::min(kFrame, send.bytes), l.rate);
            m_loads[link] += send.bytes;
            m_used.insert(link);
        }
        m_latency = std::max(m_latency, latency);
    }

    SimTime Take()
    {
        SimTime busiest = 0;
        for (const LinkId link : m_used)
        {
            busiest = std::max(busiest,
                               TxTime(m_loads[link], m_context.fabric->topology.links[link].rate));
            m_loads[link] = 0;
        }
        m_used.clear();
        return busiest + std::exchange(m_latency, 0);
    }

    const CollectiveContext& m_context;
    std::vector<Bytes> m_loads; ///< by link
    std::set<LinkId> m_used;
    SimTime m_latency = 0;
    std::vector<CollectiveSend> m_sends;
};

} // namespace

std::unique_ptr<CollectiveProgram>
BuildAuto(const CollectiveContext& context)
{
    if (context.call->kind != CollectiveKind::AllReduce || context.servers.size() < 2 ||
        std::set<ServerId>(context.servers.begin(), context.servers.end()).size() < 2)
    {
        return CollectiveChoice().Build(context);
    }
    Estimator estimator(context);
    std::unique_ptr<CollectiveProgram> best;
    SimTime least = kNever;
    const auto consider = [&](std::unique_ptr<CollectiveProgram> program, SimTime time) {
        if (time < least)
        {
            least = time;
            best = std::move(program);
        }
    };
    // All steps of a ring are alike.
    std::unique_ptr<CollectiveProgram> program = BuildRing(context);
    SimTime time = estimator.Round(*program, 0) * program->Steps(0, 0);
    consider(std::move(program), time);
    if (FitsHierarchical(context.servers))
    {
        program = BuildHierarchical(context);
        const std::set<ServerId> servers(context.servers.begin(), context.servers.end());
        const auto across = static_cast<std::uint32_t>(servers.size() - 1);
        const auto local = static_cast<std::uint32_t>(context.servers.size() / servers.size());
        time = estimator.Round(*program, local - 1) * 2 * across;
        consider(std::move(program), time);
    }
    program = BuildHalvingDoubling(context);
    time = estimator.Rounds(*program, program->Steps(0, 0));
    consider(std::move(program), time);
    const auto members = static_cast<std::uint32_t>(context.servers.size());
    std::uint32_t depth = 0;
    std::uint32_t chain = 0; // most bits of a place in a binomial tree: hops to its root
    while ((std::uint64_t{1} << depth) < members)
    {
        ++depth;
    }
    for (std::uint32_t place = 1; place < members; ++place)
    {
        chain = std::max(chain, static_cast<std::uint32_t>(__builtin_popcount(place)));
    }
    // One chunk of each tree stands for all.
    CollectiveCall chunk = *context.call;
    chunk.bytes = std::min<Bytes>(chunk.bytes, 2 * (kBurst / 2));
    const CollectiveContext small{&chunk, context.servers, context.fabric};
    const double factor =
        static_cast<double>(context.call->bytes) / static_cast<double>(chunk.bytes);
    time = estimator.Pipelined(*BuildDoubleBinaryTree(small), 2 * depth, factor);
    consider(BuildDoubleBinaryTree(context), time);
    program = BuildTree(context);
    time = estimator.Rounds(*program, 2 * chain);
    consider(std::move(program), time);
    return best;
}

} // namespace topoopt::collectives
