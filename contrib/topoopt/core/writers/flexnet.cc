// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/writers/flexnet.h"

#include "topoopt/core/error.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>
#include <zlib.h>

namespace topoopt
{

namespace
{

/// What a field takes inside its table: a scalar of that many bytes, or a 4-byte offset to something.
enum class Field : std::uint8_t
{
    Int16,
    Int32, // also float and offsets
    Int64
};

std::uint32_t
Width(Field field)
{
    return field == Field::Int16 ? 2 : field == Field::Int32 ? 4 : 8;
}

/** A kind of table: where each slot lies. All fields present, so that one vtable serves all tables. */
class Layout
{
  public:
    explicit Layout(const std::vector<Field>& fields)
        : m_offsets(fields.size())
    {
        // Tables begin at a multiple of 8 with 4 bytes of their own, so the widest fields come last.
        std::uint32_t at = 4;
        for (const Field width : {Field::Int16, Field::Int32, Field::Int64})
        {
            for (std::size_t slot = 0; slot < fields.size(); ++slot)
            {
                if (fields[slot] == width)
                {
                    at = (at + Width(width) - 1) / Width(width) * Width(width);
                    m_offsets[slot] = at;
                    at += Width(width);
                }
            }
        }
        m_size = at;
    }

    [[nodiscard]] std::uint32_t Offset(std::size_t slot) const
    {
        return m_offsets[slot];
    }

    [[nodiscard]] std::size_t Slots() const
    {
        return m_offsets.size();
    }

    [[nodiscard]] std::uint32_t Size() const
    {
        return m_size;
    }

    std::size_t vtable = 0; ///< where it was written

  private:
    std::vector<std::uint32_t> m_offsets;
    std::uint32_t m_size = 0;
};

/** Bytes in order of position; offsets of the format point forward, so what they point to comes later. */
class Output
{
  public:
    std::string bytes;

    /** Zeros until the next position is @p remainder modulo @p alignment. */
    void Align(std::size_t alignment, std::size_t remainder = 0)
    {
        while (bytes.size() % alignment != remainder)
        {
            bytes.push_back('\0');
        }
    }

    void Put(std::uint64_t value, std::uint32_t width)
    {
        for (std::uint32_t i = 0; i < width; ++i)
        {
            bytes.push_back(static_cast<char>(value >> (8 * i) & 0xff));
        }
    }

    void PutAt(std::size_t at, std::uint64_t value, std::uint32_t width)
    {
        for (std::uint32_t i = 0; i < width; ++i)
        {
            bytes[at + i] = static_cast<char>(value >> (8 * i) & 0xff);
        }
    }

    void WriteVtable(Layout& layout)
    {
        Align(2);
        layout.vtable = bytes.size();
        Put(4 + 2 * layout.Slots(), 2);
        Put(layout.Size(), 2);
        for (std::size_t slot = 0; slot < layout.Slots(); ++slot)
        {
            Put(layout.Offset(slot), 2);
        }
    }

    /** A table of zeros. @return its position */
    std::size_t Table(const Layout& layout)
    {
        Align(8);
        const std::size_t at = bytes.size();
        bytes.resize(at + layout.Size());
        PutAt(at, at - layout.vtable, 4);
        return at;
    }

    /** Makes the offset at @p from point to @p to. */
    void Point(std::size_t from, std::size_t to)
    {
        PutAt(from, to - from, 4);
    }

    /** A vector of numbers, pointed to from @p from. */
    template <typename T>
    void Vector(std::size_t from, const std::vector<T>& values)
    {
        Align(8, sizeof(T) == 8 ? 4 : 0);
        Point(from, bytes.size());
        Put(values.size(), 4);
        for (const T value : values)
        {
            Put(value, sizeof(T));
        }
    }

    /** A vector of offsets still to be set, pointed to from @p from. @return position of the first */
    std::size_t Offsets(std::size_t from, std::size_t count)
    {
        Align(4);
        Point(from, bytes.size());
        Put(count, 4);
        const std::size_t at = bytes.size();
        bytes.resize(at + 4 * count);
        return at;
    }

    void String(std::size_t from, const std::string& text)
    {
        Align(4);
        Point(from, bytes.size());
        Put(text.size(), 4);
        bytes += text;
        bytes.push_back('\0');
    }
};

std::uint32_t
Bits(float value)
{
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

} // namespace

std::string
FlexNetBytes(const FlexNetGraph& graph)
{
    VerifyFlexNet(graph);
    using F = Field;
    Layout root({F::Int32,
                 F::Int32,
                 F::Int32,
                 F::Int32,
                 F::Int32,
                 F::Int32,
                 F::Int32,
                 F::Int32,
                 F::Int32,
                 F::Int32,
                 F::Int32,
                 F::Int32});
    Layout connection({F::Int32, F::Int32, F::Int32});
    Layout operation({F::Int64, F::Int64, F::Int32});
    Layout task({F::Int16, F::Int64, F::Int64, F::Int32, F::Int64, F::Int32});
    Layout device({F::Int16, F::Int64, F::Int64, F::Int64, F::Int64});
    Layout route({F::Int32, F::Int32, F::Int32});
    Layout path({F::Int32, F::Int32});
    Layout rings({F::Int64, F::Int32});
    Layout ring({F::Int32});

    Output out;
    out.Put(0, 4);
    for (Layout* layout :
         {&root, &connection, &operation, &task, &device, &route, &path, &rings, &ring})
    {
        out.WriteVtable(*layout);
    }
    const std::size_t top = out.Table(root);
    out.Point(0, top);
    const auto field = [](std::size_t table, const Layout& layout, std::size_t slot) {
        return table + layout.Offset(slot);
    };
    const auto set = [&out](std::size_t table,
                            const Layout& layout,
                            std::size_t slot,
                            std::uint64_t value,
                            std::uint32_t width) {
        out.PutAt(table + layout.Offset(slot), value, width);
    };
    set(top, root, 0, graph.gpusPerNode, 4);
    set(top, root, 1, graph.nodes, 4);
    set(top, root, 2, graph.switches, 4);
    set(top, root, 3, Bits(graph.intraBandwidth), 4);
    set(top, root, 4, Bits(graph.dramBandwidth), 4);
    set(top, root, 5, Bits(graph.networkBandwidth), 4);

    std::size_t entry = out.Offsets(field(top, root, 6), graph.connections.size());
    for (const FlexNetConnection& c : graph.connections)
    {
        const std::size_t at = out.Table(connection);
        out.Point(entry, at);
        entry += 4;
        set(at, connection, 0, c.a, 4);
        set(at, connection, 1, c.b, 4);
        set(at, connection, 2, c.count, 4);
    }
    entry = out.Offsets(field(top, root, 7), graph.operators.size());
    for (const FlexNetOperator& o : graph.operators)
    {
        const std::size_t at = out.Table(operation);
        out.Point(entry, at);
        entry += 4;
        set(at, operation, 0, o.id, 8);
        set(at, operation, 1, o.type, 8);
        out.String(field(at, operation, 2), o.name);
    }
    entry = out.Offsets(field(top, root, 8), graph.tasks.size());
    std::vector<std::uint64_t> next;
    for (const FlexNetTask& t : graph.tasks)
    {
        const std::size_t at = out.Table(task);
        out.Point(entry, at);
        entry += 4;
        const bool collective = t.kind == FlexNetTaskKind::AllReduce;
        set(at, task, 0, static_cast<std::uint16_t>(t.kind), 2);
        set(at, task, 1, t.id, 8);
        set(at, task, 2, collective ? 0 : graph.devices[t.device].id, 8);
        set(at, task, 3, Bits(t.runtimeMs), 4);
        set(at, task, 4, t.bytes, 8);
        next.clear();
        for (const std::uint32_t n : t.next)
        {
            next.push_back(collective ? n : graph.tasks[n].id);
        }
        out.Vector(field(at, task, 5), next);
    }
    entry = out.Offsets(field(top, root, 9), graph.devices.size());
    for (const FlexNetDevice& d : graph.devices)
    {
        const std::size_t at = out.Table(device);
        out.Point(entry, at);
        entry += 4;
        set(at, device, 0, static_cast<std::uint16_t>(d.kind), 2);
        set(at, device, 1, d.id, 8);
        set(at, device, 2, d.node, 8);
        set(at, device, 3, d.property, 8);
        set(at, device, 4, d.bandwidth, 8);
    }
    entry = out.Offsets(field(top, root, 10), graph.routes.size());
    for (const FlexNetRoute& r : graph.routes)
    {
        const std::size_t at = out.Table(route);
        out.Point(entry, at);
        entry += 4;
        set(at, route, 0, r.src, 4);
        set(at, route, 1, r.dst, 4);
        std::size_t way = out.Offsets(field(at, route, 2), r.paths.size());
        for (const FlexNetPath& p : r.paths)
        {
            const std::size_t pathAt = out.Table(path);
            out.Point(way, pathAt);
            way += 4;
            set(pathAt, path, 1, Bits(p.chance), 4);
            out.Vector(field(pathAt, path, 0), p.nodes);
        }
    }
    entry = out.Offsets(field(top, root, 11), graph.rings.size());
    for (const FlexNetRings& r : graph.rings)
    {
        const std::size_t at = out.Table(rings);
        out.Point(entry, at);
        entry += 4;
        set(at, rings, 0, r.groupSize, 8);
        std::size_t one = out.Offsets(field(at, rings, 1), r.jumps.size());
        for (const std::vector<std::uint32_t>& jumps : r.jumps)
        {
            const std::size_t ringAt = out.Table(ring);
            out.Point(one, ringAt);
            one += 4;
            out.Vector(field(ringAt, ring, 0), jumps);
        }
    }
    if (out.bytes.size() >= std::size_t{1} << 31)
    {
        throw SpecError(graph.file, "would take more than 2 GiB, the limit of the format");
    }
    return out.bytes;
}

void
WriteFlexNet(const FlexNetGraph& graph, const std::string& path)
{
    const std::string bytes = FlexNetBytes(graph);
    const bool zip = path.size() > 3 && path.compare(path.size() - 3, 3, ".gz") == 0;
    const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), zip ? "wb9" : "wbT"),
                                                          gzclose);
    if (!file)
    {
        throw SpecError(path, std::string("cannot be written: ") + std::strerror(errno));
    }
    for (std::size_t at = 0; at < bytes.size();)
    {
        const std::size_t piece = std::min<std::size_t>(bytes.size() - at, std::size_t{1} << 24);
        if (gzwrite(file.get(), bytes.data() + at, static_cast<unsigned>(piece)) <= 0)
        {
            throw SpecError(path, std::string("cannot be written: ") + std::strerror(errno));
        }
        at += piece;
    }
    if (gzflush(file.get(), Z_FINISH) != Z_OK)
    {
        throw SpecError(path, std::string("cannot be written: ") + std::strerror(errno));
    }
}

} // namespace topoopt
