// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/error.h"
#include "topoopt/core/strategy.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

namespace topoopt
{

namespace
{

constexpr std::size_t kMaxTasks = std::size_t{1} << 26U;

/** Part of [0, samples) that piece @p index of @p parts holds. */
struct Range
{
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

Range
RangeOf(std::uint64_t samples, std::uint32_t parts, std::uint32_t index)
{
    return {samples * index / parts, samples * (index + 1) / parts};
}

/** Operators between which nothing has to cross a server become one, to keep the graph small. */
std::pair<Model, Strategy>
Fuse(const Model& model, const Strategy& strategy, std::uint32_t ranksPerServer)
{
    const std::size_t count = model.operators.size();
    std::vector<std::uint32_t> consumers(count);
    for (const Operator& op : model.operators)
    {
        for (const OperatorInput& input : op.inputs)
        {
            if (input.producer != kNoId)
            {
                ++consumers[input.producer];
            }
        }
    }
    // At most this many operators in one task, so that AllReduces still overlap with the backward pass.
    std::vector<std::uint32_t> perStage(strategy.stages);
    for (const OperatorSplit& split : strategy.operators)
    {
        ++perStage[split.stage];
    }
    const auto local = [&](std::size_t i) {
        const Operator& op = model.operators[i];
        const OperatorSplit& split = strategy.operators[i];
        if (op.IsTable() || split.expertParts > 1)
        {
            return false;
        }
        for (std::uint32_t d = 0; d < split.dataParts; ++d)
        {
            for (std::uint32_t t = 1; t < split.tensorParts; ++t)
            {
                if (split.At(d, t) / ranksPerServer != split.At(d, 0) / ranksPerServer)
                {
                    return false;
                }
            }
        }
        return true;
    };
    Model fused = model;
    fused.operators.clear();
    Strategy out = strategy;
    out.operators.clear();
    std::vector<std::uint32_t> newIndex(count);
    std::size_t members = 0;
    for (std::size_t i = 0; i < count; ++i)
    {
        Operator op = model.operators[i];
        const OperatorSplit& split = strategy.operators[i];
        const std::uint32_t most = std::max(1U, (perStage[split.stage] + 3) / 4);
        const bool join = i > 0 && members < most && op.inputs.size() == 1 &&
                          op.inputs[0].producer == i - 1 && consumers[i - 1] == 1 &&
                          split == strategy.operators[i - 1] && local(i) && local(i - 1);
        for (OperatorInput& input : op.inputs)
        {
            input.producer = input.producer == kNoId ? kNoId : newIndex[input.producer];
        }
        if (join)
        {
            Operator& into = fused.operators.back();
            if (into.fused.empty())
            {
                const Operator first = into;
                into.fused.push_back(first);
                into.label += "+";
            }
            into.fused.push_back(op);
            into.outputElements = op.outputElements;
            into.outputElementBytes = op.outputElementBytes;
            into.activationBytes += op.activationBytes;
            const Bytes sum = into.ParameterBytes() + op.ParameterBytes();
            into.parameters.assign(sum > 0 ? 1 : 0, sum);
            ++members;
        }
        else
        {
            fused.operators.push_back(std::move(op));
            out.operators.push_back(split);
            members = 1;
        }
        newIndex[i] = static_cast<std::uint32_t>(fused.operators.size() - 1);
    }
    return {std::move(fused), std::move(out)};
}

/** Builds one job's graph, iteration by iteration. */
class Builder
{
  public:
    Builder(const Model& model,
            const Strategy& strategy,
            const ComputeTimes& times,
            const BuildOptions& options,
            std::uint32_t servers,
            std::uint32_t ranksPerServer)
        : m_model(model),
          m_strategy(strategy),
          m_times(times),
          m_options(options),
          m_ranksPerServer(ranksPerServer),
          m_gpusPerRank(static_cast<double>(model.servers) * model.gpus /
                        (static_cast<double>(servers) * ranksPerServer))
    {
        m_graph.ranks = servers * ranksPerServer;
        Prepare();
    }

    TaskGraph Run(std::uint32_t iterations)
    {
        for (std::uint32_t k = 0; k < iterations; ++k)
        {
            Iteration(k, iterations);
        }
        m_graph.Finalize("task graph of " + m_model.name);
        return std::move(m_graph);
    }

  private:
    /** Things that are the same in every iteration and micro-batch. */
    struct Part
    {
        SimTime forward = 0;
        SimTime backward = 0;
    };

    /** First and last task of a pass of one part: what predecessors feed, what successors wait for. */
    struct Pass
    {
        TaskId first = kNoId;
        TaskId last = kNoId;
        TaskId compute = kNoId;
    };

    [[nodiscard]] ServerId ServerOf(RankId rank) const
    {
        return rank / m_ranksPerServer;
    }

    [[nodiscard]] double IntraSeconds(double bytes) const
    {
        return m_options.intraRate.bps == 0
                   ? 0.0
                   : bytes * 8.0 / static_cast<double>(m_options.intraRate.bps);
    }

    [[nodiscard]] bool OneServer(const std::vector<RankId>& members) const
    {
        return std::all_of(members.begin(), members.end(), [&](RankId rank) {
            return ServerOf(rank) == ServerOf(members.front());
        });
    }

    void Prepare()
    {
        const std::size_t count = m_model.operators.size();
        m_part.resize(count);
        m_tensorGroups.resize(count);
        m_together.resize(count);
        m_expertGroups.resize(count);
        m_samples = m_model.GlobalBatch() / m_strategy.microBatches;
        for (std::size_t i = 0; i < count; ++i)
        {
            const Operator& op = m_model.operators[i];
            const OperatorSplit& split = m_strategy.operators[i];
            const double perPart = static_cast<double>(m_samples) / split.dataParts;
            // A whole table is looked up by one GPU; anything else is shared by the rank's GPUs.
            const double perGpu = op.IsTable() ? perPart : std::max(1.0, perPart / m_gpusPerRank);
            const std::uint32_t shards = WeightShards(op, split);
            m_part[i].forward = m_times.Forward(op, perGpu, shards);
            m_part[i].backward = m_times.Backward(op, perGpu, shards);
            if (op.exchange != TensorExchange::None && shards > 1)
            {
                for (std::uint32_t d = 0; d < split.dataParts; ++d)
                {
                    std::vector<RankId> members;
                    for (std::uint32_t t = 0; t < split.tensorParts; ++t)
                    {
                        members.push_back(split.At(d, t));
                    }
                    m_tensorGroups[i].push_back(std::move(members));
                }
                FoldTensor(i, perPart);
            }
            if (split.expertParts > 1)
            {
                for (std::uint32_t d = 0; d < split.dataParts; d += split.expertParts)
                {
                    for (std::uint32_t t = 0; t < split.tensorParts; ++t)
                    {
                        std::vector<RankId> members;
                        for (std::uint32_t e = 0; e < split.expertParts; ++e)
                        {
                            members.push_back(split.At(d + e, t));
                        }
                        m_expertGroups[i].push_back(std::move(members));
                    }
                }
            }
        }
        m_weights.assign(m_graph.ranks, 0.0);
    }

    /** If no tensor group crosses a server, its collectives become part of the compute tasks, which begin together. */
    void FoldTensor(std::size_t i, double perPart)
    {
        const OperatorSplit& split = m_strategy.operators[i];
        for (const std::vector<RankId>& members : m_tensorGroups[i])
        {
            if (!OneServer(members))
            {
                return;
            }
        }
        const Operator& op = m_model.operators[i];
        const std::vector<Operator> single{op};
        double forward = 0;
        double backward = 0;
        const double t = split.tensorParts;
        for (const Operator& part : op.fused.empty() ? single : op.fused)
        {
            if (part.exchange == TensorExchange::None)
            {
                continue;
            }
            const double out =
                perPart * static_cast<double>(part.outputElements) * part.outputElementBytes;
            const double in = perPart * static_cast<double>(part.inputs[0].elements) *
                              part.inputs[0].elementBytes;
            forward += out * (t - 1) / t * (part.exchange == TensorExchange::AllGather ? 1 : 2);
            backward += in * (t - 1) / t * 2;
        }
        m_part[i].forward += static_cast<SimTime>(std::llround(IntraSeconds(forward) * 1e12));
        m_part[i].backward += static_cast<SimTime>(std::llround(IntraSeconds(backward) * 1e12));
        m_tensorGroups[i].clear();
        m_together[i] = true;
    }

    std::uint32_t GroupOf(const std::vector<RankId>& members)
    {
        const auto [at, added] =
            m_groupOf.emplace(members, static_cast<std::uint32_t>(m_graph.groups.size()));
        if (added)
        {
            CommGroup group;
            group.name = "ranks " + std::to_string(members.front()) + ".." +
                         std::to_string(members.back()) + " (" + std::to_string(members.size()) +
                         ")";
            group.members = members;
            m_graph.groups.push_back(std::move(group));
            m_calls.push_back(0);
        }
        return at->second;
    }

    TaskId AddTask(Task task)
    {
        if (m_graph.tasks.size() >= kMaxTasks)
        {
            throw SpecError("task graph of " + m_model.name,
                            "found more than 2^26 tasks, expected fewer: fewer micro-batches, "
                            "iterations or ranks");
        }
        task.sourceId = m_graph.tasks.size();
        return m_graph.Add(task);
    }

    TaskId AddCompute(RankId rank, SimTime duration, std::uint32_t name)
    {
        Task task;
        task.kind = TaskKind::Compute;
        task.rank = rank;
        task.duration = duration;
        task.name = name;
        const TaskId id = AddTask(task);
        m_used.push_back(id);
        return id;
    }

    TaskId AddJoin(RankId rank, SimTime delay, std::uint32_t name)
    {
        Task task;
        task.kind = TaskKind::Join;
        task.rank = rank;
        task.duration = delay;
        task.name = name;
        return AddTask(task);
    }

    /** A collective of @p members. @return their tasks, in group order */
    std::vector<TaskId> AddCollective(CollectiveKind kind,
                                      const std::vector<RankId>& members,
                                      Bytes bytes,
                                      std::uint32_t elementBytes,
                                      std::uint32_t name)
    {
        CollectiveCall call;
        call.kind = kind;
        call.group = GroupOf(members);
        call.bytes = bytes;
        call.elementBytes = elementBytes;
        call.name = m_graph.names[name];
        call.sequence = m_calls[call.group]++;
        const auto object = static_cast<std::uint32_t>(m_graph.collectives.size());
        m_graph.collectives.push_back(std::move(call));
        std::vector<TaskId> out;
        for (std::uint32_t m = 0; m < members.size(); ++m)
        {
            Task task;
            task.kind = TaskKind::Collective;
            task.rank = members[m];
            task.object = object;
            task.member = m;
            task.name = name;
            out.push_back(AddTask(task));
            m_used.push_back(out.back());
        }
        return out;
    }

    void AddTransfer(RankId src,
                     RankId dst,
                     Bytes bytes,
                     TaskId before,
                     TaskId after,
                     std::uint32_t name)
    {
        TransferCall call;
        call.src = src;
        call.dst = dst;
        call.bytes = bytes;
        call.tag = static_cast<std::int64_t>(m_graph.transfers.size());
        Task task;
        task.kind = TaskKind::Transfer;
        task.rank = src;
        task.object = static_cast<std::uint32_t>(m_graph.transfers.size());
        task.name = name;
        m_graph.transfers.push_back(call);
        const TaskId id = AddTask(task);
        m_graph.AddDependency(before, id);
        m_graph.AddDependency(id, after);
    }

    [[nodiscard]] Pass& At(std::vector<std::vector<Pass>>& passes,
                           std::size_t op,
                           std::uint32_t data,
                           std::uint32_t tensor) const
    {
        return passes[op][std::size_t{data} * m_strategy.operators[op].tensorParts + tensor];
    }

    /** Which of an operator's tensor shards serves a given rank: itself, a neighbour, else by number. */
    [[nodiscard]] std::uint32_t Nearest(const OperatorSplit& split,
                                        std::uint32_t data,
                                        RankId rank,
                                        std::uint32_t tensor) const
    {
        std::uint32_t neighbour = kNoId;
        for (std::uint32_t t = 0; t < split.tensorParts; ++t)
        {
            const RankId at = split.At(data, t);
            if (at == rank)
            {
                return t;
            }
            // Spread over the neighbours, or one of them would serve the whole server.
            if (ServerOf(at) == ServerOf(rank) && (neighbour == kNoId || t == tensor))
            {
                neighbour = t;
            }
        }
        return neighbour != kNoId ? neighbour : tensor % split.tensorParts;
    }

    /** Whether every shard holds a different part of the result, which the consumer must add up. */
    [[nodiscard]] bool PartialSums(std::size_t op) const
    {
        return m_model.operators[op].IsTable() && m_strategy.operators[op].tensorParts > 1;
    }

    void Iteration(std::uint32_t k, std::uint32_t iterations)
    {
        const std::size_t count = m_model.operators.size();
        m_used.clear();
        const std::uint32_t micro = m_strategy.microBatches;
        // passes[micro][op][part]
        std::vector<std::vector<std::vector<Pass>>> forward(micro);
        std::vector<std::vector<std::vector<Pass>>> backward(micro);
        for (std::uint32_t m = 0; m < micro; ++m)
        {
            forward[m].resize(count);
            backward[m].resize(count);
            for (std::size_t i = 0; i < count; ++i)
            {
                Passes(i, forward[m][i], backward[m][i]);
            }
        }
        std::vector<std::vector<TaskId>> reduced(m_graph.ranks);
        for (std::size_t i = 0; i < count; ++i)
        {
            Reduce(i, backward, reduced);
        }
        for (std::uint32_t m = 0; m < micro; ++m)
        {
            for (std::size_t i = 0; i < count; ++i)
            {
                for (const OperatorInput& input : m_model.operators[i].inputs)
                {
                    if (input.producer != kNoId)
                    {
                        Connect(input, i, forward[m], backward[m]);
                    }
                }
            }
        }
        if (m_strategy.stages > 1 || micro > 1)
        {
            Order(forward, backward);
        }
        if (m_model.optimizerStep && !m_options.flexnet)
        {
            Step(reduced);
        }
        if (m_previous != kNoId)
        {
            for (std::uint32_t m = 0; m < micro; ++m)
            {
                for (const auto& passes : forward[m])
                {
                    for (const Pass& pass : passes)
                    {
                        m_graph.AddDependency(m_previous, pass.first);
                    }
                }
            }
        }
        if (iterations > 1)
        {
            const TaskId end = AddJoin(0, 0, m_graph.InternName("iteration " + std::to_string(k)));
            for (const TaskId id : m_used)
            {
                m_graph.AddDependency(id, end);
            }
            m_graph.iterationEnds.push_back(end);
            m_previous = end;
        }
    }

    /** Compute tasks and inner collectives of one operator in one micro-batch. */
    void Passes(std::size_t i, std::vector<Pass>& forward, std::vector<Pass>& backward)
    {
        const Operator& op = m_model.operators[i];
        const OperatorSplit& split = m_strategy.operators[i];
        const std::uint32_t fw = m_graph.InternName("fw " + op.label);
        const std::uint32_t bw = m_graph.InternName("bw " + op.label);
        for (const RankId rank : split.ranks)
        {
            Pass f;
            f.compute = f.first = f.last = AddCompute(rank, m_part[i].forward, fw);
            Pass b;
            b.compute = b.first = b.last = AddCompute(rank, m_part[i].backward, bw);
            m_graph.AddDependency(f.compute, b.compute);
            forward.push_back(f);
            backward.push_back(b);
        }
        if (m_together[i])
        {
            // What is folded into the tasks would make a tensor group wait for its last member, layer by layer.
            for (std::vector<Pass>* passes : {&forward, &backward})
            {
                const std::uint32_t name = passes == &forward ? fw : bw;
                for (std::size_t p = 0; p < passes->size(); p += split.tensorParts)
                {
                    const TaskId start = AddJoin(split.ranks[p], 0, name);
                    for (std::size_t t = p; t < p + split.tensorParts; ++t)
                    {
                        m_graph.AddDependency(start, (*passes)[t].compute);
                        (*passes)[t].first = start;
                    }
                }
            }
        }
        const double perPart = static_cast<double>(m_samples) / split.dataParts;
        if (!m_expertGroups[i].empty())
        {
            // Tokens to their experts and back, forward and backward.
            const std::uint64_t hidden = op.inputs[0].elements * op.inputs[0].elementBytes;
            const Bytes bytes = static_cast<Bytes>(perPart * static_cast<double>(hidden) * op.topK /
                                                   split.tensorParts);
            std::size_t g = 0;
            for (std::uint32_t d = 0; d < split.dataParts; d += split.expertParts)
            {
                for (std::uint32_t t = 0; t < split.tensorParts; ++t, ++g)
                {
                    for (std::vector<Pass>* passes : {&forward, &backward})
                    {
                        Exchange(m_expertGroups[i][g], *passes, split, d, t, bytes, op);
                    }
                }
            }
        }
        for (std::uint32_t d = 0; d < m_tensorGroups[i].size(); ++d)
        {
            const auto out = static_cast<Bytes>(perPart * static_cast<double>(op.outputElements) *
                                                op.outputElementBytes);
            const auto in = static_cast<Bytes>(
                perPart * static_cast<double>(op.inputs[0].elements) * op.inputs[0].elementBytes);
            const bool gather = op.exchange == TensorExchange::AllGather;
            const auto f =
                AddCollective(gather ? CollectiveKind::AllGather : CollectiveKind::AllReduce,
                              m_tensorGroups[i][d],
                              gather ? out / split.tensorParts : out,
                              op.outputElementBytes,
                              m_graph.InternName("tensor fw " + op.label));
            const auto b = AddCollective(CollectiveKind::AllReduce,
                                         m_tensorGroups[i][d],
                                         in,
                                         op.inputs[0].elementBytes,
                                         m_graph.InternName("tensor bw " + op.label));
            for (std::uint32_t t = 0; t < split.tensorParts; ++t)
            {
                Pass& fp = forward[std::size_t{d} * split.tensorParts + t];
                Pass& bp = backward[std::size_t{d} * split.tensorParts + t];
                m_graph.AddDependency(fp.last, f[t]);
                m_graph.AddDependency(bp.last, b[t]);
                fp.last = f[t];
                bp.last = b[t];
            }
        }
    }

    void Exchange(const std::vector<RankId>& members,
                  std::vector<Pass>& passes,
                  const OperatorSplit& split,
                  std::uint32_t data,
                  std::uint32_t tensor,
                  Bytes bytes,
                  const Operator& op)
    {
        const std::uint32_t to = m_graph.InternName("dispatch " + op.label);
        const std::uint32_t from = m_graph.InternName("combine " + op.label);
        const auto before = AddCollective(CollectiveKind::AllToAll, members, bytes, 1, to);
        const auto after = AddCollective(CollectiveKind::AllToAll, members, bytes, 1, from);
        for (std::uint32_t e = 0; e < members.size(); ++e)
        {
            Pass& pass = passes[std::size_t{data + e} * split.tensorParts + tensor];
            m_graph.AddDependency(before[e], pass.first);
            m_graph.AddDependency(pass.compute, after[e]);
            pass.first = before[e];
            pass.last = after[e];
        }
    }

    /** AllReduces of one operator's weights. */
    void Reduce(std::size_t i,
                const std::vector<std::vector<std::vector<Pass>>>& backward,
                std::vector<std::vector<TaskId>>& reduced)
    {
        const Operator& op = m_model.operators[i];
        const OperatorSplit& split = m_strategy.operators[i];
        for (std::size_t w = 0; w < op.parameters.size(); ++w)
        {
            const std::uint32_t name =
                m_graph.InternName("gradient " + op.label + "." + std::to_string(w));
            for (std::uint32_t t = 0; t < split.tensorParts; ++t)
            {
                // Experts: the first two tensors (the matrices) are shared by the group, the rest is
                // on every part.
                const bool sharded = split.expertParts > 1 && w < 2;
                const std::uint32_t step = sharded ? split.expertParts : 1;
                for (std::uint32_t offset = 0; offset < step; ++offset)
                {
                    std::vector<std::uint32_t> parts;
                    for (std::uint32_t d = offset; d < split.dataParts; d += step)
                    {
                        parts.push_back(d);
                    }
                    const Bytes share = std::uint64_t{WeightShards(op, split)} * step;
                    const Bytes bytes = (op.parameters[w] + share - 1) / share;
                    ReduceOver(i, t, parts, bytes, name, backward, reduced);
                }
            }
        }
    }

    void ReduceOver(std::size_t i,
                    std::uint32_t tensor,
                    const std::vector<std::uint32_t>& parts,
                    Bytes bytes,
                    std::uint32_t name,
                    const std::vector<std::vector<std::vector<Pass>>>& backward,
                    std::vector<std::vector<TaskId>>& reduced)
    {
        const Operator& op = m_model.operators[i];
        const OperatorSplit& split = m_strategy.operators[i];
        std::vector<RankId> members;
        for (const std::uint32_t d : parts)
        {
            members.push_back(split.At(d, tensor));
            m_weights[members.back()] += op.IsTable() ? 0.0 : static_cast<double>(bytes);
        }
        const auto backwardOf = [&](std::uint32_t micro, std::uint32_t d) {
            return backward[micro][i][std::size_t{d} * split.tensorParts + tensor].last;
        };
        if (members.size() == 1 && !m_options.flexnet)
        {
            if (op.IsTable())
            {
                return;
            }
            // One holder: with several GPUs it still reduces over them, else there is nothing to do.
            for (std::uint32_t m = 0; m < m_strategy.microBatches; ++m)
            {
                reduced[members[0]].push_back(backwardOf(m, parts[0]));
            }
            return;
        }
        // As the reference's float arithmetic has it: twice the vector over the GPUs of the server.
        const double seconds = op.IsTable() || m_gpusPerRank <= 1
                                   ? 0.0
                                   : IntraSeconds(2.0 * static_cast<double>(bytes) / m_gpusPerRank);
        const auto delay =
            static_cast<SimTime>(static_cast<double>(static_cast<float>(seconds * 1e3)) * 1e9);
        if (m_options.flexnet)
        {
            const TaskId start = AddJoin(members[0], delay, name);
            const auto tasks = AddCollective(CollectiveKind::AllReduce, members, bytes, 4, name);
            for (std::size_t p = 0; p < parts.size(); ++p)
            {
                for (std::uint32_t m = 0; m < m_strategy.microBatches; ++m)
                {
                    m_graph.AddDependency(backwardOf(m, parts[p]), start);
                }
                m_graph.AddDependency(start, tasks[p]);
                reduced[members[p]].push_back(tasks[p]);
            }
            return;
        }
        const auto tasks =
            AddCollective(CollectiveKind::AllReduce, members, bytes, m_model.parameterBytes, name);
        for (std::size_t p = 0; p < parts.size(); ++p)
        {
            const TaskId start = delay > 0 ? AddJoin(members[p], delay, name) : tasks[p];
            for (std::uint32_t m = 0; m < m_strategy.microBatches; ++m)
            {
                m_graph.AddDependency(backwardOf(m, parts[p]), start);
            }
            if (start != tasks[p])
            {
                m_graph.AddDependency(start, tasks[p]);
            }
            reduced[members[p]].push_back(tasks[p]);
        }
    }

    /** Dependencies and messages along one tensor, forward and backward. */
    void Connect(const OperatorInput& input,
                 std::size_t consumer,
                 std::vector<std::vector<Pass>>& forward,
                 std::vector<std::vector<Pass>>& backward)
    {
        const std::size_t producer = input.producer;
        const OperatorSplit& a = m_strategy.operators[producer];
        const OperatorSplit& b = m_strategy.operators[consumer];
        const std::uint64_t perSample = input.elements * input.elementBytes;
        const bool sums = PartialSums(producer);
        const std::uint32_t activations =
            m_graph.InternName("output " + m_model.operators[producer].label);
        const std::uint32_t gradients =
            m_graph.InternName("gradient of " + m_model.operators[producer].label);
        // Only the data parts whose ranges overlap; both lists ascend.
        for (std::uint32_t db = 0; db < b.dataParts; ++db)
        {
            const Range rb = RangeOf(m_samples, b.dataParts, db);
            auto da = static_cast<std::uint32_t>(rb.begin * a.dataParts /
                                                 std::max<std::uint64_t>(1, m_samples));
            for (; da < a.dataParts; ++da)
            {
                const Range ra = RangeOf(m_samples, a.dataParts, da);
                if (ra.begin >= rb.end)
                {
                    break;
                }
                const std::uint64_t low = std::max(ra.begin, rb.begin);
                const std::uint64_t high = std::min(ra.end, rb.end);
                if (low >= high)
                {
                    continue;
                }
                const Bytes bytes = (high - low) * perSample;
                for (std::uint32_t tb = 0; tb < b.tensorParts; ++tb)
                {
                    const RankId to = b.At(db, tb);
                    if (sums)
                    {
                        for (std::uint32_t ta = 0; ta < a.tensorParts; ++ta)
                        {
                            Link(a.At(da, ta),
                                 to,
                                 bytes,
                                 At(forward, producer, da, ta).last,
                                 At(forward, consumer, db, tb).first,
                                 activations);
                        }
                        continue;
                    }
                    const std::uint32_t ta = Nearest(a, da, to, tb);
                    Link(a.At(da, ta),
                         to,
                         bytes,
                         At(forward, producer, da, ta).last,
                         At(forward, consumer, db, tb).first,
                         activations);
                }
                for (std::uint32_t ta = 0; ta < a.tensorParts; ++ta)
                {
                    const RankId to = a.At(da, ta);
                    const std::uint32_t tb = Nearest(b, db, to, ta);
                    Link(b.At(db, tb),
                         to,
                         bytes,
                         At(backward, consumer, db, tb).last,
                         At(backward, producer, da, ta).first,
                         gradients);
                }
            }
        }
    }

    void Link(RankId from, RankId to, Bytes bytes, TaskId before, TaskId after, std::uint32_t name)
    {
        if (from == to)
        {
            m_graph.AddDependency(before, after);
        }
        else
        {
            AddTransfer(from, to, bytes, before, after, name);
        }
    }

    /** 1F1B: each rank alternates between backward and forward passes of its stage's micro-batches. */
    void Order(const std::vector<std::vector<std::vector<Pass>>>& forward,
               const std::vector<std::vector<std::vector<Pass>>>& backward)
    {
        const std::uint32_t micro = m_strategy.microBatches;
        // Operators of a stage that a rank works on, in order.
        std::vector<std::vector<std::vector<std::pair<std::size_t, std::size_t>>>> work(
            m_graph.ranks);
        for (std::size_t i = 0; i < m_model.operators.size(); ++i)
        {
            const OperatorSplit& split = m_strategy.operators[i];
            for (std::size_t p = 0; p < split.ranks.size(); ++p)
            {
                auto& stages = work[split.ranks[p]];
                stages.resize(m_strategy.stages);
                stages[split.stage].emplace_back(i, p);
            }
        }
        for (const auto& stages : work)
        {
            for (std::uint32_t s = 0; s < stages.size(); ++s)
            {
                const auto& parts = stages[s];
                if (parts.empty())
                {
                    continue;
                }
                TaskId last = kNoId;
                const auto pass = [&](bool isBackward, std::uint32_t m) {
                    const auto& passes = isBackward ? backward[m] : forward[m];
                    const auto& head = isBackward ? parts.back() : parts.front();
                    const auto& tail = isBackward ? parts.front() : parts.back();
                    if (last != kNoId)
                    {
                        m_graph.AddDependency(last, passes[head.first][head.second].compute);
                    }
                    last = passes[tail.first][tail.second].compute;
                };
                const std::uint32_t warm = std::min(micro, m_strategy.stages - s);
                for (std::uint32_t m = 0; m < warm; ++m)
                {
                    pass(false, m);
                }
                for (std::uint32_t m = 0; m < micro; ++m)
                {
                    pass(true, m);
                    if (warm + m < micro)
                    {
                        pass(false, warm + m);
                    }
                }
            }
        }
    }

    /** Weight updates, one task per rank, once all of its gradients are reduced. */
    void Step(const std::vector<std::vector<TaskId>>& reduced)
    {
        const std::uint32_t name = m_graph.InternName("optimizer");
        for (RankId rank = 0; rank < m_graph.ranks; ++rank)
        {
            if (reduced[rank].empty())
            {
                continue;
            }
            const TaskId id =
                AddCompute(rank, m_times.OptimizerStep(m_model, m_weights[rank]), name);
            for (const TaskId before : reduced[rank])
            {
                m_graph.AddDependency(before, id);
            }
        }
        std::fill(m_weights.begin(), m_weights.end(), 0.0);
    }

    const Model& m_model;
    const Strategy& m_strategy;
    const ComputeTimes& m_times;
    const BuildOptions& m_options;
    std::uint32_t m_ranksPerServer;
    double m_gpusPerRank;
    std::uint64_t m_samples = 0; ///< of one micro-batch
    TaskGraph m_graph;
    std::vector<Part> m_part;
    std::vector<std::vector<std::vector<RankId>>> m_tensorGroups; ///< those that cross servers
    std::vector<bool> m_together;                                 ///< operators whose groups do not
    std::vector<std::vector<std::vector<RankId>>> m_expertGroups;
    std::map<std::vector<RankId>, std::uint32_t> m_groupOf;
    std::vector<std::uint32_t> m_calls;
    std::vector<double> m_weights; ///< bytes of weights by rank
    std::vector<TaskId> m_used;    ///< tasks of this iteration that its end waits for
    TaskId m_previous = kNoId;
};

} // namespace

TaskGraph
BuildIteration(const Model& model,
               const Strategy& strategy,
               std::uint32_t servers,
               std::uint32_t ranksPerServer,
               std::uint32_t iterations,
               const BuildOptions& options)
{
    if (servers == 0 || ranksPerServer == 0 || iterations == 0 || iterations > 100'000)
    {
        throw SpecError("task graph of " + model.name,
                        "found " + std::to_string(servers) + " servers, " +
                            std::to_string(ranksPerServer) + " ranks each, " +
                            std::to_string(iterations) +
                            " iterations, expected at least one of each and at most 100000 "
                            "iterations");
    }
    CheckStrategy(model, strategy, servers * ranksPerServer);
    std::unique_ptr<ComputeTimes> own;
    if (options.times == nullptr)
    {
        own = std::make_unique<ComputeTimes>(model, options.roots);
    }
    const ComputeTimes& times = own ? *own : *options.times;
    if (model.rankPerGpu && !options.flexnet)
    {
        const auto [fused, split] = Fuse(model, strategy, ranksPerServer);
        return Builder(fused, split, times, options, servers, ranksPerServer).Run(iterations);
    }
    return Builder(model, strategy, times, options, servers, ranksPerServer).Run(iterations);
}

Demand
DemandOf(const TaskGraph& graph, const std::vector<ServerId>& ranksToServers)
{
    ServerId servers = 0;
    for (const ServerId server : ranksToServers)
    {
        servers = std::max(servers, server + 1);
    }
    Demand demand(servers);
    std::map<std::vector<ServerId>, std::size_t> allReduceOf;
    const auto add = [&](ServerId src, ServerId dst, Bytes bytes) {
        if (src != dst)
        {
            demand.At(src, dst) += bytes;
        }
    };
    std::vector<std::vector<ServerId>> serversOf(graph.groups.size());
    std::vector<std::vector<ServerId>> distinctOf(graph.groups.size());
    for (std::size_t g = 0; g < graph.groups.size(); ++g)
    {
        std::vector<std::uint8_t> seen(servers);
        for (const RankId rank : graph.groups[g].members)
        {
            const ServerId server = ranksToServers.at(rank);
            serversOf[g].push_back(server);
            if (seen[server]++ == 0)
            {
                distinctOf[g].push_back(server);
            }
        }
    }
    for (const CollectiveCall& call : graph.collectives)
    {
        const std::vector<RankId>& members = graph.groups[call.group].members;
        const std::size_t n = members.size();
        const std::vector<ServerId>& on = serversOf[call.group];
        const std::vector<ServerId>& distinct = distinctOf[call.group];
        if (distinct.size() < 2)
        {
            continue;
        }
        // Bytes of an AllReduce that loads the links of a ring as much as this does.
        Bytes ring = 0;
        switch (call.kind)
        {
        case CollectiveKind::AllReduce:
            ring = call.bytes;
            break;
        case CollectiveKind::AllGather:
            ring = call.bytes * n / 2;
            break;
        case CollectiveKind::ReduceScatter:
        case CollectiveKind::Reduce:
        case CollectiveKind::Broadcast:
            ring = call.bytes / 2;
            break;
        case CollectiveKind::Gather:
        case CollectiveKind::Scatter:
            for (std::size_t m = 0; m < n; ++m)
            {
                const bool gather = call.kind == CollectiveKind::Gather;
                add(gather ? on[m] : on[call.root], gather ? on[call.root] : on[m], call.bytes);
            }
            continue;
        case CollectiveKind::AllToAll:
            for (std::uint32_t i = 0; i < n; ++i)
            {
                for (std::uint32_t j = 0; j < n; ++j)
                {
                    add(on[i],
                        on[j],
                        PartOf(call.bytes, static_cast<std::uint32_t>(n), j, call.elementBytes));
                }
            }
            continue;
        case CollectiveKind::AllToAllV:
            for (std::size_t i = 0; i < n; ++i)
            {
                for (std::size_t j = 0; j < n; ++j)
                {
                    add(on[i], on[j], call.pairBytes.at(i * n + j));
                }
            }
            continue;
        case CollectiveKind::Barrier:
            continue;
        }
        const auto [at, added] = allReduceOf.emplace(distinct, demand.allReduces.size());
        if (added)
        {
            demand.allReduces.push_back({distinct, 0});
        }
        demand.allReduces[at->second].bytes += ring;
    }
    for (const TransferCall& call : graph.transfers)
    {
        add(ranksToServers.at(call.src), ranksToServers.at(call.dst), call.bytes);
    }
    return demand;
}

} // namespace topoopt
