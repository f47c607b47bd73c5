#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Draws result directories: PDF and PNG pictures, a CSV behind each, and an HTML report.

    scripts/plot.py DIR... [-o OUT] [--html]

A DIR that holds sweep.csv in place of summary.json is drawn as a sweep.

Exit status 2 and one line on standard error when the results cannot be read or OUT cannot be written.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Callable

sys.path.insert(0, str(Path(__file__).resolve().parent))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="plot", description=__doc__.splitlines()[0])
    parser.add_argument(
        "directories", metavar="DIR", nargs="+", type=Path, help="result directory, as `topoopt run` writes it"
    )
    parser.add_argument(
        "-o", "--output", metavar="OUT", type=Path, help="where to write (default: plots in the first DIR)"
    )
    parser.add_argument("--labels", metavar="A,B", default="", help="names of the directories in legends")
    parser.add_argument("--only", metavar="NAME,NAME", default="", help="only these pictures")
    parser.add_argument("--window", metavar="FROM:TO", default="", help="part of the timeline, such as 1.5ms:3ms")
    parser.add_argument("--x", metavar="COLUMN", default="", help="sweeps: the parameter along the axis")
    parser.add_argument("--y", metavar="COLUMN", default="", help="sweeps: the measure (default: iteration time)")
    parser.add_argument("--html", action="store_true", help="also write report.html, one file that opens from disk")
    parser.add_argument("--quiet", action="store_true", help="do not list the files written")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    try:
        import numpy  # noqa: F401
    except ImportError:
        return fail("numpy is missing for this Python; install python3-numpy and use /usr/bin/python3")
    from topoopt_results import ResultError, read_results

    options = parse(arguments)
    labels = [label for label in options.labels.split(",") if label]
    out: Path = options.output or options.directories[0] / "plots"
    try:
        if is_sweep(options.directories):
            names = draw_sweep(out, options)
        else:
            names = draw(read_results(options.directories, labels), out, options)
    except ResultError as error:
        return fail(str(error))
    except OSError as error:
        return fail(f"{error.filename or out}: cannot be written: {error.strerror}")
    if not options.quiet:
        print(f"{out}: {' '.join(names)}")
    return 0


def is_sweep(directories: list[Path]) -> bool:
    from topoopt_results import ResultError

    sweeps = [d for d in directories if (d / "sweep.csv").exists() and not (d / "summary.json").exists()]
    if sweeps and len(directories) > 1:
        raise ResultError(f"{sweeps[0]}: a sweep is drawn alone, found {len(directories)} directories")
    return bool(sweeps)


def need_matplotlib() -> None:
    from topoopt_results import ResultError

    try:
        import matplotlib  # noqa: F401
    except ImportError:
        message = "matplotlib is missing for this Python; install python3-matplotlib and use /usr/bin/python3"
        raise ResultError(message) from None


def draw_sweep(out: Path, options: argparse.Namespace) -> list[str]:
    need_matplotlib()
    from figures import style, sweep

    data = sweep.read_sweep(options.directories[0] / "sweep.csv")
    out.mkdir(parents=True, exist_ok=True)
    style.setup()
    writer = style.Writer(out, [])
    sweep.sweep(data, writer, options.x, options.y)
    return writer.names


def pictures(window: tuple[float, float] | None = None) -> dict[str, Callable[..., None]]:
    """Every picture by name: a function of runs, their looks and a writer."""
    from figures import completion, flows, links, matrix, timeline, topology

    return {
        "fct_cdf": flows.fct_cdf,
        "slowdown_by_size": flows.slowdown_by_size,
        "tail_table": flows.tail_table,
        "completion": completion.completion,
        "iteration_times": completion.iteration_times,
        "collectives": completion.collectives,
        "timeline": partial(timeline.timeline, window=window),
        "link_utilisation": links.link_utilisation,
        "traffic_matrix": matrix.traffic_matrix,
        "ring_traffic": matrix.ring_traffic,
        "path_length": links.path_length,
        "pair_hops": topology.pair_hops,
        "link_load": links.link_load,
        "bandwidth_tax": links.bandwidth_tax,
        "topology": topology.topology,
    }


def draw(runs: list, out: Path, options: argparse.Namespace) -> list[str]:
    """All the pictures that were asked for; their file names."""
    from topoopt_results import ResultError

    need_matplotlib()
    from figures import style, timeline

    known = pictures(timeline.parse_window(options.window))
    wanted = [name for name in options.only.split(",") if name] or list(known)
    for name in wanted:
        if name not in known:
            raise ResultError(f"--only: found '{name}', expected one of {', '.join(known)}")
    out.mkdir(parents=True, exist_ok=True)
    style.setup()
    styles = style.looks(runs)
    writer = style.Writer(out, [])
    for name in wanted:
        known[name](runs, styles, writer)
    if options.html:
        from report import build

        warning = build.write_report(options.directories, runs, styles, out, writer.names)
        if warning:
            print(f"plot: {warning}", file=sys.stderr)
        writer.names.append("report.html")
    return writer.names


def fail(message: str) -> int:
    print(f"plot: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
