// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_WRITERS_FLEXNET_H
#define TOPOOPT_CORE_WRITERS_FLEXNET_H

#include "topoopt/core/readers/flexnet.h"

#include <string>

namespace topoopt
{

/**
 * A task graph as FlatBuffers bytes that FlexNet's own tools and ReadFlexNet() read.
 *
 * Every field is written, defaults too; the same graph gives the same bytes. `at` is not used.
 * Cost: O(graph).
 * @throws SpecError if the graph is not sound (VerifyFlexNet()) or would take 2 GiB or more
 */
[[nodiscard]] std::string FlexNetBytes(const FlexNetGraph& graph);

/**
 * Writes FlexNetBytes() to @p path, gzipped (without name and time) if it ends in ".gz".
 * @throws SpecError if the file cannot be written
 */
void WriteFlexNet(const FlexNetGraph& graph, const std::string& path);

} // namespace topoopt

#endif // TOPOOPT_CORE_WRITERS_FLEXNET_H
