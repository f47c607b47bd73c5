// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_FAILURE_INJECTOR_H
#define TOPOOPT_FAILURE_INJECTOR_H

#include "ns3/change-reports.h"
#include "ns3/live-fabric.h"
#include "ns3/nic-failures.h"
#include "topoopt/core/optics-spec.h"
#include "topoopt/core/random.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace topoopt
{

/**
 * Breaks links of a running network, lets the control find out, and repairs them.
 *
 * A failure takes the light at once; packets on it are lost. After the detection delay the fabric's control finds other ways for what
 * it cut. A cable or panel port of a fabric with patch panels is then patched to a spare port, by one robot in
 * order of detection; other repairs come so long after the detection as the plan says. If messages have no way and no repair
 * is due, the run is given up, with the reason.
 *
 * Where circuits change, what breaks are NICs: a cable is the fibre pair of one of its NICs (the first one it is named by) to the
 * device, a port of the device is the end of such a fibre. A policy may still light another way, so the run is only
 * given up for a server that runs ranks.
 */
class FailureInjector final : public NetworkController
{
  public:
    /**
     * @param placement server of each rank
     * @param nics where circuits change; else null
     * @throws SpecError for a server, cable or node that the fabric does not have
     */
    FailureInjector(const FailurePlan& plan,
                    LiveFabric& live,
                    std::vector<ServerId> placement,
                    std::uint64_t seed,
                    NicFailures* nics);

    /**
     * What the fabric does not have, one line per event that will be passed over.
     * @param nics of a server, where circuits change; else 0
     * @throws SpecError for what this class would not accept
     */
    [[nodiscard]] static std::vector<std::string> Check(const FailurePlan& plan,
                                                        const Fabric& fabric,
                                                        std::uint32_t nics);

    void ControlDue(std::uint64_t cookie) override;
    /** Tells that a message is over. */
    void MessageFinished(const MessageRecord& record);

    /** In order of time; failures that do not apply first. */
    [[nodiscard]] std::vector<FailureReport> Reports() const;
    /** Why the run was given up, and what is broken; one line each. */
    [[nodiscard]] std::vector<std::string> Lacks() const;

  private:
    struct Target
    {
        std::vector<LinkId> links;
        std::string what;
        ServerId server = kNoId;     ///< Server failures
        std::vector<NicPort> nics{}; ///< where circuits change, in place of the links
    };

    struct Incident
    {
        const FailureSpec* spec = nullptr;
        Target target;
        FailureReport report;
        std::set<std::uint64_t> waiting; ///< messages hit that have not arrived
        std::uint32_t left = 0;          ///< flap: times still to come
        std::uint32_t outages = 0;       ///< begun so far
        bool down = false;
        bool known = false;
    };

    enum class Step : std::uint8_t
    {
        Random, ///< a random source draws
        Fail,
        Detect,
        Return
    };

    struct Action
    {
        Step step;
        std::size_t index;
        std::uint32_t outage; ///< that it belongs to
    };

    void Schedule(SimTime time, Action action, bool helps);
    /** All things that a failure may mean; one if it names it, none if the fabric has no such thing. @p nics as for Check() */
    [[nodiscard]] static std::vector<Target> Targets(const FailureSpec& spec,
                                                     const Fabric& fabric,
                                                     std::uint32_t nics);
    [[nodiscard]] static std::vector<Target> LinkTargets(const FailureSpec& spec,
                                                         const Fabric& fabric);
    [[nodiscard]] static std::vector<Target> NicTargets(const FailureSpec& spec,
                                                        const Fabric& fabric,
                                                        std::uint32_t nics);
    /** Something that the event of the plan numbered @p source breaks. */
    Incident& NewIncident(std::size_t source);
    void TurnOff(const Target& target);
    void TurnOn(const Target& target);
    void SetKnown(const Target& target, bool broken);
    [[nodiscard]] static Target CableTarget(const Topology& topology,
                                            const std::vector<LinkId>& links);
    void DrawNext(std::size_t source);
    void Fail(std::size_t index);
    void Detect(std::size_t index, std::uint32_t outage);
    void Return(std::size_t index);
    void CheckHope(const Incident& last);
    /** Which servers have no way to each other though messages wait for one; "" = none. */
    [[nodiscard]] std::string NoWay() const;

    const FailurePlan& m_plan;
    LiveFabric& m_live;
    NicFailures* m_nics;
    std::vector<std::vector<Target>> m_targets; ///< by event of the plan
    std::vector<ServerId> m_placement;
    std::uint32_t m_client;
    std::vector<Action> m_actions;
    std::vector<Incident> m_incidents;
    std::vector<FailureReport> m_idle;        ///< failures that do not apply
    std::vector<Rng> m_random;                ///< by event of the plan
    std::vector<std::uint32_t> m_drawn;       ///< by event of the plan
    std::vector<std::uint32_t> m_downs;       ///< by link: failures it suffers from
    std::vector<std::uint32_t> m_knowns;      ///< by link: of these, detected
    std::vector<std::uint32_t> m_serverDowns; ///< by server, where circuits change
    std::uint32_t m_spares;
    SimTime m_robotFree = 0;
    std::uint32_t m_hopes = 0; ///< returns of light to come
    std::vector<std::string> m_verdict;
};

} // namespace topoopt

#endif // TOPOOPT_FAILURE_INJECTOR_H
