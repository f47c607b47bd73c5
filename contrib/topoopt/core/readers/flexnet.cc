// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/readers/flexnet.h"

#include "topoopt/core/error.h"
#include "topoopt/core/readers/input.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>
#include <zlib.h>

namespace topoopt
{

namespace
{

/// Offsets of the format are signed 32 bit.
constexpr std::uint64_t kMaxFile = std::uint64_t{1} << 31;
/// More servers or switches than this are taken for damage: tables of that length would be built.
constexpr std::uint32_t kMaxNodes = 1U << 20;
constexpr Bytes kMaxBytes = Bytes{1} << 50;
constexpr float kMaxRuntimeMs = 1e8F; // a day; keeps sums of picoseconds far from overflow

/** A FlatBuffers file and what was already taken from it. */
class Buffer
{
  public:
    Buffer(std::string_view data, const std::string& file)
        : m_data(data),
          m_file(file),
          m_budget(2 * std::uint64_t{data.size()} + 1024)
    {
    }

    [[noreturn]] void Fail(std::uint64_t at, const std::string& text) const
    {
        throw SpecError(PlaceAtByte(m_file, at), text);
    }

    [[nodiscard]] std::uint64_t Size() const
    {
        return m_data.size();
    }

    template <typename T>
    [[nodiscard]] T Get(std::uint64_t at, const char* what) const
    {
        if (at > m_data.size() || m_data.size() - at < sizeof(T))
        {
            Fail(at,
                 std::string(what) + ": ends past the file, found a position of " +
                     std::to_string(sizeof(T)) + " bytes in a file of " +
                     std::to_string(m_data.size()));
        }
        // Little endian whatever the machine is.
        std::uint64_t bits = 0;
        for (std::size_t i = sizeof(T); i-- > 0;)
        {
            bits = bits << 8 | static_cast<unsigned char>(m_data[at + i]);
        }
        T value;
        if constexpr (std::is_same_v<T, float>)
        {
            const auto word = static_cast<std::uint32_t>(bits);
            std::memcpy(&value, &word, sizeof value);
        }
        else
        {
            value = static_cast<T>(bits);
        }
        return value;
    }

    /** Position that the offset stored at @p at points to. */
    [[nodiscard]] std::uint64_t Follow(std::uint64_t at, const char* what) const
    {
        const std::uint64_t target = at + Get<std::uint32_t>(at, what);
        if (target == at || target >= m_data.size())
        {
            Fail(at,
                 std::string(what) + ": found an offset to byte " + std::to_string(target) +
                     ", expected one inside the file of " + std::to_string(m_data.size()) +
                     " bytes");
        }
        return target;
    }

    /**
     * Checks a vector's extent and books its elements: overlapping vectors cannot make the reader build
     * more than a small multiple of the file.
     * @return its length
     */
    [[nodiscard]] std::uint32_t Vector(std::uint64_t at, std::uint64_t width, const char* what)
    {
        const auto length = Get<std::uint32_t>(at, what);
        const std::uint64_t bytes = length * width;
        if (bytes > m_data.size() - at - 4)
        {
            Fail(at,
                 std::string(what) + ": found " + std::to_string(length) +
                     " elements, expected at most the " +
                     std::to_string((m_data.size() - at - 4) / width) + " that fit the file");
        }
        if (bytes > m_budget)
        {
            Fail(at,
                 std::string(what) +
                     ": found vectors that overlap, expected each to have bytes of its own");
        }
        m_budget -= bytes;
        return length;
    }

    [[nodiscard]] std::string Text(std::uint64_t at, std::uint32_t length) const
    {
        return std::string(m_data.substr(at, length));
    }

  private:
    std::string_view m_data;
    const std::string& m_file;
    std::uint64_t m_budget; ///< bytes of vector elements that may still be read
};

/** One table; fields are named by slot. */
class Table
{
  public:
    Table(Buffer& buffer, std::uint64_t at, const char* what)
        : m_buffer(&buffer),
          m_at(at),
          m_what(what)
    {
        const std::int64_t vtable =
            static_cast<std::int64_t>(at) - buffer.Get<std::int32_t>(at, what);
        if (vtable < 0 || vtable >= static_cast<std::int64_t>(buffer.Size()))
        {
            buffer.Fail(at,
                        std::string(what) + ": found its vtable at byte " + std::to_string(vtable) +
                            ", expected one inside the file of " + std::to_string(buffer.Size()) +
                            " bytes");
        }
        m_vtable = static_cast<std::uint64_t>(vtable);
        m_vtableSize = buffer.Get<std::uint16_t>(m_vtable, what);
        m_size = buffer.Get<std::uint16_t>(m_vtable + 2, what);
        if (m_vtableSize < 4 || m_vtableSize % 2 != 0 || m_vtableSize > buffer.Size() - m_vtable)
        {
            buffer.Fail(m_vtable,
                        std::string(what) + ": found a vtable of " + std::to_string(m_vtableSize) +
                            " bytes, expected an even number from 4 that fits the file");
        }
        if (m_size < 4 || m_size > buffer.Size() - at)
        {
            buffer.Fail(at,
                        std::string(what) + ": found a table of " + std::to_string(m_size) +
                            " bytes, expected at least 4 and inside the file");
        }
    }

    [[nodiscard]] std::uint64_t At() const
    {
        return m_at;
    }

    template <typename T>
    [[nodiscard]] T Scalar(std::uint32_t slot, const char* what) const
    {
        const std::uint64_t field = Field(slot, sizeof(T), what);
        return field == 0 ? T{} : m_buffer->Get<T>(field, what);
    }

    template <typename T>
    [[nodiscard]] std::vector<T> Scalars(std::uint32_t slot, const char* what) const
    {
        std::vector<T> values;
        if (const std::uint64_t field = Field(slot, 4, what); field != 0)
        {
            const std::uint64_t at = m_buffer->Follow(field, what);
            const std::uint32_t length = m_buffer->Vector(at, sizeof(T), what);
            values.reserve(length);
            for (std::uint32_t i = 0; i < length; ++i)
            {
                values.push_back(m_buffer->Get<T>(at + 4 + i * sizeof(T), what));
            }
        }
        return values;
    }

    [[nodiscard]] std::vector<Table> Tables(std::uint32_t slot, const char* what) const
    {
        std::vector<Table> tables;
        if (const std::uint64_t field = Field(slot, 4, what); field != 0)
        {
            const std::uint64_t at = m_buffer->Follow(field, what);
            const std::uint32_t length = m_buffer->Vector(at, 4, what);
            tables.reserve(length);
            for (std::uint32_t i = 0; i < length; ++i)
            {
                tables.emplace_back(*m_buffer,
                                    m_buffer->Follow(at + 4 + i * std::uint64_t{4}, what),
                                    what);
            }
        }
        return tables;
    }

    [[nodiscard]] std::string String(std::uint32_t slot, const char* what) const
    {
        const std::uint64_t field = Field(slot, 4, what);
        if (field == 0)
        {
            return {};
        }
        const std::uint64_t at = m_buffer->Follow(field, what);
        return m_buffer->Text(at + 4, m_buffer->Vector(at, 1, what));
    }

  private:
    /** Position of a field, 0 if absent. */
    [[nodiscard]] std::uint64_t Field(std::uint32_t slot,
                                      std::uint64_t width,
                                      const char* what) const
    {
        const std::uint64_t entry = 4 + 2 * std::uint64_t{slot};
        if (entry + 2 > m_vtableSize)
        {
            return 0;
        }
        const auto offset = m_buffer->Get<std::uint16_t>(m_vtable + entry, what);
        if (offset == 0)
        {
            return 0;
        }
        if (offset < 4 || offset + width > m_size)
        {
            m_buffer->Fail(m_vtable + entry,
                           std::string(what) + ": found at byte " + std::to_string(offset) +
                               " of its " + m_what + ", expected 4.." +
                               std::to_string(static_cast<std::int64_t>(m_size) -
                                              static_cast<std::int64_t>(width)));
        }
        return m_at + offset;
    }

    Buffer* m_buffer;
    std::uint64_t m_at;
    const char* m_what;
    std::uint64_t m_vtable = 0;
    std::uint16_t m_vtableSize = 0;
    std::uint16_t m_size = 0;
};

std::string
ReadWhole(const std::string& path)
{
    // zlib reads plain files through the same calls.
    const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
    if (!file)
    {
        throw SpecError(path, std::string("cannot be opened: ") + std::strerror(errno));
    }
    std::string content;
    std::vector<char> block(std::size_t{1} << 18);
    while (true)
    {
        const int got = gzread(file.get(), block.data(), static_cast<unsigned>(block.size()));
        if (got <= 0)
        {
            int code = Z_OK;
            const char* text = gzerror(file.get(), &code);
            if (got < 0 || (code != Z_OK && code != Z_STREAM_END))
            {
                throw SpecError(PlaceAtByte(path, content.size()),
                                code == Z_ERRNO
                                    ? std::string("cannot be read: ") + std::strerror(errno)
                                    : std::string("damaged gzip data: ") + text);
            }
            return content;
        }
        content.append(block.data(), static_cast<std::size_t>(got));
        if (content.size() >= kMaxFile)
        {
            throw SpecError(path, "found more than 2 GiB, the limit of the format");
        }
    }
}

bool
IsTaskKind(std::int16_t kind)
{
    return kind == 0 || kind == 1 || (kind >= 3 && kind <= 6);
}

bool
IsDeviceKind(std::int16_t kind)
{
    return kind == 0 || kind == 1 || (kind >= 10 && kind <= 14);
}

[[noreturn]] void
FailAt(const FlexNetGraph& graph, std::uint64_t at, const std::string& text)
{
    if (at == 0)
    {
        throw SpecError(graph.file, text);
    }
    throw SpecError(PlaceAtByte(graph.file, at), text);
}

std::string
TaskName(const FlexNetGraph& graph, std::size_t index)
{
    return "task " + std::to_string(index) + " (id " + std::to_string(graph.tasks[index].id) + ")";
}

std::string
PairName(NodeId a, NodeId b)
{
    return std::to_string(a) + "->" + std::to_string(b);
}

void
CheckNodes(const FlexNetGraph& graph)
{
    if (graph.nodes == 0 || graph.nodes > kMaxNodes)
    {
        FailAt(graph,
               0,
               "nnode: found " + std::to_string(graph.nodes) + ", expected 1.." +
                   std::to_string(kMaxNodes));
    }
    if (graph.switches > kMaxNodes)
    {
        FailAt(graph,
               0,
               "nswitch: found " + std::to_string(graph.switches) + ", expected at most " +
                   std::to_string(kMaxNodes));
    }
    if (graph.gpusPerNode == 0 || graph.gpusPerNode > kMaxNodes / graph.nodes)
    {
        FailAt(graph,
               0,
               "ngpupernode: found " + std::to_string(graph.gpusPerNode) + ", expected 1.." +
                   std::to_string(kMaxNodes / graph.nodes) + " on " + std::to_string(graph.nodes) +
                   " servers");
    }
}

void
CheckDevices(const FlexNetGraph& graph)
{
    const std::uint64_t all = std::uint64_t{graph.nodes} + graph.switches;
    for (std::size_t i = 0; i < graph.devices.size(); ++i)
    {
        const FlexNetDevice& device = graph.devices[i];
        const std::string name =
            "device " + std::to_string(i) + " (id " + std::to_string(device.id) + ")";
        if (device.kind >= FlexNetDeviceKind::Network)
        {
            if (device.property / all >= graph.nodes || device.property % all >= graph.nodes)
            {
                FailAt(graph,
                       device.at,
                       name + ": found property " + std::to_string(device.property) + " = " +
                           std::to_string(device.property / all) + " * " + std::to_string(all) +
                           " + " + std::to_string(device.property % all) +
                           ", expected source and destination below " +
                           std::to_string(graph.nodes) + " servers");
            }
        }
        else if (device.node >= graph.nodes)
        {
            FailAt(graph,
                   device.at,
                   name + ": found node " + std::to_string(device.node) + ", expected 0.." +
                       std::to_string(graph.nodes - 1));
        }
    }
}

void
CheckTasks(const FlexNetGraph& graph)
{
    std::vector<std::uint8_t> member(graph.nodes);
    for (std::size_t i = 0; i < graph.tasks.size(); ++i)
    {
        const FlexNetTask& task = graph.tasks[i];
        if (!(task.runtimeMs >= 0) || task.runtimeMs > kMaxRuntimeMs)
        {
            FailAt(graph,
                   task.at,
                   TaskName(graph, i) + ": found a run time of " + std::to_string(task.runtimeMs) +
                       " ms, expected 0..1e8");
        }
        if (task.bytes > kMaxBytes)
        {
            FailAt(graph,
                   task.at,
                   TaskName(graph, i) + ": found " + std::to_string(task.bytes) +
                       " B, expected at most 2^50");
        }
        if (task.kind == FlexNetTaskKind::AllReduce)
        {
            if (task.next.empty())
            {
                FailAt(graph,
                       task.at,
                       TaskName(graph, i) +
                           ": found an AllReduce of no servers, expected at least one");
            }
            for (std::size_t m = 0; m < task.next.size(); ++m)
            {
                const std::uint32_t server = task.next[m];
                if (server >= graph.nodes || member[server] != 0)
                {
                    FailAt(graph,
                           task.at,
                           TaskName(graph, i) + ": found server " + std::to_string(server) +
                               (server >= graph.nodes ? "" : " twice") +
                               " in its group, expected distinct ones of 0.." +
                               std::to_string(graph.nodes - 1));
                }
                member[server] = 1;
            }
            for (const std::uint32_t server : task.next)
            {
                member[server] = 0;
            }
            continue;
        }
        if (task.device >= graph.devices.size())
        {
            FailAt(graph,
                   task.at,
                   TaskName(graph, i) + ": found no device, expected one of the " +
                       std::to_string(graph.devices.size()) + " listed");
        }
        const FlexNetDevice& device = graph.devices[task.device];
        if (device.kind >= FlexNetDeviceKind::Network && task.kind != FlexNetTaskKind::Message)
        {
            FailAt(graph,
                   task.at,
                   TaskName(graph, i) + ": found a compute task on network device " +
                       std::to_string(device.id) + ", expected a GPU, CPU or bus");
        }
        if (graph.IsFlow(task) && graph.SourceOf(device) == graph.DestinationOf(device))
        {
            FailAt(graph,
                   task.at,
                   TaskName(graph, i) + ": found a message from server " +
                       std::to_string(graph.SourceOf(device)) + " to itself, expected two servers");
        }
        for (const std::uint32_t successor : task.next)
        {
            if (successor >= graph.tasks.size())
            {
                FailAt(graph,
                       task.at,
                       TaskName(graph, i) + ": found successor number " +
                           std::to_string(successor) + ", expected less than " +
                           std::to_string(graph.tasks.size()));
            }
        }
    }
}

void
CheckCycles(const FlexNetGraph& graph)
{
    const std::size_t count = graph.tasks.size();
    const auto successors = [&](std::size_t task) -> const std::vector<std::uint32_t>& {
        static const std::vector<std::uint32_t> none;
        return graph.tasks[task].kind == FlexNetTaskKind::AllReduce ? none : graph.tasks[task].next;
    };
    std::vector<std::uint32_t> open(count);
    for (std::size_t i = 0; i < count; ++i)
    {
        for (const std::uint32_t s : successors(i))
        {
            ++open[s];
        }
    }
    std::vector<std::uint32_t> ready;
    for (std::uint32_t i = 0; i < count; ++i)
    {
        if (open[i] == 0)
        {
            ready.push_back(i);
        }
    }
    std::size_t done = 0;
    while (!ready.empty())
    {
        const std::uint32_t task = ready.back();
        ready.pop_back();
        ++done;
        for (const std::uint32_t s : successors(task))
        {
            if (--open[s] == 0)
            {
                ready.push_back(s);
            }
        }
    }
    if (done == count)
    {
        return;
    }
    // What is left lies on or behind a cycle: walking back from any of it finds one.
    std::vector<std::uint32_t> before(count, kNoId);
    std::uint32_t at = kNoId;
    for (std::uint32_t i = 0; i < count; ++i)
    {
        if (open[i] != 0)
        {
            at = std::min(at, i);
            for (const std::uint32_t s : successors(i))
            {
                before[s] = std::min(before[s], i);
            }
        }
    }
    std::vector<std::uint8_t> visited(count);
    while (visited[at] == 0)
    {
        visited[at] = 1;
        at = before[at];
    }
    const std::uint32_t first = at;
    std::string cycle = TaskName(graph, first);
    std::size_t length = 0;
    do
    {
        at = before[at];
        cycle = (++length <= 8 ? TaskName(graph, at) + " -> "
                               : std::string(length == 9 ? "... -> " : "")) +
                cycle;
    } while (at != first);
    FailAt(graph,
           graph.tasks[first].at,
           "found a cycle of dependencies, " + cycle + ", expected none");
}

using Cables = std::map<std::pair<NodeId, NodeId>, std::uint32_t>;

Cables
CheckConnections(const FlexNetGraph& graph)
{
    Cables cables;
    const std::uint64_t all = std::uint64_t{graph.nodes} + graph.switches;
    for (const FlexNetConnection& connection : graph.connections)
    {
        const std::string name =
            "connection " + std::to_string(connection.a) + "-" + std::to_string(connection.b);
        if (connection.a >= all || connection.b >= all || connection.a == connection.b)
        {
            FailAt(graph, 0, name + ": expected two nodes of 0.." + std::to_string(all - 1));
        }
        if (connection.count == 0 || connection.count > 65535)
        {
            FailAt(graph,
                   0,
                   name + ": found " + std::to_string(connection.count) +
                       " cables, expected 1..65535");
        }
        if (!cables.emplace(std::minmax(connection.a, connection.b), connection.count).second)
        {
            FailAt(graph, 0, name + ": found twice, expected once for both directions");
        }
    }
    return cables;
}

/** @return the ordered pairs with at least one path */
std::set<std::pair<NodeId, NodeId>>
CheckRoutes(const FlexNetGraph& graph, const Cables& cables)
{
    std::set<std::pair<NodeId, NodeId>> listed;
    std::set<std::pair<NodeId, NodeId>> served;
    const std::uint64_t all = std::uint64_t{graph.nodes} + graph.switches;
    for (const FlexNetRoute& route : graph.routes)
    {
        const std::string name = "route " + PairName(route.src, route.dst);
        if (route.src >= all || route.dst >= all)
        {
            FailAt(graph, 0, name + ": expected nodes of 0.." + std::to_string(all - 1));
        }
        if (!listed.emplace(route.src, route.dst).second)
        {
            FailAt(graph, 0, name + ": found twice, expected once");
        }
        for (const FlexNetPath& path : route.paths)
        {
            if (path.nodes.size() < 2 || path.nodes.front() != route.src ||
                path.nodes.back() != route.dst)
            {
                FailAt(graph,
                       0,
                       name + ": found a path of " + std::to_string(path.nodes.size()) +
                           " nodes, expected one from its source to its destination");
            }
            for (std::size_t hop = 1; hop < path.nodes.size(); ++hop)
            {
                if (cables.count(std::minmax(path.nodes[hop - 1], path.nodes[hop])) == 0)
                {
                    FailAt(graph,
                           0,
                           name + ": found a hop " +
                               PairName(path.nodes[hop - 1], path.nodes[hop]) +
                               ", expected hops along the connections");
                }
            }
            served.emplace(route.src, route.dst);
        }
    }
    return served;
}

std::uint64_t
TotalJump(const std::vector<std::uint32_t>& jumps, std::uint64_t nodes)
{
    std::uint64_t total = 0;
    for (const std::uint32_t jump : jumps)
    {
        total = (total + jump) % nodes;
    }
    return total;
}

std::uint64_t
Gcd(std::uint64_t a, std::uint64_t b)
{
    return b == 0 ? a : Gcd(b, a % b);
}

/** @return sizes of group that have rings */
std::set<std::uint64_t>
CheckRings(const FlexNetGraph& graph, const Cables& cables)
{
    std::set<std::uint64_t> sizes;
    std::set<std::uint32_t> checked;
    for (const FlexNetRings& rings : graph.rings)
    {
        const std::string name = "rings of " + std::to_string(rings.groupSize);
        if (rings.groupSize < 2 || rings.groupSize > graph.nodes)
        {
            FailAt(graph, 0, name + ": expected a size of 2.." + std::to_string(graph.nodes));
        }
        if (!sizes.insert(rings.groupSize).second)
        {
            FailAt(graph, 0, name + ": found twice, expected once");
        }
        if (rings.jumps.empty())
        {
            FailAt(graph, 0, name + ": found no jump list, expected at least one");
        }
        for (const std::vector<std::uint32_t>& jumps : rings.jumps)
        {
            const std::uint64_t total = TotalJump(jumps, graph.nodes);
            if (graph.nodes / Gcd(graph.nodes, total) != rings.groupSize)
            {
                FailAt(graph,
                       0,
                       name + ": found jumps of " + std::to_string(total) +
                           " servers together, expected a walk that comes back after " +
                           std::to_string(rings.groupSize) + " of " + std::to_string(graph.nodes) +
                           " servers");
            }
            for (const std::uint32_t jump : jumps)
            {
                for (std::uint32_t i = 0; checked.count(jump) == 0 && i < graph.nodes; ++i)
                {
                    const auto to = static_cast<NodeId>((std::uint64_t{i} + jump) % graph.nodes);
                    if (cables.count(std::minmax(i, to)) == 0)
                    {
                        FailAt(graph,
                               0,
                               name + ": found a hop " + PairName(i, to) +
                                   ", expected hops along the connections");
                    }
                }
                checked.insert(jump);
            }
        }
    }
    return sizes;
}

} // namespace

void
VerifyFlexNet(const FlexNetGraph& graph)
{
    CheckNodes(graph);
    CheckDevices(graph);
    CheckTasks(graph);
    CheckCycles(graph);
    const Cables cables = CheckConnections(graph);
    const auto served = CheckRoutes(graph, cables);
    const auto sizes = CheckRings(graph, cables);
    if (graph.connections.empty())
    {
        return;
    }
    for (std::size_t i = 0; i < graph.tasks.size(); ++i)
    {
        const FlexNetTask& task = graph.tasks[i];
        if (graph.IsFlow(task))
        {
            const FlexNetDevice& device = graph.devices[task.device];
            const NodeId src = graph.SourceOf(device);
            const NodeId dst = graph.DestinationOf(device);
            if (served.count({src, dst}) == 0)
            {
                FailAt(graph,
                       task.at,
                       TaskName(graph, i) + ": found no route " + PairName(src, dst) +
                           ", expected at least one path");
            }
        }
        else if (task.kind == FlexNetTaskKind::AllReduce && !graph.rings.empty() &&
                 task.next.size() > 1 && sizes.count(task.next.size()) == 0)
        {
            FailAt(graph,
                   task.at,
                   TaskName(graph, i) + ": found no rings for its group of " +
                       std::to_string(task.next.size()) + ", expected some, as the file has rings");
        }
    }
}

FlexNetGraph
ParseFlexNet(std::string_view content, const std::string& file)
{
    Buffer buffer(content, file);
    if (content.size() >= kMaxFile)
    {
        throw SpecError(file, "found more than 2 GiB, the limit of the format");
    }
    const Table root(buffer, buffer.Follow(0, "root offset"), "TaskGraph");

    FlexNetGraph graph;
    graph.file = file;
    graph.gpusPerNode = root.Scalar<std::uint32_t>(0, "ngpupernode");
    graph.nodes = root.Scalar<std::uint32_t>(1, "nnode");
    graph.switches = root.Scalar<std::uint32_t>(2, "nswitch");
    graph.intraBandwidth = root.Scalar<float>(3, "intergpubw");
    graph.dramBandwidth = root.Scalar<float>(4, "drambw");
    graph.networkBandwidth = root.Scalar<float>(5, "netbw");
    CheckNodes(graph);

    for (const Table& table : root.Tables(6, "conn"))
    {
        graph.connections.push_back({table.Scalar<std::uint32_t>(0, "conn.fromnode"),
                                     table.Scalar<std::uint32_t>(1, "conn.tonode"),
                                     table.Scalar<std::uint32_t>(2, "conn.nconn")});
    }
    for (const Table& table : root.Tables(7, "ops"))
    {
        graph.operators.push_back({table.Scalar<std::uint64_t>(0, "op.opid"),
                                   table.Scalar<std::uint64_t>(1, "op.type"),
                                   table.String(2, "op.name")});
    }

    std::unordered_map<std::uint64_t, std::uint32_t> deviceOf; // only looked up, never walked
    for (const Table& table : root.Tables(9, "devices"))
    {
        FlexNetDevice device;
        device.at = table.At();
        const auto kind = table.Scalar<std::int16_t>(0, "device.type");
        if (!IsDeviceKind(kind))
        {
            buffer.Fail(device.at,
                        "device.type: found " + std::to_string(kind) + ", expected 0, 1 or 10..14");
        }
        device.kind = static_cast<FlexNetDeviceKind>(kind);
        device.id = table.Scalar<std::uint64_t>(1, "device.deviceid");
        device.node = table.Scalar<std::uint64_t>(2, "device.nodeid");
        device.property = table.Scalar<std::uint64_t>(3, "device.deviceproperty");
        device.bandwidth = table.Scalar<std::uint64_t>(4, "device.bandwidth");
        if (!deviceOf.emplace(device.id, static_cast<std::uint32_t>(graph.devices.size())).second)
        {
            buffer.Fail(device.at,
                        "device.deviceid: found " + std::to_string(device.id) +
                            " twice, expected unique ids");
        }
        graph.devices.push_back(device);
    }

    const std::vector<Table> tasks = root.Tables(8, "tasks");
    std::unordered_map<std::uint64_t, std::uint32_t> taskOf; // only looked up, never walked
    taskOf.reserve(tasks.size());
    graph.tasks.reserve(tasks.size());
    for (const Table& table : tasks)
    {
        FlexNetTask task;
        task.at = table.At();
        const auto kind = table.Scalar<std::int16_t>(0, "task.type");
        if (!IsTaskKind(kind))
        {
            buffer.Fail(task.at,
                        "task.type: found " + std::to_string(kind) +
                            (kind == 2 ? " (TASK_COMM)" : "") + ", expected 0, 1, 3, 4, 5 or 6");
        }
        task.kind = static_cast<FlexNetTaskKind>(kind);
        task.id = table.Scalar<std::uint64_t>(1, "task.taskid");
        task.runtimeMs = table.Scalar<float>(3, "task.runtime");
        task.bytes = table.Scalar<std::uint64_t>(4, "task.xfersize");
        if (task.kind != FlexNetTaskKind::AllReduce)
        {
            const auto id = table.Scalar<std::uint64_t>(2, "task.deviceid");
            const auto found = deviceOf.find(id);
            if (found == deviceOf.end())
            {
                buffer.Fail(task.at,
                            "task.deviceid: found " + std::to_string(id) +
                                ", expected the id of a listed device");
            }
            task.device = found->second;
        }
        if (!taskOf.emplace(task.id, static_cast<std::uint32_t>(graph.tasks.size())).second)
        {
            buffer.Fail(task.at,
                        "task.taskid: found " + std::to_string(task.id) +
                            " twice, expected unique ids");
        }
        graph.tasks.push_back(std::move(task));
    }
    for (std::size_t i = 0; i < tasks.size(); ++i)
    {
        FlexNetTask& task = graph.tasks[i];
        const auto next = tasks[i].Scalars<std::uint64_t>(5, "task.nexttasks");
        task.next.reserve(next.size());
        for (const std::uint64_t id : next)
        {
            if (task.kind == FlexNetTaskKind::AllReduce)
            {
                // Too large numbers keep their meaning of "out of range".
                task.next.push_back(static_cast<std::uint32_t>(std::min<std::uint64_t>(id, kNoId)));
                continue;
            }
            const auto found = taskOf.find(id);
            if (found == taskOf.end())
            {
                buffer.Fail(task.at,
                            "task.nexttasks: found " + std::to_string(id) +
                                ", expected the id of a listed task");
            }
            task.next.push_back(found->second);
        }
    }

    for (const Table& table : root.Tables(10, "routes"))
    {
        FlexNetRoute route;
        route.src = table.Scalar<std::uint32_t>(0, "route.fromnode");
        route.dst = table.Scalar<std::uint32_t>(1, "route.tonode");
        for (const Table& path : table.Tables(2, "route.paths"))
        {
            route.paths.push_back({path.Scalars<std::uint32_t>(0, "path.hopnode"),
                                   path.Scalar<float>(1, "path.chance")});
        }
        graph.routes.push_back(std::move(route));
    }
    for (const Table& table : root.Tables(11, "rings"))
    {
        FlexNetRings rings;
        rings.groupSize = table.Scalar<std::uint64_t>(0, "rings.ringsz");
        for (const Table& ring : table.Tables(1, "rings.ringpaths"))
        {
            std::vector<std::uint32_t> jumps;
            for (const std::int32_t jump : ring.Scalars<std::int32_t>(0, "ring.jumps"))
            {
                const auto nodes = static_cast<std::int64_t>(graph.nodes);
                jumps.push_back(static_cast<std::uint32_t>((jump % nodes + nodes) % nodes));
            }
            rings.jumps.push_back(std::move(jumps));
        }
        graph.rings.push_back(std::move(rings));
    }
    VerifyFlexNet(graph);
    return graph;
}

FlexNetGraph
ReadFlexNet(const std::string& path)
{
    return ParseFlexNet(ReadWhole(path), path);
}

bool
IsFlexNet(const std::string& path)
{
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error))
    {
        return false;
    }
    Input input(TraceFile{path, UINT32_MAX, nullptr});
    const std::string_view head = input.Head();
    const auto little = [head](std::size_t at, std::size_t bytes) {
        std::uint64_t value = 0;
        for (std::size_t k = 0; k < bytes; ++k)
        {
            value |= std::uint64_t{static_cast<unsigned char>(head[at + k])} << (8 * k);
        }
        return value;
    };
    if (head.size() < 12)
    {
        return false;
    }
    const std::uint64_t root = little(0, 4);
    if (root < 4 || root % 4 != 0 || root + 4 > head.size())
    {
        return false;
    }
    const auto vtable = static_cast<std::int64_t>(root) -
                        static_cast<std::int32_t>(static_cast<std::uint32_t>(little(root, 4)));
    if (vtable < 4 || static_cast<std::uint64_t>(vtable) + 4 > head.size())
    {
        return false;
    }
    constexpr std::uint64_t kFields = 12;
    const std::uint64_t vtableBytes = little(static_cast<std::size_t>(vtable), 2);
    const std::uint64_t tableBytes = little(static_cast<std::size_t>(vtable) + 2, 2);
    return vtableBytes >= 4 && vtableBytes % 2 == 0 && vtableBytes <= 4 + 2 * kFields &&
           tableBytes >= 4 && tableBytes <= 4 + 8 * kFields;
}

FlexNetStatistics
Inspect(const FlexNetGraph& graph)
{
    FlexNetStatistics out;
    out.nodes = graph.nodes;
    out.switches = graph.switches;
    for (const FlexNetConnection& connection : graph.connections)
    {
        out.cables += connection.count;
    }
    std::vector<double> busy(graph.devices.size());
    std::set<std::pair<NodeId, NodeId>> pairs;
    for (const FlexNetTask& task : graph.tasks)
    {
        if (task.kind == FlexNetTaskKind::AllReduce)
        {
            ++out.allReduces;
            auto& [count, bytes] = out.groups[task.next.size()];
            ++count;
            bytes += task.bytes;
            out.allReduceDelayMs += static_cast<double>(task.runtimeMs);
            continue;
        }
        out.dependencies += task.next.size();
        if (task.kind == FlexNetTaskKind::Message)
        {
            ++out.messages;
            out.messageBytes += task.bytes;
            if (graph.IsFlow(task))
            {
                const FlexNetDevice& device = graph.devices[task.device];
                pairs.emplace(graph.SourceOf(device), graph.DestinationOf(device));
            }
            continue;
        }
        busy[task.device] += static_cast<double>(task.runtimeMs);
        std::uint64_t& kind = task.kind == FlexNetTaskKind::Forward    ? out.forward
                              : task.kind == FlexNetTaskKind::Backward ? out.backward
                                                                       : out.otherCompute;
        ++kind;
    }
    out.messagePairs = pairs.size();
    bool first = true;
    for (std::size_t i = 0; i < graph.devices.size(); ++i)
    {
        if (graph.devices[i].kind == FlexNetDeviceKind::Gpu)
        {
            out.busyMaxMs = std::max(out.busyMaxMs, busy[i]);
            out.busyMinMs = first ? busy[i] : std::min(out.busyMinMs, busy[i]);
            first = false;
        }
    }
    for (const FlexNetRings& rings : graph.rings)
    {
        out.rings[rings.groupSize] = rings.jumps.size();
    }
    return out;
}

namespace
{

std::string
Fixed3(double value)
{
    char text[64];
    std::snprintf(text, sizeof text, "%.3f", value);
    return text;
}

} // namespace

std::string
ToText(const FlexNetStatistics& s)
{
    std::string out;
    const auto line = [&out](const std::string& key, const std::string& value) {
        out += key + ": " + value + "\n";
    };
    line("servers", std::to_string(s.nodes));
    line("switches", std::to_string(s.switches));
    line("cables", std::to_string(s.cables));
    line("forward tasks", std::to_string(s.forward));
    line("backward tasks", std::to_string(s.backward));
    line("other compute tasks", std::to_string(s.otherCompute));
    line("AllReduce tasks", std::to_string(s.allReduces));
    line("message tasks", std::to_string(s.messages));
    line("dependencies", std::to_string(s.dependencies));
    std::string groups;
    for (const auto& [size, entry] : s.groups)
    {
        groups += (groups.empty() ? "" : ", ") + std::to_string(size) + ":" +
                  std::to_string(entry.first) + " (" + std::to_string(entry.second) + " B)";
    }
    line("AllReduce groups, size:count (bytes)", groups.empty() ? "none" : groups);
    line("AllReduce delay inside servers", Fixed3(s.allReduceDelayMs) + " ms");
    line("message bytes",
         std::to_string(s.messageBytes) + " B between " + std::to_string(s.messagePairs) +
             " pairs");
    line("GPU busy max/min", Fixed3(s.busyMaxMs) + "/" + Fixed3(s.busyMinMs) + " ms");
    std::string rings;
    for (const auto& [size, count] : s.rings)
    {
        rings += (rings.empty() ? "" : ", ") + std::to_string(size) + ":" + std::to_string(count);
    }
    line("rings, group size:count", rings.empty() ? "none" : rings);
    return out;
}

std::string
ToJson(const FlexNetStatistics& s)
{
    nlohmann::ordered_json out;
    out["servers"] = s.nodes;
    out["switches"] = s.switches;
    out["cables"] = s.cables;
    out["forward_tasks"] = s.forward;
    out["backward_tasks"] = s.backward;
    out["other_compute_tasks"] = s.otherCompute;
    out["allreduce_tasks"] = s.allReduces;
    out["message_tasks"] = s.messages;
    out["dependencies"] = s.dependencies;
    out["allreduce_groups"] = nlohmann::ordered_json::array();
    for (const auto& [size, entry] : s.groups)
    {
        out["allreduce_groups"].push_back(
            {{"size", size}, {"count", entry.first}, {"bytes", entry.second}});
    }
    out["allreduce_delay_ms"] = s.allReduceDelayMs;
    out["message_bytes"] = s.messageBytes;
    out["message_pairs"] = s.messagePairs;
    out["gpu_busy_max_ms"] = s.busyMaxMs;
    out["gpu_busy_min_ms"] = s.busyMinMs;
    out["rings"] = nlohmann::ordered_json::array();
    for (const auto& [size, count] : s.rings)
    {
        out["rings"].push_back({{"group_size", size}, {"count", count}});
    }
    return out.dump(2) + "\n";
}

Fabric
FlexNetFabric(const FlexNetGraph& graph, BitRate rate, SimTime delay, std::uint64_t seed)
{
    if (graph.connections.empty())
    {
        throw SpecError(graph.file, "found no connections, expected a fabric in the file");
    }
    Fabric fabric;
    fabric.kind = "from-file";
    fabric.name = "from-file";
    fabric.nicChoice = "the listed path of the pair";
    fabric.topology = Topology(graph.nodes);
    for (std::uint32_t i = 0; i < graph.switches; ++i)
    {
        fabric.topology.AddSwitch("switch" + std::to_string(i));
    }
    auto links = std::make_shared<std::map<std::pair<NodeId, NodeId>, LinkId>>();
    for (const FlexNetConnection& connection : graph.connections)
    {
        const LinkId link = fabric.topology.AddDuplexLink(connection.a,
                                                          connection.b,
                                                          {rate.bps * connection.count},
                                                          delay);
        (*links)[{connection.a, connection.b}] = link;
        (*links)[{connection.b, connection.a}] = link + 1;
    }
    auto router = std::make_shared<TableRouter>(seed);
    for (const FlexNetRoute& route : graph.routes)
    {
        if (route.src >= graph.nodes || route.dst >= graph.nodes)
        {
            continue;
        }
        for (const FlexNetPath& nodes : route.paths)
        {
            Path path;
            for (std::size_t hop = 1; hop < nodes.nodes.size(); ++hop)
            {
                path.push_back(links->at({nodes.nodes[hop - 1], nodes.nodes[hop]}));
            }
            router->Add(route.src, route.dst, std::move(path), 1.0);
        }
    }
    fabric.router = router;

    std::map<std::uint64_t, std::vector<std::vector<std::uint32_t>>> jumpsOf;
    for (const FlexNetRings& rings : graph.rings)
    {
        jumpsOf[rings.groupSize] = rings.jumps;
    }
    fabric.rings = [jumpsOf, links, nodes = graph.nodes](const std::vector<ServerId>& group) {
        std::vector<Ring> out;
        std::map<ServerId, std::uint32_t> memberOf;
        for (std::uint32_t i = 0; i < group.size(); ++i)
        {
            memberOf[group[i]] = i;
        }
        const auto found = jumpsOf.find(group.size());
        for (std::size_t r = 0; found != jumpsOf.end() && r < found->second.size(); ++r)
        {
            Ring ring;
            ServerId at = group[0];
            std::set<ServerId> seen;
            while (memberOf.count(at) != 0 && seen.insert(at).second)
            {
                ring.order.push_back(memberOf[at]);
                Path path;
                for (const std::uint32_t jump : found->second[r])
                {
                    const auto to = static_cast<ServerId>((std::uint64_t{at} + jump) % nodes);
                    path.push_back(links->at({at, to}));
                    at = to;
                }
                ring.hops.push_back(std::move(path));
            }
            if (ring.order.size() == group.size() && at == group[0])
            {
                out.push_back(std::move(ring));
            }
        }
        if (out.empty())
        {
            Ring ring;
            for (std::uint32_t i = 0; i < group.size(); ++i)
            {
                ring.order.push_back(i);
            }
            out.push_back(std::move(ring));
        }
        return out;
    };
    return fabric;
}

SimTime
FlexNetComputeTime(float runtimeMs)
{
    const float product = runtimeMs * 1e9F;
    return static_cast<SimTime>(product);
}

SimTime
FlexNetAllReduceDelay(float runtimeMs)
{
    return static_cast<SimTime>(static_cast<double>(runtimeMs) * 1e9);
}

TaskGraph
FlexNetTaskGraph(const FlexNetGraph& graph)
{
    TaskGraph out;
    out.ranks = graph.nodes * graph.gpusPerNode;
    const auto first = [&](NodeId node) { return static_cast<RankId>(node * graph.gpusPerNode); };

    std::map<std::vector<std::uint32_t>, std::uint32_t> groupOf;
    std::vector<std::uint32_t> calls;              // per group
    std::vector<TaskId> entry(graph.tasks.size()); // what predecessors point to
    for (std::size_t i = 0; i < graph.tasks.size(); ++i)
    {
        const FlexNetTask& task = graph.tasks[i];
        Task made;
        made.sourceId = task.id;
        if (task.kind == FlexNetTaskKind::AllReduce)
        {
            made.kind = TaskKind::Join;
            made.rank = first(task.next[0]);
            made.duration = FlexNetAllReduceDelay(task.runtimeMs);
            entry[i] = out.Add(made);
            const auto [at, added] =
                groupOf.emplace(task.next, static_cast<std::uint32_t>(out.groups.size()));
            if (added)
            {
                CommGroup group;
                group.name = "servers " + std::to_string(task.next.front()) + ".." +
                             std::to_string(task.next.back()) + " (" +
                             std::to_string(task.next.size()) + ")";
                for (const std::uint32_t node : task.next)
                {
                    group.members.push_back(first(node));
                }
                out.groups.push_back(std::move(group));
                calls.push_back(0);
            }
            CollectiveCall call;
            call.kind = CollectiveKind::AllReduce;
            call.group = at->second;
            call.bytes = task.bytes;
            call.elementBytes = 4;
            call.name = "allreduce " + std::to_string(task.id);
            call.sequence = calls[at->second]++;
            const auto object = static_cast<std::uint32_t>(out.collectives.size());
            out.collectives.push_back(std::move(call));
            for (std::uint32_t m = 0; m < task.next.size(); ++m)
            {
                Task member;
                member.kind = TaskKind::Collective;
                member.rank = first(task.next[m]);
                member.object = object;
                member.member = m;
                member.sourceId = task.id;
                out.AddDependency(entry[i], out.Add(member));
            }
            continue;
        }
        const FlexNetDevice& device = graph.devices[task.device];
        if (graph.IsFlow(task))
        {
            made.kind = TaskKind::Transfer;
            made.rank = first(graph.SourceOf(device));
            made.object = static_cast<std::uint32_t>(out.transfers.size());
            TransferCall transfer;
            transfer.src = made.rank;
            transfer.dst = first(graph.DestinationOf(device));
            transfer.bytes = task.bytes;
            transfer.tag = static_cast<std::int64_t>(i);
            out.transfers.push_back(transfer);
        }
        else
        {
            made.kind = TaskKind::Compute;
            made.rank = first(static_cast<NodeId>(device.node)) +
                        static_cast<RankId>(device.property % graph.gpusPerNode);
            made.duration = FlexNetComputeTime(task.runtimeMs);
        }
        entry[i] = out.Add(made);
    }
    for (std::size_t i = 0; i < graph.tasks.size(); ++i)
    {
        if (graph.tasks[i].kind != FlexNetTaskKind::AllReduce)
        {
            for (const std::uint32_t successor : graph.tasks[i].next)
            {
                out.AddDependency(entry[i], entry[successor]);
            }
        }
    }
    out.Finalize(graph.file);
    return out;
}

std::vector<std::uint32_t>
FlexNetReferenceOrder(const FlexNetGraph& graph)
{
    // Sizes of the bucket array as it doubles: each the smallest prime of the library's table that is at
    // least twice the one before.
    static constexpr std::uint64_t kPrimes[] = {
        13,       29,        59,        127,       257,       541,        1109,
        2357,     5087,      10273,     20753,     42043,     85229,      172933,
        351061,   712697,    1447153,   2938679,   5967347,   12117689,   24607243,
        49969847, 101473717, 206062531, 418450753, 849749479, 1725587117, 3504151727};
    const auto count = static_cast<std::uint32_t>(graph.tasks.size());
    // One singly linked list; a bucket remembers the node before its first one. Node `count` is the head.
    const std::uint32_t head = count;
    std::vector<std::uint32_t> next(std::size_t{count} + 1, kNoId);
    std::uint64_t buckets = 1;
    std::vector<std::uint32_t> before(1, kNoId);
    std::size_t prime = 0;
    const auto link = [&](std::uint32_t node) {
        const std::uint64_t bucket = graph.tasks[node].id % buckets;
        if (before[bucket] != kNoId)
        {
            next[node] = next[before[bucket]];
            next[before[bucket]] = node;
            return;
        }
        next[node] = next[head];
        next[head] = node;
        if (next[node] != kNoId)
        {
            before[graph.tasks[next[node]].id % buckets] = node;
        }
        before[bucket] = head;
    };
    for (std::uint32_t node = 0; node < count; ++node)
    {
        const std::uint64_t limit = buckets == 1 ? 0 : buckets;
        if (node + std::uint64_t{1} > limit)
        {
            buckets = kPrimes[prime++];
            before.assign(buckets, kNoId);
            std::uint32_t walk = next[head];
            next[head] = kNoId;
            while (walk != kNoId)
            {
                const std::uint32_t following = next[walk];
                link(walk);
                walk = following;
            }
        }
        link(node);
    }
    std::vector<std::uint32_t> order;
    order.reserve(count);
    for (std::uint32_t node = next[head]; node != kNoId; node = next[node])
    {
        order.push_back(node);
    }
    return order;
}

} // namespace topoopt
