// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_PERCENTILES_H
#define TOPOOPT_PERCENTILES_H

#include "topoopt/core/units.h"

#include <cstdint>
#include <vector>

namespace topoopt
{

/**
 * Nearest-rank percentiles of a stream of durations in bounded memory.
 *
 * Exact for up to kExact values; beyond that values are counted in buckets whose width is 1/4096 of their
 * value, so that a percentile is at most 0.03 % too high. The maximum is always exact.
 */
class Percentiles
{
  public:
    static constexpr std::size_t kExact = 1U << 16;

    void Add(SimTime value);

    /** A value that is longer than all others: it had not ended. */
    void AddUnfinished()
    {
        ++m_unfinished;
    }

    /** Finished ones. */
    [[nodiscard]] std::uint64_t Count() const
    {
        return m_count;
    }

    [[nodiscard]] SimTime Max() const
    {
        return m_max;
    }

    /**
     * The smallest value that at least @p percent of all values do not exceed; kNever if that is one which has not
     * ended, 0 if there are no values.
     */
    [[nodiscard]] SimTime At(double percent) const;

  private:
    void Bucket(SimTime value);

    std::uint64_t m_count = 0;
    std::uint64_t m_unfinished = 0;
    SimTime m_max = 0;
    mutable std::vector<SimTime> m_values; ///< until kExact; sorted when asked
    std::vector<std::uint64_t> m_buckets;
};

} // namespace topoopt

#endif // TOPOOPT_PERCENTILES_H
