// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/error.h"
#include "topoopt/core/scenario.h"
#include "topoopt/core/task-graph.h"
#include "topoopt/core/yaml-document.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>
#include <yaml-cpp/emitter.h>
#include <yaml-cpp/emittermanip.h>

namespace topoopt
{

namespace
{

namespace fs = std::filesystem;

constexpr std::uint32_t kMaxServers = 1'000'000;
constexpr std::uint32_t kMaxNics = 4096;
constexpr std::uint32_t kMaxGpus = 4096;
constexpr std::uint32_t kMaxIterations = 1'000'000;
constexpr SimTime kMaxStop = 100LL * 24 * 3600 * kSecond;

/** Section of the scenario, and of a fabric: there its keys are options with this prefix. */
const std::string kReconfiguration = "reconfiguration";

const std::vector<std::string> kTopKeys = {"version",
                                           "name",
                                           "seed",
                                           "servers",
                                           "workload",
                                           "strategy",
                                           "fabrics",
                                           "engine",
                                           "collectives",
                                           "results",
                                           "reconfiguration",
                                           "failures",
                                           "iterations",
                                           "stop"};

struct KindKey
{
    const char* key;
    WorkloadKind kind;
};

constexpr std::array<KindKey, 5> kWorkloadKeys = {{{"model", WorkloadKind::Model},
                                                   {"taskgraph", WorkloadKind::TaskGraph},
                                                   {"trace", WorkloadKind::Trace},
                                                   {"flows", WorkloadKind::Flows},
                                                   {"jobs", WorkloadKind::Jobs}}};

const char*
KeyOf(WorkloadKind kind)
{
    return kWorkloadKeys[static_cast<std::size_t>(kind)].key;
}

bool
IsWorkloadKey(const std::string& key)
{
    return std::any_of(kWorkloadKeys.begin(), kWorkloadKeys.end(), [&](const KindKey& k) {
        return key == k.key;
    });
}

/** Whether the value of an option is the path of a file: told by the last part of its key. */
bool
IsPathKey(const std::string& key)
{
    static const std::set<std::string> names = {"taskgraph",
                                                "trace",
                                                "flows",
                                                "cdf",
                                                "file",
                                                "plan",
                                                "matrix",
                                                "topology",
                                                "groups_file",
                                                "ranks_map"};
    return names.count(key.substr(key.rfind('.') + 1)) != 0;
}

bool
IsModelKey(const std::string& key)
{
    return key.substr(key.rfind('.') + 1) == "model";
}

/** A model is a name of traces/models unless it looks like a file. */
bool
LooksLikeFile(const std::string& model)
{
    return model.find('/') != std::string::npos || fs::path(model).extension() == ".yaml";
}

/** Whether an option's text is a path. */
bool
IsPath(const std::string& key, const std::string& text)
{
    if (text.empty())
    {
        return false;
    }
    const bool measured = key.substr(key.rfind('.') + 1) == "measured";
    return IsPathKey(key) || (IsModelKey(key) && LooksLikeFile(text)) ||
           (measured && fs::path(text).extension() == ".json");
}

/** @p text relative to the scenario file, or to the working directory if an override says it and it is there. */
std::string
ResolvePath(const YamlValue& value, const std::string& scenarioFile)
{
    const fs::path path(value.text);
    std::error_code ignored;
    if (path.is_absolute() || (value.overridden && fs::exists(path, ignored)))
    {
        return path.lexically_normal().string();
    }
    return (fs::path(scenarioFile).parent_path() / path).lexically_normal().string();
}

void
CheckName(const YamlValue& value, const std::string& path, const std::string& name)
{
    const bool fits = !name.empty() && name.size() <= 64 && name[0] != '.' && name[0] != '-' &&
                      std::all_of(name.begin(), name.end(), [](char c) {
                          return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                 (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' ||
                                 c == '+';
                      });
    if (!fits)
    {
        throw SpecError(value.place,
                        path + ": found '" + Printable(name) +
                            "', expected a name of 1..64 letters, digits, '-', '_', '+' or '.' "
                            "(it names a directory)");
    }
}

/** Options as flat text: sections by dotted keys, lists of texts joined by commas, lists of sections by index. */
class Flattener
{
  public:
    Flattener(const std::string& scenarioFile,
              std::string section,
              std::map<std::string, std::string>& texts,
              std::map<std::string, std::string>* places)
        : m_file(scenarioFile),
          m_section(std::move(section)),
          m_texts(texts),
          m_places(places)
    {
    }

    void Add(const YamlValue& value, const std::string& key)
    {
        const std::string path = m_section + "." + key;
        switch (value.kind)
        {
        case YamlKind::Null:
            throw SpecError(value.place, path + ": found nothing, expected a value");
        case YamlKind::Scalar:
            Put(value, key, TextOf(value, key));
            return;
        case YamlKind::List:
            AddList(value, key, path);
            return;
        case YamlKind::Map:
            if (value.items.empty())
            {
                throw SpecError(value.place, path + ": found an empty section, expected keys");
            }
            for (std::size_t i = 0; i < value.items.size(); ++i)
            {
                CheckKey(value.keys[i], path);
                Add(value.items[i], key + "." + value.keys[i].text);
            }
            return;
        }
    }

    /** A dot or a number as a key would be taken for a level of its own. */
    static void CheckKey(const YamlKey& key, const std::string& path)
    {
        const char first = key.text[0];
        if (key.text.find('.') != std::string::npos || (first >= '0' && first <= '9'))
        {
            throw SpecError(key.place,
                            path + ": found the key '" + Printable(key.text) +
                                "', expected a key without dots that begins with a letter");
        }
    }

  private:
    void AddList(const YamlValue& value, const std::string& key, const std::string& path)
    {
        if (value.items.empty())
        {
            throw SpecError(value.place, path + ": found an empty list, expected values");
        }
        std::string joined;
        bool sections = false;
        for (const YamlValue& item : value.items)
        {
            if (item.kind == YamlKind::List || item.kind == YamlKind::Null)
            {
                throw SpecError(item.place,
                                path + ": found " + item.Found() +
                                    " in a list, expected texts or sections");
            }
            sections = sections || item.kind == YamlKind::Map;
        }
        for (std::size_t i = 0; i < value.items.size(); ++i)
        {
            const YamlValue& item = value.items[i];
            if (sections)
            {
                Add(item, key + "." + std::to_string(i));
                continue;
            }
            if (item.text.empty() || item.text.find(',') != std::string::npos)
            {
                throw SpecError(item.place,
                                path + ": found " + item.Found() +
                                    " in a list, expected text without commas");
            }
            joined += (i == 0 ? "" : ",") + TextOf(item, key);
        }
        if (!sections)
        {
            Put(value, key, joined);
        }
    }

    [[nodiscard]] std::string TextOf(const YamlValue& value, const std::string& key) const
    {
        return IsPath(key, value.text) ? ResolvePath(value, m_file) : value.text;
    }

    void Put(const YamlValue& value, const std::string& key, const std::string& text)
    {
        if (!m_texts.emplace(key, text).second)
        {
            throw SpecError(value.place,
                            m_section + "." + key + ": found the key twice, expected it once");
        }
        if (m_places != nullptr)
        {
            m_places->emplace(key, value.place);
        }
    }

    std::string m_file;
    std::string m_section;
    std::map<std::string, std::string>& m_texts;
    std::map<std::string, std::string>* m_places;
};

void
ReadServers(const YamlValue& value, ServerSpec& servers)
{
    const YamlSection section(value,
                              "servers",
                              {"count", "nics", "rate", "gpus", "intra_rate", "link_delay"});
    static_cast<void>(section.Require("count", "the number of servers"));
    section.Count("count", 1U, kMaxServers, servers.count);
    section.Count("nics", 1U, kMaxNics, servers.nics);
    section.Rate("rate", servers.rate);
    section.Count("gpus", 1U, kMaxGpus, servers.gpus);
    section.Rate("intra_rate", servers.intraRate);
    section.Time("link_delay", 0, kSecond, servers.linkDelay);
}

WorkloadSpec
ReadWorkload(const YamlValue& value, const std::string& file)
{
    const std::string kinds = "model, taskgraph, trace, flows or jobs";
    const YamlSection section(value, "workload", {});
    WorkloadSpec workload;
    workload.place = value.place;
    std::size_t chosen = value.keys.size();
    for (std::size_t i = 0; i < value.keys.size(); ++i)
    {
        if (!IsWorkloadKey(value.keys[i].text))
        {
            continue;
        }
        if (chosen != value.keys.size())
        {
            throw SpecError(value.keys[i].place,
                            "workload: found both '" + value.keys[chosen].text + "' and '" +
                                value.keys[i].text + "', expected one of " + kinds);
        }
        chosen = i;
    }
    if (chosen == value.keys.size())
    {
        std::vector<std::string> names(kWorkloadKeys.size());
        std::transform(kWorkloadKeys.begin(),
                       kWorkloadKeys.end(),
                       names.begin(),
                       [](const auto& k) { return k.key; });
        for (const YamlKey& key : value.keys)
        {
            const std::string hint = DidYouMean(key.text, names);
            if (!hint.empty())
            {
                throw SpecError(key.place,
                                "workload." + Printable(key.text) + ": found an unknown key" +
                                    hint);
            }
        }
        throw SpecError(value.place, "workload: found no kind of workload, expected " + kinds);
    }
    const std::string& kindKey = value.keys[chosen].text;
    for (const KindKey& candidate : kWorkloadKeys)
    {
        workload.kind = kindKey == candidate.key ? candidate.kind : workload.kind;
    }
    const YamlValue& main = value.items[chosen];
    const std::string mainPath = "workload." + kindKey;
    Flattener options(file, "workload", workload.options, &workload.places);
    if (workload.kind == WorkloadKind::Jobs)
    {
        if (main.kind == YamlKind::Map && !main.items.empty())
        {
            for (std::size_t i = 0; i < main.items.size(); ++i)
            {
                Flattener::CheckKey(main.keys[i], mainPath);
                options.Add(main.items[i], kindKey + "." + main.keys[i].text);
            }
        }
        else if (main.kind != YamlKind::List || main.items.empty())
        {
            throw SpecError(main.place,
                            mainPath + ": found " +
                                (main.kind == YamlKind::List ? "an empty list" : main.Found()) +
                                ", expected a list of jobs, or a section with a mix of them");
        }
        for (std::size_t i = 0; main.kind == YamlKind::List && i < main.items.size(); ++i)
        {
            if (main.items[i].kind != YamlKind::Map)
            {
                throw SpecError(main.items[i].place,
                                mainPath + "." + std::to_string(i) + ": found " +
                                    main.items[i].Found() + ", expected a section");
            }
            options.Add(main.items[i], kindKey + "." + std::to_string(i));
        }
    }
    else if (workload.kind == WorkloadKind::Flows && main.kind == YamlKind::Map)
    {
        const YamlSection flows(main, mainPath, {});
        static_cast<void>(flows.Require("cdf", "the file of a size distribution"));
        for (std::size_t i = 0; i < main.items.size(); ++i)
        {
            Flattener::CheckKey(main.keys[i], mainPath);
            options.Add(main.items[i], main.keys[i].text);
        }
    }
    else
    {
        const bool model = workload.kind == WorkloadKind::Model;
        const std::string& text =
            ScalarOf(main, mainPath, model ? "the name of a model" : "a path");
        if (text.empty())
        {
            throw SpecError(main.place,
                            mainPath + ": found '', expected " +
                                (model ? "the name of a model" : "a path"));
        }
        workload.path = model && !LooksLikeFile(text) ? text : ResolvePath(main, file);
        workload.place = main.place;
    }
    for (std::size_t i = 0; i < value.keys.size(); ++i)
    {
        if (i != chosen)
        {
            Flattener::CheckKey(value.keys[i], "workload");
            options.Add(value.items[i], value.keys[i].text);
        }
    }
    return workload;
}

/** A name alone stands for `{kind: name}`. */
FabricSpec
ReadFabric(const YamlValue& value, const std::string& path, const std::string& file)
{
    FabricSpec fabric;
    fabric.place = value.place;
    if (value.kind == YamlKind::Scalar)
    {
        fabric.kind = value.text;
        fabric.name = value.text;
        CheckName(value, path, fabric.name);
        return fabric;
    }
    if (value.kind != YamlKind::Map)
    {
        throw SpecError(value.place,
                        path + ": found " + value.Found() +
                            ", expected the kind of a fabric, or a section with the key kind");
    }
    const YamlSection section(value, path, {});
    const YamlValue& kind = section.Require("kind", "the kind of the fabric");
    section.Text("kind", fabric.kind);
    CheckName(kind, path + ".kind", fabric.kind);
    fabric.place = kind.place;
    fabric.name = fabric.kind;
    section.Text("name", fabric.name);
    if (const YamlValue* name = section.Find("name"))
    {
        CheckName(*name, path + ".name", fabric.name);
    }
    Flattener options(file, path, fabric.options, &fabric.places);
    for (std::size_t i = 0; i < value.keys.size(); ++i)
    {
        const YamlKey& key = value.keys[i];
        if (key.text != "kind" && key.text != "name")
        {
            Flattener::CheckKey(key, path);
            options.Add(value.items[i], key.text);
        }
    }
    // A policy alone stands for a section with nothing else.
    const auto policy = fabric.options.find(kReconfiguration);
    if (policy != fabric.options.end())
    {
        fabric.options[kReconfiguration + ".policy"] = policy->second;
        fabric.places[kReconfiguration + ".policy"] = fabric.places[kReconfiguration];
        fabric.options.erase(kReconfiguration);
    }
    return fabric;
}

std::vector<FabricSpec>
ReadFabrics(const YamlValue& value, const std::string& file)
{
    if (value.kind != YamlKind::List || value.items.empty())
    {
        throw SpecError(value.place,
                        "fabrics: found " +
                            (value.kind == YamlKind::List ? "an empty list" : value.Found()) +
                            ", expected a list such as [topoopt, fat-tree]");
    }
    std::vector<FabricSpec> fabrics;
    std::map<std::string, std::string> names;
    for (std::size_t i = 0; i < value.items.size(); ++i)
    {
        const std::string path = "fabrics." + std::to_string(i);
        fabrics.push_back(ReadFabric(value.items[i], path, file));
        const FabricSpec& fabric = fabrics.back();
        const auto [other, added] = names.emplace(fabric.name, fabric.place);
        if (!added)
        {
            throw SpecError(fabric.place,
                            path + ": found a second fabric called '" + fabric.name +
                                "' (first at " + other->second +
                                "), expected a `name:` of its own");
        }
    }
    return fabrics;
}

std::map<std::string, std::string>
ReadStrategy(const YamlValue& value, const std::string& file)
{
    std::map<std::string, std::string> strategy;
    if (value.kind == YamlKind::Scalar)
    {
        if (value.text.empty())
        {
            throw SpecError(value.place, "strategy: found '', expected a name or a section");
        }
        if (value.text != "data-parallel")
        {
            strategy["kind"] = value.text;
        }
        return strategy;
    }
    if (value.kind != YamlKind::Map)
    {
        throw SpecError(value.place,
                        "strategy: found " + value.Found() +
                            ", expected a name such as data-parallel, or a section");
    }
    Flattener options(file, "strategy", strategy, nullptr);
    for (std::size_t i = 0; i < value.keys.size(); ++i)
    {
        Flattener::CheckKey(value.keys[i], "strategy");
        options.Add(value.items[i], value.keys[i].text);
    }
    const auto kind = strategy.find("kind");
    if (kind != strategy.end() && kind->second == "data-parallel")
    {
        strategy.erase(kind);
    }
    return strategy;
}

/** Like YamlSection::Size, but an MTU may be a bare number: that is how everybody writes it. */
void
ReadMtu(const YamlSection& section, Bytes& mtu)
{
    constexpr Bytes kLeast = 45;
    constexpr Bytes kMost = 65'535;
    const YamlValue* value = section.Find("mtu");
    if (value != nullptr && value->kind == YamlKind::Scalar && !value->text.empty() &&
        value->text.find_first_not_of("0123456789") == std::string::npos)
    {
        section.Count("mtu", kLeast, kMost, mtu);
        return;
    }
    section.Size("mtu", kLeast, kMost, mtu);
}

} // namespace

EngineSpec
ReadEngine(const YamlValue& value)
{
    EngineSpec engine;
    const YamlSection section(
        value,
        "engine",
        {"fidelity", "transport", "mtu", "compat", "trains", "ack_every", "buffer", "ecn"});
    section.Choice("fidelity", {"packet", "flow"}, engine.fidelity);
    section.Text("transport", engine.transport);
    ReadMtu(section, engine.mtu);
    section.Choice("compat", {"none", "flexnet"}, engine.compat);
    section.Bool("trains", engine.trains);
    section.Count("ack_every", 0U, 65'536U, engine.ackEvery);
    section.Size("buffer", 0, Bytes{1} << 40, engine.buffer);
    section.Size("ecn", 0, Bytes{1} << 40, engine.ecn);
    return engine;
}

ResultSpec
ReadResults(const YamlValue& value, const EngineSpec& engine)
{
    ResultSpec results;
    const YamlSection section(value, "results", {"flows", "link_samples"});
    section.Choice("flows", {"none", "csv", "csv.gz"}, results.flows);
    section.Bool("link_samples", results.linkSamples);
    if (results.linkSamples && (engine.fidelity != "packet" || engine.compat != "none"))
    {
        throw SpecError(value.place,
                        "results.link_samples: found on with " +
                            (engine.compat != "none" ? "compat: " + engine.compat
                                                     : "fidelity: " + engine.fidelity) +
                            ", expected fidelity: packet without compat");
    }
    return results;
}

std::map<std::string, std::string>
ReadCollectives(const YamlValue& value)
{
    std::vector<std::string> known;
    for (int kind = 0; kind <= static_cast<int>(CollectiveKind::Barrier); ++kind)
    {
        known.emplace_back(Name(static_cast<CollectiveKind>(kind)));
    }
    const YamlSection section(value, "collectives", known);
    std::map<std::string, std::string> collectives;
    for (const YamlKey& key : value.keys)
    {
        section.Text(key.text, collectives[key.text]);
    }
    return collectives;
}

namespace
{

/** The file's keys beside the old kind of workload belong to it and go with it; overrides stay. */
void
DropOtherWorkloads(YamlValue& document, const std::vector<std::string>& path)
{
    YamlValue* workload = document.Find("workload");
    if (path.size() < 2 || path[0] != "workload" || !IsWorkloadKey(path[1]) || workload == nullptr)
    {
        return;
    }
    bool other = false;
    for (const YamlKey& key : workload->keys)
    {
        other = other || (IsWorkloadKey(key.text) && key.text != path[1]);
    }
    if (!other)
    {
        return;
    }
    YamlValue kept = *workload;
    kept.keys.clear();
    kept.items.clear();
    for (std::size_t i = 0; i < workload->keys.size(); ++i)
    {
        const std::string& key = workload->keys[i].text;
        if (key == path[1] || (workload->items[i].overridden && !IsWorkloadKey(key)))
        {
            kept.keys.push_back(workload->keys[i]);
            kept.items.push_back(workload->items[i]);
        }
    }
    *workload = std::move(kept);
}

} // namespace

Scenario
ReadScenario(const std::string& file, const std::vector<std::string>& overrides)
{
    YamlValue document = ReadYamlFile(file);
    if (document.kind == YamlKind::Null)
    {
        throw SpecError(file,
                        "found an empty file, expected a scenario with the keys servers, "
                        "workload and fabrics");
    }
    for (const std::string& assignment : overrides)
    {
        // The only values that stand for a section are names of fabrics and strategies.
        const bool named =
            assignment.rfind("fabrics.", 0) == 0 || assignment.rfind("strategy.", 0) == 0;
        DropOtherWorkloads(document, ApplyOverride(document, assignment, named ? "kind" : ""));
    }
    const YamlSection top(document, "", kTopKeys);
    Scenario scenario;
    scenario.file = file;
    std::uint32_t version = 1;
    top.Count("version", 1U, 1U, version);
    scenario.name = fs::path(file).stem().string();
    top.Text("name", scenario.name);
    const YamlValue* name = top.Find("name");
    CheckName(name != nullptr ? *name : document, "name", scenario.name);
    top.Count("seed", 0, UINT64_MAX, scenario.seed);
    top.Count("iterations", 1U, kMaxIterations, scenario.iterations);
    ReadServers(top.Require("servers", "a section with the key count"), scenario.servers);
    scenario.workload = ReadWorkload(top.Require("workload",
                                                 "a section with the key model, taskgraph, trace, "
                                                 "flows or jobs"),
                                     file);
    if (scenario.workload.kind == WorkloadKind::Jobs)
    {
        // A robot takes minutes.
        scenario.stop = kMaxStop;
    }
    top.Time("stop", 1, kMaxStop, scenario.stop);
    if (const YamlValue* strategy = top.Find("strategy"))
    {
        scenario.strategy = ReadStrategy(*strategy, file);
    }
    scenario.fabrics =
        ReadFabrics(top.Require("fabrics", "a list such as [topoopt, fat-tree]"), file);
    if (const YamlValue* engine = top.Find("engine"))
    {
        scenario.engine = ReadEngine(*engine);
    }
    if (const YamlValue* collectives = top.Find("collectives"))
    {
        scenario.collectives = ReadCollectives(*collectives);
    }
    if (const YamlValue* optics = top.Find("reconfiguration"))
    {
        Flattener options(file,
                          "reconfiguration",
                          scenario.reconfiguration,
                          &scenario.reconfigurationPlaces);
        if (optics->kind == YamlKind::Scalar)
        {
            options.Add(*optics, "policy");
        }
        else
        {
            const YamlSection section(*optics, "reconfiguration", {});
            for (std::size_t i = 0; i < optics->items.size(); ++i)
            {
                Flattener::CheckKey(optics->keys[i], "reconfiguration");
                options.Add(optics->items[i], optics->keys[i].text);
            }
        }
    }
    if (const YamlValue* failures = top.Find("failures"))
    {
        scenario.failures = ReadFailures(*failures);
    }
    for (const FabricSpec& fabric : scenario.fabrics)
    {
        static_cast<void>(ReconfigurationOf(scenario, fabric));
    }
    if (const YamlValue* results = top.Find("results"))
    {
        scenario.results = ReadResults(*results, scenario.engine);
    }
    return scenario;
}

namespace
{

/** Undoes Flattener: dotted keys become sections, runs of 0, 1, 2, ... lists. */
struct OptionTree
{
    std::string text;
    std::vector<std::pair<std::string, OptionTree>> children; ///< in order of first use

    void Put(const std::string& key, const std::string& value)
    {
        const std::size_t dot = key.find('.');
        const std::string head = key.substr(0, dot);
        auto at = std::find_if(children.begin(), children.end(), [&](const auto& child) {
            return child.first == head;
        });
        if (at == children.end())
        {
            children.emplace_back(head, OptionTree());
            at = children.end() - 1;
        }
        if (dot == std::string::npos)
        {
            at->second.text = value;
        }
        else
        {
            at->second.Put(key.substr(dot + 1), value);
        }
    }

    void Write(YAML::Emitter& out) const
    {
        if (children.empty())
        {
            out << text;
            return;
        }
        const char first = children[0].first[0];
        if (first < '0' || first > '9')
        {
            out << YAML::BeginMap;
            for (const auto& [key, child] : children)
            {
                out << YAML::Key << key << YAML::Value;
                child.Write(out);
            }
            out << YAML::EndMap;
            return;
        }
        // std::map sorted the indices as text ("10" before "2").
        std::vector<const OptionTree*> items(children.size());
        for (const auto& [key, child] : children)
        {
            items[std::stoul(key)] = &child;
        }
        out << YAML::BeginSeq;
        for (const OptionTree* item : items)
        {
            item->Write(out);
        }
        out << YAML::EndSeq;
    }
};

class Writer
{
  public:
    Writer(const Scenario& scenario, const std::string& directory)
        : m_scenario(scenario),
          m_directory(directory.empty() ? fs::path(scenario.file).parent_path()
                                        : fs::path(directory))
    {
    }

    std::string Write()
    {
        const Scenario& s = m_scenario;
        m_out << YAML::BeginMap;
        Line("version", "1");
        Line("name", s.name);
        Line("seed", std::to_string(s.seed));
        Begin("servers");
        Line("count", std::to_string(s.servers.count));
        Line("nics", std::to_string(s.servers.nics));
        Line("rate", FormatBitRate(s.servers.rate));
        Line("gpus", std::to_string(s.servers.gpus));
        Line("intra_rate", FormatBitRate(s.servers.intraRate));
        Line("link_delay", FormatTime(s.servers.linkDelay));
        m_out << YAML::EndMap;
        WriteWorkload();
        m_out << YAML::Key << "strategy" << YAML::Value;
        if (s.strategy.empty())
        {
            m_out << "data-parallel";
        }
        else
        {
            Options(s.strategy, OptionTree());
        }
        m_out << YAML::Key << "fabrics" << YAML::Value << YAML::BeginSeq;
        for (const FabricSpec& fabric : s.fabrics)
        {
            OptionTree tree;
            tree.Put("kind", fabric.kind);
            tree.Put("name", fabric.name);
            Options(fabric.options, tree);
        }
        m_out << YAML::EndSeq;
        Begin("engine");
        Line("fidelity", s.engine.fidelity);
        Line("transport", s.engine.transport);
        Line("mtu", std::to_string(s.engine.mtu));
        Line("compat", s.engine.compat);
        Line("trains", s.engine.trains ? "on" : "off");
        Line("ack_every", std::to_string(s.engine.ackEvery));
        Line("buffer", FormatBytes(s.engine.buffer));
        Line("ecn", FormatBytes(s.engine.ecn));
        m_out << YAML::EndMap;
        if (!s.collectives.empty())
        {
            Begin("collectives");
            for (const auto& [kind, algorithm] : s.collectives)
            {
                Line(kind, algorithm);
            }
            m_out << YAML::EndMap;
        }
        if (!s.reconfiguration.empty())
        {
            m_out << YAML::Key << "reconfiguration" << YAML::Value;
            Options(s.reconfiguration, OptionTree());
        }
        Begin("results");
        Line("flows", s.results.flows);
        Line("link_samples", s.results.linkSamples ? "on" : "off");
        m_out << YAML::EndMap;
        Line("iterations", std::to_string(s.iterations));
        Line("stop", FormatTime(s.stop));
        m_out << YAML::EndMap;
        return std::string(m_out.c_str()) + "\n";
    }

  private:
    void WriteWorkload()
    {
        const WorkloadSpec& workload = m_scenario.workload;
        const std::string key = KeyOf(workload.kind);
        OptionTree tree;
        if (workload.kind == WorkloadKind::Flows && workload.path.empty())
        {
            tree.children.emplace_back(key, OptionTree());
            for (const auto& [option, text] : workload.options)
            {
                tree.children[0].second.Put(option, PathText(option, text));
            }
            m_out << YAML::Key << "workload" << YAML::Value;
            tree.Write(m_out);
            return;
        }
        if (workload.kind == WorkloadKind::Model)
        {
            tree.Put(key, PathText(key, workload.path));
        }
        else if (workload.kind != WorkloadKind::Jobs)
        {
            tree.Put(key, Relative(workload.path));
        }
        m_out << YAML::Key << "workload" << YAML::Value;
        Options(workload.options, tree);
    }

    void Begin(const char* key)
    {
        m_out << YAML::Key << key << YAML::Value << YAML::BeginMap;
    }

    void Line(const std::string& key, const std::string& text)
    {
        m_out << YAML::Key << key << YAML::Value << text;
    }

    void Options(const std::map<std::string, std::string>& options, OptionTree tree)
    {
        for (const auto& [key, text] : options)
        {
            tree.Put(key, PathText(key, text));
        }
        tree.Write(m_out);
    }

    [[nodiscard]] std::string PathText(const std::string& key, const std::string& text) const
    {
        return IsPath(key, text) ? Relative(text) : text;
    }

    /** The inverse of ResolvePath for a file in m_directory. */
    [[nodiscard]] std::string Relative(const std::string& text) const
    {
        const fs::path path(text);
        if (path.is_absolute())
        {
            return text;
        }
        const fs::path from = fs::absolute(m_directory.empty() ? "." : m_directory);
        fs::path relative =
            fs::absolute(path).lexically_normal().lexically_relative(from.lexically_normal());
        return relative.empty() ? text : relative.string();
    }

    const Scenario& m_scenario;
    fs::path m_directory;
    YAML::Emitter m_out;
};

} // namespace

std::string
WriteScenario(const Scenario& scenario, const std::string& directory)
{
    const std::string text = Writer(scenario, directory).Write();
    return scenario.failures.text.empty() ? text
                                          : text + "failures: " + scenario.failures.text + "\n";
}

ReconfigurationSpec
ReconfigurationOf(const Scenario& scenario, const FabricSpec& fabric)
{
    std::map<std::string, std::string> texts = scenario.reconfiguration;
    std::map<std::string, std::string> places = scenario.reconfigurationPlaces;
    std::string place = places.empty() ? fabric.place : places.begin()->second;
    const std::string prefix = kReconfiguration + ".";
    for (const auto& [option, text] : fabric.options)
    {
        if (option.compare(0, prefix.size(), prefix) == 0)
        {
            const std::string key = option.substr(prefix.size());
            texts[key] = text;
            places[key] = fabric.PlaceOf(option);
            place = fabric.place;
        }
    }
    return ParseReconfiguration(texts, places, place);
}

bool
HasOwnReconfiguration(const FabricSpec& fabric)
{
    const std::string prefix = kReconfiguration + ".";
    return std::any_of(fabric.options.begin(), fabric.options.end(), [&](const auto& option) {
        return option.first.compare(0, prefix.size(), prefix) == 0;
    });
}

} // namespace topoopt
