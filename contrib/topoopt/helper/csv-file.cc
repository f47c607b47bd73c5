// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/csv-file.h"

#include "topoopt/core/error.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <zlib.h>

namespace topoopt
{

namespace
{

constexpr std::size_t kBufferBytes = 64 * 1024;
constexpr std::size_t kNumberBytes = 24; ///< digits, sign and comma of 64 bits

/** FNV-1a by words of eight bytes, not by bytes: a multiplication per byte would cost more than writing the row. */
std::uint64_t
HashOf(std::uint64_t hash, const char* data, std::size_t size)
{
    constexpr std::uint64_t prime = 0x100000001b3ULL;
    std::uint64_t word = 0;
    for (; size >= sizeof word; data += sizeof word, size -= sizeof word)
    {
        std::memcpy(&word, data, sizeof word);
        hash = (hash ^ word) * prime;
        hash ^=
            hash >> 32; // or the high bytes of a word would never reach the low ones of the hash
    }
    word = size;
    for (std::size_t i = 0; i < size; ++i)
    {
        word = word << 8 | static_cast<unsigned char>(data[i]);
    }
    hash = (hash ^ word) * prime;
    return hash ^ hash >> 32;
}

bool
EndsWith(const std::string& text, std::string_view end)
{
    return text.size() >= end.size() &&
           text.compare(text.size() - end.size(), end.size(), end) == 0;
}

} // namespace

/** A plain or a gzipped file. */
struct CsvFile::Sink
{
    std::FILE* plain = nullptr;
    gzFile zipped = nullptr;

    bool Write(const char* data, std::size_t size)
    {
        if (zipped != nullptr)
        {
            return size == 0 || gzwrite(zipped, data, static_cast<unsigned>(size)) > 0;
        }
        return size == 0 || std::fwrite(data, 1, size, plain) == size;
    }

    bool Close()
    {
        bool good = true;
        if (zipped != nullptr)
        {
            good = gzclose(zipped) == Z_OK;
        }
        else if (plain != nullptr)
        {
            good = std::fclose(plain) == 0;
        }
        zipped = nullptr;
        plain = nullptr;
        return good;
    }
};

CsvFile::CsvFile(const std::string& file,
                 const std::vector<std::pair<std::string, std::string>>& head,
                 std::string_view header)
    : m_name(file),
      m_sink(std::make_unique<Sink>())
{
    if (EndsWith(file, ".gz"))
    {
        m_sink->zipped = gzopen(file.c_str(), "wb6");
    }
    else
    {
        m_sink->plain = std::fopen(file.c_str(), "wb");
    }
    if (m_sink->zipped == nullptr && m_sink->plain == nullptr)
    {
        throw SpecError(file, std::string("cannot be written: ") + std::strerror(errno));
    }
    std::string top;
    for (const auto& [key, value] : head)
    {
        top += "# " + key + "=" + value + "\n";
    }
    top += header;
    top += '\n';
    m_buffer.resize(kBufferBytes);
    std::memcpy(Room(top.size()), top.data(), top.size());
    m_size += top.size();
    m_rowStart = m_size;
}

CsvFile::~CsvFile()
{
    try
    {
        Flush();
    }
    catch (const SpecError&)
    {
        // Whoever cares calls Close().
    }
    m_sink->Close();
}

char*
CsvFile::Room(std::size_t bytes)
{
    if (m_buffer.size() - m_size < bytes)
    {
        m_buffer.resize(2 * m_buffer.size() + bytes);
    }
    return m_buffer.data() + m_size;
}

// Every field is followed by a comma, and the end of the row turns the last one into a line feed: no field need
// know whether it is the first. Millions of rows of flows pass here.
template <typename T, typename... How>
CsvFile&
CsvFile::AddNumber(std::size_t most, T value, How... how)
{
    char* at = Room(most);
    const auto result = std::to_chars(at, at + most - 1, value, how...);
    *result.ptr = ',';
    m_size += static_cast<std::size_t>(result.ptr - at) + 1;
    return *this;
}

CsvFile&
CsvFile::Add(std::uint64_t value)
{
    return AddNumber(kNumberBytes, value);
}

CsvFile&
CsvFile::Add(std::int64_t value)
{
    return AddNumber(kNumberBytes, value);
}

CsvFile&
CsvFile::Add(std::string_view text)
{
    char* at = Room(2 * text.size() + 3);
    char* const start = at;
    const bool quoted = std::any_of(text.begin(), text.end(), [](char c) {
        return c == ',' || c == '"' || c == '\n' || c == '\r';
    });
    if (quoted)
    {
        *at++ = '"';
    }
    for (char c : text)
    {
        *at++ = c;
        if (c == '"')
        {
            *at++ = c;
        }
    }
    if (quoted)
    {
        *at++ = '"';
    }
    *at++ = ',';
    m_size += static_cast<std::size_t>(at - start);
    return *this;
}

CsvFile&
CsvFile::AddDecimal(double value)
{
    // The largest double has 309 digits before the point.
    return AddNumber(330, value, std::chars_format::fixed, 6);
}

CsvFile&
CsvFile::Skip()
{
    *Room(1) = ',';
    ++m_size;
    return *this;
}

void
CsvFile::EndRow()
{
    m_buffer[m_size - 1] = '\n';
    m_hash = HashOf(m_hash, m_buffer.data() + m_rowStart, m_size - m_rowStart);
    ++m_rows;
    if (m_size >= kBufferBytes - 4096)
    {
        Flush();
    }
    m_rowStart = m_size;
}

void
CsvFile::Flush()
{
    const bool good = m_sink->Write(m_buffer.data(), m_size);
    m_size = 0;
    m_rowStart = 0;
    if (!good)
    {
        throw SpecError(m_name, std::string("cannot be written: ") + std::strerror(errno));
    }
}

std::uint64_t
CsvFile::Close()
{
    Flush();
    if (!m_sink->Close())
    {
        throw SpecError(m_name, std::string("cannot be written: ") + std::strerror(errno));
    }
    return m_hash;
}

} // namespace topoopt
