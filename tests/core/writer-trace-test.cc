// SPDX-License-Identifier: GPL-2.0-only
// What a writer writes, a reader must read back as the same workload; what is lost must be said.
#include "../temp-path.h"
#include "chakra-encoder.h"
#include "topoopt/core/trace-flows.h"
#include "topoopt/core/trace-write.h"
#include "trace-support.h"

#include <algorithm>

namespace topoopt
{
namespace
{

using test::ErrorOf;
using test::LoadParam;
using test::SharedTraces;

/** Kinds, sizes, groups, roots and dependencies; not names and element sizes. */
std::string
Shape(const TaskGraph& graph)
{
    std::ostringstream out;
    for (const CollectiveCall& call : graph.collectives)
    {
        out << Name(call.kind) << " " << call.bytes << " " << call.root << " of";
        for (const RankId member : graph.groups[call.group].members)
        {
            out << " " << member;
        }
        for (const Bytes pair : call.pairBytes)
        {
            out << " " << pair;
        }
        out << "\n";
    }
    for (const TransferCall& t : graph.transfers)
    {
        out << t.src << " " << t.dst << " " << t.bytes << " " << t.tag << "\n";
    }
    for (TaskId t = 0; t < graph.tasks.size(); ++t)
    {
        const Task& task = graph.tasks[t];
        out << task.rank << " " << Name(task.kind) << " " << task.object << " " << task.member
            << " " << task.duration << " ->";
        for (const TaskId* s = graph.SuccessorsBegin(t); s != graph.SuccessorsEnd(t); ++s)
        {
            out << " " << *s;
        }
        out << "\n";
    }
    return out.str();
}

LoadedWorkload
ReadBack(const WrittenTrace& written, const std::map<std::string, std::string>& options = {})
{
    std::vector<std::pair<std::string, std::string>> files;
    std::map<std::string, std::string> all = options;
    for (const auto& [name, content] : written.files)
    {
        if (name == "comm_group.json")
        {
            const std::string path = test::TempPath("comm_group.json");
            std::ofstream(path) << content;
            all["groups_file"] = path;
        }
        else
        {
            files.emplace_back(name, content);
        }
    }
    return LoadTraceFiles(test::Memory(files), TraceOptions::Parse(all));
}

LoadedWorkload
FlowsBack(const WrittenTrace& written, const std::map<std::string, std::string>& options = {})
{
    EXPECT_EQ(written.files.size(), 1u);
    const auto& [name, content] = *written.files.begin();
    return LoadFlowsFile({name, UINT32_MAX, std::make_shared<const std::string>(content)},
                         FlowOptions::Parse(options),
                         {});
}

std::string
Lines(const std::vector<std::string>& lines)
{
    std::string text;
    for (const std::string& line : lines)
    {
        text += line + "\n";
    }
    return text;
}

LoadedWorkload
ChakraSample()
{
    using namespace test;
    const std::string list = R"([{"pg_name": "5", "ranks": [1, 0]}])";
    const std::string a = Metadata() + GroupList(1, list) + Collective(9, 2, 4000, {4}, "5") +
                          Compute(4, 10) + Send(6, 1, 77, {9}, 3) + Send(7, 1, 78, {6}, 3) +
                          Collective(12, 0, 8001, {9});
    const std::string b = Metadata() + GroupList(1, list) + Collective(2, 2, 4000, {}, "5") +
                          Recv(3, 0, 77, {2}, 3) + Recv(5, 0, 78, {3}, 3) +
                          Collective(12, 0, 8001, {2});
    return LoadTraceFiles(Memory({{"x.0.et", a}, {"x.1.et", b}}), {});
}

TEST(WriteChakra, RoundTripLosesNothing)
{
    const LoadedWorkload w = ChakraSample();
    const WrittenTrace written = WriteTrace(w.graph, "chakra", "out/y.et");
    EXPECT_EQ(written.files.count("y.0.et"), 1u);
    EXPECT_TRUE(written.dropped.empty()) << Lines(written.dropped);
    const LoadedWorkload back = ReadBack(written);
    EXPECT_EQ(back.format, "chakra");
    EXPECT_EQ(Shape(back.graph), Shape(w.graph));
    for (TaskId t = 0; t < w.graph.tasks.size(); ++t)
    {
        EXPECT_EQ(back.graph.tasks[t].sourceId, w.graph.tasks[t].sourceId);
        EXPECT_EQ(back.graph.names[back.graph.tasks[t].name], w.graph.names[w.graph.tasks[t].name]);
    }
}

TEST(WriteChakra, UnevenAllToAllBecomesMessagesWithTheSameBytes)
{
    const LoadedWorkload w = LoadTrace(std::string(TOPOOPT_SOURCE_DIR) + "/traces/dlrm-8gpu", {});
    const WrittenTrace written = WriteTrace(w.graph, "chakra", "dlrm");
    EXPECT_HAS(Lines(written.dropped), "uneven all_to_allv, written as sends and receives: 1");
    EXPECT_HAS(Lines(written.dropped), "element sizes of collectives");
    const TraceSummary before = Summarise(w);
    const TraceSummary after = Summarise(ReadBack(written));
    EXPECT_EQ(after.transferCount, 56u);
    Bytes most = 0;
    for (RankId i = 0; i < 8; ++i)
    {
        for (RankId j = 0; j < 8; ++j)
        {
            // Rings may cut at other bytes without element sizes; everything else is equal.
            const Bytes x = test::WireBytes(before, i, j);
            const Bytes y = test::WireBytes(after, i, j);
            most = std::max(most, x > y ? x - y : y - x);
        }
    }
    EXPECT_LE(most, 3u * 2u * 4u);
}

TEST(WriteParam, RoundTripOfOurOwnTraceIsTheSameGraph)
{
    const LoadedWorkload w = LoadTrace(std::string(TOPOOPT_SOURCE_DIR) + "/traces/dlrm-8gpu", {});
    const WrittenTrace written = WriteTrace(w.graph, "param-basic", "dlrm");
    const LoadedWorkload back = ReadBack(written);
    // The two waits for operations of the iteration before cannot be written: nothing is there to wait for.
    EXPECT_EQ(Lines(written.dropped), "points in the order that wait for no communication: 16\n");
    EXPECT_EQ(back.graph.tasks.size() + 16, w.graph.tasks.size());
    const TraceSummary a = Summarise(w);
    const TraceSummary b = Summarise(back);
    EXPECT_EQ(a.wireBytes, b.wireBytes);
    EXPECT_EQ(a.allToAllRow0, b.allToAllRow0);
    // Written again, nothing more is lost, and the graph is the same to the last edge.
    const WrittenTrace again = WriteTrace(back.graph, "param-basic", "dlrm");
    EXPECT_TRUE(again.dropped.empty()) << Lines(again.dropped);
    EXPECT_EQ(Shape(ReadBack(again).graph), Shape(back.graph));
    EXPECT_EQ(again.files, written.files);
}

TEST(WriteParam, EveryKindOfCollectiveComesBackWithItsSize)
{
    const std::string steps = R"([{"comms":"all_reduce","in_msg_size":7,"dtype":"float"},
        {"comms":"reduce","in_msg_size":7,"dtype":"float","root":1},
        {"comms":"broadcast","in_msg_size":7,"dtype":"half","root":1},
        {"comms":"all_gather","in_msg_size":7,"out_msg_size":14,"dtype":"float"},
        {"comms":"gather","in_msg_size":7,"dtype":"double","root":1},
        {"comms":"scatter","in_msg_size":14,"out_msg_size":7,"dtype":"byte","root":0},
        {"comms":"reduce_scatter","in_msg_size":8,"out_msg_size":4,"dtype":"float"},
        {"comms":"all_to_all","in_msg_size":8,"dtype":"float"},
        {"comms":"barrier"}])";
    const LoadedWorkload w = LoadParam({steps, steps});
    ASSERT_EQ(w.graph.collectives.size(), 9u);
    const WrittenTrace written = WriteTrace(w.graph, "param-basic", "x");
    EXPECT_TRUE(written.dropped.empty()) << Lines(written.dropped);
    EXPECT_EQ(Shape(ReadBack(written).graph), Shape(w.graph));
}

TEST(WriteParam, WhatItCannotHoldIsSaid)
{
    const WrittenTrace written = WriteTrace(ChakraSample().graph, "param-basic", "x");
    EXPECT_HAS(Lines(written.dropped), "computations: 1");
    const LoadedWorkload back = ReadBack(written);
    EXPECT_EQ(back.graph.collectives.size(), 2u);
    EXPECT_EQ(back.graph.transfers.size(), 2u);
    EXPECT_EQ(Summarise(back).wireBytes, Summarise(ChakraSample()).wireBytes);
}

TEST(WriteHpcc, RoundTripIsExactToThePicosecond)
{
    const std::string text =
        "3\n0 1 3 100 5368709120 2.000000000001\n1 2 3 100 7 2.5\n2 0 3 100 1 3\n";
    const LoadedWorkload w = FlowsBack({{{"f.txt", text}}, {}});
    const WrittenTrace written = WriteTrace(w.graph, "", "dir/out.txt");
    EXPECT_TRUE(written.dropped.empty()) << Lines(written.dropped);
    const LoadedWorkload back = FlowsBack(written);
    EXPECT_EQ(Shape(back.graph), Shape(w.graph));
    for (TaskId t = 0; t < 3; ++t)
    {
        EXPECT_EQ(back.graph.tasks[t].notBefore, w.graph.tasks[t].notBefore);
    }
    const LoadedWorkload chakra =
        ReadBack(WriteTrace(w.graph, "chakra", "x"), {{"timing", "kept"}});
    EXPECT_EQ(chakra.graph.transfers.size(), 3u);
}

TEST(WriteHtsim, TriggersComeBackAsTheSameDependencies)
{
    const std::string text =
        "Nodes 4\nConnections 5\nTriggers 3\n0->1 id 1 start 0 size 100 send_done_trigger 1\n"
        "1->2 id 2 trigger 1 size 200 send_done_trigger 2\n2->3 id 3 trigger 1 size 300 "
        "send_done_trigger 2\n"
        "3->0 id 4 trigger 2 size 400 send_done_trigger 3\n0->2 id 5 trigger 3 size 500\n"
        "trigger id 1 oneshot\ntrigger id 2 barrier count 2\ntrigger id 3 oneshot\n";
    const LoadedWorkload w = FlowsBack({{{"m.cm", text}}, {}});
    const WrittenTrace written = WriteTrace(w.graph, "", "x.cm");
    EXPECT_TRUE(written.dropped.empty()) << Lines(written.dropped);
    EXPECT_EQ(Shape(FlowsBack(written).graph), Shape(w.graph));
}

TEST(WriteHtsim, CollectivesBecomeTheirMessages)
{
    const std::string steps =
        R"([{"comms":"all_to_all","in_msg_size":8,"dtype":"float"},{"comms":"all_reduce","in_msg_size":8,"dtype":"float"}])";
    const LoadedWorkload w = LoadParam({steps, steps});
    for (const char* name : {"x.cm", "x.txt"})
    {
        const WrittenTrace written = WriteTrace(w.graph, "", name);
        EXPECT_HAS(Lines(written.dropped), "collectives, written as their messages: 2");
        const LoadedWorkload back = FlowsBack(written);
        const TraceSummary a = Summarise(w);
        const TraceSummary b = Summarise(back);
        EXPECT_EQ(a.wireBytes, b.wireBytes);
        EXPECT_EQ(test::WireBytes(a, 0, 1), test::WireBytes(b, 0, 1));
    }
    const LoadedWorkload back = FlowsBack(WriteTrace(w.graph, "", "x.cm"));
    EXPECT_EQ(back.graph.PredecessorCounts()[2], 2u)
        << "the AllReduce waits for both messages of its rank";
}

TEST(WriteTrace, FormatIsByNameOrSuffix)
{
    const LoadedWorkload w = ChakraSample();
    EXPECT_HAS(ErrorOf([&] { (void)WriteTrace(w.graph, "", "x.zip"); }),
               "x.zip: found no known suffix, expected chakra (.et)");
    EXPECT_HAS(ErrorOf([&] { (void)WriteTrace(w.graph, "chakrra", "x"); }), "expected chakra");
    const std::string folder = test::TempPath("written");
    SaveTrace(WriteTrace(w.graph, "chakra", folder), folder);
    const LoadedWorkload back = LoadTrace(folder, {});
    EXPECT_EQ(Shape(back.graph), Shape(w.graph)) << "groups are found beside the trace";
    EXPECT_HAS(ErrorOf([&] { SaveTrace(WriteTrace(w.graph, "", "f.txt"), "/proc/nowhere/f.txt"); }),
               "/proc/nowhere");
}

TEST(WriteTrace, RealTracesRoundTrip)
{
    SKIP_WITHOUT_SHARED();
    for (const char* name : {"stage/dp2tp2pp2_8ranks",
                             "astra-sim/custom_ring_allreduce_8npus_1MB",
                             "astra-sim/text_converted_et",
                             "astra-sim/microbench_8npus_1MB/all_gather",
                             "chakra/resnet_rank0"})
    {
        const LoadedWorkload w = LoadTrace(SharedTraces() + name, {});
        const LoadedWorkload back = ReadBack(WriteTrace(w.graph, "chakra", "x"));
        EXPECT_EQ(Shape(back.graph), Shape(w.graph)) << name;
    }
    for (const char* name :
         {"htsim/allreduce_8n_8c_100kB.cm", "htsim/serial_alltoall_8n_50kB.cm", "htsim/bidir.cm"})
    {
        const LoadedWorkload w = LoadFlows(SharedTraces() + name, {}, {}, 1);
        const WrittenTrace written = WriteTrace(w.graph, "htsim-cm", "x.cm");
        EXPECT_TRUE(written.dropped.empty()) << name << Lines(written.dropped);
        EXPECT_EQ(Shape(FlowsBack(written).graph), Shape(w.graph)) << name;
    }
}

} // namespace
} // namespace topoopt
