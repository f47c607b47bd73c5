// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/cluster-workload.h"

#include "topoopt/core/error.h"
#include "topoopt/core/flow-sim.h"
#include "topoopt/core/topology-kinds.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace topoopt
{

namespace
{

bool
IsPatchPanel(const std::string& kind)
{
    return std::any_of(FabricKinds().begin(), FabricKinds().end(), [&kind](const FabricKind& k) {
        return kind == k.name && k.optics == Optics::PatchPanel;
    });
}

/** Routes inside shards of a union; there are none between them. */
class ShardRouter final : public Router
{
  public:
    struct Shard
    {
        std::shared_ptr<const Router> router;
        ServerId firstServer;
        LinkId firstLink;
    };

    explicit ShardRouter(std::vector<Shard> shards)
        : m_shards(std::move(shards))
    {
    }

    [[nodiscard]] Path Route(ServerId src, ServerId dst, std::uint64_t flowKey) const override
    {
        const Shard& shard = At(src, dst);
        Path path = shard.router->Route(src - shard.firstServer, dst - shard.firstServer, flowKey);
        for (LinkId& link : path)
        {
            link += shard.firstLink;
        }
        return path;
    }

    [[nodiscard]] std::vector<std::pair<Path, double>> Paths(ServerId src,
                                                             ServerId dst) const override
    {
        const Shard& shard = At(src, dst);
        auto paths = shard.router->Paths(src - shard.firstServer, dst - shard.firstServer);
        for (auto& [path, share] : paths)
        {
            for (LinkId& link : path)
            {
                link += shard.firstLink;
            }
        }
        return paths;
    }

  private:
    [[nodiscard]] const Shard& At(ServerId src, ServerId dst) const
    {
        const auto of = [this](ServerId server) {
            return std::prev(std::upper_bound(
                m_shards.begin(),
                m_shards.end(),
                server,
                [](ServerId s, const Shard& shard) { return s < shard.firstServer; }));
        };
        const auto shard = of(src);
        if (shard != of(dst))
        {
            throw SpecError("shared cluster",
                            "found a message from server " + std::to_string(src) + " to " +
                                std::to_string(dst) + ", expected it inside a job's shard");
        }
        return *shard;
    }

    std::vector<Shard> m_shards;
};

/** Fabrics without switches side by side; server s of shard k is named NAMES[k].S. */
Fabric
SideBySide(const std::vector<Fabric>& shards, const std::vector<std::string>& names)
{
    std::uint32_t servers = 0;
    for (const Fabric& shard : shards)
    {
        servers += shard.topology.servers;
    }
    Fabric all;
    all.kind = shards[0].kind;
    all.name = shards[0].name;
    all.nicChoice = shards[0].nicChoice;
    all.topology = Topology(servers);
    std::vector<ShardRouter::Shard> routers;
    auto rings = std::make_shared<std::vector<std::pair<ShardRouter::Shard, Fabric>>>();
    ServerId first = 0;
    std::uint32_t panels = 0;
    for (std::size_t k = 0; k < shards.size(); ++k)
    {
        const Fabric& shard = shards[k];
        const auto firstLink = static_cast<LinkId>(all.topology.links.size());
        for (ServerId s = 0; s < shard.topology.servers; ++s)
        {
            all.topology.names[first + s] = names[k] + "." + shard.topology.names[s];
        }
        for (LinkId id = 0; id < shard.topology.links.size(); ++id)
        {
            // Pairs of opposite links have to be made together to know each other.
            const Link& link = shard.topology.links[id];
            if (link.reverse == id + 1)
            {
                all.topology.AddDuplexLink(first + link.src,
                                           first + link.dst,
                                           link.rate,
                                           link.delay);
            }
            else if (link.reverse + 1 != id)
            {
                all.topology.AddLink(first + link.src, first + link.dst, link.rate, link.delay);
            }
        }
        std::uint32_t own = 0;
        for (Circuit circuit : shard.circuits)
        {
            own = std::max(own, circuit.panel + 1);
            circuit.panel += panels;
            circuit.serverA += first;
            circuit.serverB += first;
            all.circuits.push_back(circuit);
        }
        panels += own;
        routers.push_back({shard.router, first, firstLink});
        rings->emplace_back(routers.back(), shard);
        first += shard.topology.servers;
    }
    all.router = std::make_shared<ShardRouter>(routers);
    all.rings = [rings](const std::vector<ServerId>& group) {
        // The last shard that begins at or before the group's first member is where all of it is.
        auto at = std::find_if(rings->rbegin(), rings->rend(), [&group](const auto& shard) {
            return shard.first.firstServer <= group.at(0);
        });
        std::vector<ServerId> local = group;
        for (ServerId& server : local)
        {
            server -= at->first.firstServer;
        }
        const bool inside = std::all_of(local.begin(), local.end(), [&at](ServerId server) {
            return server < at->second.topology.servers;
        });
        if (!inside)
        {
            // Nobody's group: a ring in its order, as fabrics without rings have it.
            Ring ring;
            ring.order.resize(group.size());
            std::iota(ring.order.begin(), ring.order.end(), 0U);
            return std::vector<Ring>{ring};
        }
        std::vector<Ring> found = RingsOf(at->second, local);
        for (Ring& ring : found)
        {
            for (Path& hop : ring.hops)
            {
                for (LinkId& link : hop)
                {
                    link += at->first.firstLink;
                }
            }
        }
        return found;
    };
    return all;
}

/** Run time of one iteration alone on an ideal switch. */
SimTime
ReferenceTime(const Scenario& scenario, const LoadedKind& kind)
{
    FabricSpec spec;
    spec.kind = "ideal-switch";
    spec.place = scenario.workload.place;
    FabricContext context;
    context.servers = scenario.servers;
    context.servers.count = kind.spec.servers;
    const Fabric fabric = BuildFabric(spec, context);
    const CollectiveChoice collectives(scenario.collectives);
    FlowSimOptions options;
    options.ranksToServers = kind.workload.placement;
    options.collectives = &collectives;
    options.wire = FlowWire::Roce(scenario.engine.mtu);
    options.intraRate = scenario.servers.intraRate;
    options.recordFlows = false;
    const FlowSimResult result = SimulateFlows(kind.workload.graph, fabric, options);
    if (!result.complete)
    {
        throw SpecError(kind.spec.place,
                        "workload.jobs: found a job that never ends alone on an ideal switch");
    }
    return result.finish;
}

} // namespace

ClusterWorkload
LoadCluster(const Scenario& scenario)
{
    ClusterWorkload cluster;
    cluster.spec = ReadJobs(scenario);
    for (const JobKind& spec : cluster.spec.kinds)
    {
        Scenario alone = scenario;
        alone.workload = spec.workload;
        alone.strategy = spec.strategy;
        alone.servers.count = spec.servers;
        alone.iterations = 1;
        LoadedKind kind;
        kind.spec = spec;
        kind.workload = LoadWorkload(alone);
        if (alone.servers.count != spec.servers)
        {
            throw SpecError(spec.place,
                            "workload.jobs: found a task graph for " +
                                std::to_string(alone.servers.count) + " servers, expected " +
                                std::to_string(spec.servers) + ", as the job's `servers` says");
        }
        cluster.kinds.push_back(std::move(kind));
    }
    std::vector<SimTime> runTimes(cluster.kinds.size(), 0);
    if (cluster.spec.arrivals == ArrivalRule::Poisson && cluster.spec.load > 0)
    {
        for (std::size_t k = 0; k < runTimes.size(); ++k)
        {
            runTimes[k] = ReferenceTime(scenario, cluster.kinds[k]);
        }
    }
    cluster.jobs = DrawJobs(cluster.spec,
                            scenario.servers.count,
                            runTimes,
                            scenario.seed,
                            scenario.workload.place);
    return cluster;
}

ClusterFabric
BuildClusterFabric(const FabricSpec& spec, const Scenario& scenario, const ClusterWorkload& cluster)
{
    ClusterFabric out;
    FabricContext context;
    context.servers = scenario.servers;
    context.seed = scenario.seed;
    out.sharded = IsPatchPanel(spec.kind);
    if (!out.sharded)
    {
        out.fabric = BuildFabric(spec, context);
        return out;
    }
    FabricSpec own = spec;
    out.panel = TakePanel(own);
    out.circuits.assign(cluster.kinds.size(), 0);
    std::vector<bool> seen(cluster.kinds.size());
    std::vector<Fabric> shards;
    std::vector<std::string> names;
    for (std::uint32_t job = 0; job < cluster.jobs.size(); ++job)
    {
        const std::uint32_t number = cluster.jobs[job].kind;
        if (seen[number])
        {
            continue;
        }
        seen[number] = true;
        const LoadedKind& kind = cluster.kinds[number];
        context.servers.count = kind.spec.servers;
        context.demand = &kind.workload.demand;
        shards.push_back(BuildFabric(own, context));
        names.push_back("job" + std::to_string(job));
        out.members.push_back(job);
        out.circuits[number] = static_cast<std::uint32_t>(shards.back().circuits.size());
    }
    out.fabric = SideBySide(shards, names);
    return out;
}

std::string
DescribeJobs(const ClusterWorkload& cluster, std::size_t most)
{
    std::string text;
    for (std::size_t job = 0; job < std::min(most, cluster.jobs.size()); ++job)
    {
        const ClusterEntry& entry = cluster.jobs[job];
        const JobKind& kind = cluster.kinds[entry.kind].spec;
        text += "job " + std::to_string(job) + "      " + kind.name + ", " +
                std::to_string(kind.servers) + " servers, " + std::to_string(entry.iterations) +
                " iteration(s), arrives at " + FormatTime(entry.arrival) + "\n";
    }
    if (cluster.jobs.size() > most)
    {
        text += "           and " + std::to_string(cluster.jobs.size() - most) + " more\n";
    }
    return text;
}

} // namespace topoopt
