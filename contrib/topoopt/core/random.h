// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_RANDOM_H
#define TOPOOPT_CORE_RANDOM_H

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace topoopt
{

/** SplitMix64's finaliser: a bijective 64-bit hash; same result on every machine. */
[[nodiscard]] constexpr std::uint64_t
Mix64(std::uint64_t x)
{
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

/** Hash of two words, order matters. */
[[nodiscard]] constexpr std::uint64_t
Mix64(std::uint64_t a, std::uint64_t b)
{
    return Mix64(Mix64(a) ^ b);
}

/** FNV-1a of a string, for naming random streams. */
[[nodiscard]] constexpr std::uint64_t
HashName(std::string_view name)
{
    std::uint64_t h = 0xcbf29ce484222325ULL;
    for (char c : name)
    {
        h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    }
    return h;
}

/**
 * Counter-based random numbers: value k of a stream is Mix64(key, k), whatever was drawn elsewhere.
 *
 * A stream is named by (seed, name), so adding a consumer never changes another one's numbers.
 * Distributions are our own: the standard ones differ between standard libraries.
 */
class Rng
{
  public:
    Rng(std::uint64_t seed, std::string_view stream)
        : m_key(Mix64(seed, HashName(stream)))
    {
    }

    [[nodiscard]] std::uint64_t Next()
    {
        return Mix64(m_key, m_counter++);
    }

    /** Uniform in [0, n), without modulo bias. @pre n > 0 */
    [[nodiscard]] std::uint64_t Below(std::uint64_t n)
    {
        const std::uint64_t limit = UINT64_MAX - UINT64_MAX % n;
        for (;;)
        {
            const std::uint64_t x = Next();
            if (x < limit)
            {
                return x % n;
            }
        }
    }

    /** Uniform in [0, 1) with 53 random bits. */
    [[nodiscard]] double Uniform()
    {
        return static_cast<double>(Next() >> 11) * 0x1.0p-53;
    }

    /** Fisher-Yates. */
    template <typename T>
    void Shuffle(std::vector<T>& items)
    {
        for (std::size_t i = items.size(); i > 1; --i)
        {
            std::swap(items[i - 1], items[Below(i)]);
        }
    }

  private:
    std::uint64_t m_key;
    std::uint64_t m_counter = 0;
};

} // namespace topoopt

#endif // TOPOOPT_CORE_RANDOM_H
