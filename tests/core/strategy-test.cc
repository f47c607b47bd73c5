// SPDX-License-Identifier: GPL-2.0-only
#include "model-support.h"
#include "topoopt/core/error.h"
#include "topoopt/core/placement.h"
#include "topoopt/core/strategy.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <set>

using namespace topoopt;
using topoopt::test::kRoots;
using topoopt::test::LoadOwn;

namespace
{

BuildOptions
Options(bool flexnet)
{
    BuildOptions options;
    options.flexnet = flexnet;
    options.roots = kRoots;
    return options;
}

/** What docs/topoopt-spec 5.6 lists of a task graph. */
struct Statistics
{
    std::size_t forward = 0;
    std::size_t backward = 0;
    std::size_t allReduces = 0;
    std::size_t transfers = 0;
    std::map<std::size_t, std::pair<std::size_t, Bytes>> bySize; ///< group size -> count, bytes
    Bytes transferBytes = 0;
    std::size_t pairs = 0;
    double busyMaxMs = 0;
    double busyMinMs = 0;
};

Statistics
StatisticsOf(const TaskGraph& graph)
{
    Statistics s;
    std::vector<double> busy(graph.ranks);
    for (const Task& task : graph.tasks)
    {
        if (task.kind == TaskKind::Compute)
        {
            ++(graph.names[task.name].rfind("fw ", 0) == 0 ? s.forward : s.backward);
            busy[task.rank] += static_cast<double>(task.duration) / 1e9;
        }
    }
    for (const CollectiveCall& call : graph.collectives)
    {
        ++s.allReduces;
        auto& [count, bytes] = s.bySize[graph.groups[call.group].members.size()];
        ++count;
        bytes += call.bytes;
    }
    std::set<std::pair<RankId, RankId>> pairs;
    for (const TransferCall& call : graph.transfers)
    {
        ++s.transfers;
        s.transferBytes += call.bytes;
        pairs.emplace(call.src, call.dst);
    }
    s.pairs = pairs.size();
    s.busyMaxMs = *std::max_element(busy.begin(), busy.end());
    s.busyMinMs = *std::min_element(busy.begin(), busy.end());
    return s;
}

TaskGraph
FlexNetGraphOf(const Model& model)
{
    return BuildIteration(model,
                          DataParallel(model, model.servers),
                          model.servers,
                          1,
                          1,
                          Options(true));
}

} // namespace

/** Published graph 10dlrm_16. */
TEST(TaskGraphOfModel, DlrmOn16HasThePublishedStatistics)
{
    const Statistics s = StatisticsOf(FlexNetGraphOf(LoadOwn("dlrm", "shared-16")));
    EXPECT_EQ(s.forward, 400U);
    EXPECT_EQ(s.backward, 400U);
    EXPECT_EQ(s.allReduces, 62U);
    EXPECT_EQ(s.transfers, 480U);
    EXPECT_EQ(s.bySize.at(1).first, 16U);
    EXPECT_EQ(s.bySize.at(16).first, 46U);
    EXPECT_EQ(s.bySize.at(16).second, 306'343'940U);
    EXPECT_EQ(s.transferBytes, 240ULL * 4'194'304ULL);
    EXPECT_EQ(s.pairs, 240U);
    EXPECT_NEAR(s.busyMaxMs, 14.543, 0.0006);
    EXPECT_NEAR(s.busyMinMs, 14.543, 0.0006);
}

/** Published graph 100vgg_16. */
TEST(TaskGraphOfModel, VggOn16HasThePublishedStatistics)
{
    const Statistics s = StatisticsOf(FlexNetGraphOf(LoadOwn("vgg16", "shared-16")));
    EXPECT_EQ(s.forward, 368U);
    EXPECT_EQ(s.backward, 368U);
    EXPECT_EQ(s.allReduces, 32U);
    EXPECT_EQ(s.transfers, 0U);
    EXPECT_EQ(s.bySize.at(16).second, 1'157'409'952U);
    EXPECT_NEAR(s.busyMaxMs, 100.477, 0.0006);
}

/** Published graph 25dlrm_128. */
TEST(TaskGraphOfModel, DlrmOn128HasThePublishedStatistics)
{
    const Statistics s = StatisticsOf(FlexNetGraphOf(LoadOwn("dlrm", "dedicated-128")));
    EXPECT_EQ(s.forward, 3136U);
    EXPECT_EQ(s.backward, 3136U);
    EXPECT_EQ(s.allReduces, 110U);
    EXPECT_EQ(s.bySize.at(1).first, 64U);
    EXPECT_EQ(s.bySize.at(128).first, 46U);
    EXPECT_EQ(s.bySize.at(128).second, 1'225'056'260U);
    EXPECT_EQ(s.transfers, 16'256U);
    EXPECT_EQ(s.transferBytes, 16'256ULL * 524'288ULL);
    EXPECT_EQ(s.pairs, 12'224U);
    EXPECT_NEAR(s.busyMaxMs, 29.768, 0.0006);
    EXPECT_NEAR(s.busyMinMs, 16.842, 0.0006);
}

/** Published graphs 10transformer_16 and, for the delays of AllReduces, 100vgg_16. */
TEST(TaskGraphOfModel, BertOn16AndDelaysOfVgg)
{
    const Statistics s = StatisticsOf(FlexNetGraphOf(LoadOwn("bert", "shared-16")));
    EXPECT_EQ(s.forward, 976U);
    EXPECT_EQ(s.allReduces, 68U);
    EXPECT_EQ(s.transfers, 0U);
    EXPECT_EQ(s.bySize.at(16).second, 226'569'220U);
    EXPECT_NEAR(s.busyMaxMs, 62.202, 0.0006);

    const TaskGraph vgg = FlexNetGraphOf(LoadOwn("vgg16", "shared-16"));
    double sum = 0;
    for (const Task& task : vgg.tasks)
    {
        sum += task.kind == TaskKind::Join ? static_cast<double>(task.duration) / 1e9 : 0.0;
    }
    EXPECT_NEAR(sum, 23.148, 0.0005);
}

/** Docs/topoopt-spec 5.4: volumes of the batch sweep and the bandwidth tax on circulants. */
TEST(TaskGraphOfModel, BatchSweepVolumesAndBandwidthTax)
{
    const double hops4 = 5.6220472440944881;
    const double hops8 = 2.9606299212598426;

    struct Row
    {
        const char* batch;
        double ratio;
        double tax4;
        double tax8;
    };

    for (const Row& row : {Row{"64", .025, 1.111, 1.047},
                           Row{"128", .049, 1.218, 1.092},
                           Row{"256", .099, 1.415, 1.176},
                           Row{"512", .197, 1.762, 1.323},
                           Row{"1024", .395, 2.309, 1.555},
                           Row{"2048", .790, 3.040, 1.865}})
    {
        for (const std::uint32_t elementBytes : {8U, 4U})
        {
            const Model model =
                LoadOwn("dlrm",
                        "sweep-128",
                        {{"batch_per_gpu", row.batch},
                         {"embedding_element_bytes", std::to_string(elementBytes)}});
            const TaskGraph graph = FlexNetGraphOf(model);
            const Demand demand = DemandOf(graph, BlockPlacement(graph.ranks, 128));
            ASSERT_EQ(demand.allReduces.size(), 1U);
            EXPECT_EQ(demand.allReduces[0].bytes, 1'359'273'988U);
            Bytes mp = 0;
            for (const Bytes bytes : demand.pairs)
            {
                mp += bytes;
            }
            const Bytes batch = std::stoul(row.batch);
            EXPECT_EQ(mp, 128U * 127U * 2U * 4U * batch * 128U * elementBytes);
            const double ar = 2.0 * 127.0 * static_cast<double>(demand.allReduces[0].bytes);
            EXPECT_NEAR(ar, 3.453e11, 0.0005e11);
            const double ratio = static_cast<double>(mp) / ar;
            const double scale = elementBytes / 8.0;
            EXPECT_NEAR(ratio, row.ratio * scale, 0.0006);
            const auto tax = [&](double hops) { return (1 + ratio * hops) / (1 + ratio); };
            if (elementBytes == 8)
            {
                EXPECT_NEAR(tax(hops4), row.tax4, 0.0006) << row.batch;
                EXPECT_NEAR(tax(hops8), row.tax8, 0.0006) << row.batch;
            }
        }
    }
}

TEST(TaskGraphOfModel, IterationsFollowEachOther)
{
    const Model model = LoadOwn("vgg16", "shared-16");
    const Strategy strategy = DataParallel(model, 16);
    const TaskGraph one = BuildIteration(model, strategy, 16, 1, 1, Options(false));
    const TaskGraph three = BuildIteration(model, strategy, 16, 1, 3, Options(false));
    EXPECT_TRUE(one.iterationEnds.empty());
    ASSERT_EQ(three.iterationEnds.size(), 3U);
    EXPECT_EQ(three.tasks.size(), 3 * one.tasks.size() + 3);
    EXPECT_EQ(three.collectives.size(), 3 * one.collectives.size());
    // Nothing of iteration 1 can start before the end of iteration 0: every root is in iteration 0.
    for (TaskId id = three.iterationEnds[0]; id < three.tasks.size(); ++id)
    {
        EXPECT_GT(three.PredecessorCounts()[id], 0U);
    }
}

/** Splitting a chain in unequal ways moves exactly the samples that are not local, both ways. */
TEST(TaskGraphOfModel, ReshardingMovesWhatIsNotLocal)
{
    const Model model = LoadOwn("vgg16", "shared-16");
    Strategy strategy = DataParallel(model, 16);
    const std::size_t count = strategy.operators.size();
    // The last two operators on 4 servers 1, 5, 9, 13: part i holds the samples of servers 4i..4i+3.
    for (std::size_t i = count - 2; i < count; ++i)
    {
        strategy.operators[i].dataParts = 4;
        strategy.operators[i].ranks = PlaceParts(PlacementRule::Stride, 16, 4, 1);
    }
    const TaskGraph graph = BuildIteration(model, strategy, 16, 1, 1, Options(true));
    const Operator& producer = model.operators[count - 3];
    const Bytes slice = model.GlobalBatch() / 16 * producer.outputElements * 4;
    // Server 1 makes a slice that part 0 (on server 1) needs; 5 is in the range of part 1, 9 of 2, 13 of 3.
    EXPECT_EQ(graph.transfers.size(), 2U * (16 - 4));
    Bytes out = 0;
    for (const TransferCall& call : graph.transfers)
    {
        EXPECT_EQ(call.bytes, slice);
        out += call.dst % 4 == 1 && call.src / 4 == call.dst / 4 ? call.bytes : 0;
    }
    EXPECT_EQ(out, 12 * slice);
    const Demand demand = DemandOf(graph, BlockPlacement(16, 16));
    ASSERT_EQ(demand.allReduces.size(), 2U);
    EXPECT_EQ(demand.allReduces[1].members, (std::vector<ServerId>{1, 5, 9, 13}));
}

TEST(TaskGraphOfModel, RowWiseTablesSendPartialSumsToAll)
{
    const Model model = LoadOwn("dlrm", "shared-16", {{"tables", "2"}});
    HybridOptions options;
    options.embedding = "row-wise";
    const ComputeTimes times(model, kRoots);
    const Strategy strategy = Hybrid(model, 16, options, times, "test");
    const TaskGraph graph = BuildIteration(model, strategy, 16, 1, 1, Options(false));
    // Each of 16 shards of each table sends its sums for the samples of 15 others, and gets their gradients.
    EXPECT_EQ(graph.transfers.size(), 2U * 2U * 16U * 15U);
    EXPECT_EQ(graph.transfers[0].bytes, model.GlobalBatch() / 16 * 256 * 8);
    options.embedding = "data-parallel";
    const TaskGraph replicated =
        BuildIteration(model, Hybrid(model, 16, options, times, "test"), 16, 1, 1, Options(false));
    EXPECT_TRUE(replicated.transfers.empty());
    const Demand demand = DemandOf(replicated, BlockPlacement(16, 16));
    EXPECT_EQ(demand.allReduces.at(0).bytes, model.DenseBytes() + model.TableBytes());
}

TEST(TaskGraphOfModel, TensorGroupsAcrossServersAllReduceActivations)
{
    // BERT on servers: attention over a tensor group of 2 servers.
    const Model model = LoadOwn("bert", "shared-16");
    HybridOptions options;
    options.tensor = 2;
    const ComputeTimes times(model, kRoots);
    const Strategy strategy = Hybrid(model, 16, options, times, "test");
    const TaskGraph graph = BuildIteration(model, strategy, 16, 1, 1, Options(false));
    std::size_t activations = 0;
    for (const CollectiveCall& call : graph.collectives)
    {
        if (call.name.rfind("tensor fw attention", 0) == 0)
        {
            ++activations;
            EXPECT_EQ(call.bytes, model.GlobalBatch() / 8 * 256 * 768 * 4);
            EXPECT_EQ(graph.groups[call.group].members.size(), 2U);
        }
    }
    EXPECT_EQ(activations, 18U * 8U);
    // Weights are reduced over the 8 replicas of each shard, half of them each.
    const Demand demand = DemandOf(graph, BlockPlacement(16, 16));
    Bytes over8 = 0;
    for (const AllReduceDemand& d : demand.allReduces)
    {
        over8 += d.members.size() == 8 ? d.bytes : 0;
    }
    // The last layer has one column, so both shards hold and reduce all of it.
    EXPECT_EQ(over8, model.DenseBytes() + 4U * (768U + 1U));
}

TEST(TaskGraphOfModel, TensorGroupsOfAServerComputeTogether)
{
    const Model model = LoadOwn("gpt3", "shared-16");
    HybridOptions options;
    options.tensor = 4;
    options.pipeline = 4;
    options.microBatches = 16;
    const ComputeTimes times(model, kRoots);
    const std::uint32_t ranks = 16 * 8;
    const Strategy strategy = Hybrid(model, ranks, options, times, "test");
    const TaskGraph graph = BuildIteration(model, strategy, 16, 8, 1, Options(false));
    std::vector<std::uint32_t> starts(graph.tasks.size()); // joins that let a task begin
    std::size_t joins = 0;
    for (TaskId id = 0; id < graph.tasks.size(); ++id)
    {
        if (graph.tasks[id].kind != TaskKind::Join)
        {
            continue;
        }
        ++joins;
        std::vector<RankId> members;
        for (const TaskId* s = graph.SuccessorsBegin(id); s != graph.SuccessorsEnd(id); ++s)
        {
            EXPECT_EQ(graph.tasks[*s].kind, TaskKind::Compute);
            EXPECT_EQ(graph.tasks[*s].name, graph.tasks[id].name);
            members.push_back(graph.tasks[*s].rank);
            ++starts[*s];
        }
        ASSERT_EQ(members.size(), 4U);
        std::sort(members.begin(), members.end());
        EXPECT_EQ(members[0] % 4, 0U);
        EXPECT_EQ(members[3], members[0] + 3);
    }
    std::size_t passes = 0;
    for (TaskId id = 0; id < graph.tasks.size(); ++id)
    {
        const bool step = graph.names[graph.tasks[id].name] == "optimizer";
        if (graph.tasks[id].kind == TaskKind::Compute && !step)
        {
            ++passes;
            EXPECT_EQ(starts[id], 1U);
        }
    }
    EXPECT_GT(passes, 0U);
    EXPECT_EQ(passes, 4 * joins);
}

TEST(TaskGraphOfModel, PipelineKeepsOneForwardOneBackward)
{
    const Model model = LoadOwn("bert", "shared-16");
    HybridOptions options;
    options.pipeline = 4;
    options.microBatches = 8;
    const ComputeTimes times(model, kRoots);
    const Strategy strategy = Hybrid(model, 16, options, times, "test");
    EXPECT_EQ(strategy.operators.front().stage, 0U);
    EXPECT_EQ(strategy.operators.back().stage, 3U);
    const TaskGraph graph = BuildIteration(model, strategy, 16, 1, 1, Options(false));
    // The encoder's and the decoder's tensors cross three cuts; all messages are between neighbouring stages or further.
    EXPECT_GT(graph.transfers.size(), 0U);
    std::size_t compute = 0;
    for (const Task& task : graph.tasks)
    {
        compute += task.kind == TaskKind::Compute ? 1 : 0;
    }
    EXPECT_EQ(compute, 2U * 8U * 4U * model.operators.size());
    // Memory: the first stage keeps 4 micro-batches, the last one 1.
    const MemoryUse use = MemoryOf(model, strategy, 16, times.GetDevice());
    EXPECT_GT(use.bytes[0], use.bytes[3]);
    EXPECT_TRUE(use.Fits());
}

TEST(TaskGraphOfModel, LanguageModelsBuildAndFit)
{
    for (const char* name : {"gpt3", "llama3-70b", "mixtral"})
    {
        for (const std::uint32_t servers : {16U, 128U})
        {
            WorkloadSpec workload;
            workload.kind = WorkloadKind::Model;
            workload.path = std::string(TOPOOPT_SOURCE_DIR) + "/traces/models/" + name + ".yaml";
            ServerSpec spec;
            spec.count = servers;
            spec.gpus = 8;
            const ModelJob job = ResolveModelJob(workload, spec, {{"kind", "model"}});
            EXPECT_TRUE(job.warnings.empty()) << name << servers;
            if (servers == 16)
            {
                const TaskGraph graph = BuildIteration(job.model,
                                                       job.strategy,
                                                       servers,
                                                       job.ranksPerServer,
                                                       1,
                                                       job.build);
                EXPECT_EQ(graph.ranks, 128U);
                const Demand demand = DemandOf(graph, BlockPlacement(128, servers));
                EXPECT_FALSE(demand.allReduces.empty()) << name;
            }
        }
    }
}

TEST(StrategyMemory, SaysByHowMuchItDoesNotFit)
{
    WorkloadSpec workload;
    workload.kind = WorkloadKind::Model;
    workload.path = std::string(TOPOOPT_SOURCE_DIR) + "/traces/models/candle.yaml";
    ServerSpec spec;
    spec.count = 128;
    spec.gpus = 4;
    try
    {
        (void)ResolveModelJob(workload, spec, {});
        FAIL();
    }
    catch (const SpecError& error)
    {
        EXPECT_NE(std::string(error.what()).find("GB too much"), std::string::npos) << error.what();
    }
    const ModelJob job = ResolveModelJob(workload, spec, {{"memory", "ignore"}});
    ASSERT_EQ(job.warnings.size(), 1U);
    // Weights and gradients of every GPU: 4 x 2 x 94.44 GB, and activations.
    const ComputeTimes times(job.model, kRoots);
    const MemoryUse use = MemoryOf(job.model, job.strategy, 128, times.GetDevice());
    EXPECT_GT(use.bytes[0], 8 * 94.44e9);
    EXPECT_LT(use.bytes[0], 8 * 94.44e9 + 40e9);
    EXPECT_DOUBLE_EQ(use.capacity, 160e9);
    EXPECT_TRUE(ResolveModelJob(workload, spec, {{"compat", "flexnet"}}).build.flexnet);
}

TEST(Strategy, RejectsWhatDoesNotFitTheModel)
{
    const Model model = LoadOwn("vgg16", "shared-16");
    const Strategy good = DataParallel(model, 16);
    EXPECT_NO_THROW(CheckStrategy(model, good, 16));
    EXPECT_THROW(CheckStrategy(model, good, 8), SpecError);
    Strategy bad = good;
    bad.operators.pop_back();
    EXPECT_THROW(CheckStrategy(model, bad, 16), SpecError);
    bad = good;
    bad.operators[3].ranks[1] = 0;
    EXPECT_THROW(CheckStrategy(model, bad, 16), SpecError);
    bad = good;
    bad.operators[0].stage = 1;
    EXPECT_THROW(CheckStrategy(model, bad, 16), SpecError);
    EXPECT_THROW((void)DataParallel(model, 3), SpecError);
    WorkloadSpec workload;
    workload.path = std::string(TOPOOPT_SOURCE_DIR) + "/traces/models/vgg16.yaml";
    ServerSpec spec;
    spec.count = 16;
    spec.gpus = 4;
    for (const auto& [key, value] : std::map<std::string, std::string>{{"kind", "hybird"},
                                                                       {"tensor", "3"},
                                                                       {"tensor", "-1"},
                                                                       {"pipeline", "x"},
                                                                       {"micro_batches", "7"},
                                                                       {"bugdet", "4"}})
    {
        EXPECT_THROW((void)ResolveModelJob(workload, spec, {{key, value}}), SpecError) << key;
    }
}

TEST(Placement, StridesTileTheServers)
{
    std::set<RankId> all;
    for (std::uint32_t start = 0; start < PlacementStarts(PlacementRule::Stride, 12, 4); ++start)
    {
        for (const RankId rank : PlaceParts(PlacementRule::Stride, 12, 4, start))
        {
            EXPECT_TRUE(all.insert(rank).second);
        }
    }
    EXPECT_EQ(all.size(), 12U);
    EXPECT_EQ(PlaceParts(PlacementRule::Block, 12, 4, 10), (std::vector<RankId>{10, 11, 0, 1}));
    EXPECT_EQ(DivisorsOf(12), (std::vector<std::uint32_t>{1, 2, 3, 4, 6, 12}));
}
