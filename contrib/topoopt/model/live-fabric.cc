// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/live-fabric.h"

#include "topoopt/core/error.h"
#include "topoopt/core/live-rings.h"
#include "topoopt/core/random.h"

#include <algorithm>
#include <numeric>

namespace topoopt
{

namespace
{

constexpr unsigned kClientShift = 48;
/** A route that flows keep forgetting would be looked up for each message; beyond this many it is. */
constexpr std::size_t kMaxKnownRoutes = 1U << 20;

} // namespace

std::size_t
LiveFabric::KeyHash::operator()(const Key& key) const
{
    return Mix64(key.pair, key.flow);
}

LiveFabric::LiveFabric(const Fabric& fabric,
                       PacketNetwork& network,
                       std::uint64_t seed,
                       LitRouter::Relays relays)
    : m_fabric(fabric),
      m_ownRouter(fabric.router),
      m_ownRings(fabric.rings),
      m_network(network),
      m_seed(seed),
      m_relays(relays),
      m_usable(fabric.topology.links.size(), true),
      m_firstLinks(fabric.topology.links.size())
{
    network.SetController(this);
    m_fabric.rings = nullptr;
    if (m_ownRings)
    {
        m_fabric.rings = [this](const std::vector<ServerId>& group) { return Rings(group); };
    }
}

std::uint32_t
LiveFabric::Register(NetworkController* client)
{
    m_clients.push_back(client);
    return static_cast<std::uint32_t>(m_clients.size() - 1);
}

void
LiveFabric::At(std::uint32_t client, SimTime time, std::uint64_t cookie, bool helps)
{
    m_network.ControlAt(time, std::uint64_t{client} << kClientShift | cookie, helps);
}

void
LiveFabric::ControlDue(std::uint64_t cookie)
{
    m_clients[cookie >> kClientShift]->ControlDue(cookie & ((1ULL << kClientShift) - 1));
}

LinkId
LiveFabric::AddLink(NodeId src,
                    NodeId dst,
                    BitRate rate,
                    std::uint32_t srcPort,
                    std::uint32_t dstPort)
{
    const LinkId id = m_fabric.topology.AddLink(src, dst, rate, CircuitDelay());
    AddDark(id, srcPort, dstPort);
    return id;
}

LinkId
LiveFabric::AddDuplexLink(NodeId a,
                          NodeId b,
                          BitRate rate,
                          std::uint32_t portA,
                          std::uint32_t portB)
{
    const LinkId id = m_fabric.topology.AddDuplexLink(a, b, rate, CircuitDelay());
    AddDark(id, portA, portB);
    AddDark(id + 1, portB, portA);
    return id;
}

SimTime
LiveFabric::CircuitDelay() const
{
    return m_firstLinks > 0 ? m_fabric.topology.links[0].delay : kMicrosecond;
}

void
LiveFabric::AddDark(LinkId id, std::uint32_t srcPort, std::uint32_t dstPort)
{
    Link& link = m_fabric.topology.links[id];
    link.srcPort = srcPort;
    link.dstPort = dstPort;
    m_network.AddLink(link, LinkState::Dark);
    m_usable.push_back(false);
}

void
LiveFabric::AddControlNetwork(BitRate rate, SimTime delay)
{
    Topology& topology = m_fabric.topology;
    const NodeId hub = topology.AddSwitch("control");
    m_control = static_cast<LinkId>(topology.links.size());
    for (ServerId server = 0; server < topology.servers; ++server)
    {
        const LinkId id = topology.AddDuplexLink(server, hub, rate, delay);
        for (LinkId link : {id, id + 1})
        {
            m_network.AddLink(topology.links[link], LinkState::Up);
            m_usable.push_back(false); // not for data
        }
    }
}

void
LiveFabric::DropOwnWays()
{
    m_ownRouter = nullptr;
    m_ownRings = nullptr;
    m_fabric.rings = nullptr;
}

void
LiveFabric::FindRings(BitRate circuit)
{
    m_fabric.rings = [this, circuit](const std::vector<ServerId>& group) {
        auto known = m_litRings.find(group);
        if (known == m_litRings.end())
        {
            known = m_litRings.emplace(group, LitRings(group, circuit)).first;
        }
        return known->second;
    };
}

void
LiveFabric::SetControlState(ServerId server, LinkState state)
{
    if (m_control != kNoId)
    {
        m_network.SetLinkState(m_control + 2 * server, state);
        m_network.SetLinkState(m_control + 2 * server + 1, state);
    }
}

std::vector<Ring>
LiveFabric::LitRings(const std::vector<ServerId>& group, BitRate circuit) const
{
    const auto size = static_cast<std::uint32_t>(group.size());
    std::vector<std::uint32_t> memberOf(m_fabric.topology.servers, kNoId);
    for (std::uint32_t k = 0; k < size; ++k)
    {
        memberOf[group[k]] = k;
    }
    // Every link as often as it has circuits.
    std::vector<std::uint32_t> circuits(std::size_t{size} * size);
    std::map<std::size_t, std::vector<LinkId>> links;
    for (LinkId id = 0; id < m_fabric.topology.links.size(); ++id)
    {
        const Link& link = m_fabric.topology.links[id];
        if (!m_usable[id] || memberOf[link.src] == kNoId || memberOf[link.dst] == kNoId)
        {
            continue;
        }
        const std::size_t pair = std::size_t{memberOf[link.src]} * size + memberOf[link.dst];
        const auto parallel =
            static_cast<std::uint32_t>(std::max<std::uint64_t>(1, link.rate.bps / circuit.bps));
        circuits[pair] += parallel;
        links[pair].insert(links[pair].end(), parallel, id);
    }
    std::vector<Ring> rings;
    for (std::vector<std::uint32_t>& order : RingsOver(size, std::move(circuits)))
    {
        Ring ring;
        for (std::uint32_t k = 0; k < size; ++k)
        {
            std::vector<LinkId>& left = links[std::size_t{order[k]} * size + order[(k + 1) % size]];
            ring.hops.push_back({left.back()});
            left.pop_back();
        }
        ring.order = std::move(order);
        rings.push_back(std::move(ring));
    }
    if (rings.empty())
    {
        Ring ring;
        ring.order.resize(size);
        std::iota(ring.order.begin(), ring.order.end(), 0);
        rings.push_back(std::move(ring));
    }
    return rings;
}

void
LiveFabric::SetUsable(LinkId link, bool usable)
{
    if (m_usable[link] != usable && link < m_firstLinks)
    {
        m_missing += usable ? -1 : 1;
    }
    m_usable[link] = usable;
}

bool
LiveFabric::AllUsable(const Path& path) const
{
    return std::all_of(path.begin(), path.end(), [this](LinkId link) { return m_usable[link]; });
}

LitRouter&
LiveFabric::Detours()
{
    if (m_detours == nullptr)
    {
        m_detours = std::make_unique<LitRouter>(m_fabric.topology, m_usable, m_seed, m_relays);
    }
    return *m_detours;
}

Path
LiveFabric::OwnWay(ServerId src, ServerId dst, std::uint64_t flowKey) const
{
    if (m_ownRouter == nullptr)
    {
        return {};
    }
    try
    {
        return m_ownRouter->Route(src, dst, flowKey);
    }
    catch (const SpecError&)
    {
        return {}; // circuits that are yet to come may join them
    }
}

Path
LiveFabric::Way(ServerId src, ServerId dst, std::uint64_t flowKey, const Path* path)
{
    if (path != nullptr && AllUsable(*path))
    {
        return *path;
    }
    Path own = OwnWay(src, dst, flowKey);
    if (!own.empty() && AllUsable(own))
    {
        return own;
    }
    return Detours().Find(src, dst, flowKey);
}

Path
LiveFabric::WayBack(const Path& path, ServerId src, ServerId dst)
{
    const std::vector<Link>& links = m_fabric.topology.links;
    Path back;
    for (auto link = path.rbegin(); link != path.rend(); ++link)
    {
        const LinkId reverse = links[*link].reverse;
        if (reverse == kNoId || !m_usable[reverse])
        {
            break;
        }
        back.push_back(reverse);
    }
    if (back.size() == path.size())
    {
        return back;
    }
    if (m_control != kNoId)
    {
        return {m_control + 2 * dst, m_control + 2 * src + 1};
    }
    return Detours().Find(dst, src, 0);
}

RouteAnswer
LiveFabric::Answer(ServerId src, ServerId dst, std::uint64_t flowKey, const Path* path)
{
    const Path way = Way(src, dst, flowKey, path);
    const Path back = way.empty() ? Path{} : WayBack(way, src, dst);
    if (back.empty())
    {
        return {kParked, 0};
    }
    const auto serverHops =
        static_cast<std::uint32_t>(std::count_if(way.begin(), way.end(), [this](LinkId link) {
            return m_fabric.topology.IsServer(m_fabric.topology.links[link].src);
        }));
    const std::uint32_t route = m_network.AddRoute(way, back);
    m_serverHops.resize(std::max<std::size_t>(m_serverHops.size(), route + 1));
    m_serverHops[route] = serverHops;
    return {route, serverHops};
}

RouteAnswer
LiveFabric::RouteFor(ServerId src, ServerId dst, std::uint64_t flowKey, const Path* path)
{
    if (path != nullptr && AllUsable(*path))
    {
        return Answer(src, dst, flowKey, path);
    }
    const Key key{std::uint64_t{src} << 32 | dst, flowKey};
    const auto known = m_known.find(key);
    if (known != m_known.end())
    {
        return known->second;
    }
    const RouteAnswer answer = Answer(src, dst, flowKey, nullptr);
    if (m_known.size() < kMaxKnownRoutes)
    {
        m_known.emplace(key, answer);
    }
    return answer;
}

void
LiveFabric::Update(bool all)
{
    m_known.clear();
    m_detours.reset();
    m_litRings.clear();
    std::vector<std::pair<std::uint64_t, std::uint32_t>> routes;
    for (const ActiveMessage& active : m_network.Active())
    {
        const Message& message = active.record.message;
        const bool broken =
            message.route == kParked ||
            (active.darkLink != kNoId && (m_control == kNoId || active.darkLink < m_control) &&
             !m_usable[active.darkLink]);
        if (broken || all)
        {
            // Messages of one pair that lost their way spread over what there is.
            const std::uint64_t key =
                all ? std::uint64_t{message.src} << 32 | message.dst : active.record.id;
            routes.emplace_back(active.record.id,
                                RouteFor(message.src, message.dst, key, nullptr).route);
        }
    }
    m_network.Reroute(routes);
}

std::vector<Ring>
LiveFabric::Rings(const std::vector<ServerId>& group)
{
    std::vector<Ring> rings = m_ownRings(group);
    if (m_missing == 0)
    {
        return rings;
    }
    // What each choice puts on the busiest link, a ring of the full set weighing 1 / number of rings.
    std::vector<Ring> whole;
    std::vector<double> detoured(m_fabric.topology.links.size());
    std::vector<double> kept(m_fabric.topology.links.size());
    for (Ring& ring : rings)
    {
        const std::size_t size = ring.order.size();
        bool intact = true;
        std::vector<Path> ways(size);
        for (std::size_t k = 0; k < size; ++k)
        {
            const ServerId src = group[ring.order[k]];
            const ServerId dst = group[ring.order[(k + 1) % size]];
            const Path* own =
                k < ring.hops.size() && !ring.hops[k].empty() ? &ring.hops[k] : nullptr;
            const Path planned = own != nullptr ? *own : OwnWay(src, dst, 0);
            intact = intact && !planned.empty() && AllUsable(planned);
            ways[k] = Way(src, dst, 0, own);
            for (LinkId link : ways[k])
            {
                detoured[link] += 1;
            }
        }
        if (intact)
        {
            for (const Path& way : ways)
            {
                for (LinkId link : way)
                {
                    kept[link] += 1;
                }
            }
            whole.push_back(ring);
        }
        else
        {
            ring.hops.clear(); // ask for each hop's way when it is used
        }
    }
    const double busiestDetoured =
        *std::max_element(detoured.begin(), detoured.end()) / static_cast<double>(rings.size());
    const double busiestKept = whole.empty() ? 0
                                             : *std::max_element(kept.begin(), kept.end()) /
                                                   static_cast<double>(whole.size());
    return whole.empty() || busiestDetoured < busiestKept ? rings : whole;
}

} // namespace topoopt
