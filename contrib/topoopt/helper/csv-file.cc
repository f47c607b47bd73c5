// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/csv-file.h"

#include "topoopt/core/error.h"

#include <charconv>
#include <cstdio>
#include <cstring>
#include <zlib.h>

namespace topoopt
{

namespace
{

constexpr std::size_t kBufferBytes = 64 * 1024;

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
    m_buffer.reserve(kBufferBytes + 4096);
    for (const auto& [key, value] : head)
    {
        m_buffer += "# " + key + "=" + value + "\n";
    }
    m_buffer += header;
    m_buffer += '\n';
    m_rowStart = m_buffer.size();
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

void
CsvFile::Separate()
{
    if (!m_first)
    {
        m_buffer += ',';
    }
    m_first = false;
}

CsvFile&
CsvFile::Add(std::uint64_t value)
{
    Separate();
    char digits[24];
    const auto result = std::to_chars(digits, digits + sizeof digits, value);
    m_buffer.append(digits, result.ptr);
    return *this;
}

CsvFile&
CsvFile::Add(std::int64_t value)
{
    Separate();
    char digits[24];
    const auto result = std::to_chars(digits, digits + sizeof digits, value);
    m_buffer.append(digits, result.ptr);
    return *this;
}

CsvFile&
CsvFile::Add(std::string_view text)
{
    Separate();
    if (text.find_first_of(",\"\n\r") == std::string_view::npos)
    {
        m_buffer += text;
        return *this;
    }
    m_buffer += '"';
    for (char c : text)
    {
        m_buffer += c;
        if (c == '"')
        {
            m_buffer += c;
        }
    }
    m_buffer += '"';
    return *this;
}

CsvFile&
CsvFile::AddDecimal(double value)
{
    Separate();
    char digits[48];
    const auto result =
        std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed, 6);
    m_buffer.append(digits, result.ptr);
    return *this;
}

CsvFile&
CsvFile::Skip()
{
    Separate();
    return *this;
}

void
CsvFile::EndRow()
{
    m_buffer += '\n';
    for (std::size_t k = m_rowStart; k < m_buffer.size(); ++k)
    {
        m_hash = (m_hash ^ static_cast<unsigned char>(m_buffer[k])) * 0x100000001b3ULL;
    }
    ++m_rows;
    m_first = true;
    if (m_buffer.size() >= kBufferBytes)
    {
        Flush();
    }
    m_rowStart = m_buffer.size();
}

void
CsvFile::Flush()
{
    const bool good = m_sink->Write(m_buffer.data(), m_buffer.size());
    m_buffer.clear();
    m_rowStart = 0;
    if (!good)
    {
        throw SpecError(m_name, std::string("cannot be written: ") + std::strerror(errno));
    }
}

void
CsvFile::Close()
{
    Flush();
    if (!m_sink->Close())
    {
        throw SpecError(m_name, std::string("cannot be written: ") + std::strerror(errno));
    }
}

} // namespace topoopt
