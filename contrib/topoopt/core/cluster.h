// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_CLUSTER_H
#define TOPOOPT_CORE_CLUSTER_H

#include "topoopt/core/ids.h"
#include "topoopt/core/units.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace topoopt
{

/** Who may start before the first job of the queue. */
enum class QueueRule : std::uint8_t
{
    Fifo,    ///< nobody: jobs start in order of arrival
    Backfill ///< whoever does not delay the first one's reservation (EASY)
};

/** Names of QueueRule in its order. */
[[nodiscard]] const std::vector<std::string>& QueueRuleNames();

/** Which free servers a job gets. */
enum class ServerChoice : std::uint8_t
{
    Contiguous, ///< the lowest run of neighbours; the job waits while there is none
    Random,     ///< any, in the order in which they are drawn
    BestFit ///< the smallest run that holds the job, else pieces of the longest runs; waits for nothing but their number
};

/** Names of ServerChoice in its order. */
[[nodiscard]] const std::vector<std::string>& ServerChoiceNames();

/**
 * A patch panel whose circuits a robot plugs, one after the other.
 *
 * With look-ahead every NIC is behind a 1x2 switch with one output on each of two panels: while a job runs on
 * one, the circuits of the next job on those servers are plugged on the other, and the switches flip when both the
 * servers and the circuits are ready. Unplugging is part of a move: the robot takes the fibre where it is.
 */
struct PanelSpec
{
    SimTime move = 60 * kSecond;      ///< per circuit
    SimTime flip = 10 * kMillisecond; ///< of the 1x2 switches; only with look-ahead
    bool lookAhead = true;
};

/** A cluster and its rules. */
struct ClusterOptions
{
    std::uint32_t servers = 0;
    QueueRule queue = QueueRule::Fifo;
    ServerChoice placement = ServerChoice::Contiguous;
    std::optional<PanelSpec> panel; ///< none: a job starts as soon as it has servers
    std::uint64_t seed = 1;         ///< of ServerChoice::Random
};

/** A job as the scheduler sees it. */
struct ClusterJob
{
    std::uint32_t servers = 1;
    SimTime arrival = 0;
    SimTime estimate = 0;       ///< expected run time, for reservations
    std::uint32_t circuits = 0; ///< to be plugged; ignored without a panel
};

/** What became of a job; kNever = has not happened. */
struct JobSchedule
{
    std::vector<ServerId> servers; ///< the job's server k is servers[k]
    SimTime arrival = 0;
    SimTime assigned = kNever; ///< its servers were chosen
    SimTime patchBegin = kNever;
    SimTime patchEnd = kNever;
    SimTime free = kNever; ///< nobody else ran on its servers any more
    SimTime occupied =
        kNever; ///< its servers are its own: patching without look-ahead, or flipping, begins
    SimTime start = kNever;
    SimTime end = kNever;
    SimTime flip = 0;      ///< time that its flip took
    bool overtook = false; ///< started before a job that had arrived earlier

    /** Work of the robot. */
    [[nodiscard]] SimTime Patching() const;
    /** The part of it that was done while the job would have waited for its servers anyway. */
    [[nodiscard]] SimTime Hidden() const;
    /** Waiting for servers or for the robot's work on others: start - arrival - (Patching() - Hidden()) - flip. */
    [[nodiscard]] SimTime Queueing() const;
};

/** Use of a cluster between the first arrival and the last end. */
struct ClusterUse
{
    SimTime from = 0;
    SimTime to = 0;
    double utilisation = 0; ///< server time of running jobs over all server time
    double occupation = 0;  ///< the same with servers that wait for robot or flip
    /** Mean of 1 - (longest run of free servers) / (free servers) over the time when some are free. */
    double fragmentation = 0;
    /** Time for which the first job of the queue had no servers though enough were free. */
    SimTime fragmentedWait = 0;
};

/**
 * Queue, servers and robot of a shared cluster, as a state machine without a clock.
 *
 * Jobs queue in order of (arrival, number). The first one that cannot be served holds a reservation: the
 * earliest time, by the estimates of who is before it, at which its servers are to be had, and which. With
 * QueueRule::Backfill a later job is served if it neither touches those servers (or ends by then) nor keeps the
 * robot from beginning in time; so with estimates that are not too short the reservation only moves ahead.
 *
 * Without a panel a job starts when it gets servers. With a panel but without look-ahead its servers idle until the
 * robot has plugged its circuits. With look-ahead a job is assigned servers as soon as their look-ahead
 * ports are free, usually while others run there, and the robot begins; it starts a flip after both are ready.
 * The robot serves jobs in order of assignment.
 *
 * Deterministic. Cost: O(servers * jobs under way) per event and queued job looked at.
 */
class ClusterScheduler
{
  public:
    /** @throws std::invalid_argument a job larger than the cluster or without servers, times < 0 */
    ClusterScheduler(const ClusterOptions& options, std::vector<ClusterJob> jobs);

    /** Of the next arrival, end of patching or end of a flip; kNever if nothing happens by itself. */
    [[nodiscard]] SimTime Next() const;

    /**
     * Lets time pass.
     * @param now  not before the last call's, not after Next()
     * @param ended  jobs that end now
     * @return jobs that start now, in order of assignment
     */
    std::vector<std::uint32_t> Advance(SimTime now, const std::vector<std::uint32_t>& ended);

    /** All jobs have ended. */
    [[nodiscard]] bool Done() const
    {
        return m_left == 0;
    }

    [[nodiscard]] const std::vector<JobSchedule>& Jobs() const
    {
        return m_schedule;
    }

    /**
     * When the first job of the queue that has no servers could have them, and which, by what is known now;
     * kNever if no such job exists.
     */
    [[nodiscard]] std::pair<SimTime, std::vector<ServerId>> Reservation() const;

    [[nodiscard]] ClusterUse Use() const;

  private:
    enum class Phase : std::uint8_t
    {
        Absent,
        Queued,
        Assigned, ///< look-ahead: servers known, others may run there
        Settling, ///< its servers are its own; the robot or the switches work
        Running,
        Ended
    };

    struct Choice
    {
        SimTime at = kNever; ///< servers free of others
        std::vector<ServerId> servers;
    };

    [[nodiscard]] bool LookAhead() const
    {
        return m_options.panel && m_options.panel->lookAhead;
    }

    [[nodiscard]] SimTime Patch(std::uint32_t job) const;
    [[nodiscard]] SimTime ExpectedStart(std::uint32_t job) const;
    [[nodiscard]] SimTime ExpectedEnd(std::uint32_t job) const;
    /** When a server could run something not yet assigned. */
    [[nodiscard]] SimTime Available(ServerId server) const;
    /** When its look-ahead port could be patched for something not yet assigned. */
    [[nodiscard]] SimTime Patchable(ServerId server) const;
    /** Earliest servers among @p allowed, not before @p from and not after @p until. */
    [[nodiscard]] Choice Earliest(std::uint32_t job,
                                  SimTime from,
                                  SimTime until,
                                  const std::vector<bool>& allowed) const;
    [[nodiscard]] bool CanAssign(const Choice& choice) const;
    void Assign(std::uint32_t job, const Choice& choice);
    /** @return whether somebody was assigned servers */
    bool WalkQueue();
    /** @return whether somebody took possession of servers or started */
    bool Begin(std::vector<std::uint32_t>& started);
    [[nodiscard]] Choice EarliestForHead(std::uint32_t job) const;
    void Account(SimTime now);

    ClusterOptions m_options;
    std::vector<ClusterJob> m_jobs;
    std::vector<JobSchedule> m_schedule;
    std::vector<Phase> m_phase;
    std::vector<std::uint32_t> m_arrivals; ///< all jobs by (arrival, number)
    std::size_t m_nextArrival = 0;
    std::vector<std::uint32_t> m_queue;    ///< without servers, in order
    std::vector<std::uint32_t> m_underWay; ///< assigned or settling, in order of assignment
    std::vector<std::uint32_t> m_user;     ///< by server: who runs or settles; kNoId
    std::vector<std::uint32_t>
        m_lookAhead; ///< by server: whose circuits are on the other panel; kNoId
    SimTime m_now = 0;
    SimTime m_robotFree = 0;
    std::size_t m_firstWaiting = 0;  ///< of m_arrivals: the first that has not started
    std::vector<std::size_t> m_rank; ///< by job: place in m_arrivals
    std::size_t m_left = 0;
    double m_freeTime = 0;
    double m_fragmentTime = 0;
    double m_occupied = 0; ///< server time
    SimTime m_fragmentedWait = 0;
};

/**
 * @p count of the servers that are free, by a rule.
 * @param draw  number of the draw, for ServerChoice::Random: same number, same order
 * @return empty if there are none that suit
 */
[[nodiscard]] std::vector<ServerId> PlaceJob(ServerChoice rule,
                                             const std::vector<bool>& free,
                                             std::uint32_t count,
                                             std::uint64_t seed,
                                             std::uint64_t draw);

/** A whole schedule when run times are known: job j runs for @p durations[j]. */
struct FixedSchedule
{
    std::vector<JobSchedule> jobs;
    ClusterUse use;
};

/** Runs a ClusterScheduler to the end, or to @p stop. Jobs that have not started by then never do. */
[[nodiscard]] FixedSchedule ScheduleJobs(const ClusterOptions& options,
                                         const std::vector<ClusterJob>& jobs,
                                         const std::vector<SimTime>& durations,
                                         SimTime stop = kNever);

/**
 * Identities of a schedule: every job has its number of different servers, no server runs two jobs at a time, the robot
 * does one thing at a time, a look-ahead port holds one job's circuits, nothing starts before it has arrived, is patched and
 * has its servers.
 * @return one line per violation
 */
[[nodiscard]] std::vector<std::string> CheckSchedule(const ClusterOptions& options,
                                                     const std::vector<ClusterJob>& jobs,
                                                     const std::vector<JobSchedule>& schedule);

} // namespace topoopt

#endif // TOPOOPT_CORE_CLUSTER_H
