// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/flexnet-simulation.h"

#include "ns3/flexnet-engine.h"
#include "ns3/peek-scheduler.h"
#include "ns3/simulator.h"

namespace topoopt
{

FlexNetSimulation::FlexNetSimulation(const FlexNetGraph& graph,
                                     const FlexNetConfig& config,
                                     FlexNetObserver& observer)
    : m_engine(std::make_unique<FlexNetEngine>(graph, config, observer))
{
}

FlexNetSimulation::~FlexNetSimulation() = default;

void
FlexNetSimulation::Start()
{
    m_origin = ns3::Simulator::Now().GetTimeStep();
    ns3::Simulator::ScheduleNow(&FlexNetSimulation::Pump, this);
}

void
FlexNetSimulation::Pump()
{
    // Nothing here schedules ns-3 events, so ns-3's next one is known for the whole of this call. A
    // scheduler that does not tell is met by one ns-3 event per time.
    const SimTime now = ns3::Simulator::Now().GetTimeStep();
    SimTime horizon = ns3::PeekScheduler::NextTimeStep();
    if (horizon == INT64_MIN)
    {
        horizon = now + 1;
    }
    const SimTime next = m_engine->RunTo(horizon == kNever ? kNever : horizon - m_origin);
    if (next != kNever)
    {
        ns3::Simulator::Schedule(ns3::TimeStep(static_cast<std::uint64_t>(next + m_origin - now)),
                                 &FlexNetSimulation::Pump,
                                 this);
    }
}

FlexNetRunResult
FlexNetSimulation::Result() const
{
    return m_engine->Result();
}

FlexNetRunResult
RunFlexNet(const FlexNetGraph& graph, const FlexNetConfig& config, FlexNetObserver& observer)
{
    if (ns3::PeekScheduler::NextTimeStep() == INT64_MIN)
    {
        ns3::PeekScheduler::Install();
    }
    FlexNetSimulation simulation(graph, config, observer);
    simulation.Start();
    ns3::Simulator::Run();
    return simulation.Result();
}

} // namespace topoopt
