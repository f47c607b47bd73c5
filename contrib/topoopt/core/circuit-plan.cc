// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/circuit-plan.h"

#include "topoopt/core/error.h"
#include "topoopt/core/yaml-document.h"

#include <algorithm>

namespace topoopt
{

ServerCircuits
DirectedOf(const CircuitPlan& plan)
{
    ServerCircuits directed = plan.circuits;
    for (std::size_t k = 0; plan.duplex && k < plan.circuits.size(); ++k)
    {
        directed.emplace_back(plan.circuits[k].second, plan.circuits[k].first);
    }
    std::sort(directed.begin(), directed.end());
    return directed;
}

void
CheckPlan(const CircuitPlan& plan, ServerId servers, std::uint32_t degree, const std::string& what)
{
    std::vector<std::uint32_t> sending(servers);
    std::vector<std::uint32_t> receiving(servers);
    for (const auto& [from, to] : DirectedOf(plan))
    {
        const std::string circuit =
            "found a circuit " + std::to_string(from) + " -> " + std::to_string(to);
        if (from >= servers || to >= servers || from == to)
        {
            throw SpecError(what,
                            circuit + ", expected two of the servers 0.." +
                                std::to_string(servers - 1));
        }
        const bool tooMany = ++sending[from] > degree || ++receiving[to] > degree;
        if (tooMany)
        {
            throw SpecError(what,
                            circuit + " that needs NIC " + std::to_string(degree + 1) +
                                " of a server, expected at most " + std::to_string(degree) +
                                " circuits at each (a partial permutation of ports)");
        }
    }
}

CircuitPlan
WithinNics(const CircuitPlan& plan, const std::vector<std::uint32_t>& nics)
{
    std::vector<std::uint32_t> sending(nics.size());
    std::vector<std::uint32_t> receiving(nics.size());
    CircuitPlan within;
    within.duplex = plan.duplex;
    const auto room = [&](ServerId from, ServerId to) {
        return sending[from] < nics[from] && receiving[to] < nics[to];
    };
    for (const auto& [a, b] : plan.circuits)
    {
        if (!room(a, b) || (plan.duplex && !room(b, a)))
        {
            continue;
        }
        ++sending[a];
        ++receiving[b];
        if (plan.duplex)
        {
            ++sending[b];
            ++receiving[a];
        }
        within.circuits.emplace_back(a, b);
    }
    return within;
}

const std::vector<PolicyKind>&
PolicyKinds()
{
    static const std::vector<PolicyKind> table{
        {"external",
         "a program on a pipe decides every period; JSON lines, see doc/optics.rst",
         {"command", "patience"},
         true,
         true,
         true,
         policies::BuildExternal},
        {"greedy",
         "duplex circuits for the largest backlogs every period, connected, servers forward "
         "(OCS-reconfig-FW)",
         {},
         true,
         true,
         false,
         policies::BuildGreedy},
        {"greedy-direct",
         "one-way circuits for the largest backlogs every period, nobody forwards "
         "(OCS-reconfig-noFW)",
         {},
         true,
         false,
         false,
         policies::BuildGreedyDirect},
        {"scheduled",
         "given plans at given times or before given collectives",
         {"plans"},
         false,
         true,
         true,
         policies::BuildScheduled},
        {"sipml-ocs",
         "SiP-ML's permutations, one per NIC, for the backlog of every period, nobody forwards",
         {},
         true,
         false,
         false,
         policies::BuildSipMlOcs},
        {"sipml-ring",
         "SiP-ML's ring of wavelengths for the backlog of every period, nobody forwards",
         {"wavelengths"},
         true,
         false,
         false,
         policies::BuildSipMlRing},
        {"static",
         "the circuits stay as they were planned (default)",
         {},
         false,
         true,
         true,
         policies::BuildStatic},
    };
    return table;
}

const PolicyKind&
FindPolicy(const std::string& name, const std::string& place)
{
    std::vector<std::string> names;
    std::string all;
    for (const PolicyKind& kind : PolicyKinds())
    {
        if (name == kind.name)
        {
            return kind;
        }
        names.emplace_back(kind.name);
        all += (all.empty() ? "" : ", ") + names.back();
    }
    throw SpecError(place,
                    "reconfiguration.policy: found '" + Printable(name) + "', expected one of " +
                        all + DidYouMean(name, names));
}

} // namespace topoopt
