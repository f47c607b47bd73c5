// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/option-values.h"

#include "topoopt/core/error.h"
#include "topoopt/core/yaml-document.h"

#include <algorithm>
#include <charconv>

namespace topoopt
{

namespace
{

std::string
InQuotes(const std::string& text)
{
    return "'" + Printable(text) + "'";
}

/** A number as people write it. */
std::string
Readable(double value)
{
    char text[32];
    const auto [end, error] = std::to_chars(text, text + sizeof text, value);
    return error == std::errc() ? std::string(text, end) : "?";
}

} // namespace

std::string
OptionValues::PlaceOf(const std::string& key) const
{
    const auto at = m_places.find(key);
    return at == m_places.end() ? m_place : at->second;
}

std::string
OptionValues::Where(const std::string& key) const
{
    const std::string place = PlaceOf(key);
    return (place.empty() ? "" : place + ": ") + m_path + Printable(key);
}

void
OptionValues::Refuse(const std::string& key, const std::string& complaint) const
{
    throw SpecError(Where(key), complaint);
}

void
OptionValues::Fail(const std::string& key,
                   const std::string& found,
                   const std::string& expected) const
{
    Refuse(key, "found " + found + ", expected " + expected);
}

BitRate
OptionValues::Rate(const std::string& key, BitRate fallback) const
{
    const BitRate rate =
        Parsed(key, fallback, [](const std::string& text) { return ParseBitRate(text); });
    if (rate.bps == 0 && Has(key))
    {
        Fail(key, InQuotes(Text(key)), "a rate above 0");
    }
    return rate;
}

SimTime
OptionValues::Time(const std::string& key, SimTime fallback, SimTime least, SimTime most) const
{
    const SimTime time =
        Parsed(key, fallback, [](const std::string& text) { return ParseTime(text); });
    if (Has(key) && (time < least || time > most))
    {
        Fail(key,
             InQuotes(Text(key)),
             (least > 0 ? "a time from " + FormatTime(least) : std::string("a time")) +
                 (most < INT64_MAX ? " up to " + FormatTime(most) : ""));
    }
    return time;
}

std::uint64_t
OptionValues::Whole(const std::string& key,
                    std::uint64_t fallback,
                    std::uint64_t least,
                    std::uint64_t most) const
{
    const std::string* text = Find(key);
    if (text == nullptr)
    {
        return fallback;
    }
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error != std::errc() || end != text->data() + text->size() || value < least || value > most)
    {
        Fail(key,
             InQuotes(*text),
             "a whole number " + std::to_string(least) + ".." + std::to_string(most));
    }
    return value;
}

double
OptionValues::Number(const std::string& key,
                     double fallback,
                     double least,
                     double most,
                     const std::string& unit) const
{
    const std::string* text = Find(key);
    if (text == nullptr)
    {
        return fallback;
    }
    double value = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    const std::string rest(end, text->data() + text->size());
    // Not a number is within no bounds.
    if (error != std::errc() || (!rest.empty() && rest != unit) ||
        !(value >= least && value <= most))
    {
        Fail(key,
             InQuotes(*text),
             "a number " + Readable(least) + ".." + Readable(most) +
                 (unit.empty() ? "" : ", " + unit + " may follow"));
    }
    return value;
}

bool
OptionValues::Flag(const std::string& key, bool fallback) const
{
    static const std::vector<std::string> words = {"false", "true", "off", "on", "no", "yes"};
    return Choice(key, words, fallback ? 1 : 0) % 2 == 1;
}

std::size_t
OptionValues::Choice(const std::string& key,
                     const std::vector<std::string>& choices,
                     std::size_t fallback) const
{
    const std::string* text = Find(key);
    if (text == nullptr)
    {
        return fallback;
    }
    const auto at = std::find(choices.begin(), choices.end(), *text);
    if (at == choices.end())
    {
        std::string all;
        for (const std::string& choice : choices)
        {
            all += (all.empty() ? "" : ", ") + choice;
        }
        Fail(key, InQuotes(*text), "one of " + all + DidYouMean(*text, choices));
    }
    return static_cast<std::size_t>(at - choices.begin());
}

} // namespace topoopt
