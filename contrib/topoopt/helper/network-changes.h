// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_NETWORK_CHANGES_H
#define TOPOOPT_NETWORK_CHANGES_H

#include "ns3/fabric-run.h"
#include "ns3/failure-injector.h"
#include "ns3/live-fabric.h"
#include "ns3/packet-network.h"
#include "ns3/reconfigurator.h"

#include <memory>
#include <string>
#include <vector>

namespace topoopt
{

/** Whether circuits of a fabric can be changed: it has no switches. A scenario's policy for all fabrics passes others by. */
[[nodiscard]] bool CanReconfigure(const Fabric& fabric);

/**
 * What the scenario wants to change or to fail on a fabric, for `topoopt check`: one line each, nothing if nothing.
 * @param collectives of an iteration
 * @throws SpecError if it cannot be
 */
[[nodiscard]] std::vector<std::string> CheckChanges(const Scenario& scenario,
                                                    const FabricSpec& spec,
                                                    const Fabric& fabric,
                                                    std::size_t collectives);

/** What changes the network during a run, if anything does. */
class NetworkChanges
{
  public:
    NetworkChanges(const Scenario& scenario,
                   const std::vector<ServerId>& placement,
                   const Fabric& fabric,
                   const RunOptions& options,
                   PacketNetwork& network);

    /** The fabric as it is, which is the given one if nothing changes. */
    [[nodiscard]] const Fabric& Now() const
    {
        return m_live != nullptr ? m_live->Now() : m_fabric;
    }

    /** Null: nothing changes. */
    [[nodiscard]] LiveFabric* Live() const
    {
        return m_live.get();
    }

    [[nodiscard]] Reconfigurator* Optics() const
    {
        return m_optics.get();
    }

    [[nodiscard]] FailureInjector* Failures() const
    {
        return m_failures.get();
    }

    /** What an incomplete run lacks, at most @p limit lines on dark links. */
    [[nodiscard]] std::vector<std::string> Lacks(std::size_t limit) const;
    /** Of every link; empty if nothing changes. */
    [[nodiscard]] std::vector<LinkOutage> Outages() const;
    void Summarise(RunSummary& summary) const;

  private:
    const Fabric& m_fabric;
    std::string m_policy;
    std::unique_ptr<LiveFabric> m_live;
    std::unique_ptr<Reconfigurator> m_optics;
    std::unique_ptr<FailureInjector> m_failures;
};

} // namespace topoopt

#endif // TOPOOPT_NETWORK_CHANGES_H
