// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_TESTS_TEMP_PATH_H
#define TOPOOPT_TESTS_TEMP_PATH_H

#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

namespace topoopt::test
{

/** Where @p name is in a directory of this process's own, gone when it ends: ctest runs cases and builds side by side. */
inline std::string
TempPath(const std::string& name)
{
    static const struct Directory
    {
        std::filesystem::path path = std::filesystem::path(testing::TempDir()) /
                                     ("topoopt-tests-" + std::to_string(getpid()));

        Directory()
        {
            std::filesystem::create_directories(path);
        }

        ~Directory()
        {
            std::error_code ignored;
            std::filesystem::remove_all(path, ignored);
        }
    } directory;

    return (directory.path / name).string();
}

} // namespace topoopt::test

#endif // TOPOOPT_TESTS_TEMP_PATH_H
