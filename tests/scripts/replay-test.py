#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""How traces are replayed: timing, scaled computation, placement, cuts and factors, and that results say so."""
import collections
import glob
import json
import os
import sys
import unittest

sys.dont_write_bytecode = True
import cli_fixture as fixture
import chakra_files as chakra
from cli_fixture import ProgramTest, basic_trace, read_csv, summary

US = 10**6  # ps


class ReplayTest(ProgramTest):
    def replay(self, name="r", extra=(), fabric="ideal-switch", **changes):
        """Runs trace/ on one fabric; answers (its summary, rows of flows.csv)."""
        self.scenario(name + ".yaml", fabrics=f"[{fabric}]", **changes)
        self.run_ok("run", name + ".yaml", "-o", name, "--quiet", *extra)
        run = summary(self.path(name))["runs"][0]
        self.assertTrue(run["complete"])
        return run, read_csv(self.path(name, fabric, "flows.csv"))

    def write_chakra(self, ranks, groups=None, directory="trace"):
        for rank, nodes in enumerate(ranks):
            self.write(f"{directory}/t.{rank}.et", chakra.METADATA + b"".join(nodes))
        if groups:
            self.write(f"{directory}/comm_group.json", chakra.groups(groups))

    def refused_everywhere(self, *parts):
        """The same line from inspect, check and run."""
        self.scenario()
        words = {self.refused(command, *parts).split(": ", 1)[1] for command in
                 (["inspect", "trace"], ["check", "s.yaml"], ["run", "s.yaml", "-o", "out"])}
        self.assertEqual(len(words), 1, words)


class Timing(ReplayTest):
    def steps(self):
        """Rank 0 sends 1000 B at 5 us; rank 1 has it at 7 us and answers at 9 us, by clocks that agree."""
        def message(name, src, dst, time):
            return {"comms": name, "src_rank": src, "dst_rank": dst, "in_msg_size": 1000, "out_msg_size": 1000,
                    "dtype": "byte", "startTime_ns": time}
        return [[message("send", 0, 1, 5000), message("recv", 1, 0, 5100)],
                [message("recv", 0, 1, 7000), message("send", 1, 0, 9000)]]

    def starts(self, options):
        self.write_trace(self.steps())
        _, rows = self.replay(servers="{count: 2}", workload="{trace: trace" + options + "}")
        return {int(row["src_rank"]): int(row["start_ps"]) for row in rows}

    def test_dependencies_alone(self):
        starts = self.starts("")
        self.assertEqual(starts[0], 0)
        # Two hops of 1 us and two transmissions of about 0.09 us: the answer leaves as soon as the question is there.
        self.assertTrue(2 * US < starts[1] < 3 * US, starts)

    def test_kept_counts_from_the_first_of_all(self):
        self.assertEqual(self.starts(", timing: kept"), {0: 0, 1: 4 * US})

    def test_kept_per_rank_counts_from_each_ranks_first(self):
        starts = self.starts(", timing: kept, align: per-rank")
        # 9 - 7 = 2 us is a lower bound; the message needs longer.
        self.assertTrue(2 * US < starts[1] < 3 * US, starts)

    def test_computation_is_scaled(self):
        self.write_chakra([[chakra.compute(1, 100), chakra.collective(2, "all_reduce", 80000, [1])] for _ in range(2)])
        times = {}
        for factor in ("1", "0.5", "0"):
            run, _ = self.replay("s" + factor, servers="{count: 2}",
                                 workload=f"{{trace: trace, compute_scale: {factor}}}")
            times[factor] = run["iteration_time_ps"][0]
        self.assertEqual(times["1"] - times["0"], 100 * US)
        self.assertEqual(times["0.5"] - times["0"], 50 * US)
        self.assertGreater(times["0"], 0)
        shown = self.run_ok("check", "s1.yaml").out
        self.assertIn("compute    100us to 100us per rank", shown)
        self.assertIn("compute    0ps to 0ps per rank", self.run_ok("check", "s0.yaml").out, "no computation shows")

    def test_a_wait_is_what_makes_an_operation_asynchronous(self):
        init = [{"comms": "init", "pg_id": pg, "world_size": 2, "global_ranks": [0, 1]} for pg in (1, 2)]
        def reduce(pg, size):
            return {"comms": "all_reduce", "req": pg, "pg_id": pg, "in_msg_size": size, "dtype": "byte"}
        waits = [{"comms": "wait", "req": pg, "pg_id": pg} for pg in (1, 2)]
        blocking = init + [reduce(1, 1000000), reduce(2, 1000000)]
        self.write_trace([blocking] * 2)
        slow, rows = self.replay("blocking", servers="{count: 2}")
        first = max(int(row["end_ps"]) for row in rows if row["op_id"] == "0" and row["dst_rank"] == "0")
        self.assertGreaterEqual(min(int(row["start_ps"]) for row in rows if row["op_id"] == "1" and
                                    row["src_rank"] == "0"), first)
        self.write_trace([blocking + waits] * 2)
        _, rows = self.replay("waiting", servers="{count: 2}")
        self.assertEqual({int(row["start_ps"]) for row in rows if row["step"] == "0"}, {0}, "both start at once")
        self.assertEqual(slow["unfinished"], 0)


class Order(ReplayTest):
    def test_sends_do_not_wait_for_their_receive(self):
        self.write_chakra([[chakra.send(1, r, 1 - r, 5000), chakra.recv(2, 1 - r, r, 5000, [1])] for r in range(2)])
        _, rows = self.replay(servers="{count: 2}")
        self.assertEqual([row["start_ps"] for row in rows], ["0", "0"])

    def test_a_deadlock_is_found_before_the_run_and_printed_as_its_cycle(self):
        self.write_chakra([[chakra.recv(1, 1 - r, r, 5000), chakra.send(2, r, 1 - r, 5000, [1])] for r in range(2)])
        self.refused_everywhere("deadlock", "rank 0 recv 1", "rank 0 send 2", "rank 1 recv 1", "rank 1 send 2", " -> ")

    def test_calls_pair_in_canonical_order(self):
        # Ids contradict dependencies on rank 0; rank 1 has them the other way round.
        a = [chakra.collective(2, "all_reduce", 100, [3]), chakra.compute(3, 1, [5]),
             chakra.collective(5, "all_gather", 200)]
        b = [chakra.collective(1, "all_gather", 200), chakra.collective(2, "all_reduce", 100, [1])]
        self.write_chakra([a, b])
        self.replay(servers="{count: 2}")
        ops = read_csv(self.path("r", "ideal-switch", "ops.csv"))
        self.assertEqual([op["kind"] for op in sorted(ops, key=lambda op: int(op["start_ps"]))],
                         ["all_gather", "all_reduce"])

    def test_calls_that_do_not_match(self):
        self.write_chakra([[chakra.collective(1, "all_reduce", 100)], [chakra.collective(1, "all_gather", 100)]])
        self.refused_everywhere("found all_gather, but rank 0 node 1 calls all_reduce")


class Placement(ReplayTest):
    def pairs(self, rows):
        return sorted({(int(row["src_server"]), int(row["dst_server"])) for row in rows})

    def setUp(self):
        super().setUp()
        self.write_trace(basic_trace(4, name="barrier"))

    def ring(self, **how):
        _, rows = self.replay(**how)
        return [row for row in rows if row["kind"] == "all_reduce"]

    def test_identity_when_there_are_servers_enough(self):
        rows = self.ring(servers="{count: 6, gpus: 2}")
        self.assertEqual(self.pairs(rows), [(0, 1), (1, 2), (2, 3), (3, 0)])
        self.assertEqual({row["local"] for row in rows}, {"0"})

    def test_several_ranks_on_a_server(self):
        for keys, options in [("count: 2, gpus: 2", ""), ("count: 6", ", gpus_per_server: 2")]:
            rows = self.ring(servers=f"{{{keys}}}", workload=f"{{trace: trace{options}}}")
            self.assertEqual(self.pairs(rows), [(0, 0), (0, 1), (1, 0), (1, 1)])
            for row in rows:
                self.assertEqual(row["local"] == "1", row["src_server"] == row["dst_server"])
                self.assertEqual(row["hops"] == "0", row["local"] == "1")
            run = summary(self.path("r"))["runs"][0]
            self.assertEqual(run["demand_bytes"], sum(int(row["bytes"]) for row in rows if row["local"] == "0"),
                             "local traffic is on no link")

    def test_a_permutation_file(self):
        self.write("map.txt", "# server of rank 0, 1, ...\n3 1\n0,2\n")
        rows = self.ring(servers="{count: 4}", workload="{trace: trace, ranks_map: map.txt}")
        place = {0: 3, 1: 1, 2: 0, 3: 2}
        for row in rows:
            self.assertEqual(int(row["src_server"]), place[int(row["src_rank"])])
        self.assertIn("server of each rank: 3 1 0 2; 0 servers idle", self.run_ok("check", "r.yaml").out)
        for text, part in [("0 1 2", "found 3 servers, expected one for each of 4 ranks"), ("0 0 1 2", "map.txt:1"),
                           ("0 1 2 9", "map.txt:1"), ("0 1 2 x", "'x'"), ("", "found 0 servers")]:
            self.write("map.txt", text)
            for command in (["check", "r.yaml"], ["run", "r.yaml", "-o", "out"]):
                self.refused(command, "map.txt", part)

    def test_a_map_may_fill_servers_as_far_as_they_have_gpus(self):
        self.write("map.txt", "5 5 0 0")
        rows = self.ring(servers="{count: 6, gpus: 2}", workload="{trace: trace, ranks_map: map.txt}")
        self.assertEqual(self.pairs(rows), [(0, 0), (0, 5), (5, 0), (5, 5)])

    def test_too_many_ranks(self):
        for keys, said in [("count: 3", "4 ranks, 3 servers x 1 GPU"), ("count: 1, gpus: 3", "4 ranks, 1 servers x 3")]:
            self.scenario(servers=f"{{{keys}}}")
            for command in (["check", "s.yaml"], ["run", "s.yaml", "-o", "out"]):
                self.refused(command, said)
        self.refused(["inspect", "trace", "--option=servers=3"], "4 ranks, 3 servers x 1 GPU")


class Stamps(ReplayTest):
    def stamped(self, stamp, name="r"):
        """Every table and the summary of a run hold the options; the manifest can be run again."""
        tables = sorted(glob.glob(self.path(name, "ideal-switch", "*.csv")))
        self.assertGreaterEqual(len(tables), 5)
        for table in tables:
            with open(table, encoding="utf-8") as handle:
                self.assertIn(f"# replay={stamp}\n", handle.read(), table)
        with open(self.path(name, "summary.json"), encoding="utf-8") as handle:
            self.assertEqual(json.load(handle)["replay"], stamp)
        with open(self.path(name, "manifest.yaml"), encoding="utf-8") as handle:
            manifest = handle.read()
        for word in stamp.split(" "):
            self.assertIn(word.split("=")[0] + ": ", manifest)
        self.assertIn(f"replay     {stamp}\n", self.run_ok("check", name + ".yaml").out)

    def options(self, text):
        return f"{{trace: trace, {text}}}"

    def test_no_options_no_stamp(self):
        self.write_trace(basic_trace(4))
        self.replay()
        self.assertEqual(json.loads(self.run_ok("inspect", "--json", "trace").out)["options"], "")
        with open(self.path("r", "ideal-switch", "flows.csv"), encoding="utf-8") as handle:
            self.assertNotIn("replay", handle.read())

    def test_scale_bytes(self):
        self.write_trace(basic_trace(4, elements=4096))
        plain, _ = self.replay("plain")
        half, _ = self.replay(workload=self.options("scale_bytes: 0.5"))
        self.assertEqual(2 * half["demand_bytes"], plain["demand_bytes"])
        self.stamped("scale_bytes=0.5")
        tiny, rows = self.replay("tiny", workload=self.options("scale_bytes: 0.000001"))
        self.assertGreater(tiny["demand_bytes"], 0, "a size that was not 0 keeps an element")
        self.stamped("scale_bytes=1e-06", "tiny")

    def test_max_ops(self):
        self.write_trace(basic_trace(4))
        _, rows = self.replay(workload=self.options("max_ops: 1"))
        self.assertEqual({row["kind"] for row in rows}, {"all_reduce"})
        self.stamped("max_ops=1")

    def test_first_iteration(self):
        def step(marker, size):
            return {"comms": "all_reduce", "in_msg_size": size, "dtype": "byte", "markers": [marker]}
        self.write_trace([[step("iteration 1", 100), step("iteration 1", 200), step("iteration 2", 400)]] * 2)
        _, rows = self.replay(servers="{count: 2}", workload=self.options("first_iteration: true"))
        self.assertEqual(sum(int(row["bytes"]) for row in rows), 2 * (100 + 200))
        self.stamped("first_iteration=true")
        self.write_trace(basic_trace(4))
        self.scenario(workload=self.options("first_iteration: true"))
        self.refused(["check", "s.yaml"], "no iteration markers")

    def test_several_at_once(self):
        self.write_trace(basic_trace(4))
        self.replay(workload=self.options("timing: kept, align: per-rank, compute_scale: 2, serialise: none, "
                                          "gpus_per_server: 1"))
        self.stamped("timing=kept align=per-rank compute_scale=2 serialise=none gpus_per_server=1")

    def test_flow_lists(self):
        self.write("trace", "3\n0 1 3 100 1000 2\n1 2 3 100 2000 2.5\n2 3 3 100 3000 3\n")
        run, rows = self.replay(workload="{flows: trace, max_ops: 2, scale_bytes: 0.5, align: first}")
        self.assertEqual([row["bytes"] for row in rows], ["500", "1000"])
        self.assertEqual([row["start_ps"] for row in rows], ["0", str(10**12 // 2)])
        self.stamped("align=first max_ops=2 scale_bytes=0.5")

    def test_unknown_options_are_refused_alike(self):
        self.write_trace(basic_trace(4))
        self.scenario(workload=self.options("scale_byte: 2"))
        for command in (["inspect", "trace", "--option=scale_byte=2"], ["check", "s.yaml"],
                        ["run", "s.yaml", "-o", "out"]):
            self.refused(command, "unknown trace option 'scale_byte', did you mean 'scale_bytes'")


class Algorithms(ReplayTest):
    def test_every_algorithm_moves_the_bytes_of_an_all_reduce(self):
        self.write_trace(basic_trace(4, elements=1001, name="barrier"))
        for name in ("auto", "direct", "double-binary-tree", "halving-doubling", "hierarchical", "ring", "tree"):
            with self.subTest(name):
                _, rows = self.replay(collectives=f"{{all_reduce: {name}}}")
                sums = collections.Counter()
                for row in rows:
                    sums[row["kind"]] += int(row["bytes"])
                self.assertEqual(sums, {"all_reduce": 2 * 3 * 4004, "barrier": 0})
        self.scenario(collectives="{all_gather: tree}")
        self.refused(["check", "s.yaml"], "collectives.all_gather", "tree", "auto, direct, halving-doubling, ring")

    def test_rings_of_the_fabric_share_the_payload(self):
        self.write_trace(basic_trace(8, elements=1600, name="barrier"))
        _, rows = self.replay(servers="{count: 8, nics: 4}", fabric="topoopt")
        rings = collections.Counter()
        for row in rows:
            if row["kind"] == "all_reduce":
                rings[row["channel"]] += int(row["bytes"])
                self.assertEqual(row["hops"], "1")
        self.assertEqual(rings, {str(k): 2 * 7 * 6400 // 4 for k in range(4)})


if __name__ == "__main__":
    fixture.ready()
    unittest.main(verbosity=1)
