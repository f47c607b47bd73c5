#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""The samples of ../shared/traces through the command line: every row of the manifest of made/, every number of the
README, and the public fault reports I1 to I17 (traces guide, section 3). Skipped where the samples are absent."""
import collections
import json
import os
import re
import sys
import unittest

sys.dont_write_bytecode = True
import cli_fixture as fixture
from cli_fixture import ProgramTest, read_csv, summary

SHARED = fixture.shared_traces()
MADE = os.path.join(SHARED, "made")
# In these every file is a case of its own; elsewhere a directory is one trace.
FLAT = ("chakra_made/bad", "flows_made")
TOPOLOGIES = {"hpcc_one_flow.txt": "hpcc_line2_topology.txt", "hpcc_one_flow_relayed.txt": "hpcc_line3_topology.txt"}


class SampleTest(ProgramTest):
    def inspect(self, path, **options):
        """What `topoopt inspect --json` prints for a sample."""
        words = [f"--option={key}={value}" for key, value in options.items()]
        return json.loads(self.run_ok("inspect", "--json", os.path.join(SHARED, path), *words).out)

    def bad(self, path, *parts, **options):
        """`inspect` refuses the sample with one line that holds all parts."""
        words = [f"--option={key}={value}" for key, value in options.items()]
        return self.refused(["inspect", "--json", os.path.join(SHARED, path), *words], *parts)

    def replay(self, path, servers, name="r", extra=(), fabrics="[ideal-switch]", server_keys="", **options):
        """Runs a sample; answers (summary of the first fabric, rows of its flows.csv)."""
        self.replay_scenario(name + ".yaml", path, servers, fabrics, server_keys, **options)
        self.run_ok("run", name + ".yaml", "-o", name, "--quiet", *extra, timeout=600)
        runs = summary(self.path(name))["runs"]
        for run in runs:
            self.assertTrue(run["complete"], run["fabric"])
            self.assertEqual(run["violations"], [])
            self.assertEqual(run["unfinished"], 0)
        return runs[0], read_csv(self.path(name, runs[0]["fabric"], "flows.csv"))

    def replay_scenario(self, file, path, servers, fabrics="[ideal-switch]", server_keys="", **options):
        kind = options.pop("kind", "trace")
        text = "".join(f", {key}: {json.dumps(value)}" for key, value in options.items())
        where = os.path.join(SHARED, path)
        self.scenario(file, servers=f"{{count: {servers}{server_keys}}}", fabrics=fabrics, stop="1000s",
                      workload=f"{{{kind}: {json.dumps(where)}{text}}}")


def pair_bytes(rows, kind=None):
    sums = collections.Counter()
    for row in rows:
        if kind is None or row["kind"] == kind:
            sums[int(row["src_rank"]), int(row["dst_rank"])] += int(row["bytes"])
    return +sums


class Manifest(SampleTest):
    """All 199 rows: inspect, check and run each trace, given by its first or only file; the exit codes are equal."""

    def workload(self, path, row):
        """The workload of a scenario with this case, its servers and its fabrics."""
        full = json.dumps(os.path.join(MADE, path))
        name = os.path.basename(path)
        servers = row.get("hosts") or max(2, row.get("ranks", 8))
        if not path.startswith("flows_made/"):
            return f"{{trace: {full}}}", servers, "[ideal-switch]"
        if name.endswith("_topology.txt"):
            flows = json.dumps(os.path.join(MADE, "flows_made", "hpcc_one_flow.txt"))
            return f"{{flows: {flows}, topology: {full}}}", servers, "[from-file]"
        if name.startswith("cdf"):
            return f"{{flows: {{cdf: {full}, load: 0.3, duration: 100us}}}}", 4, "[ideal-switch]"
        if name.startswith("fbflow"):
            sizes = json.dumps(os.path.join(MADE, "flows_made", "cdf_percent.txt"))
            shown = self.call("inspect", "--json", os.path.join(MADE, path))
            racks = json.loads(shown.out)["facts"]["racks"] if shown.code == 0 else 8
            return (f"{{flows: {{cdf: {sizes}, load: 0.3, duration: 100us, matrix: {full}}}}}", 2 * racks,
                    "[ideal-switch]")
        return f"{{flows: {full}}}", servers, "[ideal-switch]"

    def play(self, path, row):
        """Exit codes and messages of inspect, check and run, and the rows of flows.csv."""
        workload, servers, fabrics = self.workload(path, row)
        options = [f"--option=servers={row['hosts']}"] if "hosts" in row and row["expect"] != "aux" else []
        shown = self.call("inspect", "--json", os.path.join(MADE, row["path"]), *options)
        self.scenario("m.yaml", servers=f"{{count: {servers}}}", workload=workload, fabrics=fabrics, stop="1000s")
        check = self.call("check", "m.yaml")
        run = self.call("run", "m.yaml", "-o", "out", "--quiet")
        rows = None
        if run.code == 0:
            fabric = summary(self.path("out"))["runs"][0]["fabric"]
            rows = read_csv(self.path("out", fabric, "flows.csv"))
        return shown, check, run, rows

    def test_every_row(self):
        with open(os.path.join(MADE, "MANIFEST_made.json"), encoding="utf-8") as handle:
            manifest = json.load(handle)
        self.assertEqual(len(manifest), 199)
        played = {}
        for row in manifest:
            with self.subTest(row["path"]):
                self.row(row, played)
        self.assertGreater(len(played), 100)

    def row(self, row, played):
        path = row["path"]
        folder = os.path.dirname(path)
        case = path if folder in FLAT else folder
        if case not in played:
            played[case] = self.play(case, row)
        shown, check, run, rows = played[case]
        self.assertEqual((shown.code, check.code), (run.code, run.code), f"{shown}\n{check}\n{run}")
        expect = row["expect"]
        if expect == "error":
            self.assertEqual(shown.code, 2, str(shown))
        elif not expect.startswith(("error_or", "ok_or", "ok_local")):
            self.assertEqual(shown.code, 0, f"{expect}: {shown}")
        if shown.code != 0:
            for result in (shown, check, run):
                self.assertEqual(len(result.err.strip().split("\n")), 1, str(result))
                self.assertEqual(result.out, "")
                self.assertIn(folder, result.err)
            return
        facts = json.loads(shown.out)
        if expect == "warn":
            self.assertNotEqual(facts["warnings"], [])
            self.assertIn("warning: " + facts["warnings"][0], run.err)
        if "ranks" in row:
            self.assertEqual(facts["ranks"], row["ranks"])
        for key in ("flows", "bytes", "rows", "usable_rows", "usable_bytes"):
            if key in row:
                self.assertEqual(facts["facts"][key], row[key], key)
        if "mean" in row:
            self.assertAlmostEqual(facts["measures"]["mean_bytes"], row["mean"], places=6)
        if "flows" in row:
            self.assertEqual(len(rows), row["flows"])
        if "bytes" in row:
            self.assertEqual(sum(int(flow["bytes"]) for flow in rows), row["bytes"])
        if "ring_bytes_per_link" in row:
            sums = pair_bytes(rows, "all_reduce")
            n = row["ranks"]
            self.assertEqual(sums, {(r, (r + 1) % n): row["ring_bytes_per_link"] for r in range(n)})
        if "p2p" in row:
            self.assertEqual(pair_bytes(rows), {(src, dst): size for src, dst, size in row["p2p"]})
        if "a2av_bytes_row" in row:
            rank = int(re.search(r"-(\d+)\.", path).group(1))
            sums = pair_bytes(rows, "all_to_allv")
            for dst, size in enumerate(row["a2av_bytes_row"]):
                self.assertEqual(sums.get((rank, dst), 0), size if dst != rank else 0)
            even = {int(flow["bytes"]) for flow in rows if flow["kind"] == "all_to_all"}
            self.assertEqual(even, {row["alltoall_bytes_per_pair"]})
            self.assertIn(row["allreduce_bytes"], [c["bytes"] for c in facts["collectives"] if
                                                   c["kind"] == "all_reduce" and c["members"] == 4])


class Readme(SampleTest):
    """The numbers that the README of the samples states."""

    def sizes(self, shown, kind):
        return sorted(c["bytes"] for c in shown["collectives"] if c["kind"] == kind for _ in range(c["calls"]))

    def rank_calls(self, shown, kind):
        return sum(rank["collectives"].get(kind, 0) for rank in shown["per_rank"])

    def test_dlrm(self):
        for path in ("param/dlrm8_et_1.0.1", "param/dlrm8_et_linked", "param/dlrm8_basic_converted"):
            with self.subTest(path):
                shown = self.inspect(path)
                self.assertEqual(shown["ranks"], 8)
                for rank in shown["per_rank"]:
                    self.assertEqual(rank["collectives"], {"all_to_allv": 4, "all_to_all": 1, "all_reduce": 3})
                    self.assertEqual(rank["waits"], 5)
                self.assertEqual(shown["lists"]["waits_without_operation_rank0"], [141, 142])
                self.assertEqual(shown["lists"]["operations_without_wait_rank0"], [149, 150, 151, 153, 154])
                self.assertEqual(self.sizes(shown, "all_reduce"), [448, 907840, 1576964])
                self.assertEqual(shown["all_to_all"],
                                 {"off_diagonal_bytes": 451136,
                                  "rank0_row": [6744, 7256, 7512, 13016, 8728, 6744, 7128, 7320]})
        self.assertGreater(self.inspect("param/dlrm8_et_linked")["per_rank"][0]["compute_time_ps"], 0)
        plain, linked = (self.inspect(f"param/dlrm8_{kind}")["wire"] for kind in ("et_1.0.1", "basic_converted"))
        self.assertEqual(plain, linked, "the converted trace moves the same bytes")
        # A plain file beside compressed siblings; and the 2023 profile, which has no sizes.
        self.assertEqual(self.inspect("param/dlrm8_et_1.0.1/dlrm_eg_0.json")["ranks"], 8)
        self.bad("param/dlrm8_kineto", "execution trace")

    def test_other_pytorch_traces(self):
        gather = self.inspect("param/resnet_et/allgather_2ranks_rank_et_1.0.2.json", partial="true")
        self.assertEqual(gather["per_rank"][0]["collectives"], {"all_gather": 10})
        self.assertEqual(gather["per_rank"][0]["collective_bytes"], {"all_gather": 40})
        self.assertEqual(gather["per_rank"][0]["waits"], 10)
        self.bad("param/resnet_et/allgather_2ranks_rank_et_1.0.2.json", "all of 2 ranks, but 1 rank has a file")
        self.bad("param/resnet_et/resnet_2gpu_rank1_et_1.1.0.json.gz", "rank 0 is missing")
        half = self.inspect("param/resnet_et/resnet_2gpu_rank1_et_1.1.0.json.gz", partial="true")["per_rank"][0]
        self.assertEqual(half["collectives"], {"broadcast": 6, "all_reduce": 15})
        self.assertEqual(half["waits"], 6)
        self.assertEqual(sum(half["collective_bytes"].values()), 307323096)
        pair = self.inspect("param/resnet_2gpu_pair_derived")
        for rank in pair["per_rank"]:
            self.assertEqual(rank["collectives"], {"broadcast": 6, "all_reduce": 15})
            self.assertEqual(rank["collective_bytes"], {"broadcast": 638712, "all_reduce": 306684384})
            self.assertEqual(rank["waits"], 6)
        self.assertEqual({(p["src"], p["dst"]): p["bytes"] for p in pair["wire"]["pairs"]},
                         {(0, 1): 307323096, (1, 0): 306684384})
        one = self.inspect("param/resnet_et/resnet_1gpu_et_1.1.1.json.gz")
        self.assertEqual(sum(c["calls"] for c in one["collectives"]), 21)
        self.assertEqual(one["wire"]["bytes"], 0)
        self.assertEqual(self.inspect("param/resnet_et/linear_nocomm_et_1.0.1.json.gz")["tasks"], 0)

    def test_chakra(self):
        shown = self.inspect("chakra/resnet_rank0")
        self.assertEqual(shown["facts"]["nodes"], 3664)
        self.assertEqual(shown["facts"]["host_comm_nodes"], 14)
        self.assertEqual(shown["facts"]["ctrl_deps_to_self"], 383)
        self.assertEqual(shown["facts"]["ctrl_deps_to_absent_nodes"], 1277)
        self.assertEqual(self.sizes(shown, "broadcast"), [424, 212480])
        self.assertEqual(self.sizes(shown, "all_reduce"), [8196000, 9724160, 26255360, 26550272, 31502336])
        for name in ("chakra.0.json.gz", "small_chakra.0.json"):
            self.inspect("chakra/json/" + name, skip_unplaceable="true")
        folder = os.path.join(SHARED, "chakra/generator_4npus")
        names = sorted({file.split(".")[0] for file in os.listdir(folder)})
        self.assertEqual(len(names), 14)
        for name in names:
            with self.subTest(name):
                if name.startswith("one_comm_"):
                    self.bad(f"chakra/generator_4npus/{name}", "rank 0", "peer is unknown" if "send" in name or
                             "recv" in name else "comm_")
                else:
                    self.assertEqual(self.inspect(f"chakra/generator_4npus/{name}")["ranks"], 4)
        self.assertEqual(self.inspect("chakra/generator_4npus/ALL_REDUCE")["collectives"][0]["bytes"], 1048576)

    def test_astra_sim_and_stage(self):
        want = {"all_reduce": ("ring_bytes_per_edge", 1835008), "all_gather": ("ring_bytes_per_edge", 7340032),
                "reduce_scatter": ("ring_bytes_per_edge", 917504), "all_to_all": ("bytes_per_pair", 131072)}
        for name, (key, value) in want.items():
            shown = self.inspect("astra-sim/microbench_8npus_1MB/" + name)
            self.assertEqual(shown["ranks"], 8)
            self.assertEqual([c[key] for c in shown["collectives"]], [value], name)
        ring = self.inspect("astra-sim/custom_ring_allreduce_8npus_1MB")["transfers"]
        self.assertEqual((ring["count"], ring["bytes"]), (112, 14680064))
        self.assertEqual([(p["src"], p["dst"], p["messages"], p["bytes"]) for p in ring["pairs"]],
                         [(r, (r + 1) % 8, 14, 14 * 131072) for r in range(8)])
        table = self.inspect("astra-sim/text_converted_et")
        text = self.inspect("astra-sim/text_workloads/DLRM_HybridParallel.txt", ranks=8)
        self.assertEqual(table["facts"]["nodes"], 256)
        for shown in (table, text):
            self.assertEqual(self.rank_calls(shown, "all_to_all"), 16)
            self.assertEqual(self.rank_calls(shown, "all_reduce"), 56)
            self.assertEqual(self.sizes(shown, "all_to_all"), [98304, 98304])
        self.assertEqual(table["wire"]["bytes"], text["wire"]["bytes"], "the table and its conversion")
        for name in ("Resnet50_DataParallel", "microAllReduce", "microAllToAll"):
            self.inspect(f"astra-sim/text_workloads/{name}.txt", ranks=8)
        self.assertEqual(self.inspect("simai/microAllReduce.txt")["ranks"], 8)
        stage = self.inspect("stage/dp2tp2pp2_8ranks")
        self.assertEqual(stage["facts"]["nodes"], 416)
        self.assertEqual([self.rank_calls(stage, kind) for kind in ("all_gather", "reduce_scatter", "all_reduce")],
                         [48, 32, 24])
        self.assertEqual((stage["transfers"]["count"], stage["transfers"]["bytes"]), (8, 8 * 65536))
        self.assertEqual([sum(rank[k] for rank in stage["per_rank"]) for k in ("sends", "recvs")], [8, 8])
        self.bad("stage/misnamed", "pg_name: found group")

    def test_flow_lists(self):
        incast = self.inspect("hpcc/flow_incast_256.txt")
        self.assertEqual((incast["facts"]["flows"], incast["facts"]["lines_left"]), (2, 254))
        self.assertEqual(len(incast["warnings"]), 1)
        self.assertEqual(self.inspect("hpcc/flow_zero.txt")["facts"]["flows"], 0)
        for name in sorted(os.listdir(os.path.join(SHARED, "htsim"))):
            with self.subTest(name):
                if name.endswith(".cm"):
                    self.assertEqual(self.inspect("htsim/" + name)["format"], "htsim-cm")
        for name, flows, triggers in [("allreduce_8n_8c_100kB", 120, 112), ("serial_alltoall_8n_50kB", 56, 48)]:
            facts = self.inspect(f"htsim/{name}.cm")["facts"]
            self.assertEqual((facts["flows"], facts["triggers"]), (flows, triggers))
        opera = self.inspect("opera/flows_1percLoad_10sec_648hosts.htsim", servers=648)
        self.assertEqual((opera["facts"]["flows"], opera["facts"]["bytes"], opera["ranks"]), (10383, 79121318101, 648))
        results = self.inspect("opera/FCT_opera_pfab_cwnd20_1perc.txt")["facts"]
        self.assertEqual(results["flows"], 10371)
        self.assertGreaterEqual(results["other_lines"], 4)

    def test_distributions_and_matrices(self):
        means = {"hpcc/FbHdp_distribution.txt": 120420.75, "hpcc/WebSearch_distribution.txt": 1711250,
                 "hpcc/AliStorage2019.txt": 40869.8, "meta_dc/hadoop-all.txt": 568754.6,
                 "meta_dc/cachefollower-all.txt": 609883.0}
        for path, mean in means.items():
            self.assertAlmostEqual(self.inspect(path)["measures"]["mean_bytes"], mean, delta=0.06, msg=path)
        for name in ("FB_Hadoop_Inter_Rack_FlowCDF", "websearch", "datamining"):
            self.assertEqual(self.inspect(f"opera/{name}.csv")["format"], "size-cdf")
        matrix = self.inspect("meta_dc/cluster_a_2_16.json")
        self.assertEqual((matrix["measures"]["total"], matrix["measures"]["largest"]), (2464613, 62458))
        self.assertEqual((matrix["facts"]["racks"], matrix["facts"]["empty_cells"]), (32, 385))

    def test_kineto(self):
        shown = self.inspect("hta/nccl_metadata_rank0_of_2.json.gz", partial="true")
        self.assertEqual(shown["per_rank"][0]["collectives"], {"all_reduce": 15, "broadcast": 6})
        self.assertEqual(shown["facts"]["waits"], 6)
        self.bad("hta/sampled_rank-0_of_128.json.gz", "without collective metadata")
        self.bad("hta/rank_not_found.json.gz", "rank unknown")

    def test_task_graphs(self):
        shown = self.inspect("topoopt/100dlrm_16.fbuf")
        tasks = [shown[key + "_tasks"] for key in ("forward", "backward", "message", "allreduce", "other_compute")]
        self.assertEqual((shown["servers"], tasks, sum(tasks)), (16, [360, 360, 496, 62, 0], 1278))
        self.inspect("topoopt/100vgg_16.fbuf")


class FaultReport(SampleTest):
    """Section 3 of the guide, one test by each number."""

    def test_i01_sizes_in_any_encoding(self):
        for kind in ("int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32",
                     "sfixed64"):
            with self.subTest(kind):
                run, rows = self.replay(f"made/chakra_made/ok_size_as_{kind}", 2, kind)
                # Two ranks: each half goes round once and comes back once.
                self.assertEqual(pair_bytes(rows), {(0, 1): 123456, (1, 0): 123456})
                self.assertGreater(run["iteration_time_ps"][0], 0)
        for name in ("no_comm_size", "size_is_string", "size_nan", "negative_size"):
            self.bad(f"made/chakra_made/bad/{name}.0.et", "node 1", "comm_size")

    def test_i02_messages_of_one_key(self):
        _, rows = self.replay("made/chakra_made/ok_same_key_fifo", 2)
        self.assertEqual(pair_bytes(rows), {(0, 1): 2044000})
        self.assertEqual([row["status"] for row in rows], ["done"] * 4)
        tasks = read_csv(self.path("r", "ideal-switch", "tasks.csv"))
        self.assertEqual([task["kind"] for task in tasks if task["rank"] == "1"].count("recv"), 4)
        _, rows = self.replay("astra-sim/custom_ring_allreduce_8npus_1MB", 8, "ring")
        self.assertEqual(collections.Counter(row["bytes"] for row in rows), {"131072": 112})
        self.replay("made/chakra_made/ok_late_recv", 2, "late")
        tasks = read_csv(self.path("late", "ideal-switch", "tasks.csv"))
        ends = [int(task["end_ps"]) for task in tasks if task["kind"] == "recv"]
        self.assertEqual(ends, [5000 * 10**6])
        flows = read_csv(self.path("late", "ideal-switch", "flows.csv"))
        self.assertLess(int(flows[0]["end_ps"]), 10**9)

    def test_i03_cycles(self):
        self.bad("made/chakra_made/bad/cycle.0.et", "1 -> 2 -> 3 -> 1")
        self.bad("made/chakra_made/bad/self_dep.0.et", "node 4", "itself")
        run, _ = self.replay("chakra/resnet_rank0", 2)
        self.assertGreater(run["iteration_time_ps"][0], 0)
        self.bad("made/chakra_made/bad_cross_rank_deadlock", "deadlock", "rank 0 recv 1", "rank 1 recv 1")

    def test_i04_missing_dependency(self):
        self.bad("made/chakra_made/bad/missing_dep.0.et", "node 1", "depends on node 77, which is not in the file")

    def test_i05_collectives_without_dependencies(self):
        _, rows = self.replay("made/chakra_made/warn_no_deps", 2)
        self.assertEqual(pair_bytes(rows), {(0, 1): 300000, (1, 0): 300000})
        warnings = self.inspect("made/chakra_made/warn_no_deps")["warnings"]
        self.assertEqual(len(warnings), 1)
        self.assertIn("3 of 3 collectives of a rank have no predecessor; is the conversion right?", warnings[0])
        ops = read_csv(self.path("r", "ideal-switch", "ops.csv"))
        spans = sorted((int(op["start_ps"]), int(op["end_ps"])) for op in ops)
        for (_, end), (start, _) in zip(spans, spans[1:]):
            # A rank that is done with one goes on to the next before the other rank is.
            self.assertGreater(start, end - 10**7)
        self.assertNotEqual(spans[0][0], spans[1][0], "not all at once")

    def test_i06_ranks_files_and_servers(self):
        self.bad("made/chakra_made/bad_missing_rank_file", "x.2.et")
        path = "astra-sim/microbench_8npus_1MB/all_reduce"
        self.replay_scenario("four.yaml", path, 4)
        for command in ("check", "run"):
            self.refused([command, "four.yaml"], "8 ranks, 4 servers x 1 GPU")
        self.bad(path, "8 ranks, 4 servers x 1 GPU", servers=4)
        self.replay_scenario("many.yaml", path, 16)
        self.assertIn("server of each rank: 0 1 2 3 4 5 6 7; 8 servers idle", self.run_ok("check", "many.yaml").out)
        _, rows = self.replay(path, 16, "many")
        self.assertLess(max(int(row["src_server"]) for row in rows), 8)
        _, rows = self.replay(path, 4, "two", server_keys=", gpus: 2")
        between = [row for row in rows if row["local"] == "0"]
        self.assertEqual({(int(r["src_server"]), int(r["dst_server"])) for r in between},
                         {(s, (s + 1) % 4) for s in range(4)})
        self.assertEqual(sum(int(row["bytes"]) for row in between), 4 * 1835008)
        self.assertEqual(sum(int(row["bytes"]) for row in rows), 8 * 1835008)

    def test_i07_tiny_and_zero_sizes(self):
        run, rows = self.replay("made/chakra_made/ok_tiny_allreduce", 3)
        by_operation = collections.defaultdict(list)
        for row in rows:
            by_operation[row["op_id"]].append(int(row["bytes"]))
        ops = {op["op_id"]: op for op in read_csv(self.path("r", "ideal-switch", "ops.csv"))}
        self.assertEqual(sorted(int(op["bytes"]) for op in ops.values()), [0, 4, 1000001])
        for number, op in ops.items():
            size = int(op["bytes"])
            self.assertEqual(op["status"], "done")
            self.assertEqual(sum(by_operation[number]), 2 * 2 * size)
            if size == 4:
                self.assertEqual(set(by_operation[number]), {1, 2}, "chunks of 2, 1 and 1 B")
            if size == 0:
                self.assertEqual(by_operation[number], [], "nothing to move, no flow")
        self.assertEqual(run["iteration_time_ps"][0], max(int(op["end_ps"]) for op in ops.values()))
        _, rows = self.replay("made/chakra_made/ok_over_4gib", 2, "big")
        self.assertEqual(sum(int(row["bytes"]) for row in rows), 4294967301)

    def test_i08_all_gather_is_not_all_reduce(self):
        for name, edge in [("all_reduce", 1835008), ("all_gather", 7340032), ("reduce_scatter", 917504)]:
            _, rows = self.replay("astra-sim/microbench_8npus_1MB/" + name, 8, name)
            self.assertEqual(pair_bytes(rows), {(r, (r + 1) % 8): edge for r in range(8)})
        _, rows = self.replay("astra-sim/microbench_8npus_1MB/all_to_all", 8, "all_to_all")
        self.assertEqual(pair_bytes(rows), {(a, b): 131072 for a in range(8) for b in range(8) if a != b})
        _, rows = self.replay("astra-sim/microbench_8npus_1MB/all_gather", 8, "output", allgather_size="output")
        self.assertEqual(pair_bytes(rows)[0, 1], 7340032 // 8)
        with open(self.path("output", "ideal-switch", "flows.csv"), encoding="utf-8") as handle:
            self.assertIn("replay=allgather_size=output", handle.read())

    def test_i09_elements_taken_for_bytes(self):
        plain, rows = self.replay("stage/dp2tp2pp2_8ranks", 8, "bytes")
        twice, doubled = self.replay("stage/dp2tp2pp2_8ranks", 8, "elements", comm_size_unit="elements", elem_bytes=2)
        self.assertEqual([row["bytes"] for row in rows if row["kind"] == "send"], ["65536"] * 8)
        self.assertEqual({pair: 2 * size for pair, size in pair_bytes(rows).items()}, pair_bytes(doubled))
        self.assertEqual(twice["demand_bytes"], 2 * plain["demand_bytes"])

    def test_i10_uneven_exchanges(self):
        self.bad("made/param_basic_made/bad_split_mismatch", "pair (0,1)", "sends 3", "expects 1")
        self.bad("made/param_basic_made/bad_split_sum", "sums to 4, expected 9")
        self.bad("made/param_basic_made/bad_split_len", "3 entries", "expected 2")
        _, rows = self.replay("made/param_basic_made/ok_zero_splits", 2, "zero")
        self.assertEqual(len(pair_bytes(rows)), 1)
        self.assertEqual(len(rows), 1, "no flow for zeros")
        tasks = read_csv(self.path("zero", "ideal-switch", "tasks.csv"))
        self.assertEqual({task["rank"] for task in tasks}, {"0", "1"}, "both ranks complete it")
        _, rows = self.replay("made/param_basic_made/ok_split_in_rows", 2, "rows")
        self.assertEqual(pair_bytes(rows)[0, 1], 768)

    def test_i11_lists_cut_by_the_profiler(self):
        self.bad("made/kineto_made/bad_truncated_splits", "cut the list of splits at 30", "execution trace")

    def test_i12_peers_are_local_to_their_group(self):
        _, rows = self.replay("made/et_json_made/p2p_1.1.1", 4)
        self.assertEqual(pair_bytes(rows, "send"), {(0, 2): 20000, (1, 3): 20000})
        sources = {int(row["src_rank"]) for row in rows if row["kind"] == "broadcast"}
        self.assertEqual(sources, {0, 1}, "local root 0 of [0,2] and of [1,3]")

    def test_i13_rank_unknown_or_twice(self):
        self.bad("made/kineto_made/bad_no_rank", "rank unknown")
        self.bad("made/kineto_made/bad_duplicate_rank", "second file of rank 0")
        self.bad("made/kineto_made/bad_inf", "rank-0.json:1:")
        self.bad("hta/rank_not_found.json.gz", "rank unknown")
        self.inspect("made/kineto_made/big_comms_id")

    def test_i14_what_the_fct_columns_mean(self):
        ideals = []
        for number, (flows, topology) in enumerate(sorted(TOPOLOGIES.items())):
            run, rows = self.replay("made/flows_made/" + flows, number + 2, f"f{number}", kind="flows",
                                    fabrics="[from-file]",
                                    topology=os.path.join(MADE, "flows_made", topology))
            self.assertEqual(len(rows), 1)
            row = rows[0]
            self.assertGreaterEqual(int(row["fct_ps"]), int(row["ideal_ps"]))
            self.assertGreaterEqual(float(row["slowdown"]), 1)
            self.assertLessEqual(float(row["slowdown"]), 1.1)
            self.assertEqual(int(row["hops"]), number + 1)
            self.assertLess(int(row["fct_ps"]), int(row["fct_ack_ps"]))
            # 80 us for the payload alone at 100 Gb/s.
            self.assertGreater(int(row["ideal_ps"]), 80 * 10**6)
            ideals.append(int(row["ideal_ps"]))
        self.assertLess(ideals[0], ideals[1], "a relay costs a store-and-forward more")

    def test_i15_missing_and_empty_input(self):
        self.bad("made/no_such_trace", "made/no_such_trace", "no such file")
        self.bad("made/flows_made/hpcc_empty.txt", "empty file")
        self.replay_scenario("zero.yaml", "made/flows_made/hpcc_zero.txt", 4, kind="flows")
        self.write("file", "")
        # Nobody, root included, can make a directory below a file.
        self.refused(["run", "zero.yaml", "-o", "file/out"], "file/out")
        for path in ("made/no_such_trace", "made/flows_made/hpcc_empty.txt"):
            self.replay_scenario("bad.yaml", path, 4, kind="flows")
            self.refused(["run", "bad.yaml", "-o", "out"], path)
        run, rows = self.replay("made/flows_made/hpcc_zero.txt", 4, "zero", kind="flows")
        self.assertEqual((run["flows"], rows), (0, []))
        with open(self.path("zero", "ideal-switch", "flows.csv"), encoding="utf-8") as handle:
            self.assertIn("flow_id,", handle.read())
        self.run_ok("plot", "zero", "-o", "plots", timeout=300)

    def test_i16_which_flows_leave_the_server(self):
        _, rows = self.replay("astra-sim/microbench_8npus_1MB/all_to_all", 4, server_keys=", gpus: 2")
        self.assertEqual(len(rows), 56)
        self.assertEqual(len([row for row in rows if row["local"] == "1"]), 8)
        self.assertEqual(len([row for row in rows if row["local"] == "0"]), 48)
        for row in rows:
            self.assertEqual(row["local"] == "1", row["src_server"] == row["dst_server"])

    def test_i17_broadcasts_are_sent(self):
        _, rows = self.replay("param/resnet_2gpu_pair_derived", 2)
        self.assertEqual(pair_bytes(rows), {(0, 1): 307323096, (1, 0): 306684384})
        ops = collections.Counter(op["kind"] for op in read_csv(self.path("r", "ideal-switch", "ops.csv")))
        self.assertEqual(ops, {"broadcast": 6, "all_reduce": 15})


if __name__ == "__main__":
    fixture.ready()
    unittest.main(verbosity=1)
