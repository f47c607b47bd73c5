# SPDX-License-Identifier: GPL-2.0-only
"""Completion: iteration time by fabric beside its lower bound, and the completion time of each collective (P4)."""

from __future__ import annotations

from typing import Sequence

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from figures.style import Look, Writer, format_time, legend_above, new_figure, time_unit
from topoopt_results import Run


def completion(runs: Sequence[Run], styles: dict[str, Look], writer: Writer) -> None:
    """One bar per run: mean iteration time, whiskers from shortest to longest, and the bound that no fabric beats."""
    header = ["run", "iterations", "mean_ps", "min_ps", "max_ps", "bound_ps", "ratio_to_first", "unfinished_flows"]
    means = [float(run.iteration_times.mean()) if len(run.iteration_times) else np.nan for run in runs]
    if not runs or np.isnan(means).all():
        reason = "no iteration completed" if runs else "the results hold no run"
        writer.empty("completion", "Iteration time", reason, header)
        return
    bounds = [run.iteration_bound() for run in runs]
    scale, unit = time_unit(float(np.nanmedian(means)))
    figure, ax = new_figure(1.05 + 0.27 * len(runs))
    places = np.arange(len(runs))
    longest = np.nanmax([times.max() for times in (run.iteration_times for run in runs) if len(times)])
    for place, run, mean, bound in zip(places, runs, means, bounds):
        look = styles[run.label]
        times = run.iteration_times
        unfinished = int(run.summary.get("unfinished") or 0)
        remark = f" ({unfinished} unfinished)" if unfinished else ""
        if not len(times):
            ax.text(
                0.01 * longest / scale,
                place,
                f"no iteration completed{remark}",
                va="center",
                fontsize=6,
                in_layout=False,
            )
            continue
        ax.barh(place, mean / scale, 0.62, color="white", edgecolor=look.colour, linewidth=0)
        ax.barh(
            place,
            mean / scale,
            0.62,
            color=look.colour,
            alpha=0.45,
            hatch=look.hatch,
            edgecolor=look.colour,
            linewidth=0.8,
        )
        if len(times) > 1:
            spread = [[(mean - times.min()) / scale], [(times.max() - mean) / scale]]
            ax.errorbar(mean / scale, place, xerr=spread, color="black", linewidth=0.7, capsize=2)
        ax.text(
            (times.max() + 0.015 * longest) / scale,
            place,
            format_time(mean) + remark,
            va="center",
            fontsize=6,
            in_layout=False,
        )
        if bound is not None:
            ax.plot([bound / scale] * 2, [place - 0.4, place + 0.4], color="black", linewidth=1.4)
    counts = {len(run.iteration_times) for run in runs}
    n = f"n = {counts.pop()}" if len(counts) == 1 else f"n = {min(counts)} to {max(counts)}"
    ax.set_yticks(places, [run.label for run in runs])
    ax.set_ylim(len(runs) - 0.45, -0.55)
    room = 1.75 if any(run.summary.get("unfinished") for run in runs) else 1.3
    ax.set_xlim(0, room * max(longest, max((bound or 0 for bound in bounds), default=0)) / scale)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel(f"iteration time [{unit}], mean of {n}")
    handles = [Patch(facecolor="#bbbbbb", edgecolor="#555555", label="simulated")]
    if any(bound is not None for bound in bounds):
        label = "lower bound (bytes / NIC rate)"
        handles.append(Line2D([], [], color="black", linewidth=1.4, label=label))
    legend_above(ax, columns=2, handles=handles, columnspacing=1, handlelength=1.6)
    writer.picture("completion", figure)
    writer.table(
        "completion",
        header,
        (
            (
                run.label,
                len(run.iteration_times),
                mean,
                run.iteration_times.min() if len(run.iteration_times) else np.nan,
                run.iteration_times.max() if len(run.iteration_times) else np.nan,
                np.nan if bound is None else bound,
                mean / means[0],
                int(run.summary.get("unfinished") or 0),
            )
            for run, mean, bound in zip(runs, means, bounds)
        ),
        {"bound": "busiest server's payload bytes over its NIC rate; no computation", "unit": "ps"},
    )
