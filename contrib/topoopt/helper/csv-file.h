// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CSV_FILE_H
#define TOPOOPT_CSV_FILE_H

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace topoopt
{

/**
 * A comma-separated table written row by row, plain or gzipped (by the name's suffix).
 *
 * `# key=value` lines come first, then the header. The hash of all rows is kept, so that runs can be
 * compared without their files. A 64 KiB buffer, whatever the number of rows.
 */
class CsvFile
{
  public:
    /** @throws SpecError naming the file if it cannot be created */
    CsvFile(const std::string& file,
            const std::vector<std::pair<std::string, std::string>>& head,
            std::string_view header);
    ~CsvFile();
    CsvFile(const CsvFile&) = delete;
    CsvFile& operator=(const CsvFile&) = delete;

    CsvFile& Add(std::uint64_t value);
    CsvFile& Add(std::int64_t value);

    CsvFile& Add(std::uint32_t value)
    {
        return Add(static_cast<std::uint64_t>(value));
    }

    /** Quoted when it has to be (RFC 4180). */
    CsvFile& Add(std::string_view text);
    /** Six decimals. */
    CsvFile& AddDecimal(double value);
    /** An empty field. */
    CsvFile& Skip();
    void EndRow();
    /** Flushes and closes. @return Hash() @throws SpecError if something could not be written */
    std::uint64_t Close();

    /** Of all rows so far. */
    [[nodiscard]] std::uint64_t Hash() const
    {
        return m_hash;
    }

    [[nodiscard]] std::uint64_t Rows() const
    {
        return m_rows;
    }

  private:
    struct Sink;

    void Flush();
    /** Room for so many bytes; moves to a larger buffer if the row is long. */
    char* Room(std::size_t bytes);
    /** A field of at most @p most characters, comma included. @p how is what std::to_chars() takes besides. */
    template <typename T, typename... How>
    CsvFile& AddNumber(std::size_t most, T value, How... how);

    std::string m_name;
    std::unique_ptr<Sink> m_sink;
    std::vector<char> m_buffer; ///< used up to m_size
    std::size_t m_size = 0;
    std::size_t m_rowStart = 0;
    std::uint64_t m_hash = 0xcbf29ce484222325ULL;
    std::uint64_t m_rows = 0;
};

} // namespace topoopt

#endif // TOPOOPT_CSV_FILE_H
