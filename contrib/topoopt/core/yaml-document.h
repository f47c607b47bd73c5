// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_YAML_DOCUMENT_H
#define TOPOOPT_CORE_YAML_DOCUMENT_H

#include "topoopt/core/units.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace topoopt
{

/** What a piece of YAML is. */
enum class YamlKind : std::uint8_t
{
    Null,   ///< nothing, `~`, `null`
    Scalar, ///< text, number, truth value: told apart only by who reads it
    List,
    Map
};

/** A key of a map and where it stands. */
struct YamlKey
{
    std::string text;
    std::string place; ///< FILE:LINE:COL, from 1
};

/**
 * A YAML document as a tree of values that know their places.
 *
 * Unlike yaml-cpp's nodes it keeps the order of keys, refuses duplicate keys and says where a missing key
 * would have been. Aliases are resolved into copies, merge keys (`<<: *other`) into the keys they stand for.
 */
struct YamlValue
{
    YamlKind kind = YamlKind::Null;
    std::string text;             ///< Scalar: as written, quotes removed
    std::string place;            ///< FILE:LINE:COL, or `--set a.b=value`
    bool overridden = false;      ///< came from an override, not from the file
    std::vector<YamlKey> keys;    ///< Map: keys[i] belongs to items[i]; no repeats
    std::vector<YamlValue> items; ///< Map and List

    /** The value of @p key, null if this is no map or has no such key. O(keys). */
    [[nodiscard]] const YamlValue* Find(const std::string& key) const;
    [[nodiscard]] YamlValue* Find(const std::string& key);
    /** "a list", "a section", "nothing" or the quoted text, shortened and free of control characters. */
    [[nodiscard]] std::string Found() const;
};

/**
 * Reads exactly one document; at most 4 MiB of UTF-8 and 200000 values after aliases are resolved.
 * @param text  the YAML
 * @param file  name for messages
 * @param everywhere  if not empty, the place of every value instead of FILE:LINE:COL
 * @throws SpecError  no YAML, not UTF-8, duplicate keys, keys that are no scalars, tags of foreign types,
 *                    an empty document, more than one document, nesting too deep
 */
[[nodiscard]] YamlValue ParseYaml(const std::string& text,
                                  const std::string& file,
                                  const std::string& everywhere = "");

/** ParseYaml of a file. @throws SpecError also if it cannot be read */
[[nodiscard]] YamlValue ReadYamlFile(const std::string& file);

/**
 * Replaces or adds the value at a path: `fabrics.0.kind=ideal-switch` (lists by index; one past the end appends).
 *
 * @param document  the tree to change
 * @param assignment  PATH=VALUE, VALUE being YAML
 * @param shorthand  key that a scalar stands for when the path goes on below it (`- topoopt` is `- kind: topoopt`);
 *                   empty = an error
 * @param place  of messages; default `--set ASSIGNMENT`
 * @return the keys of the path
 * @throws SpecError  no `=`, empty key, index out of range, VALUE not YAML
 */
std::vector<std::string> ApplyOverride(YamlValue& document,
                                       const std::string& assignment,
                                       const std::string& shorthand,
                                       const std::string& place = "");

/**
 * One map of a document, read key by key with checked types and ranges.
 *
 * Every getter leaves the target alone if the key is absent, so that defaults stand where the struct says.
 * Messages are `PLACE: SECTION.KEY: found X, expected Y`.
 */
class YamlSection
{
  public:
    /**
     * @param value  must be a map
     * @param path  dotted path for messages, "" = the document
     * @param known  all keys that may stand here; empty = any
     * @throws SpecError if @p value is no map or has an unknown key (with a suggestion)
     */
    YamlSection(const YamlValue& value, std::string path, const std::vector<std::string>& known);

    [[nodiscard]] const YamlValue* Find(const std::string& key) const
    {
        return m_value.Find(key);
    }

    /** @throws SpecError at the section's place if @p key is absent */
    [[nodiscard]] const YamlValue& Require(const std::string& key,
                                           const std::string& expected) const;

    void Text(const std::string& key, std::string& out) const;
    /** One of @p allowed, else an error with a suggestion. */
    void Choice(const std::string& key,
                const std::vector<std::string>& allowed,
                std::string& out) const;
    /** true, on, yes; false, off, no. */
    void Bool(const std::string& key, bool& out) const;
    /** A whole decimal number within [least, most]. */
    void Count(const std::string& key,
               std::uint64_t least,
               std::uint64_t most,
               std::uint64_t& out) const;
    void Count(const std::string& key,
               std::uint32_t least,
               std::uint32_t most,
               std::uint32_t& out) const;
    void Rate(const std::string& key, BitRate& out) const;
    void Time(const std::string& key, SimTime least, SimTime most, SimTime& out) const;
    void Size(const std::string& key, Bytes least, Bytes most, Bytes& out) const;

    /** "path.key" */
    [[nodiscard]] std::string Path(const std::string& key) const;

  private:
    const YamlValue& m_value;
    std::string m_path;
};

/** The text of a scalar. @throws SpecError `PLACE: PATH: found X, expected EXPECTED` */
[[nodiscard]] const std::string& ScalarOf(const YamlValue& value,
                                          const std::string& path,
                                          const std::string& expected);

/** @p value as YAML in one line, `{a: [1, "x y"]}`; ParseYaml() of it gives the same tree. */
[[nodiscard]] std::string FormatYaml(const YamlValue& value);

/** @p text in one line, cut at @p most bytes, control characters as `\xNN`. */
[[nodiscard]] std::string Printable(const std::string& text, std::size_t most = 80);

/** ", did you mean 'x'?" or "". */
[[nodiscard]] std::string DidYouMean(const std::string& text,
                                     const std::vector<std::string>& candidates);

} // namespace topoopt

#endif // TOPOOPT_CORE_YAML_DOCUMENT_H
