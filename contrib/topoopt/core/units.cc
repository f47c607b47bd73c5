// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/units.h"

#include <array>
#include <cctype>
#include <limits>
#include <stdexcept>

namespace topoopt
{

namespace
{

using U128 = unsigned __int128;

struct Unit
{
    const char* name;
    std::uint64_t factor;
};

constexpr std::array<Unit, 5> kRateUnits = {{{"Tbps", 1'000'000'000'000},
                                             {"Gbps", 1'000'000'000},
                                             {"Mbps", 1'000'000},
                                             {"kbps", 1'000},
                                             {"bps", 1}}};
constexpr std::array<Unit, 5> kTimeUnits = {
    {{"s", 1'000'000'000'000}, {"ms", 1'000'000'000}, {"us", 1'000'000}, {"ns", 1'000}, {"ps", 1}}};
constexpr std::array<Unit, 9> kByteUnits = {{{"TB", 1'000'000'000'000},
                                             {"GB", 1'000'000'000},
                                             {"MB", 1'000'000},
                                             {"KB", 1'000},
                                             {"TiB", 1ULL << 40},
                                             {"GiB", 1ULL << 30},
                                             {"MiB", 1ULL << 20},
                                             {"KiB", 1ULL << 10},
                                             {"B", 1}}};

std::string
Lower(std::string_view text)
{
    std::string out;
    for (char c : text)
    {
        out.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
    }
    return out;
}

/**
 * Reads `<decimal><unit>` exactly in integers. Units compare without case; "b/s" is "bps".
 */
template <std::size_t N>
std::uint64_t
ParseQuantity(std::string_view text,
              const std::array<Unit, N>& units,
              const std::string& what,
              const std::string& example)
{
    const auto fail = [&](const std::string& why) -> std::uint64_t {
        throw std::invalid_argument("found '" + std::string(text) + "'" + why + ", expected " +
                                    what + " with its unit, for example " + example);
    };
    std::size_t at = 0;
    const auto blank = [&] {
        while (at < text.size() && text[at] == ' ')
        {
            ++at;
        }
    };
    blank();
    U128 mantissa = 0;
    int digits = 0;
    int fraction = 0;
    bool point = false;
    for (; at < text.size(); ++at)
    {
        const char c = text[at];
        if (c == '.' && !point)
        {
            point = true;
        }
        else if (c >= '0' && c <= '9')
        {
            if (digits >= 30)
            {
                return fail(" (too many digits)");
            }
            mantissa = mantissa * 10 + static_cast<unsigned>(c - '0');
            ++digits;
            fraction += point ? 1 : 0;
        }
        else
        {
            break;
        }
    }
    if (digits == 0)
    {
        return fail("");
    }
    int exponent = 0;
    if (at + 1 < text.size() && (text[at] == 'e' || text[at] == 'E') &&
        std::isdigit(static_cast<unsigned char>(text[at + 1])))
    {
        ++at;
        while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])))
        {
            exponent = exponent * 10 + (text[at++] - '0');
            if (exponent > 30)
            {
                return fail(" (exponent too large)");
            }
        }
    }
    blank();
    std::string unit = Lower(text.substr(at));
    while (!unit.empty() && unit.back() == ' ')
    {
        unit.pop_back();
    }
    if (unit.size() >= 3 && unit.compare(unit.size() - 3, 3, "b/s") == 0)
    {
        unit.replace(unit.size() - 3, 3, "bps");
    }
    if (unit.empty())
    {
        return fail(" (no unit)");
    }
    for (const Unit& candidate : units)
    {
        if (Lower(candidate.name) != unit)
        {
            continue;
        }
        U128 value = mantissa * candidate.factor;
        for (; exponent > 0; --exponent)
        {
            value *= 10;
            if (value > std::numeric_limits<std::uint64_t>::max() * U128{1'000'000'000})
            {
                return fail(" (too large)");
            }
        }
        for (; fraction > 0; --fraction)
        {
            if (value % 10 != 0)
            {
                return fail(" (a fraction of the smallest unit)");
            }
            value /= 10;
        }
        if (value > static_cast<U128>(std::numeric_limits<std::int64_t>::max()))
        {
            return fail(" (too large)");
        }
        return static_cast<std::uint64_t>(value);
    }
    return fail(" (unknown unit)");
}

template <std::size_t N>
std::string
FormatQuantity(std::uint64_t value, const std::array<Unit, N>& units)
{
    for (const Unit& unit : units)
    {
        if (value >= unit.factor)
        {
            std::string out = std::to_string(value / unit.factor);
            std::uint64_t rest = value % unit.factor;
            if (rest != 0)
            {
                out.push_back('.');
                for (std::uint64_t place = unit.factor / 10; place > 0 && rest != 0; place /= 10)
                {
                    out.push_back(static_cast<char>('0' + rest / place));
                    rest %= place;
                }
            }
            return out + unit.name;
        }
    }
    return "0" + std::string(units.back().name);
}

} // namespace

SimTime
TxTime(Bytes bytes, BitRate rate)
{
    const U128 bits = static_cast<U128>(bytes) * 8'000'000'000'000ULL;
    return static_cast<SimTime>((bits + rate.bps / 2) / rate.bps);
}

BitRate
ParseBitRate(std::string_view text)
{
    const BitRate rate{ParseQuantity(text, kRateUnits, "a rate", "100Gbps")};
    if (rate.bps == 0)
    {
        throw std::invalid_argument("found '" + std::string(text) + "', expected a rate above 0");
    }
    return rate;
}

SimTime
ParseTime(std::string_view text)
{
    return static_cast<SimTime>(ParseQuantity(text, kTimeUnits, "a time", "10us"));
}

Bytes
ParseBytes(std::string_view text)
{
    return ParseQuantity(text, kByteUnits, "a size", "64KiB");
}

std::string
FormatBitRate(BitRate rate)
{
    return FormatQuantity(rate.bps, kRateUnits);
}

std::string
FormatTime(SimTime time)
{
    if (time < 0)
    {
        return "-" + FormatQuantity(static_cast<std::uint64_t>(-time), kTimeUnits);
    }
    return FormatQuantity(static_cast<std::uint64_t>(time), kTimeUnits);
}

std::string
FormatBytes(Bytes bytes)
{
    for (const Unit& unit : kByteUnits)
    {
        if (bytes >= unit.factor && bytes % unit.factor == 0)
        {
            return std::to_string(bytes / unit.factor) + unit.name;
        }
    }
    return std::to_string(bytes) + "B";
}

} // namespace topoopt
