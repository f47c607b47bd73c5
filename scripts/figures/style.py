# SPDX-License-Identifier: GPL-2.0-only
"""What every picture shares: size, fonts, one look per fabric, units, and how it is written.

Curves differ by colour, dash and marker at once and bars by colour and hatch, so that a picture survives a grey printer. Files
hold no dates and no program versions: the same results give the same bytes.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterable, Sequence

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.legend import Legend  # noqa: E402
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: E402

from topoopt_results import Run  # noqa: E402

COLUMN_INCHES = 3.3
PAGE_INCHES = 7.0
DPI = 300

# Colour, in order of rising lightness where neighbours matter (after Okabe and Ito, safe for colour blindness).
PALETTE = ["#0072B2", "#D55E00", "#222222", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C564B", "#999999", "#B5BD00"]
DASHES: list[Any] = [
    "-",
    (0, (5, 1.5)),
    (0, (1, 1)),
    (0, (5, 1.5, 1, 1.5)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (8, 2)),
    (0, (2, 2)),
    (0, (8, 1.5, 1, 1.5)),
    (0, (1, 3)),
    (0, (4, 4)),
]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "<", ">", "*"]
HATCHES = ["", "////", "....", "xxxx", "----", "\\\\\\\\", "++++", "oooo", "||||", "OO"]

# Kinds of fabric that keep their look in every picture, by position in the lists above.
KINDS = [
    "topoopt",
    "fat-tree",
    "ideal-switch",
    "expander",
    "oversubscribed-fat-tree",
    "sipml-ring",
    "ocs-reconfig",
    "leaf-spine",
    "sipml-ocs",
    "torus",
]


@dataclass(frozen=True)
class Look:
    colour: str
    dash: Any
    marker: str
    hatch: str


def setup() -> None:
    """Fixes every setting that a user's matplotlibrc could change."""
    matplotlib.rcdefaults()
    matplotlib.use("Agg")
    plt.rcParams.update(
        {
            "font.family": "DejaVu Sans",
            "font.size": 7,
            "axes.labelsize": 7,
            "axes.titlesize": 7,
            "axes.linewidth": 0.6,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "grid.linewidth": 0.3,
            "grid.color": "#cccccc",
            "lines.linewidth": 1.2,
            "lines.markersize": 3.2,
            "legend.fontsize": 6.5,
            "legend.frameon": False,
            "legend.handlelength": 2.6,
            "xtick.labelsize": 6.5,
            "ytick.labelsize": 6.5,
            "xtick.major.width": 0.6,
            "ytick.major.width": 0.6,
            "hatch.linewidth": 0.5,
            "figure.dpi": 100,
            "savefig.dpi": DPI,
            "pdf.fonttype": 42,
            "svg.hashsalt": "topoopt",
            "path.simplify": True,
        }
    )


def kind_slots(fabrics: dict[str, str]) -> dict[str, int]:
    """A position in the lists of looks per fabric, given name -> kind.

    The fabric named like its kind has the kind's own, else the first of the kind by name; others get the next free one.
    """
    slots: dict[str, int] = {}
    for name in sorted(fabrics, key=lambda name: (name not in KINDS, name)):
        kind = name if name in KINDS else fabrics[name]
        if kind in KINDS and KINDS.index(kind) not in slots.values():
            slots[name] = KINDS.index(kind)
    for name in sorted(fabrics):
        if name not in slots:
            free = (i for i in range(len(KINDS)) if i not in slots.values())
            slots[name] = next(free, len(slots) % len(KINDS))
    return slots


def looks(runs: Sequence[Run]) -> dict[str, Look]:
    """By run label. Colour, marker and hatch tell the fabric; the dash tells the directory when there are several."""
    slots = kind_slots({run.fabric: run.kind for run in runs})
    several = len({run.directory_index for run in runs}) > 1
    result = {}
    for run in runs:
        slot = slots[run.fabric]
        dash = run.directory_index if several else slot
        result[run.label] = Look(PALETTE[slot], DASHES[dash % len(DASHES)], MARKERS[slot], HATCHES[slot])
    return result


TIME_UNITS = [(1e12, "s"), (1e9, "ms"), (1e6, "µs"), (1e3, "ns"), (1.0, "ps")]


def time_unit(picoseconds: float) -> tuple[float, str]:
    """The largest unit of which `picoseconds` holds at least one: (its picoseconds, its name)."""
    return next((unit for unit in TIME_UNITS if picoseconds >= unit[0]), TIME_UNITS[-1])


def format_time(picoseconds: float) -> str:
    """Three significant digits and a unit."""
    if not np.isfinite(picoseconds):
        return "–"
    scale, name = time_unit(abs(picoseconds))
    return f"{picoseconds / scale:.3g} {name}" if abs(picoseconds) < 1e15 else f"{picoseconds / 1e12:.0f} s"


def format_bytes(count: float) -> str:
    """Three significant digits, decimal prefixes; exact below 1 kB."""
    for scale, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(count) >= scale * 0.9995:
            return f"{count / scale:.3g} {name}"
    return f"{count:.0f} B"


def count_text(finished: int, total: int, what: str = "flows") -> str:
    """The n of a legend: `n = 10371 of 10383 flows` when some did not finish."""
    return f"n = {total} {what}" if finished == total else f"n = {finished} of {total} {what}"


def plain_log_axis(axis: Any) -> None:
    """Labels 0.1, 1, 1000 or, on axes beyond 10 000, 1k, 20k, 2M in place of powers of ten; 1, 2, 5 where there are few decades."""

    def label(value: float, _: int) -> str:
        letters = 1e3 if max(axis.get_view_interval()) >= 1e4 else 1e4
        if letters <= value < 1e15:
            scale, letter = next((s, c) for s, c in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")) if value >= s)
            return f"{value / scale:g}{letter}"
        return f"{value:g}" if 1e-3 <= value < 1e4 else f"{value:.0e}"

    low, high = sorted(axis.get_view_interval())
    if low > 0 and high < 100 * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(label))
    axis.set_minor_formatter(NullFormatter())


def new_figure(height: float, width: float = COLUMN_INCHES, **grid: Any) -> tuple[Figure, Any]:
    """A figure that finds its own margins."""
    return plt.subplots(figsize=(width, height), constrained_layout=True, **grid)


def framed_figure(
    height: float, margins: tuple[float, float, float, float], width: float = COLUMN_INCHES, **grid: Any
) -> tuple[Figure, Any]:
    """A figure with given margins (left, bottom, right, top) in inches."""
    figure, axes = plt.subplots(figsize=(width, height), **grid)
    left, bottom, right, top = margins
    figure.subplots_adjust(left / width, bottom / height, 1 - right / width, 1 - top / height)
    return figure, axes


def legend_above(ax: Axes, columns: int = 1, **options: Any) -> None:
    """A legend that never hides data."""
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.01), borderaxespad=0, ncol=columns, **options)


SMALLEST_POINTS = 4.0


def keep_inside(figure: Figure) -> None:
    """Long names of runs make legends and labels wider than the picture: moves them left, then shrinks or breaks them."""
    finds_margins = figure.get_layout_engine() is not None
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for ax in figure.axes:
        place = ax.get_position()
        if finds_margins and place.x1 < 0.9:
            # The legend was given its width at the cost of the axes.
            ax.set_position((place.x0, place.y0, 0.97 - place.x0, place.height))
    figure.draw_without_rendering()
    lefts = [ax.yaxis.label.get_window_extent().x0 for ax in figure.axes if ax.get_ylabel()]
    if lefts and min(lefts) < 1:
        # Long numbers push the label of an axis out of a margin that was given.
        figure.subplots_adjust(left=figure.subplotpars.left + (2 - min(lefts)) / figure.bbox.width)
        figure.draw_without_rendering()
    for ax in figure.axes:
        _keep_axes_inside(ax, figure.bbox.width - 2)


def _keep_axes_inside(ax: Axes, edge: float) -> None:
    legend = ax.get_legend()
    if legend is not None:
        _keep_legend_inside(ax, legend, edge)
    over = ax.xaxis.label.get_window_extent().x1 - edge
    if over > 0:
        ax.xaxis.label.set_x(ax.xaxis.label.get_position()[0] - over / ax.bbox.width)
    # Numbers behind bars, which the layout leaves out: a longer axis makes the bars shorter.
    boxes = [text.get_window_extent() for text in ax.texts if not text.get_in_layout()]
    beyond = [(box.x0 - ax.bbox.x0) / max(edge - box.width - ax.bbox.x0, 1) for box in boxes if box.x1 > edge]
    if beyond:
        ax.set_xlim(0, ax.get_xlim()[1] * max(beyond))
    # Heat-maps stand side by side, so that a title may not be wider than its panel.
    room = 1.08 * ax.bbox.width
    if ax.get_images() and ax.title.get_window_extent().width > room:
        ax.title.set_text(ax.get_title().replace("/", "/\n", 1))
        share = room / ax.title.get_window_extent().width
        ax.title.set_fontsize(max(ax.title.get_fontsize() * min(share, 1), SMALLEST_POINTS))


def _keep_legend_inside(ax: Axes, legend: Legend, edge: float) -> None:
    def right() -> float:
        return max((text.get_window_extent().x1 for text in legend.get_texts()), default=0)

    over = right() - edge
    if over <= 0:
        return
    move = min(over, max(legend.get_window_extent().x0 - 2, 0))
    anchor = legend.get_bbox_to_anchor().transformed(ax.transAxes.inverted())
    legend.set_bbox_to_anchor((anchor.x0 - move / ax.bbox.width, anchor.y0), transform=ax.transAxes)
    over -= move
    if over > 0:
        widest = max(text.get_window_extent().width for text in legend.get_texts())
        for text in legend.get_texts():
            text.set_fontsize(max(text.get_fontsize() * (widest - over) / widest, SMALLEST_POINTS))


@dataclass
class Writer:
    """Writes pictures and the CSV behind each into one directory and remembers their names."""

    out: Path
    names: list[str]

    def picture(self, name: str, figure: Figure, formats: Sequence[str] = ("png", "pdf")) -> None:
        dateless = {
            "png": {"Software": None},
            "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
            "svg": {"Creator": None, "Date": None},
        }
        keep_inside(figure)
        for form in formats:
            figure.savefig(self.out / f"{name}.{form}", metadata=dateless[form])
            self.names.append(f"{name}.{form}")
        plt.close(figure)

    def table(self, name: str, header: Sequence[str], rows: Iterable[Sequence[Any]], meta: dict[str, str] = {}) -> None:
        with open(self.out / f"{name}.csv", "w", encoding="utf-8", newline="") as stream:
            for key, value in meta.items():
                stream.write(f"# {key}={value}\n")
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(header)
            writer.writerows([_cell(value) for value in row] for row in rows)
        self.names.append(f"{name}.csv")

    def text(self, name: str, content: str) -> None:
        (self.out / name).write_text(content, encoding="utf-8")
        self.names.append(name)

    def empty(self, name: str, title: str, reason: str, header: Sequence[str]) -> None:
        """A picture that says why there is nothing to see, and a CSV with its header alone."""
        figure, ax = framed_figure(1.3, (0.0, 0.0, 0.0, 0.0))
        ax.set_axis_off()
        ax.text(0.5, 0.6, title, ha="center", va="center", fontsize=8, transform=ax.transAxes)
        ax.text(0.5, 0.32, reason, ha="center", va="center", color="#555555", transform=ax.transAxes, wrap=True)
        self.picture(name, figure)
        self.table(name, header, [], {"empty": reason})


def _cell(value: Any) -> Any:
    """Whole numbers without a point, others with the digits that tell them apart, NaN as nothing."""
    if isinstance(value, (float, np.floating)):
        if np.isnan(value):
            return ""
        return str(int(value)) if np.isfinite(value) and float(value).is_integer() else f"{float(value):.9g}"
    return value
