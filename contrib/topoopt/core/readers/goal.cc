// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/error.h"
#include "topoopt/core/readers/readers.h"

#include <algorithm>
#include <charconv>

namespace topoopt
{

namespace
{

/** A GOAL text (LogGOPSim, ATLAHS) as words; comments of C and C++ left out. */
class GoalWords
{
  public:
    explicit GoalWords(const TraceFile& file)
        : m_input(file)
    {
    }

    /** Next line with words; a brace is a word of its own. */
    bool Next()
    {
        while (m_input.GetLine(m_line))
        {
            words.clear();
            Split();
            if (!words.empty())
            {
                return true;
            }
        }
        words.clear();
        return false;
    }

    [[nodiscard]] std::string Place() const
    {
        return m_input.LinePlace();
    }

    [[noreturn]] void Fail(std::size_t i, const std::string& expected) const
    {
        throw SpecError(Place(),
                        (i < words.size() ? "found '" + words[i].substr(0, 40) + "'"
                                          : std::string("found the end of the line")) +
                            ", expected " + expected);
    }

    /** Word @p i without @p suffix as a number. */
    [[nodiscard]] std::uint64_t Number(std::size_t i,
                                       const char* what,
                                       char suffix,
                                       std::uint64_t most) const
    {
        std::uint64_t value = 0;
        if (i < words.size())
        {
            std::string_view w = words[i];
            if (suffix != '\0' && !w.empty() && w.back() == suffix)
            {
                w.remove_suffix(1);
            }
            const auto result = std::from_chars(w.data(), w.data() + w.size(), value);
            if (!w.empty() && result.ec == std::errc() && result.ptr == w.data() + w.size() &&
                value <= most)
            {
                return value;
            }
        }
        Fail(i, std::string(what) + ", 0.." + std::to_string(most));
    }

    std::vector<std::string> words;

  private:
    void Split()
    {
        std::string word;
        const auto flush = [&] {
            if (!word.empty())
            {
                words.push_back(word);
                word.clear();
            }
        };
        for (std::size_t i = 0; i < m_line.size(); ++i)
        {
            const std::string_view rest = std::string_view(m_line).substr(i, 2);
            if (m_inComment)
            {
                m_inComment = rest != "*/";
                i += m_inComment ? 0 : 1;
            }
            else if (rest == "//")
            {
                break;
            }
            else if (rest == "/*")
            {
                flush();
                m_inComment = true;
                ++i;
            }
            else if (m_line[i] == '{' || m_line[i] == '}')
            {
                flush();
                words.emplace_back(1, m_line[i]);
            }
            else if (m_line[i] == ' ' || m_line[i] == '\t')
            {
                flush();
            }
            else if (m_line[i] == ':')
            {
                word.push_back(':');
                flush();
            }
            else
            {
                word.push_back(m_line[i]);
            }
        }
        flush();
    }

    Input m_input;
    std::string m_line;
    bool m_inComment = false;
};

class GoalReader
{
  public:
    GoalReader(const TraceFile& file, TraceSet& set)
        : m_words(file),
          m_set(set)
    {
    }

    void Load()
    {
        const std::string file = m_set.ranks[0].file;
        m_words.Next();
        if (m_words.words.size() != 2 || m_words.words[0] != "num_ranks")
        {
            m_words.Fail(0, "num_ranks N");
        }
        const std::uint64_t count = m_words.Number(1, "a number of ranks", '\0', 1000000);
        if (count == 0)
        {
            m_words.Fail(1, "1 rank or more");
        }
        m_count = static_cast<std::uint32_t>(count);
        // Made as the blocks come, so that a false count allocates nothing.
        std::map<std::uint32_t, RankTrace> traces;
        while (m_words.Next())
        {
            const auto& words = m_words.words;
            if (words.size() < 3 || words[0] != "rank" || words[2] != "{")
            {
                m_words.Fail(0, "rank R {");
            }
            const auto rank =
                static_cast<std::uint32_t>(m_words.Number(1, "a rank", '\0', count - 1));
            const auto [at, isNew] = traces.try_emplace(rank);
            if (!isNew)
            {
                m_words.Fail(1, "each rank once");
            }
            m_trace = &at->second;
            m_trace->file = file;
            m_trace->programOrder = false;
            Rank(rank, words.size() > 3 && words[3] == "}");
        }
        std::uint32_t next = 0;
        for (const auto& [rank, trace] : traces)
        {
            next += rank == next ? 1 : 0;
        }
        if (next < m_count)
        {
            throw SpecError(file, "found no block of rank " + std::to_string(next));
        }
        m_set.ranks.clear();
        for (auto& [rank, trace] : traces)
        {
            m_set.ranks.push_back(std::move(trace));
        }
    }

  private:
    void Rank(std::uint32_t rank, bool empty)
    {
        m_labels.clear();
        m_requires.clear();
        m_startOf.clear();
        bool closed = empty;
        while (!closed)
        {
            if (!m_words.Next())
            {
                throw SpecError(m_words.Place(),
                                "found the end of the file inside rank " + std::to_string(rank) +
                                    ", expected }");
            }
            closed = m_words.words[0] == "}";
            if (!closed)
            {
                Statement();
            }
        }
        for (std::uint32_t i = 0; i < m_trace->ops.size(); ++i)
        {
            auto& before = m_requires[i];
            std::sort(before.begin(), before.end());
            before.erase(std::unique(before.begin(), before.end()), before.end());
            m_trace->ops[i].deps = m_trace->deps.size();
            m_trace->ops[i].depCount = static_cast<std::uint32_t>(before.size());
            m_trace->deps.insert(m_trace->deps.end(), before.begin(), before.end());
        }
    }

    std::uint32_t Push(const TraceOp& op)
    {
        m_trace->ops.push_back(op);
        m_trace->ops.back().id = m_trace->ops.size() - 1;
        m_requires.emplace_back();
        return static_cast<std::uint32_t>(m_trace->ops.size() - 1);
    }

    void Statement()
    {
        const auto& words = m_words.words;
        std::size_t i = 0;
        std::string label;
        if (words[0].back() == ':')
        {
            label = words[0].substr(0, words[0].size() - 1);
            ++i;
        }
        const std::string verb = i < words.size() ? words[i] : "";
        if (label.empty() && words.size() >= 3 &&
            (words[1] == "requires" || words[1] == "irequires"))
        {
            const std::uint32_t after = Label(0);
            Order(after, Label(2), words[1] == "requires");
            return;
        }
        TraceOp op;
        op.name = m_set.Name(verb);
        std::size_t options = i + 2;
        if (verb == "calc")
        {
            constexpr std::uint64_t kMostNs = INT64_MAX / kNanosecond / 2;
            op.kind = OpKind::Compute;
            op.duration =
                static_cast<SimTime>(m_words.Number(i + 1, "a time in ns", '\0', kMostNs)) *
                kNanosecond;
        }
        else if (verb == "send" || verb == "recv")
        {
            const bool send = verb == "send";
            op.kind = send ? OpKind::Send : OpKind::Recv;
            op.bytes = m_words.Number(i + 1, "a size in bytes", 'b', INT64_MAX);
            if (i + 2 >= words.size() || words[i + 2] != (send ? "to" : "from"))
            {
                m_words.Fail(i + 2, send ? "to RANK" : "from RANK");
            }
            if (i + 3 < words.size() && words[i + 3] == "-1")
            {
                m_words.Fail(i + 3,
                             "a rank (a receive from any rank cannot be matched before the run)");
            }
            op.peer = static_cast<RankId>(m_words.Number(i + 3, "a rank", '\0', m_count - 1));
            options = i + 4;
        }
        else
        {
            m_words.Fail(i, "send, recv, calc or LABEL requires LABEL");
        }
        for (; options < words.size(); options += 2)
        {
            if (words[options] == "tag")
            {
                op.tag = static_cast<std::int64_t>(
                    m_words.Number(options + 1, "a tag", '\0', INT64_MAX));
            }
            else if (words[options] == "cpu" || words[options] == "nic")
            {
                if (m_words.Number(options + 1, "a number", '\0', UINT32_MAX) > 0)
                {
                    m_set.Warn(
                        "cpu and nic numbers are left out: one computation at a time per rank");
                }
            }
            else
            {
                m_words.Fail(options, "tag, cpu or nic");
            }
        }
        const std::uint32_t made = Push(op);
        if (!label.empty() && !m_labels.emplace(label, made).second)
        {
            m_words.Fail(0, "each label once");
        }
    }

    std::uint32_t Label(std::size_t i) const
    {
        const auto at = m_labels.find(m_words.words[i]);
        if (at == m_labels.end())
        {
            m_words.Fail(i, "a label defined above");
        }
        return at->second;
    }

    /** @p after waits for the end of @p before, or for its start: a point of its own that both wait for. */
    void Order(std::uint32_t after, std::uint32_t before, bool end)
    {
        const auto target = [this](std::uint32_t op) {
            const auto at = m_startOf.find(op);
            return at == m_startOf.end() ? op : at->second;
        };
        if (end)
        {
            m_requires[target(after)].push_back(before);
            return;
        }
        auto at = m_startOf.find(before);
        if (at == m_startOf.end())
        {
            TraceOp start;
            start.kind = OpKind::Nothing;
            start.name = m_set.Name("start");
            const std::uint32_t made = Push(start);
            m_requires[made] = m_requires[before];
            m_requires[before] = {made};
            at = m_startOf.emplace(before, made).first;
        }
        m_requires[target(after)].push_back(at->second);
    }

    GoalWords m_words;
    TraceSet& m_set;
    RankTrace* m_trace = nullptr;
    std::uint32_t m_count = 0;
    std::map<std::string, std::uint32_t> m_labels;
    std::vector<std::vector<std::uint32_t>> m_requires;
    std::map<std::uint32_t, std::uint32_t>
        m_startOf; ///< operation -> its start, if anything waits for that
};

} // namespace

bool
ProbeGoal(std::string_view head)
{
    while (true)
    {
        const std::size_t at = head.find_first_not_of(" \t\r\n");
        if (at == std::string_view::npos)
        {
            return false;
        }
        head.remove_prefix(at);
        if (head.substr(0, 2) == "//")
        {
            head.remove_prefix(std::min(head.find('\n'), head.size()));
        }
        else if (head.substr(0, 2) == "/*")
        {
            const std::size_t end = head.find("*/");
            head.remove_prefix(end == std::string_view::npos ? head.size() : end + 2);
        }
        else
        {
            return head.substr(0, 9) == "num_ranks";
        }
    }
}

void
LoadGoal(const std::vector<TraceFile>& files, const TraceOptions& /* options */, TraceSet& set)
{
    GoalReader(files[0], set).Load();
}

} // namespace topoopt
