// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/transport.h"

namespace topoopt
{

namespace
{

/** No congestion control: the window stays what fills the idle path. A baseline. */
class FixedWindow final : public CongestionControl
{
  public:
    void Start(SenderState&) const override
    {
    }

    void Acknowledged(SenderState&, AckReport) const override
    {
    }

    void Lost(SenderState&) const override
    {
    }

    void TimedOut(SenderState&) const override
    {
    }
};

} // namespace

const CongestionControl&
FixedWindowControl()
{
    static const FixedWindow control;
    return control;
}

} // namespace topoopt
