// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/run-recorder.h"

#include "ns3/failure-injector.h"
#include "ns3/live-fabric.h"
#include "ns3/packet-network.h"
#include "ns3/patch-list.h"
#include "topoopt/core/error.h"
#include "topoopt/core/random.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

namespace topoopt
{

namespace
{

/** A matrix has a row per node; larger fabrics go without. */
constexpr std::uint32_t kMaxMatrixNodes = 2048;
/** tasks.csv is for looking at, not for millions of rows. */
constexpr std::uint64_t kMaxTaskRows = 200'000;

} // namespace

RunRecorder::RunRecorder(const Scenario& scenario,
                         const Fabric& fabric,
                         const RunOptions& options,
                         std::uint64_t tasks)
    : m_fabric(fabric),
      m_payload(scenario.engine.mtu - kHeaderBytes)
{
    if (options.directory.empty())
    {
        return;
    }
    const std::string& dir = options.directory;
    if (scenario.results.flows != "none")
    {
        m_flows.emplace(dir + "/flows." + scenario.results.flows,
                        options.head,
                        std::string(kFlowColumns) +
                            ",fct_ack_ps,wire_bytes,delivered_bytes,group,channel,step,src_"
                            "rank,dst_rank,local,nic,path");
    }
    m_ops.emplace(dir + "/ops.csv", options.head, kOperationColumns);
    if (tasks <= kMaxTaskRows)
    {
        m_tasks.emplace(dir + "/tasks.csv",
                        options.head,
                        "rank,server,task,iteration,kind,name,start_ps,end_ps");
    }
    if (m_fabric.topology.servers <= kMaxMatrixNodes)
    {
        m_demand = Demand(m_fabric.topology.servers);
    }
}

void
RunRecorder::MessageFinished(const MessageRecord& record, const MessageContext& context)
{
    Row(record, context);
    if (m_failures != nullptr)
    {
        m_failures->MessageFinished(record);
    }
}

void
RunRecorder::Row(const MessageRecord& record, const MessageContext& context)
{
    const Message& message = record.message;
    const bool local = message.src == message.dst;
    const bool done = record.end != kNever;
    ++flows;
    if (!local)
    {
        // A message that got another way counts with the last one.
        const std::uint32_t hops =
            m_live != nullptr ? m_live->ServerHops(message.route) : context.serverHops;
        tax += static_cast<double>(message.bytes) * hops;
        if (m_demand.servers > 0)
        {
            m_demand.At(message.src, message.dst) += message.bytes;
        }
    }
    double slowdown = 1;
    if (done)
    {
        const SimTime fct = record.end - record.start;
        slowdown =
            record.ideal > 0 ? static_cast<double>(fct) / static_cast<double>(record.ideal) : 1.0;
        // What moves nothing, a barrier's messages, is no part of what FCTs say about data.
        if (!local && message.bytes > 0)
        {
            fcts.Add(fct);
            maxSlowdown = std::max(maxSlowdown, slowdown);
        }
    }
    if (!m_flows)
    {
        return;
    }
    CsvFile& csv = *m_flows;
    csv.Add(record.id).Add(context.operation).Add(m_job.number).Add(context.iteration);
    csv.Add(context.kind).Add(message.src).Add(message.dst).Add(message.bytes).Add(record.start);
    if (done)
    {
        csv.Add(record.end).Add(record.end - record.start).Add(record.ideal).AddDecimal(slowdown);
    }
    else
    {
        csv.Skip().Skip().Add(record.ideal).Skip();
    }
    csv.Add(record.hops).Add(record.retransmits).Add(done ? "done" : "unfinished");
    if (record.acknowledged != kNever)
    {
        csv.Add(record.acknowledged - record.start);
    }
    else
    {
        csv.Skip();
    }
    csv.Add(local ? Bytes{0} : MessageWireBytes(message.bytes, m_payload)).Add(record.delivered);
    if (context.group == kNoId)
    {
        csv.Skip().Skip().Skip();
    }
    else
    {
        csv.Add(m_job.graph->groups[context.group].name).Add(context.channel).Add(context.step);
    }
    csv.Add(context.srcRank).Add(context.dstRank).Add(std::uint32_t{local ? 1U : 0U});
    if (record.sourceLink == kNoId)
    {
        csv.Skip();
    }
    else
    {
        csv.Add(m_fabric.topology.links[record.sourceLink].srcPort);
    }
    m_path.clear();
    for (const LinkId* link = record.path; link != nullptr && *link != kNoId; ++link)
    {
        char digits[10];
        const auto end = std::to_chars(digits, digits + sizeof digits, *link).ptr;
        m_path.append(m_path.empty() ? 0 : 1, ';').append(digits, end);
    }
    csv.Add(std::string_view(m_path));
    csv.EndRow();
}

void
RunRecorder::OperationFinished(const OperationRecord& record)
{
    if (!m_ops)
    {
        return;
    }
    const TaskGraph& graph = *m_job.graph;
    CsvFile& csv = *m_ops;
    csv.Add(record.operation).Add(m_job.number).Add(record.iteration);
    if (record.operation < graph.collectives.size())
    {
        const CollectiveCall& call = graph.collectives[record.operation];
        const CommGroup& group = graph.groups[call.group];
        Bytes bytes = call.bytes;
        for (Bytes pair : call.pairBytes)
        {
            bytes += pair;
        }
        csv.Add(Name(call.kind)).Add(call.name).Add(group.name);
        csv.Add(static_cast<std::uint64_t>(group.members.size())).Add(bytes);
    }
    else
    {
        const TransferCall& call = graph.transfers[record.operation - graph.collectives.size()];
        csv.Add("send").Skip().Skip().Add(std::uint32_t{2}).Add(call.bytes);
    }
    csv.Add(record.start);
    if (record.end == kNever)
    {
        csv.Skip().Skip().Add("unfinished");
    }
    else
    {
        csv.Add(record.end).Add(record.end - record.start).Add("done");
    }
    csv.EndRow();
}

void
RunRecorder::TaskFinished(const TaskRecord& record)
{
    if (!m_tasks)
    {
        return;
    }
    const TaskGraph& graph = *m_job.graph;
    const Task& task = graph.tasks[record.task];
    if (task.kind == TaskKind::Join || task.kind == TaskKind::Send)
    {
        return;
    }
    CsvFile& csv = *m_tasks;
    csv.Add(task.rank).Add((*m_job.placement)[task.rank]).Add(record.task).Add(record.iteration);
    csv.Add(Name(task.kind));
    if (task.kind == TaskKind::Collective)
    {
        csv.Add(Name(graph.collectives[task.object].kind));
    }
    else if (task.name != kNoId)
    {
        csv.Add(graph.names[task.name]);
    }
    else
    {
        csv.Skip();
    }
    csv.Add(record.start).Add(record.end).EndRow();
}

std::uint64_t
RunRecorder::Close(const RunOptions& options,
                   const std::vector<LinkCounters>& links,
                   SimTime end,
                   const std::vector<LinkOutage>& outages)
{
    const Topology& topology = m_fabric.topology;
    std::uint64_t hash = 0;
    const auto mix = [&hash](std::optional<CsvFile>& csv) {
        if (csv)
        {
            hash = Mix64(hash, csv->Hash());
            csv->Close();
        }
    };
    if (!options.directory.empty())
    {
        std::optional<CsvFile> csv;
        csv.emplace(options.directory + "/links.csv",
                    options.head,
                    std::string(kLinkColumns) +
                        (outages.empty() ? "" : ",drops_dark,drops_down,dark_ps"));
        for (LinkId id = 0; id < links.size(); ++id)
        {
            const Link& link = topology.links[id];
            const LinkCounters& counters = links[id];
            const auto queue =
                static_cast<std::uint64_t>(static_cast<unsigned __int128>(counters.maxBacklog) *
                                           link.rate.bps / 8'000'000'000'000ULL);
            csv->Add(id).Add(topology.names[link.src]).Add(topology.names[link.dst]);
            csv->Add(link.rate.bps).Add(counters.bytes).Add(counters.packets);
            csv->Add(counters.drops).Add(counters.marks).Add(counters.busy).Add(queue);
            csv->AddDecimal(end > 0 ? static_cast<double>(counters.busy) / static_cast<double>(end)
                                    : 0);
            if (!outages.empty())
            {
                const LinkOutage& outage = outages[id];
                csv->Add(outage.lostDark).Add(outage.lostDown);
                csv->Add(outage.dark + (outage.state == LinkState::Up ? 0 : end - outage.since));
            }
            csv->EndRow();
        }
        mix(csv);
        WriteMatrices(options, links, hash);
        WriteTopology(options.directory + "/topology.json");
        if (!m_fabric.circuits.empty())
        {
            hash = Mix64(hash,
                         WritePatchList(options.directory + "/patches.csv",
                                        options.head,
                                        m_fabric.circuits));
        }
    }
    mix(m_flows);
    mix(m_ops);
    mix(m_tasks);
    return hash;
}

void
RunRecorder::WriteMatrices(const RunOptions& options,
                           const std::vector<LinkCounters>& links,
                           std::uint64_t& hash) const
{
    const Topology& topology = m_fabric.topology;
    if (topology.NodeCount() > kMaxMatrixNodes)
    {
        return;
    }
    std::vector<Bytes> carried(std::size_t{topology.NodeCount()} * topology.NodeCount());
    for (LinkId id = 0; id < links.size(); ++id)
    {
        const Link& link = topology.links[id];
        carried[std::size_t{link.src} * topology.NodeCount() + link.dst] += links[id].bytes;
    }
    const auto write = [&](const char* name, std::uint32_t n, const std::vector<Bytes>& cells) {
        std::string header = "from";
        for (std::uint32_t node = 0; node < n; ++node)
        {
            header += "," + topology.names[node];
        }
        CsvFile csv(options.directory + "/" + name, options.head, header);
        for (std::uint32_t src = 0; src < n; ++src)
        {
            csv.Add(topology.names[src]);
            for (std::uint32_t dst = 0; dst < n; ++dst)
            {
                csv.Add(cells[std::size_t{src} * n + dst]);
            }
            csv.EndRow();
        }
        hash = Mix64(hash, csv.Hash());
        csv.Close();
    };
    write("matrix_demand.csv", topology.servers, m_demand.pairs);
    write("matrix_link.csv", topology.NodeCount(), carried);
}

void
RunRecorder::WriteTopology(const std::string& file) const
{
    const Topology& topology = m_fabric.topology;
    std::map<std::pair<NodeId, NodeId>, std::uint32_t> ringOf;
    // Rings over each connected part: the shards of a cluster are not connected to each other.
    std::vector<bool> known(topology.servers);
    std::uint32_t firstRing = 0;
    for (ServerId first = 0; first < topology.servers && m_fabric.rings; ++first)
    {
        if (known[first])
        {
            continue;
        }
        std::vector<ServerId> part;
        const std::vector<std::uint32_t> distances = topology.DistancesTo(first);
        for (ServerId s = first; s < topology.servers; ++s)
        {
            if (distances[s] != kNoId)
            {
                known[s] = true;
                part.push_back(s);
            }
        }
        if (part.size() < 2)
        {
            continue;
        }
        const std::vector<Ring> rings = RingsOf(m_fabric, part);
        for (std::uint32_t r = 0; r < rings.size(); ++r)
        {
            const std::vector<std::uint32_t>& order = rings[r].order;
            for (std::size_t k = 0; k < order.size(); ++k)
            {
                ringOf.try_emplace({part[order[k]], part[order[(k + 1) % order.size()]]},
                                   firstRing + r);
            }
        }
        firstRing += static_cast<std::uint32_t>(rings.size());
    }
    nlohmann::ordered_json json;
    json["servers"] = topology.servers;
    for (NodeId node = 0; node < topology.NodeCount(); ++node)
    {
        json["nodes"].push_back({{"name", topology.names[node]},
                                 {"kind", topology.IsServer(node) ? "server" : "switch"}});
    }
    json["links"] = nlohmann::ordered_json::array();
    for (LinkId id = 0; id < topology.links.size(); ++id)
    {
        const Link& link = topology.links[id];
        const auto ring = ringOf.find({link.src, link.dst});
        const bool direct = topology.IsServer(link.src) && topology.IsServer(link.dst);
        nlohmann::ordered_json entry{{"id", id},
                                     {"src", link.src},
                                     {"dst", link.dst},
                                     {"rate_bps", link.rate.bps},
                                     {"ring", nullptr},
                                     {"mp", direct && ring == ringOf.end()}};
        if (ring != ringOf.end())
        {
            entry["ring"] = ring->second;
        }
        json["links"].push_back(std::move(entry));
    }
    std::ofstream out(file);
    out << json.dump() << "\n";
    if (!out.flush())
    {
        throw SpecError(file, std::string("cannot be written: ") + std::strerror(errno));
    }
}

} // namespace topoopt
