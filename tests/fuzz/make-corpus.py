#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Writes seeds for the fuzz targets: one directory per target, small files of our own making. Beside them, in whole/, the same
as files that the program can be given: what fuzz-cut cuts."""

import bz2
import gzip
import json
import pathlib
import shutil
import sys

sys.dont_write_bytecode = True
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
from chakra_files import KINDS, METADATA, collective, compute, field, node, record, recv, send, varint

NEXT_RANK = b"\xfe\xfd|\xfd\xfe"  # what follows is the file of the next rank
MODES = (0, 1, 2 + 4, 8 + 16, 32 + 1, 64, 128 + 1)  # the groups of options of fuzz-readers.cc


def attribute(name, kind, value):
    return field(10, field(1, name.encode()) + field(kind, value))


def chakra():
    groups = json.dumps([{"pg_name": "1", "ranks": [0, 1]}]).encode()
    head = record(field(1, b"0.0.4")) + record(
        field(1, 1) + field(2, b"## process_group:init ##") + field(3, 1) + field(8, field(1, b"['" + groups + b"']")))
    kernel = record(field(1, 2) + field(3, 4) + field(7, 9))
    yield head + kernel
    for kind in range(10):
        yield head + kernel + record(field(1, 3) + field(3, 7) + field(5, varint(2)) + attribute("comm_type", 9, kind)
                                      + attribute("comm_size", 13, 100) + attribute("pg_name", 29, b"1"))
    # Every type that an attribute can have, packed where it is repeated.
    for kind, value in ((3, b"\0" * 8), (4, varint(1) * 2), (6, varint(5)), (8, varint(7)), (10, varint(9)), (16, varint(2)),
                        (17, b"\0" * 4), (27, 1), (28, varint(1)), (30, field(1, b"x")), (2, 5)):
        yield METADATA + record(field(1, 3) + field(3, 7) + attribute("comm_type", 9, 0) + attribute("comm_size", 9, 8)
                                + attribute("other", kind, value))
    # Two ranks: compute, a collective of each kind, a message each way; then one that can never finish.
    pair = []
    for rank in (0, 1):
        text = METADATA + compute(0, 5, start=1)
        for number, kind in enumerate(KINDS, 1):
            text += collective(number, kind, 64, (number - 1,), start=10 * number, root=1)
        text += send(20, rank, 1 - rank, 100, (9,), tag=1) + recv(21, 1 - rank, rank, 100, (20,), tag=1)
        pair.append(text)
    yield pair[0] + NEXT_RANK + pair[1]
    yield NEXT_RANK.join(METADATA + recv(1, 1 - rank, rank, 8) + send(2, rank, 1 - rank, 8, (1,)) for rank in (0, 1))
    yield METADATA + compute(2, 3, (1,)) + compute(1, 4, (2,))
    yield METADATA + compute(3, 3, (2,)) + node(2, 1) + collective(9, "all_reduce", 8, (3,))
    yield head + record(field(1, 4) + field(3, 5) + attribute("comm_dst", 7, 0) + attribute("comm_size", 9, 5)) + record(
        field(1, 5) + field(3, 6) + attribute("comm_src", 7, 0) + attribute("comm_size", 9, 5) + field(5, 4))


def param():
    """PARAM basic: all that one rank does alone; two ranks in step; one dialect each."""
    yield [{"comms": "init", "pg_id": 0, "world_size": 2, "global_ranks": [0, 1]},
           {"comms": "all_to_allv", "req": 1, "in_msg_size": 4, "out_msg_size": 4, "dtype": "int", "in_split": [2, 2],
            "out_split": [2, 2], "startTime_ns": 5, "markers": ["iteration 1"]}, {"comms": "wait", "req": 1},
           {"comms": "broadcast", "root": 1, "in_msg_size": 4, "dtype": "half"}, {"compute": "gemm", "count": 2}]
    names = ["all_gather", "all_gather_v", "all_reduce", "all_to_all", "reduce", "reduce_scatter", "reduce_scatter_v", "gather",
             "scatter", "incast", "multicast", "barrier"]
    steps = [{"comms": name, "in_msg_size": 4, "out_msg_size": 4, "dtype": "float", "root": 0, "req": [n, False], "pg_id": 0,
              "marker_stack": [f"## step {n} ##"]} for n, name in enumerate(names)]
    yield steps + [{"comms": "wait", "req": [n, False], "pg_id": 0} for n in range(len(names))]
    yield tuple([{"comms": "isend" if way == rank else "irecv", "src_rank": way, "dst_rank": 1 - way, "in_msg_size": 8,
                  "out_msg_size": 8, "dtype": "long", "req": way, "use_batch": True} for way in (0, 1)]
                + [{"comms": "batch_isend_irecv"}, {"comms": "wait", "req": 0}, {"comms": "wait", "req": 1}] for rank in (0, 1))
    yield tuple([{"comms": "recv", "src_rank": 1 - rank, "in_msg_size": 8, "dtype": "bool"},
                 {"comms": "send", "dst_rank": 1 - rank, "in_msg_size": 8, "dtype": "bool"}] for rank in (0, 1))


def torch():
    """PyTorch execution traces, old and new layout, plain and linked."""
    record_ = {"id": 7, "name": "record_param_comms", "inputs": [[[1, 2, 0, 8, 4, "c"]], 5, 99, 0, "allreduce", [], []],
               "outputs": [[[1, 2, 0, 8, 4, "c"]]]}
    yield {"schema": "1.0.1", "nodes": [record_, {"id": 9, "name": "record_param_comms", "inputs": [5, 0, 0, "wait", [], []]}]}
    groups = json.dumps([{"pg_name": "0", "ranks": [], "group_size": 2}])
    yield {"schema": "1.1.1-chakra.0.0.4", "nodes": [
        {"id": 3, "name": "## process_group:init ##", "inputs": {"values": [groups]}},
        {"id": 8, "name": "record_param_comms", "attrs": [{"name": "dtype", "value": "Float"},
                                                         {"name": "in_msg_nelems", "value": 8}],
         "inputs": {"values": [[[1, 2, 0, 8, 4, "c"]], [1, False], ["0", "d"], 0, "broadcast", [], [], 0, 1, 2]},
         "outputs": {"values": []}}]}
    splits = [{"name": "collective_name", "type": "string", "value": "all_to_allv"}, {"name": "dtype", "value": "Int"},
              {"name": "in_msg_nelems", "value": 4}, {"name": "out_msg_nelems", "value": 4}, {"name": "in_split_size",
              "value": "[2, 2]"}, {"name": "out_split_size", "value": "[2, 2]"}, {"name": "group_size", "value": 2},
              {"name": "pg_name", "value": "0"}, {"name": "pg_desc", "value": "d"}, {"name": "rank", "value": 0}]
    yield {"schema": "1.1.0-chakra.0.0.4", "pid": 1, "time": "t", "start_ts": 5, "nodes": [
        {"id": 1, "name": "## process_group:init ##", "inputs": {"values": [groups]}},
        {"id": 2, "name": "op", "ctrl_deps": 1, "exclusive_dur": 3, "inclusive_dur": 4, "ts": 7,
         "inputs": {"values": [], "shapes": [], "types": []}, "outputs": {"values": []}, "attrs": []},
        {"id": 8, "name": "record_param_comms", "ctrl_deps": 2, "attrs": splits, "ts": 9,
         "inputs": {"values": [[[1, 2, 0, 4, 4, "c"]], [1, False], ["0", "d"], 0, "all_to_allv", [2, 2], [2, 2], 0, 1, 2]},
         "outputs": {"values": []}},
        {"id": 11, "name": "ncclDevKernel_AllToAll", "ctrl_deps": 8, "cat": "kernel", "ts": 10, "dur": 6, "attrs": [],
         "inputs": {"values": []}, "outputs": {"values": []}},
        {"id": 12, "name": "gemm", "ctrl_deps": 2, "cat": "kernel", "ts": 20, "dur": 6, "stream": 7, "data_deps": [11],
         "inputs": {"values": []}, "outputs": {"values": []}}]}


def kineto():
    args = {"Collective name": "allreduce", "In msg nelems": 8, "Out msg nelems": 8, "dtype": "Float", "Group size": 1,
            "Process Group Name": "0", "Process Group Ranks": "[0]", "In split size": "[]"}
    yield {"distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": [
        {"cat": "kernel", "name": "ncclKernel", "ts": 1.5, "dur": 2, "args": args}]}
    events = [{"cat": "kernel", "name": "ncclDevKernel", "ts": 100 * n, "dur": 20,
               "args": {"Collective name": name, "In msg nelems": 8, "Out msg nelems": 8, "dtype": "BFloat16", "Group size": 2,
                        "Process Group Name": "1", "Global rank start": 0, "Global rank stride": 1, "Root Rank": 0,
                        "In split size": "[4, 4]", "Out split size": "[4, 4]"}}
              for n, name in enumerate(("all_to_allv", "broadcast", "_allgather_base", "barrier", "wait"))]
    yield {"distributedInfo": {"rank": 0, "world_size": 2, "pg_config": [{"pg_name": "1", "ranks": [0, 1]}]},
           "traceEvents": events}
    yield tuple({"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": [
        {"cat": "cpu_op", "name": "record_param_comms", "ts": 5, "dur": 1,
         "args": {"Collective name": ("send", "recv")[rank], "In msg nelems": 8, "Out msg nelems": 8, "dtype": "Int",
                  "Group size": 2, "Process Group Name": "0", "Dst Rank": 1, "Src Rank": 0}}]} for rank in (0, 1))
    yield {"traceEvents": [{"cat": "kernel", "name": "ncclKernel_AllReduce", "ts": 1, "dur": 2, "args": {}}]}


def json_traces():
    """Every JSON format; a tuple has a trace for each rank."""
    yield from param()
    yield from torch()
    yield from kineto()
    yield {"workload_graph": [{"Id": 1, "Name": "a", "NodeType": 4, "runtime": 3},
                              {"Id": 2, "NodeType": 7, "data_deps": [1], "comm_type": 0, "comm_size": 64}]}
    yield tuple({"workload_graph": [
        {"Id": 1, "Name": "a", "NodeType": 5 + rank, "comm_src": 0, "comm_dst": 1, "comm_tag": 3, "comm_size": 5},
        {"Id": 2, "NodeType": 7, "data_deps": [1], "comm_type": 7, "comm_size": 64, "involved_dim": [True]}]}
                for rank in (0, 1))
    yield {"matrix": {"inner": [[1, 2], [3, 4]]}}


BESIDE = ['{"a": [0, 1], "b": [1]}', "1\n0\n", "# places\n0, 1"]
FLOWS = [
    "2\n0 1 3 100 10 1.5\n1 2 3 100 20 2\n",
    "1\n7 0 1 3 100 10 1.5\n",
    "Nodes 3\nConnections 2\nTriggers 1\n0->1 id 1 start 0 size 5 send_done_trigger 1\n1->2 id 2 trigger 1 size 6 prio 2\n"
    "trigger id 1 barrier count 1\n",
    "Nodes 3\nConnections 4\nTriggers 2\n0->1 start 0 size 5 send_done_trigger 1 recv_done_trigger 2\n1->2 trigger 1 size 6\n"
    "2->1 trigger 2 size 1\n2->0 trigger 2 size 3\ntrigger id 1 oneshot\ntrigger id 2 multishot\n",
    "0 1 100 5\n1 2 200 6\n",
    "2 1 200 6\n0 1 100 5\n",
]
TEXTS = [
    "0 0\n10 50\n20 100\n",
    "0,0\n10,0.5\n20,1\n",
    "FCT 0 1 100 0.5 0.1\nother line\nFCT 1 2 5 0.25 0\n",
    "5 2 1 1 5 H100\n3 4\n0 3 1Gbps 1us 0\n1 3 1Gbps 1us 0\n0 4 1Gbps 1us 0\n1 4 1Gbps 1us 0\n2 4 1Gbps 1us 0.1\n",
    "1\t2\ta\tb\tc\td\t6\te\tf\tr1\tr2\tp\tq\t0\t0\n",
    "3 1 2\n0\n1 0 1Gbps 1us 0\n2 0 1Gbps 1us 0\n",
    "Nodes 4\nTiers 2\nPodsize 4\nTier 0\nDownlink_speed_Gbps 1\nRadix_Down 2\nRadix_Up 2\nTier 1\n"
    "Downlink_speed_Gbps 1\nRadix_Down 2\n",
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: 1 all_gpus: 4\n1\n"
    "l -1 1 ALLREDUCE 8 1 ALLTOALL_EP 8 1 ALLGATHER_DP_EP 8 1\n",
    "MICRO\n2\na -1 1 ALLTOALL 8 1 REDUCESCATTER 8 1 ALLGATHER 8 1\nb -1 1 NONE 0 1 ALLREDUCE_TP 8 1 ALLREDUCE_DP 8 1 x\n",
    "DATA\n1\nl -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 8 1\n",
    "num_ranks 2\nrank 0 {\na: calc 5\nb: send 3b to 1 tag 1\nb requires a\n}\nrank 1 {\nrecv 3b from 0 tag 1\n}\n",
    "num_ranks 2\nrank 0 {\nl1: calc 5 cpu 1\nl2: recv 3b from 1\nl3: send 3b to 1\nl3 irequires l2\nl2 requires l1\n}\n"
    "rank 1 {\nl1: recv 3b from 0\nl2: send 3b to 0\nl2 requires l1\n}\n",
]


def main():
    out = pathlib.Path(sys.argv[1])
    texts = [NEXT_RANK.join(json.dumps(rank).encode() for rank in (trace if isinstance(trace, tuple) else (trace,)))
             for trace in json_traces()]
    flows = [text.encode() for text in FLOWS]
    others = [text.encode() for text in TEXTS]
    graph = (pathlib.Path(__file__).parents[2] / "traces" / "reference-small.fbuf").read_bytes()
    packed = [gzip.compress(texts[0], mtime=0), bz2.compress(flows[0]), gzip.compress(others[0], mtime=0) + b"\0" * 3,
              gzip.compress(flows[3][:7], mtime=0) + gzip.compress(flows[3][7:], mtime=0)]
    seeds = {"chakra": list(chakra()), "json": texts, "flows": flows, "text": others, "packed": packed, "fbuf": [graph],
             "beside": [text.encode() for text in BESIDE]}
    whole = out / "whole"
    shutil.rmtree(whole, ignore_errors=True)
    for name, contents in seeds.items():
        for number, content in enumerate(contents):
            if name == "beside":  # no traces of their own
                continue
            ranks = content.split(NEXT_RANK)
            # Some are for two ranks that do the same.
            for copies in (1, 2) if len(ranks) == 1 and name in ("chakra", "json", "packed") else (1,):
                folder = whole / f"{name}-{number}-{copies}"
                folder.mkdir(parents=True)
                for rank, text in enumerate(ranks * copies):
                    (folder / (f"rank-{rank}" + (".fbuf" if name == "fbuf" else ""))).write_bytes(text)
        folder = out / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for number, content in enumerate(contents):
            for mode in MODES if name != "fbuf" else ("",):
                (folder / f"{number}-{mode}").write_bytes((bytes([mode]) if mode != "" else b"") + content)


if __name__ == "__main__":
    main()
