# SPDX-License-Identifier: GPL-2.0-only
"""Puts results, libraries, style and script into one HTML file that needs neither network nor server.

The data goes in as gzipped JSON in base64: columns of numbers, words as codes. Large tables are cut to MAX_ROWS rows, the slowest
and the unfinished first; percentiles and curves are those of the whole table all the same, as they are made here.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from pathlib import Path
from typing import Any, Sequence

import numpy as np

from report.libraries import Libraries, LibrariesMissing, load
from topoopt_results import ResultError, Run, Table, nearest_rank

HERE = Path(__file__).resolve().parent
MAX_ROWS = 100_000
MAX_BARS = 60_000
MAX_CELLS = 200_000
FLOW_COLUMNS = (
    "flow_id,op_id,job,iteration,kind,src_server,dst_server,bytes,start_ps,end_ps,fct_ps,ideal_ps,slowdown,hops,"
    "retransmits,status,path"
).split(",")


def _numbers(column: np.ndarray) -> list[float | int | None]:
    """As JSON has them: whole numbers without a point, NaN as null."""
    return [None if value != value else int(value) if value == int(value) else value for value in column.tolist()]


def _columns(table: Table, names: Sequence[str], keep: np.ndarray) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name in names:
        if name in table.words:
            words = table.words[name]
            columns[name] = {"codes": words.codes[keep].tolist(), "names": words.names}
        elif name in table.numbers:
            columns[name] = _numbers(table.numbers[name][keep])
    return {"present": table.present, "total": table.rows, "kept": len(keep), "columns": columns}


def _slowest(order: np.ndarray, limit: int) -> np.ndarray:
    """Row numbers, ascending, of the `limit` rows with the largest key; NaN is largest of all."""
    if len(order) <= limit:
        return np.arange(len(order))
    key = np.where(np.isnan(order), np.inf, order)
    return np.sort(np.argsort(-key, kind="stable")[:limit])


def _percentiles(run: Run, column: str) -> dict[str, float | None]:
    """Nearest rank over all flows; null where the percentile falls among unfinished flows."""
    values = run.flows.number(column).copy()
    values[~run.finished] = np.inf
    values.sort()
    done = values[np.isfinite(values)]
    found = {f"p{percent:g}": nearest_rank(values, percent) for percent in (50, 95, 99, 99.9)}
    found["max"] = float(done[-1]) if len(done) else np.nan
    found["mean"] = float(done.mean()) if len(done) else np.nan
    return {name: value if np.isfinite(value) else None for name, value in found.items()}


def _bars(run: Run) -> dict[str, Any]:
    from figures.timeline import bars_of, is_compute

    bars = bars_of(run)
    length = bars.end - bars.start
    keep = _slowest(length, MAX_BARS)
    names: dict[str, int] = {}
    codes = [names.setdefault(bars.names[i], len(names)) for i in keep]
    return {
        "rows": bars.rows,
        "kinds": bars.kinds,
        "compute": [is_compute(kind) for kind in bars.kinds],
        "total": len(length),
        "row": bars.row[keep].tolist(),
        "kind": bars.kind[keep].tolist(),
        "start": _numbers(bars.start[keep]),
        "end": _numbers(bars.end[keep]),
        "name": codes,
        "names": list(names),
    }


def _matrices(run: Run) -> dict[str, Any]:
    from figures.matrix import panels

    result = {}
    for name, matrix in panels(run).items():
        cells = np.argwhere(matrix > 0)
        sizes = matrix[cells[:, 0], cells[:, 1]]
        keep = _slowest(sizes, MAX_CELLS)
        result[name] = {
            "n": len(matrix),
            "total": float(matrix.sum()),
            "src": cells[keep, 0].tolist(),
            "dst": cells[keep, 1].tolist(),
            "bytes": _numbers(sizes[keep]),
        }
    return result


def _topology(run: Run) -> dict[str, Any] | None:
    from figures.topology import positions

    wiring = run.topology
    if wiring is None:
        return None
    place = positions(wiring).round(5).tolist()
    return {
        "servers": wiring.servers,
        "nodes": [[node.name, node.kind, *xy] for node, xy in zip(wiring.nodes, place)],
        "links": [
            [link.id, link.src, link.dst, link.rate_bps, link.ring, link.mp and run.kind == "topoopt"]
            for link in wiring.links
        ],
    }


def run_data(run: Run, look: Any) -> dict[str, Any]:
    """Everything that the report shows of one run."""
    from figures.flows import curve

    flows = run.flows
    steps, _, upto = curve(flows.number("fct_ps")[run.finished], max(flows.rows, 1))
    return {
        "label": run.label,
        "fabric": run.fabric,
        "directory": run.directory_index,
        "colour": look.colour,
        "summary": run.summary,
        "finished": int(run.finished.sum()),
        "fct": _percentiles(run, "fct_ps"),
        "slowdown": _percentiles(run, "slowdown"),
        "bound_ps": run.iteration_bound(),
        "cdf": {"x": _numbers(steps), "y": upto.tolist()},
        "network_flows": flows.rows,
        "flows": _columns(run.all_flows, FLOW_COLUMNS, _slowest(run.all_flows.number("fct_ps"), MAX_ROWS)),
        "ops": _columns(
            run.ops, list(run.ops.numbers) + list(run.ops.words), _slowest(run.ops.number("duration_ps"), MAX_ROWS)
        ),
        "links": _columns(
            run.links, list(run.links.numbers) + list(run.links.words), _slowest(run.links.number("bytes"), MAX_ROWS)
        ),
        "link_ends": [
            [run.node_of.get(run.links.word(end)[row]) for end in ("src", "dst")] for row in range(run.links.rows)
        ],
        "timeline": _bars(run),
        "matrices": _matrices(run),
        "topology": _topology(run),
    }


def _file_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return f"{path.name} is not in the results\n"
    except OSError as error:
        raise ResultError(f"{path}: cannot be opened: {error.strerror}") from error


def _embed(data: Any) -> str:
    """Gzipped JSON in base64; equal data gives equal text."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()


def _part(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _fill(name: str, values: dict[str, str]) -> str:
    """A template with each @KEY@ replaced; what looks like a key within a value stays."""
    return re.sub(r"@([A-Z_]+)@", lambda match: values[match[1]], _part(name))


def _inline_script(text: str) -> str:
    """No text of a library may end the element it sits in."""
    return text.replace("</script", "<\\/script")


def _licences(libraries: Libraries) -> str:
    parts = [
        f"<details><summary>{html.escape(name)}: {html.escape(licence)}</summary><pre>{html.escape(text)}</pre></details>"
        for name, licence, text in libraries.licences
    ]
    return "\n".join(parts)


def _image(path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<figure><img src="data:image/png;base64,{data}" alt="{html.escape(path.stem)}"></figure>'


def _static_page(title: str, runs: Sequence[Run], out: Path, names: Sequence[str], why: str, documents: str) -> str:
    """The report without libraries: pictures and the tail table, no interaction."""
    pictures = "\n".join(_image(out / name) for name in names if name.endswith(".png"))
    tail = out / "tail_table.txt"
    table = f"<pre>{html.escape(tail.read_text(encoding='utf-8'))}</pre>" if tail.exists() else ""
    return _fill(
        "static.html",
        {
            "TITLE": html.escape(title),
            "STYLE": _part("report.css"),
            "WHY": html.escape(why),
            "RUNS": html.escape(", ".join(run.label for run in runs)),
            "TABLE": table,
            "PICTURES": pictures,
            "DOCUMENTS": documents,
        },
    )


def write_report(
    directories: Sequence[Path], runs: Sequence[Run], styles: dict[str, Any], out: Path, names: Sequence[str]
) -> str | None:
    """Writes out/report.html; a message when it had to be written without its libraries."""
    titles = []
    for directory in directories:
        summary = json.loads(_file_text(directory / "summary.json"))
        titles.append(str(summary.get("scenario") or directory.resolve().name))
    title = ", ".join(dict.fromkeys(titles))
    texts = [
        (d.resolve().name, name, _file_text(d / name))
        for d in directories
        for name in ("manifest.yaml", "summary.json")
    ]
    documents = "\n".join(
        f"<details><summary>{html.escape(directory)}/{name}</summary><pre tabindex='0'>{html.escape(text)}</pre></details>"
        for directory, name, text in texts
    )
    try:
        libraries = load()
    except LibrariesMissing as missing:
        page = _static_page(title, runs, out, names, str(missing), documents)
        (out / "report.html").write_text(page, encoding="utf-8")
        return f"report.html has pictures only: {missing}"
    data = {"title": title, "runs": [run_data(run, styles[run.label]) for run in runs]}
    page = _fill(
        "template.html",
        {
            "TITLE": html.escape(title),
            "LIBRARY_STYLE": "\n".join(libraries.styles),
            "STYLE": _part("report.css"),
            "DOCUMENTS": documents,
            "LICENCES": _licences(libraries),
            "DATA": _embed(data),
            "LIBRARIES": "\n".join(f"<script>{_inline_script(text)}</script>" for text in libraries.scripts),
            "SCRIPT": _inline_script(_part("report.js")),
        },
    )
    (out / "report.html").write_text(page, encoding="utf-8")
    return None
