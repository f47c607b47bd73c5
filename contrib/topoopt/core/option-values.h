// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_OPTION_VALUES_H
#define TOPOOPT_CORE_OPTION_VALUES_H

#include "topoopt/core/units.h"

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace topoopt
{

/**
 * The values of a section of options that were flattened to texts.
 *
 * Whoever asks names a default; every complaint is a SpecError `PLACE: PATH: found 'X', expected Y`.
 */
class OptionValues
{
  public:
    /**
     * @param texts by key
     * @param places of keys; the others are at @p place. All three are kept by reference.
     * @param path of the section with its separator, such as "reconfiguration."
     */
    OptionValues(const std::map<std::string, std::string>& texts,
                 const std::map<std::string, std::string>& places,
                 const std::string& place,
                 std::string path)
        : m_texts(texts),
          m_places(places),
          m_place(place),
          m_path(std::move(path))
    {
    }

    /** Null if there is no such option. */
    [[nodiscard]] const std::string* Find(const std::string& key) const
    {
        const auto at = m_texts.find(key);
        return at == m_texts.end() ? nullptr : &at->second;
    }

    [[nodiscard]] bool Has(const std::string& key) const
    {
        return Find(key) != nullptr;
    }

    /** The text of an option that Has() affirms. */
    [[nodiscard]] const std::string& Text(const std::string& key) const
    {
        return m_texts.at(key);
    }

    [[nodiscard]] std::string PlaceOf(const std::string& key) const;
    /** `PLACE: PATH` of a key. */
    [[nodiscard]] std::string Where(const std::string& key) const;
    /** Throws `PLACE: PATH: found FOUND, expected EXPECTED`. */
    [[noreturn]] void Fail(const std::string& key,
                           const std::string& found,
                           const std::string& expected) const;

    /** A bit rate above 0. */
    [[nodiscard]] BitRate Rate(const std::string& key, BitRate fallback) const;
    /** A duration in [least, most]. */
    [[nodiscard]] SimTime Time(const std::string& key,
                               SimTime fallback,
                               SimTime least = 0,
                               SimTime most = INT64_MAX) const;
    /** A whole number in [least, most]. */
    [[nodiscard]] std::uint64_t Whole(const std::string& key,
                                      std::uint64_t fallback,
                                      std::uint64_t least,
                                      std::uint64_t most) const;

    /** The same for one that fits into 32 bits. */
    [[nodiscard]] std::uint32_t Count(const std::string& key,
                                      std::uint32_t fallback,
                                      std::uint32_t least,
                                      std::uint32_t most) const
    {
        return static_cast<std::uint32_t>(Whole(key, fallback, least, most));
    }

    /** A number in [least, most]; @p unit may follow it. */
    [[nodiscard]] double Number(const std::string& key,
                                double fallback,
                                double least,
                                double most,
                                const std::string& unit = "") const;
    /** true, on, yes; false, off, no. */
    [[nodiscard]] bool Flag(const std::string& key, bool fallback) const;
    /** The index of the option's text in @p choices. */
    [[nodiscard]] std::size_t Choice(const std::string& key,
                                     const std::vector<std::string>& choices,
                                     std::size_t fallback) const;

    /** What @p parse makes of the text; it throws std::invalid_argument("found ..., expected ..."). */
    template <typename T, typename Parse>
    [[nodiscard]] T Parsed(const std::string& key, T fallback, Parse parse) const
    {
        const std::string* text = Find(key);
        if (text == nullptr)
        {
            return fallback;
        }
        try
        {
            return parse(*text);
        }
        catch (const std::invalid_argument& error)
        {
            Refuse(key, error.what());
        }
    }

  private:
    [[noreturn]] void Refuse(const std::string& key, const std::string& complaint) const;

    const std::map<std::string, std::string>& m_texts;
    const std::map<std::string, std::string>& m_places;
    const std::string& m_place;
    std::string m_path;
};

} // namespace topoopt

#endif // TOPOOPT_CORE_OPTION_VALUES_H
