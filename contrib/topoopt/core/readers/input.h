// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_READERS_INPUT_H
#define TOPOOPT_CORE_READERS_INPUT_H

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

namespace topoopt
{

/** A trace file: a path, or bytes in memory under a name (tests, fuzzing). */
struct TraceFile
{
    std::string path;
    std::uint32_t rank = UINT32_MAX;            ///< from the name; UINT32_MAX if it has none
    std::shared_ptr<const std::string> content; ///< null = read the file
};

/**
 * A file read as a stream of its decompressed bytes: gzip and bzip2 are recognised by their magic
 * bytes, whatever the name. It is a std::streambuf, so that a parser of std::istream can read it.
 *
 * Memory: two buffers of 64 KiB. Errors are SpecError with the path and the byte offset in the file.
 */
class Input : public std::streambuf
{
  public:
    /** @throws SpecError if the file cannot be opened or is no regular file. */
    explicit Input(const TraceFile& file);
    ~Input() override;
    Input(const Input&) = delete;
    Input& operator=(const Input&) = delete;

    [[nodiscard]] const std::string& Name() const
    {
        return m_name;
    }

    /** Offset of the next byte in the decompressed stream. */
    [[nodiscard]] std::uint64_t Offset() const
    {
        return m_base + static_cast<std::uint64_t>(gptr() - eback());
    }

    /** The first bytes of the stream (at most 64 KiB) without consuming them. @pre nothing was read */
    [[nodiscard]] std::string_view Head();

    /** Next byte, or -1 at the end. */
    int Get()
    {
        const auto c = sbumpc();
        return traits_type::eq_int_type(c, traits_type::eof()) ? -1 : static_cast<int>(c & 0xff);
    }

    /** Up to @p count bytes into @p to; fewer only at the end. */
    std::size_t Read(char* to, std::size_t count)
    {
        return static_cast<std::size_t>(xsgetn(to, static_cast<std::streamsize>(count)));
    }

    /**
     * Next line without its line end (LF or CRLF); a UTF-8 byte order mark on the first line is dropped.
     * @return false at the end of the file
     * @throws SpecError for a line longer than 1 MiB or one with a NUL byte
     */
    bool GetLine(std::string& line);

    /** Number of the line that GetLine() returned last, from 1. */
    [[nodiscard]] std::int64_t Line() const
    {
        return m_line;
    }

    /** Drops a UTF-8 byte order mark at the start. @throws SpecError for UTF-16 text */
    void SkipByteOrderMark();

    /** "FILE:LINE" of the last line. */
    [[nodiscard]] std::string LinePlace() const;

  protected:
    int_type underflow() override;

  private:
    struct Decoder;
    std::size_t Raw(char* to, std::size_t count);
    std::size_t Fill(char* to, std::size_t count);

    std::string m_name;
    std::shared_ptr<const std::string> m_content;
    std::size_t m_contentAt = 0;
    std::FILE* m_file = nullptr;
    std::unique_ptr<Decoder> m_decoder;
    std::vector<char> m_buffer;
    std::uint64_t m_base = 0; ///< stream offset of m_buffer[0]
    std::int64_t m_line = 0;
};

} // namespace topoopt

#endif // TOPOOPT_CORE_READERS_INPUT_H
