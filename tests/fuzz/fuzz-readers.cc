// SPDX-License-Identifier: GPL-2.0-only
// libFuzzer entry point of the trace readers; FUZZ_KIND says which. An input that is refused with a SpecError is as good
// as one that is read. The first byte of an input chooses the options; a separator makes the files of two ranks of it.
#include "topoopt/core/error.h"
#include "topoopt/core/readers/flexnet.h"
#include "topoopt/core/readers/input.h"
#include "topoopt/core/readers/readers.h"
#include "topoopt/core/trace-flows.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace
{

using namespace topoopt;

constexpr int kChakra = 1; ///< protobuf
constexpr int kJson = 2;   ///< every JSON format
constexpr int kFlows = 3;  ///< flow lists
constexpr int kText = 4;   ///< distributions, matrices, topologies, layer tables, GOAL
[[maybe_unused]] constexpr int kPacked = 5; ///< gzip and bzip2 in front of anything
constexpr int kFbuf = 6;                    ///< FlexNet task graphs
constexpr int kBeside = 7; ///< files that options name: process groups, places of ranks

/** Whether the content is of the kind under test; others would only wear out the detection. */
bool
Wanted(const std::string& content)
{
    const bool packed = content.compare(0, 2, "\x1f\x8b") == 0 || content.compare(0, 3, "BZh") == 0;
    const std::string_view head = std::string_view(content).substr(0, 65536);
    const bool flows = ProbeHpccFlows(head) || ProbeConnectionMatrix(head) || ProbeOperaFlows(head);
    switch (FUZZ_KIND)
    {
    case kChakra:
        return !packed && ProbeChakra(head);
    case kJson:
        return !packed && !JsonKeys(head).empty();
    case kFlows:
        return !packed && flows;
    case kText:
        return !packed && !flows && JsonKeys(head).empty() && !ProbeChakra(head);
    default:
        return packed;
    }
}

/** Whether a text asks for more ranks than the memory of a fuzz target holds: a table is repeated for each. */
bool
AsksForMany(const std::string& content)
{
    constexpr std::size_t kMost = 3; // digits
    for (const char* key : {"all_gpus", "Nodes", "nodes"})
    {
        std::size_t at = content.find(key);
        while (at != std::string::npos)
        {
            at = content.find_first_of("0123456789", at);
            const std::size_t end =
                std::min(content.find_first_not_of("0123456789", at), content.size());
            if (at != std::string::npos && end - at > kMost)
            {
                return true;
            }
            at = content.find(key, end);
        }
    }
    return false;
}

/** A file without a name on disk, for options that name one. */
class MemoryFile
{
  public:
    MemoryFile()
        : m_file(memfd_create("topoopt-fuzz", MFD_CLOEXEC))
    {
        if (m_file < 0)
        {
            std::abort();
        }
    }

    /** @return a path under which @p content can be read until the next call */
    const std::string& With(const std::string& content)
    {
        const auto size = static_cast<ssize_t>(content.size());
        if (ftruncate(m_file, 0) != 0 || pwrite(m_file, content.data(), content.size(), 0) != size)
        {
            std::abort();
        }
        return m_path;
    }

  private:
    int m_file;
    std::string m_path = "/proc/self/fd/" + std::to_string(m_file);
};

/** What else stands in the scenario; a bit of @p mode for each group of options. */
std::map<std::string, std::string>
OptionsOf(unsigned mode, const std::string& content, MemoryFile& other)
{
    std::map<std::string, std::string> options;
    const auto with = [&](unsigned bit, const std::map<std::string, std::string>& more) {
        if ((mode & bit) != 0)
        {
            options.insert(more.begin(), more.end());
        }
    };
    if (FUZZ_KIND == kFlows)
    {
        if ((mode & 1) != 0)
        {
            options["topology"] = other.With("4 1 3\n3\n0 3 1Gbps 1us 0\n1 3 1Gbps 1us 0\n"
                                             "2 3 1Gbps 1us 0\n");
        }
        with(2, {{"align", "first"}, {"max_ops", "2"}, {"scale_bytes", "0.5"}});
        with(4, {{"servers", "3"}});
        with(8, {{"start_unit", "us"}});
        return options;
    }
    if (FUZZ_KIND == kText && ProbeSizeCdf(content))
    {
        if ((mode & 1) != 0)
        {
            options = {{"load", "0.5"}, {"duration", "100ns"}, {"servers", "4"}, {"rate", "1Gbps"}};
        }
        return options;
    }
    if (FUZZ_KIND == kText && (ProbeHpccTopology(content) || ProbeHtsimTopology(content)))
    {
        return options;
    }
    if ((mode & 2) != 0 && ProbeLayerTable(content))
    {
        options["ranks"] = "4"; // of a layer table that does not say it
    }
    else
    {
        with(2, {{"cpu_compute", "true"}, {"ctrl_deps", "true"}});
    }
    with(4,
         {{"timing", "kept"},
          {"align", "per-rank"},
          {"scale_bytes", "0.5"},
          {"compute_scale", "2"}});
    with(8, {{"skip_unknown", "true"}, {"skip_unplaceable", "true"}});
    with(16, {{"first_iteration", "true"}, {"max_ops", "3"}});
    with(32, {{"serialise", "none"}});
    with(64, {{"partial", "true"}});
    with(128,
         {{"comm_size_unit", "elements"},
          {"elem_bytes", "2"},
          {"allgather_size", "output"},
          {"servers", "2"}});
    return options;
}

/** Everything that a user could see of it. */
void
Show(const TraceSummary& summary)
{
    std::ostringstream out;
    PrintText(summary, out);
    PrintJson(summary, out);
}

void
ReadGraph(std::string_view content)
{
    const FlexNetGraph graph = ParseFlexNet(content, "x.fbuf");
    const FlexNetStatistics statistics = Inspect(graph);
    (void)ToText(statistics);
    (void)ToJson(statistics);
    (void)FlexNetTaskGraph(graph);
    (void)FlexNetFabric(graph, BitRate{1'000'000'000}, kMicrosecond, 1);
}

/** A file that an option of a small trace names: process groups, or places of ranks. */
void
ReadBeside(unsigned mode, const std::string& content, MemoryFile& other)
{
    // A trace of a format whose groups may be given in a file.
    const char* trace =
        R"({"workload_graph": [{"Id": 1, "NodeType": 7, "comm_type": 0, "comm_size": 8, "pg_name": "a"}]})";
    const auto shared = std::make_shared<const std::string>(trace);
    Show(InspectFiles(
        {{"rank-0.json", UINT32_MAX, shared}, {"rank-1.json", UINT32_MAX, shared}},
        (mode & 1) != 0 ? std::map<std::string, std::string>{{"groups_file", other.With(content)}}
                        : std::map<std::string, std::string>{{"servers", "2"},
                                                             {"ranks_map", other.With(content)}}));
}

void
ReadTrace(unsigned mode, const std::string& content, MemoryFile& other)
{
    const auto options = OptionsOf(mode, content, other);
    if (options.count("load") > 0)
    {
        Show(InspectFile(other.With(content), options)); // flows are drawn from a file on disk
        return;
    }
    constexpr std::string_view kNextRank("\xfe\xfd|\xfd\xfe");
    const std::size_t at = content.find(kNextRank);
    const auto file = [](const char* name, const std::string& text) {
        return TraceFile{name, UINT32_MAX, std::make_shared<const std::string>(text)};
    };
    std::vector<TraceFile> files{file("rank-0.json", content.substr(0, at))};
    if (at != std::string::npos)
    {
        files.push_back(file("rank-1.json", content.substr(at + kNextRank.size())));
    }
    else if ((mode & 1) != 0 && (FUZZ_KIND == kChakra || FUZZ_KIND == kJson))
    {
        // The same for two, so that matching has work to do.
        files.push_back(file("rank-1.json", content));
    }
    Show(InspectFiles(files, options));
}

} // namespace

extern "C" int
LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    static MemoryFile other;
    if (size < 2)
    {
        return 0;
    }
    const std::string_view all(reinterpret_cast<const char*>(data), size);
    const std::string content(all.substr(1));
    const unsigned mode = data[0];
    if (FUZZ_KIND < kFbuf && (!Wanted(content) || (FUZZ_KIND == kText && AsksForMany(content))))
    {
        return -1;
    }
    try
    {
        if (FUZZ_KIND == kFbuf)
        {
            ReadGraph(all);
        }
        else if (FUZZ_KIND == kBeside)
        {
            ReadBeside(mode, content, other);
        }
        else
        {
            ReadTrace(mode, content, other);
        }
    }
    catch (const SpecError&)
    {
    }
    return 0;
}
