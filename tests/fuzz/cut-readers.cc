// SPDX-License-Identifier: GPL-2.0-only
// Cuts good traces at every byte and reads what is left: an error or a success, in memory bounded by ten times the size of
// the trace and 64 MB. Arguments: a directory is one trace of several ranks, a file is one alone; scripts/fuzz calls it.
// Files beyond 64 KiB are cut at 300 places. Built with AddressSanitizer, whose allocator tells how much is in use.
#include "topoopt/core/error.h"
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
        (void)InspectFiles(files, options);
        return true;
    }
    catch (const SpecError&)
    {
        return false;
    }
}

/** @return number of cuts, or 0 if the trace is no good one */
std::size_t
Cut(const fs::path& path)
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
    if (files.empty() || !Read(files, options))
    {
        return 0;
    }
    constexpr std::size_t kSmall = 65536;
    constexpr std::size_t kPlaces = 300;
    const std::size_t limit = 10 * total + (std::size_t{64} << 20);
    std::size_t cuts = 0;
    for (TraceFile& file : files)
    {
        const auto whole = file.content;
        const std::size_t step = whole->size() <= kSmall ? 1 : whole->size() / kPlaces;
        for (std::size_t at = 0; at < whole->size(); at += step, ++cuts)
        {
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
    std::size_t traces = 0;
    std::size_t cuts = 0;
    for (int i = 1; i < argc; ++i)
    {
        const std::size_t made = Cut(argv[i]);
        traces += made > 0 ? 1 : 0;
        cuts += made;
    }
    std::printf("%zu traces, %zu cuts\n", traces, cuts);
    return traces > 0 ? 0 : 1;
}
