#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Writes traces/dlrm-8gpu: one DLRM training iteration on 8 GPUs, PARAM "basic" dialect.

The figures are those published for Meta's DLRM sample (see traces/dlrm-8gpu/README.md): per rank four all_to_allv,
one all_to_all, three AllReduces and five waits, with their sizes and request numbers. The files are built from these
figures; no byte comes from the published files.
"""

import argparse
import json
import pathlib

RANKS = 8
# Elements that every rank sends to ranks 0..7.
POOLED_EMBEDDINGS = [768] * RANKS  # float: forward, and again backward as gradients
LENGTHS = [48] * RANKS  # int: look-ups per sample and table
INDICES = [96, 224, 288, 1664, 592, 96, 192, 240]  # int: the look-ups, by the rank that owns the table
COUNTS = 24  # long, all_to_all: 3 to each rank
# Bytes per pair over the five operations together, as published; the check below ties the two.
PUBLISHED_ROW = [6744, 7256, 7512, 13016, 8728, 6744, 7128, 7320]
PUBLISHED_OFF_DIAGONAL = 451136
# Floats: the top MLP, the last layer of the bottom MLP, the rest of it.
PUBLISHED_ALL_REDUCES = [1576964, 448, 907840]


def all_to_allv(req, send, receive, dtype):
    return {
        "comms": "all_to_allv",
        "req": req,
        "pg_id": 0,
        "world_size": RANKS,
        "in_msg_size": sum(send),
        "out_msg_size": sum(receive),
        "dtype": dtype,
        "in_split": send,
        "out_split": receive,
    }


def all_reduce(req, size):
    return {
        "comms": "all_reduce",
        "req": req,
        "pg_id": 0,
        "world_size": RANKS,
        "in_msg_size": size // 4,
        "out_msg_size": size // 4,
        "dtype": "float",
    }


def wait(req):
    return {"comms": "wait", "req": req, "pg_id": 0, "world_size": RANKS}


def steps(rank):
    """What one rank does, in program order. Waits 141 and 142 belong to the iteration before."""
    return [
        {"comms": "init", "pg_id": 0, "world_size": RANKS, "global_ranks": list(range(RANKS))},
        wait(141),
        wait(142),
        all_to_allv(147, POOLED_EMBEDDINGS, POOLED_EMBEDDINGS, "float"),
        wait(147),
        {
            "comms": "all_to_all",
            "req": 148,
            "pg_id": 0,
            "world_size": RANKS,
            "in_msg_size": COUNTS,
            "out_msg_size": COUNTS,
            "dtype": "long",
        },
        wait(148),
        all_to_allv(149, LENGTHS, LENGTHS, "int"),
        all_to_allv(150, INDICES, [INDICES[rank]] * RANKS, "int"),
        all_reduce(151, PUBLISHED_ALL_REDUCES[0]),
        all_to_allv(152, POOLED_EMBEDDINGS, POOLED_EMBEDDINGS, "float"),
        all_reduce(153, PUBLISHED_ALL_REDUCES[1]),
        wait(152),
        all_reduce(154, PUBLISHED_ALL_REDUCES[2]),
    ]


def check():
    row = [4 * (2 * POOLED_EMBEDDINGS[d] + LENGTHS[d] + INDICES[d]) + 8 * COUNTS // RANKS for d in range(RANKS)]
    if row != PUBLISHED_ROW or sum(row) * RANKS - sum(row) != PUBLISHED_OFF_DIAGONAL:
        raise SystemExit(f"make-dlrm-trace: row {row} does not add up to the published {PUBLISHED_ROW}")


def main():
    default = pathlib.Path(__file__).resolve().parent.parent / "traces" / "dlrm-8gpu"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=pathlib.Path, default=default, help="directory to write into")
    args = parser.parse_args()
    check()
    args.output.mkdir(parents=True, exist_ok=True)
    for rank in range(RANKS):
        lines = ",\n".join(" " + json.dumps(step) for step in steps(rank))
        (args.output / f"rank-{rank}.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
