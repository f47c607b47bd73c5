#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Writes one training iteration of a transformer as a Chakra execution trace, one file per rank and comm_group.json:

    scripts/make-llm-trace.py OUT [--tp 8] [--dp 2] [--pp 4] [--layers 16] [--hidden 2048] ...

Tensor parallelism as in Megatron-LM (two AllReduces of the activations per layer forward and two backward), pipeline
stages in 1F1B order with a send and a receive per microbatch and boundary, data parallelism with one AllReduce of each
layer's gradients that overlaps with the rest of the backward pass. Rank = (stage * dp + replica) * tp + shard. Compute
times are FLOPs over --tflops; the model is for its pattern and sizes, not for its times."""
import argparse
import json
import os
import sys

sys.dont_write_bytecode = True
import chakra_files as chakra

BYTES = 2  # of an activation; gradients have 4


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    for name, value, what in [("tp", 8, "tensor-parallel ranks"), ("dp", 2, "data-parallel replicas"),
                              ("pp", 4, "pipeline stages"), ("layers", 16, "transformer layers"),
                              ("hidden", 2048, "hidden size"), ("sequence", 1024, "tokens of a sample"),
                              ("micro", 1, "samples of a microbatch"), ("microbatches", 8, "per iteration"),
                              ("tflops", 150, "of one rank, in use")]:
        parser.add_argument("--" + name, type=int, default=value, metavar="N", help=f"{what} ({value})")
    args = parser.parse_args()
    if min(value for key, value in vars(args).items() if key != "out") < 1:
        parser.error("found a number below 1")
    if args.layers % args.pp != 0:
        parser.error(f"found {args.layers} layers, expected a multiple of {args.pp} stages")
    return args


def sizes(args):
    """Bytes of the three kinds of communication, and us of a layer's forward pass."""
    activation = args.micro * args.sequence * args.hidden * BYTES
    gradient = 12 * args.hidden * args.hidden // args.tp * 4
    flops = 24 * args.micro * args.sequence * args.hidden ** 2 + 4 * args.micro * args.sequence ** 2 * args.hidden
    return {"tensor": activation, "pipeline": max(1, activation // args.tp), "gradient": gradient,
            "forward_us": max(1, round(flops / args.tp / (args.tflops * 1e6)))}


def one_f_one_b(stage, stages, microbatches):
    """The order in which a stage works on microbatches: ("F", 0), ("F", 1), ("B", 0), ..."""
    warm = min(stages - stage - 1, microbatches)
    order = [("F", m) for m in range(warm)]
    for m in range(microbatches - warm):
        order += [("F", warm + m), ("B", m)]
    return order + [("B", m) for m in range(microbatches - warm, microbatches)]


class Rank:
    """Nodes of one rank; `last` is the one that the next waits for."""

    def __init__(self, args, size, rank):
        self.args, self.size, self.rank = args, size, rank
        self.stage, rest = divmod(rank, args.dp * args.tp)
        self.replica, self.shard = divmod(rest, args.tp)
        self.records = [chakra.METADATA]
        self.number = 0
        self.last = []
        self.gradients = []

    def at(self, stage):
        """The rank in the same place of another stage."""
        return (stage * self.args.dp + self.replica) * self.args.tp + self.shard

    def add(self, make, *what, deps=None, **more):
        self.number += 1
        self.records.append(make(self.number, *what, deps=self.last if deps is None else deps, **more))
        return self.number

    def then(self, make, *what, **more):
        self.last = [self.add(make, *what, **more)]

    def tensor_reduce(self, name):
        if self.args.tp > 1:
            self.then(chakra.collective, "all_reduce", self.size["tensor"],
                      group=f"tp{self.stage}.{self.replica}", name=name)

    def forward(self, m):
        if self.stage > 0:
            source = self.at(self.stage - 1)
            self.then(chakra.recv, source, self.rank, self.size["pipeline"], tag=m, name=f"activation {m}")
        for layer in range(self.args.layers // self.args.pp):
            for half in ("attention", "mlp"):
                self.then(chakra.compute, max(1, self.size["forward_us"] // 2), name=f"forward {layer} {half}")
                self.tensor_reduce(f"forward {layer} {half} reduce")
        if self.stage + 1 < self.args.pp:
            self.add(chakra.send, self.rank, self.at(self.stage + 1), self.size["pipeline"], tag=m,
                     name=f"activation {m}")

    def backward(self, m):
        tag = self.args.microbatches + m
        if self.stage + 1 < self.args.pp:
            self.then(chakra.recv, self.at(self.stage + 1), self.rank, self.size["pipeline"], tag=tag,
                      name=f"error {m}")
        for layer in reversed(range(self.args.layers // self.args.pp)):
            for half in ("mlp", "attention"):
                self.then(chakra.compute, self.size["forward_us"], name=f"backward {layer} {half}")
                self.tensor_reduce(f"backward {layer} {half} reduce")
            if self.args.dp > 1 and m == self.args.microbatches - 1:
                self.gradients.append(self.add(chakra.collective, "all_reduce", self.size["gradient"],
                                               group=f"dp{self.stage}.{self.shard}", name=f"gradients {layer}"))
        if self.stage > 0:
            self.add(chakra.send, self.rank, self.at(self.stage - 1), self.size["pipeline"], tag=tag,
                     name=f"error {m}")

    def write(self):
        for kind, m in one_f_one_b(self.stage, self.args.pp, self.args.microbatches):
            (self.forward if kind == "F" else self.backward)(m)
        self.add(chakra.compute, 1, deps=self.last + self.gradients, name="optimizer")
        with open(os.path.join(self.args.out, f"llm.{self.rank}.et"), "wb") as file:
            file.write(b"".join(self.records))


def main():
    args = arguments()
    size = sizes(args)
    os.makedirs(args.out, exist_ok=True)
    ranks = args.tp * args.dp * args.pp
    made = [Rank(args, size, rank) for rank in range(ranks)]
    groups = {}
    for rank in made:
        groups.setdefault(f"tp{rank.stage}.{rank.replica}", []).append(rank.rank)
        groups.setdefault(f"dp{rank.stage}.{rank.shard}", []).append(rank.rank)
        rank.write()
    with open(os.path.join(args.out, "comm_group.json"), "w", encoding="utf-8") as file:
        file.write(chakra.groups(groups))
    nodes = sum(rank.number for rank in made)
    print(json.dumps({"ranks": ranks, "nodes": nodes, **size}))


main()
