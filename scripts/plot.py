#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Draws result directories: PDF and PNG pictures, a CSV behind each, and an HTML report.

    scripts/plot.py DIR... [-o OUT] [--html]

Exit status 2 and one line on standard error when the results cannot be read or OUT cannot be written.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

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
        runs = read_results(options.directories, labels)
        names = draw(runs, out, options)
    except ResultError as error:
        return fail(str(error))
    except OSError as error:
        return fail(f"{error.filename or out}: cannot be written: {error.strerror}")
    if not options.quiet:
        print(f"{out}: {' '.join(names)}")
    return 0


def draw(runs: list, out: Path, options: argparse.Namespace) -> list[str]:
    """All the pictures that were asked for; their file names."""
    from topoopt_results import ResultError

    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ResultError(
            "matplotlib is missing for this Python; install python3-matplotlib and use /usr/bin/python3"
        ) from None
    from figures import completion, flows, style

    pictures = {
        "fct_cdf": flows.fct_cdf,
        "slowdown_by_size": flows.slowdown_by_size,
        "tail_table": flows.tail_table,
        "completion": completion.completion,
    }
    wanted = [name for name in options.only.split(",") if name] or list(pictures)
    for name in wanted:
        if name not in pictures:
            raise ResultError(f"--only: found '{name}', expected one of {', '.join(pictures)}")
    out.mkdir(parents=True, exist_ok=True)
    style.setup()
    styles = style.looks(runs)
    writer = style.Writer(out, [])
    for name in wanted:
        pictures[name](runs, styles, writer)
    return writer.names


def fail(message: str) -> int:
    print(f"plot: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
