# SPDX-License-Identifier: GPL-2.0-only
"""The wiring of each fabric: rings by colour, MP links by weight.

Where servers are cabled to switches alone and switches of one tier not to each other, tiers lie above each other; else servers
are on a circle and switches on circles inside it.
"""

from __future__ import annotations

from collections import Counter
from typing import Sequence

import numpy as np
from matplotlib.collections import PathCollection
from matplotlib.lines import Line2D
from matplotlib.path import Path as Curve

from figures.links import cdf_picture
from figures.style import COLUMN_INCHES, DASHES, PALETTE, PAGE_INCHES, Look, Writer, framed_figure
from topoopt_results import Run, TopologyFile

# Wiring that belongs to no ring is grey, MP links black; rings take the rest of the palette.
RING_COLOURS = [colour for colour in PALETTE if colour not in ("#222222", "#999999")]


def levels(topology: TopologyFile) -> np.ndarray:
    """Links from each node to the nearest server; servers 0, unconnected nodes 1."""
    neighbours: list[list[int]] = [[] for _ in topology.nodes]
    for link in topology.links:
        neighbours[link.src].append(link.dst)
        neighbours[link.dst].append(link.src)
    level = np.full(len(topology.nodes), -1)
    level[: topology.servers] = 0
    frontier = list(range(topology.servers))
    while frontier:
        following = []
        for node in frontier:
            for other in neighbours[node]:
                if level[other] < 0:
                    level[other] = level[node] + 1
                    following.append(other)
        frontier = following
    return np.where(level < 0, 1, level)


def parts_below(topology: TopologyFile, level: np.ndarray) -> list[list[int]]:
    """The neighbours of each node that are nearer to a server than itself, once per directed link."""
    below: list[list[int]] = [[] for _ in topology.nodes]
    for link in topology.links:
        for a, b in ((link.src, link.dst), (link.dst, link.src)):
            if level[b] < level[a]:
                below[a].append(b)
    return below


def is_tiered(topology: TopologyFile) -> bool:
    """Whether there are switches and no link joins two nodes of one level: Clos networks and stars."""
    level = levels(topology)
    flat = any(level[link.src] == level[link.dst] for link in topology.links)
    return len(topology.nodes) > topology.servers > 0 and len(topology.links) > 0 and not flat


def positions(topology: TopologyFile) -> np.ndarray:
    """Coordinates from -1 to 1 in both directions.

    On circles, server 0 is at the top and numbers run clockwise. In tiers, servers are at the bottom and numbers run from left to
    right. Switches keep the order of the mean place of the nodes below them, which keeps a Clos without needless crossings.
    """
    return _tiers(topology) if is_tiered(topology) else _circles(topology)


def _tiers(topology: TopologyFile) -> np.ndarray:
    level = levels(topology)
    below = parts_below(topology, level)
    place = np.zeros((len(topology.nodes), 2))
    depth = int(level.max())
    for tier in range(depth + 1):
        nodes = np.flatnonzero(level == tier)
        if tier:
            nodes = np.array(sorted(nodes, key=lambda n: (round(float(place[below[n], 0].mean()), 6), n)))
        # The middles of equal parts of the width.
        place[nodes, 0] = (2 * np.arange(len(nodes)) + 1) / len(nodes) - 1
        place[nodes, 1] = 2 * tier / depth - 1
    return place


def _circles(topology: TopologyFile) -> np.ndarray:
    level = levels(topology)
    below = parts_below(topology, level)
    place = np.zeros((len(topology.nodes), 2))
    depth = int(level.max(initial=0))
    turn = np.zeros(len(topology.nodes))
    for ring in range(depth + 1):
        nodes = np.flatnonzero(level == ring)
        if ring:
            directions = {n: np.exp(1j * turn[below[n]]).sum() if below[n] else 1 for n in nodes}
            nodes = np.array(sorted(nodes, key=lambda n: (round(float(np.angle(directions[n])) % (2 * np.pi), 6), n)))
        radius = 1 - ring / (depth + 1) if depth else 1.0
        if ring == depth and ring and len(nodes) == 1:
            radius = 0.0
        turn[nodes] = 2 * np.pi * np.arange(len(nodes)) / max(len(nodes), 1)
        place[nodes, 0] = radius * np.sin(turn[nodes])
        place[nodes, 1] = radius * np.cos(turn[nodes])
    return place


MAX_SOURCES = 1024


def server_hops(topology: TopologyFile) -> np.ndarray:
    """How many ordered pairs of servers are 1, 2, ... links apart (element 0: those without a way).

    Beyond MAX_SOURCES servers, pairs from that many, evenly spread.
    """
    after: list[list[int]] = [[] for _ in topology.nodes]
    for link in topology.links:
        after[link.src].append(link.dst)
    n = topology.servers
    count = np.zeros(len(topology.nodes) + 1, dtype=np.int64)
    for source in np.unique(np.linspace(0, max(n - 1, 0), min(n, MAX_SOURCES)).astype(int)) if n else []:
        distance = np.full(len(topology.nodes), -1)
        distance[source] = 0
        frontier = [int(source)]
        while frontier:
            following = []
            for node in frontier:
                for other in after[node]:
                    if distance[other] < 0:
                        distance[other] = distance[node] + 1
                        following.append(other)
            frontier = following
        others = np.delete(distance[:n], source)
        count += np.bincount(np.where(others < 0, 0, others), minlength=len(count))
    return count


def pair_hops(runs: Sequence[Run], styles: dict[str, Look], writer: Writer) -> None:
    """P8: links on a shortest path between two servers, each ordered pair counted once."""
    header = ["run", "hops", "fraction_of_pairs"]
    curves = {}
    for run in runs:
        count = server_hops(run.topology) if run.topology is not None else np.zeros(1)
        if count[1:].any():
            hops = np.flatnonzero(count)
            hops = hops[hops > 0]
            mean = float((hops * count[hops]).sum() / count[hops].sum())
            fraction = np.cumsum(count[hops]) / count.sum()
            curves[run.label] = (hops.astype(np.float64), fraction, f"n = {count.sum()} pairs, mean {mean:.4g}")
    if not curves:
        writer.empty("pair_hops", "Path length between servers", "no topology.json with two servers", header)
        return
    axis = ("links on a shortest path", "fraction of server pairs")
    cdf_picture("pair_hops", runs, styles, curves, axis, writer, header)


def cables(run: Run) -> list[tuple[int, int, int | None, bool, int]]:
    """(a, b, ring, mp, how many directed links) for each pair of nodes and purpose.

    Only TopoOpt gives links to model-parallel traffic; in other fabrics a link outside of the rings is just a link.
    """
    count: dict[tuple[int, int, int, bool], int] = {}
    for link in run.topology.links:
        a, b = sorted((link.src, link.dst))
        key = (a, b, -1 if link.ring is None else link.ring, link.mp and run.kind == "topoopt")
        count[key] = count.get(key, 0) + 1
    return [(a, b, None if ring < 0 else ring, mp, n) for (a, b, ring, mp), n in sorted(count.items())]


# Wires between the same two nodes that are drawn one by one.
MAX_PARALLEL = 4


def topology(runs: Sequence[Run], _: dict[str, Look], writer: Writer) -> None:
    header = ["run", "src", "dst", "ring", "mp", "directed_links"]
    drawn = [run for run in runs if run.topology is not None]
    if not drawn:
        writer.empty("topology", "Topology", "no topology.json in these results", header)
        return
    columns = min(len(drawn), 2 if len(drawn) <= 4 else 4)
    lines = -(-len(drawn) // columns)
    width = COLUMN_INCHES if columns <= 2 else PAGE_INCHES
    rings = sorted({link.ring for run in drawn for link in run.topology.links if link.ring is not None})
    legend_lines = -(-(min(len(rings), 8) + 2) // 3)
    side = width / columns if columns > 1 else 2.6
    height = lines * (side + 0.18) + 0.15 * legend_lines + 0.1
    figure, grid = framed_figure(
        height, (0.0, 0.15 * legend_lines + 0.1, 0.0, 0.18), width, nrows=lines, ncols=columns, squeeze=False
    )
    figure.subplots_adjust(wspace=0.02, hspace=0.18 / side)
    for ax in grid.flat:
        ax.set_axis_off()
    for ax, run in zip(grid.flat, drawn):
        _draw(ax, run)
    handles = [Line2D([], [], color=_ring_colour(k), linestyle=_ring_dash(k), label=f"ring {k}") for k in rings[:8]]
    wires = [(ring, mp) for run in drawn for _, _, ring, mp, _ in cables(run)]
    if any(mp for _, mp in wires):
        handles.append(Line2D([], [], color="black", linewidth=1.8, label="MP link"))
    if any(ring is None and not mp for ring, mp in wires):
        handles.append(Line2D([], [], color="#888888", linewidth=0.8, label="other link"))
    figure.legend(handles=handles, loc="lower center", ncol=3, columnspacing=1.2)
    writer.picture("topology", figure, ("png", "pdf", "svg"))
    rows = (
        (run.label, run.topology.nodes[a].name, run.topology.nodes[b].name, ring, int(mp), n)
        for run in drawn
        for a, b, ring, mp, n in cables(run)
    )
    writer.table("topology", header, rows)


def _ring_colour(ring: int) -> str:
    return RING_COLOURS[ring % len(RING_COLOURS)]


def _ring_dash(ring: int) -> object:
    return DASHES[ring % 5]


def _curve(start: np.ndarray, end: np.ndarray, bend: float) -> Curve:
    """A line from start to end that leaves the straight one by bend/2 of its length, to the left where bend > 0."""
    across = end - start
    middle = (start + end) / 2 + bend * np.array([-across[1], across[0]])
    return Curve([start, middle, end], [Curve.MOVETO, Curve.CURVE3, Curve.CURVE3])


def _draw(ax, run: Run) -> None:
    wiring = run.topology
    place = positions(wiring)
    n = wiring.servers
    thin = 1.0 if len(wiring.links) <= 100 else max(0.35, 100 / len(wiring.links))
    groups: dict[tuple[int, bool], list[Curve]] = {}
    wires = [wire[:4] for wire in cables(run) for _ in range(min(-(-wire[4] // 2), MAX_PARALLEL))]
    together = Counter((a, b) for a, b, *_ in wires)
    seen: Counter[tuple[int, int]] = Counter()
    for a, b, ring, mp in wires:
        # Wires between the same two nodes bend apart.
        bend = 0.09 * (seen[a, b] - (together[a, b] - 1) / 2)
        seen[a, b] += 1
        groups.setdefault((-1 if ring is None else ring, mp), []).append(_curve(place[a], place[b], bend))
    for (ring, mp), curves in sorted(groups.items()):
        if mp:
            style = {"edgecolors": "black", "linewidths": 1.8 * thin, "zorder": 3}
        elif ring >= 0:
            style = {"edgecolors": _ring_colour(ring), "linewidths": 0.9 * thin, "linestyles": [_ring_dash(ring)]}
            style["zorder"] = 2
        else:
            style = {"edgecolors": "#888888", "linewidths": 0.7 * thin, "zorder": 1}
        ax.add_collection(PathCollection(curves, facecolors="none", **style))
    switches = len(wiring.nodes) - n
    size = min(28.0, 350 / max(n, 1))
    small = min(25.0, 350 / max(np.bincount(levels(wiring)).max(initial=1), 1))
    ax.scatter(*place[:n].T, s=size, color="white", edgecolor="#222222", linewidth=0.6 * thin, zorder=4)
    ax.scatter(*place[n:].T, s=small, marker="s", color="#dddddd", edgecolor="#222222", linewidth=0.5 * thin, zorder=4)
    tiered = is_tiered(wiring)
    every = 1 if n <= (10 if tiered else 16) else -(-n // (8 if tiered else 16))
    for server in range(0, n, every):
        x, y = (place[server, 0], -1.14) if tiered else 1.13 * place[server]
        ax.text(x, y, str(server), ha="center", va="center", fontsize=5)
    if tiered:
        _name_tiers(ax, wiring, place)
    what = f"{n} servers" + (f", {switches} switches" if switches > 1 else ", 1 switch" if switches else "")
    ax.set_title(f"{run.label}\n{what}, {len(wiring.links)} directed links", fontsize=5.5, pad=-2)
    ax.set_xlim(-1.22, 1.22)
    ax.set_ylim(-1.22, 1.22)
    ax.set_aspect("equal")


def _name_tiers(ax, wiring: TopologyFile, place: np.ndarray) -> None:
    """Above the left end of each tier of switches its number and what their names have in common."""
    level = levels(wiring)
    for tier in range(1, int(level.max()) + 1):
        nodes = np.flatnonzero(level == tier)
        names = sorted({wiring.nodes[node].name.rstrip("0123456789.-_") or wiring.nodes[node].kind for node in nodes})
        text = f"{len(nodes)} {'/'.join(names)}"[:24]
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.8}
        ax.text(-1.2, place[nodes[0], 1] + 0.1, text, fontsize=5, va="center", bbox=box, zorder=5)
