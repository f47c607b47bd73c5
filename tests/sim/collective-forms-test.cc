// SPDX-License-Identifier: GPL-2.0-only
// Every collective algorithm, packet by packet on idle links: it moves exactly the bytes of its definition, and takes the
// time of its closed form, headers included.
#include "../core/one-collective.h"
#include "ns3/executor.h"
#include "ns3/packet-network.h"
#include "ns3/peek-scheduler.h"
#include "ns3/simulator.h"
#include "topoopt/core/collectives.h"
#include "topoopt/core/topology-kinds.h"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <set>

namespace topoopt::test
{
namespace
{

constexpr Bytes kPayload = 9000 - kHeaderBytes;
constexpr BitRate kRate{100'000'000'000};
constexpr SimTime kDelay = kMicrosecond;

/** Bytes between members, and when the last one had ended. */
class Sums final : public ExecutionObserver
{
  public:
    void MessageFinished(const MessageRecord& record, const MessageContext& context) override
    {
        pairs[{context.srcRank, context.dstRank}] += record.message.bytes;
        ++messages;
    }

    void OperationFinished(const OperationRecord&) override
    {
    }

    void TaskFinished(const TaskRecord&) override
    {
    }

    std::map<std::pair<RankId, RankId>, Bytes> pairs;
    std::uint64_t messages = 0;
};

struct Result
{
    SimTime time = 0;
    Sums sums;
    Bytes moved = 0; ///< payload between members, also those of one server
};

/** One call over ranks 0..n-1, @p perServer ranks on each server of an ideal switch. */
Result
RunCall(const CollectiveCall& call,
        const std::string& algorithm,
        std::uint32_t n,
        std::uint32_t perServer = 1)
{
    const TaskGraph graph = OneCollective(n, call);
    std::vector<ServerId> placement;
    for (RankId r = 0; r < n; ++r)
    {
        placement.push_back(r / perServer);
    }
    FabricContext context;
    context.servers.count = n / perServer;
    context.servers.rate = kRate;
    context.servers.linkDelay = kDelay;
    FabricSpec spec;
    spec.kind = "ideal-switch";
    spec.name = spec.kind;
    const Fabric fabric = BuildFabric(spec, context);

    ns3::PeekScheduler::Install();
    const ns3::Ptr<PacketNetwork> network = ns3::CreateObject<PacketNetwork>();
    network->Build(fabric.topology, {});
    Result result;
    const CollectiveChoice choice({{Name(call.kind), algorithm}});
    ExecutorConfig config;
    config.graph = &graph;
    config.fabric = &fabric;
    config.collectives = &choice;
    config.placement = placement;
    TaskExecutor executor(config, *network, result.sums);
    executor.Begin();
    network->Start(kNever);
    ns3::Simulator::Run();
    EXPECT_TRUE(executor.Done()) << algorithm << " " << Name(call.kind);
    EXPECT_TRUE(network->CheckPhysics().empty());
    result.time = executor.IterationTimes().empty() ? kNever : executor.IterationTimes().at(0);
    const NetworkTotals totals = network->Totals();
    EXPECT_EQ(totals.deliveredBytes, totals.askedBytes);
    EXPECT_EQ(totals.drops, 0U) << algorithm << " " << Name(call.kind) << ", " << n << " members, "
                                << call.bytes << " B";
    result.moved = totals.deliveredBytes + totals.localBytes;
    network->Dispose();
    ns3::Simulator::Destroy();
    return result;
}

SimTime
Tx(Bytes wire)
{
    return TxTime(wire, kRate);
}

/** Time of a message on a link: every packet with its headers. */
SimTime
Serial(Bytes bytes)
{
    const Bytes packets = std::max<Bytes>(1, (bytes + kPayload - 1) / kPayload);
    const Bytes last = bytes - (packets - 1) * kPayload;
    return Tx(WireBytes(kPayload)) * static_cast<SimTime>(packets - 1) + Tx(WireBytes(last));
}

/** What a message takes to the other side of the switch besides Serial(): two delays and its first packet again. */
SimTime
Latency(Bytes bytes)
{
    return 2 * kDelay + Tx(WireBytes(std::min(bytes, kPayload)));
}

/** A message alone. */
SimTime
Alone(Bytes bytes)
{
    return Latency(bytes) + Serial(bytes);
}

/** How much acknowledgements may delay a message of this size on both its links, if all get in front of it. */
SimTime
Acks(Bytes bytes)
{
    constexpr Bytes kPerAck = 7 * kPayload; // 64 KiB in full packets
    return 2 * static_cast<SimTime>(bytes / kPerAck + 2) * Tx(kAckWireBytes);
}

CollectiveCall
Call(CollectiveKind kind, Bytes bytes, std::uint32_t root = 0)
{
    CollectiveCall call;
    call.kind = kind;
    call.bytes = bytes;
    call.root = root;
    return call;
}

/**
 * @p closed is the time without acknowledgements; @p acks the most that they can add. Nothing is faster than the
 * closed form.
 */
void
ExpectTime(const Result& result,
           SimTime closed,
           SimTime acks,
           const std::string& what,
           double tight = 0.05)
{
    EXPECT_GE(result.time, closed) << what;
    EXPECT_LE(result.time, closed + acks) << what;
    // The bound itself is tight.
    EXPECT_LE(static_cast<double>(acks), tight * static_cast<double>(closed)) << what;
}

/**
 * What the transport may lose on a link where messages met. While several are there, their windows, halved at
 * the first marks, fill the link, and further marks come from a queue. The last one to stay grows by 1/16 of its full window
 * per round trip: for at most 16 of them it is short, by half of a round trip's bytes on average.
 */
SimTime
Regrowth(Bytes bytes)
{
    constexpr Bytes kPerAck = 7 * kPayload;
    const SimTime roundTrip = 2 * Latency(kPayload) + Serial(kPerAck);
    return bytes <= kPerAck ? 0 : 8 * roundTrip;
}

const std::vector<std::uint32_t> kSizes{2, 3, 4, 5, 6, 7, 8};
/** For algorithms that are simple for powers of two. */
const std::vector<std::uint32_t> kTreeSizes{2, 3, 4, 5, 6, 7, 8, 12, 24};
/** Multiples of all of these, and of a packet, so that parts of up to eight members are whole packets. */
const std::vector<Bytes> kBytes{1680, 840 * kPayload};

std::string
What(const std::string& algorithm, CollectiveKind kind, std::uint32_t n, Bytes bytes)
{
    return algorithm + " " + Name(kind) + ", " + std::to_string(n) + " members, " +
           std::to_string(bytes) + " B";
}

TEST(CollectiveForms, Ring)
{
    for (const std::uint32_t n : kSizes)
    {
        for (const Bytes bytes : kBytes)
        {
            const auto steps = static_cast<SimTime>(n - 1);

            struct Case
            {
                CollectiveKind kind;
                SimTime steps;
                Bytes chunk;
            };

            for (const Case& c : {Case{CollectiveKind::AllReduce, 2 * steps, bytes / n},
                                  Case{CollectiveKind::ReduceScatter, steps, bytes / n},
                                  Case{CollectiveKind::AllGather, steps, bytes}})
            {
                const Result result = RunCall(Call(c.kind, bytes), "ring", n);
                ExpectTime(result,
                           c.steps * Alone(c.chunk),
                           c.steps * Acks(c.chunk),
                           What("ring", c.kind, n, bytes));
                // 2 (n-1)/n N, (n-1)/n N and (n-1) N on each edge of the ring, and nothing elsewhere.
                EXPECT_EQ(result.sums.pairs.size(), n);
                for (const auto& [pair, sum] : result.sums.pairs)
                {
                    EXPECT_EQ(pair.second, (pair.first + 1) % n);
                    EXPECT_EQ(sum, static_cast<Bytes>(c.steps) * c.chunk);
                }
            }
        }
    }
}

TEST(CollectiveForms, Chain)
{
    for (const std::uint32_t n : kSizes)
    {
        for (const Bytes bytes : kBytes)
        {
            for (const CollectiveKind kind : {CollectiveKind::Broadcast, CollectiveKind::Reduce})
            {
                for (const std::uint32_t root : {0U, n - 1})
                {
                    const Result result = RunCall(Call(kind, bytes, root), "ring", n);
                    // Chunks of one burst, 7 packets, follow each other down the chain.
                    const Bytes chunk = std::min(bytes, 7 * kPayload);
                    const Bytes chunks = bytes / chunk;
                    ExpectTime(result,
                               static_cast<SimTime>(n - 1) * Alone(chunk) +
                                   static_cast<SimTime>(chunks - 1) * Serial(chunk),
                               static_cast<SimTime>(n + chunks) * Acks(chunk),
                               What("chain", kind, n, bytes));
                    EXPECT_EQ(result.sums.pairs.size(), n - 1);
                    for (const auto& [pair, sum] : result.sums.pairs)
                    {
                        EXPECT_EQ(sum, bytes);
                    }
                }
            }
        }
    }
}

TEST(CollectiveForms, DirectExchange)
{
    for (const std::uint32_t n : kSizes)
    {
        for (const Bytes bytes : kBytes)
        {
            for (const CollectiveKind kind : {CollectiveKind::AllToAll,
                                              CollectiveKind::AllToAllV,
                                              CollectiveKind::ReduceScatter,
                                              CollectiveKind::AllGather,
                                              CollectiveKind::AllReduce})
            {
                const Bytes part = kind == CollectiveKind::AllGather ? bytes : bytes / n;
                CollectiveCall call = Call(kind, bytes);
                if (kind == CollectiveKind::AllToAllV)
                {
                    call.bytes = 0;
                    call.pairBytes.assign(std::size_t{n} * n, part);
                }
                const Result result = RunCall(call, "direct", n);
                // Each member's link is busy with n-1 parts, twice for an AllReduce.
                const SimTime rounds = kind == CollectiveKind::AllReduce ? 2 : 1;
                const auto peers = static_cast<SimTime>(n - 1);
                EXPECT_GE(result.time, rounds * (Latency(part) + peers * Serial(part)));
                // Bursts of several senders may meet at a receiver: one burst of each at most.
                const SimTime burst = Serial(std::min(part, 7 * kPayload));
                EXPECT_LE(result.time,
                          rounds * (Latency(part) + peers * (Serial(part) + Acks(part) + burst)))
                    << What("direct", kind, n, bytes);
                EXPECT_EQ(result.sums.pairs.size(), std::size_t{n} * (n - 1));
                for (const auto& [pair, sum] : result.sums.pairs)
                {
                    EXPECT_EQ(sum, static_cast<Bytes>(rounds) * part)
                        << What("direct", kind, n, bytes);
                }
            }
        }
    }
}

TEST(CollectiveForms, DirectFromAndToARoot)
{
    for (const std::uint32_t n : kSizes)
    {
        for (const Bytes bytes : kBytes)
        {
            for (const CollectiveKind kind : {CollectiveKind::Gather,
                                              CollectiveKind::Reduce,
                                              CollectiveKind::Scatter,
                                              CollectiveKind::Broadcast})
            {
                const Result result = RunCall(Call(kind, bytes, 1), "direct", n);
                // The root's link carries n-1 parts. Where they meet in front of it, what the transport makes of its
                // marks adds to that: less than a burst of each.
                const auto peers = static_cast<SimTime>(n - 1);
                const SimTime burst = Serial(std::min(bytes, 7 * kPayload));
                const SimTime meet =
                    kind == CollectiveKind::Gather || kind == CollectiveKind::Reduce ? peers * burst
                                                                                     : 0;
                ExpectTime(result,
                           Latency(bytes) + peers * Serial(bytes),
                           peers * Acks(bytes) + (n > 2 ? meet : 0),
                           What("direct", kind, n, bytes),
                           bytes > 1680 ? 0.2 : 0.4);
                EXPECT_EQ(result.sums.pairs.size(), n - 1);
                for (const auto& [pair, sum] : result.sums.pairs)
                {
                    const bool in =
                        kind == CollectiveKind::Gather || kind == CollectiveKind::Reduce;
                    EXPECT_EQ(in ? pair.second : pair.first, 1U);
                    EXPECT_EQ(sum, bytes);
                }
            }
        }
    }
}

/**
 * With k = ceil(log2 n), children 0, 1, ... k-1 of the root have subtrees of 1, 2, 4, ... members, the last one of the n - 2^(k-1)
 * that are left. Call A(j) the sum over i < j of a subtree's message alone on its links.
 *
 * Nobody needs longer than A(k), whatever n. Up: child j has its subtree's data by A(j) (induction; a subtree that lacks members is
 * only earlier). If the root's link was idle for the last time until child m began, that was at A(m) or before, and from
 * then on it carried at most the messages of children m to k-1, one latency late. Down: pieces keep their order, so child j has its
 * message after one latency and the messages of children k-1 to j, and its own subtree takes A(j).
 *
 * Nobody is faster than the root's link, which carries all of its children's messages, nor than child k-2, whose
 * subtree is full; with n a power of two the last one is full, too, and the bounds meet.
 */
TEST(CollectiveForms, BinomialTree)
{
    for (const std::uint32_t n : kTreeSizes)
    {
        const std::uint32_t k = CeilLog2(n);
        for (const Bytes bytes : kBytes)
        {
            for (const CollectiveKind kind : {CollectiveKind::Broadcast,
                                              CollectiveKind::Reduce,
                                              CollectiveKind::AllReduce,
                                              CollectiveKind::Gather,
                                              CollectiveKind::Scatter})
            {
                const bool parts =
                    kind == CollectiveKind::Gather || kind == CollectiveKind::Scatter;
                SimTime most = 0;
                SimTime link = Latency(bytes);
                SimTime chain = 0;
                SimTime acks = 0;
                for (std::uint32_t j = 0; j < k; ++j)
                {
                    const Bytes members = parts ? std::min(1U << j, n - (1U << j)) : 1;
                    most += Alone(members * bytes);
                    link += Serial(members * bytes);
                    chain += members == (parts ? 1U << j : 1) && (j + 1 < k || (n & (n - 1)) == 0)
                                 ? Alone(members * bytes)
                                 : 0;
                    acks += Acks(members * bytes);
                }
                const bool meets =
                    kind != CollectiveKind::Broadcast && kind != CollectiveKind::Scatter;
                const SimTime passes = kind == CollectiveKind::AllReduce ? 2 : 1;
                const Result result = RunCall(Call(kind, bytes), "tree", n);
                const std::string what = What("tree", kind, n, bytes);
                EXPECT_GE(result.time, passes * std::max(link, chain)) << what;
                EXPECT_LE(result.time,
                          passes * (most + acks) +
                              ((n & (n - 1)) != 0 && meets ? (k - 1) * Regrowth(bytes) : 0))
                    << what;
                Bytes subtrees = 0;
                for (std::uint32_t v = 1; v < n; ++v)
                {
                    subtrees += (parts ? std::min(v & (~v + 1), n - v) : 1) * bytes;
                }
                EXPECT_EQ(result.moved, static_cast<Bytes>(passes) * subtrees);
            }
        }
    }
}

/** Least and most time. */
struct Bounds
{
    SimTime least = 0;
    SimTime most = 0;
};

/**
 * Halving-doubling as a recursion over the rounds of its p nodes, of which the first n - p stand for a pair.
 *
 * Least: a node has come to the next round when the message of its peer is there, which began when the peer had come to this
 * one. Most: both begin when the later one has come to it. For an announced round (pairs, more than a burst) that is after
 * one message of 0 bytes; whoever heard it earlier may end up to that much earlier, and begins the next message while this one
 * still takes up the link for so long, which holds up both once more: three times Alone(0). If ranges are uneven, both begin
 * when both are there, and go on when both have told that they have everything: twice Alone(0) and nothing held up. Other
 * messages, of a burst at most, may share either link with those of all other rounds.
 */
Bounds
HalvingDoubling(CollectiveKind kind, std::uint32_t n, Bytes bytes)
{
    constexpr Bytes kBurst = 7 * kPayload;
    std::uint32_t log = 0;
    while (n >> (log + 1) != 0)
    {
        ++log;
    }
    const std::uint32_t nodes = 1U << log;
    const std::uint32_t pairs = n - nodes;
    const bool all = kind == CollectiveKind::AllReduce;
    const auto range = [&](std::uint32_t first, std::uint32_t size) {
        if (all)
        {
            return bytes * size / nodes;
        }
        const std::uint32_t both = std::min(size, pairs - std::min(pairs, first));
        return (kind == CollectiveKind::AllGather ? bytes : bytes / n) * (size + both);
    };
    std::vector<std::pair<std::uint32_t, bool>> rounds; // distance, whether it halves
    for (std::uint32_t d = nodes / 2; d > 0 && kind != CollectiveKind::AllGather; d /= 2)
    {
        rounds.emplace_back(d, true);
    }
    for (std::uint32_t d = 1; d < nodes && kind != CollectiveKind::ReduceScatter; d *= 2)
    {
        rounds.emplace_back(d, false);
    }
    Bytes eager = 0; // the largest message that is not announced
    for (const auto& [d, halves] : rounds)
    {
        eager = std::max(eager, range(0, d) > kBurst ? 0 : range(0, d));
    }
    const SimTime share =
        pairs == 0 || eager == 0 ? 0 : 2 * static_cast<SimTime>(rounds.size() + 1) * Serial(eager);
    const Bytes in = kind == CollectiveKind::ReduceScatter ? bytes - bytes / n : bytes;
    const Bytes out = all ? bytes : kind == CollectiveKind::AllGather ? (n - 1) * bytes : bytes / n;
    std::vector<Bounds> at(nodes);
    for (std::uint32_t v = 0; v < pairs; ++v)
    {
        at[v] = {Alone(in), Alone(in) + Acks(in)};
    }
    for (const auto& [d, halves] : rounds)
    {
        const bool announced = pairs > 0 && range(0, d) > kBurst;
        std::vector<Bounds> next(nodes);
        for (std::uint32_t v = 0; v < nodes; ++v)
        {
            const std::uint32_t peer = v ^ d;
            const Bytes got = range((halves ? v : peer) / d * d, d);
            const Bytes sent = range((halves ? peer : v) / d * d, d);
            const Bytes larger = all ? got : std::max(got, sent);
            next[v].least = std::max(at[v].least, at[peer].least + Alone(got));
            if (announced && !all)
            {
                next[v].least = std::max(at[v].least, at[peer].least) + Alone(larger);
            }
            next[v].most = std::max(at[v].most, at[peer].most) + Alone(larger) + Acks(larger) +
                           share + (announced ? (all ? 3 : 2) * Alone(0) : 0);
        }
        at = next;
    }
    Bounds end;
    for (std::uint32_t v = 0; v < nodes; ++v)
    {
        const bool hands = v < pairs;
        end.least = std::max(end.least, at[v].least + (hands ? Alone(out) : 0));
        end.most = std::max(end.most, at[v].most + (hands ? Alone(out) + Acks(out) + share : 0));
    }
    return end;
}

TEST(CollectiveForms, HalvingDoubling)
{
    for (const std::uint32_t n : kTreeSizes)
    {
        std::uint32_t nodes = 1;
        while (nodes * 2 <= n)
        {
            nodes *= 2;
        }
        for (const Bytes bytes : kBytes)
        {
            for (const CollectiveKind kind : {CollectiveKind::AllReduce,
                                              CollectiveKind::ReduceScatter,
                                              CollectiveKind::AllGather})
            {
                const std::string what = What("halving-doubling", kind, n, bytes);
                const Bounds bounds = HalvingDoubling(kind, n, bytes);
                const Result result = RunCall(Call(kind, bytes), "halving-doubling", n);
                EXPECT_GE(result.time, bounds.least) << what;
                EXPECT_LE(result.time, bounds.most) << what;
                const Bytes factor = kind == CollectiveKind::AllReduce   ? 2
                                     : kind == CollectiveKind::AllGather ? n
                                                                         : 1;
                EXPECT_EQ(result.moved, factor * (n - 1) * bytes);
                if (bytes > 1680)
                {
                    // The bounds themselves are tight.
                    EXPECT_LE(static_cast<double>(bounds.most),
                              1.05 * static_cast<double>(bounds.least))
                        << what;
                }
                if (kind == CollectiveKind::AllReduce)
                {
                    // The closed form: whoever is left over hands everything over first and is given everything last.
                    SimTime closed = nodes < n ? 2 * Alone(bytes) : 0;
                    for (std::uint32_t part = nodes; part > 1; part /= 2)
                    {
                        closed += 2 * Alone(bytes / part);
                    }
                    EXPECT_EQ(bounds.least, closed) << what;
                }
            }
        }
    }
}

/**
 * The busiest member is an inner node of one tree and a leaf of the other: of both halves it passes a sum up, and of one it
 * passes the result to two children, so that its link carries twice the payload (n = 3: 1.5 times, n = 2: once). On
 * every link of its way to the root and back, ceil(log2 n) levels each, the first chunk, or the last, meets at most one chunk
 * of each of the three other kinds that share the link with it.
 */
TEST(CollectiveForms, DoubleBinaryTree)
{
    for (const std::uint32_t n : kTreeSizes)
    {
        for (const Bytes bytes : kBytes)
        {
            const Result result =
                RunCall(Call(CollectiveKind::AllReduce, bytes), "double-binary-tree", n);
            EXPECT_EQ(result.moved, Bytes{2} * (n - 1) * bytes);
            const std::string what =
                What("double-binary-tree", CollectiveKind::AllReduce, n, bytes);
            const Bytes most = n == 2 ? bytes : n == 3 ? bytes * 3 / 2 : 2 * bytes;
            std::map<RankId, Bytes> sent;
            for (const auto& [pair, sum] : result.sums.pairs)
            {
                sent[pair.first] += sum;
            }
            Bytes busiest = 0;
            for (const auto& [rank, sum] : sent)
            {
                busiest = std::max(busiest, sum);
            }
            EXPECT_EQ(busiest, most) << what;
            // Each chunk of a tree passes each of its n-1 edges up and down.
            const Bytes chunks = result.sums.messages / (4 * (n - 1));
            const Bytes chunk = (bytes / 2 + chunks - 1) / chunks;
            const auto carried = static_cast<SimTime>(most / (bytes / 2) * chunks);
            EXPECT_GE(result.time, Serial(most) + Latency(chunk)) << what;
            EXPECT_LE(result.time,
                      carried * (Serial(chunk) + Acks(chunk)) +
                          2 * CeilLog2(n) * (Latency(chunk) + 4 * Serial(chunk)))
                << what;
        }
    }
}

TEST(CollectiveForms, Hierarchical)
{
    constexpr std::uint32_t kLocal = 2;
    constexpr BitRate kIntra{200'000'000'000};
    for (const std::uint32_t servers : {2U, 3U, 4U})
    {
        const std::uint32_t n = servers * kLocal;
        for (const Bytes bytes : kBytes)
        {
            const Result result =
                RunCall(Call(CollectiveKind::AllReduce, bytes), "hierarchical", n, kLocal);
            EXPECT_EQ(result.moved, Bytes{2} * (n - 1) * bytes);
            // Within a server at the intra rate, without headers; across, the members of a server share its link.
            const Bytes part = bytes / kLocal;
            const Bytes chunk = part / servers;
            const SimTime within = 2 * (kLocal - 1) * TxTime(part, kIntra);
            const auto steps = static_cast<SimTime>(2 * (servers - 1));
            const std::string what = What("hierarchical", CollectiveKind::AllReduce, n, bytes);
            // Members of a server that take turns hide each other's latency.
            EXPECT_GE(result.time, within + Latency(chunk) + steps * kLocal * Serial(chunk))
                << what;
            EXPECT_LE(result.time,
                      within + steps * (Latency(chunk) + kLocal * (Serial(chunk) + Acks(chunk))))
                << what;
        }
    }
}

TEST(CollectiveForms, BarrierIsLogarithmic)
{
    for (const std::uint32_t n : {2U, 3U, 4U, 7U, 8U, 16U})
    {
        const Result result = RunCall(Call(CollectiveKind::Barrier, 0), "dissemination", n);
        ExpectTime(result,
                   CeilLog2(n) * Alone(0),
                   CeilLog2(n) * Acks(0),
                   What("dissemination", CollectiveKind::Barrier, n, 0));
        EXPECT_EQ(result.moved, 0U);
        EXPECT_EQ(result.sums.messages, n * CeilLog2(n));
    }
}

/**
 * The estimate of an algorithm is its closed form without headers: nobody is faster by more than rounding, and slower by
 * no more than what the tests above allow. So the least estimate's algorithm is slower than the best one by at most
 * its headers and that slack.
 */
TEST(CollectiveForms, AutoIsNeverFarFromTheBest)
{
    for (const std::uint32_t n : kTreeSizes)
    {
        const std::uint32_t k = CeilLog2(n);
        for (const Bytes bytes : kBytes)
        {
            const auto time = [&](const char* algorithm) {
                return RunCall(Call(CollectiveKind::AllReduce, bytes), algorithm, n).time;
            };
            SimTime best = kNever;
            std::set<SimTime> times;
            for (const char* algorithm :
                 {"ring", "halving-doubling", "double-binary-tree", "tree", "hierarchical"})
            {
                times.insert(time(algorithm));
                best = std::min(best, *times.begin());
            }
            const SimTime chosen = time("auto");
            EXPECT_EQ(times.count(chosen), 1U) << "one of the table";
            const Bytes chunk = std::min(bytes / 2, 7 * kPayload);
            const SimTime chunks = 2 * k * 4 * Serial(chunk);   // of a double tree, that meet
            const SimTime announcements = 2 * k * 3 * Alone(0); // of halving-doubling
            const SimTime headers = best * (WireBytes(kPayload) - kPayload) / kPayload;
            EXPECT_LE(chosen, best + headers + std::max(chunks, bytes > 1680 ? announcements : 0))
                << What("auto", CollectiveKind::AllReduce, n, bytes);
            // Other kinds take their default.
            for (const auto& [kind, name] : {std::pair{CollectiveKind::AllGather, "ring"},
                                             {CollectiveKind::AllToAll, "direct"},
                                             {CollectiveKind::Barrier, "dissemination"}})
            {
                EXPECT_EQ(RunCall(Call(kind, bytes / 10), "auto", n).time,
                          RunCall(Call(kind, bytes / 10), name, n).time);
            }
        }
    }
}

TEST(CollectiveForms, SendAndReceive)
{
    for (const Bytes bytes : {Bytes{1}, Bytes{kPayload}, Bytes{kPayload + 1}, Bytes{5'000'000}})
    {
        // A broadcast of two is one message.
        const Result result = RunCall(Call(CollectiveKind::Broadcast, bytes), "direct", 2);
        EXPECT_EQ(result.time, Alone(bytes)) << bytes;
    }
}

} // namespace
} // namespace topoopt::test
