// SPDX-License-Identifier: GPL-2.0-only
// libFuzzer entry point of the trace readers; FUZZ_KIND says which. An input that is refused with a SpecError is as good
// as one that is read.
#include "topoopt/core/error.h"
#include "topoopt/core/readers/flexnet.h"
#include "topoopt/core/readers/input.h"
#include "topoopt/core/readers/readers.h"
#include "topoopt/core/trace-flows.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace
{

using namespace topoopt;

constexpr int kChakra = 1; ///< protobuf
constexpr int kJson = 2;   ///< every JSON format
constexpr int kFlows = 3;  ///< flow lists
constexpr int kText = 4;   ///< distributions, matrices, topologies, layer tables, GOAL
constexpr int kPacked = 5; ///< gzip and bzip2 in front of anything
constexpr int kFbuf = 6;   ///< FlexNet task graphs

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

} // namespace

extern "C" int
LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    if (size < 2)
    {
        return 0;
    }
    if (FUZZ_KIND == kFbuf)
    {
        try
        {
            (void)FlexNetTaskGraph(
                ParseFlexNet(std::string_view(reinterpret_cast<const char*>(data), size),
                             "x.fbuf"));
        }
        catch (const SpecError&)
        {
        }
        return 0;
    }
    // The first byte: one rank, or the same file for two, so that matching has work to do.
    const auto content =
        std::make_shared<const std::string>(reinterpret_cast<const char*>(data + 1), size - 1);
    if (!Wanted(*content) || (FUZZ_KIND == kText && AsksForMany(*content)))
    {
        return -1;
    }
    std::vector<TraceFile> files{{"rank-0.json", UINT32_MAX, content}};
    if ((data[0] & 1) != 0 && (FUZZ_KIND == kChakra || FUZZ_KIND == kJson))
    {
        files.push_back({"rank-1.json", UINT32_MAX, content});
    }
    try
    {
        std::map<std::string, std::string> options;
        if ((data[0] & 2) != 0 && FUZZ_KIND == kText && ProbeLayerTable(*content))
        {
            options["ranks"] = "4"; // of a layer table that does not say it
        }
        (void)InspectFiles(files, options);
    }
    catch (const SpecError&)
    {
    }
    return 0;
}
