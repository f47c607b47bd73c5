// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/cluster.h"
#include "topoopt/core/random.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <rapidcheck/gtest.h>
#include <set>
#include <stdexcept>

namespace topoopt::test
{
namespace
{

/** Servers, arrival, run time; the estimate is right and there is a circuit per server. */
struct TestJob
{
    std::uint32_t servers;
    SimTime arrival;
    SimTime run;
};

FixedSchedule
Schedule(const ClusterOptions& options, const std::vector<TestJob>& jobs)
{
    std::vector<ClusterJob> wanted;
    std::vector<SimTime> runs;
    for (const TestJob& job : jobs)
    {
        wanted.push_back({job.servers, job.arrival, job.run, job.servers});
        runs.push_back(job.run);
    }
    const FixedSchedule schedule = ScheduleJobs(options, wanted, runs);
    EXPECT_EQ(CheckSchedule(options, wanted, schedule.jobs), std::vector<std::string>());
    for (std::size_t k = 0; k < jobs.size(); ++k)
    {
        EXPECT_EQ(schedule.jobs[k].end - schedule.jobs[k].start, jobs[k].run) << k;
    }
    return schedule;
}

ClusterOptions
Cluster(std::uint32_t servers,
        QueueRule queue = QueueRule::Fifo,
        ServerChoice placement = ServerChoice::Contiguous)
{
    ClusterOptions options;
    options.servers = servers;
    options.queue = queue;
    options.placement = placement;
    return options;
}

ClusterOptions
Panel(std::uint32_t servers, SimTime move, SimTime flip, bool lookAhead)
{
    ClusterOptions options = Cluster(servers);
    options.panel = PanelSpec{move, flip, lookAhead};
    return options;
}

std::vector<SimTime>
Starts(const FixedSchedule& schedule)
{
    std::vector<SimTime> starts;
    for (const JobSchedule& job : schedule.jobs)
    {
        starts.push_back(job.start);
    }
    return starts;
}

using Times = std::vector<SimTime>;
using ServerList = std::vector<ServerId>;

TEST(Cluster, JobsThatFitTogetherDoNotWait)
{
    const FixedSchedule s = Schedule(Cluster(8), {{4, 5, 100}, {4, 7, 50}});
    EXPECT_EQ(Starts(s), Times({5, 7}));
    EXPECT_EQ(s.jobs[0].servers, ServerList({0, 1, 2, 3}));
    EXPECT_EQ(s.jobs[1].servers, ServerList({4, 5, 6, 7}));
    EXPECT_EQ(s.jobs[0].Queueing(), 0);
    // 4 servers for 100 and for 50 out of 8 for 105 - 5.
    EXPECT_DOUBLE_EQ(s.use.utilisation, 600.0 / 800);
    EXPECT_EQ(s.use.from, 5);
    EXPECT_EQ(s.use.to, 105);
}

TEST(Cluster, ThreeJobsOfTheWholeClusterFollowEachOther)
{
    const FixedSchedule s = Schedule(Cluster(4), {{4, 0, 10}, {4, 1, 20}, {4, 2, 30}});
    EXPECT_EQ(Starts(s), Times({0, 10, 30}));
    EXPECT_EQ(s.jobs[2].Queueing(), 28);
    EXPECT_DOUBLE_EQ(s.use.utilisation, 1);
}

TEST(Cluster, FifoLetsNobodyPass)
{
    // The second job waits for the first; the third would fit at once.
    const std::vector<TestJob> jobs = {{3, 0, 100}, {4, 1, 10}, {1, 2, 5}};
    EXPECT_EQ(Starts(Schedule(Cluster(4), jobs)), Times({0, 100, 110}));
    const FixedSchedule s = Schedule(Cluster(4, QueueRule::Backfill), jobs);
    EXPECT_EQ(Starts(s), Times({0, 100, 2}));
    EXPECT_TRUE(s.jobs[2].overtook);
    EXPECT_FALSE(s.jobs[0].overtook || s.jobs[1].overtook);
}

TEST(Cluster, BackfillTakesOnlyWhatEndsInTimeOrIsSpare)
{
    // Head: 3 of 4 servers at 100. Job 2 ends at 101 on the server that the head does not need; job 3 would have to
    // take one that it does.
    const std::vector<TestJob> jobs = {{2, 0, 100}, {3, 1, 10}, {1, 2, 99}, {1, 2, 99}};
    const FixedSchedule s = Schedule(Cluster(4, QueueRule::Backfill), jobs);
    EXPECT_EQ(s.jobs[1].start, 100);
    EXPECT_EQ(s.jobs[2].start, 2);
    EXPECT_EQ(s.jobs[2].servers, ServerList({3}));
    EXPECT_EQ(s.jobs[3].start, 101);
    // One unit shorter, it ends when the head begins.
    const FixedSchedule t = Schedule(Cluster(4, QueueRule::Backfill),
                                     {{2, 0, 100}, {3, 1, 10}, {1, 2, 99}, {1, 2, 98}});
    EXPECT_EQ(t.jobs[3].start, 2);
    EXPECT_EQ(t.jobs[1].start, 100);
}

RC_GTEST_PROP(ClusterProperties, BackfillNeverDelaysTheReservationOfTheFirst, ())
{
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    Rng rng(seed, "test");
    ClusterOptions options = Cluster(static_cast<std::uint32_t>(4 + rng.Below(12)),
                                     QueueRule::Backfill,
                                     static_cast<ServerChoice>(rng.Below(3)));
    options.seed = seed;
    if (rng.Below(2) == 0)
    {
        options.panel = PanelSpec{static_cast<SimTime>(rng.Below(4)),
                                  static_cast<SimTime>(rng.Below(3)),
                                  false};
    }
    std::vector<ClusterJob> jobs;
    std::vector<SimTime> runs;
    for (std::uint64_t k = 0; k < 30; ++k)
    {
        const auto run = static_cast<SimTime>(1 + rng.Below(40));
        const auto n = static_cast<std::uint32_t>(1 + rng.Below(options.servers));
        jobs.push_back({n, static_cast<SimTime>(rng.Below(120)), run, n});
        runs.push_back(run);
    }
    // The same as ScheduleJobs(), looking at the reservation in between.
    ClusterScheduler scheduler(options, jobs);
    std::set<std::pair<SimTime, std::uint32_t>> ends;
    std::map<std::uint32_t, SimTime> promised;
    const auto head = [&scheduler, &jobs] {
        std::uint32_t first = kNoId;
        for (std::uint32_t job = 0; job < jobs.size(); ++job)
        {
            if (scheduler.Jobs()[job].assigned == kNever &&
                (first == kNoId || jobs[job].arrival < jobs[first].arrival))
            {
                first = job;
            }
        }
        return first;
    };
    while (!scheduler.Done())
    {
        const SimTime next =
            std::min(scheduler.Next(), ends.empty() ? kNever : ends.begin()->first);
        RC_ASSERT(next != kNever);
        std::vector<std::uint32_t> ended;
        for (; !ends.empty() && ends.begin()->first == next; ends.erase(ends.begin()))
        {
            ended.push_back(ends.begin()->second);
        }
        for (const std::uint32_t job : scheduler.Advance(next, ended))
        {
            ends.emplace(next + runs[job], job);
        }
        const SimTime reserved = scheduler.Reservation().first;
        if (reserved != kNever)
        {
            const auto [it, isNew] = promised.emplace(head(), reserved);
            RC_ASSERT(isNew || reserved <= it->second);
            it->second = reserved;
        }
    }
    RC_ASSERT(CheckSchedule(options, jobs, scheduler.Jobs()).empty());
    for (const auto& [job, time] : promised)
    {
        RC_ASSERT(scheduler.Jobs()[job].assigned <= time);
    }
}

RC_GTEST_PROP(ClusterProperties, EveryRuleKeepsTheIdentities, ())
{
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    Rng rng(seed, "test");
    ClusterOptions options = Cluster(static_cast<std::uint32_t>(2 + rng.Below(14)),
                                     static_cast<QueueRule>(rng.Below(2)),
                                     static_cast<ServerChoice>(rng.Below(3)));
    options.seed = seed;
    options.panel = PanelSpec{static_cast<SimTime>(rng.Below(5)),
                              static_cast<SimTime>(rng.Below(3)),
                              rng.Below(2) == 0};
    std::vector<ClusterJob> jobs;
    std::vector<SimTime> runs;
    for (std::uint64_t k = 0; k < 25; ++k)
    {
        const auto n = static_cast<std::uint32_t>(1 + rng.Below(options.servers));
        // Estimates that are wrong in both directions.
        jobs.push_back({n,
                        static_cast<SimTime>(rng.Below(150)),
                        static_cast<SimTime>(rng.Below(40)),
                        n == 1 ? 0 : n});
        runs.push_back(static_cast<SimTime>(rng.Below(40)));
    }
    const FixedSchedule s = ScheduleJobs(options, jobs, runs);
    RC_ASSERT(CheckSchedule(options, jobs, s.jobs) == std::vector<std::string>());
    for (const JobSchedule& job : s.jobs)
    {
        RC_ASSERT(job.end != kNever);
        RC_ASSERT(job.Queueing() >= 0);
        RC_ASSERT(job.Hidden() >= 0 && job.Hidden() <= job.Patching());
        RC_ASSERT(options.panel->lookAhead || job.Hidden() == 0);
    }
    RC_ASSERT(s.use.utilisation > 0 ||
              std::all_of(runs.begin(), runs.end(), [](SimTime r) { return r == 0; }));
    RC_ASSERT(s.use.utilisation <= s.use.occupation + 1e-9 && s.use.occupation <= 1 + 1e-9);
    const FixedSchedule again = ScheduleJobs(options, jobs, runs);
    for (std::size_t k = 0; k < jobs.size(); ++k)
    {
        RC_ASSERT(again.jobs[k].start == s.jobs[k].start);
        RC_ASSERT(again.jobs[k].servers == s.jobs[k].servers);
    }
}

TEST(Cluster, RobotMovesOneCircuitAfterTheOther)
{
    // Both jobs have servers at 0; the robot does 4 circuits of 10 for each.
    const FixedSchedule s = Schedule(Panel(8, 10, 3, false), {{4, 0, 100}, {4, 0, 100}});
    EXPECT_EQ(Starts(s), Times({40, 80}));
    EXPECT_EQ(s.jobs[1].patchBegin, 40);
    EXPECT_EQ(s.jobs[0].Queueing(), 0);
    // It waited for the robot's work on somebody else.
    EXPECT_EQ(s.jobs[1].Queueing(), 40);
    EXPECT_EQ(s.jobs[1].Patching(), 40);
    EXPECT_EQ(s.jobs[1].Hidden(), 0);
    // With look-ahead nothing can be hidden from those who are there first, and the flip is on top.
    EXPECT_EQ(Starts(Schedule(Panel(8, 10, 3, true), {{4, 0, 100}, {4, 0, 100}})), Times({43, 83}));
}

TEST(Cluster, LookAheadHidesPatchingBehindTheJobBefore)
{
    const std::vector<TestJob> jobs = {{4, 0, 100}, {4, 10, 50}};
    const FixedSchedule off = Schedule(Panel(4, 10, 0, false), jobs);
    EXPECT_EQ(Starts(off), Times({40, 180}));
    // Patched from 40, when the first one's are done and its switches have flipped, until 80, while it runs until 140.
    const FixedSchedule on = Schedule(Panel(4, 10, 0, true), jobs);
    EXPECT_EQ(Starts(on), Times({40, 140}));
    EXPECT_EQ(on.jobs[1].patchBegin, 40);
    EXPECT_EQ(on.jobs[1].Hidden(), 40);
    EXPECT_EQ(on.jobs[1].Queueing(), 130);
    // Only a part is hidden when the job before is short: its last 25 of 40.
    const FixedSchedule part = Schedule(Panel(4, 10, 0, true), {{4, 0, 25}, {4, 10, 50}});
    EXPECT_EQ(Starts(part), Times({40, 80}));
    EXPECT_EQ(part.jobs[1].Hidden(), 25);
}

RC_GTEST_PROP(ClusterProperties, LookAheadOnAndOffDifferByWhatItHides, ())
{
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    Rng rng(seed, "test");
    const auto servers = static_cast<std::uint32_t>(2 + rng.Below(6));
    const auto move = static_cast<SimTime>(1 + rng.Below(9));
    const auto flip = static_cast<SimTime>(rng.Below(4));
    std::vector<TestJob> jobs;
    for (std::uint64_t k = 0; k < 12; ++k)
    {
        jobs.push_back({servers, 0, static_cast<SimTime>(rng.Below(90))});
    }
    const FixedSchedule off = Schedule(Panel(servers, move, flip, false), jobs);
    const FixedSchedule on = Schedule(Panel(servers, move, flip, true), jobs);
    // Jobs of the whole cluster follow each other, so what one gains all later ones gain.
    SimTime hidden = 0;
    for (std::size_t k = 0; k < jobs.size(); ++k)
    {
        hidden += on.jobs[k].Hidden() - on.jobs[k].flip;
        RC_ASSERT(off.jobs[k].start - on.jobs[k].start == hidden);
        RC_ASSERT(on.jobs[k].Patching() == off.jobs[k].Patching());
        // Exactly what fits behind the job before.
        const SimTime before = k == 0 ? 0 : jobs[k - 1].run;
        RC_ASSERT(on.jobs[k].Hidden() == std::min(before, move * servers));
    }
}

TEST(Cluster, LookAheadPortsHoldOneJobAhead)
{
    // Three jobs of the whole cluster: the third is patched only when the second has flipped away.
    const FixedSchedule s =
        Schedule(Panel(2, 10, 1, true), {{2, 0, 100}, {2, 0, 100}, {2, 0, 100}});
    EXPECT_EQ(Starts(s), Times({21, 122, 223}));
    EXPECT_EQ(s.jobs[1].patchBegin, 21);
    EXPECT_EQ(s.jobs[2].patchBegin, 122);
    EXPECT_EQ(s.jobs[2].assigned, 122);
}

TEST(Cluster, FifoWithLookAheadStartsInOrder)
{
    // The small job's servers are free before those of the large one ahead of it.
    const FixedSchedule s =
        Schedule(Panel(4, 1, 0, true), {{3, 0, 100}, {1, 0, 10}, {3, 5, 10}, {1, 6, 10}});
    ClusterOptions free = Panel(4, 1, 0, true);
    free.queue = QueueRule::Backfill;
    const FixedSchedule t = Schedule(free, {{3, 0, 100}, {1, 0, 10}, {3, 5, 10}, {1, 6, 10}});
    EXPECT_EQ(Starts(s), Times({3, 4, 103, 103}));
    EXPECT_EQ(Starts(t), Times({3, 4, 103, 14}));
}

TEST(Cluster, JobsWithoutCircuitsDoNotWaitForTheRobot)
{
    const ClusterOptions options = Panel(4, 100, 5, true);
    const FixedSchedule s = ScheduleJobs(options, {{2, 0, 10, 2}, {1, 0, 10, 0}}, {10, 10});
    EXPECT_EQ(Starts(s)[0], 205);
    EXPECT_EQ(s.jobs[1].patchEnd, 0);
    EXPECT_EQ(s.jobs[1].flip, 0);
}

TEST(Placement, RulesOnAFragmentedCluster)
{
    //                                 0     1     2     3      4     5     6      7     8
    const std::vector<bool> free = {true, true, true, false, true, true, false, true, true};
    EXPECT_EQ(PlaceJob(ServerChoice::Contiguous, free, 2, 1, 0), ServerList({0, 1}));
    EXPECT_EQ(PlaceJob(ServerChoice::BestFit, free, 2, 1, 0), ServerList({4, 5}));
    EXPECT_EQ(PlaceJob(ServerChoice::Contiguous, free, 4, 1, 0), ServerList());
    EXPECT_EQ(PlaceJob(ServerChoice::BestFit, free, 4, 1, 0), ServerList({0, 1, 2, 4}));
    EXPECT_EQ(PlaceJob(ServerChoice::BestFit, free, 8, 1, 0), ServerList());
    EXPECT_EQ(PlaceJob(ServerChoice::Random, free, 8, 1, 0), ServerList());
    EXPECT_EQ(PlaceJob(ServerChoice::Random, free, 7, 1, 0).size(), 7U);
}

TEST(Placement, RandomIsUniformAndReproducible)
{
    const std::vector<bool> free = {true, false, true, true, true};
    std::map<ServerList, int> seen;
    for (std::uint64_t draw = 0; draw < 12'000; ++draw)
    {
        const ServerList servers = PlaceJob(ServerChoice::Random, free, 2, 7, draw);
        EXPECT_EQ(servers, PlaceJob(ServerChoice::Random, free, 2, 7, draw));
        ++seen[servers];
    }
    // 12 ordered pairs of 4 servers; the standard deviation of a count is 30.
    EXPECT_EQ(seen.size(), 12U);
    for (const auto& [servers, count] : seen)
    {
        EXPECT_NEAR(count, 1000, 150);
        EXPECT_EQ(std::count(servers.begin(), servers.end(), 1U), 0);
    }
}

TEST(Cluster, FragmentationIsMeasured)
{
    // 0-1 until 10, 2-3 until 30, 4-5 until 10. From 10 to 30 free: 0, 1, 4, 5; the longest run has 2 of 4.
    const std::vector<TestJob> jobs = {{2, 0, 10}, {2, 0, 30}, {2, 0, 10}, {3, 5, 10}};
    const FixedSchedule s = Schedule(Cluster(6), jobs);
    EXPECT_EQ(s.jobs[3].start, 30);
    EXPECT_EQ(s.use.fragmentedWait, 20);
    // Free servers: none until 10, half of them in one run until 30, one run of 3 until 40.
    EXPECT_DOUBLE_EQ(s.use.fragmentation, 20 * 0.5 / 30);
    const FixedSchedule t = Schedule(Cluster(6, QueueRule::Fifo, ServerChoice::BestFit), jobs);
    EXPECT_EQ(t.jobs[3].start, 10);
    EXPECT_EQ(t.use.fragmentedWait, 0);
}

TEST(Cluster, CheckFindsWhatIsWrong)
{
    const ClusterOptions options = Panel(4, 10, 0, false);
    const std::vector<ClusterJob> jobs = {{4, 0, 50, 4}, {4, 0, 50, 4}};
    const FixedSchedule right = ScheduleJobs(options, jobs, {50, 50});
    EXPECT_TRUE(CheckSchedule(options, jobs, right.jobs).empty());
    const auto wrong = [&](auto change) {
        std::vector<JobSchedule> schedule = right.jobs;
        change(schedule);
        return CheckSchedule(options, jobs, schedule).size();
    };
    EXPECT_EQ(wrong([](auto& s) { s[0].servers[0] = s[0].servers[1]; }), 1U);
    EXPECT_EQ(wrong([](auto& s) { s[0].servers[0] = 4; }), 1U);
    EXPECT_EQ(wrong([](auto& s) { s[1].start = s[1].patchEnd - 1; }), 1U);
    EXPECT_GE(wrong([](auto& s) { s[1].occupied = s[0].end - 1; }), 4U);
    EXPECT_GE(wrong([](auto& s) { s[1].patchBegin = s[0].patchEnd - 1; }), 1U);
    EXPECT_EQ(wrong([](auto& s) { s[1].end = s[1].start - 1; }), 1U);
    const ClusterOptions ahead = Panel(4, 10, 0, true);
    std::vector<JobSchedule> early = ScheduleJobs(ahead, jobs, {50, 50}).jobs;
    EXPECT_TRUE(CheckSchedule(ahead, jobs, early).empty());
    early[1].assigned = early[0].start - 1;
    EXPECT_EQ(CheckSchedule(ahead, jobs, early).size(), 4U);
}

TEST(Cluster, RefusesWhatCanNeverRunAndTimesOutOfTurn)
{
    EXPECT_THROW(ClusterScheduler(Cluster(4), {{5, 0, 0, 0}}), std::invalid_argument);
    EXPECT_THROW(ClusterScheduler(Cluster(4), {{0, 0, 0, 0}}), std::invalid_argument);
    ClusterScheduler scheduler(Cluster(4), {{4, 10, 0, 0}});
    EXPECT_THROW(scheduler.Advance(11, {}), std::invalid_argument);
    EXPECT_EQ(scheduler.Advance(10, {}), std::vector<std::uint32_t>({0}));
    EXPECT_THROW(scheduler.Advance(9, {}), std::invalid_argument);
    EXPECT_THROW(scheduler.Advance(12, {1}), std::invalid_argument);
}

TEST(Cluster, StopLeavesTheRestUnfinished)
{
    const FixedSchedule s =
        ScheduleJobs(Cluster(2), {{2, 0, 10, 0}, {2, 0, 10, 0}, {2, 0, 10, 0}}, {10, 10, 10}, 15);
    EXPECT_EQ(s.jobs[0].end, 10);
    EXPECT_EQ(s.jobs[1].start, 10);
    EXPECT_EQ(s.jobs[1].end, kNever);
    EXPECT_EQ(s.jobs[2].start, kNever);
}

} // namespace
} // namespace topoopt::test
