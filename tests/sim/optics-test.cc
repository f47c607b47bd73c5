// SPDX-License-Identifier: GPL-2.0-only
// Devices, failures and reconfiguration of whole runs.
#include "../sanitizers.h"
#include "ns3/fabric-run.h"
#include "ns3/network-changes.h"
#include "ns3/optical-device.h"
#include "ns3/packet-network.h"
#include "topoopt/core/error.h"
#include "topoopt/core/random.h"
#include "topoopt/core/topology-kinds.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <tuple>

namespace topoopt::test
{
namespace
{

constexpr BitRate k100G{100'000'000'000};
constexpr Bytes kPayload = 9000 - kHeaderBytes;

// ---- Devices ----

PortMap
MapOf(std::uint32_t ports, const std::vector<std::pair<std::uint32_t, std::uint32_t>>& circuits)
{
    PortMap map(ports);
    for (const auto& [in, out] : circuits)
    {
        map.Connect(in, out);
    }
    return map;
}

template <typename Device>
ns3::Ptr<Device>
Make(const ReconfigurationSpec& spec, std::uint32_t ports)
{
    const ns3::Ptr<Device> device =
        ns3::DynamicCast<Device>(Reconfigurator::MakeDevice(spec, ports));
    EXPECT_NE(device, nullptr);
    return device;
}

TEST(OpticalDevice, MapsArePartialPermutations)
{
    PortMap map = MapOf(4, {{0, 1}, {1, 0}, {2, 2}});
    EXPECT_EQ(map.To(2), 2U);
    EXPECT_EQ(map.From(0), 1U);
    EXPECT_EQ(map.To(3), kNoId);
    EXPECT_THROW(map.Connect(0, 3), SpecError);
    EXPECT_THROW(map.Connect(3, 1), SpecError);
    EXPECT_THROW(map.Connect(4, 3), SpecError);
    EXPECT_NO_THROW(map.Connect(3, 3));
}

TEST(OpticalDevice, CircuitSwitchChangesAllOrWhatHasTo)
{
    ReconfigurationSpec spec;
    spec.latency = 10 * kMicrosecond;
    const PortMap now = MapOf(4, {{0, 1}, {1, 0}, {2, 3}});
    const PortMap next = MapOf(4, {{0, 1}, {1, 2}, {3, 0}});
    for (bool whole : {true, false})
    {
        spec.whole = whole;
        const auto changes = Make<OpticalCircuitSwitch>(spec, 4)->Change(now, next);
        std::vector<std::uint32_t> dark;
        std::vector<std::uint32_t> lit;
        for (const CircuitChange& change : changes)
        {
            (change.light ? lit : dark).push_back(change.in);
            EXPECT_EQ(change.after, change.light ? 10 * kMicrosecond : 0);
        }
        EXPECT_EQ(dark,
                  whole ? (std::vector<std::uint32_t>{0, 1, 2})
                        : (std::vector<std::uint32_t>{1, 2}));
        EXPECT_EQ(lit,
                  whole ? (std::vector<std::uint32_t>{0, 1, 3})
                        : (std::vector<std::uint32_t>{1, 3}));
        EXPECT_TRUE(Make<OpticalCircuitSwitch>(spec, 4)->Change(now, now).empty());
    }
}

TEST(OpticalDevice, RobotMovesOneCircuitAfterTheOther)
{
    ReconfigurationSpec spec;
    spec.device = "patch-panel";
    spec.moveTime = 60 * kSecond;
    const auto panel = Make<PatchPanel>(spec, 8);
    // Two fibre pairs change ends, one stays: 0-1, 2-3, 4-5 become 0-3, 2-1, 4-5.
    const PortMap now = MapOf(8, {{0, 1}, {1, 0}, {2, 3}, {3, 2}, {4, 5}, {5, 4}});
    const PortMap next = MapOf(8, {{0, 3}, {3, 0}, {1, 2}, {2, 1}, {4, 5}, {5, 4}});
    SimTime last = 0;
    std::uint32_t lit = 0;
    for (const CircuitChange& change : panel->Change(now, next))
    {
        EXPECT_NE(change.in, 4U);
        EXPECT_NE(change.in, 5U);
        lit += change.light ? 1 : 0;
        last = change.after;
        // The first move takes the light of both old pairs: each new one needs a port of either.
        EXPECT_TRUE(change.light || change.after == 0);
    }
    EXPECT_EQ(lit, 4U);
    EXPECT_EQ(last, 120 * kSecond);
    std::uint32_t told = 0;
    panel->TraceConnectWithoutContext("Reconfigured",
                                      ns3::Callback<void, std::uint32_t, ns3::Time>(
                                          [&told](std::uint32_t circuits, ns3::Time time) {
                                              told = circuits;
                                              EXPECT_EQ(time, ns3::Seconds(120));
                                          }));
    static_cast<void>(panel->Change(now, next));
    EXPECT_EQ(told, 4U);
}

TEST(OpticalDevice, LookAheadHidesThePatching)
{
    ReconfigurationSpec spec;
    spec.device = "look-ahead";
    spec.moveTime = 30 * kSecond;
    spec.flipTime = 5 * kMillisecond;
    const PortMap now = MapOf(4, {{0, 1}, {1, 0}});
    const PortMap next = MapOf(4, {{0, 2}, {2, 0}, {1, 3}, {3, 1}});
    for (const CircuitChange& change : Make<OneByTwoSwitch>(spec, 4)->Change(now, next))
    {
        EXPECT_EQ(change.after, 60 * kSecond + (change.light ? 5 * kMillisecond : 0));
    }
}

TEST(OpticalDevice, LightPathsThatDoNotCloseAreRefused)
{
    ReconfigurationSpec spec;
    spec.insertionLoss = 2;
    spec.linkBudget = 3.2; // 2 + 4 pairs of connectors + 500 m
    EXPECT_NO_THROW(static_cast<void>(Reconfigurator::MakeDevice(spec, 8)));
    spec.linkBudget = 3.1;
    EXPECT_THROW(static_cast<void>(Reconfigurator::MakeDevice(spec, 8)), SpecError);
    spec.linkBudget = 10;
    spec.ports = 7;
    EXPECT_THROW(static_cast<void>(Reconfigurator::MakeDevice(spec, 8)), SpecError);
}

// ---- Whole runs ----

/** AllReduces one after the other over all ranks, each followed by transfers. */
Workload
Job(std::uint32_t ranks, Bytes reduced, Bytes exchanged, std::uint32_t rounds)
{
    Workload workload;
    TaskGraph& graph = workload.graph;
    graph.ranks = ranks;
    CommGroup group;
    group.name = "all";
    for (RankId r = 0; r < ranks; ++r)
    {
        group.members.push_back(r);
        workload.placement.push_back(r);
    }
    graph.groups.push_back(group);
    std::vector<TaskId> before;
    for (std::uint32_t round = 0; round < rounds; ++round)
    {
        CollectiveCall call;
        call.bytes = reduced;
        graph.collectives.push_back(call);
        std::vector<TaskId> reduce;
        for (RankId r = 0; r < ranks; ++r)
        {
            Task task;
            task.kind = TaskKind::Collective;
            task.rank = r;
            task.object = round;
            task.member = r;
            reduce.push_back(graph.Add(task));
            if (!before.empty())
            {
                graph.AddDependency(before[r], reduce.back());
            }
        }
        before = reduce;
        for (RankId src = 0; src < ranks && exchanged > 0; ++src)
        {
            for (RankId dst = 0; dst < ranks; ++dst)
            {
                if (src == dst)
                {
                    continue;
                }
                Task task;
                task.kind = TaskKind::Transfer;
                task.rank = src;
                task.object = static_cast<std::uint32_t>(graph.transfers.size());
                graph.transfers.push_back({src, dst, exchanged, 0});
                graph.AddDependency(reduce[src], graph.Add(task));
            }
        }
    }
    graph.Finalize("test");
    return workload;
}

/** One message. */
Workload
Single(std::uint32_t ranks, RankId src, RankId dst, Bytes bytes)
{
    Workload workload;
    workload.graph.ranks = ranks;
    for (RankId r = 0; r < ranks; ++r)
    {
        workload.placement.push_back(r);
    }
    Task task;
    task.kind = TaskKind::Transfer;
    task.rank = src;
    task.object = 0;
    workload.graph.transfers.push_back({src, dst, bytes, 0});
    workload.graph.Add(task);
    workload.graph.Finalize("test");
    return workload;
}

Scenario
ScenarioFor(std::uint32_t servers, std::uint32_t nics, const std::string& kind)
{
    Scenario scenario;
    scenario.name = "test";
    scenario.file = "test.yaml";
    scenario.servers.count = servers;
    scenario.servers.nics = nics;
    scenario.servers.rate = k100G;
    scenario.stop = 1000 * kSecond;
    FabricSpec fabric;
    fabric.kind = kind;
    fabric.name = kind;
    fabric.place = "test.yaml:1:1";
    scenario.fabrics = {fabric};
    return scenario;
}

Fabric
FabricOf(const Scenario& scenario)
{
    FabricContext context;
    context.servers = scenario.servers;
    return BuildFabric(scenario.fabrics[0], context);
}

/** Cables a-b of one circuit each, NICs in order. */
Fabric
Direct(std::uint32_t servers, const std::vector<std::pair<ServerId, ServerId>>& cables)
{
    Fabric fabric;
    fabric.kind = "direct";
    fabric.name = "direct";
    fabric.topology = Topology(servers);
    for (const auto& [a, b] : cables)
    {
        fabric.topology.AddDuplexLink(a, b, k100G, kMicrosecond);
    }
    fabric.router = std::make_shared<EcmpRouter>(fabric.topology, 1);
    return fabric;
}

/** What must not depend on how a run is carried out. */
std::tuple<std::vector<SimTime>,
           Bytes,
           std::uint64_t,
           std::uint64_t,
           std::uint64_t,
           SimTime,
           SimTime>
Essence(const RunSummary& run)
{
    return {run.iterationTimes,
            run.wireBytes,
            run.packetHops,
            run.drops,
            run.retransmits,
            run.fctMax,
            run.fctP50};
}

RunSummary
Simulate(const Scenario& scenario, const Workload& workload, const Fabric& fabric)
{
    RunSummary run = RunOnFabric(scenario, workload, fabric, {});
    EXPECT_EQ(run.violations, std::vector<std::string>{});
    return run;
}

// ---- Failures ----

TEST(Failures, EverySingleCableOfASmallJobFinishesOrNamesWhatItLacks)
{
    const Workload workload = Job(16, 1'600'000, 40'000, 2);
    for (const char* kind : {"topoopt", "fat-tree", "ideal-switch"})
    {
        Scenario scenario = ScenarioFor(16, 4, kind);
        const Fabric fabric = FabricOf(scenario);
        const RunSummary whole = Simulate(scenario, workload, fabric);
        ASSERT_TRUE(whole.complete);
        const SimTime duration = whole.iterationTimes[0];
        std::uint32_t finished = 0;
        std::uint32_t gaveUp = 0;
        const auto cables = static_cast<std::uint32_t>(fabric.topology.links.size() / 2);
        std::uint32_t tried = 0;
        // Five has no factor in common with servers, NICs and layers.
        for (std::uint32_t cable = 0; cable < cables; cable += kSanitized ? 5 : 1)
        {
            ++tried;
            SCOPED_TRACE(std::string(kind) + " cable " + std::to_string(cable));
            FailureSpec failure;
            failure.index = cable;
            failure.at = duration / 3;
            failure.repair = kNever;
            scenario.failures.events = {failure};
            scenario.failures.detection = 50 * kMicrosecond;
            const RunSummary run = Simulate(scenario, workload, fabric);
            ASSERT_EQ(run.failures.size(), 1U);
            EXPECT_EQ(run.failures[0].at, failure.at);
            const Link& link = fabric.topology.links[2 * cable];
            const bool onlyOne =
                (fabric.topology.IsServer(link.src) && fabric.topology.Out(link.src).size() == 1) ||
                (fabric.topology.IsServer(link.dst) && fabric.topology.Out(link.dst).size() == 1);
            EXPECT_EQ(run.complete, !onlyOne);
            if (run.complete)
            {
                ++finished;
                EXPECT_EQ(run.unfinished, 0U);
                EXPECT_NE(run.failures[0].recovered, kNever);
                // It may even be a little faster: other ways, other queues.
                EXPECT_GT(run.iterationTimes[0], duration * 9 / 10);
                EXPECT_LT(run.iterationTimes[0], duration * 6);
            }
            else
            {
                ++gaveUp;
                ASSERT_FALSE(run.waiting.empty());
                EXPECT_NE(run.waiting[0].find("the job cannot go on"), std::string::npos)
                    << run.waiting[0];
                EXPECT_TRUE(
                    std::any_of(run.waiting.begin(), run.waiting.end(), [](const auto& line) {
                        return line.find("is down since") != std::string::npos;
                    }));
            }
        }
        EXPECT_EQ(finished + gaveUp, tried);
        if (std::string(kind) == "topoopt")
        {
            EXPECT_EQ(gaveUp, 0U);
        }
        else if (!kSanitized)
        {
            EXPECT_EQ(gaveUp, 16U);
        }
        EXPECT_EQ(tried, kSanitized ? (cables + 4) / 5 : cables);
    }
}

TEST(Failures, RepairEndsTheDetour)
{
    Scenario scenario = ScenarioFor(16, 4, "topoopt");
    const Fabric fabric = FabricOf(scenario);
    const Workload workload = Job(16, 8'000'000, 0, 6);
    const SimTime whole = Simulate(scenario, workload, fabric).iterationTimes[0];
    FailureSpec failure;
    failure.index = 5;
    failure.at = whole / 6;
    scenario.failures.events = {failure};
    scenario.failures.detection = 20 * kMicrosecond;
    const auto duration = [&] { return Simulate(scenario, workload, fabric).iterationTimes[0]; };
    scenario.failures.moveTime = 100 * kSecond; // the job ends long before
    const SimTime unrepaired = duration();
    scenario.failures.moveTime = whole / 6;
    const RunSummary run = Simulate(scenario, workload, fabric);
    EXPECT_EQ(run.failures[0].detected, failure.at + 20 * kMicrosecond);
    EXPECT_EQ(run.failures[0].repaired, run.failures[0].detected + whole / 6);
    EXPECT_LT(run.iterationTimes[0], unrepaired);
    EXPECT_GT(run.iterationTimes[0], whole);
    scenario.failures.sparePorts = 0; // nothing to patch to
    EXPECT_EQ(duration(), unrepaired);
}

TEST(Failures, ServersNicsPortsAndFlaps)
{
    Scenario scenario = ScenarioFor(16, 4, "topoopt");
    const Fabric fabric = FabricOf(scenario);
    const Workload workload = Job(16, 4'000'000, 10'000, 1);
    const SimTime whole = Simulate(scenario, workload, fabric).iterationTimes[0];
    scenario.failures.detection = 20 * kMicrosecond;

    FailureSpec failure;
    failure.at = whole / 4;
    failure.kind = FailureKind::Server;
    failure.server = 5;
    scenario.failures.events = {failure};
    RunSummary run = Simulate(scenario, workload, fabric);
    EXPECT_FALSE(run.complete);
    ASSERT_FALSE(run.waiting.empty());
    EXPECT_NE(run.waiting[0].find("server 5, where its rank(s) 5 run"), std::string::npos)
        << run.waiting[0];

    failure.repair = kMillisecond; // it comes back
    scenario.failures.events = {failure};
    run = Simulate(scenario, workload, fabric);
    EXPECT_TRUE(run.complete);
    EXPECT_GT(run.iterationTimes[0], kMillisecond);

    failure.kind = FailureKind::Nic;
    failure.nic = 2;
    failure.repair = 0;
    scenario.failures.events = {failure};
    run = Simulate(scenario, workload, fabric);
    EXPECT_TRUE(run.complete);
    EXPECT_EQ(run.failures[0].what, "nic 2 of server 5");
    EXPECT_EQ(run.failures[0].repaired, kNever); // nobody patches a broken NIC
    EXPECT_GT(run.lostDown, 0U);

    failure.kind = FailureKind::Port;
    failure.server = kNoId;
    failure.panel = fabric.circuits[3].panel;
    failure.port = fabric.circuits[3].portB;
    scenario.failures.events = {failure};
    scenario.failures.moveTime = 100 * kMicrosecond;
    run = Simulate(scenario, workload, fabric);
    EXPECT_TRUE(run.complete);
    EXPECT_EQ(run.failures[0].repaired, failure.at + 120 * kMicrosecond);

    failure = {};
    failure.kind = FailureKind::Flap;
    failure.server = 2;
    failure.at = whole / 8;
    failure.down = 30 * kMicrosecond;
    failure.up = 50 * kMicrosecond;
    failure.count = 3;
    scenario.failures.events = {failure};
    run = Simulate(scenario, workload, fabric);
    EXPECT_TRUE(run.complete);
    EXPECT_EQ(run.failures[0].repaired, failure.at + 2 * 80 * kMicrosecond + 30 * kMicrosecond);

    // What a fabric does not have is said, not simulated; what no fabric can have is refused.
    failure = {};
    failure.kind = FailureKind::Nic;
    failure.server = 3;
    failure.nic = 9;
    scenario.failures.events = {failure};
    run = Simulate(scenario, workload, fabric);
    EXPECT_EQ(run.iterationTimes[0], whole);
    EXPECT_FALSE(run.failures[0].applies);
    scenario.failures.events[0].server = 16;
    EXPECT_THROW(static_cast<void>(RunOnFabric(scenario, workload, fabric, {})), SpecError);
    scenario.failures.events[0] = {};
    scenario.failures.events[0].index = 1000;
    EXPECT_THROW(static_cast<void>(RunOnFabric(scenario, workload, fabric, {})), SpecError);
}

TEST(Failures, FlapHitsAMessageOnce)
{
    Scenario scenario = ScenarioFor(2, 1, "direct");
    const Fabric fabric = Direct(2, {{0, 1}});
    FailureSpec failure;
    failure.kind = FailureKind::Flap;
    failure.server = 0;
    failure.nic = 0;
    failure.at = 10 * kMicrosecond;
    failure.down = 5 * kMicrosecond;
    failure.up = 20 * kMicrosecond;
    failure.count = 5;
    scenario.failures.events = {failure};
    const RunSummary run = Simulate(scenario, Single(2, 0, 1, 4000 * kPayload), fabric);
    ASSERT_TRUE(run.complete);
    ASSERT_EQ(run.failures.size(), 1U);
    EXPECT_EQ(run.failures[0].hit, 1U);
    EXPECT_EQ(run.failures[0].repaired, failure.at + 4 * 25 * kMicrosecond + failure.down);
}

TEST(Failures, RandomOnesAreReproducibleAndIndependentOfTrains)
{
    for (const char* kind : {"topoopt", "fat-tree"})
    {
        Scenario scenario = ScenarioFor(16, 4, kind);
        const Fabric fabric = FabricOf(scenario);
        const Workload workload = Job(16, 4'000'000, 20'000, 2);
        FailureSpec failure;
        failure.mtbf = 2 * kMillisecond; // of one cable
        failure.count = 8;
        failure.repair = 100 * kMicrosecond;
        scenario.failures.events = {failure};
        scenario.failures.detection = 30 * kMicrosecond;
        const RunSummary first = Simulate(scenario, workload, fabric);
        EXPECT_TRUE(first.complete);
        ASSERT_FALSE(first.failures.empty());
        EXPECT_EQ(Essence(Simulate(scenario, workload, fabric)), Essence(first));
        scenario.engine.trains = false;
        EXPECT_EQ(Essence(Simulate(scenario, workload, fabric)), Essence(first));
        scenario.seed = 2;
        const RunSummary other = Simulate(scenario, workload, fabric);
        ASSERT_FALSE(other.failures.empty());
        EXPECT_NE(other.failures[0].at, first.failures[0].at);
    }
}

// ---- Reconfiguration ----

void
SetPlans(Scenario& scenario, const std::vector<std::pair<std::string, std::string>>& plans)
{
    scenario.reconfiguration["policy"] = "scheduled";
    for (std::size_t k = 0; k < plans.size(); ++k)
    {
        const std::string path = "plans." + std::to_string(k) + ".";
        const bool before = plans[k].first.find_first_not_of("0123456789") == std::string::npos;
        scenario.reconfiguration[path + (before ? "before" : "at")] = plans[k].first;
        scenario.reconfiguration[path + "circuits"] = plans[k].second;
    }
}

TEST(Reconfiguration, MessageWaitsForItsCircuit)
{
    // 0 and 2 are joined by nothing until the plan comes: dark time, relock, then as if alone.
    Scenario scenario = ScenarioFor(4, 1, "direct");
    const Fabric fabric = Direct(4, {{0, 1}, {2, 3}});
    SetPlans(scenario, {{"1ms", "0-2,1-3"}});
    scenario.reconfiguration["latency"] = "5ms";
    scenario.reconfiguration["relock"] = "2ms";
    for (bool trains : {true, false})
    {
        scenario.engine.trains = trains;
        const RunSummary run = Simulate(scenario, Single(4, 0, 2, 100 * kPayload), fabric);
        ASSERT_TRUE(run.complete);
        const SimTime alone = 100 * TxTime(WireBytes(kPayload), k100G) + kMicrosecond;
        EXPECT_EQ(run.iterationTimes[0], 8 * kMillisecond + alone);
        EXPECT_EQ(run.reconfiguration.changes, 1U);
        EXPECT_EQ(run.reconfiguration.changing, 7 * kMillisecond);
        EXPECT_EQ(run.drops, 0U);
    }
}

TEST(Reconfiguration, DrainedFlowGoesOnWhereItStopped)
{
    Scenario scenario = ScenarioFor(4, 1, "direct");
    const Fabric fabric = Direct(4, {{0, 1}, {2, 3}});
    // Away and back: the circuit is dark from the first change until the second is done.
    SetPlans(scenario, {{"200us", "0-2,1-3"}, {"3ms", "0-1,2-3"}});
    scenario.reconfiguration["latency"] = "1ms";
    constexpr std::int64_t kPackets = 2000;
    const SimTime transmission = TxTime(WireBytes(kPayload), k100G);
    for (const char* transition : {"drain", "drop"})
    {
        for (bool trains : {true, false})
        {
            scenario.engine.trains = trains;
            scenario.engine.transport = "fixed-window";
            scenario.reconfiguration["transition"] = transition;
            const RunSummary run = Simulate(scenario, Single(4, 0, 1, kPackets * kPayload), fabric);
            ASSERT_TRUE(run.complete);
            const SimTime lit = 4 * kMillisecond;
            const SimTime rest = run.iterationTimes[0] - lit - kMicrosecond;
            EXPECT_EQ(rest % transmission, 0);
            const std::int64_t before = kPackets - rest / transmission;
            // What was sent until the hold arrived; dropped, what was acknowledged until then.
            const std::int64_t sent = 200 * kMicrosecond / transmission;
            const bool drain = std::string(transition) == "drain";
            EXPECT_EQ(run.drops > 0, !drain);
            EXPECT_EQ(run.retransmits > 0, !drain);
            EXPECT_GE(before, drain ? sent - 1 : sent - 24);
            EXPECT_LE(before, drain ? sent + 16 : sent);
        }
    }
}

TEST(Reconfiguration, PlanThatChangesNothingCostsNothing)
{
    Scenario scenario = ScenarioFor(16, 4, "topoopt");
    const Fabric fabric = FabricOf(scenario);
    const Workload workload = Job(16, 4'000'000, 50'000, 2);
    const RunSummary still = Simulate(scenario, workload, fabric);
    std::string circuits;
    for (LinkId id = 0; id < fabric.topology.links.size(); id += 2)
    {
        const Link& link = fabric.topology.links[id];
        circuits +=
            (id == 0 ? "" : ",") + std::to_string(link.src) + "-" + std::to_string(link.dst);
    }
    SetPlans(scenario, {{"10us", circuits}, {"1", circuits}});
    scenario.reconfiguration["latency"] = "0s";
    const RunSummary run = Simulate(scenario, workload, fabric);
    EXPECT_EQ(Essence(run), Essence(still));
    EXPECT_EQ(run.reconfiguration.changes, 0U);
    EXPECT_GE(run.reconfiguration.asked, 2U);
    // And a program that always says no, asked a hundred times.
    scenario.reconfiguration = {{"policy", "external"},
                                {"transition", "drop"},
                                {"latency", "10us"},
                                {"command", "while read -r l; do echo '{\"keep\": true}'; done"}};
    const RunSummary kept = Simulate(scenario, workload, fabric);
    EXPECT_EQ(Essence(kept), Essence(still));
    EXPECT_GT(kept.reconfiguration.asked, 5U);
}

TEST(Reconfiguration, TopologyPerPhase)
{
    // Before its second AllReduce the job gets other circuits; it waits for them even if nothing else is under way.
    Scenario scenario = ScenarioFor(4, 2, "direct");
    const Fabric fabric = Direct(4, {{0, 1}, {1, 2}, {2, 3}, {3, 0}});
    const Workload workload = Job(4, 4'000'000, 0, 2);
    const SimTime still = Simulate(scenario, workload, fabric).iterationTimes[0];
    SetPlans(scenario, {{"1", "0-2,2-1,1-3,3-0"}});
    scenario.reconfiguration["latency"] = "50ms";
    const RunSummary run = Simulate(scenario, workload, fabric);
    ASSERT_TRUE(run.complete);
    EXPECT_EQ(run.reconfiguration.changes, 1U);
    // The second one has rings in both directions of the circuits, the first has one.
    EXPECT_GT(run.iterationTimes[0], still * 3 / 5 + 50 * kMillisecond);
    EXPECT_LT(run.iterationTimes[0], still + 50 * kMillisecond);
}

TEST(Reconfiguration, RobotChangesOneCircuitAtATime)
{
    Scenario scenario = ScenarioFor(4, 1, "direct");
    const Fabric fabric = Direct(4, {{0, 1}, {2, 3}});
    SetPlans(scenario, {{"1s", "0-2,1-3"}});
    scenario.reconfiguration["device"] = "patch-panel";
    scenario.reconfiguration["move_time"] = "60s";
    const SimTime alone = 100 * TxTime(WireBytes(kPayload), k100G) + kMicrosecond;
    EXPECT_EQ(Simulate(scenario, Single(4, 0, 2, 100 * kPayload), fabric).iterationTimes[0],
              61 * kSecond + alone);
    EXPECT_EQ(Simulate(scenario, Single(4, 1, 3, 100 * kPayload), fabric).iterationTimes[0],
              121 * kSecond + alone);
    // Patched ahead: both come with the flip.
    scenario.reconfiguration["device"] = "look-ahead";
    scenario.reconfiguration["flip_time"] = "5ms";
    EXPECT_EQ(Simulate(scenario, Single(4, 1, 3, 100 * kPayload), fabric).iterationTimes[0],
              121 * kSecond + 5 * kMillisecond + alone);
}

TEST(Reconfiguration, PoliciesFinishWithAndWithoutForwarding)
{
    const Workload workload = Job(8, 2'000'000, 100'000, 2);
    for (const char* policy : {"greedy", "greedy-direct", "sipml-ocs", "sipml-ring"})
    {
        SCOPED_TRACE(policy);
        Scenario scenario = ScenarioFor(8, 3, "ocs-reconfig");
        const Fabric fabric = FabricOf(scenario);
        scenario.reconfiguration = {{"policy", policy}, {"latency", "20us"}};
        if (std::string(policy) == "sipml-ring")
        {
            scenario.reconfiguration["forwarding"] = "true"; // wavelengths do not reach every pair
        }
        const RunSummary run = Simulate(scenario, workload, fabric);
        ASSERT_TRUE(run.complete) << (run.waiting.empty() ? "" : run.waiting[0]);
        EXPECT_GE(run.reconfiguration.changes, 1U);
        EXPECT_EQ(run.drops, 0U); // drained
        const bool direct =
            std::string(policy) == "greedy-direct" || std::string(policy) == "sipml-ocs";
        if (direct)
        {
            EXPECT_DOUBLE_EQ(run.bandwidthTax, 1.0);
        }
        EXPECT_EQ(Essence(Simulate(scenario, workload, fabric)), Essence(run));
        scenario.engine.trains = false;
        EXPECT_EQ(Essence(Simulate(scenario, workload, fabric)), Essence(run));
    }
}

TEST(Reconfiguration, SwitchedFabricsArePassedByOrRefused)
{
    Scenario scenario = ScenarioFor(8, 2, "ideal-switch");
    const Fabric fabric = FabricOf(scenario);
    EXPECT_FALSE(CanReconfigure(fabric));
    const Workload workload = Job(8, 1'000'000, 0, 1);
    const RunSummary still = Simulate(scenario, workload, fabric);
    scenario.reconfiguration = {{"policy", "greedy"}, {"latency", "20us"}};
    EXPECT_EQ(Essence(Simulate(scenario, workload, fabric)), Essence(still));
}

TEST(Reconfiguration, AllReduceRunsOverAllRingsOfItsCircuits)
{
    // Five servers all joined to each other: four rings of circuits from the second AllReduce on.
    constexpr Bytes kReduced = 20'000'000;
    Scenario scenario = ScenarioFor(5, 4, "direct");
    const Fabric fabric = Direct(5, {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 0}});
    const Workload workload = Job(5, kReduced, 0, 2);
    SetPlans(scenario, {{"1", "0-1,1-2,2-3,3-4,4-0,0-2,2-4,4-1,1-3,3-0"}});
    scenario.reconfiguration["latency"] = "1ms";
    const Bytes step = kReduced / 5;
    const SimTime first =
        Simulate(ScenarioFor(5, 4, "direct"), Job(5, kReduced, 0, 1), fabric).iterationTimes[0];
    for (const char* bond : {"true", "false"})
    {
        scenario.reconfiguration["bond"] = bond;
        for (const auto& [rings, count] :
             std::vector<std::pair<std::string, Bytes>>{{"one", 1}, {"all", 4}})
        {
            SCOPED_TRACE(rings + ", bond " + bond);
            scenario.reconfiguration["rings"] = rings;
            const RunSummary run = Simulate(scenario, workload, fabric);
            ASSERT_TRUE(run.complete);
            const SimTime second = run.iterationTimes[0] - first - kMillisecond;
            // Eight steps, one after the other, each a share of a fifth.
            const SimTime ideal =
                8 * (TxTime(MessageWireBytes(step / count, kPayload), k100G) + kMicrosecond);
            EXPECT_GE(second, ideal * 99 / 100);
            EXPECT_LE(second, ideal * 110 / 100);
        }
    }
}

// ---- Failures of circuits that change ----

/** A NIC that breaks and is not repaired. */
FailureSpec
BrokenNic(ServerId server, std::uint32_t nic, SimTime at)
{
    FailureSpec failure;
    failure.kind = FailureKind::Nic;
    failure.server = server;
    failure.nic = nic;
    failure.at = at;
    failure.repair = kNever;
    return failure;
}

TEST(CircuitFailures, EverySingleNicUnderEveryPolicy)
{
    const Workload workload = Job(8, 1'000'000, 50'000, 2);
    for (const char* policy : {"greedy", "greedy-direct", "sipml-ocs", "sipml-ring"})
    {
        Scenario scenario = ScenarioFor(8, 3, "ocs-reconfig");
        const Fabric fabric = FabricOf(scenario);
        scenario.reconfiguration = {{"policy", policy}, {"latency", "20us"}};
        if (std::string(policy) == "sipml-ring")
        {
            scenario.reconfiguration["forwarding"] = "on";
        }
        const SimTime whole = Simulate(scenario, workload, fabric).iterationTimes[0];
        scenario.failures.detection = 15 * kMicrosecond;
        std::uint64_t lost = 0;
        for (std::uint32_t port = 0; port < 8 * 3; port += kSanitized ? 4 : 1)
        {
            SCOPED_TRACE(std::string(policy) + ", port " + std::to_string(port));
            scenario.failures.events = {BrokenNic(port / 3, port % 3, whole * (1 + port % 5) / 7)};
            const RunSummary run = Simulate(scenario, workload, fabric);
            EXPECT_TRUE(run.complete) << (run.waiting.empty() ? "" : run.waiting[0]);
            ASSERT_EQ(run.failures.size(), 1U);
            EXPECT_TRUE(run.failures[0].applies);
            EXPECT_NE(run.failures[0].recovered, kNever);
            EXPECT_EQ(run.drops, run.lostDark + run.lostDown);
            lost += run.lostDown;
            scenario.engine.trains = false;
            EXPECT_EQ(Essence(Simulate(scenario, workload, fabric)), Essence(run));
            scenario.engine.trains = true;
        }
        EXPECT_GT(lost, 0U);
    }
}

TEST(CircuitFailures, PlanIsCarriedOutAgainWithWhatIsLeft)
{
    // A ring of four. NIC 0 of server 0 carries the circuit to 1; when it breaks, the other one takes that circuit over, and
    // the ring is closed again after the repair.
    Scenario scenario = ScenarioFor(4, 2, "direct");
    const Fabric fabric = Direct(4, {{0, 1}, {2, 3}});
    SetPlans(scenario, {{"10us", "0-1,1-2,2-3,3-0"}});
    scenario.reconfiguration["latency"] = "100us";
    scenario.reconfiguration["granularity"] = "port";
    FailureSpec failure = BrokenNic(0, 0, kMillisecond);
    scenario.failures.events = {failure};
    scenario.failures.detection = 500 * kMicrosecond;
    const Workload message = Single(4, 0, 1, 4000 * kPayload);
    RunSummary run = Simulate(scenario, message, fabric);
    ASSERT_TRUE(run.complete);
    EXPECT_EQ(run.reconfiguration.changes, 2U);
    const SimTime alone = 4000 * TxTime(WireBytes(kPayload), k100G) + kMicrosecond;
    EXPECT_GT(run.iterationTimes[0], alone + 600 * kMicrosecond);
    EXPECT_LT(run.iterationTimes[0], alone + 1400 * kMicrosecond);
    // The same for the cable by its name, and for the port of the device.
    failure = {};
    failure.from = "s0";
    failure.to = "s1";
    failure.at = kMillisecond;
    failure.repair = kMillisecond;
    scenario.failures.events = {failure};
    run = Simulate(scenario, message, fabric);
    ASSERT_TRUE(run.complete);
    EXPECT_EQ(run.failures[0].what, "link s0 - s1 at nic 0 of server 0");
    EXPECT_EQ(run.reconfiguration.changes, 3U);
    EXPECT_EQ(run.failures[0].repaired, failure.at + 1500 * kMicrosecond);
}

TEST(CircuitFailures, ServerThatIsGoneEndsTheRun)
{
    const Workload workload = Job(8, 2'000'000, 50'000, 2);
    for (const char* policy : {"greedy", "greedy-direct"})
    {
        Scenario scenario = ScenarioFor(8, 3, "ocs-reconfig");
        const Fabric fabric = FabricOf(scenario);
        scenario.reconfiguration = {{"policy", policy}, {"latency", "200us"}};
        FailureSpec failure;
        failure.kind = FailureKind::Server;
        failure.server = 6;
        failure.at = 100 * kMicrosecond;
        failure.repair = kNever;
        scenario.failures.events = {failure};
        RunSummary run = Simulate(scenario, workload, fabric);
        EXPECT_FALSE(run.complete);
        ASSERT_FALSE(run.waiting.empty());
        EXPECT_NE(run.waiting[0].find("server 6, where its rank(s) 6 run"), std::string::npos)
            << run.waiting[0];
        // All its NICs one by one, for ever: nothing hangs.
        scenario.failures.events.clear();
        for (std::uint32_t nic = 0; nic < 3; ++nic)
        {
            failure.kind = FailureKind::Nic;
            failure.nic = nic;
            scenario.failures.events.push_back(failure);
        }
        run = Simulate(scenario, workload, fabric);
        EXPECT_FALSE(run.complete);
        EXPECT_TRUE(run.stalled);
        EXPECT_TRUE(std::any_of(run.waiting.begin(), run.waiting.end(), [](const auto& line) {
            return line.find("nic 0 of server 6 is down since 100us") != std::string::npos;
        }));
        // And it comes back.
        failure.kind = FailureKind::Server;
        failure.repair = kMillisecond;
        scenario.failures.events = {failure};
        run = Simulate(scenario, workload, fabric);
        EXPECT_TRUE(run.complete);
        EXPECT_GT(run.iterationTimes[0], kMillisecond);
    }
}

/** A job on a ring of servers whose circuits change up to ten times, through any device; every second one with broken NICs. */
void
RandomPlans(Rng& rng)
{
    const auto servers = static_cast<ServerId>(3 + rng.Below(5));
    const auto nics = static_cast<std::uint32_t>(2 + rng.Below(2));
    std::vector<std::pair<ServerId, ServerId>> ring;
    for (ServerId s = 0; s < servers; ++s)
    {
        ring.emplace_back(s, (s + 1) % servers);
    }
    const Fabric fabric = Direct(servers, ring);
    Scenario scenario = ScenarioFor(servers, nics, "direct");
    std::vector<std::pair<std::string, std::string>> plans;
    const std::uint64_t count = 1 + rng.Below(10);
    for (std::uint64_t k = 0; k < count; ++k)
    {
        // A random ring, with random further circuits while there are ports; or something that joins few.
        std::vector<ServerId> order(servers);
        for (ServerId s = 0; s < servers; ++s)
        {
            order[s] = s;
        }
        rng.Shuffle(order);
        const bool last = k + 1 == count;
        const bool oneWay = rng.Below(3) == 0;
        const std::uint64_t length = last ? servers : 1 + rng.Below(servers);
        std::string text;
        for (std::uint64_t s = 0; s < length; ++s)
        {
            text += (s == 0 ? "" : ",") + std::to_string(order[s]) + (oneWay ? ">" : "-") +
                    std::to_string(order[(s + 1) % servers]);
        }
        if (oneWay && nics > 2)
        {
            text += "," + std::to_string(order[0]) + ">" + std::to_string(order[2]);
        }
        plans.emplace_back(std::to_string(1 + k * 30 + rng.Below(60)) + "us", text);
    }
    // Later ones must come later, so that the last one stays.
    plans.back().first = std::to_string(100 + 30 * count) + "us";
    SetPlans(scenario, plans);
    const char* devices[] = {"ocs", "ocs", "patch-panel", "look-ahead"};
    scenario.reconfiguration["device"] = devices[rng.Below(4)];
    scenario.reconfiguration["latency"] = std::to_string(rng.Below(40)) + "us";
    scenario.reconfiguration["move_time"] = std::to_string(1 + rng.Below(20)) + "us";
    scenario.reconfiguration["flip_time"] = "3us";
    scenario.reconfiguration["relock"] = std::to_string(rng.Below(2) * 7) + "us";
    scenario.reconfiguration["transition"] = rng.Below(2) == 0 ? "drain" : "drop";
    scenario.reconfiguration["granularity"] = rng.Below(2) == 0 ? "whole" : "port";
    scenario.reconfiguration["bond"] = rng.Below(2) == 0 ? "true" : "false";
    scenario.reconfiguration["rings"] = rng.Below(2) == 0 ? "one" : "all";
    if (rng.Below(2) == 0)
    {
        FailureSpec failure;
        const FailureKind kinds[] = {FailureKind::Nic, FailureKind::Link, FailureKind::Server};
        failure.kind = kinds[rng.Below(3)];
        failure.mtbf = kMillisecond;
        failure.count = 4;
        failure.repair = static_cast<SimTime>(1 + rng.Below(60)) * kMicrosecond;
        scenario.failures.events = {failure};
        scenario.failures.detection = static_cast<SimTime>(rng.Below(20)) * kMicrosecond;
    }
    const Workload workload = Job(servers, 200'000 + rng.Below(800'000), rng.Below(60'000), 2);
    const RunSummary run = RunOnFabric(scenario, workload, fabric, {});
    RC_ASSERT(run.violations == std::vector<std::string>{});
    RC_ASSERT(run.complete);
    RC_ASSERT(run.unfinished == 0U);
    RC_ASSERT(run.drops == run.lostDark + run.lostDown);
    scenario.engine.trains = false;
    const RunSummary single = RunOnFabric(scenario, workload, fabric, {});
    RC_ASSERT(Essence(single) == Essence(run));
}

RC_GTEST_PROP(Reconfiguration, BytesAreConservedThroughRandomPlans, ())
{
    Rng rng(*rc::gen::arbitrary<std::uint64_t>(), "plans");
    // A hundred cases of twenty sequences, five plans each on average, trains on and off.
    for (int job = 0; job < (kSanitized ? 1 : 20); ++job)
    {
        RandomPlans(rng);
    }
}

} // namespace
} // namespace topoopt::test
