// SPDX-License-Identifier: GPL-2.0-only
// Matching of ranks: PARAM basic traces written here are the means, the task graph is what counts.
#include "trace-support.h"

#include <algorithm>

namespace topoopt
{
namespace
{

using test::ErrorOf;
using test::LoadParam;

const char* const kAllReduce =
    R"({"comms":"all_reduce","req":REQ,"pg_id":0,"in_msg_size":SIZE,"out_msg_size":SIZE,"dtype":"float"})";

std::string
AllReduce(int req, int size)
{
    std::string text = kAllReduce;
    for (const auto& [word, value] : {std::pair{"REQ", req}, {"SIZE", size}, {"SIZE", size}})
    {
        text.replace(text.find(word), std::string(word).size(), std::to_string(value));
    }
    return text;
}

std::string
Wait(int req)
{
    return R"({"comms":"wait","req":)" + std::to_string(req) + "}";
}

std::string
List(const std::vector<std::string>& steps)
{
    std::string text = "[";
    for (const std::string& step : steps)
    {
        text += (text.size() > 1 ? "," : "") + step;
    }
    return text + "]";
}

/** Whether @p after cannot start before @p before has ended. */
bool
Precedes(const TaskGraph& graph, TaskId before, TaskId after)
{
    std::vector<TaskId> open{before};
    std::vector<bool> seen(graph.tasks.size());
    while (!open.empty())
    {
        const TaskId at = open.back();
        open.pop_back();
        if (at == after)
        {
            return true;
        }
        for (const TaskId* s = graph.SuccessorsBegin(at); s != graph.SuccessorsEnd(at); ++s)
        {
            if (!seen[*s])
            {
                seen[*s] = true;
                open.push_back(*s);
            }
        }
    }
    return false;
}

TaskId
TaskAt(const TaskGraph& graph, RankId rank, std::uint64_t node)
{
    for (TaskId t = 0; t < graph.tasks.size(); ++t)
    {
        if (graph.tasks[t].rank == rank && graph.tasks[t].sourceId == node)
        {
            return t;
        }
    }
    ADD_FAILURE() << "no task of rank " << rank << " node " << node;
    return 0;
}

TEST(TraceMatch, AnOperationWithAWaitIsAsynchronousAndOneWithoutBlocks)
{
    // 0: AR(1) async, 1: compute, 2: wait(1), 3: AR(2) blocking, 4: compute
    const std::string rank = List({AllReduce(1, 10),
                                   R"({"compute":"gemm","mm_dim":8,"dtype":"float"})",
                                   Wait(1),
                                   AllReduce(2, 20),
                                   R"({"compute":"gemm","mm_dim":8,"dtype":"float"})"});
    const LoadedWorkload w = LoadParam({rank, rank});
    const TaskGraph& g = w.graph;
    ASSERT_EQ(g.tasks.size(), 10u);
    ASSERT_EQ(g.collectives.size(), 2u);
    EXPECT_EQ(g.collectives[0].bytes, 40u);
    EXPECT_EQ(g.collectives[1].bytes, 80u);
    EXPECT_EQ(g.collectives[1].sequence, 1u);
    for (RankId r = 0; r < 2; ++r)
    {
        EXPECT_FALSE(Precedes(g, TaskAt(g, r, 0), TaskAt(g, r, 1)));
        EXPECT_TRUE(Precedes(g, TaskAt(g, r, 0), TaskAt(g, r, 2)));
        EXPECT_TRUE(Precedes(g, TaskAt(g, r, 1), TaskAt(g, r, 2)));
        EXPECT_TRUE(Precedes(g, TaskAt(g, r, 2), TaskAt(g, r, 3)));
        EXPECT_TRUE(Precedes(g, TaskAt(g, r, 3), TaskAt(g, r, 4)));
    }
    EXPECT_FALSE(Precedes(g, TaskAt(g, 0, 0), TaskAt(g, 1, 4)))
        << "ranks are tied together by collectives only";
}

TEST(TraceMatch, CollectivesOfOneGroupAreSerialisedUnlessToldOtherwise)
{
    const std::string rank = List({AllReduce(1, 10), AllReduce(2, 20), Wait(1), Wait(2)});
    const LoadedWorkload serial = LoadParam({rank, rank});
    EXPECT_TRUE(Precedes(serial.graph, TaskAt(serial.graph, 0, 0), TaskAt(serial.graph, 0, 1)));
    const LoadedWorkload free = LoadParam({rank, rank}, {{"serialise", "none"}});
    EXPECT_FALSE(Precedes(free.graph, TaskAt(free.graph, 0, 0), TaskAt(free.graph, 0, 1)));
}

TEST(TraceMatch, WaitWithoutOperationIsOneCountedWarning)
{
    const std::string rank = List({Wait(141), Wait(142), AllReduce(1, 10)});
    const LoadedWorkload w = LoadParam({rank, rank});
    ASSERT_EQ(w.graph.warnings.size(), 1u);
    EXPECT_HAS(w.graph.warnings[0], "before the trace began");
    EXPECT_HAS(w.graph.warnings[0], "(4 times)");
    EXPECT_EQ(w.lists.at("waits_without_operation_rank0"), (std::vector<std::int64_t>{141, 142}));
    EXPECT_EQ(w.lists.at("operations_without_wait_rank0"), (std::vector<std::int64_t>{1}));
}

TEST(TraceMatch, ARequestNumberOfTwoGroupsKeepsBothWaits)
{
    const auto step = [](const char* what, int group, const char* req) {
        return std::string(R"({"comms":")") + what +
               R"(","in_msg_size":4,"dtype":"byte","pg_id":)" + std::to_string(group) +
               R"(,"req":)" + req + "}";
    };
    // The wait by group and number takes the first; a wait by number alone is left for the second.
    const std::string rank =
        List({R"({"comms":"init","pg_id":1,"world_size":2,"global_ranks":[0,1]})",
              step("all_reduce", 0, "[5,false]"),
              step("all_reduce", 1, "[5,false]"),
              step("wait", 0, "[5,false]"),
              Wait(5)});
    const LoadedWorkload w = LoadParam({rank, rank});
    EXPECT_EQ(w.facts.count("waits_without_operation"), 0u);
    EXPECT_TRUE(w.graph.warnings.empty());
}

TEST(TraceMatch, ARequestOpenedTwiceBelongsToTheLaterOperation)
{
    const std::string rank = List({AllReduce(1, 10), AllReduce(1, 20), Wait(1), AllReduce(3, 5)});
    const LoadedWorkload w = LoadParam({rank, rank}, {{"serialise", "none"}});
    EXPECT_TRUE(Precedes(w.graph, TaskAt(w.graph, 0, 1), TaskAt(w.graph, 0, 2)));
    // The first one has lost its wait, so it blocks.
    EXPECT_TRUE(Precedes(w.graph, TaskAt(w.graph, 0, 0), TaskAt(w.graph, 0, 1)));
    ASSERT_EQ(w.graph.warnings.size(), 1u);
    EXPECT_HAS(w.graph.warnings[0], "opened again");
}

TEST(TraceMatch, ErrorsNameRankNodeAndBothSides)
{
    const std::string init = R"({"comms":"init","pg_id":1,"world_size":1,"global_ranks":[1]})";
    const auto two = [](const std::string& a, const std::string& b) {
        return ErrorOf([&] { LoadParam({List({a}), List({b})}); });
    };
    std::string text = two(AllReduce(1, 10), AllReduce(1, 11));
    EXPECT_HAS(text, "rank-1.json rank 1 node 0 (\"all_reduce\")");
    EXPECT_HAS(text, "found 44 B, but rank 0 node 0 has 40 B");
    text = two(AllReduce(1, 10), R"({"comms":"barrier"})");
    EXPECT_HAS(text, "found barrier, but rank 0 node 0 calls all_reduce");
    text = ErrorOf([] {
        LoadParam({List({AllReduce(1, 10), AllReduce(2, 10)}), List({AllReduce(1, 10)})});
    });
    EXPECT_HAS(text, "rank 0 node 1");
    EXPECT_HAS(text, "call 2 of group '0': rank 1 never calls it");
    text = ErrorOf([&] {
        LoadParam({List({init, R"({"comms":"barrier","pg_id":1})"}), List({init})});
    });
    EXPECT_HAS(text, "rank 0 is no member of group 1");
}

TEST(TraceMatch, MessagesAreFifoPerPairAndCheckedOnBothSides)
{
    const auto send = [](int dst, int size) {
        return R"({"comms":"isend","src_rank":0,"dst_rank":)" + std::to_string(dst) +
               R"(,"in_msg_size":)" + std::to_string(size) + R"(,"dtype":"byte"})";
    };
    const auto recv = [](int size) {
        return R"({"comms":"irecv","src_rank":0,"dst_rank":1,"in_msg_size":)" +
               std::to_string(size) + R"(,"dtype":"byte"})";
    };
    const LoadedWorkload w = LoadParam({List({send(1, 7), send(1, 9)}), List({recv(7), recv(9)})});
    ASSERT_EQ(w.graph.transfers.size(), 2u);
    EXPECT_EQ(w.graph.transfers[0].bytes, 7u);
    EXPECT_EQ(w.graph.transfers[1].bytes, 9u);
    EXPECT_EQ(w.graph.tasks[TaskAt(w.graph, 1, 1)].object, 1u);

    EXPECT_HAS(ErrorOf([&] {
                   LoadParam({List({send(1, 7), send(1, 9)}), List({recv(9), recv(7)})});
               }),
               "send of 7 B to rank 1, tag 0, meets a receive of 9 B (node 0)");
    EXPECT_HAS(ErrorOf([&] {
                   LoadParam({List({send(1, 7)}), List({})});
               }),
               "rank 0 node 0 (\"isend\"): send to rank 1, tag 0: found 1 sends and 0 receives");
    EXPECT_HAS(ErrorOf([&] {
                   LoadParam({List({}), List({recv(7)})});
               }),
               "rank 1 node 0 (\"irecv\"): receive from rank 0");
    EXPECT_HAS(ErrorOf([&] { LoadParam({List({send(5, 7)}), List({})}); }), "found 5");
}

TEST(TraceMatch, BothReceiveFirstIsADeadlockUnlessBatched)
{
    const auto p2p = [](const char* what, int me, int other, const char* more) {
        const bool send = what[1] == 's';
        return std::string(R"({"comms":")") + what + R"(","src_rank":)" +
               std::to_string(send ? me : other) + R"(,"dst_rank":)" +
               std::to_string(send ? other : me) + R"(,"in_msg_size":8,"dtype":"byte")" + more +
               "}";
    };
    const std::string text = ErrorOf([&] {
        LoadParam({List({p2p("irecv", 0, 1, ""), p2p("isend", 0, 1, "")}),
                   List({p2p("irecv", 1, 0, ""), p2p("isend", 1, 0, "")})});
    });
    EXPECT_HAS(text, "deadlock");
    EXPECT_HAS(text, "rank 0 recv 0");
    EXPECT_HAS(text, "rank 1 recv 0");
    const char* batch = R"(,"use_batch":true)";
    const std::string go = R"({"comms":"batch_isend_irecv"})";
    const LoadedWorkload w = LoadParam(
        {List({p2p("irecv", 0, 1, batch), p2p("isend", 0, 1, batch), go, R"({"comms":"barrier"})"}),
         List({p2p("irecv", 1, 0, batch),
               p2p("isend", 1, 0, batch),
               go,
               R"({"comms":"barrier"})"})});
    EXPECT_EQ(w.graph.transfers.size(), 2u);
    EXPECT_TRUE(Precedes(w.graph, TaskAt(w.graph, 0, 0), TaskAt(w.graph, 0, 3)));
}

TEST(TraceMatch, BlockingCollectivesInDifferentOrderDeadlock)
{
    const std::string groups = R"({"comms":"init","pg_id":1,"world_size":2,"global_ranks":[0,1]})";
    const auto barrier = [](int pg) {
        return R"({"comms":"barrier","pg_id":)" + std::to_string(pg) + "}";
    };
    EXPECT_HAS(ErrorOf([&] {
                   LoadParam({List({groups, barrier(0), barrier(1)}),
                              List({groups, barrier(1), barrier(0)})});
               }),
               "deadlock");
}

TEST(TraceMatch, ReplayOptionsChangeExactlyWhatTheySay)
{
    const std::string rank = List(
        {R"({"comms":"all_reduce","req":1,"in_msg_size":3,"out_msg_size":3,"dtype":"float","startTime_ns":5000})",
         R"({"comms":"all_reduce","req":2,"in_msg_size":1000,"out_msg_size":1000,"dtype":"float","startTime_ns":7000})"});
    const std::string later = List(
        {R"({"comms":"all_reduce","req":1,"in_msg_size":3,"out_msg_size":3,"dtype":"float","startTime_ns":6000})",
         R"({"comms":"all_reduce","req":2,"in_msg_size":1000,"out_msg_size":1000,"dtype":"float","startTime_ns":9000})"});
    const LoadedWorkload plain = LoadParam({rank, later});
    EXPECT_EQ(plain.graph.tasks[3].notBefore, 0);
    EXPECT_EQ(plain.stamp, "");
    const LoadedWorkload kept = LoadParam({rank, later}, {{"timing", "kept"}});
    EXPECT_EQ(kept.graph.tasks[1].notBefore, 2 * kMicrosecond);
    EXPECT_EQ(kept.graph.tasks[2].notBefore, 1 * kMicrosecond);
    const LoadedWorkload own =
        LoadParam({rank, later}, {{"timing", "kept"}, {"align", "per-rank"}});
    EXPECT_EQ(own.graph.tasks[2].notBefore, 0);
    EXPECT_EQ(own.graph.tasks[3].notBefore, 3 * kMicrosecond);
    const LoadedWorkload half = LoadParam({rank, later}, {{"scale_bytes", "0.1"}});
    EXPECT_EQ(half.graph.collectives[0].bytes, 4u) << "at least one element";
    EXPECT_EQ(half.graph.collectives[1].bytes, 400u);
    EXPECT_EQ(half.stamp, "scale_bytes=0.1");
    const LoadedWorkload one = LoadParam({rank, later}, {{"max_ops", "1"}});
    EXPECT_EQ(one.graph.collectives.size(), 1u);
    EXPECT_EQ(one.graph.tasks.size(), 2u);
}

TEST(TraceMatch, FirstIterationEndsAtTheSecondMarker)
{
    const auto step = [](const char* marker) {
        return std::string(R"({"comms":"barrier","markers":[")") + marker + R"("]})";
    };
    const std::string rank = List({step("setup"),
                                   step("iteration 1"),
                                   step("iteration 1"),
                                   step("iteration 2"),
                                   step("iteration 3")});
    EXPECT_EQ(LoadParam({rank, rank}).graph.collectives.size(), 5u);
    EXPECT_EQ(LoadParam({rank, rank}, {{"first_iteration", "true"}}).graph.collectives.size(), 3u);
    const std::string bare = List({R"({"comms":"barrier"})"});
    EXPECT_HAS(ErrorOf([&] {
                   LoadParam({bare, bare}, {{"first_iteration", "true"}});
               }),
               "no iteration markers");
}

TEST(TraceMatch, RootedCollectivesTakeTheSizeFromWhoKnowsIt)
{
    const auto gather = [](int size) {
        return R"([{"comms":"broadcast","root":1,"in_msg_size":)" + std::to_string(size) +
               R"(,"out_msg_size":10,"dtype":"float"}])";
    };
    const LoadedWorkload w = LoadParam({gather(0), gather(10)});
    ASSERT_EQ(w.graph.collectives.size(), 1u);
    EXPECT_EQ(w.graph.collectives[0].bytes, 40u);
    EXPECT_EQ(w.graph.collectives[0].root, 1u);
    EXPECT_HAS(ErrorOf([&] { LoadParam({gather(9), gather(10)}); }), "found 40 B, but rank 0");
}

TEST(TraceOptions, UnknownKeysAndBadValuesAreNamed)
{
    const auto parse = [](const std::string& key, const std::string& value) {
        return ErrorOf([&] { (void)TraceOptions::Parse({{key, value}}, {{key, "s.yaml:7:3"}}); });
    };
    EXPECT_HAS(parse("compute_scal", "1"),
               "s.yaml:7:3: unknown trace option 'compute_scal', did you mean 'compute_scale'?");
    EXPECT_HAS(parse("timing", "keep"),
               "s.yaml:7:3: timing: found keep, expected dependency or kept");
    EXPECT_HAS(parse("compute_scale", "-1"), "found -1");
    EXPECT_HAS(parse("compute_scale", "nan"), "found nan");
    EXPECT_HAS(parse("scale_bytes", "0"), "above 0");
    EXPECT_HAS(parse("max_ops", "1e3"), "found 1e3");
    EXPECT_EQ(parse("compute_scale", "0"), "no error");
}

TEST(MapRanks, IdentityBlocksAndTooMany)
{
    EXPECT_EQ(MapRanks(4, 8, 1, {}), (std::vector<ServerId>{0, 1, 2, 3}));
    EXPECT_EQ(MapRanks(4, 2, 2, {}), (std::vector<ServerId>{0, 0, 1, 1}));
    EXPECT_HAS(ErrorOf([] { (void)MapRanks(8, 4, 1, {}); }), "8 ranks, 4 servers x 1 GPU");
}

} // namespace
} // namespace topoopt
