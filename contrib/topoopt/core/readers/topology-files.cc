// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/error.h"
#include "topoopt/core/readers/readers.h"
#include "topoopt/core/readers/words.h"
#include "topoopt/core/trace-flows.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <stdexcept>

namespace topoopt
{

namespace
{

constexpr std::uint64_t kMostNodes = 1000000;
constexpr std::uint64_t kMostLinks = 10000000;

template <typename Parse>
auto
Quantity(const WordReader& words, std::size_t column, Parse parse)
{
    try
    {
        return parse(words.Word(column));
    }
    catch (const std::invalid_argument& error)
    {
        throw SpecError(words.Place() + ":" + std::to_string(column + 1), error.what());
    }
}

std::shared_ptr<Fabric>
Routed(Topology topology, const std::string& kind, std::uint64_t seed, const std::string& file)
{
    auto fabric = std::make_shared<Fabric>();
    fabric->kind = kind;
    fabric->name = kind;
    fabric->topology = std::move(topology);
    const std::vector<std::uint32_t> distance = fabric->topology.DistancesTo(0);
    for (ServerId s = 0; s < fabric->topology.servers; ++s)
    {
        if (distance[s] == kNoId)
        {
            throw SpecError(file,
                            "no way from host " + fabric->topology.names[s] + " to host " +
                                fabric->topology.names[0]);
        }
    }
    fabric->router = std::make_shared<EcmpRouter>(fabric->topology, seed);
    fabric->nicChoice = "ECMP by flow over shortest paths";
    return fabric;
}

/** A link of the file, by the file's node numbers. */
struct FileLink
{
    std::uint64_t a = 0;
    std::uint64_t b = 0;
    BitRate rate;
    SimTime delay = 0;
};

std::shared_ptr<Fabric>
ReadHpcc(const TraceFile& file,
         std::uint64_t seed,
         std::map<std::uint64_t, ServerId>* hostOf,
         std::vector<std::string>& warnings)
{
    WordReader words(file);
    words.Next();
    const bool simai = words.Size() >= 6;
    const std::uint64_t nodes = words.Number(0, "the number of nodes", 1, kMostNodes);
    std::uint64_t switches = 0;
    std::uint64_t links = 0;
    if (simai)
    {
        // nodes, GPUs per server, NVSwitches, switches, links, GPU type
        switches = words.Number(2, "the number of NVSwitches", 0, nodes) +
                   words.Number(3, "the number of switches", 0, nodes);
        links = words.Number(4, "the number of links", 0, kMostLinks);
    }
    else
    {
        switches = words.Number(1, "the number of switches", 0, nodes);
        links = words.Number(2, "the number of links", 0, kMostLinks);
    }
    if (switches >= nodes)
    {
        throw SpecError(words.Place(),
                        "found " + std::to_string(switches) + " switches among " +
                            std::to_string(nodes) + " nodes, expected at least one host");
    }
    std::vector<std::uint8_t> isSwitch(nodes);
    bool more = words.Next();
    for (std::uint64_t got = 0; got < switches;)
    {
        if (!more)
        {
            throw SpecError(file.path,
                            "found " + std::to_string(got) + " switch numbers, expected " +
                                std::to_string(switches));
        }
        for (std::size_t i = 0; i < words.Size(); ++i, ++got)
        {
            const std::uint64_t id = words.Number(i, "the number of a switch", 0, nodes - 1);
            if (isSwitch[id]++ != 0 || got >= switches)
            {
                words.Fail(i, "each of " + std::to_string(switches) + " switches once");
            }
        }
        more = words.Next();
    }
    // Nodes are made when the links are there, so that a false count allocates nothing.
    std::vector<FileLink> cables;
    std::uint64_t got = 0;
    std::uint64_t lossy = 0;
    for (; more && got < links; more = words.Next(), ++got)
    {
        if (words.Size() < 5)
        {
            words.Fail(words.Size(), "5 (src dst rate delay error_rate)");
        }
        const std::uint64_t a = words.Number(0, "a node", 0, nodes - 1);
        const std::uint64_t b = words.Number(1, "a node", 0, nodes - 1);
        if (a == b)
        {
            words.Fail(1, "another node than the first");
        }
        const BitRate rate =
            Quantity(words, 2, [](const std::string& t) { return ParseBitRate(t); });
        const SimTime delay = Quantity(words, 3, [](const std::string& t) { return ParseTime(t); });
        if (rate.bps == 0)
        {
            words.Fail(2, "a rate above 0");
        }
        lossy += words.Real(4, "an error rate", 1) > 0 ? 1 : 0;
        cables.push_back({a, b, rate, delay});
    }
    if (got < links)
    {
        throw SpecError(file.path,
                        "found " + std::to_string(got) + " links, expected " +
                            std::to_string(links));
    }
    const std::uint64_t hosts = nodes - switches;
    if (hosts > 1 && 2 * links < hosts)
    {
        throw SpecError(file.path,
                        "no way from host to host: found " + std::to_string(links) +
                            " links, expected one or more at each of " + std::to_string(hosts) +
                            " hosts");
    }
    Topology topology(static_cast<std::uint32_t>(hosts));
    std::vector<NodeId> nodeOf(nodes);
    NodeId nextHost = 0;
    for (std::uint64_t id = 0; id < nodes; ++id)
    {
        if (isSwitch[id] != 0)
        {
            nodeOf[id] = topology.AddSwitch("n" + std::to_string(id));
        }
        else
        {
            nodeOf[id] = nextHost++;
            topology.names[nodeOf[id]] = "n" + std::to_string(id);
            if (hostOf != nullptr)
            {
                (*hostOf)[id] = nodeOf[id];
            }
        }
    }
    for (const FileLink& cable : cables)
    {
        topology.AddDuplexLink(nodeOf[cable.a], nodeOf[cable.b], cable.rate, cable.delay);
    }
    if (lossy > 0)
    {
        warnings.push_back(std::to_string(lossy) + " links have an error rate, which is left out");
    }
    return Routed(std::move(topology), simai ? "simai-topology" : "hpcc-topology", seed, file.path);
}

/** One `Tier` block of an htsim description; numbers as in the file. */
struct Tier
{
    std::uint64_t speedGbps = 0;
    std::uint64_t down = 0;
    std::uint64_t up = 0;
    std::uint64_t bundle = 1;
    std::uint64_t oversubscribed = 1;
    std::uint64_t switchNs = 0;
    std::uint64_t linkNs = 0;
};

class HtsimTopology
{
  public:
    explicit HtsimTopology(const TraceFile& file)
        : m_words(file)
    {
    }

    std::shared_ptr<Fabric> Read(std::uint64_t seed, std::vector<std::string>& warnings)
    {
        std::size_t tier = SIZE_MAX;
        while (m_words.Next())
        {
            std::string key = m_words.Word(0);
            std::transform(key.begin(), key.end(), key.begin(), [](unsigned char c) {
                return static_cast<char>(std::tolower(c));
            });
            const auto number = [&](std::uint64_t least, std::uint64_t most) {
                return m_words.Number(1, key.c_str(), least, most);
            };
            if (key == "nodes")
            {
                m_nodes = number(1, kMostNodes);
            }
            else if (key == "tiers")
            {
                m_tiers = number(2, 3);
            }
            else if (key == "podsize")
            {
                m_pod = number(1, kMostNodes);
            }
            else if (key == "tier")
            {
                tier = number(0, 2);
            }
            else if (tier == SIZE_MAX)
            {
                m_words.Fail(0, "Nodes, Tiers, Podsize or Tier");
            }
            else if (!Member(m_tier[tier], key, number))
            {
                m_words.Fail(0,
                             "Downlink_speed_Gbps, Radix_Down, Radix_Up, Queue_Down, Queue_Up, "
                             "Oversubscribed, Bundle, Switch_Latency_ns or Downlink_Latency_ns");
            }
        }
        if (m_queues)
        {
            warnings.emplace_back("queue sizes of the topology file are left out");
        }
        return Routed(Build(), "htsim-topology", seed, m_words.File());
    }

  private:
    template <typename Number>
    bool Member(Tier& tier, const std::string& key, Number number)
    {
        if (key == "downlink_speed_gbps")
        {
            tier.speedGbps = number(1, 1000000);
        }
        else if (key == "radix_down")
        {
            tier.down = number(1, kMostNodes);
        }
        else if (key == "radix_up")
        {
            tier.up = number(1, kMostNodes);
        }
        else if (key == "bundle")
        {
            tier.bundle = number(1, 1024);
        }
        else if (key == "oversubscribed")
        {
            tier.oversubscribed = number(1, 1024);
        }
        else if (key == "switch_latency_ns")
        {
            tier.switchNs = number(0, 1000000000);
        }
        else if (key == "downlink_latency_ns")
        {
            tier.linkNs = number(0, 1000000000);
        }
        else if (key == "queue_down" || key == "queue_up")
        {
            static_cast<void>(number(0, INT64_MAX));
            m_queues = true;
        }
        else
        {
            return false;
        }
        return true;
    }

    [[nodiscard]] std::uint64_t Divide(std::uint64_t a, std::uint64_t b, const char* what) const
    {
        if (b == 0 || a % b != 0 || a == 0)
        {
            throw SpecError(m_words.File(),
                            std::string(what) + ": found " + std::to_string(a) + " and " +
                                std::to_string(b) + ", expected a multiple");
        }
        return a / b;
    }

    /** A cable of `bundle` links as one link of the joint rate; a switch delays what it sends. */
    void Join(Topology& topology,
              NodeId low,
              NodeId high,
              std::size_t tier,
              std::uint64_t cables) const
    {
        const Tier& t = m_tier[tier];
        const BitRate rate{t.speedGbps * 1000000000U * cables};
        const LinkId up =
            topology.AddDuplexLink(low, high, rate, static_cast<SimTime>(t.linkNs) * kNanosecond);
        topology.links[topology.links[up].reverse].delay +=
            static_cast<SimTime>(t.switchNs) * kNanosecond;
        if (tier > 0)
        {
            topology.links[up].delay +=
                static_cast<SimTime>(m_tier[tier - 1].switchNs) * kNanosecond;
        }
    }

    [[nodiscard]] Topology Build() const
    {
        for (std::size_t t = 0; t < m_tiers; ++t)
        {
            if (m_tier[t].speedGbps == 0 || m_tier[t].down == 0 ||
                (t + 1 < m_tiers && m_tier[t].up == 0))
            {
                throw SpecError(m_words.File(),
                                "tier " + std::to_string(t) +
                                    ": Downlink_speed_Gbps, Radix_Down or Radix_Up is missing");
            }
        }
        if (m_nodes == 0 || m_tiers == 0)
        {
            throw SpecError(m_words.File(), "Nodes or Tiers is missing");
        }
        const std::uint64_t edges =
            Divide(m_nodes, m_tier[0].down, "Nodes and Radix_Down of tier 0");
        const std::uint64_t pod = m_tiers == 3 ? m_pod : m_nodes;
        const std::uint64_t pods = Divide(m_nodes, pod, "Nodes and Podsize");
        const std::uint64_t edgesPerPod = Divide(edges, pods, "edge switches and pods");
        const std::uint64_t upperPerPod =
            Divide(m_tier[0].up, m_tier[1].bundle, "Radix_Up of tier 0 and Bundle of tier 1");
        Topology topology(static_cast<std::uint32_t>(m_nodes));
        if (edges + pods * upperPerPod > kMostNodes || edges * upperPerPod > kMostLinks)
        {
            throw SpecError(m_words.File(), "found more than 1000000 switches or 10000000 links");
        }
        std::vector<NodeId> edge;
        for (std::uint64_t e = 0; e < edges; ++e)
        {
            edge.push_back(topology.AddSwitch("tor" + std::to_string(e)));
        }
        for (std::uint64_t s = 0; s < m_nodes; ++s)
        {
            Join(topology, static_cast<NodeId>(s), edge[s / m_tier[0].down], 0, 1);
        }
        std::vector<NodeId> upper;
        for (std::uint64_t a = 0; a < pods * upperPerPod; ++a)
        {
            upper.push_back(
                topology.AddSwitch((m_tiers == 3 ? "agg" : "spine") + std::to_string(a)));
        }
        for (std::uint64_t e = 0; e < edges; ++e)
        {
            for (std::uint64_t a = 0; a < upperPerPod; ++a)
            {
                Join(topology,
                     edge[e],
                     upper[e / edgesPerPod * upperPerPod + a],
                     1,
                     m_tier[1].bundle);
            }
        }
        if (m_tiers == 2)
        {
            return topology;
        }
        const std::uint64_t uplinks =
            Divide(m_tier[1].up, m_tier[2].bundle, "Radix_Up of tier 1 and Bundle of tier 2");
        // Aggregation switch number a of every pod reaches the same group of cores.
        const std::uint64_t cores = upperPerPod * uplinks;
        if (cores > kMostNodes || upper.size() * uplinks > kMostLinks)
        {
            throw SpecError(m_words.File(), "found more than 1000000 switches or 10000000 links");
        }
        std::vector<NodeId> core;
        for (std::uint64_t c = 0; c < cores; ++c)
        {
            core.push_back(topology.AddSwitch("core" + std::to_string(c)));
        }
        for (std::uint64_t a = 0; a < upper.size(); ++a)
        {
            for (std::uint64_t u = 0; u < uplinks; ++u)
            {
                Join(topology, upper[a], core[a % upperPerPod * uplinks + u], 2, m_tier[2].bundle);
            }
        }
        return topology;
    }

    WordReader m_words;
    std::array<Tier, 3> m_tier;
    std::uint64_t m_nodes = 0;
    std::uint64_t m_tiers = 0;
    std::uint64_t m_pod = 0;
    bool m_queues = false;
};

} // namespace

std::shared_ptr<Fabric>
ReadTopologyFile(const TraceFile& file,
                 std::uint64_t seed,
                 std::map<std::uint64_t, ServerId>* hostOf,
                 std::vector<std::string>& warnings)
{
    bool htsim = false;
    bool hpcc = false;
    {
        Input input(file);
        const std::string_view head = input.Head();
        htsim = ProbeHtsimTopology(head);
        hpcc = ProbeHpccTopology(head);
    }
    if (htsim)
    {
        auto fabric = HtsimTopology(file).Read(seed, warnings);
        for (ServerId s = 0; hostOf != nullptr && s < fabric->topology.servers; ++s)
        {
            (*hostOf)[s] = s;
        }
        return fabric;
    }
    if (!hpcc)
    {
        throw SpecError(file.path,
                        "found no known topology, expected HPCC (nodes switches links), SimAI (six "
                        "fields) or htsim (Nodes, Tiers, Tier ...)");
    }
    return ReadHpcc(file, seed, hostOf, warnings);
}

bool
ProbeHpccTopology(std::string_view head)
{
    const auto lines = HeadLines(head, 1);
    if (lines.empty() || (lines[0].size() != 3 && lines[0].size() != 6))
    {
        return false;
    }
    const std::size_t numbers = lines[0].size() == 3 ? 3 : 5;
    for (std::size_t i = 0; i < numbers; ++i)
    {
        for (const char c : lines[0][i])
        {
            if (c < '0' || c > '9')
            {
                return false;
            }
        }
    }
    return lines[0].size() == 3 || lines[0][5].find_first_not_of("0123456789") != std::string::npos;
}

bool
ProbeHtsimTopology(std::string_view head)
{
    for (const auto& line : HeadLines(head, 4))
    {
        std::string key = line[0];
        std::transform(key.begin(), key.end(), key.begin(), [](unsigned char c) {
            return static_cast<char>(std::tolower(c));
        });
        if (key == "tiers" || key == "podsize")
        {
            return true;
        }
    }
    return false;
}

} // namespace topoopt
