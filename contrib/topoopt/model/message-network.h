// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_MESSAGE_NETWORK_H
#define TOPOOPT_MESSAGE_NETWORK_H

#include "topoopt/core/ids.h"
#include "topoopt/core/routing.h"
#include "topoopt/core/units.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace topoopt
{

/** Instead of a route: the message waits at its source until Reroute() gives it one. */
inline constexpr std::uint32_t kParked = kNoId;

/**
 * Sends messages one after the other: each begins when the last packet of the one before has been handed to the NIC.
 *
 * Owned by whoever sends; stays where it is until all its messages have been delivered.
 */
struct QueuePair
{
    void* last = nullptr; ///< the network's own: message that has not been sent whole
};

/** What an executor asks a network to carry. */
struct Message
{
    ServerId src = 0;
    ServerId dst = 0;
    Bytes bytes = 0;          ///< payload; 0 = a message that only synchronises
    std::uint32_t route = 0;  ///< what AddRoute() answered, or kParked; ignored when src == dst
    std::uint64_t cookie = 0; ///< the executor's own
    QueuePair* queuePair = nullptr; ///< null: waits for no other message
};

/** A message under way, delivered or given up; one row of flows.csv. */
struct MessageRecord
{
    std::uint64_t id = 0; ///< 0, 1, ... in order of start
    Message message;
    SimTime start = 0;                ///< handed to the transport
    SimTime end = kNever;             ///< last byte delivered
    SimTime acknowledged = kNever;    ///< the sender knew
    SimTime ideal = 0;                ///< duration alone in an empty network along the same path
    std::uint32_t hops = 0;           ///< 0 = inside one server
    std::uint32_t sourceLink = kNoId; ///< first link; tells the NIC
    const LinkId* path =
        nullptr; ///< its links, ends with kNoId; valid while the network is; null: inside a server
    std::uint64_t retransmits = 0; ///< data packets sent again
    Bytes delivered = 0;           ///< payload in order at the receiver
};

/** The executor's side of a network. */
class NetworkListener
{
  public:
    virtual ~NetworkListener() = default;

    /** Delivered() may follow soon: what it needs may be fetched. No effect but on speed. */
    virtual void Expect(std::uint64_t /*cookie*/)
    {
    }

    /** The last byte of a message has arrived. May start messages. */
    virtual void Delivered(const MessageRecord& record) = 0;
    /** A message is over for both ends; nothing refers to it any more. */
    virtual void Finished(const MessageRecord& record) = 0;
    /** The time asked for with CallAt() has come. May start messages. */
    virtual void Due(std::uint64_t cookie) = 0;
};

/** Whether light passes a link. */
enum class LinkState : std::uint8_t
{
    Up,
    Dark, ///< by plan: its circuit is being changed, or there is none
    Down  ///< by failure
};

/** What one link has carried. */
struct LinkCounters
{
    std::uint64_t packets = 0; ///< put on the link: data and acknowledgements
    Bytes bytes = 0;           ///< on the wire, all headers, preamble and gap
    std::uint64_t drops = 0;   ///< for all causes
    std::uint64_t marks = 0;
    SimTime busy = 0;
    SimTime maxBacklog =
        0; ///< longest wait that a packet met on joining the queue, the packet in service included
};

/** Totals of a run. */
struct NetworkTotals
{
    std::uint64_t messages = 0;
    std::uint64_t unfinished = 0;
    Bytes askedBytes = 0;     ///< payload of all messages between servers
    Bytes deliveredBytes = 0; ///< of these, delivered
    Bytes localBytes = 0;     ///< payload inside servers
    Bytes wireBytes = 0;      ///< sum over links
    std::uint64_t packetHops = 0;
    std::uint64_t drops = 0;    ///< for all causes: full buffers, and the next two
    std::uint64_t lostDark = 0; ///< on links that were Dark or turned so
    std::uint64_t lostDown = 0; ///< on links that were Down or turned so
    std::uint64_t retransmits = 0;
    std::uint64_t events = 0; ///< of the engine's own queue
};

/**
 * Carries messages between servers in simulated time, on ns-3's clock.
 *
 * The interface between the executor (what is sent when) and a way of simulating (packet, flow, reference
 * compatible). All times are picoseconds of simulated time.
 */
class MessageNetwork
{
  public:
    virtual ~MessageNetwork() = default;

    void SetListener(NetworkListener* listener)
    {
        m_listener = listener;
    }

    /** Makes a path known; the same path gives the same number. */
    virtual std::uint32_t AddRoute(const Path& path) = 0;
    /** Hands a message to the transport now. @return its id */
    virtual std::uint64_t Send(const Message& message) = 0;
    /** Calls NetworkListener::Due(@p cookie) at @p time (not before now); simultaneous ones by cookie. */
    virtual void CallAt(SimTime time, std::uint64_t cookie) = 0;
    [[nodiscard]] virtual SimTime Now() const = 0;
    /** Schedules itself with ns-3; call after the first Send() or CallAt(), before Simulator::Run(). */
    virtual void Start(SimTime stop) = 0;
    [[nodiscard]] virtual NetworkTotals Totals() const = 0;
    [[nodiscard]] virtual std::vector<LinkCounters> Links() const = 0;

    /** Whether the run ended because nothing moved any more while messages were under way. */
    [[nodiscard]] virtual bool Stalled() const
    {
        return false;
    }

    /** Messages that have not finished, by id. */
    [[nodiscard]] virtual std::vector<MessageRecord> Unfinished() const = 0;
    /** Identities that a finished run must satisfy; one line per violation, empty = all hold. */
    [[nodiscard]] virtual std::vector<std::string> CheckPhysics() const = 0;

    /** Called every few thousand events; the run ends when it answers false. */
    void SetHeartbeat(std::function<bool()> heartbeat)
    {
        m_heartbeat = std::move(heartbeat);
    }

  protected:
    NetworkListener* m_listener = nullptr;
    std::function<bool()> m_heartbeat;
};

} // namespace topoopt

#endif // TOPOOPT_MESSAGE_NETWORK_H
