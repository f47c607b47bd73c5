#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Writes seeds for the fuzz targets: one directory per target, small files of our own making."""

import bz2
import gzip
import json
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
from chakra_files import field, record, varint


def attribute(name, kind, value):
    return field(10, field(1, name.encode()) + field(kind, value))


def chakra():
    groups = json.dumps([{"pg_name": "1", "ranks": [0, 1]}]).encode()
    head = record(field(1, b"0.0.4")) + record(
        field(1, 1) + field(2, b"## process_group:init ##") + field(3, 1) + field(8, field(1, b"['" + groups + b"']")))
    compute = record(field(1, 2) + field(3, 4) + field(7, 9))
    yield head + compute
    for kind in range(10):
        yield head + compute + record(field(1, 3) + field(3, 7) + field(5, varint(2)) + attribute("comm_type", 9, kind)
                                      + attribute("comm_size", 13, 100) + attribute("pg_name", 29, b"1"))
    yield head + record(field(1, 4) + field(3, 5) + attribute("comm_dst", 7, 0) + attribute("comm_size", 9, 5)) + record(
        field(1, 5) + field(3, 6) + attribute("comm_src", 7, 0) + attribute("comm_size", 9, 5) + field(5, 4))


def json_traces():
    yield [{"comms": "init", "pg_id": 0, "world_size": 2, "global_ranks": [0, 1]},
           {"comms": "all_to_allv", "req": 1, "in_msg_size": 4, "out_msg_size": 4, "dtype": "int", "in_split": [2, 2],
            "out_split": [2, 2], "startTime_ns": 5, "markers": ["iteration 1"]}, {"comms": "wait", "req": 1},
           {"comms": "broadcast", "root": 1, "in_msg_size": 4, "dtype": "half"}, {"compute": "gemm", "count": 2}]
    node = {"id": 7, "name": "record_param_comms", "inputs": [[[1, 2, 0, 8, 4, "c"]], 5, 99, 0, "allreduce", [], []],
            "outputs": [[[1, 2, 0, 8, 4, "c"]]]}
    yield {"schema": "1.0.1", "nodes": [node, {"id": 9, "name": "record_param_comms", "inputs": [5, 0, 0, "wait", [], []]}]}
    groups = json.dumps([{"pg_name": "0", "ranks": [], "group_size": 2}])
    yield {"schema": "1.1.1-chakra.0.0.4", "nodes": [
        {"id": 3, "name": "## process_group:init ##", "inputs": {"values": [groups]}},
        {"id": 8, "name": "record_param_comms", "attrs": [{"name": "dtype", "value": "Float"},
                                                         {"name": "in_msg_nelems", "value": 8}],
         "inputs": {"values": [[[1, 2, 0, 8, 4, "c"]], [1, False], ["0", "d"], 0, "broadcast", [], [], 0, 1, 2]},
         "outputs": {"values": []}}]}
    args = {"Collective name": "allreduce", "In msg nelems": 8, "Out msg nelems": 8, "dtype": "Float", "Group size": 1,
            "Process Group Name": "0", "Process Group Ranks": "[0]", "In split size": "[]"}
    yield {"distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": [
        {"cat": "kernel", "name": "ncclKernel", "ts": 1.5, "dur": 2, "args": args}]}
    yield {"workload_graph": [{"Id": 1, "Name": "a", "NodeType": 4, "runtime": 3},
                              {"Id": 2, "NodeType": 7, "data_deps": [1], "comm_type": 0, "comm_size": 64}]}
    yield {"matrix": {"inner": [[1, 2], [3, 4]]}}


FLOWS = [
    "2\n0 1 3 100 10 1.5\n1 2 3 100 20 2\n",
    "1\n7 0 1 3 100 10 1.5\n",
    "Nodes 3\nConnections 2\nTriggers 1\n0->1 id 1 start 0 size 5 send_done_trigger 1\n1->2 id 2 trigger 1 size 6 prio 2\n"
    "trigger id 1 barrier count 1\n",
    "0 1 100 5\n1 2 200 6\n",
]
TEXTS = [
    "0 0\n10 50\n20 100\n",
    "0,0\n10,0.5\n20,1\n",
    "1\t2\ta\tb\tc\td\t6\te\tf\tr1\tr2\tp\tq\t0\t0\n",
    "3 1 2\n0\n1 0 1Gbps 1us 0\n2 0 1Gbps 1us 0\n",
    "Nodes 4\nTiers 2\nPodsize 4\nTier 0\nDownlink_speed_Gbps 1\nRadix_Down 2\nRadix_Up 2\nTier 1\n"
    "Downlink_speed_Gbps 1\nRadix_Down 2\n",
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: 1 all_gpus: 4\n1\n"
    "l -1 1 ALLREDUCE 8 1 ALLTOALL_EP 8 1 ALLGATHER_DP_EP 8 1\n",
    "DATA\n1\nl -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 8 1\n",
    "num_ranks 2\nrank 0 {\na: calc 5\nb: send 3b to 1 tag 1\nb requires a\n}\nrank 1 {\nrecv 3b from 0 tag 1\n}\n",
]


def main():
    out = pathlib.Path(sys.argv[1])
    texts = [json.dumps(trace).encode() for trace in json_traces()]
    flows = [text.encode() for text in FLOWS]
    others = [text.encode() for text in TEXTS]
    graph = (pathlib.Path(__file__).parents[2] / "traces" / "reference-small.fbuf").read_bytes()
    seeds = {"chakra": list(chakra()), "json": texts, "flows": flows, "text": others,
             "packed": [gzip.compress(texts[0], mtime=0), bz2.compress(flows[0])], "fbuf": [graph]}
    for name, contents in seeds.items():
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        for number, content in enumerate(contents):
            for mode in (0, 3) if name != "fbuf" else ("",):
                (folder / f"{number}-{mode}").write_bytes((bytes([mode]) if mode != "" else b"") + content)


if __name__ == "__main__":
    main()
