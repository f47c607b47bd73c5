// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_NIC_FAILURES_H
#define TOPOOPT_NIC_FAILURES_H

#include "topoopt/core/ids.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace topoopt
{

/** A server and one of its NICs. */
using NicPort = std::pair<ServerId, std::uint32_t>;

/** Told of broken NICs where circuits change, so that links do not stay what they are. Failures of one NIC may overlap. */
class NicFailures
{
  public:
    virtual ~NicFailures() = default;

    /** NICs of every server. */
    [[nodiscard]] virtual std::uint32_t Nics() const = 0;
    /** The light of whatever is joined to them is gone now. */
    virtual void NicsFail(const std::vector<NicPort>& nics) = 0;
    /** The control learns that they are broken, or work again. */
    virtual void NicsKnown(const std::vector<NicPort>& nics, bool broken) = 0;
    /** They work again. */
    virtual void NicsReturn(const std::vector<NicPort>& nics) = 0;
};

} // namespace topoopt

#endif // TOPOOPT_NIC_FAILURES_H
