// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_TESTS_GOLDEN_H
#define TOPOOPT_TESTS_GOLDEN_H

#include <cstdlib>
#include <filesystem>
#include <string>

namespace topoopt::test
{

/** A file of the golden data, empty if the shared directory is not there. */
inline std::string
Golden(const std::string& name)
{
    namespace fs = std::filesystem;
    const char* shared = std::getenv("TOPOOPT_SHARED");
    const fs::path root =
        shared != nullptr ? fs::path(shared) : fs::path(TOPOOPT_SOURCE_DIR) / ".." / "shared";
    const fs::path path = root / "golden" / name;
    return fs::exists(path) ? path.string() : std::string();
}

} // namespace topoopt::test

#endif // TOPOOPT_TESTS_GOLDEN_H
