// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_READERS_WORDS_H
#define TOPOOPT_CORE_READERS_WORDS_H

#include "topoopt/core/error.h"
#include "topoopt/core/readers/input.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace topoopt
{

/** A text file read line by line as words, with places for messages. */
class WordReader
{
  public:
    /** @param separators characters between words; @param comments starts of comments, "" = none */
    explicit WordReader(const TraceFile& file,
                        std::string separators = " \t",
                        std::string comments = "#")
        : m_input(file),
          m_separators(std::move(separators)),
          m_comments(std::move(comments))
    {
    }

    /** Next line that has a word. @return false at the end of the file */
    bool Next()
    {
        while (m_input.GetLine(m_line))
        {
            Split();
            if (!m_words.empty())
            {
                return true;
            }
        }
        m_words.clear();
        return false;
    }

    [[nodiscard]] std::size_t Size() const
    {
        return m_words.size();
    }

    [[nodiscard]] const std::string& Word(std::size_t i) const
    {
        return m_words[i];
    }

    [[nodiscard]] const std::string& File() const
    {
        return m_input.Name();
    }

    /** FILE:LINE */
    [[nodiscard]] std::string Place() const
    {
        return m_input.LinePlace();
    }

    [[nodiscard]] std::int64_t Line() const
    {
        return m_input.Line();
    }

    /** Throws at word @p i (its column counts words, from 1). */
    [[noreturn]] void Fail(std::size_t i, const std::string& expected) const
    {
        throw SpecError(Place() + ":" + std::to_string(i + 1),
                        i < m_words.size()
                            ? "found '" + m_words[i].substr(0, 40) + "', expected " + expected
                            : "found " + std::to_string(m_words.size()) + " columns, expected " +
                                  expected);
    }

    /** Word @p i as a whole number in least..most. */
    [[nodiscard]] std::uint64_t Number(std::size_t i,
                                       const char* what,
                                       std::uint64_t least,
                                       std::uint64_t most) const
    {
        std::uint64_t value = 0;
        if (i < m_words.size())
        {
            const std::string& w = m_words[i];
            const auto result = std::from_chars(w.data(), w.data() + w.size(), value);
            if (result.ec == std::errc() && result.ptr == w.data() + w.size() && value >= least &&
                value <= most)
            {
                return value;
            }
        }
        Fail(i,
             std::string(what) + ", " + std::to_string(least) +
                 (most == UINT64_MAX || most == INT64_MAX ? " or more"
                                                          : ".." + std::to_string(most)));
    }

    /** Word @p i as a finite number of at least 0. */
    [[nodiscard]] double Real(std::size_t i, const char* what, double most) const
    {
        double value = -1;
        if (i < m_words.size())
        {
            const std::string& w = m_words[i];
            const auto result = std::from_chars(w.data(), w.data() + w.size(), value);
            if (result.ec == std::errc() && result.ptr == w.data() + w.size() &&
                std::isfinite(value) && value >= 0 && value <= most)
            {
                return value;
            }
        }
        Fail(i, std::string(what) + ", a number of 0 or more");
    }

  private:
    void Split()
    {
        m_words.clear();
        std::string_view line = m_line;
        if (!m_comments.empty())
        {
            line = line.substr(0, line.find(m_comments));
        }
        std::size_t at = 0;
        while ((at = line.find_first_not_of(m_separators, at)) != std::string_view::npos)
        {
            const std::size_t end = std::min(line.find_first_of(m_separators, at), line.size());
            m_words.emplace_back(line.substr(at, end - at));
            at = end;
        }
    }

    Input m_input;
    std::string m_separators;
    std::string m_comments;
    std::string m_line;
    std::vector<std::string> m_words;
};

} // namespace topoopt

#endif // TOPOOPT_CORE_READERS_WORDS_H
