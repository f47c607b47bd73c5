#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""`topoopt sweep` with real runs: the same results as by hand, and none lost to a kill."""
import os
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
import cli_fixture as fixture
from cli_fixture import ProgramTest, basic_trace, read_csv, summary, tables


class Sweep(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write_trace(basic_trace(4))
        self.scenario(fabrics="[topoopt, ideal-switch]")
        self.write("w.yaml", "scenario: s.yaml\ngrid:\n  servers.rate: [25Gbps, 100Gbps]\n"
                             "  engine.mtu: [1500, 9000]\n")

    def test_a_point_is_the_run_by_hand(self):
        self.run_ok("sweep", "w.yaml", "-o", "out", "-j", "2")
        self.run_ok("run", "s.yaml", "-o", "hand", "--set", "servers.rate=25Gbps", "--set", "engine.mtu=9000")
        self.assertEqual(tables(self.path("out/rate=25Gbps,mtu=9000")), tables(self.path("hand")))
        rows = read_csv(self.path("out/sweep.csv"))
        self.assertEqual(len(rows), 8)
        by_hand = {run["fabric"]: run for run in summary(self.path("hand"))["runs"]}
        for row in rows:
            if row["point"] == "rate=25Gbps,mtu=9000":
                self.assertEqual([int(row["iteration_time_ps"])], by_hand[row["fabric"]]["iteration_time_ps"])
                self.assertEqual(int(row["packet_hops"]), by_hand[row["fabric"]]["packet_hops"])
                self.assertEqual(row["servers.rate"], "25Gbps")
        times = {(row["servers.rate"], row["engine.mtu"], row["fabric"]): int(row["iteration_time_ps"])
                 for row in rows}
        self.assertGreater(times["25Gbps", "9000", "topoopt"], times["100Gbps", "9000", "topoopt"])

    def test_the_table_is_the_same_however_many_at_a_time(self):
        self.run_ok("sweep", "w.yaml", "-o", "one", "-j", "1", "--quiet")
        self.run_ok("sweep", "w.yaml", "-o", "two", "-j", "3", "--quiet")
        self.assertEqual(tables(self.path("one")), tables(self.path("two")))

    def test_killed_at_any_moment_it_goes_on(self):
        self.run_ok("sweep", "w.yaml", "-o", "whole", "--quiet")
        kills = 0
        for _ in range(40):
            with subprocess.Popen([fixture.PROGRAM, "sweep", "w.yaml", "-o", "out", "-j", "2"], cwd=self.dir,
                                  stderr=subprocess.DEVNULL) as run:
                # Later each time, so that one comes at the start, one inside a run, one near the end.
                try:
                    run.wait(timeout=0.01 + 0.02 * kills)
                    break
                except subprocess.TimeoutExpired:
                    run.send_signal(signal.SIGKILL)
                    kills += 1
        deadline = time.monotonic() + 60
        result = self.call("sweep", "w.yaml", "-o", "out")
        while result.code == 1 and "another process" in result.err and time.monotonic() < deadline:
            result = self.call("sweep", "w.yaml", "-o", "out")
        self.assertEqual(result.code, 0, str(result))
        self.assertGreater(kills, 0)
        self.assertEqual(tables(self.path("out")), tables(self.path("whole")))
        again = self.run_ok("sweep", "w.yaml", "-o", "out")
        self.assertIn("4 of 4 points were done before", again.err)

    def test_failures_are_listed(self):
        self.write("w.yaml", "scenario: s.yaml\ngrid: {stop: [1ns, 1s]}\n")
        result = self.call("sweep", "w.yaml", "-o", "out")
        self.assertEqual(result.code, 1, str(result))
        self.assertIn("stop=1ns: exit code 1", result.err)
        self.assertEqual({row["point"] for row in read_csv(self.path("out/sweep.csv"))}, {"stop=1s"})
        with open(self.path("out/failed.txt"), encoding="utf-8") as handle:
            failed = handle.read()
        # Why, and not the last of the details below it.
        self.assertRegex(failed, "^stop=1ns: exit code 1: .*stop time 1ns")

    def test_bad_input_is_found_before_the_first_run(self):
        self.write("w.yaml", "scenario: s.yaml\ngrid: {stop: [1s, 2]}\n")
        self.refused(["sweep", "w.yaml", "-o", "out"], "w.yaml", "stop=2", "unit")
        self.write("w.yaml", "scenario: s.yaml\ngrid: {stop: [1s]}\n")
        for jobs in ("0", "-1", "x", "9999999"):
            self.refused(["sweep", "w.yaml", "-o", "out", "--jobs=" + jobs], "jobs")
        self.write("file", "")
        self.refused(["sweep", "w.yaml", "-o", "file/out"], "file/out")

    def test_tasks_of_a_job_array(self):
        self.run_ok("sweep", "w.yaml", "-o", "whole", "--quiet")
        self.run_ok("sweep", "w.yaml", "-o", "out", "--slurm")
        self.assertEqual(subprocess.run(["bash", "-n", self.path("out/sweep.sbatch")], check=False).returncode, 0)
        for task in range(4):
            environment = dict(os.environ, SLURM_ARRAY_TASK_ID=str(task))
            run = subprocess.run(["bash", self.path("out/sweep.sbatch")], env=environment, cwd="/",
                                 capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(tables(self.path("out")), tables(self.path("whole")))


if __name__ == "__main__":
    fixture.ready()
    unittest.main(verbosity=1)
