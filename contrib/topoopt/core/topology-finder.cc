// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/topology-finder.h"

#include "topoopt/core/error.h"
#include "topoopt/core/matching.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>

namespace topoopt
{

namespace
{

std::vector<ServerId>
AllServers(ServerId n)
{
    std::vector<ServerId> all(n);
    std::iota(all.begin(), all.end(), 0);
    return all;
}

[[noreturn]] void
OddNics(std::uint32_t degree)
{
    throw SpecError("servers.nics: found " + std::to_string(degree) +
                    ", expected an even number (" +
                    (degree > 1 ? std::to_string(degree - 1) + " or " : "") +
                    std::to_string(degree + 1) + "): each ring takes one NIC for either direction");
}

/** Bytes that all AllReduces put on the network with rings: 2 (g - 1) S each. */
double
AllReduceWireBytes(const std::vector<AllReduceDemand>& groups)
{
    double total = 0;
    for (const AllReduceDemand& group : groups)
    {
        total +=
            2.0 * static_cast<double>(group.members.size() - 1) * static_cast<double>(group.bytes);
    }
    return total;
}

double
BytesOfPairs(const Demand& demand)
{
    double total = 0;
    for (Bytes bytes : demand.pairs)
    {
        total += static_cast<double>(bytes);
    }
    return total;
}

/** NICs for rings: even, at least 2 so that all servers can be joined. */
std::uint32_t
RingNics(const Demand& demand,
         const std::vector<AllReduceDemand>& groups,
         std::uint32_t degree,
         const TopologyFinderOptions& options)
{
    const double pairs = BytesOfPairs(demand);
    switch (options.split)
    {
    case DegreeSplit::AllReduceOnly:
        break;
    case DegreeSplit::Fixed:
        if (options.mpNics + 2 > degree || (degree - options.mpNics) % 2 != 0)
        {
            throw SpecError("model-parallel NICs: found " + std::to_string(options.mpNics) +
                            " of " + std::to_string(degree) +
                            ", expected to leave an even number of 2 or more for rings");
        }
        return degree - options.mpNics;
    case DegreeSplit::Proportional:
        if (pairs > 0)
        {
            if (degree < 2)
            {
                OddNics(degree);
            }
            const double allReduce = AllReduceWireBytes(groups);
            const auto rings =
                static_cast<std::uint32_t>(std::ceil(degree * (allReduce / (allReduce + pairs))));
            const std::uint32_t even = std::max(2U, rings + rings % 2);
            return std::min(even, degree - degree % 2);
        }
        break;
    }
    if (degree % 2 != 0)
    {
        OddNics(degree);
    }
    return degree;
}

/** Hands out layers and writes down the cables. */
class Planner
{
  public:
    Planner(FoundTopology& found, std::uint32_t layers)
        : m_found(found),
          m_free(static_cast<std::size_t>(found.servers) * layers, true),
          m_layers(layers)
    {
    }

    /** Layers free at all of @p members, ascending. */
    [[nodiscard]] std::vector<std::uint32_t> FreeLayers(const std::vector<ServerId>& members) const
    {
        std::vector<std::uint32_t> free;
        for (std::uint32_t layer = 0; layer < m_layers; ++layer)
        {
            if (std::all_of(members.begin(), members.end(), [&](ServerId server) {
                    return IsFree(server, layer);
                }))
            {
                free.push_back(layer);
            }
        }
        return free;
    }

    [[nodiscard]] bool IsFree(ServerId server, std::uint32_t layer) const
    {
        return m_free[static_cast<std::size_t>(server) * m_layers + layer];
    }

    void Take(const std::vector<ServerId>& members,
              const std::vector<std::uint32_t>& strides,
              const std::vector<std::uint32_t>& layers)
    {
        RingSet set;
        set.members = members;
        const auto size = static_cast<std::uint32_t>(members.size());
        for (std::size_t k = 0; k < strides.size(); ++k)
        {
            const std::uint32_t layer = layers[k];
            set.strides.push_back(strides[k]);
            set.layers.push_back(layer);
            set.firstCable.push_back(static_cast<std::uint32_t>(m_found.cables.size()));
            for (std::uint32_t m = 0; m < size; ++m)
            {
                m_found.cables.push_back(
                    {members[m], 2 * layer, members[(m + strides[k]) % size], 2 * layer + 1, true});
                m_free[static_cast<std::size_t>(members[m]) * m_layers + layer] = false;
            }
        }
        m_found.ringSets.push_back(std::move(set));
    }

  private:
    FoundTopology& m_found;
    std::vector<bool> m_free; ///< server-major
    std::uint32_t m_layers;
};

/** One group during the hand-out of layers. */
struct Claim
{
    const AllReduceDemand* group = nullptr;
    double weight = 0; ///< bytes that each member sends
};

void
PlaceRings(const std::vector<AllReduceDemand>& groups,
           Planner& planner,
           const FoundTopology& found,
           const TopologyFinderOptions& options)
{
    const ServerId n = found.servers;
    const std::uint32_t layers = found.ringNics / 2;
    std::vector<Claim> claims;
    std::vector<double> load(n);
    for (const AllReduceDemand& group : groups)
    {
        const auto size = static_cast<double>(group.members.size());
        claims.push_back({&group, 2 * (size - 1) / size * static_cast<double>(group.bytes)});
        for (ServerId member : group.members)
        {
            load[member] += claims.back().weight;
        }
    }
    std::stable_sort(claims.begin(), claims.end(), [](const Claim& a, const Claim& b) {
        return a.weight > b.weight;
    });

    const std::vector<ServerId> all = AllServers(n);
    const bool spans = std::any_of(claims.begin(), claims.end(), [&](const Claim& claim) {
        return claim.group->members.size() == n;
    });
    const SelectOptions select{options.rounding, true, false};
    std::vector<std::uint32_t> forAll; // layers of rings over all servers
    if (!spans)
    {
        forAll.push_back(0);
    }
    const auto shared = static_cast<double>(layers - forAll.size());
    const auto layersOf = [&](const Claim& claim) {
        // The member that shares its NICs with most other traffic decides.
        double share = 1;
        for (ServerId member : claim.group->members)
        {
            share = std::min(share, claim.weight / load[member]);
        }
        return static_cast<std::size_t>(std::max(1.0, std::ceil(shared * share - 1e-9)));
    };
    if (spans)
    {
        // Rings over all servers connect them, so their claim never comes too late.
        const auto full = std::find_if(claims.begin(), claims.end(), [&](const Claim& claim) {
            return claim.group->members.size() == n;
        });
        std::rotate(claims.begin(), full, full + 1);
    }
    for (const Claim& claim : claims)
    {
        std::vector<std::uint32_t> free = planner.FreeLayers(claim.group->members);
        free.erase(std::remove_if(free.begin(),
                                  free.end(),
                                  [&](std::uint32_t layer) {
                                      return std::find(forAll.begin(), forAll.end(), layer) !=
                                             forAll.end();
                                  }),
                   free.end());
        const std::size_t count = std::min(free.size(), layersOf(claim));
        if (count == 0)
        {
            continue; // its rings are routed over the others'
        }
        free.resize(count);
        if (claim.group->members.size() == n)
        {
            forAll.insert(forAll.end(), free.begin(), free.end());
            continue;
        }
        const auto size = static_cast<std::uint32_t>(claim.group->members.size());
        planner.Take(claim.group->members,
                     SelectPermutations(size,
                                        TotientPerms(size, options.candidates),
                                        static_cast<std::uint32_t>(count),
                                        select),
                     free);
    }
    // What nobody could use helps everybody.
    for (std::uint32_t layer : planner.FreeLayers(all))
    {
        if (std::find(forAll.begin(), forAll.end(), layer) == forAll.end())
        {
            forAll.push_back(layer);
        }
    }
    std::sort(forAll.begin(), forAll.end());
    planner.Take(all,
                 SelectPermutations(n,
                                    TotientPerms(n, options.candidates),
                                    static_cast<std::uint32_t>(forAll.size()),
                                    select),
                 forAll);
}

/** The released code's strides, spec 2.3(b) to (f); they may share a factor with the servers. */
std::vector<std::uint32_t>
FlexnetStrides(const std::vector<AllReduceDemand>& groups,
               ServerId n,
               std::uint32_t degree,
               const TopologyFinderOptions& options)
{
    std::map<std::uint32_t, double> weight; // by group size
    for (const AllReduceDemand& group : groups)
    {
        const auto size = static_cast<std::uint32_t>(group.members.size());
        if (n % size != 0)
        {
            throw SpecError("compat flexnet: found a group of " + std::to_string(size) + " of " +
                            std::to_string(n) + " servers, expected a size that divides them");
        }
        weight[size] += static_cast<double>(group.bytes) * (2.0 * size - 1) / size;
    }
    std::vector<std::pair<double, std::uint32_t>> sizes;
    for (const auto& [size, bytes] : weight)
    {
        sizes.emplace_back(bytes, size);
    }
    std::stable_sort(sizes.begin(), sizes.end(), [](const auto& a, const auto& b) {
        return a.first > b.first;
    });
    // The link count of the heaviest size, 2 * floor(total * degree / weight), is never below the degree:
    // it takes all NICs, less two for a ring over all servers if it is not that itself.
    const std::uint32_t size = sizes.empty() ? n : sizes.front().second;
    std::vector<std::uint32_t> strides;
    std::uint32_t count = degree / 2;
    if (size != n)
    {
        --count;
        strides.push_back(1);
    }
    if (count > 0)
    {
        const std::vector<std::uint32_t> candidates = TotientPerms(size);
        for (std::uint32_t stride :
             SelectPermutations(size, candidates, count, {options.rounding, true, true}))
        {
            strides.push_back(stride * (n / size));
        }
    }
    return strides;
}

/** Cables for the model-parallel demand on every NIC that no ring has. */
void
PlaceMatchings(const Demand& demand,
               const Planner& planner,
               FoundTopology& found,
               const TopologyFinderOptions& options)
{
    const ServerId n = found.servers;
    std::vector<WeightedPair> left;
    std::vector<std::uint32_t> cables;
    for (ServerId a = 0; a < n; ++a)
    {
        for (ServerId b = a + 1; b < n; ++b)
        {
            const Bytes forth = demand.At(a, b);
            const Bytes back = demand.At(b, a);
            const Bytes both = forth > UINT64_MAX - back ? UINT64_MAX : forth + back;
            if (both > 0)
            {
                left.push_back({a, b, both});
            }
        }
    }
    cables.resize(left.size());
    for (std::uint32_t nic = 0; nic < found.degree && !left.empty(); ++nic)
    {
        std::vector<WeightedPair> open;
        std::vector<std::size_t> index;
        const auto free = [&](ServerId server) {
            return nic >= found.ringNics || planner.IsFree(server, nic / 2);
        };
        for (std::size_t i = 0; i < left.size(); ++i)
        {
            if (left[i].weight > 0 && free(left[i].a) && free(left[i].b))
            {
                open.push_back(left[i]);
                index.push_back(i);
            }
        }
        if (open.empty())
        {
            continue;
        }
        const auto matched = open.size() <= options.exactMatchingPairs
                                 ? MaximumWeightMatching(n, open)
                                 : GreedyMatching(n, open);
        std::size_t at = 0;
        for (const auto& [a, b] : matched)
        {
            found.cables.push_back({a, nic, b, nic, false});
            while (open[at].a != a || open[at].b != b)
            {
                ++at;
            }
            Bytes& weight = left[index[at]].weight;
            const std::uint32_t count = ++cables[index[at]];
            weight = options.discount == MpDiscount::Half
                         ? weight / 2
                         : static_cast<Bytes>(static_cast<double>(weight) * count / (count + 1.0));
        }
    }
}

} // namespace

bool
FoundTopology::IsCirculant() const
{
    if (servers <= 2)
    {
        return true;
    }
    std::size_t cablesOfAll = 0;
    for (const RingSet& set : ringSets)
    {
        if (set.members.size() == servers)
        {
            cablesOfAll += set.strides.size() * servers;
        }
    }
    return cablesOfAll == cables.size();
}

std::vector<std::uint32_t>
FoundTopology::FullStrides() const
{
    std::vector<std::uint32_t> strides;
    for (const RingSet& set : ringSets)
    {
        if (set.members.size() == servers)
        {
            strides.insert(strides.end(), set.strides.begin(), set.strides.end());
        }
    }
    return strides;
}

Demand
AllReduceOverAll(ServerId servers)
{
    Demand demand(servers);
    demand.allReduces.push_back({AllServers(servers), 1});
    return demand;
}

std::vector<AllReduceDemand>
MergedGroups(const Demand& demand)
{
    std::map<std::vector<ServerId>, Bytes> merged;
    for (const AllReduceDemand& group : demand.allReduces)
    {
        std::vector<ServerId> members = group.members;
        std::sort(members.begin(), members.end());
        if (std::adjacent_find(members.begin(), members.end()) != members.end() ||
            (!members.empty() && members.back() >= demand.servers))
        {
            throw std::invalid_argument("demand: a group repeats a server or names an unknown one");
        }
        if (members.size() > 1 && group.bytes > 0)
        {
            merged[std::move(members)] += group.bytes;
        }
    }
    std::vector<AllReduceDemand> groups;
    for (auto& [members, bytes] : merged)
    {
        groups.push_back({members, bytes});
    }
    return groups;
}

FoundTopology
FindTopology(const Demand& demand, std::uint32_t degree, const TopologyFinderOptions& options)
{
    const ServerId n = demand.servers;
    if (n == 0 || degree == 0 || demand.pairs.size() != static_cast<std::size_t>(n) * n)
    {
        throw std::invalid_argument(
            "FindTopology: no servers, no NICs or a matrix of another size");
    }
    FoundTopology found;
    found.servers = n;
    found.degree = degree;
    const std::vector<AllReduceDemand> groups = MergedGroups(demand);
    if (n == 1)
    {
        return found;
    }
    if (n == 2)
    {
        // A cable carries both directions, so it is a ring of two by itself.
        RingSet set{AllServers(2), {}, {}, {}};
        for (std::uint32_t nic = 0; nic < degree; ++nic)
        {
            set.strides.push_back(1);
            set.layers.push_back(nic);
            set.firstCable.push_back(nic);
            found.cables.push_back({0, nic, 1, nic, true});
        }
        found.ringSets.push_back(std::move(set));
        return found;
    }
    if (degree == 1)
    {
        OddNics(degree);
    }
    if (options.flexnet)
    {
        const std::vector<std::uint32_t> strides = FlexnetStrides(groups, n, degree, options);
        found.ringNics = degree - degree % 2;
        std::vector<std::uint32_t> layers(strides.size());
        std::iota(layers.begin(), layers.end(), 0);
        Planner(found, found.ringNics / 2).Take(AllServers(n), strides, layers);
        return found;
    }
    found.ringNics = RingNics(demand, groups, degree, options);
    Planner planner(found, found.ringNics / 2);
    PlaceRings(groups, planner, found, options);
    if (BytesOfPairs(demand) > 0)
    {
        PlaceMatchings(demand, planner, found, options);
    }
    return found;
}

Topology
WireTopology(const FoundTopology& found, BitRate rate, SimTime delay)
{
    Topology topology(found.servers);
    for (const Cable& cable : found.cables)
    {
        const LinkId forth = topology.AddDuplexLink(cable.a, cable.b, rate, delay);
        const LinkId back = topology.links[forth].reverse;
        // The port is the NIC, whatever the order of creation.
        topology.links[forth].srcPort = topology.links[back].dstPort = cable.nicA;
        topology.links[forth].dstPort = topology.links[back].srcPort = cable.nicB;
    }
    return topology;
}

std::vector<Circuit>
CircuitsOf(const FoundTopology& found)
{
    std::vector<Circuit> circuits;
    for (const Cable& cable : found.cables)
    {
        Circuit circuit{0, cable.a, cable.b, cable.a, cable.nicA, cable.b, cable.nicB};
        if (cable.nicA < found.ringNics)
        {
            circuit.panel = cable.nicA / 2;
            circuit.portA = 2 * cable.a + cable.nicA % 2;
            circuit.portB = 2 * cable.b + cable.nicB % 2;
        }
        else
        {
            circuit.panel = found.ringNics / 2 + cable.nicA - found.ringNics;
        }
        circuits.push_back(circuit);
    }
    return circuits;
}

} // namespace topoopt
