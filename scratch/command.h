// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_SCRATCH_COMMAND_H
#define TOPOOPT_SCRATCH_COMMAND_H

#include "topoopt/core/error.h"
#include "topoopt/core/scenario.h"

#include <atomic>
#include <boost/program_options.hpp>
#include <cstddef>
#include <iostream>
#include <map>
#include <string>
#include <vector>

namespace topoopt::cli
{

namespace po = boost::program_options;

inline constexpr int kDone = 0;
inline constexpr int kIncomplete = 1;
inline constexpr int kBadInput = 2;

inline constexpr std::size_t kAnyNumber = SIZE_MAX;

using Arguments = std::vector<std::string>;

struct Command
{
    const char* name;
    const char* usage;
    const char* help;
    int (*run)(const Command& command, const Arguments& arguments);
};

/** Options of a command with `--help`; positional arguments collect under "input". */
class Parser
{
  public:
    explicit Parser(const Command& command)
        : m_command(command),
          m_visible("Options"),
          m_all()
    {
        m_visible.add_options()("help,h", "print this and exit");
    }

    po::options_description_easy_init Add()
    {
        return m_visible.add_options();
    }

    /**
     * @param inputs smallest and largest number of positional arguments
     * @return false if help was printed
     */
    bool Parse(const Arguments& arguments, std::size_t least, std::size_t most)
    {
        m_all.add(m_visible);
        m_all.add_options()("input", po::value<std::vector<std::string>>()->default_value({}, ""));
        po::positional_options_description positional;
        positional.add("input", -1);
        try
        {
            po::store(po::command_line_parser(arguments)
                          .options(m_all)
                          .positional(positional)
                          .style(po::command_line_style::default_style &
                                 ~po::command_line_style::allow_guessing)
                          .run(),
                      values);
            po::notify(values);
        }
        catch (const po::error& error)
        {
            throw SpecError(std::string("topoopt ") + m_command.name,
                            std::string(error.what()) + "; see `topoopt " + m_command.name +
                                " --help`");
        }
        if (values.count("help") > 0)
        {
            std::cout << "Usage: topoopt " << m_command.name << " " << m_command.usage << "\n"
                      << m_command.help << "\n\n"
                      << m_visible;
            return false;
        }
        inputs = values["input"].as<std::vector<std::string>>();
        if (inputs.size() < least || inputs.size() > most)
        {
            throw SpecError(std::string("topoopt ") + m_command.name,
                            "found " + std::to_string(inputs.size()) +
                                " argument(s), expected: topoopt " + m_command.name + " " +
                                m_command.usage);
        }
        return true;
    }

    [[nodiscard]] bool Has(const char* option) const
    {
        return values.count(option) > 0;
    }

    /** A whole number given as an option (a text one: Boost would wrap negative ones). @throws SpecError */
    [[nodiscard]] std::uint32_t Number(const char* option,
                                       std::uint32_t least,
                                       std::uint32_t most) const
    {
        const std::string text = values[option].as<std::string>();
        const bool digits = !text.empty() && text.size() <= 9 &&
                            text.find_first_not_of("0123456789") == std::string::npos;
        if (!digits || std::stoul(text) < least || std::stoul(text) > most)
        {
            throw SpecError(std::string("topoopt ") + m_command.name,
                            "--" + std::string(option) + ": found \"" + text +
                                "\", expected a whole number from " + std::to_string(least) +
                                " to " + std::to_string(most));
        }
        return static_cast<std::uint32_t>(std::stoul(text));
    }

    po::variables_map values;
    std::vector<std::string> inputs;

  private:
    const Command& m_command;
    po::options_description m_visible;
    po::options_description m_all;
};

/** `--set` and `--seed`. */
void AddScenarioOptions(Parser& parser);
/** The scenario named by the only argument, with its overrides. */
[[nodiscard]] Scenario ScenarioFrom(const Parser& parser);
/** What an option that may be repeated says, `--NAME KEY=VALUE` each. @throws SpecError without a "=" */
[[nodiscard]] std::map<std::string, std::string> KeyValues(const Parser& parser, const char* name);
/** Every `--option KEY=VALUE`. */
void AddReadingOptions(Parser& parser);
[[nodiscard]] std::map<std::string, std::string> ReadingOptions(const Parser& parser);
/** Set by Ctrl-C and by SIGTERM from here on; a second one ends the program at once. */
[[nodiscard]] const std::atomic<bool>* CatchInterrupts();
/** This program's file. */
[[nodiscard]] std::string OwnPath();

int Run(const Command& command, const Arguments& arguments);
int Check(const Command& command, const Arguments& arguments);
int PlanJob(const Command& command, const Arguments& arguments);
int Sweep(const Command& command, const Arguments& arguments);
int FindTopologyFor(const Command& command, const Arguments& arguments);
int Cost(const Command& command, const Arguments& arguments);
int InspectTraces(const Command& command, const Arguments& arguments);
int Convert(const Command& command, const Arguments& arguments);
int Plot(const Command& command, const Arguments& arguments);
int List(const Command& command, const Arguments& arguments);

} // namespace topoopt::cli

#endif // TOPOOPT_SCRATCH_COMMAND_H
