// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/grid.h"
#include "topoopt/core/topologies/builders.h"
#include "topoopt/core/topologies/options.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <string>
#include <vector>

namespace topoopt
{

namespace
{

/** "4x4x8" */
std::vector<std::uint32_t>
ParseSizes(const FabricOptions& options, std::uint32_t n)
{
    const std::string& text = options.Text("dims");
    const std::string expected =
        "sizes such as 4x4x8 whose product is " + std::to_string(n) + ", at most 8 of them";
    std::vector<std::uint32_t> sizes;
    std::uint64_t product = 1;
    const char* at = text.data();
    const char* const end = text.data() + text.size();
    for (;;)
    {
        std::uint32_t size = 0;
        const auto [next, error] = std::from_chars(at, end, size);
        product *= size;
        if (error != std::errc() || size == 0 || product > n || sizes.size() == 8)
        {
            options.Fail("dims", "'" + text + "'", expected);
        }
        sizes.push_back(size);
        if (next == end)
        {
            break;
        }
        if (*next != 'x')
        {
            options.Fail("dims", "'" + text + "'", expected);
        }
        at = next + 1;
    }
    if (product != n)
    {
        options.Fail("dims", "'" + text + "'", expected);
    }
    return sizes;
}

/** The most even split of @p n into @p dimensions factors, ascending. */
std::vector<std::uint32_t>
EvenSizes(std::uint32_t n, std::uint32_t dimensions)
{
    if (dimensions == 1)
    {
        return {n};
    }
    std::vector<std::uint32_t> best;
    std::uint64_t bestSum = UINT64_MAX;
    for (std::uint32_t first = 1; static_cast<std::uint64_t>(first) * first <= n; ++first)
    {
        if (n % first != 0)
        {
            continue;
        }
        std::vector<std::uint32_t> sizes = EvenSizes(n / first, dimensions - 1);
        sizes.insert(sizes.begin(), first);
        std::uint64_t sum = 0;
        for (std::uint32_t size : sizes)
        {
            sum += size;
        }
        if (sum < bestSum)
        {
            bestSum = sum;
            best = sizes;
        }
    }
    std::sort(best.begin(), best.end());
    return best;
}

} // namespace

/**
 * A torus with dimension-order routing. Default: three dimensions if the NICs are a multiple of six, else two,
 * as even as the servers divide. Other numbers of NICs than twice the dimensions: see SpreadNics().
 */
Fabric
BuildTorus(const FabricSpec& spec, const FabricContext& context)
{
    const FabricOptions options(spec);
    const ServerSpec& servers = context.servers;
    const std::uint32_t n = servers.count;
    std::vector<std::uint32_t> sizes =
        options.Has("dims") ? ParseSizes(options, n) : EvenSizes(n, servers.nics % 6 == 0 ? 3 : 2);
    sizes.erase(std::remove(sizes.begin(), sizes.end(), 1U), sizes.end());
    const NicSpread nics =
        SpreadNics(servers, static_cast<std::uint32_t>(2 * sizes.size()), options);
    Fabric fabric = NewFabric(spec, n);
    const Grid grid(fabric.topology,
                    sizes,
                    false,
                    nics.lanes,
                    nics.rate,
                    options.Time("delay", servers.linkDelay));
    fabric.rings = [grid](const std::vector<ServerId>& group) { return grid.Rings(group); };
    fabric.router = std::make_shared<DimensionOrderRouter>(grid, context.seed);
    fabric.nicChoice = "the NIC of the first dimension in which the servers differ";
    return fabric;
}

} // namespace topoopt
