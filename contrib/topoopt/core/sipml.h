// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_SIPML_H
#define TOPOOPT_CORE_SIPML_H

#include "topoopt/core/demand.h"
#include "topoopt/core/fabric.h"
#include "topoopt/core/ids.h"
#include "topoopt/core/topology-kinds.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace topoopt
{

/** Directed circuits, source and destination; repeats are parallel circuits. */
using DirectedCircuits = std::vector<std::pair<ServerId, ServerId>>;

/**
 * What each ordered pair sends: the model-parallel demand plus each AllReduce run as one ring in group order,
 * 2 (g-1)/g S bytes per step.
 */
[[nodiscard]] std::vector<double> DirectedDemand(const Demand& demand);

/** Whether circuits must join all servers: they do if servers pass traffic on. */
enum class Reach : std::uint8_t
{
    All,   ///< the first permutation is the ring i to i + 1
    Direct ///< circuits serve their own pair alone
};

/**
 * @p degree permutations for an optical circuit switch per NIC: those that move the most, the c-th circuit of a pair counting
 * for 2^(1-c) of its demand. This is SiP-ML's integer program with the diminishing returns of parallel circuits,
 * which as a transportation problem is solved exactly. No circuit leads back to its source.
 *
 * @param demand servers * servers, row = source
 * Cost: a network simplex with up to servers^2 * degree arcs. Deterministic.
 */
[[nodiscard]] DirectedCircuits PlanOcs(ServerId servers,
                                       std::uint32_t degree,
                                       const std::vector<double>& demand,
                                       Reach reach);

/** What circuits are worth for a demand: each pair's, the c-th circuit of a pair counting for 2^(1-c) of it. */
[[nodiscard]] double WorthOf(const DirectedCircuits& circuits,
                             ServerId servers,
                             const std::vector<double>& demand);

/**
 * Circuits on a ring of fibre in either direction, @p wavelengths on each segment; a server sends and
 * receives @p degree circuits. The ring i to i + 1 comes first if all are to be reached; then the largest demand that still has a free sender, receiver
 * and wavelength (the same on all its segments, lowest first) along the shorter way, halving with each
 * circuit; then circuits to the neighbours until nothing is left.
 *
 * Deviation: SiP-ML rounds a linear program at random and withdraws circuits from segments that are too full; this is greedy,
 * and stricter, because a circuit keeps its wavelength all the way.
 */
[[nodiscard]] DirectedCircuits PlanWavelengths(ServerId servers,
                                               std::uint32_t degree,
                                               std::uint32_t wavelengths,
                                               std::vector<double> demand,
                                               Reach reach);

/** Wires one-way links for circuits planned for @p context, servers forwarding, and routes them. */
[[nodiscard]] Fabric BuildDirected(const FabricSpec& spec,
                                   const FabricContext& context,
                                   const DirectedCircuits& circuits);

/** DirectedDemand of what the context knows; an AllReduce over all if it knows nothing. */
[[nodiscard]] std::vector<double> DemandOf(const FabricContext& context);

} // namespace topoopt

#endif // TOPOOPT_CORE_SIPML_H
