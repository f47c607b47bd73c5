// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/units.h"

#include <gtest/gtest.h>
#include <stdexcept>

namespace topoopt
{
namespace
{

TEST(Units, RatesParseExactly)
{
    EXPECT_EQ(ParseBitRate("100Gbps").bps, 100'000'000'000u);
    EXPECT_EQ(ParseBitRate("2.5 Gb/s").bps, 2'500'000'000u);
    EXPECT_EQ(ParseBitRate("1e9bps").bps, 1'000'000'000u);
    EXPECT_EQ(FormatBitRate({12'500'000'000}), "12.5Gbps");
}

TEST(Units, TimesParseExactly)
{
    EXPECT_EQ(ParseTime("10s"), 10 * kSecond);
    EXPECT_EQ(ParseTime("1.5us"), 1'500'000);
    EXPECT_EQ(ParseTime("0.001ns"), 1);
    EXPECT_EQ(FormatTime(1'500'000), "1.5us");
    EXPECT_EQ(FormatTime(0), "0ps");
}

TEST(Units, BytesKnowBothPrefixFamilies)
{
    EXPECT_EQ(ParseBytes("2KB"), 2000u);
    EXPECT_EQ(ParseBytes("64 MiB"), 67'108'864u);
    EXPECT_EQ(FormatBytes(67'108'864), "64MiB");
    EXPECT_EQ(FormatBytes(1001), "1001B");
}

TEST(Units, BareNumbersAndNonsenseAreRefused)
{
    for (const char* text : {"100", "", "Gbps", "-1Gbps", "1.2.3Gbps", "1XB", "nan", "1e99Gbps"})
    {
        EXPECT_THROW(static_cast<void>(ParseBitRate(text)), std::invalid_argument) << text;
    }
    EXPECT_THROW(static_cast<void>(ParseBitRate("0Gbps")), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(ParseTime("0.5ps")), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(ParseBytes("20000000TB")), std::invalid_argument);
}

TEST(Units, TxTimeRoundsToTheNearestPicosecond)
{
    EXPECT_EQ(TxTime(8936, {100'000'000'000}), 714'880);
    EXPECT_EQ(TxTime(1, {300'000'000'000}), 27); // 26.67 ps
    EXPECT_EQ(TxTime(1'000'000'000'000, {10'000'000'000}), 800 * kSecond);
}

} // namespace
} // namespace topoopt
