// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/trace.h"

#include "topoopt/core/error.h"
#include "topoopt/core/readers/input.h"
#include "topoopt/core/readers/option-reader.h"
#include "topoopt/core/readers/readers.h"
#include "topoopt/core/trace-set.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>

namespace topoopt
{

namespace
{

namespace fs = std::filesystem;

/** A file name taken apart around its rank: "x.", 3, ".et"; the compression suffix is dropped. */
struct RankName
{
    std::string prefix;
    std::string suffix;
    std::uint32_t rank = UINT32_MAX;
};

bool
IsDigit(char c)
{
    return c >= '0' && c <= '9';
}

/**
 * The rank in a file name: behind "rank" or "worker", else the last number of the stem, unless that is part of a
 * version such as 1.0.2.
 */
RankName
SplitRank(std::string name)
{
    for (const char* packed : {".gz", ".bz2"})
    {
        const std::string_view ending(packed);
        if (name.size() > ending.size() &&
            name.compare(name.size() - ending.size(), ending.size(), ending) == 0)
        {
            name.erase(name.size() - ending.size());
            break;
        }
    }
    const auto number = [&name](std::size_t begin, RankName& out) {
        std::size_t end = begin;
        while (end < name.size() && IsDigit(name[end]))
        {
            ++end;
        }
        std::uint32_t value = 0;
        const auto result = std::from_chars(name.data() + begin, name.data() + end, value);
        if (end == begin || result.ec != std::errc() || value > 1000000)
        {
            return false;
        }
        out = {name.substr(0, begin), name.substr(end), value};
        return true;
    };
    RankName out{name, "", UINT32_MAX};
    for (const char* word : {"rank", "worker"})
    {
        std::size_t at = name.rfind(word);
        if (at == std::string::npos)
        {
            continue;
        }
        at += std::string_view(word).size();
        at += at < name.size() && (name[at] == '-' || name[at] == '_' || name[at] == '.') ? 1 : 0;
        if (number(at, out))
        {
            return out;
        }
    }
    std::size_t end = name.size();
    for (const char* ending : {".json", ".et", ".trace", ".pt", ".txt", "_plus", ".trace"})
    {
        const std::string_view text(ending);
        if (end > text.size() && name.compare(end - text.size(), text.size(), text) == 0)
        {
            end -= text.size();
        }
    }
    std::size_t begin = end;
    while (begin > 0 && IsDigit(name[begin - 1]))
    {
        --begin;
    }
    const bool version = begin >= 2 && name[begin - 1] == '.' && IsDigit(name[begin - 2]);
    if (begin < end && !version)
    {
        number(begin, out);
    }
    return out;
}

/** @p text with long numbers (times, process ids) made equal. */
std::string
WithoutStamps(const std::string& text)
{
    constexpr std::size_t kLong = 6;
    std::string out;
    for (std::size_t at = 0; at < text.size();)
    {
        std::size_t end = at;
        while (end < text.size() && IsDigit(text[end]))
        {
            ++end;
        }
        out += end - at >= kLong ? "#" : text.substr(at, std::max<std::size_t>(end - at, 1));
        at = std::max(end, at + 1);
    }
    return out;
}

/** All files of the trace at @p path, in rank order; see LoadTrace(). */
std::vector<TraceFile>
FindFiles(const std::string& path)
{
    std::error_code error;
    const fs::path given(path);
    const bool directory = fs::is_directory(given, error);
    const bool file = !directory && fs::exists(given, error);
    if (file)
    {
        // A flow list or another kind with one file for everything, or a rank without a number.
        const RankName own = SplitRank(given.filename().string());
        if (own.rank == UINT32_MAX)
        {
            return {{path, UINT32_MAX, nullptr}};
        }
    }
    const fs::path folder = directory                     ? given
                            : given.parent_path().empty() ? fs::path(".")
                                                          : given.parent_path();
    if (!fs::is_directory(folder, error))
    {
        throw SpecError(path, "no such file or directory");
    }
    const RankName own = file ? SplitRank(given.filename().string()) : RankName{};
    const std::string stem = given.filename().string();
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    {
        if (entry.is_regular_file(error) && entry.path().filename().string()[0] != '.')
        {
            names.push_back(entry.path().filename().string());
        }
    }
    if (error)
    {
        throw SpecError(path, "cannot be read: " + error.message());
    }
    std::sort(names.begin(), names.end());
    // A plain file wins over the same name with .gz.
    std::map<std::pair<std::uint32_t, std::string>, TraceFile> found;
    std::vector<std::string> unnumbered;
    for (const std::string& name : names)
    {
        const RankName split = SplitRank(name);
        const bool wanted = directory ||
                            (file && split.prefix == own.prefix &&
                             WithoutStamps(split.suffix) == WithoutStamps(own.suffix)) ||
                            (!directory && !file && name.rfind(stem, 0) == 0 &&
                             (split.prefix == stem || split.prefix == stem + "." ||
                              split.prefix == stem + "_" || split.prefix == stem + "-"));
        if (!wanted)
        {
            continue;
        }
        const std::string full = (folder / name).lexically_normal().string();
        if (split.rank == UINT32_MAX)
        {
            unnumbered.push_back(full);
            continue;
        }
        found.emplace(std::make_pair(split.rank, split.prefix + "#" + split.suffix),
                      TraceFile{full, split.rank, nullptr});
    }
    if (found.empty())
    {
        if (directory && !unnumbered.empty())
        {
            // One file for everything, or files whose content names the rank.
            std::vector<TraceFile> files;
            for (const std::string& name : unnumbered)
            {
                files.push_back({name, UINT32_MAX, nullptr});
            }
            return files;
        }
        throw SpecError(path, directory ? "found no files" : "no such file or directory");
    }
    std::vector<TraceFile> files;
    for (const auto& [key, value] : found)
    {
        files.push_back(value);
    }
    return files;
}

/** Ranks must be 0..n-1, once each. */
void
CheckRanks(const std::string& place, const std::vector<TraceFile>& files)
{
    for (std::size_t i = 0; i < files.size(); ++i)
    {
        if (i > 0 && files[i].rank == files[i - 1].rank)
        {
            throw SpecError(files[i].path,
                            "found a second file of rank " + std::to_string(files[i].rank) +
                                ", beside " + files[i - 1].path);
        }
        if (files[i].rank != i)
        {
            const fs::path path(files[i].path);
            const RankName split = SplitRank(path.filename().string());
            throw SpecError(
                place,
                "rank " + std::to_string(i) + " is missing: found " + std::to_string(files.size()) +
                    " files up to rank " + std::to_string(files.back().rank) + ", expected " +
                    (path.parent_path() / (split.prefix + std::to_string(i) + split.suffix))
                        .string());
        }
    }
}

std::string
FormatNames(bool flows)
{
    std::string list;
    for (const TraceFormat& format : TraceFormats())
    {
        if (format.flows == flows)
        {
            list += (list.empty() ? "" : ", ") + format.name;
        }
    }
    return list;
}

/** What an unknown file looks like, in a few words. */
std::string
LooksLike(std::string_view head)
{
    if (head.empty())
    {
        return "an empty file";
    }
    if (head.substr(0, 2) == "\xff\xfe" || head.substr(0, 2) == "\xfe\xff")
    {
        return "UTF-16 text";
    }
    const auto keys = JsonKeys(head);
    if (!keys.empty())
    {
        return keys[0] == "[" ? "a JSON array" : "a JSON object with \"" + keys[0] + "\"";
    }
    const bool text = std::none_of(head.begin(), head.end(), [](char c) {
        return static_cast<unsigned char>(c) < 9;
    });
    return text ? "plain text" : "binary data";
}

const TraceFormat&
Detect(const TraceFile& file)
{
    Input input(file);
    const std::string_view head = input.Head();
    for (const TraceFormat& format : TraceFormats())
    {
        if (format.load != nullptr && format.probe(head))
        {
            return format;
        }
    }
    for (const TraceFormat& format : TraceFormats())
    {
        if (format.flows && format.probe(head))
        {
            throw SpecError(file.path,
                            "found a flow list (" + format.name +
                                "), expected a trace; "
                                "name it as `flows:`");
        }
    }
    throw SpecError(file.path,
                    "found " + LooksLike(head) + ", expected one of " + FormatNames(false));
}

LoadedWorkload
Load(const std::string& place, std::vector<TraceFile> files, const TraceOptions& options)
{
    if (files.empty())
    {
        throw SpecError(place, "found no files");
    }
    TraceSet set;
    set.place = place;
    const TraceFormat& format = Detect(files[0]);
    for (TraceFile& file : files)
    {
        const TraceFormat& other = Detect(file);
        if (&other != &format)
        {
            throw SpecError(file.path,
                            "found " + other.name + ", but " + files[0].path + " is " +
                                format.name);
        }
        if (file.rank == UINT32_MAX && files.size() > 1)
        {
            file.rank = SplitRank(fs::path(file.path).filename().string()).rank;
        }
        file.rank = format.rankOf != nullptr ? format.rankOf(file) : file.rank;
        if (file.rank == UINT32_MAX && files.size() > 1)
        {
            throw SpecError(file.path,
                            format.perRank
                                ? "found several files and no rank in this one's name, such as "
                                  "rank-0.json or NAME.0.et"
                                : "found several files, expected one for all ranks");
        }
    }
    std::stable_sort(files.begin(), files.end(), [](const TraceFile& a, const TraceFile& b) {
        return a.rank < b.rank;
    });
    if (format.perRank && !options.partial && files[0].rank != UINT32_MAX)
    {
        CheckRanks(place, files);
    }
    if (!format.perRank && files.size() > 1)
    {
        throw SpecError(place,
                        "found several files, expected one for all ranks (" + format.name + ")");
    }
    if (files.size() == 1 && files[0].rank == UINT32_MAX)
    {
        if (options.oneTrace > 1)
        {
            files.resize(options.oneTrace, files[0]);
            for (std::uint32_t r = 0; r < options.oneTrace; ++r)
            {
                files[r].rank = r;
            }
        }
    }
    set.ranks.resize(files.size());
    for (std::size_t r = 0; r < files.size(); ++r)
    {
        set.ranks[r].file = files[r].path;
    }
    LoadedWorkload out;
    out.format = format.name;
    out.stamp = options.Stamp();
    format.load(files, options, set);
    for (const RankTrace& trace : set.ranks)
    {
        out.files.push_back(trace.file);
    }
    BuildTaskGraph(set, options, out);
    return out;
}

} // namespace

TraceOptions
TraceOptions::Parse(const std::map<std::string, std::string>& options,
                    const std::map<std::string, std::string>& places)
{
    TraceOptions out;
    OptionReader reader(options, places);
    reader.Choice("timing", {"dependency", "kept"}, [&out](std::size_t i) {
        out.timingKept = i == 1;
    });
    reader.Choice("align", {"global", "per-rank"}, [&out](std::size_t i) {
        out.alignPerRank = i == 1;
    });
    reader.Factor("compute_scale", out.computeScale, true);
    reader.Factor("scale_bytes", out.scaleBytes, false);
    reader.Number("max_ops", out.maxOps, 0, UINT64_MAX);
    reader.Flag("first_iteration", out.firstIteration);
    reader.Choice("serialise", {"group", "none"}, [&out](std::size_t i) {
        out.serialise = i == 0;
    });
    reader.Choice("allgather_size", {"input", "output"}, [&out](std::size_t i) {
        out.allGatherOutput = i == 1;
    });
    reader.Choice("comm_size_unit", {"bytes", "elements"}, [&out](std::size_t i) {
        out.sizesAreElements = i == 1;
    });
    reader.Number("elem_bytes", out.elementBytes, 1, 1024);
    reader.Flag("skip_unknown", out.skipUnknown);
    reader.Flag("skip_unplaceable", out.skipUnplaceable);
    reader.Flag("cpu_compute", out.cpuCompute);
    reader.Flag("ctrl_deps", out.controlDeps);
    reader.Number("one_trace", out.oneTrace, 0, 1000000);
    reader.Number("ranks", out.ranks, 1, 1000000);
    reader.Flag("partial", out.partial);
    reader.Text("groups_file", out.groupsFile);
    reader.Text("ranks_map", out.ranksMap);
    reader.Number("gpus_per_server", out.gpusPerServer, 1, 1000000);
    reader.RefuseOthers("trace");
    return out;
}

std::string
TraceOptions::Stamp() const
{
    std::string out;
    const auto add = [&out](bool differs, const std::string& text) {
        out += differs ? (out.empty() ? "" : " ") + text : "";
    };
    add(timingKept, "timing=kept");
    add(alignPerRank, "align=per-rank");
    add(computeScale != 1.0, "compute_scale=" + ShortestText(computeScale));
    add(scaleBytes != 1.0, "scale_bytes=" + ShortestText(scaleBytes));
    add(maxOps != 0, "max_ops=" + std::to_string(maxOps));
    add(firstIteration, "first_iteration=true");
    add(!serialise, "serialise=none");
    add(allGatherOutput, "allgather_size=output");
    add(sizesAreElements, "comm_size_unit=elements elem_bytes=" + std::to_string(elementBytes));
    add(skipUnknown, "skip_unknown=true");
    add(skipUnplaceable, "skip_unplaceable=true");
    add(cpuCompute, "cpu_compute=true");
    add(controlDeps, "ctrl_deps=true");
    add(oneTrace != 0, "one_trace=" + std::to_string(oneTrace));
    add(ranks != 0, "ranks=" + std::to_string(ranks));
    add(partial, "partial=true");
    // Names without their directories, which differ between machines.
    add(!groupsFile.empty(), "groups_file=" + fs::path(groupsFile).filename().string());
    add(!ranksMap.empty(), "ranks_map=" + fs::path(ranksMap).filename().string());
    add(gpusPerServer != 0, "gpus_per_server=" + std::to_string(gpusPerServer));
    return out;
}

const std::vector<TraceFormat>&
TraceFormats()
{
    static const std::vector<TraceFormat> formats = {
        {"chakra",
         "Chakra execution trace, protobuf; one file per rank, groups within or in comm_group.json",
         true,
         false,
         ProbeChakra,
         LoadChakra},
        {"chakra-json",
         "Chakra execution trace, JSON dialect with workload_graph; one file per rank",
         true,
         false,
         ProbeChakraJson,
         LoadChakraJson},
        {"torch-et",
         "PyTorch execution trace, JSON, schema 1.0.1 to 1.1.1, plain or linked; one file per rank",
         true,
         false,
         ProbeTorchEt,
         LoadTorchEt},
        {"param-basic",
         "PARAM basic communication trace, JSON array; one file per rank",
         true,
         false,
         ProbeParamBasic,
         LoadParamBasic},
        {"kineto",
         "PyTorch profiler (Kineto) trace with collective metadata; one file per rank",
         true,
         false,
         ProbeKineto,
         LoadKineto,
         KinetoRank},
        {"layer-table",
         "ASTRA-sim 1.0 or SimAI layer table; one file for all ranks",
         false,
         false,
         ProbeLayerTable,
         LoadLayerTable},
        {"goal",
         "GOAL text of LogGOPSim and ATLAHS; one file for all ranks",
         false,
         false,
         ProbeGoal,
         LoadGoal},
        {"hpcc-flows",
         "HPCC flow.txt: src dst prio port bytes start_s",
         false,
         true,
         ProbeHpccFlows,
         nullptr},
        {"htsim-cm",
         "htsim connection matrix with triggers",
         false,
         true,
         ProbeConnectionMatrix,
         nullptr},
        {"opera", "Opera flow list: src dst bytes start_ns", false, true, ProbeOperaFlows, nullptr},
        {"size-cdf",
         "flow sizes by cumulative probability; with load and duration",
         false,
         true,
         ProbeSizeCdf,
         nullptr},
        {"rack-matrix",
         "rack-to-rack weights, JSON; with a size distribution",
         false,
         true,
         ProbeRackMatrix,
         nullptr},
        {"fbflow",
         "Meta's packet samples, 15 columns; used as a rack matrix",
         false,
         true,
         ProbeFbflow,
         nullptr},
    };
    return formats;
}

LoadedWorkload
LoadTrace(const std::string& path, const TraceOptions& options)
{
    std::error_code error;
    const TraceFile whole{path, UINT32_MAX, nullptr};
    if (fs::is_regular_file(path, error) && !Detect(whole).perRank)
    {
        return LoadTraceFiles({whole}, options);
    }
    return LoadTraceFiles(FindFiles(path), options);
}

LoadedWorkload
LoadTraceFiles(const std::vector<TraceFile>& given, const TraceOptions& options)
{
    std::vector<TraceFile> files = given;
    std::string place = files.empty() ? "trace" : files[0].path;
    if (files.size() > 1)
    {
        const std::string folder = fs::path(place).parent_path().string();
        place = folder.empty() ? place : folder;
    }
    return Load(place, std::move(files), options);
}

std::vector<ServerId>
MapRanks(std::uint32_t ranks,
         ServerId servers,
         std::uint32_t own,
         const TraceOptions& options,
         const std::string& place)
{
    std::vector<ServerId> map;
    const std::uint32_t gpus = options.gpusPerServer != 0 ? options.gpusPerServer : own;
    const std::uint64_t slots = std::uint64_t{servers} * gpus;
    if (ranks > slots)
    {
        throw SpecError(place,
                        "found " + std::to_string(ranks) + " ranks, " + std::to_string(servers) +
                            " servers x " + std::to_string(gpus) + (gpus == 1 ? " GPU" : " GPUs") +
                            ", expected at least " + std::to_string(ranks) + " places");
    }
    if (options.ranksMap.empty())
    {
        for (std::uint32_t r = 0; r < ranks; ++r)
        {
            map.push_back(r / gpus);
        }
        return map;
    }
    Input input(TraceFile{options.ranksMap, UINT32_MAX, nullptr});
    std::vector<std::uint32_t> used(servers);
    std::string line;
    while (input.GetLine(line))
    {
        line.erase(std::min(line.find('#'), line.size()));
        std::size_t at = 0;
        while ((at = line.find_first_not_of(" \t,", at)) != std::string::npos)
        {
            const std::size_t end = std::min(line.find_first_of(" \t,", at), line.size());
            const std::string word = line.substr(at, end - at);
            ServerId server = 0;
            const auto result = std::from_chars(word.data(), word.data() + word.size(), server);
            if (result.ec != std::errc() || result.ptr != word.data() + word.size() ||
                server >= servers)
            {
                throw SpecError(input.LinePlace(),
                                "found '" + word.substr(0, 40) + "', expected a server 0.." +
                                    std::to_string(servers - 1));
            }
            if (++used[server] > gpus)
            {
                throw SpecError(input.LinePlace(),
                                "found server " + std::to_string(server) + " for " +
                                    std::to_string(used[server]) + " ranks, expected at most " +
                                    std::to_string(gpus));
            }
            map.push_back(server);
            at = end;
        }
    }
    if (map.size() != ranks)
    {
        throw SpecError(options.ranksMap,
                        "found " + std::to_string(map.size()) +
                            " servers, expected one for each of " + std::to_string(ranks) +
                            " ranks");
    }
    return map;
}

} // namespace topoopt
