// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_TOPOLOGY_FINDER_H
#define TOPOOPT_CORE_TOPOLOGY_FINDER_H

#include "topoopt/core/demand.h"
#include "topoopt/core/fabric.h"
#include "topoopt/core/ids.h"
#include "topoopt/core/select-permutations.h"
#include "topoopt/core/topology.h"
#include "topoopt/core/totient-perms.h"
#include "topoopt/core/units.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace topoopt
{

/** How the NICs are shared between AllReduce rings and model-parallel cables. */
enum class DegreeSplit : std::uint8_t
{
    Proportional,  ///< by bytes, AllReduce rounded up (the paper)
    AllReduceOnly, ///< all NICs to rings (the released code)
    Fixed          ///< as told
};

/** What is left of a pair's demand once it has c cables, as a factor on the demand before the last. */
enum class MpDiscount : std::uint8_t
{
    Half,    ///< 1/2 each time (the paper)
    Harmonic ///< c/(c+1) (the released code)
};

/** Choices of TopologyFinder; the defaults are the paper's. */
struct TopologyFinderOptions
{
    /** The released code: all NICs to rings, its link count per group size, its selection of strides. */
    bool flexnet = false;
    CandidateSet candidates = CandidateSet::Coprime;
    GeoRounding rounding = GeoRounding::LowerBound;
    DegreeSplit split = DegreeSplit::Proportional;
    std::uint32_t mpNics = 0; ///< with DegreeSplit::Fixed
    MpDiscount discount = MpDiscount::Half;
    /** Model-parallel rounds over more pairs than this use the greedy matching. */
    std::uint64_t exactMatchingPairs = 600'000;
};

/**
 * Rings of one group. A ring takes layer x, that is NICs 2x and 2x + 1, of each of its members: member
 * m's NIC 2x is joined to NIC 2x + 1 of member (m + stride) mod g.
 */
struct RingSet
{
    std::vector<ServerId> members;         ///< ascending
    std::vector<std::uint32_t> strides;    ///< one ring each
    std::vector<std::uint32_t> layers;     ///< by ring
    std::vector<std::uint32_t> firstCable; ///< by ring; its cables are in member order
};

/** One cable of the topology found. */
struct Cable
{
    ServerId a = 0;
    std::uint32_t nicA = 0;
    ServerId b = 0;
    std::uint32_t nicB = 0;
    bool ring = true; ///< false: a model-parallel cable
};

/** What TopologyFinder answers. */
struct FoundTopology
{
    ServerId servers = 0;
    std::uint32_t degree = 0;
    std::uint32_t ringNics = 0; ///< NICs 0 .. ringNics-1 are in layers of two
    std::vector<RingSet> ringSets;
    std::vector<Cable> cables; ///< rings first
    /** The only cables are rings over all servers: the graph looks the same from each of them. */
    [[nodiscard]] bool IsCirculant() const;
    /** Strides of the rings over all servers; empty if there are none. */
    [[nodiscard]] std::vector<std::uint32_t> FullStrides() const;
};

/**
 * Which cables to plug for a demand.
 *
 * The paper's algorithm: NICs are split between AllReduce and model-parallel (MP) traffic by bytes; the
 * groups, heaviest first, get layers of two NICs in proportion to what they put on each NIC, each layer a ring
 * chosen by TotientPerms and SelectPermutations; every remaining NIC takes part in a matching of
 * greatest weight over the MP demand, discounted where a cable is already there.
 *
 * Repairs where the paper is open: groups that share no server do not compete; if no group spans all
 * servers, one ring over all of them comes first, so that the network is connected; layers that no group can use become rings
 * over all servers where these are free, else they join the matchings.
 *
 * @param demand servers >= 1; groups of one are ignored; members must exist and not repeat in a group
 * @param degree NICs per server, >= 1
 * Cost: one maximum-weight matching per MP NIC and O(servers * degree) besides. Deterministic.
 * @throws SpecError one NIC among three servers or more; an odd number of ring NICs; with flexnet, a
 *         group whose size does not divide the servers
 * @throws std::invalid_argument a malformed demand
 * @see Wang et al., TopoOpt, NSDI 2023, Algorithm 1
 */
[[nodiscard]] FoundTopology FindTopology(const Demand& demand,
                                         std::uint32_t degree,
                                         const TopologyFinderOptions& options = {});

/** The rings over all servers that an AllReduce over all of them asks for, with equal weight one. */
[[nodiscard]] Demand AllReduceOverAll(ServerId servers);

/** Groups of the same members merged; members ascending; those of one member or no bytes left out. */
[[nodiscard]] std::vector<AllReduceDemand> MergedGroups(const Demand& demand);

/**
 * The graph; cable c is links 2c (a to b) and 2c + 1, ports are NIC numbers.
 */
[[nodiscard]] Topology WireTopology(const FoundTopology& found, BitRate rate, SimTime delay);

/**
 * The patch list: layer x is a panel of 2n ports, server i's NICs 2x and 2x + 1 at ports 2i and 2i + 1;
 * each NIC beyond the layers has a panel of n ports, server i at port i.
 */
[[nodiscard]] std::vector<Circuit> CircuitsOf(const FoundTopology& found);

} // namespace topoopt

#endif // TOPOOPT_CORE_TOPOLOGY_FINDER_H
