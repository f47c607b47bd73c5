// SPDX-License-Identifier: GPL-2.0-only
#ifndef TOPOOPT_CORE_READERS_FLEXNET_H
#define TOPOOPT_CORE_READERS_FLEXNET_H

#include "topoopt/core/fabric.h"
#include "topoopt/core/ids.h"
#include "topoopt/core/task-graph.h"
#include "topoopt/core/units.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace topoopt
{

/** Type of a FlexNet task; the numbers are those of the file. */
enum class FlexNetTaskKind : std::int16_t
{
    Forward = 0,
    Backward = 1,
    Update = 3,
    Barrier = 4,
    Message = 5,  ///< NOMINAL_COMM: one point-to-point flow
    AllReduce = 6 ///< `next` holds its group, not successors
};

/** Type of a FlexNet device; the numbers are those of the file. */
enum class FlexNetDeviceKind : std::int16_t
{
    Gpu = 0,
    Cpu = 1,
    PciToHost = 10,
    PciToDevice = 11,
    NvLink = 12,
    Network = 13,
    NetworkNominal = 14
};

/** One task, as in the file, its references resolved to indices. */
struct FlexNetTask
{
    FlexNetTaskKind kind = FlexNetTaskKind::Forward;
    std::uint64_t id = 0;         ///< arbitrary and unique
    std::uint32_t device = kNoId; ///< index into FlexNetGraph::devices; kNoId for AllReduce
    float runtimeMs = 0; ///< run time; AllReduce: delay before its first round; Message: unused
    Bytes bytes = 0;     ///< Message: size; AllReduce: size of the reduced vector
    /** AllReduce: servers in ring order. Others: indices of the successors, in file order. */
    std::vector<std::uint32_t> next;
    std::uint64_t at = 0; ///< byte offset in the (decompressed) file; for messages
};

/** One device, as in the file. */
struct FlexNetDevice
{
    FlexNetDeviceKind kind = FlexNetDeviceKind::Gpu;
    std::uint64_t id = 0;
    std::uint64_t node = 0;     ///< server of a GPU, CPU or bus
    std::uint64_t property = 0; ///< GPU: its number; network: src * (nodes + switches) + dst
    std::uint64_t bandwidth = 0;
    std::uint64_t at = 0; ///< byte offset
};

/** One entry of the connection list: a duplex cable bundle. */
struct FlexNetConnection
{
    NodeId a = 0;
    NodeId b = 0;
    std::uint32_t count =
        0; ///< cables; the reference simulator makes them one link of that many times the rate
};

/** One listed way of a route; node numbers, both ends included. */
struct FlexNetPath
{
    std::vector<NodeId> nodes;
    float chance = 0; ///< written by the search, ignored by the reference simulator
};

/** The ways from one node to another; empty for a node to itself. */
struct FlexNetRoute
{
    NodeId src = 0;
    NodeId dst = 0;
    std::vector<FlexNetPath> paths;
};

/** How groups of `groupSize` servers are ringed: each ring is a list of hops, node i -> i + jump. */
struct FlexNetRings
{
    std::uint64_t groupSize = 0;
    std::vector<std::vector<std::uint32_t>> jumps; ///< one list per ring; each jump in 0..nodes-1
};

/** An operator of the model; for tables only. */
struct FlexNetOperator
{
    std::uint64_t id = 0;
    std::uint64_t type = 0;
    std::string name;
};

/**
 * A FlexNet task graph (FlexFlow's `--taskgraph` export): one training iteration of one job, and the
 * fabric it was searched for. As in the file, verified.
 */
struct FlexNetGraph
{
    std::string file; ///< where it was read from; for messages
    std::uint32_t gpusPerNode = 1;
    std::uint32_t nodes = 0;    ///< servers, numbered 0..nodes-1
    std::uint32_t switches = 0; ///< numbered from `nodes`
    float intraBandwidth = 0;   ///< B/ms
    float dramBandwidth = 0;    ///< B/ms
    float networkBandwidth = 0; ///< B/ms of one interface
    std::vector<FlexNetConnection> connections;
    std::vector<FlexNetOperator> operators;
    std::vector<FlexNetTask> tasks;
    std::vector<FlexNetDevice> devices;
    std::vector<FlexNetRoute> routes;
    std::vector<FlexNetRings> rings; ///< empty: every AllReduce is one ring in group order

    /** Source of a network device. */
    [[nodiscard]] NodeId SourceOf(const FlexNetDevice& device) const
    {
        return static_cast<NodeId>(device.property / (std::uint64_t{nodes} + switches));
    }

    /** Destination of a network device. */
    [[nodiscard]] NodeId DestinationOf(const FlexNetDevice& device) const
    {
        return static_cast<NodeId>(device.property % (std::uint64_t{nodes} + switches));
    }

    /** Whether the task is a flow: a Message on a network device. On another device it is computed. */
    [[nodiscard]] bool IsFlow(const FlexNetTask& task) const
    {
        return task.kind == FlexNetTaskKind::Message &&
               devices[task.device].kind >= FlexNetDeviceKind::Network;
    }
};

/**
 * Reads and verifies a task graph in FlatBuffers form, gzipped or not.
 *
 * Every offset is checked against the file, every allocation bounded by its size. Verified besides:
 * ids unique and known, device and node numbers in range, run times finite, no cycle, links of paths and
 * rings in the connection list; if the file carries a fabric, a way for every message and, if it carries
 * rings, rings for the size of every group.
 * Cost: O(file). At most 2 GiB, the limit of the format.
 * @throws SpecError one line: file, byte (of the decompressed content) or record, found, expected
 */
[[nodiscard]] FlexNetGraph ReadFlexNet(const std::string& path);

/**
 * Whether a file (gzipped or not) begins like a FlexNet task graph: a FlatBuffers root table with at most
 * the format's twelve fields. The format has no signature; text and protobuf never look like this.
 */
[[nodiscard]] bool IsFlexNet(const std::string& path);

/** The same from memory; @p file is for messages. */
[[nodiscard]] FlexNetGraph ParseFlexNet(std::string_view content, const std::string& file);

/**
 * The checks of ReadFlexNet() that do not need the file's bytes; for graphs made in memory.
 * @throws SpecError
 */
void VerifyFlexNet(const FlexNetGraph& graph);

/** What `inspect` says about a task graph. */
struct FlexNetStatistics
{
    std::uint32_t nodes = 0;
    std::uint32_t switches = 0;
    std::uint64_t cables = 0;
    std::uint64_t forward = 0;
    std::uint64_t backward = 0;
    std::uint64_t otherCompute = 0;
    std::uint64_t allReduces = 0;
    std::uint64_t messages = 0;
    std::uint64_t dependencies = 0;
    /** By group size: number of AllReduces and the sum of their bytes. */
    std::map<std::uint64_t, std::pair<std::uint64_t, Bytes>> groups;
    Bytes messageBytes = 0;
    std::uint64_t messagePairs = 0; ///< ordered (source, destination) pairs that exchange messages
    double busyMaxMs = 0;           ///< sum of run times of the busiest GPU
    double busyMinMs = 0;
    double allReduceDelayMs =
        0; ///< sum of the AllReduces' own run times (reduction inside servers)
    std::map<std::uint64_t, std::uint64_t> rings; ///< by group size: number of rings
};

[[nodiscard]] FlexNetStatistics Inspect(const FlexNetGraph& graph);
/** Lines "key: value" for people. */
[[nodiscard]] std::string ToText(const FlexNetStatistics& statistics);
/** One JSON object. */
[[nodiscard]] std::string ToJson(const FlexNetStatistics& statistics);

/**
 * The fabric that the file carries.
 *
 * A connection of k cables becomes one link of k times @p rate, as in the reference simulator. A message
 * takes one of its listed paths with equal chance (the reference ignores `chance`). Rings of a group of g
 * servers: the file's jump lists of size g, stepping from the group's first server; where that walk does
 * not visit exactly the group's servers, and for sizes without jump lists, one ring in group order.
 * @param rate of one cable
 * @param delay one-way propagation of every link
 * @param seed of the choice between paths
 * @throws SpecError if the file carries no connections
 */
[[nodiscard]] Fabric FlexNetFabric(const FlexNetGraph& graph,
                                   BitRate rate,
                                   SimTime delay,
                                   std::uint64_t seed);

/**
 * The workload for the generic executor; runs on any fabric.
 *
 * Ranks are GPUs: server * gpusPerNode + number; collectives and messages run between the first GPUs of
 * servers. An AllReduce starts when all its predecessors have finished, wherever they ran: a Join before
 * its members, whose `duration` is the AllReduce's own delay. Messages become Transfers.
 */
[[nodiscard]] TaskGraph FlexNetTaskGraph(const FlexNetGraph& graph);

/**
 * Run time of a compute task in ps as the reference simulator rounds it: the product with 1e9 is taken
 * in single precision, then truncated.
 */
[[nodiscard]] SimTime FlexNetComputeTime(float runtimeMs);
/** Delay of an AllReduce in ps as the reference simulator rounds it: in double precision, truncated. */
[[nodiscard]] SimTime FlexNetAllReduceDelay(float runtimeMs);

/**
 * Indices of the tasks in the order in which the reference simulator walks them, which is the iteration
 * order of GNU libstdc++'s unordered_map keyed by the task ids; its tasks without predecessors start 1 ps
 * apart in this order. Computed from the rules of that container, so it is the same everywhere.
 */
[[nodiscard]] std::vector<std::uint32_t> FlexNetReferenceOrder(const FlexNetGraph& graph);

} // namespace topoopt

#endif // TOPOOPT_CORE_READERS_FLEXNET_H
