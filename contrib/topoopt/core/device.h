// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_DEVICE_H
#define TOPOOPT_CORE_DEVICE_H

#include "topoopt/core/model.h"
#include "topoopt/core/operator.h"
#include "topoopt/core/units.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace topoopt
{

/** An accelerator of traces/devices.yaml. */
struct Device
{
    std::string name;
    double memory = 0;                   ///< bytes
    double bandwidth = 0;                ///< bytes/s
    std::map<std::string, double> flops; ///< precision -> peak, 1/s
    std::map<std::string, double>
        efficiency;    ///< precision, memory, gather, convolution -> share of peak
    double half = 0;   ///< matrix rows at which an operator reaches half of its efficiency
    double launch = 0; ///< fixed time per operator, s
};

/** @throws SpecError  no such device, or the file is wrong */
[[nodiscard]] Device LoadDevice(const std::string& name,
                                const std::vector<std::string>& roots = {});

/** Measured times of one operator at one number of samples on one GPU. */
struct MeasuredPoint
{
    double samples = 0;
    double forwardMs = 0;
    double backwardMs = 0;
};

/** A set of a file in traces/compute. */
struct MeasuredTable
{
    std::string device;
    std::string precision;
    std::map<std::string, std::vector<MeasuredPoint>> rows; ///< ascending in samples
};

/**
 * Reads a set of measured times.
 * @param fileAndSet  `flexnet-a100/dlrm-16`: traces/compute/flexnet-a100.yaml, set dlrm-16
 * @throws SpecError
 */
[[nodiscard]] MeasuredTable LoadMeasured(const std::string& fileAndSet,
                                         const std::vector<std::string>& roots = {});

/**
 * Reads a measurement file of FlexFlow's simulator (`--mfile`): {"batch_size", "ngpus", "measurements": [{"name", "pc_str",
 * "fw_time", "bw_time"}]}, where the last number of pc_str is the number of servers that share the batch.
 * At most 64 MiB.
 *
 * @param gpus per server; a time is that of 1/(parts * gpus) of the batch, of tables that of the whole batch
 * @throws SpecError naming file and record
 */
[[nodiscard]] MeasuredTable LoadMeasuredJson(const std::string& file, std::uint32_t gpus);

/**
 * How long operators of one model run on its device.
 *
 * A measured time is used as it is where the table has the number of samples, interpolated between two rows,
 * and scaled in proportion beyond the last one; below the first one only the part above the launch time shrinks.
 * Operators that the table lacks get the roofline
 *   launch + max(FLOPs / (peak e r/(r + half)), bytes / (bandwidth e_m)),   r = samples x positions,
 * the backward pass with its own FLOPs and twice the bytes and launches.
 */
class ComputeTimes
{
  public:
    /**
     * Measured times are those of Model::measured, a set of traces/compute or a file *.json. Rows of a set of another device or
     * precision are not used; a file does not say, and counts as the model's.
     * @throws SpecError  unknown device, precision, set or file
     */
    explicit ComputeTimes(const Model& model, const std::vector<std::string>& roots = {});

    /** @p samples on one GPU, whose share of the operator is 1/@p tensorParts. */
    [[nodiscard]] SimTime Forward(const Operator& op,
                                  double samples,
                                  std::uint32_t tensorParts) const;
    [[nodiscard]] SimTime Backward(const Operator& op,
                                   double samples,
                                   std::uint32_t tensorParts) const;
    /** Adam on @p weightBytes of weights held by one GPU: memory-bound. */
    [[nodiscard]] SimTime OptimizerStep(const Model& model, double weightBytes) const;

    /** The roofline alone, in seconds. */
    [[nodiscard]] double Roofline(const Operator& op,
                                  double samples,
                                  std::uint32_t tensorParts,
                                  bool backward) const;
    /** Rows of @p op in the measured table, null if it has none. */
    [[nodiscard]] const std::vector<MeasuredPoint>* Measured(const Operator& op) const;

    [[nodiscard]] const Device& GetDevice() const
    {
        return m_device;
    }

  private:
    [[nodiscard]] SimTime Time(const Operator& op,
                               double samples,
                               std::uint32_t tensorParts,
                               bool backward) const;

    Device m_device;
    MeasuredTable m_table;
    std::string m_precision;
};

} // namespace topoopt

#endif // TOPOOPT_CORE_DEVICE_H
