#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""scripts/reproduce on a small evaluation with real runs, and the definitions of scenarios/paper."""

from __future__ import annotations

import contextlib
import csv
import importlib.machinery
import importlib.util
import io
import json
import os
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
import cli_fixture as fixture  # noqa: E402
from cli_fixture import ProgramTest, basic_trace  # noqa: E402

SOURCE = Path(fixture.SOURCE)
sys.path[:0] = [str(SOURCE / "scripts")]

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
from figures import style, sweep  # noqa: E402

# Pixels cost time and no test counts them.
style.DPI = 40

PAPER = SOURCE / "scenarios" / "paper"
RATES = """
version: 1
scenario: s.yaml
grid:
  servers.rate: [25Gbps, 100Gbps]
  fabrics: [[topoopt], [ideal-switch]]
"""
FIGURES = """
version: 1
quick: {rates: {set: {engine.mtu: 1500}, grid: {servers.rate: [50Gbps]}}}
figures:
  - id: "1"
    title: Rates
    sweeps: [rates]
    pictures:
      - {sweep: rates, x: servers.rate, y: iteration_time_ps, name: iteration}
      - {sweep: rates, draw: [completion, link_load], where: {servers.rate: 25Gbps, fabric: topoopt}}
    published:
      - {what: slow over fast, value: 2.0, tag: "[abstract]",
         ours: {sweep: rates, measure: iteration_time_ps, of: {servers.rate: 25Gbps}, over: {servers.rate: 100Gbps}, reduce: max}}
      - {what: nothing such, value: 1, tag: "[recalled]",
         ours: {sweep: rates, measure: iteration_time_ps, where: {servers.rate: 3Gbps}}}
    why: They are small.
  - {id: "2", title: Same sweep, sweeps: [rates]}
"""


class Reproduce(ProgramTest):
    def setUp(self) -> None:
        super().setUp()
        self.write_trace(basic_trace(4))
        self.scenario()
        self.write("rates.yaml", RATES)
        self.write("figures.yaml", FIGURES)
        self.out = Path(self.path("out"))

    def reproduce(self, *words: str) -> tuple[int, str, str]:
        out, errors = io.StringIO(), io.StringIO()
        more = ["--program", fixture.PROGRAM, "--definitions", self.dir, "-o", str(self.out), "--quiet"]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            status = reproduce.main([*words, *more])
        return status, out.getvalue(), errors.getvalue()

    def facts(self) -> list[dict]:
        return json.loads((self.out / "results.json").read_text())

    def test_all(self) -> None:
        status, _, errors = self.reproduce("all", "-j", "2")
        self.assertEqual(status, 0, errors)
        # Two figures share a sweep, which runs once.
        self.assertEqual(errors.count("sweep rates"), 1)
        facts = self.facts()
        self.assertEqual([(fact["figure"], fact["done"], fact["points"]) for fact in facts], [("1", 4, 4), ("2", 4, 4)])
        ours = [row["ours"] for row in facts[0]["comparisons"]]
        times = {}
        for path in self.out.glob("sweeps/rates/*/summary.json"):
            run = json.loads(path.read_text())["runs"][0]
            times[run["fabric"], "rate=25Gbps" in path.parent.name] = run["iteration_time_ps"][0]
        ratios = [times[fabric, True] / times[fabric, False] for fabric in ("topoopt", "ideal-switch")]
        self.assertAlmostEqual(ours[0], max(ratios), 9)
        self.assertTrue(1 < ours[0] <= 4)
        self.assertIsNone(ours[1])
        page = (self.out / "results.md").read_text()
        self.assertIn(f"| slow over fast | 2 | [abstract] | {ours[0]:.4g} | {ours[0] / 2:.4g} |", page)
        self.assertIn("| nothing such | 1 | [recalled] | – | – |", page)
        self.assertIn("They are small.", page)
        for name in facts[0]["files"]:
            self.assertTrue((self.out / name).exists(), name)
        self.assertLessEqual(
            {f"figures/1/{name}" for name in ("iteration.png", "completion.pdf")}, set(facts[0]["files"])
        )
        # Started again, nothing runs: every `done` stays as old as it is.
        before = {path: path.stat().st_mtime_ns for path in self.out.glob("sweeps/rates/*/done")}
        self.assertEqual((len(before), self.reproduce("1")[0]), (4, 0))
        self.assertEqual({path: path.stat().st_mtime_ns for path in self.out.glob("sweeps/rates/*/done")}, before)

    def test_rows_of_two_sweeps(self) -> None:
        """A value of `also` fills in a parameter that the other sweep has not, or selects rows by one that it varies."""
        first = sweep.Sweep(Path("a"), ["rate", "model"], ["time"], [{"rate": "1", "model": "x", "time": "5"}])
        rows = [{"rate": rate, "nics": nics, "time": nics + rate} for rate in "12" for nics in "48"]
        both = sweep.join(first, sweep.Sweep(Path("b"), ["rate", "nics"], ["time"], rows), {"model": "y", "nics": "8"})
        found = [(row["rate"], row["model"], row["time"]) for row in both.rows]
        self.assertEqual(found, [("1", "x", "5"), ("1", "y", "81"), ("2", "y", "82")])

    def test_names_of_runs(self) -> None:
        """A number says what it counts."""
        self.assertEqual(reproduce._setting("servers.nics", "8"), "nics 8")
        self.assertEqual(reproduce._setting("workload.batch_per_gpu", "0.5"), "batch per gpu 0.5")
        self.assertEqual(reproduce._setting("strategy.embedding", "table-wise"), "table-wise")

    def test_quick(self) -> None:
        self.assertEqual(self.reproduce("2", "--quick")[0], 0)
        self.assertEqual((self.facts()[0]["done"], self.facts()[0]["points"]), (2, 2))
        self.assertIn("16 servers where the original has 128 (quick mode)", (self.out / "results.md").read_text())

    def test_fluid_flows(self) -> None:
        """All but what pictures of single runs come from, on the page of the manual as well."""
        self.write("more.yaml", RATES)
        more = '  - {id: "3", title: More, sweeps: [more], published: [{what: hops, value: 2, tag: "[derived]",'
        more += " ours: {topology: {servers: 16, degree: 4}, measure: mean_hops}}], why: 'One | two.'}\n"
        self.write("figures.yaml", FIGURES + more)
        manual = self.path("page.rst")
        status, _, errors = self.reproduce("1", "3", "--fidelity", "flow", "--manual", manual)
        self.assertEqual(status, 0, errors)
        found = {}
        for name in ("rates", "more"):
            with open(self.out / "sweeps" / name / "sweep.csv", encoding="utf-8") as table:
                found[name] = {row["fidelity"] for row in csv.DictReader(table)}
        self.assertEqual(found, {"rates": {"packet"}, "more": {"flow"}})
        page = Path(manual).read_text(encoding="utf-8")
        self.assertIn("scripts/reproduce 1 3 --fidelity flow", page)
        # The mean of the circulant of 16 servers with strides 1 and 5 is 2.1333.
        self.assertIn("   * - hops\n     - 2\n     - [derived]\n     - 2.133\n     - 1.067\n", page)
        for figure in ("Figure 1: Rates", "Figure 3: More"):
            self.assertIn(f"{figure}\n{'*' * len(figure)}\n", page)

    def test_a_point_that_fails_is_told(self) -> None:
        self.write("rates.yaml", RATES.replace("grid:\n", "grid:\n  stop: [1ns, 1s]\n"))
        status, _, _ = self.reproduce("1")
        self.assertEqual((status, self.facts()[0]["done"], self.facts()[0]["points"]), (1, 4, 8))

    def test_nothing_done(self) -> None:
        self.assertEqual(self.reproduce("all", "--no-run")[0], 1)
        page = (self.out / "results.md").read_text()
        self.assertIn("0 of 4 points done", page)
        self.assertIn("no point of rates is done that completion, link_load could be drawn from", page)
        self.assertIn("empty=no point", (self.out / "figures" / "1" / "iteration.csv").read_text())

    def test_costs(self) -> None:
        self.write(
            "figures.yaml",
            """
version: 1
figures:
  - id: "c"
    title: Costs
    costs: {servers: [16, 128], links: [4x100Gbps], fabrics: [topoopt, ideal-switch]}
    pictures: [{sweep: costs, x: servers.count, y: cost_usd, name: cost}]
    published:
      - {what: ideal over topoopt, value: 3.2, tag: "[thesis-abs]",
         ours: {sweep: costs, measure: cost_usd, of: {fabric: ideal-switch}, over: {fabric: topoopt}, reduce: mean}}
      - {what: the same, value: 3.2, tag: "[thesis-abs]",
         ours: {sweep: costs, measure: ratio_to_topoopt, where: {fabric: ideal-switch}}}
""",
        )
        self.assertEqual(self.reproduce("c")[0], 0)
        facts = self.facts()[0]
        self.assertEqual((facts["done"], facts["points"]), (2, 2))
        first, second = (row["ours"] for row in facts["comparisons"])
        self.assertAlmostEqual(first, second, 9)
        self.assertGreater(first, 1)
        self.assertIn("figures/c/cost.pdf", facts["files"])

    def test_bad_input(self) -> None:
        for words, text, found in (
            (["3"], FIGURES, "found figure '3', expected one of 1, 2, all or list"),
            (["1"], "version: 1\n", "found no version 1 with a list of figures"),
            (["1"], "version: [\n", "figures.yaml:2:1:"),
            (["1"], FIGURES.replace("title: Rates", "titel: Rates"), "figures[0].titel: found an unknown key"),
            (["1"], FIGURES.replace("reduce: max", "reduce: most"), "reduce: expected one of"),
            (["1"], FIGURES.replace("grid: {servers", "grit: {servers"), "quick.rates.grit: found an unknown key"),
            (["1"], FIGURES.replace('id: "2"', 'id: "1"'), "found an id twice"),
            (["1"], FIGURES.replace("sweeps: [rates]", "sweeps: [none]"), "none.yaml: cannot be opened"),
        ):
            self.write("figures.yaml", text)
            status, _, errors = self.reproduce(*words)
            self.assertEqual(status, 2, errors)
            self.assertIn(found, errors)


class Paper(unittest.TestCase):
    """What scenarios/paper defines hangs together; nothing is run."""

    @staticmethod
    def values(sweep: dict) -> dict:
        """What a sweep's points have, by key."""
        values = {key: list(entries) for key, entries in sweep.get("grid", {}).items()}
        for point in sweep.get("points", []):
            for key, value in point.items():
                values.setdefault(key, []).append(value)
        return values

    def test_figures(self) -> None:
        definitions = reproduce.read_definitions(PAPER)
        available = plot.pictures()
        used = {name for figure in definitions.figures.values() for name in figure.sweeps}
        self.assertLessEqual(set(definitions.quick), used)
        for figure in definitions.figures.values():
            entries = list(figure.pictures) + [row["ours"] for row in figure.published if "sweep" in row.get("ours", {})]
            grids = {name: self.values(reproduce.load_yaml(PAPER / f"{name}.yaml")) for name in figure.sweeps}
            links = [str(link).replace("x", " x ") for link in figure.costs.get("links", [])]
            grids["costs"] = {"servers.count": figure.costs.get("servers"), "links": links}
            for entry in entries:
                grid = grids[entry["sweep"]]
                conditions = {**entry.get("where", {}), **entry.get("of", {}), **entry.get("over", {})}
                for name, value in conditions.items():
                    if name != "fabric":
                        self.assertIn(value, grid[name], f"{figure.id}: no point has {name} = {value}")
                if "x" in entry:
                    self.assertIn(entry["x"], grid)
                self.assertLessEqual(set(entry.get("draw", [])), set(available))
        bases = {Path(reproduce.load_yaml(PAPER / f"{name}.yaml")["scenario"]).stem for name in used}
        # No file lies about that no figure uses.
        self.assertEqual({path.stem for path in PAPER.glob("*.yaml")}, used | bases | {"figures"})

    def test_the_page_of_the_manual_is_of_these_figures(self) -> None:
        """evaluation.rst was written for as many points of each figure as there are."""
        page = (SOURCE / "contrib" / "topoopt" / "doc" / "evaluation.rst").read_text(encoding="utf-8")
        definitions = reproduce.read_definitions(PAPER)
        for figure in definitions.figures.values():
            points = sum(reproduce.sweep_file(definitions, name, Path(), False)[1] for name in figure.sweeps)
            if figure.costs:
                points += len(figure.costs["servers"]) * len(figure.costs["links"])
            head = f"Figure {figure.id}: {figure.title}"
            self.assertIn(f"\n{head}\n{'*' * len(head)}\n\n{points} of {points} points done.\n", page)

    def test_quick_mode(self) -> None:
        """All figures on 16 servers: every point ends, every picture is there, every number of ours is one."""
        out = Path(os.getcwd()) / "reproduce-test-files" / "quick"
        fixture.shutil.rmtree(out, ignore_errors=True)
        words = ["all", "--quick", "--fidelity", "flow", "-o", str(out), "--quiet", "--program", fixture.PROGRAM]
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            self.assertEqual(reproduce.main([*words, "-j", "2"]), 0, errors.getvalue())
        facts = json.loads((out / "results.json").read_text())
        self.assertEqual({fact["figure"] for fact in facts}, set(reproduce.read_definitions(PAPER).figures))
        for fact in facts:
            self.assertEqual(fact["done"], fact["points"], fact["figure"])
            for row in fact["comparisons"]:
                self.assertTrue(row["ours"] is None or row["ours"] > 0, row)
            for name in fact["files"]:
                self.assertGreater((out / name).stat().st_size, 0)
        fixture.shutil.rmtree(out)

    def test_the_program_takes_every_point(self) -> None:
        """`topoopt sweep` reads the scenario of each point before it would write a job array."""
        definitions = reproduce.read_definitions(PAPER)
        out = Path(os.getcwd()) / "reproduce-test-files"
        for name in sorted({name for figure in definitions.figures.values() for name in figure.sweeps}):
            for quick in (False, True):
                path, points = reproduce.sweep_file(definitions, name, out, quick)
                words = ["sweep", str(path), "-o", str(out / "array"), "--slurm", "--quiet"]
                run = fixture.subprocess.run([fixture.PROGRAM, *words], capture_output=True, text=True, check=False)
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertIn(f"--array=0-{points - 1}%", (out / "array" / "sweep.sbatch").read_text())
        fixture.shutil.rmtree(out)


if __name__ == "__main__":
    fixture.ready()
    unittest.main()
