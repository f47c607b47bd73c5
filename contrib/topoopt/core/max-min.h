// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_MAX_MIN_H
#define TOPOOPT_CORE_MAX_MIN_H

#include "topoopt/core/ids.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace topoopt
{

/** A link that a flow takes, and how often: a ring over several hops may cross a link more than once. */
struct LinkUse
{
    LinkId link = 0;
    std::uint32_t times = 1;
};

/**
 * Weighted max-min fair rates of fluid flows, kept up to date as flows come and go.
 *
 * Flow f has rate w_f x_f; the levels x are max-min fair: no x can grow without a smaller or equal one
 * shrinking, subject to sum of times * rate <= capacity on every link and rate <= cap. Filling is progressive:
 * all levels rise together and a flow is frozen when a link of its own is full. Each link keeps a log of what it
 * froze, in that order, so a Solve() takes back only what was frozen at or above the lowest level that the changes
 * can have moved, and of that only what shares a link, directly or through others, with what changed. A flow that
 * ends is often the fastest, and then this is a small part: O(k log k) for k uses of links by the flows taken
 * back. Deterministic: ties go by link and by the order of the log.
 */
class MaxMin
{
  public:
    using FlowId = std::uint32_t;

    /** @param capacities of every link, > 0, in bytes per any time */
    explicit MaxMin(std::vector<double> capacities);

    /**
     * @param uses   links, each at most once; empty = bounded by its cap alone
     * @param weight > 0
     * @param cap    > 0; infinity only if @p uses is not empty
     * @return a number that may have belonged to a removed flow
     */
    FlowId Add(const std::vector<LinkUse>& uses, double weight, double cap);
    void Remove(FlowId flow);

    /** Recomputes; @return the flows whose rate has changed, ascending; valid until the next call. */
    const std::vector<FlowId>& Solve();

    [[nodiscard]] double Rate(FlowId flow) const
    {
        return m_flows[flow].rate;
    }

    /** Whether something changed since the last Solve(). */
    [[nodiscard]] bool Dirty() const
    {
        return !m_dirtyLinks.empty() || !m_dirtyFlows.empty();
    }

  private:
    struct Flow
    {
        std::vector<LinkUse> uses;
        double weight = 0;
        double cap = 0;
        double rate = 0;
        double before = 0;
        double level = 0;        ///< at which it was frozen
        std::uint32_t epoch = 0; ///< of the last Solve() that touched it
        bool alive = false;
        bool frozen = false;
        bool capped = false; ///< its cap can bind before its links do
    };

    /** A use of a link by a flow that is not frozen. */
    struct Open
    {
        FlowId flow;
        std::uint32_t times;
    };

    /** One that is, and what the link had to give just before. */
    struct Frozen
    {
        FlowId flow;
        std::uint32_t times;
        double level;
        double left;
    };

    struct LinkState
    {
        double capacity = 0;
        std::vector<Frozen> log; ///< levels ascend
        std::vector<Open> open;  ///< between two Solve(): what was added
        double left = 0;         ///< capacity not yet given to frozen flows
        double active = 0;       ///< sum of times * weight of flows not frozen
        std::uint32_t activeFlows = 0;
        std::uint32_t epoch = 0;
        bool dirty = false;
    };

    void MarkLink(LinkId link);
    void Freeze(FlowId flow, double level);
    void BoundByAdded(const LinkState& link);
    void TakeBack(LinkState& link, double level);
    void Fill(double floor);

    std::vector<LinkState> m_links;
    std::vector<Flow> m_flows;
    std::vector<FlowId> m_free;
    std::vector<FlowId> m_removed; ///< since the last Solve(): logs may still name them
    std::vector<LinkId> m_dirtyLinks;
    std::vector<FlowId> m_dirtyFlows; ///< those without links
    double m_restart;                 ///< no level below has moved
    std::uint32_t m_epoch = 0;
    std::vector<LinkId> m_component;
    std::vector<FlowId> m_members;
    std::vector<FlowId> m_changed;
    std::vector<std::pair<double, LinkId>> m_heap;
    std::vector<std::pair<double, FlowId>> m_caps;
};

} // namespace topoopt

#endif // TOPOOPT_CORE_MAX_MIN_H
