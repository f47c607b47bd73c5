// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_TESTS_TRACE_SUPPORT_H
#define TOPOOPT_TESTS_TRACE_SUPPORT_H

#include "topoopt/core/error.h"
#include "topoopt/core/readers/input.h"
#include "topoopt/core/trace.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace topoopt::test
{

/** The directory of third-party samples, or "" if this machine has none. */
inline std::string
SharedTraces()
{
    const char* given = std::getenv("TOPOOPT_SHARED");
    const std::filesystem::path base =
        given != nullptr ? given : std::filesystem::path(TOPOOPT_SOURCE_DIR) / ".." / "shared";
    const std::filesystem::path traces = base / "traces";
    return std::filesystem::is_directory(traces) ? traces.string() + "/" : "";
}

/** Trace files in memory: {name, content}. */
inline std::vector<TraceFile>
Memory(const std::vector<std::pair<std::string, std::string>>& files)
{
    std::vector<TraceFile> out;
    for (const auto& [name, content] : files)
    {
        out.push_back({name, UINT32_MAX, std::make_shared<const std::string>(content)});
    }
    return out;
}

/** The trace of ranks 0, 1, ... in one PARAM basic array each. */
inline LoadedWorkload
LoadParam(const std::vector<std::string>& ranks,
          const std::map<std::string, std::string>& options = {})
{
    std::vector<std::pair<std::string, std::string>> files;
    for (std::size_t r = 0; r < ranks.size(); ++r)
    {
        files.emplace_back("rank-" + std::to_string(r) + ".json", ranks[r]);
    }
    return LoadTraceFiles(Memory(files), TraceOptions::Parse(options));
}

/** The message of the SpecError that @p run throws, or "no error". */
template <typename Run>
std::string
ErrorOf(Run run)
{
    try
    {
        run();
    }
    catch (const SpecError& error)
    {
        const std::string text = error.what();
        EXPECT_EQ(text.find('\n'), std::string::npos) << text;
        return text;
    }
    return "no error";
}

inline std::string
ReadFile(const std::string& path)
{
    std::ifstream in(path, std::ios::binary);
    EXPECT_TRUE(in) << path;
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

/** Bytes from @p src to @p dst with the default algorithms of Summarise(). */
inline Bytes
WireBytes(const TraceSummary& summary, RankId src, RankId dst)
{
    for (const TraceSummary::Pair& pair : summary.wirePairs)
    {
        if (pair.src == src && pair.dst == dst)
        {
            return pair.bytes;
        }
    }
    return 0;
}

} // namespace topoopt::test

/** @p text contains @p part; prints both if not. */
#define EXPECT_HAS(text, part) \
    EXPECT_NE(std::string(text).find(part), std::string::npos) << "in: " << (text)

#define SKIP_WITHOUT_SHARED()                  \
    if (topoopt::test::SharedTraces().empty()) \
    GTEST_SKIP() << "no ../shared/traces (set TOPOOPT_SHARED)"

#endif // TOPOOPT_TESTS_TRACE_SUPPORT_H
