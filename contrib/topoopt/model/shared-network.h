// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_SHARED_NETWORK_H
#define TOPOOPT_SHARED_NETWORK_H

#include "ns3/message-network.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace topoopt
{

/**
 * One network that several executors share, each of which believes it has its own.
 *
 * A view puts its number into the upper bits of every cookie, by which what comes back finds its listener; nothing else is
 * changed, so executors need not know. Calls of the owner himself come after those of all views at the same time.
 */
class SharedNetwork final : public NetworkListener
{
  public:
    /** More views than this cannot be told apart. */
    static constexpr std::uint32_t kMaxViews = (1U << 20) - 1;

    /** Becomes the listener of @p network, which must outlive it. */
    explicit SharedNetwork(MessageNetwork& network);
    ~SharedNetwork() override;

    /** A network for one executor, numbered 0, 1, ...; lives as long as this. @throws std::length_error too many */
    [[nodiscard]] MessageNetwork& NewView();

    /** Called after the executor of a view has been told something; it may have ended by that. */
    void SetAfter(std::function<void(std::uint32_t view)> after)
    {
        m_after = std::move(after);
    }

    /** Calls @p what at @p time, not before now. */
    void CallAt(SimTime time, std::function<void()> what);

    /** Messages of a view that have not finished. */
    [[nodiscard]] std::uint64_t Outstanding(std::uint32_t view) const;

    /** The view of a record from MessageNetwork::Unfinished(), whose cookie becomes that of its executor. */
    static std::uint32_t ViewOf(MessageRecord& record);

    void Delivered(const MessageRecord& record) override;
    void Finished(const MessageRecord& record) override;
    void Due(std::uint64_t cookie) override;

  private:
    class View;

    MessageNetwork& m_network;
    std::vector<std::unique_ptr<View>> m_views;
    std::vector<std::function<void()>> m_calls; ///< the owner's
    std::function<void(std::uint32_t)> m_after;
};

} // namespace topoopt

#endif // TOPOOPT_SHARED_NETWORK_H
