// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_TRANSPORT_H
#define TOPOOPT_TRANSPORT_H

#include "topoopt/core/units.h"

#include <cstdint>
#include <string>
#include <vector>

namespace topoopt
{

/** Windows are counted in 1/1024 packet, so that additive increase needs no floating point. */
inline constexpr std::uint64_t kWindowUnit = 1024;

/** What a congestion control keeps per message, besides what every sender has. */
struct SenderState
{
    std::uint64_t window = 0;   ///< packets that may be unacknowledged, in 1/kWindowUnit
    std::uint64_t cap = 0;      ///< never exceeded; fills the path even if the receiver sends, too
    std::uint32_t sent = 0;     ///< next packet number to send
    std::uint32_t acked = 0;    ///< all packets below are acknowledged
    std::uint32_t roundEnd = 0; ///< a round trip ends when this packet is acknowledged
    std::uint32_t cutEnd = 0;   ///< no second cut for marks of the same round trip
    std::uint32_t roundPackets = 0;
    std::uint32_t roundMarked = 0;
    std::uint32_t alpha = kWindowUnit; ///< smoothed marked fraction, in 1/kWindowUnit
};

/** What one acknowledgement reports. */
struct AckReport
{
    std::uint32_t packets; ///< data packets it stands for
    std::uint32_t marked;  ///< of these, with congestion experienced
};

/**
 * A congestion control: how a sender's window answers acknowledgements and losses.
 *
 * Everything else (packets, acknowledgements, repair by going back to the first missing packet, timers) is
 * the same for all and lives in PacketNetwork. Stateless; state is in SenderState. Called once per
 * acknowledgement, never per packet.
 */
class CongestionControl
{
  public:
    virtual ~CongestionControl() = default;

    /** A message starts; the window is set to what fills the idle path, the cap to its limit. */
    virtual void Start(SenderState& sender) const = 0;
    /** Acknowledged up to sender.acked; may change the window. */
    virtual void Acknowledged(SenderState& sender, AckReport report) const = 0;
    /** A packet was lost and the receiver said so. */
    virtual void Lost(SenderState& sender) const = 0;
    /** Nothing was acknowledged for a whole retransmission timeout. */
    virtual void TimedOut(SenderState& sender) const = 0;
};

/** One entry of the table of transports. */
struct TransportKind
{
    const char* name; ///< as in `engine.transport`
    const char* help; ///< one line for `topoopt list`
    const CongestionControl& (*control)();
};

/** All transports, sorted by name. Adding one: a file transport-NAME.cc, its declaration and its entry. */
[[nodiscard]] const std::vector<TransportKind>& TransportKinds();

/** @throws SpecError naming @p place for an unknown name */
[[nodiscard]] const CongestionControl& FindTransport(const std::string& name,
                                                     const std::string& place);

const CongestionControl& DctcpControl();
const CongestionControl& FixedWindowControl();

} // namespace topoopt

#endif // TOPOOPT_TRANSPORT_H
