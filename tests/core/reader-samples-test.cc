// SPDX-License-Identifier: GPL-2.0-only
// The samples of ../shared/traces: the manifest of made/, the numbers of its README, and the public fault reports I1 to
// I17 (traces guide, section 3). All of it is skipped where the samples are absent.
#include "topoopt/core/trace-flows.h"
#include "trace-support.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

namespace topoopt
{
namespace
{

using nlohmann::json;
using test::ErrorOf;
using test::SharedTraces;
using test::WireBytes;

std::string
Made(const std::string& path)
{
    return SharedTraces() + "made/" + path;
}

/** What `topoopt inspect --json` prints. */
json
Inspect(const std::string& path, const std::map<std::string, std::string>& options = {})
{
    std::ostringstream out;
    PrintJson(InspectFile(SharedTraces() + path, options), out);
    return json::parse(out.str());
}

std::string
InspectError(const std::string& path, const std::map<std::string, std::string>& options = {})
{
    return ErrorOf([&] { (void)InspectFile(SharedTraces() + path, options); });
}

/** Sum over the rows of one kind. */
std::uint64_t
Calls(const json& summary, const std::string& kind)
{
    std::uint64_t calls = 0;
    for (const json& row : summary["collectives"])
    {
        calls += row["kind"] == kind ? row["calls"].get<std::uint64_t>() : 0;
    }
    return calls;
}

std::uint64_t
RankCalls(const json& summary, const std::string& kind)
{
    std::uint64_t calls = 0;
    for (const json& rank : summary["per_rank"])
    {
        calls += rank["collectives"].value(kind, std::uint64_t{0});
    }
    return calls;
}

/** Sizes of the calls of a kind, with repeats, sorted. */
std::vector<Bytes>
Sizes(const json& summary, const std::string& kind)
{
    std::vector<Bytes> sizes;
    for (const json& row : summary["collectives"])
    {
        if (row["kind"] == kind)
        {
            sizes.insert(sizes.end(), row["calls"].get<std::size_t>(), row["bytes"].get<Bytes>());
        }
    }
    std::sort(sizes.begin(), sizes.end());
    return sizes;
}

TEST(Manifest, EveryMadeFileGivesTheOutcomeThatItSays)
{
    SKIP_WITHOUT_SHARED();
    const json manifest = json::parse(test::ReadFile(Made("MANIFEST_made.json")));
    ASSERT_EQ(manifest.size(), 199u);
    for (const json& entry : manifest)
    {
        const std::string path = entry["path"];
        const std::string expect = entry["expect"];
        std::map<std::string, std::string> options;
        if (entry.contains("hosts"))
        {
            options["servers"] = std::to_string(entry["hosts"].get<int>());
        }
        TraceSummary summary;
        const std::string error = ErrorOf([&] { summary = InspectFile(Made(path), options); });
        if (expect == "error")
        {
            EXPECT_NE(error, "no error") << path << ": " << entry["why"];
            const std::string folder = path.substr(0, path.rfind('/'));
            EXPECT_NE(error.find(folder), std::string::npos) << path << ": " << error;
            continue;
        }
        if (expect == "error_or_sniff" || expect == "error_or_skip" ||
            expect == "error_or_instant" || expect == "error_or_lenient" ||
            expect == "ok_or_error" || expect == "ok_local_or_error")
        {
            EXPECT_TRUE(error != "no error" || summary.format != "") << path;
            continue;
        }
        ASSERT_EQ(error, "no error") << path << ": " << expect;
        if (expect == "warn")
        {
            EXPECT_FALSE(summary.warnings.empty()) << path << ": " << entry["why"];
        }
        if (entry.contains("ranks"))
        {
            EXPECT_EQ(summary.ranks, entry["ranks"].get<std::uint32_t>()) << path;
        }
        if (entry.contains("flows"))
        {
            EXPECT_EQ(summary.facts.at("flows"), entry["flows"].get<std::int64_t>()) << path;
        }
        if (entry.contains("bytes"))
        {
            EXPECT_EQ(summary.facts.at("bytes"), entry["bytes"].get<std::int64_t>()) << path;
        }
        if (entry.contains("mean"))
        {
            EXPECT_DOUBLE_EQ(summary.measures.at("mean_bytes"), entry["mean"].get<double>())
                << path;
        }
        for (const char* key : {"rows", "usable_rows", "usable_bytes"})
        {
            if (entry.contains(key))
            {
                EXPECT_EQ(summary.facts.at(key), entry[key].get<std::int64_t>())
                    << path << " " << key;
            }
        }
        if (entry.contains("ring_bytes_per_link"))
        {
            EXPECT_EQ(WireBytes(summary, 0, 1), entry["ring_bytes_per_link"].get<Bytes>()) << path;
        }
        if (entry.contains("p2p"))
        {
            ASSERT_EQ(summary.transfers.size(), entry["p2p"].size()) << path;
            for (const json& message : entry["p2p"])
            {
                EXPECT_EQ(WireBytes(summary, message[0], message[1]), message[2].get<Bytes>())
                    << path;
            }
        }
        if (entry.contains("a2av_bytes_row"))
        {
            const LoadedWorkload w = LoadTrace(Made(path), {});
            const std::string digits = path.substr(path.rfind('-') + 1);
            const std::size_t rank = std::stoul(digits);
            Bytes reduced = 0;
            for (const CollectiveCall& call : w.graph.collectives)
            {
                for (std::size_t j = 0; call.kind == CollectiveKind::AllToAllV && j < 4; ++j)
                {
                    EXPECT_EQ(call.pairBytes[rank * 4 + j], entry["a2av_bytes_row"][j].get<Bytes>())
                        << path;
                }
                if (call.kind == CollectiveKind::AllToAll)
                {
                    EXPECT_EQ(call.bytes / 4, entry["alltoall_bytes_per_pair"].get<Bytes>())
                        << path;
                }
                reduced = call.kind == CollectiveKind::AllReduce &&
                                  w.graph.groups[call.group].members.size() == 4
                              ? call.bytes
                              : reduced;
            }
            EXPECT_EQ(reduced, entry["allreduce_bytes"].get<Bytes>()) << path;
        }
    }
}

TEST(Readme, PyTorchAndParam)
{
    SKIP_WITHOUT_SHARED();
    for (const char* path :
         {"param/dlrm8_et_1.0.1", "param/dlrm8_basic_converted", "param/dlrm8_et_linked"})
    {
        const json s = Inspect(path);
        EXPECT_EQ(s["ranks"], 8) << path;
        for (const json& rank : s["per_rank"])
        {
            EXPECT_EQ(rank["collectives"]["all_to_allv"], 4) << path;
            EXPECT_EQ(rank["collectives"]["all_to_all"], 1) << path;
            EXPECT_EQ(rank["collectives"]["all_reduce"], 3) << path;
            EXPECT_EQ(rank["waits"], 5) << path;
        }
        EXPECT_EQ(s["lists"]["waits_without_operation_rank0"], (std::vector<int>{141, 142}))
            << path;
        EXPECT_EQ(s["lists"]["operations_without_wait_rank0"],
                  (std::vector<int>{149, 150, 151, 153, 154}))
            << path;
        EXPECT_EQ(s["all_to_all"]["off_diagonal_bytes"], 451136) << path;
        EXPECT_EQ(s["all_to_all"]["rank0_row"],
                  (std::vector<int>{6744, 7256, 7512, 13016, 8728, 6744, 7128, 7320}))
            << path;
        EXPECT_EQ(Sizes(s, "all_reduce"), (std::vector<Bytes>{448, 907840, 1576964})) << path;
    }
    EXPECT_EQ(InspectError("param/dlrm8_et_1.0.1/dlrm_eg_3.json.gz"), "no error")
        << "siblings are found";
    EXPECT_HAS(InspectError("param/dlrm8_kineto"), "execution trace");
    EXPECT_GT(Inspect("param/dlrm8_et_linked")["per_rank"][0]["compute_time_ps"], 0);

    const json gather =
        Inspect("param/resnet_et/allgather_2ranks_rank_et_1.0.2.json", {{"partial", "true"}});
    EXPECT_EQ(gather["per_rank"][0]["collectives"]["all_gather"], 10);
    EXPECT_EQ(gather["per_rank"][0]["collective_bytes"]["all_gather"], 40);
    EXPECT_EQ(gather["per_rank"][0]["waits"], 10);
    EXPECT_HAS(InspectError("param/resnet_et/allgather_2ranks_rank_et_1.0.2.json"),
               "has all of 2 ranks, but 1 rank has a file");

    EXPECT_HAS(InspectError("param/resnet_et/resnet_2gpu_rank1_et_1.1.0.json.gz"),
               "rank 0 is missing");
    const json half =
        Inspect("param/resnet_et/resnet_2gpu_rank1_et_1.1.0.json.gz", {{"partial", "true"}});
    EXPECT_EQ(half["per_rank"][0]["collectives"]["broadcast"], 6);
    EXPECT_EQ(half["per_rank"][0]["collectives"]["all_reduce"], 15);
    EXPECT_EQ(half["per_rank"][0]["waits"], 6);
    EXPECT_EQ(half["per_rank"][0]["collective_bytes"]["broadcast"].get<Bytes>() +
                  half["per_rank"][0]["collective_bytes"]["all_reduce"].get<Bytes>(),
              307323096u);

    const json one = Inspect("param/resnet_et/resnet_1gpu_et_1.1.1.json.gz");
    EXPECT_EQ(Calls(one, "broadcast") + Calls(one, "all_reduce"), 21u);
    EXPECT_EQ(one["wire"]["bytes"], 0);
    EXPECT_EQ(Inspect("param/resnet_et/linear_nocomm_et_1.0.1.json.gz")["tasks"], 0);
}

TEST(Readme, ChakraAndAstraSim)
{
    SKIP_WITHOUT_SHARED();
    const json resnet = Inspect("chakra/resnet_rank0");
    EXPECT_EQ(resnet["facts"]["nodes"], 3664);
    EXPECT_EQ(resnet["facts"]["host_comm_nodes"], 14);
    EXPECT_EQ(resnet["facts"]["ctrl_deps_to_self"], 383);
    EXPECT_EQ(resnet["facts"]["ctrl_deps_to_absent_nodes"], 1277);
    EXPECT_EQ(Sizes(resnet, "broadcast"), (std::vector<Bytes>{424, 212480}));
    EXPECT_EQ(Sizes(resnet, "all_reduce"),
              (std::vector<Bytes>{8196000, 9724160, 26255360, 26550272, 31502336}));
    EXPECT_HAS(InspectError("chakra/json/chakra.0.json.gz"), "collective without comm_type");
    EXPECT_EQ(
        Inspect("chakra/json/chakra.0.json.gz", {{"skip_unplaceable", "true"}})["facts"]["nodes"],
        3664);
    EXPECT_HAS(InspectError("chakra/generator_4npus/one_comm_send_node"), "send without comm_dst");
    EXPECT_EQ(InspectError("chakra/generator_4npus/one_metadata_node_all_types"), "no error");
    EXPECT_EQ(Inspect("chakra/generator_4npus/ALL_REDUCE")["collectives"][0]["bytes"], 1048576);

    const json ring = Inspect("astra-sim/custom_ring_allreduce_8npus_1MB");
    EXPECT_EQ(ring["transfers"]["count"], 112);
    EXPECT_EQ(ring["transfers"]["bytes"], 14680064);
    ASSERT_EQ(ring["transfers"]["pairs"].size(), 8u);
    EXPECT_EQ(ring["transfers"]["pairs"][0]["messages"], 14);
    EXPECT_EQ(ring["transfers"]["pairs"][0]["bytes"], 14 * 131072);

    const json table = Inspect("astra-sim/text_converted_et");
    EXPECT_EQ(table["facts"]["nodes"], 256);
    EXPECT_EQ(RankCalls(table, "all_to_all"), 16u);
    EXPECT_EQ(RankCalls(table, "all_reduce"), 56u);
    EXPECT_EQ(Sizes(table, "all_to_all"), (std::vector<Bytes>{98304, 98304}));
    const json text = Inspect("astra-sim/text_workloads/DLRM_HybridParallel.txt", {{"ranks", "8"}});
    EXPECT_EQ(RankCalls(text, "all_to_all"), 16u);
    EXPECT_EQ(RankCalls(text, "all_reduce"), 56u);
    EXPECT_EQ(text["wire"]["bytes"], table["wire"]["bytes"])
        << "the table and its conversion move the same bytes";
    for (const char* name : {"Resnet50_DataParallel", "microAllReduce", "microAllToAll"})
    {
        EXPECT_EQ(InspectError(std::string("astra-sim/text_workloads/") + name + ".txt",
                               {{"ranks", "8"}}),
                  "no error");
    }
    EXPECT_EQ(Inspect("simai/microAllReduce.txt")["ranks"], 8);

    const json stage = Inspect("stage/dp2tp2pp2_8ranks");
    EXPECT_EQ(stage["facts"]["nodes"], 416);
    EXPECT_EQ(RankCalls(stage, "all_gather"), 48u);
    EXPECT_EQ(RankCalls(stage, "reduce_scatter"), 32u);
    EXPECT_EQ(RankCalls(stage, "all_reduce"), 24u);
    EXPECT_EQ(stage["transfers"]["count"], 8);
    EXPECT_EQ(stage["transfers"]["bytes"], 8 * 65536);
    EXPECT_HAS(InspectError("stage/misnamed"), "pg_name: found group")
        << "read as protobuf, whatever the name";
}

TEST(Readme, FlowListsDistributionsAndMatrices)
{
    SKIP_WITHOUT_SHARED();
    const json incast = Inspect("hpcc/flow_incast_256.txt");
    EXPECT_EQ(incast["facts"]["flows"], 2);
    EXPECT_EQ(incast["facts"]["lines_left"], 254);
    EXPECT_EQ(Inspect("hpcc/flow_zero.txt")["facts"]["flows"], 0);
    const std::vector<std::pair<std::string, double>> means = {
        {"hpcc/FbHdp_distribution.txt", 120420.75},
        {"hpcc/WebSearch_distribution.txt", 1711250},
        {"hpcc/AliStorage2019.txt", 40869.8},
        {"meta_dc/hadoop-all.txt", 568754.6},
        {"meta_dc/cachefollower-all.txt", 609883.0}};
    for (const auto& [path, mean] : means)
    {
        EXPECT_NEAR(Inspect(path)["measures"]["mean_bytes"].get<double>(), mean, 0.06) << path;
    }
    for (const char* path :
         {"opera/FB_Hadoop_Inter_Rack_FlowCDF.csv", "opera/websearch.csv", "opera/datamining.csv"})
    {
        EXPECT_EQ(Inspect(path)["format"], "size-cdf") << path;
    }
    const json ring = Inspect("htsim/allreduce_8n_8c_100kB.cm");
    EXPECT_EQ(ring["facts"]["flows"], 120);
    EXPECT_EQ(ring["facts"]["triggers"], 112);
    const json serial = Inspect("htsim/serial_alltoall_8n_50kB.cm");
    EXPECT_EQ(serial["facts"]["flows"], 56);
    EXPECT_EQ(serial["facts"]["triggers"], 48);
    const json opera = Inspect("opera/flows_1percLoad_10sec_648hosts.htsim", {{"servers", "648"}});
    EXPECT_EQ(opera["facts"]["flows"], 10383);
    EXPECT_EQ(opera["facts"]["bytes"], 79121318101);
    EXPECT_EQ(opera["ranks"], 648);
    const json result = Inspect("opera/FCT_opera_pfab_cwnd20_1perc.txt");
    EXPECT_EQ(result["facts"]["flows"], 10371);
    EXPECT_GE(result["facts"]["other_lines"], 4);
    const json matrix = Inspect("meta_dc/cluster_a_2_16.json");
    EXPECT_EQ(matrix["measures"]["total"], 2464613);
    EXPECT_EQ(matrix["measures"]["largest"], 62458);
    EXPECT_EQ(matrix["facts"]["empty_cells"], 385);
    EXPECT_EQ(matrix["facts"]["racks"], 32);
    const json kineto = Inspect("hta/nccl_metadata_rank0_of_2.json.gz", {{"partial", "true"}});
    EXPECT_EQ(kineto["per_rank"][0]["collectives"]["all_reduce"], 15);
    EXPECT_EQ(kineto["per_rank"][0]["collectives"]["broadcast"], 6);
    EXPECT_EQ(kineto["facts"]["waits"], 6);
    EXPECT_HAS(InspectError("hta/sampled_rank-0_of_128.json.gz"), "without collective metadata");
}

TEST(FaultReport, I1SizesInAnyEncoding)
{
    SKIP_WITHOUT_SHARED();
    for (const char* kind : {"int32",
                             "int64",
                             "uint32",
                             "uint64",
                             "sint32",
                             "sint64",
                             "fixed32",
                             "fixed64",
                             "sfixed32",
                             "sfixed64"})
    {
        const TraceSummary s = InspectFile(Made(std::string("chakra_made/ok_size_as_") + kind), {});
        ASSERT_EQ(s.collectives.size(), 1u) << kind;
        EXPECT_EQ(s.collectives[0].bytes, 123456u) << kind;
    }
    for (const char* name : {"no_comm_size", "size_is_string", "size_nan", "negative_size"})
    {
        const std::string error =
            InspectError(std::string("made/chakra_made/bad/") + name + ".0.et");
        EXPECT_HAS(error, "comm_size");
        EXPECT_HAS(error, "node 1");
    }
}

TEST(FaultReport, I2MessagesOfOneKeyAreFifo)
{
    SKIP_WITHOUT_SHARED();
    const TraceSummary s = InspectFile(Made("chakra_made/ok_same_key_fifo"), {});
    EXPECT_EQ(s.transferCount, 4u);
    EXPECT_EQ(WireBytes(s, 0, 1), 2044000u);
    EXPECT_EQ(s.perRank[0].sends, 4u);
    EXPECT_EQ(s.perRank[1].recvs, 4u);
    const LoadedWorkload late = LoadTrace(Made("chakra_made/ok_late_recv"), {});
    ASSERT_EQ(late.graph.transfers.size(), 1u);
    EXPECT_EQ(late.ranks[1].computeTime, 5000 * kMicrosecond) << "the receive is posted after this";
}

TEST(FaultReport, I3Cycles)
{
    SKIP_WITHOUT_SHARED();
    EXPECT_HAS(InspectError("made/chakra_made/bad/cycle.0.et"), "1 -> 2 -> 3 -> 1");
    EXPECT_HAS(InspectError("made/chakra_made/bad/self_dep.0.et"), "node 4");
    EXPECT_EQ(InspectError("chakra/resnet_rank0"), "no error");
    const std::string deadlock = InspectError("made/chakra_made/bad_cross_rank_deadlock");
    EXPECT_HAS(deadlock, "rank 0 recv 1");
    EXPECT_HAS(deadlock, "rank 1 recv 1");
}

TEST(FaultReport, I4MissingDependency)
{
    SKIP_WITHOUT_SHARED();
    EXPECT_HAS(InspectError("made/chakra_made/bad/missing_dep.0.et"),
               "node 1 (\"coll1\"): depends on node 77, which is not in the file");
}

TEST(FaultReport, I5CollectivesWithoutDependenciesRunOneAfterTheOther)
{
    SKIP_WITHOUT_SHARED();
    const LoadedWorkload w = LoadTrace(Made("chakra_made/warn_no_deps"), {});
    ASSERT_EQ(w.graph.warnings.size(), 1u);
    EXPECT_HAS(w.graph.warnings[0],
               "3 of 3 collectives of a rank have no predecessor; is the conversion right?");
    EXPECT_EQ(WireBytes(Summarise(w), 0, 1), 300000u);
    EXPECT_EQ(
        std::accumulate(w.graph.PredecessorCounts().begin(), w.graph.PredecessorCounts().end(), 0U),
        4u);
}

TEST(FaultReport, I6RanksFilesAndServers)
{
    SKIP_WITHOUT_SHARED();
    EXPECT_HAS(InspectError("made/chakra_made/bad_missing_rank_file"), "x.2.et");
    const LoadedWorkload w =
        LoadTrace(SharedTraces() + "astra-sim/microbench_8npus_1MB/all_reduce", {});
    EXPECT_HAS(ErrorOf([&] { (void)MapRanks(w.graph.ranks, 4, 1, {}); }),
               "8 ranks, 4 servers x 1 GPU");
    EXPECT_EQ(MapRanks(w.graph.ranks, 16, 1, {}).back(), 7u);
    EXPECT_EQ(MapRanks(w.graph.ranks, 4, 2, {}), (std::vector<ServerId>{0, 0, 1, 1, 2, 2, 3, 3}));
}

TEST(FaultReport, I7TinyAndZeroSizes)
{
    SKIP_WITHOUT_SHARED();
    const LoadedWorkload w = LoadTrace(Made("chakra_made/ok_tiny_allreduce"), {});
    std::vector<Bytes> sizes;
    for (const CollectiveCall& call : w.graph.collectives)
    {
        sizes.push_back(call.bytes);
        Bytes sum = 0;
        for (std::uint32_t part = 0; part < 3; ++part)
        {
            sum += PartOf(call.bytes, 3, part, call.elementBytes);
        }
        EXPECT_EQ(sum, call.bytes);
    }
    std::sort(sizes.begin(), sizes.end());
    EXPECT_EQ(sizes, (std::vector<Bytes>{0, 4, 1000001}));
    EXPECT_EQ(PartOf(4, 3, 0, 1), 2u);
    EXPECT_EQ(InspectFile(Made("chakra_made/ok_over_4gib"), {}).transferBytes, 4294967301u);
}

TEST(FaultReport, I8AllGatherIsNotAllReduce)
{
    SKIP_WITHOUT_SHARED();
    const auto row = [](const std::string& name,
                        const std::map<std::string, std::string>& options = {}) {
        return Inspect("astra-sim/microbench_8npus_1MB/" + name, options)["collectives"][0];
    };
    EXPECT_EQ(row("all_reduce")["ring_bytes_per_edge"], 1835008);
    EXPECT_EQ(row("all_gather")["ring_bytes_per_edge"], 7340032);
    EXPECT_EQ(row("reduce_scatter")["ring_bytes_per_edge"], 917504);
    EXPECT_EQ(row("all_to_all")["bytes_per_pair"], 131072);
    EXPECT_EQ(row("all_gather", {{"allgather_size", "output"}})["ring_bytes_per_edge"],
              7340032 / 8);
}

TEST(FaultReport, I9ElementsTakenForBytes)
{
    SKIP_WITHOUT_SHARED();
    const TraceSummary bytes = InspectFile(SharedTraces() + "stage/dp2tp2pp2_8ranks", {});
    const TraceSummary twice = InspectFile(SharedTraces() + "stage/dp2tp2pp2_8ranks",
                                           {{"comm_size_unit", "elements"}, {"elem_bytes", "2"}});
    EXPECT_EQ(bytes.transferBytes, 8u * 65536u);
    ASSERT_EQ(bytes.wirePairs.size(), twice.wirePairs.size());
    for (std::size_t i = 0; i < bytes.wirePairs.size(); ++i)
    {
        EXPECT_EQ(twice.wirePairs[i].bytes, 2 * bytes.wirePairs[i].bytes);
    }
}

TEST(FaultReport, I10UnevenExchangesMustMatch)
{
    SKIP_WITHOUT_SHARED();
    EXPECT_HAS(InspectError("made/param_basic_made/bad_split_mismatch"),
               "pair (0,1): rank 0 sends 3 elements (12 B), rank 1 expects 1");
    EXPECT_HAS(InspectError("made/param_basic_made/bad_split_sum"), "sums to 4, expected 9");
    EXPECT_HAS(InspectError("made/param_basic_made/bad_split_len"),
               "found 3 entries in in_split, expected 2");
    const LoadedWorkload zero = LoadTrace(Made("param_basic_made/ok_zero_splits"), {});
    EXPECT_EQ(Summarise(zero).wirePairs.size(), 1u);
    EXPECT_EQ(zero.graph.tasks.size(), 2u);
    EXPECT_EQ(WireBytes(InspectFile(Made("param_basic_made/ok_split_in_rows"), {}), 0, 1), 768u);
}

TEST(FaultReport, I11ListsCutByTheProfiler)
{
    SKIP_WITHOUT_SHARED();
    const std::string error = InspectError("made/kineto_made/bad_truncated_splits");
    EXPECT_HAS(error, "cut the list of splits at 30");
    EXPECT_HAS(error, "execution trace");
}

TEST(FaultReport, I12PeersAreLocalToTheirGroup)
{
    SKIP_WITHOUT_SHARED();
    const LoadedWorkload w = LoadTrace(Made("et_json_made/p2p_1.1.1"), {});
    const TraceSummary s = Summarise(w);
    ASSERT_EQ(s.transfers.size(), 2u);
    EXPECT_EQ(s.transfers[0].src, 0u);
    EXPECT_EQ(s.transfers[0].dst, 2u);
    EXPECT_EQ(s.transfers[1].src, 1u);
    EXPECT_EQ(s.transfers[1].dst, 3u);
    EXPECT_EQ(s.transfers[0].bytes, 20000u);
    EXPECT_EQ(s.allToAllRow0, (std::vector<Bytes>{2000, 2000, 2000, 2000}));
    for (const CollectiveCall& call : w.graph.collectives)
    {
        const auto& members = w.graph.groups[call.group].members;
        if (call.kind == CollectiveKind::Broadcast && members == std::vector<RankId>{1, 3})
        {
            EXPECT_EQ(members[call.root], 1u);
        }
    }
}

TEST(FaultReport, I13RankUnknownOrTwice)
{
    SKIP_WITHOUT_SHARED();
    EXPECT_HAS(InspectError("made/kineto_made/bad_no_rank"), "rank unknown");
    EXPECT_HAS(InspectError("made/kineto_made/bad_duplicate_rank"), "second file of rank 0");
    EXPECT_EQ(InspectError("made/kineto_made/big_comms_id"), "no error");
    EXPECT_HAS(InspectError("made/kineto_made/bad_inf"), "rank-0.json:1:");
    EXPECT_HAS(InspectError("hta/rank_not_found.json.gz"), "rank unknown");
}

TEST(FaultReport, I14FlowListsWithTheirTopology)
{
    SKIP_WITHOUT_SHARED();
    for (const auto& [flows, topology, hops] :
         {std::tuple{"hpcc_one_flow.txt", "hpcc_line2_topology.txt", 1U},
          {"hpcc_one_flow_relayed.txt", "hpcc_line3_topology.txt", 2U}})
    {
        FlowOptions options;
        options.topology = Made(std::string("flows_made/") + topology);
        const LoadedWorkload w =
            LoadFlows(Made(std::string("flows_made/") + flows), options, {}, 1);
        ASSERT_NE(w.fabric, nullptr);
        ASSERT_EQ(w.graph.transfers.size(), 1u);
        const TransferCall& t = w.graph.transfers[0];
        EXPECT_EQ(t.bytes, 1000000u);
        const Path path = w.fabric->router->Route(t.src, t.dst, 0);
        EXPECT_EQ(path.size(), hops);
        EXPECT_EQ(w.fabric->topology.links[path[0]].rate, BitRate{100'000'000'000});
        EXPECT_EQ(w.fabric->topology.links[path[0]].delay, kMicrosecond);
    }
}

TEST(FaultReport, I15MissingAndEmptyInput)
{
    SKIP_WITHOUT_SHARED();
    EXPECT_HAS(InspectError("made/no_such_trace"), "made/no_such_trace: no such file");
    EXPECT_HAS(InspectError("made/flows_made/hpcc_empty.txt"), "empty file");
    EXPECT_EQ(InspectFile(Made("flows_made/hpcc_zero.txt"), {}).transferCount, 0u);
}

TEST(FaultReport, I16WhichFlowsLeaveTheServer)
{
    SKIP_WITHOUT_SHARED();
    const LoadedWorkload w =
        LoadTrace(SharedTraces() + "astra-sim/microbench_8npus_1MB/all_to_all", {});
    const std::vector<ServerId> server = MapRanks(8, 4, 2, {});
    const TraceSummary s = Summarise(w);
    EXPECT_EQ(s.wirePairs.size(), 56u);
    const auto local =
        std::count_if(s.wirePairs.begin(), s.wirePairs.end(), [&](const TraceSummary::Pair& pair) {
            return server[pair.src] == server[pair.dst];
        });
    EXPECT_EQ(local, 8);
}

TEST(FaultReport, I17BroadcastsAreSent)
{
    SKIP_WITHOUT_SHARED();
    const TraceSummary s = InspectFile(SharedTraces() + "param/resnet_2gpu_pair_derived", {});
    EXPECT_EQ(WireBytes(s, 0, 1), 307323096u);
    EXPECT_EQ(WireBytes(s, 1, 0), 306684384u);
    std::uint64_t broadcasts = 0;
    std::uint64_t reduces = 0;
    for (const TraceSummary::Collective& row : s.collectives)
    {
        broadcasts += row.kind == CollectiveKind::Broadcast ? row.calls : 0;
        reduces += row.kind == CollectiveKind::AllReduce ? row.calls : 0;
    }
    EXPECT_EQ(broadcasts, 6u);
    EXPECT_EQ(reduces, 15u);
}

} // namespace
} // namespace topoopt
