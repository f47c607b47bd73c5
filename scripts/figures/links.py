# SPDX-License-Identifier: GPL-2.0-only
"""Links: utilisation over time (P6), load per link, path lengths and bandwidth tax (P8)."""

from __future__ import annotations

from typing import Sequence

import numpy as np
from matplotlib.ticker import MaxNLocator

from figures.flows import no_flows
from figures.style import (
    Look,
    Writer,
    format_bytes,
    framed_figure,
    legend_above,
    new_figure,
    time_unit,
)
from topoopt_results import Run

TIME_BINS = 200


def link_names(run: Run) -> dict[int, str]:
    """`src -> dst` by link_id."""
    source, target = run.links.word("src"), run.links.word("dst")
    return {int(n): f"{source[i]} → {target[i]}" for i, n in enumerate(run.links.number("link_id"))}


def utilisation_grid(run: Run) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(links sorted by falling mean, bin edges in ps, utilisation[link, bin]) from link_samples.csv, at most TIME_BINS bins.

    A sample at t covers the time since the sample before it. Bins average the samples by overlap. A link that never sent has no
    samples, and a line of zeros.
    """
    samples = run.link_samples
    times = np.unique(samples.number("t_ps"))
    ids = np.union1d(samples.number("link_id"), run.links.number("link_id"))
    grid = np.zeros((len(ids), len(times)))
    row = np.searchsorted(ids, samples.number("link_id"))
    grid[row, np.searchsorted(times, samples.number("t_ps"))] = np.nan_to_num(samples.number("utilisation"))
    edges = np.concatenate([[0], times])
    if len(times) > TIME_BINS:
        total = np.concatenate([np.zeros((len(ids), 1)), np.cumsum(grid * np.diff(edges), axis=1)], axis=1)
        coarse = np.linspace(0, edges[-1], TIME_BINS + 1)
        sums = np.array([np.interp(coarse, edges, line) for line in total])
        grid, edges = np.diff(sums, axis=1) / np.diff(coarse), coarse
    order = np.argsort(-(grid * np.diff(edges)).sum(axis=1), kind="stable")
    return ids[order], edges, grid[order]


def link_utilisation(runs: Sequence[Run], styles: dict[str, Look], writer: Writer) -> None:
    """P6: links by falling mean, time, colour = utilisation. Without samples, the mean of each link alone."""
    sampled = [run for run in runs if run.link_samples.rows]
    if not sampled:
        _mean_utilisation(runs, styles, writer)
        return
    grids = {run.label: utilisation_grid(run) for run in sampled}
    end = max(edges[-1] for _, edges, _ in grids.values())
    scale, unit = time_unit(end)
    figure, grid = framed_figure(
        1.15 * len(sampled) + 0.55, (0.5, 0.35, 0.65, 0.2), nrows=len(sampled), sharex=True, squeeze=False
    )
    figure.subplots_adjust(hspace=0.32)
    for ax, run in zip(grid[:, 0], sampled):
        ids, edges, values = grids[run.label]
        image = ax.pcolormesh(
            edges / scale, np.arange(len(ids) + 1), values, vmin=0, vmax=1, cmap="cividis", rasterized=True
        )
        ax.grid(visible=False)
        ax.set_ylim(len(ids), 0)
        ax.set_xlim(0, end / scale)
        ax.set_ylabel("link, by mean")
        ax.set_title(f"{run.label}: n = {len(ids)} links, mean {values.mean():.2f}", loc="left", pad=2)
    without = len(runs) - len(sampled)
    remark = f"; {without} of {len(runs)} runs without samples" if without else ""
    grid[-1, 0].set_xlabel(f"simulated time [{unit}]{remark}")
    width, height = figure.get_size_inches()
    bar = figure.add_axes((1 - 0.55 / width, 0.35 / height, 0.1 / width, 1 - 0.55 / height))
    figure.colorbar(image, cax=bar, label="utilisation [fraction of rate]")
    bar.grid(visible=False)
    writer.picture("link_utilisation", figure)
    writer.table(
        "link_utilisation",
        ["run", "link_id", "link", "bin_start_ps", "bin_end_ps", "utilisation"],
        (
            (run.label, number, link_names(run).get(int(number), ""), edges[j], edges[j + 1], values[i, j])
            for run in sampled
            for ids, edges, values in [grids[run.label]]
            for i, number in enumerate(ids)
            for j in range(len(edges) - 1)
        ),
    )


def _mean_utilisation(runs: Sequence[Run], styles: dict[str, Look], writer: Writer) -> None:
    header = ["run", "link_id", "link", "utilisation"]
    if not any(run.links.rows for run in runs):
        writer.empty("link_utilisation", "Link utilisation", "no link table in these results", header)
        return
    figure, ax = new_figure(1.8 + 0.13 * len(runs))
    rows = []
    for run in runs:
        look = styles[run.label]
        mean = run.links.number("utilisation")
        order = np.argsort(-mean, kind="stable")
        ax.plot(
            np.arange(len(order)) / max(len(order) - 1, 1),
            mean[order],
            color=look.colour,
            linestyle=look.dash,
            marker=look.marker,
            markevery=max(len(order) // 8, 1),
            label=f"{run.label} (n = {len(order)} directed links)",
        )
        names = link_names(run)
        rows += [[run.label, n, names[int(n)], mean[i]] for i, n in zip(order, run.links.number("link_id")[order])]
    ax.set_ylim(0, None)
    ax.set_xlabel("links by falling utilisation [fraction of links]\nmeans of the run; no time series in these results")
    ax.set_ylabel("utilisation [fraction of rate]")
    legend_above(ax)
    writer.picture("link_utilisation", figure)
    writer.table("link_utilisation", header, rows)


def cdf_picture(
    name: str,
    runs: Sequence[Run],
    styles: dict[str, Look],
    curves: dict[str, tuple[np.ndarray, np.ndarray, str]],
    axis: tuple[str, str],
    writer: Writer,
    header: Sequence[str],
) -> None:
    """Step curves (x, fraction up to x, what n counts) of runs that have any."""
    figure, ax = new_figure(1.9 + 0.13 * len(curves))
    for run in runs:
        if run.label in curves:
            look = styles[run.label]
            x, fraction, n = curves[run.label]
            ax.step(
                np.concatenate([[x[0]], x]),
                np.concatenate([[0], fraction]),
                where="post",
                color=look.colour,
                linestyle=look.dash,
                marker=look.marker,
                markevery=max(len(x) // 6, 1),
                label=f"{run.label} ({n})",
            )
    ax.set_ylim(0, 1.005)
    if all(float(value).is_integer() for x, _, _ in curves.values() for value in x[:100]):
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.set_xlabel(axis[0])
    ax.set_ylabel(axis[1])
    legend_above(ax)
    writer.picture(name, figure)
    rows = ((label, a, b) for label, (x, fraction, _) in curves.items() for a, b in zip(x, fraction))
    writer.table(name, header, rows)


def path_length(runs: Sequence[Run], styles: dict[str, Look], writer: Writer) -> None:
    """P8: links that a byte crosses, weighted by the bytes of the flows."""
    header = ["run", "hops", "fraction_of_bytes"]
    curves = {}
    for run in runs:
        hops, sizes = run.flows.number("hops"), run.flows.number("bytes")
        known = np.isfinite(hops) & (sizes > 0)
        if known.any():
            values, place = np.unique(hops[known], return_inverse=True)
            weight = np.bincount(place, sizes[known])
            mean = float((values * weight).sum() / weight.sum())
            n = f"n = {int(known.sum())} flows, {format_bytes(weight.sum())}, mean {mean:.2f}"
            curves[run.label] = (values, np.cumsum(weight) / weight.sum(), n)
    if not curves:
        writer.empty("path_length", "Path length", no_flows(runs), header)
        return
    cdf_picture("path_length", runs, styles, curves, ("path length [links]", "fraction of bytes"), writer, header)


def link_load(runs: Sequence[Run], styles: dict[str, Look], writer: Writer) -> None:
    """P8: bytes carried per directed link."""
    header = ["run", "bytes", "fraction_of_links"]
    loads = {run.label: np.sort(run.links.number("bytes")) for run in runs if run.links.rows}
    if not loads:
        writer.empty("link_load", "Bytes per link", "no link table in these results", header)
        return
    top = max(load[-1] for load in loads.values())
    scale, unit = next(((s, u) for s, u in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if top >= s), (1.0, "B"))
    curves = {}
    for label, load in loads.items():
        values = np.unique(load)
        imbalance = f", max/mean {load[-1] / load.mean():.2f}" if load.any() else ""
        fraction = np.searchsorted(load, values, side="right") / len(load)
        curves[label] = (values / scale, fraction, f"n = {len(load)} links{imbalance}")
    axis = (f"bytes over a directed link [{unit}]", "fraction of links")
    header[1] = f"load_{unit}"
    cdf_picture("link_load", runs, styles, curves, axis, writer, header)


def bandwidth_tax(runs: Sequence[Run], styles: dict[str, Look], writer: Writer) -> None:
    """P8: bytes that leave servers, relayed ones again, over bytes demanded; as summary.json has it."""
    header = ["run", "demand_bytes", "wire_bytes", "bandwidth_tax"]
    taxes = [run.summary.get("bandwidth_tax") for run in runs]
    values = [float(tax) if isinstance(tax, (int, float)) else np.nan for tax in taxes]
    if not values or np.isnan(values).all():
        writer.empty("bandwidth_tax", "Bandwidth tax", "no bandwidth tax in these results", header)
        return
    figure, ax = new_figure(0.75 + 0.27 * len(runs))
    for place, (run, value) in enumerate(zip(runs, values)):
        look = styles[run.label]
        ax.barh(
            place, value, 0.62, color=look.colour, alpha=0.45, hatch=look.hatch, edgecolor=look.colour, linewidth=0.8
        )
        demand = format_bytes(float(run.summary.get("demand_bytes") or 0))
        text = "–" if np.isnan(value) else f" {value:.2f} of {demand}"
        ax.text(0 if np.isnan(value) else value, place, text, va="center", fontsize=6, in_layout=False)
    ax.axvline(1, color="black", linewidth=0.8)
    ax.set_xlim(0, 1.5 * np.nanmax(values))
    ax.set_yticks(range(len(runs)), [run.label for run in runs])
    ax.set_ylim(len(runs) - 0.45, -0.55)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("bandwidth tax [bytes sent by servers / demanded]")
    writer.picture("bandwidth_tax", figure)
    rows = (
        (run.label, run.summary.get("demand_bytes"), run.summary.get("wire_bytes"), value)
        for run, value in zip(runs, values)
    )
    writer.table("bandwidth_tax", header, rows)
