// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/model.h"

#include "topoopt/core/error.h"
#include "topoopt/core/model-expression.h"
#include "topoopt/core/yaml-document.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace topoopt
{

namespace
{

namespace fs = std::filesystem;

constexpr std::size_t kMaxOperators = 20'000;
constexpr std::size_t kMaxInputs = 100'000;
/** Largest per-sample element count; keeps every product with a batch far from 2^63. */
constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;
/** Largest single dimension, so that products of two fit. */
constexpr std::int64_t kMaxSize = std::int64_t{1} << 28;

/** A tensor while the graph is built. */
struct Tensor
{
    std::uint32_t producer = kNoId;
    std::vector<std::int64_t> shape; ///< of one sample
    std::uint32_t elementBytes = 4;

    [[nodiscard]] std::int64_t Elements() const
    {
        std::int64_t product = 1;
        for (const std::int64_t dim : shape)
        {
            if (__builtin_mul_overflow(product, dim, &product))
            {
                return INT64_MAX;
            }
        }
        return product;
    }
};

/** Turns the operator list of a model file into operators. */
class GraphBuilder
{
  public:
    GraphBuilder(Model& model, std::map<std::string, std::vector<Tensor>> inputs)
        : m_model(model),
          m_names(model.parameters),
          m_tensors(std::move(inputs))
    {
    }

    void Run(const YamlValue& list, const std::string& path)
    {
        if (list.kind != YamlKind::List || list.items.empty())
        {
            throw SpecError(list.place,
                            path + ": found " + list.Found() + ", expected a list of operators");
        }
        for (std::size_t i = 0; i < list.items.size(); ++i)
        {
            Item(list.items[i], path + "[" + std::to_string(i) + "]");
        }
    }

  private:
    void Item(const YamlValue& item, const std::string& path)
    {
        if (item.Find("repeat") == nullptr)
        {
            Add(item, path);
            return;
        }
        const YamlSection section(item, path, {"repeat", "index", "body", "when"});
        if (!When(section, path))
        {
            return;
        }
        const std::int64_t count =
            Number(section.Require("repeat", "a count"), section.Path("repeat"), 0, 100'000);
        std::string index;
        section.Text("index", index);
        const YamlValue& body = section.Require("body", "a list of operators");
        const auto outer = m_names.find(index);
        if (!index.empty() && outer != m_names.end())
        {
            throw SpecError(section.Find("index")->place,
                            section.Path("index") + ": found '" + Printable(index) +
                                "', expected a name that is not in use");
        }
        if (++m_depth > 8)
        {
            throw SpecError(item.place, path + ": found more than 8 nested repeats");
        }
        for (std::int64_t i = 0; i < count; ++i)
        {
            if (!index.empty())
            {
                m_names[index] = i;
            }
            Run(body, path + ".body");
        }
        --m_depth;
        m_names.erase(index);
    }

    bool When(const YamlSection& section, const std::string& path)
    {
        const YamlValue* when = section.Find("when");
        return when == nullptr || Number(*when, path + ".when", INT64_MIN, INT64_MAX) != 0;
    }

    std::int64_t Number(const YamlValue& value,
                        const std::string& path,
                        std::int64_t least,
                        std::int64_t most)
    {
        const std::string& text = ScalarOf(value, path, "a whole number or an expression");
        try
        {
            const std::int64_t number = EvaluateExpression(text, m_names);
            if (number < least || number > most)
            {
                throw std::invalid_argument("found '" + Printable(text) +
                                            "' = " + std::to_string(number) + ", expected " +
                                            std::to_string(least) + ".." + std::to_string(most));
            }
            return number;
        }
        catch (const std::invalid_argument& error)
        {
            throw SpecError(value.place, path + ": " + error.what());
        }
    }

    /** A size of the operator at hand. */
    std::int64_t Size(const char* key, std::int64_t least = 1, std::int64_t most = kMaxSize)
    {
        const YamlValue& value = m_section->Require(key, "a whole number");
        return Number(value, m_section->Path(key), least, most);
    }

    std::int64_t SizeOr(const char* key, std::int64_t least, std::int64_t missing)
    {
        return m_section->Find(key) == nullptr ? missing : Size(key, least);
    }

    std::vector<Tensor> Inputs(const YamlSection& section)
    {
        const YamlValue* value = section.Find("inputs");
        std::vector<Tensor> out;
        if (value == nullptr)
        {
            if (m_model.operators.empty())
            {
                throw SpecError(section.Require("op", "an operator kind").place,
                                section.Path("inputs") +
                                    ": found none at the first operator, expected a name");
            }
            out.push_back(m_last);
            return out;
        }
        std::vector<const YamlValue*> names;
        if (value->kind == YamlKind::List)
        {
            for (const YamlValue& item : value->items)
            {
                names.push_back(&item);
            }
        }
        else
        {
            names.push_back(value);
        }
        for (const YamlValue* name : names)
        {
            const std::string& text = ScalarOf(*name, section.Path("inputs"), "a tensor's name");
            const auto found = m_tensors.find(text);
            if (found == m_tensors.end())
            {
                std::vector<std::string> known;
                for (const auto& [key, tensors] : m_tensors)
                {
                    known.push_back(key);
                }
                throw SpecError(name->place,
                                section.Path("inputs") + ": found '" + Printable(text) +
                                    "', expected an input or the `as` of an operator above" +
                                    DidYouMean(text, known));
            }
            out.insert(out.end(), found->second.begin(), found->second.end());
        }
        m_inputs += out.size();
        if (out.empty() || m_inputs > kMaxInputs)
        {
            throw SpecError(value->place,
                            section.Path("inputs") + ": found " + std::to_string(m_inputs) +
                                " tensors so far, expected 1.." + std::to_string(kMaxInputs));
        }
        return out;
    }

    void Add(const YamlValue& item, const std::string& path)
    {
        static const std::map<std::string, std::vector<std::string>> keys = {
            {"dense", {"out", "bias"}},
            {"attention", {"heads"}},
            {"embedding", {"rows", "dim", "bag", "element_bytes"}},
            {"concat", {}},
            {"add", {}},
            {"multiply", {}},
            {"relu", {}},
            {"conv2d", {"channels", "kernel", "stride", "pad"}},
            {"pool2d", {"kernel", "stride", "pad"}},
            {"flat", {}},
            {"softmax", {}},
            {"dot-interaction", {}},
            {"token-embedding", {"vocabulary", "hidden"}},
            {"self-attention", {"heads", "kv_heads", "head_dim", "bias"}},
            {"feed-forward", {"inner", "gated", "bias"}},
            {"mixture", {"inner", "gated", "experts", "top_k"}},
            {"lm-head", {"vocabulary"}}};
        // The kind first: it decides which keys may stand here.
        std::string kind;
        {
            const YamlSection any(item, path, {});
            (void)any.Require("op", "an operator kind");
            any.Choice("op", OperatorKindNames(), kind);
        }
        std::vector<std::string> known = keys.at(kind);
        known.insert(known.end(), {"op", "inputs", "as", "when"});
        const YamlSection section(item, path, known);
        if (!When(section, path))
        {
            return;
        }
        if (m_model.operators.size() >= kMaxOperators)
        {
            throw SpecError(item.place,
                            path + ": found more than " + std::to_string(kMaxOperators) +
                                " operators, expected fewer");
        }
        m_section = &section;
        m_item = &item;
        m_path = path;
        const std::vector<Tensor> inputs = Inputs(section);
        Operator op;
        const auto& names = OperatorKindNames();
        op.kind =
            static_cast<OperatorKind>(std::find(names.begin(), names.end(), kind) - names.begin());
        op.positions = static_cast<std::uint64_t>(
            std::max<std::int64_t>(1, inputs.front().Elements() / inputs.front().shape.back()));
        std::int64_t read = 0;
        for (const Tensor& tensor : inputs)
        {
            op.inputs.push_back({tensor.producer,
                                 static_cast<std::uint64_t>(tensor.Elements()),
                                 tensor.elementBytes});
            read += tensor.Elements() * tensor.elementBytes;
        }
        Tensor out;
        // The reference gives every output the type of the operator's first input.
        out.elementBytes = inputs.front().elementBytes;
        out.shape = Shape(op, inputs, out.elementBytes);
        if (out.Elements() < 1 || out.Elements() > kMaxElements)
        {
            Bad("an output of " + std::to_string(out.Elements()) + " elements per sample",
                "1.." + std::to_string(kMaxElements));
        }
        out.producer = static_cast<std::uint32_t>(m_model.operators.size());
        op.outputElements = static_cast<std::uint64_t>(out.Elements());
        op.outputElementBytes = out.elementBytes;
        op.trafficBytes +=
            static_cast<double>(read) + static_cast<double>(out.Elements() * out.elementBytes);
        if (op.activationBytes == 0)
        {
            op.activationBytes = op.outputElements * op.outputElementBytes;
        }
        op.label = kind + std::to_string(out.producer);
        if (op.measuredAs.empty())
        {
            op.measuredAs = kind;
        }
        m_model.operators.push_back(std::move(op));
        m_last = out;
        std::string as;
        section.Text("as", as);
        if (as.size() > 2 && as.compare(as.size() - 2, 2, "[]") == 0)
        {
            m_tensors[as.substr(0, as.size() - 2)].push_back(out);
        }
        else if (!as.empty())
        {
            m_tensors[as] = {out};
        }
    }

    [[noreturn]] void Bad(const std::string& found, const std::string& expected) const
    {
        throw SpecError(m_item->place, m_path + ": found " + found + ", expected " + expected);
    }

    static std::string Text(const std::vector<std::int64_t>& shape)
    {
        std::string out = "[";
        for (const std::int64_t dim : shape)
        {
            out += (out.size() > 1 ? ", " : "") + std::to_string(dim);
        }
        return out + "]";
    }

    /** Bytes of a weight tensor of the given element count; checked. */
    Bytes Weights(std::int64_t a, std::int64_t b)
    {
        std::int64_t count = 0;
        if (__builtin_mul_overflow(a, b, &count) || count > (std::int64_t{1} << 52))
        {
            Bad("a weight tensor of " + std::to_string(a) + " x " + std::to_string(b),
                "at most 2^52 elements");
        }
        return static_cast<Bytes>(count) * m_model.parameterBytes;
    }

    /** Bytes of activations; checked. */
    Bytes Kept(double elements, std::uint32_t elementBytes)
    {
        if (elements > static_cast<double>(std::int64_t{1} << 48))
        {
            Bad("activations of " + std::to_string(elements) + " elements per sample",
                "at most 2^48");
        }
        return static_cast<Bytes>(elements) * elementBytes;
    }

    /**
     * Fills in work and weights by kind. @return the output's shape.
     * The backward pass costs twice the forward one wherever weights or products are involved: one half
     * for the inputs' gradients, one for the weights'.
     */
    std::vector<std::int64_t> Shape(Operator& op,
                                    const std::vector<Tensor>& inputs,
                                    std::uint32_t& elementBytes)
    {
        const Tensor& first = inputs.front();
        const std::vector<std::int64_t>& in = first.shape;
        const std::int64_t elements = first.Elements();
        const std::int64_t last = in.back();
        const std::int64_t positions = elements / last;
        const auto one = [&] {
            if (inputs.size() != 1)
            {
                Bad(std::to_string(inputs.size()) + " inputs", "one");
            }
        };
        const auto same = [&] {
            for (const Tensor& tensor : inputs)
            {
                if (tensor.Elements() != elements)
                {
                    Bad("inputs of shapes " + Text(in) + " and " + Text(tensor.shape),
                        "equal shapes");
                }
            }
        };
        const auto work = [&](double forward, double backwardFactor) {
            op.forwardFlops = forward;
            op.backwardFlops = forward * backwardFactor;
        };
        const auto doubled = [](auto a) { return static_cast<double>(a); };
        switch (op.kind)
        {
        case OperatorKind::Dense:
        {
            one();
            const std::int64_t columns = Size("out");
            op.parameters.push_back(Weights(last, columns));
            if (SizeOr("bias", 0, 1) != 0)
            {
                op.parameters.push_back(Weights(columns, 1));
            }
            work(2.0 * doubled(positions) * doubled(last) * doubled(columns), 2);
            op.measuredAs = "Dense_" + std::to_string(last) + "_" + std::to_string(columns);
            op.exchange = TensorExchange::AllGather;
            op.maxTensorParts =
                static_cast<std::uint32_t>(std::min<std::int64_t>(columns, 1 << 20));
            std::vector<std::int64_t> out = in;
            out.back() = columns;
            return out;
        }
        case OperatorKind::Attention:
        {
            const std::int64_t heads = Size("heads");
            if (last % heads != 0)
            {
                Bad(std::to_string(heads) + " heads for a hidden size of " + std::to_string(last),
                    "a divisor");
            }
            op.parameters.push_back(Weights(last * 4, last));
            work(8.0 * doubled(positions) * doubled(last) * doubled(last) +
                     4.0 * doubled(positions) * doubled(positions) * doubled(last),
                 2);
            op.measuredAs = "MultiHeadAttention_" + std::to_string(last) + std::to_string(heads);
            op.exchange = TensorExchange::AllReduce;
            op.maxTensorParts = static_cast<std::uint32_t>(heads);
            op.activationBytes = Kept(5 * doubled(elements), elementBytes);
            return in;
        }
        case OperatorKind::Embedding:
        {
            one();
            const std::int64_t rows = Size("rows", 1, kMaxElements);
            const std::int64_t dim = Size("dim");
            const std::int64_t bag = SizeOr("bag", 1, last);
            elementBytes = static_cast<std::uint32_t>(
                std::min<std::int64_t>(SizeOr("element_bytes", 1, 4), 64));
            op.parameters.push_back(Weights(rows, dim));
            op.rows = static_cast<std::uint64_t>(rows);
            op.maxTensorParts = static_cast<std::uint32_t>(std::min<std::int64_t>(rows, 1 << 20));
            op.trafficBytes = doubled(bag) * doubled(dim) * 4;
            work(doubled(bag) * doubled(dim), 2);
            op.measuredAs = "Embed_" + std::to_string(rows) + "x" + std::to_string(dim);
            return {dim};
        }
        case OperatorKind::Concat:
        {
            std::int64_t sum = 0;
            for (const Tensor& tensor : inputs)
            {
                sum += tensor.Elements();
            }
            op.measuredAs = "Concat_1";
            return {sum};
        }
        case OperatorKind::Add:
        case OperatorKind::Multiply:
            same();
            work(doubled(elements), 1);
            op.measuredAs = op.kind == OperatorKind::Add ? "ElementBinary_31" : "ElementBinary_32";
            return in;
        case OperatorKind::Relu:
            one();
            work(doubled(elements), 1);
            op.measuredAs = "ElementUnary_13";
            return in;
        case OperatorKind::Conv2d:
        case OperatorKind::Pool2d:
        {
            one();
            if (in.size() != 3)
            {
                Bad("an input of shape " + Text(in), "[channels, height, width]");
            }
            const std::int64_t kernel = Size("kernel");
            const std::int64_t stride = SizeOr("stride", 1, 1);
            const std::int64_t pad = SizeOr("pad", 0, 0);
            const bool conv = op.kind == OperatorKind::Conv2d;
            const std::int64_t channels = conv ? Size("channels") : in[0];
            const std::int64_t height = (in[1] + 2 * pad - kernel) / stride + 1;
            const std::int64_t width = (in[2] + 2 * pad - kernel) / stride + 1;
            if (in[1] + 2 * pad < kernel || in[2] + 2 * pad < kernel)
            {
                Bad("a window of " + std::to_string(kernel) + " over " + Text(in), "a smaller one");
            }
            const std::string size = std::to_string(kernel) + "_" + std::to_string(kernel);
            op.positions = static_cast<std::uint64_t>(
                std::min(std::max<std::int64_t>(height, 1) * std::max<std::int64_t>(width, 1),
                         kMaxElements));
            const double points = doubled(channels) * doubled(height) * doubled(width);
            if (conv)
            {
                op.parameters.push_back(Weights(kernel * kernel * in[0], channels));
                op.parameters.push_back(Weights(channels, 1));
                work(2.0 * points * doubled(kernel * kernel * in[0]), 2);
                op.measuredAs = "Conv2D_" + size + "_" + std::to_string(channels);
                op.exchange = TensorExchange::AllGather;
                op.maxTensorParts = static_cast<std::uint32_t>(channels);
            }
            else
            {
                work(points * doubled(kernel * kernel), 1);
                op.measuredAs = "Pool2D_" + size;
            }
            return {channels, height, width};
        }
        case OperatorKind::Flat:
            one();
            op.measuredAs = "Flat";
            return {elements};
        case OperatorKind::Softmax:
            one();
            work(5.0 * doubled(elements), 1);
            op.measuredAs = "Softmax";
            return in;
        case OperatorKind::DotInteraction:
        {
            const std::int64_t width = inputs.back().Elements();
            for (const Tensor& tensor : inputs)
            {
                if (tensor.Elements() != width)
                {
                    Bad("inputs of shapes " + Text(in) + " and " + Text(tensor.shape),
                        "equal shapes");
                }
            }
            const auto count = static_cast<std::int64_t>(inputs.size());
            work(2.0 * doubled(count) * doubled(count) * doubled(width), 2);
            return {elements + count * (count - 1) / 2};
        }
        case OperatorKind::TokenEmbedding:
        {
            one();
            const std::int64_t vocabulary = Size("vocabulary");
            const std::int64_t hidden = Size("hidden");
            op.positions = static_cast<std::uint64_t>(last);
            elementBytes = m_model.parameterBytes;
            op.parameters.push_back(Weights(vocabulary, hidden));
            op.exchange = TensorExchange::AllReduce;
            op.maxTensorParts =
                static_cast<std::uint32_t>(std::min<std::int64_t>(vocabulary, 1 << 20));
            work(doubled(last) * doubled(hidden), 2);
            return {last, hidden};
        }
        case OperatorKind::SelfAttention:
        {
            one();
            const std::int64_t heads = Size("heads");
            const std::int64_t kv = SizeOr("kv_heads", 1, heads);
            const std::int64_t dim = SizeOr("head_dim", 1, std::max<std::int64_t>(1, last / heads));
            const std::int64_t q = heads * dim;
            const std::int64_t k = kv * dim;
            op.parameters = {Weights(last, q + 2 * k), Weights(q, last), Weights(last, 1)};
            if (SizeOr("bias", 0, 0) != 0)
            {
                op.parameters.push_back(Weights(q + 2 * k + 2 * last, 1));
            }
            // Scores and their product with the values, half of it masked away by causality.
            work(2.0 * doubled(positions) * doubled(last) * doubled(2 * q + 2 * k) +
                     2.0 * doubled(positions) * doubled(positions) * doubled(q),
                 2);
            op.exchange = TensorExchange::AllReduce;
            op.maxTensorParts = static_cast<std::uint32_t>(kv);
            op.activationBytes =
                Kept(doubled(positions) * doubled(2 * last + 2 * q + 2 * k), elementBytes);
            return in;
        }
        case OperatorKind::FeedForward:
        case OperatorKind::Mixture:
        {
            one();
            const std::int64_t inner = Size("inner");
            const std::int64_t gated = SizeOr("gated", 0, 1) != 0 ? 1 : 0;
            const bool mixture = op.kind == OperatorKind::Mixture;
            const std::int64_t experts = mixture ? Size("experts") : 1;
            const std::int64_t topK = mixture ? Size("top_k") : 1;
            if (topK > experts || experts > 65'536)
            {
                Bad("top_k " + std::to_string(topK) + " of " + std::to_string(experts) + " experts",
                    "top_k <= experts <= 65536");
            }
            op.parameters = {Weights(experts * (1 + gated) * last, inner),
                             Weights(experts * inner, last),
                             Weights(last, 1)};
            if (mixture)
            {
                op.parameters.push_back(Weights(last, experts));
                op.experts = static_cast<std::uint32_t>(experts);
                op.topK = static_cast<std::uint32_t>(topK);
            }
            else if (SizeOr("bias", 0, 0) != 0)
            {
                op.parameters.push_back(Weights(inner + 2 * last, 1));
            }
            work(2.0 * doubled(positions) * doubled(last) * doubled(inner) * doubled(2 + gated) *
                     doubled(topK),
                 2);
            op.exchange = TensorExchange::AllReduce;
            op.maxTensorParts = static_cast<std::uint32_t>(std::min<std::int64_t>(inner, 1 << 20));
            op.activationBytes =
                Kept(doubled(positions) * doubled(2 * last + topK * inner * (2 + gated)),
                     elementBytes);
            return in;
        }
        case OperatorKind::LmHead:
        {
            one();
            const std::int64_t vocabulary = Size("vocabulary");
            op.parameters = {Weights(last, vocabulary), Weights(last, 1)};
            work(2.0 * doubled(positions) * doubled(last) * doubled(vocabulary), 2);
            op.exchange = TensorExchange::AllReduce;
            op.maxTensorParts =
                static_cast<std::uint32_t>(std::min<std::int64_t>(vocabulary, 1 << 20));
            // The loss is taken where the logits are: only one value per token goes on.
            op.activationBytes =
                Kept(doubled(positions) * doubled(last + vocabulary), elementBytes);
            return {positions};
        }
        }
        Bad("an operator", "a kind that is built in");
    }

    Model& m_model;
    std::map<std::string, std::int64_t> m_names;
    std::map<std::string, std::vector<Tensor>> m_tensors;
    Tensor m_last;
    const YamlSection* m_section = nullptr;
    const YamlValue* m_item = nullptr;
    std::string m_path;
    std::size_t m_inputs = 0;
    int m_depth = 0;
};

/** A parameter not yet evaluated. */
struct Parameter
{
    std::string key;
    std::string text;
    std::string path;
    std::string place;
};

std::int64_t
NumberOf(const std::string& text,
         const std::string& place,
         const std::string& path,
         const std::map<std::string, std::int64_t>& names,
         std::int64_t least,
         std::int64_t most)
{
    try
    {
        const std::int64_t number = EvaluateExpression(text, names);
        if (number < least || number > most)
        {
            throw std::invalid_argument("found " + std::to_string(number) + ", expected " +
                                        std::to_string(least) + ".." + std::to_string(most));
        }
        return number;
    }
    catch (const std::invalid_argument& error)
    {
        throw SpecError(place, path + ": " + error.what());
    }
}

/** Replaces {expression} by its value. */
std::string
Interpolate(const std::string& text,
            const std::string& place,
            const std::string& path,
            const std::map<std::string, std::int64_t>& names)
{
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i)
    {
        const std::size_t close = text[i] == '{' ? text.find('}', i) : std::string::npos;
        if (close == std::string::npos)
        {
            out.push_back(text[i]);
            continue;
        }
        out += std::to_string(
            NumberOf(text.substr(i + 1, close - i - 1), place, path, names, INT64_MIN, INT64_MAX));
        i = close;
    }
    return out;
}

double
RealOf(const YamlValue& value, const std::string& path, double least, double most)
{
    const std::string& text = ScalarOf(value, path, "a number");
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0' || !(number >= least && number <= most))
    {
        throw SpecError(value.place,
                        path + ": found " + value.Found() + ", expected a number in " +
                            std::to_string(least) + ".." + std::to_string(most));
    }
    return number;
}

/** Reads `strategy:` into text. */
std::map<std::string, std::string>
TextMap(const YamlValue& value, const std::string& path)
{
    std::map<std::string, std::string> out;
    const YamlSection section(value, path, {});
    for (const YamlKey& key : value.keys)
    {
        section.Text(key.text, out[key.text]);
    }
    return out;
}

} // namespace

Bytes
Model::DenseBytes() const
{
    Bytes sum = 0;
    for (const Operator& op : operators)
    {
        sum += op.IsTable() ? 0 : op.ParameterBytes();
    }
    return sum;
}

Bytes
Model::TableBytes() const
{
    Bytes sum = 0;
    for (const Operator& op : operators)
    {
        sum += op.IsTable() ? op.ParameterBytes() : 0;
    }
    return sum;
}

std::vector<std::string>
DataRoots()
{
    std::vector<std::string> roots;
    const auto add = [&](const fs::path& path) {
        std::error_code error;
        const std::string text = path.empty() ? "." : path.string();
        if (fs::is_directory(path / "traces" / "models", error) &&
            std::find(roots.begin(), roots.end(), text) == roots.end())
        {
            roots.push_back(text);
        }
    };
    if (const char* data = std::getenv("TOPOOPT_DATA"))
    {
        add(data);
    }
    add(".");
    std::error_code error;
    for (fs::path at : {fs::current_path(error), fs::read_symlink("/proc/self/exe", error)})
    {
        for (int up = 0; up < 6 && at.has_relative_path(); ++up)
        {
            add(at);
            at = at.parent_path();
        }
    }
    return roots;
}

std::string
FindData(const std::string& relative, const std::vector<std::string>& roots)
{
    std::string looked;
    for (const std::string& root : roots)
    {
        const fs::path path = fs::path(root) / "traces" / relative;
        std::error_code error;
        if (fs::is_regular_file(path, error))
        {
            return path.lexically_normal().string();
        }
        looked += (looked.empty() ? "" : ", ") + path.lexically_normal().string();
    }
    throw SpecError("traces/" + relative,
                    "found no such file" + (looked.empty() ? "" : " (looked at " + looked + ")") +
                        ", expected it below the working directory, the program or $TOPOOPT_DATA");
}

std::vector<std::string>
ModelNames(const std::vector<std::string>& roots)
{
    std::set<std::string> names;
    for (const std::string& root : roots.empty() ? DataRoots() : roots)
    {
        std::error_code error;
        for (const auto& entry :
             fs::directory_iterator(fs::path(root) / "traces" / "models", error))
        {
            if (entry.path().extension() == ".yaml")
            {
                names.insert(entry.path().stem().string());
            }
        }
        if (!names.empty())
        {
            break;
        }
    }
    return {names.begin(), names.end()};
}

Model
LoadModel(const std::string& nameOrPath, const ModelOptions& options)
{
    const std::vector<std::string> roots = options.roots.empty() ? DataRoots() : options.roots;
    const bool isPath =
        nameOrPath.find('/') != std::string::npos ||
        (nameOrPath.size() > 5 && nameOrPath.compare(nameOrPath.size() - 5, 5, ".yaml") == 0);
    Model model;
    model.file = nameOrPath;
    if (!isPath)
    {
        const std::vector<std::string> names = ModelNames(roots);
        if (std::find(names.begin(), names.end(), nameOrPath) == names.end())
        {
            std::string known;
            for (const std::string& name : names)
            {
                known += (known.empty() ? "" : ", ") + name;
            }
            throw SpecError("model",
                            "found '" + Printable(nameOrPath) + "', expected one of " +
                                (known.empty() ? "none (no traces/models found)" : known) +
                                " or a path" + DidYouMean(nameOrPath, names));
        }
        model.file = FindData("models/" + nameOrPath + ".yaml", roots);
    }
    const YamlValue document = ReadYamlFile(model.file);
    const YamlSection top(document,
                          "",
                          {"version",
                           "model",
                           "description",
                           "device",
                           "precision",
                           "rank",
                           "element_bytes",
                           "parameter_bytes",
                           "optimizer_bytes",
                           "optimizer_step",
                           "parameters",
                           "configurations",
                           "inputs",
                           "operators"});
    std::uint32_t version = 0;
    (void)top.Require("version", "1");
    top.Count("version", 1, 1, version);
    (void)top.Require("model", "the model's name");
    top.Text("model", model.name);
    top.Text("description", model.description);
    model.device = "a100";
    top.Text("device", model.device);
    top.Text("precision", model.precision);
    std::string rank = "server";
    top.Choice("rank", {"server", "gpu"}, rank);
    std::uint32_t elementBytes = 4;
    top.Count("element_bytes", 1, 16, elementBytes);
    top.Count("parameter_bytes", 1, 16, model.parameterBytes);
    if (const YamlValue* value = top.Find("optimizer_bytes"))
    {
        model.optimizerBytes = RealOf(*value, "optimizer_bytes", 0, 64);
    }
    top.Bool("optimizer_step", model.optimizerStep);

    // Texts first: configuration and options replace them before they are evaluated.
    std::vector<Parameter> parameters;
    if (const YamlValue* value = top.Find("parameters"))
    {
        const YamlSection section(*value, "parameters", {});
        for (std::size_t i = 0; i < value->keys.size(); ++i)
        {
            const std::string path = "parameters." + value->keys[i].text;
            parameters.push_back({value->keys[i].text,
                                  ScalarOf(value->items[i], path, "a whole number"),
                                  path,
                                  value->items[i].place});
        }
    }
    const auto replace = [&](const std::string& key,
                             const std::string& text,
                             const std::string& path,
                             const std::string& place) {
        for (Parameter& parameter : parameters)
        {
            if (parameter.key == key)
            {
                parameter.text = text;
                parameter.path = path;
                parameter.place = place;
                return true;
            }
        }
        return false;
    };

    const YamlValue& configurations = top.Require("configurations", "a list of configurations");
    if (configurations.kind != YamlKind::List || configurations.items.empty())
    {
        throw SpecError(configurations.place,
                        "configurations: found " + configurations.Found() +
                            ", expected a list of configurations");
    }
    const std::vector<std::string> configurationKeys =
        {"name", "servers", "gpus", "batch_per_gpu", "measured", "set", "strategy", "note"};
    std::vector<std::string> names;
    const YamlValue* chosen = nullptr;
    for (std::size_t i = 0; i < configurations.items.size(); ++i)
    {
        const YamlValue& item = configurations.items[i];
        const YamlSection section(item,
                                  "configurations[" + std::to_string(i) + "]",
                                  configurationKeys);
        (void)section.Require("name", "a name");
        std::string name;
        std::uint32_t servers = 0;
        section.Text("name", name);
        (void)section.Require("servers", "a number of servers");
        section.Count("servers", 1, 65'536, servers);
        if (std::find(names.begin(), names.end(), name) != names.end())
        {
            throw SpecError(item.place, "configurations: found '" + Printable(name) + "' twice");
        }
        names.push_back(name);
        const bool fits = options.configuration.empty() ? servers == options.servers
                                                        : name == options.configuration;
        if (fits && chosen == nullptr)
        {
            chosen = &item;
        }
    }
    if (chosen == nullptr && !options.configuration.empty())
    {
        const auto place = options.places.find("configuration");
        std::string known;
        for (const std::string& name : names)
        {
            known += (known.empty() ? "" : ", ") + name;
        }
        throw SpecError(place == options.places.end() ? model.file : place->second,
                        "configuration: found '" + Printable(options.configuration) +
                            "', expected one of " + known +
                            DidYouMean(options.configuration, names));
    }
    chosen = chosen == nullptr ? &configurations.items.front() : chosen;
    const YamlSection configuration(*chosen, "configuration", configurationKeys);
    configuration.Text("name", model.configuration);
    configuration.Count("servers", 1, 65'536, model.servers);
    model.gpus = 1;
    configuration.Count("gpus", 1, 1024, model.gpus);
    (void)configuration.Require("batch_per_gpu", "samples per GPU and iteration");
    configuration.Count("batch_per_gpu", 1, 1U << 24U, model.batchPerGpu);
    configuration.Text("measured", model.measured);
    if (const YamlValue* set = configuration.Find("set"))
    {
        const YamlSection section(*set, "configuration.set", {});
        std::vector<std::string> known;
        for (const Parameter& parameter : parameters)
        {
            known.push_back(parameter.key);
        }
        for (std::size_t i = 0; i < set->keys.size(); ++i)
        {
            const std::string& key = set->keys[i].text;
            const std::string path = "configuration.set." + key;
            if (!replace(key,
                         ScalarOf(set->items[i], path, "a whole number"),
                         path,
                         set->items[i].place))
            {
                throw SpecError(set->keys[i].place,
                                "configuration.set: found '" + Printable(key) +
                                    "', expected a name of `parameters`" + DidYouMean(key, known));
            }
        }
    }
    if (const YamlValue* strategy = configuration.Find("strategy"))
    {
        model.strategy = TextMap(*strategy, "configuration.strategy");
    }
    model.servers = options.servers != 0 ? options.servers : model.servers;
    model.gpus = options.gpus != 0 ? options.gpus : model.gpus;

    std::string measuredPlace = chosen->place;
    for (const auto& [key, text] : options.overrides)
    {
        const auto at = options.places.find(key);
        const std::string place = at == options.places.end() ? model.file : at->second;
        if (key == "batch_per_gpu")
        {
            model.batchPerGpu =
                static_cast<std::uint32_t>(NumberOf(text, place, key, {}, 1, 1 << 24));
        }
        else if (key == "device")
        {
            model.device = text;
        }
        else if (key == "precision")
        {
            model.precision = text;
        }
        else if (key == "measured")
        {
            model.measured = text == "none" ? "" : text;
            measuredPlace = place;
        }
        else if (key == "optimizer_step")
        {
            if (text != "true" && text != "false")
            {
                throw SpecError(place,
                                key + ": found '" + Printable(text) + "', expected true or false");
            }
            model.optimizerStep = text == "true";
        }
        else if (key == "rank")
        {
            if (text != "server" && text != "gpu")
            {
                throw SpecError(place,
                                key + ": found '" + Printable(text) + "', expected server or gpu");
            }
            rank = text;
        }
        else if (!replace(key, text, key, place))
        {
            std::vector<std::string> known = {"batch_per_gpu",
                                              "configuration",
                                              "device",
                                              "precision",
                                              "measured",
                                              "optimizer_step",
                                              "rank"};
            for (const Parameter& parameter : parameters)
            {
                known.push_back(parameter.key);
            }
            std::string list;
            for (const std::string& name : known)
            {
                list += (list.empty() ? "" : ", ") + name;
            }
            throw SpecError(place,
                            "workload." + Printable(key) + ": found no such option of model " +
                                model.name + ", expected one of " + list + DidYouMean(key, known));
        }
    }
    for (const Parameter& parameter : parameters)
    {
        model.parameters[parameter.key] = NumberOf(parameter.text,
                                                   parameter.place,
                                                   parameter.path,
                                                   model.parameters,
                                                   INT64_MIN,
                                                   INT64_MAX);
    }
    model.rankPerGpu = rank == "gpu";
    std::map<std::string, std::int64_t> scope = model.parameters;
    scope["batch_per_gpu"] = model.batchPerGpu;
    scope["servers"] = model.servers;
    scope["gpus"] = model.gpus;
    model.measured = Interpolate(model.measured, measuredPlace, "measured", scope);
    if (model.GlobalBatch() > (std::uint64_t{1} << 32U))
    {
        throw SpecError(model.file,
                        "found a global batch of " + std::to_string(model.GlobalBatch()) +
                            " samples, expected at most 2^32");
    }

    std::map<std::string, std::vector<Tensor>> tensors;
    const YamlValue& inputs = top.Require("inputs", "the training data's shapes");
    const YamlSection section(inputs, "inputs", {});
    for (std::size_t i = 0; i < inputs.keys.size(); ++i)
    {
        const std::string path = "inputs." + inputs.keys[i].text;
        const YamlValue& shape = inputs.items[i];
        if (shape.kind != YamlKind::List || shape.items.empty() || shape.items.size() > 8)
        {
            throw SpecError(shape.place,
                            path + ": found " + shape.Found() + ", expected a list of dimensions");
        }
        Tensor tensor;
        tensor.elementBytes = elementBytes;
        std::int64_t product = 1;
        for (const YamlValue& dim : shape.items)
        {
            tensor.shape.push_back(NumberOf(ScalarOf(dim, path, "a number"),
                                            dim.place,
                                            path,
                                            model.parameters,
                                            1,
                                            kMaxElements));
            if (__builtin_mul_overflow(product, tensor.shape.back(), &product) ||
                product > kMaxElements)
            {
                throw SpecError(dim.place, path + ": found too many elements per sample");
            }
        }
        tensors[inputs.keys[i].text] = {tensor};
    }
    GraphBuilder(model, std::move(tensors))
        .Run(top.Require("operators", "a list of operators"), "operators");
    return model;
}

} // namespace topoopt
