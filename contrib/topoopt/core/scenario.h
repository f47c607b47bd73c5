// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_SCENARIO_H
#define TOPOOPT_CORE_SCENARIO_H

#include "topoopt/core/fabric.h"
#include "topoopt/core/optics-spec.h"
#include "topoopt/core/units.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace topoopt
{

/** Which source of operations a scenario names. */
enum class WorkloadKind : std::uint8_t
{
    Model,     ///< traces/models/NAME.yaml
    TaskGraph, ///< FlexNet .fbuf
    Trace,     ///< per-rank traces
    Flows,     ///< a flow list, or a size distribution
    Jobs       ///< a shared cluster
};

/**
 * The `workload:` section. Paths are already relative to the working directory.
 *
 * Options, here and in fabrics and strategies, are flat text: a section inside becomes dotted keys
 * (`compute.scale`), a list of texts one text with commas ("1,3"), a list of sections dotted keys with
 * indices (`jobs.0.model`). Options whose last part is taskgraph, trace, flows, cdf, file or plan are paths.
 * For `flows: {cdf: F, load: 0.5}` path is empty and cdf, load are options.
 */
struct WorkloadSpec
{
    WorkloadKind kind = WorkloadKind::Trace;
    std::string
        path; ///< file, directory or prefix; model name (a file if it has '/' or ends in .yaml)
    std::map<std::string, std::string> options; ///< keys beside it, as text (`compute_scale: 0`)
    std::map<std::string, std::string> places;  ///< option -> file:line:col
    std::string place;
};

/** The `engine:` section. */
struct EngineSpec
{
    std::string fidelity = "packet";
    std::string transport = "dctcp"; ///< a name of `topoopt list`
    Bytes mtu = 9000;                ///< IP MTU; payload = mtu - 44 (IPv4, UDP, BTH, ICRC)
    std::string compat = "none";     ///< none | flexnet
    bool trains = true;              ///< exact trains; results do not depend on it
    std::uint32_t ackEvery = 0;      ///< data packets per ACK; 0 = the transport's default
    Bytes buffer = 0;                ///< per port; 0 = derived from the rate
    Bytes ecn = 0;                   ///< marking threshold per port; 0 = derived from the rate
};

/** The `results:` section. */
struct ResultSpec
{
    std::string flows = "csv"; ///< none | csv | csv.gz
    bool linkSamples = false;  ///< utilisation of links over time
};

/** A validated experiment: every field is in range, every name resolved against its table later. */
struct Scenario
{
    std::string name;
    std::string file; ///< where it was read from
    std::uint64_t seed = 1;
    ServerSpec servers;
    WorkloadSpec workload;
    std::map<std::string, std::string> strategy; ///< empty = data-parallel
    std::vector<FabricSpec> fabrics;
    EngineSpec engine;
    std::map<std::string, std::string> collectives; ///< kind -> algorithm
    ResultSpec results;
    std::map<std::string, std::string> reconfiguration;       ///< keys for all fabrics, as texts
    std::map<std::string, std::string> reconfigurationPlaces; ///< of each key
    FailurePlan failures;
    std::uint32_t iterations = 1;
    SimTime stop = 10 * kSecond;
};

/**
 * Reads a scenario (version 1, design in doc/topoopt.rst) and applies `--set a.b=value` overrides in order.
 *
 * An override's value is YAML (`fabrics=[ideal-switch]`); its path may name any key, present or not, and
 * items of lists by index (`fabrics.0.kind=expander`). A kind of workload set by an override replaces another
 * kind of the file together with the file's options beside it. A path in an override is relative to the working
 * directory if it exists there, every other path to the directory of @p file.
 * @throws SpecError `FILE:LINE:COL: key: found X, expected Y` for unknown (with a suggestion), duplicate or
 *         missing keys, wrong types, bare numbers where a unit is due, and values out of range. For an override the
 *         place is `--set a.b=value`.
 */
[[nodiscard]] Scenario ReadScenario(const std::string& file,
                                    const std::vector<std::string>& overrides);

/**
 * The same scenario as YAML, all defaults filled in; reading it again gives an equal scenario.
 *
 * @param directory  where the text will be put as a file: relative paths are written as seen from there, so that
 *                   the text does not depend on the working directory; "" = beside scenario.file
 */
[[nodiscard]] std::string WriteScenario(const Scenario& scenario,
                                        const std::string& directory = "");

/** What changes the circuits of a fabric of the scenario. @throws SpecError as ParseReconfiguration() */
[[nodiscard]] ReconfigurationSpec ReconfigurationOf(const Scenario& scenario,
                                                    const FabricSpec& fabric);

/** Whether a fabric has a `reconfiguration:` of its own. */
[[nodiscard]] bool HasOwnReconfiguration(const FabricSpec& fabric);

struct YamlValue;

/** The `engine:` section, of a scenario or a plan. @throws SpecError */
[[nodiscard]] EngineSpec ReadEngine(const YamlValue& value);

/** The `collectives:` section: kind -> algorithm. @throws SpecError */
[[nodiscard]] std::map<std::string, std::string> ReadCollectives(const YamlValue& value);
/** A `results:` section. @throws SpecError for what @p engine cannot give */
[[nodiscard]] ResultSpec ReadResults(const YamlValue& value, const EngineSpec& engine);

/** The candidate nearest to @p text by edit distance if it is near enough to be a typing error, else "". */
[[nodiscard]] std::string Suggest(const std::string& text,
                                  const std::vector<std::string>& candidates);

} // namespace topoopt

#endif // TOPOOPT_CORE_SCENARIO_H
