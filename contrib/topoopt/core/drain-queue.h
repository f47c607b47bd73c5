// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_DRAIN_QUEUE_H
#define TOPOOPT_CORE_DRAIN_QUEUE_H

#include "topoopt/core/ids.h"
#include "topoopt/core/units.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace topoopt
{

/**
 * When flows will have drained, the earliest first, ties by job and number of the flow. A flow has one place whose time can
 * change: every start and end of a flow moves the times of all that share its links.
 */
class DrainQueue
{
  public:
    struct Drain
    {
        SimTime time = 0;
        std::uint32_t job = 0;
        std::uint32_t flow = 0;

        bool operator<(const Drain& other) const
        {
            if (time != other.time)
            {
                return time < other.time;
            }
            return job != other.job ? job < other.job : flow < other.flow;
        }
    };

    [[nodiscard]] bool Empty() const
    {
        return m_heap.empty();
    }

    [[nodiscard]] const Drain& Top() const
    {
        return m_heap.front();
    }

    /** To be followed by Restore(). @param changes  that are coming: many are cheaper together */
    void BeginChanges(std::size_t changes)
    {
        m_together = changes > m_heap.size() / 8;
    }

    void Set(const Drain& drain)
    {
        if (drain.flow >= m_at.size())
        {
            m_at.resize(std::size_t{drain.flow} + 1, kNoId);
        }
        std::uint32_t at = m_at[drain.flow];
        if (at == kNoId)
        {
            at = static_cast<std::uint32_t>(m_heap.size());
            m_heap.push_back(drain);
            m_at[drain.flow] = at;
        }
        m_heap[at] = drain;
        if (!m_together)
        {
            Place(at);
        }
    }

    void Restore()
    {
        for (std::size_t at = m_heap.size() / 2; m_together && at-- > 0;)
        {
            Down(static_cast<std::uint32_t>(at));
        }
        m_together = false;
    }

    void Pop()
    {
        m_at[m_heap.front().flow] = kNoId;
        const Drain last = m_heap.back();
        m_heap.pop_back();
        if (!m_heap.empty())
        {
            m_heap.front() = last;
            m_at[last.flow] = 0;
            Down(0);
        }
    }

  private:
    void Place(std::uint32_t at)
    {
        const Drain drain = m_heap[at];
        while (at > 0 && drain < m_heap[(at - 1) / 2])
        {
            m_heap[at] = m_heap[(at - 1) / 2];
            m_at[m_heap[at].flow] = at;
            at = (at - 1) / 2;
        }
        m_heap[at] = drain;
        m_at[drain.flow] = at;
        Down(at);
    }

    void Down(std::uint32_t at)
    {
        const Drain drain = m_heap[at];
        for (std::size_t child = 2 * std::size_t{at} + 1; child < m_heap.size();
             child = 2 * std::size_t{at} + 1)
        {
            child += child + 1 < m_heap.size() && m_heap[child + 1] < m_heap[child] ? 1 : 0;
            if (!(m_heap[child] < drain))
            {
                break;
            }
            m_heap[at] = m_heap[child];
            m_at[m_heap[at].flow] = at;
            at = static_cast<std::uint32_t>(child);
        }
        m_heap[at] = drain;
        m_at[drain.flow] = at;
    }

    std::vector<Drain> m_heap;
    std::vector<std::uint32_t> m_at; ///< by flow; kNoId = none
    bool m_together = false;
};

} // namespace topoopt

#endif // TOPOOPT_CORE_DRAIN_QUEUE_H
