// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/circuit-plan.h"
#include "topoopt/core/error.h"
#include "topoopt/core/yaml-document.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace topoopt::policies
{

namespace
{

constexpr std::size_t kMaxLine = 64U << 20;
/** A program that says nothing for so long is not going to. */
constexpr int kPatienceMs = 60'000;

/**
 * A program that decides: `sh -c COMMAND`, one JSON object per line each way.
 *
 * We write {"time_ps", "servers", "degree", "nics": [usable ones of each server], "circuits": [[a, b], ...] (lit, one way each),
 * "backlog": [[src, dst, bytes], ...]};
 * it answers {"keep": true}, or {"circuits": [[a, b], ...], "duplex": true} (duplex: each for both directions; default
 * true). It ends when its input does.
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
    }

    ~External() override
    {
        if (m_to >= 0)
        {
            close(m_to);
            close(m_from);
            waitpid(m_child, nullptr, 0);
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
        Write(asked.dump() + "\n");
        const std::string line = ReadLine();
        const nlohmann::json answer = nlohmann::json::parse(line, nullptr, false);
        CircuitPlan plan;
        try
        {
            if (answer.value("keep", false))
            {
                return std::nullopt;
            }
            plan.duplex = answer.value("duplex", true);
            for (const nlohmann::json& circuit : answer.at("circuits"))
            {
                plan.circuits.emplace_back(circuit.at(0).get<ServerId>(),
                                           circuit.at(1).get<ServerId>());
            }
        }
        catch (const nlohmann::json::exception&)
        {
            Fail("answered '" + Printable(line) +
                 "', expected {\"keep\": true} or {\"circuits\": [[a, b], ...], \"duplex\": true}");
        }
        CheckPlan(plan, view.servers, view.degree, m_place + ": answer of '" + m_command + "'");
        return plan;
    }

  private:
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
        const int error =
            posix_spawn(&m_child, "/bin/sh", &actions, nullptr, words.data(), environ);
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
        // A program that has ended shows as a failed write, not as our end.
        std::signal(SIGPIPE, SIG_IGN);
    }

    void Write(const std::string& text) const
    {
        for (std::size_t done = 0; done < text.size();)
        {
            const ssize_t wrote = write(m_to, text.data() + done, text.size() - done);
            if (wrote < 0 && errno != EINTR)
            {
                Fail("takes no more questions; it has ended");
            }
            done += wrote > 0 ? static_cast<std::size_t>(wrote) : 0;
        }
    }

    std::string ReadLine()
    {
        for (;;)
        {
            const std::size_t end = m_buffer.find('\n');
            if (end != std::string::npos)
            {
                std::string line = m_buffer.substr(0, end);
                m_buffer.erase(0, end + 1);
                return line;
            }
            pollfd waiting{m_from, POLLIN, 0};
            const int ready = poll(&waiting, 1, kPatienceMs);
            if (ready == 0 || m_buffer.size() > kMaxLine)
            {
                Fail(ready == 0 ? "said nothing for a minute, expected a line"
                                : "answered with more than 64 MiB, expected a line");
            }
            std::array<char, 65'536> part{};
            const ssize_t got = ready < 0 ? -1 : read(m_from, part.data(), part.size());
            if (got == 0)
            {
                Fail("ended, expected a line for each question");
            }
            m_buffer.append(part.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
        }
    }

    std::string m_place;
    std::string m_command;
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
