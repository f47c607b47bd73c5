// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_LIVE_FABRIC_H
#define TOPOOPT_LIVE_FABRIC_H

#include "ns3/executor.h"
#include "ns3/packet-network.h"
#include "topoopt/core/fabric.h"
#include "topoopt/core/lit-router.h"

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

namespace topoopt
{

/**
 * A fabric whose links come and go during a run: what of it can be used, as far as its control knows.
 *
 * Ways are those of the fabric's own router and rings while all their links can be used, else shortest paths over the links that
 * can. What is known may lag behind what the network does (a failure that has not been detected). Rings of collectives that begin
 * while links are missing are formed again: either from the rings that are whole, or from all of them with
 * detours, whichever puts less on the busiest link.
 */
class LiveFabric final : public NetworkController, public RouteSource
{
  public:
    /**
     * @param relays whether servers pass traffic on where the fabric's own ways fail
     */
    LiveFabric(const Fabric& fabric,
               PacketNetwork& network,
               std::uint64_t seed,
               LitRouter::Relays relays);

    LiveFabric(const LiveFabric&) = delete;
    LiveFabric& operator=(const LiveFabric&) = delete;

    /** For the executor: topology with all links so far, rings as they are now. */
    [[nodiscard]] const Fabric& Now() const
    {
        return m_fabric;
    }

    [[nodiscard]] PacketNetwork& Network()
    {
        return m_network;
    }

    /** Whoever changes things registers itself and gets its events through At(). @return its number */
    std::uint32_t Register(NetworkController* client);
    /** Calls @p client's ControlDue(@p cookie); see PacketNetwork::ControlAt(). */
    void At(std::uint32_t client, SimTime time, std::uint64_t cookie, bool helps);

    /** A further link, without light and not in use. */
    LinkId AddLink(NodeId src,
                   NodeId dst,
                   BitRate rate,
                   std::uint32_t srcPort,
                   std::uint32_t dstPort);
    /** Two links that are each other's reverse. @return the first; the second is the next one */
    LinkId AddDuplexLink(NodeId a,
                         NodeId b,
                         BitRate rate,
                         std::uint32_t portA,
                         std::uint32_t portB);

    /** Links of a route of this fabric that begin at a server. */
    [[nodiscard]] std::uint32_t ServerHops(std::uint32_t route) const
    {
        return route < m_serverHops.size() ? m_serverHops[route] : 0;
    }

    [[nodiscard]] bool Usable(LinkId link) const
    {
        return m_usable[link];
    }

    /** Changes what is known of links; then Update() lets it take effect. */
    void SetUsable(LinkId link, bool usable);
    /**
     * New ways for new messages; messages under way whose way is not usable any more (@p all: all messages) get another one, or
     * wait at their source if there is none.
     */
    void Update(bool all);

    /** From now on the fabric's own router and rings, which know the first links alone, count no more. */
    void DropOwnWays();
    /**
     * From now on collectives run over all rings that the links in use carry, one per circuit of @p circuit (a faster link
     * stands for several), or, if they carry none, over one in group order.
     */
    void FindRings(BitRate circuit);
    /** A server's links to the control network, if there is one. */
    void SetControlState(ServerId server, LinkState state);
    /** Acknowledgements go over a packet network of its own beside the circuits. */
    void AddControlNetwork(BitRate rate, SimTime delay);

    [[nodiscard]] RouteAnswer RouteFor(ServerId src,
                                       ServerId dst,
                                       std::uint64_t flowKey,
                                       const Path* path) override;

    void ControlDue(std::uint64_t cookie) override;

  private:
    /** Of links that are added: as long as the first. */
    [[nodiscard]] SimTime CircuitDelay() const;
    /** Makes a new link of the topology known to the network, without light. */
    void AddDark(LinkId id, std::uint32_t srcPort, std::uint32_t dstPort);

    [[nodiscard]] bool AllUsable(const Path& path) const;
    /** The way that the fabric's own router knows; empty = none. */
    [[nodiscard]] Path OwnWay(ServerId src, ServerId dst, std::uint64_t flowKey) const;
    /** The way as it is now; empty = there is none. */
    [[nodiscard]] Path Way(ServerId src, ServerId dst, std::uint64_t flowKey, const Path* path);
    [[nodiscard]] Path WayBack(const Path& path, ServerId src, ServerId dst);
    [[nodiscard]] RouteAnswer Answer(ServerId src,
                                     ServerId dst,
                                     std::uint64_t flowKey,
                                     const Path* path);
    [[nodiscard]] std::vector<Ring> Rings(const std::vector<ServerId>& group);
    [[nodiscard]] std::vector<Ring> LitRings(const std::vector<ServerId>& group,
                                             BitRate circuit) const;
    [[nodiscard]] LitRouter& Detours();

    struct Key
    {
        std::uint64_t pair;
        std::uint64_t flow;

        bool operator==(const Key& other) const
        {
            return pair == other.pair && flow == other.flow;
        }
    };

    struct KeyHash
    {
        std::size_t operator()(const Key& key) const;
    };

    Fabric m_fabric;
    std::shared_ptr<const Router>
        m_ownRouter; ///< null: ways are always shortest over the links in use
    std::function<std::vector<Ring>(const std::vector<ServerId>&)> m_ownRings;
    PacketNetwork& m_network;
    std::uint64_t m_seed;
    LitRouter::Relays m_relays;
    std::vector<bool> m_usable; ///< by link
    std::size_t m_missing = 0;  ///< links of the first topology that are not usable
    std::size_t m_firstLinks;
    LinkId m_control = kNoId; ///< first of two links per server, to the control network and back
    std::unique_ptr<LitRouter> m_detours;
    std::unordered_map<Key, RouteAnswer, KeyHash> m_known;         ///< looked up, never iterated
    std::vector<std::uint32_t> m_serverHops;                       ///< by route
    std::map<std::vector<ServerId>, std::vector<Ring>> m_litRings; ///< by group, as things are now
    std::vector<NetworkController*> m_clients;
};

} // namespace topoopt

#endif // TOPOOPT_LIVE_FABRIC_H
