// SPDX-License-Identifier: GPL-2.0-only
#include "../sanitizers.h"
#include "network-harness.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <tuple>

namespace topoopt::test
{
namespace
{

constexpr BitRate k25G{25'000'000'000};
constexpr BitRate k100G{100'000'000'000};
constexpr BitRate k300G{300'000'000'000};
constexpr BitRate k400G{400'000'000'000};
constexpr Bytes kPayload = 9000 - kHeaderBytes;

/**
 * One flow alone on equal links, store and forward: with N packets, the first N-1 full, and a last one not longer,
 * the last byte arrives after N-1 full transmissions, h transmissions of ... see the recursion below, which walks packet by
 * packet and link by link.
 */
SimTime
WalkPacketByPacket(const std::vector<BitRate>& rates, SimTime delay, Bytes bytes, Bytes payload)
{
    std::vector<SimTime> free(rates.size(), 0);
    SimTime end = 0;
    Bytes left = bytes;
    do
    {
        const Bytes part = std::min(left, payload);
        left -= part;
        SimTime at = 0;
        for (std::size_t h = 0; h < rates.size(); ++h)
        {
            free[h] = std::max(free[h], at) + TxTime(WireBytes(part), rates[h]);
            at = free[h] + delay;
        }
        end = at;
    } while (left > 0);
    return end;
}

class LoneFlow : public testing::TestWithParam<std::tuple<std::uint32_t, BitRate, bool>>
{
};

TEST_P(LoneFlow, MeetsClosedFormToThePicosecond)
{
    const auto [hops, rate, trains] = GetParam();
    for (Bytes bytes : {Bytes{0},
                        Bytes{1},
                        Bytes{2},
                        kPayload - 1,
                        kPayload,
                        kPayload + 1,
                        Bytes{1'000'000},
                        Bytes{123'456'789},
                        Bytes{1'000'000'000}})
    {
        if (bytes > 10'000'000 && !trains && hops != 3)
        {
            continue; // every size, but not a billion packet events
        }
        PacketNetworkConfig config;
        config.trains = trains;
        Harness harness(Line(hops, rate, kMicrosecond), config);
        harness.SendAt(5 * kMicrosecond, LinePath(hops), 0, hops, bytes);
        EXPECT_EQ(harness.Run(), std::vector<std::string>{});
        ASSERT_EQ(harness.records.size(), 1U);
        const MessageRecord& record = harness.records[0];
        // Equal links: all N packets but the last are full; the last catches up with nothing.
        const Bytes full = bytes == 0 ? 0 : (bytes - 1) / kPayload;
        const SimTime transmission = TxTime(WireBytes(kPayload), rate);
        const SimTime last = TxTime(WireBytes(bytes - full * kPayload), rate);
        SimTime closed = static_cast<SimTime>(hops) * kMicrosecond + last;
        if (full > 0)
        {
            closed += static_cast<SimTime>(full) * transmission +
                      static_cast<SimTime>(hops - 1) * transmission;
        }
        else
        {
            closed += static_cast<SimTime>(hops - 1) * last;
        }
        EXPECT_EQ(record.start, 5 * kMicrosecond);
        EXPECT_EQ(record.end - record.start, closed) << bytes << " B over " << hops << " hops";
        EXPECT_EQ(record.ideal, closed);
        EXPECT_EQ(record.retransmits, 0U);
        if (bytes <= 1'000'000)
        {
            EXPECT_EQ(closed,
                      WalkPacketByPacket(std::vector<BitRate>(hops, rate),
                                         kMicrosecond,
                                         bytes,
                                         kPayload));
        }
        const NetworkTotals totals = harness.network->Totals();
        EXPECT_EQ(totals.deliveredBytes, bytes);
        // Data over every hop, and acknowledgements of 86 B back over every hop.
        const Bytes data = hops * MessageWireBytes(bytes, kPayload);
        const std::uint64_t acks = (totals.packetHops - hops * (full + 1)) / hops;
        EXPECT_EQ(totals.wireBytes, data + acks * hops * kAckWireBytes);
        EXPECT_LE(acks, full + 1);
    }
}

INSTANTIATE_TEST_SUITE_P(HopsRatesTrains,
                         LoneFlow,
                         testing::Combine(testing::Values(1U, 2U, 3U, 4U, 5U, 6U),
                                          testing::Values(k25G, k100G, k400G),
                                          testing::Bool()));

TEST(PacketNetwork, LoneFlowOverUnequalLinksIsIdeal)
{
    const std::vector<BitRate> rates[] = {{k100G, k25G, k100G},
                                          {k25G, k100G, k400G},
                                          {k400G, k300G, k25G},
                                          {k300G, k100G, k300G}};
    for (bool trains : {true, false})
    {
        for (const std::vector<BitRate>& line : rates)
        {
            Topology topology(static_cast<std::uint32_t>(line.size() + 1));
            Path path;
            for (std::uint32_t k = 0; k < line.size(); ++k)
            {
                path.push_back(topology.AddDuplexLink(k, k + 1, line[k], 2 * kMicrosecond));
            }
            for (Bytes bytes : {Bytes{1}, kPayload, Bytes{100'000}, Bytes{20'000'003}})
            {
                PacketNetworkConfig config;
                config.trains = trains;
                Harness harness(topology, config);
                harness.SendAt(0, path, 0, static_cast<ServerId>(line.size()), bytes);
                EXPECT_TRUE(harness.Run().empty());
                ASSERT_EQ(harness.records.size(), 1U);
                EXPECT_EQ(harness.records[0].ideal,
                          WalkPacketByPacket(line, 2 * kMicrosecond, bytes, kPayload));
                EXPECT_EQ(harness.records[0].end, harness.records[0].ideal) << bytes;
            }
        }
    }
}

TEST(PacketNetwork, TwoFlowsShareAPortNearlyEqually)
{
    // Servers 0 and 1 send to 2 through a switch: each gets about half of the last link.
    // Not just half: nothing is random, so marks fall on the two in a pattern that favours one.
    Harness harness(Star(3, k100G, kMicrosecond), {});
    constexpr Bytes kBytes = 50'000'000;
    harness.SendAt(0, StarPath(0, 2), 0, 2, kBytes);
    harness.SendAt(0, StarPath(1, 2), 1, 2, kBytes);
    EXPECT_TRUE(harness.Run().empty());
    ASSERT_EQ(harness.records.size(), 2U);
    const double bound =
        2.0 * static_cast<double>(TxTime(MessageWireBytes(kBytes, kPayload), k100G));
    for (const MessageRecord& record : harness.records)
    {
        const double ratio = static_cast<double>(record.end - record.start) / bound;
        EXPECT_GT(ratio, 0.9);
        EXPECT_LT(ratio, 1.1);
    }
    EXPECT_EQ(harness.network->Totals().drops, 0U);
}

TEST(PacketNetwork, OwnAndRelayedTrafficShareANic)
{
    // 0 -> 1 -> 2 relayed by server 1, which sends to 2 itself.
    Harness harness(Line(2, k100G, kMicrosecond), {});
    constexpr Bytes kBytes = 50'000'000;
    harness.SendAt(0, {0, 2}, 0, 2, kBytes);
    harness.SendAt(0, {2}, 1, 2, kBytes);
    EXPECT_TRUE(harness.Run().empty());
    ASSERT_EQ(harness.records.size(), 2U);
    const double half = static_cast<double>(TxTime(MessageWireBytes(kBytes, kPayload), k100G));
    // A host hands over little at a time, so what is under way already gets more: three quarters of the link.
    const double first = static_cast<double>(harness.records[0].end);
    EXPECT_GT(first / half, 1 / 0.8);
    EXPECT_LT(static_cast<double>(harness.records[1].end) / half, 2.1);
    EXPECT_EQ(harness.network->Totals().drops, 0U);
}

TEST(PacketNetwork, IncastOfEightLosesNothingAndMeetsTheBound)
{
    Harness harness(Star(9, k100G, kMicrosecond), {});
    constexpr Bytes kBytes = 10'000'000;
    for (ServerId s = 0; s < 8; ++s)
    {
        harness.SendAt(0, StarPath(s, 8), s, 8, kBytes);
    }
    EXPECT_TRUE(harness.Run().empty());
    ASSERT_EQ(harness.records.size(), 8U);
    const NetworkTotals totals = harness.network->Totals();
    EXPECT_EQ(totals.drops, 0U);
    EXPECT_EQ(totals.retransmits, 0U);
    SimTime end = 0;
    for (const MessageRecord& record : harness.records)
    {
        end = std::max(end, record.end);
    }
    const SimTime bound = TxTime(8 * MessageWireBytes(kBytes, kPayload), k100G);
    EXPECT_GE(end, bound);
    EXPECT_LT(static_cast<double>(end), 1.05 * static_cast<double>(bound));
}

TEST(PacketNetwork, WaitingForTheNicIsNoTimeout)
{
    // A thousand messages take turns at a slow NIC: the last ones send nothing for longer than a timeout.
    Harness harness(Line(1, BitRate{10'000'000'000}, kMicrosecond), {});
    for (int k = 0; k < 1000; ++k)
    {
        harness.SendAt(0, {0}, 0, 1, 200'000);
    }
    EXPECT_EQ(harness.Run(), std::vector<std::string>{});
    EXPECT_EQ(harness.records.size(), 1000U);
    EXPECT_EQ(harness.network->Totals().retransmits, 0U);
}

TEST(PacketNetwork, LossesAreRepairedAndCounted)
{
    for (bool trains : {true, false})
    {
        PacketNetworkConfig config;
        config.trains = trains;
        config.buffer = 50'000; // too small for eight windows
        config.ecn = 1'000'000; // and no warning
        Harness harness(Star(9, k100G, kMicrosecond), config);
        for (ServerId s = 0; s < 8; ++s)
        {
            harness.SendAt(s * kNanosecond, StarPath(s, 8), s, 8, 3'000'000);
        }
        EXPECT_EQ(harness.Run(), std::vector<std::string>{});
        ASSERT_EQ(harness.records.size(), 8U);
        const NetworkTotals totals = harness.network->Totals();
        EXPECT_GT(totals.drops, 0U);
        EXPECT_GE(totals.retransmits, totals.drops);
        EXPECT_EQ(totals.deliveredBytes, 8U * 3'000'000U);
    }
}

/** Until a message that got no answer sends a probe: an eighth of the timeout, which full buffers both ways cannot exceed. */
SimTime
ProbeDelay(std::uint32_t hops)
{
    const SimTime buffers = TxTime(2'000'000, k100G);
    const SimTime there = TxTime(WireBytes(kPayload), k100G) + kMicrosecond + buffers;
    const SimTime back = TxTime(kAckWireBytes, k100G) + kMicrosecond + buffers;
    return 2 * hops * (there + back) / 8;
}

/** A message of one packet over two hops while the first thing to cross @p link is lost. */
MessageRecord
SendWhileDown(LinkId link, Bytes bytes, bool trains)
{
    PacketNetworkConfig config;
    config.trains = trains;
    Harness harness(Line(2, k100G, kMicrosecond), config);
    harness.SendAt(0, {0, 2}, 0, 2, bytes);
    harness.At(0, [link](PacketNetwork& n) { n.SetLinkState(link, LinkState::Down); });
    harness.At(50 * kMicrosecond,
               [link](PacketNetwork& n) { n.SetLinkState(link, LinkState::Up); });
    EXPECT_EQ(harness.Run(), std::vector<std::string>{});
    EXPECT_EQ(harness.records.size(), 1U);
    return harness.records.at(0);
}

TEST(PacketNetwork, LossOfTheLastPacketCostsAProbeAndNoTimeout)
{
    for (bool trains : {true, false})
    {
        const MessageRecord record = SendWhileDown(2, 1, trains);
        EXPECT_EQ(record.end, ProbeDelay(2) + record.ideal);
        EXPECT_EQ(record.retransmits, 1U);
    }
}

TEST(PacketNetwork, LossOfTheLastAcknowledgementCostsAProbeAndNoTimeout)
{
    for (bool trains : {true, false})
    {
        const MessageRecord record = SendWhileDown(3, 100, trains);
        EXPECT_EQ(record.end, record.ideal);
        EXPECT_EQ(record.acknowledged,
                  ProbeDelay(2) + record.ideal + 2 * (TxTime(kAckWireBytes, k100G) + kMicrosecond));
        EXPECT_EQ(record.retransmits, 1U);
    }
}

TEST(PacketNetwork, AcknowledgementsAreAskedForAsDocumented)
{
    // 64 KiB are 8 packets of 9000 B; up to 16 packets are acknowledged at the end.
    const std::tuple<std::uint32_t, Bytes, std::uint64_t> cases[] = {{0, 1, 1},
                                                                     {0, 8, 1},
                                                                     {0, 16, 1},
                                                                     {0, 17, 3},
                                                                     {0, 24, 3},
                                                                     {1, 1, 1},
                                                                     {1, 16, 16},
                                                                     {3, 16, 6},
                                                                     {20, 16, 1}};
    for (const auto& [every, packets, acks] : cases)
    {
        for (bool trains : {true, false})
        {
            PacketNetworkConfig config;
            config.ackEvery = every;
            config.trains = trains;
            Harness harness(Line(1, k100G, kMicrosecond), config);
            harness.SendAt(0, {0}, 0, 1, packets * kPayload);
            EXPECT_EQ(harness.Run(), std::vector<std::string>{});
            const std::vector<LinkCounters> links = harness.network->Links();
            EXPECT_EQ(links[0].packets, packets);
            EXPECT_EQ(links[1].packets, acks) << every << " " << packets;
        }
    }
}

TEST(PacketNetwork, QueuePairSendsOneMessageAfterTheOther)
{
    constexpr Bytes kBytes = 2'000'000;
    const SimTime serial = TxTime(MessageWireBytes(kBytes, kPayload), k100G);
    for (bool trains : {true, false})
    {
        PacketNetworkConfig config;
        config.trains = trains;
        Harness harness(Line(1, k100G, kMicrosecond), config);
        for (int k = 0; k < 4; ++k)
        {
            harness.SendAt(0, {0}, 0, 1, kBytes, 0);
        }
        EXPECT_EQ(harness.Run(), std::vector<std::string>{});
        ASSERT_EQ(harness.records.size(), 4U);
        for (SimTime k = 0; k < 4; ++k)
        {
            const MessageRecord& record = harness.records[static_cast<std::size_t>(k)];
            EXPECT_EQ(record.id, static_cast<std::uint64_t>(k));
            EXPECT_EQ(record.start, 0);
            EXPECT_EQ(record.end, (k + 1) * serial + kMicrosecond);
        }
    }
}

TEST(PacketNetwork, QueuePairsShareALinkWhateverWaitsInThem)
{
    // Nine messages in one queue pair, one in another: the one gets half of the link, not a tenth.
    Harness harness(Line(1, k100G, kMicrosecond), {});
    constexpr Bytes kBytes = 5'000'000;
    for (int k = 0; k < 9; ++k)
    {
        harness.SendAt(0, {0}, 0, 1, kBytes, 0);
    }
    harness.SendAt(0, {0}, 0, 1, kBytes, 1);
    EXPECT_EQ(harness.Run(), std::vector<std::string>{});
    ASSERT_EQ(harness.records.size(), 10U);
    const double serial = static_cast<double>(TxTime(MessageWireBytes(kBytes, kPayload), k100G));
    for (const MessageRecord& record : harness.records)
    {
        if (record.id == 9)
        {
            EXPECT_NEAR(static_cast<double>(record.end) / serial, 2.0, 0.05);
        }
    }
}

TEST(PacketNetwork, AMessageEachWayGetsTheWholeLinkOverAnyPath)
{
    // Bursts, windows and acknowledgements that wait behind the other's data must leave no gap.
    constexpr Bytes kBytes = 20'000'000;
    for (std::uint32_t ackEvery : {0U, 1U, 4U})
    {
        for (std::uint64_t factor : {1, 4, 8})
        {
            for (SimTime delay : {0, 1, 5})
            {
                for (std::uint32_t hops : {1U, 2U, 3U, 6U})
                {
                    const BitRate rate{factor * k100G.bps};
                    PacketNetworkConfig config;
                    config.ackEvery = ackEvery;
                    Harness harness(Line(hops, rate, delay * kMicrosecond), config);
                    const Path path = LinePath(hops);
                    Path back(path.rbegin(), path.rend());
                    for (LinkId& link : back)
                    {
                        ++link; // the other direction of the same cable
                    }
                    harness.SendAt(0, path, 0, hops, kBytes);
                    harness.SendAt(0, back, hops, 0, kBytes);
                    EXPECT_EQ(harness.Run(), std::vector<std::string>{});
                    ASSERT_EQ(harness.records.size(), 2U);
                    const double serial =
                        static_cast<double>(TxTime(MessageWireBytes(kBytes, kPayload), rate));
                    const double share = serial / static_cast<double>(harness.records[1].end -
                                                                      hops * delay * kMicrosecond);
                    // An acknowledgement is 86 bytes per data packet at most.
                    EXPECT_GT(share, 0.97) << ackEvery << ' ' << rate.bps << " b/s, " << delay
                                           << " us, " << hops << " hops";
                }
            }
        }
    }
}

TEST(PacketNetwork, OwnTrafficHardlyDelaysAShortMessageAtAnyRate)
{
    // What has been handed to the port is sent first; were it to grow with the rate, steps of small rings would wait for large ones.
    for (std::uint64_t factor : {1, 4, 8})
    {
        const BitRate rate{factor * k100G.bps};
        // Long enough for a long message's window to be more than a host hands over.
        constexpr SimTime kDelay = 20 * kMicrosecond;
        Harness harness(Line(1, rate, kDelay), {});
        harness.SendAt(0, {0}, 0, 1, 50'000'000);
        for (SimTime k = 1; k <= 20; ++k)
        {
            harness.SendAt(k * 23'456'789, {0}, 0, 1, 1000);
        }
        EXPECT_EQ(harness.Run(), std::vector<std::string>{});
        ASSERT_EQ(harness.records.size(), 21U);
        // Handed over, the burst that exceeds it, and one whose turn comes first.
        constexpr Bytes kWaiting = 50'000 + 2 * 7 * 9038;
        for (const MessageRecord& record : harness.records)
        {
            if (record.message.bytes == 1000)
            {
                EXPECT_LE(record.end - record.start,
                          TxTime(kWaiting + WireBytes(1000), rate) + kDelay);
            }
        }
    }
}

TEST(PacketNetwork, LocalMessagesCrossNoLink)
{
    Harness harness(Star(2, k100G, kMicrosecond), {});
    harness.SendAt(7, {}, 1, 1, 1'000'000);
    EXPECT_TRUE(harness.Run().empty());
    ASSERT_EQ(harness.records.size(), 1U);
    EXPECT_EQ(harness.records[0].end - harness.records[0].start,
              TxTime(1'000'000, BitRate{200'000'000'000}));
    EXPECT_EQ(harness.network->Totals().packetHops, 0U);
}

TEST(PacketNetwork, StopLeavesUnfinishedMessages)
{
    SimTime delivered[2];
    Bytes bytes[2];
    for (bool trains : {false, true})
    {
        PacketNetworkConfig config;
        config.trains = trains;
        Harness harness(Line(2, k100G, kMicrosecond), config);
        harness.SendAt(0, {0, 2}, 0, 2, 10'000'000);
        EXPECT_EQ(harness.Run(100 * kMicrosecond), std::vector<std::string>{});
        const std::vector<MessageRecord> left = harness.network->Unfinished();
        ASSERT_EQ(left.size(), 1U);
        EXPECT_EQ(left[0].end, kNever);
        EXPECT_GT(left[0].delivered, 0U);
        delivered[trains] = static_cast<SimTime>(left[0].delivered);
        bytes[trains] = harness.network->Totals().wireBytes;
    }
    EXPECT_EQ(delivered[0], delivered[1]);
    EXPECT_EQ(bytes[0], bytes[1]);
}

TEST(PacketNetwork, MtuWithoutPayloadIsRefused)
{
    PacketNetworkConfig config;
    config.mtu = kHeaderBytes;
    const ns3::Ptr<PacketNetwork> network = ns3::CreateObject<PacketNetwork>();
    EXPECT_THROW(network->Build(Star(2, k100G, 0), config), SpecError);
}

/** Everything that a run leaves, for comparing runs. */
struct Outcome
{
    std::vector<std::tuple<std::uint64_t, SimTime, SimTime, SimTime, std::uint64_t>> records;
    std::vector<std::tuple<std::uint64_t, Bytes, std::uint64_t, std::uint64_t, SimTime, SimTime>>
        links;

    bool operator==(const Outcome& other) const
    {
        return records == other.records && links == other.links;
    }
};

Outcome
OutcomeOf(const Harness& harness)
{
    Outcome outcome;
    for (const MessageRecord& r : harness.records)
    {
        outcome.records.emplace_back(r.id, r.start, r.end, r.acknowledged, r.retransmits);
    }
    for (const LinkCounters& l : harness.network->Links())
    {
        outcome.links.emplace_back(l.packets, l.bytes, l.drops, l.marks, l.busy, l.maxBacklog);
    }
    return outcome;
}

/** A random direct-connect graph of mixed rates with random messages on random walks. */
void
CompareTrainsOnAndOff(std::uint64_t seed)
{
    SCOPED_TRACE(seed);
    Rng rng(seed, "trains");
    const BitRate rates[] = {k25G, k100G, k100G, k100G, k300G, k400G};
    const auto n = static_cast<std::uint32_t>(3 + rng.Below(6));
    Topology topology(n);
    std::vector<std::vector<LinkId>> out(n);
    const auto connect = [&](NodeId a, NodeId b) {
        const LinkId link =
            topology.AddDuplexLink(a,
                                   b,
                                   rates[rng.Below(6)],
                                   static_cast<SimTime>(rng.Below(3)) * kMicrosecond + 1);
        out[a].push_back(link);
        out[b].push_back(link + 1);
    };
    for (NodeId s = 0; s < n; ++s)
    {
        connect(s, (s + 1) % n);
    }
    for (std::uint64_t extra = rng.Below(2 * n); extra-- > 0;)
    {
        const auto a = static_cast<NodeId>(rng.Below(n));
        const auto b = static_cast<NodeId>(rng.Below(n));
        if (a != b)
        {
            connect(a, b);
        }
    }
    PacketNetworkConfig config;
    const Bytes mtus[] = {1044, 1500, 9000};
    config.mtu = mtus[rng.Below(3)];
    config.ackEvery = rng.Below(2) == 0 ? 0 : static_cast<std::uint32_t>(1 + rng.Below(20));
    switch (rng.Below(4))
    {
    case 0:
        config.buffer = 20'000 + rng.Below(100'000); // losses
        config.ecn = 10'000 + rng.Below(20'000);
        break;
    case 1:
        config.ecn = 10'000 + rng.Below(200'000);
        break;
    default:
        break;
    }
    const bool fixed = config.buffer == 0 && rng.Below(4) == 0;
    config.control = fixed ? &FixedWindowControl() : &DctcpControl();

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
    std::vector<Planned> plan;
    for (std::uint64_t count = 1 + rng.Below(60); plan.size() < count;)
    {
        Planned p;
        p.src = static_cast<ServerId>(rng.Below(n));
        NodeId node = p.src;
        for (std::uint64_t hops = 1 + rng.Below(4); hops-- > 0;)
        {
            p.path.push_back(out[node][rng.Below(out[node].size())]);
            node = topology.links[p.path.back()].dst;
        }
        p.dst = node;
        if (p.src == p.dst)
        {
            continue;
        }
        p.time = rng.Below(3) == 0 ? 0 : static_cast<SimTime>(rng.Below(300)) * kMicrosecond;
        const Bytes scale[] = {1, 1000, 100'000, 2'000'000};
        p.bytes = rng.Below(scale[rng.Below(4)] + 1);
        p.pair = pairs.Next();
        plan.push_back(p);
    }
    const bool early = rng.Below(8) == 0;
    const SimTime stop = early ? 150 * kMicrosecond : 20 * kSecond;
    Outcome outcomes[2];
    std::uint64_t events[2];
    for (bool trains : {false, true})
    {
        config.trains = trains;
        Harness harness(topology, config);
        for (const Planned& p : plan)
        {
            harness.SendAt(p.time, p.path, p.src, p.dst, p.bytes, p.pair);
        }
        EXPECT_EQ(harness.Run(stop), std::vector<std::string>{}) << "seed " << seed;
        if (!early)
        {
            EXPECT_EQ(harness.records.size(), plan.size()) << "seed " << seed;
        }
        if (!early)
        {
            for (const MessageRecord& r : harness.network->Unfinished())
            {
                ADD_FAILURE() << "message " << r.id << " of " << r.message.bytes << " B over "
                              << r.hops << " hops has " << r.delivered << " B after "
                              << r.retransmits << " retransmissions";
            }
        }
        for (const MessageRecord& r : harness.records)
        {
            EXPECT_GE(r.end - r.start, r.ideal);
        }
        if (early && harness.network->Totals().unfinished > 0)
        {
            for (const LinkCounters& link : harness.network->Links())
            {
                EXPECT_LE(link.busy, harness.network->Now()) << "seed " << seed;
            }
        }
        outcomes[trains] = OutcomeOf(harness);
        events[trains] = harness.network->Totals().events;
    }
    EXPECT_TRUE(outcomes[0] == outcomes[1]) << "seed " << seed;
    EXPECT_LE(events[1], events[0]);
}

TEST(PacketNetwork, TrainsOnAndOffAgreeOnRandomLoads)
{
    for (std::uint64_t seed = 1; seed <= (kSanitized ? 100 : 400) && !testing::Test::HasFailure();
         ++seed)
    {
        CompareTrainsOnAndOff(seed);
    }
}

TEST(PacketNetwork, TraceSourcesSeeEveryPacketAndChangeNothing)
{
    Outcome outcomes[2];
    std::uint64_t seen = 0;
    std::uint64_t hops = 0;
    for (bool traced : {false, true})
    {
        Harness harness(Star(4, k100G, kMicrosecond), {});
        if (traced)
        {
            harness.network->TraceConnectWithoutContext(
                "Transmit",
                ns3::Callback<void, LinkId, std::uint64_t, Bytes, SimTime>(
                    [&seen](LinkId, std::uint64_t, Bytes, SimTime) { ++seen; }));
        }
        for (ServerId s = 0; s < 3; ++s)
        {
            harness.SendAt(s * kNanosecond, StarPath(s, 3), s, 3, 1'000'000);
        }
        EXPECT_TRUE(harness.Run().empty());
        outcomes[traced] = OutcomeOf(harness);
        hops = harness.network->Totals().packetHops;
    }
    EXPECT_TRUE(outcomes[0] == outcomes[1]);
    EXPECT_EQ(seen, hops);
}

} // namespace
} // namespace topoopt::test
