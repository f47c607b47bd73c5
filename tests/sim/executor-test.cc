// SPDX-License-Identifier: GPL-2.0-only
#include "../core/one-collective.h"
#include "ns3/executor.h"
#include "ns3/packet-network.h"
#include "ns3/peek-scheduler.h"
#include "ns3/simulator.h"
#include "topoopt/core/random.h"
#include "topoopt/core/topology-kinds.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <tuple>

namespace topoopt::test
{
namespace
{

/** Keeps everything that an executor reports. */
class Log final : public ExecutionObserver
{
  public:
    void MessageFinished(const MessageRecord& record, const MessageContext& context) override
    {
        messages.emplace_back(record, context);
    }

    void OperationFinished(const OperationRecord& record) override
    {
        operations.push_back(record);
    }

    void TaskFinished(const TaskRecord& record) override
    {
        tasks.push_back(record);
    }

    std::vector<std::pair<MessageRecord, MessageContext>> messages;
    std::vector<OperationRecord> operations;
    std::vector<TaskRecord> tasks;
};

struct Result
{
    Log log;
    std::vector<SimTime> iterations;
    NetworkTotals totals;
    std::vector<LinkCounters> links;
    std::vector<std::string> violations;
    bool done = false;
};

Result
Execute(const TaskGraph& graph,
        const Fabric& fabric,
        PacketNetworkConfig config = {},
        std::vector<ServerId> placement = {},
        const std::map<std::string, std::string>& algorithms = {},
        std::uint32_t iterations = 1)
{
    ns3::PeekScheduler::Install();
    const ns3::Ptr<PacketNetwork> network = ns3::CreateObject<PacketNetwork>();
    network->Build(fabric.topology, config);
    Result result;
    const CollectiveChoice choice(algorithms);
    ExecutorConfig executorConfig;
    executorConfig.graph = &graph;
    executorConfig.fabric = &fabric;
    executorConfig.collectives = &choice;
    executorConfig.iterations = iterations;
    for (RankId r = static_cast<RankId>(placement.size()); r < graph.ranks; ++r)
    {
        placement.push_back(r);
    }
    executorConfig.placement = placement;
    TaskExecutor executor(executorConfig, *network, result.log);
    executor.Begin();
    network->Start(kNever);
    ns3::Simulator::Run();
    result.iterations = executor.IterationTimes();
    result.totals = network->Totals();
    result.links = network->Links();
    result.violations = network->CheckPhysics();
    result.done = executor.Done();
    network->Dispose();
    ns3::Simulator::Destroy();
    return result;
}

/** One collective over ranks 0..n-1. */
TaskGraph
OneCollective(std::uint32_t n,
              CollectiveKind kind,
              Bytes bytes,
              std::uint32_t elementBytes = 1,
              std::uint32_t root = 0)
{
    CollectiveCall call;
    call.kind = kind;
    call.bytes = bytes;
    call.elementBytes = elementBytes;
    call.root = root;
    if (kind == CollectiveKind::AllToAllV)
    {
        for (std::uint32_t k = 0; k < n * n; ++k)
        {
            call.pairBytes.push_back(k % 3 == 0 ? 0 : bytes + k);
        }
    }
    return test::OneCollective(n, call);
}

Fabric
Build(const std::string& kind,
      std::uint32_t servers,
      std::uint32_t nics,
      const std::map<std::string, std::string>& options = {})
{
    FabricContext context;
    context.servers.count = servers;
    context.servers.nics = nics;
    FabricSpec spec;
    spec.kind = kind;
    spec.name = kind;
    spec.options = options;
    return BuildFabric(spec, context);
}

/** Servers in a circle of two-way cables, and one ring that goes round it one way. */
Fabric
Circle(std::uint32_t n, BitRate rate)
{
    Fabric fabric;
    fabric.kind = "circle";
    fabric.name = "circle";
    fabric.topology = Topology(n);
    Ring ring;
    for (NodeId s = 0; s < n; ++s)
    {
        ring.order.push_back(s);
        ring.hops.push_back({fabric.topology.AddDuplexLink(s, (s + 1) % n, rate, kMicrosecond)});
    }
    fabric.router = std::make_shared<EcmpRouter>(fabric.topology, 1);
    fabric.rings = [ring](const std::vector<ServerId>&) { return std::vector<Ring>{ring}; };
    return fabric;
}

SimTime
OneHop(Bytes bytes, BitRate rate, Bytes payload)
{
    return TxTime(MessageWireBytes(bytes, payload), rate) + kMicrosecond;
}

TEST(Executor, RingAllReduceOnIdleLinksMeetsItsClosedForm)
{
    constexpr Bytes kPayload = 9000 - kHeaderBytes;
    for (BitRate rate :
         {BitRate{25'000'000'000}, BitRate{100'000'000'000}, BitRate{400'000'000'000}})
    {
        for (std::uint32_t n : {2U, 3U, 8U, 12U})
        {
            for (Bytes chunk : {Bytes{1}, Bytes{4096}, kPayload * 8, Bytes{3'000'001}})
            {
                for (bool trains : {true, false})
                {
                    PacketNetworkConfig config;
                    config.trains = trains;
                    const Result result =
                        Execute(OneCollective(n, CollectiveKind::AllReduce, n * chunk),
                                Circle(n, rate),
                                config);
                    ASSERT_TRUE(result.done);
                    EXPECT_TRUE(result.violations.empty());
                    const auto steps = static_cast<SimTime>(2 * (n - 1));
                    EXPECT_EQ(result.iterations.at(0), steps * OneHop(chunk, rate, kPayload))
                        << n << " servers, chunks of " << chunk << " B";
                    // Each rank sends 2 (n-1)/n of the vector.
                    EXPECT_EQ(result.totals.deliveredBytes, Bytes{2} * (n - 1) * n * chunk);
                }
            }
        }
    }
}

TEST(Executor, AllReduceOverTheRingsOfAPatchPanelDividesTheTime)
{
    // 8 servers, 4 rings: chunks of S/32, one burst each. Rings come in opposite pairs, so a step's data may meet
    // one acknowledgement of the opposite ring, and nothing else.
    constexpr Bytes kChunk = 50'000;
    constexpr BitRate kRate{100'000'000'000};
    const Result result =
        Execute(OneCollective(8, CollectiveKind::AllReduce, 32 * kChunk), Build("topoopt", 8, 4));
    ASSERT_TRUE(result.done);
    const SimTime closed = 14 * OneHop(kChunk, kRate, 9000 - kHeaderBytes);
    EXPECT_GE(result.iterations.at(0), closed);
    EXPECT_LE(result.iterations.at(0), closed + 14 * TxTime(kAckWireBytes, kRate));
    EXPECT_EQ(result.log.messages.size(), 4U * 14U * 8U);
    for (const auto& [record, context] : result.log.messages)
    {
        EXPECT_EQ(record.hops, 1U);
        EXPECT_LE(record.end - record.start, record.ideal + TxTime(kAckWireBytes, kRate));
    }
}

TEST(Executor, CollectivesMoveExactlyTheirBytes)
{
    constexpr std::uint32_t kN = 6;
    constexpr Bytes kBytes = 1'000'003; // no multiple of anything

    struct Case
    {
        CollectiveKind kind;
        Bytes moved; ///< payload between different ranks
    };

    Bytes uneven = 0;
    for (std::uint32_t k = 0; k < kN * kN; ++k)
    {
        uneven += k % 3 == 0 || k / kN == k % kN ? 0 : kBytes + k;
    }
    const Case cases[] = {{CollectiveKind::AllReduce, 2 * (kN - 1) * kBytes},
                          {CollectiveKind::ReduceScatter, (kN - 1) * kBytes},
                          {CollectiveKind::AllGather, kN * (kN - 1) * kBytes},
                          {CollectiveKind::Broadcast, (kN - 1) * kBytes},
                          {CollectiveKind::Reduce, (kN - 1) * kBytes},
                          {CollectiveKind::Gather, (kN - 1) * kBytes},
                          {CollectiveKind::Scatter, (kN - 1) * kBytes},
                          {CollectiveKind::AllToAll, (kN - 1) * kBytes},
                          {CollectiveKind::AllToAllV, uneven},
                          {CollectiveKind::Barrier, 0}};
    for (const char* fabric : {"topoopt", "fat-tree", "ideal-switch"})
    {
        for (const Case& c : cases)
        {
            for (std::uint32_t root : {0U, 4U})
            {
                const Result result =
                    Execute(OneCollective(kN, c.kind, kBytes, 4, root), Build(fabric, kN, 2));
                ASSERT_TRUE(result.done) << Name(c.kind) << " on " << fabric;
                EXPECT_TRUE(result.violations.empty());
                EXPECT_EQ(result.totals.deliveredBytes, c.moved)
                    << Name(c.kind) << " on " << fabric;
                EXPECT_EQ(result.totals.askedBytes, c.moved);
            }
        }
    }
}

TEST(Executor, RanksOfOneServerDoNotTouchTheFabric)
{
    const Result result = Execute(OneCollective(8, CollectiveKind::AllReduce, 800'000),
                                  Build("ideal-switch", 4, 1),
                                  {},
                                  {0, 0, 1, 1, 2, 2, 3, 3});
    ASSERT_TRUE(result.done);
    // A ring of eight ranks enters every server once: four edges of eight cross the fabric.
    EXPECT_EQ(result.totals.askedBytes, 4U * 14U * 100'000U);
    EXPECT_EQ(result.totals.localBytes, 4U * 14U * 100'000U);
    for (const auto& [record, context] : result.log.messages)
    {
        EXPECT_EQ(record.hops == 0, record.message.src == record.message.dst);
    }
}

TEST(Executor, ComputesRunOneAtATimeAndIterationsFollow)
{
    TaskGraph graph;
    graph.ranks = 2;
    Task task;
    task.kind = TaskKind::Compute;
    task.duration = 5 * kMicrosecond;
    for (int k = 0; k < 3; ++k)
    {
        graph.Add(task);
    }
    task.rank = 1;
    task.duration = 7 * kMicrosecond;
    graph.Add(task);
    graph.Finalize("test");
    const Result result = Execute(graph, Build("ideal-switch", 2, 1), {}, {}, {}, 3);
    ASSERT_TRUE(result.done);
    EXPECT_EQ(result.iterations, (std::vector<SimTime>(3, 15 * kMicrosecond)));
    EXPECT_EQ(result.log.tasks.size(), 12U);
}

TEST(Executor, SendsAreEagerAndReceivesWait)
{
    // Rank 0 sends at once; rank 1 posts its receive after 1 ms of computing.
    TaskGraph graph;
    graph.ranks = 2;
    graph.transfers.push_back({0, 1, 1'000'000, 0});
    Task send;
    send.kind = TaskKind::Send;
    send.object = 0;
    graph.Add(send);
    Task compute;
    compute.kind = TaskKind::Compute;
    compute.rank = 1;
    compute.duration = kMillisecond;
    const TaskId first = graph.Add(compute);
    Task receive;
    receive.kind = TaskKind::Recv;
    receive.rank = 1;
    receive.object = 0;
    const TaskId second = graph.Add(receive);
    graph.AddDependency(first, second);
    graph.Finalize("test");
    const Result result = Execute(graph, Build("ideal-switch", 2, 1));
    ASSERT_TRUE(result.done);
    EXPECT_EQ(result.iterations.at(0), kMillisecond);
    ASSERT_EQ(result.log.messages.size(), 1U);
    EXPECT_EQ(result.log.messages[0].first.start, 0);
    EXPECT_LT(result.log.messages[0].first.end, kMillisecond);
}

/** Random graphs of collectives and transfers over random groups. */
TaskGraph
RandomJob(Rng& rng, std::uint32_t ranks)
{
    TaskGraph graph;
    graph.ranks = ranks;
    std::vector<TaskId> lastOf(ranks, kNoId);
    const auto chain = [&](TaskId id, RankId rank) {
        if (lastOf[rank] != kNoId && rng.Below(3) > 0)
        {
            graph.AddDependency(lastOf[rank], id);
        }
        lastOf[rank] = id;
    };
    for (std::uint64_t operations = 2 + rng.Below(8); operations-- > 0;)
    {
        if (rng.Below(3) == 0)
        {
            const auto src = static_cast<RankId>(rng.Below(ranks));
            const auto dst = static_cast<RankId>((src + 1 + rng.Below(ranks - 1)) % ranks);
            graph.transfers.push_back({src, dst, rng.Below(3'000'000), 0});
            Task task;
            task.kind = TaskKind::Transfer;
            task.rank = src;
            task.object = static_cast<std::uint32_t>(graph.transfers.size() - 1);
            chain(graph.Add(task), src);
            continue;
        }
        std::vector<RankId> members;
        for (RankId r = 0; r < ranks; ++r)
        {
            members.push_back(r);
        }
        rng.Shuffle(members);
        members.resize(1 + rng.Below(ranks));
        CommGroup group;
        group.name = "g" + std::to_string(graph.groups.size());
        group.members = members;
        graph.groups.push_back(group);
        CollectiveCall call;
        call.group = static_cast<std::uint32_t>(graph.groups.size() - 1);
        call.kind = static_cast<CollectiveKind>(rng.Below(10));
        call.bytes = call.kind == CollectiveKind::Barrier ? 0 : rng.Below(2'000'000);
        call.root = static_cast<std::uint32_t>(rng.Below(members.size()));
        call.elementBytes = 4;
        if (call.kind == CollectiveKind::AllToAllV)
        {
            for (std::size_t k = 0; k < members.size() * members.size(); ++k)
            {
                call.pairBytes.push_back(rng.Below(4) == 0 ? 0 : rng.Below(200'000));
            }
        }
        graph.collectives.push_back(call);
        for (std::uint32_t m = 0; m < members.size(); ++m)
        {
            Task task;
            task.kind = TaskKind::Collective;
            task.rank = members[m];
            task.object = static_cast<std::uint32_t>(graph.collectives.size() - 1);
            task.member = m;
            chain(graph.Add(task), members[m]);
        }
    }
    graph.Finalize("random");
    return graph;
}

TEST(Executor, TrainsOnAndOffAgreeOnEveryFabric)
{
    const auto rows = [](const Result& result) {
        std::vector<std::tuple<std::uint64_t, SimTime, SimTime, SimTime, std::uint64_t>> all;
        for (const auto& [r, context] : result.log.messages)
        {
            all.emplace_back(r.id, r.start, r.end, r.acknowledged, r.retransmits);
        }
        return all;
    };
    for (const FabricKind& kind : FabricKinds())
    {
        const std::string name = kind.name;
        if (name == "from-file" || name == "file")
        {
            continue; // need a file
        }
        for (std::uint64_t seed = 1; seed <= 6; ++seed)
        {
            Rng rng(seed, name);
            const TaskGraph graph = RandomJob(rng, 8);
            const std::uint32_t nics = name == "hypercube" ? 3 : name == "full-mesh" ? 7 : 4;
            const Fabric fabric = Build(name, 8, nics);
            PacketNetworkConfig config;
            config.mtu = rng.Below(2) == 0 ? 1500 : 9000;
            if (rng.Below(2) == 0)
            {
                config.ecn = 30'000;
                config.buffer = 150'000;
            }
            config.control = rng.Below(3) == 0 ? &FixedWindowControl() : &DctcpControl();
            config.trains = true;
            const Result on = Execute(graph, fabric, config);
            config.trains = false;
            const Result off = Execute(graph, fabric, config);
            EXPECT_TRUE(on.done && off.done) << name << " seed " << seed;
            EXPECT_EQ(on.violations, std::vector<std::string>{}) << name << " seed " << seed;
            EXPECT_EQ(on.iterations, off.iterations) << name << " seed " << seed;
            EXPECT_TRUE(rows(on) == rows(off)) << name << " seed " << seed;
            EXPECT_EQ(on.totals.packetHops, off.totals.packetHops) << name << " seed " << seed;
            EXPECT_EQ(on.totals.deliveredBytes, on.totals.askedBytes);
        }
    }
}

} // namespace
} // namespace topoopt::test
