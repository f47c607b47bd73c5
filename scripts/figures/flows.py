# SPDX-License-Identifier: GPL-2.0-only
"""Flow completion times: CDF (P1), its tail, slowdown by size (P2) and the tail table (P3).

An unfinished flow counts as longer than every finished one: a CDF then ends below 1, and a percentile that falls among the
unfinished is unknown rather than too low.
"""

from __future__ import annotations

from typing import Sequence

import numpy as np

from figures.style import (
    PAGE_INCHES,
    Look,
    Writer,
    count_text,
    framed_figure,
    format_bytes,
    format_time,
    legend_above,
    new_figure,
    plain_log_axis,
    time_unit,
)
from topoopt_results import Run, nearest_rank

CURVE_POINTS = 1000
TAIL_POINTS = 100
SIZE_BINS = 20
SIZE_CLASSES = [(0, 1e4, "< 10 kB"), (1e4, 1e5, "10-100 kB"), (1e5, 1e6, "100 kB-1 MB"), (1e6, 1e7, "1-10 MB")]
SIZE_CLASSES.append((1e7, np.inf, "> 10 MB"))
PERCENTILES = (50.0, 95.0, 99.0, 99.9)


def no_flows(runs: Sequence[Run]) -> str:
    """Why there are no flows, in words for a picture."""
    if not any(run.flows.present for run in runs):
        return "no flow table in these results (results.flows: none)"
    if not any(run.flows.rows for run in runs):
        return "no flow between servers has a byte" if any(run.all_flows.rows for run in runs) else "the flow tables are empty"
    return "no flow finished"


def run_legend(run: Run) -> str:
    if not run.flows.present:
        return f"{run.label} (no flow table)"
    return f"{run.label} ({count_text(int(run.finished.sum()), run.flows.rows)})"


def curve(values: np.ndarray, total: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Steps of a CDF over `total` flows of which `values` finished: (value, fraction below it, fraction up to it).

    Thinned to about CURVE_POINTS quantiles; the TAIL_POINTS largest are all kept, for the tail is what people look at.
    """
    ordered = np.sort(values)
    count = len(ordered)
    head = np.linspace(0, max(count - TAIL_POINTS, 0), min(CURVE_POINTS, count), dtype=np.int64)
    keep = np.union1d(head, np.arange(max(count - TAIL_POINTS, 0), count))
    steps = np.unique(ordered[keep[keep < count]])
    below = np.searchsorted(ordered, steps, side="left") / total
    return steps, below, np.searchsorted(ordered, steps, side="right") / total


def fct_cdf(runs: Sequence[Run], styles: dict[str, Look], writer: Writer) -> None:
    """P1, and the same flows as log-log CCDF."""
    header = ["run", "fct_ps", "fraction", "flows", "unfinished"]
    empty = (np.zeros(0), np.zeros(0), np.zeros(0))
    curves = {
        run.label: curve(run.flows.number("fct_ps")[run.finished], run.flows.rows) if run.flows.rows else empty
        for run in runs
    }
    values = [steps for steps, _, _ in curves.values() if len(steps)]
    if not values:
        writer.empty("fct_cdf", "Flow completion time", no_flows(runs), header)
        writer.empty("fct_tail", "Flow completion time, tail", no_flows(runs), header)
        return
    scale, unit = time_unit(float(np.median(np.concatenate(values))))
    for name, tail in (("fct_cdf", False), ("fct_tail", True)):
        figure, ax = new_figure(2.2 + 0.13 * len(runs))
        for run in runs:
            look = styles[run.label]
            steps, below, upto = curves[run.label]
            x, y = steps / scale, 1 - below if tail else upto
            if not tail and len(x):
                x, y = np.concatenate([[x[0]], x]), np.concatenate([[0], y])
            ax.step(
                x,
                y,
                where="pre" if tail else "post",
                color=look.colour,
                linestyle=look.dash,
                marker=look.marker,
                markevery=max(len(x) // 6, 1),
                label=run_legend(run),
            )
            if not tail and len(x) and upto[-1] < 1:
                ax.plot(x[-1], upto[-1], marker="x", markersize=5, color=look.colour, clip_on=False, zorder=5)
        ax.set_xscale("log")
        plain_log_axis(ax.xaxis)
        ax.set_xlabel(f"flow completion time [{unit}]")
        if tail:
            ax.set_yscale("log")
            ax.set_ylabel("fraction of flows ≥ x")
        else:
            ax.set_ylim(0, 1.005)
            ax.set_ylabel("fraction of flows ≤ x")
            if any(len(upto) and upto[-1] < 1 for _, _, upto in curves.values()):
                ax.set_xlabel(f"{ax.get_xlabel()}\n× = last finished flow, the rest unfinished")
        legend_above(ax)
        writer.picture(name, figure)
        writer.table(
            name,
            header,
            (
                (run.label, time, 1 - low if tail else high, run.flows.rows, run.flows.rows - run.finished.sum())
                for run in runs
                for time, low, high in zip(*curves[run.label])
            ),
            {"fraction": "flows at or above fct_ps" if tail else "flows at or below fct_ps", "unit": "ps"},
        )


def size_edges(sizes: np.ndarray) -> np.ndarray:
    """Upper edges of the size bins, ascending: each size if there are few, else 20 bins of equal count."""
    distinct = np.unique(sizes)
    if len(distinct) <= SIZE_BINS:
        return distinct
    ordered = np.sort(sizes)
    last = np.ceil(np.arange(1, SIZE_BINS + 1) * len(ordered) / SIZE_BINS).astype(np.int64) - 1
    return np.unique(ordered[last])


def percentile_row(run: Run, rows: np.ndarray, column: str, percents: Sequence[float]) -> list[float]:
    """Nearest-rank percentiles over all the rows, the unfinished as infinity."""
    values = run.flows.number(column)[rows].copy()
    values[~run.finished[rows]] = np.inf
    values.sort()
    return [nearest_rank(values, percent) for percent in percents]


def slowdown_by_size(runs: Sequence[Run], styles: dict[str, Look], writer: Writer) -> None:
    """P2: one panel per percentile, one curve per run, x an axis on which each bin takes the same room."""
    percents = (50.0, 95.0, 99.0)
    header = ["run", "bytes_up_to", "flows", "unfinished", *(f"slowdown_p{percent:g}" for percent in percents)]
    title = "FCT slowdown by flow size"
    if not any(run.finished.any() for run in runs):
        writer.empty("slowdown_by_size", title, no_flows(runs), header)
        return
    edges = size_edges(np.concatenate([run.flows.number("bytes") for run in runs]))
    rows: list[list[object]] = []
    lines: dict[str, np.ndarray] = {}
    for run in runs:
        bins = np.searchsorted(edges, run.flows.number("bytes"))
        lines[run.label] = np.full((len(percents), len(edges)), np.nan)
        for i, edge in enumerate(edges):
            inside = np.flatnonzero(bins == i)
            if len(inside):
                found = percentile_row(run, inside, "slowdown", percents)
                lines[run.label][:, i] = found
                unfinished = len(inside) - int(run.finished[inside].sum())
                rows.append([run.label, edge, len(inside), unfinished, *found])
    legend_height = 0.13 * len(runs) + 0.12
    figure, axes = framed_figure(4.2 + legend_height, (0.45, 0.5, 0.2, legend_height), nrows=len(percents), sharex=True)
    figure.subplots_adjust(hspace=0.12)
    places = np.arange(len(edges))
    cut = False
    for panel, (ax, percent) in enumerate(zip(axes, percents)):
        for run in runs:
            look = styles[run.label]
            y = lines[run.label][panel]
            shown = np.where(np.isfinite(y), y, np.nan)
            ax.plot(places, shown, color=look.colour, linestyle=look.dash, marker=look.marker, label=run_legend(run))
            beyond = np.isposinf(y)
            cut = cut or bool(beyond.any())
            ax.plot(
                places[beyond],
                np.ones(beyond.sum()),
                linestyle="none",
                marker=look.marker,
                markerfacecolor="white",
                color=look.colour,
                clip_on=False,
                transform=ax.get_xaxis_transform(),
            )
        ax.set_ylabel(f"slowdown, p{percent:g}")
        shown = np.concatenate([line[panel][np.isfinite(line[panel])] for line in lines.values()])
        bottom, top = min(shown, default=1.0), max(shown, default=1.0)
        if top > 10:
            ax.set_yscale("log")
            ax.set_ylim(min(bottom, 1) * 0.9, top * 1.3)
            plain_log_axis(ax.yaxis)
        else:
            ax.set_ylim(min(bottom, 1) - 0.03 * (top - 1 + 0.1), top + 0.06 * (top - 1 + 0.1))
    every = max(int(np.ceil(len(edges) / 6)), 1)
    # Count back from the largest bin, whose label must be there.
    ticks = places[::-1][::every][::-1]
    axes[-1].set_xticks(ticks, [format_bytes(edges[tick]) for tick in ticks])
    axes[-1].set_xlim(-0.5, len(edges) - 0.5)
    exact = len(np.unique(np.concatenate([run.flows.number("bytes") for run in runs]))) == len(edges)
    axes[-1].set_xlabel(
        "flow size [bytes], each size" if exact else f"flow size [bytes], {len(edges)} bins of equal count"
    )
    if cut:
        axes[-1].set_xlabel(f"{axes[-1].get_xlabel()}\nhollow: the percentile falls among unfinished flows")
    legend_above(axes[0])
    writer.picture("slowdown_by_size", figure)
    writer.table(
        "slowdown_by_size",
        header,
        rows,
        {"bins": "each size" if exact else "equal count", "percentiles": "nearest rank, unfinished = inf"},
    )


def tail_rows(run: Run) -> list[tuple[str, np.ndarray]]:
    """(name, row numbers) of the lines of the tail table: all flows, each kind, each size class."""
    table = run.flows
    lines = [("all flows", np.arange(table.rows))]
    kinds = table.word("kind")
    by_kind = [(kind, np.flatnonzero(kinds.equal(kind))) for kind in sorted(kinds.names)]
    by_kind = [(kind, rows) for kind, rows in by_kind if len(rows)]
    lines += by_kind if len(by_kind) > 1 else []
    sizes = table.number("bytes")
    classes = [(name, np.flatnonzero((sizes >= low) & (sizes < high))) for low, high, name in SIZE_CLASSES]
    classes = [(name, rows) for name, rows in classes if len(rows)]
    return lines + (classes if len(classes) > 1 else [])


def tail_table(runs: Sequence[Run], _: dict[str, Look], writer: Writer) -> None:
    """P3 as CSV, Markdown, text and picture."""
    measures = ("fct_ps", "slowdown")
    header = ["flows", "run", "n", "unfinished"]
    for measure in measures:
        header += [f"{measure} mean", *(f"{measure} p{percent:g}" for percent in PERCENTILES), f"{measure} max"]
    header = [name.replace(" ", "_") for name in header]
    rows: list[list[object]] = []
    groups = [(name, run, lines) for run in runs if run.flows.rows for name, lines in tail_rows(run)]
    order = list(dict.fromkeys(name for name, _, _ in groups))
    for name in order:
        for run, lines in ((run, lines) for other, run, lines in groups if other == name):
            done = lines[run.finished[lines]]
            row: list[object] = [name, run.label, len(lines), len(lines) - len(done)]
            for measure in measures:
                values = run.flows.number(measure)[done]
                row.append(float(values.mean()) if len(values) else np.nan)
                row += percentile_row(run, lines, measure, PERCENTILES)
                row.append(float(values.max()) if len(values) else np.nan)
            rows.append(row)
    rule = "percentiles by nearest rank over all flows, an unfinished flow longer than any finished one"
    rule += "; mean and max of the finished"
    if not rows:
        writer.empty("tail_table", "Flow completion time: tail", no_flows(runs), header)
        writer.text("tail_table.md", f"{no_flows(runs)}\n")
        writer.text("tail_table.txt", f"{no_flows(runs)}\n")
        return
    writer.table("tail_table", header, rows, {"percentiles": rule, "unit": "ps"})
    columns = ["flows", "run", "n", "unfin.", "FCT mean", "p50", "p95", "p99", "p99.9", "max"]
    columns += ["slowdown mean", "p50", "p95", "p99", "p99.9", "max"]
    cells = [_shown(row) for row in rows]
    markdown = [columns, ["---" if i < 2 else "---:" for i in range(len(columns))], *cells]
    writer.text("tail_table.md", "".join(f"| {' | '.join(row)} |\n" for row in markdown) + f"\n{rule}.\n")
    widths = [max(len(row[i]) for row in [columns, *cells]) for i in range(len(columns))]
    aligned = [
        "  ".join(cell.ljust(width) if i < 2 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths)))
        for row in [columns, *cells]
    ]
    writer.text("tail_table.txt", "".join(f"{line.rstrip()}\n" for line in aligned) + f"({rule})\n")
    _tail_picture(columns, cells, rule, writer)


def _shown(row: Sequence[object]) -> list[str]:
    """The cells of a line of the tail table as people read them."""

    def cell(value: float, text: str) -> str:
        return "unfin." if np.isposinf(value) else "–" if np.isnan(value) else text

    times = [cell(float(value), format_time(float(value))) for value in row[4:10]]  # type: ignore[arg-type]
    slowdowns = [cell(float(value), f"{float(value):.2f}") for value in row[10:16]]  # type: ignore[arg-type]
    return [str(row[0]), str(row[1]), str(row[2]), str(row[3]), *times, *slowdowns]


def _tail_picture(columns: list[str], cells: list[list[str]], rule: str, writer: Writer) -> None:
    """The table as a page-wide picture, FCT above slowdown, so that a paper can take it as it is."""
    limit = 60
    shown = cells[:limit]
    halves = [("FCT", columns[:4] + [columns[4].replace("FCT ", "")] + columns[5:10], [row[:10] for row in shown])]
    halves.append(
        (
            "slowdown",
            columns[:4] + ["mean"] + columns[11:],
            [row[:4] + row[10:] for row in shown],
        )
    )
    line = 0.145
    height = 2 * line * (len(shown) + 1.8) + 0.2
    figure, axes = framed_figure(height, (0.03, 0.2, 0.03, 0.05), PAGE_INCHES, nrows=2)
    figure.subplots_adjust(hspace=0.07)
    for ax, (name, head, body) in zip(axes, halves):
        ax.set_axis_off()
        table = ax.table(
            [[f"{name} {cell}" if i == 4 else cell for i, cell in enumerate(head)], *body],
            loc="upper left",
            cellLoc="right",
            edges="open",
            bbox=(0, 0, 1, 1),
        )
        table.auto_set_font_size(False)
        table.set_fontsize(6)
        table.auto_set_column_width(range(len(head)))
        for (row, column), cell in table.get_celld().items():
            starts_group = row > 0 and body[row - 1][0] != (body[row - 2][0] if row > 1 else "")
            cell.visible_edges = "BT" if row == 0 else "T" if starts_group else "B" if row == len(body) else ""
            cell.set_linewidth(0.6)
            cell.PAD = 0.03
            if row == 0:
                cell.set_text_props(weight="bold")
            if column < 2:
                cell.set_text_props(ha="left")
                cell._loc = "left"  # the table has no public way to align one column
    more = f"; {len(cells) - limit} more lines in tail_table.csv" if len(cells) > limit else ""
    figure.text(0.01, 0.05 / height, rule + more, fontsize=5.5, color="#555555")
    writer.picture("tail_table", figure)
