// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_UNITS_H
#define TOPOOPT_CORE_UNITS_H

#include <cstdint>
#include <string>
#include <string_view>

namespace topoopt
{

/** Simulated time or duration in integer picoseconds; 2^63 ps are 106 days. */
using SimTime = std::int64_t;
/** A number of bytes; 64 bits everywhere, so that sizes of 4 GiB and more do not wrap. */
using Bytes = std::uint64_t;

inline constexpr SimTime kPicosecond = 1;
inline constexpr SimTime kNanosecond = 1'000;
inline constexpr SimTime kMicrosecond = 1'000'000;
inline constexpr SimTime kMillisecond = 1'000'000'000;
inline constexpr SimTime kSecond = 1'000'000'000'000;
/** Later than every event. */
inline constexpr SimTime kNever = INT64_MAX;

/** Bits per second of one direction of a link. */
struct BitRate
{
    std::uint64_t bps = 0;

    friend bool operator==(BitRate a, BitRate b)
    {
        return a.bps == b.bps;
    }

    friend bool operator!=(BitRate a, BitRate b)
    {
        return a.bps != b.bps;
    }

    friend bool operator<(BitRate a, BitRate b)
    {
        return a.bps < b.bps;
    }
};

/**
 * Time to serialise @p bytes at @p rate, rounded to the nearest picosecond (halves up).
 *
 * Exact for every rate that divides 8e12 bit/s (10, 25, 40, 50, 100, 200, 400, 800 Gbps, ...).
 * Cost: one 128-bit division. @pre rate.bps > 0.
 */
[[nodiscard]] SimTime TxTime(Bytes bytes, BitRate rate);

/**
 * Reads "100Gbps", "25 Gb/s", "1e9bps": decimal prefixes k, M, G, T and a unit bps or b/s.
 * @throws std::invalid_argument with what was found and what is expected
 */
[[nodiscard]] BitRate ParseBitRate(std::string_view text);

/**
 * Reads "10s", "1.5ms", "2us", "3ns", "4ps" exactly (decimal fractions down to 1 ps).
 * @throws std::invalid_argument with what was found and what is expected
 */
[[nodiscard]] SimTime ParseTime(std::string_view text);

/**
 * Reads "9000B", "2KB" (1000), "64MiB" (2^20), ...; the unit is required.
 * @throws std::invalid_argument with what was found and what is expected
 */
[[nodiscard]] Bytes ParseBytes(std::string_view text);

/** "100Gbps": the largest decimal prefix that prints exactly. */
[[nodiscard]] std::string FormatBitRate(BitRate rate);
/** "1.5us": the largest unit not above the value, all digits kept. */
[[nodiscard]] std::string FormatTime(SimTime time);
/** "2MB" when exact, else plain "1234B". */
[[nodiscard]] std::string FormatBytes(Bytes bytes);

} // namespace topoopt

#endif // TOPOOPT_CORE_UNITS_H
