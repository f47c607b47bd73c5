// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/link-sampler.h"

#include "ns3/csv-file.h"

#include <algorithm>
#include <numeric>

namespace topoopt
{

LinkSampler::LinkSampler(const std::vector<Link>& links, PacketNetwork& network)
    : m_links(links)
{
    network.TraceConnectWithoutContext("Transmit",
                                       ns3::MakeCallback(&LinkSampler::Transmitted, this));
    network.TraceConnectWithoutContext("Cut", ns3::MakeCallback(&LinkSampler::Cut, this));
}

void
LinkSampler::Transmitted(LinkId link, std::uint64_t, Bytes wire, SimTime start)
{
    Add(link, start, start + TxTime(wire, m_links[link].rate), 1);
}

void
LinkSampler::Cut(LinkId link, SimTime from, SimTime until)
{
    Add(link, from, until, -1);
}

void
LinkSampler::Add(LinkId link, SimTime from, SimTime until, int sign)
{
    while (until > m_width * static_cast<SimTime>(kBins))
    {
        for (std::vector<SimTime>& bins : m_busy)
        {
            const std::size_t half = (bins.size() + 1) / 2;
            for (std::size_t i = 0; i < half; ++i)
            {
                bins[i] = bins[2 * i] + (2 * i + 1 < bins.size() ? bins[2 * i + 1] : 0);
            }
            bins.resize(half);
        }
        m_width *= 2;
    }
    if (link >= m_busy.size())
    {
        m_busy.resize(link + 1);
    }
    std::vector<SimTime>& bins = m_busy[link];
    const auto last = static_cast<std::size_t>((until - 1) / m_width);
    if (bins.size() <= last)
    {
        bins.resize(last + 1);
    }
    for (SimTime at = from; at < until;)
    {
        const SimTime bin = at / m_width;
        const SimTime next = std::min(until, (bin + 1) * m_width);
        bins[static_cast<std::size_t>(bin)] += sign * (next - at);
        at = next;
    }
}

SimTime
LinkSampler::Busy(LinkId link) const
{
    return link < m_busy.size()
               ? std::accumulate(m_busy[link].begin(), m_busy[link].end(), SimTime{0})
               : 0;
}

std::uint64_t
LinkSampler::Write(const std::string& file,
                   const std::vector<std::pair<std::string, std::string>>& head,
                   SimTime end) const
{
    CsvFile csv(file, head, "link_id,t_ps,utilisation");
    const SimTime count = (end + m_width - 1) / m_width;
    for (SimTime bin = 0; bin < count; ++bin)
    {
        // What was to be sent after the end of the run was not sent.
        const SimTime until = std::min(end, (bin + 1) * m_width);
        const SimTime width = until - bin * m_width;
        bool any = false;
        for (LinkId link = 0; link < m_busy.size(); ++link)
        {
            const std::vector<SimTime>& bins = m_busy[link];
            const auto i = static_cast<std::size_t>(bin);
            if (i < bins.size() && bins[i] > 0)
            {
                csv.Add(link).Add(until);
                csv.AddDecimal(static_cast<double>(std::min(bins[i], width)) /
                               static_cast<double>(width));
                csv.EndRow();
                any = true;
            }
        }
        if (!any)
        {
            csv.Add(LinkId{0}).Add(until).AddDecimal(0).EndRow();
        }
    }
    return csv.Close();
}

} // namespace topoopt
