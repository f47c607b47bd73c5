// SPDX-License-Identifier: GPL-2.0-only
// PARAM basic and PyTorch execution traces, and the JSON layer below them.
#include "../temp-path.h"
#include "topoopt/core/readers/json.h"
#include "trace-support.h"

#include <algorithm>
#include <set>
#include <sys/resource.h>
#include <sys/stat.h>
#include <zlib.h>

namespace topoopt
{
namespace
{

using test::ErrorOf;
using test::LoadParam;
using test::Memory;
using test::SharedTraces;

std::string
Gzip(const std::string& text)
{
    z_stream z{};
    EXPECT_EQ(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    std::string out(deflateBound(&z, text.size()), '\0');
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    z.avail_in = static_cast<uInt>(text.size());
    z.next_out = reinterpret_cast<Bytef*>(out.data());
    z.avail_out = static_cast<uInt>(out.size());
    EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
    out.resize(z.total_out);
    deflateEnd(&z);
    return out;
}

TEST(Input, GzipIsSeenByItsMagicAndACutOneIsAnError)
{
    const std::string text = R"([{"comms":"barrier"}])";
    const std::string packed = Gzip(text);
    EXPECT_EQ(LoadParam({packed, text}).graph.collectives.size(), 1u);
    for (std::size_t size = 2; size < packed.size(); ++size)
    {
        const std::string error = ErrorOf([&] { LoadParam({packed.substr(0, size), text}); });
        EXPECT_HAS(error, "rank-0.json@");
        EXPECT_HAS(error, "end of compressed data");
    }
    std::string broken = packed;
    broken[packed.size() - 6] ^= 1; // the checksum
    EXPECT_HAS(ErrorOf([&] { LoadParam({broken, text}); }), "damaged compressed data");
    EXPECT_EQ(LoadParam({packed + Gzip(" "), text}).graph.collectives.size(), 1u)
        << "concatenated streams are one";
}

TEST(Input, APipeIsRefusedAndNotWaitedFor)
{
    const std::string path = test::TempPath("pipe");
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    EXPECT_HAS(ErrorOf([&] { (void)LoadTrace(path, {}); }), path + ": found a pipe or device");
}

TEST(Json, DuplicateKeysDepthNulAndUtf16AreErrors)
{
    const auto load = [](const std::string& text) { return ErrorOf([&] { LoadParam({text}); }); };
    EXPECT_HAS(load(R"([{"comms":"barrier","req":1,"req":2}])"), "key \"req\" twice");
    std::string deep = R"([{"comms":"barrier","x":)";
    EXPECT_EQ(load(deep + std::string(60, '[') + std::string(60, ']') + "}]"), "no error");
    EXPECT_HAS(load(deep + std::string(100000, '[')), "nesting deeper than 64");
    EXPECT_HAS(load(std::string("[{\"comms\":\"bar\0rier\"}]", 22)), "rank-0.json:1:");
    EXPECT_HAS(load(std::string("\xff\xfe[\0]\0", 6)), "UTF-16");
    EXPECT_HAS(load("[{\"comms\":\"bar\xff\"}]"), "UTF-8");
    EXPECT_HAS(load(""), "an empty file");
    EXPECT_HAS(load("twelve"), "plain text");
    std::string many = R"([{"comms":"barrier")";
    for (int i = 0; i < 100; ++i)
    {
        many += ",\"k" + std::to_string(i) + "\":0";
    }
    EXPECT_EQ(load(many + "}]"), "no error");
    EXPECT_HAS(load(many + ",\"k50\":0}]"), "key \"k50\" twice");
}

TEST(Json, ValuesSurviveTheTape)
{
    JsonTape tape;
    ParseJsonText("here",
                  R"({"a":[1,-2,3.5,1e3,true,null,"x\n"],"b":{"c":18446744073709551615}})",
                  tape);
    const JsonValue root = tape.Root();
    ASSERT_TRUE(root.Is(JsonType::Object));
    const JsonValue a = root["a"];
    ASSERT_EQ(a.Size(), 7u);
    std::int64_t number = 0;
    EXPECT_TRUE(a.At(1).ToInt(number));
    EXPECT_EQ(number, -2);
    EXPECT_FALSE(a.At(2).ToInt(number));
    EXPECT_TRUE(a.At(3).ToInt(number));
    EXPECT_EQ(number, 1000);
    EXPECT_TRUE(a.At(4).AsBool());
    EXPECT_TRUE(a.At(5).Is(JsonType::Null));
    EXPECT_EQ(a.At(6).AsString(), "x\n");
    EXPECT_FALSE(a.At(7));
    EXPECT_FALSE(root["b"]["c"].ToInt(number));
    EXPECT_FALSE(root["z"]);
    EXPECT_HAS(ErrorOf([&] { ParseJsonText("here", "1],[2", tape); }), "here");
    EXPECT_HAS(ErrorOf([&] { ParseJsonText("here", "1,2", tape); }), "found 2 values");
}

TEST(ParamBasic, EveryDialectOfANameIsTheSameOperation)
{
    const auto kind = [](const std::string& name, const char* more) {
        const std::string step =
            "[{\"comms\":\"" + name + R"(","in_msg_size":8,"dtype":"float")" + more + "}]";
        const LoadedWorkload w = LoadParam({step, step});
        return std::string(Name(w.graph.collectives.at(0).kind)) + " " +
               std::to_string(w.graph.collectives[0].bytes);
    };
    for (const char* name : {"all_to_all",
                             "alltoall",
                             "ALLTOALL",
                             "all_to_all_single",
                             "all_to_allv",
                             "ALLTOALL_BASE"})
    {
        EXPECT_EQ(kind(name, ""), "all_to_all 32") << name;
    }
    for (const char* name : {"all_reduce", "allreduce", "AllReduce", "allreduce_coalesced"})
    {
        EXPECT_EQ(kind(name, ""), "all_reduce 32") << name;
    }
    for (const char* name : {"all_gather",
                             "allgather",
                             "_allgather_base",
                             "all_gather_into_tensor",
                             "all_gather_into_tensor_coalesced"})
    {
        EXPECT_EQ(kind(name, R"(,"out_msg_size":16)"), "all_gather 32") << name;
    }
    for (const char* name :
         {"reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor", "reducescatter"})
    {
        EXPECT_EQ(kind(name, R"(,"out_msg_size":4)"), "reduce_scatter 32") << name;
    }
    EXPECT_EQ(kind("_broadcast_oop", R"(,"root":1)"), "broadcast 32");
    EXPECT_EQ(kind("scatter", R"(,"root":1,"out_msg_size":4)"), "scatter 16");
    EXPECT_EQ(kind("gather", R"(,"root":0)"), "gather 32");
    EXPECT_EQ(kind("incast", R"(,"root":0)"), "gather 32");
    // A substring of a known name is not a known name.
    EXPECT_HAS(ErrorOf([&] { kind("to_all", ""); }), "unknown operation");
    const std::string odd = R"([{"comms":"all_dance"},{"comms":"barrier"}])";
    const LoadedWorkload skipped = LoadParam({odd, odd}, {{"skip_unknown", "true"}});
    EXPECT_EQ(skipped.facts.at("skipped_unknown"), 2);
    EXPECT_EQ(skipped.graph.collectives.size(), 1u);
}

TEST(ParamBasic, VectorVariantsMoveEachMembersShare)
{
    const auto step = [](int in, const char* more) {
        return R"([{"comms":"all_gather_v","in_msg_size":)" + std::to_string(in) +
               R"(,"dtype":"int8")" + more + "}]";
    };
    const LoadedWorkload w =
        LoadParam({step(3, R"(,"out_msg_size":8,"out_split":[3,5])"), step(5, "")});
    ASSERT_EQ(w.graph.collectives.size(), 1u);
    EXPECT_EQ(w.graph.collectives[0].pairBytes, (std::vector<Bytes>{3, 3, 5, 5}));
    EXPECT_HAS(ErrorOf([&] {
                   LoadParam({step(3, R"(,"out_msg_size":8,"out_split":[4,4])"), step(5, "")});
               }),
               "pair (0,0)");
}

TEST(ParamBasic, DtypesAreMatchedWithoutCaseAndPrefix)
{
    const auto bytes = [](const std::string& dtype) {
        const std::string step =
            R"([{"comms":"all_reduce","in_msg_size":10,"dtype":")" + dtype + "\"}]";
        return LoadParam({step, step}).graph.collectives[0].bytes;
    };
    EXPECT_EQ(bytes("Bool"), 10u);
    EXPECT_EQ(bytes("float8_e4m3fn"), 10u);
    EXPECT_EQ(bytes("torch.bfloat16"), 20u);
    EXPECT_EQ(bytes("ncclFloat"), 40u);
    EXPECT_EQ(bytes("Long"), 80u);
    EXPECT_EQ(bytes("ComplexDouble"), 160u);
    EXPECT_HAS(ErrorOf([&] { bytes("qint3"); }), "found \"qint3\"");
}

TEST(ParamBasic, OwnDlrmTraceHasThePublishedFigures)
{
    const LoadedWorkload w = LoadTrace(std::string(TOPOOPT_SOURCE_DIR) + "/traces/dlrm-8gpu", {});
    const TraceSummary s = Summarise(w);
    EXPECT_EQ(s.ranks, 8u);
    EXPECT_EQ(s.allToAllOffDiagonal, 451136u);
    EXPECT_EQ(s.allToAllRow0,
              (std::vector<Bytes>{6744, 7256, 7512, 13016, 8728, 6744, 7128, 7320}));
    std::multiset<Bytes> reduced;
    for (const CollectiveCall& call : w.graph.collectives)
    {
        if (call.kind == CollectiveKind::AllReduce)
        {
            reduced.insert(call.bytes);
        }
    }
    EXPECT_EQ(reduced, (std::multiset<Bytes>{448, 907840, 1576964}));
    for (const RankCounts& counts : s.perRank)
    {
        EXPECT_EQ(counts.collectives[static_cast<std::size_t>(CollectiveKind::AllToAllV)], 4u);
        EXPECT_EQ(counts.collectives[static_cast<std::size_t>(CollectiveKind::AllToAll)], 1u);
        EXPECT_EQ(counts.collectives[static_cast<std::size_t>(CollectiveKind::AllReduce)], 3u);
        EXPECT_EQ(counts.waits, 5u);
    }
    EXPECT_EQ(s.lists.at("waits_without_operation_rank0"), (std::vector<std::int64_t>{141, 142}));
    EXPECT_EQ(s.lists.at("operations_without_wait_rank0"),
              (std::vector<std::int64_t>{149, 150, 151, 153, 154}));
}

/** Everything that decides what flows: kinds, groups, sizes and dependencies; not names and ids. */
std::string
FlowShape(const TaskGraph& graph)
{
    std::ostringstream out;
    for (const CollectiveCall& call : graph.collectives)
    {
        out << Name(call.kind) << " " << call.bytes << " " << call.elementBytes << " " << call.root;
        for (const Bytes pair : call.pairBytes)
        {
            out << " " << pair;
        }
        out << "\n";
    }
    for (TaskId t = 0; t < graph.tasks.size(); ++t)
    {
        const Task& task = graph.tasks[t];
        out << task.rank << " " << Name(task.kind) << " " << task.object << " " << task.member
            << " ->";
        for (const TaskId* s = graph.SuccessorsBegin(t); s != graph.SuccessorsEnd(t); ++s)
        {
            out << " " << *s;
        }
        out << "\n";
    }
    return out.str();
}

TEST(TorchEt, RealDlrmFilesOfBothFamiliesGiveTheSameGraphAsOurOwn)
{
    SKIP_WITHOUT_SHARED();
    const LoadedWorkload et = LoadTrace(SharedTraces() + "param/dlrm8_et_1.0.1", {});
    const LoadedWorkload basic = LoadTrace(SharedTraces() + "param/dlrm8_basic_converted", {});
    const LoadedWorkload own = LoadTrace(std::string(TOPOOPT_SOURCE_DIR) + "/traces/dlrm-8gpu", {});
    EXPECT_EQ(et.format, "torch-et");
    EXPECT_EQ(basic.format, "param-basic");
    EXPECT_EQ(Summarise(et).allToAllOffDiagonal, 451136u);
    EXPECT_EQ(FlowShape(et.graph), FlowShape(basic.graph));
    EXPECT_EQ(FlowShape(et.graph), FlowShape(own.graph));
}

TEST(TraceFiles, MissingRankDoubleRankAndPlaceOfTheTrace)
{
    const auto load = [](const std::vector<std::string>& names) {
        std::vector<std::pair<std::string, std::string>> files;
        for (const std::string& name : names)
        {
            files.emplace_back(name, R"([{"comms":"barrier"}])");
        }
        return ErrorOf([&] { (void)LoadTraceFiles(Memory(files), {}); });
    };
    EXPECT_EQ(load({"d/rank-1.json", "d/rank-0.json"}), "no error");
    EXPECT_EQ(load({"0.json", "1.json"}), "no error");
    EXPECT_EQ(load({"a_0.json.gz", "a_1.json"}), "no error");
    EXPECT_EQ(load({"trace.json"}), "no error");
    EXPECT_HAS(load({"d/rank-0.json", "d/rank-2.json"}), "expected d/rank-1.json");
    EXPECT_HAS(load({"d/x.0.json", "d/y.0.json"}), "second file of rank 0");
    EXPECT_HAS(ErrorOf([] { (void)LoadTrace("/nonexistent/trace", {}); }),
               "/nonexistent/trace: no such file");
}

TEST(TorchEt, MemoryIsForOperationsNotForTheText)
{
    // More than 10 MB of nodes that do not communicate, and one that does.
    const std::string path = test::TempPath("long.json");
    {
        std::ofstream out(path, std::ios::binary);
        out << R"j({"schema":"1.1.0-chakra.0.0.4","nodes":[)j";
        for (int id = 10; id < 80010; ++id)
        {
            out << R"j({"id":)j" << id
                << R"j(,"name":"aten::add","inputs":{"values":[[1,2,0,64,4,"cuda:0"]],"shapes":[[64]],)j"
                << R"j("types":["Tensor(float)"]},"attrs":[{"name":"op_schema","value":"aten::add"}]},)j";
        }
        out << R"j({"id":7,"name":"record_param_comms","inputs":{"values":[[[1,2,0,8,4,"c"]],5,)j"
            << R"j(["0","d"],0,"allreduce",[],[],0,1,1]}}]})j";
    }
    ASSERT_GT(std::filesystem::file_size(path), 10000000u);
    rusage before{};
    rusage after{};
    getrusage(RUSAGE_SELF, &before);
    const LoadedWorkload w = LoadTrace(path, {});
    getrusage(RUSAGE_SELF, &after);
    EXPECT_EQ(w.facts.at("nodes"), 80001);
    EXPECT_EQ(w.graph.collectives.at(0).bytes, 32u);
    EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 6000) << "KiB";
    std::filesystem::remove(path);
}

TEST(TorchEt, TruncatedAnywhereIsAnErrorNeverACrash)
{
    const std::string text =
        R"({"schema":"1.0.1","pid":1,"nodes":[{"name":"record_param_comms","id":7,"inputs":[[[1,2,0,8,4,"cuda:0"]],5,99,0,"allreduce",[],[]],"outputs":[[[1,2,0,8,4,"cuda:0"]]]}]})";
    const LoadedWorkload whole = LoadTraceFiles(Memory({{"t.json", text}}), {});
    EXPECT_EQ(whole.graph.collectives.at(0).bytes, 32u);
    for (std::size_t size = 0; size < text.size(); ++size)
    {
        EXPECT_NE(ErrorOf([&] {
                      (void)LoadTraceFiles(Memory({{"t.json", text.substr(0, size)}}), {});
                  }),
                  "no error")
            << size;
    }
}

} // namespace
} // namespace topoopt
