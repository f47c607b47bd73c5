// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/error.h"
#include "topoopt/core/readers/input.h"
#include "topoopt/core/readers/option-reader.h"
#include "topoopt/core/readers/readers.h"
#include "topoopt/core/readers/words.h"
#include "topoopt/core/trace-flows.h"

#include <filesystem>

namespace topoopt
{

namespace
{

TraceSummary
InspectCdf(const TraceFile& file)
{
    const SizeDistribution sizes = SizeDistribution::Read(file);
    TraceSummary out;
    out.format = "size-cdf";
    out.files = {file.path};
    out.facts["points"] = static_cast<std::int64_t>(sizes.points.size());
    out.measures["mean_bytes"] = sizes.Mean();
    return out;
}

TraceSummary
InspectMatrix(const TraceFile& file)
{
    const TrafficMatrix matrix = TrafficMatrix::Read(file);
    TraceSummary out;
    out.format = matrix.format;
    out.files = {file.path};
    out.facts["racks"] = matrix.size;
    std::int64_t empty = 0;
    double most = 0;
    for (const double weight : matrix.weights)
    {
        empty += weight == 0 ? 1 : 0;
        most = std::max(most, weight);
    }
    out.facts["empty_cells"] = empty;
    out.measures["total"] = matrix.Total();
    out.measures["largest"] = most;
    if (matrix.format == "fbflow")
    {
        out.facts["rows"] = static_cast<std::int64_t>(matrix.rows);
        out.facts["usable_rows"] = static_cast<std::int64_t>(matrix.usableRows);
        out.facts["usable_bytes"] = static_cast<std::int64_t>(matrix.usableBytes);
        out.warnings.emplace_back(
            "packet samples, not flows: multiply bytes by the sampling rate, 30000");
    }
    return out;
}

TraceSummary
InspectTopology(const TraceFile& file)
{
    TraceSummary out;
    const auto fabric = ReadTopologyFile(file, 1, nullptr, out.warnings);
    out.format = fabric->kind;
    out.files = {file.path};
    out.facts["hosts"] = fabric->topology.servers;
    out.facts["switches"] = fabric->topology.NodeCount() - fabric->topology.servers;
    out.facts["links"] = static_cast<std::int64_t>(fabric->topology.links.size());
    return out;
}

/** Whether a line among chatter starts with Opera's result keyword. */
bool
ProbeOperaResults(std::string_view head)
{
    for (const auto& line : HeadLines(head, 50))
    {
        if (line[0] == "FCT" && line.size() >= 6)
        {
            return true;
        }
    }
    return false;
}

/** Opera's simulator output: `FCT src dst bytes fct_ms start_ms` among other lines. */
TraceSummary
InspectOperaResults(const TraceFile& file)
{
    TraceSummary out;
    out.format = "opera-results";
    out.files = {file.path};
    WordReader words(file, " \t", "");
    std::int64_t flows = 0;
    std::int64_t others = 0;
    std::uint64_t bytes = 0;
    double most = 0;
    while (words.Next())
    {
        if (words.Word(0) != "FCT")
        {
            ++others;
            continue;
        }
        static_cast<void>(words.Number(1, "a host", 0, UINT32_MAX));
        static_cast<void>(words.Number(2, "a host", 0, UINT32_MAX));
        bytes += words.Number(3, "a size in bytes", 0, INT64_MAX / 1000000);
        most = std::max(most, words.Real(4, "a completion time in ms", 1e12));
        static_cast<void>(words.Real(5, "a start in ms", 1e12));
        ++flows;
    }
    out.facts["flows"] = flows;
    out.facts["other_lines"] = others;
    out.facts["bytes"] = static_cast<std::int64_t>(bytes);
    out.measures["largest_fct_ms"] = most;
    return out;
}

} // namespace

namespace
{

using Options = std::map<std::string, std::string>;

/** The servers that options speak of; the rest of the options is for the reader. */
struct InspectSetting
{
    ServerSpec servers;
    std::uint64_t seed = 1;
    Options rest;

    /** @param drawn flows are drawn, so that rates and the seed matter */
    InspectSetting(const Options& options, bool drawn)
        : rest(options)
    {
        const Options noPlaces;
        OptionReader reader(options, noPlaces);
        reader.Number("servers", servers.count, 1, 1000000);
        rest.erase("servers");
        if (drawn)
        {
            reader.Number("nics", servers.nics, 1, 1024);
            reader.Quantity("rate", servers.rate, [](const std::string& text) {
                return ParseBitRate(text);
            });
            reader.Number("seed", seed, 0, UINT64_MAX);
            rest.erase("nics");
            rest.erase("rate");
            rest.erase("seed");
        }
    }
};

/** What a file is that is no trace of ranks. */
enum class Single : std::uint8_t
{
    None,
    Cdf,
    Matrix,
    Topology,
    Results,
    Flows
};

Single
KindOf(const TraceFile& file)
{
    Input input(file);
    const std::string_view head = input.Head();
    if (ProbeSizeCdf(head))
    {
        return Single::Cdf;
    }
    if (ProbeRackMatrix(head) || ProbeFbflow(head))
    {
        return Single::Matrix;
    }
    if (ProbeHpccTopology(head) || ProbeHtsimTopology(head))
    {
        return Single::Topology;
    }
    if (ProbeOperaResults(head))
    {
        return Single::Results;
    }
    return ProbeHpccFlows(head) || ProbeConnectionMatrix(head) || ProbeOperaFlows(head)
               ? Single::Flows
               : Single::None;
}

/** Flows drawn from the sizes in @p path. */
LoadedWorkload
Draw(const std::string& path, const Options& options)
{
    InspectSetting setting(options, true);
    setting.rest["cdf"] = path;
    return LoadFlows("", FlowOptions::Parse(setting.rest), setting.servers, setting.seed);
}

TraceSummary
InspectSingle(const TraceFile& file, Single kind, const Options& options)
{
    const InspectSetting setting(options, kind == Single::Cdf);
    const FlowOptions flowOptions = FlowOptions::Parse(setting.rest);
    switch (kind)
    {
    case Single::Cdf:
        // Sizes alone say nothing about arrivals.
        return options.count("load") > 0 || options.count("duration") > 0
                   ? Summarise(Draw(file.path, options))
                   : InspectCdf(file);
    case Single::Matrix:
        return InspectMatrix(file);
    case Single::Topology:
        return InspectTopology(file);
    case Single::Results:
        return InspectOperaResults(file);
    default:
        return Summarise(LoadFlowsFile(file, flowOptions, setting.servers));
    }
}

/** Ranks must have places if the number of servers is given. */
LoadedWorkload
Placed(LoadedWorkload workload, const InspectSetting& setting, const TraceOptions& options)
{
    if (setting.servers.count != 0)
    {
        (void)MapRanks(workload.graph.ranks, setting.servers.count, 1, options);
    }
    return workload;
}

} // namespace

LoadedWorkload
LoadAnyFile(const std::string& path, const Options& options)
{
    std::error_code error;
    const Single kind = std::filesystem::is_regular_file(path, error)
                            ? KindOf({path, UINT32_MAX, nullptr})
                            : Single::None;
    if (kind == Single::Cdf)
    {
        return Draw(path, options);
    }
    const InspectSetting setting(options, false);
    if (kind == Single::Flows)
    {
        return LoadFlows(path, FlowOptions::Parse(setting.rest), setting.servers, setting.seed);
    }
    if (kind != Single::None)
    {
        throw SpecError(path,
                        std::string("found ") +
                            (kind == Single::Matrix     ? "a traffic matrix"
                             : kind == Single::Topology ? "a topology"
                                                        : "a simulator's results") +
                            ", expected a trace, a task graph or a flow list");
    }
    const TraceOptions parsed = TraceOptions::Parse(setting.rest);
    return Placed(LoadTrace(path, parsed), setting, parsed);
}

TraceSummary
InspectFile(const std::string& path, const Options& options)
{
    std::error_code error;
    if (std::filesystem::is_regular_file(path, error))
    {
        const TraceFile file{path, UINT32_MAX, nullptr};
        const Single kind = KindOf(file);
        if (kind != Single::None)
        {
            return InspectSingle(file, kind, options);
        }
    }
    return Summarise(LoadAnyFile(path, options));
}

TraceSummary
InspectFiles(const std::vector<TraceFile>& files, const Options& options)
{
    const Single kind = files.size() == 1 ? KindOf(files[0]) : Single::None;
    if (kind != Single::None)
    {
        return InspectSingle(files[0], kind, options);
    }
    const InspectSetting setting(options, false);
    const TraceOptions parsed = TraceOptions::Parse(setting.rest);
    return Summarise(Placed(LoadTraceFiles(files, parsed), setting, parsed));
}

} // namespace topoopt
