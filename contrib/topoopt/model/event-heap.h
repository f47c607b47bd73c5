// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_EVENT_HEAP_H
#define TOPOOPT_EVENT_HEAP_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace topoopt
{

/**
 * Pending events of the packet engine: a 4-ary implicit heap of 16-byte entries ordered by (time, key).
 *
 * The key says what the event is, so the order of simultaneous events depends on what they are and never
 * on when they were inserted. Four children share a cache line; an entry is never cancelled: whoever handles
 * it recognises one that is out of date. Push and pop cost O(log4 n) comparisons.
 */
class EventHeap
{
  public:
    struct Entry
    {
        std::int64_t time;
        std::uint64_t key;
    };

    [[nodiscard]] bool Empty() const
    {
        return m_entries.empty();
    }

    [[nodiscard]] std::size_t Size() const
    {
        return m_entries.size();
    }

    /** The earliest entry. @pre not empty */
    [[nodiscard]] const Entry& Top() const
    {
        return m_entries.front();
    }

    /** What comes after the top as things stand; null if there is nothing. */
    [[nodiscard]] const Entry* Second() const
    {
        return m_entries.size() > 1 ? &m_entries[LeastFrom(1)] : nullptr;
    }

    void Push(Entry entry)
    {
        std::size_t hole = m_entries.size();
        m_entries.push_back(entry);
        while (hole > 0)
        {
            const std::size_t parent = (hole - 1) / 4;
            if (!Before(entry, m_entries[parent]))
            {
                break;
            }
            m_entries[hole] = m_entries[parent];
            hole = parent;
        }
        m_entries[hole] = entry;
    }

    void Pop()
    {
        const Entry last = m_entries.back();
        m_entries.pop_back();
        if (!m_entries.empty())
        {
            SinkFromTop(last);
        }
    }

    /** Pop() and Push(@p entry) in one pass. */
    void ReplaceTop(Entry entry)
    {
        SinkFromTop(entry);
    }

  private:
    static bool Before(const Entry& a, const Entry& b)
    {
        return a.time < b.time || (a.time == b.time && a.key < b.key);
    }

    /** The earliest of the siblings that begin at @p first. @pre there is one */
    [[nodiscard]] std::size_t LeastFrom(std::size_t first) const
    {
        const Entry* const entries = m_entries.data();
        const std::size_t size = m_entries.size();
        std::size_t least = first;
        const std::size_t end = first + 4 < size ? first + 4 : size;
        for (std::size_t child = first + 1; child < end; ++child)
        {
            least = Before(entries[child], entries[least]) ? child : least;
        }
        return least;
    }

    void SinkFromTop(Entry entry)
    {
        Entry* const entries = m_entries.data();
        const std::size_t size = m_entries.size();
        std::size_t hole = 0;
        for (;;)
        {
            const std::size_t first = 4 * hole + 1;
            if (first >= size)
            {
                break;
            }
            const std::size_t least = LeastFrom(first);
            if (!Before(entries[least], entry))
            {
                break;
            }
            entries[hole] = entries[least];
            hole = least;
        }
        entries[hole] = entry;
    }

    std::vector<Entry> m_entries;
};

} // namespace topoopt

#endif // TOPOOPT_EVENT_HEAP_H
