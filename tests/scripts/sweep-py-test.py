#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""scripts/sweep.py with a program that only pretends: points, resuming, failures, the table, a kill, Slurm, bad input."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("TOPOOPT_SOURCE", Path(__file__).resolve().parents[2]))
sys.path[:0] = [str(SOURCE / "scripts")]
sys.dont_write_bytecode = True

try:
    import yaml  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import sweep  # noqa: E402

PROGRAM = SOURCE / "tests" / "scripts" / "pretend-topoopt"
GRID = """
version: 1
scenario: base.yaml
set: {servers.count: 8}
parameters:
  servers.rate: [10Gbps, 100Gbps]
  servers.nics: [4, 8]
points:
  - {servers.rate: 200Gbps, test.mode: incomplete}
quick:
  set: {servers.count: 4}
  parameters: {servers.rate: [25Gbps]}
  points: []
"""


def alive(word: str) -> bool:
    """Whether a process has `word` in its command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes():
                return True
        except OSError:
            continue  # it has just ended
    return False


class Sweeps(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.dir = Path(holder.name)
        (self.dir / "base.yaml").write_text("version: 1\n")
        self.file = self.dir / "grid.yaml"
        self.file.write_text(GRID)
        self.out = self.dir / "out"
        self.log = self.dir / "log"
        os.environ["PRETEND_LOG"] = str(self.log)

    def run_sweep(self, *arguments: object) -> tuple[int, str]:
        errors = io.StringIO()
        words = [str(self.file), "-o", str(self.out), "--program", str(PROGRAM), "-j", "3", *map(str, arguments)]
        with contextlib.redirect_stderr(errors):
            status = sweep.main(words)
        return status, errors.getvalue()

    def started(self) -> int:
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0

    def table(self) -> list[dict[str, str]]:
        with open(self.out / "sweep.csv", encoding="utf-8", newline="") as stream:
            return list(csv.DictReader(line for line in stream if not line.startswith("#")))

    def test_grid_and_table(self) -> None:
        status, errors = self.run_sweep()
        self.assertEqual(status, 1)
        self.assertIn("4 of 5 points done", errors)
        self.assertIn("incomplete, exit 1", errors)
        self.assertIn("points: servers.rate=200Gbps+test.mode=incomplete\n", errors)
        rows = self.table()
        self.assertEqual(len(rows), 15)
        for row in rows:
            if row["iteration_time_ps"]:
                factor = {"topoopt": 1.0, "fat-tree": 2.5, "ideal-switch": 0.9}[row["fabric"]]
                rate, nics = float(row["servers.rate"].removesuffix("Gbps")), int(row["servers.nics"] or 4)
                self.assertEqual(float(row["iteration_time_ps"]), int(1e12 * factor / rate / nics) + 1)
                self.assertEqual((row["status"], row["iterations"]), ("done", "2"))
        late = [row for row in rows if row["status"] != "done"]
        self.assertEqual([(row["fabric"], row["unfinished"]) for row in late], [("fat-tree", "3")])
        self.assertIn("--set servers.count=8 --set servers.rate=10Gbps --set servers.nics=4", self.log.read_text())

    def test_second_start_runs_nothing_and_gives_the_same_table(self) -> None:
        self.run_sweep()
        before = (self.out / "sweep.csv").read_bytes()
        _, errors = self.run_sweep()
        self.assertEqual(self.started(), 5)
        self.assertIn("5 points were done before", errors)
        self.assertEqual((self.out / "sweep.csv").read_bytes(), before)
        self.run_sweep("--force")
        self.assertEqual(self.started(), 10)

    def test_only_what_changed_runs_again(self) -> None:
        self.run_sweep()
        self.file.write_text(GRID.replace("[4, 8]", "[2, 4, 8]"))
        self.run_sweep()
        self.assertEqual(self.started(), 7)
        (self.dir / "base.yaml").write_text("version: 1\nseed: 2\n")
        self.run_sweep("--collect")
        self.assertEqual({row["status"] for row in self.table()}, {"stale"})
        self.run_sweep()
        self.assertEqual(self.started(), 14)
        self.run_sweep("--set", "stop=1s")
        self.assertEqual(self.started(), 21)

    def test_failures_are_listed_and_tried_again(self) -> None:
        self.file.write_text("version: 1\nscenario: base.yaml\nparameters: {test.mode: [done, bad, crash]}\n")
        for attempt in (1, 2):
            status, errors = self.run_sweep()
            self.assertEqual(status, 1)
            self.assertIn("failed, exit 2: scenario.yaml:3:1: rate: found 'fast'", errors)
            self.assertIn("failed, exit -9", errors)
            self.assertEqual(self.started(), 1 + 2 * attempt)
        self.assertEqual({row["status"] for row in self.table()}, {"done", "failed"})
        status, errors = self.run_sweep("--program", self.dir / "none", "--force")
        self.assertIn("exit 127", errors)

    def test_goes_on_after_a_kill(self) -> None:
        self.file.write_text("version: 1\nscenario: base.yaml\nparameters: {test.sleep: [0, 0.01, 30, 31]}\n")
        words = [SOURCE / "scripts" / "sweep.py", self.file, "-o", self.out, "--program", PROGRAM, "-j", "2", "--quiet"]
        child = subprocess.Popen(["/usr/bin/python3", *map(str, words)], stderr=subprocess.PIPE)
        until = time.monotonic() + 60
        while self.started() < 4 and time.monotonic() < until:
            time.sleep(0.05)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        # The two that slept are gone with it: a point that lived on would write its summary.
        until = time.monotonic() + 10
        while alive(str(self.out)):
            self.assertLess(time.monotonic(), until, "a point lives on")
            time.sleep(0.05)
        states = [path.parent.name for path in self.out.glob("points/*/point.json")]
        self.assertEqual(sorted(states), ["test.sleep=0", "test.sleep=0.01"])
        self.file.write_text("version: 1\nscenario: base.yaml\nparameters: {test.sleep: [0, 0.01, 0.02]}\n")
        self.assertEqual(self.run_sweep()[0], 0)
        self.assertEqual(self.started(), 5)

    def test_interrupt_stops_the_points_and_records_none(self) -> None:
        self.file.write_text("version: 1\nscenario: base.yaml\nparameters: {test.mode: [hang, done]}\n")
        words = [SOURCE / "scripts" / "sweep.py", self.file, "-o", self.out, "--program", PROGRAM, "-j", "1"]
        child = subprocess.Popen(["/usr/bin/python3", *map(str, words)], stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + 60
        while self.started() < 1 and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=30)
        self.assertEqual(child.returncode, 1)
        self.assertIn("the same command goes on from here", errors)
        self.assertEqual(list(self.out.glob("points/*/point.json")), [])
        self.assertEqual(self.started(), 1)

    def test_quick(self) -> None:
        self.assertEqual(self.run_sweep("--quick")[0], 0)
        self.assertEqual(self.started(), 2)
        self.assertIn("--set servers.count=4 --set servers.rate=25Gbps", self.log.read_text())

    def test_slurm(self) -> None:
        script = self.dir / "job.sh"
        self.assertEqual(self.run_sweep("--slurm", script), (0, ""))
        text = script.read_text()
        self.assertIn("#SBATCH --array=0-4\n", text)
        for task in range(5):
            subprocess.run(["bash", script], env={**os.environ, "SLURM_ARRAY_TASK_ID": str(task)}, check=False)
        self.assertEqual(self.started(), 5)
        self.run_sweep("--collect")
        self.assertEqual((self.started(), len(self.table())), (5, 15))
        self.assertIn("expected 0 to 4", self.run_sweep("--point", 5)[1])

    def test_one_at_a_time_per_directory(self) -> None:
        self.out.mkdir()
        import fcntl

        with open(self.out / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assertEqual(self.run_sweep()[0], 2)

    def test_bad_input(self) -> None:
        for text, found in (
            ("version: 1\nversion: 1\n", "grid.yaml:2:1: version: found twice"),
            ("version: 2\nscenario: base.yaml\n", "version: found 2, expected 1"),
            ("version: 1\nscenario: none.yaml\n", "scenario: found no file"),
            ("version: 1\nscenario: base.yaml\nparameter: {}\n", "parameter: found an unknown key"),
            ("version: 1\nscenario: base.yaml\nparameters: {a: 3}\n", "parameters.a: found '3', expected a list"),
            ("version: 1\nscenario: base.yaml\npoints: [3]\n", "points[0]: found '3', expected keys with values"),
            ("version: 1\nscenario: base.yaml\npoints: [{a: 1}, {a: 1}]\n", "points: found a=1 twice"),
            ("version: [\n", "grid.yaml:2:1:"),
            (
                "version: 1\nscenario: base.yaml\nquick: {parameters: {b: [1]}}\nparameters: {a: [1]}\n",
                "quick.parameters.b",
            ),
            (
                f"version: 1\nscenario: base.yaml\nparameters: {json.dumps({c: list(range(99)) for c in 'abc'})}\n",
                "at most 100000",
            ),
        ):
            self.file.write_text(text)
            status, errors = self.run_sweep(*["--quick"] * ("quick" in text))
            self.assertEqual((status, errors.count("\n")), (2, 1), errors)
            self.assertIn(found, errors)
        self.file.unlink()
        self.assertIn("cannot be opened", self.run_sweep()[1])
        self.file.write_text(GRID)
        self.assertIn("-j: found 0", self.run_sweep("-j", 0)[1])

    def test_names_are_paths_and_differ(self) -> None:
        values = [{"a.b": "x/y"}, {"a.b": "x y"}, {"a": "1" * 300}, {"a": "1" * 301}, {}, {"..": ""}]
        names = [sweep.point_name(value) for value in values]
        self.assertEqual(len(set(names)), len(names))
        for name in names:
            self.assertRegex(name, r"^[A-Za-z0-9.=+_-]{1,120}$")
            self.assertTrue(name.strip("."))


if __name__ == "__main__":
    unittest.main()
