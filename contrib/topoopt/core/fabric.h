// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_FABRIC_H
#define TOPOOPT_CORE_FABRIC_H

#include "topoopt/core/ids.h"
#include "topoopt/core/routing.h"
#include "topoopt/core/topology.h"
#include "topoopt/core/units.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace topoopt
{

/** One directed ring over the members of a group. */
struct Ring
{
    std::vector<std::uint32_t>
        order;              ///< member indices; order[k] sends to order[k+1], the last to the first
    std::vector<Path> hops; ///< hops[k]: the links of that step; empty = ask the router
};

/** One cable of a patch panel or OCS: panel, input port, output port, and whom they join. */
struct Circuit
{
    std::uint32_t panel = 0;
    std::uint32_t portA = 0;
    std::uint32_t portB = 0;
    ServerId serverA = 0;
    std::uint32_t nicA = 0;
    ServerId serverB = 0;
    std::uint32_t nicB = 0;
};

/** What the scenario says about servers; every fabric starts from it. */
struct ServerSpec
{
    std::uint32_t count = 0;
    std::uint32_t nics = 1;        ///< degree d on a direct-connect fabric
    BitRate rate{100'000'000'000}; ///< of one NIC
    std::uint32_t gpus = 1;        ///< ranks per server
    BitRate intraRate{200'000'000'000};
    SimTime linkDelay = kMicrosecond; ///< of every link of a built-in fabric
};

/** A fabric of the scenario: a kind and its options, still as text; the kind's builder interprets them. */
struct FabricSpec
{
    std::string kind;
    std::string name;                            ///< directory of its results; default: the kind
    std::map<std::string, std::string> options;  ///< e.g. rate: 400Gbps; unknown ones are errors
    std::string place;                           ///< file:line:col for messages
    std::map<std::string, std::string> places{}; ///< of each option

    /** Of an option for messages; the fabric's own if it has none. */
    [[nodiscard]] const std::string& PlaceOf(const std::string& option) const
    {
        const auto at = places.find(option);
        return at == places.end() ? place : at->second;
    }
};

/** A wired and routed network that the engine can run. */
struct Fabric
{
    std::string kind;
    std::string name;
    Topology topology;
    std::shared_ptr<const Router> router;
    /** Rings for a group of servers (in group order); at least one. Null: one ring in group order. */
    std::function<std::vector<Ring>(const std::vector<ServerId>&)> rings;
    std::vector<Circuit> circuits; ///< patch list, for fabrics with panels
    std::string nicChoice;         ///< one line: how a flow picks its NIC
};

/** Rings of @p fabric for @p group, never empty. */
[[nodiscard]] std::vector<Ring> RingsOf(const Fabric& fabric, const std::vector<ServerId>& group);

} // namespace topoopt

#endif // TOPOOPT_CORE_FABRIC_H
