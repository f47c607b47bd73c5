// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/strategy.h"

#include "topoopt/core/error.h"
#include "topoopt/core/placement.h"
#include "topoopt/core/yaml-document.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

namespace topoopt
{

namespace
{

std::string
OptionPlace(const WorkloadSpec& workload, const std::string& key)
{
    const auto found = workload.places.find(key);
    return found == workload.places.end() ? workload.place : found->second;
}

} // namespace

std::uint32_t
WeightShards(const Operator& op, const OperatorSplit& split)
{
    const bool splits = op.IsTable() || (op.exchange != TensorExchange::None &&
                                         op.maxTensorParts >= split.tensorParts);
    return splits ? split.tensorParts : 1;
}

std::string
Summary(const Model& model, const Strategy& strategy)
{
    // Runs of equal shapes, in order of the first.
    std::vector<std::string> shapes;
    std::vector<std::size_t> counts;
    for (std::size_t i = 0; i < strategy.operators.size(); ++i)
    {
        const OperatorSplit& split = strategy.operators[i];
        std::string shape = model.operators[i].IsTable() ? "table" : "op";
        shape += " x" + std::to_string(split.dataParts);
        shape += split.tensorParts > 1 ? "." + std::to_string(split.tensorParts) : "";
        shape += split.expertParts > 1 ? " experts/" + std::to_string(split.expertParts) : "";
        const auto at = std::find(shapes.begin(), shapes.end(), shape);
        if (at == shapes.end())
        {
            shapes.push_back(shape);
            counts.push_back(1);
        }
        else
        {
            ++counts[static_cast<std::size_t>(at - shapes.begin())];
        }
    }
    std::string out;
    for (std::size_t i = 0; i < shapes.size(); ++i)
    {
        out += (i == 0 ? "" : ", ") + std::to_string(counts[i]) + " " + shapes[i];
    }
    if (strategy.stages > 1)
    {
        out += "; " + std::to_string(strategy.stages) + " stages, " +
               std::to_string(strategy.microBatches) + " micro-batches";
    }
    return out;
}

Strategy
DataParallel(const Model& model, std::uint32_t ranks)
{
    if (ranks == 0 || model.GlobalBatch() % ranks != 0)
    {
        throw SpecError(model.file,
                        "found a batch of " + std::to_string(model.GlobalBatch()) +
                            " samples for " + std::to_string(ranks) +
                            " ranks, expected a multiple");
    }
    Strategy strategy;
    std::uint32_t table = 0;
    for (const Operator& op : model.operators)
    {
        OperatorSplit split;
        if (op.IsTable())
        {
            split.ranks = {table++ % ranks};
        }
        else
        {
            split.dataParts = ranks;
            split.ranks = PlaceParts(PlacementRule::Stride, ranks, ranks, 0);
        }
        strategy.operators.push_back(std::move(split));
    }
    return strategy;
}

Strategy
Hybrid(const Model& model,
       std::uint32_t ranks,
       const HybridOptions& options,
       const ComputeTimes& times,
       const std::string& place)
{
    const std::uint64_t cell = std::uint64_t{options.tensor} * options.pipeline;
    if (cell == 0 || ranks % cell != 0)
    {
        throw SpecError(place,
                        "found tensor " + std::to_string(options.tensor) + " x pipeline " +
                            std::to_string(options.pipeline) + " for " + std::to_string(ranks) +
                            " ranks, expected a product that divides them");
    }
    const auto data = static_cast<std::uint32_t>(ranks / cell);
    if (options.expert == 0 || data % options.expert != 0)
    {
        throw SpecError(place,
                        "expert: found " + std::to_string(options.expert) + " with " +
                            std::to_string(data) + " data-parallel parts, expected a divisor");
    }
    const std::uint64_t pieces = std::uint64_t{data} * options.microBatches;
    if (options.microBatches == 0 || model.GlobalBatch() % pieces != 0)
    {
        throw SpecError(place,
                        "micro_batches: found " + std::to_string(options.microBatches) +
                            " with a batch of " + std::to_string(model.GlobalBatch()) + " over " +
                            std::to_string(data) +
                            " data-parallel parts, expected that it divides each part's share");
    }
    if (options.pipeline > model.operators.size())
    {
        throw SpecError(place,
                        "pipeline: found " + std::to_string(options.pipeline) + " stages for " +
                            std::to_string(model.operators.size()) + " operators, expected fewer");
    }
    Strategy strategy;
    strategy.name = "hybrid";
    strategy.stages = options.pipeline;
    strategy.microBatches = options.microBatches;

    // Contiguous stages of about equal compute: cut where the running sum passes the next share.
    const double samples = static_cast<double>(model.GlobalBatch()) / static_cast<double>(pieces);
    std::vector<double> cost;
    double total = 0;
    for (const Operator& op : model.operators)
    {
        cost.push_back(op.IsTable() ? 0.0
                                    : static_cast<double>(times.Forward(op, samples, 1) +
                                                          times.Backward(op, samples, 1)));
        total += cost.back();
    }
    double sum = 0;
    std::uint32_t stage = 0;
    std::uint32_t table = 0;
    for (std::size_t i = 0; i < model.operators.size(); ++i)
    {
        const Operator& op = model.operators[i];
        const auto left = static_cast<std::uint32_t>(model.operators.size() - i);
        const bool must = options.pipeline - stage > left;
        const bool full = sum + cost[i] / 2 > total * (stage + 1) / options.pipeline;
        if (i > 0 && stage + 1 < options.pipeline && (must || full))
        {
            ++stage;
        }
        sum += cost[i];
        OperatorSplit split;
        split.stage = stage;
        split.tensorParts = 1;
        if (op.IsTable() && options.embedding != "data-parallel")
        {
            const bool rows = options.embedding == "row-wise";
            split.tensorParts = rows ? ranks : 1;
            split.ranks = rows ? PlaceParts(PlacementRule::Stride, ranks, ranks, 0)
                               : std::vector<RankId>{table++ % ranks};
            strategy.operators.push_back(std::move(split));
            continue;
        }
        split.dataParts = data;
        const bool small = op.kind == OperatorKind::Dense || op.kind == OperatorKind::Conv2d;
        if (op.exchange != TensorExchange::None && !small && op.maxTensorParts < options.tensor)
        {
            throw SpecError(place,
                            "tensor: found " + std::to_string(options.tensor) + ", but " +
                                op.label + " splits into at most " +
                                std::to_string(op.maxTensorParts));
        }
        split.tensorParts = options.tensor;
        if (op.experts > 0 && options.expert > 1)
        {
            if (op.experts % options.expert != 0)
            {
                throw SpecError(place,
                                "expert: found " + std::to_string(options.expert) + ", but " +
                                    op.label + " has " + std::to_string(op.experts) +
                                    " experts, expected a divisor");
            }
            split.expertParts = options.expert;
        }
        for (std::uint32_t d = 0; d < data; ++d)
        {
            for (std::uint32_t t = 0; t < options.tensor; ++t)
            {
                split.ranks.push_back((d * options.pipeline + stage) * options.tensor + t);
            }
        }
        strategy.operators.push_back(std::move(split));
    }
    return strategy;
}

void
CheckStrategy(const Model& model, const Strategy& strategy, std::uint32_t ranks)
{
    const auto fail = [&](const std::string& text) {
        throw SpecError("strategy for " + model.name, text);
    };
    if (strategy.operators.size() != model.operators.size())
    {
        fail("found " + std::to_string(strategy.operators.size()) + " operators, expected " +
             std::to_string(model.operators.size()));
    }
    if (strategy.stages == 0 || strategy.microBatches == 0)
    {
        fail("found no stages or no micro-batches, expected at least one of each");
    }
    std::uint32_t stage = 0;
    std::vector<std::uint32_t> seenAt(ranks, kNoId);
    for (std::size_t i = 0; i < model.operators.size(); ++i)
    {
        const Operator& op = model.operators[i];
        const OperatorSplit& split = strategy.operators[i];
        const std::string who = op.label + ": ";
        const std::uint64_t parts = std::uint64_t{split.dataParts} * split.tensorParts;
        if (parts == 0 || parts != split.ranks.size())
        {
            fail(who + "found " + std::to_string(split.ranks.size()) + " ranks for " +
                 std::to_string(split.dataParts) + " x " + std::to_string(split.tensorParts) +
                 " parts");
        }
        for (const RankId rank : split.ranks)
        {
            if (rank >= ranks || seenAt[rank] == i)
            {
                fail(who + "found rank " + std::to_string(rank) + ", expected 0.." +
                     std::to_string(ranks) + " exclusive, once each");
            }
            seenAt[rank] = static_cast<std::uint32_t>(i);
        }
        const std::uint64_t pieces = std::uint64_t{split.dataParts} * strategy.microBatches;
        if (model.GlobalBatch() % pieces != 0)
        {
            fail(who + "found " + std::to_string(split.dataParts) + " parts of " +
                 std::to_string(strategy.microBatches) + " micro-batches for " +
                 std::to_string(model.GlobalBatch()) + " samples, expected a divisor");
        }
        if (split.expertParts == 0 || split.dataParts % split.expertParts != 0 ||
            (split.expertParts > 1 && op.experts % split.expertParts != 0))
        {
            fail(who + "found experts shared by " + std::to_string(split.expertParts) +
                 ", expected a divisor of its experts and data parts");
        }
        if (split.tensorParts > 1 && op.IsTable() && split.dataParts > 1)
        {
            fail(who + "found rows and batch split at once, expected one of them");
        }
        if (split.stage < stage || split.stage >= strategy.stages)
        {
            fail(who + "found stage " + std::to_string(split.stage) + " behind stage " +
                 std::to_string(stage) + " of " + std::to_string(strategy.stages));
        }
        stage = split.stage;
    }
}

MemoryUse
MemoryOf(const Model& model, const Strategy& strategy, std::uint32_t ranks, const Device& device)
{
    MemoryUse use;
    use.bytes.assign(ranks, 0.0);
    const double gpusPerRank =
        static_cast<double>(model.servers) * model.gpus / static_cast<double>(ranks);
    use.capacity = device.memory * gpusPerRank;
    for (std::size_t i = 0; i < model.operators.size(); ++i)
    {
        const Operator& op = model.operators[i];
        const OperatorSplit& split = strategy.operators[i];
        const std::uint32_t shards = WeightShards(op, split);
        const double elements =
            static_cast<double>(op.ParameterBytes()) / model.parameterBytes / shards;
        // All but a mixture's router and norm is in its experts.
        double shared = elements;
        if (split.expertParts > 1)
        {
            shared = elements / split.expertParts;
        }
        const bool table = op.IsTable() && split.dataParts == 1;
        const double perElement =
            table ? model.parameterBytes : 2.0 * model.parameterBytes + model.optimizerBytes;
        const double weights = shared * perElement * (table ? 1.0 : gpusPerRank);
        const std::uint32_t inFlight =
            std::min(strategy.microBatches, strategy.stages - split.stage);
        const double samples =
            static_cast<double>(model.GlobalBatch()) / split.dataParts / strategy.microBatches;
        const double activations =
            static_cast<double>(op.activationBytes) * samples * inFlight / shards;
        for (const RankId rank : split.ranks)
        {
            use.bytes[rank] += weights + activations;
        }
    }
    use.worst = static_cast<RankId>(std::max_element(use.bytes.begin(), use.bytes.end()) -
                                    use.bytes.begin());
    return use;
}

std::vector<ServerId>
BlockPlacement(std::uint32_t ranks, std::uint32_t servers)
{
    std::vector<ServerId> out(ranks);
    const std::uint32_t perServer = std::max(1U, ranks / std::max(1U, servers));
    for (std::uint32_t r = 0; r < ranks; ++r)
    {
        out[r] = r / perServer;
    }
    return out;
}

ModelJob
ResolveModelJob(const WorkloadSpec& workload,
                const ServerSpec& servers,
                const std::map<std::string, std::string>& strategy)
{
    // The keys of a search are checked by the search; here they only must exist.
    static const std::vector<std::string> known = {"kind",
                                                   "tensor",
                                                   "pipeline",
                                                   "micro_batches",
                                                   "expert",
                                                   "embedding",
                                                   "memory",
                                                   "compat",
                                                   "search",
                                                   "budget",
                                                   "alpha",
                                                   "temperature",
                                                   "restarts",
                                                   "rounds",
                                                   "threads",
                                                   "proposals",
                                                   "confirm"};
    const auto placeOf = [&](const std::string& key) {
        return workload.place.empty() ? "strategy." + key : workload.place + ": strategy." + key;
    };
    for (const auto& [key, value] : strategy)
    {
        if (std::find(known.begin(), known.end(), key) == known.end())
        {
            std::string list;
            for (const std::string& name : known)
            {
                list += (list.empty() ? "" : ", ") + name;
            }
            throw SpecError(placeOf(Printable(key)),
                            "found an unknown key, expected one of " + list +
                                DidYouMean(key, known));
        }
    }
    ModelJob job;
    ModelOptions options;
    options.servers = servers.count;
    options.gpus = servers.gpus;
    options.overrides = workload.options;
    options.places = workload.places;
    if (const auto at = options.overrides.find("configuration"); at != options.overrides.end())
    {
        options.configuration = at->second;
        options.overrides.erase(at);
    }
    job.model = LoadModel(workload.path, options);
    job.ranksPerServer = job.model.rankPerGpu ? job.model.gpus : 1;
    const std::uint32_t ranks = job.model.servers * job.ranksPerServer;
    const ComputeTimes times(job.model);
    job.build.intraRate = servers.intraRate;

    std::map<std::string, std::string> chosen = strategy;
    const auto text = [&](const std::string& key,
                          const std::string& missing,
                          const std::vector<std::string>& allowed) {
        const auto found = chosen.find(key);
        const std::string value = found == chosen.end() ? missing : found->second;
        if (std::find(allowed.begin(), allowed.end(), value) == allowed.end())
        {
            std::string list;
            for (const std::string& name : allowed)
            {
                list += (list.empty() ? "" : ", ") + name;
            }
            throw SpecError(placeOf(key),
                            "found '" + Printable(value) + "', expected one of " + list +
                                DidYouMean(value, allowed));
        }
        return value;
    };
    const auto count = [&](const std::string& key, std::uint32_t missing) {
        const auto found = chosen.find(key);
        if (found == chosen.end())
        {
            return missing;
        }
        char* end = nullptr;
        const unsigned long long value = std::strtoull(found->second.c_str(), &end, 10);
        if (found->second.empty() || found->second[0] < '0' || found->second[0] > '9' ||
            *end != '\0' || value == 0 || value > 1'000'000)
        {
            throw SpecError(placeOf(key),
                            "found '" + Printable(found->second) +
                                "', expected a whole number in 1..1000000");
        }
        return static_cast<std::uint32_t>(value);
    };
    std::string kind =
        text("kind",
             chosen.count("tensor") + chosen.count("pipeline") + chosen.count("expert") +
                         chosen.count("embedding") + chosen.count("micro_batches") >
                     0
                 ? "hybrid"
                 : "data-parallel",
             {"data-parallel", "hybrid", "model"});
    if (kind == "hybrid" && chosen.count("tensor") + chosen.count("pipeline") +
                                    chosen.count("expert") + chosen.count("embedding") +
                                    chosen.count("micro_batches") ==
                                0)
    {
        kind = "model";
    }
    if (kind == "model")
    {
        // What the file suggests, under what the scenario says.
        for (const auto& [key, value] : job.model.strategy)
        {
            chosen.emplace(key, value);
        }
        const auto suggested = job.model.strategy.find("kind");
        chosen["kind"] =
            suggested == job.model.strategy.end() ? "data-parallel" : suggested->second;
        kind = text("kind", "data-parallel", {"data-parallel", "hybrid"});
    }
    job.build.flexnet = text("compat", "none", {"none", "flexnet"}) == "flexnet";
    if (kind == "hybrid")
    {
        HybridOptions hybrid;
        hybrid.tensor = count("tensor", 1);
        hybrid.pipeline = count("pipeline", 1);
        hybrid.microBatches = count("micro_batches", 1);
        hybrid.expert = count("expert", 1);
        hybrid.embedding =
            text("embedding", "table-wise", {"table-wise", "row-wise", "data-parallel"});
        job.strategy = Hybrid(job.model, ranks, hybrid, times, placeOf("kind"));
    }
    else
    {
        job.strategy = DataParallel(job.model, ranks);
    }
    CheckStrategy(job.model, job.strategy, ranks);

    const std::string memory =
        text("memory", job.build.flexnet ? "ignore" : "check", {"check", "ignore"});
    const MemoryUse use = MemoryOf(job.model, job.strategy, ranks, times.GetDevice());
    if (!use.Fits())
    {
        const auto giga = [](double bytes) { return std::to_string(std::llround(bytes / 1e9)); };
        const std::string message =
            "strategy '" + kind + "' of " + job.model.name + " needs " +
            giga(use.bytes[use.worst]) + " GB on rank " + std::to_string(use.worst) + ", whose " +
            times.GetDevice().name + " memory is " + giga(use.capacity) +
            " GB: " + giga(use.bytes[use.worst] - use.capacity) + " GB too much";
        if (memory == "check")
        {
            throw SpecError(OptionPlace(workload, "model"),
                            message + "; expected a strategy that fits, or memory: ignore" +
                                (job.model.strategy.empty() || kind == "hybrid"
                                     ? ""
                                     : " (kind: model takes what the model file suggests)"));
        }
        job.warnings.push_back(message);
    }
    return job;
}

std::map<std::string, std::string>
StrategyOf(const Scenario& scenario)
{
    std::map<std::string, std::string> strategy = scenario.strategy;
    if (scenario.engine.compat != "none")
    {
        strategy.emplace("compat", scenario.engine.compat);
    }
    return strategy;
}

TaskGraph
BuildModelWorkload(const WorkloadSpec& workload,
                   const ServerSpec& servers,
                   const std::map<std::string, std::string>& strategy,
                   std::uint32_t iterations,
                   std::uint64_t /*seed*/)
{
    const ModelJob job = ResolveModelJob(workload, servers, strategy);
    TaskGraph graph = BuildIteration(job.model,
                                     job.strategy,
                                     job.model.servers,
                                     job.ranksPerServer,
                                     iterations,
                                     job.build);
    graph.warnings.insert(graph.warnings.end(), job.warnings.begin(), job.warnings.end());
    return graph;
}

} // namespace topoopt
