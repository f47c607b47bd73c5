#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""The HTML report in a headless Chromium: opens from disk without errors or requests, shows the numbers of summary.json, filters,
sorts, zooms, prints, in light and dark, with 100 000 flows. Skipped without Chromium or without the libraries (npm)."""

from __future__ import annotations

import functools
import json
import os
import sys
import tempfile
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("TOPOOPT_SOURCE", Path(__file__).resolve().parents[2]))
sys.path[:0] = [str(SOURCE / "scripts"), str(SOURCE / "tests" / "scripts")]
sys.dont_write_bytecode = True

try:
    import matplotlib  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import browser  # noqa: E402
import plot  # noqa: E402
from figures import style  # noqa: E402
from report import build, libraries  # noqa: E402
from synthetic_results import make_results  # noqa: E402
from topoopt_results import read_results  # noqa: E402

style.DPI = 40
HOLDER = tempfile.TemporaryDirectory()
HERE = Path(HOLDER.name)
READY = "document.documentElement.dataset.ready === 'yes'"
COUNT = "document.querySelector('#table-count').textContent"


def report_of(directory: Path) -> Path:
    out = directory / "plots"
    assert plot.main([str(directory), "-o", str(out), "--html", "--quiet", "--only", "completion"]) == 0
    return out / "report.html"


@functools.cache
def shared_page() -> browser.Browser:
    """One Chromium for all tests, since it takes seconds to start."""
    return browser.Browser(width=1100, height=800)


def shown_rows(page: browser.Browser) -> int:
    return int(page.evaluate(COUNT).split(" of ")[0].replace(",", ""))


class Small(unittest.TestCase):
    """Three fabrics, 3000 flows each, some unfinished."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.results = make_results(HERE / "small", unfinished=60)
        cls.report = report_of(cls.results)
        cls.page = shared_page()
        cls.page.errors.clear()
        cls.page.requests.clear()
        cls.page.open(cls.report)
        cls.page.wait(READY)
        cls.runs = json.loads((cls.results / "summary.json").read_text())["runs"]

    def setUp(self) -> None:
        """Back to the first run, all its flows and no filter: loading the page again would take a second."""
        self.page.errors.clear()
        self.page.wait(f"{COUNT} !== ''")
        self.page.evaluate(
            "topooptReport.state.table = 'flows'; document.querySelector('#table-count').textContent = '';"
            " topooptReport.selectRun(0); scrollTo(0, 0)"
        )
        self.page.wait(f"{COUNT} === '3,000 of 3,000 rows'")

    def tearDown(self) -> None:
        self.assertEqual(self.page.errors, [])

    def field(self, run: int, name: str) -> str:
        return self.page.evaluate(
            f"document.querySelectorAll('.card')[{run}].querySelector('[data-field=\"{name}\"]').textContent"
        )

    def test_asks_for_nothing_but_itself(self) -> None:
        self.assertEqual(set(self.page.requests), {self.report.resolve().as_uri()})
        self.assertNotIn("@DATA@", self.report.read_text(encoding="utf-8"))

    def test_numbers_equal_the_summary(self) -> None:
        self.assertEqual(self.page.evaluate("topooptReport.data.runs.map(run => run.summary)"), self.runs)
        first = sum(self.runs[0]["iteration_time_ps"]) / 2
        for i, run in enumerate(self.runs):
            self.assertEqual(self.field(i, "flows"), f"{run['flows']:,}")
            self.assertEqual(self.field(i, "packet-hops"), f"{run['packet_hops']:,}")
            self.assertEqual(self.field(i, "fingerprint"), run["fingerprint"])
            mean = sum(run["iteration_time_ps"]) / len(run["iteration_time_ps"])
            shown = self.field(i, "iteration")
            self.assertTrue(shown.endswith(" ms"), shown)
            self.assertAlmostEqual(float(shown[:-3]) * 1e9 / mean, 1, 3)
            self.assertAlmostEqual(float(self.field(i, "ratio")[2:]) / (mean / first), 1, 2)
            text = self.page.evaluate(f"document.querySelectorAll('.card')[{i}].textContent")
            self.assertEqual("60 unfinished" in text, run["unfinished"] == 60)
        # 2 % of the second run's flows never finished: its p99 is among them.
        self.assertTrue(self.field(1, "FCT p50 / p99").endswith("/ unfinished"))

    def test_click_on_a_card_selects_the_run(self) -> None:
        self.page.click_on(".card:nth-child(2)")
        self.page.wait("document.querySelector('#tables .run-name').textContent.includes('fat-tree')")
        self.page.wait(f"{COUNT} === '3,000 of 3,000 rows'")
        self.assertEqual(self.page.evaluate("document.querySelectorAll('.card')[1].ariaPressed"), "true")

    def test_click_on_a_matrix_cell_filters_the_flows(self) -> None:
        x, y = self.page.evaluate(
            "(() => { const box = document.querySelector('#matrix-chart'); box.scrollIntoView({block: 'center'});"
            " const chart = topooptReport.charts.get('matrix-chart').chart; const r = box.getBoundingClientRect();"
            " const [x, y] = chart.convertToPixel({xAxisIndex: 0, yAxisIndex: 0}, [4, 3]); return [r.x + x, r.y + y]; })()"
        )
        self.page.wait(f"{COUNT} !== ''")
        self.page.click(x, y)
        self.page.wait("document.querySelector('#filter-text').textContent === 'flows from server 3 to server 4'")
        flows = read_results([self.results])[0].flows
        expected = int(((flows.number("src_server") == 3) & (flows.number("dst_server") == 4)).sum())
        self.assertTrue(0 < expected < 3000)
        self.assertEqual(shown_rows(self.page), expected)
        self.assertIn(
            "server 3 → server 4:", self.page.evaluate("document.querySelector('#matrix-readout').textContent")
        )
        self.page.click_on("#filter-clear")
        self.page.wait(f"{COUNT} === '3,000 of 3,000 rows'")

    def test_pointing_at_a_link_shows_load_and_flows(self) -> None:
        x, y = self.page.evaluate(
            "(() => { const box = document.querySelector('#topology-chart'); box.scrollIntoView({block: 'center'});"
            " const chart = topooptReport.charts.get('topology-chart').chart; const r = box.getBoundingClientRect();"
            " const series = chart.getModel().getSeriesByIndex(0);"
            " const [a, b, bend] = series.getEdgeData().getItemLayout(0);"
            " const middle = [0, 1].map(i => a[i] / 4 + b[i] / 4 + (bend ? bend[i] : (a[i] + b[i]) / 2) / 2);"
            " const [x, y] = series.coordinateSystem.dataToPoint(middle); return [r.x + x, r.y + y]; })()"
        )
        self.page.move(x + 30, y + 30)
        self.page.move(x, y)
        self.page.wait("document.querySelector('#topology-readout').textContent.includes('link 0: s0 → s1')")
        text = self.page.evaluate("document.querySelector('#topology-readout').textContent")
        run = read_results([self.results])[0]
        expected = int(((run.flows.number("src_server") == 0) & (run.flows.number("dst_server") == 1)).sum())
        self.assertIn(f"{expected} flows from s0 to s1; largest: ", text)
        load = float(f"{run.links.number('utilisation')[0]:.3g}")
        self.assertIn(f"utilisation {load:g}", text)
        self.page.click(x, y)
        self.page.wait("document.querySelector('#filter-text').textContent === 'flows from s0 to s1'")
        self.assertEqual(shown_rows(self.page), expected)

    def test_keyboard(self) -> None:
        self.page.evaluate("document.querySelector('#topology-chart').focus()")
        for _ in range(3):
            self.page.key("ArrowRight")
        self.assertIn("link 2: s1 → s2", self.page.evaluate("document.querySelector('#topology-readout').textContent"))
        self.page.wait(f"{COUNT} !== ''")
        self.page.key("Enter")
        self.page.wait("document.querySelector('#filter-text').textContent === 'flows from s1 to s2'")
        self.page.evaluate("document.querySelector('#timeline-chart').focus()")
        self.page.key("+")
        zoom = "topooptReport.charts.get('timeline-chart').chart.getOption().dataZoom[0]"
        self.assertEqual(self.page.evaluate(f"[{zoom}.start, {zoom}.end]"), [25, 75])
        self.page.key("0")
        self.assertEqual(self.page.evaluate(f"[{zoom}.start, {zoom}.end]"), [0, 100])
        self.page.evaluate("document.querySelector('#tab-flows').focus()")
        self.page.key("ArrowRight")
        self.page.wait(f"{COUNT} === '24 of 24 rows'")
        self.assertEqual(self.page.evaluate("document.activeElement.id"), "tab-ops")
        self.page.evaluate("document.querySelector('.tabulator-col[tabulator-field=\"duration_ps\"]').focus()")
        self.page.key("Enter")
        sorted_column = "topooptReport.table().getRows('active').map(row => row.getData().duration_ps)"
        values = self.page.evaluate(sorted_column)
        self.assertEqual(values, sorted(values))
        self.page.key("Enter")
        self.assertEqual(self.page.evaluate(sorted_column), sorted(values, reverse=True))

    def test_header_filter(self) -> None:
        flows = read_results([self.results])[0].flows
        sizes = flows.number("bytes")
        self.page.wait(f"{COUNT} !== ''")
        for text, expected in (
            (">1000000", (sizes > 1e6).sum()),
            ("1000..2000", ((sizes >= 1000) & (sizes <= 2000)).sum()),
            (str(int(sizes[7])), (sizes == sizes[7]).sum()),
        ):
            self.page.evaluate(f"topooptReport.table().setHeaderFilterValue('bytes', '{text}')")
            self.page.wait(f"{COUNT}.startsWith('{int(expected):,} of')")

    def test_dark_and_light(self) -> None:
        back = "getComputedStyle(document.body).backgroundColor"
        for name, colour in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 23, 26)")):
            while self.page.evaluate("document.documentElement.dataset.theme") != name:
                self.page.click_on("#theme")
            self.assertEqual(self.page.evaluate(back), colour)
        while self.page.evaluate("document.documentElement.dataset.theme") != "auto":
            self.page.click_on("#theme")
        self.page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        self.assertEqual(self.page.evaluate(back), "rgb(20, 23, 26)")
        self.page.call("Emulation.setEmulatedMedia", features=[])

    def test_prints(self) -> None:
        self.page.wait(f"{COUNT} !== ''")
        pdf = self.page.print_pdf()
        self.assertEqual(pdf[:4], b"%PDF")
        # On paper the table has all its columns and says how many rows it lacks.
        paper = "document.querySelector('#paper-table')"
        self.assertEqual(self.page.evaluate(f"{paper}.caption.textContent"), "Flows: first 30 of 3,000 rows")
        heads = self.page.evaluate(f"[...{paper}.querySelectorAll('th')].map(cell => cell.textContent)")
        self.assertLessEqual({"flow_id", "fct_ps", "slowdown", "status"}, set(heads))
        row = self.page.evaluate(f"[...{paper}.rows[1].cells].map(cell => cell.textContent)")
        self.assertEqual(float(row[heads.index("fct_ps")]), read_results([self.results])[0].all_flows.number("fct_ps")[0])
        self.assertEqual(self.page.evaluate(f"{paper}.rows.length"), 31)
        self.page.wait("!document.documentElement.classList.contains('printing')")
        self.assertEqual(self.page.evaluate("document.querySelectorAll('#matrix-chart canvas').length > 0"), True)


class Others(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.page = shared_page()

    def view(self, report: Path) -> browser.Browser:
        self.page.errors.clear()
        self.page.open(report)
        self.page.wait(READY)
        return self.page

    def test_hundred_thousand_flows(self) -> None:
        results = make_results(HERE / "large", fabrics=("topoopt",), flows=120_000)
        page = self.view(report_of(results))
        page.wait(f"{COUNT} === '100,000 of 100,000 rows; the file has 120,000, the largest are here'")
        self.assertLess(page.evaluate("document.querySelectorAll('.tabulator-row').length"), 200)
        begin = time.monotonic()
        page.evaluate("topooptReport.table().setSort('bytes', 'desc')")
        first = page.evaluate("topooptReport.table().getRows('visible')[0].getData().bytes")
        flows = read_results([results])[0].flows
        self.assertEqual(first, flows.number("bytes").max())
        frames = page.evaluate(
            "new Promise(done => { const box = document.querySelector('.tabulator-tableholder'); const times = [];"
            " const step = now => { times.push(now); box.scrollTop = times.length * 140000;"
            " times.length < 16 ? requestAnimationFrame(step) : done(times.map((t, i) => t - (times[i - 1] ?? t))); };"
            " requestAnimationFrame(step); })"
        )
        # Seconds, or a minute where other programs run; a table that keeps all rows in the page takes many.
        self.assertLess(time.monotonic() - begin, 120)
        print(f"scrolling 100 000 rows: median {sorted(frames)[8]:.0f} ms a frame", file=sys.stderr)
        self.assertLess(page.evaluate("document.querySelectorAll('.tabulator-row').length"), 200)
        self.assertEqual(page.errors, [])
        # Percentiles are those of all 120 000 flows, not of the rows kept.
        times = flows.number("fct_ps")
        times.sort()
        self.assertEqual(page.evaluate("topooptReport.data.runs[0].fct.p99"), times[118_799])

    def test_runs_change_while_charts_are_drawn(self) -> None:
        page = self.view(report_of(make_results(HERE / "wide", servers=64, flows=6_000)))
        for run in (1, 0, 2):
            page.evaluate(f"topooptReport.selectRun({run})")
        page.print_pdf()
        page.evaluate("topooptReport.selectRun(0); topooptReport.selectRun(2)")
        page.wait("!document.documentElement.classList.contains('printing')")
        page.evaluate("new Promise(done => setTimeout(done, 300))")
        self.assertEqual(page.errors, [])
        cells = "topooptReport.charts.get('matrix-chart').chart.getOption().series[0].data.length"
        expected = int((read_results([HERE / "wide"])[2].demand > 0).sum())
        self.assertEqual(page.evaluate(cells), expected)

    def test_empty_results(self) -> None:
        for name, options in (("zero", {"flows": 0}), ("none", {"fabrics": ()}), ("untold", {"flow_table": False})):
            page = self.view(report_of(make_results(HERE / name, servers=4, **options)))
            self.assertEqual(page.errors, [], name)

    def test_percentiles_without_a_flow_table(self) -> None:
        results = make_results(HERE / "counted", fabrics=("topoopt",), flows=20, flow_table=False)
        summary = json.loads((results / "summary.json").read_text())
        summary["runs"][0].update(fct_p50_ps=2_500_000, fct_p99_ps=7_000_000, fct_max_ps=8_000_000)
        (results / "summary.json").write_text(json.dumps(summary))
        page = self.view(report_of(results))
        for name, text in (("FCT p50 / p99", "2.5 µs / 7 µs"), ("FCT max (finished)", "8 µs")):
            found = page.evaluate(f"document.querySelector('.card [data-field=\"{name}\"]').textContent")
            self.assertEqual(found, text)

    def test_paths_tell_the_flows_of_a_switch_link(self) -> None:
        results = make_results(HERE / "paths", fabrics=("fat-tree",), flows=50)
        path = results / "fat-tree" / "flows.csv"
        lines = path.read_text().splitlines()
        # Links come in pairs: 2i is server i to the switch, 2i + 1 back.
        with_paths = [f"{line},{2 * int(line.split(',')[5])};{2 * int(line.split(',')[6]) + 1}" for line in lines[3:]]
        path.write_text("\n".join([*lines[:2], lines[2] + ",path", *with_paths]) + "\n")
        page = self.view(report_of(results))
        into = sum(line.split(",")[6] == "3" for line in lines[3:])
        page.wait(f"{COUNT} !== ''")
        page.evaluate("topooptReport.filterByLink(7)")
        self.assertEqual(shown_rows(page), into)
        self.assertIn("over link 7, core0 → s3", page.evaluate("document.querySelector('#filter-text').textContent"))


class WithoutLibraries(unittest.TestCase):
    def test_pictures_stand_in(self) -> None:
        results = make_results(HERE / "bare", flows=50)
        kept = build.load

        def missing() -> None:
            raise libraries.LibrariesMissing("npm is missing")

        build.load = missing
        try:
            text = report_of(results).read_text(encoding="utf-8")
        finally:
            build.load = kept
        self.assertIn("Pictures only: npm is missing", text)
        self.assertIn("data:image/png;base64,", text)
        self.assertNotIn("<script", text)


def reason_to_skip() -> str | None:
    if browser.find() is None:
        return "no Chromium here; apt-get install chromium"
    try:
        libraries.fetch()
    except libraries.LibrariesMissing as missing:
        return str(missing)
    return None


if __name__ == "__main__":
    why = reason_to_skip()
    if why:
        print(f"skipped: {why}")
        sys.exit(77)
    try:
        unittest.main()
    finally:
        shared_page().close()
