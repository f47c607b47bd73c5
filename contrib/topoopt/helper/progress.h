// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_PROGRESS_H
#define TOPOOPT_PROGRESS_H

#include "topoopt/core/units.h"

#include <chrono>
#include <cstdint>
#include <string>

namespace topoopt
{

/** One line on stderr, rewritten at most five times per second and wiped at the end. */
class ProgressLine
{
  public:
    ProgressLine(bool enabled, std::string title);
    ~ProgressLine();
    ProgressLine(const ProgressLine&) = delete;
    ProgressLine& operator=(const ProgressLine&) = delete;

    /** @p done of 1; @p now in simulated time; @p events so far. */
    void Update(double done, SimTime now, std::uint64_t events);

  private:
    using Clock = std::chrono::steady_clock;

    bool m_enabled;
    bool m_shown = false;
    std::string m_title;
    Clock::time_point m_start;
    Clock::time_point m_last;
};

} // namespace topoopt

#endif // TOPOOPT_PROGRESS_H
