#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Runs a scenario over a grid of parameters: every point in its own process and directory, resumable, one table at the end.

    scripts/sweep.py SWEEP.yaml [-o DIR] [-j N] [--quick] [--slurm SCRIPT]

SWEEP.yaml (version 1):

    version: 1
    name: rates                       # default: the file's name
    scenario: base.yaml               # relative to this file
    set: {servers.count: 128}         # overrides for every point
    parameters:                       # their cartesian product
      servers.rate: [10Gbps, 100Gbps]
      servers.nics: [4, 8]
    points:                           # and these besides, one by one
      - {servers.rate: 200Gbps, servers.nics: 4}
    quick:                            # with --quick: more overrides, other values for parameters, other points
      set: {servers.count: 16}
      parameters: {servers.rate: [25Gbps]}

DIR/points/NAME/ holds the results of a point, its messages and point.json; DIR/sweep.csv a row per point and fabric. Started
again, it runs what is missing: points that were killed, failed, or whose scenario file or overrides have changed.

Exit status: 0 all points done, 1 some did not complete (listed), 2 bad input.
"""

from __future__ import annotations

import argparse
import csv
import fcntl
import hashlib
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Sequence

import yaml

SOURCE = Path(__file__).resolve().parent.parent
MAX_POINTS = 100_000
MAX_NAMES = 3
KEYS = ("version", "name", "scenario", "set", "parameters", "points", "quick", "figure")
QUICK_KEYS = ("set", "parameters", "points")


class SweepError(Exception):
    """Bad input: one line for the user."""


class _Loader(yaml.SafeLoader):
    """YAML whose repeated keys are errors, and whose words yes, no, on and off stay words."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in seen:
            mark = key_node.start_mark
            raise SweepError(f"{mark.name}:{mark.line + 1}:{mark.column + 1}: {key}: found twice, expected once")
        seen[key] = loader.construct_object(value_node, deep=True)
    return seen


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def load_yaml(path: Path) -> Any:
    """A YAML file as Python values.

    @throws SweepError with file and line
    """
    try:
        with open(path, encoding="utf-8") as stream:
            return yaml.load(stream, _Loader)  # noqa: S506 (a SafeLoader)
    except OSError as error:
        raise SweepError(f"{path}: cannot be opened: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SweepError(f"{path}: byte {error.start}: expected UTF-8 text") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise SweepError(f"{where}: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise SweepError(f"{path}: {str(error).splitlines()[0]}") from error


@dataclass(frozen=True)
class Point:
    number: int
    values: dict[str, str]  # parameter -> value as text
    overrides: list[str]  # what --set gets, in order
    name: str


@dataclass
class Sweep:
    path: Path
    name: str
    scenario: Path
    parameters: list[str]
    points: list[Point]
    figure: dict[str, Any] = field(default_factory=dict)


def text_of(value: Any) -> str:
    """A value as --set takes it: a word as it is, lists and maps as YAML on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):
        return json.dumps(value, separators=(", ", ": "))
    return "" if value is None else str(value)


def _map(path: Path, where: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise SweepError(f"{path}: {where}: found {str(value)[:40]!r}, expected keys with values")
    return value


def _known(path: Path, where: str, value: dict[str, Any], keys: Sequence[str]) -> None:
    for key in value:
        if key not in keys:
            raise SweepError(f"{path}: {where}{key}: found an unknown key, expected one of {', '.join(keys)}")


def point_name(values: dict[str, str]) -> str:
    """A directory name that says what the point is; it stays when other points come and go."""
    words = "+".join(f"{name}={value}" for name, value in values.items())
    safe = re.sub(r"[^A-Za-z0-9.=+_-]+", "_", words)[:100]
    if safe == words:
        return safe if safe.strip(".") else "all"
    return f"{safe.strip('_.')}-{hashlib.sha256(words.encode()).hexdigest()[:8]}"


def read_sweep(path: Path, quick: bool = False, overrides: Sequence[str] = ()) -> Sweep:
    """The points of a sweep file.

    @throws SweepError naming file and key
    """
    top = _map(path, "top", load_yaml(path))
    _known(path, "", top, KEYS)
    if top.get("version") != 1:
        raise SweepError(f"{path}: version: found {top.get('version')!r}, expected 1")
    if not isinstance(top.get("scenario"), str):
        raise SweepError(f"{path}: scenario: found {top.get('scenario')!r}, expected the name of a scenario file")
    scenario = (path.parent / top["scenario"]).resolve()
    if not scenario.is_file():
        raise SweepError(f"{path}: scenario: found no file {scenario}")
    fixed = dict(_map(path, "set", top.get("set")))
    parameters = dict(_map(path, "parameters", top.get("parameters")))
    points = top.get("points")
    if quick:
        less = _map(path, "quick", top.get("quick"))
        _known(path, "quick.", less, QUICK_KEYS)
        fixed.update(_map(path, "quick.set", less.get("set")))
        for name, values in _map(path, "quick.parameters", less.get("parameters")).items():
            if name not in parameters:
                raise SweepError(f"{path}: quick.parameters.{name}: found no parameter of that name")
            parameters[name] = values
        points = less.get("points", points)
    for name, values in parameters.items():
        if not isinstance(values, list) or not values:
            raise SweepError(f"{path}: parameters.{name}: found {str(values)[:40]!r}, expected a list of values")
    if points is not None and not isinstance(points, list):
        raise SweepError(f"{path}: points: found {str(points)[:40]!r}, expected a list")
    combinations: list[dict[str, Any]] = []
    if parameters or points is None:
        total = 1
        for values in parameters.values():
            total *= len(values)
        if total > MAX_POINTS:
            raise SweepError(f"{path}: parameters: found {total} points, expected at most {MAX_POINTS}")
        combinations = [dict(zip(parameters, values)) for values in itertools.product(*parameters.values())]
    for i, values in enumerate(points or []):
        combinations.append(_map(path, f"points[{i}]", values))
    names = list(dict.fromkeys(name for values in combinations for name in values))
    own = [f"{name}={text_of(value)}" for name, value in fixed.items()]
    result = []
    for number, combination in enumerate(combinations):
        values = {name: text_of(value) for name, value in combination.items()}
        sets = own + [f"{name}={value}" for name, value in values.items()] + list(overrides)
        result.append(Point(number, values, sets, point_name(values)))
    count = Counter(point.name for point in result)
    twice = sorted(name for name, times in count.items() if times > 1)
    if twice:
        raise SweepError(f"{path}: points: found {twice[0]} twice, expected each point once")
    figure = _map(path, "figure", top.get("figure"))
    return Sweep(path, str(top.get("name") or path.stem), scenario, names, result, figure)


# ---- running ------------------------------------------------------------------------------------------------------------


def identity(sweep: Sweep, point: Point) -> str:
    """Changes when the scenario's text or the point's overrides do."""
    content = hashlib.sha256(sweep.scenario.read_bytes()).hexdigest()
    return hashlib.sha256(json.dumps([content, point.overrides]).encode()).hexdigest()


def directory_of(out: Path, point: Point) -> Path:
    return out / "points" / point.name


def read_state(out: Path, point: Point) -> dict[str, Any]:
    """point.json; empty when the point never ended."""
    try:
        state = json.loads((directory_of(out, point) / "point.json").read_text(encoding="utf-8"))
        return state if isinstance(state, dict) else {}
    except (OSError, ValueError):
        return {}


def is_finished(sweep: Sweep, out: Path, point: Point) -> bool:
    """Done, or stopped by its own stop time, which it would meet again."""
    state = read_state(out, point)
    return state.get("identity") == identity(sweep, point) and state.get("status") in ("done", "incomplete")


class Runner:
    """Starts points and can be told to stop."""

    def __init__(self, sweep: Sweep, out: Path, program: str) -> None:
        self.sweep = sweep
        self.out = out
        self.program = program
        self._stopping = threading.Event()
        self._children: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()

    def command(self, point: Point) -> list[str]:
        results = directory_of(self.out, point) / "results"
        sets = [part for override in point.overrides for part in ("--set", override)]
        # A sweep that is killed takes its points along: left behind, they would write beside those of the next start.
        setpriv = shutil.which("setpriv")
        guard = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
        return [*guard, self.program, "run", str(self.sweep.scenario), "-o", str(results), "--quiet", *sets]

    def run(self, point: Point) -> str:
        """Runs a point and records how it ended: done, incomplete, failed, or stopped (which is not recorded)."""
        directory = directory_of(self.out, point)
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        begin = time.monotonic()
        with open(directory / "messages.txt", "wb") as messages:
            with self._lock:
                if self._stopping.is_set():
                    return "stopped"
                try:
                    # A session of its own: an interrupt from the terminal reaches the children through stop() alone.
                    child = subprocess.Popen(
                        self.command(point),
                        stdin=subprocess.DEVNULL,
                        stdout=messages,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                except OSError as error:
                    messages.write(f"{self.program}: {error.strerror}\n".encode())
                    child = None
                else:
                    self._children.add(child)
            code = child.wait() if child else 127
            if child:
                with self._lock:
                    self._children.discard(child)
        if self._stopping.is_set():
            return "stopped"
        status = {0: "done", 1: "incomplete"}.get(code, "failed")
        if status != "failed" and not (directory / "results" / "summary.json").exists():
            status = "failed"
        text = (directory / "messages.txt").read_text(encoding="utf-8", errors="replace").strip()
        state = {
            "identity": identity(self.sweep, point),
            "status": status,
            "exit": code,
            "message": text.splitlines()[-1][:500] if text else "",
            "seconds": round(time.monotonic() - begin, 3),
            "overrides": point.overrides,
        }
        part = directory / "point.json.part"
        part.write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")
        part.rename(directory / "point.json")
        return status

    def stop(self) -> None:
        with self._lock:
            self._stopping.set()
            for child in self._children:
                child.send_signal(signal.SIGINT)

    @property
    def stopped(self) -> bool:
        return self._stopping.is_set()


class Progress:
    """A line that is rewritten on a terminal, a line per point elsewhere."""

    def __init__(self, total: int, skipped: int, quiet: bool) -> None:
        self._begin = time.monotonic()
        self._ended = 0
        self._total = total
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        if skipped and not quiet:
            print(f"{skipped} points were done before", file=sys.stderr)

    def ended(self, point: Point, status: str) -> None:
        self._ended += 1
        if self._quiet:
            return
        spent = time.monotonic() - self._begin
        left = spent / self._ended * (self._total - self._ended)
        line = f"[{self._ended}/{self._total}] {point.name}: {status}, about {left:.0f} s left"
        if self._terminal:
            print(f"\r\x1b[K{line[:100]}", end="" if self._ended < self._total else "\n", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)


def run_points(runner: Runner, points: Sequence[Point], jobs: int, progress: Progress) -> None:
    """Runs points, `jobs` at a time, until all ended or the runner was stopped."""
    waiting = list(points)[::-1]
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        running: dict[Any, Point] = {}
        while (waiting and not runner.stopped) or running:
            while waiting and len(running) < jobs and not runner.stopped:
                point = waiting.pop()
                running[pool.submit(runner.run, point)] = point
            ended, _ = wait(running, return_when=FIRST_COMPLETED, timeout=0.5)
            for future in ended:
                point = running.pop(future)
                progress.ended(point, future.result())


# ---- collecting ---------------------------------------------------------------------------------------------------------


def flat_measures(run: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a run of summary.json; the mean of its iterations and how many there were."""
    measures: dict[str, Any] = {}
    for key, value in run.items():
        if key == "iteration_time_ps":
            times = [time for time in value or [] if isinstance(time, (int, float))]
            measures["iteration_time_ps"] = sum(times) / len(times) if times else None
            measures["iterations"] = len(times)
        elif isinstance(value, (int, float, str)) and not isinstance(value, bool) and key != "fabric":
            measures[key] = value
    return measures


def collect(sweep: Sweep, out: Path) -> Path:
    """Writes DIR/sweep.csv: point, parameters, fabric, status, then the measures of summary.json."""
    rows: list[tuple[Point, str, str, dict[str, Any]]] = []
    for point in sweep.points:
        state = read_state(out, point)
        status = str(state.get("status", "missing"))
        if state and state.get("identity") != identity(sweep, point):
            status = "stale"
        runs: list[dict[str, Any]] = []
        if status in ("done", "incomplete"):
            try:
                summary = json.loads(
                    (directory_of(out, point) / "results" / "summary.json").read_text(encoding="utf-8")
                )
                runs = [run for run in summary["runs"] if isinstance(run, dict)]
            except (OSError, ValueError, KeyError, TypeError):
                status = "failed"
        for run in runs:
            unfinished = run.get("unfinished") or not run.get("iteration_time_ps")
            own = "incomplete" if status == "incomplete" and unfinished else "done"
            rows.append((point, str(run.get("fabric", "")), own, flat_measures(run)))
        if not runs:
            rows.append((point, "", status, {}))
    measures = list(dict.fromkeys(name for *_, values in rows for name in values))
    path = out / "sweep.csv"
    part = out / "sweep.csv.part"
    with open(part, "w", encoding="utf-8", newline="") as stream:
        stream.write(f"# format=1\n# sweep={sweep.name}\n# scenario={sweep.scenario.name}\n")
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["point", *sweep.parameters, "fabric", "status", *measures])
        for point, fabric, status, values in rows:
            cells = [point.values.get(name, "") for name in sweep.parameters]
            writer.writerow(
                [point.name, *cells, fabric, status, *("" if values.get(m) is None else values[m] for m in measures)]
            )
    part.rename(path)
    return path


def failures(sweep: Sweep, out: Path) -> tuple[int, list[str]]:
    """How many points are not done, and a line for each reason with the points that met it."""
    reasons: dict[str, list[str]] = {}
    for point in sweep.points:
        state = read_state(out, point)
        if state.get("status") != "done":
            why = f"{state['status']}, exit {state['exit']}: {state['message']}" if state else "never ended"
            reasons.setdefault(why, []).append(point.name)
    lines = []
    for why, names in reasons.items():
        shown = ", ".join(names[:MAX_NAMES]) + (f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else "")
        lines.append(f"{why}\n  in {out / 'points'}: {shown}")
    return sum(map(len, reasons.values())), lines


def slurm_script(sweep: Sweep, arguments: Sequence[str], out: Path) -> str:
    """An array job of one task per point; a second job, which waits for it, writes the table."""
    script = shlex.quote(str(Path(__file__).resolve()))
    common = " ".join(shlex.quote(argument) for argument in arguments)
    log = shlex.quote(str(out / "slurm-%a.txt"))
    return f"""#!/bin/bash
#SBATCH --job-name={re.sub(r"[^A-Za-z0-9_.-]", "_", sweep.name)}
#SBATCH --array=0-{len(sweep.points) - 1}
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --output={log}
# Submit with: sbatch THIS; points that are done already end at once. The table afterwards:
#   /usr/bin/python3 {script} {common} --collect
exec /usr/bin/python3 {script} {common} --point "$SLURM_ARRAY_TASK_ID"
"""


# ---- command line -------------------------------------------------------------------------------------------------------


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sweep", description=__doc__.splitlines()[0])
    parser.add_argument("sweep", metavar="SWEEP.yaml", type=Path)
    parser.add_argument(
        "-o", "--output", metavar="DIR", type=Path, help="default: results/NAME, with --quick results/NAME-quick"
    )
    parser.add_argument(
        "-j", "--jobs", metavar="N", type=int, default=os.cpu_count() or 1, help="points at a time (default: cores)"
    )
    parser.add_argument("--set", metavar="A.B=V", action="append", default=[], help="one more override for every point")
    parser.add_argument("--quick", action="store_true", help="the smaller sweep of the file's quick section")
    parser.add_argument("--program", default=os.environ.get("TOPOOPT", str(SOURCE / "build" / "release" / "topoopt")))
    parser.add_argument("--force", action="store_true", help="run everything again")
    parser.add_argument("--list", action="store_true", help="print the points and their states, run nothing")
    parser.add_argument("--slurm", metavar="SCRIPT", type=Path, help="write an array-job script, run nothing")
    parser.add_argument("--point", metavar="K", type=int, help="run point number K alone, write no table")
    parser.add_argument("--collect", action="store_true", help="write the table of what is there, run nothing")
    parser.add_argument("--quiet", action="store_true")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    try:
        if options.jobs < 1:
            raise SweepError(f"-j: found {options.jobs}, expected at least 1")
        sweep = read_sweep(options.sweep, options.quick, options.set)
        out = (options.output or Path("results") / (sweep.name + "-quick" * options.quick)).resolve()
        return execute(sweep, out, options)
    except SweepError as error:
        print(f"sweep: {error}", file=sys.stderr)
    except OSError as error:
        print(f"sweep: {error.filename}: {error.strerror}", file=sys.stderr)
    return 2


def execute(sweep: Sweep, out: Path, options: argparse.Namespace) -> int:
    if options.list:
        for point in sweep.points:
            print(f"{point.name}\t{read_state(out, point).get('status', 'missing')}\t{' '.join(point.overrides)}")
        return 0
    if options.slurm:
        same = [str(options.sweep.resolve()), "-o", str(out), "--program", str(Path(options.program).resolve())]
        same += ["--quick"] if options.quick else []
        same += [part for override in options.set for part in ("--set", override)]
        out.mkdir(parents=True, exist_ok=True)
        options.slurm.write_text(slurm_script(sweep, same, out), encoding="utf-8")
        return 0
    if options.point is not None:
        if not 0 <= options.point < len(sweep.points):
            raise SweepError(f"--point: found {options.point}, expected 0 to {len(sweep.points) - 1}")
        point = sweep.points[options.point]
        if options.force or not is_finished(sweep, out, point):
            return 0 if Runner(sweep, out, options.program).run(point) == "done" else 1
        return 0
    out.mkdir(parents=True, exist_ok=True)
    with open(out / ".lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SweepError(f"{out}: another sweep is running in this directory") from None
        return run_all(sweep, out, options)


def run_all(sweep: Sweep, out: Path, options: argparse.Namespace) -> int:
    """Runs what is missing, writes the table, lists what did not complete."""
    runner = Runner(sweep, out, options.program)
    if not options.collect:
        missing = [point for point in sweep.points if options.force or not is_finished(sweep, out, point)]
        progress = Progress(len(missing), len(sweep.points) - len(missing), options.quiet)
        before = {number: signal.signal(number, lambda *_: runner.stop()) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            run_points(runner, missing, options.jobs, progress)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    path = collect(sweep, out)
    bad, reasons = failures(sweep, out)
    if not options.quiet:
        print(f"{len(sweep.points) - bad} of {len(sweep.points)} points done: {path}", file=sys.stderr)
    for line in reasons:
        print(line, file=sys.stderr)
    if runner.stopped:
        print("stopped; the same command goes on from here", file=sys.stderr)
    return 1 if bad or runner.stopped else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
