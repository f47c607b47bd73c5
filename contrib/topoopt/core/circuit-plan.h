// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_CIRCUIT_PLAN_H
#define TOPOOPT_CORE_CIRCUIT_PLAN_H

#include "topoopt/core/ids.h"
#include "topoopt/core/units.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace topoopt
{

/** Circuits between servers: each joins one sending port of `first` to one receiving port of `second`; repeats are parallel. */
using ServerCircuits = std::vector<std::pair<ServerId, ServerId>>;

/** What is to be lit. */
struct CircuitPlan
{
    ServerCircuits circuits;
    bool duplex = true; ///< each circuit stands for both directions, through one NIC at either end
};

/** The directed circuits of a plan, ascending. */
[[nodiscard]] ServerCircuits DirectedOf(const CircuitPlan& plan);

/**
 * Refuses a plan whose circuits are not a partial permutation of ports: a server that sends or receives more circuits than it
 * has NICs, that does not exist, or that is joined to itself. The message begins with @p what.
 * @throws SpecError
 */
void CheckPlan(const CircuitPlan& plan,
               ServerId servers,
               std::uint32_t degree,
               const std::string& what);

/**
 * What of a plan can be lit where only some NICs of a server are usable: its circuits in their order, those left out for which
 * a server has none any more. A duplex circuit needs one at either end in both directions.
 * @param nics usable ones, by server
 */
[[nodiscard]] CircuitPlan WithinNics(const CircuitPlan& plan,
                                     const std::vector<std::uint32_t>& nics);

/** What a policy may look at when it is asked for a plan. */
struct PlanView
{
    SimTime now = 0;
    ServerId servers = 0;
    std::uint32_t degree = 1;        ///< NICs of a server
    std::vector<std::uint32_t> nics; ///< of these, usable ones as far as is known, by server
    std::vector<double> backlog; ///< bytes not yet acknowledged, servers * servers, row = source
    const CircuitPlan* lit = nullptr; ///< as things are
    std::size_t trigger = 0;          ///< which of Triggers() has come, if the policy has such
};

/** When a policy that is not periodic wants to be asked. */
struct PlanTrigger
{
    SimTime at = kNever;
    std::uint32_t before =
        kNoId; ///< or: when the first member calls this collective of an iteration
};

/** Decides from time to time which circuits are lit. */
class ReconfigurationPolicy
{
  public:
    virtual ~ReconfigurationPolicy() = default;

    /** The next plan; nothing = as it is. @throws SpecError */
    [[nodiscard]] virtual std::optional<CircuitPlan> Next(const PlanView& view) = 0;

    /** Of a policy that is not periodic. */
    [[nodiscard]] virtual std::vector<PlanTrigger> Triggers() const
    {
        return {};
    }
};

/** What a policy is made from. */
struct PolicyContext
{
    ServerId servers = 0;
    std::uint32_t degree = 1;
    std::uint64_t seed = 1;
    bool forwarding = true; ///< whether servers pass traffic on
    std::map<std::string, std::string>
        options;       ///< of the scenario, as text: those that the policy names
    std::string place; ///< for messages
};

/** One entry of the table of policies. */
struct PolicyKind
{
    const char* name;                 ///< as in `reconfiguration: {policy: NAME}`
    const char* help;                 ///< one line for `topoopt list`
    std::vector<const char*> options; ///< keys besides those of every policy
    bool periodic;   ///< asked every period; else at the times that it brings along
    bool forwarding; ///< whether servers pass traffic on unless the scenario says otherwise
    bool
        manyRings; ///< whether AllReduce uses all rings of its circuits unless the scenario says otherwise
    std::unique_ptr<ReconfigurationPolicy> (*build)(const PolicyContext& context);
};

/** All policies, sorted by name. Adding one: a file in policies/, its declaration here and its entry. */
[[nodiscard]] const std::vector<PolicyKind>& PolicyKinds();

/** @throws SpecError naming @p place for an unknown name, with a suggestion */
[[nodiscard]] const PolicyKind& FindPolicy(const std::string& name, const std::string& place);

namespace policies
{
std::unique_ptr<ReconfigurationPolicy> BuildExternal(const PolicyContext& context);
std::unique_ptr<ReconfigurationPolicy> BuildGreedy(const PolicyContext& context);
std::unique_ptr<ReconfigurationPolicy> BuildGreedyDirect(const PolicyContext& context);
std::unique_ptr<ReconfigurationPolicy> BuildScheduled(const PolicyContext& context);
std::unique_ptr<ReconfigurationPolicy> BuildSipMlOcs(const PolicyContext& context);
std::unique_ptr<ReconfigurationPolicy> BuildSipMlRing(const PolicyContext& context);
std::unique_ptr<ReconfigurationPolicy> BuildStatic(const PolicyContext& context);
} // namespace policies

} // namespace topoopt

#endif // TOPOOPT_CORE_CIRCUIT_PLAN_H
