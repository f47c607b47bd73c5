// SPDX-License-Identifier: GPL-2.0-only
#include "../temp-path.h"
#include "network-harness.h"
#include "ns3/link-sampler.h"
#include "topoopt/core/routing.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

namespace topoopt::test
{
namespace
{

constexpr BitRate k100G{100'000'000'000};

struct Sample
{
    LinkId link;
    SimTime end;
    double utilisation;
};

std::vector<Sample>
Written(const LinkSampler& sampler, SimTime end)
{
    const std::string file = test::TempPath("link-sampler-test.csv");
    sampler.Write(file, {}, end);
    std::ifstream in(file);
    std::string line;
    std::getline(in, line);
    EXPECT_EQ(line, "link_id,t_ps,utilisation");
    std::vector<Sample> samples;
    while (std::getline(in, line))
    {
        Sample sample{};
        EXPECT_EQ(
            std::sscanf(line.c_str(), "%u,%ld,%lf", &sample.link, &sample.end, &sample.utilisation),
            3);
        samples.push_back(sample);
    }
    return samples;
}

PacketNetworkConfig
Config()
{
    PacketNetworkConfig config;
    config.control = &DctcpControl();
    return config;
}

TEST(LinkSampler, OnePacketFillsItsBinsExactly)
{
    const Topology line = Line(1, BitRate{8'000'000'000}, kMicrosecond); // a byte per ns
    Harness harness(line, Config());
    LinkSampler sampler(line.links, *harness.network);
    const SimTime begin = 700'000;
    harness.SendAt(begin, {0}, 0, 1, 1000);
    EXPECT_EQ(harness.Run(), std::vector<std::string>{});
    const SimTime busy = TxTime(WireBytes(1000), BitRate{8'000'000'000});
    EXPECT_EQ(sampler.Busy(0), busy);
    const std::vector<Sample> samples = Written(sampler, 3 * kMicrosecond);
    // 0.7 us to 1.7.. us: 0.3 us of the first microsecond, the rest in the second; the acknowledgement comes later.
    ASSERT_GE(samples.size(), 2U);
    EXPECT_EQ(samples[0].end, kMicrosecond);
    EXPECT_NEAR(samples[0].utilisation, 0.3, 1e-6);
    EXPECT_EQ(samples[1].end, 2 * kMicrosecond);
    EXPECT_NEAR(samples[1].utilisation, static_cast<double>(busy - 300'000) / 1e6, 1e-6);
}

TEST(LinkSampler, SumsToTheCountersAndNeverPassesOne)
{
    const Topology line = Line(4, k100G, kMicrosecond);
    Harness harness(line, Config());
    LinkSampler sampler(line.links, *harness.network);
    Rng random(7, "link-samples");
    for (int i = 0; i < 60; ++i)
    {
        const auto from = static_cast<ServerId>(random.Below(4));
        const auto to = static_cast<ServerId>(from + 1 + random.Below(4 - from));
        Path path;
        for (ServerId at = from; at < to; ++at)
        {
            path.push_back(2 * at);
        }
        harness.SendAt(static_cast<SimTime>(random.Below(400)) * kMicrosecond,
                       path,
                       from,
                       to,
                       1 + random.Below(3'000'000));
    }
    EXPECT_EQ(harness.Run(), std::vector<std::string>{});
    EXPECT_GT(sampler.Width(), kMicrosecond); // it outgrew its first bins
    const std::vector<LinkCounters> counters = harness.network->Links();
    std::vector<double> written(counters.size());
    SimTime previous = 0;
    SimTime width = 0;
    for (const Sample& sample : Written(sampler, harness.network->Now()))
    {
        EXPECT_GE(sample.end, previous);
        width = sample.end != previous ? sample.end - previous : width;
        previous = sample.end;
        EXPECT_LE(sample.utilisation, 1.0);
        written[sample.link] += sample.utilisation * static_cast<double>(width);
    }
    EXPECT_EQ(previous, harness.network->Now());
    for (LinkId link = 0; link < counters.size(); ++link)
    {
        EXPECT_EQ(sampler.Busy(link), counters[link].busy) << link;
        EXPECT_NEAR(written[link], static_cast<double>(counters[link].busy), 1e6) << link;
    }
}

TEST(LinkSampler, DoesNotCountWhatADarkLinkDidNotSend)
{
    const Topology line = Line(3, k100G, kMicrosecond);
    Harness harness(line, Config());
    LinkSampler sampler(line.links, *harness.network);
    harness.SendAt(0, {0, 2, 4}, 0, 3, 20'000'000);
    harness.SendAt(0, {2, 4}, 1, 3, 20'000'000);
    for (int k = 0; k < 20; ++k)
    {
        const SimTime at = (50 + 97 * k) * kMicrosecond + 1234 * k;
        for (SimTime after : {SimTime{0}, 40 * kMicrosecond})
        {
            harness.At(at + after, [after](PacketNetwork& network) {
                const LinkState state = after == 0 ? LinkState::Down : LinkState::Up;
                network.SetLinkState(2, state);
                network.SetLinkState(3, state);
            });
        }
    }
    EXPECT_EQ(harness.Run(), std::vector<std::string>{});
    EXPECT_GT(harness.network->Totals().lostDown, 0U);
    const std::vector<LinkCounters> counters = harness.network->Links();
    for (LinkId link = 0; link < counters.size(); ++link)
    {
        EXPECT_EQ(sampler.Busy(link), counters[link].busy) << link;
    }
    for (const Sample& sample : Written(sampler, harness.network->Now()))
    {
        EXPECT_LE(sample.utilisation, 1.0);
    }
}

} // namespace
} // namespace topoopt::test
