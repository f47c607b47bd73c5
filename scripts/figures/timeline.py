# SPDX-License-Identifier: GPL-2.0-only
"""P5: what each rank did when, as a Gantt picture and as a Chrome trace that Perfetto (ui.perfetto.dev) opens.

Computation takes the upper half of a rank's row, communication the lower half, so that overlap is visible. Without
tasks.csv the rows are the operations' groups. Operations that a run left unfinished have a row of their own above, to the
last time that is known.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Iterator, Sequence

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from figures.style import PALETTE, Look, Writer, framed_figure, time_unit
from topoopt_results import ResultError, Run, Table, Words

MAX_ROWS = 64
RASTER_ABOVE = 20000
HATCHES = ["", "////", "....", "xxxx", "\\\\\\\\", "----"]
IDLE = ("wait", "idle", "join")
UNFINISHED = "unfinished"
UNITS = {"ps": 1.0, "ns": 1e3, "us": 1e6, "µs": 1e6, "ms": 1e9, "s": 1e12}


@dataclass(frozen=True)
class Bars:
    """Intervals of one run: row number, kind (index into `kinds`), start, end, name."""

    rows: list[str]
    kinds: list[str]
    row: np.ndarray
    kind: np.ndarray
    start: np.ndarray
    end: np.ndarray
    names: list[str]


def is_compute(kind: str) -> bool:
    return kind.lower().startswith("comp")


def bars_of(run: Run) -> Bars:
    """The finished tasks of the ranks, or the groups' operations where there is no task table; above them the unfinished."""
    if run.tasks.rows:
        table = run.tasks
        rank, server = table.number("rank"), np.nan_to_num(table.number("server"), nan=0)
        if len(np.unique(np.stack([server, rank]), axis=1).T) > len(np.unique(rank)):
            # Jobs of a shared cluster have each their own rank 0.
            places, row = np.unique(np.stack([server, rank], axis=1).astype(np.int64), axis=0, return_inverse=True)
            rows = [f"s{place[0]} rank {place[1]}" for place in places]
        else:
            ranks, row = np.unique(rank.astype(np.int64), return_inverse=True)
            rows = [f"rank {number}" for number in ranks]
    else:
        table = run.ops
        rows = [f"group {name}" for name in table.word("group").names] if table.rows else []
        row = table.word("group").codes
    kind = _kinds(table)
    idle = np.isin(kind.codes, [i for i, name in enumerate(kind.names) if name.lower() in IDLE])
    keep = np.flatnonzero(np.isfinite(table.number("start_ps")) & np.isfinite(table.number("end_ps")) & ~idle)
    start, end = table.number("start_ps")[keep], table.number("end_ps")[keep]
    names = table.word("name")
    bars = Bars(rows, kind.names, row[keep], kind.codes[keep], start, end, [names[i] or kind[i] for i in keep])
    return _with_unfinished(bars, run)


def _with_unfinished(bars: Bars, run: Run) -> Bars:
    """A first row for the operations that began and did not end, since a task is listed when it has ended."""
    ops = run.ops
    began = ops.number("start_ps")
    known = (bars.end, ops.number("end_ps"), began, run.flows.number("start_ps"), run.flows.number("end_ps"))
    last = max(np.nanmax(times, initial=0) for times in known)
    left = np.flatnonzero(ops.word("status").equal("unfinished") & (began < last))
    if not len(left):
        return bars
    names = ops.word("name")
    zeros = np.zeros(len(left), dtype=np.int64)
    return Bars(
        [UNFINISHED, *bars.rows],
        [*bars.kinds, UNFINISHED],
        np.concatenate([zeros, bars.row + 1]),
        np.concatenate([zeros + len(bars.kinds), bars.kind]),
        np.concatenate([began[left], bars.start]),
        np.concatenate([np.full(len(left), last), bars.end]),
        [*(names[i] or ops.word("kind")[i] for i in left), *bars.names],
    )


def _kinds(table: Table) -> Words:
    """The kind of each interval; of a collective its name, which says which one it is."""
    kind, name = table.word("kind"), table.word("name")
    mask = kind.equal("collective")
    if not mask.any():
        return kind
    joined = Words(np.where(mask, len(kind.names) + name.codes, kind.codes), kind.names + name.names)
    used, codes = np.unique(joined.codes, return_inverse=True)
    return Words(codes.astype(np.int32), [joined.names[code] for code in used])


def parse_window(text: str) -> tuple[float, float] | None:
    """`1.5ms:3ms` in picoseconds; None for an empty text."""
    if not text:
        return None
    match = re.fullmatch(r"([\d.]+)([a-zµ]+):([\d.]+)([a-zµ]+)", text)
    try:
        if match is None:
            raise ValueError
        low, high = float(match[1]) * UNITS[match[2]], float(match[3]) * UNITS[match[4]]
        if low >= high:
            raise ValueError
    except (KeyError, ValueError):
        raise ResultError(f"--window: found '{text}', expected two ascending times such as 1.5ms:3ms") from None
    return low, high


def timeline(
    runs: Sequence[Run], _: dict[str, Look], writer: Writer, window: tuple[float, float] | None = None
) -> None:
    header = ["run", "row", "kind", "name", "start_ps", "end_ps"]
    all_bars = {run.label: bars_of(run) for run in runs}
    trace(all_bars, writer)
    shown = {label: _inside(bars, window) for label, bars in all_bars.items()}
    if not any(len(bars.start) for bars in shown.values()):
        reason = "no task or operation in this window" if window else "no task or operation finished"
        if not any(run.tasks.present or run.ops.present for run in runs):
            reason = "no table of tasks or operations in these results"
        writer.empty("timeline", "Timeline", reason, header)
        return
    kinds = list(dict.fromkeys(bars.kinds[kind] for bars in shown.values() for kind in np.unique(bars.kind)))
    kinds.sort(key=lambda kind: (not is_compute(kind), kind == UNFINISHED, kind))
    colours = {kind: "#bbbbbb" if is_compute(kind) else "" for kind in kinds}
    others = [kind for kind in kinds if not colours[kind]]
    colours.update({kind: PALETTE[i % len(PALETTE)] for i, kind in enumerate(others)})
    if UNFINISHED in kinds:
        colours[UNFINISHED] = "#555555"
    hatches = {kind: "" if is_compute(kind) else HATCHES[others.index(kind) % len(HATCHES)] for kind in kinds}
    low = min(bars.start.min() for bars in shown.values() if len(bars.start))
    high = max(bars.end.max() for bars in shown.values() if len(bars.end))
    if window:
        low, high = window
    scale, unit = time_unit(high - low)
    rows = {label: min(len(bars.rows), MAX_ROWS) for label, bars in shown.items()}
    inches = {label: max(min(0.11 * count, 2.2, 7 / len(runs)), 0.3) + 0.25 for label, count in rows.items()}
    legend_height = 0.15 * int(np.ceil(len(kinds) / 2)) + 0.2
    foot = 0.5 if UNFINISHED in kinds else 0.4
    height = sum(inches.values()) + foot + legend_height
    figure, grid = framed_figure(
        height,
        (0.6, foot, 0.1, legend_height),
        nrows=len(runs),
        sharex=True,
        squeeze=False,
        gridspec_kw={"height_ratios": list(inches.values())},
    )
    figure.subplots_adjust(hspace=0.3 / (sum(inches.values()) / len(runs)))
    axes = grid[:, 0]
    for ax, (label, bars) in zip(axes, shown.items()):
        for kind in kinds:
            _draw_kind(ax, bars, kind, colours[kind], hatches[kind], scale, rows[label])
        ax.set_ylim(max(rows[label], 1) - 0.4, -0.6)
        every = max(int(np.ceil(rows[label] / 16)), 1)
        ticks = range(0, rows[label], every)
        ax.set_yticks(list(ticks), [bars.rows[i] for i in ticks])
        ax.tick_params(axis="y", labelsize=5, length=0)
        ax.grid(axis="y", visible=False)
        more = f", first {MAX_ROWS} of {len(bars.rows)} rows" if len(bars.rows) > MAX_ROWS else ""
        ax.set_title(f"{label}: n = {len(bars.start)} intervals{more}", loc="left", pad=2)
    axes[-1].set_xlim(low / scale, high / scale)
    remark = " or part of\nwhat is unfinished, which is drawn to the last time known" if UNFINISHED in kinds else ""
    axes[-1].set_xlabel(f"simulated time [{unit}]; blank = idle{remark}")
    handles = [
        Patch(
            facecolor=colours[kind],
            hatch=hatches[kind],
            edgecolor="white" if hatches[kind] else colours[kind],
            label=kind,
        )
        for kind in kinds
    ]
    figure.legend(handles=handles, loc="upper left", ncol=2, bbox_to_anchor=(0.15, 1), columnspacing=1)
    writer.picture("timeline", figure)
    writer.table(
        "timeline",
        header,
        (
            (label, bars.rows[bars.row[i]], bars.kinds[bars.kind[i]], bars.names[i], bars.start[i], bars.end[i])
            for label, bars in shown.items()
            for i in range(len(bars.start))
        ),
        {"unit": "ps"},
    )


def _inside(bars: Bars, window: tuple[float, float] | None) -> Bars:
    if window is None:
        return bars
    keep = np.flatnonzero((bars.end > window[0]) & (bars.start < window[1]))
    names = [bars.names[i] for i in keep]
    return Bars(bars.rows, bars.kinds, bars.row[keep], bars.kind[keep], bars.start[keep], bars.end[keep], names)


def _draw_kind(ax, bars: Bars, kind: str, colour: str, hatch: str, scale: float, rows: int) -> None:
    if kind not in bars.kinds:
        return
    mine = np.flatnonzero((bars.kind == bars.kinds.index(kind)) & (bars.row < rows))
    if not len(mine):
        return
    top = bars.row[mine] + (-0.45 if is_compute(kind) else 0.0)
    left, right = bars.start[mine] / scale, bars.end[mine] / scale
    corners = np.stack(
        [np.stack([x, y], axis=1) for x, y in ((left, top), (right, top), (right, top + 0.42), (left, top + 0.42))],
        axis=1,
    )
    many = len(mine) > RASTER_ABOVE
    ax.add_collection(
        PolyCollection(
            corners,
            facecolor=colour,
            edgecolor="white" if hatch and not many else "none",
            hatch="" if many else hatch,
            linewidth=0,
            rasterized=many,
        )
    )


def lanes(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The lane of each interval such that no two in a lane overlap; as few lanes as possible. Ordered by start."""
    free: list[float] = []
    result = np.zeros(len(start), dtype=np.int64)
    for i in np.lexsort((end, start)):
        lane = next((lane for lane, until in enumerate(free) if until <= start[i]), len(free))
        if lane == len(free):
            free.append(0.0)
        free[lane] = end[i]
        result[i] = lane
    return result


def trace_events(all_bars: dict[str, Bars]) -> Iterator[dict[str, object]]:
    """Complete events in microseconds: a process per run, a thread per rank and lane (slices of a thread must not overlap)."""
    for process, (label, bars) in enumerate(all_bars.items()):
        yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": label}}
        compute = np.array([is_compute(kind) for kind in bars.kinds] or [False])[bars.kind]
        thread = 0
        for row, row_name in enumerate(bars.rows):
            for part, mask in (("compute", compute), ("communication", ~compute)):
                mine = np.flatnonzero((bars.row == row) & mask)
                lane = lanes(bars.start[mine], bars.end[mine])
                for number in range(int(lane.max(initial=-1)) + 1):
                    name = f"{row_name} {part}" + (f" {number + 1}" if number else "")
                    base = {"pid": process, "tid": thread}
                    yield {"ph": "M", "name": "thread_name", **base, "args": {"name": name}}
                    yield {"ph": "M", "name": "thread_sort_index", **base, "args": {"sort_index": thread}}
                    inside = mine[lane == number]
                    for i in inside[np.argsort(bars.start[inside], kind="stable")]:
                        yield {
                            "ph": "X",
                            "name": bars.names[i],
                            "cat": bars.kinds[bars.kind[i]],
                            **base,
                            "ts": bars.start[i] / 1e6,
                            "dur": (bars.end[i] - bars.start[i]) / 1e6,
                        }
                    thread += 1


def trace(all_bars: dict[str, Bars], writer: Writer) -> None:
    """timeline.trace.json for Perfetto and chrome://tracing; one event a line."""
    lines = ",\n".join(json.dumps(event) for event in trace_events(all_bars))
    writer.text("timeline.trace.json", f'{{"displayTimeUnit": "ns", "traceEvents": [\n{lines}\n]}}\n')
