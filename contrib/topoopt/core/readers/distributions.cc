// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/error.h"
#include "topoopt/core/readers/json.h"
#include "topoopt/core/readers/readers.h"
#include "topoopt/core/readers/words.h"
#include "topoopt/core/trace-flows.h"

#include <algorithm>
#include <cctype>

namespace topoopt
{

namespace
{

bool
IsReal(const std::string& word)
{
    double value = 0;
    const auto result = std::from_chars(word.data(), word.data() + word.size(), value);
    return result.ec == std::errc() && result.ptr == word.data() + word.size();
}

/** Words of a line split at commas as well. */
std::vector<std::string>
SplitCommas(const std::vector<std::string>& words)
{
    std::vector<std::string> out;
    for (const std::string& word : words)
    {
        std::size_t at = 0;
        while (at <= word.size())
        {
            const std::size_t end = std::min(word.find(',', at), word.size());
            if (end > at)
            {
                out.push_back(word.substr(at, end - at));
            }
            at = end + 1;
        }
    }
    return out;
}

constexpr std::size_t kFbflowColumns = 15;

} // namespace

SizeDistribution
SizeDistribution::Read(const TraceFile& file)
{
    SizeDistribution out;
    WordReader words(file, " \t,");
    constexpr std::size_t kMostPoints = 1000000;
    std::vector<std::int64_t> lines;
    while (words.Next())
    {
        if (words.Size() == 1 && out.points.empty())
        {
            // Homa's dialect: the mean, which the points say as well.
            static_cast<void>(words.Real(0, "a mean size", 1e18));
            continue;
        }
        if (words.Size() != 2)
        {
            words.Fail(std::min<std::size_t>(words.Size(), 2), "2 (size, cumulative probability)");
        }
        const Point point{words.Real(0, "a size in bytes", 1e18),
                          words.Real(1, "a cumulative probability", 100)};
        if (!out.points.empty() && point.bytes < out.points.back().bytes)
        {
            words.Fail(0, "a size of at least the line before's");
        }
        if (!out.points.empty() && point.probability < out.points.back().probability)
        {
            words.Fail(1, "a probability of at least the line before's");
        }
        if (out.points.size() >= kMostPoints)
        {
            throw SpecError(words.Place(), "found more than 1000000 points");
        }
        out.points.push_back(point);
    }
    if (out.points.empty())
    {
        throw SpecError(file.path, "found no points of a size distribution");
    }
    const double last = out.points.back().probability;
    if (last != 1 && last != 100)
    {
        throw SpecError(words.Place(),
                        "the last cumulative probability is " + std::to_string(last) +
                            ", expected 100 (percent) or 1 (fraction)");
    }
    for (Point& point : out.points)
    {
        point.probability /= last;
    }
    if (out.Mean() <= 0)
    {
        throw SpecError(file.path, "found a mean size of 0");
    }
    return out;
}

double
SizeDistribution::Mean() const
{
    double mean = points.front().bytes * points.front().probability;
    for (std::size_t i = 1; i < points.size(); ++i)
    {
        mean += (points[i].bytes + points[i - 1].bytes) / 2 *
                (points[i].probability - points[i - 1].probability);
    }
    return mean;
}

Bytes
SizeDistribution::At(double u) const
{
    const auto at = std::upper_bound(points.begin(), points.end(), u, [](double v, const Point& p) {
        return v < p.probability;
    });
    double bytes = points.back().bytes;
    if (at == points.begin())
    {
        bytes = points.front().bytes;
    }
    else if (at != points.end())
    {
        const Point& below = *(at - 1);
        bytes = below.bytes + (at->bytes - below.bytes) * (u - below.probability) /
                                  (at->probability - below.probability);
    }
    return static_cast<Bytes>(std::max(1.0, std::round(bytes)));
}

double
TrafficMatrix::Total() const
{
    double total = 0;
    for (const double weight : weights)
    {
        total += weight;
    }
    return total;
}

namespace
{

TrafficMatrix
ReadRackMatrix(const TraceFile& file)
{
    TrafficMatrix out;
    out.format = "rack-matrix";
    constexpr std::size_t kMostRacks = 4096;
    bool found = false;
    Input input(file);
    JsonHandlers handlers;
    handlers.array = "\n"; // no member has this name: all of them come whole
    handlers.member = [&](std::string_view key, JsonValue value) {
        if (key != "matrix")
        {
            return;
        }
        found = true;
        const JsonValue rows = value.Is(JsonType::Object) ? value["inner"] : value;
        if (!rows.Is(JsonType::Array) || rows.Size() == 0 || rows.Size() > kMostRacks)
        {
            throw SpecError(file.path,
                            "matrix: found " + rows.Show() + ", expected an array of 1..4096 rows");
        }
        out.size = static_cast<std::uint32_t>(rows.Size());
        std::size_t r = 0;
        for (JsonValue row = rows.First(); row; row = row.Next(), ++r)
        {
            if (row.Size() != out.size)
            {
                throw SpecError(file.path,
                                "matrix: row " + std::to_string(r) + ": found " + row.Show() +
                                    ", expected an array of " + std::to_string(out.size));
            }
            for (JsonValue cell = row.First(); cell; cell = cell.Next())
            {
                double weight = -1;
                if (!cell.ToDouble(weight) || weight < 0)
                {
                    throw SpecError(file.path,
                                    "matrix: row " + std::to_string(r) + ": found " + cell.Show() +
                                        ", expected a number of 0 or more");
                }
                out.weights.push_back(weight);
            }
        }
    };
    StreamJson(input, handlers);
    if (!found)
    {
        throw SpecError(file.path, "found no \"matrix\"");
    }
    return out;
}

/** 0, 1, true or false. */
bool
Flag(const WordReader& words, std::size_t column)
{
    const std::string& word = words.Word(column);
    if (word != "0" && word != "1" && word != "true" && word != "false")
    {
        words.Fail(column, "0, 1, true or false");
    }
    return word == "1" || word == "true";
}

TrafficMatrix
ReadFbflow(const TraceFile& file)
{
    TrafficMatrix out;
    out.format = "fbflow";
    constexpr std::size_t kMostRacks = 4096;
    WordReader words(file, " \t,");
    std::map<std::string, std::uint32_t> racks;
    std::map<std::pair<std::string, std::string>, double> pairs;
    std::uint64_t nulls = 0;
    bool first = true;
    while (words.Next())
    {
        if (words.Size() != kFbflowColumns)
        {
            throw SpecError(words.Place(),
                            "found " + std::to_string(words.Size()) + " columns, expected 15");
        }
        const bool head = first && words.Word(0) == "timestamp";
        first = false;
        if (head)
        {
            continue;
        }
        ++out.rows;
        bool null = false;
        for (std::size_t i = 0; i < kFbflowColumns; ++i)
        {
            null = null || words.Word(i) == "\\N";
        }
        if (null)
        {
            ++nulls;
            continue;
        }
        static_cast<void>(words.Number(0, "a time in seconds", 0, INT64_MAX));
        const std::uint64_t length = words.Number(1, "a packet length in bytes", 0, 1U << 20);
        const bool outside = Flag(words, 13);
        if (outside || Flag(words, 14))
        {
            continue;
        }
        ++out.usableRows;
        out.usableBytes += length;
        racks.emplace(words.Word(9), 0);
        racks.emplace(words.Word(10), 0);
        if (racks.size() > kMostRacks)
        {
            throw SpecError(words.Place(), "found more than 4096 racks");
        }
        pairs[{words.Word(9), words.Word(10)}] += static_cast<double>(length);
    }
    if (out.rows == 0)
    {
        throw SpecError(file.path, "found no fbflow rows");
    }
    for (auto& [name, index] : racks)
    {
        index = out.size++;
    }
    out.weights.assign(std::size_t{out.size} * out.size, 0);
    for (const auto& [pair, bytes] : pairs)
    {
        out.weights[std::size_t{racks[pair.first]} * out.size + racks[pair.second]] = bytes;
    }
    return out;
}

} // namespace

TrafficMatrix
TrafficMatrix::Read(const TraceFile& file)
{
    bool json = false;
    {
        Input input(file);
        json = !JsonKeys(input.Head()).empty();
    }
    return json ? ReadRackMatrix(file) : ReadFbflow(file);
}

bool
ProbeSizeCdf(std::string_view head)
{
    for (const auto& line : HeadLines(head, 3))
    {
        const auto words = SplitCommas(line);
        if (words.size() == 2 && IsReal(words[0]) && IsReal(words[1]))
        {
            return true;
        }
        if (words.size() != 1 || !IsReal(words[0]))
        {
            return false;
        }
    }
    return false;
}

bool
ProbeRackMatrix(std::string_view head)
{
    return HasKey(JsonKeys(head), "matrix");
}

bool
ProbeFbflow(std::string_view head)
{
    const auto lines = HeadLines(head, 1);
    return !lines.empty() && SplitCommas(lines[0]).size() == kFbflowColumns;
}

} // namespace topoopt
