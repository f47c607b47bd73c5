// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_TESTS_MODEL_SUPPORT_H
#define TOPOOPT_TESTS_MODEL_SUPPORT_H

#include "topoopt/core/model.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace topoopt::test
{

/** Where the models of this project are. */
inline const std::vector<std::string> kRoots{TOPOOPT_SOURCE_DIR};

/** A model of this project. */
inline Model
LoadOwn(const std::string& name,
        const std::string& configuration = "",
        std::map<std::string, std::string> overrides = {})
{
    ModelOptions options;
    options.roots = kRoots;
    options.configuration = configuration;
    options.overrides = std::move(overrides);
    return LoadModel(name, options);
}

} // namespace topoopt::test

#endif // TOPOOPT_TESTS_MODEL_SUPPORT_H
