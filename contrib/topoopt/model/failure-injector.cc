// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/failure-injector.h"

#include "topoopt/core/error.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace topoopt
{

FailureInjector::FailureInjector(const FailurePlan& plan,
                                 LiveFabric& live,
                                 std::vector<ServerId> placement,
                                 std::uint64_t seed,
                                 NicFailures* nics)
    : m_plan(plan),
      m_live(live),
      m_nics(nics),
      m_placement(std::move(placement)),
      m_client(live.Register(this)),
      m_drawn(plan.events.size()),
      m_downs(live.Now().topology.links.size()),
      m_knowns(live.Now().topology.links.size()),
      m_serverDowns(live.Now().topology.servers),
      m_spares(plan.sparePorts)
{
    for (std::size_t k = 0; k < plan.events.size(); ++k)
    {
        const FailureSpec& spec = plan.events[k];
        m_random.emplace_back(Mix64(seed, k), "failures");
        m_targets.push_back(Targets(spec, m_live.Now(), nics != nullptr ? nics->Nics() : 0));
        if (spec.mtbf > 0)
        {
            DrawNext(k);
            continue;
        }
        if (m_targets[k].empty())
        {
            FailureReport report;
            report.kind = Name(spec.kind);
            report.what = "this fabric has no such thing";
            report.applies = false;
            m_idle.push_back(report);
            continue;
        }
        NewIncident(k).left = spec.kind == FailureKind::Flap ? spec.count : 1;
        Schedule(spec.at, {Step::Fail, m_incidents.size() - 1, 0}, false);
    }
}

FailureInjector::Incident&
FailureInjector::NewIncident(std::size_t source)
{
    const std::vector<Target>& targets = m_targets[source];
    Incident incident;
    incident.spec = &m_plan.events[source];
    incident.target = targets[targets.size() == 1 ? 0 : m_random[source].Below(targets.size())];
    incident.left = 1;
    m_incidents.push_back(incident);
    return m_incidents.back();
}

std::vector<std::string>
FailureInjector::Check(const FailurePlan& plan, const Fabric& fabric, std::uint32_t nics)
{
    std::vector<std::string> idle;
    for (std::size_t k = 0; k < plan.events.size(); ++k)
    {
        const FailureSpec& spec = plan.events[k];
        if (Targets(spec, fabric, nics).empty())
        {
            idle.push_back("failures." + std::to_string(k) + ": " + Name(spec.kind) +
                           ": this fabric has no such thing");
        }
    }
    return idle;
}

void
FailureInjector::Schedule(SimTime time, Action action, bool helps)
{
    m_actions.push_back(action);
    m_live.At(m_client, time, m_actions.size() - 1, helps);
}

FailureInjector::Target
FailureInjector::CableTarget(const Topology& topology, const std::vector<LinkId>& links)
{
    const Link& link = topology.links[links[0]];
    return {links,
            "link " + topology.names[link.src] + (links.size() == 2 ? " - " : " -> ") +
                topology.names[link.dst],
            kNoId};
}

std::vector<FailureInjector::Target>
FailureInjector::Targets(const FailureSpec& spec, const Fabric& fabric, std::uint32_t nics)
{
    return nics > 0 ? NicTargets(spec, fabric, nics) : LinkTargets(spec, fabric);
}

std::vector<FailureInjector::Target>
FailureInjector::NicTargets(const FailureSpec& spec, const Fabric& fabric, std::uint32_t nics)
{
    const Topology& topology = fabric.topology;
    const auto name = [](ServerId server, std::uint32_t nic) {
        return "nic " + std::to_string(nic) + " of server " + std::to_string(server);
    };
    if (spec.kind == FailureKind::Link || spec.kind == FailureKind::Port)
    {
        std::vector<Target> targets = LinkTargets(spec, fabric);
        for (Target& target : targets)
        {
            const Link& link = topology.links[target.links[0]];
            const bool farEnd = topology.names[link.src] == spec.to;
            const ServerId server = farEnd ? link.dst : link.src;
            const std::uint32_t nic = farEnd ? link.dstPort : link.srcPort;
            target.nics = {{server, nic}};
            target.what += " at " + name(server, nic);
        }
        return targets;
    }
    std::vector<Target> targets;
    const bool any = spec.mtbf > 0;
    if (!any && spec.server >= topology.servers)
    {
        return LinkTargets(spec, fabric); // which complains
    }
    const ServerId first = any ? 0 : spec.server;
    const ServerId last = any ? topology.servers : spec.server + 1;
    for (ServerId server = first; server < last; ++server)
    {
        Target whole{{}, "server " + std::to_string(server), server};
        for (std::uint32_t nic = 0; nic < nics; ++nic)
        {
            whole.nics.emplace_back(server, nic);
            if (spec.kind != FailureKind::Server && (any || nic == spec.nic))
            {
                targets.push_back({{}, name(server, nic), kNoId, {{server, nic}}});
            }
        }
        if (spec.kind == FailureKind::Server)
        {
            targets.push_back(whole);
        }
    }
    return targets;
}

std::vector<FailureInjector::Target>
FailureInjector::LinkTargets(const FailureSpec& spec, const Fabric& fabric)
{
    const Topology& topology = fabric.topology;
    std::vector<std::vector<LinkId>> cables;
    for (LinkId id = 0; id < topology.links.size(); ++id)
    {
        const LinkId reverse = topology.links[id].reverse;
        if (reverse == kNoId)
        {
            cables.push_back({id});
        }
        else if (reverse > id)
        {
            cables.push_back({id, reverse});
        }
    }
    std::vector<Target> targets;
    const auto fail = [&](const std::string& found, const std::string& expected) {
        throw SpecError(spec.place,
                        std::string("failures: ") + Name(spec.kind) + ": found " + found +
                            ", expected " + expected + " on " + fabric.name);
    };
    const bool any = spec.mtbf > 0;
    if (spec.server != kNoId && spec.server >= topology.servers)
    {
        fail("server " + std::to_string(spec.server),
             "a server of 0.." + std::to_string(topology.servers - 1));
    }
    switch (spec.kind)
    {
    case FailureKind::Link:
        if (spec.index != kNoId)
        {
            if (spec.index >= cables.size())
            {
                fail("link " + std::to_string(spec.index),
                     "a cable of 0.." + std::to_string(cables.size() - 1));
            }
            return {CableTarget(topology, cables[spec.index])};
        }
        for (const std::vector<LinkId>& cable : cables)
        {
            const std::string& a = topology.names[topology.links[cable[0]].src];
            const std::string& b = topology.names[topology.links[cable[0]].dst];
            if (spec.from.empty() || (a == spec.from && b == spec.to) ||
                (a == spec.to && b == spec.from))
            {
                targets.push_back(CableTarget(topology, cable));
                if (!spec.from.empty())
                {
                    return targets;
                }
            }
        }
        if (!spec.from.empty())
        {
            // Names of switches differ between fabrics; those of servers do not, but not all are joined.
            return {};
        }
        return targets;
    case FailureKind::Server:
        for (ServerId server = any ? 0 : spec.server;
             server < (any ? topology.servers : spec.server + 1);
             ++server)
        {
            Target target{{}, "server " + std::to_string(server), server};
            for (LinkId id = 0; id < topology.links.size(); ++id)
            {
                if (topology.links[id].src == server || topology.links[id].dst == server)
                {
                    target.links.push_back(id);
                }
            }
            targets.push_back(target);
        }
        return targets;
    case FailureKind::Nic:
    case FailureKind::Flap:
    {
        std::map<std::pair<ServerId, std::uint32_t>, std::vector<LinkId>> nics;
        for (LinkId id = 0; id < topology.links.size(); ++id)
        {
            const Link& link = topology.links[id];
            if (topology.IsServer(link.src))
            {
                nics[{link.src, link.srcPort}].push_back(id);
            }
            if (topology.IsServer(link.dst))
            {
                nics[{link.dst, link.dstPort}].push_back(id);
            }
        }
        for (const auto& [nic, links] : nics)
        {
            if (any || (nic.first == spec.server && nic.second == spec.nic))
            {
                targets.push_back({links,
                                   "nic " + std::to_string(nic.second) + " of server " +
                                       std::to_string(nic.first),
                                   kNoId});
            }
        }
        return targets;
    }
    case FailureKind::Port:
        for (const Circuit& circuit : fabric.circuits)
        {
            for (bool second : {false, true})
            {
                const std::uint32_t port = second ? circuit.portB : circuit.portA;
                if (!any && (circuit.panel != spec.panel || port != spec.port))
                {
                    continue;
                }
                for (const std::vector<LinkId>& cable : cables)
                {
                    const Link& link = topology.links[cable[0]];
                    if (link.src == circuit.serverA && link.srcPort == circuit.nicA &&
                        link.dst == circuit.serverB && link.dstPort == circuit.nicB)
                    {
                        targets.push_back({cable,
                                           "port " + std::to_string(port) + " of panel " +
                                               std::to_string(circuit.panel) + " (" +
                                               CableTarget(topology, cable).what + ")",
                                           kNoId});
                        break;
                    }
                }
            }
        }
        return targets;
    }
    return targets;
}

void
FailureInjector::DrawNext(std::size_t source)
{
    const FailureSpec& spec = m_plan.events[source];
    const std::size_t things = m_targets[source].size();
    if (things == 0 || m_drawn[source] == spec.count)
    {
        return;
    }
    // Exponential, for all things together; never in less than a picosecond.
    const double mean = static_cast<double>(spec.mtbf) / static_cast<double>(things);
    const double wait = -std::log1p(-m_random[source].Uniform()) * mean;
    if (wait < 4e18)
    {
        const SimTime now = m_live.Network().Now();
        Schedule(now + 1 + static_cast<SimTime>(std::min(wait, 4e18 - static_cast<double>(now))),
                 {Step::Random, source, 0},
                 false);
    }
}

void
FailureInjector::ControlDue(std::uint64_t cookie)
{
    const Action action = m_actions[cookie];
    switch (action.step)
    {
    case Step::Random:
    {
        NewIncident(action.index);
        ++m_drawn[action.index];
        Fail(m_incidents.size() - 1);
        DrawNext(action.index);
        break;
    }
    case Step::Fail:
        Fail(action.index);
        break;
    case Step::Detect:
        Detect(action.index, action.outage);
        break;
    case Step::Return:
        --m_hopes;
        Return(action.index);
        break;
    }
}

void
FailureInjector::Fail(std::size_t index)
{
    Incident& incident = m_incidents[index];
    PacketNetwork& network = m_live.Network();
    const SimTime now = network.Now();
    const auto cut = [&network] {
        std::set<std::uint64_t> ids;
        for (const ActiveMessage& active : network.Active())
        {
            if (active.darkLink != kNoId)
            {
                ids.insert(active.record.id);
            }
        }
        return ids;
    };
    const std::set<std::uint64_t> before = cut();
    TurnOff(incident.target);
    // One that has not arrived since an earlier outage of a flapping transceiver is hit once.
    std::uint64_t hit = 0;
    for (std::uint64_t id : cut())
    {
        hit += before.count(id) == 0 && incident.waiting.insert(id).second ? 1 : 0;
    }
    incident.down = true;
    incident.known = false;
    --incident.left;
    ++incident.outages;
    FailureReport& report = incident.report;
    report.kind = Name(incident.spec->kind);
    report.what = incident.target.what;
    report.at = report.at == kNever ? now : report.at;
    report.hit += hit;
    report.recovered = incident.waiting.empty() ? now : kNever;
    Schedule(now + m_plan.detection, {Step::Detect, index, incident.outages}, true);
    if (incident.spec->kind == FailureKind::Flap)
    {
        ++m_hopes;
        Schedule(now + incident.spec->down, {Step::Return, index, 0}, true);
    }
}

void
FailureInjector::TurnOff(const Target& target)
{
    if (m_nics != nullptr)
    {
        if (target.server != kNoId && m_serverDowns[target.server]++ == 0)
        {
            m_live.SetControlState(target.server, LinkState::Down);
        }
        m_nics->NicsFail(target.nics);
        return;
    }
    for (LinkId link : target.links)
    {
        if (m_downs[link]++ == 0)
        {
            m_live.Network().SetLinkState(link, LinkState::Down);
        }
    }
}

void
FailureInjector::TurnOn(const Target& target)
{
    if (m_nics != nullptr)
    {
        m_nics->NicsReturn(target.nics);
        if (target.server != kNoId && --m_serverDowns[target.server] == 0)
        {
            m_live.SetControlState(target.server, LinkState::Up);
        }
        return;
    }
    for (LinkId link : target.links)
    {
        if (--m_downs[link] == 0)
        {
            m_live.Network().SetLinkState(link, LinkState::Up);
        }
    }
}

void
FailureInjector::SetKnown(const Target& target, bool broken)
{
    if (m_nics != nullptr)
    {
        m_nics->NicsKnown(target.nics, broken);
        return;
    }
    for (LinkId link : target.links)
    {
        m_knowns[link] += broken ? 1 : -1;
        m_live.SetUsable(link, m_knowns[link] == 0);
    }
    m_live.Update(false);
}

void
FailureInjector::Detect(std::size_t index, std::uint32_t outage)
{
    Incident& incident = m_incidents[index];
    if (!incident.down || incident.outages != outage)
    {
        return; // it came back before anybody noticed
    }
    const SimTime now = m_live.Network().Now();
    incident.known = true;
    incident.report.detected = std::min(incident.report.detected, now);
    SetKnown(incident.target, true);
    const FailureSpec& spec = *incident.spec;
    const bool panel = !m_live.Now().circuits.empty();
    const bool patchable = spec.kind == FailureKind::Link || spec.kind == FailureKind::Port;
    SimTime back = kNever;
    if (spec.kind == FailureKind::Flap)
    {
        return; // by itself
    }
    if (spec.repair > 0)
    {
        back = spec.repair == kNever ? kNever : now + spec.repair;
    }
    else if (m_plan.patch && panel && patchable && m_spares > 0)
    {
        --m_spares;
        m_robotFree = std::max(m_robotFree, now) + m_plan.moveTime;
        back = m_robotFree;
    }
    else if (!m_plan.patch && m_plan.repair != kNever)
    {
        back = now + m_plan.repair;
    }
    if (back != kNever)
    {
        ++m_hopes;
        Schedule(back, {Step::Return, index, 0}, true);
    }
    CheckHope(incident);
}

void
FailureInjector::Return(std::size_t index)
{
    Incident& incident = m_incidents[index];
    PacketNetwork& network = m_live.Network();
    const SimTime now = network.Now();
    TurnOn(incident.target);
    if (incident.known)
    {
        SetKnown(incident.target, false);
    }
    incident.down = false;
    incident.report.repaired = now;
    if (incident.left > 0)
    {
        Schedule(now + incident.spec->up, {Step::Fail, index, 0}, false);
    }
}

void
FailureInjector::CheckHope(const Incident& last)
{
    if (m_hopes > 0)
    {
        return;
    }
    PacketNetwork& network = m_live.Network();
    if (last.target.server != kNoId)
    {
        std::string ranks;
        for (std::size_t rank = 0; rank < m_placement.size(); ++rank)
        {
            if (m_placement[rank] == last.target.server)
            {
                ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
            }
        }
        if (!ranks.empty())
        {
            m_verdict.push_back("the job cannot go on: " + last.target.what +
                                ", where its rank(s) " + ranks + " run, is down since " +
                                FormatTime(last.report.at));
            network.GiveUp();
            return;
        }
    }
    const std::string noWay = m_nics == nullptr ? NoWay() : "";
    if (!noWay.empty())
    {
        m_verdict.push_back("the job cannot go on: " + noWay + ", and no repair is due");
        network.GiveUp();
    }
}

std::string
FailureInjector::NoWay() const
{
    std::map<std::pair<ServerId, ServerId>, std::uint64_t> cut;
    for (const ActiveMessage& active : m_live.Network().Active())
    {
        const Message& message = active.record.message;
        if (message.route == kParked)
        {
            ++cut[{message.src, message.dst}];
        }
    }
    if (cut.empty())
    {
        return "";
    }
    // If all of them begin or end at one server, it is that one that is cut off.
    const auto& [pair, messages] = *cut.begin();
    for (ServerId server : {pair.first, pair.second})
    {
        std::uint64_t waiting = 0;
        const bool all = std::all_of(cut.begin(), cut.end(), [&](const auto& entry) {
            waiting += entry.second;
            return entry.first.first == server || entry.first.second == server;
        });
        if (all && cut.size() > 1)
        {
            return "server " + std::to_string(server) + " is cut off, " + std::to_string(waiting) +
                   " messages from or to it have no way";
        }
    }
    return "there is no way left from server " + std::to_string(pair.first) + " to server " +
           std::to_string(pair.second) + " for " + std::to_string(messages) + " message(s)" +
           (cut.size() > 1 ? " (and " + std::to_string(cut.size() - 1) + " more pairs of servers)"
                           : "");
}

void
FailureInjector::MessageFinished(const MessageRecord& record)
{
    for (Incident& incident : m_incidents)
    {
        if (!incident.waiting.empty() && incident.waiting.erase(record.id) != 0 &&
            incident.waiting.empty())
        {
            incident.report.recovered = record.end;
        }
    }
}

std::vector<FailureReport>
FailureInjector::Reports() const
{
    std::vector<FailureReport> reports = m_idle;
    for (const Incident& incident : m_incidents)
    {
        if (incident.report.at != kNever)
        {
            reports.push_back(incident.report);
        }
    }
    std::stable_sort(reports.begin() + static_cast<std::ptrdiff_t>(m_idle.size()),
                     reports.end(),
                     [](const FailureReport& a, const FailureReport& b) { return a.at < b.at; });
    return reports;
}

std::vector<std::string>
FailureInjector::Lacks() const
{
    std::vector<std::string> lines = m_verdict;
    const std::string noWay = lines.empty() ? NoWay() : "";
    if (!noWay.empty())
    {
        lines.push_back(noWay);
    }
    for (const Incident& incident : m_incidents)
    {
        if (incident.down)
        {
            lines.push_back(incident.target.what + " is down since " +
                            FormatTime(incident.report.at));
        }
    }
    return lines;
}

} // namespace topoopt
