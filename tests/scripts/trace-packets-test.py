#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Real traces of ../shared/traces, packet by packet on topoopt, Fat-tree and ideal switch, and a generated transformer
iteration. Skipped where the samples are absent, the generated one aside."""
import json
import os
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
import cli_fixture as fixture
from cli_fixture import ProgramTest, read_csv, summary

FABRICS = ("topoopt", "fat-tree", "ideal-switch")


class PacketTest(ProgramTest):
    def replay(self, path, servers, kind="trace", fabrics=FABRICS, engine=None, **options):
        """Runs a trace on all fabrics; answers their summaries."""
        text = "".join(f", {key}: {json.dumps(value)}" for key, value in options.items())
        self.scenario(servers=servers, fabrics=f"[{', '.join(fabrics)}]", stop="1000s", engine=engine,
                      workload=f"{{{kind}: {json.dumps(path)}{text}}}")
        self.run_ok("run", "s.yaml", "-o", "out", "--quiet", timeout=800)
        runs = summary(self.path("out"))["runs"]
        self.assertEqual(len(runs), len(fabrics))
        for run in runs:
            self.assertTrue(run["complete"], run["fabric"])
            self.assertEqual((run["unfinished"], run["violations"]), (0, []), run["fabric"])
            self.assertGreaterEqual(run["wire_bytes"], run["demand_bytes"])
            if run["flows"] > 0:
                self.assertGreaterEqual(run["max_slowdown"], 1)
        return runs


class Generated(PacketTest):
    def make(self, **numbers):
        words = [word for key, value in numbers.items() for word in ("--" + key, str(value))]
        made = subprocess.run(["/usr/bin/python3", os.path.join(fixture.SOURCE, "scripts", "make-llm-trace.py"),
                               self.path("llm"), *words], capture_output=True, text=True, check=True)
        return json.loads(made.stdout)

    def test_a_transformer_iteration(self):
        tp, dp, pp, layers, micro = 2, 2, 2, 4, 3
        made = self.make(tp=tp, dp=dp, pp=pp, layers=layers, microbatches=micro, hidden=64, sequence=32)
        shown = json.loads(self.run_ok("inspect", "--json", "llm").out)
        self.assertEqual(shown["ranks"], tp * dp * pp)
        calls = {(c["kind"], c["members"], c["bytes"]): c["calls"] for c in shown["collectives"]}
        # Two AllReduces per layer and direction for each microbatch of each replica; one of gradients per layer and
        # shard.
        self.assertEqual(calls, {("all_reduce", tp, made["tensor"]): dp * layers * 4 * micro,
                                 ("all_reduce", dp, made["gradient"]): tp * layers})
        boundary = tp * dp * (pp - 1) * micro * 2
        self.assertEqual((shown["transfers"]["count"], shown["transfers"]["bytes"]),
                         (boundary, boundary * made["pipeline"]))
        moved = (dp * layers * 4 * micro * 2 * (tp - 1) * made["tensor"] +
                 tp * layers * 2 * (dp - 1) * made["gradient"] + boundary * made["pipeline"])
        for run in self.replay("llm", "{count: 8, nics: 4}"):
            self.assertEqual(run["demand_bytes"], moved)
            # No less than what the busiest stage computes: three times its forward passes.
            half = max(1, made["forward_us"] // 2)
            self.assertGreater(run["iteration_time_ps"][0], micro * layers // pp * 2 * (half + made["forward_us"]) * 10**6)
        # Shards of a server keep their AllReduces inside.
        for run in self.replay("llm", "{count: 4, nics: 2, gpus: 2}"):
            self.assertEqual(run["demand_bytes"], moved - dp * layers * 4 * micro * 2 * (tp - 1) * made["tensor"])


@unittest.skipIf(fixture.shared_traces(False) is None, "no ../shared/traces (set TOPOOPT_SHARED)")
class Real(PacketTest):
    def sample(self, path):
        return os.path.join(fixture.shared_traces(), path)

    def moved(self, path, expected, servers="{count: 8, nics: 4}", **how):
        for run in self.replay(self.sample(path), servers, **how):
            self.assertEqual(run["demand_bytes"], expected, run["fabric"])

    def test_dlrm(self):
        reduced = 2 * 7 * (1576964 + 448 + 907840)
        for path in ("param/dlrm8_et_1.0.1", "param/dlrm8_basic_converted", "param/dlrm8_et_linked"):
            self.moved(path, 451136 + reduced)
        self.moved("param/dlrm8_et_linked", 451136 + reduced, timing="kept")

    def test_resnet_pair(self):
        self.moved("param/resnet_2gpu_pair_derived", 307323096 + 306684384, "{count: 2, nics: 2}")

    def test_stage(self):
        shown = json.loads(self.run_ok("inspect", "--json", self.sample("stage/dp2tp2pp2_8ranks")).out)
        self.moved("stage/dp2tp2pp2_8ranks", shown["wire"]["bytes"])

    def test_custom_ring(self):
        self.moved("astra-sim/custom_ring_allreduce_8npus_1MB", 14680064)
        # Spelled out as messages it is the built-in ring.
        path = self.path("out", "ideal-switch", "flows.csv")
        spelled = sorted((row["src_rank"], row["dst_rank"], row["bytes"]) for row in read_csv(path))
        self.moved("astra-sim/microbench_8npus_1MB/all_reduce", 14680064)
        self.assertEqual(spelled, sorted((row["src_rank"], row["dst_rank"], row["bytes"]) for row in read_csv(path)))

    def test_microbenchmarks(self):
        for name, expected in [("all_reduce", 8 * 1835008), ("all_gather", 8 * 7340032),
                               ("reduce_scatter", 8 * 917504), ("all_to_all", 56 * 131072)]:
            self.moved("astra-sim/microbench_8npus_1MB/" + name, expected)

    def test_chakra_and_tables(self):
        self.moved("chakra/resnet_rank0", 0, "{count: 2, nics: 2}")
        # 2 all-to-alls of 96 KiB and 7 AllReduces.
        shown = json.loads(self.run_ok("inspect", "--json", self.sample("astra-sim/text_converted_et")).out)
        self.moved("astra-sim/text_converted_et", shown["wire"]["bytes"])

    def test_htsim_lists(self):
        self.moved("htsim/allreduce_8n_8c_100kB.cm", 120 * 100000, kind="flows")
        self.moved("htsim/serial_alltoall_8n_50kB.cm", 56 * 50000, kind="flows")

    def test_opera(self):
        """648 hosts and 79 GB, beside the result that was published for Opera's own network (doc/traces.rst)."""
        path = self.sample("opera/flows_1percLoad_10sec_648hosts.htsim")
        theirs = self.sample("opera/FCT_opera_pfab_cwnd20_1perc.txt")
        runs = self.replay(path, "{count: 648, nics: 1, rate: 10Gbps, link_delay: 500ns}", "flows",
                           ("fat-tree", "ideal-switch"), engine="{mtu: 1500}")
        for run in runs:
            self.assertEqual((run["flows"], run["demand_bytes"]), (10383, 79121318101))
        table = subprocess.run(["/usr/bin/python3", os.path.join(fixture.SOURCE, "scripts", "compare-fct.py"),
                                self.path("out", "fat-tree", "flows.csv"), theirs], capture_output=True, text=True,
                               check=True).stdout
        # Their run ended with 12 flows under way.
        self.assertIn("10371 flows finished on both sides, 12 only here, 0 only there", table)
        ratios = [float(line.split()[-1]) for line in table.splitlines()[3:]]
        self.assertEqual(len(ratios), 6)
        for ratio in ratios:
            self.assertTrue(0.8 < ratio < 1.25, table)


if __name__ == "__main__":
    fixture.ready()
    unittest.main(verbosity=1)
