// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/flexnet-lockstep.h"

#include "ns3/flexnet-engine.h"
#include "ns3/flexnet-flow.h"
#include "ns3/flexnet-train-port.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace topoopt
{

namespace
{

constexpr std::size_t kLeastGain = 4; ///< links that one must stand for on average

} // namespace

std::optional<FlexNetLockstep>
FlexNetLockstep::Of(const FlexNetGraph& graph, const FlexNetConfig& config, FlexNetPaths& paths)
{
    if (!paths.HasRings())
    {
        return {};
    }
    FlexNetLockstep found;
    for (const FlexNetTask& task : graph.tasks)
    {
        if (task.kind != FlexNetTaskKind::AllReduce || task.next.size() < 2)
        {
            continue;
        }
        if (found.members.empty())
        {
            found.members = task.next;
        }
        else if (found.members != task.next)
        {
            return {};
        }
    }
    if (found.members.empty())
    {
        return {};
    }
    std::set<std::uint32_t> used;
    std::set<SimTime> times{config.delay};
    const FlexNetRings& rings = paths.Rings(found.members.size());
    for (std::uint32_t ring = 0; ring < rings.jumps.size(); ++ring)
    {
        found.rings.emplace_back();
        Ring& links = found.rings.back();
        for (const NodeId member : found.members)
        {
            NodeId end = 0;
            const FlexNetPathLinks* const path = paths.RingPath(rings, ring, member, end);
            const std::uint32_t link = path->links[0];
            if (path->Hops() != 1 || !used.insert(link).second)
            {
                return {};
            }
            links.links.push_back(link);
            links.ends.push_back(end);
            times.insert(paths.Links()[link].psPerByte);
        }
        const auto slower = [&](std::uint32_t link) {
            return paths.Links()[link].psPerByte != paths.Links()[links.links[0]].psPerByte;
        };
        if (std::any_of(links.links.begin(), links.links.end(), slower))
        {
            return {};
        }
    }
    // A task's event that was inserted together with a packet's might fall between those of two links.
    const auto likePacket = [&](const FlexNetTask& task) {
        return !graph.IsFlow(task) && times.count(FlexNetEngine::TimeOf(task)) > 0;
    };
    if (std::any_of(graph.tasks.begin(), graph.tasks.end(), likePacket))
    {
        return {};
    }
    return found;
}

/** Whether two flows are in the same state, each on its link. */
bool
FlexNetTrains::Alike(const Flow& a, const Flow& b)
{
    const auto key = [](const Flow& f) {
        return std::tie(f.task,
                        f.ring,
                        f.round,
                        f.asked,
                        f.start,
                        f.size,
                        f.highestSent,
                        f.lastAcked,
                        f.cwnd,
                        f.slowStart,
                        f.window,
                        f.seen,
                        f.marked,
                        f.duplicates,
                        f.established,
                        f.recovering,
                        f.timedOut,
                        f.clean,
                        f.quiet,
                        f.lastNumber,
                        f.alfa,
                        f.rtt,
                        f.deviation,
                        f.timeout,
                        f.deadline,
                        f.recoverUpTo,
                        f.received,
                        f.inFlight,
                        f.everSent,
                        f.timeouts,
                        f.retransmits,
                        f.wireBytes);
    };
    return !a.done && !b.done && a.early == nullptr && b.early == nullptr && key(a) == key(b);
}

/** Whether two links have the same before them: packets at the same times, in the same order with what else is theirs. */
bool
FlexNetTrains::Alike(std::uint32_t a, std::uint32_t b) const
{
    const Port& p = m_ports[a];
    const Port& q = m_ports[b];
    const auto links = static_cast<std::uint32_t>(m_ports.size());
    const SimTime now = m_engine.m_now;
    if (p.Empty() != q.Empty() || m_order.Has(a) != m_order.Has(b) ||
        m_order.Has(links + a) != m_order.Has(links + b))
    {
        return false;
    }
    if (p.Empty())
    {
        const auto over = [now](const Port& port) { return port.free < now && port.last < now; };
        return (over(p) && over(q)) || std::tie(p.free, p.last) == std::tie(q.free, q.last);
    }
    const auto queue = [](const Port& port) {
        return std::make_tuple(port.tail - port.head,
                               port.arrived,
                               port.served - port.head,
                               port.transmitted,
                               port.nextRun - port.head,
                               port.nextOffset,
                               port.waits ? port.queueRun - port.head : kNoId,
                               port.waits,
                               port.free,
                               port.last,
                               port.size);
    };
    // How the two ends of the link stand to each other among simultaneous events.
    const auto order = [](const Port& port) {
        const std::uint64_t arrival = port.chain.label | 1;
        const bool afterSyn = port.syns.Last().end > port.busySince;
        return std::make_tuple(port.servedTime,
                               afterSyn,
                               afterSyn ? 0 : port.busySince,
                               afterSyn ? 0 : port.busyInserted,
                               !afterSyn && port.busyWord <= arrival,
                               !afterSyn && port.queueLabel <= arrival);
    };
    if (queue(p) != queue(q) || order(p) != order(q))
    {
        return false;
    }
    for (std::uint32_t back = 0; back < Recent<Syn>::kCount; ++back)
    {
        const auto past = [back](const Port& port) {
            const Syn& syn = port.syns.Last(back);
            const Chain& chain = port.chains.Last(back);
            const bool counts = syn.end > port.busySince;
            return std::make_tuple(counts ? syn.end : kNoArrival,
                                   counts ? syn.parentInserted : 0,
                                   counts && syn.parentKnown,
                                   counts && syn.parentKnown && syn.parentWord <= chain.parentWord,
                                   chain.time,
                                   chain.inserted,
                                   chain.parentInserted,
                                   chain.label >> 63);
        };
        if (past(p) != past(q))
        {
            return false;
        }
    }
    for (std::uint32_t i = 0; i < p.tail - p.head; ++i)
    {
        const Run& r = p.At(p.head + i);
        const Run& s = q.At(q.head + i);
        if (i == 0 && r.count == p.arrived && s.count == q.arrived)
        {
            continue; // its flow may have gone
        }
        const auto key = [](const Run& run) {
            return std::tie(run.sent,
                            run.step,
                            run.first,
                            run.before,
                            run.marks,
                            run.number,
                            run.count,
                            run.acknowledged,
                            run.quiet,
                            run.ends,
                            run.byQueue);
        };
        if (*r.next != kNoId || *s.next != kNoId || key(r) != key(s) || !Alike(*r.flow, *s.flow))
        {
            return false;
        }
    }
    return true;
}

/** The flows that have packets on a link, each once. */
std::vector<FlexNetTrains::Flow*>
FlexNetTrains::FlowsOn(const Port& port)
{
    std::vector<Flow*> flows;
    for (std::uint32_t index = port.head; index != port.tail && !port.Empty(); ++index)
    {
        const Run& run = port.At(index);
        if (index != port.head || port.arrived < run.count)
        {
            flows.push_back(run.flow);
        }
    }
    std::sort(flows.begin(), flows.end(), [](const Flow* a, const Flow* b) {
        return a->id < b->id;
    });
    flows.erase(std::unique(flows.begin(), flows.end()), flows.end());
    return flows;
}

/** Links of one ring by state; each block's last member is the one whose event comes last. */
std::vector<FlexNetLockstep::Block>
FlexNetTrains::BlocksOf(const std::vector<std::uint32_t>& links) const
{
    std::vector<FlexNetLockstep::Block> blocks;
    for (std::uint32_t member = 0; member < links.size(); ++member)
    {
        const auto same =
            std::find_if(blocks.begin(), blocks.end(), [&](const FlexNetLockstep::Block& block) {
                return Alike(links[block.last], links[member]);
            });
        if (same == blocks.end())
        {
            blocks.push_back({member, {member}});
            continue;
        }
        same->members.push_back(member);
        if (!Before(links[member], links[same->last]))
        {
            same->last = member;
        }
    }
    // Where their last members begin their flows.
    std::sort(blocks.begin(), blocks.end(), [](const auto& a, const auto& b) {
        return a.members.back() < b.members.back();
    });
    return blocks;
}

void
FlexNetTrains::TryLockstep(FlexNetLockstep& lockstep)
{
    for (std::uint32_t link = 0; link < m_ports.size(); ++link)
    {
        if (m_ports[link].ahead >= m_engine.m_now)
        {
            FallBack(link, m_engine.m_now, true);
        }
        if (m_ports[link].ring != nullptr)
        {
            Serve(m_ports[link], 0);
            Skip(link);
        }
    }
    std::vector<std::vector<FlexNetLockstep::Block>> blocks;
    std::vector<bool> ringLink(m_ports.size());
    std::size_t count = 0;
    std::uint64_t flows = 0;
    for (const FlexNetLockstep::Ring& ring : lockstep.rings)
    {
        blocks.push_back(BlocksOf(ring.links));
        count += blocks.back().size();
        if (kLeastGain * count > lockstep.rings.size() * lockstep.members.size())
        {
            return;
        }
        for (const FlexNetLockstep::Block& block : blocks.back())
        {
            flows += block.members.size() * FlowsOn(m_ports[ring.links[block.last]]).size();
        }
        for (const std::uint32_t link : ring.links)
        {
            ringLink[link] = true;
        }
    }
    // Leftovers of messages that are over might still be on their way.
    for (std::uint32_t link = 0; link < m_ports.size(); ++link)
    {
        if (!ringLink[link] && !m_ports[link].Empty())
        {
            return;
        }
    }
    if (flows != m_engine.m_unfinishedFlows)
    {
        return;
    }
    for (std::uint32_t i = 0; i < lockstep.rings.size(); ++i)
    {
        FlexNetLockstep::Ring& ring = lockstep.rings[i];
        ring.blocks = std::move(blocks[i]);
        for (const FlexNetLockstep::Block& block : ring.blocks)
        {
            const std::uint32_t link = ring.links[block.last];
            for (const std::uint32_t member : block.members)
            {
                if (member != block.last)
                {
                    StandFor(link, ring.links[member]);
                }
            }
            for (Flow* const flow : FlowsOn(m_ports[link]))
            {
                flow->block = &block;
            }
        }
    }
    lockstep.begun = true;
}

/** Whether the next event of link @p a comes before that of @p b; both have the same before them. */
bool
FlexNetTrains::Before(std::uint32_t a, std::uint32_t b) const
{
    const auto links = static_cast<std::uint32_t>(m_ports.size());
    const std::uint32_t offset = m_order.Has(a) ? 0 : links;
    return m_order.Has(a + offset) && m_order.Rank(a + offset) < m_order.Rank(b + offset);
}

/** From now on @p link does what @p first does and is not run any more. */
void
FlexNetTrains::StandFor(std::uint32_t first, std::uint32_t link)
{
    Port& port = m_ports[link];
    for (Flow* const flow : FlowsOn(port))
    {
        m_engine.Unlist(*flow);
        m_engine.Free(*flow);
    }
    m_order.Remove(link);
    m_order.Remove(static_cast<std::uint32_t>(m_ports.size()) + link);
    m_standIns.push_back({link, first, m_ports[first].counters});
    port.head = port.tail;
    port.served = port.tail;
    port.nextRun = port.tail;
    port.arrived = 0;
    port.transmitted = 0;
    port.nextOffset = 0;
    port.waits = false;
    port.size = 0;
    port.soleFlow = nullptr;
    port.ahead = kNoArrival;
    ++m_ports[first].width;
}

} // namespace topoopt
