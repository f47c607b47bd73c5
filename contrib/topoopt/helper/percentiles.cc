// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/percentiles.h"

#include <algorithm>
#include <cmath>

namespace topoopt
{

namespace
{

constexpr unsigned kBits = 12; ///< buckets per power of two: 2^12

std::size_t
BucketOf(SimTime value)
{
    const auto v = static_cast<std::uint64_t>(value);
    unsigned shift = 0;
    while ((v >> shift) >> (kBits + 1) != 0)
    {
        ++shift;
    }
    return (std::size_t{shift} << kBits) + static_cast<std::size_t>(v >> shift);
}

/** Largest value of a bucket. */
SimTime
TopOf(std::size_t bucket)
{
    std::uint64_t shift = bucket >> kBits;
    std::uint64_t mantissa = bucket & ((1U << kBits) - 1);
    if (shift > 0)
    {
        // Mantissas of all but the first range lie in [2^kBits, 2^(kBits+1)).
        shift -= 1;
        mantissa += std::uint64_t{1} << kBits;
    }
    return static_cast<SimTime>(((mantissa + 1) << shift) - 1);
}

} // namespace

void
Percentiles::Add(SimTime value)
{
    ++m_count;
    m_max = std::max(m_max, value);
    if (m_count <= kExact)
    {
        m_values.push_back(value);
        return;
    }
    if (!m_values.empty())
    {
        for (SimTime old : m_values)
        {
            Bucket(old);
        }
        m_values.clear();
        m_values.shrink_to_fit();
    }
    Bucket(value);
}

void
Percentiles::Bucket(SimTime value)
{
    const std::size_t bucket = BucketOf(value);
    if (bucket >= m_buckets.size())
    {
        m_buckets.resize(bucket + 1);
    }
    ++m_buckets[bucket];
}

SimTime
Percentiles::At(double percent) const
{
    const std::uint64_t all = m_count + m_unfinished;
    if (all == 0)
    {
        return 0;
    }
    const auto rank =
        static_cast<std::uint64_t>(std::clamp(std::ceil(percent / 100.0 * static_cast<double>(all)),
                                              1.0,
                                              static_cast<double>(all)));
    if (rank > m_count)
    {
        return kNever;
    }
    if (!m_values.empty())
    {
        std::sort(m_values.begin(), m_values.end());
        return m_values[rank - 1];
    }
    std::uint64_t seen = 0;
    for (std::size_t bucket = 0; bucket < m_buckets.size(); ++bucket)
    {
        seen += m_buckets[bucket];
        if (seen >= rank)
        {
            return std::min(TopOf(bucket), m_max);
        }
    }
    return m_max;
}

} // namespace topoopt
