// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_LINK_SAMPLER_H
#define TOPOOPT_LINK_SAMPLER_H

#include "ns3/packet-network.h"

#include <string>
#include <utility>
#include <vector>

namespace topoopt
{

/**
 * Which share of the time each link was sending, bin by bin: link_samples.csv.
 *
 * Listens to the trace sources Transmit and Cut, so it is exact, and trains are off while it lives (results do not depend
 * on them). Bins begin at a microsecond and double whenever a run outgrows kBins of them: memory is at most kBins x 8 bytes
 * per link, whatever the length of the run.
 */
class LinkSampler
{
  public:
    static constexpr std::size_t kBins = 1024;

    /** @param links of the network, which must stay. Call before the network starts. */
    LinkSampler(const std::vector<Link>& links, PacketNetwork& network);
    LinkSampler(const LinkSampler&) = delete;
    LinkSampler& operator=(const LinkSampler&) = delete;

    /**
     * Writes link_id, t_ps (end of the bin), utilisation (0..1) for bins in which a link sent; a bin in which none did has
     * one row, so that all are there. @return hash of the rows
     */
    std::uint64_t Write(const std::string& file,
                        const std::vector<std::pair<std::string, std::string>>& head,
                        SimTime end) const;

    /** Time in which @p link was sending in [0, @p end): what its counter `busy` says. */
    [[nodiscard]] SimTime Busy(LinkId link) const;

    /** Width of the bins now. */
    [[nodiscard]] SimTime Width() const
    {
        return m_width;
    }

  private:
    void Transmitted(LinkId link, std::uint64_t message, Bytes wire, SimTime start);
    void Cut(LinkId link, SimTime from, SimTime until);
    void Add(LinkId link, SimTime from, SimTime until, int sign);

    const std::vector<Link>& m_links;
    SimTime m_width = kMicrosecond;
    std::vector<std::vector<SimTime>>
        m_busy; ///< by link, by bin; grows as there is something to count
};

} // namespace topoopt

#endif // TOPOOPT_LINK_SAMPLER_H
