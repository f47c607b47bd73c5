# SPDX-License-Identifier: GPL-2.0-only
"""Result directories of made-up runs, for the tests of the plots and the report.

The numbers hang together (summary, flows, operations, links and matrices agree) and depend on the seed alone.
"""

from __future__ import annotations

import gzip
import json
import math
import random
from pathlib import Path
from typing import Any, Iterable, Sequence

SERVERS = 8
RATE = 100_000_000_000
FLOW_HEADER = (
    "flow_id,op_id,job,iteration,kind,src_server,dst_server,bytes,start_ps,end_ps,fct_ps,ideal_ps,slowdown,hops,"
    "retransmits,status,fct_ack_ps,src_nic"
)
OP_HEADER = "op_id,job,iteration,kind,name,group,ranks,bytes,start_ps,end_ps,duration_ps,status,extra"
LINK_HEADER = "link_id,src,dst,rate_bps,bytes,packets,drops,marks,busy_ps,max_queue_bytes,utilisation"
FABRICS = {"topoopt": 1.3, "fat-tree": 2.6, "ideal-switch": 1.15}


def write_csv(path: Path, header: str, rows: Iterable[Sequence[Any]], compress: bool = False) -> None:
    text = "# format=1\n# seed=1\n" + header + "\n"
    text += "".join(",".join("" if cell is None else str(cell) for cell in row) + "\n" for row in rows)
    if compress:
        path.with_suffix(".csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    else:
        path.write_text(text, encoding="utf-8")


def wiring(fabric: str, servers: int) -> tuple[list[dict], list[dict]]:
    """Nodes and directed links: circulant rings and two MP cables for topoopt, a star for the rest."""
    nodes = [{"name": f"s{i}", "kind": "server"} for i in range(servers)]
    pairs: list[tuple[int, int, int | None, bool]] = []
    if fabric.startswith("topoopt"):
        for ring, stride in enumerate((1, 3)):
            pairs += [(i, (i + stride) % servers, ring, False) for i in range(servers)]
        pairs += [(0, servers // 2, None, True), (1, servers // 2 + 1, None, True)]
    else:
        nodes.append({"name": "core0", "kind": "switch"})
        pairs += [(i, servers, None, False) for i in range(servers)]
    links = []
    for src, dst, ring, mp in pairs:
        for a, b in ((src, dst), (dst, src)):
            links.append(
                {
                    "id": len(links),
                    "src": a,
                    "dst": b,
                    "rate_bps": RATE if dst < servers else 4 * RATE,
                    "ring": ring,
                    "mp": mp,
                }
            )
    return nodes, links


def make_run(
    directory: Path,
    fabric: str,
    flows: int,
    seed: int,
    unfinished: int = 0,
    servers: int = SERVERS,
    iterations: int = 2,
    compress: bool = False,
    flow_table: bool = True,
    few_sizes: bool = False,
) -> dict[str, Any]:
    """One fabric's files; returns its entry of summary.json."""
    chance = random.Random(f"{seed}/{fabric}")
    stretch = next((factor for name, factor in FABRICS.items() if fabric.startswith(name)), 1.8)
    path = directory / fabric
    path.mkdir(parents=True)
    rows: list[list[Any]] = []
    demand = [[0] * servers for _ in range(servers)]
    ends: list[list[int]] = [[] for _ in range(iterations)]
    period = 20_000_000_000
    for flow in range(flows):
        kind = "allreduce" if flow % 3 else "alltoall"
        src = chance.randrange(servers)
        dst = (src + 1) % servers if kind == "allreduce" else (src + 1 + chance.randrange(servers - 1)) % servers
        size = chance.choice((448, 451136, 907840)) if few_sizes else int(10 ** chance.uniform(2, 7))
        demand[src][dst] += size
        iteration = flow * iterations // max(flows, 1)
        hops = 1 if fabric.startswith("topoopt") and kind == "allreduce" else 2
        ideal = hops * 1_500_000 + size * 8 * 1_000_000_000_000 // RATE
        slowdown = 1 + chance.expovariate(1) * (stretch - 1) * (1 + size / 2e6)
        start = iteration * period + int(chance.uniform(0, 1e9))
        fct = int(ideal * slowdown)
        done = flow < flows - unfinished
        row: list[Any] = [flow, flow % 12, "dlrm", iteration, kind, src, dst, size, start]
        row += [start + fct, fct, ideal, f"{fct / ideal:.9f}"] if done else [None, None, ideal, None]
        row += [hops, 0 if done else 3, "done" if done else "unfinished", fct + 1_500_000 if done else None, flow % 4]
        rows.append(row)
        if done:
            ends[iteration].append(start + fct)
    if flow_table:
        write_csv(path / "flows.csv", FLOW_HEADER, rows, compress)
    ops = []
    for op in range(12 * iterations if flows else 0):
        iteration, place = divmod(op, 12)
        kind = "AllReduce" if place % 3 else "AllToAll"
        size = (451136, 1576964, 907840)[place % 3]
        start = iteration * period + place * 400_000_000
        duration = int(size * 8 * 10 * stretch * (1 + chance.random()))
        done = not (unfinished and op == 12 * iterations - 1)
        ops.append([op, "dlrm", iteration, kind, f"{kind.lower()}:{place}", "all", servers, size, start])
        ops[-1] += [start + duration, duration, "done", 0] if done else [None, None, "unfinished", 0]
    write_csv(path / "ops.csv", OP_HEADER, ops)
    tasks = []
    for rank in range(servers if flows else 0):
        for op in ops:
            begin = op[8] - chance.randrange(100_000_000, 300_000_000)
            tasks.append([rank, f"c{op[0]}", "compute", "embedding" if op[0] % 2 else "mlp", max(begin, 0), op[8]])
            if op[9] is not None:
                tasks.append([rank, f"o{op[0]}", op[3], op[4], op[8], op[9] - chance.randrange(20_000_000)])
    write_csv(path / "tasks.csv", "rank,task,kind,name,start_ps,end_ps", tasks)
    nodes, links = wiring(fabric, servers)
    makespan = max((end for part in ends for end in part), default=0)
    link_rows = []
    wire = 0
    for link in links:
        load = chance.uniform(0.05, 0.9) if flows else 0
        size = int(load * makespan * RATE / 8e12)
        wire += size
        busy = size * 80
        link_rows.append([link["id"], nodes[link["src"]]["name"], nodes[link["dst"]]["name"], link["rate_bps"], size])
        link_rows[-1] += [math.ceil(size / 9000), 0, 0, busy, 40000, f"{busy / makespan if makespan else 0:.6f}"]
    write_csv(path / "links.csv", LINK_HEADER, link_rows)
    bins = 40
    samples = []
    for link in links if flows else []:
        for i in range(bins):
            wave = 0.5 + 0.5 * math.sin(i / 5 + link["id"])
            samples.append([link["id"], makespan * (i + 1) // bins, f"{wave * chance.random():.6f}"])
    write_csv(path / "link_samples.csv", "link_id,t_ps,utilisation", samples)
    carried = [[0] * servers for _ in range(servers)]
    for link, row in zip(links, link_rows):
        if link["src"] < servers and link["dst"] < servers:
            carried[link["src"]][link["dst"]] += row[4]
    for name, matrix in (("demand", demand), ("link", carried)):
        text = "# format=1\n# unit=bytes\n" + "".join(",".join(map(str, row)) + "\n" for row in matrix)
        (path / f"matrix_{name}.csv").write_text(text, encoding="utf-8")
    topology = {"servers": servers, "nodes": nodes, "links": links}
    (path / "topology.json").write_text(json.dumps(topology) + "\n", encoding="utf-8")
    total = sum(map(sum, demand))
    return {
        "fabric": fabric,
        "fidelity": "packet",
        "iteration_time_ps": [max(part) - i * period for i, part in enumerate(ends) if part],
        "flows": flows,
        "unfinished": unfinished,
        "demand_bytes": total,
        "wire_bytes": wire,
        "bandwidth_tax": wire / total if total else 1,
        "packet_hops": wire // 4500,
        "events": wire // 4000,
        "setup_s": 0.1,
        "run_s": 1.5,
        "peak_rss_bytes": 50_000_000,
        "cost_usd": 12345.0 * stretch,
        "fingerprint": f"{chance.getrandbits(64):016x}",
    }


def make_results(
    directory: Path, fabrics: Sequence[str] = tuple(FABRICS), flows: int = 3000, seed: int = 1, **options: Any
) -> Path:
    """A whole result directory; options go to make_run, `unfinished` to the second fabric only."""
    unfinished = options.pop("unfinished", 0)
    directory.mkdir(parents=True)
    runs = [
        make_run(directory, fabric, flows, seed, unfinished=unfinished if i == 1 else 0, **options)
        for i, fabric in enumerate(fabrics)
    ]
    summary = {"scenario": "synthetic", "seed": seed, "runs": runs}
    (directory / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    (directory / "manifest.yaml").write_text(f"version: 1\nname: synthetic\nseed: {seed}\n", encoding="utf-8")
    return directory
