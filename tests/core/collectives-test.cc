// SPDX-License-Identifier: GPL-2.0-only
#include "one-collective.h"
#include "topoopt/core/collectives.h"
#include "topoopt/core/random.h"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <numeric>

namespace topoopt::test
{
namespace
{

/** Bit m: the contribution of member m. */
using Mask = std::uint32_t;
using Elements = std::vector<std::uint32_t>;

/** Servers around one switch; rings as given. */
Fabric
Star(std::uint32_t servers, BitRate rate, SimTime delay, std::uint32_t rings = 1)
{
    Fabric fabric;
    fabric.topology = Topology(servers);
    const NodeId hub = fabric.topology.AddSwitch("hub");
    for (NodeId s = 0; s < servers; ++s)
    {
        fabric.topology.AddDuplexLink(s, hub, rate, delay);
    }
    fabric.router = std::make_shared<EcmpRouter>(fabric.topology, 1);
    fabric.rings = [rings](const std::vector<ServerId>& group) {
        std::vector<Ring> all(rings);
        for (std::uint32_t r = 0; r < rings; ++r)
        {
            for (std::uint32_t k = 0; k < group.size(); ++k)
            {
                all[r].order.push_back(k);
            }
            if (r % 2 == 1)
            {
                std::reverse(all[r].order.begin(), all[r].order.end());
            }
        }
        return all;
    };
    return fabric;
}

/**
 * What the messages of an AllReduce mean, told from the algorithm's description and not from its code.
 *
 * Elements are bytes. Called in the order in which the messages are sent.
 */
struct Meaning
{
    /** Elements of a message. */
    std::function<Elements(std::uint32_t channel, std::uint32_t member, const CollectiveSend&)>
        elements;
    /** Whether the receiver adds (else replaces). */
    std::function<bool(std::uint32_t channel, std::uint32_t peerStep)> adds;
    /** Tells that a member has left the step in which it got these elements. */
    std::function<void(std::uint32_t channel, std::uint32_t member, const Elements&)> got =
        [](std::uint32_t, std::uint32_t, const Elements&) {};
};

struct Outcome
{
    Bytes moved = 0;
    std::uint32_t waves = 0; ///< rounds when every message takes one unit of time
    std::vector<Bytes> sent;
    std::vector<Bytes> received;
    std::vector<Mask> knows; ///< members whose data may have reached a member
    std::vector<std::vector<Mask>> data;
};

/** Runs a program; @p seed 0 delivers in waves, others in random order. */
Outcome
Execute(const CollectiveProgram& program,
        std::uint32_t n,
        std::uint64_t seed,
        std::uint32_t length = 0,
        const Meaning* meaning = nullptr)
{
    struct Flight
    {
        std::uint32_t channel, to, step;
        Mask knows;
        Elements elements;
        std::vector<Mask> masks;
    };

    Outcome out;
    out.sent.resize(n);
    out.received.resize(n);
    for (std::uint32_t m = 0; m < n; ++m)
    {
        out.knows.push_back(Mask{1} << m);
        out.data.emplace_back(length, Mask{1} << m);
    }
    const std::uint32_t channels = program.Channels();
    std::vector<std::uint32_t> step(std::size_t{channels} * n);
    std::vector<std::uint32_t> expected(step.size());
    std::vector<std::map<std::uint32_t, std::vector<Flight>>> inbox(step.size());
    std::vector<Flight> flights;
    std::vector<CollectiveSend> sends;
    const auto enter = [&](std::uint32_t c, std::uint32_t m) {
        const std::size_t at = std::size_t{c} * n + m;
        if (step[at] >= program.Steps(c, m))
        {
            return;
        }
        expected[at] = program.Step(c, m, step[at], sends);
        for (const CollectiveSend& send : sends)
        {
            ASSERT_LT(send.peer, n);
            ASSERT_NE(send.peer, m);
            ASSERT_LT(send.peerStep, program.Steps(c, send.peer));
            Flight flight{c, send.peer, send.peerStep, out.knows[m], {}, {}};
            if (meaning != nullptr)
            {
                flight.elements = meaning->elements(c, m, send);
                EXPECT_EQ(flight.elements.size(), send.bytes) << n << " members, step " << step[at];
                for (std::uint32_t e : flight.elements)
                {
                    flight.masks.push_back(out.data[m][e]);
                }
            }
            out.moved += send.bytes;
            out.sent[m] += send.bytes;
            out.received[send.peer] += send.bytes;
            flights.push_back(std::move(flight));
        }
    };
    const auto advance = [&](std::uint32_t c, std::uint32_t m) {
        const std::size_t at = std::size_t{c} * n + m;
        while (step[at] < program.Steps(c, m) && inbox[at][step[at]].size() >= expected[at])
        {
            ASSERT_EQ(inbox[at][step[at]].size(), expected[at]);
            for (const Flight& flight : inbox[at][step[at]])
            {
                out.knows[m] |= flight.knows;
                for (std::size_t k = 0; k < flight.elements.size(); ++k)
                {
                    Mask& mask = out.data[m][flight.elements[k]];
                    if (meaning->adds(c, step[at]))
                    {
                        EXPECT_EQ(mask & flight.masks[k], 0U) << "added twice";
                        mask |= flight.masks[k];
                    }
                    else
                    {
                        mask = flight.masks[k];
                    }
                }
                if (meaning != nullptr)
                {
                    meaning->got(c, m, flight.elements);
                }
            }
            inbox[at].erase(step[at]);
            ++step[at];
            enter(c, m);
        }
    };
    Rng rng(seed, "deliveries");
    std::vector<std::uint32_t> starts(n);
    std::iota(starts.begin(), starts.end(), 0);
    if (seed != 0)
    {
        rng.Shuffle(starts);
    }
    for (std::uint32_t m : starts)
    {
        for (std::uint32_t c = 0; c < channels; ++c)
        {
            enter(c, m);
            advance(c, m);
        }
    }
    while (!flights.empty())
    {
        std::vector<Flight> wave;
        if (seed == 0)
        {
            wave.swap(flights);
            ++out.waves;
        }
        else
        {
            std::swap(flights[rng.Below(flights.size())], flights.back());
            wave.push_back(std::move(flights.back()));
            flights.pop_back();
        }
        for (Flight& flight : wave)
        {
            const std::size_t at = std::size_t{flight.channel} * n + flight.to;
            EXPECT_GE(flight.step, step[at]) << "a message for a step that has been left";
            inbox[at][flight.step].push_back(std::move(flight));
        }
        for (const Flight& flight : wave)
        {
            advance(flight.channel, flight.to);
        }
    }
    for (std::uint32_t c = 0; c < channels; ++c)
    {
        for (std::uint32_t m = 0; m < n; ++m)
        {
            const std::size_t at = std::size_t{c} * n + m;
            EXPECT_EQ(step[at], program.Steps(c, m)) << "member " << m << " of " << n << " waits";
            for (const auto& [late, messages] : inbox[at])
            {
                EXPECT_TRUE(messages.empty()) << "unexpected message for step " << late;
            }
        }
    }
    return out;
}

/** A collective on a star, built by name. */
struct Case
{
    Case(const char* name, CollectiveKind kind, std::vector<ServerId> servers, Bytes bytes)
        : fabric(Star(32, BitRate{100'000'000'000}, kMicrosecond, 2)),
          context{&call, std::move(servers), &fabric}
    {
        call.kind = kind;
        call.bytes = bytes;
        algorithm = name;
    }

    Case(const Case&) = delete;
    Case& operator=(const Case&) = delete;

    std::unique_ptr<CollectiveProgram> Build()
    {
        return CollectiveChoice({{Name(call.kind), algorithm}}).Build(context);
    }

    CollectiveCall call;
    Fabric fabric;
    CollectiveContext context;
    std::string algorithm;
};

std::vector<ServerId>
OneEach(std::uint32_t n)
{
    std::vector<ServerId> servers(n);
    std::iota(servers.begin(), servers.end(), 0);
    return servers;
}

/** Elements of part @p index of @p of. */
Elements
Part(const Elements& of, std::uint32_t parts, std::uint32_t index)
{
    std::size_t begin = 0;
    for (std::uint32_t k = 0; k < index; ++k)
    {
        begin += PartOf(of.size(), parts, k, 1);
    }
    const auto first = of.begin() + static_cast<std::ptrdiff_t>(begin);
    return {first, first + static_cast<std::ptrdiff_t>(PartOf(of.size(), parts, index, 1))};
}

Elements
All(std::uint32_t length)
{
    Elements all(length);
    std::iota(all.begin(), all.end(), 0);
    return all;
}

constexpr std::uint32_t kLengths[] = {0, 1, 5, 41, 64};

/** All members have every contribution to every element, once, and the bytes are 2 (n-1) S. */
void
ExpectAllReduced(Case& c, const std::function<Meaning()>& meaning)
{
    const auto n = static_cast<std::uint32_t>(c.context.servers.size());
    const auto length = static_cast<std::uint32_t>(c.call.bytes);
    const auto program = c.Build();
    for (std::uint64_t seed : {0, 1, 2})
    {
        const Meaning m = meaning();
        const Outcome out = Execute(*program, n, seed, length, &m);
        EXPECT_EQ(out.moved, Bytes{2} * (n - 1) * length) << c.algorithm << " " << n;
        for (std::uint32_t member = 0; member < n; ++member)
        {
            EXPECT_EQ(out.data[member], std::vector<Mask>(length, (Mask{1} << n) - 1))
                << c.algorithm << ", member " << member << " of " << n << ", " << length << " B";
        }
    }
}

TEST(Collectives, TreeAllReduceAddsEverythingOnce)
{
    for (std::uint32_t n = 1; n <= 17; ++n)
    {
        for (std::uint32_t length : kLengths)
        {
            Case c("tree", CollectiveKind::AllReduce, OneEach(n), length);
            ExpectAllReduced(c, [&] {
                Meaning m;
                m.elements = [=](std::uint32_t, std::uint32_t, const CollectiveSend&) {
                    return All(length);
                };
                m.adds = [=](std::uint32_t, std::uint32_t step) { return step < CeilLog2(n); };
                return m;
            });
        }
    }
}

TEST(Collectives, DoubleBinaryTreeAddsEverythingOnce)
{
    for (std::uint32_t n = 1; n <= 17; ++n)
    {
        for (std::uint32_t length : kLengths)
        {
            Case c("double-binary-tree", CollectiveKind::AllReduce, OneEach(n), length);
            ExpectAllReduced(c, [&] {
                Meaning m;
                m.elements = [=](std::uint32_t channel, std::uint32_t, const CollectiveSend&) {
                    return Part(All(length), 2, channel);
                };
                m.adds = [](std::uint32_t, std::uint32_t step) { return step == 0; };
                return m;
            });
        }
        Case c("double-binary-tree", CollectiveKind::AllReduce, OneEach(n), 3'000'001);
        c.call.elementBytes = 4;
        const auto program = c.Build();
        EXPECT_EQ(program->Channels(), 2U);
        const Outcome out = Execute(*program, n, 0);
        EXPECT_EQ(out.moved, Bytes{2} * (n - 1) * 3'000'001);
        // At least 24 chunks per tree, so many at a time as cover the way to the root and back.
        const std::uint32_t window = 4 * CeilLog2(n) + 4;
        EXPECT_LE(out.waves,
                  2 * CeilLog2(n) * (1 + (n < 2 ? 0 : program->Steps(0, 0))) / 2 + window);
        // Inner in one tree, leaf in the other: nobody sends more than one payload up and two halves down, but
        // for the member that is inner twice when n is odd.
        std::uint32_t twice = 0;
        for (std::uint32_t m = 0; m < n; ++m)
        {
            twice += out.sent[m] > Bytes{2} * 3'000'001 + 8 ? 1 : 0;
        }
        EXPECT_LE(twice, n % 2) << n;
    }
}

TEST(Collectives, HalvingDoublingAddsEverythingOnce)
{
    for (std::uint32_t n = 1; n <= 17; ++n)
    {
        std::uint32_t log = 0;
        while (n >> (log + 1) != 0)
        {
            ++log;
        }
        const std::uint32_t nodes = 1U << log;
        const std::uint32_t folded = n - nodes;
        const std::uint32_t before = folded > 0 ? 1 : 0;
        for (std::uint32_t length : kLengths)
        {
            Case c("halving-doubling", CollectiveKind::AllReduce, OneEach(n), length);
            EXPECT_EQ(c.Build()->Steps(0, 0), length == 0 ? 0 : 2 * log + 2 * before);
            ExpectAllReduced(c, [&] {
                // Live blocks of each member: halved while sending, joined while receiving.
                auto live = std::make_shared<std::vector<std::pair<std::uint32_t, std::uint32_t>>>(
                    n,
                    std::pair{0U, nodes});
                const auto blocks = [=](std::uint32_t first, std::uint32_t last) {
                    Elements e;
                    for (std::uint32_t b = first; b < last; ++b)
                    {
                        const Elements part = Part(All(length), nodes, b);
                        e.insert(e.end(), part.begin(), part.end());
                    }
                    return e;
                };
                Meaning m;
                m.adds = [=](std::uint32_t, std::uint32_t step) { return step < log + before; };
                m.elements = [=](std::uint32_t, std::uint32_t member, const CollectiveSend& s) {
                    if (before == 1 && (s.peerStep == 0 || s.peerStep == 2 * log + 1))
                    {
                        return All(length);
                    }
                    const std::uint32_t node = member < 2 * folded ? member / 2 : member - folded;
                    const std::uint32_t round = s.peerStep - before;
                    auto& [first, last] = (*live)[member];
                    if (round < log)
                    {
                        const std::uint32_t middle = (first + last) / 2;
                        const bool lower = (node >> round & 1) == 0;
                        const Elements e = lower ? blocks(middle, last) : blocks(first, middle);
                        (lower ? last : first) = middle;
                        return e;
                    }
                    const Elements e = blocks(first, last);
                    const std::uint32_t size = last - first;
                    first -= first % (2 * size);
                    last = first + 2 * size;
                    return e;
                };
                return m;
            });
        }
    }
}

TEST(Collectives, HierarchicalAddsEverythingOnce)
{
    for (std::uint32_t servers = 2; servers <= 5; ++servers)
    {
        for (std::uint32_t local = 2; local * servers <= 17; ++local)
        {
            const std::uint32_t n = servers * local;
            std::vector<ServerId> interleaved;
            for (std::uint32_t m = 0; m < n; ++m)
            {
                interleaved.push_back(m % servers);
            }
            for (std::uint32_t length : kLengths)
            {
                Case c("hierarchical", CollectiveKind::AllReduce, interleaved, length);
                const std::uint32_t across = local - 1;
                const std::uint32_t after = across + 2 * (servers - 1);
                EXPECT_EQ(c.Build()->Steps(0, 0), length == 0 ? 0 : after + local - 1);
                ExpectAllReduced(c, [&] {
                    auto last = std::make_shared<
                        std::map<std::pair<std::uint32_t, std::uint32_t>, Elements>>();
                    Meaning m;
                    m.got = [=](std::uint32_t channel, std::uint32_t member, const Elements& e) {
                        (*last)[{channel, member}] = e;
                    };
                    m.adds = [=](std::uint32_t, std::uint32_t step) {
                        return step < across + servers - 1;
                    };
                    m.elements = [=](std::uint32_t ring,
                                     std::uint32_t member,
                                     const CollectiveSend& s) {
                        const std::uint32_t server = member % servers;
                        const std::uint32_t at = member / servers;
                        const bool within = s.peer % servers == server;
                        EXPECT_EQ(within, s.peerStep < across || s.peerStep >= after);
                        EXPECT_TRUE(within || s.peer / servers == at);
                        const Elements part = Part(All(length), 2, ring);
                        const Elements own = Part(part, local, at);
                        const std::uint32_t position = ring == 0 ? server : servers - 1 - server;
                        if (s.peerStep == 0)
                        {
                            return Part(part, local, (at + local - 1) % local);
                        }
                        if (s.peerStep == across)
                        {
                            return Part(own, servers, (position + servers - 1) % servers);
                        }
                        return s.peerStep == after ? own : (*last)[{ring, member}];
                    };
                    return m;
                });
            }
        }
    }
}

TEST(Collectives, HierarchicalFallsBackToTheRing)
{
    for (const std::vector<ServerId>& servers : {std::vector<ServerId>{0, 1, 2, 3},
                                                 std::vector<ServerId>{0, 0, 1},
                                                 std::vector<ServerId>{2, 2, 2}})
    {
        EXPECT_FALSE(collectives::FitsHierarchical(servers));
        Case c("hierarchical", CollectiveKind::AllReduce, servers, 1001);
        const auto n = static_cast<std::uint32_t>(servers.size());
        EXPECT_EQ(c.Build()->Steps(0, 0), 2 * (n - 1));
        EXPECT_EQ(Execute(*c.Build(), n, 0).moved, 2 * (n - 1) * 1001);
    }
}

TEST(Collectives, NothingToMoveTakesNoStep)
{
    for (const CollectiveAlgorithm& algorithm : CollectiveAlgorithms())
    {
        for (const CollectiveKind kind : algorithm.kinds)
        {
            Case c(algorithm.name, kind, OneEach(5), 0);
            c.call.pairBytes.assign(25, 0);
            const auto program = c.Build();
            const Outcome out = Execute(*program, 5, 0);
            EXPECT_EQ(out.moved, 0U);
            // Only a barrier is there to synchronise.
            EXPECT_EQ(out.waves == 0 && out.knows[0] == 1, kind != CollectiveKind::Barrier)
                << algorithm.name << " " << Name(kind);
        }
    }
}

TEST(Collectives, TreeReachesEveryRootInLogarithmicRounds)
{
    constexpr Bytes kBytes = 1003;
    for (std::uint32_t n = 1; n <= 17; ++n)
    {
        const Mask everyone = (Mask{1} << n) - 1;
        Bytes subtrees = 0; // v below the root has min(lowest bit, n - v) members
        for (std::uint32_t v = 1; v < n; ++v)
        {
            subtrees += std::min(v & (~v + 1), n - v) * kBytes;
        }
        for (std::uint32_t root = 0; root < n; ++root)
        {
            for (CollectiveKind kind : {CollectiveKind::Broadcast,
                                        CollectiveKind::Reduce,
                                        CollectiveKind::Gather,
                                        CollectiveKind::Scatter})
            {
                Case c("tree", kind, OneEach(n), kBytes);
                c.call.root = root;
                const auto program = c.Build();
                for (std::uint64_t seed : {0, 1})
                {
                    const Outcome out = Execute(*program, n, seed);
                    const bool parts =
                        kind == CollectiveKind::Gather || kind == CollectiveKind::Scatter;
                    EXPECT_EQ(out.moved, parts ? subtrees : (n - 1) * kBytes);
                    EXPECT_LE(out.waves, CeilLog2(n));
                    const bool up =
                        kind == CollectiveKind::Gather || kind == CollectiveKind::Reduce;
                    if (up)
                    {
                        EXPECT_EQ(out.knows[root], everyone);
                    }
                    for (std::uint32_t m = 0; m < n; ++m)
                    {
                        EXPECT_TRUE(up || (out.knows[m] >> root & 1) == 1);
                    }
                    if (parts)
                    {
                        EXPECT_EQ(up ? out.received[root] : out.sent[root], (n - 1) * kBytes);
                    }
                }
                // One message in and one out per round, so that a round is one message time.
                EXPECT_EQ(program->Steps(0, 0), CeilLog2(n));
                std::vector<CollectiveSend> sends;
                for (std::uint32_t m = 0; m < n; ++m)
                {
                    for (std::uint32_t step = 0; step < program->Steps(0, m); ++step)
                    {
                        EXPECT_LE(program->Step(0, m, step, sends) + sends.size(), 1U);
                    }
                }
            }
        }
        Case c("tree", CollectiveKind::AllReduce, OneEach(n), kBytes);
        EXPECT_EQ(c.Build()->Steps(0, 0), 2 * CeilLog2(n));
    }
}

TEST(Collectives, HalvingDoublingPartsAreExactForEverySize)
{
    for (std::uint32_t n = 1; n <= 17; ++n)
    {
        const Mask everyone = (Mask{1} << n) - 1;
        for (Bytes bytes : {Bytes{1}, Bytes{7}, Bytes{100'003}})
        {
            for (std::uint64_t seed : {0, 1})
            {
                Case scatter("halving-doubling", CollectiveKind::ReduceScatter, OneEach(n), bytes);
                scatter.call.elementBytes = 4;
                const Outcome reduced = Execute(*scatter.Build(), n, seed);
                EXPECT_EQ(reduced.moved, (n - 1) * bytes);
                Case gather("halving-doubling", CollectiveKind::AllGather, OneEach(n), bytes);
                const Outcome gathered = Execute(*gather.Build(), n, seed);
                EXPECT_EQ(gathered.moved, n * (n - 1) * bytes);
                for (std::uint32_t m = 0; m < n; ++m)
                {
                    EXPECT_EQ(reduced.knows[m], everyone);
                    EXPECT_EQ(gathered.knows[m], everyone);
                    // Nothing twice: all but the own part leaves a ReduceScatter, or enters an AllGather.
                    EXPECT_EQ(reduced.sent[m], bytes - PartOf(bytes, n, m, 4));
                    EXPECT_EQ(gathered.received[m], (n - 1) * bytes);
                }
            }
        }
    }
}

TEST(Collectives, AutoPrefersFewRoundsForSmallAndFullBandwidthForLarge)
{
    Case small("auto", CollectiveKind::AllReduce, OneEach(16), 64);
    EXPECT_EQ(small.Build()->Steps(0, 0), 8U) << "halving-doubling or a tree: 2 log2 n";
    // On direct cables only a ring avoids relays.
    Case large("auto", CollectiveKind::AllReduce, OneEach(16), 1'000'000'000);
    large.fabric.topology = Topology(16);
    for (NodeId s = 0; s < 16; ++s)
    {
        large.fabric.topology.AddDuplexLink(s, (s + 1) % 16, BitRate{100'000'000'000}, 1000);
    }
    large.fabric.router = std::make_shared<EcmpRouter>(large.fabric.topology, 1);
    EXPECT_EQ(large.Build()->Channels(), 2U);
    EXPECT_EQ(large.Build()->Steps(0, 0), 30U);
    // With several ranks per server only the hierarchical one has their local parts off the fabric.
    std::vector<ServerId> pairs;
    for (std::uint32_t m = 0; m < 16; ++m)
    {
        pairs.push_back(m / 2);
    }
    for (Bytes bytes : {Bytes{0}, Bytes{1}, Bytes{100'000}, Bytes{1'000'000'000}})
    {
        Case c("auto", CollectiveKind::AllReduce, pairs, bytes);
        EXPECT_EQ(Execute(*c.Build(), 16, 1).moved, 30 * bytes);
    }
}

TEST(Collectives, AutoIsTheDefaultForOtherKinds)
{
    for (std::uint32_t n = 1; n <= 5; ++n)
    {
        for (CollectiveKind kind : {CollectiveKind::Broadcast,
                                    CollectiveKind::AllGather,
                                    CollectiveKind::AllToAll,
                                    CollectiveKind::Barrier,
                                    CollectiveKind::AllReduce})
        {
            Case c("auto", kind, OneEach(n), 1000);
            const auto plain = CollectiveChoice().Build(c.context);
            const Outcome expected = Execute(*plain, n, 0);
            EXPECT_EQ(Execute(*c.Build(), n, 0).moved, expected.moved) << Name(kind);
        }
    }
}

TEST(Collectives, TableIsSortedAndComplete)
{
    std::vector<std::string> names;
    for (const CollectiveAlgorithm& algorithm : CollectiveAlgorithms())
    {
        names.emplace_back(algorithm.name);
    }
    EXPECT_EQ(names,
              (std::vector<std::string>{"auto",
                                        "direct",
                                        "dissemination",
                                        "double-binary-tree",
                                        "halving-doubling",
                                        "hierarchical",
                                        "ring",
                                        "tree"}));
}

} // namespace
} // namespace topoopt::test
