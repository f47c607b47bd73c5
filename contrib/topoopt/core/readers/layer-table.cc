// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/error.h"
#include "topoopt/core/readers/readers.h"
#include "topoopt/core/readers/words.h"

#include <algorithm>
#include <array>

namespace topoopt
{

namespace
{

constexpr std::array<const char*, 13> kPolicies{"HYBRID_TRANSFORMER_FWD_IN_BCKWD",
                                                "HYBRID_TRANSFORMER",
                                                "DATA",
                                                "MODEL",
                                                "HYBRID_DATA_MODEL",
                                                "HYBRID_MODEL_DATA",
                                                "HYBRID_CUSTOMIZED",
                                                "HYBRID_DLRM",
                                                "HYBRID_DLRM_ENHANCED",
                                                "MICRO",
                                                "DISTRIBUTED_INFERENCE",
                                                "HYBRID",
                                                "TRANSFORMER"};

bool
IsPolicy(const std::string& word)
{
    return std::any_of(kPolicies.begin(), kPolicies.end(), [&word](const char* known) {
        return word == known;
    });
}

/** Which ranks a communication spans. */
enum class Span : std::uint8_t
{
    World,
    Tensor,
    Data,
    Expert,
    ExpertData
};

struct Phase
{
    std::uint64_t computeNs = 0;
    bool communicates = false;
    CollectiveKind kind = CollectiveKind::AllReduce;
    Span span = Span::World;
    Bytes bytes = 0;
};

struct Layer
{
    std::string name;
    Phase forward;
    Phase inputGradient;
    Phase weightGradient;
    std::uint64_t updateNs = 0;
};

/** ASTRA-sim 1.0 and SimAI tables (docs/traces.md 1.8, docs/peers.md A.3.6). */
class LayerTable
{
  public:
    LayerTable(const TraceFile& file, const TraceOptions& options, TraceSet& set)
        : m_words(file),
          m_options(options),
          m_set(set)
    {
    }

    void Load()
    {
        m_words.Next();
        Policy();
        if (!m_words.Next())
        {
            throw SpecError(m_words.File(),
                            "found the end of the file, expected the number of layers");
        }
        const std::uint64_t count = m_words.Number(0, "the number of layers", 0, 10000000);
        while (m_layers.size() < count && m_words.Next())
        {
            ReadLayer();
        }
        if (m_layers.size() < count)
        {
            throw SpecError(m_words.File(),
                            "found " + std::to_string(m_layers.size()) + " layers, expected " +
                                std::to_string(count));
        }
        if (m_words.Next())
        {
            m_set.Warn("lines behind the declared layers are left out");
        }
        // Per layer: computation and communication of three phases, and an update.
        constexpr std::uint64_t kMostOperations = 100'000'000;
        if (count * 7 > kMostOperations / m_ranks)
        {
            throw SpecError(m_words.File(),
                            "found " + std::to_string(count) + " layers on " +
                                std::to_string(m_ranks) + " ranks, expected at most " +
                                std::to_string(kMostOperations) +
                                " operations (7 per layer and rank)");
        }
        m_set.facts["layers"] = static_cast<std::int64_t>(count);
        Write();
    }

  private:
    void Policy()
    {
        m_simai = m_words.Size() > 2;
        std::uint64_t ranks = 0;
        for (std::size_t i = 1; i + 1 < m_words.Size(); ++i)
        {
            std::string key = m_words.Word(i);
            if (key.back() == ':')
            {
                key.pop_back();
            }
            constexpr std::uint64_t kMost = 1000000;
            if (key == "model_parallel_NPU_group")
            {
                m_tensor = m_words.Number(i + 1, "a group size", 1, kMost);
            }
            else if (key == "ep")
            {
                m_expert = m_words.Number(i + 1, "a group size", 1, kMost);
            }
            else if (key == "pp" && m_words.Number(i + 1, "a number of stages", 1, kMost) > 1)
            {
                throw SpecError(m_words.Place(),
                                "pp: found " + m_words.Word(i + 1) +
                                    " pipeline stages, expected 1 (a table does not say "
                                    "which layers a stage has)");
            }
            else if (key == "ga" && m_words.Number(i + 1, "a number of steps", 0, kMost) > 1)
            {
                m_set.Warn("ga: gradient accumulation is left out; the layers run once");
            }
            else if (key == "all_gpus")
            {
                ranks = m_words.Number(i + 1, "a number of GPUs", 1, kMost);
            }
        }
        if (m_options.ranks != 0)
        {
            ranks = m_options.ranks;
        }
        if (ranks == 0)
        {
            throw SpecError(m_words.Place(),
                            "the table does not say for how many ranks it is, expected the option "
                            "ranks: N");
        }
        if (ranks % m_tensor != 0 || ranks / m_tensor % m_expert != 0)
        {
            throw SpecError(m_words.Place(),
                            "found " + std::to_string(ranks) +
                                " ranks, expected a multiple of tensor (" +
                                std::to_string(m_tensor) + ") and expert (" +
                                std::to_string(m_expert) + ") group sizes");
        }
        m_ranks = static_cast<std::uint32_t>(ranks);
    }

    Phase ReadPhase(std::size_t column, bool weight) const
    {
        Phase phase;
        phase.computeNs = m_words.Number(column, "a compute time in ns", 0, 1'000'000'000'000'000);
        std::string comm = column + 1 < m_words.Size() ? m_words.Word(column + 1) : "";
        phase.bytes = m_words.Number(column + 2, "a size in bytes", 0, INT64_MAX);
        const auto strip = [&comm](const char* suffix) {
            const std::string_view text(suffix);
            const bool has = comm.size() > text.size() &&
                             comm.compare(comm.size() - text.size(), text.size(), text) == 0;
            comm.erase(has ? comm.size() - text.size() : comm.size());
            return has;
        };
        phase.span = strip("_DP_EP") ? Span::ExpertData
                     : strip("_EP")  ? Span::Expert
                     : strip("_DP")  ? Span::Data
                     : strip("_TP")  ? Span::Tensor
                     : !m_simai      ? Span::World
                     : weight        ? Span::Data
                                     : Span::Tensor;
        phase.communicates = comm != "NONE";
        if (comm == "ALLREDUCE")
        {
            phase.kind = CollectiveKind::AllReduce;
        }
        else if (comm == "ALLGATHER")
        {
            phase.kind = CollectiveKind::AllGather;
        }
        else if (comm == "REDUCESCATTER")
        {
            phase.kind = CollectiveKind::ReduceScatter;
        }
        else if (comm == "ALLTOALL")
        {
            phase.kind = CollectiveKind::AllToAll;
        }
        else if (comm != "NONE")
        {
            m_words.Fail(
                column + 1,
                "NONE, ALLREDUCE, ALLGATHER, REDUCESCATTER or ALLTOALL, with _EP or _DP_EP");
        }
        return phase;
    }

    void ReadLayer()
    {
        if (m_words.Size() != 12 && m_words.Size() != 13)
        {
            throw SpecError(m_words.Place(),
                            "found " + std::to_string(m_words.Size()) + " columns, expected 12");
        }
        Layer layer;
        layer.name = m_words.Word(0);
        layer.forward = ReadPhase(2, false);
        layer.inputGradient = ReadPhase(5, false);
        layer.weightGradient = ReadPhase(8, true);
        layer.updateNs = m_words.Number(11, "an update time in ns", 0, 1'000'000'000'000'000);
        m_layers.push_back(std::move(layer));
    }

    /**
     * The group of a rank: `first`, first + stride, ... A rank is (data, expert, tensor) with the tensor index
     * fastest. Groups are made once, so that the cost is that of their members.
     */
    std::uint32_t GroupOf(Span span, std::uint32_t rank)
    {
        const auto tensor = static_cast<std::uint32_t>(m_tensor);
        const auto expert = static_cast<std::uint32_t>(m_expert);
        const std::uint32_t plane = tensor * expert;
        const char* name = "world";
        std::uint32_t first = 0;
        std::uint32_t stride = 1;
        std::uint32_t size = m_ranks;
        switch (span)
        {
        case Span::World:
            return m_set.Group(name, {});
        case Span::Tensor:
            name = "tp";
            first = rank / tensor * tensor;
            size = tensor;
            break;
        case Span::Data:
            name = "dp";
            first = rank % tensor;
            stride = tensor;
            size = m_ranks / tensor;
            break;
        case Span::Expert:
            name = "ep";
            first = rank / plane * plane + rank % tensor;
            stride = tensor;
            size = expert;
            break;
        case Span::ExpertData:
            name = "dp_ep";
            first = rank % plane;
            stride = plane;
            size = m_ranks / plane;
            break;
        }
        const auto [at, isNew] = m_groupAt.try_emplace({span, first}, 0);
        if (isNew)
        {
            std::vector<RankId> members;
            for (std::uint32_t k = 0; k < size; ++k)
            {
                members.push_back(first + k * stride);
            }
            at->second = m_set.Group(name + std::to_string(first), members);
        }
        return at->second;
    }

    /** Forward over all layers, then backward; weight gradients overlap with what follows. */
    void Write()
    {
        const std::string file = m_set.ranks[0].file;
        m_set.ranks.assign(m_ranks, RankTrace{});
        for (std::uint32_t r = 0; r < m_ranks; ++r)
        {
            m_trace = &m_set.ranks[r];
            m_trace->file = file;
            m_trace->programOrder = false;
            m_rank = r;
            m_host = UINT32_MAX;
            std::map<Span, std::uint32_t> groups;
            for (const Span span :
                 {Span::World, Span::Tensor, Span::Data, Span::Expert, Span::ExpertData})
            {
                groups[span] = GroupOf(span, r);
            }
            m_groups = &groups;
            for (const Layer& layer : m_layers)
            {
                Run(layer.name, "fwd", layer.forward, true);
            }
            std::vector<std::uint32_t> weights;
            for (auto layer = m_layers.rbegin(); layer != m_layers.rend(); ++layer)
            {
                Run(layer->name, "ig", layer->inputGradient, true);
                const std::uint32_t reduced = Run(layer->name, "wg", layer->weightGradient, false);
                weights.push_back(reduced);
            }
            // Updates wait for their own reduction.
            std::size_t w = 0;
            for (auto layer = m_layers.rbegin(); layer != m_layers.rend(); ++layer, ++w)
            {
                if (layer->updateNs > 0)
                {
                    Compute(layer->name + " update", layer->updateNs, weights[w]);
                }
            }
        }
    }

    std::uint32_t Push(TraceOp op, const std::string& name, std::uint32_t also)
    {
        op.id = m_trace->ops.size();
        op.name = m_set.Name(name);
        op.deps = m_trace->deps.size();
        for (const std::uint32_t before : {m_host, also})
        {
            if (before != UINT32_MAX && (op.depCount == 0 || before != m_host))
            {
                m_trace->deps.push_back(before);
                ++op.depCount;
            }
        }
        m_trace->ops.push_back(op);
        return static_cast<std::uint32_t>(op.id);
    }

    void Compute(const std::string& name, std::uint64_t ns, std::uint32_t also)
    {
        TraceOp op;
        op.kind = OpKind::Compute;
        op.duration = static_cast<SimTime>(ns) * kNanosecond;
        m_host = Push(op, name, also);
    }

    /** @return the communication, or UINT32_MAX */
    std::uint32_t Run(const std::string& layer,
                      const char* phaseName,
                      const Phase& phase,
                      bool blocking)
    {
        const std::string name = layer + " " + phaseName;
        if (phase.computeNs > 0)
        {
            Compute(name, phase.computeNs, UINT32_MAX);
        }
        if (!phase.communicates)
        {
            return UINT32_MAX;
        }
        TraceOp op;
        op.kind = OpKind::Collective;
        op.collective = phase.kind;
        op.group = m_groups->at(phase.span);
        op.bytes = phase.bytes;
        if (phase.kind == CollectiveKind::AllGather && (m_simai || m_options.allGatherOutput))
        {
            // SimAI's sizes are the whole message over all ranks.
            const std::uint32_t n = GroupSize(m_set, op.group);
            if (op.bytes % n != 0)
            {
                throw SpecError(m_words.File(),
                                "layer " + layer + ": all_gather of " + std::to_string(op.bytes) +
                                    " B of output, expected a multiple of " + std::to_string(n));
            }
            op.bytes /= n;
        }
        const std::uint32_t made = Push(op, name, UINT32_MAX);
        m_host = blocking ? made : m_host;
        return made;
    }

    WordReader m_words;
    const TraceOptions& m_options;
    TraceSet& m_set;
    std::vector<Layer> m_layers;
    std::uint32_t m_ranks = 0;
    std::uint64_t m_tensor = 1;
    std::uint64_t m_expert = 1;
    bool m_simai = false;
    RankTrace* m_trace = nullptr;
    std::uint32_t m_rank = 0;
    std::uint32_t m_host = UINT32_MAX;
    const std::map<Span, std::uint32_t>* m_groups = nullptr;
    std::map<std::pair<Span, std::uint32_t>, std::uint32_t> m_groupAt; ///< span, first member
};

} // namespace

bool
ProbeLayerTable(std::string_view head)
{
    const auto lines = HeadLines(head, 1);
    return !lines.empty() && IsPolicy(lines[0][0]);
}

void
LoadLayerTable(const std::vector<TraceFile>& files, const TraceOptions& options, TraceSet& set)
{
    LayerTable(files[0], options, set).Load();
}

} // namespace topoopt
