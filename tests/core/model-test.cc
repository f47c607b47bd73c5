// SPDX-License-Identifier: GPL-2.0-only
#include "../temp-path.h"
#include "model-support.h"
#include "topoopt/core/device.h"
#include "topoopt/core/error.h"
#include "topoopt/core/model-expression.h"
#include "topoopt/core/model.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

using namespace topoopt;
using topoopt::test::kRoots;
using topoopt::test::LoadOwn;

namespace
{

/** Loads a model from text; the message of the error if there is one. */
std::string
ErrorOfModel(const std::string& text)
{
    const std::string file = test::TempPath("model-test.yaml");
    std::ofstream(file) << text;
    try
    {
        ModelOptions options;
        options.roots = kRoots;
        (void)LoadModel(file, options);
    }
    catch (const SpecError& error)
    {
        const std::string what = error.what();
        return what.substr(0, file.size()) == file ? what.substr(file.size()) : what;
    }
    return "";
}

const char* const kHead = "version: 1\n"
                          "model: m\n"
                          "parameters: {n: 3, wide: n * 2}\n"
                          "configurations: [{name: one, servers: 2, batch_per_gpu: 4}]\n"
                          "inputs: {x: [n]}\n";

} // namespace

TEST(ModelExpression, FollowsPrecedenceAndTruncates)
{
    const std::map<std::string, std::int64_t> names{{"a", 7}, {"b_2", 3}};
    EXPECT_EQ(EvaluateExpression("a + b_2 * 2", names), 13);
    EXPECT_EQ(EvaluateExpression("(a+b_2)*2", names), 20);
    EXPECT_EQ(EvaluateExpression("a / b_2 - a % b_2", names), 1);
    EXPECT_EQ(EvaluateExpression(" -a - -2 ", names), -5);
    EXPECT_EQ(EvaluateExpression("9223372036854775807", names), INT64_MAX);
}

TEST(ModelExpression, RefusesWhatHasNoValue)
{
    const std::map<std::string, std::int64_t> names{{"tables", 7}};
    for (const char* bad : {"",
                            "1 +",
                            "(1",
                            "1 2",
                            "1 / 0",
                            "5 % (2 - 2)",
                            "9223372036854775808",
                            "9223372036854775807 + 1",
                            "9223372036854775807 * 2",
                            "(0-9223372036854775807-1) / -1",
                            "1.5",
                            "tabels"})
    {
        EXPECT_THROW((void)EvaluateExpression(bad, names), std::invalid_argument) << bad;
    }
    try
    {
        (void)EvaluateExpression("tabels", names);
    }
    catch (const std::invalid_argument& error)
    {
        EXPECT_NE(std::string(error.what()).find("did you mean 'tables'"), std::string::npos);
    }
    EXPECT_THROW((void)EvaluateExpression(std::string(100'000, '('), {}), std::invalid_argument);
    EXPECT_THROW((void)EvaluateExpression(std::string(100'000, '-') + "1", {}),
                 std::invalid_argument);
}

/** Bytes of the dense parameters, docs/topoopt-spec 5.2 and 5.3; the sums of published task graphs. */
TEST(Model, DenseBytesOfTheSixAreThePublishedOnes)
{
    EXPECT_EQ(LoadOwn("dlrm", "dedicated-128").DenseBytes(), 1'225'056'260U);
    EXPECT_EQ(LoadOwn("dlrm", "sweep-128").DenseBytes(), 1'359'273'988U);
    EXPECT_EQ(LoadOwn("dlrm", "shared-16").DenseBytes(), 306'343'940U);
    EXPECT_EQ(LoadOwn("candle", "dedicated-128").DenseBytes(), 94'442'422'284U);
    EXPECT_EQ(LoadOwn("candle", "shared-16").DenseBytes(), 4'752'687'116U);
    EXPECT_EQ(LoadOwn("bert", "dedicated-128").DenseBytes(), 805'507'076U);
    EXPECT_EQ(LoadOwn("bert", "shared-16").DenseBytes(), 226'569'220U);
    EXPECT_EQ(LoadOwn("vgg16", "dedicated-128").DenseBytes(), 1'157'409'952U);
    EXPECT_EQ(LoadOwn("vgg16", "shared-16").DenseBytes(), 1'157'409'952U);
}

TEST(Model, ResnetEndsAt8192Features)
{
    const Model model = LoadOwn("resnet50");
    // 1 + 16 x 3 + 4 convolutions and a dense layer; no batch normalisation.
    const auto weighted = std::count_if(model.operators.begin(),
                                        model.operators.end(),
                                        [](const Operator& op) { return !op.parameters.empty(); });
    EXPECT_EQ(weighted, 54);
    EXPECT_EQ(model.operators[model.operators.size() - 2].measuredAs, "Dense_8192_10");
    // Convolutions of the original network: 23,454,912 weights; here with 26,560 biases beside them, and 8192 x 10 + 10.
    EXPECT_EQ(model.DenseBytes(), 4U * (23'454'912U + 26'560U + 81'930U));
}

TEST(Model, LanguageModelsHaveTheirKnownSizes)
{
    const auto billions = [](const Model& model) {
        return static_cast<double>(model.DenseBytes()) / model.parameterBytes / 1e9;
    };
    // GPT-3 without position embeddings, which the model leaves out; the output layer is counted once more here.
    EXPECT_NEAR(billions(LoadOwn("gpt3", "dedicated-128")), 174.6 + 0.6, 0.4);
    EXPECT_NEAR(billions(LoadOwn("llama3-70b", "dedicated-128")), 70.6, 0.1);
    EXPECT_NEAR(billions(LoadOwn("llama3-70b", "shared-16")), 8.03, 0.02);
    EXPECT_NEAR(billions(LoadOwn("mixtral")), 46.7, 0.1);
    // Six FLOPs per weight and token, and attention over 8192 tokens (about a fifth on top at 70B).
    const Model llama = LoadOwn("llama3-70b", "dedicated-128");
    double flops = 0;
    for (const Operator& op : llama.operators)
    {
        flops += op.forwardFlops + op.backwardFlops;
    }
    EXPECT_NEAR(flops / (6 * 69.5e9 * 8192), 1.1, 0.05);
}

TEST(Model, EveryOperatorOfTheSixIsMeasured)
{
    for (const char* name : {"dlrm", "candle", "bert", "vgg16", "resnet50", "ncf"})
    {
        const Model model = LoadOwn(name);
        const ComputeTimes times(model, kRoots);
        for (const Operator& op : model.operators)
        {
            EXPECT_NE(times.Measured(op), nullptr) << name << " " << op.measuredAs;
        }
    }
}

/** Sums of forward and backward times per server, docs/topoopt-spec 5.2 and 5.3. */
TEST(Model, ComputeOfAServerIsThePublishedOne)
{
    struct Row
    {
        const char* model;
        const char* configuration;
        double forward;
        double backward;
    };

    for (const Row& row : {Row{"dlrm", "dedicated-128", 5.99, 10.85},
                           Row{"dlrm", "shared-16", 3.27, 6.43},
                           Row{"candle", "dedicated-128", 690.5, 1321.0},
                           Row{"candle", "shared-16", 35.6, 69.0},
                           Row{"bert", "dedicated-128", 18.15, 35.63},
                           Row{"bert", "shared-16", 21.04, 41.17},
                           Row{"vgg16", "dedicated-128", 29.6, 70.9},
                           Row{"vgg16", "shared-16", 29.6, 70.9}})
    {
        const Model model = LoadOwn(row.model, row.configuration);
        const ComputeTimes times(model, kRoots);
        double forward = 0;
        double backward = 0;
        for (const Operator& op : model.operators)
        {
            if (!op.IsTable())
            {
                forward += static_cast<double>(times.Forward(op, model.batchPerGpu, 1)) / 1e9;
                backward += static_cast<double>(times.Backward(op, model.batchPerGpu, 1)) / 1e9;
            }
        }
        EXPECT_NEAR(forward, row.forward, 0.01 * row.forward) << row.model << row.configuration;
        EXPECT_NEAR(backward, row.backward, 0.01 * row.backward) << row.model << row.configuration;
    }
}

TEST(Model, SweepFollowsTheBatch)
{
    double last = 0;
    for (const auto& [batch, forwardMs] :
         std::vector<std::pair<std::string, double>>{{"64", 2.20},
                                                     {"128", 4.36},
                                                     {"256", 8.69},
                                                     {"512", 17.34},
                                                     {"1024", 34.38},
                                                     {"2048", 68.23}})
    {
        ModelOptions options;
        options.roots = kRoots;
        options.configuration = "sweep-128";
        options.overrides["batch_per_gpu"] = batch;
        const Model model = LoadModel("dlrm", options);
        const ComputeTimes times(model, kRoots);
        const Operator& table = model.operators[7];
        ASSERT_TRUE(table.IsTable());
        const auto samples = static_cast<double>(model.GlobalBatch());
        const double ms = static_cast<double>(times.Forward(table, samples, 1)) / 1e9;
        EXPECT_NEAR(ms, forwardMs, 0.01);
        EXPECT_GT(ms, last);
        last = ms;
    }
}

TEST(Model, OptionsOverrideParameters)
{
    ModelOptions options;
    options.roots = kRoots;
    options.servers = 16;
    options.overrides = {{"tables", "4"}, {"embedding_element_bytes", "4"}};
    const Model model = LoadModel("dlrm", options);
    EXPECT_EQ(model.configuration, "shared-16"); // chosen by its number of servers
    EXPECT_EQ(std::count_if(model.operators.begin(),
                            model.operators.end(),
                            [](const Operator& op) { return op.IsTable(); }),
              4);
    for (const Operator& op : model.operators)
    {
        EXPECT_EQ(op.outputElementBytes, 4U);
    }
    options.overrides = {{"tabels", "4"}};
    options.places = {{"tabels", "s.yaml:3:5"}};
    try
    {
        (void)LoadModel("dlrm", options);
        FAIL();
    }
    catch (const SpecError& error)
    {
        EXPECT_EQ(
            std::string(error.what()).find("s.yaml:3:5: workload.tabels: found no such option"),
            0U);
        EXPECT_NE(std::string(error.what()).find("did you mean 'tables'"), std::string::npos);
    }
}

TEST(Model, ErrorsNameFileLineAndKey)
{
    const std::string head = kHead;
    EXPECT_EQ(ErrorOfModel(head + "operators:\n  - {op: dense, inputs: x, out: wide}\n"), "");
    EXPECT_EQ(ErrorOfModel(head + "operators:\n  - {op: dense, inputs: x, out: 0}\n"),
              ":7:33: operators[0].out: found '0' = 0, expected 1..268435456");
    EXPECT_EQ(ErrorOfModel(head + "operators:\n  - {op: dense, inputs: y, out: 1}\n")
                  .find(":7:25: operators[0].inputs: found 'y', expected an input"),
              0U);
    EXPECT_EQ(ErrorOfModel(head + "operators:\n  - {op: dens, inputs: x, out: 1}\n")
                  .find(":7:10: operators[0].op: found 'dens', expected one of dense"),
              0U);
    EXPECT_EQ(ErrorOfModel(head + "operators:\n  - {op: dense, inputs: x, ou: 1}\n")
                  .find(":7:28: operators[0].ou: found an unknown key, did you mean 'out'"),
              0U);
    EXPECT_NE(
        ErrorOfModel(head +
                     "operators:\n  - {op: add, inputs: [x, x]}\n  - {op: attention, heads: 2}\n")
            .find("2 heads for a hidden size of 3"),
        std::string::npos);
    EXPECT_NE(
        ErrorOfModel(head + "operators:\n  - {op: conv2d, inputs: x, channels: 1, kernel: 1}\n")
            .find("[channels, height, width]"),
        std::string::npos);
    EXPECT_NE(ErrorOfModel(head + "operators: []\n").find("expected a list of operators"),
              std::string::npos);
    EXPECT_NE(ErrorOfModel("version: 2\n").find("version"), std::string::npos);
    // Sizes that would not fit, and loops that would not end.
    EXPECT_NE(ErrorOfModel(head + "operators:\n  - {op: dense, inputs: x, out: 268435456}\n"
                                  "  - {op: dense, out: 268435456}\n"),
              "");
    EXPECT_NE(ErrorOfModel(head + "operators:\n  - repeat: 100000\n    body:\n"
                                  "      - {op: relu, inputs: x}\n")
                  .find("more than 20000 operators"),
              std::string::npos);
}

TEST(Model, UnknownNamesGetSuggestions)
{
    ModelOptions options;
    options.roots = kRoots;
    try
    {
        (void)LoadModel("resnet5", options);
        FAIL();
    }
    catch (const SpecError& error)
    {
        EXPECT_NE(std::string(error.what()).find("did you mean 'resnet50'"), std::string::npos);
    }
    EXPECT_EQ(ModelNames(kRoots).size(), 9U);
    options.configuration = "shared-17";
    EXPECT_THROW((void)LoadModel("dlrm", options), SpecError);
}

TEST(ComputeTimes, InterpolateBetweenAndScaleBeyondRows)
{
    const Model model = LoadOwn("dlrm", "shared-16");
    const ComputeTimes times(model, kRoots);
    const Operator& dense = model.operators[0];
    ASSERT_EQ(dense.measuredAs, "Dense_1024_1024");
    const auto* rows = times.Measured(dense);
    ASSERT_NE(rows, nullptr);
    const double a = static_cast<double>(times.Forward(dense, 256, 1));
    const double b = static_cast<double>(times.Forward(dense, 512, 1));
    EXPECT_NEAR(static_cast<double>(times.Forward(dense, 384, 1)), (a + b) / 2, 1e3);
    const double last = static_cast<double>(times.Forward(dense, rows->back().samples, 1));
    EXPECT_NEAR(static_cast<double>(times.Forward(dense, rows->back().samples * 3, 1)),
                last * 3,
                last * 1e-6);
    EXPECT_LT(times.Forward(dense, 1, 1), times.Forward(dense, 256, 1));
    EXPECT_GT(times.Forward(dense, 1, 1), 0);
}

/** The roofline against every measured row with at least 64 samples: typical, not exact. */
TEST(ComputeTimes, RooflineIsWithinAFactorOfMeasuredTimes)
{
    std::vector<double> errors;
    std::set<std::pair<std::string, std::string>> seen; // each measured row once
    for (const char* name : {"dlrm", "candle", "bert", "vgg16", "resnet50", "ncf"})
    {
        for (const std::uint32_t servers : {16U, 128U})
        {
            ModelOptions options;
            options.roots = kRoots;
            options.servers = servers;
            const Model model = LoadModel(name, options);
            const ComputeTimes times(model, kRoots);
            double total = 0;
            double roofline = 0;
            for (const Operator& op : model.operators)
            {
                const double on =
                    op.IsTable() ? static_cast<double>(model.GlobalBatch()) : model.batchPerGpu;
                total += static_cast<double>(times.Forward(op, on, 1) + times.Backward(op, on, 1));
                roofline +=
                    1e12 * (times.Roofline(op, on, 1, false) + times.Roofline(op, on, 1, true));
            }
            std::printf("roofline of %s: %.2f of the measured compute\n",
                        model.measured.c_str(),
                        roofline / total);
            EXPECT_GT(roofline / total, 0.45) << name;
            EXPECT_LT(roofline / total, 1.5) << name;
            for (const Operator& op : model.operators)
            {
                const auto* rows = times.Measured(op);
                // The smaller NCF has shapes of its own.
                if (rows == nullptr || !seen.emplace(model.measured, op.measuredAs).second)
                {
                    continue;
                }
                const double samples =
                    op.IsTable() ? static_cast<double>(model.GlobalBatch()) : model.batchPerGpu;
                for (const bool backward : {false, true})
                {
                    const double measured =
                        static_cast<double>(backward ? times.Backward(op, samples, 1)
                                                     : times.Forward(op, samples, 1)) /
                        1e12;
                    errors.push_back(
                        std::fabs(std::log(times.Roofline(op, samples, 1, backward) / measured)));
                }
            }
        }
    }
    std::sort(errors.begin(), errors.end());
    const double median = std::exp(errors[errors.size() / 2]) - 1;
    const double p90 = std::exp(errors[errors.size() * 9 / 10]) - 1;
    std::printf("roofline against %zu measured times: median %.0f %%, 90th percentile %.0f %%\n",
                errors.size(),
                median * 100,
                p90 * 100);
    EXPECT_LT(median, 0.4);
    EXPECT_LT(p90, 2.5);
}

/** The reference's measurement files, as they are; our table restates them. */
TEST(ComputeTimes, ReadMeasurementFilesOfTheReference)
{
    const std::string file = test::TempPath("measured.json");
    const auto write = [&](const std::string& text) { std::ofstream(file) << text; };
    write(R"({"batch_size": 1024, "ngpus": 16, "measurements": [
        {"name": "Dense_8_8", "pc_str": "2-1-4", "fw_time": 2.5, "bw_time": 5},
        {"name": "Dense_8_8", "pc_str": "2-1-16", "fw_time": 1, "bw_time": 2, "mem_req": 7},
        {"name": "Embed_10x8", "pc_str": "2-1-1", "fw_time": 3, "bw_time": 6}]})");
    const MeasuredTable table = LoadMeasuredJson(file, 4);
    ASSERT_EQ(table.rows.at("Dense_8_8").size(), 2U);
    EXPECT_DOUBLE_EQ(table.rows.at("Dense_8_8")[0].samples, 16);
    EXPECT_DOUBLE_EQ(table.rows.at("Dense_8_8")[0].forwardMs, 1);
    EXPECT_DOUBLE_EQ(table.rows.at("Dense_8_8")[1].samples, 64);
    EXPECT_DOUBLE_EQ(table.rows.at("Dense_8_8")[1].backwardMs, 5);
    EXPECT_DOUBLE_EQ(table.rows.at("Embed_10x8")[0].samples, 1024);

    const std::string head = R"({"batch_size": 4, "measurements": [{"name": "a", "pc_str": )";
    for (const auto& [text, where] : std::vector<std::pair<std::string, std::string>>{
             {"", "no JSON"},
             {"[]", "batch_size"},
             {R"({"batch_size": "x"})", "batch_size"},
             {R"({"batch_size": 4})", "measurements"},
             {R"({"batch_size": 4, "measurements": [3]})", "measurements[0].name"},
             {head + R"("2-1-", "fw_time": 1, "bw_time": 1}]})", "measurements[0].pc_str"},
             {head + R"("2-1-4", "fw_time": -1, "bw_time": 1}]})", "measurements[0].fw_time"},
             {head + R"("2-1-4", "fw_time": 1}]})", "measurements[0].bw_time"}})
    {
        write(text);
        try
        {
            (void)LoadMeasuredJson(file, 4);
            ADD_FAILURE() << text;
        }
        catch (const SpecError& error)
        {
            EXPECT_NE(std::string(error.what()).find(where), std::string::npos) << error.what();
        }
    }
    EXPECT_THROW((void)LoadMeasuredJson(file + ".none", 4), SpecError);

    const char* shared = std::getenv("TOPOOPT_SHARED");
    const std::string golden =
        (shared != nullptr ? shared : std::string(TOPOOPT_SOURCE_DIR) + "/../shared") +
        "/golden/measurements/";
    if (!std::ifstream(golden + "dlrm16.json"))
    {
        GTEST_SKIP() << "no " << golden;
    }
    ModelOptions options;
    options.roots = kRoots;
    options.configuration = "shared-16";
    options.overrides["measured"] = golden + "dlrm16.json";
    const Model model = LoadModel("dlrm", options);
    const ComputeTimes theirs(model, kRoots);
    const ComputeTimes ours(LoadOwn("dlrm", "shared-16"), kRoots);
    for (const Operator& op : model.operators)
    {
        const double samples =
            op.IsTable() ? static_cast<double>(model.GlobalBatch()) : model.batchPerGpu;
        EXPECT_EQ(theirs.Forward(op, samples, 1), ours.Forward(op, samples, 1)) << op.label;
        EXPECT_EQ(theirs.Backward(op, samples, 1), ours.Backward(op, samples, 1)) << op.label;
    }
}
