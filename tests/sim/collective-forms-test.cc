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

const std::vector<std::uint32_t> kSizes{2, 3, 4, 7, 8};
/** Multiples of all of kSizes and of a packet, so that parts are whole packets: 168 = lcm(2, 3, 4, 7, 8). */
const std::vector<Bytes> kBytes{168, 168 * kPayload, 168 * 10 * kPayload};

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
                           0.2);
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

TEST(CollectiveForms, BinomialTree)
{
    for (const std::uint32_t n : kSizes)
    {
        for (const Bytes bytes : kBytes)
        {
            for (const CollectiveKind kind :
                 {CollectiveKind::Broadcast, CollectiveKind::Reduce, CollectiveKind::AllReduce})
            {
                const SimTime rounds =
                    CeilLog2(n) * (kind == CollectiveKind::AllReduce ? SimTime{2} : SimTime{1});
                const Result result = RunCall(Call(kind, bytes), "tree", n);
                if ((n & (n - 1)) == 0)
                {
                    EXPECT_GE(result.time, rounds * Alone(bytes)) << What("tree", kind, n, bytes);
                    EXPECT_LE(result.time, rounds * (Alone(bytes) + Acks(bytes)))
                        << What("tree", kind, n, bytes);
                }
                else
                {
                    // Some rounds have nobody to wait for, so that two children meet at their parent.
                    EXPECT_LE(static_cast<double>(result.time),
                              1.05 * static_cast<double>(rounds * (Alone(bytes) + Acks(bytes))))
                        << What("tree", kind, n, bytes);
                }
                const Bytes passes = kind == CollectiveKind::AllReduce ? 2 : 1;
                EXPECT_EQ(result.moved, passes * (n - 1) * bytes);
            }
            for (const CollectiveKind kind : {CollectiveKind::Gather, CollectiveKind::Scatter})
            {
                const Result result = RunCall(Call(kind, bytes), "tree", n);
                if ((n & (n - 1)) == 0)
                {
                    // Subtrees of 1, 2, 4, ... members pass one after the other.
                    SimTime closed = 0;
                    SimTime acks = 0;
                    for (std::uint32_t span = 1; span < n; span *= 2)
                    {
                        closed += Alone(span * bytes);
                        acks += Acks(span * bytes);
                    }
                    ExpectTime(result, closed, acks, What("tree", kind, n, bytes));
                }
                Bytes subtrees = 0;
                for (std::uint32_t v = 1; v < n; ++v)
                {
                    subtrees += std::min(v & (~v + 1), n - v) * bytes;
                }
                EXPECT_EQ(result.moved, subtrees);
            }
        }
    }
}

TEST(CollectiveForms, HalvingDoubling)
{
    for (const std::uint32_t n : kSizes)
    {
        std::uint32_t nodes = 1;
        while (nodes * 2 <= n)
        {
            nodes *= 2;
        }
        for (const Bytes bytes : kBytes)
        {
            // Whoever is left over hands everything to a neighbour first and is given everything last.
            const bool folds = nodes < n;
            SimTime halving = 0;
            SimTime acks = 0;
            for (std::uint32_t part = nodes; part > 1; part /= 2)
            {
                halving += Alone(bytes / part);
                acks += Acks(bytes / part);
            }
            const Result all =
                RunCall(Call(CollectiveKind::AllReduce, bytes), "halving-doubling", n);
            const std::string what = What("halving-doubling", CollectiveKind::AllReduce, n, bytes);
            const SimTime closed = 2 * halving + (folds ? 2 * Alone(bytes) : 0);
            if (!folds)
            {
                ExpectTime(all, closed, 2 * acks, what);
            }
            else
            {
                // Who folds in nobody goes on at once and meets the folding of its partner.
                EXPECT_GE(static_cast<double>(all.time), 0.99 * static_cast<double>(closed))
                    << what;
                EXPECT_LE(static_cast<double>(all.time), 1.7 * static_cast<double>(closed)) << what;
            }
            EXPECT_EQ(all.moved, Bytes{2} * (n - 1) * bytes);
            const Result scatter =
                RunCall(Call(CollectiveKind::ReduceScatter, bytes), "halving-doubling", n);
            EXPECT_EQ(scatter.moved, (n - 1) * bytes);
            const Result gather =
                RunCall(Call(CollectiveKind::AllGather, bytes), "halving-doubling", n);
            EXPECT_EQ(gather.moved, Bytes{n} * (n - 1) * bytes);
            if (!folds)
            {
                ExpectTime(scatter,
                           halving,
                           acks,
                           What("halving-doubling", CollectiveKind::ReduceScatter, n, bytes));
                SimTime doubling = 0;
                SimTime slack = 0;
                for (std::uint32_t parts = 1; parts < n; parts *= 2)
                {
                    doubling += Alone(parts * bytes);
                    slack += Acks(parts * bytes);
                }
                ExpectTime(gather,
                           doubling,
                           slack,
                           What("halving-doubling", CollectiveKind::AllGather, n, bytes));
            }
        }
    }
}

TEST(CollectiveForms, DoubleBinaryTree)
{
    for (const std::uint32_t n : kSizes)
    {
        for (const Bytes bytes : kBytes)
        {
            const Result result =
                RunCall(Call(CollectiveKind::AllReduce, bytes), "double-binary-tree", n);
            EXPECT_EQ(result.moved, Bytes{2} * (n - 1) * bytes);
            // Nobody sends more than the payload twice (once as a leaf and inner node upwards, once to two children).
            std::map<RankId, Bytes> sent;
            for (const auto& [pair, sum] : result.sums.pairs)
            {
                sent[pair.first] += sum;
            }
            Bytes most = 0;
            for (const auto& [rank, sum] : sent)
            {
                most = std::max(most, sum);
            }
            EXPECT_GE(result.time, Serial(most));
            // The busiest member's bytes, and the way of a chunk to the root and back; on every level it may have
            // to wait for the other child's and the other tree's.
            const Bytes chunk = std::min(bytes / 2, 7 * kPayload);
            const SimTime fill = 2 * CeilLog2(n) * (Alone(chunk) + 3 * Serial(chunk));
            EXPECT_LE(static_cast<double>(result.time),
                      1.1 * static_cast<double>(Serial(most)) + static_cast<double>(fill))
                << What("double-binary-tree", CollectiveKind::AllReduce, n, bytes);
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

TEST(CollectiveForms, AutoIsNeverFarFromTheBest)
{
    for (const std::uint32_t n : kSizes)
    {
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
            EXPECT_LE(static_cast<double>(chosen), 1.35 * static_cast<double>(best))
                << What("auto", CollectiveKind::AllReduce, n, bytes);
            // Other kinds take their default.
            for (const auto& [kind, name] : {std::pair{CollectiveKind::AllGather, "ring"},
                                             {CollectiveKind::AllToAll, "direct"},
                                             {CollectiveKind::Barrier, "dissemination"}})
            {
                EXPECT_EQ(RunCall(Call(kind, bytes), "auto", n).time,
                          RunCall(Call(kind, bytes), name, n).time);
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
