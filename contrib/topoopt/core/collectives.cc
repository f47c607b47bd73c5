// SPDX-License-Identifier: GPL-2.0-only
#include "topoopt/core/collectives.h"

#include "topoopt/core/error.h"

#include <algorithm>

namespace topoopt
{

namespace
{

constexpr CollectiveKind kAllKinds[] = {CollectiveKind::AllReduce,
                                        CollectiveKind::Reduce,
                                        CollectiveKind::AllGather,
                                        CollectiveKind::Gather,
                                        CollectiveKind::Scatter,
                                        CollectiveKind::Broadcast,
                                        CollectiveKind::AllToAll,
                                        CollectiveKind::AllToAllV,
                                        CollectiveKind::ReduceScatter,
                                        CollectiveKind::Barrier};

const char*
DefaultAlgorithm(CollectiveKind kind)
{
    switch (kind)
    {
    case CollectiveKind::AllReduce:
    case CollectiveKind::AllGather:
    case CollectiveKind::ReduceScatter:
    case CollectiveKind::Broadcast:
    case CollectiveKind::Reduce:
        return "ring";
    case CollectiveKind::AllToAll:
    case CollectiveKind::AllToAllV:
    case CollectiveKind::Gather:
    case CollectiveKind::Scatter:
        return "direct";
    case CollectiveKind::Barrier:
        return "dissemination";
    }
    return "ring";
}

bool
CanDo(const CollectiveAlgorithm& algorithm, CollectiveKind kind)
{
    return std::find(algorithm.kinds.begin(), algorithm.kinds.end(), kind) != algorithm.kinds.end();
}

const CollectiveAlgorithm*
Find(const std::string& name)
{
    for (const CollectiveAlgorithm& algorithm : CollectiveAlgorithms())
    {
        if (name == algorithm.name)
        {
            return &algorithm;
        }
    }
    return nullptr;
}

/** A call without payload: every member has ended when it calls, as in NCCL. */
class Nothing final : public CollectiveProgram
{
  public:
    std::uint32_t Channels() const override
    {
        return 1;
    }

    std::uint32_t Steps(std::uint32_t, std::uint32_t) const override
    {
        return 0;
    }

    std::uint32_t Step(std::uint32_t,
                       std::uint32_t,
                       std::uint32_t,
                       std::vector<CollectiveSend>& sends) const override
    {
        sends.clear();
        return 0;
    }
};

std::string
NamesFor(CollectiveKind kind)
{
    std::string names;
    for (const CollectiveAlgorithm& algorithm : CollectiveAlgorithms())
    {
        if (CanDo(algorithm, kind))
        {
            names += (names.empty() ? "" : ", ") + std::string(algorithm.name);
        }
    }
    return names;
}

} // namespace

const std::vector<CollectiveAlgorithm>&
CollectiveAlgorithms()
{
    using K = CollectiveKind;
    static const std::vector<CollectiveAlgorithm> table{
        {"auto",
         "all_reduce: the least alpha-beta estimate on the fabric's links; else the default",
         {std::begin(kAllKinds), std::end(kAllKinds)},
         collectives::BuildAuto},
        {"direct",
         "every pair exchanges its part at once; reductions as scatter plus gather",
         {K::AllReduce,
          K::Reduce,
          K::AllGather,
          K::Gather,
          K::Scatter,
          K::Broadcast,
          K::AllToAll,
          K::AllToAllV,
          K::ReduceScatter},
         collectives::BuildDirect},
        {"dissemination",
         "ceil(log2 n) rounds of empty messages, round k to the member 2^k away",
         {K::Barrier},
         collectives::BuildDissemination},
        {"double-binary-tree",
         "two complementary binary trees, half of the payload each, pipelined in chunks",
         {K::AllReduce},
         collectives::BuildDoubleBinaryTree},
        {"halving-doubling",
         "log2 n exchanges of halves; other group sizes fold in, one round before and after",
         {K::AllReduce, K::AllGather, K::ReduceScatter},
         collectives::BuildHalvingDoubling},
        {"hierarchical",
         "reduce-scatter within servers, rings across, all-gather within; uneven servers: ring",
         {K::AllReduce},
         collectives::BuildHierarchical},
        {"ring",
         "over all rings that the fabric offers; broadcast and reduce as a pipelined chain",
         {K::AllReduce, K::Reduce, K::AllGather, K::Broadcast, K::ReduceScatter},
         collectives::BuildRing},
        {"tree",
         "binomial tree, ceil(log2 n) rounds; all_reduce as reduce then broadcast",
         {K::AllReduce, K::Reduce, K::Gather, K::Scatter, K::Broadcast},
         collectives::BuildTree},
    };
    return table;
}

CollectiveChoice::CollectiveChoice(const std::map<std::string, std::string>& spec)
    : m_byKind(std::size(kAllKinds), nullptr)
{
    for (CollectiveKind kind : kAllKinds)
    {
        m_byKind[static_cast<std::size_t>(kind)] = Find(DefaultAlgorithm(kind));
    }
    for (const auto& [kindName, algorithmName] : spec)
    {
        const auto* kind =
            std::find_if(std::begin(kAllKinds),
                         std::end(kAllKinds),
                         [&name = kindName](CollectiveKind k) { return name == Name(k); });
        if (kind == std::end(kAllKinds))
        {
            std::string all;
            for (CollectiveKind k : kAllKinds)
            {
                all += (all.empty() ? "" : ", ") + std::string(Name(k));
            }
            throw SpecError("collectives", "found \"" + kindName + "\", expected one of " + all);
        }
        const CollectiveAlgorithm* algorithm = Find(algorithmName);
        if (algorithm == nullptr || !CanDo(*algorithm, *kind))
        {
            throw SpecError("collectives." + kindName,
                            "found \"" + algorithmName + "\", expected one of " + NamesFor(*kind));
        }
        m_byKind[static_cast<std::size_t>(*kind)] = algorithm;
    }
}

std::unique_ptr<CollectiveProgram>
CollectiveChoice::Build(const CollectiveContext& context) const
{
    const CollectiveKind kind = context.call->kind;
    if (context.call->bytes == 0 && kind != CollectiveKind::Barrier &&
        kind != CollectiveKind::AllToAllV)
    {
        return std::make_unique<Nothing>();
    }
    return m_byKind[static_cast<std::size_t>(context.call->kind)]->build(context);
}

const char*
CollectiveChoice::NameFor(CollectiveKind kind) const
{
    return m_byKind[static_cast<std::size_t>(kind)]->name;
}

std::vector<Ring>
MemberRings(const Fabric& fabric, const std::vector<ServerId>& servers)
{
    std::vector<ServerId> distinct;
    std::vector<std::vector<std::uint32_t>> membersOf; // of each distinct server, ascending
    std::map<ServerId, std::uint32_t> index;
    for (std::uint32_t member = 0; member < servers.size(); ++member)
    {
        const auto [it, isNew] =
            index.try_emplace(servers[member], static_cast<std::uint32_t>(distinct.size()));
        if (isNew)
        {
            distinct.push_back(servers[member]);
            membersOf.emplace_back();
        }
        membersOf[it->second].push_back(member);
    }
    if (distinct.size() == 1)
    {
        return {Ring{membersOf[0], {}}};
    }
    std::vector<Ring> rings;
    for (const Ring& ring : RingsOf(fabric, distinct))
    {
        Ring expanded;
        for (std::size_t k = 0; k < ring.order.size(); ++k)
        {
            const std::vector<std::uint32_t>& local = membersOf[ring.order[k]];
            expanded.order.insert(expanded.order.end(), local.begin(), local.end());
            if (!ring.hops.empty())
            {
                expanded.hops.resize(expanded.order.size());
                expanded.hops.back() = ring.hops[k];
            }
        }
        rings.push_back(std::move(expanded));
    }
    return rings;
}

} // namespace topoopt
