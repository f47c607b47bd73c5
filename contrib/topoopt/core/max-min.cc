// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/max-min.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace topoopt
{

MaxMin::MaxMin(std::vector<double> capacities)
    : m_links(capacities.size())
{
    for (std::size_t i = 0; i < capacities.size(); ++i)
    {
        m_links[i].capacity = capacities[i];
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
    flow.weight = weight;
    flow.cap = cap;
    flow.rate = 0;
    flow.alive = true;
    flow.frozen = true;
    flow.uses.clear();
    flow.capped = std::isfinite(cap);
    for (const LinkUse& use : uses)
    {
        LinkState& link = m_links[use.link];
        // A link that cannot carry more than the cap makes it superfluous.
        flow.capped = flow.capped && cap * use.times < link.capacity;
        flow.uses.push_back({use.link, use.times, static_cast<std::uint32_t>(link.entries.size())});
        link.entries.push_back({id, static_cast<std::uint32_t>(flow.uses.size() - 1)});
        MarkLink(use.link);
    }
    if (uses.empty())
    {
        m_dirtyFlows.push_back(id);
    }
    return id;
}

void
MaxMin::Remove(FlowId id)
{
    Flow& flow = m_flows[id];
    for (const Use& use : flow.uses)
    {
        LinkState& link = m_links[use.link];
        const Entry moved = link.entries.back();
        link.entries[use.position] = moved;
        m_flows[moved.flow].uses[moved.use].position = use.position;
        link.entries.pop_back();
        MarkLink(use.link);
    }
    flow.uses.clear();
    flow.alive = false;
    flow.rate = 0;
    m_free.push_back(id);
}

void
MaxMin::Freeze(FlowId id, double level)
{
    Flow& flow = m_flows[id];
    flow.frozen = true;
    flow.rate = std::min(flow.cap, flow.weight * level);
    for (const Use& use : flow.uses)
    {
        LinkState& link = m_links[use.link];
        link.left = std::max(0.0, link.left - use.times * flow.rate);
        link.active -= use.times * flow.weight;
        --link.activeFlows;
    }
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

    // Everything that a changed link can influence.
    m_component.clear();
    m_members.clear();
    for (const LinkId link : m_dirtyLinks)
    {
        m_links[link].dirty = false;
        if (m_links[link].epoch != m_epoch)
        {
            m_links[link].epoch = m_epoch;
            m_component.push_back(link);
        }
    }
    m_dirtyLinks.clear();
    m_caps.clear();
    for (std::size_t next = 0; next < m_component.size(); ++next)
    {
        LinkState& link = m_links[m_component[next]];
        link.left = link.capacity;
        link.active = 0;
        link.activeFlows = static_cast<std::uint32_t>(link.entries.size());
        for (const Entry& entry : link.entries)
        {
            Flow& flow = m_flows[entry.flow];
            link.active += flow.uses[entry.use].times * flow.weight;
            if (flow.epoch == m_epoch)
            {
                continue;
            }
            flow.epoch = m_epoch;
            flow.frozen = false;
            flow.before = flow.rate;
            m_members.push_back(entry.flow);
            if (flow.capped)
            {
                m_caps.emplace_back(flow.cap / flow.weight, entry.flow);
            }
            for (const Use& use : flow.uses)
            {
                if (m_links[use.link].epoch != m_epoch)
                {
                    m_links[use.link].epoch = m_epoch;
                    m_component.push_back(use.link);
                }
            }
        }
    }

    // Levels at which links fill up only grow as flows are frozen, so an old level is a lower bound.
    const auto later = [](const std::pair<double, LinkId>& a, const std::pair<double, LinkId>& b) {
        return a > b;
    };
    m_heap.clear();
    for (const LinkId id : m_component)
    {
        if (m_links[id].activeFlows > 0)
        {
            m_heap.emplace_back(m_links[id].left / m_links[id].active, id);
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
        for (const Entry& entry : link.entries)
        {
            if (!m_flows[entry.flow].frozen)
            {
                Freeze(entry.flow, old);
            }
        }
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
    return m_changed;
}

} // namespace topoopt
