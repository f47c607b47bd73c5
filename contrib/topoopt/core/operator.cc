// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/operator.h"

namespace topoopt
{

const std::vector<std::string>&
OperatorKindNames()
{
    static const std::vector<std::string> names = {"dense",
                                                   "attention",
                                                   "embedding",
                                                   "concat",
                                                   "add",
                                                   "multiply",
                                                   "relu",
                                                   "conv2d",
                                                   "pool2d",
                                                   "flat",
                                                   "softmax",
                                                   "dot-interaction",
                                                   "token-embedding",
                                                   "self-attention",
                                                   "feed-forward",
                                                   "mixture",
                                                   "lm-head"};
    return names;
}

const char*
Name(OperatorKind kind)
{
    return OperatorKindNames()[static_cast<std::size_t>(kind)].c_str();
}

Bytes
Operator::ParameterBytes() const
{
    Bytes sum = 0;
    for (const Bytes bytes : parameters)
    {
        sum += bytes;
    }
    return sum;
}

} // namespace topoopt
