# SPDX-License-Identifier: GPL-2.0-only
"""P7: who sends how much to whom, on one logarithmic colour scale for all panels."""

from __future__ import annotations

from typing import Sequence

import numpy as np
from matplotlib.colors import LogNorm

from figures.style import COLUMN_INCHES, PAGE_INCHES, Look, Writer, format_bytes, framed_figure
from topoopt_results import Run

MAX_CELLS_IN_CSV = 4_000_000


def is_allreduce(kind: str) -> bool:
    return kind.lower().replace("_", "").replace("-", "").startswith("allreduce")


def flow_matrix(run: Run, rows: np.ndarray) -> np.ndarray:
    """Bytes of the given flows by source and destination server."""
    n = run.servers
    source = run.flows.number("src_server")[rows].astype(np.int64)
    target = run.flows.number("dst_server")[rows].astype(np.int64)
    return np.bincount(source * n + target, run.flows.number("bytes")[rows], minlength=n * n).reshape(n, n)


def panels(run: Run) -> dict[str, np.ndarray]:
    """The matrices of a run by name; those without a byte are left out."""
    result = {"demand": run.demand}
    if run.flows.rows:
        kinds = run.flows.word("kind")
        reduce = np.isin(kinds.codes, [i for i, kind in enumerate(kinds.names) if is_allreduce(kind)])
        if len(reduce):
            result["AllReduce"] = flow_matrix(run, np.flatnonzero(reduce))
            result["other than AllReduce"] = flow_matrix(run, np.flatnonzero(~reduce))
    result["direct links"] = run.matrix("link")
    return {name: matrix for name, matrix in result.items() if matrix.any()}


def ring_panels(run: Run) -> dict[str, np.ndarray]:
    """Per ring of the wiring, named by its stride, the bytes that flows between neighbours in it carried."""
    if run.topology is None or not run.flows.rows:
        return {}
    n = run.servers
    kinds = run.flows.word("kind")
    reduce = np.isin(kinds.codes, [i for i, kind in enumerate(kinds.names) if is_allreduce(kind)])
    bytes_of = flow_matrix(run, np.flatnonzero(reduce))
    after: dict[int, np.ndarray] = {}
    for link in run.topology.links:
        if link.ring is not None and max(link.src, link.dst) < n:
            after.setdefault(link.ring, np.zeros((n, n), dtype=bool))[link.src, link.dst] = True
    result = {}
    for ring, mask in sorted(after.items(), key=lambda ring: ring[0]):
        source, target = np.nonzero(mask)
        strides = {int(stride) for stride in (target - source) % n}
        name = f"ring {ring}"
        if len(strides) == 1:
            stride = strides.pop()
            name = f"+{stride}" if 2 * stride <= n else f"-{n - stride}"
        if name not in result and (bytes_of * mask).any():
            result[name] = bytes_of * mask
    # The strides forward, then those back.
    return dict(sorted(result.items(), key=lambda panel: panel[0].startswith("-")))


MAX_RINGS = 8


def ring_traffic(runs: Sequence[Run], _: dict[str, Look], writer: Writer) -> None:
    """Mutability: what one AllReduce puts on each ring. The bytes are the same, the matrix is another."""
    header = ["run", "ring", "src_server", "dst_server", "bytes"]
    drawn = [(run.label, name, matrix) for run in runs for name, matrix in ring_panels(run).items()]
    if not drawn:
        writer.empty("ring_traffic", "AllReduce by ring", "no flows of an AllReduce on rings", header)
        return
    shown = drawn[:MAX_RINGS]
    labels = list(dict.fromkeys(label for label, _, _ in shown))
    several = len(labels) > 1
    positive = np.concatenate([matrix[matrix > 0] for _, _, matrix in shown])
    norm = LogNorm(positive.min() / 10, positive.max())
    most = max(sum(label == other for other, _, _ in shown) for label in labels)
    columns = most if most <= 3 else 3 if most in (5, 6) and not several else 4
    # Each run begins a line of its own, with its name above it.
    places: list[int] = []
    firsts: dict[str, int] = {}
    for label, _, _ in shown:
        place = len(places) and places[-1] + 1
        place = place if label in firsts else -(-place // columns) * columns
        firsts.setdefault(label, place)
        places.append(place)
    lines = places[-1] // columns + 1
    side = (COLUMN_INCHES - 0.95) / max(columns, 3)
    above = 0.38 if several else 0.28
    margins = (0.4, 0.38, COLUMN_INCHES - 0.4 - side * columns, above)
    height = lines * (side + above - 0.04) + 0.42
    figure, grid = framed_figure(height, margins, nrows=lines, ncols=columns, squeeze=False)
    figure.subplots_adjust(wspace=0.14, hspace=(above - 0.04) / side)
    for ax in grid.flat:
        ax.set_axis_off()
    for place, (label, name, matrix) in zip(places, shown):
        ax = grid.flat[place]
        ax.set_axis_on()
        ax.grid(visible=False)
        low = place + columns not in places
        ax.tick_params(labelsize=5, length=1.5, pad=1, labelleft=place % columns == 0, labelbottom=low)
        image = ax.imshow(np.where(matrix > 0, matrix, np.nan), norm=norm, cmap="viridis_r", interpolation="nearest")
        ax.set_title(f"{name}: {format_bytes(float(matrix.sum()))}", fontsize=5.5, pad=3)
        if place % columns == 0:
            ax.set_ylabel("source server", fontsize=6, labelpad=2)
        if several and place == firsts[label]:
            ax.annotate(label, (0, 1), (0, 11), "axes fraction", "offset points", fontsize=6)
        if low:
            ax.set_xlabel("destination" if columns > 3 else "destination server", fontsize=6, labelpad=2)
    left = margins[0] + side * columns + 0.06
    bar = figure.add_axes((left / COLUMN_INCHES, margins[1] / height, 0.09 / COLUMN_INCHES, 1 - (above + 0.38) / height))
    colours = figure.colorbar(image, cax=bar, format=lambda value, _: format_bytes(value))
    colours.ax.tick_params(labelsize=5, pad=1, which="both")
    bar.grid(visible=False)
    bar.set_title("bytes", fontsize=5.5, pad=3, loc="left")
    if len(shown) < len(drawn):
        figure.text(0.01, 0.01, f"first {len(shown)} of {len(drawn)} rings", fontsize=5)
    writer.picture("ring_traffic", figure)
    writer.table(
        "ring_traffic",
        header,
        (
            (label, name, int(src), int(dst), matrix[src, dst])
            for label, name, matrix in drawn
            for src, dst in np.argwhere(matrix > 0)[:MAX_CELLS_IN_CSV]
        ),
    )


def traffic_matrix(runs: Sequence[Run], _: dict[str, Look], writer: Writer) -> None:
    """A column of panels per run, a row per part of the traffic; white = no byte."""
    header = ["run", "part", "src_server", "dst_server", "bytes"]
    all_panels = {run.label: panels(run) for run in runs}
    if not any({"AllReduce", "other than AllReduce"} <= set(part) for part in all_panels.values()):
        # Where no run has both, these would repeat the demand.
        all_panels = {
            label: {name: matrix for name, matrix in part.items() if "AllReduce" not in name}
            for label, part in all_panels.items()
        }
    names = list(dict.fromkeys(name for part in all_panels.values() for name in part))
    names.sort(key=["demand", "AllReduce", "other than AllReduce", "direct links"].index)
    if not names:
        writer.empty("traffic_matrix", "Traffic matrix", "no matrix with a byte in it", header)
        return
    positive = np.concatenate([m[m > 0] for part in all_panels.values() for m in part.values()])
    low, high = positive.min(), positive.max()
    norm = LogNorm(low, high if high > low else low * 10)
    width = COLUMN_INCHES if len(runs) <= 3 else PAGE_INCHES
    side = (width - 0.95) / max(len(runs), 2)
    margins = (0.4, 0.35, width - 0.4 - side * len(runs), 0.28)
    height = (side + 0.02) * len(names) + 0.63
    figure, grid = framed_figure(height, margins, width, nrows=len(names), ncols=len(runs), squeeze=False)
    figure.subplots_adjust(wspace=0.1, hspace=0.1)
    for column, run in enumerate(runs):
        for row, name in enumerate(names):
            ax = grid[row, column]
            ax.grid(visible=False)
            ax.tick_params(labelsize=5, length=1.5, pad=1, labelleft=column == 0, labelbottom=row == len(names) - 1)
            matrix = all_panels[run.label].get(name)
            if matrix is None:
                ax.text(0.5, 0.5, "none", ha="center", va="center", transform=ax.transAxes, color="#555555")
                ax.set_xticks([])
                ax.set_yticks([])
            else:
                image = ax.imshow(
                    np.where(matrix > 0, matrix, np.nan), norm=norm, cmap="viridis_r", interpolation="nearest"
                )
            if row == 0:
                ax.set_title(run.label, fontsize=6, pad=3)
            if column == 0:
                ax.set_ylabel(f"{name}\nsource", fontsize=6, labelpad=2)
            if row == len(names) - 1:
                ax.set_xlabel("destination server", fontsize=6, labelpad=2)
    left = margins[0] + side * len(runs) + 0.06
    bar = figure.add_axes((left / width, 0.35 / height, 0.09 / width, 1 - 0.63 / height))
    colours = figure.colorbar(image, cax=bar, format=lambda value, _: format_bytes(value))
    colours.ax.tick_params(labelsize=5, pad=1, which="both")
    bar.grid(visible=False)
    bar.set_title("bytes", fontsize=5.5, pad=3, loc="left")
    writer.picture("traffic_matrix", figure)
    writer.table(
        "traffic_matrix",
        header,
        (
            (run.label, name, int(src), int(dst), matrix[src, dst])
            for run in runs
            for name, matrix in all_panels[run.label].items()
            for src, dst in np.argwhere(matrix > 0)[:MAX_CELLS_IN_CSV]
        ),
        {"zero_cells": "left out"},
    )
