// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_COLLECTIVES_H
#define TOPOOPT_CORE_COLLECTIVES_H

#include "topoopt/core/fabric.h"
#include "topoopt/core/task-graph.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace topoopt
{

/** One message that a member sends in a step of a collective. */
struct CollectiveSend
{
    std::uint32_t peer = 0;     ///< member index of the receiver
    std::uint32_t peerStep = 0; ///< the receiver's step that this message counts for
    Bytes bytes = 0;            ///< may be 0: a message that only synchronises
    const Path* path = nullptr; ///< null = ask the fabric's router
};

/**
 * A collective as a program for each member: channels that run independently, each a sequence of steps.
 *
 * On entering a step a member hands the step's messages to the transport; it leaves the step when the
 * expected number of messages for this (channel, step) has arrived, and goes on to the next. A member has
 * ended when all its channels have. Messages may arrive before the step they count for is entered. Programs
 * are stateless and cheap: steps are computed when asked for, so that a ring of 4096 members costs no memory.
 */
class CollectiveProgram
{
  public:
    virtual ~CollectiveProgram() = default;

    /** Number of channels, the same for all members; at least 1. */
    [[nodiscard]] virtual std::uint32_t Channels() const = 0;
    /** Number of steps of a channel for a member; 0 = the member has nothing to do there. */
    [[nodiscard]] virtual std::uint32_t Steps(std::uint32_t channel,
                                              std::uint32_t member) const = 0;
    /**
     * Fills @p sends (cleared first) with what the member sends on entering the step.
     * @return how many messages the member must have received for this step before it leaves it
     */
    virtual std::uint32_t Step(std::uint32_t channel,
                               std::uint32_t member,
                               std::uint32_t step,
                               std::vector<CollectiveSend>& sends) const = 0;
};

/** What an algorithm may look at. */
struct CollectiveContext
{
    const CollectiveCall* call = nullptr;
    std::vector<ServerId>
        servers; ///< of each member, in group order; repeats = ranks of one server
    const Fabric* fabric = nullptr;
};

/** One entry of the table of algorithms. */
struct CollectiveAlgorithm
{
    const char* name;                  ///< as in `collectives: {all_reduce: NAME}`
    const char* help;                  ///< one line for `topoopt list`
    std::vector<CollectiveKind> kinds; ///< what it can do
    std::unique_ptr<CollectiveProgram> (*build)(const CollectiveContext& context);
};

/** All algorithms, sorted by name. Adding one: a file in collectives/, its declaration and its entry here. */
[[nodiscard]] const std::vector<CollectiveAlgorithm>& CollectiveAlgorithms();

/** Algorithm of each collective kind; the scenario's `collectives:` section over the defaults. */
class CollectiveChoice
{
  public:
    /**
     * @param spec collective name (`all_reduce`, ...) -> algorithm name
     * @throws SpecError for a name that does not exist or does not fit, with what would
     */
    explicit CollectiveChoice(const std::map<std::string, std::string>& spec = {});

    /** A call of 0 bytes has no steps, whatever the algorithm; a barrier has. */
    [[nodiscard]] std::unique_ptr<CollectiveProgram> Build(const CollectiveContext& context) const;
    /** Name of the algorithm that Build() takes for @p kind. */
    [[nodiscard]] const char* NameFor(CollectiveKind kind) const;

  private:
    std::vector<const CollectiveAlgorithm*> m_byKind; ///< indexed by CollectiveKind
};

/**
 * The rings of a fabric over the members of a group.
 *
 * Rings are given over distinct servers; members on one server follow each other in group order, so a
 * ring enters and leaves a server once.
 */
[[nodiscard]] std::vector<Ring> MemberRings(const Fabric& fabric,
                                            const std::vector<ServerId>& servers);

namespace collectives
{
/**
 * Pieces of this size leave a host one after the other in the order in which they are handed over: one burst of the
 * packet engine's transport at its default MTU (seven full packets). Longer messages of one host take turns, so that the
 * first would arrive hardly before the last: whatever relies on an order is cut into such pieces.
 */
inline constexpr Bytes kBurst = 7 * 8956;

std::unique_ptr<CollectiveProgram> BuildRing(const CollectiveContext& context);
std::unique_ptr<CollectiveProgram> BuildDirect(const CollectiveContext& context);
std::unique_ptr<CollectiveProgram> BuildDissemination(const CollectiveContext& context);
std::unique_ptr<CollectiveProgram> BuildTree(const CollectiveContext& context);
std::unique_ptr<CollectiveProgram> BuildDoubleBinaryTree(const CollectiveContext& context);
std::unique_ptr<CollectiveProgram> BuildHalvingDoubling(const CollectiveContext& context);
/** The ring if !FitsHierarchical(). */
std::unique_ptr<CollectiveProgram> BuildHierarchical(const CollectiveContext& context);
/** Whether there are several servers and each has the same number of members, more than one. */
[[nodiscard]] bool FitsHierarchical(const std::vector<ServerId>& servers);
/**
 * The AllReduce with the least estimated time; the default algorithm for every other kind.
 *
 * Ring, hierarchical (where it fits), halving-doubling, double-binary-tree and tree are compared, the earlier
 * one winning ties. A round costs the latency of its longest way (delays, and one frame per relay) plus
 * what the busiest link needs for the round's bytes, on the ways that the messages would take; a ring is its
 * first step times their number, a double tree 2 ceil(log2 n) latencies plus the busiest link's bytes of all
 * chunks, a binomial tree as many latencies as its longest chain has messages. Groups on one server take the ring. Cost: a route per message of the trees and of halving-doubling,
 * O(n log n), less than running them.
 */
std::unique_ptr<CollectiveProgram> BuildAuto(const CollectiveContext& context);
} // namespace collectives

} // namespace topoopt

#endif // TOPOOPT_CORE_COLLECTIVES_H
