// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_STOPWATCH_H
#define TOPOOPT_STOPWATCH_H

#include <chrono>

namespace topoopt
{

/** Wall time since it was made. */
class Stopwatch
{
  public:
    [[nodiscard]] double Seconds() const
    {
        return std::chrono::duration<double>(Clock::now() - m_start).count();
    }

  private:
    using Clock = std::chrono::steady_clock;

    Clock::time_point m_start = Clock::now();
};

} // namespace topoopt

#endif // TOPOOPT_STOPWATCH_H
