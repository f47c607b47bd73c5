// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/error.h"
#include "topoopt/core/readers/json.h"
#include "topoopt/core/readers/readers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace topoopt
{

namespace
{

constexpr std::array<const char*, 6> kSchemas{"1.0.1", "1.0.2", "1.0.3", "1.0.4", "1.1.0", "1.1.1"};

/** A node that matters, before groups are known: the group list may stand anywhere in the file. */
struct Record
{
    std::uint64_t id = 0;
    std::uint64_t byte = 0;
    std::int64_t start = -1; ///< ns
    SimTime duration = 0;
    std::string label; ///< name of the collective, kernel or marker
    CommName name;
    bool comm = false;
    bool marker = false;
    bool known = true; ///< the name is one of ParseCommName()
    // Of a communication node:
    bool haveRequest = false;
    bool requestHasGroup = false;
    bool p2p = false;
    std::uint64_t request = 0;
    std::string groupName;
    std::int64_t groupNumber = 0; ///< older files: a pointer or backend id; 0 on waits
    std::int64_t rank = 0;        ///< own rank, root or peer, within the group
    std::int64_t groupSize = -1;
    std::int64_t groupStart = -1;
    std::int64_t groupStride = -1;
    std::uint32_t elementBytes = 0;
    ElementSizes sizes;
};

/** Sum of a tensor, or of a list of tensors at any depth. */
struct TensorSum
{
    std::int64_t elements = 0;
    std::int64_t bytes = 0;
    std::uint32_t elementBytes = 0;
    bool mixed = false; ///< element sizes differ
    std::vector<std::int64_t> each;

    void Add(JsonValue value, const std::string& place)
    {
        std::int64_t count = 0;
        std::int64_t bytesEach = 0;
        // (tensor id, storage id, offset, elements, bytes of one, device)
        if (value.Size() >= 5 && value.First().IsNumber() && value.At(3).ToInt(count) &&
            value.At(4).ToInt(bytesEach))
        {
            if (bytesEach < 0 || bytesEach > 1024 || (bytesEach == 0 && count != 0))
            {
                throw SpecError(place + ": found tensor elements of " + std::to_string(bytesEach) +
                                " B, expected 1..1024");
            }
            const auto size = static_cast<std::uint32_t>(bytesEach);
            const auto total = static_cast<std::int64_t>(CheckedBytes(place, count, size));
            if (__builtin_add_overflow(bytes, total, &bytes))
            {
                throw SpecError(place + ": found tensors of 2^63 B or more");
            }
            elements += count;
            mixed = mixed || (elementBytes != 0 && elementBytes != size);
            elementBytes = elementBytes == 0 ? size : std::min(elementBytes, size);
            each.push_back(count);
            return;
        }
        for (JsonValue v = value.Is(JsonType::Array) ? value.First() : JsonValue(); v; v = v.Next())
        {
            if (v.Is(JsonType::Array))
            {
                Add(v, place);
            }
        }
    }
};

class EtReader
{
  public:
    EtReader(TraceSet& set,
             std::uint32_t rank,
             const TraceOptions& options,
             const std::map<std::string, std::uint32_t>& groupFile)
        : m_set(set),
          m_trace(set.ranks[rank]),
          m_rank(rank),
          m_options(options),
          m_groupFile(groupFile)
    {
    }

    void Read(const TraceFile& file)
    {
        Input input(file);
        std::optional<std::string> schema;
        JsonHandlers handlers;
        handlers.array = "nodes";
        handlers.element = [this](JsonValue node, std::uint64_t, std::uint64_t byte) {
            Node(node, byte);
        };
        handlers.member = [&](std::string_view key, JsonValue value) {
            if (key == "schema")
            {
                schema = std::string(value.AsString());
                CheckSchema(*schema);
            }
        };
        const bool nodes = StreamJson(input, handlers);
        if (!schema)
        {
            throw SpecError(m_trace.file, "execution trace without \"schema\"");
        }
        if (!nodes)
        {
            throw SpecError(m_trace.file, "execution trace without \"nodes\"");
        }
        Resolve();
    }

  private:
    void CheckSchema(const std::string& schema) const
    {
        const std::string version = schema.substr(0, schema.find('-'));
        if (std::find(kSchemas.begin(), kSchemas.end(), version) == kSchemas.end())
        {
            throw SpecError(m_trace.file,
                            "schema: found \"" + schema.substr(0, 60) +
                                "\", expected 1.0.1, 1.0.2, 1.0.3, 1.0.4, 1.1.0 or 1.1.1 "
                                "(-chakra...)");
        }
    }

    [[nodiscard]] std::string Where(const Record& record) const
    {
        return PlaceAtByte(m_trace.file, record.byte) + " rank " + std::to_string(m_rank) +
               " node " + std::to_string(record.id) +
               (record.label.empty() ? "" : " (\"" + record.label + "\")");
    }

    void Node(JsonValue node, std::uint64_t byte)
    {
        ++m_set.facts["nodes"];
        const std::string_view name = node["name"].AsString();
        const bool comm = name == "record_param_comms";
        const bool groups = name.find("process_group:init") != std::string_view::npos;
        const bool marker = name.find("ProfilerStep#") != std::string_view::npos ||
                            name.find("## iteration") != std::string_view::npos;
        const JsonValue category = node["cat"];
        const bool kernel = category && category.AsString() == "kernel" &&
                            name.find("nccl") == std::string_view::npos;
        if (!comm && !groups && !marker && !kernel)
        {
            if (!node.Is(JsonType::Object) || !node["name"].Is(JsonType::String))
            {
                throw SpecError(PlaceAtByte(m_trace.file, byte) + " rank " +
                                std::to_string(m_rank) + ": found " + node.Show() +
                                ", expected a node with a name");
            }
            return;
        }
        Record record;
        record.byte = byte;
        record.label = std::string(name.substr(0, 100));
        std::int64_t id = 0;
        if (!node["id"].ToInt(id) || id < 0)
        {
            throw SpecError(Where(record) + ": id: found " + node["id"].Show() +
                            ", expected a whole number");
        }
        record.id = static_cast<std::uint64_t>(id);
        record.start = Micros(record, node["ts"], "ts");
        const JsonValue inputs = node["inputs"];
        const JsonValue values = inputs.Is(JsonType::Object) ? inputs["values"] : inputs;
        if (groups)
        {
            Groups(record, values);
            return;
        }
        record.marker = marker;
        if (kernel)
        {
            const std::int64_t ns = Micros(record, node["dur"], "dur");
            record.duration = std::max<std::int64_t>(ns, 0) * kNanosecond;
        }
        if (comm)
        {
            const JsonValue outputs = node["outputs"];
            Comm(record,
                 values,
                 outputs.Is(JsonType::Object) ? outputs["values"] : outputs,
                 node["attrs"]);
        }
        m_records.push_back(std::move(record));
    }

    /** A time in us as ns; -1 if absent. */
    std::int64_t Micros(const Record& record, JsonValue value, const char* key) const
    {
        if (!value || value.Is(JsonType::Null))
        {
            return -1;
        }
        std::int64_t whole = 0;
        if (value.Is(JsonType::Integer) && value.ToInt(whole) && whole >= 0 &&
            whole <= INT64_MAX / kMicrosecond * kNanosecond)
        {
            return whole * 1000;
        }
        double real = 0;
        if (!value.ToDouble(real) || real < 0 || real > 9e15)
        {
            throw SpecError(Where(record) + ": " + key + ": found " + value.Show() +
                            ", expected a time in us, 0 or more");
        }
        return static_cast<std::int64_t>(std::llround(real * 1000));
    }

    void Groups(const Record& record, JsonValue values)
    {
        const JsonValue text = values.Is(JsonType::Array) ? values.First() : JsonValue();
        if (!text || !text.Is(JsonType::String))
        {
            return;
        }
        JsonTape tape;
        try
        {
            ParseJsonText(Where(record), text.AsString(), tape);
        }
        catch (const SpecError&)
        {
            if (m_options.groupsFile.empty())
            {
                throw SpecError(Where(record) +
                                ": the list of process groups is cut off, so groups are unknown; "
                                "give them in a file (groups_file: FILE)");
            }
            return;
        }
        m_haveGroups = true;
        const JsonValue list = tape.Root();
        for (JsonValue g = list.Is(JsonType::Array) ? list.First() : JsonValue(); g; g = g.Next())
        {
            Group(record, g);
        }
    }

    void Group(const Record& record, JsonValue g)
    {
        const std::string name(g["pg_name"].AsString());
        std::vector<RankId> members;
        const JsonValue ranks = g["ranks"];
        for (JsonValue v = ranks.Is(JsonType::Array) ? ranks.First() : JsonValue(); v; v = v.Next())
        {
            std::int64_t rank = 0;
            if (!v.ToInt(rank) || rank < 0 || rank > INT32_MAX)
            {
                throw SpecError(Where(record) + ": group \"" + name + "\": found rank " + v.Show());
            }
            members.push_back(static_cast<RankId>(rank));
        }
        std::int64_t size = -1;
        const auto files = static_cast<std::int64_t>(m_set.ranks.size());
        if (members.empty() && g["group_size"].ToInt(size) && size != files && !m_options.partial)
        {
            throw SpecError(Where(record) + ": group \"" + name + "\" has all of " +
                            std::to_string(size) + " ranks, but " + std::to_string(files) +
                            (files == 1 ? " rank has" : " ranks have") + " a file");
        }
        if (m_options.partial)
        {
            members.clear();
        }
        const std::uint32_t index = m_set.Group(name, members);
        m_byName[name] = index;
        for (const char* key : {"backend_id", "uid"})
        {
            std::int64_t number = 0;
            if (g[key].ToInt(number))
            {
                m_byNumber[number] = index;
            }
            else if (g[key].Is(JsonType::String))
            {
                m_byName[std::string(g[key].AsString())] = index;
            }
        }
    }

    /** Fills @p record from the positional inputs, read from the name outwards, and from attributes. */
    void Comm(Record& record, JsonValue values, JsonValue outputs, JsonValue attrs) const
    {
        record.comm = true;
        std::vector<JsonValue> list;
        std::size_t name = SIZE_MAX;
        for (JsonValue v = values.Is(JsonType::Array) ? values.First() : JsonValue(); v;
             v = v.Next())
        {
            if (v.Is(JsonType::String))
            {
                name = list.size();
            }
            list.push_back(v);
        }
        if (name == SIZE_MAX || name < 3 || list.size() < name + 3)
        {
            throw SpecError(
                Where(record) + ": found " + std::to_string(list.size()) +
                " inputs, expected [tensors] request group rank name in_split out_split");
        }
        record.label = std::string(list[name].AsString().substr(0, 100));
        record.known = ParseCommName(record.label, record.name);
        if (!list[name - 1].ToInt(record.rank))
        {
            throw SpecError(Where(record) + ": rank: found " + list[name - 1].Show());
        }
        const JsonValue group = list[name - 2];
        if (group.Is(JsonType::Array))
        {
            record.groupName = std::string(group.First() ? group.First().AsString() : "");
        }
        else if (group.Is(JsonType::String))
        {
            record.groupName = std::string(group.AsString());
        }
        else if (!group.ToInt(record.groupNumber) && !group.IsNumber())
        {
            throw SpecError(Where(record) + ": group: found " + group.Show());
        }
        JsonValue request = list[name - 3];
        if (request.Is(JsonType::Array))
        {
            std::int64_t flag = 0;
            record.requestHasGroup = true;
            const JsonValue p2p = request.At(1);
            record.p2p = p2p && (p2p.AsBool() || (p2p.ToInt(flag) && flag != 0));
            request = request.First();
        }
        std::int64_t number = 0;
        if (request && request.ToInt(number) && number >= 0)
        {
            record.haveRequest = true;
            record.request = static_cast<std::uint64_t>(number);
        }
        const bool moves = record.name.kind != OpKind::Wait;
        TensorSum in;
        TensorSum out;
        if (name >= 4 && moves)
        {
            in.Add(list[0], Where(record));
        }
        if (outputs.Is(JsonType::Array) && moves)
        {
            out.Add(outputs, Where(record));
        }
        record.sizes.inSplit = Splits(record, list[name + 1]);
        record.sizes.outSplit = Splits(record, list[name + 2]);
        SetElements(record, in, out);
        if (list.size() >= name + 6)
        {
            list[name + 3].ToInt(record.groupStart);
            list[name + 4].ToInt(record.groupStride);
            list[name + 5].ToInt(record.groupSize);
        }
        else if (list.size() >= name + 4)
        {
            list[name + 3].ToInt(record.groupSize);
        }
        if (attrs.Is(JsonType::Array))
        {
            Attributes(record, attrs, in);
        }
        // A list of one tensor per member is an uneven all-to-all in disguise.
        if (record.name.collective == CollectiveKind::AllToAll && record.sizes.inSplit.empty() &&
            in.each.size() > 1 && out.each.size() == in.each.size() && !in.mixed)
        {
            record.sizes.inSplit = in.each;
            record.sizes.outSplit = out.each;
        }
    }

    static void SetElements(Record& record, const TensorSum& in, const TensorSum& out)
    {
        // Lists of different element sizes are counted in bytes.
        const bool bytes = in.mixed || (out.elementBytes != 0 && in.elementBytes != 0 &&
                                        out.elementBytes != in.elementBytes);
        record.elementBytes = bytes                  ? 1
                              : in.elementBytes != 0 ? in.elementBytes
                                                     : std::max(out.elementBytes, 1U);
        record.sizes.in = bytes ? in.bytes : in.elements;
        record.sizes.out = out.elementBytes == 0 ? -1 : bytes ? out.bytes : out.elements;
    }

    std::vector<std::int64_t> Splits(const Record& record, JsonValue value) const
    {
        std::vector<std::int64_t> splits;
        for (JsonValue v = value.Is(JsonType::Array) ? value.First() : JsonValue(); v; v = v.Next())
        {
            std::int64_t split = 0;
            if (v.Is(JsonType::String) && v.AsString() == "...")
            {
                throw SpecError(Where(record) + ": the list of splits is cut off");
            }
            if (!v.ToInt(split))
            {
                throw SpecError(Where(record) + ": split: found " + v.Show() +
                                ", expected a whole number");
            }
            splits.push_back(split);
        }
        return splits;
    }

    void Attributes(Record& record, JsonValue attrs, const TensorSum& in) const
    {
        std::int64_t inElements = -1;
        std::int64_t outElements = -1;
        std::uint32_t dtype = 0;
        for (JsonValue a = attrs.First(); a; a = a.Next())
        {
            const std::string_view key = a["name"].AsString();
            const JsonValue value = a["value"];
            if (key == "in_msg_nelems")
            {
                value.ToInt(inElements);
            }
            else if (key == "out_msg_nelems")
            {
                value.ToInt(outElements);
            }
            else if (key == "dtype")
            {
                dtype = DtypeBytes(value.AsString());
            }
            else if (key == "pg_name" && !value.AsString().empty())
            {
                record.groupName = std::string(value.AsString());
            }
            else if (key == "pg_size")
            {
                value.ToInt(record.groupSize);
            }
            else if (key == "global_rank_start")
            {
                value.ToInt(record.groupStart);
            }
            else if (key == "global_rank_stride")
            {
                value.ToInt(record.groupStride);
            }
        }
        if (dtype == 0)
        {
            dtype = in.mixed ? 0 : in.elementBytes;
        }
        if (inElements >= 0 && dtype != 0 && record.name.kind != OpKind::Wait)
        {
            record.elementBytes = dtype;
            record.sizes.in = inElements;
            record.sizes.out = outElements;
        }
    }

    /** Group of a communication record. @return UINT32_MAX if it names none (waits) */
    std::uint32_t GroupOf(const Record& record)
    {
        if (!record.groupName.empty())
        {
            const auto given = m_groupFile.find(record.groupName);
            if (given != m_groupFile.end())
            {
                return given->second;
            }
            const auto at = m_byName.find(record.groupName);
            if (at != m_byName.end())
            {
                return at->second;
            }
            return Regular(record);
        }
        if (record.groupNumber == 0)
        {
            return UINT32_MAX;
        }
        const auto at = m_byNumber.find(record.groupNumber);
        if (at != m_byNumber.end())
        {
            return at->second;
        }
        if (m_haveGroups)
        {
            throw SpecError(Where(record) + ": group: found " + std::to_string(record.groupNumber) +
                            ", which the list of process groups does not have");
        }
        // A process-local pointer: with one group in sight, all ranks is the only safe guess.
        if (m_pointer != 0 && m_pointer != record.groupNumber)
        {
            throw SpecError(Where(record) +
                            ": several process groups and no list of them, so groups are unknown; "
                            "this needs a later schema");
        }
        m_pointer = record.groupNumber;
        return m_set.Group("0", {});
    }

    /** A group that is given only as start, stride and size. */
    std::uint32_t Regular(const Record& record)
    {
        const auto files = static_cast<std::int64_t>(m_set.ranks.size());
        if (record.groupSize > 0 && record.groupSize <= files && record.groupStart >= 0 &&
            (record.groupStride > 0 || record.groupSize == 1))
        {
            std::vector<RankId> members;
            for (std::int64_t i = 0; i < record.groupSize; ++i)
            {
                const std::int64_t rank = record.groupStart + i * record.groupStride;
                if (rank >= files)
                {
                    break;
                }
                members.push_back(static_cast<RankId>(rank));
            }
            if (static_cast<std::int64_t>(members.size()) == record.groupSize)
            {
                return m_set.Group(record.groupName, members);
            }
        }
        if (record.groupSize == files && !m_haveGroups)
        {
            return m_set.Group(record.groupName, {});
        }
        throw SpecError(Where(record) + ": group: found \"" + record.groupName +
                        "\", which nothing in the trace defines; give the groups in a file "
                        "(groups_file: FILE)");
    }

    void Resolve()
    {
        std::stable_sort(m_records.begin(), m_records.end(), [](const Record& a, const Record& b) {
            return a.id < b.id;
        });
        std::vector<RequestKey> keys;
        std::uint32_t iteration = 0;
        std::string lastMarker;
        for (std::size_t i = 0; i < m_records.size(); ++i)
        {
            const Record& record = m_records[i];
            if (i > 0 && m_records[i - 1].id == record.id)
            {
                throw SpecError(Where(record) + ": found node id " + std::to_string(record.id) +
                                " twice");
            }
            if (record.marker)
            {
                iteration += record.label != lastMarker ? 1 : 0;
                lastMarker = record.label;
                continue;
            }
            TraceOp op;
            op.id = record.id;
            op.name = m_set.Name(record.label);
            op.start = record.start;
            op.iteration = iteration;
            RequestKey key;
            if (!record.comm)
            {
                op.kind = OpKind::Compute;
                op.duration = record.duration;
            }
            else if (!Operation(record, op, key))
            {
                continue;
            }
            m_trace.ops.push_back(op);
            keys.push_back(key);
        }
        m_records.clear();
        m_records.shrink_to_fit();
        OrderProgram(m_set, m_rank, keys);
    }

    bool Operation(const Record& record, TraceOp& op, RequestKey& key)
    {
        if (!record.known || record.name.init)
        {
            if (record.name.init)
            {
                return false;
            }
            if (m_options.skipUnknown)
            {
                ++m_set.facts["skipped_unknown"];
                m_set.Warn("operation '" + record.label + "' is unknown and left out");
                return false;
            }
            throw SpecError(Where(record) + ": unknown operation, expected one of " +
                            KnownCommNames());
        }
        op.kind = record.name.kind;
        op.collective = record.name.collective;
        std::uint32_t group = GroupOf(record);
        key.valid = record.haveRequest;
        key.request = record.request;
        key.p2p = record.p2p;
        key.group = record.requestHasGroup ? group : UINT32_MAX;
        if (op.kind == OpKind::Wait || op.kind == OpKind::Batch)
        {
            return true;
        }
        if (group == UINT32_MAX)
        {
            // Barriers of old files name no group.
            group = m_set.Group("0", {});
        }
        op.group = group;
        const std::uint32_t n = GroupSize(m_set, group);
        const std::uint32_t member = MemberIndex(m_set, group, m_rank);
        if (member == UINT32_MAX)
        {
            throw SpecError(Where(record) + ": rank " + std::to_string(m_rank) +
                            " is no member of group '" + m_set.groups[group].name + "'");
        }
        if (record.groupSize >= 0 && record.groupSize != n && !m_options.partial)
        {
            throw SpecError(
                Where(record) + ": group '" + m_set.groups[group].name + "': found size " +
                std::to_string(record.groupSize) + ", but " + std::to_string(n) +
                (m_set.groups[group].members.empty() ? " ranks have a file" : " members"));
        }
        op.elementBytes = record.elementBytes;
        if (op.kind == OpKind::Send || op.kind == OpKind::Recv)
        {
            op.peer = Global(record, group, "peer");
            op.bytes = CheckedBytes(Where(record), record.sizes.in, op.elementBytes);
            return true;
        }
        const bool rooted =
            op.collective == CollectiveKind::Broadcast || op.collective == CollectiveKind::Reduce ||
            op.collective == CollectiveKind::Gather || op.collective == CollectiveKind::Scatter;
        if (rooted && !m_options.partial)
        {
            Global(record, group, "root");
            op.root = static_cast<std::uint32_t>(record.rank);
        }
        if (m_options.partial)
        {
            op.bytes = CheckedBytes(Where(record), record.sizes.in, op.elementBytes);
            return true;
        }
        SetSizes(m_set, m_trace, op, record.name, record.sizes, n, member, Where(record));
        return true;
    }

    /** The rank field is relative to the group for peers and roots. */
    RankId Global(const Record& record, std::uint32_t group, const char* what) const
    {
        const std::uint32_t n = GroupSize(m_set, group);
        if (record.rank < 0 || record.rank >= n)
        {
            throw SpecError(Where(record) + ": " + what + ": found " + std::to_string(record.rank) +
                            ", expected 0.." + std::to_string(n - 1) + " (rank within the group)");
        }
        const auto& members = m_set.groups[group].members;
        const auto local = static_cast<std::uint32_t>(record.rank);
        return members.empty() ? local : members[local];
    }

    TraceSet& m_set;
    RankTrace& m_trace;
    std::uint32_t m_rank;
    const TraceOptions& m_options;
    const std::map<std::string, std::uint32_t>& m_groupFile;
    std::vector<Record> m_records;
    std::map<std::string, std::uint32_t> m_byName;
    std::map<std::int64_t, std::uint32_t> m_byNumber;
    std::int64_t m_pointer = 0;
    bool m_haveGroups = false;
};

} // namespace

bool
ProbeTorchEt(std::string_view head)
{
    const auto keys = JsonKeys(head);
    return (HasKey(keys, "schema") && !HasKey(keys, "traceEvents") &&
            !HasKey(keys, "schemaVersion")) ||
           (HasKey(keys, "nodes") && !HasKey(keys, "workload_graph"));
}

void
LoadTorchEt(const std::vector<TraceFile>& files, const TraceOptions& options, TraceSet& set)
{
    std::map<std::string, std::uint32_t> groups;
    if (!options.groupsFile.empty())
    {
        groups = ReadGroupFile(options.groupsFile, set);
    }
    for (std::uint32_t r = 0; r < files.size(); ++r)
    {
        EtReader(set, r, options, groups).Read(files[r]);
    }
}

} // namespace topoopt
