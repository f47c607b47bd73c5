#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Flow completion times of a run beside another simulator's for the same flows:

    scripts/compare-fct.py RESULTS/FABRIC/flows.csv THEIRS

THEIRS holds lines `FCT src dst bytes fct_ms start_ms` among others (Opera's and htsim's output). Flows are matched by
source, destination and size, repeats in order of start. Prints percentiles by size (nearest rank) in ms, over the flows that
both sides finished, and how many only one of them did."""
import collections
import csv
import gzip
import sys

CLASSES = [(0, 10**4, "< 10 kB"), (10**4, 10**5, "10-100 kB"), (10**5, 10**6, "100 kB-1 MB"),
           (10**6, 10**7, "1-10 MB"), (10**7, 10**18, "> 10 MB"), (0, 10**18, "all")]


def ours(path):
    """(src, dst, bytes) -> FCTs in ms in order of start; None = unfinished."""
    found = collections.defaultdict(list)
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            key = (int(row["src_rank"]), int(row["dst_rank"]), int(row["bytes"]))
            found[key].append((int(row["start_ps"]), int(row["fct_ps"]) / 1e9 if row["status"] == "done" else None))
    return found


def theirs(path):
    found = collections.defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if len(words) >= 6 and words[0] == "FCT":
                found[int(words[1]), int(words[2]), int(words[3])].append((float(words[5]), float(words[4])))
    return found


def percentile(values, share):
    return values[max(0, -(-len(values) * share // 100) - 1)]


def main():
    if len(sys.argv) != 3:
        sys.exit("Usage: " + __doc__.split("\n\n")[1].strip())
    one, two = ours(sys.argv[1]), theirs(sys.argv[2])
    both, ours_only, theirs_only = [], 0, 0
    for key in set(one) | set(two):
        a, b = sorted(one.get(key, []), key=lambda f: f[0]), sorted(two.get(key, []))
        for k in range(max(len(a), len(b))):
            mine = a[k][1] if k < len(a) else None
            other = b[k][1] if k < len(b) else None
            if mine is not None and other is not None:
                both.append((key[2], mine, other))
            else:
                ours_only += mine is not None
                theirs_only += other is not None
    print(f"{len(both)} flows finished on both sides, {ours_only} only here, {theirs_only} only there; FCT in ms\n")
    print(f"{'size':12} {'n':>6}" + "".join(f"{who + ' p' + str(p):>14}" for p in (50, 99) for who in ("here", "there")) +
          f"{'here max':>14}{'there max':>14}{'p50 ratio':>12}")
    for low, high, name in CLASSES:
        rows = [row for row in both if low <= row[0] < high]
        if rows:
            mine, other = sorted(row[1] for row in rows), sorted(row[2] for row in rows)
            cells = [values for p in (50, 99) for values in (percentile(mine, p), percentile(other, p))]
            cells += [mine[-1], other[-1]]
            ratio = percentile(sorted(row[2] / row[1] for row in rows), 50)
            print(f"{name:12} {len(rows):6}" + "".join(f"{cell:14.4f}" for cell in cells) + f"{ratio:12.2f}")


main()
