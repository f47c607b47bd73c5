// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_PEEK_SCHEDULER_H
#define TOPOOPT_PEEK_SCHEDULER_H

#include "ns3/priority-queue-scheduler.h"

#include <cstdint>

namespace ns3
{

/**
 * ns-3's priority-queue scheduler, which also tells when its next event is due.
 *
 * The packet engine runs its own events inside one ns-3 event for as long as none of ns-3's events is
 * due, so it must be able to look at the head of ns-3's queue, which the simulator keeps private.
 */
class PeekScheduler : public PriorityQueueScheduler
{
  public:
    static TypeId GetTypeId();

    PeekScheduler();
    ~PeekScheduler() override;

    /** Makes Simulator use this class from now on; pending events are kept. */
    static void Install();

    /** Time step of ns-3's next event, INT64_MAX if there is none, INT64_MIN if not installed. */
    static int64_t NextTimeStep();

  private:
    static PeekScheduler* g_current; ///< the one that Simulator uses
};

} // namespace ns3

#endif // TOPOOPT_PEEK_SCHEDULER_H
