#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Time of a run against its packet-hops, 16 to 1024 servers, trains off: does it grow linearly?

Runs the benchmark `Scaling` of topoopt-bench (an AllReduce over the four rings of a patch-panel fabric, messages of the
same size at every number of servers), or reads what `--benchmark_format=json` of it printed (--results FILE). Writes
scaling.png, scaling.pdf and scaling.csv to --out, and prints the exponent of the fitted power law. About a minute.
"""
import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

import numpy as np  # noqa: E402

from figures import style  # noqa: E402

BENCH = Path(__file__).resolve().parent.parent / "build/release/topoopt-bench"


def measure(bench: Path) -> dict:
    if not bench.exists():
        sys.exit(f"plot-scaling.py: {bench}: no such program; build it with\n  cmake --preset release "
                 "-DTOPOOPT_BENCHMARKS=ON && ninja -C build/release topoopt-bench")
    command = [bench, "--benchmark_filter=^Scaling", "--benchmark_format=json"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def rows_of(results: dict) -> list:
    """(servers, packet-hops, CPU seconds, empty events per packet-hop) of each size."""
    rows = []
    for entry in results["benchmarks"]:
        servers = re.search(r"^Scaling/servers:(\d+)", entry["name"])
        if servers:
            rows.append((int(servers[1]), entry["hops"], entry["hops"] / entry["hops/s"], entry["empty_events/hop"]))
    if len(rows) < 2:
        sys.exit("plot-scaling.py: found fewer than two results of Scaling, expected one per number of servers")
    return sorted(rows)


def draw(rows: list, out: Path) -> float:
    style.setup()
    servers, hops, seconds, cost = (np.array(column, dtype=float) for column in zip(*rows))
    slope, offset = np.polyfit(np.log(hops), np.log(seconds), 1)
    figure, (upper, lower) = style.new_figure(3.2, nrows=2, sharex=True, height_ratios=[2, 1])
    linear = seconds[0] * hops / hops[0]
    upper.loglog(hops, seconds, color=style.PALETTE[0], marker="o", label=f"measured, time ~ hops$^{{{slope:.2f}}}$")
    upper.loglog(hops, linear, color=style.PALETTE[2], dashes=(3, 2), linewidth=0.8, label="linear from 16 servers")
    for x, y, n in zip(hops, seconds, servers):
        upper.annotate(f"{n:.0f}", (x, y), textcoords="offset points", xytext=(0, 5), ha="center", fontsize=6)
    upper.set_ylabel("CPU time (s)")
    style.plain_log_axis(upper.yaxis)
    style.legend_above(upper)
    lower.semilogx(hops, cost, color=style.PALETTE[0], marker="o")
    lower.set_ylim(0, max(2.0, 1.15 * cost.max()))
    lower.set_xlabel("packet-hops; labels above: servers")
    lower.set_ylabel("empty events\nper packet-hop")
    style.plain_log_axis(lower.xaxis)
    out.mkdir(parents=True, exist_ok=True)
    writer = style.Writer(out, [])
    writer.picture("scaling", figure)
    writer.table("scaling", ["servers", "packet_hops", "cpu_s", "empty_events_per_hop"], rows)
    return float(slope)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=Path, default=BENCH, help="the benchmark (default: build/release/topoopt-bench)")
    parser.add_argument("--results", type=Path, help="JSON of an earlier run of it")
    parser.add_argument("-o", "--out", type=Path, default=Path("results/scaling"))
    options = parser.parse_args()
    results = json.loads(options.results.read_text()) if options.results else measure(options.bench)
    slope = draw(rows_of(results), options.out)
    print(f"time ~ packet-hops^{slope:.3f}; {options.out}/scaling.png")


if __name__ == "__main__":
    main()
