// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_TESTS_FLEXNET_WITNESS_H
#define TOPOOPT_TESTS_FLEXNET_WITNESS_H

#include "topoopt/core/readers/flexnet.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <queue>
#include <stdexcept>
#include <string>
#include <vector>

namespace topoopt
{

/**
 * A slow model of the reference packet simulator, written from its description and sharing nothing with
 * the engine: the witness that the engine is held against.
 *
 * One event list ordered by (time, order of insertion); queues, pipes, flows and tasks are its objects.
 * One packet is one object, one hop is two events.
 */
class FlexNetWitness
{
  public:
    enum class Kind
    {
        FromFile,
        Star,
        FatTree
    };

    struct Options
    {
        Kind fabric = Kind::FromFile;
        std::uint64_t rate = 100'000'000'000; ///< bit/s of one cable
        std::uint64_t delay = 1'000'000;      ///< ps, one way, per link
        std::uint32_t ssthresh = 10000;       ///< packets
        std::uint64_t queuePackets =
            100'000; ///< limit of an output queue; not on from-file fabrics
    };

    struct Flow
    {
        std::uint32_t src = 0;
        std::uint32_t dst = 0;
        std::uint64_t bytes = 0;
        std::uint64_t start = 0;
        std::uint64_t fct = 0;
        std::uint32_t hops = 0;
    };

    FlexNetWitness(const FlexNetGraph& graph, const Options& options)
        : m_graph(graph),
          m_options(options)
    {
        Build();
    }

    /** Runs to the end. @return time at which the last task finished */
    std::uint64_t Run()
    {
        Schedule(Object::Scanner, 0, kMillisecondPs);
        std::vector<std::uint32_t> counters(m_graph.tasks.size());
        for (const FlexNetTask& task : m_graph.tasks)
        {
            if (task.kind != FlexNetTaskKind::AllReduce)
            {
                for (const std::uint32_t s : task.next)
                {
                    ++counters[s];
                }
            }
        }
        m_tasks.resize(m_graph.tasks.size());
        m_busyUpTo.assign(m_graph.devices.size(), 0);
        m_busy.assign(m_graph.devices.size(), 0);
        for (std::size_t i = 0; i < m_tasks.size(); ++i)
        {
            m_tasks[i].counter = counters[i];
        }
        std::uint64_t delta = 0;
        for (const std::uint32_t task : FlexNetReferenceOrder(m_graph))
        {
            if (counters[task] == 0)
            {
                Schedule(Object::Task, task, delta++);
            }
        }
        while (!m_events.empty() && !(m_finished == m_tasks.size() && OnlyScanner()))
        {
            const Event event = m_events.top();
            m_events.pop();
            m_now = event.time;
            ++events;
            switch (event.object)
            {
            case Object::Queue:
                QueueEvent(event.index);
                break;
            case Object::Pipe:
                PipeEvent(event.index);
                break;
            case Object::Flow:
                FlowEvent(event.index);
                break;
            case Object::Task:
                TaskEvent(event.index);
                break;
            case Object::Scanner:
                Scan();
                break;
            }
        }
        return m_finalFinish;
    }

    [[nodiscard]] bool Complete() const
    {
        return m_finished == m_tasks.size();
    }

    std::vector<Flow> finished; ///< in the order of finishing
    std::uint64_t timeouts = 0;
    std::uint64_t drops = 0;
    std::uint64_t marks = 0;
    std::uint64_t events = 0;
    std::uint64_t lastAllReduce = 0; ///< when the last AllReduce ended

    /** A line of the reference's log for one flow. */
    static std::string Line(const Flow& flow)
    {
        char text[160];
        const auto fct = static_cast<double>(flow.fct);
        std::snprintf(text,
                      sizeof text,
                      "FCT %u %u %llu %g %g %g",
                      flow.src,
                      flow.dst,
                      static_cast<unsigned long long>(flow.bytes),
                      fct / 1000000000.0,
                      static_cast<double>(flow.start) / 1000000000.0,
                      static_cast<double>(flow.bytes) / (fct / 1000000000000.0) * 8 / 1000000000.0);
        return text;
    }

  private:
    static constexpr std::uint64_t kMillisecondPs = 1'000'000'000;
    static constexpr std::uint32_t kMss = 8936;
    static constexpr std::uint64_t kMark = 50 * std::uint64_t{kMss};

    enum class Object : std::uint8_t
    {
        Queue,
        Pipe,
        Flow,
        Task,
        Scanner
    };

    struct Event
    {
        std::uint64_t time;
        std::uint64_t order;
        Object object;
        std::uint32_t index;

        bool operator<(const Event& o) const // the queue's top is the largest
        {
            return time != o.time ? time > o.time : order > o.order;
        }
    };

    struct Packet
    {
        std::uint32_t flow = 0;
        std::uint64_t seq = 0; ///< first byte
        std::uint32_t bytes = 0;
        std::uint64_t sent = 0;
        std::uint32_t hop = 0;
        bool marked = false;
        bool syn = false;
    };

    struct Link
    {
        std::uint64_t psPerByte = 0;
        bool nic = false; ///< neither limit nor marks
        std::uint64_t limit = 0;
        std::uint64_t size = 0;
        std::deque<Packet> fifo;
        std::deque<std::pair<std::uint64_t, Packet>> pipe;
    };

    struct FlowState
    {
        Flow log;
        std::vector<std::uint32_t> route;
        std::uint32_t task = 0;
        std::uint32_t ring = 0;
        std::uint64_t size = 0;
        std::uint64_t highestSent = 0;
        std::uint64_t lastAcked = 0;
        std::uint32_t cwnd = 0;
        std::uint32_t ssthresh = 0;
        std::uint32_t pastCwnd = 2 * kMss;
        std::uint32_t seen = 0;
        std::uint32_t marked = 0;
        double alfa = 0;
        std::uint64_t rtt = 0;
        std::uint64_t mdev = 0;
        std::uint64_t rto = 0;
        std::uint64_t deadline = 0;
        std::uint64_t recoverq = 0;
        std::uint16_t dupacks = 0;
        bool established = false;
        bool done = false;
        bool recovering = false;
        bool timeoutPending = false;
        // sink
        std::uint64_t cumulative = 0;
        std::deque<std::uint64_t> early;
    };

    struct TaskState
    {
        std::uint32_t counter = 0;
        bool running = false;
        std::uint64_t ready = 0;
        std::uint64_t finish = 0;
        // AllReduce
        bool begun = false;
        std::uint64_t size = 0;
        std::vector<std::uint32_t> round;
        std::vector<std::uint32_t> arrived;
        std::uint32_t ringsDone = 0;
    };

    void Schedule(Object object, std::uint32_t index, std::uint64_t time)
    {
        if (m_end == 0 || time < m_end)
        {
            m_events.push({time, m_order++, object, index});
        }
    }

    bool OnlyScanner() const
    {
        return m_events.size() == 1 && m_events.top().object == Object::Scanner;
    }

    // ---- network

    std::uint32_t AddLink(std::uint64_t rate, bool nic, std::uint64_t limit)
    {
        Link link;
        // As the reference computes it: in double precision, truncated.
        link.psPerByte = static_cast<std::uint64_t>(8e12 / static_cast<double>(rate));
        link.nic = nic;
        link.limit = limit;
        m_links.push_back(std::move(link));
        return static_cast<std::uint32_t>(m_links.size() - 1);
    }

    void Build()
    {
        const std::uint64_t limit = m_options.queuePackets * kMss;
        if (m_options.fabric == Kind::FromFile)
        {
            for (const FlexNetConnection& c : m_graph.connections)
            {
                m_linkOf[{c.a, c.b}] = AddLink(m_options.rate * c.count, false, UINT64_MAX);
                m_linkOf[{c.b, c.a}] = AddLink(m_options.rate * c.count, false, UINT64_MAX);
            }
            for (const FlexNetRoute& route : m_graph.routes)
            {
                for (const FlexNetPath& path : route.paths)
                {
                    std::vector<std::uint32_t> links;
                    for (std::size_t h = 1; h < path.nodes.size(); ++h)
                    {
                        links.push_back(m_linkOf.at({path.nodes[h - 1], path.nodes[h]}));
                    }
                    m_paths[{route.src, route.dst}].push_back(links);
                }
            }
            return;
        }
        const std::uint32_t n = m_graph.nodes;
        if (m_options.fabric == Kind::Star)
        {
            for (std::uint32_t i = 0; i < n; ++i)
            {
                m_linkOf[{i, n}] = AddLink(m_options.rate, true, 0);
                m_linkOf[{n, i}] = AddLink(m_options.rate, false, limit);
            }
            for (std::uint32_t a = 0; a < n; ++a)
            {
                for (std::uint32_t b = 0; b < n; ++b)
                {
                    m_paths[{a, b}] = {{m_linkOf.at({a, n}), m_linkOf.at({n, b})}};
                }
            }
            return;
        }
        std::uint32_t k = 2;
        while (k * k * k / 4 < n)
        {
            k += 2;
        }
        if (k * k * k / 4 != n)
        {
            throw std::invalid_argument("no fat-tree has that many hosts");
        }
        const std::uint32_t half = k / 2;
        const std::uint32_t edge = n; // k*half of each
        const std::uint32_t agg = edge + k * half;
        const std::uint32_t core = agg + k * half;
        const auto link = [&](std::uint32_t a, std::uint32_t b) {
            const auto [at, added] = m_linkOf.emplace(std::make_pair(a, b), 0);
            if (added)
            {
                at->second = AddLink(m_options.rate, a < n, limit);
            }
            return at->second;
        };
        for (std::uint32_t a = 0; a < n; ++a)
        {
            for (std::uint32_t b = 0; b < n; ++b)
            {
                auto& paths = m_paths[{a, b}];
                const std::uint32_t ea = a / half;
                const std::uint32_t eb = b / half;
                const std::uint32_t pa = ea / half;
                const std::uint32_t pb = eb / half;
                if (ea == eb)
                {
                    paths.push_back({link(a, edge + ea), link(edge + eb, b)});
                    continue;
                }
                for (std::uint32_t u = 0; u < half; ++u)
                {
                    const std::uint32_t up = agg + pa * half + u;
                    if (pa == pb)
                    {
                        paths.push_back({link(a, edge + ea),
                                         link(edge + ea, up),
                                         link(up, edge + eb),
                                         link(edge + eb, b)});
                        continue;
                    }
                    for (std::uint32_t c = u * half; c < (u + 1) * half; ++c)
                    {
                        const std::uint32_t down = agg + pb * half + c / half;
                        paths.push_back({link(a, edge + ea),
                                         link(edge + ea, up),
                                         link(up, core + c),
                                         link(core + c, down),
                                         link(down, edge + eb),
                                         link(edge + eb, b)});
                    }
                }
            }
        }
    }

    void Send(Packet packet)
    {
        const FlowState& flow = *m_flows[packet.flow];
        if (packet.hop == flow.route.size())
        {
            Receive(packet);
            return;
        }
        const std::uint32_t index = flow.route[packet.hop];
        Link& link = m_links[index];
        if (!link.nic && link.size + packet.bytes > link.limit)
        {
            ++drops;
            return;
        }
        link.fifo.push_back(packet);
        link.size += packet.bytes;
        if (link.fifo.size() == 1)
        {
            Schedule(Object::Queue, index, m_now + packet.bytes * link.psPerByte);
        }
    }

    void QueueEvent(std::uint32_t index)
    {
        Link& link = m_links[index];
        Packet packet = link.fifo.front();
        link.fifo.pop_front();
        if (!link.nic && link.size > kMark)
        {
            packet.marked = true;
            marks += m_end == 0 ? 1 : 0; // duplicates may be under way after the end
        }
        link.size -= packet.bytes;
        if (link.pipe.empty())
        {
            Schedule(Object::Pipe, index, m_now + m_options.delay);
        }
        link.pipe.emplace_back(m_now + m_options.delay, packet);
        if (!link.fifo.empty())
        {
            Schedule(Object::Queue, index, m_now + link.fifo.front().bytes * link.psPerByte);
        }
    }

    void PipeEvent(std::uint32_t index)
    {
        Packet packet = m_links[index].pipe.front().second;
        m_links[index].pipe.pop_front();
        ++packet.hop;
        Send(packet);
        const Link& link = m_links[index];
        if (!link.pipe.empty())
        {
            Schedule(Object::Pipe, index, link.pipe.front().first);
        }
    }

    // ---- transport

    std::uint32_t StartFlow(std::uint32_t src,
                            std::uint32_t dst,
                            std::uint64_t bytes,
                            std::vector<std::uint32_t> route,
                            std::uint64_t start,
                            std::uint64_t rto,
                            std::uint32_t task,
                            std::uint32_t ring)
    {
        auto flow = std::make_unique<FlowState>();
        flow->size = std::max<std::uint64_t>(bytes, kMss);
        flow->log = {src, dst, flow->size, start, 0, static_cast<std::uint32_t>(route.size())};
        flow->route = std::move(route);
        flow->ssthresh = m_options.ssthresh * kMss;
        flow->rto = rto;
        flow->task = task;
        flow->ring = ring;
        m_flows.push_back(std::move(flow));
        const auto index = static_cast<std::uint32_t>(m_flows.size() - 1);
        m_scanned.push_back(index);
        Schedule(Object::Flow, index, start);
        return index;
    }

    void FlowEvent(std::uint32_t index)
    {
        FlowState& f = *m_flows[index];
        if (!f.timeoutPending)
        {
            f.cwnd = 100 * kMss;
            f.established = false;
            SendData(index);
            return;
        }
        f.timeoutPending = false;
        if (f.recovering)
        {
            f.cwnd = std::min(f.ssthresh,
                              static_cast<std::uint32_t>(f.highestSent - f.lastAcked) + kMss);
        }
        Deflate(f);
        f.cwnd = kMss;
        f.recovering = false;
        f.recoverq = f.highestSent;
        if (f.established)
        {
            f.highestSent = f.lastAcked + kMss;
        }
        f.dupacks = 0;
        Retransmit(index);
    }

    void SendSyn(std::uint32_t index)
    {
        Packet packet;
        packet.flow = index;
        packet.seq = 1;
        packet.bytes = 1;
        packet.sent = m_now;
        packet.syn = true;
        Send(packet);
    }

    void SendData(std::uint32_t index)
    {
        FlowState& f = *m_flows[index];
        if (!f.established)
        {
            f.highestSent = 1;
            SendSyn(index);
            if (f.deadline == 0)
            {
                f.deadline = m_now + f.rto;
            }
            return;
        }
        const std::uint64_t window = f.cwnd;
        while (f.lastAcked + window >= f.highestSent + kMss && f.highestSent < f.size)
        {
            Packet packet;
            packet.flow = index;
            packet.seq = f.highestSent + 1;
            packet.bytes = kMss;
            packet.sent = m_now;
            f.highestSent += kMss;
            Send(packet);
            if (f.deadline == 0)
            {
                f.deadline = m_now + f.rto;
            }
        }
    }

    void Retransmit(std::uint32_t index)
    {
        FlowState& f = *m_flows[index];
        if (!f.established)
        {
            SendSyn(index);
            return;
        }
        Packet packet;
        packet.flow = index;
        packet.seq = f.lastAcked + 1;
        packet.bytes = kMss;
        packet.sent = m_now;
        Send(packet);
        if (f.deadline == 0)
        {
            f.deadline = m_now + f.rto;
        }
    }

    static void Deflate(FlowState& f)
    {
        f.seen = 0;
        f.marked = 0;
        f.ssthresh = std::max(f.cwnd / 2, 2 * kMss);
        f.pastCwnd = f.cwnd;
    }

    void Receive(const Packet& packet)
    {
        FlowState& f = *m_flows[packet.flow];
        if (packet.seq == f.cumulative + 1)
        {
            f.cumulative = packet.seq + packet.bytes - 1;
            while (!f.early.empty() && f.early.front() == f.cumulative + 1)
            {
                f.early.pop_front();
                f.cumulative += packet.bytes;
            }
        }
        else if (packet.seq > f.cumulative + 1)
        {
            if (f.early.empty() || packet.seq > f.early.back())
            {
                f.early.push_back(packet.seq);
            }
            else
            {
                const auto at = std::lower_bound(f.early.begin(), f.early.end(), packet.seq);
                if (*at != packet.seq)
                {
                    f.early.insert(at, packet.seq);
                }
            }
        }
        Ack(packet.flow, f.cumulative, packet.marked, packet.sent);
    }

    void Ack(std::uint32_t index, std::uint64_t a, bool echo, std::uint64_t sent)
    {
        FlowState& f = *m_flows[index];
        ++f.seen;
        if (echo)
        {
            ++f.marked;
            f.ssthresh = std::min(f.ssthresh, f.cwnd);
        }
        if (f.seen * kMss >= f.pastCwnd)
        {
            const double fraction = static_cast<double>(f.marked) / f.seen;
            f.alfa = 15.0 / 16.0 * f.alfa + 1.0 / 16.0 * fraction;
            f.seen = 0;
            f.marked = 0;
            if (f.alfa > 0)
            {
                f.cwnd = static_cast<std::uint32_t>(f.cwnd * (1 - f.alfa / 2));
                f.cwnd = std::max(f.cwnd, kMss);
                f.ssthresh = f.cwnd;
            }
            f.pastCwnd = f.cwnd;
        }
        if (a < f.lastAcked)
        {
            return;
        }
        if (a == 1)
        {
            f.established = true;
        }
        const std::uint64_t m = m_now - sent;
        if (m != 0)
        {
            if (f.rtt > 0)
            {
                const std::uint64_t distance = m > f.rtt ? m - f.rtt : f.rtt - m;
                f.mdev = 3 * f.mdev / 4 + distance / 4;
                f.rtt = 7 * f.rtt / 8 + m / 8;
            }
            else
            {
                f.rtt = m;
                f.mdev = m / 2;
            }
            f.rto = f.rtt + 4 * f.mdev;
        }
        f.rto = std::max(f.rto, 10 * kMillisecondPs);
        if (a >= f.size && !f.done)
        {
            f.lastAcked = 1;
            f.done = true;
            f.log.fct = m_now - f.log.start;
            finished.push_back(f.log);
            FlowDone(index);
        }
        if (a > f.lastAcked)
        {
            f.deadline = m_now + f.rto;
            if (a >= f.highestSent)
            {
                f.highestSent = a;
                f.deadline = 0;
            }
            if (!f.recovering)
            {
                f.lastAcked = a;
                f.dupacks = 0;
                Inflate(f);
                SendData(index);
                return;
            }
            if (a >= f.recoverq)
            {
                const auto flight = static_cast<std::uint32_t>(f.highestSent - a);
                f.cwnd = std::min(f.ssthresh, flight + kMss);
                f.lastAcked = a;
                f.dupacks = 0;
                f.recovering = false;
                SendData(index);
                return;
            }
            const auto fresh = static_cast<std::uint32_t>(a - f.lastAcked);
            f.lastAcked = a;
            f.cwnd = fresh < f.cwnd ? f.cwnd - fresh : 0;
            f.cwnd += kMss;
            Retransmit(index);
            SendData(index);
            return;
        }
        if (f.recovering)
        {
            f.cwnd += kMss;
            SendData(index);
            return;
        }
        if (++f.dupacks != 3)
        {
            SendData(index);
            return;
        }
        if (f.lastAcked < f.recoverq)
        {
            return;
        }
        Deflate(f);
        Retransmit(index);
        f.cwnd = f.ssthresh + 3 * kMss;
        f.recovering = true;
        f.recoverq = f.highestSent;
    }

    static void Inflate(FlowState& f)
    {
        auto acked = static_cast<std::int32_t>(f.lastAcked + f.cwnd - f.highestSent);
        acked = std::min(acked, static_cast<std::int32_t>(kMss));
        if (acked < 0)
        {
            return;
        }
        const auto step = static_cast<std::uint32_t>(acked);
        if (f.cwnd < f.ssthresh)
        {
            f.cwnd += std::min(f.ssthresh - f.cwnd, step);
        }
        else
        {
            f.cwnd += step * kMss / f.cwnd;
        }
    }

    void Scan()
    {
        std::vector<std::uint32_t> kept;
        for (const std::uint32_t index : m_scanned)
        {
            FlowState& f = *m_flows[index];
            if (f.done)
            {
                continue;
            }
            kept.push_back(index);
            if (f.deadline == 0 || m_now <= f.deadline || f.highestSent == 0 || f.timeoutPending)
            {
                continue;
            }
            ++timeouts;
            f.timeoutPending = true;
            std::uint64_t late = m_now - f.deadline;
            while (late > kMillisecondPs)
            {
                late >>= 1;
            }
            Schedule(Object::Flow, index, m_now + (kMillisecondPs - late) / 200);
            f.rto *= 2;
            f.deadline = m_now + f.rto;
        }
        m_scanned = std::move(kept);
        Schedule(Object::Scanner, 0, m_now + kMillisecondPs);
    }

    // ---- tasks

    /** glibc's rand() after srand(13). */
    std::uint32_t Rand()
    {
        if (m_random.empty())
        {
            std::vector<std::uint32_t> r(34);
            r[0] = 13;
            for (std::size_t i = 1; i < 31; ++i)
            {
                std::int64_t word = 16807 * static_cast<std::int64_t>(r[i - 1]) % 2147483647;
                r[i] = static_cast<std::uint32_t>(word < 0 ? word + 2147483647 : word);
            }
            for (std::size_t i = 31; i < 34; ++i)
            {
                r[i] = r[i - 31];
            }
            m_random.assign(r.begin() + 3, r.end());
            for (int i = 0; i < 310; ++i)
            {
                NextWord();
            }
        }
        return NextWord() >> 1;
    }

    std::uint32_t NextWord()
    {
        const std::uint32_t word = m_random[m_random.size() - 3] + m_random[m_random.size() - 31];
        m_random.push_back(word);
        m_random.pop_front();
        return word;
    }

    /** One of the listed paths; a second number is drawn for the way back, which nothing uses. */
    std::vector<std::uint32_t> Pick(std::uint32_t src, std::uint32_t dst)
    {
        const auto& paths = m_paths.at({src, dst});
        const std::uint32_t choice = Rand() % static_cast<std::uint32_t>(paths.size());
        Rand();
        return paths[choice];
    }

    void TaskEvent(std::uint32_t index)
    {
        const FlexNetTask& task = m_graph.tasks[index];
        TaskState& state = m_tasks[index];
        if (task.kind == FlexNetTaskKind::AllReduce)
        {
            BeginAllReduce(index);
            return;
        }
        if (m_graph.IsFlow(task))
        {
            const FlexNetDevice& device = m_graph.devices[task.device];
            const NodeId src = m_graph.SourceOf(device);
            const NodeId dst = m_graph.DestinationOf(device);
            StartFlow(src,
                      dst,
                      task.bytes,
                      Pick(src, dst),
                      state.ready,
                      10 * kMillisecondPs,
                      index,
                      0);
            return;
        }
        if (state.running)
        {
            m_busy[task.device] = 0;
            Cleanup(index);
        }
        else if (m_busy[task.device] == 0)
        {
            m_busy[task.device] = 1;
            state.running = true;
            state.finish = m_now + static_cast<std::uint64_t>(FlexNetComputeTime(task.runtimeMs));
            m_busyUpTo[task.device] = state.finish;
            Schedule(Object::Task, index, state.finish);
        }
        else
        {
            Schedule(Object::Task, index, m_busyUpTo[task.device]);
        }
    }

    void Cleanup(std::uint32_t index)
    {
        const FlexNetTask& task = m_graph.tasks[index];
        ++m_finished;
        const std::uint64_t finish = m_tasks[index].finish;
        m_finalFinish = std::max(m_finalFinish, finish);
        if (task.kind != FlexNetTaskKind::AllReduce)
        {
            for (const std::uint32_t s : task.next)
            {
                if (--m_tasks[s].counter == 0)
                {
                    m_tasks[s].ready = finish;
                    Schedule(Object::Task, s, finish);
                }
            }
        }
        else
        {
            lastAllReduce = std::max(lastAllReduce, finish);
        }
        if (m_finished == m_tasks.size())
        {
            m_end = m_now;
        }
    }

    const std::vector<std::vector<std::uint32_t>>& Jumps(std::size_t group) const
    {
        for (const FlexNetRings& rings : m_graph.rings)
        {
            if (rings.groupSize == group)
            {
                return rings.jumps;
            }
        }
        throw std::invalid_argument("no rings for the group");
    }

    bool FileRings() const
    {
        return m_options.fabric == Kind::FromFile && !m_graph.rings.empty();
    }

    void BeginAllReduce(std::uint32_t index)
    {
        const FlexNetTask& task = m_graph.tasks[index];
        TaskState& state = m_tasks[index];
        const std::size_t g = task.next.size();
        if (g == 1)
        {
            state.finish = state.ready;
            Cleanup(index);
            return;
        }
        state.size = task.bytes;
        if (!FileRings())
        {
            state.size = static_cast<std::uint32_t>(task.bytes / g > 0 ? task.bytes : g);
        }
        if (state.size < 9000 * g)
        {
            state.size = static_cast<std::uint64_t>(
                static_cast<double>(state.size) *
                (2.0 * static_cast<double>(g - 1) / static_cast<double>(g)));
        }
        const std::size_t rings = FileRings() ? Jumps(g).size() : 1;
        state.round.assign(rings, 0);
        state.arrived.assign(rings, 0);
        for (std::uint32_t i = 0; i < g; ++i)
        {
            for (std::uint32_t j = 0; j < rings; ++j)
            {
                StartPart(index, i, j);
            }
        }
    }

    void StartPart(std::uint32_t index, std::uint32_t i, std::uint32_t j)
    {
        const FlexNetTask& task = m_graph.tasks[index];
        TaskState& state = m_tasks[index];
        const std::size_t g = task.next.size();
        const std::uint64_t start =
            state.round[j] > 0
                ? m_now
                : state.ready + static_cast<std::uint64_t>(FlexNetAllReduceDelay(task.runtimeMs));
        if (!FileRings())
        {
            const std::uint32_t src = task.next[i];
            const std::uint32_t dst = task.next[(i + 1) % g];
            StartFlow(src, dst, state.size / g, Pick(src, dst), start, kMillisecondPs, index, j);
            return;
        }
        const auto& jumps = Jumps(g);
        std::vector<std::uint32_t> route;
        std::uint32_t at = i;
        for (const std::uint32_t jump : jumps[j])
        {
            const std::uint32_t to = (at + jump) % m_graph.nodes;
            route.push_back(m_linkOf.at({at, to}));
            at = to;
        }
        StartFlow(task.next[i],
                  at,
                  state.size / g / jumps.size(),
                  route,
                  start,
                  10 * kMillisecondPs,
                  index,
                  j);
    }

    void FlowDone(std::uint32_t flow)
    {
        const std::uint32_t index = m_flows[flow]->task;
        const std::uint32_t j = m_flows[flow]->ring;
        const FlexNetTask& task = m_graph.tasks[index];
        TaskState& state = m_tasks[index];
        if (task.kind != FlexNetTaskKind::AllReduce)
        {
            state.finish = m_now;
            Cleanup(index);
            return;
        }
        const std::size_t g = task.next.size();
        if (++state.arrived[j] < g)
        {
            return;
        }
        state.arrived[j] = 0;
        ++state.round[j];
        const double share = 2.0 * static_cast<double>(g - 1) / static_cast<double>(g);
        if ((state.round[j] == 1 &&
             static_cast<double>(state.size) / share <= 9000.0 * static_cast<double>(g)) ||
            state.round[j] == 2 * (g - 1))
        {
            ++state.ringsDone;
        }
        else
        {
            for (std::uint32_t i = 0; i < g; ++i)
            {
                StartPart(index, i, j);
            }
        }
        if (state.ringsDone == state.round.size())
        {
            state.finish = m_now;
            Cleanup(index);
        }
    }

    const FlexNetGraph& m_graph;
    Options m_options;
    std::vector<Link> m_links;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> m_linkOf;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::vector<std::uint32_t>>>
        m_paths;
    std::priority_queue<Event> m_events;
    std::uint64_t m_now = 0;
    std::uint64_t m_order = 0;
    std::uint64_t m_end = 0;
    std::vector<std::unique_ptr<FlowState>> m_flows;
    std::vector<std::uint32_t> m_scanned;
    std::vector<TaskState> m_tasks;
    std::vector<std::uint64_t> m_busyUpTo;
    std::vector<std::uint8_t> m_busy;
    std::size_t m_finished = 0;
    std::uint64_t m_finalFinish = 0;
    std::deque<std::uint32_t> m_random;
};

} // namespace topoopt

#endif // TOPOOPT_TESTS_FLEXNET_WITNESS_H
