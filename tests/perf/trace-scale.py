#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Generates execution traces of 1 GB and measures what `topoopt inspect` takes for them:

    tests/perf/trace-scale.py [KIND...] [--size MB] [--keep DIR] [--program build/release/topoopt]

Kinds: et (PyTorch execution trace, one record in 200 a collective), linked (the same with GPU kernels and their
times), chakra (converted by PyTorch's tools: host records around a tenth of GPU nodes). Exit code 1 if one takes more
than 60 s of CPU time or 300 MB (the limits scale with --size), or is read wrongly. On an idle machine CPU time is the
time that passes; both are printed."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(1, os.path.join(SOURCE, "scripts"))
import chakra_files as chakra

SECONDS_PER_GB = 60
MEGABYTES_PER_GB = 300
GROUPS = json.dumps([{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "ranks": [],
                      "group_size": 1, "group_count": 1}])


def et_node(number, name, inputs, attrs=(), more=""):
    return json.dumps({
        "id": number, "name": name, "ctrl_deps": max(1, number - 1),
        "inputs": {"values": inputs, "shapes": [[1024, 1024]] * 2, "types": ["Tensor(float)"] * 2},
        "outputs": {"values": [[[7, 8, 0, 1048576, 4, "cuda:0"]]], "shapes": [[1024, 1024]], "types": ["Tensor(float)"]},
        "attrs": [{"name": key, "type": kind, "value": value} for key, kind, value in
                  [("rf_id", "uint64", number), ("fw_parent", "uint64", 0), ("seq_id", "int64", -1),
                   ("scope", "uint64", 7), ("tid", "uint64", 1), ("fw_tid", "uint64", 0),
                   ("op_schema", "string", "aten::addmm(Tensor self, Tensor mat1, Tensor mat2) -> Tensor"),
                   ("kernel_backend", "string", ""), ("kernel_file", "string", ""), *attrs]]})[:-1] + more + "}"


def write_et(path, size, linked):
    """Blocks of 200 records whose numbers are filled in. @return (records, collectives, kernel microseconds)"""
    tensor = [[1, 2, 0, 262144, 4, "cuda:0"]]
    times = ', "ts": %d, "dur": 3, "cat": "%s", "ph": "X", "args": {"External id": 1, "stream": 7}'
    pieces = []
    kernels = 0
    for i in range(200):
        number = 10**15 + i  # a mark to be replaced, as wide as any number that comes
        if i == 100:
            more = times % (i, "cpu_op") if linked else ""
            pieces.append(et_node(number, "record_param_comms",
                                  [tensor, [number, False], ["0", "default_pg"], 0, "allreduce", [], [], 0, 1, 1],
                                  [("collective_name", "string", "allreduce"), ("dtype", "string", "Float"),
                                   ("in_msg_nelems", "uint64", 262144), ("out_msg_nelems", "uint64", 262144),
                                   ("pg_name", "string", "0"), ("pg_size", "uint64", 1)], more))
        elif linked and i % 5 == 0:
            kernels += 1
            pieces.append(et_node(number, "ampere_sgemm_128x64_tn", [], (), times % (i, "kernel")))
        else:
            pieces.append(et_node(number, "aten::addmm", [tensor, tensor, 1.0], (),
                                  times % (i, "cpu_op") if linked else ""))
    block = ",\n".join(pieces)
    head = ('{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "time": "", "start_ts": 0, "nodes": [\n' +
            et_node(2, "## process_group:init ##", [GROUPS]))
    blocks = size // (len(block) + 2)
    with open(path, "w", encoding="utf-8") as file:
        file.write(head)
        for b in range(blocks):
            # The marks share their first digits, so that one replacement numbers a block.
            file.write(",\n" + block.replace("1000000000000", str(10**12 + b)))
        file.write('\n], "finish_ts": 1}\n')
    return 200 * blocks + 1, blocks, 3 * kernels * blocks


def write_chakra(path, size):
    """@return (records, collectives, microseconds of GPU nodes)"""
    shapes = chakra.field(2, "[[1024, 1024], [1024, 1024]]") + chakra.field(3, "['Tensor(float)', 'Tensor(float)']")
    values = chakra.field(1, "[[7, 8, 0, 1048576, 4, 'cuda:0'], [9, 10, 0, 1048576, 4, 'cuda:0']]") + shapes
    schema = "aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"

    def text(key, value):
        return chakra.field(10, chakra.field(1, key) + chakra.field(29, value))

    def number(key, value):
        return chakra.field(10, chakra.field(1, key) + chakra.field(9, value))

    def flag(key, value):
        return chakra.field(10, chakra.field(1, key) + chakra.field(27, value))

    def tail(host):
        return (chakra.field(8, values) + chakra.field(9, values) + number("rf_id", 12345) + number("fw_parent", 0) +
                number("seq_id", 77) + number("scope", 7) + number("tid", 1) + number("fw_tid", 0) +
                text("op_schema", schema) + flag("is_cpu_op", host))

    host, device = tail(1), tail(0)
    collective = device + number("comm_type", 0) + number("comm_size", 1048576) + text("pg_name", "0")
    written = nodes = collectives = micros = 0
    gpu = 0
    with open(path, "wb", buffering=1 << 20) as file:
        file.write(chakra.METADATA)
        while written < size:
            nodes += 1
            kind, name, end = chakra.COMP, "aten::addmm", host
            deps = [nodes - 1] if nodes > 1 else []
            if nodes % 10 == 0:
                deps += [gpu] if gpu else []
                gpu = nodes
                name, end = "ampere_sgemm_128x64_tn", device
                if nodes % 200 == 0:
                    kind, name, end = chakra.COLL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", collective
                    collectives += 1
                else:
                    micros += 3
            message = (chakra.field(1, nodes) + chakra.field(2, name) + chakra.field(3, kind) +
                       chakra.field(4, nodes - 1 if nodes > 1 else nodes) +
                       (chakra.field(5, b"".join(map(chakra.varint, deps))) if deps else b"") +
                       chakra.field(7, 3) + end)
            written += file.write(chakra.record(message))
    return nodes, collectives, micros


def measure(program, path):
    """Seconds, peak MB and what it printed."""
    before = time.monotonic()
    with tempfile.TemporaryFile() as out:
        run = subprocess.Popen([program, "inspect", "--json", path], stdout=out)
        _, status, usage = os.wait4(run.pid, 0)
        run.returncode = status
        seconds = time.monotonic() - before
        out.seek(0)
        shown = json.load(out) if status == 0 else None
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, shown


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=[], metavar="KIND")
    parser.add_argument("--size", type=int, default=1000, help="MB")
    parser.add_argument("--keep", metavar="DIR", help="where the traces are left")
    parser.add_argument("--program", default=os.path.join(SOURCE, "build", "release", "topoopt"))
    args = parser.parse_args()
    kinds = args.kinds or ["et", "linked", "chakra"]
    good = True
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or scratch
        for kind in kinds:
            if kind not in ("et", "linked", "chakra"):
                parser.error(f"found {kind}, expected et, linked or chakra")
            where = os.path.join(folder, kind)
            os.makedirs(where, exist_ok=True)
            path = os.path.join(where, "x.0.et" if kind == "chakra" else "rank-0.json")
            size = args.size * 10**6
            nodes, collectives, micros = (write_chakra(path, size) if kind == "chakra" else
                                          write_et(path, size, kind == "linked"))
            seconds, cpu, megabytes, shown = measure(args.program, path)
            scale = os.path.getsize(path) / 1e9
            right = shown is not None and (
                shown["facts"]["nodes"], sum(c["calls"] for c in shown["collectives"]),
                shown["per_rank"][0]["compute_time_ps"]) == (nodes, collectives, micros * 10**6)
            ok = right and cpu <= SECONDS_PER_GB * max(scale, 0.1) and megabytes <= MEGABYTES_PER_GB * max(scale, 0.2)
            good = good and ok
            print(f"{kind}: {scale:.2f} GB, {nodes} records, {collectives} collectives: {seconds:.1f} s "
                  f"({cpu:.1f} s of CPU), {megabytes:.0f} MB{'' if right else ', WRONG'}"
                  f"{'' if ok else ', over the limit'}", flush=True)
            if not args.keep:
                os.remove(path)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
