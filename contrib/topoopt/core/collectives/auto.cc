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
        Add(program, step, program.Channels());
        return Take();
    }

    /** All steps, one after the other. */
    [[nodiscard]] SimTime Rounds(const CollectiveProgram& program)
    {
        SimTime time = 0;
        for (std::uint32_t step = 0; step < program.Steps(0, 0); ++step)
        {
            time += Round(program, step);
        }
        return time;
    }

    /**
     * Chunks that follow each other: @p depth latencies, and the busiest link's bytes of all steps. The first
     * @p different channels stand for all: the others repeat them with the same bytes, but for an element.
     */
    [[nodiscard]] SimTime Pipelined(const CollectiveProgram& program,
                                    std::uint32_t depth,
                                    std::uint32_t different)
    {
        for (std::uint32_t step = 0; step < program.Steps(0, 0); ++step)
        {
            Add(program, step, different);
        }
        const SimTime latency = m_latency;
        m_latency = 0;
        return Take() * (program.Channels() / different) + latency * depth;
    }

  private:
    void Add(const CollectiveProgram& program, std::uint32_t step, std::uint32_t channels)
    {
        const auto members = static_cast<std::uint32_t>(m_context.servers.size());
        for (std::uint32_t channel = 0; channel < channels; ++channel)
        {
            for (std::uint32_t member = 0; member < members; ++member)
            {
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
    time = estimator.Rounds(*program);
    consider(std::move(program), time);
    std::uint32_t depth = 0;
    while ((std::uint64_t{1} << depth) < context.servers.size())
    {
        ++depth;
    }
    program = BuildDoubleBinaryTree(context);
    time = estimator.Pipelined(*program, 2 * depth, 2);
    consider(std::move(program), time);
    program = BuildTree(context);
    time = estimator.Rounds(*program);
    consider(std::move(program), time);
    return best;
}

} // namespace topoopt::collectives
