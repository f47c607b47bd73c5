// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/progress.h"

#include <cstdio>

namespace topoopt
{

ProgressLine::ProgressLine(bool enabled, std::string title)
    : m_enabled(enabled),
      m_title(std::move(title)),
      m_start(Clock::now()),
      m_last(m_start)
{
}

ProgressLine::~ProgressLine()
{
    if (m_shown)
    {
        std::fputs("\r\033[K", stderr);
        std::fflush(stderr);
    }
}

void
ProgressLine::Update(double done, SimTime now, std::uint64_t events)
{
    if (!m_enabled)
    {
        return;
    }
    const Clock::time_point clock = Clock::now();
    if (clock - m_last < std::chrono::milliseconds(200))
    {
        return;
    }
    m_last = clock;
    m_shown = true;
    const double seconds = std::chrono::duration<double>(clock - m_start).count();
    char eta[32] = "";
    if (done > 0.001)
    {
        std::snprintf(eta, sizeof eta, ", %.0f s left", seconds * (1 - done) / done);
    }
    std::fprintf(stderr,
                 "\r\033[K%s: %.1f %%, %.6f ms simulated, %.2f M events/s%s",
                 m_title.c_str(),
                 100 * done,
                 static_cast<double>(now) / 1e9,
                 static_cast<double>(events) / seconds / 1e6,
                 eta);
    std::fflush(stderr);
}

} // namespace topoopt
