#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""scripts/plot.py on made-up results: numbers behind the pictures, empty and broken input, equal bytes twice."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("TOPOOPT_SOURCE", Path(__file__).resolve().parents[2]))
sys.path[:0] = [str(SOURCE / "scripts"), str(SOURCE / "tests" / "scripts")]

try:
    import matplotlib  # noqa: F401
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

from synthetic_results import FLOW_HEADER, make_results, write_csv  # noqa: E402
from topoopt_results import ResultError, nearest_rank, read_matrix, read_results, read_table  # noqa: E402


def plot(*arguments: object, hash_seed: str = "0") -> subprocess.CompletedProcess:
    environment = {
        **os.environ,
        "PYTHONHASHSEED": hash_seed,
        "PYTHONWARNINGS": "error::UserWarning",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = ["/usr/bin/python3", SOURCE / "scripts" / "plot.py", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def rows_of(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(line for line in stream if not line.startswith("#")))


class Scratch(unittest.TestCase):
    """A test with a directory of its own."""

    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.dir = Path(holder.name)

    def draw(self, *arguments: object, **options: str) -> Path:
        out = self.dir / "out"
        done = plot(*arguments, "-o", out, **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return out

    def refuse(self, *arguments: object, found: str) -> None:
        done = plot(*arguments, "-o", self.dir / "out")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(found, done.stderr)


class Reading(Scratch):
    def test_gzip_reads_as_plain(self) -> None:
        plain = read_results([make_results(self.dir / "a", flows=200)])
        packed = read_results([make_results(self.dir / "b", flows=200, compress=True)])
        for one, other in zip(plain, packed):
            np.testing.assert_array_equal(one.flows.number("fct_ps"), other.flows.number("fct_ps"))
            self.assertEqual(one.flows.rows, 200)

    def test_nearest_rank(self) -> None:
        values = np.arange(1.0, 1001.0)
        self.assertEqual([nearest_rank(values, p) for p in (0, 50, 99, 99.9, 100)], [1, 500, 990, 999, 1000])
        self.assertEqual(nearest_rank(values[:10], 99), 10)
        self.assertTrue(np.isnan(nearest_rank(values[:0], 50)))

    def test_matrix_forms(self) -> None:
        forms = {
            "plain": "# unit=bytes\n0,5\n7,0\n",
            "names above": "s0,s1\n0,5\n7,0\n",
            "names above and beside": "src,s0,s1\ns0,0,5\ns1,7,0\n",
        }
        for name, text in forms.items():
            path = self.dir / "m.csv"
            path.write_text(text)
            self.assertEqual(read_matrix(path).tolist(), [[0, 5], [7, 0]], name)
        path.write_text("1,2\n3\n")
        with self.assertRaisesRegex(ResultError, r"m.csv:2: found 1 fields, expected 2"):
            read_matrix(path)

    def test_bound_of_a_permutation(self) -> None:
        directory = make_results(self.dir / "a", fabrics=("ideal-switch",), iterations=1)
        rows = [[0, 0, 0, 0], [0, 0, 3_000_000, 0], [0, 0, 9_000_000, 0], [1_000_000, 0, 0, 0]]
        path = directory / "ideal-switch"
        (path / "topology.json").unlink()
        (path / "matrix_demand.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
        header = "link_id,src,dst,rate_bps,bytes,packets,drops,marks,busy_ps,max_queue_bytes,utilisation"
        write_csv(path / "links.csv", header, [[i, f"s{i}", "core", 10**11, 0, 0, 0, 0, 0, 0, 0] for i in range(4)])
        # Server 1 sends and server 2 receives 3 MB at 100 Gb/s; server 2's own 9 MB never leave it.
        self.assertEqual(read_results([directory])[0].iteration_bound(), 240_000_000)


class Refusals(Scratch):
    def test_no_directory_and_no_summary(self) -> None:
        self.refuse(self.dir / "none", found="found no directory")
        (self.dir / "empty").mkdir()
        self.refuse(self.dir / "empty", found="summary.json: cannot be opened")

    def test_summary(self) -> None:
        directory = make_results(self.dir / "a", flows=10)
        for text, found in {
            '{"runs": [': "summary.json:1:11:",
            "[]": 'found no list "runs"',
            '{"runs": [{}]}': 'run 0: found no "fabric"',
            '{"runs": [{"fabric": "x", "iteration_time_ps": ["fast"]}]}': "expected a list of numbers",
        }.items():
            (directory / "summary.json").write_text(text)
            self.refuse(directory, found=found)

    def test_flows(self) -> None:
        directory = make_results(self.dir / "a", flows=10, fabrics=("topoopt",))
        path = directory / "topoopt" / "flows.csv"
        good = path.read_text()
        lines = good.splitlines()
        for broken, found in (
            (good.replace("slowdown", "slow"), "flows.csv:3: found header"),
            (
                "\n".join(lines[:5] + [lines[5].replace(",", ",x", 1)] + lines[6:]),
                "flows.csv:6: column op_id: found 'x",
            ),
            ("\n".join(lines[:7] + ["1,2,3"]), "flows.csv:8: found 3 fields, expected 18"),
            ("", "found header 'end of file'"),
            ("\0\0,\xff", "flows.csv:1: found header"),
        ):
            path.write_text(broken)
            self.refuse(directory, found=found)
        path.write_bytes(b"# \xff\n")
        self.refuse(directory, found="flows.csv: byte 2: found 0xff, expected UTF-8")
        path.unlink()
        path.with_suffix(".csv.gz").write_bytes(b"\x1f\x8b\x08cut")
        self.refuse(directory, found="gzip stream is damaged")

    def test_command_line(self) -> None:
        directory = make_results(self.dir / "a", flows=10)
        self.refuse(directory, "--only", "pie", found="--only: found 'pie'")
        self.refuse(directory, "--labels", "a,b", found="expected 1, one per directory")
        (self.dir / "out").write_text("in the way")
        self.refuse(directory, found="cannot be written")


class Pictures(Scratch):
    def test_every_picture_has_three_files_of_equal_bytes(self) -> None:
        one = make_results(self.dir / "one", flows=300, unfinished=9)
        two = make_results(self.dir / "two", flows=200, seed=2)
        sums = []
        for seed in ("1", "2"):
            out = self.draw(one, two, hash_seed=seed)
            files = sorted(out.iterdir())
            sums.append({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files})
        self.assertEqual(sums[0], sums[1])
        stems = {path.stem for path in files if path.suffix == ".png"}
        self.assertLessEqual({"fct_cdf", "fct_tail", "slowdown_by_size", "tail_table", "completion"}, stems)
        for stem in stems:
            self.assertEqual((out / f"{stem}.png").read_bytes()[:4], b"\x89PNG")
            self.assertEqual((out / f"{stem}.pdf").read_bytes()[:4], b"%PDF")
            self.assertNotIn(b"CreationDate", (out / f"{stem}.pdf").read_bytes())
            self.assertTrue((out / f"{stem}.csv").exists(), stem)

    def test_empty_results_say_so(self) -> None:
        for name, options, reason in (
            ("none", {"flow_table": False}, "no flow table"),
            ("zero", {"flows": 0}, "the flow tables are empty"),
            ("cut", {"flows": 5, "fabrics": ("ring", "torus"), "unfinished": 5}, None),
        ):
            out = self.draw(make_results(self.dir / name, **options))
            if reason:
                self.assertIn(reason, (out / "fct_cdf.csv").read_text())
                self.assertEqual(rows_of(out / "fct_cdf.csv"), [])
                self.assertIn(reason, (out / "tail_table.md").read_text())
        directory = make_results(self.dir / "norun", fabrics=())
        self.assertIn("the results hold no run", (self.draw(directory) / "completion.csv").read_text())

    def test_cdf_ends_below_one_for_unfinished_flows(self) -> None:
        out = self.draw(make_results(self.dir / "a", flows=400, unfinished=100), "--only", "fct_cdf")
        last = {row["run"]: row for row in rows_of(out / "fct_cdf.csv")}
        self.assertEqual((last["fat-tree"]["fraction"], last["fat-tree"]["unfinished"]), ("0.75", "100"))
        self.assertEqual((last["topoopt"]["fraction"], last["topoopt"]["flows"]), ("1", "400"))

    def test_cdf_is_exact(self) -> None:
        directory = make_results(self.dir / "a", flows=5000, fabrics=("topoopt",))
        times = np.sort(read_results([directory])[0].flows.number("fct_ps"))
        out = self.draw(directory, "--only", "fct_cdf")
        rows = rows_of(out / "fct_cdf.csv")
        self.assertLess(len(rows), 1200)
        for row in rows:
            self.assertAlmostEqual(float(row["fraction"]), np.mean(times <= float(row["fct_ps"])), 8)
        self.assertEqual([float(row["fct_ps"]) for row in rows[-100:]], times[-100:].tolist())
        tail = rows_of(self.draw(directory, "--only", "fct_cdf") / "fct_tail.csv")
        for row in tail:
            self.assertAlmostEqual(float(row["fraction"]), np.mean(times >= float(row["fct_ps"])), 8)

    def test_tail_table(self) -> None:
        directory = make_results(self.dir / "a", flows=1000, fabrics=("topoopt", "fat-tree"), unfinished=20)
        runs = read_results([directory])
        rows = rows_of(self.draw(directory, "--only", "tail_table") / "tail_table.csv")
        first = rows[0]
        times = np.sort(runs[0].flows.number("fct_ps"))
        self.assertEqual((first["flows"], first["run"], first["n"]), ("all flows", "topoopt", "1000"))
        self.assertEqual(float(first["fct_ps_p99"]), times[989])
        self.assertEqual(float(first["fct_ps_max"]), times[-1])
        self.assertAlmostEqual(float(first["fct_ps_mean"]) / times.mean(), 1, 6)
        # 2 % of the second run's flows did not finish: its p99 is unknown, its p95 is not.
        self.assertEqual((rows[1]["unfinished"], rows[1]["fct_ps_p99"]), ("20", "inf"))
        self.assertTrue(np.isfinite(float(rows[1]["fct_ps_p95"])))
        classes = [row for row in rows if row["run"] == "topoopt" and "B" in row["flows"]]
        self.assertEqual(sum(int(row["n"]) for row in classes), 1000)

    def test_slowdown_bins_keep_every_flow(self) -> None:
        for name, options, bins in (("many", {}, 20), ("few", {"few_sizes": True}, 3)):
            directory = make_results(self.dir / name, flows=1000, fabrics=("topoopt",), **options)
            rows = rows_of(self.draw(directory, "--only", "slowdown_by_size") / "slowdown_by_size.csv")
            sizes = read_results([directory])[0].flows.number("bytes")
            self.assertEqual(len(rows), bins)
            self.assertEqual(sum(int(row["flows"]) for row in rows), 1000)
            self.assertEqual(float(rows[-1]["bytes_up_to"]), sizes.max())
            if not options:
                self.assertTrue(all(49 <= int(row["flows"]) <= 51 for row in rows), rows)

    def test_completion_equals_the_summary(self) -> None:
        directory = make_results(self.dir / "a")
        runs = json.loads((directory / "summary.json").read_text())["runs"]
        rows = rows_of(self.draw(directory, "--only", "completion") / "completion.csv")
        for run, row in zip(runs, rows):
            times = run["iteration_time_ps"]
            self.assertAlmostEqual(float(row["mean_ps"]) / (sum(times) / len(times)), 1, 6)
            self.assertEqual(float(row["max_ps"]), max(times))


if __name__ == "__main__":
    unittest.main()
