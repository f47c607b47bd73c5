// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/fabric.h"

#include <stdexcept>

namespace topoopt
{

std::vector<Ring>
RingsOf(const Fabric& fabric, const std::vector<ServerId>& group)
{
    if (group.empty())
    {
        throw std::invalid_argument("RingsOf: the group has no members");
    }
    if (fabric.rings && group.size() > 1)
    {
        std::vector<Ring> rings = fabric.rings(group);
        if (!rings.empty())
        {
            return rings;
        }
    }
    Ring ring;
    for (std::uint32_t member = 0; member < group.size(); ++member)
    {
        ring.order.push_back(member);
    }
    return {ring};
}

} // namespace topoopt
