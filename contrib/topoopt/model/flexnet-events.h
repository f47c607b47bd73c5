// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_FLEXNET_EVENTS_H
#define TOPOOPT_FLEXNET_EVENTS_H

#include "ns3/event-heap.h"
#include "topoopt/core/units.h"

#include <array>
#include <cstdint>
#include <vector>

namespace topoopt
{

/**
 * Pending events in order of (time, insertion), which is the reference simulator's order.
 *
 * Nearly every event of a packet network is due a fixed time after its insertion: the transmission of a
 * full packet, the propagation delay. Events of one such offset are inserted in the order in which they are due,
 * so each offset has a plain FIFO, a line; everything else is in a heap. The next event is the least of the
 * lines' heads and the heap's. Insertion and removal in a line cost O(1), finding the next O(lines).
 */
class FlexNetEvents
{
  public:
    using Entry = EventHeap::Entry; // key: order of insertion, then what it is

    static constexpr unsigned kIndexBits = 24;
    static constexpr std::uint32_t kMaxIndex = (1U << kIndexBits) - 1;
    static constexpr unsigned kHeap = 0; ///< the line number of everything that has no line

    /** @p entries: the most that one line ever holds. */
    explicit FlexNetEvents(std::uint32_t entries)
    {
        std::uint32_t capacity = 1;
        while (capacity <= entries)
        {
            capacity *= 2;
        }
        m_mask = capacity - 1;
        m_heads.fill(kNone);
    }

    /** The line of events due @p offset after their insertion; kHeap if there are too many offsets. */
    unsigned LineOf(SimTime offset)
    {
        for (unsigned line = 1; line < m_lines; ++line)
        {
            if (m_line[line].offset == offset)
            {
                return line;
            }
        }
        if (m_lines == kMaxLines)
        {
            return kHeap;
        }
        m_line[m_lines].offset = offset;
        m_line[m_lines].entries.resize(std::size_t{m_mask} + 1);
        m_line[m_lines].entries[0] = kNone;
        return m_lines++;
    }

    /** Inserts event @p index at @p time = now + offset of @p line; any time not before now if kHeap. */
    void Push(unsigned line, SimTime time, std::uint32_t index)
    {
        const Entry entry{time, m_sequence++ << kIndexBits | index};
        Line& to = m_line[line];
        // The clock steps back for messages without predecessors, as the reference's does: they were ready
        // at 0, whatever the time of their event.
        if (line == kHeap || time < to.last)
        {
            m_heap.Push(entry);
            m_heads[kHeap] = m_heap.Top();
            return;
        }
        to.last = time;
        if (to.head == to.tail)
        {
            m_heads[line] = entry;
        }
        to.entries[to.tail & m_mask] = entry;
        ++to.tail;
        to.entries[to.tail & m_mask] = kNone;
    }

    /** The line whose head is the next event. */
    [[nodiscard]] unsigned Next() const
    {
        unsigned best = 0;
        Entry least = m_heads[0];
        for (unsigned line = 1; line < m_lines; ++line)
        {
            const Entry& head = m_heads[line];
            const bool before = static_cast<bool>(static_cast<int>(head.time < least.time) |
                                                  (static_cast<int>(head.time == least.time) &
                                                   static_cast<int>(head.key < least.key)));
            best = before ? line : best;
            least = before ? head : least;
        }
        return best;
    }

    /** Head of a line; its time is kNever if the line is empty. */
    [[nodiscard]] const Entry& Head(unsigned line) const
    {
        return m_heads[line];
    }

    void Pop(unsigned line)
    {
        if (line == kHeap)
        {
            m_heap.Pop();
            m_heads[kHeap] = m_heap.Empty() ? kNone : m_heap.Top();
            return;
        }
        Line& from = m_line[line];
        ++from.head;
        m_heads[line] = from.entries[from.head & m_mask];
    }

    [[nodiscard]] static std::uint32_t IndexOf(const Entry& entry)
    {
        return static_cast<std::uint32_t>(entry.key) & kMaxIndex;
    }

  private:
    static constexpr unsigned kMaxLines = 10; ///< the heap included
    static constexpr Entry kNone{kNever, UINT64_MAX};

    struct Line
    {
        SimTime offset = 0;
        SimTime last = 0; ///< the latest time that was pushed
        std::uint32_t head = 0;
        std::uint32_t tail = 0;
        std::vector<Entry> entries; ///< a ring; kNone follows the last one
    };

    std::array<Entry, kMaxLines> m_heads{};
    unsigned m_lines = 1;
    std::uint32_t m_mask = 0;
    std::uint64_t m_sequence = 0;
    std::array<Line, kMaxLines> m_line;
    EventHeap m_heap;
};

} // namespace topoopt

#endif // TOPOOPT_FLEXNET_EVENTS_H
