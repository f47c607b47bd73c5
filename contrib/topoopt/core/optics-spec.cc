// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/optics-spec.h"

#include "topoopt/core/error.h"
#include "topoopt/core/yaml-document.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <stdexcept>

namespace topoopt
{

namespace
{

constexpr SimTime kMostTime = 100LL * 24 * 3600 * kSecond;
constexpr std::size_t kMaxFailures = 100'000;

const std::vector<std::string> kKeys = {"policy",
                                        "device",
                                        "latency",
                                        "period",
                                        "first",
                                        "transition",
                                        "granularity",
                                        "forwarding",
                                        "bond",
                                        "relock",
                                        "move_time",
                                        "flip_time",
                                        "ports",
                                        "insertion_loss",
                                        "link_budget",
                                        "fibre_km"};

/** Texts with their places. */
class Texts
{
  public:
    Texts(const std::map<std::string, std::string>& texts,
          const std::map<std::string, std::string>& places,
          std::string place)
        : m_texts(texts),
          m_places(places),
          m_place(std::move(place))
    {
    }

    [[nodiscard]] const std::string& PlaceOf(const std::string& key) const
    {
        const auto at = m_places.find(key);
        return at == m_places.end() ? m_place : at->second;
    }

    [[noreturn]] void Fail(const std::string& key,
                           const std::string& found,
                           const std::string& expected) const
    {
        throw SpecError(PlaceOf(key),
                        "reconfiguration." + key + ": found '" + Printable(found) + "', expected " +
                            expected);
    }

    [[nodiscard]] const std::string* Find(const std::string& key) const
    {
        const auto at = m_texts.find(key);
        return at == m_texts.end() ? nullptr : &at->second;
    }

    void Time(const std::string& key, SimTime& out) const
    {
        if (const std::string* text = Find(key))
        {
            try
            {
                out = ParseTime(*text);
            }
            catch (const std::invalid_argument&)
            {
                Fail(key, *text, "a time such as 10ms");
            }
            if (out < 0 || out > kMostTime)
            {
                Fail(key, *text, "a time up to 100 days");
            }
        }
    }

    /** The index of the text among @p choices. */
    void Choice(const std::string& key,
                const std::vector<std::string>& choices,
                std::size_t& out) const
    {
        const std::string* text = Find(key);
        if (text == nullptr)
        {
            return;
        }
        const auto at = std::find(choices.begin(), choices.end(), *text);
        if (at == choices.end())
        {
            std::string all;
            for (const std::string& choice : choices)
            {
                all += (all.empty() ? "" : ", ") + choice;
            }
            Fail(key, *text, "one of " + all + DidYouMean(*text, choices));
        }
        out = static_cast<std::size_t>(at - choices.begin());
    }

    void Flag(const std::string& key, bool& out) const
    {
        std::size_t index = out ? 1 : 0;
        Choice(key, {"false", "true"}, index);
        out = index == 1;
    }

    /** A number of at least 0, @p unit may follow it. */
    void Number(const std::string& key, const std::string& unit, double& out) const
    {
        const std::string* text = Find(key);
        if (text == nullptr)
        {
            return;
        }
        char* end = nullptr;
        const double value = std::strtod(text->c_str(), &end);
        const std::string rest = end;
        if (end == text->c_str() || (!rest.empty() && rest != unit) || !std::isfinite(value) ||
            value < 0 || value > 1e6)
        {
            Fail(key, *text, "a number" + (unit.empty() ? "" : " such as 4" + unit));
        }
        out = value;
    }

  private:
    const std::map<std::string, std::string>& m_texts;
    const std::map<std::string, std::string>& m_places;
    std::string m_place;
};

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
    const Texts in(texts, places, place);
    ReconfigurationSpec spec;
    spec.place = place;
    if (const std::string* policy = in.Find("policy"))
    {
        spec.policy = *policy;
    }
    const PolicyKind& kind = FindPolicy(spec.policy, in.PlaceOf("policy"));
    std::vector<std::string> known = kKeys;
    known.insert(known.end(), kind.options.begin(), kind.options.end());
    // A section may hold what only other policies look at: it stands for several fabrics.
    std::vector<std::string> anyKnown = kKeys;
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
    std::size_t device = 1;
    static const std::vector<std::string> devices = {"look-ahead", "ocs", "patch-panel"};
    in.Choice("device", devices, device);
    spec.device = devices[device];
    in.Time("latency", spec.latency);
    in.Time("period", spec.period);
    in.Time("first", spec.first);
    in.Time("relock", spec.relock);
    in.Time("move_time", spec.moveTime);
    in.Time("flip_time", spec.flipTime);
    std::size_t choice = 0;
    in.Choice("transition", {"drain", "drop"}, choice);
    spec.drain = choice == 0;
    choice = 0;
    in.Choice("granularity", {"whole", "port"}, choice);
    spec.whole = choice == 0;
    spec.forwarding = kind.forwarding;
    in.Flag("forwarding", spec.forwarding);
    in.Flag("bond", spec.bond);
    double ports = 0;
    in.Number("ports", "", ports);
    spec.ports = static_cast<std::uint32_t>(ports);
    in.Number("insertion_loss", "dB", spec.insertionLoss);
    in.Number("link_budget", "dB", spec.linkBudget);
    in.Number("fibre_km", "", spec.fibreKm);
    if (kind.periodic && spec.period == 0 && spec.latency == 0)
    {
        in.Fail("latency", "0", "a period beside a latency of 0 (its default is four latencies)");
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
