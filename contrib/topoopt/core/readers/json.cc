// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/readers/json.h"

#include "topoopt/core/error.h"

#include <algorithm>
#include <cmath>
#include <istream>
#include <nlohmann/json.hpp>
#include <set>

namespace topoopt
{

JsonType
JsonValue::Type() const
{
    return m_tape->tokens[m_at].type;
}

bool
JsonValue::IsNumber() const
{
    return Is(JsonType::Integer) || Is(JsonType::Unsigned) || Is(JsonType::Real);
}

bool
JsonValue::AsBool() const
{
    return Is(JsonType::Bool) && m_tape->tokens[m_at].integer != 0;
}

bool
JsonValue::ToInt(std::int64_t& out) const
{
    if (Is(JsonType::Integer))
    {
        out = m_tape->tokens[m_at].integer;
        return true;
    }
    if (Is(JsonType::Real))
    {
        const double real = m_tape->tokens[m_at].real;
        // Above 2^53 a double may already have lost its last digit.
        if (std::abs(real) <= 0x1.0p53 && real == std::floor(real))
        {
            out = static_cast<std::int64_t>(real);
            return true;
        }
    }
    return false;
}

bool
JsonValue::ToDouble(double& out) const
{
    if (!IsNumber())
    {
        return false;
    }
    const JsonTape::Token& token = m_tape->tokens[m_at];
    out = token.type == JsonType::Real      ? token.real
          : token.type == JsonType::Integer ? static_cast<double>(token.integer)
                                            : static_cast<double>(token.text);
    return std::isfinite(out);
}

std::string_view
JsonValue::AsString() const
{
    if (!Is(JsonType::String))
    {
        return {};
    }
    const JsonTape::Token& token = m_tape->tokens[m_at];
    return std::string_view(m_tape->chars).substr(token.text, token.count);
}

JsonValue
JsonValue::operator[](std::string_view key) const
{
    if (!Is(JsonType::Object))
    {
        return {};
    }
    for (JsonValue k = First(); k; k = k.Next().Next())
    {
        if (k.AsString() == key)
        {
            return k.Next();
        }
    }
    return {};
}

JsonValue
JsonValue::At(std::size_t index) const
{
    JsonValue v = Is(JsonType::Array) ? First() : JsonValue();
    for (; v && index > 0; --index)
    {
        v = v.Next();
    }
    return v;
}

std::size_t
JsonValue::Size() const
{
    return Is(JsonType::Array) || Is(JsonType::Object) ? m_tape->tokens[m_at].count : 0;
}

JsonValue
JsonValue::First() const
{
    const std::uint32_t end = m_tape->tokens[m_at].next;
    return m_at + 1 < end ? JsonValue(m_tape, m_at + 1, end) : JsonValue();
}

JsonValue
JsonValue::Next() const
{
    const std::uint32_t next = m_tape->tokens[m_at].next;
    return next < m_end ? JsonValue(m_tape, next, m_end) : JsonValue();
}

std::string
JsonValue::Show() const
{
    constexpr std::size_t kLongest = 60;
    if (m_tape == nullptr)
    {
        return "nothing";
    }
    const JsonTape::Token& token = m_tape->tokens[m_at];
    switch (token.type)
    {
    case JsonType::Null:
        return "null";
    case JsonType::Bool:
        return token.integer != 0 ? "true" : "false";
    case JsonType::Integer:
        return std::to_string(token.integer);
    case JsonType::Unsigned:
        return std::to_string(token.text);
    case JsonType::Real:
    {
        char text[40];
        std::snprintf(text, sizeof text, "%.17g", token.real);
        return text;
    }
    case JsonType::String:
    {
        std::string text = "\"";
        for (const char c : AsString().substr(0, kLongest))
        {
            text.push_back(static_cast<unsigned char>(c) < 0x20 ? '?' : c);
        }
        return text + (token.count > kLongest ? "...\"" : "\"");
    }
    case JsonType::Array:
        return "an array of " + std::to_string(token.count);
    case JsonType::Object:
        return "an object";
    }
    return "?";
}

namespace
{

constexpr std::size_t kDeepest = 64;
/** A tape is indexed with 32 bits; this also bounds the memory that one element can take. */
constexpr std::size_t kMostTokens = std::size_t{1} << 27;

/** nlohmann's message has the position in words; ours has it in front. */
std::string
OneLine(const std::string& what)
{
    constexpr std::size_t kLongest = 300;
    std::string text = what;
    const std::size_t colon = text.find("parse error at ");
    if (colon != std::string::npos)
    {
        text.erase(0, colon);
    }
    for (char& c : text)
    {
        c = static_cast<unsigned char>(c) < 0x20 || c == '\x7f' ? '?' : c;
    }
    return text.size() > kLongest ? text.substr(0, kLongest) + "..." : text;
}

/** The "line L, column C" of a message as ":L:C"; "@BYTE" if it has none. */
std::string
PositionOf(const std::string& what, std::size_t byte)
{
    std::int64_t line = 0;
    std::int64_t column = 0;
    const std::size_t at = what.find("at line ");
    if (at != std::string::npos &&
        std::sscanf(what.c_str() + at, "at line %ld, column %ld", &line, &column) == 2)
    {
        return ":" + std::to_string(line) + ":" + std::to_string(column);
    }
    return "@" + std::to_string(byte);
}

class TapeBuilder : public nlohmann::json_sax<nlohmann::json>
{
  public:
    TapeBuilder(std::string name, const JsonHandlers& handlers, const Input* input)
        : m_name(std::move(name)),
          m_handlers(handlers),
          m_input(input)
    {
    }

    bool null() override
    {
        Scalar({});
        return true;
    }

    bool boolean(bool value) override
    {
        JsonTape::Token token;
        token.type = JsonType::Bool;
        token.integer = value ? 1 : 0;
        Scalar(token);
        return true;
    }

    bool number_integer(std::int64_t value) override
    {
        JsonTape::Token token;
        token.type = JsonType::Integer;
        token.integer = value;
        Scalar(token);
        return true;
    }

    bool number_unsigned(std::uint64_t value) override
    {
        JsonTape::Token token;
        token.type = value > INT64_MAX ? JsonType::Unsigned : JsonType::Integer;
        token.text = value;
        Scalar(token);
        return true;
    }

    bool number_float(double value, const std::string& /* text */) override
    {
        JsonTape::Token token;
        token.type = JsonType::Real;
        token.real = value;
        Scalar(token);
        return true;
    }

    bool string(std::string& value) override
    {
        Text(value);
        return true;
    }

    bool binary(nlohmann::json::binary_t& /* value */) override
    {
        return true;
    }

    bool start_object(std::size_t /* count */) override
    {
        Open(JsonType::Object);
        return true;
    }

    bool start_array(std::size_t /* count */) override
    {
        Open(JsonType::Array);
        return true;
    }

    bool key(std::string& value) override
    {
        if (m_depth == 1)
        {
            if (!m_topKeys.insert(value).second)
            {
                Fail("key \"" + value.substr(0, 80) + "\" twice in one object");
            }
            m_topKey = value;
            return true;
        }
        Text(value);
        return true;
    }

    bool end_object() override
    {
        Close();
        return true;
    }

    bool end_array() override
    {
        Close();
        return true;
    }

    bool parse_error(std::size_t position,
                     const std::string& /* token */,
                     const nlohmann::json::exception& error) override
    {
        const std::string what = error.what();
        throw SpecError(m_name + PositionOf(what, position),
                        OneLine(what) + " (byte " + std::to_string(position) + ")");
    }

    [[nodiscard]] bool SawArray() const
    {
        return m_sawArray;
    }

  private:
    /** Where values go: m_base is the depth at which a value is a whole one for the handlers. */
    [[nodiscard]] bool InArray() const
    {
        return m_base == 2 || (m_base == 1 && m_handlers.array.empty());
    }

    [[noreturn]] void Fail(const std::string& text) const
    {
        const std::uint64_t byte = m_input != nullptr ? m_input->Offset() : 0;
        throw SpecError(PlaceAtByte(m_name, byte), text);
    }

    void Push(const JsonTape::Token& token)
    {
        if (m_tape.tokens.size() >= kMostTokens)
        {
            Fail("found an element of more than 2^27 values");
        }
        m_tape.tokens.push_back(token);
        if (!m_open.empty())
        {
            ++m_tape.tokens[m_open.back()].count;
        }
    }

    void Scalar(JsonTape::Token token)
    {
        CheckTop(JsonType::Null);
        token.next = static_cast<std::uint32_t>(m_tape.tokens.size() + 1);
        Push(token);
        Done();
    }

    void Text(const std::string& value)
    {
        CheckTop(JsonType::Null);
        JsonTape::Token token;
        token.type = JsonType::String;
        token.text = m_tape.chars.size();
        if (value.size() > UINT32_MAX)
        {
            Fail("found a string of more than 4 GiB");
        }
        token.count = static_cast<std::uint32_t>(value.size());
        token.next = static_cast<std::uint32_t>(m_tape.tokens.size() + 1);
        m_tape.chars += value;
        Push(token);
        Done();
    }

    /** The outermost value must be the container that the format has. */
    void CheckTop(JsonType type) const
    {
        const JsonType needed = m_handlers.array.empty() ? JsonType::Array : JsonType::Object;
        if (m_depth == 0 && type != needed)
        {
            Fail(std::string("top level is ") +
                 (type == JsonType::Object  ? "an object"
                  : type == JsonType::Array ? "an array"
                                            : "a single value") +
                 ", expected " + (needed == JsonType::Array ? "an array" : "an object"));
        }
    }

    void Open(JsonType type)
    {
        CheckTop(type);
        if (++m_depth > kDeepest)
        {
            Fail("found nesting deeper than " + std::to_string(kDeepest));
        }
        if (m_depth == 1)
        {
            m_base = 1;
            return;
        }
        if (m_depth == 2 && !m_handlers.array.empty() && m_topKey == m_handlers.array)
        {
            if (type != JsonType::Array)
            {
                Fail("\"" + m_topKey + "\" is an object, expected an array");
            }
            m_base = 2;
            m_sawArray = true;
            return;
        }
        JsonTape::Token token;
        token.type = type;
        Push(token);
        m_open.push_back(static_cast<std::uint32_t>(m_tape.tokens.size() - 1));
    }

    void Close()
    {
        --m_depth;
        if (m_open.empty())
        {
            // The end of the streamed array or of the document.
            m_base = m_depth;
            m_sawArray = m_sawArray || (m_depth == 0 && m_handlers.array.empty());
            return;
        }
        JsonTape::Token& token = m_tape.tokens[m_open.back()];
        token.next = static_cast<std::uint32_t>(m_tape.tokens.size());
        if (token.type == JsonType::Object)
        {
            token.count /= 2;
            CheckKeys(m_open.back());
        }
        m_open.pop_back();
        Done();
    }

    void CheckKeys(std::uint32_t object)
    {
        m_keys.clear();
        const std::uint32_t end = m_tape.tokens[object].next;
        for (std::uint32_t at = object + 1; at < end;)
        {
            const JsonTape::Token& key = m_tape.tokens[at];
            m_keys.push_back(std::string_view(m_tape.chars).substr(key.text, key.count));
            at = m_tape.tokens[at + 1].next;
        }
        constexpr std::size_t kFew = 24;
        bool twice = false;
        std::string_view which;
        if (m_keys.size() <= kFew)
        {
            for (std::size_t i = 1; i < m_keys.size() && !twice; ++i)
            {
                for (std::size_t j = 0; j < i && !twice; ++j)
                {
                    twice = m_keys[i] == m_keys[j];
                    which = m_keys[i];
                }
            }
        }
        else
        {
            std::sort(m_keys.begin(), m_keys.end());
            const auto at = std::adjacent_find(m_keys.begin(), m_keys.end());
            twice = at != m_keys.end();
            which = twice ? *at : which;
        }
        if (twice)
        {
            Fail("key \"" + std::string(which.substr(0, 80)) + "\" twice in one object");
        }
    }

    void Done()
    {
        if (!m_open.empty() || m_depth != m_base)
        {
            return;
        }
        const std::uint64_t byte = m_input != nullptr ? m_input->Offset() : 0;
        if (InArray())
        {
            m_handlers.element(m_tape.Root(), m_index++, byte);
        }
        else if (m_depth == 1 && m_handlers.member)
        {
            m_handlers.member(m_topKey, m_tape.Root());
        }
        m_tape.Clear();
    }

    std::string m_name;
    const JsonHandlers& m_handlers;
    const Input* m_input;
    JsonTape m_tape;
    std::vector<std::uint32_t> m_open;
    std::vector<std::string_view> m_keys;
    std::set<std::string> m_topKeys;
    std::string m_topKey;
    std::size_t m_depth = 0;
    std::size_t m_base = 0;
    std::uint64_t m_index = 0;
    bool m_sawArray = false;
};

/** A whole small text onto a tape: an array handler around it would refuse other values. */
class TextBuilder
{
  public:
    static void Parse(const std::string& place, std::string_view text, JsonTape& tape)
    {
        const std::string wrapped = "[" + std::string(text) + "]";
        JsonHandlers handlers;
        std::uint64_t count = 0;
        handlers.element = [&tape, &count](JsonValue value, std::uint64_t, std::uint64_t) {
            ++count;
            Copy(value, tape);
        };
        TapeBuilder builder(place, handlers, nullptr);
        nlohmann::json::sax_parse(wrapped, &builder);
        if (count != 1)
        {
            throw SpecError(place,
                            "found " + std::to_string(count) + " values in a text, expected one");
        }
    }

  private:
    static void Copy(JsonValue value, JsonTape& tape);
};

void
TextBuilder::Copy(JsonValue value, JsonTape& tape)
{
    const auto at = tape.tokens.size();
    JsonTape::Token token;
    token.type = value.Type();
    token.count = static_cast<std::uint32_t>(value.Size());
    switch (token.type)
    {
    case JsonType::Bool:
        token.integer = value.AsBool() ? 1 : 0;
        break;
    case JsonType::Real:
        value.ToDouble(token.real);
        break;
    case JsonType::Integer:
        value.ToInt(token.integer);
        break;
    case JsonType::Unsigned:
        token.text = 0;
        break;
    case JsonType::String:
        token.text = tape.chars.size();
        token.count = static_cast<std::uint32_t>(value.AsString().size());
        tape.chars += value.AsString();
        break;
    default:
        break;
    }
    tape.tokens.push_back(token);
    if (token.type == JsonType::Array || token.type == JsonType::Object)
    {
        for (JsonValue v = value.First(); v; v = v.Next())
        {
            Copy(v, tape);
        }
    }
    tape.tokens[at].next = static_cast<std::uint32_t>(tape.tokens.size());
}

} // namespace

bool
StreamJson(Input& input, const JsonHandlers& handlers)
{
    input.SkipByteOrderMark();
    std::istream stream(&input);
    stream.exceptions(std::ios::badbit);
    TapeBuilder builder(input.Name(), handlers, &input);
    nlohmann::json::sax_parse(stream, &builder);
    return builder.SawArray();
}

void
ParseJsonText(const std::string& place, std::string_view text, JsonTape& tape)
{
    tape.Clear();
    TextBuilder::Parse(place, text, tape);
}

} // namespace topoopt
