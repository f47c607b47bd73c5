// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_FLEXNET_LOCKSTEP_H
#define TOPOOPT_FLEXNET_LOCKSTEP_H

#include "ns3/flexnet-paths.h"
#include "ns3/flexnet-simulation.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace topoopt
{

/**
 * Rings of AllReduces, most of whose links do the same at the same time.
 *
 * All AllReduces of the graph have the same members in the same order, every step of a ring is one link, no two
 * steps share one, and the links of a ring are equally fast. A round begins on all links of its ring at once.
 * So when no message is left, two links of a ring whose queues are in the same state remain so for good: they are
 * a block, and one of them tells what happens on all. It is the one whose event comes last among their
 * simultaneous ones, because a round ends with the last flow. When queues run empty that order becomes the
 * members', so a block begins its flows where its last member would.
 */
struct FlexNetLockstep
{
    struct Block
    {
        std::uint32_t last = 0;             ///< the member that is run
        std::vector<std::uint32_t> members; ///< ascending; that one included
    };

    struct Ring
    {
        std::vector<std::uint32_t> links; ///< by member
        std::vector<NodeId> ends;         ///< by member: where its link leads
        std::vector<Block> blocks;        ///< once begun, in order of their last members
    };

    std::vector<NodeId> members;
    std::vector<Ring> rings;
    bool begun = false; ///< only one member of each block is run

    /** The rings of a graph, if they are like that. Cost: O(tasks x members). */
    [[nodiscard]] static std::optional<FlexNetLockstep> Of(const FlexNetGraph& graph,
                                                           const FlexNetConfig& config,
                                                           FlexNetPaths& paths);

    /** The record of another member's flow; @p record is that of the member that is run. */
    [[nodiscard]] FlexNetFlowRecord RecordOf(FlexNetFlowRecord record,
                                             const Block& block,
                                             std::uint32_t member) const
    {
        record.id = IdOf(record.id, block, member);
        record.src = members[member];
        record.dst = rings[record.ring].ends[member];
        return record;
    }

    [[nodiscard]] std::uint64_t IdOf(std::uint64_t id,
                                     const Block& block,
                                     std::uint32_t member) const
    {
        return id + std::uint64_t{member} * rings.size() - std::uint64_t{block.last} * rings.size();
    }
};

} // namespace topoopt

#endif // TOPOOPT_FLEXNET_LOCKSTEP_H
