// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_SWEEP_H
#define TOPOOPT_CORE_SWEEP_H

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace topoopt
{

/** What `topoopt sweep` was asked for. */
struct SweepOptions
{
    std::string file;                   ///< SWEEP.yaml
    std::string output;                 ///< directory, made if need be
    std::string program;                ///< the program whose `run` carries out a point
    std::string version;                ///< of that program; results of another one are not reused
    std::vector<std::string> overrides; ///< `--set` for all points
    std::uint32_t jobs = 1;             ///< points at a time
    bool again = false;                 ///< run points that are done, too
    bool slurm = false;                 ///< write a job array instead of running
    std::optional<std::uint32_t> only;  ///< this point alone, from 0; for the job array
    const std::atomic<bool>* interrupt = nullptr;   ///< set by a signal handler: stop
    std::function<void(const std::string&)> report; ///< one line each: progress, then what failed
};

/**
 * Runs the points of a sweep, each as a process of its own with a directory of its own, `output`/NAME.
 *
 * A point is done when its program has ended with 0; then its directory gets a file `done` that holds everything
 * the results depend on (settings, text of the scenario, version). Points that are done for the same reasons are
 * not run again, so a sweep that was killed at any moment goes on where it was. A directory in which another process
 * is running a point is left alone. The inputs that a scenario names are not looked into: after changing a trace,
 * ask for `again`.
 *
 * Writes `output`/sweep.csv, one row per point, fabric and iteration of all points that are done, in the order
 * of the sweep and free of anything that depends on the machine, and `output`/failed.txt if a point failed.
 * With `slurm` it writes `output`/sweep.sbatch alone.
 *
 * @return 0 if all points (or the only one) are done, 1 if one failed or the sweep was interrupted
 * @throws SpecError  the sweep or a point's scenario is at fault, or `output` cannot be written
 */
[[nodiscard]] int RunSweep(const SweepOptions& options);

} // namespace topoopt

#endif // TOPOOPT_CORE_SWEEP_H
