// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_READERS_OPTION_READER_H
#define TOPOOPT_CORE_READERS_OPTION_READER_H

#include "topoopt/core/error.h"
#include "topoopt/core/option-values.h"
#include "topoopt/core/scenario.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <vector>

namespace topoopt
{

/** The shortest text that reads as the same number. */
inline std::string
ShortestText(double value)
{
    char text[32];
    const auto [end, error] = std::to_chars(text, text + sizeof text, value);
    return error == std::errc() ? std::string(text, end) : "?";
}

/** Reads one option after the other; whatever is not asked for is unknown. */
class OptionReader
{
  public:
    OptionReader(const std::map<std::string, std::string>& options,
                 const std::map<std::string, std::string>& places)
        : m_options(options),
          m_places(places),
          m_values(m_options, m_places, m_place, "")
    {
    }

    void Flag(const std::string& key, bool& out)
    {
        out = Values(key).Flag(key, out);
    }

    /** @p set gets the index of the option's text, if there is one. */
    template <typename Set>
    void Choice(const std::string& key, const std::vector<std::string>& choices, Set set)
    {
        if (Values(key).Has(key))
        {
            set(m_values.Choice(key, choices, 0));
        }
    }

    void Factor(const std::string& key, double& out, bool zero)
    {
        constexpr double kMost = 1e12;
        out = Values(key).Number(key, out, 0, kMost);
        if (out == 0 && !zero && m_values.Has(key))
        {
            m_values.Fail(key, m_values.Text(key), "a number above 0");
        }
    }

    template <typename T>
    void Number(const std::string& key, T& out, std::uint64_t least, std::uint64_t most)
    {
        out = static_cast<T>(Values(key).Whole(key, out, least, most));
    }

    /** A quantity with a unit; @p parse throws std::invalid_argument. */
    template <typename T, typename ParseText>
    void Quantity(const std::string& key, T& out, ParseText parse)
    {
        out = Values(key).Parsed(key, out, parse);
    }

    void Text(const std::string& key, std::string& out)
    {
        out = Values(key).Has(key) ? m_values.Text(key) : out;
    }

    void RefuseOthers(const std::string& what) const
    {
        for (const auto& [key, value] : m_options)
        {
            if (std::find(m_known.begin(), m_known.end(), key) == m_known.end())
            {
                const std::string near = Suggest(key, m_known);
                const auto at = m_places.find(key);
                throw SpecError((at == m_places.end() ? "" : at->second + ": ") + "unknown " +
                                what + " option '" + key + "'" +
                                (near.empty() ? "" : ", did you mean '" + near + "'?"));
            }
        }
    }

  private:
    const OptionValues& Values(const std::string& key)
    {
        m_known.push_back(key);
        return m_values;
    }

    const std::map<std::string, std::string>& m_options;
    const std::map<std::string, std::string>& m_places;
    const std::string m_place; ///< of an option that has none
    OptionValues m_values;
    std::vector<std::string> m_known;
};

} // namespace topoopt

#endif // TOPOOPT_CORE_READERS_OPTION_READER_H
