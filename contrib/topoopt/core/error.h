// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_ERROR_H
#define TOPOOPT_CORE_ERROR_H

#include <cstdint>
#include <stdexcept>
#include <string>

namespace topoopt
{

/**
 * Input that cannot be used: a scenario, trace, plan or command line.
 *
 * what() is the whole message in one line: place, what was found, what was expected, for example
 * `scenarios/x.yaml:12:11: topology.degree: found 9, expected 1..7 for 8 servers`.
 * The command line turns it into exit code 2.
 */
class SpecError : public std::runtime_error
{
  public:
    explicit SpecError(const std::string& message)
        : std::runtime_error(message)
    {
    }

    /** @p place is `FILE`, `FILE:LINE:COL` or `FILE@BYTE`; the message becomes "place: text". */
    SpecError(const std::string& place, const std::string& text)
        : std::runtime_error(place + ": " + text)
    {
    }
};

/** `FILE:LINE:COL`, both counted from 1. */
inline std::string
Place(const std::string& file, std::int64_t line, std::int64_t column)
{
    return file + ":" + std::to_string(line) + ":" + std::to_string(column);
}

/** `FILE@BYTE`, counted from 0. */
inline std::string
PlaceAtByte(const std::string& file, std::uint64_t byte)
{
    return file + "@" + std::to_string(byte);
}

} // namespace topoopt

#endif // TOPOOPT_CORE_ERROR_H
