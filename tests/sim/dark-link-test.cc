// SPDX-License-Identifier: GPL-2.0-only
// Links whose light goes out and comes back, under messages that are on their way.
#include "../sanitizers.h"
#include "network-harness.h"
#include "topoopt/core/routing.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <tuple>

namespace topoopt::test
{
namespace
{

constexpr BitRate k100G{100'000'000'000};
constexpr Bytes kPayload = 9000 - kHeaderBytes;

/** Both directions of a cable. */
void
SetCable(PacketNetwork& network, LinkId link, LinkState state)
{
    network.SetLinkState(link & ~1U, state);
    network.SetLinkState(link | 1U, state);
}

PacketNetworkConfig
Config(bool trains, const CongestionControl& control = DctcpControl())
{
    PacketNetworkConfig config;
    config.trains = trains;
    config.control = &control;
    return config;
}

TEST(DarkLink, MessageOfADarkNicBeginsWhenTheLightComes)
{
    for (bool trains : {true, false})
    {
        Harness harness(Line(3, k100G, kMicrosecond), Config(trains));
        harness.SendAt(3 * kMicrosecond, {0, 2, 4}, 0, 3, 5'000'000);
        harness.At(0, [](PacketNetwork& n) { SetCable(n, 0, LinkState::Dark); });
        harness.At(777 * kMicrosecond, [](PacketNetwork& n) { SetCable(n, 0, LinkState::Up); });
        EXPECT_EQ(harness.Run(), std::vector<std::string>{});
        ASSERT_EQ(harness.records.size(), 1U);
        const MessageRecord& record = harness.records[0];
        EXPECT_EQ(record.end, 777 * kMicrosecond + record.ideal);
        EXPECT_EQ(harness.network->Totals().drops, 0U);
        EXPECT_EQ(harness.network->Outage(0).dark, 777 * kMicrosecond);
    }
}

/**
 * One link, a window that never changes: bursts of 8 packets, acknowledged one by one. The light is out long enough for the
 * sender to give up what is unacknowledged, so after it the message goes on from its last acknowledged burst at line rate.
 */
TEST(DarkLink, FlowAcrossADarkTimeMeetsClosedForm)
{
    constexpr std::uint32_t kPackets = 3000;
    constexpr SimTime kRelock = 700 * kMicrosecond;
    const SimTime transmission = TxTime(WireBytes(kPayload), k100G);
    const SimTime ack = TxTime(kAckWireBytes, k100G);
    for (bool trains : {true, false})
    {
        for (SimTime out : {400 * kMicrosecond, 500 * kMicrosecond + 1, 543 * kMicrosecond + 217})
        {
            for (SimTime dark : {3 * kMillisecond, 10 * kMillisecond})
            {
                const SimTime up = out + dark + kRelock;
                Harness harness(Line(1, k100G, kMicrosecond), Config(trains, FixedWindowControl()));
                harness.SendAt(0, {0}, 0, 1, kPackets * kPayload);
                harness.At(out, [](PacketNetwork& n) { SetCable(n, 0, LinkState::Dark); });
                harness.At(up, [](PacketNetwork& n) { SetCable(n, 0, LinkState::Up); });
                EXPECT_EQ(harness.Run(), std::vector<std::string>{});
                ASSERT_EQ(harness.records.size(), 1U);
                // Burst b is acknowledged at 8 (b+1) transmissions, there and back, and the acknowledgement itself.
                const SimTime bursts = (out - 2 * kMicrosecond - ack) / (8 * transmission);
                const SimTime closed = up + (kPackets - 8 * bursts) * transmission + kMicrosecond;
                EXPECT_EQ(harness.records[0].end, closed) << out << " " << dark;
                // Lost: every packet sent and not arrived; and acknowledgements on their way.
                const SimTime arrived = (out - kMicrosecond) / transmission;
                const NetworkTotals totals = harness.network->Totals();
                EXPECT_GT(totals.lostDark, 0U);
                EXPECT_EQ(totals.lostDark, totals.drops);
                EXPECT_GE(harness.records[0].retransmits,
                          static_cast<std::uint64_t>(arrived - 8 * bursts));
                EXPECT_EQ(totals.deliveredBytes, kPackets * kPayload);
            }
        }
    }
}

TEST(DarkLink, DrainedNetworkLosesNothing)
{
    for (bool trains : {true, false})
    {
        Harness harness(Line(3, k100G, kMicrosecond), Config(trains));
        harness.SendAt(0, {0, 2, 4}, 0, 3, 20'000'000);
        harness.SendAt(1, {2}, 1, 2, 20'000'000);
        constexpr SimTime kHold = 300 * kMicrosecond;
        constexpr SimTime kDark = 5 * kMillisecond;
        SimTime drained = kNever;
        std::function<void(PacketNetwork&)> check = [&](PacketNetwork& n) {
            const SimTime busy = n.BusyUntil();
            if (busy > n.Now())
            {
                harness.At(busy, check);
                return;
            }
            drained = n.Now();
            for (LinkId cable : {0U, 2U, 4U})
            {
                SetCable(n, cable, LinkState::Dark);
            }
            harness.At(drained + kDark, [](PacketNetwork& later) {
                for (LinkId cable : {0U, 2U, 4U})
                {
                    SetCable(later, cable, LinkState::Up);
                }
                later.HoldSources(false);
            });
        };
        harness.At(kHold, [&](PacketNetwork& n) {
            n.HoldSources(true);
            check(n);
        });
        EXPECT_EQ(harness.Run(), std::vector<std::string>{});
        ASSERT_EQ(harness.records.size(), 2U);
        EXPECT_GT(drained, kHold);
        EXPECT_LT(drained, kHold + 200 * kMicrosecond);
        const NetworkTotals totals = harness.network->Totals();
        EXPECT_EQ(totals.drops, 0U);
        EXPECT_EQ(totals.retransmits, 0U);
        EXPECT_EQ(totals.deliveredBytes, 40'000'000U);
    }
}

TEST(DarkLink, RelaysLoseWhatTheyCannotPassOn)
{
    // The second link fails under a message that nobody tells: it is repaired after 3 ms and all arrives.
    for (bool trains : {true, false})
    {
        Harness harness(Line(2, k100G, kMicrosecond), Config(trains));
        harness.SendAt(0, {0, 2}, 0, 2, 50'000'000);
        harness.At(kMillisecond, [](PacketNetwork& n) { SetCable(n, 2, LinkState::Down); });
        harness.At(4 * kMillisecond, [](PacketNetwork& n) { SetCable(n, 2, LinkState::Up); });
        EXPECT_EQ(harness.Run(), std::vector<std::string>{});
        ASSERT_EQ(harness.records.size(), 1U);
        const NetworkTotals totals = harness.network->Totals();
        EXPECT_GT(totals.lostDown, 0U);
        EXPECT_EQ(totals.lostDown, totals.drops);
        EXPECT_EQ(totals.lostDark, 0U);
        EXPECT_EQ(totals.deliveredBytes, 50'000'000U);
    }
}

TEST(DarkLink, ReroutedMessageGoesOnFromItsLastAcknowledgement)
{
    for (bool trains : {true, false})
    {
        // A triangle: 0-1, 1-2, 0-2.
        Topology topology(3);
        topology.AddDuplexLink(0, 1, k100G, kMicrosecond);
        topology.AddDuplexLink(1, 2, k100G, kMicrosecond);
        topology.AddDuplexLink(0, 2, k100G, kMicrosecond);
        Harness harness(topology, Config(trains));
        harness.SendAt(0, {4}, 0, 2, 30'000'000);
        const std::uint32_t around = harness.network->AddRoute({0, 2});
        harness.At(kMillisecond, [](PacketNetwork& n) { SetCable(n, 4, LinkState::Down); });
        harness.At(kMillisecond + 100 * kMicrosecond, [&](PacketNetwork& n) {
            const std::vector<ActiveMessage> active = n.Active();
            ASSERT_EQ(active.size(), 1U);
            EXPECT_EQ(active[0].darkLink, 4U);
            n.Reroute(active[0].record.id, around);
        });
        EXPECT_EQ(harness.Run(), std::vector<std::string>{});
        ASSERT_EQ(harness.records.size(), 1U);
        const SimTime alone = TxTime(MessageWireBytes(30'000'000, kPayload), k100G);
        EXPECT_EQ(harness.records[0].hops, 2U);
        EXPECT_LT(harness.records[0].end, alone + 200 * kMicrosecond);
        EXPECT_GE(harness.records[0].end, alone + 100 * kMicrosecond);
    }
}

/** A message from server 0 to 1 that has no way. */
Message
Parked(Bytes bytes)
{
    Message message;
    message.src = 0;
    message.dst = 1;
    message.bytes = bytes;
    message.route = kParked;
    return message;
}

TEST(DarkLink, ParkedMessageWaitsForARoute)
{
    for (bool trains : {true, false})
    {
        Harness harness(Line(1, k100G, kMicrosecond), Config(trains));
        const std::uint32_t route = harness.network->AddRoute({0});
        harness.network->Send(Parked(1'000'000));
        harness.At(250 * kMicrosecond, [&](PacketNetwork& n) { n.Reroute(0, route); });
        harness.At(270 * kMicrosecond, [&](PacketNetwork& n) { n.Reroute(0, kParked); });
        harness.At(900 * kMicrosecond, [&](PacketNetwork& n) { n.Reroute(0, route); });
        EXPECT_EQ(harness.Run(), std::vector<std::string>{});
        ASSERT_EQ(harness.records.size(), 1U);
        EXPECT_GT(harness.records[0].end, 900 * kMicrosecond);
        EXPECT_LT(harness.records[0].end, 900 * kMicrosecond + harness.records[0].ideal);
        EXPECT_GT(harness.records[0].ideal, 0);
    }
}

TEST(DarkLink, ParkedMessagesCostNothing)
{
    // A thousand messages wait for ten seconds; all that happens is what is asked for, and their own packets.
    Harness harness(Line(1, k100G, kMicrosecond), Config(true));
    const std::uint32_t route = harness.network->AddRoute({0});
    for (std::uint64_t k = 0; k < 1000; ++k)
    {
        harness.network->Send(Parked(1'000));
    }
    harness.At(kMillisecond, [&](PacketNetwork& n) { n.Reroute(7, route); });
    harness.At(5 * kSecond, [](PacketNetwork& n) { EXPECT_LT(n.Totals().events, 20U); });
    harness.At(10 * kSecond, [&](PacketNetwork& n) {
        EXPECT_LT(n.Totals().events, 20U);
        for (const ActiveMessage& active : n.Active())
        {
            n.Reroute(active.record.id, route);
        }
    });
    EXPECT_EQ(harness.Run(), std::vector<std::string>{});
    ASSERT_EQ(harness.records.size(), 1000U);
    EXPECT_EQ(harness.records[0].id, 7U);
    EXPECT_LT(harness.records.back().end, 10 * kSecond + kMillisecond);
    EXPECT_EQ(harness.network->Totals().retransmits, 0U);
}

TEST(DarkLink, ParkedMessagesThatNothingHelpsEndTheRun)
{
    // A control that comes every millisecond for ever, and does nothing.
    Harness harness(Line(1, k100G, kMicrosecond), Config(true));
    harness.network->Send(Parked(1'000));
    std::function<void(PacketNetwork&)> again = [&](PacketNetwork& n) {
        harness.At(n.Now() + kMillisecond, again, false);
    };
    harness.At(0, again);
    EXPECT_EQ(harness.Run(100 * kSecond), std::vector<std::string>{});
    EXPECT_TRUE(harness.network->Stalled());
    EXPECT_LT(harness.network->Now(), 10 * kSecond);
}

TEST(DarkLink, ARunWithoutHopeEnds)
{
    Harness harness(Line(2, k100G, kMicrosecond), Config(true));
    harness.SendAt(0, {0, 2}, 0, 2, 50'000'000);
    harness.At(kMillisecond, [](PacketNetwork& n) { SetCable(n, 2, LinkState::Down); });
    EXPECT_EQ(harness.Run(100 * kSecond), std::vector<std::string>{});
    EXPECT_TRUE(harness.network->Stalled());
    ASSERT_EQ(harness.network->Active().size(), 1U);
    EXPECT_EQ(harness.network->Active()[0].darkLink, 2U);
}

/** Everything that a run leaves. */
using Row = std::vector<std::uint64_t>;

std::vector<Row>
OutcomeOf(const Harness& harness, std::size_t links)
{
    std::vector<Row> rows;
    for (const MessageRecord& r : harness.records)
    {
        rows.push_back({r.id,
                        static_cast<std::uint64_t>(r.start),
                        static_cast<std::uint64_t>(r.end),
                        static_cast<std::uint64_t>(r.acknowledged),
                        static_cast<std::uint64_t>(r.ideal),
                        r.retransmits,
                        r.hops});
    }
    for (const MessageRecord& r : harness.network->Unfinished())
    {
        rows.push_back({r.id, r.delivered, r.retransmits});
    }
    const std::vector<LinkCounters> counters = harness.network->Links();
    for (LinkId link = 0; link < links; ++link)
    {
        const LinkCounters& l = counters[link];
        const LinkOutage o = harness.network->Outage(link);
        rows.push_back({l.packets,
                        l.bytes,
                        l.drops,
                        l.marks,
                        static_cast<std::uint64_t>(l.busy),
                        static_cast<std::uint64_t>(l.maxBacklog),
                        static_cast<std::uint64_t>(o.dark),
                        o.lostDark,
                        o.lostDown});
    }
    return rows;
}

/**
 * Random messages over a random graph whose cables go dark and come back at random times, with or without rerouting, holding
 * and draining: trains on equal trains off, every byte is accounted for, everything arrives in the end.
 */
void
RandomOutages(std::uint64_t seed, std::uint64_t& lost)
{
    Rng rng(seed, "outages");
    const BitRate rates[] = {{25'000'000'000}, k100G, k100G, {400'000'000'000}};
    const auto n = static_cast<std::uint32_t>(3 + rng.Below(5));
    Topology topology(n);
    for (NodeId s = 0; s < n; ++s)
    {
        topology.AddDuplexLink(s, (s + 1) % n, rates[rng.Below(4)], kMicrosecond);
    }
    for (std::uint64_t extra = rng.Below(n); extra-- > 0;)
    {
        const auto a = static_cast<NodeId>(rng.Below(n));
        const auto b = static_cast<NodeId>(rng.Below(n));
        if (a != b)
        {
            topology.AddDuplexLink(a,
                                   b,
                                   rates[rng.Below(4)],
                                   1 + static_cast<SimTime>(rng.Below(2)) * kMicrosecond);
        }
    }
    PacketNetworkConfig config;
    config.mtu = rng.Below(2) == 0 ? 1500 : 9000;
    if (rng.Below(3) == 0)
    {
        config.buffer = 30'000 + rng.Below(100'000);
        config.ecn = 10'000 + rng.Below(20'000);
    }
    config.control =
        rng.Below(3) == 0 && config.buffer == 0 ? &FixedWindowControl() : &DctcpControl();
    const EcmpRouter router(topology, seed);

    struct Planned
    {
        SimTime time;
        Path path;
        ServerId src;
        ServerId dst;
        Bytes bytes;
        std::uint32_t pair;
    };

    RandomPairs pairs(seed);
    std::vector<Planned> messages;
    for (std::uint64_t count = 1 + rng.Below(25); messages.size() < count;)
    {
        const auto src = static_cast<ServerId>(rng.Below(n));
        const auto dst = static_cast<ServerId>((src + 1 + rng.Below(n - 1)) % n);
        const Bytes scale[] = {1, 10'000, 300'000, 2'000'000};
        messages.push_back({static_cast<SimTime>(rng.Below(200)) * kMicrosecond,
                            router.Route(src, dst, rng.Next()),
                            src,
                            dst,
                            rng.Below(scale[rng.Below(4)] + 1),
                            pairs.Next()});
    }

    struct Outage
    {
        SimTime from;
        SimTime until;
        LinkId link;
        bool cable;
        LinkState state;
        std::uint64_t reroute; ///< 0: nobody is told
    };

    std::vector<Outage> outages;
    for (std::uint64_t count = 1 + rng.Below(8); outages.size() < count;)
    {
        // Whole microseconds meet arrivals; odd picoseconds fall into the middle of packets.
        const SimTime from =
            static_cast<SimTime>(rng.Below(300)) * kMicrosecond +
            (rng.Below(2) == 0 ? 0 : static_cast<SimTime>(rng.Below(kMicrosecond)));
        const SimTime length =
            static_cast<SimTime>(1 + rng.Below(rng.Below(2) == 0 ? 50 : 3000)) * kMicrosecond;
        outages.push_back({from,
                           from + length,
                           static_cast<LinkId>(rng.Below(topology.links.size())),
                           rng.Below(3) != 0,
                           rng.Below(2) == 0 ? LinkState::Dark : LinkState::Down,
                           rng.Below(2) * rng.Next()});
    }
    // When a drain ends depends on nothing but arrivals only if nothing is lost in other ways meanwhile.
    const bool hold = rng.Below(4) == 0;
    if (hold)
    {
        outages.clear();
    }
    const SimTime holdFrom = static_cast<SimTime>(rng.Below(300)) * kMicrosecond;
    const SimTime stop = rng.Below(6) == 0 ? 250 * kMicrosecond : 100 * kSecond;

    std::vector<Row> outcomes[2];
    for (bool trains : {false, true})
    {
        config.trains = trains;
        Harness harness(topology, config);
        for (const Planned& m : messages)
        {
            harness.SendAt(m.time, m.path, m.src, m.dst, m.bytes, m.pair);
        }
        for (const Outage& outage : outages)
        {
            const auto set = [outage](PacketNetwork& network, LinkState state) {
                network.SetLinkState(outage.link, state);
                if (outage.cable)
                {
                    network.SetLinkState(outage.link ^ 1U, state);
                }
            };
            harness.At(outage.from,
                       [set, outage](PacketNetwork& network) { set(network, outage.state); });
            harness.At(outage.until,
                       [set](PacketNetwork& network) { set(network, LinkState::Up); });
            if (outage.reroute != 0)
            {
                harness.At(outage.from + 5 * kMicrosecond,
                           [&router, outage](PacketNetwork& network) {
                               std::vector<std::pair<std::uint64_t, std::uint32_t>> routes;
                               for (const ActiveMessage& active : network.Active())
                               {
                                   const Message& m = active.record.message;
                                   const bool park =
                                       Mix64(outage.reroute, active.record.id) % 5 == 0;
                                   routes.emplace_back(
                                       active.record.id,
                                       park ? kParked
                                            : network.AddRoute(router.Route(
                                                  m.src,
                                                  m.dst,
                                                  Mix64(outage.reroute, active.record.id + 1))));
                               }
                               network.Reroute(routes);
                           });
                harness.At(
                    outage.until + 7 * kMicrosecond,
                    [&router, outage](PacketNetwork& network) {
                        for (const ActiveMessage& active : network.Active())
                        {
                            const Message& m = active.record.message;
                            if (m.route == kParked)
                            {
                                network.Reroute(
                                    active.record.id,
                                    network.AddRoute(router.Route(m.src, m.dst, outage.reroute)));
                            }
                        }
                    });
            }
        }
        std::function<void(PacketNetwork&)> drain = [&](PacketNetwork& network) {
            const SimTime busy = network.BusyUntil();
            if (busy > network.Now())
            {
                harness.At(busy, drain);
                return;
            }
            network.HoldSources(false);
        };
        if (hold)
        {
            harness.At(holdFrom, [&drain](PacketNetwork& network) {
                network.HoldSources(true);
                drain(network);
            });
        }
        ASSERT_EQ(harness.Run(stop), std::vector<std::string>{});
        if (stop > kSecond)
        {
            ASSERT_EQ(harness.records.size(), messages.size());
            Bytes asked = 0;
            for (const Planned& m : messages)
            {
                asked += m.bytes;
            }
            ASSERT_EQ(harness.network->Totals().deliveredBytes, asked);
        }
        for (const MessageRecord& r : harness.records)
        {
            ASSERT_GE(r.end - r.start, r.ideal);
        }
        lost += harness.network->Totals().lostDark + harness.network->Totals().lostDown;
        outcomes[trains] = OutcomeOf(harness, topology.links.size());
    }
    ASSERT_TRUE(outcomes[0] == outcomes[1]);
}

TEST(DarkLink, RandomOutagesConserveBytesWithTrainsOnAndOff)
{
    std::uint64_t lost = 0;
    for (std::uint64_t seed = 1; seed <= (kSanitized ? 100 : 400) && !HasFailure(); ++seed)
    {
        SCOPED_TRACE(seed);
        RandomOutages(seed, lost);
    }
    EXPECT_GT(lost, kSanitized ? 2'500U : 10'000U)
        << "packets lost on links without light: hardly any test";
}

} // namespace
} // namespace topoopt::test
