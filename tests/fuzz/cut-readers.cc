// SPDX-License-Identifier: GPL-2.0-only
// Cuts good traces at every byte and reads what is left: an error or a success, in memory bounded by ten times the size of
// the trace and 64 MB. Built with AddressSanitizer, whose allocator tells how much is in use; scripts/fuzz calls it:
//   fuzz-cut [--every BYTES] PATH... [--every BYTES PATH...]
// A directory is one trace of several ranks, a file is one alone. Files of more than BYTES (24576) are not cut at every byte but at
// BYTES places: a quarter of them at the beginning, a quarter at the end, the others spread evenly between.
#include "topoopt/core/error.h"
#include "topoopt/core/readers/flexnet.h"
#include "topoopt/core/readers/input.h"
#include "topoopt/core/trace-flows.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

// Of the sanitizers' allocator; their header comes with clang only.
extern "C"
{
    std::size_t __sanitizer_get_current_allocated_bytes();
    int __sanitizer_install_malloc_and_free_hooks(void (*onMalloc)(const volatile void*,
                                                                   std::size_t),
                                                  void (*onFree)(const volatile void*));
}

namespace
{

using namespace topoopt;
namespace fs = std::filesystem;

std::size_t g_most = 0; ///< bytes in use at any time since it was set to 0

void
OnAllocation(const volatile void*, std::size_t)
{
    g_most = std::max(g_most, __sanitizer_get_current_allocated_bytes());
}

void
OnFree(const volatile void*)
{
}

std::string
Content(const fs::path& path)
{
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

/** @return whether the files can be read; anything but SpecError ends the program */
bool
Read(const std::vector<TraceFile>& files, const std::map<std::string, std::string>& options)
{
    try
    {
        if (files[0].path.size() > 5 && files[0].path.rfind(".fbuf") == files[0].path.size() - 5)
        {
            (void)FlexNetTaskGraph(ParseFlexNet(*files[0].content, files[0].path));
            return true;
        }
        (void)InspectFiles(files, options);
        return true;
    }
    catch (const SpecError&)
    {
        return false;
    }
}

/** Where a file of @p size bytes is cut, in order. */
std::vector<std::size_t>
Places(std::size_t size, std::size_t every)
{
    std::vector<std::size_t> places;
    if (size <= every)
    {
        for (std::size_t at = 0; at < size; ++at)
        {
            places.push_back(at);
        }
        return places;
    }
    const std::size_t edge = every / 4;
    const std::size_t between = every - 2 * edge;
    for (std::size_t at = 0; at < edge; ++at)
    {
        places.push_back(at);
        places.push_back(size - 1 - at);
    }
    for (std::size_t k = 0; k < between; ++k)
    {
        places.push_back(edge + (size - 2 * edge) / between * k);
    }
    std::sort(places.begin(), places.end());
    return places;
}

/** @return number of cuts, or 0 if the trace is no good one */
std::size_t
Cut(const fs::path& path, std::size_t every)
{
    std::vector<TraceFile> files;
    std::map<std::string, std::string> options;
    std::vector<fs::path> names{path};
    if (fs::is_directory(path))
    {
        names.clear();
        for (const auto& entry : fs::directory_iterator(path))
        {
            if (entry.path().filename() == "comm_group.json")
            {
                options["groups_file"] = entry.path().string();
            }
            else if (entry.is_regular_file())
            {
                names.push_back(entry.path());
            }
        }
        std::sort(names.begin(), names.end());
    }
    std::size_t total = 0;
    for (const fs::path& name : names)
    {
        files.push_back(
            {name.string(), UINT32_MAX, std::make_shared<const std::string>(Content(name))});
        total += files.back().content->size();
    }
    if (files.empty())
    {
        return 0;
    }
    if (!Read(files, options))
    {
        options["ranks"] = "4"; // of a layer table that does not say it
        if (!Read(files, options))
        {
            return 0;
        }
    }
    const std::size_t limit = 10 * total + (std::size_t{64} << 20);
    std::size_t cuts = 0;
    for (TraceFile& file : files)
    {
        const auto whole = file.content;
        for (const std::size_t at : Places(whole->size(), every))
        {
            ++cuts;
            file.content = std::make_shared<const std::string>(whole->substr(0, at));
            const std::size_t before = __sanitizer_get_current_allocated_bytes();
            g_most = before;
            (void)Read(files, options);
            if (g_most - before > limit)
            {
                std::fprintf(stderr,
                             "%s cut at %zu: %zu B in use, expected at most %zu\n",
                             file.path.c_str(),
                             at,
                             g_most - before,
                             limit);
                std::exit(1);
            }
        }
        file.content = whole;
    }
    return cuts;
}

} // namespace

int
main(int argc, char** argv)
{
    __sanitizer_install_malloc_and_free_hooks(OnAllocation, OnFree);
    std::size_t every = 24576;
    std::size_t traces = 0;
    std::size_t cuts = 0;
    std::size_t refused = 0;
    for (int i = 1; i < argc; ++i)
    {
        if (std::string(argv[i]) == "--every" && i + 1 < argc)
        {
            every = std::max<std::size_t>(std::strtoul(argv[++i], nullptr, 10), 4);
            continue;
        }
        const std::size_t made = Cut(argv[i], every);
        cuts += made;
        traces += made > 0 ? 1 : 0;
        if (made == 0)
        {
            ++refused;
            std::printf("no good trace, left out: %s\n", argv[i]);
        }
    }
    std::printf("%zu traces, %zu cuts, %zu left out\n", traces, cuts, refused);
    return traces > 0 ? 0 : 1;
}
