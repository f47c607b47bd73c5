// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/network-changes.h"

#include "topoopt/core/error.h"

#include <map>

namespace topoopt
{

bool
CanReconfigure(const Fabric& fabric)
{
    return fabric.router != nullptr && fabric.topology.NodeCount() == fabric.topology.servers;
}

namespace
{

/** Refuses what a policy cannot do on a fabric; else says what it will do. */
std::string
CheckPolicy(const Scenario& scenario,
            const ReconfigurationSpec& optics,
            const Fabric& fabric,
            std::size_t collectives)
{
    const auto refuse = [&](const std::string& found, const std::string& expected) {
        throw SpecError(optics.place,
                        "reconfiguration: found policy " + optics.policy + found + ", expected " +
                            expected);
    };
    if (scenario.workload.kind == WorkloadKind::Jobs)
    {
        refuse(" in a shared cluster", "one job, or static");
    }
    if (!CanReconfigure(fabric) || scenario.engine.compat != "none")
    {
        refuse(" for " + fabric.name, "a fabric of circuits between servers");
    }
    if (scenario.engine.fidelity != "packet")
    {
        refuse(" with fidelity: " + scenario.engine.fidelity, "fidelity: packet");
    }
    CircuitPlan wired;
    wired.duplex = false;
    for (const Link& link : fabric.topology.links)
    {
        wired.circuits.emplace_back(link.src, link.dst);
    }
    const std::uint32_t nics = scenario.servers.nics;
    CheckPlan(wired,
              fabric.topology.servers,
              nics,
              optics.place + ": reconfiguration: the circuits of " + fabric.name);
    // The light path, the ports and the policy's own keys, before anything is simulated.
    const ns3::Ptr<OpticalDevice> device =
        Reconfigurator::MakeDevice(optics, nics * fabric.topology.servers);
    const PolicyKind& kind = FindPolicy(optics.policy, optics.place);
    const auto policy = kind.build({fabric.topology.servers,
                                    nics,
                                    scenario.seed,
                                    optics.forwarding,
                                    optics.options,
                                    optics.place});
    const std::vector<PlanTrigger> triggers = policy->Triggers();
    for (const PlanTrigger& trigger : triggers)
    {
        if (trigger.before != kNoId && trigger.before >= collectives)
        {
            refuse(" that is to change circuits before collective " +
                       std::to_string(trigger.before),
                   collectives == 0
                       ? "a time, as this job has no collectives"
                       : "one of 0.." + std::to_string(collectives - 1) + " of an iteration");
        }
    }
    return optics.policy + " through " + optics.device + " of " + std::to_string(device->Ports()) +
           " ports, " +
           (kind.periodic ? "every " + FormatTime(optics.period)
                          : std::to_string(triggers.size()) + " plan(s)") +
           (optics.device == "ocs" ? ", " + FormatTime(optics.latency) + " without light" : "") +
           (optics.relock > 0 ? " and " + FormatTime(optics.relock) + " to lock" : "") +
           ", servers " + (optics.forwarding ? "pass traffic on" : "wait for a circuit") +
           ", rings: " + (optics.manyRings ? "all" : "one");
}

} // namespace

std::vector<std::string>
CheckChanges(const Scenario& scenario,
             const FabricSpec& spec,
             const Fabric& fabric,
             std::size_t collectives)
{
    std::vector<std::string> lines;
    const ReconfigurationSpec optics = ReconfigurationOf(scenario, spec);
    const bool changes =
        optics.policy != "static" && (HasOwnReconfiguration(spec) || CanReconfigure(fabric));
    if (changes)
    {
        lines.push_back("changes    " + fabric.name + ": " +
                        CheckPolicy(scenario, optics, fabric, collectives));
    }
    else if (!fabric.circuits.empty() &&
             (HasOwnReconfiguration(spec) || !scenario.reconfiguration.empty()))
    {
        // Circuits that stay need a light path that closes, too.
        static_cast<void>(
            Reconfigurator::MakeDevice(optics, scenario.servers.nics * fabric.topology.servers));
    }
    const FailurePlan& failures = scenario.failures;
    if (failures.events.empty())
    {
        return lines;
    }
    const std::vector<std::string> idle =
        FailureInjector::Check(failures, fabric, changes ? scenario.servers.nics : 0);
    lines.push_back("failures   " + fabric.name + ": " +
                    std::to_string(failures.events.size() - idle.size()) + " of " +
                    std::to_string(failures.events.size()) + " event(s), known after " +
                    FormatTime(failures.detection));
    for (const std::string& line : idle)
    {
        lines.push_back("failures   " + fabric.name + ": " + line);
    }
    return lines;
}

NetworkChanges::NetworkChanges(const Scenario& scenario,
                               const std::vector<ServerId>& placement,
                               const Fabric& fabric,
                               const RunOptions& options,
                               PacketNetwork& network)
    : m_fabric(fabric)
{
    ReconfigurationSpec spec;
    for (const FabricSpec& candidate : scenario.fabrics)
    {
        if ((candidate.name.empty() ? candidate.kind : candidate.name) == fabric.name)
        {
            spec = ReconfigurationOf(scenario, candidate);
        }
    }
    const bool optics = spec.policy != "static" && CanReconfigure(fabric);
    const bool failures = options.failures && !scenario.failures.events.empty();
    if (!optics && !failures)
    {
        return;
    }
    m_live = std::make_unique<LiveFabric>(fabric,
                                          network,
                                          scenario.seed,
                                          optics && !spec.forwarding ? LitRouter::Relays::None
                                                                     : LitRouter::Relays::Servers);
    if (optics)
    {
        m_policy = spec.policy;
        m_optics = std::make_unique<Reconfigurator>(
            spec,
            *m_live,
            scenario.servers.nics,
            fabric.topology.links.empty() ? scenario.servers.rate : fabric.topology.links[0].rate,
            scenario.seed);
    }
    if (failures)
    {
        m_failures = std::make_unique<FailureInjector>(scenario.failures,
                                                       *m_live,
                                                       placement,
                                                       scenario.seed,
                                                       m_optics.get());
    }
}

std::vector<std::string>
NetworkChanges::Lacks(std::size_t limit) const
{
    std::vector<std::string> lines;
    if (m_failures != nullptr)
    {
        lines = m_failures->Lacks();
    }
    if (m_live == nullptr)
    {
        return lines;
    }
    std::map<LinkId, std::uint64_t> dark;
    for (const ActiveMessage& active : m_live->Network().Active())
    {
        dark[active.darkLink] += active.darkLink != kNoId ? 1 : 0;
    }
    const Topology& topology = m_live->Now().topology;
    for (const auto& [link, messages] : dark)
    {
        if (link != kNoId && lines.size() < limit)
        {
            const LinkOutage outage = m_live->Network().Outage(link);
            lines.push_back("link " + topology.names[topology.links[link].src] + " -> " +
                            topology.names[topology.links[link].dst] + " has been " +
                            (outage.state == LinkState::Dark ? "dark" : "down") + " since " +
                            FormatTime(outage.since) + "; " + std::to_string(messages) +
                            " message(s) are to take it");
        }
    }
    return lines;
}

std::vector<LinkOutage>
NetworkChanges::Outages() const
{
    std::vector<LinkOutage> outages;
    const std::size_t links = m_live != nullptr ? m_live->Now().topology.links.size() : 0;
    for (LinkId link = 0; link < links; ++link)
    {
        outages.push_back(m_live->Network().Outage(link));
    }
    return outages;
}

void
NetworkChanges::Summarise(RunSummary& summary) const
{
    summary.changed = m_live != nullptr;
    summary.policy = m_policy;
    if (m_live != nullptr)
    {
        const NetworkTotals totals = m_live->Network().Totals();
        summary.lostDark = totals.lostDark;
        summary.lostDown = totals.lostDown;
    }
    if (m_optics != nullptr)
    {
        summary.reconfiguration = m_optics->Report();
    }
    if (m_failures != nullptr)
    {
        summary.failures = m_failures->Reports();
    }
}

} // namespace topoopt
