// SPDX-License-Identifier: GPL-2.0-only
#include "../temp-path.h"
#include "topoopt/core/demand.h"
#include "topoopt/core/error.h"

#include <fstream>
#include <gtest/gtest.h>

namespace topoopt
{
namespace
{

std::string
Write(const std::string& text)
{
    const std::string file =
        test::TempPath(std::string("demand-") +
                       testing::UnitTest::GetInstance()->current_test_info()->name() + ".csv");
    std::ofstream(file) << text;
    return file;
}

std::string
ErrorOfDemand(const std::string& text, ServerId servers = 0)
{
    const std::string file = Write(text);
    try
    {
        (void)ReadDemandCsv(file, servers);
    }
    catch (const SpecError& error)
    {
        const std::string what = error.what();
        return what.substr(0, file.size()) == file ? what.substr(file.size()) : what;
    }
    return "no error";
}

TEST(ReadDemandCsv, Matrix)
{
    const Demand demand = ReadDemandCsv(Write("# bytes\n7, 1 ,2\n\n3,0,4\r\n5,6,0\n"));
    EXPECT_EQ(demand.servers, 3U);
    EXPECT_EQ(demand.pairs, (std::vector<Bytes>{0, 1, 2, 3, 0, 4, 5, 6, 0}));
}

TEST(ReadDemandCsv, Rows)
{
    const Demand demand = ReadDemandCsv(Write("src,dst,bytes\n0,2,10\n0,2,5\n1,1,9\n"), 4);
    EXPECT_EQ(demand.servers, 4U);
    EXPECT_EQ(demand.At(0, 2), 15U);
    EXPECT_EQ(demand.At(1, 1), 0U);
    EXPECT_EQ(ReadDemandCsv(Write("src,dst,bytes\n0,2,10\n")).servers, 3U);
}

TEST(ReadDemandCsv, SaysWhatIsWrong)
{
    EXPECT_EQ(ErrorOfDemand("0,1\n2\n"), ":2:1: found 1 fields, expected 2");
    EXPECT_EQ(ErrorOfDemand("0,x\n2,0\n"),
              ":1:3: found 'x', expected a whole number 0..1125899906842624");
    EXPECT_NE(ErrorOfDemand("0,-1\n2,0\n"), "no error");
    EXPECT_NE(ErrorOfDemand("0,1e99\n2,0\n"), "no error");
    EXPECT_EQ(ErrorOfDemand("0,1\n2,0\n", 3), ":2:1: found a matrix of 2 rows, expected 3");
    EXPECT_EQ(ErrorOfDemand("src,dst,bytes\n0,4,1\n", 4),
              ":2:3: found '4', expected a whole number 0..3");
    EXPECT_EQ(ErrorOfDemand(""), ": found no rows, expected a matrix or src,dst,bytes");
    EXPECT_THROW((void)ReadDemandCsv("/nonexistent.csv"), SpecError);
}

} // namespace
} // namespace topoopt
