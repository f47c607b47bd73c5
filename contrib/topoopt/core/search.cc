// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/search.h"

#include "topoopt/core/error.h"
#include "topoopt/core/yaml-document.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace topoopt
{

SearchSpace::SearchSpace(const Model& model,
                         const ComputeTimes& times,
                         std::uint32_t ranks,
                         const SearchOptions& options)
    : m_model(model),
      m_ranks(ranks),
      m_flexnet(options.flexnet),
      m_shapes(model.operators.size()),
      m_neighbours(model.operators.size())
{
    const double gpusPerRank = static_cast<double>(model.servers) * model.gpus / ranks;
    const auto batch = static_cast<double>(model.GlobalBatch());
    const std::vector<std::uint32_t> divisors = DivisorsOf(ranks);
    for (std::uint32_t i = 0; i < model.operators.size(); ++i)
    {
        const Operator& op = model.operators[i];
        (op.IsTable() ? m_tables : m_others).push_back(i);
        if (op.IsTable())
        {
            m_shapes[i].push_back({1, 1});
            for (const std::uint32_t parts : divisors)
            {
                if (options.tensor && !m_flexnet && parts > 1 && parts <= op.maxTensorParts)
                {
                    m_shapes[i].push_back({1, parts});
                }
            }
        }
        else
        {
            const std::vector<MeasuredPoint>* rows = times.Measured(op);
            for (const std::uint32_t data : divisors)
            {
                if (model.GlobalBatch() % data != 0)
                {
                    continue;
                }
                // The reference only knows part counts that were measured.
                const double samples = batch / data / gpusPerRank;
                const bool measured =
                    rows == nullptr ||
                    std::any_of(rows->begin(), rows->end(), [&](const MeasuredPoint& point) {
                        return point.samples == samples;
                    });
                if (measured || !m_flexnet)
                {
                    m_shapes[i].push_back({data, 1});
                }
                for (const std::uint32_t tensor : divisors)
                {
                    if (options.tensor && !m_flexnet && tensor > 1 && data * tensor <= ranks &&
                        ranks % (data * tensor) == 0 && op.exchange != TensorExchange::None &&
                        tensor <= op.maxTensorParts)
                    {
                        m_shapes[i].push_back({data, tensor});
                    }
                }
            }
        }
        for (const OperatorInput& input : op.inputs)
        {
            if (input.producer != kNoId)
            {
                const double bytes = batch * static_cast<double>(input.elements) *
                                     static_cast<double>(input.elementBytes);
                m_neighbours[i].emplace_back(input.producer, bytes);
                m_neighbours[input.producer].emplace_back(i, bytes);
            }
        }
    }
    // Branches: maximal chains in which every operator but the first reads only the one before.
    std::vector<std::vector<std::uint32_t>> consumers(model.operators.size());
    for (std::uint32_t i = 0; i < model.operators.size(); ++i)
    {
        for (const OperatorInput& input : model.operators[i].inputs)
        {
            if (input.producer != kNoId &&
                (consumers[input.producer].empty() || consumers[input.producer].back() != i))
            {
                consumers[input.producer].push_back(i);
            }
        }
    }
    const auto follows = [&](std::uint32_t i) {
        const std::vector<OperatorInput>& inputs = model.operators[i].inputs;
        return inputs.size() == 1 && inputs[0].producer != kNoId &&
               !model.operators[inputs[0].producer].IsTable() &&
               consumers[inputs[0].producer].size() == 1;
    };
    for (const std::uint32_t i : m_others)
    {
        if (follows(i))
        {
            continue;
        }
        std::vector<std::uint32_t> branch{i};
        while (consumers[branch.back()].size() == 1 && follows(consumers[branch.back()][0]))
        {
            branch.push_back(consumers[branch.back()][0]);
        }
        m_branches.push_back(std::move(branch));
    }
}

OperatorSplit
SearchSpace::Random(std::uint32_t op, Rng& rng) const
{
    const std::vector<Shape>& shapes = m_shapes[op];
    const Shape shape = shapes[rng.Below(shapes.size())];
    const std::uint32_t parts = shape.dataParts * shape.tensorParts;
    // Tables have always been on single servers anywhere.
    const bool block = !m_flexnet && rng.Below(3) == 0;
    const PlacementRule rule = block ? PlacementRule::Block : PlacementRule::Stride;
    OperatorSplit split;
    split.dataParts = shape.dataParts;
    split.tensorParts = shape.tensorParts;
    split.ranks =
        PlaceParts(rule,
                   m_ranks,
                   parts,
                   static_cast<std::uint32_t>(rng.Below(PlacementStarts(rule, m_ranks, parts))));
    return split;
}

bool
SearchSpace::Adopts(std::uint32_t op, const OperatorSplit& split) const
{
    if (m_model.operators[op].IsTable())
    {
        return false;
    }
    return std::any_of(m_shapes[op].begin(), m_shapes[op].end(), [&](const Shape& shape) {
        return shape.dataParts == split.dataParts && shape.tensorParts == split.tensorParts;
    });
}

SearchMove
SearchSpace::Propagate(const Strategy& strategy, Rng& rng) const
{
    SearchMove move;
    auto op = static_cast<std::uint32_t>(rng.Below(m_model.operators.size()));
    if (m_model.operators[op].IsTable())
    {
        return move;
    }
    const OperatorSplit split = strategy.operators[op];
    std::vector<bool> seen(m_model.operators.size());
    seen[op] = true;
    do
    {
        double total = 0;
        for (const auto& [next, bytes] : m_neighbours[op])
        {
            total += !seen[next] && Adopts(next, split) ? bytes : 0.0;
        }
        if (total <= 0)
        {
            break;
        }
        double at = rng.Uniform() * total;
        std::uint32_t chosen = kNoId;
        for (const auto& [next, bytes] : m_neighbours[op])
        {
            if (!seen[next] && Adopts(next, split))
            {
                chosen = next;
                at -= bytes;
                if (at < 0)
                {
                    break;
                }
            }
        }
        seen[chosen] = true;
        move.emplace_back(chosen, split);
        op = chosen;
    } while (rng.Uniform() < 0.75);
    return move;
}

SearchMove
SearchSpace::Propose(const Strategy& strategy, Rng& rng) const
{
    const auto count = static_cast<std::uint32_t>(m_model.operators.size());
    if (rng.Uniform() < 0.25)
    {
        return Propagate(strategy, rng);
    }
    if (m_flexnet)
    {
        const auto op = static_cast<std::uint32_t>(rng.Below(count));
        return op + 1 == count ? SearchMove{} : SearchMove{{op, Random(op, rng)}};
    }
    const double kind = rng.Uniform();
    if (kind < 0.2 && m_tables.size() > 1)
    {
        // Two tables trade places, or one moves to a server without any.
        const std::uint32_t a = m_tables[rng.Below(m_tables.size())];
        const std::uint32_t b = m_tables[rng.Below(m_tables.size())];
        if (rng.Below(2) == 0)
        {
            return {{a, strategy.operators[b]}, {b, strategy.operators[a]}};
        }
        std::vector<std::uint32_t> load(m_ranks);
        for (const std::uint32_t table : m_tables)
        {
            for (const RankId rank : strategy.operators[table].ranks)
            {
                ++load[rank];
            }
        }
        std::vector<RankId> least;
        const std::uint32_t minimum = *std::min_element(load.begin(), load.end());
        for (RankId rank = 0; rank < m_ranks; ++rank)
        {
            if (load[rank] == minimum)
            {
                least.push_back(rank);
            }
        }
        OperatorSplit split;
        split.ranks = {least[rng.Below(least.size())]};
        return {{a, split}};
    }
    if (kind < 0.4 && m_others.size() > 1)
    {
        // A run of operators, alike.
        const std::size_t from = rng.Below(m_others.size());
        const OperatorSplit split = Random(m_others[from], rng);
        SearchMove move;
        for (std::size_t k = from; k < m_others.size(); ++k)
        {
            if (k > from && (!Adopts(m_others[k], split) || rng.Uniform() < 0.2))
            {
                break;
            }
            move.emplace_back(m_others[k], split);
        }
        return move;
    }
    if (kind < 0.6 && m_branches.size() > 1)
    {
        // A whole branch; operators that cannot be split so far stay as they are.
        const std::vector<std::uint32_t>& branch = m_branches[rng.Below(m_branches.size())];
        const OperatorSplit split = Random(branch[rng.Below(branch.size())], rng);
        SearchMove move;
        for (const std::uint32_t op : branch)
        {
            if (Adopts(op, split))
            {
                move.emplace_back(op, split);
            }
        }
        return move;
    }
    const auto op = static_cast<std::uint32_t>(rng.Below(count));
    return {{op, Random(op, rng)}};
}

SearchMove
SearchSpace::ProposeCoarse(const Strategy& strategy, Rng& rng) const
{
    SearchMove move;
    const auto give = [&](const std::vector<std::uint32_t>& branch, const OperatorSplit& split) {
        for (const std::uint32_t op : branch)
        {
            if (Adopts(op, split))
            {
                move.emplace_back(op, split);
            }
        }
    };
    const double kind = rng.Uniform();
    if (kind < 0.2 || m_branches.empty())
    {
        return Propose(strategy, rng);
    }
    if (kind < 0.6 || m_branches.size() == 1)
    {
        const std::vector<std::uint32_t>& branch = m_branches[rng.Below(m_branches.size())];
        give(branch, Random(branch[rng.Below(branch.size())], rng));
        return move;
    }
    const std::vector<std::uint32_t> divisors = DivisorsOf(m_ranks);
    const std::uint32_t size = divisors[rng.Below(divisors.size())];
    const std::uint32_t groups = m_ranks / size;
    const PlacementRule rule = rng.Below(2) == 0 ? PlacementRule::Block : PlacementRule::Stride;
    std::vector<std::uint32_t> order(groups);
    for (std::uint32_t g = 0; g < groups; ++g)
    {
        order[g] = g;
    }
    rng.Shuffle(order);
    const std::size_t count = m_branches.size() - (rng.Below(4) == 0 ? 0 : 1);
    for (std::size_t b = 0; b < count; ++b)
    {
        OperatorSplit split;
        split.dataParts = size;
        const std::uint32_t group = order[b % groups];
        split.ranks =
            PlaceParts(rule, m_ranks, size, rule == PlacementRule::Block ? group * size : group);
        give(m_branches[b], split);
    }
    return move;
}

std::vector<OperatorSplit>
SearchSpace::All(std::uint32_t op) const
{
    std::vector<OperatorSplit> out;
    for (const Shape& shape : m_shapes[op])
    {
        const std::uint32_t parts = shape.dataParts * shape.tensorParts;
        for (const PlacementRule rule : {PlacementRule::Stride, PlacementRule::Block})
        {
            if (m_flexnet && rule == PlacementRule::Block)
            {
                continue;
            }
            for (std::uint32_t start = 0; start < PlacementStarts(rule, m_ranks, parts); ++start)
            {
                OperatorSplit split;
                split.dataParts = shape.dataParts;
                split.tensorParts = shape.tensorParts;
                split.ranks = PlaceParts(rule, m_ranks, parts, start);
                if (std::find(out.begin(), out.end(), split) == out.end())
                {
                    out.push_back(std::move(split));
                }
            }
        }
    }
    return out;
}

void
SearchResult::Take(SearchStep step)
{
    strategy = step.strategy;
    fabric = step.fabric;
    demand = step.demand;
    confirmedMs = step.confirmedMs;
    estimateMs = step.estimateMs;
    steps.push_back(std::move(step));
}

std::string
DescribeTopology(const Topology& topology)
{
    const std::uint32_t n = topology.servers;
    if (topology.NodeCount() != n || n < 2)
    {
        return "";
    }
    // Directed links by displacement; a full ring of displacement p has one from every server.
    std::map<std::uint32_t, std::vector<std::uint32_t>> from;
    for (const Link& link : topology.links)
    {
        const std::uint32_t jump = (link.dst + n - link.src) % n;
        auto& count = from[jump];
        count.resize(n);
        ++count[link.src];
    }
    std::string out;
    std::size_t rest = 0;
    for (const auto& [jump, count] : from)
    {
        if (jump > n - jump)
        {
            continue; // the other direction of a ring already named
        }
        const std::uint32_t rings = *std::min_element(count.begin(), count.end());
        for (std::uint32_t r = 0; r < rings; ++r)
        {
            out += (out.empty() ? "+-" : " +-") + std::to_string(jump);
        }
        for (const std::uint32_t links : count)
        {
            rest += links - rings;
        }
    }
    if (rest > 0)
    {
        out += (out.empty() ? "" : " and ") + std::to_string(rest) + " other cables";
    }
    return out;
}

double
ConfirmedMs(const SearchProblem& problem, const Strategy& strategy, const Fabric& fabric)
{
    if (problem.confirm)
    {
        return problem.confirm(strategy, fabric);
    }
    BuildOptions build;
    build.flexnet = problem.estimate.flexnet;
    build.intraRate = problem.estimate.intraRate;
    build.times = problem.times;
    const TaskGraph graph =
        BuildIteration(*problem.model, strategy, problem.servers, problem.ranksPerServer, 1, build);
    FlowSimOptions options;
    options.wire = problem.estimate.wire;
    options.intraRate = problem.estimate.intraRate;
    options.quantum = 20 * kMicrosecond;
    options.recordFlows = false;
    return static_cast<double>(SimulateFlows(graph, fabric, options).finish) / 1e9;
}

SearchOptions
ReadSearchOptions(const std::map<std::string, std::string>& strategy,
                  std::uint64_t seed,
                  const std::string& place)
{
    SearchOptions options;
    options.seed = seed;
    const auto fail = [&](const std::string& key,
                          const std::string& text,
                          const std::string& want) {
        throw SpecError(place,
                        "strategy." + key + ": found '" + Printable(text) + "', expected " + want);
    };
    const auto count =
        [&](const char* key, std::uint32_t least, std::uint32_t most, std::uint32_t& out) {
            const auto found = strategy.find(key);
            if (found == strategy.end())
            {
                return;
            }
            char* end = nullptr;
            const unsigned long long value = std::strtoull(found->second.c_str(), &end, 10);
            if (found->second.empty() || found->second[0] < '0' || found->second[0] > '9' ||
                *end != '\0' || value < least || value > most)
            {
                fail(key,
                     found->second,
                     "a whole number in " + std::to_string(least) + ".." + std::to_string(most));
            }
            out = static_cast<std::uint32_t>(value);
        };
    const auto real = [&](const char* key, double& out) {
        const auto found = strategy.find(key);
        if (found == strategy.end())
        {
            return;
        }
        char* end = nullptr;
        const double value = std::strtod(found->second.c_str(), &end);
        if (found->second.empty() || *end != '\0' || !(value > 0 && value < 1e6))
        {
            fail(key, found->second, "a positive number");
        }
        out = value;
    };
    const auto choice = [&](const char* key, const std::vector<std::string>& allowed) {
        const auto found = strategy.find(key);
        if (found == strategy.end())
        {
            return std::string();
        }
        if (std::find(allowed.begin(), allowed.end(), found->second) == allowed.end())
        {
            std::string list;
            for (const std::string& name : allowed)
            {
                list += (list.empty() ? "" : ", ") + name;
            }
            fail(key, found->second, "one of " + list + DidYouMean(found->second, allowed));
        }
        return found->second;
    };
    options.fixedTopology = choice("search", {"mcmc", "alternating"}) == "mcmc";
    options.flexnet = choice("compat", {"none", "flexnet"}) == "flexnet";
    options.ignoreMemory = choice("memory", {"check", "ignore"}) == "ignore" || options.flexnet;
    const std::string confirm = choice("confirm", {"final", "rounds", "none"});
    options.confirm = confirm == "rounds" ? SearchConfirm::Rounds
                      : confirm == "none" ? SearchConfirm::None
                                          : SearchConfirm::Final;
    count("budget", 0, 10'000'000, options.budget);
    count("restarts", 1, 1000, options.restarts);
    count("threads", 1, 256, options.threads);
    count("rounds", 1, 1000, options.rounds);
    real("alpha", options.alpha);
    real("temperature", options.temperature);
    return options;
}

} // namespace topoopt
