// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_RECONFIGURATOR_H
#define TOPOOPT_RECONFIGURATOR_H

#include "ns3/change-reports.h"
#include "ns3/live-fabric.h"
#include "ns3/nic-failures.h"
#include "ns3/optical-device.h"
#include "topoopt/core/circuit-plan.h"
#include "topoopt/core/optics-spec.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace topoopt
{

/**
 * Carries out the plans of a policy on the circuits of a fabric without switches.
 *
 * A change: servers hold their data, what is under way arrives (transition drain), the policy sees the backlog and answers a
 * plan, the device changes its circuits, transceivers lock, routes follow, servers go on. Circuits that keep their light carry traffic
 * meanwhile. With transition drop nothing waits and what is on a circuit that goes dark is lost. A period in which no message is
 * under way passes without a change. Plans that change nothing cost nothing but the draining that is needed
 * to ask for them; a scheduled plan is known beforehand and does not even cost that.
 *
 * NICs that fail: the light of every circuit at such a NIC is gone at once. Once it is known, policies see fewer NICs, and what they
 * ask for beyond those stays dark; a plan that was made for once and for all is carried out again with what is left.
 */
class Reconfigurator final : public NetworkController, public CollectiveGate, public NicFailures
{
  public:
    /**
     * @param nics of a server
     * @throws SpecError  the fabric has switches, the light path does not close, a device has too few ports, or the policy
     *         complains
     */
    Reconfigurator(const ReconfigurationSpec& spec,
                   LiveFabric& live,
                   std::uint32_t nics,
                   BitRate rate,
                   std::uint64_t seed);

    /** Told when collectives that were kept back may begin. */
    void SetPassGate(std::function<void()> passGate)
    {
        m_passGate = std::move(passGate);
    }

    [[nodiscard]] const ns3::Ptr<OpticalDevice>& Device() const
    {
        return m_device;
    }

    [[nodiscard]] const ReconfigurationReport& Report() const
    {
        return m_report;
    }

    void ControlDue(std::uint64_t cookie) override;
    [[nodiscard]] bool MayBegin(std::uint32_t collective, std::uint32_t iteration) override;

    [[nodiscard]] std::uint32_t Nics() const override
    {
        return m_nics;
    }

    void NicsFail(const std::vector<NicPort>& nics) override;
    void NicsKnown(const std::vector<NicPort>& nics, bool broken) override;
    void NicsReturn(const std::vector<NicPort>& nics) override;

    /** Makes the device that a specification names. @throws SpecError if the light path does not close */
    [[nodiscard]] static ns3::Ptr<OpticalDevice> MakeDevice(const ReconfigurationSpec& spec,
                                                            std::uint32_t ports);

  private:
    /** A link that may be lit: parallel circuits of a pair in one (bonded), or the index-th of those of one circuit each. */
    struct Group
    {
        ServerId from;
        ServerId to;
        std::uint32_t circuits;
        std::uint32_t index;

        bool operator<(const Group& other) const;
        bool operator==(const Group& other) const;
    };

    /** A circuit between servers, the index-th of its pair. */
    struct ServerCircuit
    {
        ServerId from;
        ServerId to;
        std::uint32_t index;

        bool operator<(const ServerCircuit& other) const;
    };

    struct Ports
    {
        std::uint32_t in;
        std::uint32_t out;
    };

    /** From now on ways and rings are those of the circuits alone. */
    void DropOwnWays();
    void Begin(std::size_t trigger);
    void WaitForDrain();
    void Decide();
    void StartChange(const CircuitPlan& plan);
    void OnStep();
    void End();
    void Hold(bool held);
    void NextPeriod();
    /** Whether what is to come may help messages that do not get on. */
    [[nodiscard]] bool Hopeful() const;
    [[nodiscard]] std::set<Group> GroupsOf(const CircuitPlan& plan) const;
    /** Ports of every circuit of a plan: as before where a circuit stays, else the lowest free ones. */
    [[nodiscard]] std::map<ServerCircuit, Ports> Assign(const CircuitPlan& plan) const;
    [[nodiscard]] PortMap MapOf(const std::map<ServerCircuit, Ports>& circuits) const;
    [[nodiscard]] LinkId LinkOf(const Group& group, const CircuitPlan& plan);
    [[nodiscard]] CircuitPlan Ask(std::size_t trigger, bool& changes);
    /** NICs of each server that work as far as is known. */
    [[nodiscard]] std::vector<std::uint32_t> UsableNics() const;
    /** Whether one of some ports is broken, or known to be. */
    [[nodiscard]] static bool AnyOf(const std::vector<std::uint32_t>& ports,
                                    const std::vector<std::uint32_t>& counts);
    /** Turns the light of a link on: its ports are those of the present plan. */
    void Light(const Group& group, LinkId link);
    /** Carries out a plan that does not come again with the NICs that there are now. */
    void PlanAgain();

    /** Links that change at one time. */
    struct Step
    {
        SimTime at = 0;
        std::vector<LinkId> dark;
        std::vector<std::pair<Group, LinkId>> lit;
    };

    const ReconfigurationSpec m_spec;
    LiveFabric& m_live;
    std::uint32_t m_nics;
    BitRate m_rate;
    std::uint32_t m_client;
    const PolicyKind& m_kind;
    std::unique_ptr<ReconfigurationPolicy> m_policy;
    std::vector<PlanTrigger> m_triggers;
    ns3::Ptr<OpticalDevice> m_device;
    std::function<void()> m_passGate;
    CircuitPlan m_lit;
    std::set<Group> m_groups; ///< of m_lit
    std::map<ServerCircuit, Ports> m_ports;
    std::map<Group, LinkId> m_links;                        ///< that have ever been lit
    std::map<LinkId, std::vector<std::uint32_t>> m_shining; ///< links with light, and their ports
    std::vector<std::uint32_t> m_broken;                    ///< by port: failures it suffers from
    std::vector<std::uint32_t> m_known;                     ///< by port: of these, detected
    bool m_planned = false;                                 ///< a plan has been carried out
    bool m_changing = false;
    bool m_heldNow = false;
    bool m_draining = false; ///< waiting for what is under way
    SimTime m_heldSince = 0;
    SimTime m_changeSince = 0;
    std::size_t m_trigger = 0;                                ///< being carried out
    std::deque<std::size_t> m_queue;                          ///< triggers that came meanwhile
    std::deque<Step> m_steps;                                 ///< of the change under way
    std::set<std::pair<std::size_t, std::uint32_t>> m_passed; ///< trigger, iteration
    std::set<std::size_t> m_gated; ///< triggers that collectives wait for
    SimTime m_lastProgress = 0;
    std::uint32_t m_idleRounds = 0;
    ReconfigurationReport m_report;
};

} // namespace topoopt

#endif // TOPOOPT_RECONFIGURATOR_H
