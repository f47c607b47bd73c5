// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_FLEXNET_ORDER_H
#define TOPOOPT_FLEXNET_ORDER_H

#include "topoopt/core/ids.h"
#include "topoopt/core/units.h"

#include <array>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

namespace topoopt
{

/**
 * Place of an event among those of the same time.
 *
 * The reference runs simultaneous events in order of insertion. An event is inserted while another one, its
 * parent, runs; so the order of two simultaneous events is that of their insertion times, then that of their
 * parents. Written down this way it is known without running every event in between.
 */
struct FlexNetRank
{
    SimTime inserted = 0;
    SimTime parentInserted = 0;
    std::uint64_t parentWord = 0; ///< orders parents that were inserted at the same time
    std::uint64_t child = 0;      ///< orders the children of one parent

    friend bool operator<(const FlexNetRank& a, const FlexNetRank& b)
    {
        if (a.inserted != b.inserted)
        {
            return a.inserted < b.inserted;
        }
        return std::tie(a.parentInserted, a.parentWord, a.child) <
               std::tie(b.parentInserted, b.parentWord, b.child);
    }
};

/**
 * Pending events by (time, rank) over numbered slots, each of which holds at most one event; a slot's event
 * can be moved or taken out.
 *
 * Two kinds of storage: a 4-ary heap of 16-byte entries, and lines, one per offset, for events that are due that
 * long after the event that inserts them. These come in order, so a line is a FIFO. Cost: O(lines) to find
 * the next one, O(log4 n) comparisons in the heap, O(1) in a line.
 */
class FlexNetOrder
{
  public:
    struct Entry
    {
        SimTime time = kNever;
        std::uint32_t slot = kNoId;
        std::uint32_t version = 0; ///< in a line: of the slot when it was inserted
    };

    static constexpr unsigned kHeap = 0; ///< the line number of everything else
    static constexpr unsigned kMaxLines = 10;

    /** The line of an offset; kHeap if there are too many. */
    unsigned LineOf(SimTime offset)
    {
        for (unsigned line = 1; line < m_lineCount; ++line)
        {
            if (m_lines[line].offset == offset)
            {
                return line;
            }
        }
        if (m_lineCount == kMaxLines)
        {
            return kHeap;
        }
        m_lines[m_lineCount].offset = offset;
        return m_lineCount++;
    }

    /** The next event; its time is kNever if there is none. */
    [[nodiscard]] Entry Top() const
    {
        Entry best = m_entries.empty() ? Entry() : m_entries.front();
        for (unsigned line = 1; line < m_lineCount; ++line)
        {
            const Entry& head = m_lines[line].first;
            if (head.time <= best.time && head.slot != kNoId &&
                (head.time < best.time || m_ranks[head.slot] < m_ranks[best.slot]))
            {
                best = head;
            }
        }
        return best;
    }

    [[nodiscard]] const FlexNetRank& Rank(std::uint32_t slot) const
    {
        return m_ranks[slot];
    }

    [[nodiscard]] bool Has(std::uint32_t slot) const
    {
        return slot < m_positions.size() && m_positions[slot] != kNoId;
    }

    /** Makes slots 0..count-1 known. */
    void Reserve(std::uint32_t count)
    {
        if (count > m_positions.size())
        {
            m_positions.resize(count, kNoId);
            m_ranks.resize(count);
            m_versions.resize(count);
        }
    }

    /** Sets the event of a slot, replacing the one that it has. */
    void Set(std::uint32_t slot, SimTime time, const FlexNetRank& rank)
    {
        Remove(slot);
        m_ranks[slot] = rank;
        m_entries.push_back({time, slot, 0});
        Rise(static_cast<std::uint32_t>(m_entries.size() - 1), m_entries.back());
    }

    /**
     * The same for an event that is inserted by the one that is run now.
     * @pre @p time is now plus the offset of @p line, and this is in order of rank
     */
    void SetInLine(unsigned line, std::uint32_t slot, SimTime time, const FlexNetRank& rank)
    {
        if (line == kHeap)
        {
            Set(slot, time, rank);
            return;
        }
        Remove(slot);
        m_ranks[slot] = rank;
        m_positions[slot] = kFirstLine + line;
        Line& to = m_lines[line];
        const Entry entry{time, slot, m_versions[slot]};
        if (to.first.slot == kNoId)
        {
            to.first = entry;
            return;
        }
        if (to.tail - to.head == to.ring.size())
        {
            to.Grow();
        }
        to.ring[to.tail & (to.ring.size() - 1)] = entry;
        ++to.tail;
    }

    void Remove(std::uint32_t slot)
    {
        const std::uint32_t hole = m_positions[slot];
        if (hole == kNoId)
        {
            return;
        }
        m_positions[slot] = kNoId;
        if (hole > kFirstLine)
        {
            ++m_versions[slot];
            Line& from = m_lines[hole - kFirstLine];
            while (from.first.slot != kNoId && from.first.version != m_versions[from.first.slot])
            {
                from.Pop();
            }
            return;
        }
        const Entry last = m_entries.back();
        m_entries.pop_back();
        if (hole == m_entries.size())
        {
            return;
        }
        if (hole > 0 && Before(last, m_entries[(hole - 1) / 4]))
        {
            Rise(hole, last);
        }
        else
        {
            Sink(hole, last);
        }
    }

  private:
    /** Positions above this are lines. */
    static constexpr std::uint32_t kFirstLine = kNoId - 1 - kMaxLines;

    struct Line
    {
        SimTime offset = 0;
        Entry first;
        std::uint32_t head = 0; ///< after the first
        std::uint32_t tail = 0;
        std::vector<Entry> ring = std::vector<Entry>(16); ///< a power of two

        void Pop()
        {
            first = head == tail ? Entry() : ring[head++ & (ring.size() - 1)];
        }

        void Grow()
        {
            std::vector<Entry> larger(2 * ring.size());
            for (std::uint32_t i = 0; head + i != tail; ++i)
            {
                larger[i] = ring[(head + i) & (ring.size() - 1)];
            }
            tail -= head;
            head = 0;
            ring = std::move(larger);
        }
    };

    [[nodiscard]] bool Before(const Entry& a, const Entry& b) const
    {
        return a.time != b.time ? a.time < b.time : m_ranks[a.slot] < m_ranks[b.slot];
    }

    void Place(std::uint32_t hole, const Entry& entry)
    {
        m_entries[hole] = entry;
        m_positions[entry.slot] = hole;
    }

    void Rise(std::uint32_t hole, Entry entry)
    {
        while (hole > 0)
        {
            const std::uint32_t parent = (hole - 1) / 4;
            if (!Before(entry, m_entries[parent]))
            {
                break;
            }
            Place(hole, m_entries[parent]);
            hole = parent;
        }
        Place(hole, entry);
    }

    void Sink(std::uint32_t hole, Entry entry)
    {
        const auto size = static_cast<std::uint32_t>(m_entries.size());
        for (;;)
        {
            const std::uint32_t first = 4 * hole + 1;
            if (first >= size)
            {
                break;
            }
            std::uint32_t least = first;
            const std::uint32_t end = first + 4 < size ? first + 4 : size;
            for (std::uint32_t child = first + 1; child < end; ++child)
            {
                if (Before(m_entries[child], m_entries[least]))
                {
                    least = child;
                }
            }
            if (!Before(m_entries[least], entry))
            {
                break;
            }
            Place(hole, m_entries[least]);
            hole = least;
        }
        Place(hole, entry);
    }

    std::vector<Entry> m_entries;
    std::array<Line, kMaxLines> m_lines;
    unsigned m_lineCount = 1;
    std::vector<std::uint32_t>
        m_positions;                       ///< by slot: in the heap, or a line; kNoId: has no event
    std::vector<std::uint32_t> m_versions; ///< by slot
    std::vector<FlexNetRank> m_ranks;      ///< by slot
};

} // namespace topoopt

#endif // TOPOOPT_FLEXNET_ORDER_H
