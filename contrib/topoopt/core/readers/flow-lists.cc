// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/error.h"
#include "topoopt/core/readers/option-reader.h"
#include "topoopt/core/readers/readers.h"
#include "topoopt/core/readers/words.h"
#include "topoopt/core/trace-flows.h"

#include <algorithm>
#include <filesystem>
#include <functional>

namespace topoopt
{

namespace
{

/** One flow before sorting; 40 bytes. */
struct Flow
{
    SimTime start = 0;
    Bytes bytes = 0;
    std::uint64_t id = 0;
    RankId src = 0;
    RankId dst = 0;
};

constexpr std::uint64_t kMostHosts = 1000000;

/** Collects flows, then writes them into a graph in order of start. */
class FlowBuilder
{
  public:
    FlowBuilder(const FlowOptions& options, std::uint32_t servers)
        : m_options(options),
          m_servers(servers)
    {
    }

    /** The most that a host's number can be, for the reader's check. */
    [[nodiscard]] std::uint64_t LastHost() const
    {
        return (m_servers == 0 ? kMostHosts : m_servers) - 1;
    }

    void Add(const Flow& flow)
    {
        m_unsorted = m_unsorted || (!m_flows.empty() && flow.start < m_flows.back().start);
        m_flows.push_back(flow);
        m_most = std::max({m_most, flow.src + 1, flow.dst + 1});
    }

    void Finish(const std::string& place, LoadedWorkload& out)
    {
        TaskGraph& graph = out.graph;
        graph.ranks = m_servers == 0 ? m_most : m_servers;
        if (m_unsorted)
        {
            graph.warnings.emplace_back("flows were not in order of start; sorted");
        }
        std::stable_sort(m_flows.begin(), m_flows.end(), [](const Flow& a, const Flow& b) {
            return a.start < b.start;
        });
        out.facts["flows"] = static_cast<std::int64_t>(m_flows.size());
        Bytes total = 0;
        for (const Flow& flow : m_flows)
        {
            if (__builtin_add_overflow(total, flow.bytes, &total) || total > INT64_MAX)
            {
                throw SpecError(place, "found flows of 2^63 B or more together");
            }
        }
        out.facts["bytes"] = static_cast<std::int64_t>(total);
        if (m_options.maxOps != 0 && m_flows.size() > m_options.maxOps)
        {
            m_flows.resize(m_options.maxOps);
        }
        graph.tasks.reserve(m_flows.size());
        graph.transfers.reserve(m_flows.size());
        const std::uint32_t name = graph.InternName("flow");
        const SimTime first = m_options.alignFirst && !m_flows.empty() ? m_flows.front().start : 0;
        std::uint64_t empty = 0;
        for (const Flow& flow : m_flows)
        {
            Task task;
            task.rank = flow.src;
            task.sourceId = flow.id;
            task.name = name;
            task.notBefore = flow.start - first;
            if (flow.bytes == 0)
            {
                // Done as soon as it starts; no message, so it is in no statistics of flows.
                task.kind = TaskKind::Join;
                ++empty;
            }
            else
            {
                task.kind = TaskKind::Transfer;
                task.object = static_cast<std::uint32_t>(graph.transfers.size());
                graph.transfers.push_back({flow.src, flow.dst, Scaled(flow.bytes, place), 0});
            }
            graph.Add(task);
        }
        if (empty > 0)
        {
            out.facts["empty_flows"] = static_cast<std::int64_t>(empty);
            graph.warnings.push_back(std::to_string(empty) + " flows of 0 B: done when they start");
        }
        m_flows.clear();
        m_flows.shrink_to_fit();
        graph.Finalize(place);
    }

    [[nodiscard]] Bytes Scaled(Bytes bytes, const std::string& place) const
    {
        if (m_options.scaleBytes == 1.0)
        {
            return bytes;
        }
        const double scaled = std::round(static_cast<double>(bytes) * m_options.scaleBytes);
        if (scaled >= 0x1.0p63)
        {
            throw SpecError(place, "scale_bytes: a flow becomes 2^63 B or more");
        }
        return std::max<Bytes>(1, static_cast<Bytes>(scaled));
    }

  private:
    const FlowOptions& m_options;
    std::uint32_t m_servers;
    std::vector<Flow> m_flows;
    RankId m_most = 0;
    bool m_unsorted = false;
};

/** Seconds as ps; at most 53 days. */
SimTime
Seconds(const WordReader& words, std::size_t column)
{
    constexpr double kMost = 4.6e6;
    return static_cast<SimTime>(
        std::llround(words.Real(column, "a start in seconds", kMost) * 1e12));
}

/** HPCC flow.txt: a count, then `src dst prio dport bytes start_s`, or the same behind a flow number. */
void
ReadHpcc(WordReader& words,
         FlowBuilder& builder,
         const std::map<std::uint64_t, ServerId>* hosts,
         LoadedWorkload& out)
{
    const std::uint64_t count = words.Number(0, "the number of flows", 0, UINT32_MAX - 1);
    std::uint64_t got = 0;
    std::size_t shift = 0;
    const auto host = [&](std::size_t column) {
        if (hosts == nullptr)
        {
            return static_cast<RankId>(words.Number(column, "a host", 0, builder.LastHost()));
        }
        const std::uint64_t node = words.Number(column, "a host", 0, UINT32_MAX);
        const auto at = hosts->find(node);
        if (at == hosts->end())
        {
            words.Fail(column, "a host of the topology file");
        }
        return at->second;
    };
    while (got < count && words.Next())
    {
        shift = got == 0 && words.Size() >= 7 ? 1 : shift;
        if (words.Size() < 6 + shift)
        {
            words.Fail(words.Size(),
                       std::to_string(6 + shift) + " (src dst prio port bytes start)");
        }
        Flow flow;
        flow.id = shift == 1 ? words.Number(0, "a flow number", 0, INT64_MAX) : got;
        flow.src = host(shift);
        flow.dst = host(shift + 1);
        static_cast<void>(words.Number(shift + 2, "a priority", 0, INT64_MAX));
        static_cast<void>(words.Number(shift + 3, "a port", 0, INT64_MAX));
        flow.bytes = words.Number(shift + 4, "a size in bytes", 0, INT64_MAX);
        flow.start = Seconds(words, shift + 5);
        if (flow.src == flow.dst)
        {
            words.Fail(shift + 1, "a destination other than the source");
        }
        builder.Add(flow);
        ++got;
    }
    if (got < count)
    {
        throw SpecError(words.File(),
                        "found " + std::to_string(got) + " flows, expected " +
                            std::to_string(count) + " as line 1 says");
    }
    // What follows is ignored, as HPCC does; flows among it may be a mistake.
    std::uint64_t more = 0;
    while (words.Next())
    {
        const bool flow = words.Size() >= 6 &&
                          std::all_of(words.Word(0).begin(), words.Word(0).end(), [](char c) {
                              return c >= '0' && c <= '9';
                          });
        more += flow ? 1 : 0;
    }
    if (more > 0)
    {
        out.graph.warnings.push_back("line 1 says " + std::to_string(count) + " flows; " +
                                     std::to_string(more) +
                                     " further lines that look like flows were left");
    }
    out.facts["lines_left"] = static_cast<std::int64_t>(more);
}

/** Opera: `src dst bytes start_ns`, no head. */
void
ReadOpera(WordReader& words, FlowBuilder& builder)
{
    std::uint64_t got = 0;
    do
    {
        if (words.Size() != 4)
        {
            words.Fail(std::min<std::size_t>(words.Size(), 4), "4 (src dst bytes start_ns)");
        }
        Flow flow;
        flow.id = got++;
        flow.src = static_cast<RankId>(words.Number(0, "a host", 0, builder.LastHost()));
        flow.dst = static_cast<RankId>(words.Number(1, "a host", 0, builder.LastHost()));
        flow.bytes = words.Number(2, "a size in bytes", 0, INT64_MAX);
        constexpr std::uint64_t kMostNs = std::uint64_t{1} << 52;
        flow.start =
            static_cast<SimTime>(words.Number(3, "a start in ns", 0, kMostNs)) * kNanosecond;
        if (flow.src == flow.dst)
        {
            words.Fail(1, "a destination other than the source");
        }
        builder.Add(flow);
    } while (words.Next());
}

/** htsim's connection matrix. Triggers are dependencies, so these tasks keep the file's order. */
class ConnectionMatrix
{
  public:
    ConnectionMatrix(WordReader& words,
                     const FlowOptions& options,
                     const FlowBuilder& builder,
                     std::uint32_t servers)
        : m_words(words),
          m_options(options),
          m_builder(builder),
          m_servers(servers)
    {
    }

    void Read(LoadedWorkload& out)
    {
        m_graph = &out.graph;
        do
        {
            if (!Head())
            {
                break;
            }
        } while ((m_more = m_words.Next()));
        m_name = m_graph->InternName("flow");
        m_graph->ranks = m_servers == 0 ? static_cast<std::uint32_t>(m_nodes) : m_servers;
        for (; m_more; m_more = m_words.Next())
        {
            Line();
        }
        Check();
        Connect();
        out.facts["flows"] = static_cast<std::int64_t>(m_connections);
        out.facts["triggers"] = static_cast<std::int64_t>(m_triggers.size());
        out.facts["bytes"] = static_cast<std::int64_t>(m_bytes);
        if (m_failures > 0)
        {
            out.graph.warnings.push_back(std::to_string(m_failures) +
                                         " failures of switches and links are left out");
        }
        if (m_options.maxOps != 0)
        {
            throw SpecError(m_words.File(),
                            "max_ops: a connection matrix with triggers cannot be cut");
        }
        m_graph->Finalize(m_words.File());
    }

  private:
    struct Trigger
    {
        std::string kind;
        std::uint64_t count = 0;
        std::int64_t line = 0;
        std::vector<TaskId> firedBy;
        std::vector<TaskId> starts;
    };

    /** Counts before the first connection. @return false at the first other line */
    bool Head()
    {
        const std::string& key = m_words.Word(0);
        if (key == "Nodes")
        {
            m_nodes = m_words.Number(1, "the number of nodes", 1, kMostHosts);
            if (m_servers != 0 && m_nodes > m_servers)
            {
                throw SpecError(m_words.Place(),
                                "found " + std::to_string(m_nodes) + " nodes, expected at most " +
                                    std::to_string(m_servers) + " (servers)");
            }
        }
        else if (key == "Connections")
        {
            m_wantConnections = m_words.Number(1, "the number of connections", 0, UINT32_MAX / 2);
        }
        else if (key == "Triggers")
        {
            m_wantTriggers = m_words.Number(1, "the number of triggers", 0, UINT32_MAX / 4);
        }
        else if (key == "Failures")
        {
            m_wantFailures = m_words.Number(1, "the number of failures", 0, UINT32_MAX);
        }
        else
        {
            return false;
        }
        return true;
    }

    void Line()
    {
        const std::string& first = m_words.Word(0);
        if (first == "trigger")
        {
            TriggerLine();
        }
        else if (first == "failure")
        {
            ++m_failures;
        }
        else
        {
            Connection();
        }
    }

    void TriggerLine()
    {
        if (m_words.Size() < 4 || m_words.Word(1) != "id")
        {
            m_words.Fail(std::min<std::size_t>(m_words.Size(), 1),
                         "trigger id K oneshot|multishot|barrier");
        }
        const std::uint64_t id = m_words.Number(2, "a trigger", 0, UINT32_MAX);
        Trigger& trigger = m_triggers[id];
        if (!trigger.kind.empty())
        {
            m_words.Fail(2, "each trigger once");
        }
        trigger.kind = m_words.Word(3);
        trigger.line = m_words.Line();
        if (trigger.kind == "barrier")
        {
            if (m_words.Size() < 6 || m_words.Word(4) != "count")
            {
                m_words.Fail(std::min<std::size_t>(m_words.Size(), 4), "count N");
            }
            trigger.count = m_words.Number(5, "a count", 1, UINT32_MAX);
        }
        else if (trigger.kind != "oneshot" && trigger.kind != "multishot")
        {
            m_words.Fail(3, "oneshot, multishot or barrier");
        }
        ++m_defined;
    }

    void Connection()
    {
        const std::string pair = m_words.Word(0);
        const std::size_t arrow = pair.find("->");
        std::uint64_t ends[2] = {};
        for (int side = 0; side < 2; ++side)
        {
            const std::string text = arrow == std::string::npos ? ""
                                     : side == 0                ? pair.substr(0, arrow)
                                                                : pair.substr(arrow + 2);
            const auto result = std::from_chars(text.data(), text.data() + text.size(), ends[side]);
            if (text.empty() || result.ec != std::errc() ||
                result.ptr != text.data() + text.size() || ends[side] >= m_nodes)
            {
                m_words.Fail(0,
                             "SRC->DST, both 0.." + std::to_string(m_nodes == 0 ? 0 : m_nodes - 1));
            }
        }
        if (ends[0] == ends[1])
        {
            m_words.Fail(0, "a destination other than the source");
        }
        Task task;
        task.kind = TaskKind::Transfer;
        task.rank = static_cast<RankId>(ends[0]);
        task.sourceId = ++m_connections;
        task.name = m_name;
        bool started = false;
        std::uint64_t size = 0;
        const TaskId id = static_cast<TaskId>(m_graph->tasks.size());
        for (std::size_t i = 1; i < m_words.Size(); i += 2)
        {
            const std::string& key = m_words.Word(i);
            if (key == "id")
            {
                task.sourceId = m_words.Number(i + 1, "a connection id", 1, INT64_MAX);
            }
            else if (key == "start")
            {
                task.notBefore = Start(i + 1);
                started = true;
            }
            else if (key == "trigger")
            {
                m_uses[m_words.Number(i + 1, "a trigger", 0, UINT32_MAX)].starts.push_back(id);
                started = true;
            }
            else if (key == "send_done_trigger" || key == "recv_done_trigger")
            {
                m_uses[m_words.Number(i + 1, "a trigger", 0, UINT32_MAX)].firedBy.push_back(id);
            }
            else if (key == "size")
            {
                size = m_words.Number(i + 1,
                                      "a size in bytes (0, endless, cannot be replayed)",
                                      1,
                                      INT64_MAX);
            }
            else if (key == "prio")
            {
                static_cast<void>(m_words.Number(i + 1, "a priority", 0, INT64_MAX));
            }
            else
            {
                m_words.Fail(
                    i,
                    "id, start, trigger, size, send_done_trigger, recv_done_trigger or prio");
            }
        }
        if (size == 0 || !started)
        {
            m_words.Fail(m_words.Size(), size == 0 ? "size BYTES" : "start TIME or trigger K");
        }
        if (__builtin_add_overflow(m_bytes, size, &m_bytes) || m_bytes > INT64_MAX)
        {
            m_words.Fail(0, "less than 2^63 B together");
        }
        task.object = static_cast<std::uint32_t>(m_graph->transfers.size());
        m_graph->transfers.push_back(
            {task.rank, static_cast<RankId>(ends[1]), m_builder.Scaled(size, m_words.File()), 0});
        m_graph->Add(task);
    }

    SimTime Start(std::size_t column)
    {
        const double start = m_words.Real(column, "a start time", 9e18);
        if (start == 0)
        {
            return 0;
        }
        if (m_options.startUnit.empty())
        {
            throw SpecError(m_words.Place() + ":" + std::to_string(column + 1),
                            "found start " + m_words.Word(column) +
                                ", whose unit the format leaves open (ps now, us in files of old "
                                "generators), expected the option start_unit: ps or us");
        }
        const double ps = start * (m_options.startUnit == "us" ? 1e6 : 1.0);
        if (ps > 4.6e18)
        {
            m_words.Fail(column, "a start within 53 days");
        }
        return static_cast<SimTime>(std::llround(ps));
    }

    void Check() const
    {
        const auto same = [&](std::uint64_t found, std::uint64_t wanted, const char* what) {
            if (found != wanted)
            {
                throw SpecError(m_words.File(),
                                "found " + std::to_string(found) + " " + what + ", expected " +
                                    std::to_string(wanted) + " as the head says");
            }
        };
        same(m_connections, m_wantConnections, "connections");
        same(m_defined, m_wantTriggers, "triggers");
        same(m_failures, m_wantFailures, "failures");
    }

    void Connect()
    {
        for (auto& [id, use] : m_uses)
        {
            const auto at = m_triggers.find(id);
            if (at == m_triggers.end())
            {
                throw SpecError(m_words.File(),
                                "trigger " + std::to_string(id) + " is used but not defined");
            }
            const Trigger& trigger = at->second;
            const std::string place = m_words.File() + ":" + std::to_string(trigger.line);
            if (use.firedBy.empty())
            {
                throw SpecError(place,
                                "trigger " + std::to_string(id) +
                                    " starts connections, but nothing fires it");
            }
            const std::uint64_t needed = trigger.kind == "barrier" ? trigger.count : 1;
            if (!use.starts.empty() && needed != use.firedBy.size())
            {
                throw SpecError(place,
                                "trigger " + std::to_string(id) + ": found " +
                                    std::to_string(use.firedBy.size()) +
                                    " connections that fire it, expected " +
                                    std::to_string(needed) +
                                    " (\"any of several\" cannot be replayed)");
            }
            for (const TaskId before : use.firedBy)
            {
                for (const TaskId after : use.starts)
                {
                    m_graph->AddDependency(before, after);
                }
            }
        }
    }

    WordReader& m_words;
    const FlowOptions& m_options;
    const FlowBuilder& m_builder;
    std::uint32_t m_servers;
    TaskGraph* m_graph = nullptr;
    std::map<std::uint64_t, Trigger> m_triggers; ///< as defined
    std::map<std::uint64_t, Trigger> m_uses;     ///< as used by connections
    std::uint64_t m_nodes = 0;
    std::uint64_t m_connections = 0;
    std::uint64_t m_defined = 0;
    std::uint64_t m_failures = 0;
    std::uint64_t m_wantConnections = 0;
    std::uint64_t m_wantTriggers = 0;
    std::uint64_t m_wantFailures = 0;
    Bytes m_bytes = 0;
    std::uint32_t m_name = 0;
    bool m_more = true;
};

bool
AllDigits(const std::vector<std::string>& words)
{
    return std::all_of(words.begin(), words.end(), [](const std::string& word) {
        return std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
    });
}

/** Poisson arrivals of sizes from a distribution; see FlowOptions. */
LoadedWorkload
DrawFlows(const FlowOptions& options, const ServerSpec& servers, std::uint64_t seed)
{
    if (options.cdf.empty())
    {
        throw SpecError(
            "flows",
            "found no file, expected a flow list or {cdf: FILE, load: .., duration: ..}");
    }
    if (options.load <= 0 || options.duration <= 0)
    {
        throw SpecError(options.cdf, "a size distribution needs load (above 0) and duration");
    }
    if (servers.count < 2)
    {
        throw SpecError(options.cdf, "a size distribution needs two servers or more");
    }
    const SizeDistribution sizes = SizeDistribution::Read({options.cdf, UINT32_MAX, nullptr});
    LoadedWorkload out;
    out.format = "size-cdf";
    out.files = {options.cdf};
    out.stamp = options.Stamp();
    out.measures["mean_bytes"] = sizes.Mean();
    const double rate = options.load * static_cast<double>(servers.rate.bps) * servers.nics *
                        servers.count /
                        (8.0 * sizes.Mean() * options.scaleBytes); // flows/s, all servers
    const double seconds = static_cast<double>(options.duration) / 1e12;
    constexpr double kMostFlows = 2e8;
    if (rate * seconds > kMostFlows)
    {
        throw SpecError(options.cdf,
                        "load and duration give about " + std::to_string(rate * seconds) +
                            " flows, expected at most 2e8");
    }

    // Cumulative weights of rack pairs that have a pair of different servers.
    std::vector<double> cumulative;
    std::uint32_t racks = 0;
    std::uint32_t perRack = 0;
    if (!options.matrix.empty())
    {
        const TrafficMatrix matrix = TrafficMatrix::Read({options.matrix, UINT32_MAX, nullptr});
        out.files.push_back(options.matrix);
        racks = matrix.size;
        perRack = racks == 0 ? 0 : servers.count / racks;
        if (perRack == 0 || servers.count % racks != 0)
        {
            throw SpecError(options.matrix,
                            "found a matrix of " + std::to_string(racks) +
                                " racks, expected a divisor of " + std::to_string(servers.count) +
                                " servers");
        }
        double sum = 0;
        for (std::uint32_t i = 0; i < racks; ++i)
        {
            for (std::uint32_t j = 0; j < racks; ++j)
            {
                sum += i == j && perRack == 1 ? 0.0 : matrix.weights[std::size_t{i} * racks + j];
                cumulative.push_back(sum);
            }
        }
        if (sum <= 0)
        {
            throw SpecError(options.matrix, "found no traffic between different servers");
        }
    }
    Rng arrivals(seed, "flows.arrival");
    Rng pairs(seed, "flows.pair");
    Rng draws(seed, "flows.size");
    FlowBuilder builder(options, servers.count);
    double time = 0;
    for (std::uint64_t id = 0;; ++id)
    {
        time += -std::log1p(-arrivals.Uniform()) / rate;
        if (time >= seconds)
        {
            break;
        }
        Flow flow;
        flow.id = id;
        flow.start = static_cast<SimTime>(std::llround(time * 1e12));
        if (cumulative.empty())
        {
            flow.src = static_cast<RankId>(pairs.Below(servers.count));
            flow.dst = static_cast<RankId>(pairs.Below(servers.count - 1));
            flow.dst += flow.dst >= flow.src ? 1 : 0;
        }
        else
        {
            const double at = pairs.Uniform() * cumulative.back();
            const auto cell = static_cast<std::uint32_t>(
                std::upper_bound(cumulative.begin(), cumulative.end(), at) - cumulative.begin());
            const std::uint32_t i = cell / racks;
            const std::uint32_t j = cell % racks;
            const auto inRack = static_cast<RankId>(pairs.Below(perRack));
            flow.src = i * perRack + inRack;
            if (i == j)
            {
                const auto other = static_cast<RankId>(pairs.Below(perRack - 1));
                flow.dst = j * perRack + other + (other >= inRack ? 1 : 0);
            }
            else
            {
                flow.dst = j * perRack + static_cast<RankId>(pairs.Below(perRack));
            }
        }
        flow.bytes = sizes.At(draws.Uniform());
        builder.Add(flow);
    }
    builder.Finish(options.cdf, out);
    return out;
}

} // namespace

FlowOptions
FlowOptions::Parse(const std::map<std::string, std::string>& options,
                   const std::map<std::string, std::string>& places)
{
    FlowOptions out;
    OptionReader reader(options, places);
    reader.Text("cdf", out.cdf);
    reader.Factor("load", out.load, false);
    reader.Quantity("duration", out.duration, [](const std::string& text) {
        return ParseTime(text);
    });
    reader.Text("matrix", out.matrix);
    reader.Text("topology", out.topology);
    reader.Choice("start_unit", {"ps", "us"}, [&out](std::size_t i) {
        out.startUnit = i == 0 ? "ps" : "us";
    });
    reader.Choice("align", {"recorded", "first"}, [&out](std::size_t i) {
        out.alignFirst = i == 1;
    });
    reader.Number("max_ops", out.maxOps, 0, UINT64_MAX);
    reader.Factor("scale_bytes", out.scaleBytes, false);
    reader.RefuseOthers("flow");
    return out;
}

std::string
FlowOptions::Stamp() const
{
    std::string out;
    const auto add = [&out](bool differs, const std::string& text) {
        out += differs ? (out.empty() ? "" : " ") + text : "";
    };
    // Names without their directories, which differ between machines.
    const auto name = [](const std::string& path) {
        return std::filesystem::path(path).filename().string();
    };
    add(!cdf.empty(), "cdf=" + name(cdf));
    add(!matrix.empty(), "matrix=" + name(matrix));
    add(!topology.empty(), "topology=" + name(topology));
    add(load > 0, "load=" + ShortestText(load));
    add(duration > 0, "duration=" + FormatTime(duration));
    add(!startUnit.empty(), "start_unit=" + startUnit);
    add(alignFirst, "align=first");
    add(maxOps != 0, "max_ops=" + std::to_string(maxOps));
    add(scaleBytes != 1.0, "scale_bytes=" + ShortestText(scaleBytes));
    return out;
}

bool
ProbeHpccFlows(std::string_view head)
{
    const auto lines = HeadLines(head, 2);
    return !lines.empty() && lines[0].size() == 1 && AllDigits(lines[0]) &&
           (lines.size() < 2 || lines[1].size() >= 5);
}

bool
ProbeConnectionMatrix(std::string_view head)
{
    const auto lines = HeadLines(head, 2);
    return !lines.empty() && lines[0].size() == 2 &&
           ((lines[0][0] == "Nodes" && (lines.size() < 2 || lines[1][0] != "Tiers")) ||
            lines[0][0] == "Connections");
}

bool
ProbeOperaFlows(std::string_view head)
{
    const auto lines = HeadLines(head, 1);
    return !lines.empty() && lines[0].size() == 4 && AllDigits(lines[0]);
}

LoadedWorkload
LoadFlowsFile(const TraceFile& file, const FlowOptions& options, const ServerSpec& servers)
{
    std::string format;
    {
        Input input(file);
        const std::string_view head = input.Head();
        if (head.empty())
        {
            throw SpecError(file.path, "found an empty file, expected a flow list");
        }
        if (ProbeSizeCdf(head))
        {
            throw SpecError(
                file.path,
                "found a size distribution, expected a flow list; use flows: {cdf: FILE, "
                "load: .., duration: ..}");
        }
        // Errors in a line are the reader's; only the first line decides.
        const auto lines = HeadLines(head, 1);
        format = ProbeConnectionMatrix(head) ? "htsim-cm"
                 : ProbeOperaFlows(head)     ? "opera"
                 : !lines.empty() && lines[0].size() == 1 && lines[0][0].size() < 20 &&
                         AllDigits(lines[0])
                     ? "hpcc-flows"
                     : "";
        if (format.empty())
        {
            throw SpecError(file.path,
                            "found no known flow list, expected HPCC flow.txt (a count in line 1), "
                            "htsim .cm (Nodes N) or Opera (src dst bytes start_ns)");
        }
    }
    LoadedWorkload out;
    out.format = format;
    out.files = {file.path};
    out.stamp = options.Stamp();
    std::map<std::uint64_t, ServerId> hosts;
    std::uint32_t count = servers.count;
    if (!options.topology.empty())
    {
        out.fabric = ReadTopologyFile({options.topology, UINT32_MAX, nullptr},
                                      HashName(options.topology),
                                      &hosts,
                                      out.graph.warnings);
        if (count != 0 && count != out.fabric->topology.servers)
        {
            throw SpecError(options.topology,
                            "found " + std::to_string(out.fabric->topology.servers) +
                                " hosts, expected " + std::to_string(count) + " (servers)");
        }
        count = out.fabric->topology.servers;
    }
    FlowBuilder builder(options, count);
    WordReader words(file);
    words.Next();
    if (format == "htsim-cm")
    {
        ConnectionMatrix(words, options, builder, count).Read(out);
        return out;
    }
    if (format == "opera")
    {
        ReadOpera(words, builder);
    }
    else
    {
        ReadHpcc(words, builder, options.topology.empty() ? nullptr : &hosts, out);
    }
    builder.Finish(file.path, out);
    return out;
}

LoadedWorkload
LoadFlows(const std::string& path,
          const FlowOptions& options,
          const ServerSpec& servers,
          std::uint64_t seed)
{
    return path.empty() ? DrawFlows(options, servers, seed)
                        : LoadFlowsFile({path, UINT32_MAX, nullptr}, options, servers);
}

} // namespace topoopt
