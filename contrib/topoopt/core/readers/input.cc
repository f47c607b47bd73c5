// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/readers/input.h"

#include "topoopt/core/error.h"

#include <algorithm>
#include <bzlib.h>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <zlib.h>

namespace topoopt
{

namespace
{
constexpr std::size_t kBufferBytes = 65536;
constexpr std::size_t kLongestLine = std::size_t{1} << 20;
} // namespace

/** zlib's and libbz2's states behind one face; concatenated streams are legal in both formats. */
struct Input::Decoder
{
    bool bzip2 = false;
    bool ended = false; ///< at the end of a compressed stream, maybe of the last one
    z_stream zlib{};
    bz_stream bz{};
    std::vector<char> raw = std::vector<char>(kBufferBytes);
    std::size_t begin = 0;
    std::size_t end = 0;
    std::uint64_t consumed = 0; ///< compressed bytes before raw[0]

    explicit Decoder(bool isBzip2)
        : bzip2(isBzip2)
    {
        Start();
    }

    ~Decoder()
    {
        Stop();
    }

    Decoder(const Decoder&) = delete;
    Decoder& operator=(const Decoder&) = delete;

    void Start()
    {
        ended = false;
        // 15 window bits + 16: the gzip wrapper, checksum included.
        const int status = bzip2 ? BZ2_bzDecompressInit(&bz, 0, 0) : inflateInit2(&zlib, 15 + 16);
        if (status != 0)
        {
            throw std::bad_alloc();
        }
    }

    void Stop()
    {
        if (bzip2)
        {
            BZ2_bzDecompressEnd(&bz);
            bz = {};
        }
        else
        {
            inflateEnd(&zlib);
            zlib = {};
        }
    }
};

Input::Input(const TraceFile& file)
    : m_name(file.path),
      m_content(file.content),
      m_buffer(kBufferBytes)
{
    if (!m_content)
    {
        std::error_code error;
        const auto status = std::filesystem::status(m_name, error);
        if (!std::filesystem::exists(status))
        {
            throw SpecError(m_name, "no such file");
        }
        if (std::filesystem::is_directory(status))
        {
            throw SpecError(m_name, "found a directory, expected a file");
        }
        if (!std::filesystem::is_regular_file(status))
        {
            // Its content is looked at more than once, which a pipe does not allow.
            throw SpecError(m_name, "found a pipe or device, expected a regular file");
        }
        m_file = std::fopen(m_name.c_str(), "rb");
        if (m_file == nullptr)
        {
            throw SpecError(m_name, std::string("cannot be read: ") + std::strerror(errno));
        }
    }
    char magic[4] = {};
    const std::size_t got = Raw(magic, sizeof magic);
    const bool gzip = got >= 2 && magic[0] == '\x1f' && magic[1] == '\x8b';
    const bool bzip2 = got == 4 && std::memcmp(magic, "BZh", 3) == 0 && magic[3] >= '1';
    if (gzip || bzip2)
    {
        m_decoder = std::make_unique<Decoder>(bzip2);
        std::memcpy(m_decoder->raw.data(), magic, got);
        m_decoder->end = got;
        setg(m_buffer.data(), m_buffer.data(), m_buffer.data());
    }
    else
    {
        std::memcpy(m_buffer.data(), magic, got);
        setg(m_buffer.data(), m_buffer.data(), m_buffer.data() + got);
    }
}

Input::~Input()
{
    if (m_file != nullptr)
    {
        std::fclose(m_file);
    }
}

std::size_t
Input::Raw(char* to, std::size_t count)
{
    if (m_content)
    {
        const std::size_t got = std::min(count, m_content->size() - m_contentAt);
        std::memcpy(to, m_content->data() + m_contentAt, got);
        m_contentAt += got;
        return got;
    }
    const std::size_t got = std::fread(to, 1, count, m_file);
    if (got < count && std::ferror(m_file) != 0)
    {
        throw SpecError(m_name, std::string("cannot be read: ") + std::strerror(errno));
    }
    return got;
}

std::size_t
Input::Fill(char* to, std::size_t count)
{
    if (!m_decoder)
    {
        return Raw(to, count);
    }
    Decoder& d = *m_decoder;
    std::size_t made = 0;
    while (made == 0)
    {
        if (d.begin == d.end)
        {
            d.consumed += d.end;
            d.begin = 0;
            d.end = Raw(d.raw.data(), d.raw.size());
            if (d.end == 0)
            {
                if (d.ended)
                {
                    return 0;
                }
                throw SpecError(PlaceAtByte(m_name, d.consumed),
                                "unexpected end of compressed data");
            }
        }
        if (d.ended)
        {
            // Another stream follows, or the zero padding that tape-minded tools append.
            if (d.raw[d.begin] == '\0')
            {
                ++d.begin;
                continue;
            }
            d.Stop();
            d.Start();
        }
        char* in = d.raw.data() + d.begin;
        const auto available = static_cast<unsigned>(d.end - d.begin);
        bool broken = false;
        if (d.bzip2)
        {
            d.bz.next_in = in;
            d.bz.avail_in = available;
            d.bz.next_out = to;
            d.bz.avail_out = static_cast<unsigned>(count);
            const int status = BZ2_bzDecompress(&d.bz);
            d.ended = status == BZ_STREAM_END;
            broken = status != BZ_OK && status != BZ_STREAM_END;
            d.begin = d.end - d.bz.avail_in;
            made = count - d.bz.avail_out;
        }
        else
        {
            d.zlib.next_in = reinterpret_cast<Bytef*>(in);
            d.zlib.avail_in = available;
            d.zlib.next_out = reinterpret_cast<Bytef*>(to);
            d.zlib.avail_out = static_cast<unsigned>(count);
            const int status = inflate(&d.zlib, Z_NO_FLUSH);
            d.ended = status == Z_STREAM_END;
            broken = status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR;
            d.begin = d.end - d.zlib.avail_in;
            made = count - d.zlib.avail_out;
        }
        if (broken)
        {
            throw SpecError(PlaceAtByte(m_name, d.consumed + d.begin), "damaged compressed data");
        }
    }
    return made;
}

Input::int_type
Input::underflow()
{
    if (gptr() < egptr())
    {
        return traits_type::to_int_type(*gptr());
    }
    m_base += static_cast<std::uint64_t>(egptr() - eback());
    const std::size_t got = Fill(m_buffer.data(), m_buffer.size());
    setg(m_buffer.data(), m_buffer.data(), m_buffer.data() + got);
    return got == 0 ? traits_type::eof() : traits_type::to_int_type(*gptr());
}

std::string_view
Input::Head()
{
    auto have = static_cast<std::size_t>(egptr() - gptr());
    while (have < m_buffer.size())
    {
        const std::size_t got = Fill(m_buffer.data() + have, m_buffer.size() - have);
        if (got == 0)
        {
            break;
        }
        have += got;
        setg(m_buffer.data(), m_buffer.data(), m_buffer.data() + have);
    }
    return {m_buffer.data(), have};
}

void
Input::SkipByteOrderMark()
{
    const std::string_view head = Head();
    if (head.substr(0, 3) == "\xef\xbb\xbf")
    {
        gbump(3);
    }
    else if (head.substr(0, 2) == "\xff\xfe" || head.substr(0, 2) == "\xfe\xff")
    {
        throw SpecError(PlaceAtByte(m_name, 0), "found UTF-16 text, expected UTF-8");
    }
}

bool
Input::GetLine(std::string& line)
{
    line.clear();
    if (m_line == 0)
    {
        SkipByteOrderMark();
    }
    int c = Get();
    if (c < 0)
    {
        return false;
    }
    ++m_line;
    for (; c >= 0 && c != '\n'; c = Get())
    {
        if (c == 0)
        {
            throw SpecError(LinePlace(), "found a NUL byte, expected text");
        }
        if (line.size() >= kLongestLine)
        {
            throw SpecError(LinePlace(), "found a line of more than 1 MiB");
        }
        line.push_back(static_cast<char>(c));
    }
    if (!line.empty() && line.back() == '\r')
    {
        line.pop_back();
    }
    return true;
}

std::string
Input::LinePlace() const
{
    return m_name + ":" + std::to_string(m_line);
}

} // namespace topoopt
