// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_SWEEP_POINTS_H
#define TOPOOPT_CORE_SWEEP_POINTS_H

#include <cstddef>
#include <string>
#include <vector>

namespace topoopt
{

/** One run of a sweep: what it sets in the scenario. */
struct SweepPoint
{
    std::string name;                     ///< of its directory; depends on nothing but the settings
    std::vector<std::string> assignments; ///< `a.b=value`, for ReadScenario() and `--set`
    std::vector<std::string> values;      ///< by column; "" where the point sets nothing
};

/** A scenario and the settings under which it is to run. */
struct Sweep
{
    std::string name;
    std::string file;
    std::string scenario;             ///< relative to the working directory
    std::vector<std::string> common;  ///< settings of all points, applied first
    std::vector<std::string> columns; ///< paths that the points set, in order of appearance
    std::vector<SweepPoint> points;   ///< all different; the last list of the grid varies fastest
};

/** More points than anybody waits for are a mistake in the grid. */
inline constexpr std::size_t kMaxSweepPoints = 100'000;

/**
 * Reads a sweep (version 1): `scenario: FILE`, optional `name`, `set: {path: value}`, `grid: {path: [values]}` and
 * `points: [{path: value}]`. The points are the product of the grid's lists, once for each item of `points`.
 *
 * Every point's scenario is read, so that a mistake shows before the first run.
 * @param overrides  `a.b=value` for all points, after `set`
 * @throws SpecError as ReadScenario() does; a point's own faults begin with `FILE: point NAME:`
 */
[[nodiscard]] Sweep ReadSweep(const std::string& file, const std::vector<std::string>& overrides);

} // namespace topoopt

#endif // TOPOOPT_CORE_SWEEP_POINTS_H
