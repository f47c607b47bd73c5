// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/optical-device.h"

#include "ns3/boolean.h"
#include "ns3/double.h"
#include "ns3/trace-source-accessor.h"
#include "ns3/uinteger.h"
#include "topoopt/core/error.h"

#include <algorithm>
#include <cstdio>
#include <tuple>

namespace topoopt
{

NS_OBJECT_ENSURE_REGISTERED(OpticalDevice);
NS_OBJECT_ENSURE_REGISTERED(PatchPanel);
NS_OBJECT_ENSURE_REGISTERED(OpticalCircuitSwitch);
NS_OBJECT_ENSURE_REGISTERED(OneByTwoSwitch);

PortMap::PortMap(std::uint32_t ports)
    : m_to(ports, kNoId),
      m_from(ports, kNoId)
{
}

void
PortMap::Connect(std::uint32_t in, std::uint32_t out)
{
    const auto refuse = [&](const std::string& why) {
        throw SpecError("port " + std::to_string(in) + " to port " + std::to_string(out),
                        "found " + why + ", expected a partial permutation of " +
                            std::to_string(Ports()) + " ports");
    };
    if (in >= Ports() || out >= Ports())
    {
        refuse("a port that does not exist");
    }
    if (m_to[in] != kNoId)
    {
        refuse("a second circuit from the first");
    }
    if (m_from[out] != kNoId)
    {
        refuse("a second circuit to the second");
    }
    m_to[in] = out;
    m_from[out] = in;
}

std::vector<std::pair<std::uint32_t, std::uint32_t>>
PortMap::Circuits() const
{
    std::vector<std::pair<std::uint32_t, std::uint32_t>> circuits;
    for (std::uint32_t in = 0; in < Ports(); ++in)
    {
        if (m_to[in] != kNoId)
        {
            circuits.emplace_back(in, m_to[in]);
        }
    }
    return circuits;
}

ns3::TypeId
OpticalDevice::GetTypeId()
{
    static ns3::TypeId tid =
        ns3::TypeId("topoopt::OpticalDevice")
            .SetParent<ns3::Object>()
            .SetGroupName("TopoOpt")
            .AddAttribute("Ports",
                          "Ports on either side.",
                          ns3::UintegerValue(1008),
                          ns3::MakeUintegerAccessor(&OpticalDevice::m_ports),
                          ns3::MakeUintegerChecker<std::uint32_t>(2, 1U << 20))
            .AddAttribute("InsertionLoss",
                          "Loss of light once through, dB.",
                          ns3::DoubleValue(0.5),
                          ns3::MakeDoubleAccessor(&OpticalDevice::m_lossDb),
                          ns3::MakeDoubleChecker<double>(0, 100))
            .AddTraceSource("Reconfigured",
                            "Circuits are being changed: how many, and how long it takes.",
                            ns3::MakeTraceSourceAccessor(&OpticalDevice::m_reconfigured),
                            "topoopt::OpticalDevice::ReconfiguredTrace");
    return tid;
}

std::vector<CircuitChange>
OpticalDevice::Change(const PortMap& now, const PortMap& next) const
{
    if (std::max(now.Ports(), next.Ports()) > m_ports)
    {
        throw SpecError(GetInstanceTypeId().GetName(),
                        "found circuits between " + std::to_string(next.Ports()) +
                            " ports, expected at most its " + std::to_string(m_ports));
    }
    std::vector<CircuitChange> changes;
    if (now.Circuits() != next.Circuits())
    {
        Schedule(now, next, changes);
    }
    std::sort(changes.begin(), changes.end(), [](const CircuitChange& a, const CircuitChange& b) {
        return std::tie(a.after, a.light, a.in) < std::tie(b.after, b.light, b.in);
    });
    std::uint32_t lit = 0;
    for (const CircuitChange& change : changes)
    {
        lit += change.light ? 1 : 0;
    }
    m_reconfigured(lit, ns3::TimeStep(changes.empty() ? 0 : changes.back().after));
    return changes;
}

ns3::TypeId
PatchPanel::GetTypeId()
{
    static ns3::TypeId tid = ns3::TypeId("topoopt::PatchPanel")
                                 .SetParent<OpticalDevice>()
                                 .SetGroupName("TopoOpt")
                                 .AddConstructor<PatchPanel>()
                                 .AddAttribute("MoveTime",
                                               "Time in which the robot plugs one circuit.",
                                               ns3::TimeValue(ns3::Seconds(60)),
                                               ns3::MakeTimeAccessor(&PatchPanel::m_moveTime),
                                               ns3::MakeTimeChecker(ns3::Seconds(0)));
    return tid;
}

void
PatchPanel::Schedule(const PortMap& now,
                     const PortMap& next,
                     std::vector<CircuitChange>& changes) const
{
    std::vector<bool> unplugged(now.Ports());
    const auto unplug = [&](std::uint32_t in, SimTime after) {
        if (in != kNoId && now.To(in) != kNoId && !unplugged[in])
        {
            unplugged[in] = true;
            changes.push_back({in, now.To(in), false, after});
        }
    };
    // What nobody needs any more is pulled on the way, without a move of its own.
    for (const auto& [in, out] : now.Circuits())
    {
        if (next.To(in) == kNoId && next.From(out) == kNoId)
        {
            unplug(in, 0);
        }
    }
    SimTime at = 0;
    std::vector<bool> done(next.Ports());
    for (const auto& [in, out] : next.Circuits())
    {
        if (now.To(in) == out || done[in])
        {
            continue;
        }
        // A fibre pair has both directions: if the way back is in the plan, too, it is the same move.
        const bool both = next.To(out) == in && now.To(out) != in;
        unplug(in, at);
        unplug(now.From(out), at);
        changes.push_back({in, out, true, at + MoveTime()});
        if (both)
        {
            unplug(out, at);
            unplug(now.From(in), at);
            done[out] = true;
            changes.push_back({out, in, true, at + MoveTime()});
        }
        at += MoveTime();
    }
}

ns3::TypeId
OpticalCircuitSwitch::GetTypeId()
{
    static ns3::TypeId tid =
        ns3::TypeId("topoopt::OpticalCircuitSwitch")
            .SetParent<OpticalDevice>()
            .SetGroupName("TopoOpt")
            .AddConstructor<OpticalCircuitSwitch>()
            .AddAttribute("ReconfigDelay",
                          "Time without light.",
                          ns3::TimeValue(ns3::MilliSeconds(10)),
                          ns3::MakeTimeAccessor(&OpticalCircuitSwitch::m_delay),
                          ns3::MakeTimeChecker(ns3::Seconds(0)))
            .AddAttribute("Whole",
                          "Whether circuits that stay lose their light as well.",
                          ns3::BooleanValue(true),
                          ns3::MakeBooleanAccessor(&OpticalCircuitSwitch::m_whole),
                          ns3::MakeBooleanChecker());
    return tid;
}

void
OpticalCircuitSwitch::Schedule(const PortMap& now,
                               const PortMap& next,
                               std::vector<CircuitChange>& changes) const
{
    for (const auto& [in, out] : now.Circuits())
    {
        if (m_whole || next.To(in) != out)
        {
            changes.push_back({in, out, false, 0});
        }
    }
    for (const auto& [in, out] : next.Circuits())
    {
        if (m_whole || now.To(in) != out)
        {
            changes.push_back({in, out, true, m_delay.GetTimeStep()});
        }
    }
}

ns3::TypeId
OneByTwoSwitch::GetTypeId()
{
    static ns3::TypeId tid =
        ns3::TypeId("topoopt::OneByTwoSwitch")
            .SetParent<OpticalDevice>()
            .SetGroupName("TopoOpt")
            .AddConstructor<OneByTwoSwitch>()
            .AddAttribute("MoveTime",
                          "Time in which the robot plugs one circuit of the idle panel.",
                          ns3::TimeValue(ns3::Seconds(60)),
                          ns3::MakeTimeAccessor(&OneByTwoSwitch::m_moveTime),
                          ns3::MakeTimeChecker(ns3::Seconds(0)))
            .AddAttribute("FlipTime",
                          "Time without light while the switches flip.",
                          ns3::TimeValue(ns3::MilliSeconds(10)),
                          ns3::MakeTimeAccessor(&OneByTwoSwitch::m_flipTime),
                          ns3::MakeTimeChecker(ns3::Seconds(0)))
            .AddAttribute("SwitchLoss",
                          "Loss of light once through a 1x2 switch, dB.",
                          ns3::DoubleValue(0.7),
                          ns3::MakeDoubleAccessor(&OneByTwoSwitch::m_switchLossDb),
                          ns3::MakeDoubleChecker<double>(0, 100));
    return tid;
}

void
OneByTwoSwitch::Schedule(const PortMap& now,
                         const PortMap& next,
                         std::vector<CircuitChange>& changes) const
{
    SimTime patched = 0;
    for (const auto& [in, out] : next.Circuits())
    {
        // Both directions of a fibre pair are one move.
        patched += next.To(out) == in && out < in ? 0 : m_moveTime.GetTimeStep();
    }
    for (const auto& [in, out] : now.Circuits())
    {
        changes.push_back({in, out, false, patched});
    }
    for (const auto& [in, out] : next.Circuits())
    {
        changes.push_back({in, out, true, patched + m_flipTime.GetTimeStep()});
    }
}

const std::vector<DeviceKind>&
DeviceKinds()
{
    static const std::vector<DeviceKind> table{
        {"look-ahead",
         "two patch panels and 1x2 switches: the idle panel is patched first, then all flip "
         "(flip_time)",
         "topoopt::OneByTwoSwitch"},
        {"ocs",
         "optical circuit switch: all at once (latency), whole or only the ports that change",
         "topoopt::OpticalCircuitSwitch"},
        {"patch-panel",
         "robot that plugs one circuit after the other (move_time each)",
         "topoopt::PatchPanel"},
    };
    return table;
}

double
CheckLightPath(const OpticalDevice& device, const LightPath& path, const std::string& place)
{
    const double connectors = (device.Connectors() + 2) * path.connectorDb;
    const double fibre = path.km * path.fibreDbPerKm;
    const double loss = device.LossDb() + connectors + fibre;
    if (loss > path.budgetDb)
    {
        char text[200];
        std::snprintf(text,
                      sizeof text,
                      "found a loss of %.2f dB (device %.2f, connectors %.2f, fibre %.2f), "
                      "expected at most the "
                      "%.2f dB that the transceivers bridge",
                      loss,
                      device.LossDb(),
                      connectors,
                      fibre,
                      path.budgetDb);
        throw SpecError(place, text);
    }
    return loss;
}

} // namespace topoopt
