// SPDX-License-Identifier: GPL-2.0-only
// Damaged input: every good file cut at each byte, and single bits turned. The outcome is an error or a success, never
// anything else; the sanitizer build of this test is what makes it strong.
#include "../sanitizers.h"
#include "chakra-encoder.h"
#include "topoopt/core/trace-flows.h"
#include "trace-support.h"

#include <algorithm>

namespace topoopt
{
namespace
{

using test::Memory;
using test::SharedTraces;

using Files = std::vector<std::pair<std::string, std::string>>;

/** Whether @p files can be read. Any exception but SpecError fails the test. */
bool
Readable(const Files& files, const std::string& what)
{
    try
    {
        (void)InspectFiles(Memory(files), {});
        return true;
    }
    catch (const SpecError& error)
    {
        EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << what;
    }
    catch (const std::exception& error)
    {
        ADD_FAILURE() << what << ": " << error.what();
    }
    return false;
}

/** Cuts the first file at every byte and turns one bit of every byte; other ranks stay whole. */
void
Damage(const Files& files, std::size_t step = 1)
{
    const auto& [name, content] = files[0];
    ASSERT_TRUE(Readable(files, name));
    Files damaged = files;
    for (std::size_t at = 0; at < content.size(); at += step)
    {
        damaged[0].second = content.substr(0, at);
        Readable(damaged, name + " cut at " + std::to_string(at));
        damaged[0].second = content;
        damaged[0].second[at] = static_cast<char>(content[at] ^ (1 << (at % 8)));
        Readable(damaged, name + " bit turned at " + std::to_string(at));
    }
}

TEST(Damaged, OwnSamplesOfEveryFormat)
{
    using namespace test;
    const std::string a =
        Metadata() + Compute(1, 5) + Collective(2, 0, 100, {1}) + Send(3, 1, 10, {2}, 4);
    const std::string b = Metadata() + Collective(2, 0, 100) + Recv(3, 0, 10, {2}, 4);
    Damage({{"x.0.et", a}, {"x.1.et", b}});
    const std::string et =
        R"({"schema":"1.1.0-chakra.0.0.4","nodes":[{"id":3,"name":"## process_group:init ##","inputs":{"values":["[{\"pg_name\":\"0\",\"ranks\":[],\"group_size\":1}]"]}},)"
        R"({"id":7,"name":"record_param_comms","inputs":{"values":[[[1,2,0,8,4,"c"]],[5,false],["0","d"],0,"allreduce",[],[],0,1,1]},"outputs":{"values":[[[1,2,0,8,4,"c"]]]},"attrs":[{"name":"dtype","type":"string","value":"Float"},{"name":"in_msg_nelems","type":"uint64","value":8}]}]})";
    Damage({{"t.json", et}});
    Damage(
        {{"k.json",
          R"({"distributedInfo":{"rank":0,"world_size":1},"traceEvents":[{"cat":"kernel","name":"nccl","ts":1.5,"dur":2,"args":{"Collective name":"all_to_allv","In msg nelems":3,"Out msg nelems":3,"dtype":"Int","In split size":"[3]","Out split size":"[3]"}}]})"}});
    Damage(
        {{"p.json",
          R"([{"comms":"init","pg_id":0,"world_size":1,"global_ranks":[0]},{"comms":"all_to_allv","req":[1,false],"in_msg_size":3,"out_msg_size":3,"in_split":[3],"out_split":[3],"dtype":"int","startTime_ns":5},{"comms":"wait","req":[1,false]}])"}});
    Damage(
        {{"c.json",
          R"({"workload_graph":[{"Id":1,"NodeType":4,"runtime":7},{"Id":2,"NodeType":7,"data_deps":[1],"comm_type":0,"comm_size":4}]})"}});
    Damage({{"f.txt", "2\n0 1 3 100 10 1.5\n1 2 3 100 20 2\n"}});
    Damage({{"m.cm",
             "Nodes 3\nConnections 2\nTriggers 1\n0->1 id 1 start 0 size 5 send_done_trigger "
             "1\n1->2 id 2 trigger 1 size 6\ntrigger id 1 oneshot\n"}});
    Damage({{"o.htsim", "0 1 100 5\n1 2 200 6\n"}});
    Damage({{"c.txt", "0 0\n10 50\n20 100\n"}});
    Damage({{"r.json", R"({"matrix":{"inner":[[1,2],[3,4]]}})"}});
    Damage({{"fb.tsv", "1\t2\ta\tb\tc\td\t6\te\tf\tr1\tr2\tp\tq\t0\t0\n"}});
    Damage({{"h.txt", "3 1 2\n0\n1 0 1Gbps 1us 0\n2 0 1Gbps 1us 0\n"}});
    Damage({{"h.topo",
             "Nodes 4\nTiers 2\nPodsize 4\nTier 0\nDownlink_speed_Gbps 1\nRadix_Down 2\nRadix_Up "
             "2\nTier 1\nDownlink_speed_Gbps 1\nRadix_Down 2\n"}});
    Damage({{"l.txt",
             "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: 1 vpp: 1 ga: 1 "
             "all_gpus: 4\n1\nl -1 1 ALLREDUCE 8 1 NONE 0 1 ALLGATHER 8 1\n"}});
    Damage({{"g.goal",
             "num_ranks 2\nrank 0 {\na: calc 5\nb: send 3b to 1 tag 1\nb requires a\n}\nrank 1 "
             "{\nrecv 3b from 0 tag 1\n}\n"}});
}

TEST(Damaged, EverySmallSample)
{
    SKIP_WITHOUT_SHARED();
    namespace fs = std::filesystem;
    // Directories are traces of several ranks; elsewhere each file stands alone.
    std::vector<std::string> folders;
    for (const auto& entry : fs::recursive_directory_iterator(SharedTraces() + "made"))
    {
        const std::string path = entry.path().string();
        if (entry.is_directory() && path.find("/bad") == std::string::npos)
        {
            folders.push_back(path);
        }
    }
    std::sort(folders.begin(), folders.end());
    constexpr std::size_t kLargest = 16384;
    std::size_t tried = 0;
    for (const std::string& folder : folders)
    {
        Files files;
        for (const auto& entry : fs::directory_iterator(folder))
        {
            if (entry.is_regular_file() && entry.file_size() <= kLargest)
            {
                files.emplace_back(entry.path().string(), test::ReadFile(entry.path().string()));
            }
        }
        std::sort(files.begin(), files.end());
        std::vector<Files> sets;
        if (folder.find("flows_made") == std::string::npos)
        {
            sets.push_back(files);
        }
        else
        {
            for (const auto& file : files)
            {
                sets.push_back({file});
            }
        }
        for (const Files& set : sets)
        {
            if (set.empty() || !Readable(set, folder))
            {
                continue;
            }
            ++tried;
            std::size_t total = 0;
            for (const auto& file : set)
            {
                total += file.second.size();
            }
            // Each byte of what is small; of larger sets as many places as the time allows.
            constexpr std::size_t kWork = test::kSanitized ? 100'000 : 4'000'000;
            const std::size_t step = 1 + set[0].second.size() * total / kWork;
            Damage(set, step);
        }
    }
    EXPECT_GE(tried, 40u);
}

} // namespace
} // namespace topoopt
