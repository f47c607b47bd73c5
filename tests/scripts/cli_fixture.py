# SPDX-License-Identifier: GPL-2.0-only
"""Running the built program from tests: small scenarios, traces, and what came out."""
import csv
import glob
import json
import os
import shutil
import subprocess
import sys
import unittest

PROGRAM = os.environ.get("TOPOOPT", "")
SOURCE = os.environ.get("TOPOOPT_SOURCE") or os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Such a program takes ten times as long to start; what is about words alone is tested with the other.
SANITIZED = bool(os.environ.get("TOPOOPT_SANITIZED"))
# Modules of scripts/ that tests use, too.
sys.path.insert(1, os.path.join(SOURCE, "scripts"))


def ready():
    """Ends the program with ctest's "skipped" if there is nothing to test."""
    if not os.path.exists(PROGRAM):
        print("TOPOOPT names no program")
        sys.exit(77)


def shared_traces(needed=True):
    """The directory of third-party samples. Without it: ctest's "skipped" ends the program, or None is returned."""
    path = os.path.join(os.environ.get("TOPOOPT_SHARED") or os.path.join(SOURCE, "..", "shared"), "traces")
    if os.path.isdir(path):
        return os.path.abspath(path)
    if needed:
        print(f"no {path} (set TOPOOPT_SHARED): nothing was tested")
        sys.exit(77)
    return None


def basic_trace(ranks, elements=4096, name="all_to_all"):
    """Per rank a PARAM basic trace: an AllReduce, an all-to-all and a blocking barrier."""
    steps = []
    for _ in range(ranks):
        steps.append([
            {"comms": "init", "pg_id": 0, "world_size": ranks, "global_ranks": list(range(ranks))},
            {"comms": "all_reduce", "req": 1, "pg_id": 0, "world_size": ranks, "in_msg_size": elements,
             "out_msg_size": elements, "dtype": "float"},
            {"comms": name, "req": 2, "pg_id": 0, "world_size": ranks, "in_msg_size": elements,
             "out_msg_size": elements, "dtype": "float"},
            {"comms": "wait", "req": 1, "pg_id": 0},
            {"comms": "wait", "req": 2, "pg_id": 0},
            {"comms": "barrier", "req": 3, "pg_id": 0, "world_size": ranks}])
    return steps


class Result:
    """How a run of the program ended."""

    def __init__(self, code, out, err):
        self.code = code
        self.out = out
        self.err = err

    def __str__(self):
        return f"exit {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class ProgramTest(unittest.TestCase):
    """Each test has an empty directory of its own below the build tree, self.dir."""

    def setUp(self):
        self.dir = os.path.join(os.getcwd(), os.path.basename(sys.argv[0]) + "-files", self.id().split(".")[-1])
        shutil.rmtree(self.dir, ignore_errors=True)
        os.makedirs(self.dir)

    def tearDown(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as handle:
            handle.write(text if isinstance(text, bytes) else text.encode())
        return self.path(name)

    def write_trace(self, steps, directory="trace"):
        for rank, ops in enumerate(steps):
            self.write(f"{directory}/rank-{rank}.json", json.dumps(ops))
        return directory

    def scenario(self, name="s.yaml", **changes):
        """Writes a scenario of 4 servers and a trace; None removes a key."""
        keys = {"servers": "{count: 4, nics: 2, rate: 100Gbps}", "workload": "{trace: trace}",
                "fabrics": "[ideal-switch]", "stop": "1s"}
        keys.update(changes)
        return self.write(name, "".join(f"{k}: {v}\n" for k, v in keys.items() if v is not None))

    def call(self, *arguments, cwd=None, timeout=120):
        run = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, cwd=cwd or self.dir,
                             timeout=timeout, stdin=subprocess.DEVNULL, check=False)
        return Result(run.returncode, run.stdout, run.stderr)

    def run_ok(self, *arguments, **how):
        result = self.call(*arguments, **how)
        self.assertEqual(result.code, 0, str(result))
        return result

    def refused(self, arguments, *parts):
        """Exit code 2 and one line on stderr that holds all @p parts; no result is left behind."""
        result = self.call(*arguments)
        self.assertEqual(result.code, 2, str(result))
        lines = result.err.strip().split("\n")
        self.assertEqual(len(lines), 1, f"one line of message expected\n{result}")
        self.assertEqual(result.out, "", str(result))
        for part in parts:
            self.assertIn(part, lines[0])
        self.assertFalse(os.path.exists(self.path("out")), "a refused run left results")
        return lines[0]


def read_csv(path):
    """Rows of a result table as dictionaries; lines that begin with # are its head."""
    with open(path, newline="", encoding="utf-8") as handle:
        return list(csv.DictReader(line for line in handle if not line.startswith("#")))


def tables(directory):
    """Relative path -> bytes of every CSV of a result directory."""
    found = {}
    for path in sorted(glob.glob(os.path.join(directory, "**", "*.csv*"), recursive=True)):
        with open(path, "rb") as handle:
            found[os.path.relpath(path, directory)] = handle.read()
    return found


def summary(directory):
    with open(os.path.join(directory, "summary.json"), encoding="utf-8") as handle:
        return json.load(handle)
