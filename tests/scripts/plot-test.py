#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""scripts/plot.py on made-up results: numbers behind the pictures, empty and broken input, equal bytes twice."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import itertools
import json
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import warnings
from functools import partial
from pathlib import Path

SOURCE = Path(os.environ.get("TOPOOPT_SOURCE", Path(__file__).resolve().parents[2]))
sys.path[:0] = [str(SOURCE / "scripts"), str(SOURCE / "tests" / "scripts")]

try:
    import matplotlib  # noqa: F401
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

from matplotlib.figure import Figure  # noqa: E402
from matplotlib.text import Text  # noqa: E402

import plot  # noqa: E402
from figures import style  # noqa: E402
from synthetic_results import FLOW_HEADER, OP_HEADER, make_results, write_csv  # noqa: E402
from figures.completion import operation_bounds, operations_of  # noqa: E402
from figures.links import utilisation_grid  # noqa: E402
from figures.style import kind_slots  # noqa: E402
from figures.topology import positions, server_hops  # noqa: E402
from topoopt_results import (  # noqa: E402
    Node,
    ResultError,
    TopologyFile,
    TopologyLink,
    nearest_rank,
    read_matrix,
    read_results,
    read_topology,
)


PICTURES = set(
    "fct_cdf fct_tail slowdown_by_size tail_table completion iteration_times collectives timeline link_utilisation"
    " traffic_matrix ring_traffic path_length pair_hops link_load bandwidth_tax topology".split()
)


# Pixels cost time and no test counts them.
style.DPI = 40


def plot_command(*arguments: object, hash_seed: str) -> tuple[int, str]:
    """The script as its own process: exit status and standard error."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONWARNINGS": "error::UserWarning"}
    program = f"import sys, plot; from figures import style; style.DPI = {style.DPI}; sys.exit(plot.main(sys.argv[1:]))"
    environment["PYTHONPATH"] = str(SOURCE / "scripts")
    command = ["/usr/bin/python3", "-B", "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return done.returncode, done.stderr


def plot_here(*arguments: object, rendered: bool = True) -> tuple[int, str]:
    """The same within this process, which saves a second for each call; without `rendered` it makes no picture files."""
    errors = io.StringIO()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stderr(errors))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(warnings.catch_warnings())
        if not rendered:
            stack.enter_context(unittest.mock.patch("matplotlib.figure.Figure.savefig"))
        warnings.simplefilter("error", UserWarning)
        status = plot.main([str(argument) for argument in arguments])
    return status, errors.getvalue()


def rows_of(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(line for line in stream if not line.startswith("#")))


class Scratch(unittest.TestCase):
    """A test with a directory of its own."""

    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.dir = Path(holder.name)

    def draw(self, *arguments: object) -> Path:
        """Every file in full."""
        out = self.dir / "out"
        self.assertEqual(plot_here(*arguments, "-o", out), (0, ""))
        return out

    def tables(self, *arguments: object) -> Path:
        """The tables behind the pictures, at a tenth of the time."""
        out = self.dir / "out"
        self.assertEqual(plot_here(*arguments, "-o", out, rendered=False), (0, ""))
        return out

    def refuse(self, *arguments: object, found: str) -> None:
        status, errors = plot_here(*arguments, "-o", self.dir / "out")
        self.assertEqual(status, 2, errors)
        self.assertEqual(errors.count("\n"), 1, errors)
        self.assertIn(found, errors)


class Reading(Scratch):
    def test_gzip_reads_as_plain(self) -> None:
        plain = read_results([make_results(self.dir / "a", flows=200)])
        packed = read_results([make_results(self.dir / "b", flows=200, compress=True)])
        for one, other in zip(plain, packed):
            np.testing.assert_array_equal(one.flows.number("fct_ps"), other.flows.number("fct_ps"))
            self.assertEqual(one.flows.rows, 200)

    def test_transfers_within_a_server_and_empty_ones_do_not_count(self) -> None:
        directory = make_results(self.dir / "a", flows=100, fabrics=("topoopt",))
        path = directory / "topoopt" / "flows.csv"
        local = "100,0,0,0,copy,3,3,5000,0,7,7,7,1,0,0,done,7,0\n"
        barrier = "101,0,0,0,barrier,3,4,0,0,7,7,7,1,1,0,done,7,0\n"
        path.write_text(path.read_text() + local + barrier)
        run = read_results([directory])[0]
        self.assertEqual((run.all_flows.rows, run.flows.rows, int(run.finished.sum())), (102, 100, 100))
        rows = rows_of(self.tables(directory, "--only", "tail_table") / "tail_table.csv")
        self.assertEqual(rows[0]["n"], "100")
        self.assertFalse({"copy", "barrier"} & {row["flows"] for row in rows})

    def test_tables_as_the_program_writes_them(self) -> None:
        """Names beside and above a matrix that also has the switches; a collective's task says which one it is."""
        directory = make_results(self.dir / "a", flows=100, fabrics=("fat-tree",))
        path = directory / "fat-tree"
        names = [f"s{i}" for i in range(8)] + ["core0"]
        rows = [[name, *(9 * i + j for j in range(9))] for i, name in enumerate(names)]
        write_csv(path / "matrix_link.csv", "from," + ",".join(names), rows)
        tasks = [[0, 0, 1, 0, "compute", "mlp", 0, 5], [0, 0, 2, 0, "collective", "all_reduce", 5, 9]]
        write_csv(path / "tasks.csv", "rank,server,task,iteration,kind,name,start_ps,end_ps", tasks)
        run = read_results([directory])[0]
        self.assertEqual(run.matrix("link").shape, (8, 8))
        self.assertEqual(run.matrix("link")[7, 7], 70)
        rows = rows_of(self.tables(directory, "--only", "timeline") / "timeline.csv")
        self.assertEqual([row["kind"] for row in rows], ["compute", "all_reduce"])

    def test_looks_follow_the_kind(self) -> None:
        slots = kind_slots({"fat-tree": "fat-tree", "a": "fat-tree", "mine": "topoopt", "zz": "no such kind"})
        self.assertEqual((slots["mine"], slots["fat-tree"]), (0, 1))
        self.assertEqual(len(set(slots.values())), 4)
        many = kind_slots({f"f{i}": "x" for i in range(15)})
        self.assertEqual(len(many), 15)

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
        # What was asked for when a run was cut short is no whole number of iterations.
        summary = json.loads((directory / "summary.json").read_text())
        summary["runs"][0]["complete"] = False
        (directory / "summary.json").write_text(json.dumps(summary))
        self.assertIsNone(read_results([directory])[0].iteration_bound())


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
        one = make_results(self.dir / "one", fabrics=("topoopt", "fat-tree"), flows=200, unfinished=9)
        two = make_results(self.dir / "two", fabrics=("topoopt",), flows=100, seed=2, servers=4)
        sums = []
        some = "completion,timeline,traffic_matrix,topology"
        # Again: every table, and pictures of each kind of drawing, since pictures take most of the time.
        for name, run, more in (
            ("all", partial(plot_command, hash_seed="1"), ()),
            ("tables", partial(plot_here, rendered=False), ()),
            ("some", plot_here, ("--only", some)),
        ):
            out = self.dir / name
            self.assertEqual(run(one, two, "-o", out, *more), (0, ""))
            files = sorted(out.iterdir())
            sums.append({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files})
        for again in sums[1:]:
            self.assertLessEqual(again.items(), sums[0].items())
        self.assertEqual({name for name in sums[0] if not name.endswith((".png", ".pdf", ".svg"))}, set(sums[1]))
        self.assertLessEqual({f"{name}.{form}" for name in some.split(",") for form in ("png", "pdf", "csv")}, set(sums[2]))
        out = self.dir / "all"
        stems = {path.stem for path in out.glob("*.png")}
        self.assertEqual(stems, PICTURES)
        for stem in stems:
            self.assertEqual((out / f"{stem}.png").read_bytes()[:4], b"\x89PNG")
            self.assertEqual((out / f"{stem}.pdf").read_bytes()[:4], b"%PDF")
            self.assertNotIn(b"CreationDate", (out / f"{stem}.pdf").read_bytes())
            self.assertTrue((out / f"{stem}.csv").exists(), stem)

    def test_empty_results_say_so(self) -> None:
        for name, draw, options, reason in (
            ("none", self.tables, {"flow_table": False}, "no flow table"),
            ("zero", self.draw, {"flows": 0}, "the flow tables are empty"),
            ("cut", self.tables, {"flows": 5, "fabrics": ("ring", "torus"), "unfinished": 5}, None),
        ):
            out = draw(make_results(self.dir / name, servers=4, **options))
            if reason:
                self.assertIn(reason, (out / "fct_cdf.csv").read_text())
                self.assertEqual(rows_of(out / "fct_cdf.csv"), [])
                self.assertIn(reason, (out / "tail_table.md").read_text())
        directory = make_results(self.dir / "norun", fabrics=())
        self.assertIn("the results hold no run", (self.tables(directory) / "completion.csv").read_text())

    def test_cdf_ends_below_one_for_unfinished_flows(self) -> None:
        out = self.tables(make_results(self.dir / "a", flows=400, unfinished=100), "--only", "fct_cdf")
        last = {row["run"]: row for row in rows_of(out / "fct_cdf.csv")}
        self.assertEqual((last["fat-tree"]["fraction"], last["fat-tree"]["unfinished"]), ("0.75", "100"))
        self.assertEqual((last["topoopt"]["fraction"], last["topoopt"]["flows"]), ("1", "400"))

    def test_cdf_is_exact(self) -> None:
        directory = make_results(self.dir / "a", flows=5000, fabrics=("topoopt",))
        times = np.sort(read_results([directory])[0].flows.number("fct_ps"))
        out = self.tables(directory, "--only", "fct_cdf")
        rows = rows_of(out / "fct_cdf.csv")
        self.assertLess(len(rows), 1200)
        for row in rows:
            self.assertAlmostEqual(float(row["fraction"]), np.mean(times <= float(row["fct_ps"])), 8)
        self.assertEqual([float(row["fct_ps"]) for row in rows[-100:]], times[-100:].tolist())
        tail = rows_of(self.tables(directory, "--only", "fct_cdf") / "fct_tail.csv")
        for row in tail:
            self.assertAlmostEqual(float(row["fraction"]), np.mean(times >= float(row["fct_ps"])), 8)

    def test_tail_table(self) -> None:
        directory = make_results(self.dir / "a", flows=1000, fabrics=("topoopt", "fat-tree"), unfinished=20)
        runs = read_results([directory])
        rows = rows_of(self.tables(directory, "--only", "tail_table") / "tail_table.csv")
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
            rows = rows_of(self.tables(directory, "--only", "slowdown_by_size") / "slowdown_by_size.csv")
            sizes = read_results([directory])[0].flows.number("bytes")
            self.assertEqual(len(rows), bins)
            self.assertEqual(sum(int(row["flows"]) for row in rows), 1000)
            self.assertEqual(float(rows[-1]["bytes_up_to"]), sizes.max())
            if not options:
                self.assertTrue(all(49 <= int(row["flows"]) <= 51 for row in rows), rows)

    def test_completion_equals_the_summary(self) -> None:
        directory = make_results(self.dir / "a")
        runs = json.loads((directory / "summary.json").read_text())["runs"]
        rows = rows_of(self.tables(directory, "--only", "completion") / "completion.csv")
        for run, row in zip(runs, rows):
            times = run["iteration_time_ps"]
            self.assertAlmostEqual(float(row["mean_ps"]) / (sum(times) / len(times)), 1, 6)
            self.assertEqual(float(row["max_ps"]), max(times))

    def test_bound_of_a_ring_allreduce(self) -> None:
        """2 (n-1)/n S / rate, from flows that step round the ring."""
        n, size = 8, 8_000_000
        directory = make_results(self.dir / "a", fabrics=("ideal-switch",), flows=0)
        path = directory / "ideal-switch"
        flows = [
            [step * n + i, 5, "j", 0, "AllReduce", i, (i + 1) % n, size // n, 0, 9, 9, 9, 1, 2, 0, "done", 9, 0]
            for step in range(2 * (n - 1))
            for i in range(n)
        ]
        write_csv(path / "flows.csv", FLOW_HEADER, flows)
        bounds = operation_bounds(read_results([directory])[0])
        self.assertEqual(list(bounds), [("j", 0, 5)])
        self.assertAlmostEqual(bounds["j", 0, 5], 2 * (n - 1) / n * size * 8e12 / 4e11, 3)

    def test_operations_come_again_in_every_iteration(self) -> None:
        """An op_id names an operation of one iteration of one job: each has its own place and its own bound."""
        directory = make_results(self.dir / "a", fabrics=("ideal-switch",), flows=0)
        path = directory / "ideal-switch"
        ops, flows = [], []
        for job, iteration, bytes_sent in (("a", 0, 1000), ("a", 1, 3000), ("b", 0, 5000)):
            flows.append([len(flows), 0, job, iteration, "AllToAll", 0, 1, bytes_sent, 0, 9, 9, 9, 1, 2, 0, "done", 9, 0])
            ops.append([0, job, iteration, "AllToAll", "x", "all", 8, bytes_sent, 0, 10**9, 10**9, "done", 0])
        write_csv(path / "flows.csv", FLOW_HEADER, flows)
        write_csv(path / "ops.csv", OP_HEADER, ops)
        rows = rows_of(self.tables(directory, "--only", "collectives") / "collectives.csv")
        found = [(row["job"], row["iteration"], row["op_id"], float(row["bound_ps"])) for row in rows]
        # A server of a star has one link of 400 Gb/s to the switch.
        self.assertEqual(found, [("a", "0", "0", 20_000), ("a", "1", "0", 60_000), ("b", "0", "0", 100_000)])

    def test_long_names_stay_inside_the_picture(self) -> None:
        one = make_results(self.dir / "one", flows=300, unfinished=30)
        two = make_results(self.dir / "two", flows=300, seed=2)
        cut: list[str] = []

        def inspect(figure: Figure, path: Path, **_: object) -> None:
            nonlocal cut
            figure.draw_without_rendering()
            axes = [axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)]
            ticks = {id(text) for axis in axes for text in axis.get_ticklabels(which="both")}
            for text in figure.findobj(Text):
                if text.get_visible() and text.get_text().strip() and id(text) not in ticks:
                    box = text.get_window_extent()
                    inside = box.x0 > -1 and box.y0 > -1 and box.x1 < figure.bbox.width + 1 and box.y1 < figure.bbox.height + 1
                    cut += [] if inside else [f"{path.name}: {text.get_text()}"]
            titles = [ax.title for ax in figure.axes if ax.get_title()]
            for a, b in itertools.combinations(titles, 2):
                if a.get_window_extent().overlaps(b.get_window_extent()):
                    cut.append(f"{path.name}: {a.get_text()} over {b.get_text()}")

        with unittest.mock.patch("matplotlib.figure.Figure.savefig", inspect):
            names = ("--labels", "before-the-upgrade,after-the-upgrade")
            self.assertEqual(plot_here(one, two, *names, "-o", self.dir / "out"), (0, ""))
        self.assertEqual(cut, [])

    def test_a_margin_grows_with_the_numbers_in_it(self) -> None:
        figure, ax = style.framed_figure(2, (0.25, 0.4, 0.1, 0.1))
        ax.plot([0, 1], [1, 90_000])
        ax.set_ylabel("slowdown, p95")
        style.keep_inside(figure)
        figure.draw_without_rendering()
        self.assertGreater(ax.yaxis.label.get_window_extent().x0, 0)

    def test_jobs_of_a_shared_cluster(self) -> None:
        """Times of jobs, not of iterations, without a bound for one iteration; each job's rank 0 has a row of its own."""
        directory = make_results(self.dir / "a", fabrics=("fat-tree",), flows=20)
        summary = json.loads((directory / "summary.json").read_text())
        summary["runs"][0].update(jobs=2, jobs_finished=2)
        (directory / "summary.json").write_text(json.dumps(summary))
        tasks = [[rank, 4 * job + rank, 7, 0, "compute", "mlp", 0, 5 + job] for job in (0, 1) for rank in (0, 1)]
        write_csv(directory / "fat-tree" / "tasks.csv", "rank,server,task,iteration,kind,name,start_ps,end_ps", tasks)
        out = self.tables(directory)
        self.assertEqual([row["bound_ps"] for row in rows_of(out / "completion.csv")], [""])
        rows = [(row["row"], row["end_ps"]) for row in rows_of(out / "timeline.csv")]
        self.assertEqual(rows, [("s0 rank 0", "5"), ("s1 rank 1", "5"), ("s4 rank 0", "6"), ("s5 rank 1", "6")])

    def test_timeline_shows_what_is_unfinished(self) -> None:
        directory = make_results(self.dir / "a", fabrics=("topoopt", "fat-tree"), unfinished=3)
        rows = rows_of(self.tables(directory, "--only", "timeline") / "timeline.csv")
        left = [row for row in rows if row["kind"] == "unfinished"]
        run = read_results([directory])[1]
        at = int(np.flatnonzero(run.ops.word("status").equal("unfinished"))[0])
        found = [(row["run"], row["row"], row["name"]) for row in left]
        self.assertEqual(found, [("fat-tree", "unfinished", run.ops.word("name")[at])])
        self.assertEqual(float(left[0]["start_ps"]), run.ops.number("start_ps")[at])
        last = max(np.nanmax(table.number("end_ps")) for table in (run.flows, run.tasks))
        self.assertEqual(float(left[0]["end_ps"]), last)

    def test_trace_slices_of_a_thread_do_not_overlap(self) -> None:
        directory = make_results(self.dir / "a", unfinished=3)
        out = self.tables(directory, "--only", "timeline")
        trace = json.loads((out / "timeline.trace.json").read_text())
        threads: dict[tuple[int, int], float] = {}
        slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        for event in slices:
            thread = (event["pid"], event["tid"])
            self.assertGreaterEqual(event["ts"] + 1e-6, threads.get(thread, 0))
            threads[thread] = event["ts"] + event["dur"]
        named = {(e["pid"], e["tid"]) for e in trace["traceEvents"] if e["name"] == "thread_name"}
        self.assertEqual(set(threads), named)
        # The tasks, and the operation that the second run left unfinished.
        self.assertEqual(len(slices), sum(run.tasks.rows for run in read_results([directory])) + 1)
        self.assertEqual(len(rows_of(out / "timeline.csv")), len(slices))

    def test_timeline_window(self) -> None:
        directory = make_results(self.dir / "a", fabrics=("topoopt",))
        whole = rows_of(self.tables(directory, "--only", "timeline") / "timeline.csv")
        part = rows_of(self.tables(directory, "--only", "timeline", "--window", "1ms:2000us") / "timeline.csv")
        expected = [row for row in whole if float(row["end_ps"]) > 1e9 and float(row["start_ps"]) < 2e9]
        self.assertEqual(part, expected)
        self.assertTrue(0 < len(part) < len(whole))
        for text in ("2ms:1ms", "1:2", "1ms", "1ms:2h", "1.1.1ms:2ms"):
            self.refuse(directory, "--window", text, found="expected two ascending times")

    def test_utilisation_bins_keep_the_mean(self) -> None:
        directory = make_results(self.dir / "a", flows=10, fabrics=("topoopt",))
        path = directory / "topoopt" / "link_samples.csv"
        times = np.cumsum(np.arange(1, 1001))
        values = (np.arange(1000) % 7) / 10
        write_csv(path, "link_id,t_ps,utilisation", [[4, t, v] for t, v in zip(times, values)] + [[9, times[-1], 1]])
        ids, edges, grid = utilisation_grid(read_results([directory])[0])
        # The links without a sample never sent.
        links = read_results([directory])[0].links.rows
        self.assertEqual((ids.tolist()[:2], grid.shape), ([4, 9], (links, 200)))
        self.assertEqual(grid[2:].any(), False)
        mean = (values * np.arange(1, 1001)).sum() / times[-1]
        self.assertAlmostEqual(float((grid[0] * np.diff(edges)).sum() / edges[-1]), float(mean), 9)

    def test_matrices_add_up(self) -> None:
        directory = make_results(self.dir / "a", fabrics=("topoopt",), unfinished=0)
        demand = read_results([directory])[0].demand
        cells: dict[str, float] = {}
        for row in rows_of(self.tables(directory, "--only", "traffic_matrix") / "traffic_matrix.csv"):
            cells[row["part"]] = cells.get(row["part"], 0) + float(row["bytes"])
        self.assertEqual(cells["demand"], demand.sum())
        self.assertEqual(cells["AllReduce"] + cells["other than AllReduce"], demand.sum())

    def test_sweep(self) -> None:
        directory = self.dir / "sweep"
        directory.mkdir()
        rows = [
            [f"p{rate}-{nics}", f"{rate}Gbps", nics, fabric, "done", 1000 * rate * nics]
            for rate in (10, 100)
            for nics in (4, 8)
            for fabric in ("topoopt", "fat-tree")
        ]
        rows.append(["p", "200Gbps", 4, "topoopt", "failed", None])
        header = "point,servers.rate,servers.nics,fabric,status,iteration_time_ps"
        write_csv(directory / "sweep.csv", header, rows)
        points = rows_of(self.draw(directory) / "sweep.csv")
        self.assertEqual(len(points), 8)
        for point in points:
            nics = int(point["panel"].removeprefix("servers.nics = "))
            rate = int(point["servers.rate"].removesuffix("Gbps"))
            self.assertEqual(float(point["iteration_time_ps"]), 1000 * rate * nics)
        self.draw(directory, "--x", "servers.nics")
        # What failed has no row: the picture says how many points it lacks.
        (directory / "failed.txt").write_text("p: exit code 1\nq: exit code 1\n")
        with unittest.mock.patch("matplotlib.axes.Axes.set_xlabel") as label:
            self.draw(directory)
        self.assertIn("1 of 9 runs not done; 2 points failed", label.call_args.args[0])
        self.refuse(directory, "--x", "nics", found="--x: found 'nics', expected one of servers.rate, servers.nics")
        self.refuse(directory, directory, found="a sweep is drawn alone")
        write_csv(directory / "sweep.csv", header, rows[-1:])
        self.assertIn("no point of the sweep is done", (self.draw(directory) / "sweep.csv").read_text())
        (directory / "sweep.csv").write_text("a,b\n")
        self.refuse(directory, found="expected a column fabric")

    def test_sweep_counts_what_a_run_has_once_only_once(self) -> None:
        """Two draws of two and three jobs: a row per job, which repeat the mean of their run."""
        directory = self.dir / "jobs"
        directory.mkdir()
        rows = [
            [f"p{seed}", seed, "topoopt", job, 100 * seed + job, 1000 * seed] for seed in (1, 2) for job in range(seed + 1)
        ]
        write_csv(directory / "sweep.csv", "point,seed,fabric,iteration,iteration_time_ps,iteration_mean_ps", rows)
        (point,) = rows_of(self.draw(directory, "--x", "seed", "--y", "iteration_mean_ps") / "sweep.csv")[:1]
        self.assertEqual((float(point["iteration_mean_ps"]), int(point["n"])), (1000, 1))
        points = rows_of(self.draw(directory, "--x", "seed", "--y", "iteration_time_ps") / "sweep.csv")
        self.assertEqual([int(point["n"]) for point in points], [2, 3])

    def test_readable_labels(self) -> None:
        from figures import sweep

        times = {"10us": "10 µs", "1000us": "1 ms", "100000us": "100 ms", "0us": "0 µs", "3600s": "3600 s", "100Gbps": "100Gbps"}
        self.assertEqual({text: sweep.readable_time(text) for text in times}, times)
        self.assertEqual(sweep.readable("workload.jobs.load"), "jobs load")
        self.assertEqual(sweep.readable("reconfiguration.latency"), "reconfiguration latency")

    def test_hops_between_servers(self) -> None:
        """The verified statistics of circulants in both directions: 128 servers, strides 1 and 13, and 1, 5, 13, 39."""
        for strides, mean, first in (((1, 13), 5.6220472, 4 / 127), ((1, 5, 13, 39), 2.9606299, 8 / 127)):
            links = [
                TopologyLink(0, i, (i + sign * stride) % 128, 1e11, None, False)
                for i in range(128)
                for stride in strides
                for sign in (1, -1)
            ]
            count = server_hops(TopologyFile(128, [Node(f"s{i}", "server") for i in range(128)], links))
            self.assertEqual(count.sum(), 128 * 127)
            self.assertAlmostEqual((np.arange(len(count)) * count).sum() / count.sum(), mean, 6)
            self.assertAlmostEqual(count[1] / count.sum(), first, 9)
        one_way = TopologyFile(
            2, [Node("s0", "server"), Node("s1", "server")], [TopologyLink(0, 0, 1, 1e11, None, False)]
        )
        self.assertEqual(server_hops(one_way)[:2].tolist(), [1, 1])

    def test_tiers_of_a_clos(self) -> None:
        """A 4-ary Fat-tree lies in four rows; the pods, whose switches are listed backwards, stay above their servers."""
        names = [f"s{i}" for i in range(16)]
        names += [f"{kind}{i}" for kind in ("edge", "agg") for i in reversed(range(8))] + [f"core{i}" for i in range(4)]
        index = {name: i for i, name in enumerate(names)}
        pairs = [(f"s{i}", f"edge{i // 2}") for i in range(16)]
        pairs += [(f"edge{i}", f"agg{i // 2 * 2 + j}") for i in range(8) for j in range(2)]
        pairs += [(f"agg{i}", f"core{i % 2 * 2 + j}") for i in range(8) for j in range(2)]
        links = [
            TopologyLink(0, index[a], index[b], 1e11, None, False) for pair in pairs for a, b in (pair, pair[::-1])
        ]
        nodes = [Node(name, "server" if name.startswith("s") else "switch") for name in names]
        place = positions(TopologyFile(16, nodes, links))
        for name, i in index.items():
            row = ["s", "edge", "agg", "core"].index(name.rstrip("0123456789"))
            self.assertAlmostEqual(place[i, 1], 2 * row / 3 - 1)
        for kind, count in (("s", 16), ("edge", 8), ("agg", 8), ("core", 4)):
            x = [place[index[f"{kind}{i}"], 0] for i in range(count)]
            # Equal steps in the order of the names, except that those above the same nodes may change places.
            steps = sorted(x)
            np.testing.assert_allclose(np.diff(steps), 2 / count)
            moved = np.abs(np.array(x) - steps) * count / 2
            self.assertLess(moved.max(), {"agg": 1.01, "core": 2.01}.get(kind, 1e-9))
        # A cable between two servers or two switches of a row makes it another kind of network.
        links.append(TopologyLink(0, 0, 1, 1e11, None, False))
        np.testing.assert_allclose(np.hypot(*positions(TopologyFile(16, nodes, links))[:16].T), 1)

    def test_rings_carry_equal_bytes(self) -> None:
        """One AllReduce on the strides +1 and +3 and back: a panel for each, which no flow of another kind or pair enters."""
        directory = make_results(self.dir / "a", flows=0, fabrics=("topoopt",), iterations=1)
        flows = [
            [8 * i + k, 0, "j", 0, "AllReduce", i, (i + stride) % 8, 1000, 0, 9, 9, 9, 1, 1, 0, "done", 9, 0]
            for i in range(8)
            for k, stride in enumerate((1, 7, 3, 5))
        ]
        flows.append([99, 0, "j", 0, "AllToAll", 0, 1, 77, 0, 9, 9, 9, 1, 1, 0, "done", 9, 0])
        write_csv(directory / "topoopt" / "flows.csv", FLOW_HEADER, flows)
        path = directory / "topoopt" / "topology.json"
        wiring = json.loads(path.read_text())
        for link in wiring["links"]:
            stride = (link["dst"] - link["src"]) % 8
            link["ring"] = {1: 0, 7: 1, 3: 2, 5: 3}.get(stride)
        path.write_text(json.dumps(wiring))
        cells: dict[str, list[tuple[int, float]]] = {}
        for row in rows_of(self.tables(directory, "--only", "ring_traffic") / "ring_traffic.csv"):
            stride = (int(row["dst_server"]) - int(row["src_server"])) % 8
            cells.setdefault(row["ring"], []).append((stride, float(row["bytes"])))
        self.assertEqual(cells, {name: [(stride, 1000.0)] * 8 for name, stride in (("+1", 1), ("+3", 3), ("-1", 7), ("-3", 5))})

    def test_topology_file(self) -> None:
        directory = make_results(self.dir / "a", flows=10, fabrics=("topoopt",))
        path = directory / "topoopt" / "topology.json"
        good = json.loads(path.read_text())
        place = positions(read_topology(path))
        np.testing.assert_allclose(place[0], [0, 1], atol=1e-12)
        np.testing.assert_allclose(np.hypot(*place.T), 1)
        for change, found in (
            ({"servers": 99}, "servers: found 99, expected 0 to 8"),
            ({"links": [{"id": 0, "src": 0, "dst": 8, "rate_bps": 1}]}, "link 0: found 0 to 8, expected nodes below 8"),
            ({"links": [{"id": 0}]}, "expected servers, nodes (name, kind) and links"),
        ):
            path.write_text(json.dumps({**good, **change}))
            self.refuse(directory, "--only", "topology", found=found)


PROGRAM = os.environ.get("TOPOOPT", "")


@unittest.skipUnless(os.access(PROGRAM, os.X_OK), "no program in TOPOOPT")
class Program(Scratch):
    """What the program itself writes: its numbers and ours agree."""

    def test_quickstart(self) -> None:
        results = self.dir / "results"
        command = [PROGRAM, "run", SOURCE / "scenarios" / "quickstart.yaml", "-o", results, "--quiet"]
        command += ["--set", "iterations=2"]
        subprocess.run(command, check=True, capture_output=True)
        summary = json.loads((results / "summary.json").read_text())
        out = self.tables(results)
        self.assertLessEqual(PICTURES, {path.stem for path in out.glob("*.csv")})
        for path in out.glob("*.csv"):
            self.assertNotIn("# empty", path.read_text(), path.name)
        rows = {row["run"]: row for row in rows_of(out / "tail_table.csv") if row["flows"] == "all flows"}
        bounds = {row["run"]: float(row["bound_ps"]) for row in rows_of(out / "completion.csv")}
        for run in summary["runs"]:
            own = rows[run["fabric"]]
            self.assertEqual(float(own["fct_ps_max"]), run["fct_max_ps"])
            # The program may keep percentiles in bins of a per cent.
            for percent in ("p50", "p99"):
                self.assertAlmostEqual(float(own[f"fct_ps_{percent}"]) / run[f"fct_{percent}_ps"], 1, 1)
            self.assertGreaterEqual(float(own["slowdown_p50"]), 1)
            self.assertLessEqual(bounds[run["fabric"]], min(run["iteration_time_ps"]))
        for run in read_results([results]):
            self.assertEqual(run.demand.sum(), run.summary["demand_bytes"])
            bounds_of = operation_bounds(run)
            for operation, taken in zip(operations_of(run.ops), run.ops.number("duration_ps"), strict=True):
                self.assertLessEqual(bounds_of[operation], taken)

    def test_percentiles_are_those_of_the_summary(self) -> None:
        """Also where parameters are so few that a ring's messages are empty for some servers."""
        results = self.dir / "results"
        scenario = self.dir / "s.yaml"
        scenario.write_text(
            "version: 1\nservers: {count: 8, nics: 2, rate: 100Gbps}\nworkload: {model: bert}\nfabrics: [topoopt]\n"
        )
        subprocess.run([PROGRAM, "run", scenario, "-o", results, "--quiet"], check=True, capture_output=True)
        run = read_results([results])[0]
        times = np.sort(run.flows.number("fct_ps"))
        self.assertLess(run.flows.rows, 1 << 16)  # beyond, the program rounds
        for percent in (50, 99):
            self.assertEqual(nearest_rank(times, percent), run.summary[f"fct_p{percent}_ps"])


if __name__ == "__main__":
    unittest.main()
