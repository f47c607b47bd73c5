// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_FLEXNET_ORDER_H
#define TOPOOPT_FLEXNET_ORDER_H

#include "topoopt/core/ids.h"
#include "topoopt/core/units.h"

#include <cstdint>
#include <tuple>
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
 * Pending events by (time, rank): a 4-ary heap of 16-byte entries over numbered slots, each of which holds
 * at most one event; a slot's event can be moved or taken out. Cost: O(log4 n) comparisons.
 */
class FlexNetOrder
{
  public:
    [[nodiscard]] bool Empty() const
    {
        return m_entries.empty();
    }

    [[nodiscard]] SimTime TopTime() const
    {
        return m_entries.front().time;
    }

    [[nodiscard]] std::uint32_t TopSlot() const
    {
        return m_entries.front().slot;
    }

    [[nodiscard]] const FlexNetRank& Rank(std::uint32_t slot) const
    {
        return m_ranks[slot];
    }

    [[nodiscard]] bool Has(std::uint32_t slot) const
    {
        return slot < m_positions.size() && m_positions[slot] != kNoId;
    }

    [[nodiscard]] SimTime TimeOf(std::uint32_t slot) const
    {
        return m_entries[m_positions[slot]].time;
    }

    /** Makes slots 0..count-1 known. */
    void Reserve(std::uint32_t count)
    {
        if (count > m_positions.size())
        {
            m_positions.resize(count, kNoId);
            m_ranks.resize(count);
        }
    }

    /** Sets the event of a slot, replacing the one that it has. */
    void Set(std::uint32_t slot, SimTime time, const FlexNetRank& rank)
    {
        Remove(slot);
        m_ranks[slot] = rank;
        m_entries.push_back({time, slot});
        Rise(static_cast<std::uint32_t>(m_entries.size() - 1), {time, slot});
    }

    void Remove(std::uint32_t slot)
    {
        const std::uint32_t hole = m_positions[slot];
        if (hole == kNoId)
        {
            return;
        }
        m_positions[slot] = kNoId;
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
    struct Entry
    {
        SimTime time;
        std::uint32_t slot;
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
    std::vector<std::uint32_t> m_positions; ///< by slot; kNoId: has no event
    std::vector<FlexNetRank> m_ranks;       ///< by slot
};

} // namespace topoopt

#endif // TOPOOPT_FLEXNET_ORDER_H
