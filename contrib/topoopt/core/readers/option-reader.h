// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_READERS_OPTION_READER_H
#define TOPOOPT_CORE_READERS_OPTION_READER_H

#include "topoopt/core/error.h"
#include "topoopt/core/scenario.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <stdexcept>
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
          m_places(places)
    {
    }

    [[nodiscard]] std::string Place(const std::string& key) const
    {
        const auto at = m_places.find(key);
        return at == m_places.end() ? "option " + key : at->second + ": " + key;
    }

    const std::string* Find(const std::string& key)
    {
        m_known.push_back(key);
        const auto at = m_options.find(key);
        return at == m_options.end() ? nullptr : &at->second;
    }

    void Flag(const std::string& key, bool& out)
    {
        Choice(key, {"false", "true"}, [&out](std::size_t i) { out = i == 1; });
    }

    template <typename Set>
    void Choice(const std::string& key, const std::vector<std::string>& choices, Set set)
    {
        const std::string* text = Find(key);
        if (text == nullptr)
        {
            return;
        }
        const auto at = std::find(choices.begin(), choices.end(), *text);
        if (at == choices.end())
        {
            std::string list;
            for (const std::string& choice : choices)
            {
                list += (list.empty() ? "" : " or ") + choice;
            }
            throw SpecError(Place(key), "found " + *text + ", expected " + list);
        }
        set(static_cast<std::size_t>(at - choices.begin()));
    }

    void Factor(const std::string& key, double& out, bool zero)
    {
        const std::string* text = Find(key);
        if (text == nullptr)
        {
            return;
        }
        double value = -1;
        const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
        if (error != std::errc() || end != text->data() + text->size() || !std::isfinite(value) ||
            value < 0 || (value == 0 && !zero) || value > 1e12)
        {
            throw SpecError(Place(key),
                            "found " + *text + ", expected a number " +
                                (zero ? "from 0" : "above 0") + " to 1e12");
        }
        out = value;
    }

    template <typename T>
    void Number(const std::string& key, T& out, std::uint64_t least, std::uint64_t most)
    {
        const std::string* text = Find(key);
        if (text == nullptr)
        {
            return;
        }
        std::uint64_t value = 0;
        const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
        if (error != std::errc() || end != text->data() + text->size() || value < least ||
            value > most)
        {
            throw SpecError(Place(key),
                            "found " + *text + ", expected " + std::to_string(least) + ".." +
                                std::to_string(most));
        }
        out = static_cast<T>(value);
    }

    /** A quantity with a unit; @p parse throws std::invalid_argument. */
    template <typename T, typename ParseText>
    void Quantity(const std::string& key, T& out, ParseText parse)
    {
        const std::string* text = Find(key);
        if (text == nullptr)
        {
            return;
        }
        try
        {
            out = parse(*text);
        }
        catch (const std::invalid_argument& error)
        {
            throw SpecError(Place(key), error.what());
        }
    }

    void Text(const std::string& key, std::string& out)
    {
        if (const std::string* text = Find(key))
        {
            out = *text;
        }
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
    const std::map<std::string, std::string>& m_options;
    const std::map<std::string, std::string>& m_places;
    std::vector<std::string> m_known;
};

} // namespace topoopt

#endif // TOPOOPT_CORE_READERS_OPTION_READER_H
