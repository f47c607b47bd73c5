// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/yaml-document.h"

#include "topoopt/core/error.h"
#include "topoopt/core/scenario.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

namespace topoopt
{

namespace
{

constexpr std::size_t kMaxYamlBytes = std::size_t{4} << 20;
constexpr std::size_t kMaxValues = 200'000;

/** Offset of the first byte that is not valid UTF-8, npos if there is none. */
std::size_t
FindInvalidUtf8(const std::string& text)
{
    std::size_t at = 0;
    while (at < text.size())
    {
        const auto lead = static_cast<unsigned char>(text[at]);
        std::size_t length = 1;
        unsigned least = 0;
        unsigned code = lead;
        if (lead >= 0xf0 && lead <= 0xf4)
        {
            length = 4;
            least = 0x10000;
            code = lead & 0x07U;
        }
        else if (lead >= 0xe0 && lead < 0xf0)
        {
            length = 3;
            least = 0x800;
            code = lead & 0x0fU;
        }
        else if (lead >= 0xc2 && lead < 0xe0)
        {
            length = 2;
            least = 0x80;
            code = lead & 0x1fU;
        }
        else if (lead >= 0x80 || lead == 0)
        {
            return at;
        }
        for (std::size_t k = 1; k < length; ++k)
        {
            if (at + k >= text.size() || (static_cast<unsigned char>(text[at + k]) & 0xc0U) != 0x80)
            {
                return at;
            }
            code = code << 6 | (static_cast<unsigned char>(text[at + k]) & 0x3fU);
        }
        if (code < least || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        {
            return at;
        }
        at += length;
    }
    return std::string::npos;
}

std::size_t
CountValues(const YamlValue& value)
{
    std::size_t count = 1;
    for (const YamlValue& item : value.items)
    {
        count += CountValues(item);
    }
    return count;
}

/** Builds the tree from yaml-cpp's events, which keep what its nodes lose: order, repeats, and places. */
class TreeBuilder final : public YAML::EventHandler
{
  public:
    TreeBuilder(const std::string& file, const std::string& everywhere)
        : m_file(file),
          m_everywhere(everywhere)
    {
    }

    [[nodiscard]] YamlValue Take()
    {
        return std::move(m_root);
    }

    void OnDocumentStart(const YAML::Mark& /*mark*/) override
    {
    }

    void OnDocumentEnd() override
    {
    }

    void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override
    {
        YamlValue value;
        value.place = PlaceOf(mark);
        Finish(std::move(value), anchor);
    }

    void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override
    {
        const auto found = m_anchors.find(anchor);
        if (found == m_anchors.end())
        {
            throw SpecError(PlaceOf(mark),
                            "found an alias inside the value that it names, expected a value "
                            "that is complete");
        }
        YamlValue copy = found->second.first;
        Charge(found->second.second, mark);
        Finish(std::move(copy), 0);
    }

    void OnScalar(const YAML::Mark& mark,
                  const std::string& tag,
                  YAML::anchor_t anchor,
                  const std::string& value) override
    {
        CheckTag(mark, tag);
        YamlValue scalar;
        scalar.kind = YamlKind::Scalar;
        scalar.text = value;
        scalar.place = PlaceOf(mark);
        Charge(1, mark);
        Finish(std::move(scalar), anchor);
    }

    void OnSequenceStart(const YAML::Mark& mark,
                         const std::string& tag,
                         YAML::anchor_t anchor,
                         YAML::EmitterStyle::value /*style*/) override
    {
        Open(YamlKind::List, mark, tag, anchor);
    }

    void OnSequenceEnd() override
    {
        Close();
    }

    void OnMapStart(const YAML::Mark& mark,
                    const std::string& tag,
                    YAML::anchor_t anchor,
                    YAML::EmitterStyle::value /*style*/) override
    {
        Open(YamlKind::Map, mark, tag, anchor);
    }

    void OnMapEnd() override
    {
        Frame& frame = m_stack.back();
        // Keys written out win over merged ones, the first merged map over later ones.
        for (const YamlValue& source : frame.merged)
        {
            for (std::size_t i = 0; i < source.keys.size(); ++i)
            {
                if (frame.seen.emplace(source.keys[i].text, source.keys[i].place).second)
                {
                    frame.value.keys.push_back(source.keys[i]);
                    frame.value.items.push_back(source.items[i]);
                }
            }
        }
        Close();
    }

  private:
    struct Frame
    {
        YamlValue value;
        YAML::anchor_t anchor = 0;
        bool keyNext = true;
        bool mergeNext = false;
        std::vector<YamlValue> merged;
        std::map<std::string, std::string> seen; ///< key -> place
    };

    [[nodiscard]] std::string PlaceOf(const YAML::Mark& mark) const
    {
        return m_everywhere.empty() ? Place(m_file, mark.line + 1, mark.column + 1) : m_everywhere;
    }

    void Charge(std::size_t values, const YAML::Mark& mark)
    {
        m_values += values;
        if (m_values > kMaxValues)
        {
            throw SpecError(PlaceOf(mark),
                            "found more than " + std::to_string(kMaxValues) +
                                " values (aliases counted where they are used), expected fewer");
        }
    }

    void CheckTag(const YAML::Mark& mark, const std::string& tag) const
    {
        if (!tag.empty() && tag != "?" && tag != "!" && tag.rfind("tag:yaml.org,2002:", 0) != 0)
        {
            throw SpecError(PlaceOf(mark), "found the tag '" + Printable(tag) + "', expected none");
        }
    }

    void Open(YamlKind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor)
    {
        CheckTag(mark, tag);
        Charge(1, mark);
        if (!m_stack.empty() && m_stack.back().value.kind == YamlKind::Map &&
            m_stack.back().keyNext)
        {
            throw SpecError(
                PlaceOf(mark),
                "found a list or section as a key (is a bracket left open?), expected a name");
        }
        Frame frame;
        frame.value.kind = kind;
        frame.value.place = PlaceOf(mark);
        frame.anchor = anchor;
        m_stack.push_back(std::move(frame));
    }

    void Close()
    {
        YamlValue value = std::move(m_stack.back().value);
        const YAML::anchor_t anchor = m_stack.back().anchor;
        m_stack.pop_back();
        Finish(std::move(value), anchor);
    }

    void Finish(YamlValue&& value, YAML::anchor_t anchor)
    {
        if (anchor != 0)
        {
            m_anchors[anchor] = {value, CountValues(value)};
        }
        if (m_stack.empty())
        {
            m_root = std::move(value);
            return;
        }
        Frame& frame = m_stack.back();
        if (frame.value.kind == YamlKind::List)
        {
            frame.value.items.push_back(std::move(value));
        }
        else if (frame.keyNext)
        {
            AddKey(frame, value);
        }
        else if (frame.mergeNext)
        {
            Merge(frame, std::move(value));
            frame.keyNext = true;
            frame.mergeNext = false;
        }
        else
        {
            if (value.kind == YamlKind::Null)
            {
                // yaml-cpp marks what is absent by what comes next, perhaps lines below.
                value.place = frame.value.keys.back().place;
            }
            frame.value.items.push_back(std::move(value));
            frame.keyNext = true;
        }
    }

    static void AddKey(Frame& frame, const YamlValue& key)
    {
        if (key.kind != YamlKind::Scalar || key.text.empty())
        {
            throw SpecError(key.place, "found " + key.Found() + " as a key, expected a name");
        }
        frame.keyNext = false;
        frame.mergeNext = key.text == "<<";
        const auto [at, added] = frame.seen.emplace(key.text, key.place);
        if (!added)
        {
            throw SpecError(key.place,
                            "found the key '" + Printable(key.text) + "' twice (first at " +
                                at->second + "), expected it once");
        }
        if (!frame.mergeNext)
        {
            frame.value.keys.push_back({key.text, key.place});
        }
    }

    static void Merge(Frame& frame, YamlValue&& value)
    {
        std::vector<YamlValue> sources;
        if (value.kind == YamlKind::List)
        {
            sources = std::move(value.items);
        }
        else
        {
            sources.push_back(std::move(value));
        }
        for (YamlValue& source : sources)
        {
            if (source.kind != YamlKind::Map)
            {
                throw SpecError(source.place,
                                "<<: found " + source.Found() + ", expected an alias of a section");
            }
            frame.merged.push_back(std::move(source));
        }
    }

    std::string m_file;
    std::string m_everywhere;
    std::vector<Frame> m_stack;
    std::map<YAML::anchor_t, std::pair<YamlValue, std::size_t>> m_anchors; ///< value, its size
    std::size_t m_values = 0;
    YamlValue m_root;
};

/** Column from 1 of a tab among the blanks that begin line @p line (from 0) of @p text, 0 if there is none. */
int
TabInIndentation(const std::string& text, int line)
{
    std::istringstream in(text);
    std::string content;
    for (int at = 0; at <= line && std::getline(in, content); ++at)
    {
    }
    const std::string blanks = content.substr(0, content.find_first_not_of(" \t"));
    const std::size_t tab = blanks.find('\t');
    return tab == std::string::npos ? 0 : static_cast<int>(tab) + 1;
}

void
MarkOverridden(YamlValue& value)
{
    value.overridden = true;
    for (YamlValue& item : value.items)
    {
        MarkOverridden(item);
    }
}

} // namespace

const YamlValue*
YamlValue::Find(const std::string& key) const
{
    for (std::size_t i = 0; i < keys.size(); ++i)
    {
        if (keys[i].text == key)
        {
            return &items[i];
        }
    }
    return nullptr;
}

YamlValue*
YamlValue::Find(const std::string& key)
{
    return const_cast<YamlValue*>(std::as_const(*this).Find(key));
}

std::string
YamlValue::Found() const
{
    switch (kind)
    {
    case YamlKind::Null:
        return "nothing";
    case YamlKind::List:
        return "a list";
    case YamlKind::Map:
        return "a section";
    case YamlKind::Scalar:
        break;
    }
    return "'" + Printable(text) + "'";
}

std::string
Printable(const std::string& text, std::size_t most)
{
    std::string out;
    for (const char c : text)
    {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte == 0x7f)
        {
            constexpr const char* kHex = "0123456789abcdef";
            out += std::string("\\x") + kHex[byte >> 4U] + kHex[byte & 15U];
        }
        else if (out.size() >= most && (byte & 0xc0U) != 0x80)
        {
            return out + "...";
        }
        else
        {
            out.push_back(c);
        }
    }
    return out;
}

namespace
{

/** Plain where nothing in it could mean something else, quoted otherwise. */
std::string
FormatScalar(const std::string& text)
{
    const bool plain = !text.empty() && text != "null" && text != "Null" && text != "NULL" &&
                       text[0] != '-' && std::all_of(text.begin(), text.end(), [](char c) {
                           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                  (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '+' ||
                                  c == '.' || c == '/';
                       });
    if (plain)
    {
        return text;
    }
    std::string out = "\"";
    for (const char c : text)
    {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\')
        {
            out += '\\';
        }
        if (byte < 0x20 || byte == 0x7f)
        {
            constexpr const char* kHex = "0123456789abcdef";
            out += std::string("\\x") + kHex[byte >> 4U] + kHex[byte & 15U];
        }
        else
        {
            out += c;
        }
    }
    return out + "\"";
}

} // namespace

std::string
FormatYaml(const YamlValue& value)
{
    if (value.kind == YamlKind::Null)
    {
        return "null";
    }
    if (value.kind == YamlKind::Scalar)
    {
        return FormatScalar(value.text);
    }
    std::string out = value.kind == YamlKind::List ? "[" : "{";
    for (std::size_t i = 0; i < value.items.size(); ++i)
    {
        out += i == 0 ? "" : ", ";
        if (value.kind == YamlKind::Map)
        {
            out += FormatScalar(value.keys[i].text) + ": ";
        }
        out += FormatYaml(value.items[i]);
    }
    return out + (value.kind == YamlKind::List ? "]" : "}");
}

std::string
DidYouMean(const std::string& text, const std::vector<std::string>& candidates)
{
    const std::string near = Suggest(text, candidates);
    return near.empty() ? "" : ", did you mean '" + near + "'?";
}

YamlValue
ParseYaml(const std::string& text, const std::string& file, const std::string& everywhere)
{
    const std::string& whole = everywhere.empty() ? file : everywhere;
    if (text.size() > kMaxYamlBytes)
    {
        throw SpecError(whole,
                        "found more than " + FormatBytes(kMaxYamlBytes) +
                            ", expected a smaller file");
    }
    const std::size_t invalid = FindInvalidUtf8(text);
    if (invalid != std::string::npos)
    {
        throw SpecError(everywhere.empty() ? PlaceAtByte(file, invalid) : everywhere,
                        "found a byte that is not UTF-8 text, expected YAML in UTF-8");
    }
    TreeBuilder builder(file, everywhere);
    try
    {
        std::istringstream in(text);
        YAML::Parser parser(in);
        if (!parser.HandleNextDocument(builder))
        {
            throw SpecError(whole, "found nothing, expected YAML");
        }
        YamlValue value = builder.Take();
        TreeBuilder second(file, everywhere);
        if (parser.HandleNextDocument(second))
        {
            throw SpecError(second.Take().place, "found a second document, expected one");
        }
        return value;
    }
    catch (const YAML::Exception& error)
    {
        const int tab = everywhere.empty() ? TabInIndentation(text, error.mark.line) : 0;
        if (tab > 0)
        {
            throw SpecError(Place(file, error.mark.line + 1, tab),
                            "found a tab in the indentation, expected blanks");
        }
        const std::string place =
            everywhere.empty()
                ? (error.mark.is_null() ? file
                                        : Place(file, error.mark.line + 1, error.mark.column + 1))
                : everywhere;
        throw SpecError(place,
                        "found text that is not YAML (" + Printable(error.msg) +
                            "), expected `key: value`");
    }
}

YamlValue
ReadYamlFile(const std::string& file)
{
    errno = 0;
    std::ifstream in(file, std::ios::binary);
    std::string text;
    if (in)
    {
        char block[65536];
        while (text.size() <= kMaxYamlBytes && (in.read(block, sizeof block), in.gcount() > 0))
        {
            text.append(block, static_cast<std::size_t>(in.gcount()));
        }
    }
    if (errno != 0 && (in.bad() || text.empty()))
    {
        throw SpecError(file,
                        std::string("cannot be read: ") + std::strerror(errno) +
                            ", expected a YAML file");
    }
    return ParseYaml(text, file);
}

std::vector<std::string>
ApplyOverride(YamlValue& document,
              const std::string& assignment,
              const std::string& shorthand,
              const std::string& place)
{
    const std::string where = place.empty() ? "--set " + Printable(assignment) : place;
    const std::size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0)
    {
        throw SpecError(where, "found no path and value, expected a.b=value");
    }
    std::vector<std::string> path;
    std::istringstream names(assignment.substr(0, equals) + ".");
    for (std::string name; std::getline(names, name, '.');)
    {
        if (name.empty())
        {
            throw SpecError(where, "found an empty key in the path, expected a.b=value");
        }
        path.push_back(name);
    }
    YamlValue value = ParseYaml(assignment.substr(equals + 1), where, where);
    MarkOverridden(value);
    YamlValue* at = &document;
    std::string walked;
    for (const std::string& name : path)
    {
        if (at->kind == YamlKind::Null)
        {
            at->kind = YamlKind::Map;
            at->place = where;
        }
        if (at->kind == YamlKind::Scalar && !shorthand.empty())
        {
            YamlValue inner = *at;
            at->kind = YamlKind::Map;
            at->text.clear();
            at->keys.push_back({shorthand, inner.place});
            at->items.push_back(std::move(inner));
        }
        if (at->kind == YamlKind::Scalar)
        {
            throw SpecError(where,
                            walked + ": found the value " + at->Found() +
                                ", expected a section or list to set '" + Printable(name) + "' in");
        }
        if (at->kind == YamlKind::List)
        {
            const bool digits =
                name.size() <= 6 && std::all_of(name.begin(), name.end(), [](unsigned char c) {
                    return c >= '0' && c <= '9';
                });
            const std::size_t index = digits ? std::stoul(name) : kMaxValues;
            if (index > at->items.size())
            {
                throw SpecError(where,
                                walked + ": found the index '" + Printable(name) +
                                    "', expected 0.." + std::to_string(at->items.size()));
            }
            if (index == at->items.size())
            {
                at->items.emplace_back();
            }
            at = &at->items[index];
        }
        else
        {
            YamlValue* child = at->Find(name);
            if (child == nullptr)
            {
                at->keys.push_back({name, where});
                at->items.emplace_back();
                child = &at->items.back();
                child->place = where;
            }
            at = child;
        }
        walked += (walked.empty() ? "" : ".") + Printable(name);
    }
    *at = std::move(value);
    return path;
}

YamlSection::YamlSection(const YamlValue& value,
                         std::string path,
                         const std::vector<std::string>& known)
    : m_value(value),
      m_path(std::move(path))
{
    if (value.kind != YamlKind::Map)
    {
        std::string example;
        for (const std::string& key : known)
        {
            example += (example.empty() ? "" : ", ") + key;
        }
        throw SpecError(value.place,
                        (m_path.empty() ? "" : m_path + ": ") + "found " + value.Found() +
                            ", expected a section" +
                            (example.empty() ? "" : " with the keys " + example));
    }
    if (known.empty())
    {
        return;
    }
    for (const YamlKey& key : value.keys)
    {
        if (std::find(known.begin(), known.end(), key.text) != known.end())
        {
            continue;
        }
        std::string hint = DidYouMean(key.text, known);
        if (hint.empty())
        {
            for (const std::string& name : known)
            {
                hint += (hint.empty() ? ", expected one of " : ", ") + name;
            }
        }
        throw SpecError(key.place, Path(Printable(key.text)) + ": found an unknown key" + hint);
    }
}

std::string
YamlSection::Path(const std::string& key) const
{
    return m_path.empty() ? key : m_path + "." + key;
}

const YamlValue&
YamlSection::Require(const std::string& key, const std::string& expected) const
{
    const YamlValue* value = Find(key);
    if (value == nullptr)
    {
        throw SpecError(m_value.place, Path(key) + ": found no such key, expected " + expected);
    }
    return *value;
}

const std::string&
ScalarOf(const YamlValue& value, const std::string& path, const std::string& expected)
{
    if (value.kind != YamlKind::Scalar)
    {
        throw SpecError(value.place, path + ": found " + value.Found() + ", expected " + expected);
    }
    return value.text;
}

void
YamlSection::Text(const std::string& key, std::string& out) const
{
    if (const YamlValue* value = Find(key))
    {
        out = ScalarOf(*value, Path(key), "a text");
    }
}

void
YamlSection::Choice(const std::string& key,
                    const std::vector<std::string>& allowed,
                    std::string& out) const
{
    const YamlValue* value = Find(key);
    if (value == nullptr)
    {
        return;
    }
    std::string expected = "one of ";
    for (std::size_t i = 0; i < allowed.size(); ++i)
    {
        expected += (i == 0 ? "" : ", ") + allowed[i];
    }
    const std::string& text = ScalarOf(*value, Path(key), expected);
    if (std::find(allowed.begin(), allowed.end(), text) == allowed.end())
    {
        throw SpecError(value->place,
                        Path(key) + ": found " + value->Found() + ", expected " + expected +
                            DidYouMean(text, allowed));
    }
    out = text;
}

void
YamlSection::Bool(const std::string& key, bool& out) const
{
    std::string text;
    Choice(key, {"true", "false", "on", "off", "yes", "no"}, text);
    if (!text.empty())
    {
        out = text == "true" || text == "on" || text == "yes";
    }
}

void
YamlSection::Count(const std::string& key,
                   std::uint64_t least,
                   std::uint64_t most,
                   std::uint64_t& out) const
{
    const YamlValue* value = Find(key);
    if (value == nullptr)
    {
        return;
    }
    const std::string expected =
        "a whole number in " + std::to_string(least) + ".." + std::to_string(most);
    const std::string& text = ScalarOf(*value, Path(key), expected);
    const auto fail = [&] {
        throw SpecError(value->place,
                        Path(key) + ": found " + value->Found() + ", expected " + expected);
    };
    // A leading zero means octal to some YAML readers, so it means nothing here.
    if (text.empty() || text.size() > 20 || (text.size() > 1 && text[0] == '0'))
    {
        fail();
    }
    unsigned __int128 number = 0;
    for (const char c : text)
    {
        if (c < '0' || c > '9')
        {
            fail();
        }
        number = number * 10 + static_cast<unsigned>(c - '0');
    }
    if (number < least || number > most)
    {
        fail();
    }
    out = static_cast<std::uint64_t>(number);
}

void
YamlSection::Count(const std::string& key,
                   std::uint32_t least,
                   std::uint32_t most,
                   std::uint32_t& out) const
{
    std::uint64_t wide = out;
    Count(key, std::uint64_t{least}, std::uint64_t{most}, wide);
    out = static_cast<std::uint32_t>(wide);
}

namespace
{

/** Runs one of the Parse functions of units.h and gives its complaint a place. */
template <typename T>
T
Parse(const YamlValue& value,
      const std::string& path,
      const std::string& expected,
      T (*parse)(std::string_view))
{
    const std::string& text = ScalarOf(value, path, expected);
    try
    {
        return parse(text);
    }
    catch (const std::invalid_argument& error)
    {
        throw SpecError(value.place, path + ": " + Printable(error.what(), 400));
    }
}

} // namespace

void
YamlSection::Rate(const std::string& key, BitRate& out) const
{
    if (const YamlValue* value = Find(key))
    {
        out = Parse(*value, Path(key), "a rate such as 100Gbps", ParseBitRate);
    }
}

void
YamlSection::Time(const std::string& key, SimTime least, SimTime most, SimTime& out) const
{
    if (const YamlValue* value = Find(key))
    {
        const SimTime time = Parse(*value, Path(key), "a time such as 10us", ParseTime);
        if (time < least || time > most)
        {
            throw SpecError(value->place,
                            Path(key) + ": found " + value->Found() + ", expected " +
                                FormatTime(least) + " to " + FormatTime(most));
        }
        out = time;
    }
}

void
YamlSection::Size(const std::string& key, Bytes least, Bytes most, Bytes& out) const
{
    if (const YamlValue* value = Find(key))
    {
        const Bytes size = Parse(*value, Path(key), "a size such as 64KiB", ParseBytes);
        if (size < least || size > most)
        {
            throw SpecError(value->place,
                            Path(key) + ": found " + value->Found() + ", expected " +
                                FormatBytes(least) + " to " + FormatBytes(most));
        }
        out = size;
    }
}

} // namespace topoopt
