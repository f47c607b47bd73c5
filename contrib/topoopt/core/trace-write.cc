// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/trace-write.h"

#include "topoopt/core/error.h"
#include "topoopt/core/scenario.h"
#include "topoopt/core/writers/writers.h"

#include <filesystem>
#include <fstream>

namespace topoopt
{

const std::vector<TraceWriterFormat>&
TraceWriterFormats()
{
    static const std::vector<TraceWriterFormat> formats = {
        {"chakra", "Chakra execution trace: NAME.RANK.et and comm_group.json", ".et", WriteChakra},
        {"param-basic", "PARAM basic: rank-RANK.json", ".json", WriteParamBasic},
        {"hpcc-flows", "HPCC flow.txt", ".txt", WriteHpccFlows},
        {"htsim-cm", "htsim connection matrix", ".cm", WriteConnectionMatrix},
    };
    return formats;
}

WrittenTrace
WriteTrace(const TaskGraph& graph, const std::string& format, const std::string& output)
{
    const std::filesystem::path path(output);
    std::string known;
    std::vector<std::string> names;
    for (const TraceWriterFormat& candidate : TraceWriterFormats())
    {
        const bool bySuffix = format.empty() && path.extension() == candidate.suffix;
        if (candidate.name == format || bySuffix)
        {
            // One file keeps its name; files per rank take the name without suffix in front of the rank.
            const bool single =
                candidate.write == WriteHpccFlows || candidate.write == WriteConnectionMatrix;
            const std::string stem = single ? path.filename().string() : path.stem().string();
            return candidate.write(graph, stem.empty() ? "trace" : stem);
        }
        names.push_back(candidate.name);
        known += (known.empty() ? "" : ", ") + candidate.name + " (" + candidate.suffix + ")";
    }
    const std::string near = Suggest(format, names);
    throw SpecError(output,
                    "found " + (format.empty() ? "no known suffix" : "format '" + format + "'") +
                        ", expected " + (near.empty() ? known : near));
}

void
SaveTrace(const WrittenTrace& trace, const std::string& output)
{
    namespace fs = std::filesystem;
    const fs::path path(output);
    const bool single =
        trace.files.size() == 1 && trace.files.begin()->first == path.filename().string();
    const bool named = path.extension() == ".et" || path.extension() == ".json";
    const fs::path folder = single || named ? path.parent_path() : path;
    std::error_code error;
    if (!folder.empty())
    {
        fs::create_directories(folder, error);
        if (error)
        {
            throw SpecError(folder.string(), "cannot be made: " + error.message());
        }
    }
    for (const auto& [name, content] : trace.files)
    {
        const fs::path file = folder / name;
        std::ofstream out(file, std::ios::binary);
        out.write(content.data(), static_cast<std::streamsize>(content.size()));
        out.close();
        if (!out)
        {
            throw SpecError(file.string(), "cannot be written");
        }
    }
}

} // namespace topoopt
