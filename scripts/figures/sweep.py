# SPDX-License-Identifier: GPL-2.0-only
"""P9: a measure against a parameter, one curve per fabric, from the table that `topoopt sweep` writes.

sweep.csv: a header, a row per point, fabric and iteration. The columns between `point` and `fabric` are parameters (values with
their units, as in the scenario), those after it measures named as in summary.json. Where there is a column `status`, rows that
are not `done` are left out and counted.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba

from figures.style import (
    Writer,
    framed_figure,
    kind_slots,
    DASHES,
    HATCHES,
    MARKERS,
    PALETTE,
    Look,
    plain_log_axis,
    time_unit,
)
from topoopt_results import ResultError

# `fabrics` splits a scenario into points by fabric, which the column fabric tells already.
NOT_PARAMETERS = ("point", "directory", "dir", "fabrics")
# The only measure with a value of its own in each row of a run; the others are repeated.
PER_ITERATION = "iteration_time_ps"
MAX_PANELS = 6
MINUTE = 60e12  # ps


@dataclass(frozen=True)
class Sweep:
    path: Path
    parameters: list[str]
    measures: list[str]
    rows: list[dict[str, str]]
    failed: int = 0  # points without a row


def read_sweep(path: Path) -> Sweep:
    try:
        with open(path, encoding="utf-8", newline="") as stream:
            lines = [
                (number, line) for number, line in enumerate(stream, 1) if not line.startswith("#") and line.strip()
            ]
    except OSError as error:
        raise ResultError(f"{path}: cannot be opened: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ResultError(f"{path}: byte {error.start}: expected UTF-8 text") from error
    table = list(csv.reader(line for _, line in lines))
    header = table[0] if table else []
    if "fabric" not in header:
        raise ResultError(f"{path}:1: found header '{','.join(header)[:80]}', expected a column fabric")
    for (number, _), row in zip(lines[1:], table[1:]):
        if len(row) != len(header):
            raise ResultError(f"{path}:{number}: found {len(row)} fields, expected {len(header)}")
    place = header.index("fabric")
    parameters = [name for name in header[:place] if name not in NOT_PARAMETERS]
    measures = [name for name in header[place + 1 :] if name not in ("status", "iteration")]
    failures = path.with_name("failed.txt")
    failed = len(failures.read_bytes().splitlines()) if failures.exists() else 0
    return Sweep(path, parameters, measures, [dict(zip(header, row)) for row in table[1:]], failed)


def quantity(text: str) -> tuple[float, str] | None:
    """`100Gbps` as (100, 'Gbps'); None for a word."""
    match = re.fullmatch(r"\s*([-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*([A-Za-zµ/%]*)\s*", text)
    return (float(match[1]), match[2]) if match else None


def measure(text: str) -> float:
    """A number, or the mean of a list in brackets or separated by semicolons or blanks; NaN for nothing."""
    parts = [part for part in re.split(r"[;\s\[\],]+", text) if part]
    try:
        return float(np.mean([float(part) for part in parts])) if parts else float("nan")
    except ValueError:
        return float("nan")


def readable(name: str) -> str:
    """A parameter as the label of an axis: `reconfiguration latency`, `jobs load`."""
    return re.sub(r"[._]", " ", re.sub(r"^workload\.", "", name))


def readable_time(text: str) -> str:
    """`100000us` as `100 ms`: in the largest unit in which it is 1 or more; anything else as it is."""
    units = ["ps", "ns", "us", "ms", "s"]
    value, unit = quantity(text) or (0.0, "")
    if unit not in units:
        return text
    at = units.index(unit)
    while value >= 1000 and at + 1 < len(units):
        value, at = value / 1000, at + 1
    return f"{value:g} {units[at]}".replace("us", "µs")


def _axis(values: list[str]) -> tuple[dict[str, float], str, bool]:
    """Where each value goes, the unit, and whether the places are numbers of the unit (else just an order)."""
    distinct = list(dict.fromkeys(values))
    found = {text: quantity(text) for text in distinct}
    units = {pair[1] for pair in found.values() if pair is not None}
    if all(found.values()) and len(units) == 1:
        return {text: pair[0] for text, pair in found.items() if pair}, units.pop(), True
    return {text: float(i) for i, text in enumerate(distinct)}, "", False


def _draw_series(
    ax: Axes,
    spots: np.ndarray,
    means: np.ndarray,
    span: tuple[np.ndarray, np.ndarray],
    look: Look,
    label: str,
    bar: tuple[int, int] | None,
) -> None:
    """A curve, or, for a parameter that is a word, bars; `bar` is (which, of how many) within a group."""
    if bar is None:
        ax.plot(spots, means, color=look.colour, linestyle=look.dash, marker=look.marker, label=label)
    else:
        width = 0.8 / bar[1]
        spots = spots + (bar[0] - (bar[1] - 1) / 2) * width
        face = to_rgba(look.colour, 0.45)
        ax.bar(spots, means, width, facecolor=face, edgecolor=look.colour, hatch=look.hatch, linewidth=0.8, label=label)
    if (span[1] > span[0]).any():
        spread = [means - span[0], span[1] - means]
        ax.errorbar(spots, means, yerr=spread, linestyle="none", color=look.colour, linewidth=0.6, capsize=1.5)


def select(data: Sweep, where: dict[str, str]) -> Sweep:
    """The rows whose parameters have the given values."""
    rows = [row for row in data.rows if all(row.get(name) == value for name, value in where.items())]
    return Sweep(data.path, data.parameters, data.measures, rows)


def join(data: Sweep, other: Sweep, values: dict[str, str]) -> Sweep:
    """Both sweeps' rows. A value selects rows of the other sweep where that varies the parameter, else says what it is there."""
    fixed = dict.fromkeys((*data.parameters, *data.measures), "") | values
    joined = [fixed | row for row in other.rows if all(row.get(name, value) == value for name, value in values.items())]
    return Sweep(data.path, data.parameters, data.measures, data.rows + joined)


def sweep(data: Sweep, writer: Writer, x: str, y: str, file: str = "sweep") -> None:
    """One panel per combination of the parameters other than x; seeds are repetitions, drawn as mean and range."""
    header = ["panel", "fabric", x or "x", y or "y"]
    done = [row for row in data.rows if row.get("status", "done") in ("done", "")]
    varying = [name for name in data.parameters if len({row[name] for row in done}) > 1]
    x = x or max(
        varying or data.parameters,
        key=lambda name: (_axis([row[name] for row in done])[2], name in varying),
        default="",
    )
    y = (
        y
        or next((name for name in data.measures if name.startswith("iteration_time")), "")
        or "".join(data.measures[:1])
    )
    for option, name, known in (("--x", x, data.parameters), ("--y", y, data.measures)):
        if name not in known:
            raise ResultError(f"{option}: found '{name}', expected one of {', '.join(known) or 'no column at all'}")
    header = ["panel", "fabric", x, y, "n"]
    place, unit, numeric = _axis([row[x] for row in done])
    series: dict[str, dict[str, dict[str, list[float]]]] = {}
    titles: dict[str, str] = {}
    seen: set[tuple[str, ...]] = set()
    for row in done:
        value = measure(row[y])
        run = (row.get("point", ""), row["fabric"], *(row[name] for name in data.parameters))
        again = y != PER_ITERATION and run in seen
        seen.add(run)
        if np.isfinite(value) and not again:
            apart = {name: row[name] for name in varying if name not in (x, "seed")}
            panel = ", ".join(f"{name} = {text}" for name, text in apart.items())
            titles[panel] = ", ".join(f"{readable(name)} = {text}" for name, text in apart.items())
            series.setdefault(panel, {}).setdefault(row["fabric"], {}).setdefault(row[x], []).append(value)
    if not series:
        writer.empty(file, f"{y} against {x}" if x else y, "no point of the sweep is done", header)
        return
    in_time = y.endswith("_ps")
    every = [
        v for fabrics in series.values() for points in fabrics.values() for values in points.values() for v in values
    ]
    positive = [value for value in every if value > 0] or [1.0]
    scale, y_unit = time_unit(float(np.median(positive))) if in_time else (1.0, "")
    if in_time and np.median(positive) >= 10 * MINUTE:
        scale, y_unit = MINUTE, "min"
    elif y.endswith("_usd"):
        y_unit = "USD"
    name = y.removesuffix("_ps").removesuffix("_usd")
    fabrics = list(dict.fromkeys(row["fabric"] for row in done))
    slots = kind_slots({fabric: fabric for fabric in fabrics})
    looks = {f: Look(PALETTE[s], DASHES[s], MARKERS[s], HATCHES[s]) for f, s in slots.items()}
    panels = list(series)[:MAX_PANELS]
    legend_height = 0.13 * len(fabrics) + (0.3 if panels[0] else 0.12)
    remarks = []
    if len(done) < len(data.rows):
        remarks.append(f"{len(data.rows) - len(done)} of {len(data.rows)} runs not done")
    if data.failed:
        remarks.append(f"{data.failed} points failed (failed.txt)")
    if len(series) > len(panels):
        remarks.append(f"first {len(panels)} of {len(series)} panels")
    foot = 0.5 if remarks else 0.38
    height = 1.5 * len(panels) + legend_height + foot
    figure, grid = framed_figure(height, (0.5, foot, 0.1, legend_height), nrows=len(panels), sharex=True, squeeze=False)
    figure.subplots_adjust(hspace=0.2)
    for ax, panel in zip(grid[:, 0], panels):
        for number, fabric in enumerate(fabrics):
            points = series[panel].get(fabric, {})
            keys = sorted(points, key=place.__getitem__)
            means = np.array([np.mean(points[key]) for key in keys]) / scale
            total = sum(len(p.get(fabric, {}).get(key, [])) for p in series.values() for key in place)
            label = f"{fabric} (n = {total} {'iterations' if y == PER_ITERATION else 'runs'})"
            spots = np.array([place[key] for key in keys])
            low = np.array([min(points[key]) for key in keys]) / scale
            high = np.array([max(points[key]) for key in keys]) / scale
            _draw_series(
                ax, spots, means, (low, high), looks[fabric], label, None if numeric else (number, len(fabrics))
            )
        values = np.array([np.mean(v) for points in series[panel].values() for v in points.values()])
        if numeric and (values > 0).all() and values.max() > 10 * values.min():
            ax.set_yscale("log")
            plain_log_axis(ax.yaxis)
        elif (values > 0).all():
            top = max(max(v) for points in series[panel].values() for v in points.values())
            ax.set_ylim(0, 1.08 * top / scale)
        ax.set_ylabel(f"{name.replace('_', ' ')}" + (f" [{y_unit}]" if y_unit else ""))
        if panel:
            ax.set_title(titles[panel], loc="left", pad=2)
    bottom = grid[-1, 0]
    spots = sorted(set(place.values()))
    if numeric and spots[0] > 0 and len(spots) > 2 and spots[-1] >= 8 * spots[0]:
        bottom.set_xscale("log")
        bottom.minorticks_off()
    if not numeric or len(spots) <= 8:
        texts = {spot: text for text, spot in place.items()}
        ticks = [f"{spot:g}" if numeric else texts[spot] for spot in spots]
        times = [readable_time(texts[spot]) for spot in spots]
        if len({time.rpartition(" ")[2] for time in times if " " in time}) > 1:
            ticks, unit = times, ""  # over decades: each with its own unit
        bottom.set_xticks(spots, ticks)
    bottom.set_xlabel(readable(x) + (f" [{unit}]" if unit else "") + (f"\n{'; '.join(remarks)}" if remarks else ""))
    grid[0, 0].legend(loc="lower left", bbox_to_anchor=(0, 1.02 + 0.1 * bool(panels[0])), borderaxespad=0)
    writer.picture(file, figure)
    writer.table(
        file,
        header,
        (
            (panel, fabric, key, float(np.mean(values)), len(values))
            for panel, per_fabric in series.items()
            for fabric, points in per_fabric.items()
            for key, values in points.items()
        ),
    )
