// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/model-expression.h"

#include "topoopt/core/yaml-document.h"

#include <cctype>
#include <stdexcept>
#include <vector>

namespace topoopt
{

namespace
{

class Parser
{
  public:
    Parser(const std::string& text, const std::map<std::string, std::int64_t>& names)
        : m_text(text),
          m_names(names)
    {
    }

    std::int64_t Run()
    {
        const std::int64_t value = Sum();
        Skip();
        if (m_at != m_text.size())
        {
            Fail("an operator or the end");
        }
        return value;
    }

  private:
    [[noreturn]] void Fail(const std::string& expected) const
    {
        throw std::invalid_argument("found '" + Printable(m_text) + "' (at character " +
                                    std::to_string(m_at + 1) + "), expected " + expected);
    }

    void Skip()
    {
        while (m_at < m_text.size() && m_text[m_at] == ' ')
        {
            ++m_at;
        }
    }

    bool Take(char c)
    {
        Skip();
        if (m_at < m_text.size() && m_text[m_at] == c)
        {
            ++m_at;
            return true;
        }
        return false;
    }

    std::int64_t Sum()
    {
        std::int64_t value = Product();
        for (;;)
        {
            std::int64_t result = 0;
            if (Take('+'))
            {
                if (__builtin_add_overflow(value, Product(), &result))
                {
                    Fail("a value below 2^63");
                }
            }
            else if (Take('-'))
            {
                if (__builtin_sub_overflow(value, Product(), &result))
                {
                    Fail("a value above -2^63");
                }
            }
            else
            {
                return value;
            }
            value = result;
        }
    }

    std::int64_t Product()
    {
        std::int64_t value = Factor();
        for (;;)
        {
            if (Take('*'))
            {
                std::int64_t result = 0;
                if (__builtin_mul_overflow(value, Factor(), &result))
                {
                    Fail("a value below 2^63");
                }
                value = result;
            }
            else if (Take('/'))
            {
                value = value / Divisor(value);
            }
            else if (Take('%'))
            {
                value = value % Divisor(value);
            }
            else
            {
                return value;
            }
        }
    }

    std::int64_t Divisor(std::int64_t dividend)
    {
        const std::int64_t divisor = Factor();
        if (divisor == 0 || (divisor == -1 && dividend == INT64_MIN))
        {
            Fail("a divisor other than " + std::to_string(divisor));
        }
        return divisor;
    }

    std::int64_t Factor()
    {
        if (++m_depth > 64)
        {
            Fail("at most 64 levels of nesting");
        }
        const std::int64_t value = Atom();
        --m_depth;
        return value;
    }

    std::int64_t Atom()
    {
        Skip();
        if (Take('-'))
        {
            std::int64_t result = 0;
            if (__builtin_sub_overflow(std::int64_t{0}, Factor(), &result))
            {
                Fail("a value below 2^63");
            }
            return result;
        }
        if (Take('('))
        {
            const std::int64_t value = Sum();
            if (!Take(')'))
            {
                Fail("')'");
            }
            return value;
        }
        if (m_at >= m_text.size())
        {
            Fail("a number or a name");
        }
        const auto first = static_cast<unsigned char>(m_text[m_at]);
        if (std::isdigit(first) != 0)
        {
            return Number();
        }
        if (std::isalpha(first) == 0 && first != '_')
        {
            Fail("a number or a name");
        }
        const std::size_t from = m_at;
        while (m_at < m_text.size() &&
               (std::isalnum(static_cast<unsigned char>(m_text[m_at])) != 0 || m_text[m_at] == '_'))
        {
            ++m_at;
        }
        const std::string name = m_text.substr(from, m_at - from);
        const auto found = m_names.find(name);
        if (found == m_names.end())
        {
            std::vector<std::string> known;
            for (const auto& [text, value] : m_names)
            {
                known.push_back(text);
            }
            throw std::invalid_argument("found '" + Printable(name) +
                                        "', expected a number or a parameter" +
                                        DidYouMean(name, known));
        }
        return found->second;
    }

    std::int64_t Number()
    {
        std::int64_t value = 0;
        while (m_at < m_text.size() && std::isdigit(static_cast<unsigned char>(m_text[m_at])) != 0)
        {
            if (__builtin_mul_overflow(value, std::int64_t{10}, &value) ||
                __builtin_add_overflow(value, std::int64_t{m_text[m_at] - '0'}, &value))
            {
                Fail("a value below 2^63");
            }
            ++m_at;
        }
        return value;
    }

    const std::string& m_text;
    const std::map<std::string, std::int64_t>& m_names;
    std::size_t m_at = 0;
    int m_depth = 0;
};

} // namespace

std::int64_t
EvaluateExpression(const std::string& expression, const std::map<std::string, std::int64_t>& names)
{
    return Parser(expression, names).Run();
}

} // namespace topoopt
