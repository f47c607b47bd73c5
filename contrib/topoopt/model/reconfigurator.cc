// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/reconfigurator.h"

#include "ns3/boolean.h"
#include "ns3/double.h"
#include "ns3/object-factory.h"
#include "ns3/uinteger.h"
#include "topoopt/core/error.h"

#include <algorithm>
#include <tuple>

namespace topoopt
{

namespace
{

enum Cookie : std::uint64_t
{
    kTick = 0, ///< of a periodic policy
    kDrained = 1,
    kStep = 2,
    kTrigger = 3 ///< and above: triggers
};

/** With nothing arriving for so many periods, another one will not help either. */
constexpr std::uint32_t kHopefulRounds = 16;
/** In place of a trigger: the last one again. */
constexpr std::size_t kAgain = SIZE_MAX;
/** Rate of the network beside the circuits, where acknowledgements have no circuit back. */
constexpr BitRate kControlRate{10'000'000'000};

} // namespace

bool
Reconfigurator::Group::operator<(const Group& other) const
{
    return std::tie(from, to, circuits, index) <
           std::tie(other.from, other.to, other.circuits, other.index);
}

bool
Reconfigurator::Group::operator==(const Group& other) const
{
    return !(*this < other) && !(other < *this);
}

bool
Reconfigurator::ServerCircuit::operator<(const ServerCircuit& other) const
{
    return std::tie(from, to, index) < std::tie(other.from, other.to, other.index);
}

ns3::Ptr<OpticalDevice>
Reconfigurator::MakeDevice(const ReconfigurationSpec& spec, std::uint32_t ports)
{
    const auto kind =
        std::find_if(DeviceKinds().begin(), DeviceKinds().end(), [&](const DeviceKind& candidate) {
            return spec.device == candidate.name;
        });
    ns3::ObjectFactory factory;
    factory.SetTypeId(kind->typeId);
    const ns3::Ptr<OpticalDevice> device = factory.Create<OpticalDevice>();
    device->SetAttribute("Ports",
                         ns3::UintegerValue(std::max(2U, spec.ports != 0 ? spec.ports : ports)));
    if (spec.insertionLoss >= 0)
    {
        device->SetAttribute("InsertionLoss", ns3::DoubleValue(spec.insertionLoss));
    }
    else if (spec.device == "ocs")
    {
        device->SetAttribute("InsertionLoss", ns3::DoubleValue(1.5));
    }
    // Devices that have no such attribute ignore it.
    const auto time = [](SimTime t) {
        return ns3::TimeValue(ns3::TimeStep(static_cast<std::uint64_t>(t)));
    };
    device->SetAttributeFailSafe("ReconfigDelay", time(spec.latency));
    device->SetAttributeFailSafe("Whole", ns3::BooleanValue(spec.whole));
    device->SetAttributeFailSafe("MoveTime", time(spec.moveTime));
    device->SetAttributeFailSafe("FlipTime", time(spec.flipTime));
    LightPath path;
    path.budgetDb = spec.linkBudget;
    path.km = spec.fibreKm;
    static_cast<void>(CheckLightPath(*device, path, spec.place + ": reconfiguration"));
    if (ports > device->Ports())
    {
        throw SpecError(spec.place,
                        "reconfiguration.ports: found " + std::to_string(device->Ports()) +
                            ", expected at least the " + std::to_string(ports) +
                            " ports of all NICs");
    }
    return device;
}

Reconfigurator::Reconfigurator(const ReconfigurationSpec& spec,
                               LiveFabric& live,
                               std::uint32_t nics,
                               BitRate rate,
                               std::uint64_t seed)
    : m_spec(spec),
      m_live(live),
      m_nics(nics),
      m_rate(rate),
      m_client(live.Register(this)),
      m_kind(FindPolicy(spec.policy, spec.place))
{
    const Topology& topology = live.Now().topology;
    if (topology.NodeCount() != topology.servers)
    {
        throw SpecError(spec.place,
                        "reconfiguration: found it on " + live.Now().name +
                            ", which has switches, expected a fabric of circuits between servers");
    }
    m_device = MakeDevice(spec, topology.servers * nics);
    m_policy =
        m_kind.build({topology.servers, nics, seed, spec.forwarding, spec.options, spec.place});
    m_broken.resize(std::size_t{topology.servers} * nics);
    m_known.resize(m_broken.size());
    m_triggers = m_policy->Triggers();
    // What is lit at first: every link of the fabric is a circuit.
    m_lit.duplex = false;
    std::map<std::pair<ServerId, ServerId>, std::uint32_t> parallel;
    for (LinkId id = 0; id < topology.links.size(); ++id)
    {
        const Link& link = topology.links[id];
        m_lit.circuits.emplace_back(link.src, link.dst);
        const std::uint32_t index = parallel[{link.src, link.dst}]++;
        const Group group{link.src, link.dst, 1, index};
        m_groups.insert(group);
        m_links[group] = id;
        const Ports ports{link.src * nics + link.srcPort, link.dst * nics + link.dstPort};
        m_ports[{link.src, link.dst, index}] = ports;
        m_shining[id] = {ports.in, ports.out};
    }
    CheckPlan(m_lit, topology.servers, nics, spec.place + ": circuits of " + live.Now().name);
    static_cast<void>(MapOf(m_ports)); // a partial permutation
    if (!spec.forwarding)
    {
        DropOwnWays();
        live.AddControlNetwork(kControlRate,
                               topology.links.empty() ? kMicrosecond : topology.links[0].delay);
    }
    if (m_kind.periodic)
    {
        live.At(m_client, spec.first, kTick, true);
    }
    for (std::size_t k = 0; k < m_triggers.size(); ++k)
    {
        if (m_triggers[k].at != kNever)
        {
            live.At(m_client, m_triggers[k].at, kTrigger + k, true);
        }
    }
}

void
Reconfigurator::ControlDue(std::uint64_t cookie)
{
    switch (cookie)
    {
    case kTick:
        if (!m_live.Network().AnyActive())
        {
            NextPeriod();
            return;
        }
        Begin(0);
        return;
    case kDrained:
        if (m_draining)
        {
            WaitForDrain();
        }
        return;
    case kStep:
        OnStep();
        return;
    default:
        Begin(static_cast<std::size_t>(cookie - kTrigger));
    }
}

bool
Reconfigurator::MayBegin(std::uint32_t collective, std::uint32_t iteration)
{
    bool may = true;
    for (std::size_t k = 0; k < m_triggers.size(); ++k)
    {
        if (m_triggers[k].before != collective)
        {
            continue;
        }
        if (m_passed.insert({k, iteration}).second)
        {
            m_gated.insert(k);
            m_live.Network().Expect(true);
            m_live.At(m_client, m_live.Network().Now(), kTrigger + k, true);
        }
        may = may && m_gated.count(k) == 0;
    }
    return may;
}

void
Reconfigurator::Hold(bool held)
{
    if (held == m_heldNow)
    {
        return;
    }
    const SimTime now = m_live.Network().Now();
    m_report.held += held ? 0 : now - m_heldSince;
    m_heldSince = now;
    m_heldNow = held;
    m_live.Network().HoldSources(held);
}

void
Reconfigurator::Begin(std::size_t trigger)
{
    if (m_changing)
    {
        m_queue.push_back(trigger);
        return;
    }
    m_changing = true;
    m_trigger = trigger == kAgain ? m_trigger : trigger;
    m_planned = true;
    if (!m_kind.periodic)
    {
        // The plan does not depend on what is under way: if it changes nothing, nothing need stop for it.
        bool changes = false;
        static_cast<void>(Ask(m_trigger, changes));
        if (!changes)
        {
            End();
            return;
        }
    }
    else if (m_spec.drain)
    {
        Hold(true);
        WaitForDrain();
        return;
    }
    Decide();
}

void
Reconfigurator::WaitForDrain()
{
    PacketNetwork& network = m_live.Network();
    const SimTime busy = network.BusyUntil();
    m_draining = busy > network.Now();
    if (m_draining)
    {
        m_live.At(m_client, busy, kDrained, Hopeful());
        return;
    }
    if (m_steps.empty())
    {
        Decide();
        return;
    }
    // The device has waited for it.
    const SimTime late = network.Now() - m_steps.front().at;
    for (Step& step : m_steps)
    {
        step.at += late;
    }
    OnStep();
}

CircuitPlan
Reconfigurator::Ask(std::size_t trigger, bool& changes)
{
    PlanView view;
    view.now = m_live.Network().Now();
    view.servers = m_live.Now().topology.servers;
    view.degree = m_nics;
    view.nics = UsableNics();
    view.backlog.resize(std::size_t{view.servers} * view.servers);
    view.lit = &m_lit;
    view.trigger = trigger;
    for (const ActiveMessage& active : m_live.Network().Active())
    {
        const Message& message = active.record.message;
        // A message that only synchronises needs a way, too.
        view.backlog[std::size_t{message.src} * view.servers + message.dst] +=
            static_cast<double>(std::max<Bytes>(1, active.unacknowledged));
    }
    ++m_report.asked;
    const std::optional<CircuitPlan> plan = m_policy->Next(view);
    if (!plan)
    {
        changes = false;
        return m_lit;
    }
    CheckPlan(*plan, view.servers, m_nics, m_spec.place + ": a plan of " + m_kind.name);
    CircuitPlan within = WithinNics(*plan, view.nics);
    changes = GroupsOf(within) != m_groups ||
              std::any_of(m_ports.begin(), m_ports.end(), [this](const auto& circuit) {
                  return AnyOf({circuit.second.in, circuit.second.out}, m_known);
              });
    return within;
}

std::vector<std::uint32_t>
Reconfigurator::UsableNics() const
{
    std::vector<std::uint32_t> nics(m_known.size() / m_nics);
    for (std::size_t port = 0; port < m_known.size(); ++port)
    {
        nics[port / m_nics] += m_known[port] == 0 ? 1 : 0;
    }
    return nics;
}

bool
Reconfigurator::AnyOf(const std::vector<std::uint32_t>& ports,
                      const std::vector<std::uint32_t>& counts)
{
    return std::any_of(ports.begin(), ports.end(), [&counts](std::uint32_t port) {
        return counts[port] > 0;
    });
}

void
Reconfigurator::NicsFail(const std::vector<NicPort>& nics)
{
    for (const auto& [server, nic] : nics)
    {
        const std::uint32_t port = server * m_nics + nic;
        if (m_broken[port]++ > 0)
        {
            continue;
        }
        for (const auto& [link, ports] : m_shining)
        {
            if (std::find(ports.begin(), ports.end(), port) != ports.end())
            {
                m_live.Network().SetLinkState(link, LinkState::Down);
            }
        }
    }
    if (m_draining)
    {
        WaitForDrain(); // what was waited for may be lost
    }
}

void
Reconfigurator::NicsReturn(const std::vector<NicPort>& nics)
{
    for (const auto& [server, nic] : nics)
    {
        --m_broken[server * m_nics + nic];
    }
    for (const auto& [link, ports] : m_shining)
    {
        if (!AnyOf(ports, m_broken))
        {
            m_live.Network().SetLinkState(link, LinkState::Up);
        }
    }
}

void
Reconfigurator::NicsKnown(const std::vector<NicPort>& nics, bool broken)
{
    for (const auto& [server, nic] : nics)
    {
        m_known[server * m_nics + nic] += broken ? 1 : -1;
    }
    for (const auto& [link, ports] : m_shining)
    {
        m_live.SetUsable(link, !AnyOf(ports, m_known));
    }
    m_live.Update(false);
    PlanAgain();
}

void
Reconfigurator::PlanAgain()
{
    // A periodic policy sees it when its time comes; before the first plan there are only the fabric's own circuits.
    if (!m_kind.periodic && m_planned)
    {
        Begin(kAgain);
    }
}

void
Reconfigurator::Decide()
{
    bool changes = false;
    const CircuitPlan plan = Ask(m_trigger, changes);
    if (!changes)
    {
        End();
        return;
    }
    ++m_report.changes;
    m_changeSince = m_live.Network().Now();
    StartChange(plan);
}

std::set<Reconfigurator::Group>
Reconfigurator::GroupsOf(const CircuitPlan& plan) const
{
    std::set<Group> groups;
    std::map<std::pair<ServerId, ServerId>, std::uint32_t> counts;
    for (const auto& circuit : DirectedOf(plan))
    {
        ++counts[circuit];
    }
    for (const auto& [pair, count] : counts)
    {
        if (m_spec.bond)
        {
            groups.insert({pair.first, pair.second, count, 0});
            continue;
        }
        for (std::uint32_t index = 0; index < count; ++index)
        {
            groups.insert({pair.first, pair.second, 1, index});
        }
    }
    return groups;
}

std::map<Reconfigurator::ServerCircuit, Reconfigurator::Ports>
Reconfigurator::Assign(const CircuitPlan& plan) const
{
    std::vector<bool> sends(m_known.size());
    std::vector<bool> receives(m_known.size());
    for (std::size_t port = 0; port < m_known.size(); ++port)
    {
        sends[port] = receives[port] = m_known[port] > 0; // in use by nobody, but not free
    }
    std::map<ServerCircuit, Ports> assigned;
    std::vector<ServerCircuit> fresh;
    std::map<std::pair<ServerId, ServerId>, std::uint32_t> counts;
    for (const auto& circuit : DirectedOf(plan))
    {
        const ServerCircuit key{circuit.first, circuit.second, counts[circuit]++};
        const auto before = m_ports.find(key);
        if (before == m_ports.end() || AnyOf({before->second.in, before->second.out}, m_known))
        {
            fresh.push_back(key);
            continue;
        }
        assigned.insert(*before);
        sends[before->second.in] = true;
        receives[before->second.out] = true;
    }
    const auto free =
        [this](ServerId server, const std::vector<bool>& a, const std::vector<bool>& b) {
            for (std::uint32_t nic = 0; nic < m_nics; ++nic)
            {
                if (!a[server * m_nics + nic] && !b[server * m_nics + nic])
                {
                    return server * m_nics + nic;
                }
            }
            return kNoId;
        };
    for (const ServerCircuit& key : fresh)
    {
        if (assigned.count(key) != 0)
        {
            continue; // as the way back of another one
        }
        const ServerCircuit back{key.to, key.from, key.index};
        const bool duplex =
            plan.duplex &&
            std::find_if(fresh.begin(), fresh.end(), [&](const ServerCircuit& other) {
                return !(other < back) && !(back < other);
            }) != fresh.end();
        std::uint32_t in = duplex ? free(key.from, sends, receives) : kNoId;
        std::uint32_t out = duplex ? free(key.to, sends, receives) : kNoId;
        if (in != kNoId && out != kNoId)
        {
            assigned[back] = {out, in};
            sends[out] = true;
            receives[in] = true;
        }
        else
        {
            in = free(key.from, sends, sends);
            out = free(key.to, receives, receives);
        }
        assigned[key] = {in, out};
        sends[in] = true;
        receives[out] = true;
    }
    return assigned;
}

PortMap
Reconfigurator::MapOf(const std::map<ServerCircuit, Ports>& circuits) const
{
    PortMap map(m_live.Now().topology.servers * m_nics);
    for (const auto& [circuit, ports] : circuits)
    {
        map.Connect(ports.in, ports.out);
    }
    return map;
}

LinkId
Reconfigurator::LinkOf(const Group& group, const CircuitPlan& plan)
{
    const auto known = m_links.find(group);
    if (known != m_links.end())
    {
        return known->second;
    }
    const BitRate rate{m_rate.bps * group.circuits};
    const auto ports = m_ports.find({group.from, group.to, group.index});
    const std::uint32_t nicFrom = ports->second.in % m_nics;
    const std::uint32_t nicTo = ports->second.out % m_nics;
    const Group back{group.to, group.from, group.circuits, group.index};
    if (plan.duplex && m_links.count(back) == 0)
    {
        const LinkId id = m_live.AddDuplexLink(group.from, group.to, rate, nicFrom, nicTo);
        m_links[group] = id;
        m_links[back] = id + 1;
        return id;
    }
    const LinkId id = m_live.AddLink(group.from, group.to, rate, nicFrom, nicTo);
    m_links[group] = id;
    return id;
}

void
Reconfigurator::DropOwnWays()
{
    m_live.DropOwnWays();
    if (m_spec.manyRings)
    {
        m_live.FindRings(m_rate);
    }
}

void
Reconfigurator::StartChange(const CircuitPlan& plan)
{
    DropOwnWays();
    const std::map<ServerCircuit, Ports> before = m_ports;
    const std::set<Group> groupsBefore = m_groups;
    m_ports = Assign(plan);
    m_groups = GroupsOf(plan);
    m_lit = plan;
    // When each port that sends loses its light, and when it has its new circuit.
    std::map<std::uint32_t, SimTime> lost;
    std::map<std::uint32_t, SimTime> got;
    for (const CircuitChange& change : m_device->Change(MapOf(before), MapOf(m_ports)))
    {
        (change.light ? got : lost)[change.in] = change.after + (change.light ? m_spec.relock : 0);
        m_report.circuits += change.light ? 1 : 0;
    }
    const SimTime now = m_live.Network().Now();
    std::map<SimTime, Step> steps;
    // A link goes dark with the first of its circuits, and is lit with the last.
    for (const Group& group : groupsBefore)
    {
        const bool stays = m_groups.count(group) != 0;
        SimTime dark = kNever;
        for (std::uint32_t k = 0; k < group.circuits; ++k)
        {
            const auto at = lost.find(before.at({group.from, group.to, group.index + k}).in);
            dark = at == lost.end() ? dark : std::min(dark, at->second);
        }
        if (stays && dark == kNever)
        {
            continue;
        }
        // A bond that grows gives way when its larger successor is there.
        if (dark == kNever)
        {
            dark = 0;
        }
        steps[now + dark].dark.push_back(m_links.at(group));
    }
    for (const Group& group : m_groups)
    {
        SimTime lit = groupsBefore.count(group) != 0 ? kNever : 0;
        for (std::uint32_t k = 0; k < group.circuits; ++k)
        {
            const auto at = got.find(m_ports.at({group.from, group.to, group.index + k}).in);
            if (at != got.end())
            {
                lit = lit == kNever ? at->second : std::max(lit, at->second);
            }
        }
        if (lit != kNever)
        {
            steps[now + lit].lit.emplace_back(group, LinkOf(group, plan));
        }
    }
    m_steps.clear();
    for (auto& [time, step] : steps)
    {
        step.at = time;
        m_steps.push_back(step);
    }
    OnStep();
}

void
Reconfigurator::OnStep()
{
    PacketNetwork& network = m_live.Network();
    bool changed = false;
    while (!m_steps.empty() && m_steps.front().at <= network.Now())
    {
        if (m_spec.drain && !m_heldNow && !m_steps.front().dark.empty())
        {
            Hold(true);
            WaitForDrain();
            return;
        }
        const Step step = m_steps.front();
        m_steps.pop_front();
        changed = true;
        for (LinkId link : step.dark)
        {
            m_live.SetUsable(link, false);
            network.SetLinkState(link, LinkState::Dark);
            m_shining.erase(link);
        }
        for (const auto& [group, link] : step.lit)
        {
            Light(group, link);
        }
    }
    // While everything is dark and held there is nobody to find ways for.
    const bool wait = !m_steps.empty() && m_heldNow &&
                      (m_spec.device == "look-ahead" || (m_spec.device == "ocs" && m_spec.whole));
    if (changed && !wait)
    {
        m_live.Update(true);
    }
    if (m_steps.empty())
    {
        m_report.changing += network.Now() - m_changeSince;
        End();
        return;
    }
    if (!wait)
    {
        Hold(false);
    }
    m_live.At(m_client, m_steps.front().at, kStep, Hopeful());
}

void
Reconfigurator::Light(const Group& group, LinkId link)
{
    std::vector<std::uint32_t> ports;
    for (std::uint32_t k = 0; k < group.circuits; ++k)
    {
        const Ports& circuit = m_ports.at({group.from, group.to, group.index + k});
        ports.insert(ports.end(), {circuit.in, circuit.out});
    }
    m_live.Network().SetLinkState(link, AnyOf(ports, m_broken) ? LinkState::Down : LinkState::Up);
    m_live.SetUsable(link, !AnyOf(ports, m_known));
    m_shining[link] = std::move(ports);
}

void
Reconfigurator::End()
{
    m_changing = false;
    Hold(false);
    if (m_gated.erase(m_trigger) != 0)
    {
        m_passGate();
        m_live.Network().Expect(false);
    }
    if (m_kind.periodic)
    {
        NextPeriod();
    }
    if (!m_queue.empty() && !m_changing)
    {
        const std::size_t next = m_queue.front();
        m_queue.pop_front();
        Begin(next);
    }
}

bool
Reconfigurator::Hopeful() const
{
    return m_idleRounds < kHopefulRounds;
}

void
Reconfigurator::NextPeriod()
{
    PacketNetwork& network = m_live.Network();
    m_idleRounds = network.LastProgress() == m_lastProgress ? m_idleRounds + 1 : 0;
    m_lastProgress = network.LastProgress();
    m_live.At(m_client, network.Now() + std::max<SimTime>(1, m_spec.period), kTick, Hopeful());
}

} // namespace topoopt
