// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/cost.h"

#include "topoopt/core/error.h"
#include "topoopt/core/model.h"
#include "topoopt/core/topologies/options.h"
#include "topoopt/core/yaml-document.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

namespace topoopt
{

namespace
{

double
Price(const YamlSection& section, const std::string& key)
{
    const YamlValue& value = section.Require(key, "a price");
    const std::string& text = ScalarOf(value, section.Path(key), "a number above 0");
    double price = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), price);
    if (error != std::errc() || end != text.data() + text.size() || !(price > 0) || price > 1e9)
    {
        throw SpecError(value.place,
                        section.Path(key) + ": found " + value.Found() +
                            ", expected a number above 0, at most 1e9");
    }
    return price;
}

} // namespace

double
PriceTable::LanesOf(BitRate rate) const
{
    const auto last = static_cast<double>(rates.back().rate.bps);
    return std::max(1.0, static_cast<double>(rate.bps) / last);
}

RatePrices
PriceTable::At(BitRate rate) const
{
    RatePrices out;
    if (!(rates.front().rate < rate))
    {
        out = rates.front();
    }
    else if (!(rate < rates.back().rate))
    {
        const double lanes = LanesOf(rate);
        out.transceiver = lanes * rates.back().transceiver;
        out.nicPort = lanes * rates.back().nicPort;
        out.switchPort = lanes * rates.back().switchPort;
    }
    else
    {
        const auto above =
            std::upper_bound(rates.begin(),
                             rates.end(),
                             rate,
                             [](BitRate value, const RatePrices& row) { return value < row.rate; });
        const RatePrices& a = *(above - 1);
        const RatePrices& b = *above;
        const double share =
            std::log(static_cast<double>(rate.bps) / static_cast<double>(a.rate.bps)) /
            std::log(static_cast<double>(b.rate.bps) / static_cast<double>(a.rate.bps));
        const auto between = [share](double low, double high) {
            return low * std::pow(high / low, share);
        };
        out.transceiver = between(a.transceiver, b.transceiver);
        out.nicPort = between(a.nicPort, b.nicPort);
        out.switchPort = between(a.switchPort, b.switchPort);
    }
    out.rate = rate;
    return out;
}

PriceTable
ReadPrices(const std::string& file)
{
    PriceTable table;
    table.file = file.empty() ? FindData("prices.yaml", DataRoots()) : file;
    const YamlValue document = ReadYamlFile(table.file);
    const YamlSection top(document,
                          "",
                          {"currency",
                           "fibre_length",
                           "fibre_metre",
                           "ocs_port",
                           "patch_panel_port",
                           "rates",
                           "split_switch",
                           "unverified",
                           "version"});
    std::uint32_t version = 0;
    (void)top.Require("version", "1");
    top.Count("version", 1U, 1U, version);
    std::string currency;
    top.Choice("currency", {"USD"}, currency);
    const YamlValue& rates = top.Require("rates", "a list of prices by rate");
    if (rates.kind != YamlKind::List || rates.items.empty())
    {
        throw SpecError(rates.place, "rates: found " + rates.Found() + ", expected a list of rows");
    }
    for (std::size_t i = 0; i < rates.items.size(); ++i)
    {
        const YamlSection row(rates.items[i],
                              "rates." + std::to_string(i),
                              {"nic_port", "rate", "switch_port", "transceiver"});
        (void)row.Require("rate", "a rate");
        RatePrices prices;
        row.Rate("rate", prices.rate);
        prices.nicPort = Price(row, "nic_port");
        prices.switchPort = Price(row, "switch_port");
        prices.transceiver = Price(row, "transceiver");
        if (i > 0)
        {
            const RatePrices& before = table.rates.back();
            if (!(before.rate < prices.rate) || prices.nicPort < before.nicPort ||
                prices.switchPort < before.switchPort || prices.transceiver < before.transceiver)
            {
                throw SpecError(
                    rates.items[i].place,
                    "rates." + std::to_string(i) +
                        ": found a row below the one before it, expected rates that rise "
                        "and prices that do not fall");
            }
        }
        table.rates.push_back(prices);
    }
    table.patchPanelPort = Price(top, "patch_panel_port");
    table.ocsPort = Price(top, "ocs_port");
    table.splitSwitch = Price(top, "split_switch");
    table.fibre = Price(top, "fibre_metre") * Price(top, "fibre_length");
    if (const YamlValue* unverified = top.Find("unverified"))
    {
        for (const YamlValue& entry : unverified->items)
        {
            table.unverified.push_back(ScalarOf(entry, "unverified", "the name of a price"));
        }
    }
    return table;
}

PortCounts
PortsOf(const Topology& topology, Optics optics)
{
    PortCounts counts;
    counts.optics = optics;
    std::vector<std::size_t> first(topology.NodeCount() + std::size_t{1},
                                   0); ///< port of a node, of all ports
    for (NodeId node = 0; node < topology.NodeCount(); ++node)
    {
        first[node + 1] = first[node] + topology.PortCount(node);
    }
    std::vector<bool> seen(first.back());
    const auto count = [&](NodeId node, std::uint32_t port, BitRate rate) {
        if (!seen[first[node] + port])
        {
            seen[first[node] + port] = true;
            ++(topology.IsServer(node) ? counts.serverPorts : counts.switchPorts)[rate.bps];
        }
    };
    // A port has a link each way; of several links on a port, the first gives the rate.
    for (const Link& link : topology.links)
    {
        count(link.src, link.srcPort, link.rate);
        count(link.dst, link.dstPort, link.rate);
    }
    return counts;
}

PortCounts
DirectPorts(const ServerSpec& servers, Optics optics)
{
    PortCounts counts;
    counts.optics = optics;
    counts.serverPorts[servers.rate.bps] =
        servers.count > 1 ? static_cast<double>(servers.count) * servers.nics : 0;
    return counts;
}

Bill
BillOf(const PortCounts& ports, const PriceTable& prices)
{
    Bill bill;
    const auto add = [&](const char* item, BitRate rate, double count, double unit) {
        if (count > 0)
        {
            bill.items.push_back({item, rate, count, unit, count * unit});
            bill.total += count * unit;
        }
    };
    std::map<std::uint64_t, double> all = ports.serverPorts;
    double serverLanes = 0;
    for (const auto& [bps, count] : ports.serverPorts)
    {
        add("NIC port", {bps}, count, prices.At({bps}).nicPort);
        serverLanes += count * prices.LanesOf({bps});
    }
    for (const auto& [bps, count] : ports.switchPorts)
    {
        add("switch port", {bps}, count, prices.At({bps}).switchPort);
        all[bps] += count;
    }
    double lanes = 0;
    for (const auto& [bps, count] : all)
    {
        add("transceiver", {bps}, count, prices.At({bps}).transceiver);
        lanes += count * prices.LanesOf({bps});
    }
    switch (ports.optics)
    {
    case Optics::Cable:
        add("fibre", {}, lanes / 2, prices.fibre);
        break;
    case Optics::PatchPanel:
        add("1x2 switch", {}, serverLanes, prices.splitSwitch);
        add("patch panel port", {}, 2 * serverLanes, prices.patchPanelPort);
        add("fibre", {}, lanes, prices.fibre);
        break;
    case Optics::CircuitSwitch:
        add("OCS port", {}, serverLanes, prices.ocsPort);
        add("fibre", {}, lanes, prices.fibre);
        break;
    }
    return bill;
}

Bill
BillOf(const Fabric& fabric, const PriceTable& prices)
{
    if (fabric.kind == "ideal-switch" && !fabric.topology.links.empty())
    {
        FabricSpec spec;
        spec.kind = "fat-tree";
        FabricContext context;
        context.servers.count = fabric.topology.servers;
        context.servers.rate = fabric.topology.links.front().rate;
        return BillOf(BuildFabric(spec, context), prices);
    }
    Optics optics = Optics::Cable;
    for (const FabricKind& kind : FabricKinds())
    {
        if (fabric.kind == kind.name)
        {
            optics = kind.optics;
        }
    }
    return BillOf(PortsOf(fabric.topology, optics), prices);
}

BitRate
EqualCostRate(const Topology& shape,
              Optics optics,
              double dollars,
              const PriceTable& prices,
              const std::string& what)
{
    PortCounts ports = PortsOf(shape, optics);
    double server = 0;
    double inner = 0;
    for (const auto& [bps, count] : ports.serverPorts)
    {
        server += count;
    }
    for (const auto& [bps, count] : ports.switchPorts)
    {
        inner += count;
    }
    const auto cost = [&](std::uint64_t bps) {
        PortCounts at;
        at.optics = optics;
        at.serverPorts[bps] = server;
        at.switchPorts[bps] = inner;
        return BillOf(at, prices).total;
    };
    std::uint64_t low = prices.rates.front().rate.bps;
    if (server + inner == 0 || cost(low) > dollars)
    {
        char text[160];
        std::snprintf(text,
                      sizeof text,
                      ": found that it costs %.0f USD at %s already, expected at most %.0f USD",
                      server + inner == 0 ? 0.0 : cost(low),
                      FormatBitRate({low}).c_str(),
                      dollars);
        throw SpecError(what + text);
    }
    std::uint64_t high = low;
    constexpr std::uint64_t kFastest = 1'000'000'000'000'000;
    while (cost(high) <= dollars && high < kFastest)
    {
        low = high;
        high *= 2;
    }
    while (high - low > 1)
    {
        const std::uint64_t middle = low + (high - low) / 2;
        (cost(middle) <= dollars ? low : high) = middle;
    }
    return {low};
}

CostReport
MakeCostReport(const ServerSpec& servers, const PriceTable& prices)
{
    CostReport report;
    report.servers = servers;
    report.prices = prices;
    if (servers.count < 2 || servers.nics < 1 || servers.rate.bps == 0)
    {
        throw SpecError("cost",
                        "found " + std::to_string(servers.count) + " servers with " +
                            std::to_string(servers.nics) +
                            " NICs, expected 2 or more with 1 or more");
    }
    const auto direct = [&](const std::string& name, Optics optics) {
        report.rows.push_back({name,
                               "",
                               servers.nics,
                               servers.rate,
                               BillOf(DirectPorts(servers, optics), prices),
                               0});
    };
    direct("topoopt", Optics::PatchPanel);
    direct("topoopt with OCS", Optics::CircuitSwitch);
    direct("sipml-ocs", Optics::CircuitSwitch);
    direct("expander", Optics::Cable);
    const double topoopt = report.rows.front().bill.total;
    const auto row = [&](const std::string& name, const auto& fill) {
        CostRow made;
        made.fabric = name;
        try
        {
            fill(made);
        }
        catch (const SpecError& error)
        {
            made.why = error.what();
        }
        report.rows.push_back(std::move(made));
    };
    const auto specOf = [](const std::string& kind) {
        FabricSpec spec;
        spec.kind = kind;
        spec.place = "cost";
        return spec;
    };
    const auto built = [&](const std::string& kind,
                           const std::string& name,
                           const std::map<std::string, std::string>& options) {
        row(name, [&](CostRow& made) {
            FabricSpec spec = specOf(kind);
            spec.options = options;
            FabricContext context;
            context.servers = servers;
            const Fabric fabric = BuildFabric(spec, context);
            made.bill = BillOf(fabric, prices);
            made.rate = fabric.topology.links.front().rate;
            made.nics = fabric.topology.PortCount(0);
        });
    };
    built("ideal-switch", "ideal-switch", {});
    built("fat-tree", "fat-tree", {});
    built("fat-tree", "fat-tree, equal cost", {{"rate", "equal-cost"}});
    if (report.rows.back().why.empty())
    {
        report.equalCostFatTree = report.rows.back().rate;
    }
    built("oversubscribed-fat-tree", "oversubscribed-fat-tree", {});
    built("leaf-spine", "leaf-spine", {});
    built("rail-optimized", "rail-optimized", {});
    built("torus", "torus", {});
    built("hypercube", "hypercube", {});
    // A mesh of thousands has millions of cables, which need not be made to be counted.
    row("full-mesh", [&](CostRow& made) {
        const std::uint32_t others = servers.count - 1;
        const FabricSpec spec = specOf("full-mesh");
        const NicSpread nics = SpreadNics(servers, others, FabricOptions(spec));
        PortCounts ports;
        made.nics = others * nics.lanes;
        made.rate = nics.rate;
        ports.serverPorts[made.rate.bps] = static_cast<double>(servers.count) * made.nics;
        made.bill = BillOf(ports, prices);
    });
    for (CostRow& made : report.rows)
    {
        made.ratio = made.bill.total / topoopt;
    }
    return report;
}

std::string
CostReportText(const CostReport& report)
{
    char line[512];
    std::string out;
    std::snprintf(line,
                  sizeof line,
                  "%u servers, %u NICs of %s each; prices from %s, US dollars\n",
                  report.servers.count,
                  report.servers.nics,
                  FormatBitRate(report.servers.rate).c_str(),
                  report.prices.file.c_str());
    out += line;
    std::snprintf(line,
                  sizeof line,
                  "%-24s %4s %14s %14s %12s %8s\n",
                  "fabric",
                  "NICs",
                  "rate",
                  "total",
                  "per server",
                  "ratio");
    out += line;
    for (const CostRow& row : report.rows)
    {
        if (!row.why.empty())
        {
            continue;
        }
        char rate[40];
        std::snprintf(rate, sizeof rate, "%.6gGbps", static_cast<double>(row.rate.bps) / 1e9);
        std::snprintf(line,
                      sizeof line,
                      "%-24s %4u %14s %14.0f %12.0f %8.3f\n",
                      row.fabric.c_str(),
                      row.nics,
                      rate,
                      row.bill.total,
                      row.bill.total / report.servers.count,
                      row.ratio);
        out += line;
    }
    for (const CostRow& row : report.rows)
    {
        out += row.why.empty() ? "" : "not built: " + row.why + "\n";
    }
    out += "an ideal switch is billed as a full-bisection Fat-tree of its rate\n";
    if (!report.prices.unverified.empty())
    {
        out += "unverified prices: ";
        for (std::size_t i = 0; i < report.prices.unverified.size(); ++i)
        {
            out += (i == 0 ? "" : "; ") + report.prices.unverified[i];
        }
        out += "\n";
    }
    return out;
}

std::string
CostReportJson(const CostReport& report)
{
    using Json = nlohmann::ordered_json;
    Json json;
    json["servers"] = report.servers.count;
    json["degree"] = report.servers.nics;
    json["rate_bps"] = report.servers.rate.bps;
    json["prices"] = report.prices.file;
    json["unverified"] = report.prices.unverified;
    json["equal_cost_fat_tree_bps"] = report.equalCostFatTree.bps;
    json["fabrics"] = Json::array();
    for (const CostRow& row : report.rows)
    {
        Json entry;
        entry["fabric"] = row.fabric;
        if (!row.why.empty())
        {
            entry["not_built"] = row.why;
            json["fabrics"].push_back(entry);
            continue;
        }
        entry["nics"] = row.nics;
        entry["rate_bps"] = row.rate.bps;
        entry["cost_usd"] = row.bill.total;
        entry["ratio_to_topoopt"] = row.ratio;
        entry["bill"] = Json::array();
        for (const BillItem& item : row.bill.items)
        {
            entry["bill"].push_back({{"item", item.item},
                                     {"rate_bps", item.rate.bps},
                                     {"count", item.count},
                                     {"unit_usd", item.unit},
                                     {"total_usd", item.total}});
        }
        json["fabrics"].push_back(entry);
    }
    return json.dump(2) + "\n";
}

} // namespace topoopt
