// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_TESTS_CHAKRA_ENCODER_H
#define TOPOOPT_TESTS_CHAKRA_ENCODER_H

#include <cstdint>
#include <string>
#include <vector>

namespace topoopt::test
{

/** Protobuf wire format, written here anew so that it does not share the product's mistakes. */
inline std::string
Varint(std::uint64_t value)
{
    std::string out;
    do
    {
        const auto low = static_cast<unsigned char>(value & 0x7f);
        value >>= 7;
        out.push_back(static_cast<char>(value != 0 ? low | 0x80 : low));
    } while (value != 0);
    return out;
}

inline std::string
Field(std::uint32_t number, std::uint64_t value)
{
    return Varint(number * 8) + Varint(value);
}

inline std::string
Field(std::uint32_t number, const std::string& bytes)
{
    return Varint(number * 8 + 2) + Varint(bytes.size()) + bytes;
}

inline std::string
Fixed(std::uint32_t number, std::uint64_t value, int size)
{
    std::string out = Varint(number * 8 + (size == 8 ? 1 : 5));
    for (int i = 0; i < size; ++i)
    {
        out.push_back(static_cast<char>(value >> (8 * i)));
    }
    return out;
}

/** AttributeProto with its value already encoded. */
inline std::string
Attribute(const std::string& name, const std::string& value)
{
    return Field(10, Field(1, name) + value);
}

inline std::string
Record(const std::string& message)
{
    return Varint(message.size()) + message;
}

inline std::string
Metadata()
{
    return Record(Field(1, std::string("0.0.4")));
}

/** id, name, type and unpacked data dependencies of a node. */
inline std::string
Head(std::uint64_t id, std::uint64_t type, const std::vector<std::uint64_t>& deps)
{
    std::string out = Field(1, id) + Field(2, "n" + std::to_string(id)) + Field(3, type);
    for (const std::uint64_t dep : deps)
    {
        out += Field(5, dep);
    }
    return out;
}

inline std::string
Compute(std::uint64_t id, std::uint64_t micros, const std::vector<std::uint64_t>& deps = {})
{
    return Record(Head(id, 4, deps) + Field(7, micros));
}

inline std::string
Collective(std::uint64_t id,
           std::uint64_t type,
           std::uint64_t bytes,
           const std::vector<std::uint64_t>& deps = {},
           const std::string& group = "")
{
    return Record(Head(id, 7, deps) + Attribute("comm_type", Field(9, type)) +
                  Attribute("comm_size", Field(9, bytes)) +
                  (group.empty() ? "" : Attribute("pg_name", Field(29, group))));
}

inline std::string
Send(std::uint64_t id,
     std::uint64_t dst,
     std::uint64_t bytes,
     const std::vector<std::uint64_t>& deps = {},
     std::uint64_t tag = 0)
{
    return Record(Head(id, 5, deps) + Attribute("comm_dst", Field(7, dst)) +
                  Attribute("comm_size", Field(9, bytes)) + Attribute("comm_tag", Field(7, tag)));
}

inline std::string
Recv(std::uint64_t id,
     std::uint64_t src,
     std::uint64_t bytes,
     const std::vector<std::uint64_t>& deps = {},
     std::uint64_t tag = 0)
{
    return Record(Head(id, 6, deps) + Attribute("comm_src", Field(7, src)) +
                  Attribute("comm_size", Field(9, bytes)) + Attribute("comm_tag", Field(7, tag)));
}

/** A PyTorch group list as Chakra's converter stores it. */
inline std::string
GroupList(std::uint64_t id, const std::string& json)
{
    return Record(Field(1, id) + Field(2, std::string("## process_group:init ##")) +
                  Field(3, std::uint64_t{1}) + Field(8, Field(1, "['" + json + "']")));
}

} // namespace topoopt::test

#endif // TOPOOPT_TESTS_CHAKRA_ENCODER_H
