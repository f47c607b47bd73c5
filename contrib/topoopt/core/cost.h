// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_COST_H
#define TOPOOPT_CORE_COST_H

#include "topoopt/core/fabric.h"
#include "topoopt/core/topology-kinds.h"
#include "topoopt/core/topology.h"
#include "topoopt/core/units.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace topoopt
{

/** Prices of parts that come in rates; US dollars. */
struct RatePrices
{
    BitRate rate;
    double transceiver = 0;
    double nicPort = 0;
    double switchPort = 0;
};

/** The price file; `traces/prices.yaml` says where its figures come from. */
struct PriceTable
{
    std::string file;
    std::vector<RatePrices> rates; ///< ascending, all > 0, never falling
    double patchPanelPort = 0;
    double ocsPort = 0;
    double splitSwitch = 0; ///< 1x2 switch between the active and the look-ahead panel
    double fibre = 0;       ///< one fibre of mean length
    std::vector<std::string> unverified;

    /**
     * Prices at any rate. Between two rows the logarithm of a price is linear in the logarithm of the rate;
     * below the first row its prices hold; above the last a port is rate / last ports of the last.
     */
    [[nodiscard]] RatePrices At(BitRate rate) const;
    /** Ports of the table's last rate that make one of @p rate; 1 up to there. */
    [[nodiscard]] double LanesOf(BitRate rate) const;
};

/**
 * Reads prices.
 * @param file "" = `traces/prices.yaml`, found as FindData does
 * @throws SpecError FILE:LINE:COL: key: what was found, what was expected
 */
[[nodiscard]] PriceTable ReadPrices(const std::string& file = "");

/** Ports in use, from which a bill follows. */
struct PortCounts
{
    std::map<std::uint64_t, double> serverPorts; ///< by rate in bit/s
    std::map<std::uint64_t, double> switchPorts;
    Optics optics = Optics::Cable;
};

/** Ports that have a link; a NIC that sends one circuit and receives another counts once. */
[[nodiscard]] PortCounts PortsOf(const Topology& topology, Optics optics);

/** One line of a bill. */
struct BillItem
{
    std::string item; ///< "transceiver", ...
    BitRate rate;     ///< 0 = does not matter
    double count = 0;
    double unit = 0;  ///< US dollars
    double total = 0; ///< US dollars
};

/** What a fabric is made of and costs, NICs included. */
struct Bill
{
    std::vector<BillItem> items;
    double total = 0; ///< US dollars
};

/**
 * The bill for a number of ports.
 *
 * Every port has a transceiver; a server's is a NIC port, a switch's a switch port. Optics::Cable: a fibre per two
 * ports. PatchPanel: per server port a 1x2 switch, two panel ports (active and look-ahead) and a fibre.
 * CircuitSwitch: per server port an OCS port and a fibre.
 */
[[nodiscard]] Bill BillOf(const PortCounts& ports, const PriceTable& prices);

/**
 * The bill of the fabric as it is simulated, only its used ports. An ideal switch, which is no product, is billed as the
 * full-bisection Fat-tree of its rate.
 */
[[nodiscard]] Bill BillOf(const Fabric& fabric, const PriceTable& prices);

/** Ports of a direct-connect fabric all of whose NICs are in use. */
[[nodiscard]] PortCounts DirectPorts(const ServerSpec& servers, Optics optics);

/**
 * The rate at which @p shape, all of whose links get the same one, costs @p dollars.
 *
 * Bisection: the cost never falls with the rate. Exact to 1 bit/s.
 * @throws SpecError if even the first rate of the table is dearer; the message begins with @p what
 */
[[nodiscard]] BitRate EqualCostRate(const Topology& shape,
                                    Optics optics,
                                    double dollars,
                                    const PriceTable& prices,
                                    const std::string& what);

/** One fabric in the comparison. */
struct CostRow
{
    std::string fabric;
    std::string why; ///< not empty: it cannot be built for this request, and why
    std::uint32_t nics = 0;
    BitRate rate;
    Bill bill;
    double ratio = 0; ///< to TopoOpt
};

/** What `topoopt cost` answers. */
struct CostReport
{
    ServerSpec servers;
    PriceTable prices;
    std::vector<CostRow> rows; ///< TopoOpt first
    BitRate equalCostFatTree;  ///< 0: none
};

/** Bills of all fabrics for the same servers. @throws SpecError on unusable servers */
[[nodiscard]] CostReport MakeCostReport(const ServerSpec& servers, const PriceTable& prices);

/** A table for people; ends with a newline. */
[[nodiscard]] std::string CostReportText(const CostReport& report);
/** One JSON object for programs. */
[[nodiscard]] std::string CostReportJson(const CostReport& report);

} // namespace topoopt

#endif // TOPOOPT_CORE_COST_H
