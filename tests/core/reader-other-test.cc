// SPDX-License-Identifier: GPL-2.0-only
// Kineto profiles, layer tables and GOAL texts.
#include "trace-support.h"

#include <algorithm>
#include <map>

namespace topoopt
{
namespace
{

using test::ErrorOf;
using test::Memory;

/** A host record and its kernel, as the profiler writes both. */
std::string
Pair(double ts, double dur, const std::string& args)
{
    std::ostringstream out;
    out.precision(15);
    out << R"({"ph":"X","cat":"cpu_op","name":"record_param_comms","ts":)" << ts - 20
        << R"(,"dur":5,"args":{)" << args
        << R"(}},{"ph":"X","cat":"kernel","name":"ncclDevKernel","ts":)" << ts << R"(,"dur":)"
        << dur << R"(,"args":{)" << args << "}}";
    return out.str();
}

std::string
Profile(int rank, int world, const std::string& events)
{
    return R"({"schemaVersion":1,"distributedInfo":{"rank":)" + std::to_string(rank) +
           R"(,"world_size":)" + std::to_string(world) + R"(},"traceEvents":[)" + events + "]}";
}

const char* const kReduce =
    R"("Collective name":"allreduce","In msg nelems":100,"Out msg nelems":100,"dtype":"Float","Group size":2,"Process Group Name":"0","In split size":"[]")";

TEST(Kineto, EachCollectiveCountsOnceAndGapsAreComputation)
{
    const auto rank = [](int r) {
        const std::string split =
            r == 0
                ? R"("In split size":"[1, 2]","Out split size":"[1, 5]","In msg nelems":3,"Out msg nelems":6)"
                : R"("In split size":"[5, 7]","Out split size":"[2, 7]","In msg nelems":12,"Out msg nelems":9)";
        return Profile(
            r,
            2,
            Pair(1000, 100, kReduce) + "," +
                Pair(1150.5,
                     10,
                     R"("Collective name":"all_to_allv","dtype":"Int","Process Group Name":"0",)" +
                         split) +
                R"(,{"ph":"X","cat":"kernel","name":"gemm","ts":1100,"dur":50},{"name":"x"})");
    };
    // Names carry no rank: the content does.
    const LoadedWorkload w = LoadTraceFiles(Memory({{"b.json", rank(1)}, {"a.json", rank(0)}}), {});
    EXPECT_EQ(w.format, "kineto");
    ASSERT_EQ(w.graph.collectives.size(), 2u);
    EXPECT_EQ(w.graph.collectives[0].bytes, 400u);
    EXPECT_EQ(w.graph.collectives[1].pairBytes, (std::vector<Bytes>{4, 8, 20, 28}));
    EXPECT_EQ(w.ranks[0].computeTime, 50500 * kNanosecond);
    EXPECT_EQ(w.facts.at("events"), 12);
}

TEST(Kineto, WhatAProfileLacksIsNamed)
{
    const auto load = [](const std::string& name, const std::string& text) {
        return ErrorOf([&] { (void)LoadTraceFiles(Memory({{name, text}}), {}); });
    };
    EXPECT_HAS(load("trace.json", R"({"schemaVersion":1,"traceEvents":[]})"), "rank unknown");
    EXPECT_HAS(load("trace.json", Profile(0, 2, "")), "world_size: found 2, but 1 rank has a file");
    EXPECT_HAS(
        load("trace.json",
             Profile(0, 1, R"({"cat":"kernel","name":"ncclKernel_AllReduce","ts":1,"dur":2})")),
        "execution trace");
    EXPECT_HAS(
        load(
            "trace.json",
            Profile(
                0,
                1,
                Pair(
                    30,
                    1,
                    R"("Collective name":"all_to_allv","In msg nelems":3,"Out msg nelems":3,"dtype":"Int","In split size":"[1, 2, ...]")"))),
        "cut the list of splits at 2");
    EXPECT_HAS(load("trace.json", Profile(0, 1, Pair(30, 1, R"("Collective name":"all_dance")"))),
               "unknown operation");
    EXPECT_HAS(load("trace.json", Profile(0, 1, R"({"ts":1,"x":inf})")), "trace.json:1:");
    EXPECT_EQ(load("trace.json",
                   Profile(0,
                           1,
                           Pair(30,
                                1,
                                std::string(R"("Comms Id":12715772615376301750,)") +
                                    R"("Collective name":"barrier")"))),
              "no error");
    const std::string zero = Profile(0, 2, "");
    EXPECT_HAS(ErrorOf([&] {
                   (void)LoadTraceFiles(Memory({{"t0.json", zero}, {"t1.json", zero}}), {});
               }),
               "second file of rank 0");
}

LoadedWorkload
Table(const std::string& text, const std::map<std::string, std::string>& options)
{
    return LoadTraceFiles(Memory({{"table_1.txt", text}}), TraceOptions::Parse(options));
}

TEST(LayerTable, AstraSimRunsForwardThenBackwardOnAllRanks)
{
    const std::string text = "DATA\r\n2\r\nl1 -1 10 NONE 0 20 NONE 0 30 ALLREDUCE 100 "
                             "5\r\nl2\t-1\t1\tALLGATHER\t64\t2\tNONE\t0\t3\tALLREDUCE\t200\t0\r\n";
    const LoadedWorkload w = Table(text, {{"ranks", "4"}});
    EXPECT_EQ(w.format, "layer-table");
    EXPECT_EQ(w.graph.ranks, 4u);
    ASSERT_EQ(w.graph.collectives.size(), 3u);
    EXPECT_EQ(w.graph.collectives[0].kind, CollectiveKind::AllGather);
    EXPECT_EQ(w.graph.collectives[0].bytes, 64u);
    EXPECT_EQ(w.graph.collectives[1].bytes, 200u) << "the last layer goes back first";
    EXPECT_EQ(w.ranks[3].computeTime, 71 * kNanosecond);
    EXPECT_EQ(
        Table(text, {{"ranks", "4"}, {"allgather_size", "output"}}).graph.collectives[0].bytes,
        16u);
    const auto error = [](const std::string& t, const std::map<std::string, std::string>& o) {
        return ErrorOf([&] { (void)Table(t, o); });
    };
    EXPECT_HAS(error(text, {}), "expected the option ranks: N");
    EXPECT_HAS(error("DATA\n1\nl1 -1 10 NONE 0 20 NONE 0 30 ALLREDUCE 100\n", {{"ranks", "2"}}),
               "table_1.txt:3: found 11 columns, expected 12");
    EXPECT_HAS(error("DATA\n1\nl1 -1 10 NOPE 0 20 NONE 0 30 ALLREDUCE 100 1\n", {{"ranks", "2"}}),
               "table_1.txt:3:4: found 'NOPE'");
    EXPECT_HAS(error("DATA\n2\nl1 -1 10 NONE 0 20 NONE 0 30 ALLREDUCE 100 1\n", {{"ranks", "2"}}),
               "found 1 layers, expected 2");
    // A few bytes must not ask for any amount of memory.
    std::string many = "DATA\n100\n";
    for (int i = 0; i < 100; ++i)
    {
        many += "l -1 1 NONE 0 1 NONE 0 1 NONE 0 1\n";
    }
    EXPECT_HAS(error(many, {{"ranks", "1000000"}}),
               "found 100 layers on 1000000 ranks, expected at most 100000000 operations");
}

TEST(LayerTable, SimaiGroupsAreTensorDataAndExpert)
{
    const std::string text = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 "
                             "pp: 1 vpp: 1 ga: 1 all_gpus: 8\n"
                             "1\nl -1 1 ALLREDUCE 800 1 ALLTOALL_EP 80 1 ALLGATHER_DP_EP 60 1\n";
    const LoadedWorkload w = Table(text, {});
    const auto members = [&](CollectiveKind kind) {
        std::vector<std::vector<RankId>> all;
        for (const CollectiveCall& call : w.graph.collectives)
        {
            if (call.kind == kind)
            {
                all.push_back(w.graph.groups[call.group].members);
            }
        }
        std::sort(all.begin(), all.end());
        return all;
    };
    using Groups = std::vector<std::vector<RankId>>;
    EXPECT_EQ(members(CollectiveKind::AllReduce), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
    EXPECT_EQ(members(CollectiveKind::AllToAll), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
    EXPECT_EQ(members(CollectiveKind::AllGather), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
    for (const CollectiveCall& call : w.graph.collectives)
    {
        if (call.kind == CollectiveKind::AllGather)
        {
            EXPECT_EQ(call.bytes, 30u) << "SimAI's size is the whole message";
        }
    }
    std::string pipeline = text;
    pipeline.replace(pipeline.find("pp: 1"), 5, "pp: 2");
    EXPECT_HAS(ErrorOf([&] { (void)Table(pipeline, {}); }), "pp: found 2");
}

TEST(LayerTable, GroupsOfManyRanksAreMadeOnce)
{
    const std::string text = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 ep: 4 "
                             "pp: 1 vpp: 1 ga: 1 all_gpus: 8192\n"
                             "1\nl -1 1 ALLREDUCE 8192 1 ALLTOALL_EP 80 1 ALLGATHER_DP_EP 256 1\n";
    const LoadedWorkload w = Table(text, {});
    std::map<std::size_t, std::size_t> groups; // size -> number
    for (const CommGroup& group : w.graph.groups)
    {
        ++groups[group.members.size()];
    }
    // 1024 of 8 tensor ranks, 2048 of 4 expert ranks, 32 of 256 replicas of an expert.
    EXPECT_EQ(groups, (std::map<std::size_t, std::size_t>{{8, 1024}, {4, 2048}, {256, 32}}));
}

LoadedWorkload
Goal(const std::string& text)
{
    return LoadTraceFiles(Memory({{"g.goal", text}}), {});
}

TEST(Goal, LabelsOrdersAndComments)
{
    const LoadedWorkload w = Goal("// made by hand\nnum_ranks 2\n\nrank 0 {\nl1: calc 100 cpu "
                                  "0\nl2: send 10b to 1 tag 7\n/* a\n long one */ l2 requires l1\n"
                                  "l3: calc 5\nl3 irequires l2\n}\nrank 1 {\nr: recv 10b from 0 "
                                  "tag 7\nc: calc 1\nc requires r\n}\n");
    EXPECT_EQ(w.format, "goal");
    ASSERT_EQ(w.graph.transfers.size(), 1u);
    EXPECT_EQ(w.graph.transfers[0].bytes, 10u);
    EXPECT_EQ(w.graph.transfers[0].tag, 7);
    EXPECT_EQ(w.ranks[0].computeTime, 105 * kNanosecond);
    // calc, send, calc, the start of the send; then recv and calc.
    ASSERT_EQ(w.graph.tasks.size(), 6u);
    EXPECT_EQ(w.graph.tasks[3].kind, TaskKind::Join);
    EXPECT_EQ(*w.graph.SuccessorsBegin(0), 3u) << "l1 before the start of l2";
    EXPECT_EQ(w.graph.SuccessorsEnd(3) - w.graph.SuccessorsBegin(3), 2) << "l2 and l3 after it";
    EXPECT_EQ(*w.graph.SuccessorsBegin(4), 5u);
}

TEST(Goal, ErrorsHaveTheLine)
{
    const auto error = [](const std::string& body) {
        return ErrorOf(
            [&] { (void)Goal("num_ranks 2\nrank 0 {\n" + body + "\n}\nrank 1 {\n}\n"); });
    };
    EXPECT_EQ(error("calc 5"), "no error");
    EXPECT_HAS(error("calc x"), "g.goal:3: found 'x'");
    EXPECT_HAS(error("sing 5"), "g.goal:3: found 'sing'");
    EXPECT_HAS(error("send 5b to 2"), "g.goal:3: found '2', expected a rank, 0..1");
    EXPECT_HAS(error("recv 5b from -1"), "any rank");
    EXPECT_HAS(error("send 5b to 1"), "found 1 sends and 0 receives");
    EXPECT_HAS(error("a requires b"), "found 'a', expected a label defined above");
    EXPECT_HAS(error("a: calc 1\na: calc 1"), "each label once");
    EXPECT_HAS(error("a: calc 1\nb: calc 1\na requires b\nb requires a"), "cycle");
    EXPECT_HAS(ErrorOf([] { (void)Goal("num_ranks 2\nrank 0 {\n}\n"); }),
               "found no block of rank 1");
    EXPECT_HAS(ErrorOf([] { (void)Goal("num_ranks 1000000\nrank 1 {\n}\nrank 0 {\n}\n"); }),
               "found no block of rank 2");
    EXPECT_HAS(ErrorOf([] { (void)Goal("num_ranks 2\nrank 0 {\n}\nrank 0 {\n}\n"); }),
               "each rank once");
    EXPECT_HAS(ErrorOf([] { (void)Goal("num_ranks 1\nrank 0 {\ncalc 1\n"); }),
               "end of the file inside rank 0");
}

} // namespace
} // namespace topoopt
