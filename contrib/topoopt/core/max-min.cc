// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/max-min.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace topoopt
{

namespace
{

constexpr double kNoLevel = std::numeric_limits<double>::infinity();

// Levels nearer than this to one that moves are settled again: rounding may have put equals on either side.
constexpr double kSameLevel = 1e-9;

} // namespace

MaxMin::MaxMin(std::vector<double> capacities)
    : m_links(capacities.size()),
      m_restart(kNoLevel)
{
    for (std::size_t i = 0; i < capacities.size(); ++i)
    {
        m_links[i].capacity = capacities[i];
        m_links[i].left = capacities[i];
    }
}

void
MaxMin::MarkLink(LinkId link)
{
    if (!m_links[link].dirty)
    {
        m_links[link].dirty = true;
        m_dirtyLinks.push_back(link);
    }
}

MaxMin::FlowId
MaxMin::Add(const std::vector<LinkUse>& uses, double weight, double cap)
{
    FlowId id = 0;
    if (m_free.empty())
    {
        id = static_cast<FlowId>(m_flows.size());
        m_flows.emplace_back();
    }
    else
    {
        id = m_free.back();
        m_free.pop_back();
    }
    Flow& flow = m_flows[id];
    flow.uses = uses;
    flow.weight = weight;
    flow.cap = cap;
    flow.rate = 0;
    flow.level = kNoLevel;
    flow.alive = true;
    flow.frozen = true;
    flow.capped = std::isfinite(cap);
    for (const LinkUse& use : uses)
    {
        LinkState& link = m_links[use.link];
        // A link that cannot carry more than the cap makes it superfluous.
        flow.capped = flow.capped && cap * use.times < link.capacity;
        link.open.push_back({id, use.times});
        MarkLink(use.link);
    }
    if (uses.empty())
    {
        m_dirtyFlows.push_back(id);
    }
    else if (flow.capped)
    {
        m_restart = std::min(m_restart, cap / weight);
    }
    return id;
}

void
MaxMin::Remove(FlowId id)
{
    Flow& flow = m_flows[id];
    for (const LinkUse& use : flow.uses)
    {
        MarkLink(use.link);
    }
    if (!flow.uses.empty())
    {
        m_restart = std::min(m_restart, flow.level);
    }
    flow.alive = false;
    flow.rate = 0;
    m_removed.push_back(id);
}

void
MaxMin::Freeze(FlowId id, double level)
{
    Flow& flow = m_flows[id];
    flow.frozen = true;
    flow.level = level;
    flow.rate = std::min(flow.cap, flow.weight * level);
    for (const LinkUse& use : flow.uses)
    {
        LinkState& link = m_links[use.link];
        link.log.push_back({id, use.times, level, link.left});
        link.left = std::max(0.0, link.left - use.times * flow.rate);
        link.active -= use.times * flow.weight;
        --link.activeFlows;
    }
}

/** Lowers m_restart to the level at which the flows added to a link would fill it, were nothing else to change. */
void
MaxMin::BoundByAdded(const LinkState& link)
{
    double active = 0;
    for (const Open& open : link.open)
    {
        active += m_flows[open.flow].alive ? open.times * m_flows[open.flow].weight : 0;
    }
    if (active == 0)
    {
        return;
    }
    double level = link.left / active;
    for (std::size_t i = link.log.size(); i-- > 0;)
    {
        const Frozen& frozen = link.log[i];
        active += frozen.times * m_flows[frozen.flow].weight;
        const double full = frozen.left / active;
        if (full > frozen.level)
        {
            break; // not yet full when this one was frozen
        }
        level = full;
    }
    m_restart = std::min(m_restart, level);
}

/** Opens what a link froze at or above a level, and forgets what was removed. */
void
MaxMin::TakeBack(LinkState& link, double level)
{
    const auto gone = [this](const Open& open) { return !m_flows[open.flow].alive; };
    link.open.erase(std::remove_if(link.open.begin(), link.open.end(), gone), link.open.end());
    const auto first = std::partition_point(link.log.begin(),
                                            link.log.end(),
                                            [level](const Frozen& f) { return f.level < level; });
    if (first != link.log.end())
    {
        link.left = first->left;
        for (auto frozen = first; frozen != link.log.end(); ++frozen)
        {
            if (m_flows[frozen->flow].alive)
            {
                link.open.push_back({frozen->flow, frozen->times});
            }
        }
        link.log.erase(first, link.log.end());
    }
    link.activeFlows = static_cast<std::uint32_t>(link.open.size());
    link.active = 0;
}

const std::vector<MaxMin::FlowId>&
MaxMin::Solve()
{
    m_changed.clear();
    ++m_epoch;
    for (const FlowId id : m_dirtyFlows)
    {
        if (m_flows[id].alive && m_flows[id].uses.empty())
        {
            m_flows[id].rate = m_flows[id].cap;
            m_changed.push_back(id);
        }
    }
    m_dirtyFlows.clear();

    // Everything that a changed link can influence at or above the lowest level that moves.
    m_component.clear();
    m_members.clear();
    m_caps.clear();
    for (const LinkId id : m_dirtyLinks)
    {
        LinkState& link = m_links[id];
        link.dirty = false;
        link.epoch = m_epoch;
        m_component.push_back(id);
        BoundByAdded(link);
    }
    m_dirtyLinks.clear();
    const double restart = m_restart * (1 - kSameLevel);
    m_restart = kNoLevel;
    for (std::size_t next = 0; next < m_component.size(); ++next)
    {
        LinkState& link = m_links[m_component[next]];
        TakeBack(link, restart);
        for (const Open& open : link.open)
        {
            Flow& flow = m_flows[open.flow];
            link.active += open.times * flow.weight;
            if (flow.epoch == m_epoch)
            {
                continue;
            }
            flow.epoch = m_epoch;
            flow.frozen = false;
            flow.before = flow.rate;
            m_members.push_back(open.flow);
            if (flow.capped)
            {
                m_caps.emplace_back(flow.cap / flow.weight, open.flow);
            }
            for (const LinkUse& use : flow.uses)
            {
                if (m_links[use.link].epoch != m_epoch)
                {
                    m_links[use.link].epoch = m_epoch;
                    m_component.push_back(use.link);
                }
            }
        }
    }
    Fill(restart);
    for (const LinkId id : m_component)
    {
        m_links[id].open.clear();
    }
    for (const FlowId id : m_members)
    {
        const Flow& flow = m_flows[id];
        if (flow.rate != flow.before)
        {
            m_changed.push_back(id);
        }
    }
    std::sort(m_changed.begin(), m_changed.end());
    m_free.insert(m_free.end(), m_removed.begin(), m_removed.end());
    m_removed.clear();
    return m_changed;
}

/** Raises the levels of the members from a floor, which only rounding could undercut, until all are frozen. */
void
MaxMin::Fill(double floor)
{
    // Levels at which links fill up only grow as flows are frozen, so an old level is a lower bound.
    const auto later = [](const std::pair<double, LinkId>& a, const std::pair<double, LinkId>& b) {
        return a > b;
    };
    m_heap.clear();
    for (const LinkId id : m_component)
    {
        if (m_links[id].activeFlows > 0)
        {
            m_heap.emplace_back(std::max(floor, m_links[id].left / m_links[id].active), id);
        }
    }
    std::make_heap(m_heap.begin(), m_heap.end(), later);
    std::sort(m_caps.begin(), m_caps.end());
    std::size_t cap = 0;
    const auto freezeCaps = [&](double level) {
        for (; cap < m_caps.size() && m_caps[cap].first <= level; ++cap)
        {
            if (!m_flows[m_caps[cap].second].frozen)
            {
                Freeze(m_caps[cap].second, m_caps[cap].first);
            }
        }
    };
    while (!m_heap.empty())
    {
        std::pop_heap(m_heap.begin(), m_heap.end(), later);
        const auto [old, id] = m_heap.back();
        m_heap.pop_back();
        LinkState& link = m_links[id];
        if (link.activeFlows == 0)
        {
            continue;
        }
        // Flows whose cap comes first are frozen before the link's level is settled.
        freezeCaps(old);
        if (link.activeFlows == 0)
        {
            continue;
        }
        const double level = link.left / link.active;
        if (level > old)
        {
            m_heap.emplace_back(level, id);
            std::push_heap(m_heap.begin(), m_heap.end(), later);
            continue;
        }
        for (const Open& open : link.open)
        {
            if (!m_flows[open.flow].frozen)
            {
                Freeze(open.flow, old);
            }
        }
    }
}

} // namespace topoopt
