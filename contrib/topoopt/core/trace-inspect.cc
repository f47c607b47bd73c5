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

/** A file that is no trace of ranks. @return false if it may be one */
bool
InspectSingle(const TraceFile& file,
              const std::map<std::string, std::string>& options,
              const ServerSpec& servers,
              TraceSummary& out)
{
    Input input(file);
    const std::string_view head = input.Head();
    if (ProbeSizeCdf(head))
    {
        out = InspectCdf(file);
    }
    else if (ProbeRackMatrix(head) || ProbeFbflow(head))
    {
        out = InspectMatrix(file);
    }
    else if (ProbeHpccTopology(head) || ProbeHtsimTopology(head))
    {
        out = InspectTopology(file);
    }
    else if (ProbeOperaResults(head))
    {
        out = InspectOperaResults(file);
    }
    else if (ProbeHpccFlows(head) || ProbeConnectionMatrix(head) || ProbeOperaFlows(head))
    {
        out = Summarise(LoadFlowsFile(file, FlowOptions::Parse(options), servers));
    }
    else
    {
        return false;
    }
    return true;
}

/** Takes `servers` out of the options. */
ServerSpec
TakeServers(std::map<std::string, std::string>& options)
{
    ServerSpec servers;
    const std::map<std::string, std::string> none;
    OptionReader(options, none).Number("servers", servers.count, 1, 1000000);
    options.erase("servers");
    return servers;
}

} // namespace

TraceSummary
InspectFile(const std::string& path, const std::map<std::string, std::string>& options)
{
    std::map<std::string, std::string> rest = options;
    const ServerSpec servers = TakeServers(rest);
    std::error_code error;
    TraceSummary out;
    if (std::filesystem::is_regular_file(path, error) &&
        InspectSingle({path, UINT32_MAX, nullptr}, rest, servers, out))
    {
        return out;
    }
    return Summarise(LoadTrace(path, TraceOptions::Parse(rest)));
}

TraceSummary
InspectFiles(const std::vector<TraceFile>& files, const std::map<std::string, std::string>& options)
{
    std::map<std::string, std::string> rest = options;
    const ServerSpec servers = TakeServers(rest);
    TraceSummary out;
    if (files.size() == 1 && InspectSingle(files[0], rest, servers, out))
    {
        return out;
    }
    return Summarise(LoadTraceFiles(files, TraceOptions::Parse(rest)));
}

} // namespace topoopt
