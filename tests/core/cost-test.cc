// SPDX-License-Identifier: GPL-2.0-only
#include "../temp-path.h"
#include "topoopt/core/cost.h"
#include "topoopt/core/error.h"

#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace topoopt
{
namespace
{

constexpr std::uint64_t kGbps = 1'000'000'000;

PriceTable
Prices()
{
    return ReadPrices(TOPOOPT_SOURCE_DIR "/traces/prices.yaml");
}

ServerSpec
Servers(std::uint32_t count, std::uint32_t nics, std::uint64_t gbps)
{
    ServerSpec servers;
    servers.count = count;
    servers.nics = nics;
    servers.rate = {gbps * kGbps};
    return servers;
}

const CostRow&
RowOf(const CostReport& report, const std::string& fabric)
{
    for (const CostRow& row : report.rows)
    {
        if (row.fabric == fabric)
        {
            return row;
        }
    }
    throw std::runtime_error("no row " + fabric);
}

TEST(Prices, RowsAndInterpolation)
{
    const PriceTable prices = Prices();
    ASSERT_EQ(prices.rates.size(), 5U);
    EXPECT_EQ(prices.At({100 * kGbps}).switchPort, 187);
    EXPECT_EQ(prices.At({200 * kGbps}).switchPort, 374);
    EXPECT_EQ(prices.At({1 * kGbps}).nicPort, 185);
    // Twice the rate, twice the price: in between, proportional.
    EXPECT_NEAR(prices.At({150 * kGbps}).switchPort, 1.5 * 187, 1e-9);
    // The mean of logarithms is the logarithm of the geometric mean.
    const auto middle = static_cast<std::uint64_t>(std::sqrt(40.0 * 100.0) * kGbps);
    EXPECT_NEAR(prices.At({middle}).nicPort, std::sqrt(354.0 * 678.0), 1e-3);
    EXPECT_EQ(prices.At({800 * kGbps}).nicPort, 4 * 815);
    EXPECT_EQ(prices.LanesOf({300 * kGbps}), 1.5);
    EXPECT_EQ(prices.LanesOf({30 * kGbps}), 1);
    EXPECT_EQ(prices.fibre, 150);
    double before = 0;
    for (std::uint64_t gbps = 1; gbps < 1000; ++gbps)
    {
        const RatePrices at = prices.At({gbps * kGbps});
        const double sum = at.nicPort + at.switchPort + at.transceiver;
        EXPECT_GE(sum, before);
        before = sum;
    }
}

TEST(Prices, SayWhatIsWrong)
{
    const auto error = [](const std::string& text) {
        const std::string file = test::TempPath("prices.yaml");
        std::ofstream(file) << text;
        try
        {
            (void)ReadPrices(file);
        }
        catch (const SpecError& e)
        {
            return std::string(e.what()).substr(file.size());
        }
        return std::string("no error");
    };
    const std::string row = "{rate: 10Gbps, transceiver: 1, nic_port: 2, switch_port: 3}";
    const std::string rest = "patch_panel_port: 1\nocs_port: 1\nsplit_switch: 1\nfibre_metre: 1\n"
                             "fibre_length: 1\n";
    EXPECT_EQ(error("version: 1\nrates: [" + row + "]\n" + rest), "no error");
    EXPECT_NE(error("version: 1\nrates: [" + row + ", " + row + "]\n" + rest).find("rates.1"),
              std::string::npos);
    EXPECT_NE(error("version: 1\nrates: []\n" + rest), "no error");
    EXPECT_NE(error("version: 2\nrates: [" + row + "]\n" + rest), "no error");
    EXPECT_NE(error("version: 1\nrates: [" + row + "]\nocs_prt: 3\n" + rest).find("ocs_port"),
              std::string::npos);
    EXPECT_NE(
        error("version: 1\nrates: [{rate: 10Gbps, transceiver: 0, nic_port: 2, switch_port: 3}]\n" +
              rest)
            .find("a number above 0"),
        std::string::npos);
    EXPECT_THROW((void)ReadPrices("/nonexistent"), SpecError);
}

TEST(Bill, OfTopoOptAndFatTree)
{
    const PriceTable prices = Prices();
    const CostReport report = MakeCostReport(Servers(128, 4, 100), prices);
    // Per NIC: NIC, transceiver, 1x2 switch, two panel ports, fibre.
    const double nic = 678 + 99 + 25 + 2 * 100 + 150;
    EXPECT_NEAR(RowOf(report, "topoopt").bill.total, 128 * 4 * nic, 1e-6);
    EXPECT_NEAR(RowOf(report, "topoopt with OCS").bill.total,
                128 * 4 * (678 + 99 + 520 + 150),
                1e-6);
    // Per server of a full 3-tier tree: a NIC, 5 switch ports, 6 transceivers, 3 fibres.
    const double tree = 2 * (815 + 5 * 374 + 6 * 198 + 3 * 150);
    EXPECT_NEAR(RowOf(report, "fat-tree").bill.total, 128 * tree, 1e-6);
    EXPECT_NEAR(RowOf(report, "ideal-switch").bill.total, 128 * tree, 1e-6);
    EXPECT_EQ(RowOf(report, "fat-tree").rate.bps, 400 * kGbps);
    EXPECT_EQ(RowOf(report, "topoopt").ratio, 1);
    // Half the edge uplinks and their cores: 1 + 1 + 1 switch ports per server.
    EXPECT_NEAR(RowOf(report, "oversubscribed-fat-tree").bill.total,
                128 * 2 * (815 + 3 * 374 + 4 * 198 + 2 * 150),
                1e-6);
    EXPECT_EQ(RowOf(report, "full-mesh").nics, 127U);
    EXPECT_EQ(RowOf(report, "full-mesh").rate.bps, 400 * kGbps / 127);
    // The bill of the fabric that is built is the closed form's.
    FabricSpec spec;
    spec.kind = "topoopt";
    FabricContext context;
    context.servers = report.servers;
    EXPECT_NEAR(BillOf(BuildFabric(spec, context), prices).total, 128 * 4 * nic, 1e-6);
    spec.kind = "sipml-ocs";
    EXPECT_NEAR(BillOf(BuildFabric(spec, context), prices).total,
                RowOf(report, "sipml-ocs").bill.total,
                1e-6);
    spec.kind = "full-mesh";
    const Bill mesh = BillOf(BuildFabric(spec, context), prices);
    EXPECT_DOUBLE_EQ(mesh.total, RowOf(report, "full-mesh").bill.total);
    EXPECT_EQ(mesh.items.size(), RowOf(report, "full-mesh").bill.items.size());
    for (const CostRow& row : report.rows)
    {
        double sum = 0;
        for (const BillItem& item : row.bill.items)
        {
            EXPECT_NEAR(item.total, item.count * item.unit, 1e-6);
            sum += item.total;
        }
        EXPECT_NEAR(sum, row.bill.total, 1e-6);
    }
}

TEST(EqualCost, FatTreeCostsWhatTopoOptDoes)
{
    const PriceTable prices = Prices();
    double before = 0;
    for (std::uint64_t gbps : {10U, 25U, 40U, 100U, 200U})
    {
        const CostReport report = MakeCostReport(Servers(128, 4, gbps), prices);
        const CostRow& row = RowOf(report, "fat-tree, equal cost");
        ASSERT_TRUE(row.why.empty()) << row.why;
        EXPECT_NEAR(row.ratio, 1, 1e-6);
        EXPECT_EQ(report.equalCostFatTree.bps, row.rate.bps);
        const auto rate = static_cast<double>(row.rate.bps);
        EXPECT_GT(rate, before);
        // The slowest NICs cost less than their panel ports: there the money buys more than 4 x the rate.
        EXPECT_EQ(rate < 4e9 * static_cast<double>(gbps), gbps >= 25) << gbps << " " << rate;
        before = rate;
    }
    // More NICs buy a faster tree.
    std::uint64_t last = 0;
    for (std::uint32_t nics : {2U, 4U, 6U, 8U})
    {
        const std::uint64_t rate =
            MakeCostReport(Servers(432, nics, 100), prices).equalCostFatTree.bps;
        EXPECT_GT(rate, last);
        last = rate;
    }
    // One cheap NIC each does not pay for three tiers of switches.
    const CostReport poor = MakeCostReport(Servers(128, 1, 10), prices);
    EXPECT_EQ(poor.equalCostFatTree.bps, 0U);
    EXPECT_NE(RowOf(poor, "fat-tree, equal cost").why.find("costs"), std::string::npos);
}

TEST(CostReport, RatioOfTheIdealSwitchOverSizes)
{
    // Full trees all four, so the ratio does not depend on the size.
    for (std::uint32_t n : {128U, 432U, 2000U})
    {
        const CostReport large = MakeCostReport(Servers(n, 8, 200), Prices());
        EXPECT_NEAR(RowOf(large, "ideal-switch").ratio, 34584.0 / 11104.0, 1e-9);
    }
    for (std::uint32_t n : {128U, 1024U})
    {
        const CostReport small = MakeCostReport(Servers(n, 4, 100), Prices());
        EXPECT_NEAR(RowOf(small, "ideal-switch").ratio, 8646.0 / 4608.0, 1e-9);
    }
}

TEST(CostReport, TextAndJson)
{
    const CostReport report = MakeCostReport(Servers(16, 4, 100), Prices());
    const std::string text = CostReportText(report);
    EXPECT_NE(text.find("topoopt "), std::string::npos);
    EXPECT_NE(text.find("unverified prices: "), std::string::npos);
    const nlohmann::json json = nlohmann::json::parse(CostReportJson(report));
    EXPECT_EQ(json["fabrics"][0]["fabric"], "topoopt");
    EXPECT_EQ(json["fabrics"][0]["ratio_to_topoopt"], 1.0);
    EXPECT_THROW((void)MakeCostReport(Servers(1, 4, 100), Prices()), SpecError);
}

} // namespace
} // namespace topoopt
