// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/sweep.h"

#include "topoopt/core/error.h"
#include "topoopt/core/sweep-points.h"
#include "topoopt/core/yaml-document.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace topoopt
{

namespace
{

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string
ReadAll(const fs::path& file)
{
    std::ifstream in(file, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

/** All or nothing: a reader never sees half a file, whenever this process is killed. */
void
WriteAtOnce(const fs::path& file, const std::string& text)
{
    const fs::path draft = file.string() + ".new";
    std::ofstream out(draft, std::ios::binary);
    out << text;
    out.close();
    std::error_code error;
    if (out)
    {
        fs::rename(draft, file, error);
    }
    if (!out || error)
    {
        throw SpecError(
            file.string(),
            "cannot be written: " + (error ? error.message() : std::string(std::strerror(errno))) +
                ", expected a directory with room and permission");
    }
}

/** What the sweep knows of a point while it runs. */
struct PointState
{
    fs::path directory;
    std::string key; ///< what the results depend on
    pid_t process = 0;
    int log = -1;      ///< locked as long as somebody works in the directory
    bool told = false; ///< to stop
    bool done = false;
    std::string failure;
    std::chrono::steady_clock::time_point begin;
};

class Runner
{
  public:
    explicit Runner(const SweepOptions& options)
        : m_options(options),
          m_sweep(ReadSweep(options.file, options.overrides)),
          m_output(options.output)
    {
        if (options.only && *options.only >= m_sweep.points.size())
        {
            throw SpecError(options.file,
                            "found the point " + std::to_string(*options.only) + ", expected 0.." +
                                std::to_string(m_sweep.points.size() - 1));
        }
        std::error_code error;
        fs::create_directories(m_output, error);
        if (error || !fs::is_directory(m_output, error))
        {
            throw SpecError(
                options.output,
                "cannot be made: " + (error ? error.message() : "a file is in its place") +
                    ", expected a directory");
        }
        const std::string scenario = ReadAll(m_sweep.scenario);
        for (const SweepPoint& point : m_sweep.points)
        {
            PointState state;
            state.directory = m_output / point.name;
            state.key = "version: " + options.version + "\n";
            for (const std::string& assignment : Assignments(point))
            {
                state.key += "set: " + Printable(assignment, std::string::npos) + "\n";
            }
            state.key += "scenario:\n" + scenario;
            m_states.push_back(std::move(state));
        }
    }

    int Run()
    {
        if (m_options.slurm)
        {
            WriteSlurm();
            return 0;
        }
        const std::size_t first = m_options.only ? *m_options.only : 0;
        const std::size_t end = m_options.only ? first + 1 : m_states.size();
        std::size_t next = first;
        std::size_t reused = 0;
        std::vector<std::size_t> running;
        m_total = end - first;
        while (next < end || !running.empty())
        {
            while (next < end && running.size() < std::max(1U, m_options.jobs) && !Interrupted())
            {
                PointState& state = m_states[next];
                if (IsDone(state))
                {
                    state.done = true;
                    ++reused;
                    ++m_finished;
                }
                else if (Start(next))
                {
                    running.push_back(next);
                }
                ++next;
            }
            if (Interrupted())
            {
                next = end;
                for (const std::size_t index : running)
                {
                    // Once: a run may take a second interrupt for "at once, without results".
                    if (!std::exchange(m_states[index].told, true))
                    {
                        kill(m_states[index].process, SIGINT);
                    }
                }
            }
            const auto over = [this](std::size_t index) { return Collect(index); };
            const auto rest = std::remove_if(running.begin(), running.end(), over);
            const bool idle = rest == running.end();
            running.erase(rest, running.end());
            if (idle && !running.empty())
            {
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
            }
        }
        if (reused > 0)
        {
            Report(std::to_string(reused) + " of " + std::to_string(m_total) +
                   " points were done before");
        }
        return Conclude(first, end);
    }

  private:
    [[nodiscard]] bool Interrupted() const
    {
        return m_options.interrupt != nullptr && m_options.interrupt->load();
    }

    void Report(const std::string& line) const
    {
        if (m_options.report)
        {
            m_options.report(line);
        }
    }

    [[nodiscard]] std::vector<std::string> Assignments(const SweepPoint& point) const
    {
        std::vector<std::string> all = m_sweep.common;
        all.insert(all.end(), point.assignments.begin(), point.assignments.end());
        return all;
    }

    [[nodiscard]] bool IsDone(const PointState& state) const
    {
        std::error_code ignored;
        return !m_options.again && fs::exists(state.directory / "summary.json", ignored) &&
               ReadAll(state.directory / "done") == state.key;
    }

    [[nodiscard]] std::vector<std::string> Arguments(std::size_t index) const
    {
        std::vector<std::string> arguments = {m_options.program,
                                              "run",
                                              m_sweep.scenario,
                                              "-o",
                                              m_states[index].directory.string(),
                                              "--quiet"};
        for (const std::string& assignment : Assignments(m_sweep.points[index]))
        {
            arguments.emplace_back("--set");
            arguments.push_back(assignment);
        }
        return arguments;
    }

    /** @return whether the point is running now; otherwise its failure says why */
    bool Start(std::size_t index)
    {
        PointState& state = m_states[index];
        std::error_code error;
        fs::create_directories(state.directory, error);
        const std::string log = (state.directory / "log.txt").string();
        // Closed in the child by exec: the lock must end with this process, or with its child's log.
        state.log = open(log.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (state.log < 0)
        {
            throw SpecError(log,
                            std::string("cannot be written: ") + std::strerror(errno) +
                                ", expected a directory with permission");
        }
        if (flock(state.log, LOCK_EX | LOCK_NB) != 0)
        {
            Fail(index, "another process is running it");
            return false;
        }
        fs::remove(state.directory / "done", error);
        if (ftruncate(state.log, 0) != 0)
        {
            Fail(index, std::string("log.txt: ") + std::strerror(errno));
            return false;
        }
        std::vector<std::string> arguments = Arguments(index);
        std::vector<char*> raw(arguments.size() + 1); // ends with a null
        std::transform(arguments.begin(), arguments.end(), raw.begin(), [](std::string& argument) {
            return argument.data();
        });
        const pid_t parent = getpid();
        state.begin = std::chrono::steady_clock::now();
        state.process = fork();
        if (state.process == 0)
        {
            // Only what is safe between fork and exec. Without the first call a killed sweep would leave its runs
            // behind, writing where the next one writes; without the second a run would be told of Ctrl-C by the
            // terminal, and then again by us; without the third it could not be told at all when the sweep was
            // started with the signal ignored, as a shell does for what it puts in the background.
            prctl(PR_SET_PDEATHSIG, SIGTERM);
            setpgid(0, 0);
            std::signal(SIGINT, SIG_DFL);
            const int null = open("/dev/null", O_RDONLY);
            if (getppid() == parent && null >= 0 && dup2(null, 0) >= 0 && dup2(state.log, 1) >= 0 &&
                dup2(state.log, 2) >= 0)
            {
                execv(raw[0], raw.data());
            }
            _exit(127);
        }
        if (state.process < 0)
        {
            Fail(index, std::string("cannot be started: ") + std::strerror(errno));
            return false;
        }
        return true;
    }

    void Release(PointState& state)
    {
        if (state.log >= 0)
        {
            close(state.log);
            state.log = -1;
        }
        state.process = 0;
    }

    void Fail(std::size_t index, const std::string& why)
    {
        PointState& state = m_states[index];
        state.failure = why;
        Release(state);
        ++m_finished;
        Report(Progress(index) + " FAILED: " + why);
    }

    [[nodiscard]] std::string Progress(std::size_t index) const
    {
        return "[" + std::to_string(m_finished) + "/" + std::to_string(m_total) + "] " +
               m_sweep.points[index].name;
    }

    /** @return whether the point's process has ended */
    bool Collect(std::size_t index)
    {
        PointState& state = m_states[index];
        int status = 0;
        const pid_t answer = waitpid(state.process, &status, WNOHANG);
        if (answer == 0 || (answer < 0 && errno == EINTR))
        {
            return false;
        }
        if (answer > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        {
            std::error_code ignored;
            if (!fs::exists(state.directory / "summary.json", ignored))
            {
                Fail(index, "it ended with 0 but left no summary.json");
                return true;
            }
            WriteAtOnce(state.directory / "done", state.key);
            state.done = true;
            Release(state);
            ++m_finished;
            const std::chrono::duration<double> took =
                std::chrono::steady_clock::now() - state.begin;
            std::ostringstream line;
            line.precision(3);
            line << Progress(index) << " " << took.count() << " s";
            Report(line.str());
            return true;
        }
        std::string why = Interrupted() ? "interrupted" : LastLine(state.directory / "log.txt");
        if (answer > 0 && WIFEXITED(status))
        {
            why = "exit code " + std::to_string(WEXITSTATUS(status)) + (why.empty() ? "" : ": ") +
                  why;
        }
        else if (answer > 0 && WIFSIGNALED(status))
        {
            why = "signal " + std::to_string(WTERMSIG(status)) + (why.empty() ? "" : ": ") + why;
        }
        Fail(index, why);
        return true;
    }

    /** The last line that is no detail of another: those are indented. */
    static std::string LastLine(const fs::path& file)
    {
        std::ifstream in(file);
        std::string last;
        for (std::string line; std::getline(in, line);)
        {
            last = line.empty() || line[0] == ' ' ? last : line;
        }
        return Printable(last, 300);
    }

    int Conclude(std::size_t first, std::size_t end)
    {
        // One point of a job array sees only itself; whoever runs last, or the sweep started again, sees all.
        for (PointState& state : m_states)
        {
            state.done = state.done || IsDone(state);
        }
        WriteTable();
        std::string failed;
        std::size_t missing = 0;
        for (std::size_t index = first; index < end; ++index)
        {
            const PointState& state = m_states[index];
            if (!state.failure.empty())
            {
                failed += m_sweep.points[index].name + ": " + state.failure + "\n";
            }
            missing += state.done ? 0 : 1;
        }
        std::error_code ignored;
        if (!m_options.only)
        {
            if (failed.empty())
            {
                fs::remove(m_output / "failed.txt", ignored);
            }
            else
            {
                WriteAtOnce(m_output / "failed.txt", failed);
            }
        }
        std::istringstream lines(failed);
        if (!failed.empty())
        {
            Report("failed:");
        }
        for (std::string line; std::getline(lines, line);)
        {
            Report("  " + line);
        }
        if (missing > 0)
        {
            Report(std::to_string(missing) + " of " + std::to_string(m_total) +
                   " points are not done; the same command goes on with them");
        }
        return missing > 0 ? 1 : 0;
    }

    static std::string Cell(const std::string& text)
    {
        if (text.find_first_of(",\"\n\r") == std::string::npos)
        {
            return text;
        }
        std::string out = "\"";
        for (const char c : text)
        {
            out += c == '"' ? "\"\"" : std::string(1, c);
        }
        return out + "\"";
    }

    static std::string Cell(const Json& value)
    {
        return Cell(value.is_string() ? value.get<std::string>() : value.dump());
    }

    /** Members of a run that a table may hold: single values that do not depend on the machine. */
    static bool IsColumn(const std::string& name, const Json& value)
    {
        static const std::set<std::string> elsewhere = {"fabric",
                                                        "setup_s",
                                                        "run_s",
                                                        "wall_s",
                                                        "peak_rss_bytes"};
        return !value.is_structured() && elsewhere.count(name) == 0;
    }

    void WriteTable()
    {
        std::set<std::string> members;
        std::vector<Json> summaries(m_states.size());
        for (std::size_t index = 0; index < m_states.size(); ++index)
        {
            if (!m_states[index].done)
            {
                continue;
            }
            const fs::path file = m_states[index].directory / "summary.json";
            summaries[index] = Json::parse(ReadAll(file), nullptr, false);
            const Json& summary = summaries[index];
            if (!summary.is_object() || !summary.contains("runs") || !summary["runs"].is_array())
            {
                throw SpecError(file.string(),
                                "found no list `runs`, expected the summary of a run (--again "
                                "makes a new one)");
            }
            for (const Json& run : summary["runs"])
            {
                for (const auto& [name, value] : run.items())
                {
                    if (IsColumn(name, value))
                    {
                        members.insert(name);
                    }
                }
            }
        }
        std::ostringstream out;
        out << "point";
        for (const std::string& column : m_sweep.columns)
        {
            out << ',' << Cell(column);
        }
        out << ",fabric,iteration,iteration_time_ps";
        for (const std::string& member : members)
        {
            out << ',' << Cell(member);
        }
        out << '\n';
        for (std::size_t index = 0; index < m_states.size(); ++index)
        {
            if (m_states[index].done)
            {
                for (const Json& run : summaries[index]["runs"])
                {
                    WriteRows(out, m_sweep.points[index], run, members);
                }
            }
        }
        WriteAtOnce(m_output / "sweep.csv", out.str());
    }

    static void WriteRows(std::ostream& out,
                          const SweepPoint& point,
                          const Json& run,
                          const std::set<std::string>& members)
    {
        const Json times = run.value("iteration_time_ps", Json::array());
        const std::size_t rows = std::max<std::size_t>(1, times.size());
        for (std::size_t row = 0; row < rows; ++row)
        {
            out << Cell(point.name);
            for (const std::string& value : point.values)
            {
                out << ',' << Cell(value);
            }
            out << ',' << Cell(run.value("fabric", std::string())) << ',' << row << ','
                << (row < times.size() ? Cell(times[row]) : "");
            for (const std::string& member : members)
            {
                out << ',' << (run.contains(member) ? Cell(run[member]) : "");
            }
            out << '\n';
        }
    }

    /** For the shell: in single quotes. */
    static std::string Quoted(const std::string& text)
    {
        std::string out = "'";
        for (const char c : text)
        {
            out += c == '\'' ? "'\\''" : std::string(1, c);
        }
        return out + "'";
    }

    void WriteSlurm()
    {
        const fs::path script = m_output / "sweep.sbatch";
        std::string name = m_sweep.name;
        std::replace_if(
            name.begin(),
            name.end(),
            [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '_'; },
            '_');
        std::ostringstream out;
        out << "#!/bin/bash\n"
            << "# A task per point; afterwards `topoopt sweep` with the same arguments makes "
               "sweep.csv.\n"
            << "#SBATCH --job-name=" << name << "\n"
            << "#SBATCH --array=0-" << m_sweep.points.size() - 1 << "%"
            << std::max(1U, m_options.jobs) << "\n"
            << "#SBATCH --ntasks=1\n"
            << "#SBATCH --cpus-per-task=1\n"
            << "#SBATCH --output=/dev/null\n"
            << "cd " << Quoted(fs::current_path().string()) << " || exit 2\n"
            << "exec " << Quoted(m_options.program) << " sweep " << Quoted(m_options.file) << " -o "
            << Quoted(m_options.output);
        for (const std::string& assignment : m_options.overrides)
        {
            out << " --set " << Quoted(assignment);
        }
        out << (m_options.again ? " --again" : "") << " --only \"$SLURM_ARRAY_TASK_ID\"\n";
        WriteAtOnce(script, out.str());
        Report(script.string() + ": " + std::to_string(m_sweep.points.size()) +
               " tasks; submit it with sbatch");
    }

    const SweepOptions& m_options;
    Sweep m_sweep;
    fs::path m_output;
    std::vector<PointState> m_states;
    std::size_t m_total = 0;
    std::size_t m_finished = 0;
};

} // namespace

int
RunSweep(const SweepOptions& options)
{
    return Runner(options).Run();
}

} // namespace topoopt
