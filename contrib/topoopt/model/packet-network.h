// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_PACKET_NETWORK_H
#define TOPOOPT_PACKET_NETWORK_H

#include "ns3/event-heap.h"
#include "ns3/event-id.h"
#include "ns3/message-network.h"
#include "ns3/object.h"
#include "ns3/traced-callback.h"
#include "ns3/transport.h"
#include "topoopt/core/topology.h"

#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>

namespace topoopt
{

/** Bytes of every data packet besides its payload: IPv4 20, UDP 8, BTH 12, ICRC 4. */
inline constexpr Bytes kHeaderBytes = 44;
/** Bytes of every frame besides the IP packet: Ethernet 14, FCS 4, preamble 8, inter-frame gap 12. */
inline constexpr Bytes kFrameBytes = 38;
/** On the wire nothing is shorter: a 64 B frame with preamble and gap. */
inline constexpr Bytes kMinWireBytes = 84;
/** An acknowledgement: AETH (4 B) in place of payload. */
inline constexpr Bytes kAckWireBytes = 4 + kHeaderBytes + kFrameBytes;

/** Bytes on the wire of a data packet with @p payload bytes. */
[[nodiscard]] constexpr Bytes
WireBytes(Bytes payload)
{
    const Bytes wire = payload + kHeaderBytes + kFrameBytes;
    return wire < kMinWireBytes ? kMinWireBytes : wire;
}

/** The whole of a message on the wire, once. */
[[nodiscard]] Bytes MessageWireBytes(Bytes bytes, Bytes payload);

/** Parameters of a PacketNetwork; 0 = derived as stated. */
struct PacketNetworkConfig
{
    Bytes mtu = 9000; ///< IP packet; payload = mtu - kHeaderBytes
    /** Data packets per acknowledgement; 0: 64 KiB of payload, one for a whole message of at most twice as much. */
    std::uint32_t ackEvery = 0;
    Bytes buffer = 0; ///< per port; 0: 160 us at line rate, at least 2 MB and five times `ecn`
    /** Marking threshold per port; 0: 32 us at line rate (400 kB at 100 Gb/s, as HPCC was published), at least 200 kB. */
    Bytes ecn = 0;
    bool trains = true;                 ///< exact trains; results do not depend on it
    BitRate intraRate{200'000'000'000}; ///< between ranks of one server, per message, no contention
    const CongestionControl* control = nullptr; ///< null: DCTCP
};

/** Changes a network while it runs. */
class NetworkController
{
  public:
    virtual ~NetworkController() = default;

    /** The time asked for with ControlAt() has come; all else that happens at this time has happened. */
    virtual void ControlDue(std::uint64_t cookie) = 0;
};

/** Of links that change; what LinkCounters has no column for. */
struct LinkOutage
{
    LinkState state = LinkState::Up;
    SimTime since = 0; ///< of the state
    SimTime dark = 0;  ///< time without light so far, state included only once it is over
    std::uint64_t lostDark = 0;
    std::uint64_t lostDown = 0;
};

/** A message that is not over, as a controller sees it. */
struct ActiveMessage
{
    MessageRecord record;        ///< record.message.route is its present route, or kParked
    Bytes unacknowledged = 0;    ///< payload that the sender does not know to have arrived
    LinkId darkLink = kNoId;     ///< first link without light on its way or its acknowledgements'
    std::uint64_t inNetwork = 0; ///< its packets under way, both directions
};

/**
 * The packet engine: every packet of every message over every link of a Topology.
 *
 * A link's queue is a FIFO in front of a transmitter with store and forward; it is kept as arithmetic on
 * "when is it free", so a packet costs one event per hop: its arrival at the other end. Only the earliest
 * arrival of each link is in the event heap. Packets that follow each other are one record, a train; with
 * trains off a record moves packet by packet, with trains on it is advanced as a whole, ahead of
 * time, and cut back when something else joins the same queue first. What cannot yet have been seen is all
 * that is cut back, so results are equal to the picosecond.
 *
 * Events are ordered by (time, what they are), never by insertion: arrivals by link number, then host
 * queues by link, then timers of messages, then the executor's, then the controller's.
 *
 * Transport: a message is packets 0..n-1 with RoCEv2-like headers; the receiver acknowledges where the sender
 * asks (every `ackEvery` packets, short messages only at their end, and when the window is used up), names the first
 * missing packet once per gap, and the sender goes back to it; without progress it sends its last packet again as a probe
 * (RFC 8985, tail loss probe), so that the loss of an end costs no timeout. Acknowledgements are packets on the reversed
 * path. A host hands its NIC more while less than 50 kB (a quarter of a lower marking threshold) wait there, and
 * serves its messages in turn, so own traffic waits in host memory, not in the port.
 *
 * Links that change: a link without light loses what is queued for it, being sent, or on its fibre, and all that joins it
 * later; own traffic of a server waits in host memory, because a NIC notices at once that it has no light. Losses are counted per
 * cause and repaired by the transport. What changes links, routes or sources may be called from
 * NetworkController::ControlDue(), or before Start(), and costs nothing where it is not used.
 */
class PacketNetwork final : public ns3::Object, public MessageNetwork
{
  public:
    static ns3::TypeId GetTypeId();

    PacketNetwork();
    ~PacketNetwork() override;

    /** Call once, before everything else. @throws SpecError for an MTU that holds no payload */
    void Build(const Topology& topology, const PacketNetworkConfig& config);

    std::uint32_t AddRoute(const Path& path) override;
    /** A path whose acknowledgements go along @p back, which need not be its reverse. */
    std::uint32_t AddRoute(const Path& path, const Path& back);
    std::uint64_t Send(const Message& message) override;
    void CallAt(SimTime time, std::uint64_t cookie) override;
    [[nodiscard]] SimTime Now() const override;
    void Start(SimTime stop) override;
    [[nodiscard]] NetworkTotals Totals() const override;
    [[nodiscard]] std::vector<LinkCounters> Links() const override;
    [[nodiscard]] std::vector<MessageRecord> Unfinished() const override;

    [[nodiscard]] bool Stalled() const override
    {
        return m_stalled;
    }

    [[nodiscard]] std::vector<std::string> CheckPhysics() const override;

    void SetController(NetworkController* controller)
    {
        m_controller = controller;
    }

    /**
     * Calls NetworkController::ControlDue(@p cookie) at @p time (not before now); simultaneous ones by cookie. The run does not
     * go on for it alone.
     * @param helps whether messages that do not get on now may do so after it; until then nothing counts as stalled
     */
    void ControlAt(SimTime time, std::uint64_t cookie, bool helps);
    /** A further link; of Topology only Link is needed. @return its number */
    LinkId AddLink(const Link& link, LinkState state);
    /** Turns the light of a link on or off now; one that had light loses what is on it. */
    void SetLinkState(LinkId link, LinkState state);
    [[nodiscard]] LinkOutage Outage(LinkId link) const;
    /** While held, servers send no data; what is under way goes on, acknowledgements too. */
    void HoldSources(bool held);
    /**
     * When the packets now under way have arrived, now if there are none; what they set off comes on top. Asked again at that time until
     * it is now, it finds the arrival of the last packet, provided that no link loses its light meanwhile. O(links).
     */
    [[nodiscard]] SimTime BusyUntil() const;
    /** Messages between servers that are not over, by id. */
    [[nodiscard]] std::vector<ActiveMessage> Active() const;
    /** Gives a message another route, or kParked; it is sent on from its first unacknowledged packet. Same route: nothing. */
    void Reroute(std::uint64_t id, std::uint32_t route);
    /** Gives messages other routes in one go, in this order. */
    void Reroute(const std::vector<std::pair<std::uint64_t, std::uint32_t>>& routes);

    /** Ends the run: what is under way will never arrive. Counts as stalled. */
    void GiveUp()
    {
        m_stalled = true;
    }

    /** While @p expected the run goes on although nothing is under way: whoever says so starts something later. */
    void Expect(bool expected)
    {
        m_pendingCalls += expected ? 1 : -1;
    }

    /** Whether a message between servers is not over. */
    [[nodiscard]] bool AnyActive() const
    {
        return m_unfinished > m_locals.size();
    }

    /** When a packet last arrived in order. */
    [[nodiscard]] SimTime LastProgress() const
    {
        return m_lastProgress;
    }

    /** Time for @p bytes alone in an empty network along a route: exact, what slowdown is measured against. */
    [[nodiscard]] SimTime Ideal(std::uint32_t route, Bytes bytes) const;

    /** Signature of the trace sources Transmit and Drop: link, message, bytes on the wire, start of transmission. */
    typedef void (*PacketTrace)(LinkId link, std::uint64_t message, Bytes wire, SimTime start);
    /** Signature of the trace source Cut: link, and the time in which it was to send something that it does not send. */
    typedef void (*CutTrace)(LinkId link, SimTime from, SimTime until);
    /** Signature of the trace sources MessageStart and MessageEnd. */
    typedef void (*MessageTrace)(const MessageRecord& record);

  private:
    struct Flow;
    struct Route;
    struct Train;
    struct Port;
    struct HostQueue;
    struct Status;

    enum class EventClass : std::uint64_t
    {
        Arrival = 0,   ///< id = link
        HostQueue = 1, ///< id = link
        Timers = 2,    ///< retransmission timers, m_firstTimer
        Local = 3,     ///< id = message inside a server
        Call = 4,      ///< id = cookie
        Control = 5    ///< id = cookie
    };

    static constexpr unsigned kClassShift = 60;

    static std::uint64_t Key(EventClass eventClass, std::uint64_t id)
    {
        return static_cast<std::uint64_t>(eventClass) << kClassShift | id;
    }

    static EventClass ClassOf(std::uint64_t key)
    {
        return static_cast<EventClass>(key >> kClassShift);
    }

    static std::uint64_t IdOf(std::uint64_t key)
    {
        return key & ((std::uint64_t{1} << kClassShift) - 1);
    }

    void Pump();
    void InitPort(LinkId link, bool fromServer);
    void LoseTraffic(LinkId link);
    void CountLoss(LinkId link, const Train& train, std::uint64_t packets, SimTime start);
    void OpenHostQueue(LinkId link);
    void MoveFlow(Flow& flow, std::uint32_t number);
    void LeaveHostQueue(Flow& flow);
    [[nodiscard]] std::vector<Flow*> ActiveFlows() const;
    /** When the first train is an event, kNever if there is none; notes whose it is. */
    [[nodiscard]] SimTime FirstArrival(Port& port) const;
    /** Asks for what the next event will touch: a large run waits for memory most of all. */
    void PrefetchNext() const;
    /** Whether a train that has joined its last link is the acknowledgement with which its message certainly ends. */
    [[nodiscard]] bool Settles(const Train& ack) const;
    static void PopTail(Port& port);
    /** The train itself, or the shorter last packet that was sent together with it. */
    [[nodiscard]] static const Train* LastOfBurst(const Train& train);
    void OnArrival(LinkId link);
    void Forward(LinkId inLink, Train* train);
    /** Counts packets of a train at its receiver. */
    void ReceiveInOrder(Train& train, std::uint32_t packets);
    /** Counts those that have arrived by now, if they are in order. */
    void ReceiveArrived(Train& train);
    void ReceiveAck(const Train& ack);
    /** Acknowledges and completes after packets in order. */
    void AnswerInOrder(Flow& flow, bool asked);
    void AnswerOutOfOrder(Flow& flow, std::uint32_t sequence, bool asked);
    void SendAck(Flow& flow, bool missing);
    void OnHostQueue(LinkId link);
    void StartTimer(Flow& flow);
    void StopTimer(Flow& flow);
    void OnTimers(SimTime time);
    /** Ends the run if nothing has arrived for so long that nothing will. */
    void CheckHope();
    void OnLocal(std::uint64_t id);
    void TrySend(Flow& flow);
    /** Hands data packets of a message to its NIC; the last may ask for an acknowledgement. */
    void EnqueueData(Flow& flow,
                     std::uint32_t sequence,
                     std::uint32_t count,
                     std::uint32_t wire,
                     bool asks);
    /** Own packets have joined a NIC's queue and take room there until the last of them has left. */
    void NoteBurst(LinkId link, Bytes bytes);
    /** The next of its queue pair may begin. */
    void SentWhole(Flow& flow);
    /** How long a message goes without progress before it sends a probe. */
    [[nodiscard]] SimTime ProbeDelay() const;
    void Probe(Flow& flow);
    /** Sends one burst, of at most @p sendable packets. */
    void Inject(Flow& flow, std::uint32_t sendable);
    [[nodiscard]] std::uint32_t Sendable(const Flow& flow) const;
    void ServeHostQueue(LinkId link);
    /** Appends packets that all join the queue now; the sender's own. */
    void EnqueueLocal(LinkId link, Train* train);
    /** A train whose arrival is an event becomes the last on a link. */
    void Join(LinkId link, Train* train);
    void Append(LinkId link, Train* train, SimTime start, SimTime transmission);
    void CutOpenTrain(LinkId link);
    void CutTo(LinkId link, Train* train, std::uint32_t count);
    void PopHead(Port& port);
    void Retire(Port& port, Train* train);
    void NoteBacklog(Port& port) const;
    void WaitForHostQueue(Flow& flow);
    void ScheduleHostQueue(LinkId link);
    void FinishIfOver(Flow& flow);
    void Finish(Flow& flow, SimTime acknowledged);
    [[nodiscard]] MessageRecord RecordOf(const Flow& flow) const;
    [[nodiscard]] Train* NewTrain();
    void FreeTrain(Train* train);
    [[nodiscard]] Flow* NewFlow();
    [[nodiscard]] std::vector<LinkId> ReverseOf(const Path& path) const;
    /** Brings what trains have done ahead of time back to now, and counts what is in flight. */
    void Settle();
    void DoDispose() override;

    PacketNetworkConfig m_config;
    Bytes m_payload = 0;
    std::uint32_t m_ackEvery = 1;
    std::uint32_t m_whole =
        1; ///< messages of so many packets are sent in one burst, with one acknowledgement
    std::uint32_t m_servers = 0;
    bool m_trains = true;   ///< config, and nobody listens to single packets
    bool m_stepped = false; ///< one ns-3 event per time of ours: somebody looks at ns-3's clock
    std::vector<Link> m_links;
    std::vector<Port> m_ports; ///< by link
    std::vector<Status>
        m_status; ///< by link; looked at when light goes on or off, or a packet is lost
    std::vector<std::unique_ptr<HostQueue>>
        m_hostQueues; ///< by link; null unless a server sends there
    std::vector<std::unique_ptr<Route>> m_routes;
    std::unordered_multimap<std::uint64_t, std::uint32_t> m_routeIndex; ///< hash of links -> route
    std::vector<std::unique_ptr<Flow[]>> m_flowBlocks;
    Flow* m_freeFlows = nullptr;
    Flow* m_firstTimer = nullptr; ///< messages by when their sender is looked at next
    Flow* m_lastTimer = nullptr;
    SimTime m_timerEvent = kNever; ///< that stands in the event heap
    std::vector<std::unique_ptr<Train[]>> m_trainBlocks;
    Train* m_freeTrains = nullptr;
    EventHeap m_events;
    SimTime m_now = 0;
    std::uint64_t m_currentKey = 0; ///< of the event being handled
    SimTime m_stop = kNever;
    ns3::EventId m_pump;
    bool m_running = false;
    NetworkTotals m_totals;
    Bytes m_arrivedWireHops = 0; ///< bytes x hops of packets that reached their end
    Bytes m_droppedWireHops = 0; ///< the same for dropped ones, up to the drop
    SimTime m_timeout =
        kMillisecond;           ///< of retransmission; longer than any packet can be under way
    SimTime m_lastProgress = 0; ///< a packet arrived in order
    bool m_stalled = false;
    Bytes m_inFlightWireHops = 0;
    NetworkController* m_controller = nullptr;
    SimTime m_helpDue = 0;                             ///< the latest ControlAt() that may help
    bool m_held = false;                               ///< sources
    std::unordered_map<std::uint64_t, Flow*> m_locals; ///< messages inside servers, by id
    std::uint64_t m_pendingCalls = 0;
    std::uint64_t m_unfinished = 0; ///< messages that are not over
    std::vector<std::string> m_violations;
    ns3::TracedCallback<LinkId, std::uint64_t, Bytes, SimTime> m_transmitTrace;
    ns3::TracedCallback<LinkId, std::uint64_t, Bytes, SimTime> m_dropTrace;
    ns3::TracedCallback<LinkId, SimTime, SimTime> m_cutTrace;
    ns3::TracedCallback<const MessageRecord&> m_startTrace;
    ns3::TracedCallback<const MessageRecord&> m_endTrace;
};

} // namespace topoopt

#endif // TOPOOPT_PACKET_NETWORK_H
