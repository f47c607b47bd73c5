// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_PERF_EMPTY_EVENT_H
#define TOPOOPT_PERF_EMPTY_EVENT_H

namespace topoopt::perf
{

/**
 * CPU seconds that an ns-3 event with an empty body costs on this machine at this moment: scheduled and run with
 * 1024 others pending, ns-3's MapScheduler (its default). The unit in which the engine's costs are given.
 */
double EmptyEventSeconds();

/** CPU time of this process so far; other processes on the machine do not count. */
double CpuSeconds();

} // namespace topoopt::perf

#endif // TOPOOPT_PERF_EMPTY_EVENT_H
