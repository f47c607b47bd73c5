// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/optics-spec.h"

#include "topoopt/core/error.h"
#include "topoopt/core/option-values.h"
#include "topoopt/core/yaml-document.h"

#include <algorithm>
#include <array>

namespace topoopt
{

namespace
{

constexpr SimTime kMostTime = 100LL * 24 * 3600 * kSecond;
constexpr std::size_t kMaxFailures = 100'000;
constexpr std::uint32_t kMostPorts = 1'000'000;
constexpr double kMostDb = 1000;
constexpr double kMostKm = 1e6;

const std::vector<std::string> kPolicyKeys = {"policy",
                                              "device",
                                              "latency",
                                              "period",
                                              "first",
                                              "transition",
                                              "granularity",
                                              "forwarding",
                                              "bond",
                                              "rings",
                                              "relock",
                                              "move_time",
                                              "flip_time",
                                              "ports",
                                              "insertion_loss",
                                              "link_budget",
                                              "fibre_km"};

constexpr std::array<const char*, 5> kFailureNames = {"link", "nic", "server", "port", "flap"};

FailureSpec
ReadFailure(const YamlValue& value, const std::string& path)
{
    // Which keys stand beside which kind.
    static const std::array<std::vector<std::string>, 5> own = {{{"link", "between"},
                                                                 {"server", "nic"},
                                                                 {"server"},
                                                                 {"panel", "port"},
                                                                 {"server", "nic", "down", "up"}}};
    FailureSpec failure;
    failure.place = value.place;
    const YamlSection any(value, path, {});
    std::string kind;
    static_cast<void>(any.Require("kind", "what breaks: link, nic, server, port or flap"));
    any.Choice("kind", {kFailureNames.begin(), kFailureNames.end()}, kind);
    const auto index = static_cast<std::size_t>(
        std::find(kFailureNames.begin(), kFailureNames.end(), kind) - kFailureNames.begin());
    failure.kind = static_cast<FailureKind>(index);
    std::vector<std::string> keys = own[index];
    keys.insert(keys.end(), {"kind", "at", "mtbf", "count", "repair"});
    const YamlSection section(value, path, keys);
    section.Time("at", 0, kMostTime, failure.at);
    section.Time("mtbf", 1, kMostTime, failure.mtbf);
    section.Count("count", 1U, 1'000'000U, failure.count);
    section.Count("link", 0U, UINT32_MAX - 1, failure.index);
    section.Count("server", 0U, UINT32_MAX - 1, failure.server);
    section.Count("nic", 0U, 4095U, failure.nic);
    section.Count("panel", 0U, UINT32_MAX - 1, failure.panel);
    section.Count("port", 0U, UINT32_MAX - 1, failure.port);
    failure.down = kMillisecond;
    failure.up = 10 * kMillisecond;
    section.Time("down", 1, kMostTime, failure.down);
    section.Time("up", 1, kMostTime, failure.up);
    if (const YamlValue* repair = section.Find("repair"))
    {
        if (repair->text == "none")
        {
            failure.repair = kNever;
        }
        else
        {
            section.Time("repair", 1, kMostTime, failure.repair);
        }
    }
    if (const YamlValue* between = section.Find("between"))
    {
        if (between->kind != YamlKind::List || between->items.size() != 2)
        {
            throw SpecError(between->place,
                            section.Path("between") + ": found " + between->Found() +
                                ", expected the names of two nodes such as [s0, s1]");
        }
        failure.from = ScalarOf(between->items[0], section.Path("between.0"), "a node's name");
        failure.to = ScalarOf(between->items[1], section.Path("between.1"), "a node's name");
    }
    const bool random = failure.mtbf > 0;
    const bool named = failure.index != kNoId || !failure.from.empty() || failure.server != kNoId ||
                       failure.port != kNoId;
    if (random && (named || section.Find("at") != nullptr))
    {
        throw SpecError(
            value.place,
            path + ": found mtbf beside at or something that is to break, expected one or the "
                   "other");
    }
    if (!random && !named && failure.kind != FailureKind::Link)
    {
        throw SpecError(value.place,
                        path + ": found no " +
                            (failure.kind == FailureKind::Port ? "port" : "server") +
                            ", expected what is to break (or mtbf)");
    }
    if (failure.index != kNoId && !failure.from.empty())
    {
        throw SpecError(value.place, path + ": found both link and between, expected one of them");
    }
    if (section.Find("count") != nullptr && !random && failure.kind != FailureKind::Flap)
    {
        throw SpecError(
            value.place,
            path + ".count: found it without mtbf, expected it for random failures and flaps");
    }
    return failure;
}

} // namespace

ReconfigurationSpec
ParseReconfiguration(const std::map<std::string, std::string>& texts,
                     const std::map<std::string, std::string>& places,
                     const std::string& place)
{
    const OptionValues in(texts, places, place, "reconfiguration.");
    ReconfigurationSpec spec;
    spec.place = place;
    if (const std::string* policy = in.Find("policy"))
    {
        spec.policy = *policy;
    }
    const PolicyKind& kind = FindPolicy(spec.policy, in.PlaceOf("policy"));
    std::vector<std::string> known = kPolicyKeys;
    known.insert(known.end(), kind.options.begin(), kind.options.end());
    // A section may hold what only other policies look at: it stands for several fabrics.
    std::vector<std::string> anyKnown = kPolicyKeys;
    for (const PolicyKind& other : PolicyKinds())
    {
        anyKnown.insert(anyKnown.end(), other.options.begin(), other.options.end());
    }
    for (const auto& [key, text] : texts)
    {
        const std::string head = key.substr(0, key.find('.'));
        if (std::find(anyKnown.begin(), anyKnown.end(), head) == anyKnown.end())
        {
            throw SpecError(in.PlaceOf(key),
                            "reconfiguration." + Printable(key) + ": found an unknown key" +
                                DidYouMean(head, anyKnown));
        }
        if (std::find(kind.options.begin(), kind.options.end(), head) != kind.options.end())
        {
            spec.options[key] = text;
        }
    }
    static const std::vector<std::string> devices = {"look-ahead", "ocs", "patch-panel"};
    spec.device = devices[in.Choice("device", devices, 1)];
    const auto time = [&in](const char* key, SimTime& out) {
        out = in.Time(key, out, 0, kMostTime);
    };
    time("latency", spec.latency);
    time("period", spec.period);
    time("first", spec.first);
    time("relock", spec.relock);
    time("move_time", spec.moveTime);
    time("flip_time", spec.flipTime);
    spec.drain = in.Choice("transition", {"drain", "drop"}, 0) == 0;
    spec.whole = in.Choice("granularity", {"whole", "port"}, 0) == 0;
    spec.forwarding = in.Flag("forwarding", kind.forwarding);
    spec.bond = in.Flag("bond", spec.bond);
    spec.manyRings = in.Choice("rings", {"one", "all"}, kind.manyRings ? 1 : 0) == 1;
    spec.ports = in.Count("ports", spec.ports, 2, kMostPorts);
    spec.insertionLoss = in.Number("insertion_loss", spec.insertionLoss, 0, kMostDb, "dB");
    spec.linkBudget = in.Number("link_budget", spec.linkBudget, 0, kMostDb, "dB");
    spec.fibreKm = in.Number("fibre_km", spec.fibreKm, 0, kMostKm, "km");
    if (kind.periodic && spec.period == 0 && spec.latency == 0)
    {
        in.Fail("latency",
                "'0s'",
                "a period beside a latency of 0 (its default is four latencies)");
    }
    if (spec.period == 0)
    {
        spec.period = 4 * spec.latency;
    }
    if (spec.first == kNever)
    {
        spec.first = std::min(spec.latency, kMillisecond);
    }
    return spec;
}

const char*
Name(FailureKind kind)
{
    return kFailureNames[static_cast<std::size_t>(kind)];
}

FailurePlan
ReadFailures(const YamlValue& value)
{
    FailurePlan plan;
    plan.text = FormatYaml(value);
    const YamlValue* events = &value;
    if (value.kind == YamlKind::Map)
    {
        const YamlSection section(value,
                                  "failures",
                                  {"events", "detection", "repair", "spare_ports", "move_time"});
        events = &section.Require("events", "a list of what breaks");
        section.Time("detection", 0, kMostTime, plan.detection);
        section.Time("move_time", 1, kMostTime, plan.moveTime);
        section.Count("spare_ports", 0U, 1'000'000U, plan.sparePorts);
        if (const YamlValue* repair = section.Find("repair"))
        {
            plan.patch = repair->text == "patch";
            if (!plan.patch && repair->text != "none")
            {
                section.Time("repair", 1, kMostTime, plan.repair);
            }
        }
    }
    if (events->kind != YamlKind::List || events->items.empty())
    {
        throw SpecError(events->place,
                        "failures: found " +
                            (events->kind == YamlKind::List ? "an empty list" : events->Found()) +
                            ", expected a list such as [{kind: link, link: 0, at: 1ms}]");
    }
    if (events->items.size() > kMaxFailures)
    {
        throw SpecError(events->place,
                        "failures: found " + std::to_string(events->items.size()) +
                            " events, expected at most " + std::to_string(kMaxFailures));
    }
    for (std::size_t i = 0; i < events->items.size(); ++i)
    {
        plan.events.push_back(ReadFailure(events->items[i], "failures." + std::to_string(i)));
    }
    return plan;
}

} // namespace topoopt
