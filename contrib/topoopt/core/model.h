// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_MODEL_H
#define TOPOOPT_CORE_MODEL_H

#include "topoopt/core/operator.h"
#include "topoopt/core/units.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace topoopt
{

/** What may be said beside a model's name. */
struct ModelOptions
{
    /** A configuration of the file; empty = the first made for `servers`, else the first. */
    std::string configuration;
    std::uint32_t servers = 0; ///< 0 = as the configuration says
    std::uint32_t gpus = 0;    ///< per server; 0 = as the configuration says
    /** Parameters and `batch_per_gpu`, `device`, `measured`, `precision`, `rank`; values as text. */
    std::map<std::string, std::string> overrides;
    std::map<std::string, std::string> places; ///< of overrides, for messages
    /** Directories that hold `traces/`; empty = DataRoots(). */
    std::vector<std::string> roots;
};

/** A neural network with its training configuration; the graph is in topological order. */
struct Model
{
    std::string name;
    std::string file;
    std::string configuration;
    std::string description;
    std::map<std::string, std::int64_t> parameters; ///< after overrides
    std::vector<Operator> operators;

    std::uint32_t servers = 0;
    std::uint32_t gpus = 0; ///< per server
    std::uint32_t batchPerGpu = 0;
    /**
     * One rank per GPU, or one per server whose GPUs act as one device (as the reference simulator has it).
     */
    bool rankPerGpu = false;
    std::string measured;             ///< FILE/SET of traces/compute, empty = roofline only
    std::string device;               ///< of traces/devices.yaml
    std::string precision = "fp32";   ///< of the device's peaks
    std::uint32_t parameterBytes = 4; ///< per weight and gradient element
    double optimizerBytes = 0;        ///< state per weight element besides weight and gradient
    bool optimizerStep = false;       ///< the weights are updated by a task of their own
    std::map<std::string, std::string> strategy; ///< suggested by the file for this configuration

    [[nodiscard]] std::uint64_t GlobalBatch() const
    {
        return std::uint64_t{servers} * gpus * batchPerGpu;
    }

    /** Bytes of all weights that data parallelism reduces (tables excluded). */
    [[nodiscard]] Bytes DenseBytes() const;
    /** Bytes of all tables. */
    [[nodiscard]] Bytes TableBytes() const;
};

/**
 * Where `traces/` may be: $TOPOOPT_DATA, the working directory and its parents, the program's
 * directory and its parents; only those that have it.
 */
[[nodiscard]] std::vector<std::string> DataRoots();

/** Names of the models in traces/models of the first root that has it, sorted. */
[[nodiscard]] std::vector<std::string> ModelNames(const std::vector<std::string>& roots = {});

/**
 * Reads a model file: parameters, configurations and a list of operators with repeats.
 *
 * @param nameOrPath  a name of ModelNames(), or a file if it contains `/` or ends in `.yaml`
 * The format is in doc/workloads.rst. Expressions are 64-bit integers with overflow checked; at most
 * 20000 operators.
 * @throws SpecError  FILE:LINE:COL: key: what was found, what was expected; also for options
 */
[[nodiscard]] Model LoadModel(const std::string& nameOrPath, const ModelOptions& options = {});

/** The path of `traces/RELATIVE` in the first root that has it. @throws SpecError if none has */
[[nodiscard]] std::string FindData(const std::string& relative,
                                   const std::vector<std::string>& roots);

} // namespace topoopt

#endif // TOPOOPT_CORE_MODEL_H
