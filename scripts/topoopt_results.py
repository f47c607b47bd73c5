# SPDX-License-Identifier: GPL-2.0-only
"""Reads result directories (design: "Results") for the plots and the report.

A result directory holds summary.json, manifest.yaml and one directory per fabric with flows.csv[.gz], ops.csv, tasks.csv,
links.csv, matrix_demand.csv, matrix_link.csv and topology.json. Every table but the summary may be absent: a large run
switches its flow table off. What is absent reads as an empty table; what is malformed raises ResultError, one line that
names file, line, what was found and what was expected.

Times are picoseconds (float64 holds them exactly up to 2.5 hours), sizes bytes, rates bit/s.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import zlib
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, Iterable, Sequence

import numpy as np

CHUNK_ROWS = 512  # small enough to stay in the cache: three times as fast as 65536
MAX_SERVERS = 65536

FLOW_COLUMNS = (
    "flow_id,op_id,job,iteration,kind,src_server,dst_server,bytes,start_ps,end_ps,fct_ps,ideal_ps,slowdown,hops,"
    "retransmits,status"
).split(",")
OP_COLUMNS = "op_id,job,iteration,kind,name,group,ranks,bytes,start_ps,end_ps,duration_ps,status".split(",")
TASK_COLUMNS = "rank,task,kind,name,start_ps,end_ps".split(",")
LINK_COLUMNS = "link_id,src,dst,rate_bps,bytes,packets,drops,marks,busy_ps,max_queue_bytes,utilisation".split(",")
# Columns of words; every other known column is a number, empty = NaN.
TEXT_COLUMNS = frozenset("job,kind,name,group,ranks,status,task,src,dst,path".split(","))


class ResultError(Exception):
    """A result file that cannot be read: one line for the user."""


@dataclass(frozen=True)
class Words:
    """A column of text: `names[codes[row]]`, with `names` in order of first appearance."""

    codes: np.ndarray
    names: list[str]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int) -> str:
        return self.names[self.codes[row]]

    def equal(self, name: str) -> np.ndarray:
        """Mask of the rows that hold `name`."""
        if name not in self.names:
            return np.zeros(len(self.codes), dtype=bool)
        return self.codes == self.names.index(name)

    def take(self, rows: np.ndarray) -> Words:
        return Words(self.codes[rows], self.names)


@dataclass(frozen=True)
class Table:
    """Columns of one CSV file. `present` is false when the file does not exist."""

    path: Path
    present: bool
    rows: int
    numbers: dict[str, np.ndarray] = field(default_factory=dict)
    words: dict[str, Words] = field(default_factory=dict)
    meta: dict[str, str] = field(default_factory=dict)

    def number(self, name: str) -> np.ndarray:
        """A numeric column; all NaN when the file has no such (optional) column."""
        return self.numbers.get(name, np.full(self.rows, np.nan))

    def word(self, name: str) -> Words:
        """A text column; empty words when the file has no such (optional) column."""
        return self.words.get(name, Words(np.zeros(self.rows, dtype=np.int32), [""]))

    def select(self, rows: np.ndarray) -> Table:
        """The rows of a mask or index array."""
        numbers = {name: column[rows] for name, column in self.numbers.items()}
        words = {name: column.take(rows) for name, column in self.words.items()}
        count = int(np.count_nonzero(rows)) if rows.dtype == bool else len(rows)
        return Table(self.path, self.present, count, numbers, words, self.meta)


def _open_text(path: Path) -> io.TextIOBase:
    try:
        if path.suffix == ".gz":
            return gzip.open(path, "rt", encoding="utf-8", newline="")  # type: ignore[return-value]
        return open(path, encoding="utf-8", newline="")
    except OSError as error:
        raise ResultError(f"{path}: cannot be opened: {error.strerror}") from error


def _read_errors(path: Path, error: Exception) -> ResultError:
    if isinstance(error, UnicodeDecodeError):
        return ResultError(f"{path}: byte {error.start}: found {error.object[error.start]:#04x}, expected UTF-8 text")
    if isinstance(error, (EOFError, zlib.error, gzip.BadGzipFile)):
        return ResultError(f"{path}: the gzip stream is damaged or cut short: {error}")
    return ResultError(f"{path}: {error}")


def _head(stream: Iterable[str], path: Path) -> tuple[dict[str, str], str, int]:
    """The `# key=value` lines, the first line after them, and that line's number (0 = end of file)."""
    meta: dict[str, str] = {}
    for number, line in enumerate(stream, 1):
        if line.startswith("#"):
            key, _, value = line[1:].strip().partition("=")
            meta[key.strip()] = value.strip()
        elif line.strip():
            return meta, line, number
    return meta, "", 0


def _to_numbers(cells: Sequence[str], path: Path, column: str, first_line: int) -> np.ndarray:
    try:
        return np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        pass  # empty cells are rare, so they may cost a second round
    try:
        return np.fromiter((float(cell or "nan") for cell in cells), np.float64, len(cells))
    except ValueError:
        for offset, cell in enumerate(cells):
            try:
                float(cell or "nan")
            except ValueError:
                raise ResultError(
                    f"{path}:{first_line + offset}: column {column}: found '{cell[:40]}', expected a number"
                ) from None
        raise


def read_table(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> Table:
    """Reads the required columns and those of the optional ones that exist; others are passed over.

    Holds one chunk of text at a time, so memory is that of the numbers.
    """
    with _open_text(path) as stream:
        try:
            return _read_table(stream, path, required, optional)
        except (UnicodeDecodeError, EOFError, zlib.error, OSError, csv.Error) as error:
            raise _read_errors(path, error) from error


def _read_table(stream: io.TextIOBase, path: Path, required: Sequence[str], optional: Sequence[str]) -> Table:
    meta, header_line, line = _head(stream, path)
    header = next(csv.reader([header_line]), []) if header_line else []
    missing = [name for name in required if name not in header]
    if missing:
        found = ",".join(header)[:80] or "end of file"
        raise ResultError(f"{path}:{max(line, 1)}: found header '{found}', expected a column {missing[0]}")
    wanted = [name for name in (*required, *optional) if name in header]
    places = [header.index(name) for name in wanted]
    chunks: dict[str, list[np.ndarray]] = {name: [] for name in wanted}
    codes: dict[str, dict[str, int]] = {name: {} for name in wanted if name in TEXT_COLUMNS}
    reader = csv.reader(stream)
    rows = 0
    while True:
        chunk = list(itertools.islice(reader, CHUNK_ROWS))
        if not chunk:
            break
        if set(map(len, chunk)) != {len(header)}:
            offset, row = next((i, row) for i, row in enumerate(chunk) if len(row) != len(header))
            where = line + 1 + rows + offset
            raise ResultError(f"{path}:{where}: found {len(row)} fields, expected {len(header)}")
        # The last place is taken twice so that one wanted column is a tuple, too.
        cells = list(zip(*map(itemgetter(*places, places[-1]), chunk)))
        for name, column in zip(wanted, cells):
            if name in codes:
                known = codes[name]
                for word in dict.fromkeys(column):
                    known.setdefault(word, len(known))
                chunks[name].append(np.fromiter(map(known.__getitem__, column), np.int32, len(column)))
            else:
                chunks[name].append(_to_numbers(column, path, name, line + 1 + rows))
        rows += len(chunk)
    empty = np.zeros(0)
    joined = {name: np.concatenate(parts) if parts else empty for name, parts in chunks.items()}
    words = {name: Words(joined[name].astype(np.int32), list(codes[name]) or [""]) for name in codes}
    numbers = {name: joined[name] for name in wanted if name not in codes}
    return Table(path, True, rows, numbers, words, meta)


def read_matrix(path: Path) -> np.ndarray:
    """A square matrix of bytes, row = source, column = destination.

    Plain comma-separated numbers; `# key=value` lines in front; one row and one column of server names are accepted.
    """
    rows: list[list[str]] = []
    lines: list[int] = []
    with _open_text(path) as stream:
        try:
            for number, line in enumerate(stream, 1):
                if line.strip() and not line.startswith("#"):
                    rows.append([cell.strip() for cell in line.split(",")])
                    lines.append(number)
                if len(rows) > MAX_SERVERS:
                    raise ResultError(f"{path}:{number}: found over {MAX_SERVERS} rows, expected one per server")
        except (UnicodeDecodeError, EOFError, zlib.error, OSError) as error:
            raise _read_errors(path, error) from error
    if len(rows) > 1 and len(rows) == len(rows[1]) + 1 and len(rows[0]) == len(rows[1]):
        rows, lines = rows[1:], lines[1:]  # names above the columns only
    elif len(rows) > 1 and len(rows) == len(rows[0]) and not _is_number(rows[0][0]):
        rows, lines = [row[1:] for row in rows[1:]], lines[1:]  # names above the columns and beside the rows
    for row, number in zip(rows, lines):
        if len(row) != len(rows):
            raise ResultError(f"{path}:{number}: found {len(row)} fields, expected {len(rows)}, one per server")
    if not rows:
        return np.zeros((0, 0))
    matrix = [_to_numbers(row, path, f"of row {i}", lines[i]) for i, row in enumerate(rows)]
    return np.nan_to_num(np.array(matrix))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_json(path: Path) -> Any:
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except OSError as error:
        raise ResultError(f"{path}: cannot be opened: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _read_errors(path, error) from error
    except json.JSONDecodeError as error:
        raise ResultError(f"{path}:{error.lineno}:{error.colno}: {error.msg}, expected JSON") from error


@dataclass(frozen=True)
class Node:
    name: str
    kind: str


@dataclass(frozen=True)
class TopologyLink:
    id: int
    src: int
    dst: int
    rate_bps: float
    ring: int | None
    mp: bool


@dataclass(frozen=True)
class TopologyFile:
    """topology.json: nodes (servers first) and directed links, `ring` and `mp` telling what a link was built for."""

    servers: int
    nodes: list[Node]
    links: list[TopologyLink]


def read_topology(path: Path) -> TopologyFile:
    raw = _read_json(path)
    try:
        nodes = [Node(str(node["name"]), str(node.get("kind", ""))) for node in raw["nodes"]]
        links = [
            TopologyLink(
                int(link["id"]),
                int(link["src"]),
                int(link["dst"]),
                float(link["rate_bps"]),
                None if link.get("ring") is None else int(link["ring"]),
                bool(link.get("mp", False)),
            )
            for link in raw["links"]
        ]
        servers = int(raw["servers"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ResultError(
            f"{path}: {type(error).__name__}: {error}, expected servers, nodes (name, kind) and links"
            " (id, src, dst, rate_bps)"
        ) from error
    if not 0 <= servers <= len(nodes):
        raise ResultError(f"{path}: servers: found {servers}, expected 0 to {len(nodes)}, the number of nodes")
    for link in links:
        if not (0 <= link.src < len(nodes) and 0 <= link.dst < len(nodes)):
            raise ResultError(
                f"{path}: link {link.id}: found {link.src} to {link.dst}, expected nodes below {len(nodes)}"
            )
    return TopologyFile(servers, nodes, links)


@dataclass
class Run:
    """One fabric of one result directory; tables are read on first use."""

    directory: Path
    fabric: str
    label: str
    summary: dict[str, Any]
    directory_index: int

    @property
    def path(self) -> Path:
        return self.directory / self.fabric

    @property
    def kind(self) -> str:
        """Kind of the fabric; its name where the summary does not tell."""
        return str(self.summary.get("kind") or self.fabric)

    def _table(self, name: str, required: Sequence[str], optional: Sequence[str] = ()) -> Table:
        for path in (self.path / f"{name}.csv", self.path / f"{name}.csv.gz"):
            if path.exists():
                return read_table(path, required, optional)
        columns = {column: np.zeros(0) for column in required if column not in TEXT_COLUMNS}
        words = {column: Words(np.zeros(0, dtype=np.int32), [""]) for column in required if column in TEXT_COLUMNS}
        return Table(self.path / f"{name}.csv", False, 0, columns, words)

    @cached_property
    def all_flows(self) -> Table:
        return self._table("flows", FLOW_COLUMNS, ("fct_ack_ps", "path"))

    @cached_property
    def flows(self) -> Table:
        """The flows that move data over the network; transfers within a server and the empty messages of a barrier would only
        flatter the percentiles, and are not in those of summary.json either."""
        table = self.all_flows
        network = (table.number("src_server") != table.number("dst_server")) & (table.number("bytes") > 0)
        return table if network.all() else table.select(network)

    @cached_property
    def ops(self) -> Table:
        return self._table("ops", OP_COLUMNS)

    @cached_property
    def tasks(self) -> Table:
        return self._table("tasks", TASK_COLUMNS, ("server",))

    @cached_property
    def links(self) -> Table:
        return self._table("links", LINK_COLUMNS)

    @cached_property
    def link_samples(self) -> Table:
        """Optional series link_samples.csv: link_id, t_ps (end of the bin), utilisation (0..1)."""
        return self._table("link_samples", ("link_id", "t_ps", "utilisation"))

    def matrix(self, name: str) -> np.ndarray:
        """Between servers, the `demand` or the bytes over each direct `link`; 0 x 0 when absent."""
        path = self.path / f"matrix_{name}.csv"
        return read_matrix(path)[: self.servers, : self.servers] if path.exists() else np.zeros((0, 0))

    @cached_property
    def demand(self) -> np.ndarray:
        path = self.path / "matrix_demand.csv"
        return read_matrix(path) if path.exists() else np.zeros((0, 0))

    @cached_property
    def topology(self) -> TopologyFile | None:
        path = self.path / "topology.json"
        return read_topology(path) if path.exists() else None

    @cached_property
    def finished(self) -> np.ndarray:
        """Mask of the rows of `flows` that were delivered in full."""
        return self.flows.word("status").equal("done")

    @cached_property
    def servers(self) -> int:
        """Number of servers, from the first of topology, demand matrix and flows that knows it."""
        if self.topology is not None:
            return self.topology.servers
        if len(self.demand):
            return len(self.demand)
        ends = [self.all_flows.number(name) for name in ("src_server", "dst_server")]
        return int(max((end.max() for end in ends if len(end)), default=-1)) + 1

    @cached_property
    def node_of(self) -> dict[str, int]:
        """Node number of each name that links.csv may use: the topology's names, s0.. and plain numbers."""
        names = {f"s{server}": server for server in range(self.servers)}
        names.update({str(node): node for node in range(self.servers)})
        if self.topology is not None:
            names.update({str(node): node for node in range(len(self.topology.nodes))})
            names.update({node.name: i for i, node in enumerate(self.topology.nodes)})
        return names

    @cached_property
    def iteration_times(self) -> np.ndarray:
        """Picoseconds, one per completed iteration; of a shared cluster one per job, the mean of its iterations."""
        times = self.summary.get("iteration_time_ps") or []
        return np.array([time for time in times if time is not None], dtype=np.float64)

    @property
    def of_jobs(self) -> bool:
        """Whether this is a shared cluster, whose iteration times are those of its jobs."""
        return bool(self.summary.get("jobs"))

    def injection_rate(self) -> np.ndarray:
        """Bit/s that each server can send, by links.csv; zeros when it cannot be known."""
        rates = np.zeros(self.servers)
        source = self.links.word("src")
        for row, rate in enumerate(self.links.number("rate_bps")):
            node = self.node_of.get(source[row], -1)
            if 0 <= node < self.servers:
                rates[node] += rate
        return rates

    def iteration_bound(self) -> float | None:
        """Picoseconds below which no iteration can be: the busiest server's bytes over its NIC rate.

        Bytes of the demand matrix (payload, either direction, the diagonal left out) per iteration. Computation,
        headers, propagation and relaying are not in it. None when matrix or rates are absent, when the run was cut short, as
        the matrix then holds a part of an iteration, or when it holds the bytes of several jobs.
        """
        if self.summary.get("complete") is False or self.of_jobs:
            return None
        rates = self.injection_rate()
        demand = self.demand
        if not len(demand) or len(rates) != len(demand) or not rates.any():
            return None
        network = demand - np.diag(np.diag(demand))
        busiest = np.maximum(network.sum(axis=0), network.sum(axis=1))
        used = rates > 0
        iterations = max(len(self.iteration_times), 1)
        return float(np.max(8e12 * busiest[used] / rates[used])) / iterations


def _summary_runs(directory: Path) -> list[dict[str, Any]]:
    path = directory / "summary.json"
    summary = _read_json(path)
    runs = summary.get("runs") if isinstance(summary, dict) else None
    if not isinstance(runs, list):
        raise ResultError(f'{path}: found no list "runs", expected one entry per fabric')
    for i, run in enumerate(runs):
        if not isinstance(run, dict) or not isinstance(run.get("fabric"), str):
            raise ResultError(f'{path}: run {i}: found no "fabric", expected its name')
        times = run.get("iteration_time_ps") or []
        if not isinstance(times, list) or any(t is not None and not isinstance(t, (int, float)) for t in times):
            raise ResultError(
                f"{path}: run {i}: iteration_time_ps: found {str(times)[:40]}, expected a list of numbers"
            )
    return runs


def read_results(directories: Sequence[Path], labels: Sequence[str] = ()) -> list[Run]:
    """Every fabric of every directory, in order; labels name directories and default to their shortest distinct paths.

    With one directory a run is labelled by its fabric, with several by LABEL/FABRIC.
    """
    if labels and len(labels) != len(directories):
        raise ResultError(f"--labels: found {len(labels)}, expected {len(directories)}, one per directory")
    if not labels:
        names = [directory.resolve().name for directory in directories]
        labels = names if len(set(names)) == len(names) else [str(directory) for directory in directories]
    runs: list[Run] = []
    for index, (directory, label) in enumerate(zip(directories, labels)):
        if not directory.is_dir():
            raise ResultError(f"{directory}: found no directory, expected one with results (summary.json)")
        for summary in _summary_runs(directory):
            fabric = summary["fabric"]
            name = fabric if len(directories) == 1 else f"{label}/{fabric}"
            runs.append(Run(directory, fabric, name, summary, index))
    return runs


def nearest_rank(ordered: np.ndarray, percent: float) -> float:
    """The smallest value with at least `percent` of all values at or below it; NaN of nothing. `ordered` ascends."""
    if not len(ordered):
        return float("nan")
    # 99.9 * 1000 / 100 is 999.0000000000001 in floating point: round before taking the ceiling.
    rank = int(np.ceil(round(percent * len(ordered) / 100, 9)))
    return float(ordered[max(rank, 1) - 1])
