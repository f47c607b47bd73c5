#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""The tables of contrib/topoopt/doc/workloads.rst: what searches gain, how far fluid flows are from packets, and
TopoOpt beside switches.

Makes plans and runs below DIR, all on packets, and prints reStructuredText. What is there is not made again, so that
an interrupted table goes on where it was; --print shows what there is.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys

SCENARIO = """\
version: 1
name: {name}
seed: {seed}
servers: {{count: {servers}, nics: {nics}, rate: {rate}, gpus: {gpus}, intra_rate: {intra}, link_delay: {delay}}}
workload: {workload}
strategy: {strategy}
fabrics: {fabrics}
engine: {{fidelity: {fidelity}}}
results: {{flows: none}}
stop: 1000s
"""
SIX = ["dlrm", "candle", "bert", "ncf", "resnet50", "vgg16"]
LANGUAGE = ["gpt3", "llama3-70b", "mixtral"]
# Language models start from what their files suggest, as data parallelism alone does not fit. Some models are cut, so that a
# run on packets takes minutes and not an hour. Language models have fewer layers than their originals (96, 80, 32), and at
# 128 servers sequences of an eighth of their tokens (a sixteenth for gpt3 and llama3-70b), as one sequence per GPU is the
# smallest batch. CANDLE at 128 servers is the one of 16 servers, a quarter as wide, with a sixteenth of bytes and compute.
CUTS = {
    ("candle", 128): {"configuration": "shared-16"},
    ("mixtral", 16): {"layers": 8},
    ("gpt3", 128): {"layers": 16, "sequence": 128},
    ("llama3-70b", 128): {"layers": 8, "sequence": 512},
    ("mixtral", 128): {"layers": 8, "sequence": 512},
}
# Each proposal of a language model is a run of the fluid simulator with 1024 GPUs.
LANGUAGE_BUDGET = {128: 8}
RESULT = re.compile(r"^result: \{(.*)\}$", re.MULTILINE)


class Job:
    """A model on a number of servers with a number of NICs, and its directory."""

    def __init__(self, arguments, model, servers, nics):
        self.arguments = arguments
        self.model = model
        self.servers = servers
        self.nics = nics
        self.name = f"{model}-{servers}-d{nics}"
        self.cut = CUTS.get((model, servers), {})
        cuts = [value if key == "configuration" else f"{key} {value}" for key, value in self.cut.items()]
        self.label = model + (f" ({', '.join(cuts)})" if cuts else "")
        self.directory = os.path.join(arguments.output, self.name)
        self.language = model in LANGUAGE

    def scenario(self, kind, strategy, fabrics="[topoopt]", network=("100Gbps", "1us"), fidelity="packet"):
        """Writes a scenario; its path."""
        os.makedirs(self.directory, exist_ok=True)
        workload = {"model": self.model, **self.cut}
        path = os.path.join(self.directory, kind + ".yaml")
        if self.language:
            strategy = {"kind": "model", **strategy}
        else:
            strategy = {"memory": "ignore", **strategy}
        text = SCENARIO.format(
            name=self.name,
            seed=self.arguments.seed,
            servers=self.servers,
            nics=self.nics,
            rate=network[0],
            delay=network[1],
            gpus=8 if self.language else 4,
            intra="3600Gbps" if self.language else "200Gbps",
            workload=flow_map(workload),
            strategy=flow_map(strategy),
            fabrics=fabrics,
            fidelity=fidelity,
        )
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def plan(self, kind, strategy, fabrics="[topoopt]"):
        """Result values of a plan, which is made if need be."""
        path = os.path.join(self.directory, kind + ".plan.yaml")
        if not os.path.exists(path):
            if self.arguments.print:
                return None
            budget = {"budget": self.arguments.budget}
            if self.language:
                budget["budget"] = min(budget["budget"], LANGUAGE_BUDGET.get(self.servers, self.arguments.budget))
            made = self.scenario(kind, {**strategy, **budget}, fabrics)
            call([self.arguments.topoopt, "plan", made, "-o", path + ".part"], path + ".log")
            os.rename(path + ".part", path)
        with open(path, encoding="utf-8") as file:
            values = RESULT.search(file.read()).group(1)
        return {
            key: float(value)
            for key, value in (pair.split(": ") for pair in values.split(", "))
            if key != "interrupted"
        }

    def run(self, kind, what):
        """Summaries of a run by fabric."""
        directory = os.path.join(self.directory, kind)
        summary = os.path.join(directory, "summary.json")
        for again in (True, False):
            if os.path.exists(summary):
                with open(summary, encoding="utf-8") as file:
                    runs = json.load(file)["runs"]
                if runs and all(run["iteration_time_ps"] for run in runs):
                    return {run["fabric"]: run for run in runs}
            if self.arguments.print or not again:
                return None
            call([self.arguments.topoopt, "run", what(), "-o", directory, "--quiet"], directory + ".log")
        return None

    def search(self):
        """DP, search on a fixed topology, alternating optimisation: fluid and packet milliseconds of the three."""
        if self.arguments.fidelity == "flow":
            return self.fluid_search()
        both = self.plan("alternating", {"search": "alternating"})
        fixed = self.plan("mcmc", {"search": "mcmc", "confirm": "none"})
        if not both or not fixed:
            return self.fluid_search()
        if fixed["confirmed_ms"] == fixed["start_ms"]:
            fixed_ms = both["packet_start_ms"]  # nothing better was found
        else:
            run = self.run("mcmc", lambda: os.path.join(self.directory, "mcmc.plan.yaml"))
            fixed_ms = run["topoopt"]["iteration_time_ps"][-1] / 1e9 if run else None
        if fixed_ms and fixed_ms > both["packet_start_ms"]:
            # The fluid simulator's choice loses on packets: let these decide.
            fixed = self.plan("mcmc-confirmed", {"search": "mcmc"})
            if not fixed:
                return None
            fixed_ms = fixed["packet_ms"]
        return {
            "dp": (both["start_ms"], both["packet_start_ms"]),
            "fixed": (fixed["confirmed_ms"], fixed_ms),
            "both": (both["confirmed_ms"], both["packet_ms"]),
        }

    def fluid_search(self):
        """The same by fluid flows alone."""
        both = self.plan("alternating-flow", {"search": "alternating", "confirm": "none"})
        fixed = self.plan("mcmc", {"search": "mcmc", "confirm": "none"})
        if not both:
            return None
        return {
            "dp": (both["start_ms"], None),
            "fixed": (fixed["confirmed_ms"] if fixed else None, None),
            "both": (both["confirmed_ms"], None),
        }

    def fabrics(self):
        """DP on TopoOpt, the Fat-tree of equal cost and the ideal switch, and without a network: milliseconds."""
        fidelity = self.arguments.fidelity
        kinds = "[topoopt, {kind: fat-tree, rate: equal-cost}, ideal-switch]"
        runs = self.run(
            "fabrics-" + fidelity,
            lambda: self.scenario("fabrics-" + fidelity, {}, kinds, fidelity=fidelity),
        )
        # A network of 100 Tb/s without delay leaves what is computed, on GPUs and between those of a server.
        fast = self.run(
            "compute", lambda: self.scenario("compute", {}, "[ideal-switch]", ("100Tbps", "0ps"), "flow")
        )
        if not runs or not fast:
            return None
        times = {name: run["iteration_time_ps"][-1] / 1e9 for name, run in runs.items()}
        times["compute"] = fast["ideal-switch"]["iteration_time_ps"][-1] / 1e9
        times["moved"] = runs["topoopt"]["demand_bytes"] / 1e9
        times["tax"] = runs["topoopt"]["bandwidth_tax"]
        return times


def flow_map(values):
    """{a: b} in one line of YAML."""
    return "{" + ", ".join(f"{key}: {value}" for key, value in values.items()) + "}"


def call(command, log):
    """Runs a command, what it says going to a file."""
    with open(log, "w", encoding="utf-8") as file:
        done = subprocess.run(command, stdout=file, stderr=file, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}, see {log}")


def table(head, rows):
    """A simple table of reStructuredText."""
    widths = [max(len(row[c]) for row in [head, *rows]) for c in range(len(head))]
    line = " ".join("=" * width for width in widths)
    print(line)
    for row in [head, None, *rows]:
        print(line if row is None else " ".join(f"{cell:{w}}" for cell, w in zip(row, widths)).rstrip())
    print(line, flush=True)


def searches(jobs):
    """The table of gains; true if no result is worse than its start."""
    rows = []
    errors = []
    good = True
    for job in jobs:
        times = job.search()
        if not times:
            continue
        packets = times["dp"][1] is not None
        dp, fixed, both = (packet if packets else fluid for fluid, packet in times.values())
        distance = ["", ""]
        if packets:
            errors += [(abs(ms / packet - 1) * 100, job.name) for ms, packet in set(times.values()) if packet]
            distance = [f"{(times[key][0] / times[key][1] - 1) * 100:+.1f} %" for key in ("dp", "both")]
        good = good and both <= dp
        rows.append(
            [job.label, str(job.servers), str(job.nics), "packets" if packets else "flows"]
            + [f"{ms:.3f}" if ms else "-" for ms in (dp, fixed, both)]
            + [f"{dp / both:.2f}"]
            + distance
        )
        if not job.arguments.print:
            print(" ".join(rows[-1]), file=sys.stderr, flush=True)
    table(
        ["Model", "Servers", "d", "On", "Start, ms", "Fixed, ms", "Altern., ms", "Gain", "Fluid: start", "Fluid: result"],
        rows,
    )
    if errors:
        worst = max(errors)
        print(
            f"\nFluid flows against packets, {len(errors)} different runs: median {statistics.median(e for e, _ in errors):.1f} %, "
            f"worst {worst[0]:.1f} % ({worst[1]})\n"
        )
    return good


def switches(jobs):
    """The table of fabrics."""
    rows = []
    for job in jobs:
        times = job.fabrics()
        if not times:
            continue
        t = times["topoopt"]
        rows.append(
            [job.label, str(job.nics), f"{times['moved']:.1f}", f"{times['tax']:.2f}"]
            + [f"{times[key]:.2f}" for key in ("compute", "topoopt", "fat-tree", "ideal-switch")]
            + [f"{times['fat-tree'] / t:.2f}", f"{times['ideal-switch'] / t:.2f}"]
        )
        if not job.arguments.print:
            print(" ".join(rows[-1]), file=sys.stderr, flush=True)
    table(
        ["Model", "d", "GB moved", "Tax", "Compute, ms", "TopoOpt", "Fat-tree", "Ideal", "FT/TopoOpt", "Ideal/TopoOpt"],
        rows,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--topoopt", default=os.environ.get("TOPOOPT", "build/release/topoopt"))
    parser.add_argument("--models", default=",".join(SIX + LANGUAGE))
    parser.add_argument("--servers", default="16,128")
    parser.add_argument("--degrees", default="4,8")
    parser.add_argument("--budget", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tables", default="searches,fabrics")
    parser.add_argument("--fidelity", default="packet", choices=["packet", "flow"], help="flow: no packets at all")
    parser.add_argument("--print", action="store_true", help="only what has been made")
    parser.add_argument("-o", "--output", default="results/workload-table")
    arguments = parser.parse_args()
    models = arguments.models.split(",")
    servers = [int(count) for count in arguments.servers.split(",")]
    degrees = [int(count) for count in arguments.degrees.split(",")]
    good = True
    if "searches" in arguments.tables:
        good = searches([Job(arguments, m, n, d) for m in models for n in servers for d in degrees])
    if "fabrics" in arguments.tables and 128 in servers:
        switches([Job(arguments, m, 128, d) for m in models if m in SIX for d in degrees])
    if not good:
        raise SystemExit("found a plan that is worse than its start")


if __name__ == "__main__":
    main()
