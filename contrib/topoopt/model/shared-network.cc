// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/shared-network.h"

#include <stdexcept>

namespace topoopt
{

namespace
{

/** Cookies of executors are below 2^33: a task, doubled, or a message under way. The network leaves 60 bits. */
constexpr unsigned kViewShift = 40;
constexpr std::uint64_t kCookieMask = (std::uint64_t{1} << kViewShift) - 1;

std::uint64_t
Tagged(std::uint32_t view, std::uint64_t cookie)
{
    return std::uint64_t{view} << kViewShift | cookie;
}

} // namespace

class SharedNetwork::View final : public MessageNetwork
{
  public:
    View(MessageNetwork& network, std::uint32_t number)
        : m_network(network),
          m_number(number)
    {
    }

    std::uint32_t AddRoute(const Path& path) override
    {
        return m_network.AddRoute(path);
    }

    std::uint64_t Send(const Message& message) override
    {
        Message tagged = message;
        tagged.cookie = Tagged(m_number, message.cookie);
        ++outstanding;
        return m_network.Send(tagged);
    }

    void CallAt(SimTime time, std::uint64_t cookie) override
    {
        m_network.CallAt(time, Tagged(m_number, cookie));
    }

    [[nodiscard]] SimTime Now() const override
    {
        return m_network.Now();
    }

    void Start(SimTime) override
    {
        // The owner of the network starts it.
    }

    [[nodiscard]] NetworkTotals Totals() const override
    {
        return m_network.Totals();
    }

    [[nodiscard]] std::vector<LinkCounters> Links() const override
    {
        return m_network.Links();
    }

    [[nodiscard]] std::vector<MessageRecord> Unfinished() const override
    {
        return m_network.Unfinished();
    }

    [[nodiscard]] std::vector<std::string> CheckPhysics() const override
    {
        return m_network.CheckPhysics();
    }

    [[nodiscard]] NetworkListener& Listener() const
    {
        return *m_listener;
    }

    std::uint64_t outstanding = 0;

  private:
    MessageNetwork& m_network;
    std::uint32_t m_number;
};

SharedNetwork::SharedNetwork(MessageNetwork& network)
    : m_network(network)
{
    network.SetListener(this);
}

SharedNetwork::~SharedNetwork() = default;

MessageNetwork&
SharedNetwork::NewView()
{
    if (m_views.size() >= kMaxViews)
    {
        throw std::length_error("more executors than one network can tell apart");
    }
    m_views.push_back(
        std::make_unique<View>(m_network, static_cast<std::uint32_t>(m_views.size())));
    return *m_views.back();
}

void
SharedNetwork::CallAt(SimTime time, std::function<void()> what)
{
    m_network.CallAt(time, Tagged(kMaxViews, m_calls.size()));
    m_calls.push_back(std::move(what));
}

std::uint64_t
SharedNetwork::Outstanding(std::uint32_t view) const
{
    return m_views[view]->outstanding;
}

std::uint32_t
SharedNetwork::ViewOf(MessageRecord& record)
{
    const auto view = static_cast<std::uint32_t>(record.message.cookie >> kViewShift);
    record.message.cookie &= kCookieMask;
    return view;
}

void
SharedNetwork::Delivered(const MessageRecord& record)
{
    MessageRecord own = record;
    const std::uint32_t view = ViewOf(own);
    m_views[view]->Listener().Delivered(own);
    if (m_after)
    {
        m_after(view);
    }
}

void
SharedNetwork::Finished(const MessageRecord& record)
{
    MessageRecord own = record;
    const std::uint32_t view = ViewOf(own);
    --m_views[view]->outstanding;
    m_views[view]->Listener().Finished(own);
}

void
SharedNetwork::Due(std::uint64_t cookie)
{
    const auto view = static_cast<std::uint32_t>(cookie >> kViewShift);
    if (view == kMaxViews)
    {
        const std::function<void()> call = std::move(m_calls[cookie & kCookieMask]);
        call();
        return;
    }
    m_views[view]->Listener().Due(cookie & kCookieMask);
    if (m_after)
    {
        m_after(view);
    }
}

} // namespace topoopt
