// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/cluster.h"

#include "topoopt/core/random.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <stdexcept>
#include <tuple>

namespace topoopt
{

namespace
{

/** a + b, kNever if that is later than any time. */
SimTime
Plus(SimTime a, SimTime b)
{
    return a == kNever || b > kNever - a ? kNever : a + b;
}

/** A run of free servers. */
struct Run
{
    ServerId first = 0;
    std::uint32_t length = 0;
};

std::vector<Run>
RunsOf(const std::vector<bool>& free)
{
    std::vector<Run> runs;
    for (ServerId s = 0; s < free.size(); ++s)
    {
        if (!free[s])
        {
            continue;
        }
        if (s == 0 || !free[s - 1])
        {
            runs.push_back({s, 0});
        }
        ++runs.back().length;
    }
    return runs;
}

void
Take(const Run& run, std::uint32_t count, std::vector<ServerId>& servers)
{
    for (std::uint32_t k = 0; k < count; ++k)
    {
        servers.push_back(run.first + k);
    }
}

} // namespace

const std::vector<std::string>&
QueueRuleNames()
{
    static const std::vector<std::string> names = {"fifo", "backfill"};
    return names;
}

const std::vector<std::string>&
ServerChoiceNames()
{
    static const std::vector<std::string> names = {"contiguous", "random", "best-fit"};
    return names;
}

SimTime
JobSchedule::Patching() const
{
    return patchEnd == kNever ? 0 : patchEnd - patchBegin;
}

SimTime
JobSchedule::Hidden() const
{
    return patchEnd == kNever ? 0 : std::max<SimTime>(0, std::min(patchEnd, free) - patchBegin);
}

SimTime
JobSchedule::Queueing() const
{
    return start == kNever ? 0 : start - arrival - (Patching() - Hidden()) - flip;
}

std::vector<ServerId>
PlaceJob(ServerChoice rule,
         const std::vector<bool>& free,
         std::uint32_t count,
         std::uint64_t seed,
         std::uint64_t draw)
{
    std::vector<ServerId> servers;
    if (rule == ServerChoice::Random)
    {
        for (ServerId s = 0; s < free.size(); ++s)
        {
            if (free[s])
            {
                servers.push_back(s);
            }
        }
        if (servers.size() < count)
        {
            return {};
        }
        Rng rng(Mix64(seed, draw), "cluster.placement");
        rng.Shuffle(servers);
        servers.resize(count);
        return servers;
    }
    std::vector<Run> runs = RunsOf(free);
    if (rule == ServerChoice::Contiguous)
    {
        const auto fits = std::find_if(runs.begin(), runs.end(), [count](const Run& run) {
            return run.length >= count;
        });
        if (fits != runs.end())
        {
            Take(*fits, count, servers);
        }
        return servers;
    }
    const Run* best = nullptr;
    std::uint64_t total = 0;
    for (const Run& run : runs)
    {
        total += run.length;
        if (run.length >= count && (best == nullptr || run.length < best->length))
        {
            best = &run;
        }
    }
    if (best != nullptr)
    {
        Take(*best, count, servers);
    }
    else if (total >= count)
    {
        std::stable_sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) {
            return a.length > b.length;
        });
        for (const Run& run : runs)
        {
            Take(run,
                 std::min(run.length, count - static_cast<std::uint32_t>(servers.size())),
                 servers);
        }
        std::sort(servers.begin(), servers.end());
    }
    return servers;
}

ClusterScheduler::ClusterScheduler(const ClusterOptions& options, std::vector<ClusterJob> jobs)
    : m_options(options),
      m_jobs(std::move(jobs)),
      m_schedule(m_jobs.size()),
      m_phase(m_jobs.size(), Phase::Absent),
      m_arrivals(m_jobs.size()),
      m_user(options.servers, kNoId),
      m_lookAhead(options.servers, kNoId),
      m_rank(m_jobs.size()),
      m_left(m_jobs.size())
{
    for (std::uint32_t job = 0; job < m_jobs.size(); ++job)
    {
        const ClusterJob& wanted = m_jobs[job];
        if (wanted.servers == 0 || wanted.servers > options.servers || wanted.arrival < 0 ||
            wanted.estimate < 0)
        {
            throw std::invalid_argument("job " + std::to_string(job) + " wants " +
                                        std::to_string(wanted.servers) + " of " +
                                        std::to_string(options.servers) + " servers at " +
                                        std::to_string(wanted.arrival) + " ps");
        }
        m_schedule[job].arrival = wanted.arrival;
        m_arrivals[job] = job;
    }
    std::stable_sort(
        m_arrivals.begin(),
        m_arrivals.end(),
        [this](std::uint32_t a, std::uint32_t b) { return m_jobs[a].arrival < m_jobs[b].arrival; });
    for (std::size_t k = 0; k < m_arrivals.size(); ++k)
    {
        m_rank[m_arrivals[k]] = k;
    }
}

SimTime
ClusterScheduler::Patch(std::uint32_t job) const
{
    const std::uint32_t circuits = m_jobs[job].circuits;
    if (!m_options.panel || circuits == 0 || m_options.panel->move == 0)
    {
        return 0;
    }
    return m_options.panel->move > kNever / circuits ? kNever : m_options.panel->move * circuits;
}

SimTime
ClusterScheduler::ExpectedStart(std::uint32_t job) const
{
    const JobSchedule& schedule = m_schedule[job];
    switch (m_phase[job])
    {
    case Phase::Settling:
        return LookAhead() ? Plus(schedule.occupied, schedule.flip) : schedule.patchEnd;
    case Phase::Assigned:
    {
        SimTime ready = std::max(m_now, schedule.patchEnd);
        std::uint32_t last = kNoId;
        for (const ServerId server : schedule.servers)
        {
            // Neighbours mostly had the same job.
            if (m_user[server] != kNoId && m_user[server] != last)
            {
                last = m_user[server];
                ready = std::max(ready, ExpectedEnd(last));
            }
        }
        return Plus(ready, schedule.flip);
    }
    default:
        return schedule.start;
    }
}

SimTime
ClusterScheduler::ExpectedEnd(std::uint32_t job) const
{
    // Who is over its estimate still has its servers: not now, but at any moment.
    return std::max(m_now + 1, Plus(ExpectedStart(job), m_jobs[job].estimate));
}

SimTime
ClusterScheduler::Available(ServerId server) const
{
    const std::uint32_t job = m_lookAhead[server] != kNoId ? m_lookAhead[server] : m_user[server];
    return job == kNoId ? m_now : ExpectedEnd(job);
}

SimTime
ClusterScheduler::Patchable(ServerId server) const
{
    return m_lookAhead[server] == kNoId ? m_now : ExpectedStart(m_lookAhead[server]);
}

ClusterScheduler::Choice
ClusterScheduler::Earliest(std::uint32_t job,
                           SimTime from,
                           SimTime until,
                           const std::vector<bool>& allowed) const
{
    std::vector<SimTime> available(m_options.servers, kNever);
    std::vector<SimTime> times;
    std::map<std::pair<std::uint32_t, std::uint32_t>, SimTime> known;
    for (ServerId s = 0; s < m_options.servers; ++s)
    {
        if (!allowed[s])
        {
            continue;
        }
        const auto [it, isNew] = known.emplace(std::make_pair(m_user[s], m_lookAhead[s]), 0);
        if (isNew)
        {
            it->second = std::max(from, Available(s));
            if (it->second != kNever && it->second <= until)
            {
                times.push_back(it->second);
            }
        }
        available[s] = it->second;
    }
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    std::vector<bool> free(m_options.servers);
    for (const SimTime time : times)
    {
        std::uint32_t count = 0;
        for (ServerId s = 0; s < m_options.servers; ++s)
        {
            free[s] = available[s] <= time;
            count += free[s] ? 1 : 0;
        }
        if (count < m_jobs[job].servers)
        {
            continue;
        }
        std::vector<ServerId> servers =
            PlaceJob(m_options.placement, free, m_jobs[job].servers, m_options.seed, job);
        if (!servers.empty())
        {
            return {time, std::move(servers)};
        }
    }
    return {};
}

ClusterScheduler::Choice
ClusterScheduler::EarliestForHead(std::uint32_t job) const
{
    const std::vector<bool> all(m_options.servers, true);
    if (!LookAhead())
    {
        return Earliest(job, m_now, kNever, all);
    }
    SimTime from = m_now;
    if (m_options.queue == QueueRule::Fifo)
    {
        // Not before whom it stood behind: they will have their servers by then.
        for (const std::uint32_t other : m_underWay)
        {
            if (m_phase[other] == Phase::Assigned)
            {
                for (const ServerId server : m_schedule[other].servers)
                {
                    from = m_user[server] == kNoId ? from
                                                   : std::max(from, ExpectedEnd(m_user[server]));
                }
            }
        }
    }
    std::vector<bool> patchable(m_options.servers);
    for (ServerId s = 0; s < m_options.servers; ++s)
    {
        patchable[s] = m_lookAhead[s] == kNoId;
    }
    Choice now = Earliest(job, from, kNever, patchable);
    Choice any = Earliest(job, from, kNever, all);
    return now.at <= any.at ? now : any;
}

bool
ClusterScheduler::CanAssign(const Choice& choice) const
{
    if (choice.servers.empty())
    {
        return false;
    }
    if (!LookAhead())
    {
        return choice.at <= m_now;
    }
    return std::all_of(choice.servers.begin(), choice.servers.end(), [this](ServerId s) {
        return m_lookAhead[s] == kNoId;
    });
}

void
ClusterScheduler::Assign(std::uint32_t job, const Choice& choice)
{
    JobSchedule& schedule = m_schedule[job];
    schedule.servers = choice.servers;
    schedule.assigned = m_now;
    const SimTime patch = Patch(job);
    schedule.patchBegin = patch == 0 ? m_now : std::max(m_now, m_robotFree);
    schedule.patchEnd = Plus(schedule.patchBegin, patch);
    if (patch > 0)
    {
        m_robotFree = schedule.patchEnd;
    }
    if (LookAhead())
    {
        schedule.flip = patch > 0 ? m_options.panel->flip : 0;
        m_phase[job] = Phase::Assigned;
        for (const ServerId server : schedule.servers)
        {
            m_lookAhead[server] = job;
        }
    }
    else
    {
        schedule.free = m_now;
        schedule.occupied = m_now;
        m_phase[job] = Phase::Settling;
        for (const ServerId server : schedule.servers)
        {
            m_user[server] = job;
        }
    }
    m_underWay.push_back(job);
}

bool
ClusterScheduler::WalkQueue()
{
    bool assigned = false;
    std::size_t head = 0;
    Choice reserved;
    for (; head < m_queue.size(); ++head)
    {
        reserved = EarliestForHead(m_queue[head]);
        if (!CanAssign(reserved))
        {
            break;
        }
        Assign(m_queue[head], reserved);
        assigned = true;
    }
    m_queue.erase(m_queue.begin(), m_queue.begin() + static_cast<std::ptrdiff_t>(head));
    if (m_options.queue == QueueRule::Fifo || m_queue.size() < 2)
    {
        return assigned;
    }
    // By when the robot must be free, lest the first job wait for it.
    SimTime robotBy = reserved.at;
    std::vector<bool> all(m_options.servers, true);
    std::vector<bool> spare(m_options.servers, true);
    if (LookAhead())
    {
        robotBy = m_now;
        for (const ServerId server : reserved.servers)
        {
            robotBy = std::max(robotBy, Patchable(server));
        }
    }
    for (const ServerId server : reserved.servers)
    {
        spare[server] = false;
    }
    std::vector<std::uint32_t> rest{m_queue[0]};
    for (std::size_t k = 1; k < m_queue.size(); ++k)
    {
        const std::uint32_t job = m_queue[k];
        const SimTime patch = Patch(job);
        const SimTime patched = patch == 0 ? m_now : Plus(std::max(m_now, m_robotFree), patch);
        rest.push_back(job);
        if (patch > 0 && patched > robotBy)
        {
            continue;
        }
        Choice choice;
        if (LookAhead())
        {
            std::vector<bool> allowed = spare;
            for (ServerId s = 0; s < m_options.servers; ++s)
            {
                allowed[s] = allowed[s] && m_lookAhead[s] == kNoId;
            }
            choice = Earliest(job, m_now, kNever, allowed);
        }
        else
        {
            choice = Earliest(job, m_now, m_now, spare);
            if (choice.servers.empty() && Plus(patched, m_jobs[job].estimate) <= reserved.at)
            {
                choice = Earliest(job, m_now, m_now, all);
            }
        }
        if (CanAssign(choice))
        {
            Assign(job, choice);
            assigned = true;
            rest.pop_back();
        }
    }
    m_queue = std::move(rest);
    return assigned;
}

bool
ClusterScheduler::Begin(std::vector<std::uint32_t>& started)
{
    bool changed = false;
    bool waits = false;
    std::vector<std::uint32_t> rest;
    for (const std::uint32_t job : m_underWay)
    {
        JobSchedule& schedule = m_schedule[job];
        if (m_phase[job] == Phase::Assigned)
        {
            const bool free = std::all_of(schedule.servers.begin(),
                                          schedule.servers.end(),
                                          [this](ServerId s) { return m_user[s] == kNoId; });
            if (free && schedule.free == kNever)
            {
                schedule.free = m_now;
            }
            if (free && schedule.patchEnd <= m_now && !waits)
            {
                schedule.occupied = m_now;
                m_phase[job] = Phase::Settling;
                changed = true;
                for (const ServerId server : schedule.servers)
                {
                    m_user[server] = job;
                }
            }
            else
            {
                waits = m_options.queue == QueueRule::Fifo;
            }
        }
        if (m_phase[job] != Phase::Settling || ExpectedStart(job) > m_now)
        {
            rest.push_back(job);
            continue;
        }
        m_phase[job] = Phase::Running;
        schedule.start = m_now;
        changed = true;
        started.push_back(job);
        for (const ServerId server : schedule.servers)
        {
            if (m_lookAhead[server] == job)
            {
                m_lookAhead[server] = kNoId;
            }
        }
        schedule.overtook = m_rank[job] > m_firstWaiting;
        while (m_firstWaiting < m_arrivals.size() &&
               m_schedule[m_arrivals[m_firstWaiting]].start != kNever)
        {
            ++m_firstWaiting;
        }
    }
    m_underWay = std::move(rest);
    return changed;
}

void
ClusterScheduler::Account(SimTime now)
{
    const auto elapsed = static_cast<double>(now - m_now);
    if (m_nextArrival == 0 || m_left == 0 || now == m_now)
    {
        return;
    }
    std::vector<bool> free(m_options.servers);
    std::uint32_t taken = 0;
    for (ServerId s = 0; s < m_options.servers; ++s)
    {
        free[s] = m_user[s] == kNoId && m_lookAhead[s] == kNoId;
        taken += m_user[s] == kNoId ? 0 : 1;
    }
    std::uint32_t longest = 0;
    std::uint32_t count = 0;
    for (const Run& run : RunsOf(free))
    {
        longest = std::max(longest, run.length);
        count += run.length;
    }
    m_occupied += elapsed * taken;
    if (count > 0)
    {
        m_freeTime += elapsed;
        m_fragmentTime += elapsed * (1 - static_cast<double>(longest) / count);
    }
    if (!m_queue.empty() && count >= m_jobs[m_queue[0]].servers)
    {
        m_fragmentedWait += now - m_now;
    }
}

SimTime
ClusterScheduler::Next() const
{
    SimTime next =
        m_nextArrival < m_arrivals.size() ? m_jobs[m_arrivals[m_nextArrival]].arrival : kNever;
    for (const std::uint32_t job : m_underWay)
    {
        if (m_phase[job] == Phase::Settling)
        {
            next = std::min(next, ExpectedStart(job));
        }
        else if (m_schedule[job].patchEnd > m_now)
        {
            next = std::min(next, m_schedule[job].patchEnd);
        }
    }
    return next;
}

std::vector<std::uint32_t>
ClusterScheduler::Advance(SimTime now, const std::vector<std::uint32_t>& ended)
{
    if (now < m_now || now > Next())
    {
        throw std::invalid_argument("cluster: " + std::to_string(now) + " ps after " +
                                    std::to_string(m_now) + " ps is out of turn");
    }
    Account(now);
    m_now = now;
    for (const std::uint32_t job : ended)
    {
        if (job >= m_jobs.size() || m_phase[job] != Phase::Running)
        {
            throw std::invalid_argument("cluster: job " + std::to_string(job) + " does not run");
        }
        m_phase[job] = Phase::Ended;
        m_schedule[job].end = now;
        --m_left;
        for (const ServerId server : m_schedule[job].servers)
        {
            m_user[server] = kNoId;
        }
    }
    while (m_nextArrival < m_arrivals.size() && m_jobs[m_arrivals[m_nextArrival]].arrival <= now)
    {
        m_phase[m_arrivals[m_nextArrival]] = Phase::Queued;
        m_queue.push_back(m_arrivals[m_nextArrival++]);
    }
    std::vector<std::uint32_t> started;
    bool changed = true;
    while (changed)
    {
        // A flip sets look-ahead ports free, and a new assignment may be ready at once.
        const bool begun = Begin(started);
        const bool assigned = WalkQueue();
        changed = begun || assigned;
    }
    return started;
}

std::pair<SimTime, std::vector<ServerId>>
ClusterScheduler::Reservation() const
{
    if (m_queue.empty())
    {
        return {kNever, {}};
    }
    Choice choice = EarliestForHead(m_queue[0]);
    return {choice.at, std::move(choice.servers)};
}

ClusterUse
ClusterScheduler::Use() const
{
    ClusterUse use;
    if (m_arrivals.empty())
    {
        return use;
    }
    use.from = m_jobs[m_arrivals[0]].arrival;
    use.to = std::max(use.from, m_now);
    double run = 0;
    for (std::uint32_t job = 0; job < m_jobs.size(); ++job)
    {
        const JobSchedule& schedule = m_schedule[job];
        if (schedule.start != kNever)
        {
            const SimTime end = schedule.end == kNever ? m_now : schedule.end;
            run += static_cast<double>(end - schedule.start) * m_jobs[job].servers;
        }
    }
    const double all = static_cast<double>(use.to - use.from) * m_options.servers;
    if (all > 0)
    {
        use.utilisation = run / all;
        use.occupation = m_occupied / all;
    }
    if (m_freeTime > 0)
    {
        use.fragmentation = m_fragmentTime / m_freeTime;
    }
    use.fragmentedWait = m_fragmentedWait;
    return use;
}

FixedSchedule
ScheduleJobs(const ClusterOptions& options,
             const std::vector<ClusterJob>& jobs,
             const std::vector<SimTime>& durations,
             SimTime stop)
{
    if (durations.size() != jobs.size())
    {
        throw std::invalid_argument("cluster: " + std::to_string(durations.size()) +
                                    " run times for " + std::to_string(jobs.size()) + " jobs");
    }
    ClusterScheduler scheduler(options, jobs);
    std::set<std::pair<SimTime, std::uint32_t>> ends;
    for (;;)
    {
        const SimTime next =
            std::min(scheduler.Next(), ends.empty() ? kNever : ends.begin()->first);
        if (next == kNever || next > stop)
        {
            break;
        }
        std::vector<std::uint32_t> ended;
        while (!ends.empty() && ends.begin()->first == next)
        {
            ended.push_back(ends.begin()->second);
            ends.erase(ends.begin());
        }
        for (const std::uint32_t job : scheduler.Advance(next, ended))
        {
            ends.emplace(Plus(next, durations[job]), job);
        }
    }
    return {scheduler.Jobs(), scheduler.Use()};
}

std::vector<std::string>
CheckSchedule(const ClusterOptions& options,
              const std::vector<ClusterJob>& jobs,
              const std::vector<JobSchedule>& schedule)
{
    std::vector<std::string> violations;
    const auto complain = [&violations](std::size_t job, const std::string& what) {
        violations.push_back("job " + std::to_string(job) + ": " + what);
    };
    std::vector<std::tuple<SimTime, SimTime, std::size_t>> robot;
    std::vector<std::vector<std::tuple<SimTime, SimTime, std::size_t>>> uses(options.servers);
    std::vector<std::vector<std::tuple<SimTime, SimTime, std::size_t>>> ahead(options.servers);
    const bool lookAhead = options.panel && options.panel->lookAhead;
    for (std::size_t job = 0; job < schedule.size(); ++job)
    {
        const JobSchedule& at = schedule[job];
        if (at.assigned == kNever)
        {
            if (at.start != kNever || !at.servers.empty())
            {
                complain(job, "started without being assigned");
            }
            continue;
        }
        const std::set<ServerId> distinct(at.servers.begin(), at.servers.end());
        if (distinct.size() != jobs[job].servers || at.servers.size() != jobs[job].servers ||
            *distinct.rbegin() >= options.servers)
        {
            complain(job, "does not have its number of different servers");
            continue;
        }
        if (at.assigned < jobs[job].arrival)
        {
            complain(job, "was assigned servers before it arrived");
        }
        if (at.patchBegin < at.assigned || at.patchEnd < at.patchBegin)
        {
            complain(job, "was patched out of order");
        }
        if (at.patchEnd > at.patchBegin)
        {
            robot.emplace_back(at.patchBegin, at.patchEnd, job);
        }
        if (at.start != kNever &&
            (at.occupied > at.start || at.free > at.occupied || at.patchEnd > at.start - at.flip))
        {
            complain(job, "started before its servers and circuits were ready");
        }
        if (at.end != kNever && at.end < at.start)
        {
            complain(job, "ended before it started");
        }
        if (at.occupied != kNever)
        {
            for (const ServerId server : at.servers)
            {
                uses[server].emplace_back(at.occupied, at.end, job);
            }
        }
        for (const ServerId server : at.servers)
        {
            if (lookAhead)
            {
                ahead[server].emplace_back(at.assigned, at.start, job);
            }
        }
    }
    const auto overlap = [&complain](auto& intervals, const std::string& what) {
        std::sort(intervals.begin(), intervals.end());
        for (std::size_t k = 1; k < intervals.size(); ++k)
        {
            if (std::get<0>(intervals[k]) < std::get<1>(intervals[k - 1]))
            {
                complain(std::get<2>(intervals[k]),
                         what + " while job " + std::to_string(std::get<2>(intervals[k - 1])) +
                             " had it");
            }
        }
    };
    overlap(robot, "had the robot");
    for (ServerId server = 0; server < options.servers; ++server)
    {
        overlap(uses[server], "had server " + std::to_string(server));
        overlap(ahead[server], "had the look-ahead port of server " + std::to_string(server));
    }
    return violations;
}

} // namespace topoopt
