// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/topology-report.h"

#include "topoopt/core/topology-search.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

namespace topoopt
{

namespace
{

/** printf into a string. */
[[gnu::format(printf, 1, 2)]] std::string
Format(const char* format, ...)
{
    va_list args;
    va_start(args, format);
    char text[256];
    const int length = std::vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return {text, static_cast<std::size_t>(std::clamp(length, 0, 255))};
}

/** Ring sets that look alike, for people: size and strides -> how many. */
std::map<std::pair<std::uint32_t, std::vector<std::uint32_t>>, std::uint32_t>
Alike(const FoundTopology& found)
{
    std::map<std::pair<std::uint32_t, std::vector<std::uint32_t>>, std::uint32_t> sets;
    for (const RingSet& set : found.ringSets)
    {
        if (!set.strides.empty())
        {
            ++sets[{static_cast<std::uint32_t>(set.members.size()), set.strides}];
        }
    }
    return sets;
}

DemandReport
MeasureDemand(const Fabric& fabric, const Demand& demand)
{
    DemandReport report;
    for (Bytes bytes : demand.pairs)
    {
        report.pairBytes += static_cast<double>(bytes);
    }
    for (const AllReduceDemand& group : demand.allReduces)
    {
        if (group.members.size() > 1)
        {
            report.allReduceBytes += 2.0 * static_cast<double>(group.members.size() - 1) *
                                     static_cast<double>(group.bytes);
        }
    }
    std::vector<double> loads = AllReduceLoads(fabric, demand);
    const std::vector<double> pairs = PairLoads(fabric.topology, *fabric.router, demand);
    double carried = 0;
    for (LinkId link = 0; link < loads.size(); ++link)
    {
        loads[link] += pairs[link];
        carried += loads[link];
        report.seconds =
            std::max(report.seconds,
                     8 * loads[link] / static_cast<double>(fabric.topology.links[link].rate.bps));
    }
    const double demanded = report.allReduceBytes + report.pairBytes;
    report.tax = demanded > 0 ? carried / demanded : 1;
    report.load = Summarise(loads);
    report.bounds = TimeBoundsOf(fabric.topology, demand);
    const double bound = std::max(report.bounds.capacity, report.bounds.cut);
    report.ratio = bound > 0 ? report.seconds / bound : 1;
    return report;
}

} // namespace

TopologyReport
MakeTopologyReport(const TopologyRequest& request)
{
    TopologyReport report;
    report.request = request;
    report.hasDemand = request.demand != nullptr;
    const Demand unknown = AllReduceOverAll(request.demand == nullptr ? request.servers : 0);
    const Demand& demand = request.demand == nullptr ? unknown : *request.demand;
    if (request.search > 0)
    {
        TopologySearchOptions search;
        search.finder = request.finder;
        search.evaluations = request.search;
        search.seed = request.routing.seed;
        report.found = SearchTopology(demand, request.degree, search).found;
    }
    else
    {
        report.found = FindTopology(demand, request.degree, request.finder);
    }
    for (const Cable& cable : report.found.cables)
    {
        report.matchingCables += cable.ring ? 0 : 1;
    }
    const auto build = [&](const Demand* known) {
        return DirectConnectFabric(report.found,
                                   request.rate,
                                   0,
                                   known,
                                   request.routing,
                                   request.finder.flexnet);
    };
    const Fabric blind = build(nullptr);
    const Topology& topology = blind.topology;
    for (ServerId server = 0; server < request.servers; ++server)
    {
        report.unusedNics += request.degree - topology.PortCount(server);
    }
    const bool circulant = report.found.IsCirculant();
    report.hops = HopsBetweenServers(topology, circulant);
    if (request.servers > 1)
    {
        report.moore = MooreBoundOf(request.servers, request.degree);
    }
    report.uniformTax = report.hops.mean;
    // Beyond, the loads of all pairs would take longer than all the rest.
    constexpr std::uint32_t kUniformServers = 2048;
    if (request.servers <= kUniformServers)
    {
        const std::vector<double> loads =
            PairLoads(topology, *blind.router, UniformPairs(request.servers));
        report.uniform = Summarise(loads);
        if (request.servers > 1)
        {
            report.uniformTax = report.uniform.mean * static_cast<double>(loads.size()) /
                                (request.servers * (request.servers - 1.0));
        }
        const std::vector<std::uint32_t> strides = report.found.FullStrides();
        for (std::size_t k = 0; circulant && request.servers > 2 && k < strides.size(); ++k)
        {
            double sum = 0;
            for (std::size_t i = 0; i < 2 * static_cast<std::size_t>(request.servers); ++i)
            {
                sum += loads[2 * k * request.servers + i];
            }
            report.uniformByStride.emplace_back(strides[k], sum / (2.0 * request.servers));
        }
    }
    if (report.hasDemand)
    {
        report.demand = MeasureDemand(build(request.demand), demand);
    }
    return report;
}

std::string
TopologyReportText(const TopologyReport& report)
{
    const TopologyRequest& request = report.request;
    std::string out = Format("%u servers, %u NICs of %s each, compat %s\n",
                             request.servers,
                             request.degree,
                             FormatBitRate(request.rate).c_str(),
                             request.finder.flexnet ? "flexnet" : "none");
    for (const auto& [key, count] : Alike(report.found))
    {
        out += Format("rings          %u x %u servers, strides", count, key.first);
        for (std::uint32_t stride : key.second)
        {
            out += Format(" +-%u", stride);
        }
        out += "\n";
    }
    out += Format("matchings      %u cables\n", report.matchingCables);
    out += Format("unused NICs    %u\n", report.unusedNics);
    if (report.hops.unreachable > 0)
    {
        out += Format("unreachable    %llu ordered pairs\n",
                      static_cast<unsigned long long>(report.hops.unreachable));
    }
    out += Format("diameter       %u hops (Moore bound %u)\n",
                  report.hops.diameter,
                  report.moore.diameter);
    out += Format("mean distance  %.7f hops (Moore bound %.7f)\n",
                  report.hops.mean,
                  report.moore.meanHops);
    for (std::size_t h = 0; h < report.hops.cdf.size(); ++h)
    {
        out += Format("hops <= %-6zu %.6f\n", h + 1, report.hops.cdf[h]);
    }
    out += Format("uniform all-to-all, %s routes\n",
                  DirectRoutingNames()[static_cast<std::size_t>(request.routing.kind)].c_str());
    out += Format("  bandwidth tax    %.7f (bytes on all links / bytes demanded)\n",
                  report.uniformTax);
    if (report.uniform.most > 0)
    {
        out += Format("  flows per link   min %.2f, mean %.2f, max %.2f\n",
                      report.uniform.least,
                      report.uniform.mean,
                      report.uniform.most);
        for (const auto& [stride, load] : report.uniformByStride)
        {
            out += Format("  on +-%-11u mean %.2f\n", stride, load);
        }
    }
    if (report.hasDemand)
    {
        const DemandReport& demand = report.demand;
        out += "demand\n";
        out += Format("  AllReduce        %.0f B on the wire\n", demand.allReduceBytes);
        out += Format("  model-parallel   %.0f B\n", demand.pairBytes);
        out += Format("  bandwidth tax    %.6f\n", demand.tax);
        out += Format("  bytes per link   min %.0f, mean %.0f, max %.0f\n",
                      demand.load.least,
                      demand.load.mean,
                      demand.load.most);
        out += Format("  busiest link     %.6f ms\n", 1e3 * demand.seconds);
        out += Format("  bound, capacity  %.6f ms\n", 1e3 * demand.bounds.capacity);
        out += Format("  bound, cuts      %.6f ms\n", 1e3 * demand.bounds.cut);
        out += Format("  from possible    %.4f x the larger bound\n", demand.ratio);
    }
    return out;
}

std::string
TopologyReportJson(const TopologyReport& report)
{
    using Json = nlohmann::ordered_json;
    const TopologyRequest& request = report.request;
    Json json;
    json["servers"] = request.servers;
    json["degree"] = request.degree;
    json["rate_bps"] = request.rate.bps;
    json["compat"] = request.finder.flexnet ? "flexnet" : "none";
    json["routing"] = DirectRoutingNames()[static_cast<std::size_t>(request.routing.kind)];
    json["rings"] = Json::array();
    for (const RingSet& set : report.found.ringSets)
    {
        if (!set.strides.empty())
        {
            json["rings"].push_back({{"members", set.members}, {"strides", set.strides}});
        }
    }
    json["matching"] = Json::array();
    for (const Cable& cable : report.found.cables)
    {
        if (!cable.ring)
        {
            json["matching"].push_back({cable.a, cable.b});
        }
    }
    json["unused_nics"] = report.unusedNics;
    json["unreachable_pairs"] = report.hops.unreachable;
    json["diameter"] = report.hops.diameter;
    json["mean_hops"] = report.hops.mean;
    json["hop_cdf"] = report.hops.cdf;
    json["moore"] = {{"diameter", report.moore.diameter}, {"mean_hops", report.moore.meanHops}};
    json["uniform"] = {{"bandwidth_tax", report.uniformTax}};
    if (report.uniform.most > 0)
    {
        json["uniform"]["flows_per_link"] = {{"min", report.uniform.least},
                                             {"mean", report.uniform.mean},
                                             {"max", report.uniform.most}};
        json["uniform"]["mean_by_stride"] = Json::array();
        for (const auto& [stride, load] : report.uniformByStride)
        {
            json["uniform"]["mean_by_stride"].push_back({{"stride", stride}, {"flows", load}});
        }
    }
    if (report.hasDemand)
    {
        const DemandReport& demand = report.demand;
        json["demand"] = {
            {"allreduce_bytes", demand.allReduceBytes},
            {"pair_bytes", demand.pairBytes},
            {"bandwidth_tax", demand.tax},
            {"bytes_per_link",
             {{"min", demand.load.least}, {"mean", demand.load.mean}, {"max", demand.load.most}}},
            {"busiest_link_s", demand.seconds},
            {"bound_capacity_s", demand.bounds.capacity},
            {"bound_cut_s", demand.bounds.cut},
            {"ratio_to_bound", demand.ratio}};
    }
    return json.dump(2) + "\n";
}

} // namespace topoopt
