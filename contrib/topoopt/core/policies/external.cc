// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/circuit-plan.h"
#include "topoopt/core/error.h"
#include "topoopt/core/option-values.h"
#include "topoopt/core/yaml-document.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

extern char** environ;

namespace topoopt::policies
{

namespace
{

constexpr std::size_t kMaxLine = 64U << 20;
/** Time of ours in which a program that has no more input ends by itself; less, if our patience is. */
constexpr SimTime kGrace = 2 * kSecond;

/**
 * A program that decides: `sh -c COMMAND`, one JSON object per line each way.
 *
 * We write {"time_ps", "servers", "degree", "nics": [usable ones of each server], "circuits": [[a, b], ...] (lit, one way each),
 * "backlog": [[src, dst, bytes], ...]};
 * it answers {"keep": true}, or {"circuits": [[a, b], ...], "duplex": true} (duplex: each for both directions; default
 * true). It ends when its input does; two seconds later it is killed, with what it has started.
 */
class External final : public ReconfigurationPolicy
{
  public:
    explicit External(const PolicyContext& context)
        : m_place(context.place)
    {
        const auto command = context.options.find("command");
        if (command == context.options.end() || command->second.empty())
        {
            throw SpecError(m_place,
                            "reconfiguration.command: found none, expected a program for sh");
        }
        m_command = command->second;
        const std::map<std::string, std::string> places;
        const OptionValues in(context.options, places, m_place, "reconfiguration.");
        m_patience = in.Time("patience", 60 * kSecond, kMillisecond, 24 * 3600 * kSecond);
    }

    External(const External&) = delete;
    External& operator=(const External&) = delete;

    ~External() override
    {
        if (m_to < 0)
        {
            return;
        }
        close(m_to);
        close(m_from);
        const auto deadline =
            std::chrono::steady_clock::now() +
            std::chrono::milliseconds(std::min(kGrace, m_patience) / kMillisecond);
        while (waitpid(m_child, nullptr, WNOHANG) == 0)
        {
            if (std::chrono::steady_clock::now() > deadline)
            {
                kill(-m_child, SIGKILL);
                waitpid(m_child, nullptr, 0);
                return;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
    }

    std::optional<CircuitPlan> Next(const PlanView& view) override
    {
        if (m_to < 0)
        {
            Spawn();
        }
        nlohmann::ordered_json asked;
        asked["time_ps"] = view.now;
        asked["servers"] = view.servers;
        asked["degree"] = view.degree;
        asked["nics"] = view.nics;
        asked["circuits"] = nlohmann::ordered_json::array();
        for (const auto& [from, to] : DirectedOf(*view.lit))
        {
            asked["circuits"].push_back({from, to});
        }
        asked["backlog"] = nlohmann::ordered_json::array();
        for (std::size_t pair = 0; pair < view.backlog.size(); ++pair)
        {
            if (view.backlog[pair] > 0)
            {
                asked["backlog"].push_back({pair / view.servers,
                                            pair % view.servers,
                                            static_cast<std::uint64_t>(view.backlog[pair])});
            }
        }
        const std::string line = Exchange(asked.dump() + "\n");
        const nlohmann::json answer = nlohmann::json::parse(line, nullptr, false);
        CircuitPlan plan;
        bool keep = false;
        if (!ParseAnswer(answer, keep, plan))
        {
            Fail("answered '" + Printable(line) +
                 "', expected {\"keep\": true} or {\"circuits\": [[a, b], ...], \"duplex\": true}");
        }
        if (keep)
        {
            return std::nullopt;
        }
        CheckPlan(plan, view.servers, view.degree, m_place + ": answer of '" + m_command + "'");
        return plan;
    }

  private:
    /** Whether it is one of the two answers. A value that is merely convertible to the one we want is not. */
    static bool ParseAnswer(const nlohmann::json& answer, bool& keep, CircuitPlan& plan)
    {
        if (!answer.is_object())
        {
            return false;
        }
        const nlohmann::json* circuits = nullptr;
        for (const auto& [key, value] : answer.items())
        {
            if (key == "circuits" && value.is_array())
            {
                circuits = &value;
            }
            else if ((key == "keep" || key == "duplex") && value.is_boolean())
            {
                (key == "keep" ? keep : plan.duplex) = value.get<bool>();
            }
            else
            {
                return false;
            }
        }
        const auto isServer = [](const nlohmann::json& end) {
            return end.is_number_unsigned() && end.get<std::uint64_t>() < kNoId;
        };
        for (std::size_t k = 0; circuits != nullptr && k < circuits->size(); ++k)
        {
            const nlohmann::json& ends = (*circuits)[k];
            if (!ends.is_array() || ends.size() != 2 || !isServer(ends[0]) || !isServer(ends[1]))
            {
                return false;
            }
            plan.circuits.emplace_back(ends[0].get<ServerId>(), ends[1].get<ServerId>());
        }
        return keep || circuits != nullptr;
    }

    [[noreturn]] void Fail(const std::string& what) const
    {
        throw SpecError(m_place, "reconfiguration.command: '" + Printable(m_command) + "' " + what);
    }

    void Spawn()
    {
        std::array<int, 2> in{};
        std::array<int, 2> out{};
        if (pipe2(in.data(), O_CLOEXEC) != 0 || pipe2(out.data(), O_CLOEXEC) != 0)
        {
            Fail(std::string("gets no pipe: ") + std::strerror(errno));
        }
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
        posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
        std::string shell = "sh";
        std::string option = "-c";
        std::array<char*, 4> words{shell.data(), option.data(), m_command.data(), nullptr};
        // In a group of its own, so that what the shell starts can be ended with it; with SIGPIPE as everybody expects it.
        posix_spawnattr_t attributes;
        posix_spawnattr_init(&attributes);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
        posix_spawnattr_setpgroup(&attributes, 0);
        sigset_t defaults;
        sigemptyset(&defaults);
        sigaddset(&defaults, SIGPIPE);
        posix_spawnattr_setsigdefault(&attributes, &defaults);
        const int error =
            posix_spawn(&m_child, "/bin/sh", &actions, &attributes, words.data(), environ);
        posix_spawnattr_destroy(&attributes);
        posix_spawn_file_actions_destroy(&actions);
        close(in[0]);
        close(out[1]);
        if (error != 0)
        {
            close(in[1]);
            close(out[0]);
            Fail(std::string("cannot be run: ") + std::strerror(error));
        }
        m_to = in[1];
        m_from = out[0];
        fcntl(m_to, F_SETFL, O_NONBLOCK);
        // A program that has ended shows as a failed write, not as our end.
        std::signal(SIGPIPE, SIG_IGN);
    }

    /** Writes a question and reads a line, either as the program lets us. */
    std::string Exchange(const std::string& question)
    {
        const auto deadline =
            std::chrono::steady_clock::now() + std::chrono::milliseconds(m_patience / kMillisecond);
        std::size_t written = 0;
        std::size_t searched = 0;
        for (;;)
        {
            const std::size_t end = m_buffer.find('\n', searched);
            if (end != std::string::npos)
            {
                std::string line = m_buffer.substr(0, end);
                m_buffer.erase(0, end + 1);
                return line;
            }
            searched = m_buffer.size();
            if (searched > kMaxLine)
            {
                Fail("answered with more than 64 MiB, expected a line");
            }
            const auto left = std::chrono::ceil<std::chrono::milliseconds>(
                deadline - std::chrono::steady_clock::now());
            std::array<pollfd, 2> ends{{{m_from, POLLIN, 0}, {m_to, POLLOUT, 0}}};
            const bool asking = written < question.size();
            const int ready =
                left.count() > 0
                    ? poll(ends.data(),
                           asking ? 2 : 1,
                           static_cast<int>(std::min<std::int64_t>(left.count(), 1'000'000)))
                    : 0;
            if (ready == 0 && left.count() <= 1'000'000)
            {
                Fail("said nothing for " + FormatTime(m_patience) +
                     (asking ? " and did not read its question" : "") + ", expected a line");
            }
            if (asking && ends[1].revents != 0)
            {
                const ssize_t wrote =
                    write(m_to, question.data() + written, question.size() - written);
                // One that has ended may have answered before.
                written += wrote > 0                           ? static_cast<std::size_t>(wrote)
                           : errno == EAGAIN || errno == EINTR ? 0
                                                               : question.size() - written;
            }
            if (ends[0].revents != 0)
            {
                std::array<char, 65'536> part{};
                const ssize_t got = read(m_from, part.data(), part.size());
                if (got == 0)
                {
                    Fail("ended, expected a line for each question");
                }
                m_buffer.append(part.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
            }
        }
    }

    std::string m_place;
    std::string m_command;
    SimTime m_patience = 0;
    pid_t m_child = -1;
    int m_to = -1;
    int m_from = -1;
    std::string m_buffer;
};

} // namespace

std::unique_ptr<ReconfigurationPolicy>
BuildExternal(const PolicyContext& context)
{
    return std::make_unique<External>(context);
}

} // namespace topoopt::policies
