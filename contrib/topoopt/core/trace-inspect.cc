// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/error.h"
#include "topoopt/core/readers/input.h"
#include "topoopt/core/readers/option-reader.h"
#include "topoopt/core/readers/readers.h"
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

} // namespace

TraceSummary
InspectFile(const std::string& path, const std::map<std::string, std::string>& options)
{
    std::map<std::string, std::string> rest = options;
    ServerSpec servers;
    {
        const std::map<std::string, std::string> none;
        OptionReader reader(options, none);
        reader.Number("servers", servers.count, 1, 1000000);
        rest.erase("servers");
    }
    std::error_code error;
    if (std::filesystem::is_regular_file(path, error))
    {
        const TraceFile file{path, UINT32_MAX, nullptr};
        bool flows = false;
        {
            Input input(file);
            const std::string_view head = input.Head();
            if (ProbeSizeCdf(head))
            {
                return InspectCdf(file);
            }
            if (ProbeRackMatrix(head) || ProbeFbflow(head))
            {
                return InspectMatrix(file);
            }
            if (ProbeHpccTopology(head) || ProbeHtsimTopology(head))
            {
                return InspectTopology(file);
            }
            flows = ProbeHpccFlows(head) || ProbeConnectionMatrix(head) || ProbeOperaFlows(head);
        }
        if (flows)
        {
            return Summarise(LoadFlows(path, FlowOptions::Parse(rest), servers, 1));
        }
    }
    return Summarise(LoadTrace(path, TraceOptions::Parse(rest)));
}

} // namespace topoopt
