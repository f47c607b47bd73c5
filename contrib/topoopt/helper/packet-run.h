// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_PACKET_RUN_H
#define TOPOOPT_PACKET_RUN_H

#include "ns3/fabric-run.h"
#include "ns3/packet-network.h"
#include "ns3/run-recorder.h"

#include <cstddef>

namespace topoopt
{

/** Lines at most that say who waits for what. */
inline constexpr std::size_t kWaitingLines = 20;

/** What a scenario says about the packet engine. @throws SpecError for an unknown transport */
[[nodiscard]] PacketNetworkConfig PacketConfigOf(const Scenario& scenario);

/**
 * What network and recorder know at the end of a run on packets, once all unfinished messages have their rows.
 * @param done the job has, or all jobs have, come to their end
 */
void SummarisePackets(const PacketNetwork& network,
                      const RunRecorder& recorder,
                      bool done,
                      const Scenario& scenario,
                      const RunOptions& options,
                      RunSummary& summary);

} // namespace topoopt

#endif // TOPOOPT_PACKET_RUN_H
