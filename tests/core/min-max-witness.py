#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Optimum of the minimum-congestion multicommodity flow by linear programming (HiGHS), as a witness for MinMaxRoutes.

Reads from standard input, any number of times: `NODES LINKS PAIRS`, then a line `src dst rate background` per link and
a line `src dst bytes` per pair; rates in bytes per second. Prints the least time of the busiest link per instance.
Exit code 77: scipy is not there.
"""
import sys

try:
    import numpy
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix
except ImportError:
    sys.exit(77)

words = iter(sys.stdin.read().split())
for first in words:
    nodes, links, pairs = int(first), int(next(words)), int(next(words))
    link = [(int(next(words)), int(next(words)), float(next(words)), float(next(words))) for _ in range(links)]
    # HiGHS' simplex takes a wrong corner for the optimum when numbers are in millions.
    unit = max(l[2] for l in link)
    link = [(a, b, rate / unit, background / unit) for a, b, rate, background in link]
    supply = {}
    for _ in range(pairs):
        src, dst, size = int(next(words)), int(next(words)), float(next(words)) / unit
        supply.setdefault(src, numpy.zeros(nodes))
        supply[src][dst] -= size
        supply[src][src] += size
    sources = sorted(supply)
    # Variables: bytes of source s on link e, then the time.
    time = len(sources) * links
    rows, columns, values, right = [], [], [], []
    for s, source in enumerate(sources):
        for e, (a, b, _, _) in enumerate(link):
            rows += [s * nodes + a, s * nodes + b]
            columns += [s * links + e] * 2
            values += [1, -1]
        right += list(supply[source])
    flow = coo_matrix((values, (rows, columns)), shape=(len(sources) * nodes, time + 1))
    rows, columns, values = [], [], []
    for e, (_, _, rate, _) in enumerate(link):
        for s in range(len(sources)):
            rows.append(e)
            columns.append(s * links + e)
            values.append(1)
        rows.append(e)
        columns.append(time)
        values.append(-rate)
    load = coo_matrix((values, (rows, columns)), shape=(links, time + 1))
    cost = numpy.zeros(time + 1)
    cost[time] = 1
    answer = linprog(cost, A_ub=load.tocsr(), b_ub=[-l[3] for l in link], A_eq=flow.tocsr(), b_eq=right, method="highs")
    if answer.status != 0:
        sys.exit(f"linprog: {answer.message}")
    print(f"{answer.fun:.12g}")
