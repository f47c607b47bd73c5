// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_TESTS_NETWORK_HARNESS_H
#define TOPOOPT_TESTS_NETWORK_HARNESS_H

#include "ns3/executor.h"
#include "ns3/packet-network.h"
#include "ns3/peek-scheduler.h"
#include "ns3/simulator.h"
#include "topoopt/core/error.h"
#include "topoopt/core/random.h"
#include "topoopt/core/topology.h"

#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace topoopt::test
{

/** Sends messages at given times and keeps every record. */
class Harness : public NetworkListener, public NetworkController
{
  public:
    Harness(const Topology& topology, const PacketNetworkConfig& config)
        : network(ns3::CreateObject<PacketNetwork>())
    {
        ns3::PeekScheduler::Install();
        network->Build(topology, config);
        network->SetListener(this);
    }

    ~Harness() override
    {
        network->Dispose();
        ns3::Simulator::Destroy();
    }

    /** @param pair number of the source's queue pair, kNoId for none */
    void SendAt(SimTime time,
                const Path& path,
                ServerId src,
                ServerId dst,
                Bytes bytes,
                std::uint32_t pair = kNoId)
    {
        Message message;
        message.queuePair = pair == kNoId ? nullptr : &m_queuePairs[{src, pair}];
        message.src = src;
        message.dst = dst;
        message.bytes = bytes;
        message.route = src == dst ? 0 : network->AddRoute(path);
        network->CallAt(time, m_messages.size());
        m_messages.push_back(message);
    }

    /** Does something to the network at a time, after everything else of it. @p helps see PacketNetwork::ControlAt() */
    void At(SimTime time, std::function<void(PacketNetwork&)> action, bool helps = true)
    {
        network->SetController(this); // what nobody controls takes shortcuts
        network->ControlAt(time, m_actions.size(), helps);
        m_actions.push_back(std::move(action));
    }

    void ControlDue(std::uint64_t cookie) override
    {
        // An action may add actions.
        const std::function<void(PacketNetwork&)> action = m_actions[cookie];
        action(*network);
    }

    /** @return violations of the physics check */
    std::vector<std::string> Run(SimTime stop = kNever)
    {
        network->Start(stop);
        ns3::Simulator::Run();
        return network->CheckPhysics();
    }

    void Delivered(const MessageRecord&) override
    {
    }

    void Finished(const MessageRecord& record) override
    {
        records.push_back(record);
    }

    void Due(std::uint64_t cookie) override
    {
        network->Send(m_messages[cookie]);
    }

    ns3::Ptr<PacketNetwork> network;
    std::vector<MessageRecord> records; ///< in order of finishing

  private:
    std::vector<Message> m_messages;
    std::map<std::pair<ServerId, std::uint32_t>, QueuePair> m_queuePairs;
    std::vector<std::function<void(PacketNetwork&)>> m_actions;
};

/** Numbers of queue pairs for Harness::SendAt(): two per server and messages without one, or none at all. */
class RandomPairs
{
  public:
    explicit RandomPairs(std::uint64_t seed)
        : m_rng(seed, "queue pairs"),
          m_used(m_rng.Below(2) == 0)
    {
    }

    std::uint32_t Next()
    {
        return m_used && m_rng.Below(4) != 0 ? static_cast<std::uint32_t>(m_rng.Below(2)) : kNoId;
    }

  private:
    Rng m_rng;
    bool m_used;
};

/** Servers s0..s_h in a line; links 2k: k -> k+1. */
inline Topology
Line(std::uint32_t hops, BitRate rate, SimTime delay)
{
    Topology topology(hops + 1);
    for (std::uint32_t k = 0; k < hops; ++k)
    {
        topology.AddDuplexLink(k, k + 1, rate, delay);
    }
    return topology;
}

/** From one end of a Line to the other. */
inline Path
LinePath(std::uint32_t hops)
{
    Path path;
    for (LinkId k = 0; k < hops; ++k)
    {
        path.push_back(2 * k);
    }
    return path;
}

/** One switch with n servers; link 2s: s -> switch, 2s+1: back. */
inline Topology
Star(std::uint32_t servers, BitRate rate, SimTime delay)
{
    Topology topology(servers);
    const NodeId hub = topology.AddSwitch("switch");
    for (ServerId s = 0; s < servers; ++s)
    {
        topology.AddDuplexLink(s, hub, rate, delay);
    }
    return topology;
}

inline Path
StarPath(ServerId src, ServerId dst)
{
    return {2 * src, 2 * dst + 1};
}

} // namespace topoopt::test

#endif // TOPOOPT_TESTS_NETWORK_HARNESS_H
