// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/sweep-points.h"

#include "topoopt/core/error.h"
#include "topoopt/core/random.h"
#include "topoopt/core/scenario.h"
#include "topoopt/core/yaml-document.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

namespace topoopt
{

namespace
{

namespace fs = std::filesystem;

using Setting = std::pair<std::string, std::string>; ///< path, value as YAML

/** Settings of a section `{path: value}`. */
std::vector<Setting>
ReadSettings(const YamlValue& value, const std::string& path)
{
    const YamlSection section(value, path, {});
    if (value.items.empty())
    {
        throw SpecError(value.place, path + ": found an empty section, expected `path: value`");
    }
    std::vector<Setting> settings;
    for (std::size_t i = 0; i < value.items.size(); ++i)
    {
        settings.emplace_back(value.keys[i].text, FormatYaml(value.items[i]));
    }
    return settings;
}

struct Axis
{
    std::string path;
    std::vector<std::string> values;
};

std::vector<Axis>
ReadGrid(const YamlValue& value)
{
    const YamlSection section(value, "grid", {});
    std::vector<Axis> axes;
    for (std::size_t i = 0; i < value.items.size(); ++i)
    {
        const YamlValue& list = value.items[i];
        if (list.kind != YamlKind::List || list.items.empty())
        {
            throw SpecError(list.place,
                            section.Path(value.keys[i].text) + ": found " +
                                (list.kind == YamlKind::List ? "an empty list" : list.Found()) +
                                ", expected a list of values");
        }
        Axis axis{value.keys[i].text, {}};
        for (const YamlValue& item : list.items)
        {
            axis.values.push_back(FormatYaml(item));
        }
        axes.push_back(std::move(axis));
    }
    return axes;
}

std::string
Hex(std::uint64_t number)
{
    std::string text(8, '0');
    for (std::size_t i = 0; i < text.size(); ++i)
    {
        text[text.size() - 1 - i] = "0123456789abcdef"[number >> (4 * i) & 15U];
    }
    return text;
}

/**
 * `nics=4,rate=100Gbps`: last parts of the paths where they tell them apart. Whatever does not fit a file name
 * is replaced, and a hash of the settings then keeps names apart.
 */
std::string
NameOf(const std::vector<Setting>& settings, const std::set<std::string>& ambiguous)
{
    constexpr std::size_t kMost = 100;
    std::string whole;
    std::string name;
    for (const auto& [path, value] : settings)
    {
        const std::string last = path.substr(path.rfind('.') + 1);
        const bool number = last.find_first_not_of("0123456789") == std::string::npos;
        const std::string& label = number || ambiguous.count(last) != 0 ? path : last;
        name += (name.empty() ? "" : ",") + label + "=" + value;
        whole += path + "=" + value + "\n";
    }
    bool changed = name.size() > kMost;
    name.resize(std::min(name.size(), kMost));
    for (char& c : name)
    {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || c == '=' || c == ',' || c == '.' || c == '-' ||
                           c == '_' || c == '+';
        changed = changed || !plain;
        c = plain ? c : '_';
    }
    if (name[0] == '.' || name[0] == '-')
    {
        name[0] = '_';
        changed = true;
    }
    return changed ? name + "-" + Hex(HashName(whole)) : name;
}

} // namespace

Sweep
ReadSweep(const std::string& file, const std::vector<std::string>& overrides)
{
    const YamlValue document = ReadYamlFile(file);
    const YamlSection top(document, "", {"version", "name", "scenario", "set", "grid", "points"});
    Sweep sweep;
    sweep.file = file;
    std::uint32_t version = 1;
    top.Count("version", 1U, 1U, version);
    sweep.name = fs::path(file).stem().string();
    top.Text("name", sweep.name);
    const std::string& scenario =
        ScalarOf(top.Require("scenario", "the path of a scenario"), "scenario", "a path");
    sweep.scenario = (fs::path(file).parent_path() / scenario).lexically_normal().string();
    if (const YamlValue* set = top.Find("set"))
    {
        for (const auto& [path, value] : ReadSettings(*set, "set"))
        {
            sweep.common.push_back(path + "=" + value);
        }
    }
    sweep.common.insert(sweep.common.end(), overrides.begin(), overrides.end());

    std::vector<Axis> axes;
    if (const YamlValue* grid = top.Find("grid"))
    {
        axes = ReadGrid(*grid);
    }
    std::vector<std::vector<Setting>> bases;
    if (const YamlValue* points = top.Find("points"))
    {
        if (points->kind != YamlKind::List || points->items.empty())
        {
            throw SpecError(
                points->place,
                "points: found " +
                    (points->kind == YamlKind::List ? "an empty list" : points->Found()) +
                    ", expected a list of sections `path: value`");
        }
        for (std::size_t i = 0; i < points->items.size(); ++i)
        {
            bases.push_back(ReadSettings(points->items[i], "points." + std::to_string(i)));
        }
    }
    if (axes.empty() && bases.empty())
    {
        throw SpecError(document.place, "found neither a grid nor points, expected one of them");
    }
    if (bases.empty())
    {
        bases.emplace_back();
    }
    std::size_t combinations = 1;
    for (const Axis& axis : axes)
    {
        combinations *= axis.values.size();
        if (combinations * bases.size() > kMaxSweepPoints)
        {
            throw SpecError(file,
                            "found more than " + std::to_string(kMaxSweepPoints) +
                                " points, expected fewer");
        }
    }

    std::vector<std::vector<Setting>> all;
    for (const std::vector<Setting>& base : bases)
    {
        for (std::size_t index = 0; index < combinations; ++index)
        {
            std::vector<Setting> settings = base;
            std::size_t rest = index;
            std::size_t stride = combinations;
            for (const Axis& axis : axes)
            {
                stride /= axis.values.size();
                settings.emplace_back(axis.path, axis.values[rest / stride]);
                rest %= stride;
            }
            all.push_back(std::move(settings));
        }
    }
    std::map<std::string, std::string> lasts; // last part -> the path that has it
    std::set<std::string> ambiguous;
    for (const std::vector<Setting>& settings : all)
    {
        for (const auto& [path, value] : settings)
        {
            if (std::find(sweep.columns.begin(), sweep.columns.end(), path) != sweep.columns.end())
            {
                continue;
            }
            sweep.columns.push_back(path);
            const std::string last = path.substr(path.rfind('.') + 1);
            if (!lasts.emplace(last, path).second)
            {
                ambiguous.insert(last);
            }
        }
    }
    std::set<std::string> names;
    for (const std::vector<Setting>& settings : all)
    {
        SweepPoint point;
        point.name = NameOf(settings, ambiguous);
        point.values.resize(sweep.columns.size());
        for (const auto& [path, value] : settings)
        {
            point.assignments.push_back(path + "=" + value);
            const auto column = std::find(sweep.columns.begin(), sweep.columns.end(), path);
            std::string& cell =
                point.values[static_cast<std::size_t>(column - sweep.columns.begin())];
            if (!cell.empty())
            {
                throw SpecError(file,
                                "point " + point.name + ": found '" + Printable(path) +
                                    "' set by points and by grid, expected one of them");
            }
            cell = value;
        }
        if (!names.insert(point.name).second)
        {
            throw SpecError(file,
                            "found the point " + point.name + " twice, expected different points");
        }
        std::vector<std::string> assignments = sweep.common;
        assignments.insert(assignments.end(), point.assignments.begin(), point.assignments.end());
        try
        {
            static_cast<void>(ReadScenario(sweep.scenario, assignments));
        }
        catch (const SpecError& error)
        {
            throw SpecError(file, "point " + point.name + ": " + error.what());
        }
        sweep.points.push_back(std::move(point));
    }
    return sweep;
}

} // namespace topoopt
