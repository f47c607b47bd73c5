// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/run-recorder.h"

#include "ns3/fabric-tables.h"
#include "ns3/failure-injector.h"
#include "ns3/live-fabric.h"
#include "ns3/packet-network.h"
#include "topoopt/core/random.h"

#include <algorithm>
#include <charconv>

namespace topoopt
{

namespace
{

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
    m_sampled = scenario.results.linkSamples;
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
RunRecorder::Sample(PacketNetwork& network)
{
    if (m_sampled)
    {
        m_sampler = std::make_unique<LinkSampler>(m_fabric.topology.links, network);
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
    // What moves nothing, a barrier's messages, is no part of what FCTs say about data.
    const bool counts = !local && message.bytes > 0;
    unfinished += done ? 0 : 1;
    if (done)
    {
        const SimTime fct = record.end - record.start;
        slowdown =
            record.ideal > 0 ? static_cast<double>(fct) / static_cast<double>(record.ideal) : 1.0;
        if (counts)
        {
            fcts.Add(fct);
            maxSlowdown = std::max(maxSlowdown, slowdown);
        }
    }
    else if (counts)
    {
        fcts.AddUnfinished();
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
    std::uint64_t hash = 0;
    if (!options.directory.empty())
    {
        hash = WriteFabricTables(options, m_fabric, m_demand, links, end, outages);
        if (m_sampler != nullptr)
        {
            hash =
                Mix64(hash,
                      m_sampler->Write(options.directory + "/link_samples.csv", options.head, end));
        }
    }
    for (std::optional<CsvFile>* csv : {&m_flows, &m_ops, &m_tasks})
    {
        if (*csv)
        {
            hash = Mix64(hash, (*csv)->Close());
        }
    }
    return hash;
}

} // namespace topoopt
