// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/demand.h"

#include "topoopt/core/error.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

namespace topoopt
{

namespace
{

constexpr ServerId kMostServers = 8192;

/** One line of the file, cut at its commas, blanks around fields removed. */
struct Row
{
    std::int64_t line = 0;
    std::vector<std::pair<std::int64_t, std::string>> fields; ///< column, text
};

Row
CutRow(const std::string& text, std::int64_t line)
{
    Row row;
    row.line = line;
    std::size_t at = 0;
    for (;;)
    {
        const std::size_t comma = std::min(text.find(',', at), text.size());
        std::size_t first = at;
        std::size_t last = comma;
        while (first < last && (text[first] == ' ' || text[first] == '\t'))
        {
            ++first;
        }
        while (last > first && (text[last - 1] == ' ' || text[last - 1] == '\t'))
        {
            --last;
        }
        row.fields.emplace_back(static_cast<std::int64_t>(first + 1),
                                text.substr(first, last - first));
        if (comma == text.size())
        {
            return row;
        }
        at = comma + 1;
    }
}

std::uint64_t
Number(const std::string& file, const Row& row, std::size_t field, std::uint64_t most)
{
    const auto& [column, text] = row.fields[field];
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value > most)
    {
        throw SpecError(Place(file, row.line, column),
                        "found '" + text.substr(0, 40) + "', expected a whole number 0.." +
                            std::to_string(most));
    }
    return value;
}

void
CheckWidth(const std::string& file, const Row& row, std::size_t width)
{
    if (row.fields.size() != width)
    {
        throw SpecError(Place(file, row.line, 1),
                        "found " + std::to_string(row.fields.size()) + " fields, expected " +
                            std::to_string(width));
    }
}

} // namespace

Demand
ReadDemandCsv(const std::string& file, ServerId servers)
{
    std::ifstream in(file);
    if (!in)
    {
        throw SpecError(file, "cannot be opened, expected a CSV file of demands in bytes");
    }
    std::vector<Row> rows;
    std::string text;
    for (std::int64_t line = 1; std::getline(in, text); ++line)
    {
        if (!text.empty() && text.back() == '\r')
        {
            text.pop_back();
        }
        if (text.find_first_not_of(" \t") == std::string::npos || text[0] == '#')
        {
            continue;
        }
        rows.push_back(CutRow(text, line));
        constexpr std::size_t kMostRows = static_cast<std::size_t>(kMostServers) * kMostServers;
        if (rows.size() > kMostRows)
        {
            throw SpecError(Place(file, line, 1), "found more rows than pairs of servers");
        }
    }
    if (rows.empty())
    {
        throw SpecError(file, "found no rows, expected a matrix or src,dst,bytes");
    }

    // Far beyond any job, and small enough that sums over all pairs stay within 64 bits.
    constexpr Bytes kMostBytes = 1ULL << 50;
    const Row& head = rows.front();
    if (head.fields.size() == 3 && head.fields[0].second == "src" &&
        head.fields[1].second == "dst" && head.fields[2].second == "bytes")
    {
        std::uint64_t largest = 0;
        for (std::size_t r = 1; r < rows.size(); ++r)
        {
            CheckWidth(file, rows[r], 3);
            const std::uint64_t most = (servers > 0 ? servers : kMostServers) - 1U;
            largest =
                std::max({largest, Number(file, rows[r], 0, most), Number(file, rows[r], 1, most)});
        }
        Demand demand(servers > 0 ? servers : static_cast<ServerId>(largest + 1));
        for (std::size_t r = 1; r < rows.size(); ++r)
        {
            const auto src = static_cast<ServerId>(Number(file, rows[r], 0, largest));
            const auto dst = static_cast<ServerId>(Number(file, rows[r], 1, largest));
            const Bytes bytes = Number(file, rows[r], 2, kMostBytes);
            if (src != dst)
            {
                demand.At(src, dst) = std::min(kMostBytes, demand.At(src, dst) + bytes);
            }
        }
        return demand;
    }

    if (rows.size() > kMostServers || (servers > 0 && rows.size() != servers))
    {
        throw SpecError(Place(file, rows.back().line, 1),
                        "found a matrix of " + std::to_string(rows.size()) + " rows, expected " +
                            (servers > 0 ? std::to_string(servers)
                                         : "at most " + std::to_string(kMostServers)));
    }
    Demand demand(static_cast<ServerId>(rows.size()));
    for (ServerId src = 0; src < demand.servers; ++src)
    {
        CheckWidth(file, rows[src], rows.size());
        for (ServerId dst = 0; dst < demand.servers; ++dst)
        {
            const Bytes bytes = Number(file, rows[src], dst, kMostBytes);
            demand.At(src, dst) = src == dst ? 0 : bytes;
        }
    }
    return demand;
}

} // namespace topoopt
