// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_TRACE_FLOWS_H
#define TOPOOPT_CORE_TRACE_FLOWS_H

#include "topoopt/core/fabric.h"
#include "topoopt/core/random.h"
#include "topoopt/core/trace.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace topoopt
{

struct TraceFile;

/** Options beside `workload.flows`; units are in the values. */
struct FlowOptions
{
    /** cdf: file of a size distribution; the rest of the line is for it. */
    std::string cdf;
    /** load: mean over servers of the bytes sent, as a share of a server's total NIC rate. */
    double load = 0;
    /** duration: arrivals end here. */
    SimTime duration = 0;
    /** matrix: file whose entries weight the pairs (rack matrix, fbflow rows); empty = uniform. */
    std::string matrix;
    /** topology: file in HPCC or SimAI form whose hosts the list's node numbers name. */
    std::string topology;
    /** start_unit: of htsim connection matrices, `ps` or `us`. */
    std::string startUnit;
    /** align: starts as `recorded`, or counted from the `first` flow. */
    bool alignFirst = false;
    /** max_ops: only the first flows in order of start; 0 = all. */
    std::uint64_t maxOps = 0;
    /** scale_bytes: factor on every size. */
    double scaleBytes = 1.0;

    static FlowOptions Parse(const std::map<std::string, std::string>& options,
                             const std::map<std::string, std::string>& places = {});
    [[nodiscard]] std::string Stamp() const;
};

/**
 * Reads a flow list (HPCC flow.txt, htsim .cm, Opera .htsim; content decides), or draws Poisson arrivals
 * from a size distribution if @p path is empty.
 *
 * Each flow is a Transfer task on its source rank with its start as `notBefore`; rank = server. Flows are
 * sorted by start, which is a warning if the file was not. Triggers become dependencies. Memory: about 100 B
 * per flow.
 * @param servers count = 0: as many as the list names
 * @throws SpecError FILE:LINE[:COL] with what was found and expected
 */
[[nodiscard]] LoadedWorkload LoadFlows(const std::string& path,
                                       const FlowOptions& options,
                                       const ServerSpec& servers,
                                       std::uint64_t seed);

/** The same for a list in memory. */
[[nodiscard]] LoadedWorkload LoadFlowsFile(const TraceFile& file,
                                           const FlowOptions& options,
                                           const ServerSpec& servers);

/**
 * A cumulative distribution of flow sizes, linear between its points.
 *
 * Two points of equal size are an atom; a first point above probability 0 is an atom at its size. Scale: percent if
 * the last line says 100, fraction if it says 1.
 */
class SizeDistribution
{
  public:
    struct Point
    {
        double bytes = 0;
        double probability = 0; ///< 0..1
    };

    /** @throws SpecError FILE:LINE */
    static SizeDistribution Read(const TraceFile& file);

    /** Bytes. */
    [[nodiscard]] double Mean() const;
    /** Size at probability @p u in [0, 1), a whole number of at least 1. */
    [[nodiscard]] Bytes At(double u) const;

    std::vector<Point> points;
};

/** Weights of ordered pairs of racks (or servers). */
struct TrafficMatrix
{
    std::uint32_t size = 0;
    std::vector<double> weights;  ///< size*size, row = source
    std::uint64_t rows = 0;       ///< fbflow: samples read
    std::uint64_t usableRows = 0; ///< fbflow: inside one cluster and without nulls
    Bytes usableBytes = 0;        ///< fbflow: of those; multiply by the sampling rate, 30000
    std::string format;           ///< rack-matrix or fbflow

    /**
     * Reads a rack matrix (JSON {"matrix": {"inner": [[..]]}}) or fbflow samples (15 columns, tabs or commas,
     * with or without a head line); racks of fbflow are numbered in order of their names.
     * @throws SpecError FILE:LINE or FILE:LINE:COL
     */
    static TrafficMatrix Read(const TraceFile& file);

    [[nodiscard]] double Total() const;
};

/**
 * Reads a network in HPCC or SimAI form (docs/peers.md A.3.1, A.3.2) or an htsim fat-tree description (`.topo`).
 * Hosts become servers 0.. in the order of their numbers; routing is shortest paths with ECMP by flow.
 * @param hostOf if not null: file's node number -> server, for hosts
 */
[[nodiscard]] std::shared_ptr<Fabric> ReadTopologyFile(const TraceFile& file,
                                                       std::uint64_t seed,
                                                       std::map<std::uint64_t, ServerId>* hostOf,
                                                       std::vector<std::string>& warnings);

/**
 * The task graph of whatever `topoopt convert` reads: a trace, a flow list, or flows drawn from a size distribution.
 * @param options as for InspectFile()
 * @throws SpecError as the readers, and for a file that holds no operations (matrices, topologies, results)
 */
[[nodiscard]] LoadedWorkload LoadAnyFile(const std::string& path,
                                         const std::map<std::string, std::string>& options);

/**
 * Everything that `topoopt inspect` can be pointed at: traces, flow lists, size distributions, matrices and
 * topology files. Applies all checks that a run applies.
 * @param options trace or flow options; besides, `servers`: how many there are, so that a rank or host that has no
 *        place is an error. For flows drawn from a size distribution (with `load` and `duration`) also `nics`, `rate`
 *        and `seed`.
 */
[[nodiscard]] TraceSummary InspectFile(const std::string& path,
                                       const std::map<std::string, std::string>& options);

/** The same for files in memory. */
[[nodiscard]] TraceSummary InspectFiles(const std::vector<TraceFile>& files,
                                        const std::map<std::string, std::string>& options);

} // namespace topoopt

#endif // TOPOOPT_CORE_TRACE_FLOWS_H
