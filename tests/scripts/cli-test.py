#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""The command line as a user meets it: exit codes, messages, files, repeatability."""
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
import cli_fixture as fixture
from cli_fixture import ProgramTest, basic_trace, read_csv, summary, tables

COMMANDS = ["run", "check", "inspect", "plot", "list"]
FLOW_COLUMNS = ("flow_id,op_id,job,iteration,kind,src_server,dst_server,bytes,start_ps,end_ps,fct_ps,ideal_ps,"
                "slowdown,hops,retransmits,status").split(",")


@unittest.skipIf(fixture.SANITIZED, "words alone")
class Help(ProgramTest):
    def test_help_of_everything(self):
        whole = self.run_ok("--help")
        listed = re.findall(r"(?m)^  ([a-z]+) +\S", whole.out)
        for command in COMMANDS + listed:
            with self.subTest(command):
                self.assertIn(command, whole.out)
                one = self.run_ok(command, "--help")
                self.assertIn(command, one.out)
                self.assertEqual(one.err, "")

    def test_version(self):
        self.assertRegex(self.run_ok("--version").out, r"^topoopt \d+\.\d+\.\d+")

    def test_no_command(self):
        result = self.call()
        self.assertEqual(result.code, 2)
        self.assertIn("run", result.err)

    def test_unknown_command_and_option(self):
        self.refused(["rnu", "x.yaml"], "rnu", "run")
        self.scenario()
        self.write_trace(basic_trace(4))
        self.refused(["run", "s.yaml", "-o", "out", "--sed", "3"], "--sed")
        self.refused(["run"], "SCENARIO")
        for seed in ("x", "-1", "18446744073709551616", "1.5", ""):
            self.refused(["run", "s.yaml", "-o", "out", "--seed=" + seed], "seed")

    def test_list_names_what_scenarios_may_name(self):
        out = self.run_ok("list").out
        for name in ("topoopt", "fat-tree", "ideal-switch", "dctcp", "ring"):
            self.assertRegex(out, rf"(?m)^\s*{name}\s+\S")
        self.assertIn("all_reduce", out)



class Topology(ProgramTest):
    def test_patch_list_fits_the_panels(self):
        self.run_ok("topology", "--servers", "12", "--degree", "4", "--patches", "patches.csv")
        rows = [{k: int(v) for k, v in row.items()} for row in read_csv(self.path("patches.csv"))]
        self.assertEqual(len(rows), 12 * 4 // 2)
        ends = [(row["server_" + side], row["nic_" + side]) for row in rows for side in "ab"]
        self.assertEqual(sorted(ends), [(server, nic) for server in range(12) for nic in range(4)])
        ports = [(row["panel"], row["port_" + side]) for row in rows for side in "ab"]
        self.assertEqual(len(set(ports)), len(ports))

    def test_options_of_the_fabric(self):
        found = json.loads(self.run_ok("topology", "-n", "9", "-d", "4", "--set", "candidates=prime", "--json").out)
        self.assertEqual(found["servers"], 9)
        wrong = self.call("topology", "-n", "9", "-d", "4", "--set", "candidate=prime")
        self.assertEqual(wrong.code, 2)
        self.assertIn("did you mean 'candidates'?", wrong.err)


class BadScenario(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write_trace(basic_trace(4))

    def test_each_is_refused_with_its_place(self):
        cases = [
            ({"srevers": "{count: 4}"}, ["s.yaml:5:1", "srevers", "did you mean 'servers'"]),
            ({"servers": "{count: 4, count: 5}"}, ["s.yaml:1:21", "count", "twice"]),
            ({"servers": "{count: 4, rate: 100}"}, ["s.yaml:1:27", "servers.rate", "'100'", "unit"]),
            ({"servers": "{count: four}"}, ["s.yaml:1:18", "servers.count", "'four'", "whole number"]),
            ({"servers": None}, ["s.yaml", "servers", "expected"]),
            ({"stop": "10"}, ["s.yaml:4:7", "stop", "'10'", "unit"]),
            ({"fabrics": "[ideal-swich]"}, ["s.yaml:3:11", "ideal-swich", "ideal-switch"]),
            ({"fabrics": "[{kind: ideal-switch, raet: 1Gbps}]"}, ["s.yaml:3:", "raet", "rate"]),
            ({"fabrics": "[{kind: ideal-switch, rate: 1}]"}, ["s.yaml:3:", "rate", "unit"]),
            ({"engine": "{transport: dctpc}"}, ["dctpc", "dctcp"]),
            ({"engine": "{mtu: -3}"}, ["s.yaml:5:15", "engine.mtu", "'-3'"]),
            ({"workload": "{trace: trace, compute_scael: 0}"}, ["compute_scael"]),
            ({"workload": "{trace: none-such}"}, ["none-such"]),
            ({"workload": "{model: none-such}"}, ["none-such"]),
            ({"workload": "{flows: trace}"}, ["trace"]),
            ({"collectives": "{all_reduce: rign}"}, ["rign", "ring"]),
        ]
        for changes, parts in cases:
            with self.subTest(str(changes)):
                self.scenario(**changes)
                self.refused(["run", "s.yaml", "-o", "out"], *parts)
                if not fixture.SANITIZED:
                    self.refused(["check", "s.yaml"], *parts)

    def test_files_that_are_no_scenario(self):
        for name, content in [("empty.yaml", b""), ("binary.yaml", bytes(range(256))),
                              ("list.yaml", b"- a\n- b\n"), ("open.yaml", b"servers: {count: 4")]:
            with self.subTest(name):
                self.write(name, content)
                self.refused(["run", name, "-o", "out"], name)
        self.refused(["run", "absent.yaml", "-o", "out"], "absent.yaml", "No such file")
        self.refused(["run", ".", "-o", "out"], "directory")

    def test_overrides(self):
        self.scenario()
        run = ["run", "s.yaml", "-o", "out", "--set"]
        self.refused(run + ["servers.cuont=3"], "--set servers.cuont=3", "count")
        self.refused(run + ["stop=3"], "--set stop=3", "unit")
        self.refused(run + ["seed"], "--set seed")
        self.refused(run + ["fabrics.7.kind=a"], "--set fabrics.7.kind=a", "7")


class BadTrace(ProgramTest):
    run_it = ["run", "s.yaml", "-o", "out"]

    def test_missing_rank_file(self):
        self.write_trace(basic_trace(4))
        self.scenario()
        os.remove(self.path("trace/rank-2.json"))
        self.refused(self.run_it, "trace", "2")

    def test_truncated_json(self):
        self.write_trace(basic_trace(4))
        self.scenario()
        whole = json.dumps(basic_trace(4)[1])
        for length in (0, 1, len(whole) // 2, len(whole) - 1):
            with self.subTest(length=length):
                self.write("trace/rank-1.json", whole[:length])
                self.refused(self.run_it, "rank-1.json")

    def test_unknown_collective(self):
        self.write_trace(basic_trace(4, name="all_shuffle"))
        self.scenario()
        self.refused(self.run_it, "rank-0.json", "all_shuffle")

    def test_more_ranks_than_servers_hold(self):
        self.write_trace(basic_trace(9, elements=4608))
        self.scenario(servers="{count: 8, nics: 2}")
        self.refused(self.run_it, "9", "8")
        self.run_ok("check", "s.yaml", "--set", "servers.gpus=2")

    def test_sizes_that_do_not_match(self):
        steps = basic_trace(4)
        steps[3][1]["in_msg_size"] = 77
        self.write_trace(steps)
        self.scenario()
        self.refused(self.run_it, "rank")

    def test_flow_list(self):
        self.scenario(workload="{flows: flows.txt}")
        for text, part in [("", "flows.txt"), ("x\n", "flows.txt"), ("2\n0 1 3 100 1000 0\n", "flows.txt"),
                           ("1\n0 9 3 100 1000 0\n", "9"), ("1\n0 1 3 100 -5 0\n", "-5"),
                           ("1\n1 1 3 100 1000 0\n", "flows.txt")]:
            with self.subTest(text):
                self.write("flows.txt", text)
                self.refused(self.run_it, part)


class BadOutput(ProgramTest):
    def test_output_that_cannot_be_written(self):
        self.write_trace(basic_trace(4))
        self.scenario()
        self.write("file", "")
        # Root may write everywhere, but nobody can make a directory below a file.
        self.refused(["run", "s.yaml", "-o", "file/out"], "file/out")
        self.refused(["run", "s.yaml", "-o", "file"], "file")

    def test_it_is_found_before_simulating(self):
        self.write_trace(basic_trace(4, elements=1 << 34))
        self.scenario(engine="{trains: false, mtu: 1500}", stop="1000s")
        self.write("file", "")
        begin = time.monotonic()
        self.refused(["run", "s.yaml", "-o", "file/out"], "file/out")
        self.assertLess(time.monotonic() - begin, 20)


class Run(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write_trace(basic_trace(4))
        self.scenario(fabrics="[topoopt, fat-tree, ideal-switch]")

    def test_files_of_the_contract(self):
        result = self.run_ok("run", "s.yaml", "-o", "out")
        self.assertNotIn("\r", result.err, "progress is for terminals")
        for fabric in ("topoopt", "fat-tree", "ideal-switch"):
            self.assertIn(fabric, result.out)
            for name in ("flows", "ops", "links", "matrix_demand", "matrix_link"):
                self.assertTrue(os.path.exists(self.path("out", fabric, name + ".csv")), f"{fabric}/{name}")
            rows = read_csv(self.path("out", fabric, "flows.csv"))
            self.assertEqual(list(rows[0])[:len(FLOW_COLUMNS)], FLOW_COLUMNS)
            for row in rows:
                self.assertEqual(row["status"], "done")
                self.assertEqual(int(row["end_ps"]) - int(row["start_ps"]), int(row["fct_ps"]))
                self.assertGreaterEqual(int(row["fct_ps"]), int(row["ideal_ps"]))
                self.assertGreaterEqual(float(row["slowdown"]), 1)
                self.assertNotEqual(row["src_server"], row["dst_server"])
        whole = summary(self.path("out"))
        self.assertEqual([run["fabric"] for run in whole["runs"]], ["topoopt", "fat-tree", "ideal-switch"])
        for run in whole["runs"]:
            rows = read_csv(self.path("out", run["fabric"], "flows.csv"))
            self.assertEqual(run["flows"], len(rows))
            self.assertEqual(run["unfinished"], 0)
            self.assertEqual(sum(int(row["bytes"]) for row in rows), run["demand_bytes"])
            # AllReduce of 16384 B over 4: 2 * 3 parts per server and ring; all-to-all: 3/4 of each server's input.
            self.assertEqual(run["demand_bytes"], 2 * 3 * 16384 + 4 * 16384 * 3 // 4)
            self.assertEqual(len(run["iteration_time_ps"]), 1)
            self.assertGreater(run["iteration_time_ps"][0], 0)
            self.assertGreaterEqual(run["wire_bytes"], run["demand_bytes"])
            self.assertGreaterEqual(run["bandwidth_tax"], 1)
            for key in ("packet_hops", "events", "setup_s", "run_s", "peak_rss_bytes", "fingerprint", "fidelity"):
                self.assertIn(key, run)

    def test_the_same_again(self):
        self.run_ok("run", "s.yaml", "-o", "one")
        self.run_ok("run", "s.yaml", "-o", "two/deep")
        first = tables(self.path("one"))
        self.assertGreaterEqual(len(first), 15)
        self.assertEqual(first, tables(self.path("two/deep")))
        prints = [[run["fingerprint"] for run in summary(self.path(d))["runs"]] for d in ("one", "two/deep")]
        self.assertEqual(prints[0], prints[1])

    def test_trains_change_nothing(self):
        self.run_ok("run", "s.yaml", "-o", "one")
        self.run_ok("run", "s.yaml", "-o", "two", "--set", "engine.trains=false")
        self.assertEqual(tables(self.path("one")), tables(self.path("two")))

    def test_a_seed_changes_what_is_random_and_nothing_else(self):
        self.run_ok("run", "s.yaml", "-o", "one", "--seed", "1")
        self.run_ok("run", "s.yaml", "-o", "two", "--seed", "2")
        self.assertEqual(summary(self.path("two"))["seed"], 2)
        for fabric in ("topoopt", "fat-tree", "ideal-switch"):
            asked = [sorted((row["src_server"], row["dst_server"], row["bytes"]) for row in
                            read_csv(self.path(d, fabric, "flows.csv"))) for d in ("one", "two")]
            self.assertEqual(asked[0], asked[1], fabric)

    def test_ecmp_follows_the_seed(self):
        self.write_trace(basic_trace(16, elements=1 << 16), "sixteen")
        self.scenario(name="e.yaml", servers="{count: 16}", workload="{trace: sixteen}", fabrics="[fat-tree]")
        prints = set()
        for seed in ("1", "2", "3"):
            self.run_ok("run", "e.yaml", "-o", "s" + seed, "--seed", seed)
            prints.add(summary(self.path("s" + seed))["runs"][0]["fingerprint"])
        self.assertGreater(len(prints), 1, "three seeds, one hash")

    def test_the_manifest_runs_again(self):
        self.run_ok("run", "s.yaml", "-o", "one", "--seed", "5", "--set", "engine.mtu=4096")
        self.run_ok("run", "one/manifest.yaml", "-o", "two")
        self.assertEqual(tables(self.path("one")), tables(self.path("two")))
        with open(self.path("one/manifest.yaml"), encoding="utf-8") as handle:
            self.assertNotIn(self.dir, handle.read(), "the manifest depends on where it was written")

    def test_json_and_quiet(self):
        result = self.run_ok("run", "s.yaml", "-o", "out", "--json", "--quiet")
        self.assertEqual(json.loads(result.out), summary(self.path("out")))
        self.assertEqual(result.err, "")

    def test_a_second_run_replaces_the_first(self):
        self.run_ok("run", "s.yaml", "-o", "out")
        self.run_ok("run", "s.yaml", "-o", "out", "--set", "fabrics=[ideal-switch]")
        self.assertEqual(len(summary(self.path("out"))["runs"]), 1)

    def test_flow_tables_can_be_off_or_zipped(self):
        self.run_ok("run", "s.yaml", "-o", "none", "--set", "results.flows=none")
        self.assertFalse(os.path.exists(self.path("none/topoopt/flows.csv")))
        self.run_ok("run", "s.yaml", "-o", "zip", "--set", "results.flows=csv.gz")
        self.run_ok("run", "s.yaml", "-o", "plain")
        import gzip
        with gzip.open(self.path("zip/topoopt/flows.csv.gz")) as handle:
            self.assertEqual(handle.read(), tables(self.path("plain"))["topoopt/flows.csv"])

    def test_check_writes_nothing(self):
        before = sorted(os.listdir(self.dir))
        result = self.run_ok("check", "s.yaml")
        for fabric in ("topoopt", "fat-tree", "ideal-switch"):
            self.assertIn(fabric, result.out)
        self.assertEqual(sorted(os.listdir(self.dir)), before)

    def test_inspect_counts_each_byte(self):
        out = self.run_ok("inspect", "trace").out
        self.assertIn("all_reduce", out)
        self.assertIn("16384", out)


class Incomplete(ProgramTest):
    def test_a_stop_too_short(self):
        self.write_trace(basic_trace(4, elements=1 << 20))
        self.scenario(stop="20us")
        result = self.call("run", "s.yaml", "-o", "out")
        self.assertEqual(result.code, 1, str(result))
        self.assertIn("all_reduce", result.err, "the operations still waiting are named")
        run = summary(self.path("out"))["runs"][0]
        self.assertGreater(run["unfinished"], 0)
        rows = read_csv(self.path("out/ideal-switch/flows.csv"))
        unfinished = [row for row in rows if row["status"] == "unfinished"]
        self.assertEqual(len(unfinished), run["unfinished"])
        for row in unfinished:
            self.assertIn(row["fct_ps"], ("", "-"))

    def test_the_summary_counts_what_has_not_ended(self):
        """As longest of all in percentiles; a flow that has arrived has ended, whether the sender knows or not."""
        scenario = os.path.join(fixture.SOURCE, "scenarios/quickstart.yaml")
        for fidelity in ("packet", "flow"):
            result = self.call("run", scenario, "-o", "out", "--set", "stop=100us", "--set", "servers.rate=25Gbps",
                               "--set", f"engine.fidelity={fidelity}")
            self.assertEqual(result.code, 1, str(result))
            self.assertRegex(result.out, "us  unfinished  ")
            for run in summary(self.path("out"))["runs"]:
                rows = read_csv(self.path("out", run["fabric"], "flows.csv"))
                self.assertEqual(run["unfinished"], sum(row["status"] == "unfinished" for row in rows))
                times = sorted(int(row["fct_ps"]) if row["fct_ps"] else math.inf for row in rows
                               if row["src_server"] != row["dst_server"] and row["bytes"] != "0")
                for percent in (50, 99):
                    expected = times[math.ceil(percent / 100 * len(times)) - 1]
                    found = run[f"fct_p{percent}_ps"]
                    self.assertEqual(math.inf if found is None else found, expected, (fidelity, run["fabric"], percent))
                if fidelity == "packet":
                    links = read_csv(self.path("out", run["fabric"], "links.csv"))
                    self.assertLessEqual(max(float(row["utilisation"]) for row in links), 1)

    def test_an_interrupt_leaves_results(self):
        self.write_trace(basic_trace(16, elements=1 << 30))
        self.scenario(servers="{count: 16}", fabrics="[fat-tree, ideal-switch]", stop="1000s",
                      engine="{trains: false, mtu: 1500}")
        with subprocess.Popen([fixture.PROGRAM, "run", "s.yaml", "-o", "out"], cwd=self.dir,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
            deadline = time.monotonic() + 60
            while not os.path.exists(self.path("out/fat-tree/flows.csv")):
                self.assertIsNone(run.poll(), "it ended by itself")
                self.assertLess(time.monotonic(), deadline, "no table after 60 s")
                time.sleep(0.02)
            run.send_signal(signal.SIGINT)
            try:
                _, err = run.communicate(timeout=60)
            finally:
                run.kill()
        self.assertEqual(run.returncode, 1, err)
        self.assertIn("interrupt", err.lower())
        self.assertGreater(summary(self.path("out"))["runs"][0]["unfinished"], 0)


if __name__ == "__main__":
    fixture.ready()
    unittest.main(verbosity=1)
