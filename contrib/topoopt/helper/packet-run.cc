// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/packet-run.h"

namespace topoopt
{

PacketNetworkConfig
PacketConfigOf(const Scenario& scenario)
{
    PacketNetworkConfig config;
    config.mtu = scenario.engine.mtu;
    config.ackEvery = scenario.engine.ackEvery;
    config.buffer = scenario.engine.buffer;
    config.ecn = scenario.engine.ecn;
    config.trains = scenario.engine.trains;
    config.intraRate = scenario.servers.intraRate;
    config.control =
        &FindTransport(scenario.engine.transport, scenario.file + ": engine.transport");
    return config;
}

void
SummarisePackets(const PacketNetwork& network,
                 const RunRecorder& recorder,
                 bool done,
                 const Scenario& scenario,
                 const RunOptions& options,
                 RunSummary& summary)
{
    const NetworkTotals totals = network.Totals();
    summary.complete = done && recorder.unfinished == 0;
    // Stopped before the stop time by nobody: packets go round and round, or nothing is left that could happen.
    const bool interrupted = options.interrupt != nullptr && options.interrupt->load();
    summary.stalled =
        !summary.complete && !interrupted && (network.Stalled() || network.Now() < scenario.stop);
    summary.violations = network.CheckPhysics();
    summary.flows = recorder.flows;
    summary.unfinished = recorder.unfinished;
    summary.demandBytes = totals.askedBytes;
    summary.wireBytes = totals.wireBytes;
    summary.bandwidthTax =
        totals.askedBytes > 0 ? recorder.tax / static_cast<double>(totals.askedBytes) : 1.0;
    summary.packetHops = totals.packetHops;
    summary.events = totals.events;
    summary.drops = totals.drops;
    summary.retransmits = totals.retransmits;
    summary.fctP50 = recorder.fcts.At(50);
    summary.fctP99 = recorder.fcts.At(99);
    summary.fctMax = recorder.fcts.Max();
    summary.maxSlowdown = recorder.maxSlowdown;
}

} // namespace topoopt
