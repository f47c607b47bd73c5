// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/cluster-jobs.h"

#include "topoopt/core/error.h"
#include "topoopt/core/option-values.h"
#include "topoopt/core/random.h"
#include "topoopt/core/yaml-document.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

namespace topoopt
{

namespace
{

constexpr std::uint32_t kMaxJobs = 100'000;
constexpr std::uint32_t kMaxJobIterations = 1'000'000'000;
/** Of loads and weights: less is a mistake. */
constexpr double kLeastShare = 1e-6;
constexpr SimTime kMaxTime = 100LL * 24 * 3600 * kSecond;

/** The options below a key, `jobs.3.` say, with their places. Those that have been read are dropped; the rest is somebody else's. */
class Section
{
  public:
    Section(const WorkloadSpec& workload, const std::string& prefix)
        : m_place(workload.place),
          m_values(m_texts, m_places, m_place, "workload." + prefix)
    {
        Below(workload.options, prefix, m_texts);
        Below(workload.places, prefix, m_places);
        if (!m_places.empty())
        {
            m_place = m_places.begin()->second; // any key of the section is near
        }
    }

    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;

    [[nodiscard]] const OptionValues& In() const
    {
        return m_values;
    }

    void Drop(const std::vector<std::string>& keys)
    {
        for (const std::string& key : keys)
        {
            m_texts.erase(key);
        }
    }

    /** What nobody has read. */
    [[nodiscard]] const std::map<std::string, std::string>& Left() const
    {
        return m_texts;
    }

    /** The entries of @p all whose key begins with @p prefix, without it. */
    static void Below(const std::map<std::string, std::string>& all,
                      const std::string& prefix,
                      std::map<std::string, std::string>& below)
    {
        for (auto it = all.lower_bound(prefix);
             it != all.end() && it->first.compare(0, prefix.size(), prefix) == 0;
             ++it)
        {
            below.emplace(it->first.substr(prefix.size()), it->second);
        }
    }

  private:
    std::map<std::string, std::string> m_texts;
    std::map<std::string, std::string> m_places;
    std::string m_place;
    OptionValues m_values;
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
    section.Drop(keys);
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
    const OptionValues& in = section.In();
    JobKind kind;
    kind.place = in.PlaceOf("model");
    kind.strategy = defaults.strategy;
    TakeStrategy(section, kind.strategy);
    kind.servers = in.Count("servers", defaults.servers, 1, scenario.servers.count);
    if (kind.servers == 0)
    {
        in.Fail("servers", "nothing", "how many servers the job takes");
    }
    static const std::vector<std::pair<const char*, WorkloadKind>> sources = {
        {"model", WorkloadKind::Model},
        {"taskgraph", WorkloadKind::TaskGraph},
        {"trace", WorkloadKind::Trace}};
    std::string source;
    for (const auto& [key, workload] : sources)
    {
        if (!in.Has(key))
        {
            continue;
        }
        if (!source.empty())
        {
            in.Fail(key, "it beside '" + source + "'", "one of model, taskgraph or trace");
        }
        source = key;
        kind.place = in.PlaceOf(key);
        kind.workload.kind = workload;
        kind.workload.path = in.Text(key);
    }
    if (source.empty() || kind.workload.path.empty())
    {
        in.Fail("model", "nothing", "what the job runs: model, taskgraph or trace");
    }
    kind.name = in.Has("name") ? in.Text("name") : "";
    if (kind.name.empty())
    {
        kind.name = kind.workload.path.substr(kind.workload.path.rfind('/') + 1);
    }
    section.Drop({"servers", "name", source});
    kind.workload.place = kind.place;
    kind.workload.options = section.Left();
    for (const auto& [key, text] : section.Left())
    {
        kind.workload.places[key] = in.PlaceOf(key);
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

/** How many sections 0, 1, 2, ... there are below @p prefix, `jobs.` say; 0 if it is no list. */
std::uint32_t
CountSections(const WorkloadSpec& workload, const std::string& prefix)
{
    std::map<std::string, std::string> below;
    Section::Below(workload.options, prefix, below);
    std::set<std::string> numbers;
    for (const auto& [key, text] : below)
    {
        numbers.insert(key.substr(0, key.find('.')));
    }
    return numbers.count("0") > 0 ? static_cast<std::uint32_t>(numbers.size()) : 0;
}

void
ReadList(const Scenario& scenario, const Defaults& defaults, JobsSpec& spec)
{
    const std::uint32_t count = CountSections(scenario.workload, "jobs.");
    for (std::uint32_t k = 0; k < count; ++k)
    {
        Section section(scenario.workload, "jobs." + std::to_string(k) + ".");
        const OptionValues& in = section.In();
        ClusterEntry job;
        job.arrival = in.Time("arrival", 0, 0, kMaxTime);
        job.estimate = in.Time("estimate", 0, 1, kMaxTime);
        job.iterations = in.Count("iterations", defaults.iterations, 1, kMaxJobIterations);
        section.Drop({"arrival", "estimate", "iterations"});
        job.kind = Known(spec.kinds, TakeKind(scenario, section, defaults));
        spec.listed.push_back(job);
    }
}

void
ReadMix(const Scenario& scenario, Defaults defaults, JobsSpec& spec)
{
    Section section(scenario.workload, "jobs.");
    const OptionValues& in = section.In();
    spec.arrivals = in.Choice("arrivals", {"together", "poisson"}, 0) == 0 ? ArrivalRule::Together
                                                                           : ArrivalRule::Poisson;
    spec.count = in.Count("count", 0, 1, kMaxJobs);
    spec.load = in.Number("load", 0, kLeastShare, 100);
    spec.interval = in.Time("interval", 0, 1, kMaxTime);
    defaults.servers = in.Count("servers", 0, 1, scenario.servers.count);
    defaults.iterations = in.Count("iterations", defaults.iterations, 1, kMaxJobIterations);
    section.Drop({"arrivals", "count", "load", "interval", "servers", "iterations"});
    TakeStrategy(section, defaults.strategy);
    for (const auto& [key, text] : section.Left())
    {
        if (key.rfind("mix.", 0) != 0)
        {
            in.Fail(key,
                    "an unknown key",
                    "arrivals, count, interval, iterations, load, mix, servers or strategy");
        }
    }
    const std::uint32_t items = CountSections(scenario.workload, "jobs.mix.");
    if (items == 0)
    {
        in.Fail("mix",
                section.Left().empty() ? "nothing" : "a section",
                "a list of jobs with weights");
    }
    for (std::uint32_t k = 0; k < items; ++k)
    {
        Section job(scenario.workload, "jobs.mix." + std::to_string(k) + ".");
        MixItem item;
        item.weight = job.In().Number("weight", 1, kLeastShare, 1e9);
        item.iterations = job.In().Count("iterations", defaults.iterations, 1, kMaxJobIterations);
        job.Drop({"weight", "iterations"});
        item.kind = Known(spec.kinds, TakeKind(scenario, job, defaults));
        spec.mix.push_back(item);
    }
    if (spec.arrivals == ArrivalRule::Together)
    {
        if (spec.interval != 0)
        {
            in.Fail("interval", "it with jobs that come together", "arrivals: poisson");
        }
        if ((spec.count != 0) == (spec.load != 0))
        {
            in.Fail("count",
                    spec.count != 0 ? "it beside load" : "neither it nor load",
                    "one of count and load");
        }
    }
    else
    {
        if (spec.count == 0)
        {
            in.Fail("count", "nothing", "how many jobs arrive");
        }
        if ((spec.interval != 0) == (spec.load != 0))
        {
            in.Fail("load",
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
    const OptionValues& in = section.In();
    spec.queue = static_cast<QueueRule>(in.Choice("queue", QueueRuleNames(), 0));
    spec.placement = static_cast<ServerChoice>(in.Choice("placement", ServerChoiceNames(), 0));
    section.Drop({"queue", "placement"});
    for (const auto& [key, text] : section.Left())
    {
        if (key.rfind("jobs.", 0) != 0)
        {
            in.Fail(key, "an unknown key", "queue or placement beside jobs");
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
    static const std::vector<std::string> keys = {"move", "flip", "look_ahead"};
    std::map<std::string, std::string> texts;
    Section::Below(fabric.options, "panel.", texts);
    std::map<std::string, std::string> places;
    for (const auto& [key, text] : texts)
    {
        places[key] = fabric.PlaceOf("panel." + key);
        fabric.options.erase("panel." + key);
    }
    const OptionValues in(texts, places, fabric.place, fabric.kind + ".panel.");
    for (const auto& [key, text] : texts)
    {
        if (std::find(keys.begin(), keys.end(), key) == keys.end())
        {
            in.Fail(key, "an unknown key", "one of move, flip, look_ahead" + DidYouMean(key, keys));
        }
    }
    PanelSpec panel;
    panel.move = in.Time("move", panel.move, 0, kMaxTime);
    panel.flip = in.Time("flip", panel.flip, 0, kMaxTime);
    panel.lookAhead = in.Flag("look_ahead", panel.lookAhead);
    return panel;
}

} // namespace topoopt
