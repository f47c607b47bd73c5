// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_READERS_JSON_H
#define TOPOOPT_CORE_READERS_JSON_H

#include "topoopt/core/readers/input.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace topoopt
{

enum class JsonType : std::uint8_t
{
    Null,
    Bool,
    Integer,  ///< fits int64
    Unsigned, ///< above int64, fits uint64
    Real,
    String,
    Array,
    Object
};

class JsonTape;

/** A value on a tape: a cheap cursor, valid until the tape is reused. */
class JsonValue
{
  public:
    JsonValue() = default;

    /** False for "no such member". */
    explicit operator bool() const
    {
        return m_tape != nullptr;
    }

    [[nodiscard]] JsonType Type() const;

    [[nodiscard]] bool Is(JsonType type) const
    {
        return m_tape != nullptr && Type() == type;
    }

    /** True for Integer, Unsigned and Real. */
    [[nodiscard]] bool IsNumber() const;
    [[nodiscard]] bool AsBool() const;
    /** @return false unless the value is a whole number within int64 (1e3 is one) */
    bool ToInt(std::int64_t& out) const;
    /** @return false unless the value is a finite number */
    bool ToDouble(double& out) const;
    [[nodiscard]] std::string_view AsString() const;
    /** Member @p key of an object; a null value if absent or no object. O(members). */
    [[nodiscard]] JsonValue operator[](std::string_view key) const;
    /** Element @p index of an array; O(index). */
    [[nodiscard]] JsonValue At(std::size_t index) const;
    /** Number of elements or members. */
    [[nodiscard]] std::size_t Size() const;
    /** First element of an array, or first member's key of an object; null if empty. */
    [[nodiscard]] JsonValue First() const;
    /** The value after this one in the same container; null at its end. For a key: its value. */
    [[nodiscard]] JsonValue Next() const;
    /** Short text of the value for messages. */
    [[nodiscard]] std::string Show() const;

  private:
    friend class JsonTape;

    JsonValue(const JsonTape* tape, std::uint32_t at, std::uint32_t end)
        : m_tape(tape),
          m_at(at),
          m_end(end)
    {
    }

    const JsonTape* m_tape = nullptr;
    std::uint32_t m_at = 0;
    std::uint32_t m_end = 0; ///< end of the enclosing container
};

/** One JSON value laid out flat; clearing keeps the memory, so a stream of values allocates nothing. */
class JsonTape
{
  public:
    struct Token
    {
        JsonType type = JsonType::Null;
        std::uint32_t next = 0;  ///< index after this value
        std::uint32_t count = 0; ///< members, elements, or bytes of a string

        union
        {
            std::int64_t integer = 0;
            double real;
            std::uint64_t text; ///< offset into chars
        };
    };

    std::vector<Token> tokens;
    std::string chars;

    void Clear()
    {
        tokens.clear();
        chars.clear();
    }

    [[nodiscard]] JsonValue Root() const
    {
        return tokens.empty() ? JsonValue()
                              : JsonValue(this, 0, static_cast<std::uint32_t>(tokens.size()));
    }
};

/** What a streamed document is made of. */
struct JsonHandlers
{
    /** Name of the top-level member whose array is streamed; "" = the document itself is the array. */
    std::string array;
    /** An element of that array, its index and the byte offset just behind it. */
    std::function<void(JsonValue, std::uint64_t index, std::uint64_t byte)> element;
    /** Any other top-level member, whole. */
    std::function<void(std::string_view key, JsonValue)> member;
};

/**
 * Parses a whole document with nlohmann's SAX parser, one array element in memory at a time.
 *
 * @return whether the array was met
 * @throws SpecError FILE:LINE:COL for bad JSON, text after the value, nesting deeper than 64, a key twice in
 *         an object, and a document that is no array (no object) where one is needed
 */
bool StreamJson(Input& input, const JsonHandlers& handlers);

/** Parses a short text that is stored inside another value. @throws SpecError at @p place */
void ParseJsonText(const std::string& place, std::string_view text, JsonTape& tape);

} // namespace topoopt

#endif // TOPOOPT_CORE_READERS_JSON_H
