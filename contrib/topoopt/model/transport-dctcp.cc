// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/transport.h"

#include <algorithm>

namespace topoopt
{

namespace
{

/**
 * DCTCP (Alizadeh et al., SIGCOMM 2010; RFC 8257): once per round trip alpha = (1-g) alpha + g F with g = 1/16
 * and F the marked fraction, and on marks window *= 1 - alpha/2.
 *
 * Deviations: a message starts with the full window of its idle path instead of slow start, and the window
 * grows by cap/16 (at least one packet) per round trip without marks, never beyond the cap: a training
 * message lives for few round trips, and a window above the cap could only fill queues.
 */
class Dctcp final : public CongestionControl
{
  public:
    void Start(SenderState& sender) const override
    {
        sender.roundEnd = 0;
        sender.cutEnd = 0;
        sender.alpha = kWindowUnit;
    }

    void Acknowledged(SenderState& sender, AckReport report) const override
    {
        sender.roundPackets += report.packets;
        sender.roundMarked += report.marked;
        if (sender.acked >= sender.roundEnd)
        {
            if (sender.roundPackets > 0)
            {
                const std::uint64_t fraction =
                    kWindowUnit * sender.roundMarked / sender.roundPackets;
                sender.alpha = static_cast<std::uint32_t>((15 * sender.alpha + fraction) / 16);
            }
            sender.roundPackets = 0;
            sender.roundMarked = 0;
            sender.roundEnd = sender.sent;
        }
        if (report.marked > 0)
        {
            if (sender.acked > sender.cutEnd)
            {
                sender.window -= sender.window * sender.alpha / (2 * kWindowUnit);
                sender.window = std::max(sender.window, kWindowUnit);
                sender.cutEnd = sender.sent;
            }
            return;
        }
        const std::uint64_t perRound = std::max<std::uint64_t>(kWindowUnit, sender.cap / 16);
        sender.window += report.packets * perRound * kWindowUnit / sender.window;
        sender.window = std::min(sender.window, sender.cap);
    }

    void Lost(SenderState& sender) const override
    {
        sender.window = std::max(sender.window / 2, kWindowUnit);
        sender.cutEnd = sender.sent;
    }

    void TimedOut(SenderState& sender) const override
    {
        sender.window = kWindowUnit;
        sender.cutEnd = sender.sent;
    }
};

} // namespace

const CongestionControl&
DctcpControl()
{
    static const Dctcp control;
    return control;
}

} // namespace topoopt
