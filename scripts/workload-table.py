#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Iteration times of every model: data parallelism, a search on a fixed topology, the alternating optimisation.

Writes a scenario and two plans per row below DIR, runs all three by `topoopt run`, and prints a reStructuredText
table for contrib/topoopt/doc/workloads.rst. Rows that are done are not run again.
"""
import argparse
import json
import os
import subprocess
import sys

SCENARIO = """\
version: 1
name: {name}
seed: {seed}
servers: {{count: {servers}, nics: {nics}, rate: 100Gbps, gpus: {gpus}, intra_rate: {intra}}}
workload: {{model: {model}}}
strategy: {strategy}
fabrics: [topoopt]
engine: {{fidelity: {fidelity}}}
results: {{flows: none}}
stop: 1000s
"""
LANGUAGE = {"gpt3", "llama3-70b", "mixtral"}
MODELS = ["dlrm", "candle", "bert", "ncf", "resnet50", "vgg16", "gpt3", "llama3-70b", "mixtral"]


def run(command):
    """The standard output of a command; its standard error goes to ours."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}")
    return done.stdout


def iteration_ms(topoopt, what, directory):
    """Milliseconds of the last iteration of a scenario or plan."""
    summary = os.path.join(directory, "summary.json")
    if not os.path.exists(summary):
        run([topoopt, "run", what, "-o", directory])
    with open(summary, encoding="utf-8") as file:
        return json.load(file)["runs"][0]["iteration_time_ps"][-1] / 1e9


def row(arguments, model, servers, nics):
    """Times of the three, in ms."""
    language = model in LANGUAGE
    directory = os.path.join(arguments.output, f"{model}-{servers}-d{nics}")
    os.makedirs(directory, exist_ok=True)
    common = {
        "name": f"{model}-{servers}-d{nics}",
        "seed": arguments.seed,
        "servers": servers,
        "nics": nics,
        "gpus": 8 if language else 4,
        "intra": "3600Gbps" if language else "200Gbps",
        "model": model,
        "fidelity": arguments.fidelity,
    }
    times = []
    for kind, strategy in (
        ("dp", "{memory: ignore}"),
        ("mcmc", f"{{search: mcmc, budget: {arguments.budget}, memory: ignore}}"),
        ("alternating", f"{{search: alternating, budget: {arguments.budget}, memory: ignore}}"),
    ):
        scenario = os.path.join(directory, kind + ".yaml")
        with open(scenario, "w", encoding="utf-8") as file:
            file.write(SCENARIO.format(strategy=strategy, **common))
        what = scenario
        if kind != "dp":
            what = os.path.join(directory, kind + ".plan.yaml")
            if not os.path.exists(what):
                run([arguments.topoopt, "plan", scenario, "-o", what, "--quiet"])
        times.append(iteration_ms(arguments.topoopt, what, os.path.join(directory, kind)))
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--topoopt", default=os.environ.get("TOPOOPT", "build/release/topoopt"))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--servers", default="16,128")
    parser.add_argument("--degrees", default="4,8")
    parser.add_argument("--budget", type=int, default=4000)
    parser.add_argument("--fidelity", default="packet", choices=["packet", "flow"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", default="results/workload-table")
    arguments = parser.parse_args()
    line = " ".join("=" * width for width in (12, 8, 2, 12, 12, 12, 8))
    print(line)
    print(f"{'Model':12} {'Servers':8} {'d':2} {'DP, ms':12} {'Fixed, ms':12} {'Altern., ms':12} Gain")
    print(line)
    worse = []
    for model in arguments.models.split(","):
        for servers in map(int, arguments.servers.split(",")):
            for nics in map(int, arguments.degrees.split(",")):
                dp, fixed, both = row(arguments, model, servers, nics)
                gain = f"{dp / both:.3f}x"
                print(f"{model:12} {servers:<8} {nics:<2} {dp:<12.3f} {fixed:<12.3f} {both:<12.3f} {gain}")
                sys.stdout.flush()
                if both > dp * (1 + 1e-9):
                    worse.append(f"{model}-{servers}-d{nics}")
    print(line)
    if worse:
        raise SystemExit("worse than data parallelism: " + ", ".join(worse))


if __name__ == "__main__":
    main()
