# SPDX-License-Identifier: GPL-2.0-only
"""Completion: iteration time by fabric beside its lower bound, and the completion time of each collective (P4)."""

from __future__ import annotations

from typing import Sequence

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from figures.style import (
    Look,
    Writer,
    count_text,
    format_time,
    framed_figure,
    legend_above,
    new_figure,
    plain_log_axis,
    time_unit,
)
from topoopt_results import Run, Table


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
    n += " jobs" if any(run.of_jobs for run in runs) else ""
    ax.set_yticks(places, [run.label for run in runs])
    ax.set_ylim(len(runs) - 0.45, -0.55)
    room = 1.75 if any(run.summary.get("unfinished") for run in runs) else 1.3
    # A run of nothing takes no time.
    ax.set_xlim(0, room * max(longest, max((bound or 0 for bound in bounds), default=0)) / scale or 1)
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
                mean / means[0] if means[0] else np.nan,
                int(run.summary.get("unfinished") or 0),
            )
            for run, mean, bound in zip(runs, means, bounds)
        ),
        {"bound": "busiest server's payload bytes over its NIC rate; no computation", "unit": "ps"},
    )


def iteration_times(runs: Sequence[Run], styles: dict[str, Look], writer: Writer) -> None:
    """P4 over iterations: the time of each, with each run's bound as a thin line."""
    header = ["run", "iteration", "time_ps", "bound_ps"]
    shown = [run for run in runs if len(run.iteration_times)]
    if not shown:
        writer.empty("iteration_times", "Time of each iteration", "no iteration completed", header)
        return
    scale, unit = time_unit(float(np.median(np.concatenate([run.iteration_times for run in shown]))))
    figure, ax = new_figure(1.8 + 0.13 * (len(shown) + 1))
    for run in shown:
        look = styles[run.label]
        numbers = np.arange(1, len(run.iteration_times) + 1)
        label = f"{run.label} (n = {len(numbers)} {'jobs' if run.of_jobs else 'iterations'})"
        every = max(len(numbers) // 20, 1)
        ax.plot(
            numbers,
            run.iteration_times / scale,
            color=look.colour,
            linestyle=look.dash,
            marker=look.marker,
            markevery=every,
            label=label,
        )
        if run.iteration_bound() is not None:
            ax.axhline(run.iteration_bound() / scale, color=look.colour, linewidth=0.6, linestyle=look.dash)
    if any(run.iteration_bound() is not None for run in shown):
        ax.plot([], [], color="#555555", linewidth=0.6, label="thin: lower bound (bytes / NIC rate)")
    ax.set_ylim(0, None)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    jobs = any(run.of_jobs for run in shown)
    ax.set_xlabel("job" if jobs else "iteration")
    ax.set_ylabel(f"{'mean ' if jobs else ''}iteration time [{unit}]")
    legend_above(ax)
    writer.picture("iteration_times", figure)
    rows = [
        (run.label, i + 1, time, np.nan if run.iteration_bound() is None else run.iteration_bound())
        for run in shown
        for i, time in enumerate(run.iteration_times)
    ]
    writer.table("iteration_times", header, rows, {"unit": "ps"})


Operation = tuple[str, int, int]


def operations_of(table: Table) -> list[Operation]:
    """(job, iteration, op_id) of each row: an op_id comes again in every iteration, and in every job."""
    job = table.word("job")
    iterations = np.nan_to_num(table.number("iteration"), nan=0).astype(np.int64).tolist()
    numbers = np.nan_to_num(table.number("op_id"), nan=-1).astype(np.int64).tolist()
    return [(job[row], iterations[row], numbers[row]) for row in range(table.rows)]


def operation_bounds(run: Run) -> dict[Operation, float]:
    """By operation: picoseconds that the busiest server's bytes of its flows need at its NIC rate.

    For a ring AllReduce of S bytes over n servers this is 2 (n-1)/n S / (degree x rate). Empty without flows or rates.
    """
    rates = run.injection_rate()
    flows = run.flows
    if not flows.rows or not rates.any():
        return {}
    known = np.isfinite(flows.number("op_id")) & (flows.number("src_server") != flows.number("dst_server"))
    flows = flows.select(known)
    place_of: dict[Operation, int] = {}
    index = np.array([place_of.setdefault(key, len(place_of)) for key in operations_of(flows)], dtype=np.int64)
    bounds = np.zeros(len(place_of))
    for column in ("src_server", "dst_server"):
        server = flows.number(column).astype(np.int64)
        pairs, place = np.unique(index * run.servers + server, return_inverse=True)
        sums = np.bincount(place, flows.number("bytes"))
        rate = rates[pairs % run.servers]
        time = np.divide(8e12 * sums, rate, out=np.zeros_like(sums), where=rate > 0)
        np.maximum.at(bounds, pairs // run.servers, time)
    return dict(zip(place_of, bounds.tolist()))


def collectives(runs: Sequence[Run], styles: dict[str, Look], writer: Writer) -> None:
    """P4 over operations: completion time of each collective, one panel per kind, iteration after iteration, by op_id."""
    header = ["run", "job", "iteration", "op_id", "kind", "name", "ranks", "bytes", "duration_ps", "bound_ps", "status"]
    title = "Completion time of collectives"
    if not any(run.ops.rows for run in runs):
        reason = "the operation tables are empty" if any(run.ops.present for run in runs) else "no operation table"
        writer.empty("collectives", title, reason, header)
        return
    names = dict.fromkeys(run.ops.word("kind")[row] for run in runs for row in range(run.ops.rows))
    kinds = list(names)[:4]
    durations = np.concatenate([run.ops.number("duration_ps") for run in runs])
    durations = durations[np.isfinite(durations)]
    if not len(durations):
        writer.empty("collectives", title, "no operation finished", header)
        return
    scale, unit = time_unit(float(np.median(durations)))
    bounds = {run.label: operation_bounds(run) for run in runs}
    legend_height = 0.13 * (len(runs) + any(bounds.values())) + 0.2
    height = 1.25 * len(kinds) + 0.45 + legend_height
    figure, grid = framed_figure(height, (0.5, 0.4, 0.08, legend_height), nrows=len(kinds), squeeze=False)
    figure.subplots_adjust(hspace=0.35)
    axes = grid[:, 0]
    rows = []
    for ax, kind in zip(axes, kinds):
        tables = {run.label: run.ops.select(run.ops.word("kind").equal(kind)) for run in runs}
        operations = sorted({key for table in tables.values() for key in operations_of(table)})
        place = {operation: i for i, operation in enumerate(operations)}
        top = 0.0
        low = np.inf
        for run in runs:
            look = styles[run.label]
            table = tables[run.label]
            keys = operations_of(table)
            x = np.array([place[key] for key in keys], dtype=np.float64)
            y = table.number("duration_ps") / scale
            done = np.isfinite(y)
            order = np.argsort(x, kind="stable")
            sparse = max(len(x) // 15, 1)
            ax.plot(
                x[order],
                y[order],
                color=look.colour,
                linestyle=look.dash,
                linewidth=0.8,
                marker=look.marker,
                markevery=sparse,
                label=f"{run.label} ({count_text(_finished_ops(run), run.ops.rows, 'operations')})",
            )
            ax.plot(
                x[~done],
                np.ones((~done).sum()),
                linestyle="none",
                marker=look.marker,
                markerfacecolor="white",
                color=look.colour,
                clip_on=False,
                transform=ax.get_xaxis_transform(),
            )
            low = min(low, np.nanmin(y, initial=np.inf))
            top = max(top, np.nanmax(y, initial=0))
            limits = [bounds[run.label].get(key, np.nan) for key in keys]
            limit = np.array(limits) / scale
            if np.isfinite(limit).any():
                ax.plot(
                    x[order],
                    limit[order],
                    color=look.colour,
                    linewidth=0.5,
                    drawstyle="steps-mid",
                    marker="_",
                    markersize=5,
                    markevery=sparse,
                )
                low = min(low, np.nanmin(limit[limit > 0], initial=np.inf))
            rows += [
                [run.label, *keys[row], kind, table.word("name")[row], table.word("ranks")[row]]
                + [table.number("bytes")[row], table.number("duration_ps")[row], limits[row], table.word("status")[row]]
                for row in range(table.rows)
            ]
        if low > 0 and top > 10 * low:
            ax.set_yscale("log")
            plain_log_axis(ax.yaxis)
        else:
            ax.set_ylim(0, None)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        ax.set_xlim(-0.5, max(len(operations), 1) - 0.5)
        ax.set_title(f"{kind}, n = {len(operations)}", loc="left", pad=3)
        ax.set_ylabel(f"time [{unit}]")
    unfinished = any(_finished_ops(run) < run.ops.rows for run in runs)
    axes[-1].set_xlabel("operations of the kind, in order" + ("; hollow = unfinished" if unfinished else ""))
    handles = axes[0].get_legend_handles_labels()[0]
    if any(bounds.values()):
        handles.append(Line2D([], [], color="#555555", linewidth=0.5, label="thin: lower bound (bytes / NIC rate)"))
    axes[0].legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1.12), borderaxespad=0)
    writer.picture("collectives", figure)
    meta = {"bound": "busiest server's payload bytes of the operation's flows over its NIC rate", "unit": "ps"}
    if len(names) > len(kinds):
        meta["kinds_not_shown"] = " ".join(list(names)[len(kinds) :])
    writer.table("collectives", header, rows, meta)


def _finished_ops(run: Run) -> int:
    return int(run.ops.word("status").equal("done").sum())
