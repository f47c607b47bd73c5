// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/topology-file.h"

#include "topoopt/core/error.h"
#include "topoopt/core/yaml-document.h"

#include <charconv>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

namespace topoopt
{

namespace
{

constexpr std::uint32_t kMostFabricNodes = 1U << 17;
constexpr std::uint32_t kMostFabricLinks = 1U << 22;

/** Words of a text file, each with its place. */
class Words
{
  public:
    Words(const std::string& file, const std::string& text)
        : m_file(file),
          m_text(text)
    {
    }

    std::string Next(const std::string& expected)
    {
        while (m_at < m_text.size() && IsBlank(m_text[m_at]))
        {
            if (m_text[m_at] == '\n')
            {
                ++m_line;
                m_lineStart = m_at + 1;
            }
            ++m_at;
        }
        m_word = m_at;
        while (m_at < m_text.size() && !IsBlank(m_text[m_at]))
        {
            ++m_at;
        }
        if (m_word == m_at)
        {
            throw SpecError(PlaceOfWord(), "found the end of the file, expected " + expected);
        }
        return m_text.substr(m_word, m_at - m_word);
    }

    std::uint32_t Number(const std::string& expected, std::uint32_t most)
    {
        const std::string word = Next(expected);
        std::uint32_t value = 0;
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
        if (error != std::errc() || end != word.data() + word.size() || value > most)
        {
            Fail(word, expected + ", a whole number 0.." + std::to_string(most));
        }
        return value;
    }

    [[nodiscard]] bool AtEnd() const
    {
        return m_text.find_first_not_of(" \t\r\n", m_at) == std::string::npos;
    }

    [[nodiscard]] std::string PlaceOfWord() const
    {
        return Place(m_file, m_line, static_cast<std::int64_t>(m_word - m_lineStart + 1));
    }

    [[noreturn]] void Fail(const std::string& word, const std::string& expected) const
    {
        throw SpecError(PlaceOfWord(), "found '" + Printable(word) + "', expected " + expected);
    }

  private:
    static bool IsBlank(char c)
    {
        return c == ' ' || c == '\t' || c == '\r' || c == '\n';
    }

    const std::string& m_file;
    const std::string& m_text;
    std::size_t m_at = 0;
    std::size_t m_word = 0;
    std::int64_t m_line = 1;
    std::size_t m_lineStart = 0;
};

Topology
ReadHpcc(const std::string& file, const std::string& text)
{
    Words words(file, text);
    const std::uint32_t nodes = words.Number("the number of nodes", kMostFabricNodes);
    const std::uint32_t switches = words.Number("the number of switches", nodes);
    const std::uint32_t links = words.Number("the number of links", kMostFabricLinks);
    if (nodes == switches)
    {
        words.Fail(std::to_string(links), "a network with servers");
    }
    std::vector<bool> isSwitch(nodes);
    for (std::uint32_t s = 0; s < switches; ++s)
    {
        const std::uint32_t id = words.Number("the id of a switch", nodes - 1);
        if (isSwitch[id])
        {
            words.Fail(std::to_string(id), "each switch once");
        }
        isSwitch[id] = true;
    }
    Topology topology(nodes - switches);
    std::vector<NodeId> nodeOf(nodes);
    NodeId server = 0;
    for (std::uint32_t id = 0; id < nodes; ++id)
    {
        nodeOf[id] = isSwitch[id] ? topology.AddSwitch("n" + std::to_string(id)) : server++;
    }
    for (std::uint32_t link = 0; link < links; ++link)
    {
        const std::uint32_t a = words.Number("the source of a link", nodes - 1);
        const std::uint32_t b = words.Number("the destination of a link", nodes - 1);
        if (a == b)
        {
            words.Fail(std::to_string(b), "another node than the source");
        }
        BitRate rate;
        SimTime delay = 0;
        std::string word;
        try
        {
            word = words.Next("a rate");
            rate = ParseBitRate(word);
            word = words.Next("a delay");
            delay = ParseTime(word);
        }
        catch (const std::invalid_argument& error)
        {
            throw SpecError(words.PlaceOfWord(), error.what());
        }
        if (rate.bps == 0)
        {
            words.Fail(word, "a rate above 0 before it");
        }
        word = words.Next("an error rate");
        if (word.find_first_not_of("0.") != std::string::npos)
        {
            words.Fail(word, "an error rate of 0: links lose nothing here");
        }
        topology.AddDuplexLink(nodeOf[a], nodeOf[b], rate, delay);
    }
    if (!words.AtEnd())
    {
        words.Fail(words.Next("nothing"),
                   "the end of the file after " + std::to_string(links) + " links");
    }
    return topology;
}

Topology
ReadYaml(const std::string& file, const std::string& text)
{
    const YamlValue document = ParseYaml(text, file);
    const YamlSection top(document, "", {"delay", "links", "rate", "servers", "switches"});
    (void)top.Require("servers", "the number of servers");
    std::uint32_t servers = 0;
    top.Count("servers", 1U, kMostFabricNodes, servers);
    Topology topology(servers);
    std::map<std::string, NodeId> nodes;
    for (ServerId s = 0; s < servers; ++s)
    {
        nodes.emplace(topology.names[s], s);
    }
    if (const YamlValue* switches = top.Find("switches"))
    {
        if (switches->kind != YamlKind::List)
        {
            throw SpecError(switches->place,
                            "switches: found " + switches->Found() + ", expected a list of names");
        }
        for (const YamlValue& name : switches->items)
        {
            const std::string& called = ScalarOf(name, "switches", "a name");
            if (!nodes.emplace(called, topology.NodeCount()).second)
            {
                throw SpecError(name.place,
                                "switches: found '" + Printable(called) +
                                    "' again, expected names that differ, also from s0, s1, ...");
            }
            topology.AddSwitch(called);
        }
    }
    BitRate rate{0};
    SimTime delay = kMicrosecond;
    top.Rate("rate", rate);
    top.Time("delay", 0, kSecond, delay);
    const YamlValue& links = top.Require("links", "a list of links");
    if (links.kind != YamlKind::List)
    {
        throw SpecError(links.place, "links: found " + links.Found() + ", expected a list");
    }
    for (std::size_t i = 0; i < links.items.size(); ++i)
    {
        const std::string path = "links." + std::to_string(i);
        const YamlSection link(links.items[i],
                               path,
                               {"count", "delay", "from", "rate", "simplex", "to"});
        const auto end = [&](const std::string& key) {
            const YamlValue& value = link.Require(key, "a server or switch");
            const std::string& name = ScalarOf(value, path + "." + key, "a server or switch");
            const auto node = nodes.find(name);
            if (node == nodes.end())
            {
                throw SpecError(value.place,
                                path + "." + key + ": found '" + Printable(name) +
                                    "', expected s0..s" + std::to_string(servers - 1) +
                                    " or the name of a switch");
            }
            return node->second;
        };
        const NodeId a = end("from");
        const NodeId b = end("to");
        if (a == b)
        {
            throw SpecError(links.items[i].place,
                            path + ": found a link from a node to itself, expected two ends");
        }
        BitRate linkRate = rate;
        SimTime linkDelay = delay;
        std::uint32_t count = 1;
        bool simplex = false;
        link.Rate("rate", linkRate);
        link.Time("delay", 0, kSecond, linkDelay);
        link.Count("count", 1U, 1024U, count);
        link.Bool("simplex", simplex);
        if (linkRate.bps == 0)
        {
            throw SpecError(links.items[i].place,
                            path + ".rate: found nothing, expected a rate here or for all links");
        }
        if (topology.links.size() + 2ULL * count > kMostFabricLinks)
        {
            throw SpecError(links.items[i].place,
                            path + ": found more than " + std::to_string(kMostFabricLinks) +
                                " links");
        }
        for (std::uint32_t copy = 0; copy < count; ++copy)
        {
            if (simplex)
            {
                topology.AddLink(a, b, linkRate, linkDelay);
            }
            else
            {
                topology.AddDuplexLink(a, b, linkRate, linkDelay);
            }
        }
    }
    return topology;
}

/** All servers reach server 0 and are reached by it. */
void
CheckConnected(const std::string& file, const Topology& topology)
{
    const auto fail = [&](ServerId a, ServerId b) {
        throw SpecError(file,
                        "found no way from " + topology.names[a] + " to " + topology.names[b] +
                            ", expected a network that joins all servers");
    };
    const std::vector<std::uint32_t> to = topology.DistancesTo(0);
    std::vector<bool> reached(topology.NodeCount());
    std::vector<NodeId> frontier{0};
    reached[0] = true;
    for (std::size_t at = 0; at < frontier.size(); ++at)
    {
        for (LinkId link : topology.Out(frontier[at]))
        {
            const NodeId next = topology.links[link].dst;
            if (!reached[next])
            {
                reached[next] = true;
                frontier.push_back(next);
            }
        }
    }
    for (ServerId server = 1; server < topology.servers; ++server)
    {
        if (to[server] == kNoId)
        {
            fail(server, 0);
        }
        if (!reached[server])
        {
            fail(0, server);
        }
    }
}

} // namespace

Topology
ReadTopologyFile(const std::string& file)
{
    std::ifstream in(file, std::ios::binary);
    std::ostringstream buffer;
    buffer << in.rdbuf();
    if (!in)
    {
        throw SpecError(file, "cannot be read, expected a topology file");
    }
    const std::string text = buffer.str();
    constexpr std::size_t kMostBytes = 256U << 20;
    if (text.size() > kMostBytes)
    {
        throw SpecError(file,
                        "found " + std::to_string(text.size()) + " bytes, expected at most " +
                            std::to_string(kMostBytes));
    }
    // A number comes first in the HPCC format, a key or comment in YAML.
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    const bool hpcc = first != std::string::npos && text[first] >= '0' && text[first] <= '9';
    Topology topology = hpcc ? ReadHpcc(file, text) : ReadYaml(file, text);
    CheckConnected(file, topology);
    return topology;
}

} // namespace topoopt
