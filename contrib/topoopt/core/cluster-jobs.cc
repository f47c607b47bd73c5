// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/cluster-jobs.h"

#include "topoopt/core/error.h"
#include "topoopt/core/random.h"
#include "topoopt/core/yaml-document.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <tuple>

namespace topoopt
{

namespace
{

constexpr std::uint32_t kMaxJobs = 100'000;
constexpr std::uint32_t kMaxJobIterations = 1'000'000'000;
constexpr SimTime kMaxTime = 100LL * 24 * 3600 * kSecond;

/** The options below a key, `jobs.3.` say, with their places. */
class Section
{
  public:
    Section(const WorkloadSpec& workload, std::string prefix)
        : m_workload(workload),
          m_prefix(std::move(prefix))
    {
        for (auto it = workload.options.lower_bound(m_prefix);
             it != workload.options.end() && it->first.compare(0, m_prefix.size(), m_prefix) == 0;
             ++it)
        {
            m_left.emplace(it->first.substr(m_prefix.size()), it->second);
        }
    }

    [[nodiscard]] bool Has(const std::string& key) const
    {
        return m_left.count(key) > 0;
    }

    [[nodiscard]] std::string PlaceOf(const std::string& key) const
    {
        const auto at = m_workload.places.find(m_prefix + key);
        if (at != m_workload.places.end())
        {
            return at->second;
        }
        // Any key of the section is near.
        const auto near = m_workload.places.lower_bound(m_prefix);
        const bool inside = near != m_workload.places.end() &&
                            near->first.compare(0, m_prefix.size(), m_prefix) == 0;
        return inside ? near->second : m_workload.place;
    }

    [[noreturn]] void Fail(const std::string& key,
                           const std::string& found,
                           const std::string& expected) const
    {
        throw SpecError(PlaceOf(key),
                        "workload." + m_prefix + key + ": found " + found + ", expected " +
                            expected);
    }

    /** The text of a key, which counts as read; "" if it is absent. */
    std::string Take(const std::string& key)
    {
        const auto at = m_left.find(key);
        if (at == m_left.end())
        {
            return "";
        }
        std::string text = at->second;
        m_left.erase(at);
        return text;
    }

    std::uint32_t Count(const std::string& key,
                        std::uint32_t fallback,
                        std::uint32_t least,
                        std::uint32_t most)
    {
        if (!Has(key))
        {
            return fallback;
        }
        const std::string text = Take(key);
        const bool digits = !text.empty() && text.size() <= 10 &&
                            text.find_first_not_of("0123456789") == std::string::npos;
        const std::uint64_t value = digits ? std::stoull(text) : 0;
        if (!digits || value < least || value > most)
        {
            Fail(key,
                 "'" + Printable(text) + "'",
                 "a whole number in " + std::to_string(least) + ".." + std::to_string(most));
        }
        return static_cast<std::uint32_t>(value);
    }

    double Number(const std::string& key, double fallback, double most)
    {
        if (!Has(key))
        {
            return fallback;
        }
        const std::string text = Take(key);
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        if (text.empty() || *end != '\0' || !(value > 0) || !(value <= most))
        {
            Fail(key,
                 "'" + Printable(text) + "'",
                 "a number above 0, at most " + std::to_string(std::llround(most)));
        }
        return value;
    }

    SimTime Time(const std::string& key, SimTime fallback, SimTime least)
    {
        if (!Has(key))
        {
            return fallback;
        }
        const std::string text = Take(key);
        try
        {
            const SimTime time = ParseTime(text);
            if (time >= least && time <= kMaxTime)
            {
                return time;
            }
        }
        catch (const std::invalid_argument& error)
        {
            throw SpecError(PlaceOf(key), "workload." + m_prefix + key + ": " + error.what());
        }
        Fail(key,
             "'" + Printable(text) + "'",
             "a time in " + FormatTime(least) + ".." + FormatTime(kMaxTime));
    }

    std::size_t Choice(const std::string& key,
                       const std::vector<std::string>& names,
                       std::size_t fallback)
    {
        if (!Has(key))
        {
            return fallback;
        }
        const std::string text = Take(key);
        const auto at = std::find(names.begin(), names.end(), text);
        if (at == names.end())
        {
            std::string list;
            for (const std::string& name : names)
            {
                list += (list.empty() ? "" : ", ") + name;
            }
            Fail(key, "'" + Printable(text) + "'", "one of " + list + DidYouMean(text, names));
        }
        return static_cast<std::size_t>(at - names.begin());
    }

    /** What nobody has taken. */
    [[nodiscard]] const std::map<std::string, std::string>& Left() const
    {
        return m_left;
    }

    [[nodiscard]] const std::string& Prefix() const
    {
        return m_prefix;
    }

  private:
    const WorkloadSpec& m_workload;
    std::string m_prefix;
    std::map<std::string, std::string> m_left;
};

/** What a job takes if it says nothing. */
struct Defaults
{
    std::uint32_t servers = 0;
    std::uint32_t iterations = 1;
    std::map<std::string, std::string> strategy;
};

/** `strategy: data-parallel` or `strategy: {kind: ..., ...}` of a section. */
void
TakeStrategy(Section& section, std::map<std::string, std::string>& strategy)
{
    std::map<std::string, std::string> own;
    std::vector<std::string> keys;
    for (const auto& [key, text] : section.Left())
    {
        if (key == "strategy")
        {
            own["kind"] = text;
            keys.push_back(key);
        }
        else if (key.rfind("strategy.", 0) == 0)
        {
            own[key.substr(9)] = text;
            keys.push_back(key);
        }
    }
    if (keys.empty())
    {
        return;
    }
    for (const std::string& key : keys)
    {
        static_cast<void>(section.Take(key));
    }
    const auto kind = own.find("kind");
    if (kind != own.end() && kind->second == "data-parallel")
    {
        own.erase(kind);
    }
    strategy = std::move(own);
}

/** Reads what a job runs; everything that is not taken by then is an option of its workload. */
JobKind
TakeKind(const Scenario& scenario, Section& section, const Defaults& defaults)
{
    JobKind kind;
    kind.place = section.PlaceOf("model");
    kind.strategy = defaults.strategy;
    TakeStrategy(section, kind.strategy);
    kind.servers = section.Count("servers", defaults.servers, 1, scenario.servers.count);
    if (kind.servers == 0)
    {
        section.Fail("servers", "nothing", "how many servers the job takes");
    }
    kind.name = section.Take("name");
    static const std::vector<std::pair<const char*, WorkloadKind>> sources = {
        {"model", WorkloadKind::Model},
        {"taskgraph", WorkloadKind::TaskGraph},
        {"trace", WorkloadKind::Trace}};
    std::string source;
    for (const auto& [key, workload] : sources)
    {
        if (!section.Has(key))
        {
            continue;
        }
        if (!source.empty())
        {
            section.Fail(key, "it beside '" + source + "'", "one of model, taskgraph or trace");
        }
        source = key;
        kind.place = section.PlaceOf(key);
        kind.workload.kind = workload;
        kind.workload.path = section.Take(key);
    }
    if (source.empty() || kind.workload.path.empty())
    {
        section.Fail("model", "nothing", "what the job runs: model, taskgraph or trace");
    }
    if (kind.name.empty())
    {
        kind.name = kind.workload.path.substr(kind.workload.path.rfind('/') + 1);
    }
    kind.workload.place = kind.place;
    kind.workload.options = section.Left();
    for (const auto& [key, text] : section.Left())
    {
        kind.workload.places[key] = section.PlaceOf(key);
    }
    return kind;
}

/** The number of a kind like @p kind, which is added if it is new. */
std::uint32_t
Known(std::vector<JobKind>& kinds, JobKind kind)
{
    const auto key = [](const JobKind& k) {
        return std::tie(k.name,
                        k.workload.kind,
                        k.workload.path,
                        k.workload.options,
                        k.strategy,
                        k.servers);
    };
    const auto at = std::find_if(kinds.begin(), kinds.end(), [&](const JobKind& other) {
        return key(other) == key(kind);
    });
    if (at != kinds.end())
    {
        return static_cast<std::uint32_t>(at - kinds.begin());
    }
    kinds.push_back(std::move(kind));
    return static_cast<std::uint32_t>(kinds.size() - 1);
}

/** Numbers of the sections below @p prefix, `jobs.` say: 0, 1, 2, ... */
std::uint32_t
CountSections(const WorkloadSpec& workload, const std::string& prefix)
{
    std::set<std::string> numbers;
    for (auto it = workload.options.lower_bound(prefix);
         it != workload.options.end() && it->first.compare(0, prefix.size(), prefix) == 0;
         ++it)
    {
        const std::string rest = it->first.substr(prefix.size());
        numbers.insert(rest.substr(0, rest.find('.')));
    }
    return static_cast<std::uint32_t>(numbers.size());
}

void
ReadList(const Scenario& scenario, const Defaults& defaults, JobsSpec& spec)
{
    const std::uint32_t count = CountSections(scenario.workload, "jobs.");
    for (std::uint32_t k = 0; k < count; ++k)
    {
        Section section(scenario.workload, "jobs." + std::to_string(k) + ".");
        ClusterEntry job;
        job.arrival = section.Time("arrival", 0, 0);
        job.estimate = section.Time("estimate", 0, 1);
        job.iterations = section.Count("iterations", defaults.iterations, 1, kMaxJobIterations);
        job.kind = Known(spec.kinds, TakeKind(scenario, section, defaults));
        spec.listed.push_back(job);
    }
}

void
ReadMix(const Scenario& scenario, Defaults defaults, JobsSpec& spec)
{
    Section section(scenario.workload, "jobs.");
    spec.arrivals = section.Choice("arrivals", {"together", "poisson"}, 0) == 0
                        ? ArrivalRule::Together
                        : ArrivalRule::Poisson;
    spec.count = section.Count("count", 0, 1, kMaxJobs);
    spec.load = section.Number("load", 0, 100);
    spec.interval = section.Time("interval", 0, 1);
    defaults.servers = section.Count("servers", 0, 1, scenario.servers.count);
    defaults.iterations = section.Count("iterations", defaults.iterations, 1, kMaxJobIterations);
    TakeStrategy(section, defaults.strategy);
    for (const auto& [key, text] : section.Left())
    {
        if (key.rfind("mix.", 0) != 0)
        {
            section.Fail(key,
                         "an unknown key",
                         "arrivals, count, interval, iterations, load, mix, servers or strategy");
        }
    }
    const std::uint32_t items = CountSections(scenario.workload, "jobs.mix.");
    if (items == 0)
    {
        section.Fail("mix", "nothing", "a list of jobs with weights");
    }
    for (std::uint32_t k = 0; k < items; ++k)
    {
        Section job(scenario.workload, "jobs.mix." + std::to_string(k) + ".");
        MixItem item;
        item.weight = job.Number("weight", 1, 1e9);
        item.iterations = job.Count("iterations", defaults.iterations, 1, kMaxJobIterations);
        item.kind = Known(spec.kinds, TakeKind(scenario, job, defaults));
        spec.mix.push_back(item);
    }
    if (spec.arrivals == ArrivalRule::Together)
    {
        if (spec.interval != 0)
        {
            section.Fail("interval", "it with jobs that come together", "arrivals: poisson");
        }
        if ((spec.count != 0) == (spec.load != 0))
        {
            section.Fail("count",
                         spec.count != 0 ? "it beside load" : "neither it nor load",
                         "one of count and load");
        }
    }
    else
    {
        if (spec.count == 0)
        {
            section.Fail("count", "nothing", "how many jobs arrive");
        }
        if ((spec.interval != 0) == (spec.load != 0))
        {
            section.Fail("load",
                         spec.load != 0 ? "it beside interval" : "neither it nor interval",
                         "one of load and interval");
        }
    }
}

} // namespace

JobsSpec
ReadJobs(const Scenario& scenario)
{
    JobsSpec spec;
    Defaults defaults;
    defaults.iterations = scenario.iterations;
    defaults.strategy = scenario.strategy;
    Section section(scenario.workload, "");
    spec.queue = static_cast<QueueRule>(section.Choice("queue", QueueRuleNames(), 0));
    spec.placement = static_cast<ServerChoice>(section.Choice("placement", ServerChoiceNames(), 0));
    for (const auto& [key, text] : section.Left())
    {
        if (key.rfind("jobs.", 0) != 0)
        {
            section.Fail(key, "an unknown key", "queue or placement beside jobs");
        }
    }
    if (std::any_of(scenario.workload.options.begin(),
                    scenario.workload.options.end(),
                    [](const auto& option) { return option.first.rfind("jobs.0.", 0) == 0; }))
    {
        ReadList(scenario, defaults, spec);
    }
    else
    {
        ReadMix(scenario, defaults, spec);
    }
    return spec;
}

std::vector<ClusterEntry>
DrawJobs(const JobsSpec& spec,
         std::uint32_t servers,
         const std::vector<SimTime>& runTimes,
         std::uint64_t seed,
         const std::string& place)
{
    std::vector<ClusterEntry> jobs = spec.listed;
    if (spec.arrivals == ArrivalRule::Listed)
    {
        std::stable_sort(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) {
            return a.arrival < b.arrival;
        });
        return jobs;
    }
    double weights = 0;
    double work = 0; // servers x time
    double size = 0; // servers
    for (const MixItem& item : spec.mix)
    {
        weights += item.weight;
        size += item.weight * spec.kinds[item.kind].servers;
        if (spec.arrivals == ArrivalRule::Poisson && spec.load > 0)
        {
            work += item.weight * spec.kinds[item.kind].servers * item.iterations *
                    static_cast<double>(runTimes[item.kind]);
        }
    }
    std::uint64_t count = spec.count;
    if (count == 0)
    {
        count = std::max<std::uint64_t>(
            1,
            static_cast<std::uint64_t>(std::llround(spec.load * servers / (size / weights))));
    }
    if (count > kMaxJobs)
    {
        throw SpecError(place,
                        "workload.jobs: found a load of " + std::to_string(count) +
                            " jobs, expected at most " + std::to_string(kMaxJobs));
    }
    const double mean = spec.interval > 0 ? static_cast<double>(spec.interval)
                        : spec.load > 0   ? work / weights / (spec.load * servers)
                                          : 0;
    Rng kinds(seed, "cluster.kinds");
    Rng gaps(seed, "cluster.arrivals");
    double time = 0;
    for (std::uint64_t k = 0; k < count; ++k)
    {
        ClusterEntry job;
        double draw = kinds.Uniform() * weights;
        std::size_t item = 0;
        while (item + 1 < spec.mix.size() && draw >= spec.mix[item].weight)
        {
            draw -= spec.mix[item++].weight;
        }
        job.kind = spec.mix[item].kind;
        job.iterations = spec.mix[item].iterations;
        if (spec.arrivals == ArrivalRule::Poisson)
        {
            time += -std::log1p(-gaps.Uniform()) * mean;
            if (!(time < static_cast<double>(kMaxTime)))
            {
                throw SpecError(place,
                                "workload.jobs: found arrivals later than 100 days, expected "
                                "fewer or shorter jobs");
            }
            job.arrival = static_cast<SimTime>(time);
        }
        jobs.push_back(job);
    }
    return jobs;
}

PanelSpec
TakePanel(FabricSpec& fabric)
{
    PanelSpec panel;
    const auto take = [&fabric](const char* key, auto read) {
        const auto at = fabric.options.find(key);
        if (at == fabric.options.end())
        {
            return;
        }
        const std::string text = at->second;
        const std::string place = fabric.PlaceOf(key);
        fabric.options.erase(at);
        const auto fail = [&](const std::string& expected) {
            throw SpecError(place,
                            fabric.kind + "." + key + ": found '" + Printable(text) +
                                "', expected " + expected);
        };
        read(text, fail);
    };
    const auto time = [](SimTime& out) {
        return [&out](const std::string& text, const auto& fail) {
            SimTime value = -1;
            try
            {
                value = ParseTime(text);
            }
            catch (const std::invalid_argument&)
            {
                // Told below.
            }
            if (value < 0 || value > kMaxTime)
            {
                fail("a time such as 60s, at most 100 days");
            }
            out = value;
        };
    };
    take("panel.move", time(panel.move));
    take("panel.flip", time(panel.flip));
    take("panel.look_ahead", [&panel](const std::string& text, const auto& fail) {
        if (text != "true" && text != "false")
        {
            fail("true or false");
        }
        panel.lookAhead = text == "true";
    });
    return panel;
}

} // namespace topoopt
