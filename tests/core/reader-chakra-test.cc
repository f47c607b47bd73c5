// SPDX-License-Identifier: GPL-2.0-only
#include "chakra-encoder.h"
#include "trace-support.h"

#include <algorithm>
#include <map>

namespace topoopt
{
namespace
{

using test::Attribute;
using test::Collective;
using test::Compute;
using test::ErrorOf;
using test::Field;
using test::Fixed;
using test::GroupList;
using test::Head;
using test::Metadata;
using test::Record;
using test::Recv;
using test::Send;
using test::Varint;

LoadedWorkload
Load(const std::vector<std::string>& ranks, const std::map<std::string, std::string>& options = {})
{
    std::vector<std::pair<std::string, std::string>> files;
    for (std::size_t r = 0; r < ranks.size(); ++r)
    {
        files.emplace_back("x." + std::to_string(r) + ".et", ranks[r]);
    }
    return LoadTraceFiles(test::Memory(files), TraceOptions::Parse(options));
}

std::string
Error(const std::vector<std::string>& ranks, const std::map<std::string, std::string>& options = {})
{
    return ErrorOf([&] { (void)Load(ranks, options); });
}

TEST(Chakra, AllTenIntegerEncodingsOfASizeAreEqual)
{
    const std::uint64_t n = 123456;
    for (const std::string& value : {Field(7, n),
                                     Field(9, n),
                                     Field(11, n),
                                     Field(13, n),
                                     Field(15, 2 * n),
                                     Field(17, 2 * n),
                                     Fixed(19, n, 4),
                                     Fixed(21, n, 8),
                                     Fixed(23, n, 4),
                                     Fixed(25, n, 8)})
    {
        const std::string rank =
            Metadata() +
            Record(Head(1, 7, {}) + Attribute("comm_type", Field(9, std::uint64_t{0})) +
                   Attribute("comm_size", value));
        EXPECT_EQ(Load({rank, rank}).graph.collectives.at(0).bytes, n);
    }
    const auto bad = [](const std::string& value) {
        return Error({Metadata() +
                      Record(Head(1, 7, {}) + Attribute("comm_type", Field(9, std::uint64_t{0})) +
                             (value.empty() ? "" : Attribute("comm_size", value)))});
    };
    EXPECT_HAS(bad(""), "rank 0 node 1 (\"n1\"): comm_size: found nothing");
    EXPECT_HAS(bad(Field(29, std::string("12"))), "comm_size: found a string");
    EXPECT_HAS(bad(Fixed(3, 0x7ff8000000000000, 8)), "comm_size: found a double");
    EXPECT_HAS(bad(Field(9, ~std::uint64_t{0} - 4)), "found size -5");
    EXPECT_HAS(bad(Field(15, std::uint64_t{9})), "found size -5");
    EXPECT_HAS(bad(Field(13, ~std::uint64_t{0})), "found 18446744073709551615");
    EXPECT_HAS(bad(Field(10, Field(1, std::uint64_t{3}))), "found a list");
}

TEST(Chakra, UnsortedIdsPackedListsDuplicateAndForwardDependenciesAndUnknownFields)
{
    const std::string packed =
        Record(Field(1, std::uint64_t{9}) + Field(3, std::uint64_t{4}) +
               Field(5, Varint(300) + Varint(2)) + Field(99, std::string("later")) +
               Fixed(98, 1, 8) + Field(7, std::uint64_t{5}));
    const LoadedWorkload w = Load({Metadata() + packed + Compute(300, 2, {2, 2}) + Compute(2, 1)});
    ASSERT_EQ(w.graph.tasks.size(), 3u);
    EXPECT_EQ(w.graph.PredecessorCounts()[0], 2u);
    EXPECT_EQ(w.graph.PredecessorCounts()[1], 1u);
    EXPECT_EQ(w.graph.tasks[0].duration, 5 * kMicrosecond);
    EXPECT_EQ(w.ranks[0].computeTime, 8 * kMicrosecond);
    // A first record of length 0 is an empty GlobalMetadata.
    EXPECT_EQ(Load({std::string(1, '\0') + Compute(1, 2)}).graph.tasks.size(), 1u);
    EXPECT_EQ(Load({Metadata() + Compute(1, 2)}, {{"compute_scale", "0"}}).graph.tasks[0].duration,
              0);
}

TEST(Chakra, BrokenFramingIsAnErrorWithRecordAndByte)
{
    const std::string good = Metadata() + Compute(1, 2) + Collective(2, 0, 8, {1});
    EXPECT_EQ(Error({good}), "no error");
    std::vector<std::size_t> ends;
    for (std::size_t at = 0; at < good.size(); at += 1 + static_cast<unsigned char>(good[at]))
    {
        ends.push_back(at);
    }
    for (std::size_t size = 0; size < good.size(); ++size)
    {
        const std::string text = Error({good.substr(0, size)});
        const bool boundary = size > 0 && std::find(ends.begin(), ends.end(), size) != ends.end();
        EXPECT_EQ(text == "no error", boundary) << size << ": " << text;
    }
    EXPECT_HAS(Error({good + Varint(3000000000) + "x"}), "record 3");
    EXPECT_HAS(Error({good + Varint(100000000) + "x"}), "1 B are there");
    EXPECT_HAS(Error({good + std::string(12, '\xff')}), "record length");
    EXPECT_HAS(Error({good + Record("\xff")}), "the end inside a number");
    EXPECT_HAS(Error({good + Record(Varint(10 * 8 + 2) + Varint(99))}), "found length 99");
    EXPECT_HAS(Error({good + Record(Varint(7 * 8 + 3))}), "wire type 3");
}

TEST(Chakra, OldSchemasAreRefusedByName)
{
    EXPECT_HAS(Error({Record(Head(1, 4, {}))}), "Chakra 0.0.1");
    EXPECT_HAS(Error({Record(Field(2, Field(1, std::string("a")) + Field(2, std::uint64_t{1})))}),
               "Chakra 0.0.2");
    EXPECT_HAS(Error({Metadata() +
                      Record(Head(1, 7, {}) + Attribute("comm_type", Field(2, std::uint64_t{1})))}),
               "Chakra 0.0.2");
    EXPECT_HAS(Error({Metadata() + Record(Head(1, 7, {}))}), "collective without comm_type");
}

TEST(Chakra, DependenciesThatCannotHoldAreNamed)
{
    EXPECT_HAS(Error({Metadata() + Compute(1, 1, {77})}),
               "rank 0 node 1 (\"n1\"): depends on node 77, which is not in the file");
    EXPECT_HAS(Error({Metadata() + Compute(4, 1, {4})}), "node 4 (\"n4\"): depends on itself");
    EXPECT_HAS(Error({Metadata() + Compute(1, 1, {3}) + Compute(2, 1, {1}) + Compute(3, 1, {2})}),
               "nodes 1 -> 2 -> 3 -> 1");
    EXPECT_HAS(Error({Metadata() + Compute(2, 1) + Compute(2, 1)}), "node id 2 twice");
    // Control dependencies are the call stack, not an order: only on request.
    const std::string control =
        Metadata() +
        Record(Head(1, 4, {}) + Field(4, std::uint64_t{1}) + Field(4, std::uint64_t{55})) +
        Record(Head(2, 4, {}) + Field(4, std::uint64_t{1}));
    const LoadedWorkload w = Load({control});
    EXPECT_EQ(w.facts.at("ctrl_deps_to_self"), 1);
    EXPECT_EQ(w.facts.at("ctrl_deps_to_absent_nodes"), 1);
    EXPECT_EQ(w.graph.PredecessorCounts()[1], 0u);
    EXPECT_EQ(Load({control}, {{"ctrl_deps", "true"}}).graph.PredecessorCounts()[1], 1u);
}

TEST(Chakra, HostRecordsAreNoNetworkOperations)
{
    const auto cpu = [](const std::string& value) { return Attribute("is_cpu_op", value); };
    const std::string rank =
        Metadata() + Record(Head(1, 7, {}) + cpu(Field(27, std::uint64_t{1}))) +
        Record(Head(2, 4, {}) + cpu(Field(7, std::uint64_t{1})) + Field(7, std::uint64_t{50})) +
        Compute(3, 4);
    const LoadedWorkload w = Load({rank});
    EXPECT_EQ(w.facts.at("host_comm_nodes"), 1);
    EXPECT_EQ(w.graph.collectives.size(), 0u);
    EXPECT_EQ(w.ranks[0].computeTime, 4 * kMicrosecond);
    EXPECT_EQ(Load({rank}, {{"cpu_compute", "true"}}).ranks[0].computeTime, 54 * kMicrosecond);
}

TEST(Chakra, RecordsWithoutEffectAreLeftOutAndTheOrderHolds)
{
    const auto host = [](std::uint64_t id, const std::vector<std::uint64_t>& deps) {
        return Record(Head(id, 4, deps) + Attribute("is_cpu_op", Field(27, std::uint64_t{1})));
    };
    // 1 -> host 2 -> host 3 -> 4: the hosts only pass the order on. 8 and 9 join in host 10, which has to stay.
    const std::string chain = Metadata() + Compute(1, 5) + host(2, {1}) + host(3, {2}) +
                              Compute(4, 7, {3}) + Compute(8, 1, {4}) + Compute(9, 1, {4}) +
                              host(10, {8, 9}) + Compute(11, 1, {10}) + host(12, {10}) +
                              host(13, {});
    const LoadedWorkload w = Load({chain});
    EXPECT_EQ(w.facts.at("nodes"), 10);
    EXPECT_EQ(w.facts.at("records_without_effect"), 4);
    ASSERT_EQ(w.graph.tasks.size(), 6u);
    std::map<std::uint64_t, TaskId> at;
    for (TaskId t = 0; t < w.graph.tasks.size(); ++t)
    {
        at[w.graph.tasks[t].sourceId] = t;
    }
    const auto next = [&](std::uint64_t id) {
        std::vector<std::uint64_t> ids;
        for (const TaskId* s = w.graph.SuccessorsBegin(at.at(id));
             s != w.graph.SuccessorsEnd(at.at(id));
             ++s)
        {
            ids.push_back(w.graph.tasks[*s].sourceId);
        }
        std::sort(ids.begin(), ids.end());
        return ids;
    };
    using Ids = std::vector<std::uint64_t>;
    EXPECT_EQ(next(1), (Ids{4}));
    EXPECT_EQ(next(4), (Ids{8, 9}));
    EXPECT_EQ(next(8), (Ids{10}));
    EXPECT_EQ(next(9), (Ids{10}));
    EXPECT_EQ(next(10), (Ids{11}));
    // A cycle through a host record is found all the same.
    EXPECT_HAS(Error({Metadata() + Compute(1, 5, {3}) + host(2, {1}) + host(3, {2})}),
               "nodes 1 -> 2 -> 3 -> 1");
    // With timing kept a recorded start is an effect.
    const std::string timed =
        Metadata() +
        Record(Head(1, 4, {}) + Attribute("is_cpu_op", Field(27, std::uint64_t{1})) +
               Field(6, std::uint64_t{70})) +
        Compute(2, 1, {1});
    EXPECT_EQ(Load({timed}).graph.tasks.size(), 1u);
    EXPECT_EQ(Load({timed}, {{"timing", "kept"}}).graph.tasks.size(), 2u);
}

TEST(Chakra, UnplaceableMessagesAreRefusedOrCounted)
{
    const std::string rank =
        Metadata() + Record(Head(1, 5, {}) + Attribute("comm_size", Field(9, std::uint64_t{8})));
    EXPECT_HAS(Error({rank}), "rank 0 node 1 (\"n1\"): send without comm_dst");
    EXPECT_EQ(Load({rank}, {{"skip_unplaceable", "true"}}).facts.at("skipped_unplaceable"), 1);
    EXPECT_HAS(Error({Metadata() + Send(1, 5, 8), Metadata()}), "comm_dst: found 5, expected 0..1");
    EXPECT_HAS(Error({Metadata() + Record(Head(1, 23, {}))}), "type: found 23");
    EXPECT_HAS(Error({Metadata() + Collective(1, 42, 8)}), "comm_type: found 42");
    EXPECT_HAS(Error({Metadata() + Collective(1, 0, 8, {}, "9")}), "pg_name: found group \"9\"");
}

TEST(Chakra, GroupsInTheTraceAndOfOneName)
{
    const std::string list =
        R"([{"pg_name": "0", "ranks": []}, {"pg_name": "7", "ranks": [1, 0]}])";
    const std::string rank = Metadata() + GroupList(1, list) + Collective(2, 2, 4000, {}, "7") +
                             Collective(3, 0, 8, {2}, "0");
    const LoadedWorkload w = Load({rank, rank});
    ASSERT_EQ(w.graph.collectives.size(), 2u);
    EXPECT_EQ(w.graph.groups.size(), 2u);
    const CommGroup& seven = w.graph.groups[w.graph.collectives[0].group].name == "7"
                                 ? w.graph.groups[w.graph.collectives[0].group]
                                 : w.graph.groups[w.graph.collectives[1].group];
    EXPECT_EQ(seven.members, (std::vector<RankId>{1, 0}));
    // The same name for a group of one on each rank: two groups.
    const auto alone = [](int r) {
        return Metadata() +
               GroupList(1, R"([{"pg_name": "3", "ranks": [)" + std::to_string(r) + "]}]") +
               Collective(2, 0, 4096, {}, "3");
    };
    EXPECT_EQ(Load({alone(0), alone(1)}).graph.collectives.size(), 2u);
    EXPECT_HAS(Error({Metadata() + GroupList(1, list.substr(0, 30)) + Collective(2, 0, 8)}),
               "cut off");
}

TEST(Chakra, CallsArePairedInCanonicalOrderNotInOrderOfIds)
{
    // Rank 0: node 5 before node 2 by a dependency through a computation; rank 1: the other ids.
    const std::string a =
        Metadata() + Collective(2, 0, 100, {3}) + Compute(3, 1, {5}) + Collective(5, 2, 200);
    const std::string b = Metadata() + Collective(1, 2, 200) + Collective(2, 0, 100, {1});
    const LoadedWorkload w = Load({a, b});
    ASSERT_EQ(w.graph.collectives.size(), 2u);
    EXPECT_EQ(w.graph.collectives[0].kind, CollectiveKind::AllGather);
    EXPECT_EQ(w.graph.collectives[1].kind, CollectiveKind::AllReduce);
    // Unrelated local work must not decide: both calls are free, so the smaller id comes first on both ranks,
    // although on rank 1 a plain topological order would meet the other one first.
    const std::string c =
        Metadata() + Collective(8, 0, 100) + Collective(9, 2, 200, {10}) + Compute(10, 1);
    const std::string d =
        Metadata() + Collective(1, 0, 100, {12}) + Collective(2, 2, 200) + Compute(12, 1);
    EXPECT_EQ(Load({c, d}).graph.collectives[0].kind, CollectiveKind::AllReduce);
}

TEST(Chakra, SerialisationIsDroppedWhereItAloneWouldDeadlock)
{
    // Group "1": calls p then q on both ranks, unordered by dependencies. Group "2": call z.
    // Rank 0: q before z. Rank 1: z before p. With p before q forced, that is a cycle; without, it is not.
    const std::string list =
        R"([{"pg_name": "1", "ranks": [0, 1]}, {"pg_name": "2", "ranks": [0, 1]}])";
    const std::string a = Metadata() + GroupList(1, list) + Collective(2, 0, 10, {}, "1") +
                          Collective(3, 0, 20, {}, "1") + Collective(4, 0, 30, {3}, "2");
    const std::string b = Metadata() + GroupList(1, list) + Collective(2, 0, 10, {4}, "1") +
                          Collective(3, 0, 20, {}, "1") + Collective(4, 0, 30, {}, "2");
    const LoadedWorkload w = Load({a, b});
    EXPECT_EQ(w.graph.collectives.size(), 3u);
    const auto warned = std::count_if(
        w.graph.warnings.begin(),
        w.graph.warnings.end(),
        [](const std::string& text) { return text.find("would deadlock") != std::string::npos; });
    EXPECT_EQ(warned, 1);
}

TEST(Chakra, MessagesAreFifoAndDeadlocksAreFoundBeforeTheRun)
{
    const std::string a = Metadata() + Send(1, 1, 10) + Send(2, 1, 20, {1}) + Send(3, 1, 30, {2});
    const std::string b = Metadata() + Recv(1, 0, 10) + Recv(2, 0, 20, {1}) + Recv(3, 0, 30, {2});
    const LoadedWorkload w = Load({a, b});
    ASSERT_EQ(w.graph.transfers.size(), 3u);
    EXPECT_EQ(w.graph.transfers[2].bytes, 30u);
    const std::string text = Error({Metadata() + Recv(1, 1, 8) + Send(2, 1, 8, {1}),
                                    Metadata() + Recv(1, 0, 8) + Send(2, 0, 8, {1})});
    EXPECT_HAS(text, "deadlock");
    EXPECT_HAS(text, "rank 0 recv 1");
    EXPECT_HAS(text, "rank 1 recv 1");
    EXPECT_EQ(Load({Metadata() + Send(1, 0, 8) + Recv(2, 0, 8)}).graph.transfers.size(), 1u)
        << "to itself";
}

TEST(Chakra, SizesInElementsAndAllGatherByOutput)
{
    const std::string rank = Metadata() + Collective(1, 2, 1000);
    EXPECT_EQ(Load({rank, rank}, {{"comm_size_unit", "elements"}, {"elem_bytes", "2"}})
                  .graph.collectives[0]
                  .bytes,
              2000u);
    EXPECT_EQ(Load({rank, rank}, {{"allgather_size", "output"}}).graph.collectives[0].bytes, 500u);
    const LoadedWorkload w = Load({rank, rank});
    EXPECT_EQ(Summarise(w).collectives[0].ringBytesPerEdge, 1000u);
}

TEST(Chakra, CollectivesWithoutPredecessorsAreOneWarning)
{
    const std::string rank =
        Metadata() + Collective(1, 0, 100000) + Collective(2, 0, 100000) + Collective(3, 0, 100000);
    const LoadedWorkload w = Load({rank, rank});
    ASSERT_EQ(w.graph.warnings.size(), 1u);
    EXPECT_HAS(w.graph.warnings[0], "3 of 3 collectives");
    EXPECT_EQ(test::WireBytes(Summarise(w), 0, 1), 300000u);
    EXPECT_EQ(w.graph.PredecessorCounts()[1], 1u) << "one after the other";
}

TEST(ChakraJson, ReadsTheWorkloadGraph)
{
    const auto rank = [](const char* more) {
        return std::string(
                   R"({"workload_graph":[{"Id":1,"Name":"a","NodeType":4,"runtime":7,"data_deps":[],"is_cpu_op":false},)") +
               R"({"Id":2,"Name":"b","NodeType":7,"data_deps":[1],"is_cpu_op":false)" + more +
               "}]}";
    };
    const std::string good = rank(R"(,"comm_type":0,"comm_size":64)");
    const LoadedWorkload w =
        LoadTraceFiles(test::Memory({{"a.0.json", good}, {"a.1.json", good}}), {});
    EXPECT_EQ(w.format, "chakra-json");
    EXPECT_EQ(w.graph.collectives.at(0).bytes, 64u);
    EXPECT_EQ(w.ranks[0].computeTime, 7 * kMicrosecond);
    EXPECT_HAS(ErrorOf([&] {
                   (void)LoadTraceFiles(test::Memory({{"a.0.json", rank("")}}), {});
               }),
               "rank 0 node 2 (\"b\"): collective without comm_type");
}

} // namespace
} // namespace topoopt
