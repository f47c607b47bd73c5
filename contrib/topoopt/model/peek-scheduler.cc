// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/peek-scheduler.h"

#include "ns3/object-factory.h"
#include "ns3/simulator.h"

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(PeekScheduler);

PeekScheduler* PeekScheduler::g_current = nullptr;

TypeId
PeekScheduler::GetTypeId()
{
    static TypeId tid = TypeId("ns3::PeekScheduler")
                            .SetParent<PriorityQueueScheduler>()
                            .SetGroupName("TopoOpt")
                            .AddConstructor<PeekScheduler>();
    return tid;
}

PeekScheduler::PeekScheduler()
{
    g_current = this;
}

PeekScheduler::~PeekScheduler()
{
    if (g_current == this)
    {
        g_current = nullptr;
    }
}

void
PeekScheduler::Install()
{
    ObjectFactory factory;
    factory.SetTypeId(GetTypeId());
    Simulator::SetScheduler(factory);
}

int64_t
PeekScheduler::NextTimeStep()
{
    if (g_current == nullptr)
    {
        return INT64_MIN;
    }
    return g_current->IsEmpty() ? INT64_MAX : static_cast<int64_t>(g_current->PeekNext().key.m_ts);
}

} // namespace ns3
