// SPDX-License-Identifier: GPL-2.0-only
#include "ns3/transport.h"

#include "topoopt/core/error.h"
#include "topoopt/core/scenario.h"

namespace topoopt
{

const std::vector<TransportKind>&
TransportKinds()
{
    static const std::vector<TransportKind> table{
        {"dctcp",
         "window of one bandwidth-delay product, cut in proportion to ECN marks (default)",
         DctcpControl},
        {"fixed-window",
         "window of one bandwidth-delay product that never changes; losses are repaired",
         FixedWindowControl},
    };
    return table;
}

const CongestionControl&
FindTransport(const std::string& name, const std::string& place)
{
    std::vector<std::string> names;
    std::string all;
    for (const TransportKind& kind : TransportKinds())
    {
        if (name == kind.name)
        {
            return kind.control();
        }
        names.emplace_back(kind.name);
        all += (all.empty() ? "" : ", ") + names.back();
    }
    const std::string near = Suggest(name, names);
    throw SpecError(place,
                    "found \"" + name + "\", expected one of " + all +
                        (near.empty() ? "" : "; did you mean \"" + near + "\"?"));
}

} // namespace topoopt
