// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_MODEL_EXPRESSION_H
#define TOPOOPT_CORE_MODEL_EXPRESSION_H

#include <cstdint>
#include <map>
#include <string>

namespace topoopt
{

/**
 * Value of an integer expression: decimal numbers, names, + - * / % ( ), with C's precedence; / truncates.
 *
 * @throws std::invalid_argument  with what was found and what was expected: unknown name (with a
 *         suggestion), division by zero, overflow of 64 bits, nesting deeper than 64
 */
[[nodiscard]] std::int64_t EvaluateExpression(const std::string& expression,
                                              const std::map<std::string, std::int64_t>& names);

} // namespace topoopt

#endif // TOPOOPT_CORE_MODEL_EXPRESSION_H
