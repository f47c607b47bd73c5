// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/search-cost.h"

#include "topoopt/core/random.h"

#include <algorithm>
#include <cmath>

namespace topoopt
{

namespace
{

constexpr std::uint32_t kLocal = kNoId;
constexpr std::uint32_t kIntra = kNoId - 1;
/** Paths kept per pair, so that messages of different operators spread over equal ones. */
constexpr std::uint32_t kRouteKeys = 4;

// What an event is: kind, operator, part or group.
enum Kind : std::uint64_t
{
    kForwardReady,
    kForwardDone,
    kForwardOut, ///< outputs are whole again after a tensor collective
    kBackwardReady,
    kBackwardDone,
    kBackwardOut,
    kReduce
};

constexpr std::uint64_t
What(Kind kind, std::uint32_t op, std::uint64_t index)
{
    return static_cast<std::uint64_t>(kind) << 60U | std::uint64_t{op} << 32U | index;
}

} // namespace

IterationEstimator::IterationEstimator(const Model& model,
                                       const ComputeTimes& times,
                                       std::uint32_t servers,
                                       std::uint32_t ranksPerServer,
                                       const EstimateOptions& options)
    : m_model(model),
      m_times(times),
      m_servers(servers),
      m_ranksPerServer(ranksPerServer),
      m_options(options),
      m_gpusPerRank(static_cast<double>(model.servers) * model.gpus /
                    (static_cast<double>(servers) * ranksPerServer)),
      m_operators(model.operators.size()),
      m_inEdges(model.operators.size()),
      m_outEdges(model.operators.size())
{
    for (std::uint32_t i = 0; i < model.operators.size(); ++i)
    {
        for (const OperatorInput& input : model.operators[i].inputs)
        {
            if (input.producer == kNoId)
            {
                continue;
            }
            Edge edge;
            edge.producer = input.producer;
            edge.consumer = i;
            edge.bytesPerSample =
                static_cast<double>(input.elements) * static_cast<double>(input.elementBytes);
            m_inEdges[i].push_back(static_cast<std::uint32_t>(m_edges.size()));
            m_outEdges[input.producer].push_back(static_cast<std::uint32_t>(m_edges.size()));
            m_edges.push_back(std::move(edge));
        }
    }
}

bool
IterationEstimator::Covers(const Strategy& strategy)
{
    return strategy.stages == 1 && strategy.microBatches == 1 &&
           std::all_of(strategy.operators.begin(),
                       strategy.operators.end(),
                       [](const OperatorSplit& split) { return split.expertParts == 1; });
}

void
IterationEstimator::SetFabric(const Fabric& fabric)
{
    const std::vector<Link>& links = fabric.topology.links;
    bool same = m_fabric != nullptr && links.size() == m_links.size();
    for (std::size_t l = 0; same && l < links.size(); ++l)
    {
        same = links[l].src == m_links[l].src && links[l].dst == m_links[l].dst &&
               links[l].rate == m_links[l].rate && links[l].delay == m_links[l].delay;
    }
    m_fabric = &fabric;
    if (same)
    {
        return;
    }
    m_links = links;
    m_perByte.clear();
    m_delay.clear();
    for (const Link& link : links)
    {
        m_perByte.push_back(8e3 / static_cast<double>(link.rate.bps));
        m_delay.push_back(static_cast<double>(link.delay) / 1e9);
    }
    m_paths.clear();
    m_routeOf.assign(std::size_t{m_servers} * m_servers * kRouteKeys, kNoId);
    for (Group& group : m_groups)
    {
        group.known = false;
        group.rings.clear();
    }
    for (Edge& edge : m_edges)
    {
        Resolve(edge);
    }
}

std::uint32_t
IterationEstimator::RouteOf(ServerId src, ServerId dst, std::uint32_t key)
{
    std::uint32_t& index =
        m_routeOf[(std::size_t{src} * m_servers + dst) * kRouteKeys + key % kRouteKeys];
    if (index == kNoId)
    {
        std::unique_lock<std::mutex> lock;
        if (m_options.mutex != nullptr)
        {
            lock = std::unique_lock<std::mutex>(*m_options.mutex);
        }
        Path path = m_fabric->router->Route(src, dst, Mix64(4, key % kRouteKeys));
        // Equal paths share an index, so that the table stays small where there is one way only.
        for (std::uint32_t k = 0; k < kRouteKeys; ++k)
        {
            const std::uint32_t other =
                m_routeOf[(std::size_t{src} * m_servers + dst) * kRouteKeys + k];
            if (other != kNoId && m_paths[other] == path)
            {
                index = other;
                return index;
            }
        }
        index = static_cast<std::uint32_t>(m_paths.size());
        m_paths.push_back(std::move(path));
    }
    return index;
}

std::uint32_t
IterationEstimator::GroupOf(const std::vector<RankId>& members)
{
    const auto [at, added] =
        m_groupOf.emplace(members, static_cast<std::uint32_t>(m_groups.size()));
    if (added)
    {
        Group group;
        group.members = members;
        group.oneServer = std::all_of(members.begin(), members.end(), [&](RankId rank) {
            return ServerOf(rank) == ServerOf(members.front());
        });
        m_groups.push_back(std::move(group));
    }
    return at->second;
}

const std::vector<IterationEstimator::RingUse>&
IterationEstimator::RingsOfGroup(std::uint32_t index)
{
    Group& group = m_groups[index];
    if (group.known)
    {
        return group.rings;
    }
    group.known = true;
    std::vector<ServerId> servers;
    for (const RankId rank : group.members)
    {
        servers.push_back(ServerOf(rank));
    }
    const double packet = static_cast<double>(m_options.wire.OnWire(m_options.wire.payload));
    std::vector<Ring> memberRings;
    {
        std::unique_lock<std::mutex> lock;
        if (m_options.mutex != nullptr)
        {
            lock = std::unique_lock<std::mutex>(*m_options.mutex);
        }
        memberRings = MemberRings(*m_fabric, servers);
    }
    for (const Ring& ring : memberRings)
    {
        RingUse use;
        std::vector<LinkId> links;
        for (std::size_t k = 0; k < ring.order.size(); ++k)
        {
            const ServerId src = servers[ring.order[k]];
            const ServerId dst = servers[ring.order[(k + 1) % ring.order.size()]];
            if (src == dst)
            {
                continue;
            }
            const Path& path = ring.hops.empty() || ring.hops[k].empty()
                                   ? m_paths[RouteOf(src, dst, 0)]
                                   : ring.hops[k];
            double latency = 0;
            for (std::size_t h = 0; h < path.size(); ++h)
            {
                latency += m_delay[path[h]] + (h > 0 ? packet * m_perByte[path[h]] : 0.0);
                if (m_options.wire.setup > 0)
                {
                    latency += m_delay[path[h]];
                }
                links.push_back(path[h]);
                use.maxPerByte = std::max(use.maxPerByte, m_perByte[path[h]]);
            }
            use.latency = std::max(use.latency, latency);
        }
        std::sort(links.begin(), links.end());
        for (const LinkId link : links)
        {
            if (!use.uses.empty() && use.uses.back().link == link)
            {
                ++use.uses.back().times;
            }
            else
            {
                use.uses.push_back({link, 1});
            }
        }
        group.rings.push_back(std::move(use));
    }
    return group.rings;
}

void
IterationEstimator::Set(const Strategy& strategy)
{
    m_strategy = strategy;
    for (std::uint32_t i = 0; i < m_operators.size(); ++i)
    {
        BuildOperator(i);
    }
    for (std::uint32_t e = 0; e < m_edges.size(); ++e)
    {
        BuildEdge(e);
    }
    for (std::uint32_t i = 0; i < m_operators.size(); ++i)
    {
        CountNeeds(i);
    }
}

void
IterationEstimator::Change(std::uint32_t op, const OperatorSplit& split)
{
    m_strategy.operators[op] = split;
    BuildOperator(op);
    for (const std::uint32_t e : m_inEdges[op])
    {
        BuildEdge(e);
    }
    for (const std::uint32_t e : m_outEdges[op])
    {
        BuildEdge(e);
    }
    CountNeeds(op);
    for (const std::uint32_t e : m_inEdges[op])
    {
        CountNeeds(m_edges[e].producer);
    }
    for (const std::uint32_t e : m_outEdges[op])
    {
        CountNeeds(m_edges[e].consumer);
    }
}

void
IterationEstimator::BuildOperator(std::uint32_t i)
{
    const Operator& op = m_model.operators[i];
    const OperatorSplit& split = m_strategy.operators[i];
    OperatorState& state = m_operators[i];
    const auto batch = static_cast<double>(m_model.GlobalBatch());
    const double perPart = batch / split.dataParts;
    const double perGpu = op.IsTable() ? perPart : std::max(1.0, perPart / m_gpusPerRank);
    state.shards = WeightShards(op, split);
    state.forwardMs = static_cast<double>(m_times.Forward(op, perGpu, state.shards)) / 1e9;
    state.backwardMs = static_cast<double>(m_times.Backward(op, perGpu, state.shards)) / 1e9;
    const auto intra = [&](double bytes) {
        return m_options.intraRate.bps == 0
                   ? 0.0
                   : bytes * 8e3 / static_cast<double>(m_options.intraRate.bps);
    };

    state.gradients.clear();
    state.reductionOf.assign(split.ranks.size(), kNoId);
    if (op.ParameterBytes() > 0 && split.dataParts > 1)
    {
        for (std::uint32_t t = 0; t < split.tensorParts; ++t)
        {
            std::vector<RankId> members;
            Reduction reduction;
            for (std::uint32_t d = 0; d < split.dataParts; ++d)
            {
                members.push_back(split.At(d, t));
                const std::uint32_t part = d * split.tensorParts + t;
                reduction.parts.push_back(part);
                state.reductionOf[part] = t;
            }
            const double g = split.dataParts;
            reduction.group = GroupOf(members);
            reduction.bytes = static_cast<double>(op.ParameterBytes()) / state.shards;
            reduction.delay = op.IsTable() || m_gpusPerRank <= 1
                                  ? 0.0
                                  : intra(2 * reduction.bytes / m_gpusPerRank);
            reduction.steps = 2 * (g - 1);
            reduction.share = 1 / g;
            state.gradients.push_back(std::move(reduction));
        }
    }

    state.forwardTensor.clear();
    state.backwardTensor.clear();
    if (op.exchange != TensorExchange::None && state.shards > 1)
    {
        const double g = split.tensorParts;
        const double out = perPart * static_cast<double>(op.outputElements) * op.outputElementBytes;
        const double in =
            perPart * static_cast<double>(op.inputs[0].elements) * op.inputs[0].elementBytes;
        const bool gather = op.exchange == TensorExchange::AllGather;
        for (std::uint32_t d = 0; d < split.dataParts; ++d)
        {
            std::vector<RankId> members;
            Reduction reduction;
            for (std::uint32_t t = 0; t < split.tensorParts; ++t)
            {
                members.push_back(split.At(d, t));
                reduction.parts.push_back(d * split.tensorParts + t);
            }
            reduction.group = GroupOf(members);
            reduction.delay = 0;
            reduction.share = 1 / g;
            reduction.bytes = out;
            reduction.steps = gather ? g - 1 : 2 * (g - 1);
            state.forwardTensor.push_back(reduction);
            reduction.bytes = in;
            reduction.steps = 2 * (g - 1);
            state.backwardTensor.push_back(std::move(reduction));
        }
    }
}

void
IterationEstimator::BuildEdge(std::uint32_t e)
{
    Edge& edge = m_edges[e];
    const OperatorSplit& a = m_strategy.operators[edge.producer];
    const OperatorSplit& b = m_strategy.operators[edge.consumer];
    const std::uint64_t batch = m_model.GlobalBatch();
    const bool sums = m_model.operators[edge.producer].IsTable() && a.tensorParts > 1;
    edge.forward.items.clear();
    edge.backward.items.clear();
    edge.forward.start.assign(1, 0);
    edge.backward.start.assign(1, 0);

    const auto nearest =
        [&](const OperatorSplit& split, std::uint32_t data, RankId rank, std::uint32_t tensor) {
            std::uint32_t neighbour = kNoId;
            for (std::uint32_t t = 0; t < split.tensorParts; ++t)
            {
                const RankId at = split.At(data, t);
                if (at == rank)
                {
                    return t;
                }
                if (ServerOf(at) == ServerOf(rank) && (neighbour == kNoId || t == tensor))
                {
                    neighbour = t;
                }
            }
            return neighbour != kNoId ? neighbour : tensor % split.tensorParts;
        };
    /** Calls @p visit(data part of @p other, bytes) for those that overlap part @p d of @p mine. */
    const auto overlaps = [&](const OperatorSplit& mine,
                              std::uint32_t d,
                              const OperatorSplit& other,
                              const auto& visit) {
        const std::uint64_t low = batch * d / mine.dataParts;
        const std::uint64_t high = batch * (d + 1) / mine.dataParts;
        auto o = static_cast<std::uint32_t>(low * other.dataParts / batch);
        for (; o < other.dataParts; ++o)
        {
            const std::uint64_t from = std::max(low, batch * o / other.dataParts);
            const std::uint64_t to = std::min(high, batch * (o + 1) / other.dataParts);
            if (batch * o / other.dataParts >= high)
            {
                break;
            }
            if (from < to)
            {
                visit(o, static_cast<double>(to - from) * edge.bytesPerSample);
            }
        }
    };
    const auto add = [&](Fan& fan, RankId from, RankId to, std::uint32_t part, double bytes) {
        Dependency item{part, kLocal, bytes, 0};
        if (from != to)
        {
            item.route = kIntra; // or a path, once the fabric is asked
            item.wire = static_cast<double>(m_options.wire.OnWire(static_cast<Bytes>(bytes)));
        }
        fan.items.push_back(item);
    };
    // Who each consumer part reads from, then sorted by producer part; and the mirror for gradients.
    for (std::uint32_t da = 0; da < a.dataParts; ++da)
    {
        for (std::uint32_t ta = 0; ta < a.tensorParts; ++ta)
        {
            overlaps(a, da, b, [&](std::uint32_t db, double bytes) {
                for (std::uint32_t tb = 0; tb < b.tensorParts; ++tb)
                {
                    const RankId to = b.At(db, tb);
                    if (sums || nearest(a, da, to, tb) == ta)
                    {
                        add(edge.forward, a.At(da, ta), to, db * b.tensorParts + tb, bytes);
                    }
                }
            });
            edge.forward.start.push_back(static_cast<std::uint32_t>(edge.forward.items.size()));
        }
    }
    for (std::uint32_t db = 0; db < b.dataParts; ++db)
    {
        for (std::uint32_t tb = 0; tb < b.tensorParts; ++tb)
        {
            overlaps(b, db, a, [&](std::uint32_t da, double bytes) {
                for (std::uint32_t ta = 0; ta < a.tensorParts; ++ta)
                {
                    const RankId to = a.At(da, ta);
                    if (nearest(b, db, to, ta) == tb)
                    {
                        add(edge.backward, b.At(db, tb), to, da * a.tensorParts + ta, bytes);
                    }
                }
            });
            edge.backward.start.push_back(static_cast<std::uint32_t>(edge.backward.items.size()));
        }
    }
    if (m_fabric != nullptr)
    {
        Resolve(edge);
    }
}

void
IterationEstimator::Resolve(Edge& edge)
{
    if (m_strategy.operators.empty())
    {
        return;
    }
    const OperatorSplit& a = m_strategy.operators[edge.producer];
    const OperatorSplit& b = m_strategy.operators[edge.consumer];
    const auto resolve =
        [&](Fan& fan, const OperatorSplit& from, const OperatorSplit& to, std::uint32_t key) {
            for (std::size_t p = 0; p + 1 < fan.start.size(); ++p)
            {
                const ServerId src = ServerOf(from.ranks[p]);
                for (std::uint32_t k = fan.start[p]; k < fan.start[p + 1]; ++k)
                {
                    Dependency& item = fan.items[k];
                    const ServerId dst = ServerOf(to.ranks[item.part]);
                    if (item.route != kLocal)
                    {
                        item.route = src == dst ? kIntra : RouteOf(src, dst, key);
                    }
                }
            }
        };
    resolve(edge.forward, a, b, edge.producer);
    resolve(edge.backward, b, a, edge.producer + 1);
}

void
IterationEstimator::CountNeeds(std::uint32_t op)
{
    OperatorState& state = m_operators[op];
    const std::size_t parts = m_strategy.operators[op].ranks.size();
    state.forwardNeeds.assign(parts, 0);
    state.backwardNeeds.assign(parts, 1); // its own forward pass
    for (const std::uint32_t e : m_inEdges[op])
    {
        for (const Dependency& item : m_edges[e].forward.items)
        {
            ++state.forwardNeeds[item.part];
        }
    }
    for (const std::uint32_t e : m_outEdges[op])
    {
        for (const Dependency& item : m_edges[e].backward.items)
        {
            ++state.backwardNeeds[item.part];
        }
    }
}

double
IterationEstimator::Send(double now, std::uint32_t route, double bytes, double wire)
{
    if (route == kLocal)
    {
        return now;
    }
    if (route == kIntra)
    {
        return now + (m_options.intraRate.bps == 0
                          ? 0.0
                          : bytes * 8e3 / static_cast<double>(m_options.intraRate.bps));
    }
    // All hops at once, as a ring does: reserving them one after the other would leave gaps on later
    // hops that nothing could fill any more.
    const double packet =
        std::min(wire, static_cast<double>(m_options.wire.payload + m_options.wire.overhead));
    double last = now;
    double latency = 0;
    for (const LinkId link : m_paths[route])
    {
        m_free[link] = std::max(now, m_free[link]) + wire * m_perByte[link];
        last = std::max(last, m_free[link]);
        latency += m_delay[link] + packet * m_perByte[link];
    }
    return last + latency - packet * m_perByte[m_paths[route].front()];
}

double
IterationEstimator::Occupy(double now, const Reduction& reduction, double fraction)
{
    const std::vector<RingUse>& rings = RingsOfGroup(reduction.group);
    const auto count = static_cast<double>(rings.size());
    double last = now;
    for (const RingUse& ring : rings)
    {
        const double chunk = static_cast<double>(m_options.wire.OnWire(
            static_cast<Bytes>(std::ceil(reduction.bytes * reduction.share / count))));
        const double bytes = chunk * reduction.steps * fraction;
        double end = now + (chunk * ring.maxPerByte + ring.latency) * reduction.steps * fraction;
        for (const LinkUse& use : ring.uses)
        {
            const double start = std::max(now, m_free[use.link]);
            m_free[use.link] = start + bytes * use.times * m_perByte[use.link];
            end = std::max(end, m_free[use.link]);
        }
        last = std::max(last, end);
    }
    return last;
}

double
IterationEstimator::AloneMs(const Reduction& reduction)
{
    if (m_groups[reduction.group].oneServer)
    {
        return 0;
    }
    double perByte = 0;
    const std::vector<RingUse>& rings = RingsOfGroup(reduction.group);
    for (const RingUse& ring : rings)
    {
        perByte = std::max(perByte, ring.maxPerByte);
    }
    return reduction.bytes * reduction.share * reduction.steps * perByte /
           static_cast<double>(rings.size());
}

double
IterationEstimator::Run()
{
    const auto count = static_cast<std::uint32_t>(m_operators.size());
    std::uint32_t parts = 0;
    for (OperatorState& state : m_operators)
    {
        state.first = parts;
        parts += static_cast<std::uint32_t>(state.forwardNeeds.size());
    }
    m_free.assign(m_perByte.size(), 0.0);
    m_rankFree.assign(std::size_t{m_servers} * m_ranksPerServer, 0.0);
    m_forwardLeft.resize(parts);
    m_backwardLeft.resize(parts);
    m_forwardReady.assign(parts, 0.0);
    m_backwardReady.assign(parts, 0.0);
    m_gradientLeft.resize(count);
    m_tensorLeft.resize(count);
    m_heap.clear();
    // Chunks small enough to let others through, but not more than a few hundred in all.
    double reducing = 0;
    for (const OperatorState& state : m_operators)
    {
        for (const Reduction& gradient : state.gradients)
        {
            reducing += AloneMs(gradient);
        }
    }
    const double chunkMs = std::max(m_options.chunkMs, reducing / 200);
    for (std::uint32_t i = 0; i < count; ++i)
    {
        const OperatorState& state = m_operators[i];
        std::copy(state.forwardNeeds.begin(),
                  state.forwardNeeds.end(),
                  m_forwardLeft.begin() + state.first);
        std::copy(state.backwardNeeds.begin(),
                  state.backwardNeeds.end(),
                  m_backwardLeft.begin() + state.first);
        m_gradientLeft[i].clear();
        for (const Reduction& reduction : state.gradients)
        {
            m_gradientLeft[i].push_back(static_cast<std::uint32_t>(reduction.parts.size()));
        }
        // Forward and backward counters of tensor groups, one behind the other.
        m_tensorLeft[i].assign(2 * state.forwardTensor.size(), m_strategy.operators[i].tensorParts);
        for (std::uint32_t p = 0; p < state.forwardNeeds.size(); ++p)
        {
            if (state.forwardNeeds[p] == 0)
            {
                m_heap.push_back({0.0, What(kForwardReady, i, p)});
            }
        }
    }
    std::make_heap(m_heap.begin(), m_heap.end());
    const auto push = [&](double time, std::uint64_t what) {
        m_heap.push_back({time, what});
        std::push_heap(m_heap.begin(), m_heap.end());
    };
    double finish = 0;
    const auto forwardOut = [&](std::uint32_t op, std::uint32_t part, double now) {
        for (const std::uint32_t e : m_outEdges[op])
        {
            const Edge& edge = m_edges[e];
            const std::uint32_t base = m_operators[edge.consumer].first;
            for (std::uint32_t k = edge.forward.start[part]; k < edge.forward.start[part + 1]; ++k)
            {
                const Dependency& item = edge.forward.items[k];
                const std::uint32_t at = base + item.part;
                m_forwardReady[at] =
                    std::max(m_forwardReady[at], Send(now, item.route, item.bytes, item.wire));
                if (--m_forwardLeft[at] == 0)
                {
                    push(m_forwardReady[at], What(kForwardReady, edge.consumer, item.part));
                }
            }
        }
    };
    const auto backwardOut = [&](std::uint32_t op, std::uint32_t part, double now) {
        for (const std::uint32_t e : m_inEdges[op])
        {
            const Edge& edge = m_edges[e];
            const std::uint32_t base = m_operators[edge.producer].first;
            for (std::uint32_t k = edge.backward.start[part]; k < edge.backward.start[part + 1];
                 ++k)
            {
                const Dependency& item = edge.backward.items[k];
                const std::uint32_t at = base + item.part;
                m_backwardReady[at] =
                    std::max(m_backwardReady[at], Send(now, item.route, item.bytes, item.wire));
                if (--m_backwardLeft[at] == 0)
                {
                    push(m_backwardReady[at], What(kBackwardReady, edge.producer, item.part));
                }
            }
        }
    };
    while (!m_heap.empty())
    {
        std::pop_heap(m_heap.begin(), m_heap.end());
        const Event event = m_heap.back();
        m_heap.pop_back();
        const double now = event.time;
        const auto kind = static_cast<Kind>(event.what >> 60U);
        const auto op = static_cast<std::uint32_t>(event.what >> 32U & 0x0fffffffU);
        const auto index = static_cast<std::uint32_t>(event.what);
        const OperatorState& state = m_operators[op];
        const OperatorSplit& split = m_strategy.operators[op];
        switch (kind)
        {
        case kForwardReady:
        case kBackwardReady:
        {
            double& free = m_rankFree[split.ranks[index]];
            free =
                std::max(free, now) + (kind == kForwardReady ? state.forwardMs : state.backwardMs);
            push(free, What(kind == kForwardReady ? kForwardDone : kBackwardDone, op, index));
            break;
        }
        case kForwardDone:
        {
            finish = std::max(finish, now);
            if (--m_backwardLeft[state.first + index] == 0)
            {
                push(std::max(now, m_backwardReady[state.first + index]),
                     What(kBackwardReady, op, index));
            }
            if (state.forwardTensor.empty())
            {
                forwardOut(op, index, now);
            }
            else
            {
                const std::uint32_t group = index / split.tensorParts;
                if (--m_tensorLeft[op][group] == 0)
                {
                    push(Occupy(now, state.forwardTensor[group], 1.0),
                         What(kForwardOut, op, group));
                }
            }
            break;
        }
        case kForwardOut:
            for (const std::uint32_t part : state.forwardTensor[index].parts)
            {
                forwardOut(op, part, now);
            }
            break;
        case kBackwardDone:
        {
            finish = std::max(finish, now);
            const std::uint32_t reduction = state.reductionOf[index];
            if (reduction != kNoId && --m_gradientLeft[op][reduction] == 0)
            {
                const Reduction& gradient = state.gradients[reduction];
                push(now + gradient.delay, What(kReduce, op, reduction));
            }
            if (state.backwardTensor.empty())
            {
                backwardOut(op, index, now);
            }
            else
            {
                const std::uint32_t group = index / split.tensorParts;
                const std::size_t at = state.forwardTensor.size() + group;
                if (--m_tensorLeft[op][at] == 0)
                {
                    push(Occupy(now, state.backwardTensor[group], 1.0),
                         What(kBackwardOut, op, group));
                }
            }
            break;
        }
        case kBackwardOut:
            for (const std::uint32_t part : state.backwardTensor[index].parts)
            {
                backwardOut(op, part, now);
            }
            break;
        case kReduce:
        {
            // The low half of the index counts reductions, the high half chunks already done.
            const std::uint32_t which = index & 0xffffU;
            const std::uint32_t done = index >> 16U;
            const Reduction& gradient = state.gradients[which];
            if (m_groups[gradient.group].oneServer)
            {
                finish = std::max(finish, now);
                break;
            }
            const auto chunks = static_cast<std::uint32_t>(
                m_options.flexnet ? 1.0
                                  : std::clamp(std::ceil(AloneMs(gradient) / chunkMs), 1.0, 64.0));
            const double end = Occupy(now, gradient, 1.0 / chunks);
            if (done + 1 < chunks)
            {
                push(end, What(kReduce, op, (done + 1) << 16U | which));
            }
            finish = std::max(finish, end);
            break;
        }
        }
    }
    return finish;
}

Demand
IterationEstimator::CurrentDemand() const
{
    Demand demand(m_servers);
    std::map<std::vector<ServerId>, std::size_t> at;
    const auto reduce = [&](const Reduction& reduction) {
        const Group& group = m_groups[reduction.group];
        if (group.oneServer)
        {
            return;
        }
        std::vector<ServerId> servers;
        for (const RankId rank : group.members)
        {
            if (std::find(servers.begin(), servers.end(), ServerOf(rank)) == servers.end())
            {
                servers.push_back(ServerOf(rank));
            }
        }
        const auto [found, added] = at.emplace(servers, demand.allReduces.size());
        if (added)
        {
            demand.allReduces.push_back({servers, 0});
        }
        const double g = static_cast<double>(group.members.size());
        // As bytes of an AllReduce, which makes 2 (g-1) steps.
        demand.allReduces[found->second].bytes +=
            static_cast<Bytes>(std::llround(reduction.bytes * reduction.steps / (2 * (g - 1))));
    };
    for (const OperatorState& state : m_operators)
    {
        for (const auto* list : {&state.gradients, &state.forwardTensor, &state.backwardTensor})
        {
            for (const Reduction& reduction : *list)
            {
                reduce(reduction);
            }
        }
    }
    for (const Edge& edge : m_edges)
    {
        const OperatorSplit& a = m_strategy.operators[edge.producer];
        const OperatorSplit& b = m_strategy.operators[edge.consumer];
        const auto count = [&](const Fan& fan, const OperatorSplit& from, const OperatorSplit& to) {
            for (std::size_t p = 0; p + 1 < fan.start.size(); ++p)
            {
                for (std::uint32_t k = fan.start[p]; k < fan.start[p + 1]; ++k)
                {
                    const ServerId src = ServerOf(from.ranks[p]);
                    const ServerId dst = ServerOf(to.ranks[fan.items[k].part]);
                    if (src != dst)
                    {
                        demand.At(src, dst) += static_cast<Bytes>(fan.items[k].bytes);
                    }
                }
            }
        };
        count(edge.forward, a, b);
        count(edge.backward, b, a);
    }
    return demand;
}

} // namespace topoopt
