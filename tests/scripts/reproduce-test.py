#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""scripts/reproduce with a program that only pretends, and the definitions of scenarios/paper."""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("TOPOOPT_SOURCE", Path(__file__).resolve().parents[2]))
sys.path[:0] = [str(SOURCE / "scripts")]
sys.dont_write_bytecode = True

try:
    import matplotlib  # noqa: F401
    import yaml  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

loader = importlib.machinery.SourceFileLoader("reproduce", str(SOURCE / "scripts" / "reproduce"))
reproduce = importlib.util.module_from_spec(importlib.util.spec_from_loader("reproduce", loader))
sys.modules["reproduce"] = reproduce
loader.exec_module(reproduce)

import plot  # noqa: E402
import sweep  # noqa: E402

PROGRAM = SOURCE / "tests" / "scripts" / "pretend-topoopt"
PAPER = SOURCE / "scenarios" / "paper"
RATES = """
version: 1
scenario: base.yaml
parameters:
  servers.nics: [4, 8]
  servers.rate: [10Gbps, 100Gbps, 200Gbps]
quick: {parameters: {servers.rate: [25Gbps]}}
"""
FIGURES = """
version: 1
figures:
  - id: "1"
    title: Rates
    sweeps: [rates]
    pictures:
      - {sweep: rates, x: servers.rate, y: iteration_time_ps, name: iteration}
      - {sweep: rates, draw: [completion], where: {servers.rate: 10Gbps}}
    published:
      - {what: fat-tree over topoopt, value: 2.0, tag: "[abstract]",
         ours: {sweep: rates, measure: iteration_time_ps, of: {fabric: fat-tree}, over: {fabric: topoopt}, reduce: max}}
      - {what: d = 4 over d = 8, value: 2, tag: "[derived]",
         ours: {sweep: rates, measure: iteration_time_ps, of: {servers.nics: 4}, over: {servers.nics: 8}}}
      - {what: nothing such, value: 1, tag: "[recalled]",
         ours: {sweep: rates, measure: iteration_time_ps, where: {servers.rate: 3Gbps}}}
    why: They are pretended.
  - {id: "2", title: Same sweep, sweeps: [rates]}
"""


class Reproduce(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.dir = Path(holder.name)
        self.out = self.dir / "out"
        self.log = self.dir / "log"
        os.environ["PRETEND_LOG"] = str(self.log)
        (self.dir / "base.yaml").write_text("version: 1\n")
        (self.dir / "rates.yaml").write_text(RATES)
        (self.dir / "figures.yaml").write_text(FIGURES)

    def call(self, *arguments: object) -> tuple[int, str, str]:
        out, errors = io.StringIO(), io.StringIO()
        words = [*map(str, arguments), "--program", str(PROGRAM), "--definitions", str(self.dir), "-o", str(self.out)]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            status = reproduce.main(words)
        return status, out.getvalue(), errors.getvalue()

    def test_all(self) -> None:
        status, out, errors = self.call("all", "-j", "2")
        self.assertEqual(status, 0, errors)
        self.assertEqual(out, f"{self.out / 'results.md'}\n")
        # Two figures share a sweep, which runs once.
        self.assertEqual(len(self.log.read_text().splitlines()), 6)
        facts = json.loads((self.out / "results.json").read_text())
        self.assertEqual([(fact["figure"], fact["done"], fact["points"]) for fact in facts], [("1", 6, 6), ("2", 6, 6)])
        ours = [row["ours"] for row in facts[0]["comparisons"]]
        self.assertAlmostEqual(ours[0], 2.5, 6)
        self.assertAlmostEqual(ours[1], 2, 6)
        self.assertIsNone(ours[2])
        page = (self.out / "results.md").read_text()
        self.assertIn("| fat-tree over topoopt | 2 | [abstract] | 2.5 | 1.25 |", page)
        self.assertIn("| nothing such | 1 | [recalled] | – | – |", page)
        self.assertIn("They are pretended.", page)
        for name in facts[0]["files"]:
            self.assertTrue((self.out / name).exists(), name)
        self.assertIn("figures/1/iteration.png", facts[0]["files"])
        self.assertIn("figures/1/completion.pdf", facts[0]["files"])
        self.call("1")
        self.assertEqual(len(self.log.read_text().splitlines()), 6)

    def test_quick(self) -> None:
        self.assertEqual(self.call("2", "--quick")[0], 0)
        self.assertEqual(len(self.log.read_text().splitlines()), 2)
        self.assertIn("16 servers (quick mode)", (self.out / "results.md").read_text())

    def test_nothing_done(self) -> None:
        status, _, _ = self.call("all", "--no-run")
        self.assertEqual(status, 1)
        page = (self.out / "results.md").read_text()
        self.assertIn("0 of 6 points done", page)
        self.assertIn("no point is done that completion could be drawn from", page)

    def test_bad_input(self) -> None:
        for words, text, found in (
            (["3"], FIGURES, "found figure '3', expected one of 1, 2, all or list"),
            (["1"], "version: 1\n", "found no version 1 with a list of figures"),
            (["1"], FIGURES.replace("title: Rates", "titel: Rates"), "figures[0].titel: found an unknown key"),
            (["1"], FIGURES.replace("reduce: max", "reduce: most"), "reduce: expected one of"),
            (["1"], FIGURES.replace("[completion]", "[pie]"), "draw: found 'pie'"),
            (["1"], FIGURES.replace("sweeps: [rates]", "sweeps: [none]"), "none.yaml"),
        ):
            (self.dir / "figures.yaml").write_text(text)
            status, _, errors = self.call(*words, "--quiet")
            self.assertEqual(status, 2, errors)
            self.assertIn(found, errors)


class Paper(unittest.TestCase):
    """What scenarios/paper defines hangs together; nothing is run."""

    def test_figures(self) -> None:
        figures = reproduce.read_figures(PAPER / "figures.yaml")
        self.assertEqual(len({figure.id for figure in figures}), len(figures))
        available = plot.pictures()
        for figure in figures:
            used = [entry for entry in figure.pictures] + [row["ours"] for row in figure.published if "ours" in row]
            for quick in (False, True):
                found = {name: sweep.read_sweep(PAPER / f"{name}.yaml", quick) for name in figure.sweeps}
                for entry in used:
                    one = found[entry["sweep"]]
                    conditions = {**entry.get("where", {}), **entry.get("of", {}), **entry.get("over", {})}
                    self.assertLessEqual(set(conditions) - {"fabric"}, set(one.parameters), figure.id)
                    if "x" in entry:
                        self.assertIn(entry["x"], one.parameters)
                    for name in entry.get("draw", []):
                        self.assertIn(name, available)
                    if "draw" in entry:
                        chosen = [
                            p
                            for p in one.points
                            if all(p.values[k] == sweep.text_of(v) for k, v in entry.get("where", {}).items())
                        ]
                        self.assertTrue(chosen, f"{figure.id}: no point that {entry['draw']} could be drawn from")

    def test_scenarios_are_scenarios(self) -> None:
        sweeps = {name for figure in reproduce.read_figures(PAPER / "figures.yaml") for name in figure.sweeps}
        for name in sorted(sweeps):
            scenario = sweep.load_yaml(sweep.read_sweep(PAPER / f"{name}.yaml").scenario)
            self.assertLessEqual({"version", "name", "servers", "workload", "fabrics"}, set(scenario))
        # No file lies about without a figure that uses it.
        bases = {sweep.read_sweep(PAPER / f"{name}.yaml").scenario.stem for name in sweeps}
        self.assertEqual({path.stem for path in PAPER.glob("*.yaml")}, sweeps | bases | {"figures"})


if __name__ == "__main__":
    unittest.main()
