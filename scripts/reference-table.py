#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""The released simulator's task graphs through the program: its rules (`compat: flexnet`), and the default engine.

GRAPHS is a directory with the task graphs (transformer_d4.fbuf, ...). Prints a reStructuredText table for
contrib/topoopt/doc/flexnet-compat.rst: the reference's time of the last task, ours under compat, and how far real
headers, acknowledgements and a real handling of losses move it. Exit code 1 if a row under compat is not equal.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

SOURCE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..")
STAR = ("ideal-switch", "star")
TREE = ("fat-tree", "Fat-tree")
FILE = ("from-file", "file")
# Graph, fabric, Gb/s per NIC, servers, NICs, time of the last task in the reference [ps].
ROWS = [
    ("ring12_d4", FILE, 25, 12, 4, 216909837702),
    ("ring12_d4", FILE, 50, 12, 4, 188013715142),
    ("ring12_d4", FILE, 100, 12, 4, 185543802982),
    ("transformer_d4", FILE, 100, 16, 4, 62815131375),
    ("transformer_d8", FILE, 100, 16, 8, 62643560175),
    ("vgg_d4", FILE, 100, 16, 4, 100480326542),
    ("vgg_d8", FILE, 100, 16, 8, 100480326542),
    ("dlrm_d4", FILE, 100, 16, 4, 21801435997),
    ("dlrm_d8", FILE, 100, 16, 8, 15400924696),
    ("candle_dp_d4", FILE, 100, 16, 4, 217122040886),
    ("dlrm128_d4", FILE, 100, 128, 4, 79809105884),
    ("dlrm128_d8", FILE, 100, 128, 8, 44561442499),
    ("100dlrm_16", STAR, 100, 16, 1, 61166911877),
    ("100transformer_16", STAR, 100, 16, 1, 63968900175),
    ("100vgg_16", STAR, 100, 16, 1, 210403519839),
    ("25dlrm_128", STAR, 100, 128, 1, 221764309018),
    ("25dlrm_128", STAR, 400, 128, 1, 64017290280),
    ("100dlrm_16", TREE, 100, 16, 1, 61243775878),
    ("100transformer_16", TREE, 100, 16, 1, 64739791791),
    ("100vgg_16", TREE, 100, 16, 1, 210772724959),
]


def run(topoopt, graph, row, compat, directory):
    """The end of the last task [ps] and the wall time of the run [s]."""
    _, (fabric, _), rate, servers, nics, _ = row
    command = [topoopt, "run", os.path.join(SOURCE, "scenarios", "reference.yaml"), "--quiet", "-o", directory]
    for setting in (f"workload.taskgraph={graph}", f"servers.rate={rate}Gbps", f"servers.count={servers}",
                    f"servers.nics={nics}", f"fabrics=[{fabric}]", f"engine.compat={compat}", "results.flows=none"):
        command += ["--set", setting]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    with open(os.path.join(directory, "summary.json"), encoding="utf-8") as file:
        summary = json.load(file)["runs"][0]
    return summary["iteration_time_ps"][-1], summary["run_s"]


def find(directory, name):
    """The file of a graph, plain or gzipped; None if it is not there."""
    for suffix in (".fbuf", ".fbuf.gz"):
        path = os.path.join(directory, name + suffix)
        if os.path.exists(path):
            return os.path.realpath(path)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", metavar="GRAPHS")
    parser.add_argument("--topoopt", default=os.path.join(SOURCE, "build", "release", "topoopt"))
    parser.add_argument("--only", metavar="TEXT", default="", help="graphs whose name contains this")
    arguments = parser.parse_args()
    form = "{:18s} {:18s} {:>13s} {:>13s} {:>6s} {:>13s} {:>7s} {:>6s}"
    rule = form.replace(":>", ":=>").replace(":1", ":=<1").format(*[""] * 8)
    print(rule)
    print(form.format("graph", "fabric", "reference", "compat", "wall", "default", "moves", "wall"))
    print(rule)
    unequal = False
    with tempfile.TemporaryDirectory() as scratch:
        for row in ROWS:
            name, (_, fabric), rate, _, _, reference = row
            graph = find(arguments.graphs, name)
            if graph is None or arguments.only not in name:
                continue
            compat, wall = run(arguments.topoopt, graph, row, "flexnet", scratch)
            default, default_wall = run(arguments.topoopt, graph, row, "none", scratch)
            print(form.format(name, f"{fabric}, {rate} Gb/s", str(reference), str(compat), f"{wall:.1f} s", str(default),
                              f"{100 * (default / reference - 1):+.1f} %", f"{default_wall:.1f} s"), flush=True)
            unequal = unequal or compat != reference
    print(rule)
    return 1 if unequal else 0


if __name__ == "__main__":
    sys.exit(main())
