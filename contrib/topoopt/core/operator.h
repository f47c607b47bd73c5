// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_OPERATOR_H
#define TOPOOPT_CORE_OPERATOR_H

#include "topoopt/core/ids.h"
#include "topoopt/core/units.h"

#include <cstdint>
#include <string>
#include <vector>

namespace topoopt
{

/** What an operator computes; model files spell it as Name() does. */
enum class OperatorKind : std::uint8_t
{
    Dense,          ///< y = xW + b over the last dimension
    Attention,      ///< multi-head attention with four square projections, no biases
    Embedding,      ///< bag of rows of a table, summed; sharded by table or by rows
    Concat,         ///< all inputs behind one another
    Add,            ///< element-wise sum
    Multiply,       ///< element-wise product
    Relu,           ///< element-wise
    Conv2d,         ///< square kernel, bias per channel
    Pool2d,         ///< square window
    Flat,           ///< [c, h, w] -> [c*h*w]
    Softmax,        ///< over the last dimension
    DotInteraction, ///< dot products of all pairs of inputs, behind the first input
    TokenEmbedding, ///< vocabulary x hidden table of a language model, one row per token
    SelfAttention,  ///< norm, grouped-query attention, output projection, residual
    FeedForward,    ///< norm, two or three (gated) matrices, residual
    Mixture,        ///< norm, router, top-k of `experts` feed-forwards, residual
    LmHead          ///< norm and projection to the vocabulary
};

/** "dense", "conv2d", "self-attention", ... */
[[nodiscard]] const char* Name(OperatorKind kind);
/** All spellings, in order of the enumeration. */
[[nodiscard]] const std::vector<std::string>& OperatorKindNames();

/** One tensor that an operator reads. */
struct OperatorInput
{
    std::uint32_t producer = kNoId; ///< index of the operator that makes it; kNoId = training data
    std::uint64_t elements = 0;     ///< per sample
    std::uint32_t elementBytes = 4; ///< on the wire
};

/** How the shards of a tensor-parallel operator make their outputs whole again. */
enum class TensorExchange : std::uint8_t
{
    None,      ///< the operator cannot be split inside a sample
    AllReduce, ///< column then row split: outputs (forward) and input gradients (backward) are summed
    AllGather ///< column split: outputs are gathered forward, input gradients summed backward
};

/**
 * One node of a model: shapes, work and bytes per training sample, and the ways it may be split.
 *
 * FLOPs count a multiply-add as two. All byte counts are those of the model's own data types.
 */
struct Operator
{
    OperatorKind kind = OperatorKind::Dense;
    std::string label;      ///< unique in the model
    std::string measuredAs; ///< its row in measured compute tables, e.g. Dense_2048_2048
    std::vector<OperatorInput> inputs;
    std::uint64_t outputElements = 0;
    std::uint32_t outputElementBytes = 4;
    std::vector<Bytes> parameters;    ///< bytes of each weight tensor
    double forwardFlops = 0;          ///< per sample
    double backwardFlops = 0;         ///< per sample
    double trafficBytes = 0;          ///< device memory read and written per sample, forward
    Bytes activationBytes = 0;        ///< kept per sample until the backward pass
    std::uint32_t maxTensorParts = 1; ///< heads, inner columns, ...: no finer tensor split
    TensorExchange exchange = TensorExchange::None;
    std::uint64_t positions = 1; ///< rows of the matrix product per sample: tokens, pixels
    std::uint64_t rows = 0;      ///< Embedding: of the table
    std::uint32_t experts = 0;   ///< Mixture
    std::uint32_t topK = 0;      ///< Mixture: experts per token
    std::vector<Operator> fused; ///< the operators that this one stands for; empty = itself

    /** A whole table on one server unless the strategy says otherwise; never in an AllReduce over all. */
    [[nodiscard]] bool IsTable() const
    {
        return kind == OperatorKind::Embedding;
    }

    [[nodiscard]] Bytes ParameterBytes() const;
};

} // namespace topoopt

#endif // TOPOOPT_CORE_OPERATOR_H
