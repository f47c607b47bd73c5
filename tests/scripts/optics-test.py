#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Failures and reconfiguration at the command line: exit codes, messages, tables, and runs that can be repeated from their manifest."""

import os
import sys
import unittest

sys.dont_write_bytecode = True
import cli_fixture as fixture  # noqa: E402
from cli_fixture import ProgramTest, basic_trace, read_csv, summary, tables  # noqa: E402


class Optics(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write_trace(basic_trace(4, elements=1 << 20))

    def test_failure_that_a_fabric_survives_and_one_it_does_not(self):
        self.scenario(fabrics="[topoopt, ideal-switch]",
                      failures="{detection: 10us, events: [{kind: nic, server: 1, nic: 0, at: 30us}]}")
        result = self.call("run", "s.yaml", "-o", "out")
        self.assertEqual(result.code, 1, str(result))
        self.assertIn("ideal-switch: not complete", result.err)
        self.assertIn("the job cannot go on", result.err)
        self.assertIn("nic 0 of server 1 is down since 30us", result.err)
        runs = {run["fabric"]: run for run in summary(self.path("out"))["runs"]}
        good = runs["topoopt"]
        self.assertTrue(good["complete"])
        self.assertEqual(good["failures"][0]["at_ps"], 30_000_000)
        self.assertEqual(good["failures"][0]["detected_ps"], 40_000_000)
        self.assertIsNone(good["failures"][0]["repaired_ps"])
        self.assertGreater(good["failures"][0]["messages_hit"], 0)
        self.assertGreater(good["failures"][0]["recovery_ps"], 0)
        self.assertGreater(good["slowdown_by_failures"], 1)
        self.assertGreater(good["drops_by_cause"]["down"], 0)
        self.assertEqual(sum(good["drops_by_cause"].values()), good["drops"])
        self.assertFalse(runs["ideal-switch"]["complete"])
        links = read_csv(self.path("out", "topoopt", "links.csv"))
        self.assertEqual(sum(int(row["drops_down"]) for row in links), good["drops_by_cause"]["down"])
        self.assertTrue(any(int(row["dark_ps"]) > 0 for row in links))

    def test_reconfiguration_and_its_manifest(self):
        self.scenario(fabrics="[topoopt, {kind: ocs-reconfig, name: fw, reconfiguration: greedy}, "
                              "{kind: ocs-reconfig, name: nofw, reconfiguration: {policy: greedy-direct}}]",
                      reconfiguration="{latency: 20us}")
        result = self.run_ok("run", "s.yaml", "-o", "out")
        self.assertIn("fw: greedy changed circuits", result.out)
        runs = {run["fabric"]: run for run in summary(self.path("out"))["runs"]}
        self.assertNotIn("reconfiguration", runs["topoopt"])
        for name in ("fw", "nofw"):
            self.assertGreater(runs[name]["reconfiguration"]["changes"], 0)
            self.assertEqual(runs[name]["drops"], 0)
            self.assertEqual(runs[name]["violations"], [])
        self.run_ok("run", os.path.join("out", "manifest.yaml"), "-o", "again")
        self.assertEqual(tables(self.path("out")), tables(self.path("again")))

    def test_mistakes_are_named(self):
        self.scenario(reconfiguration="{latensy: 10ms}")
        self.refused(["run", "s.yaml", "-o", "out"], "s.yaml:5:", "reconfiguration.latensy", "did you mean 'latency'?")
        self.scenario(fabrics="[{kind: fat-tree, reconfiguration: greedy}]")
        self.refused(["run", "s.yaml", "-o", "out"], "fat-tree", "circuits between servers")
        self.scenario(fabrics="[topoopt]", reconfiguration="{policy: greedy, insertion_loss: 9dB}")
        self.refused(["run", "s.yaml", "-o", "out"], "loss of", "expected at most the 6.30 dB")
        self.scenario(failures="[{kind: nik, server: 1, at: 1ms}]")
        self.refused(["run", "s.yaml", "-o", "out"], "failures.0.kind", "did you mean 'nic'?")
        self.scenario(failures="[{kind: server, server: 9, at: 1ms}]")
        self.refused(["run", "s.yaml", "-o", "out"], "server 9", "0..3")

    def test_check_says_what_run_says(self):
        wrong = (("[topoopt]", "[{kind: server, server: 9, at: 1ms}]", "{}", "server 9"),
                 ("[topoopt]", "[{kind: nik, server: 1, at: 1ms}]", "{}", "failures.0.kind"),
                 ("[{kind: fat-tree, reconfiguration: greedy}]", "", "{latency: 1ms}", "circuits between servers"),
                 ("[topoopt]", "", "{policy: greedy, insertion_loss: 9dB}", "loss of"),
                 ("[topoopt]", "", "{policy: greedy, ports: 3}", "reconfiguration.ports"),
                 ("[topoopt]", "", "{policy: greedy, bond: perhaps}", "reconfiguration.bond"),
                 ("[topoopt]", "", "{device: patch-panel, insertion_loss: 20dB}", "loss of"),
                 ("[topoopt]", "", "{link_budget: 0}", "loss of"),
                 ("[{kind: topoopt, reconfiguration: {device: look-ahead, fibre_km: 100}}]", "", "{}", "loss of"),
                 ("[topoopt]", "", "{policy: external}", "reconfiguration.command"),
                 ("[topoopt]", "", "{policy: scheduled, plans: [{at: 1ms, circuits: [0-1]}, {circuit: [0-1]}]}", "plans.1.circuit"),
                 ("[topoopt]", "", "{policy: scheduled, plans: {at: 1ms, circuits: [0-1]}}", "expected a list"),
                 ("[topoopt]", "", "{policy: scheduled, plans: [{at: 1ms, circuits: [0-9]}]}", "0 -> 9"),
                 ("[topoopt]", "", "{policy: scheduled, plans: [{before: 99, circuits: [0-1]}]}", "collective 99"))
        for fabrics, failures, reconfiguration, word in wrong:
            sections = {"fabrics": fabrics, "reconfiguration": reconfiguration}
            if failures:
                sections["failures"] = failures
            self.scenario(**sections)
            check = self.call("check", "s.yaml")
            run = self.call("run", "s.yaml", "-o", "out")
            self.assertEqual((check.code, run.code), (2, 2), reconfiguration + failures)
            self.assertEqual(check.err, run.err)
            self.assertIn(word, check.err)
        self.scenario(fabrics="[topoopt]", reconfiguration="{policy: greedy, latency: 1ms}",
                      failures="[{kind: nic, server: 1, nic: 0, at: 1ms}, {kind: nic, server: 1, nic: 9, at: 1ms}]")
        out = self.run_ok("check", "s.yaml").out
        self.assertIn("greedy through ocs of", out)
        self.assertIn("every 4ms", out)
        self.assertIn("1 of 2 event(s)", out)
        self.assertIn("failures.1: nic: this fabric has no such thing", out)

    def test_failures_beside_a_policy(self):
        self.scenario(fabrics="[{kind: ocs-reconfig, name: fw, reconfiguration: greedy}, "
                              "{kind: ocs-reconfig, name: nofw, reconfiguration: greedy-direct}]",
                      reconfiguration="{latency: 20us}",
                      failures="{detection: 10us, events: [{kind: nic, server: 1, nic: 0, at: 100us}]}")
        self.run_ok("run", "s.yaml", "-o", "out")
        for run in summary(self.path("out"))["runs"]:
            self.assertTrue(run["complete"])
            self.assertTrue(run["failures"][0]["applies"])
            self.assertEqual(run["failures"][0]["detected_ps"], 110_000_000)
            self.assertGreater(run["slowdown_by_failures"], 0.9)
            self.assertEqual(sum(run["drops_by_cause"].values()), run["drops"])
            self.assertEqual(run["violations"], [])

    def test_list(self):
        out = self.run_ok("list").out
        for name in ("greedy", "greedy-direct", "scheduled", "external", "sipml-ring", "static", "look-ahead", "patch-panel"):
            self.assertIn(f"  {name} ", out)


if __name__ == "__main__":
    fixture.ready()
    unittest.main()
