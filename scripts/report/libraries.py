# SPDX-License-Identifier: GPL-2.0-only
"""The JavaScript libraries of the report, fetched once by npm into the build directory.

Nothing of them is in the source tree: package-lock.json pins version and content hash, `npm ci` fetches. ECharts is under the
Apache licence 2.0, which may go into a report but not into the program.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent.parent / "build" / "report"
PINS = ("package.json", "package-lock.json")
SCRIPTS = ("echarts/dist/echarts.min.js", "tabulator-tables/dist/js/tabulator.min.js")
STYLES = ("tabulator-tables/dist/css/tabulator.min.css",)
# What a reader of the report is owed: name, licence, files with its text.
LICENCES = (
    ("Apache ECharts", "Apache-2.0", ("echarts/LICENSE", "echarts/NOTICE")),
    ("d3 (parts within ECharts)", "BSD-3-Clause", ("echarts/licenses/LICENSE-d3",)),
    ("ZRender (within ECharts)", "BSD-3-Clause", ("zrender/LICENSE",)),
    ("tslib (within ECharts)", "0BSD", ("tslib/LICENSE.txt",)),
    ("Tabulator", "MIT", ("tabulator-tables/LICENSE",)),
)


class LibrariesMissing(Exception):
    """Why there are no libraries and what to do about it: one line."""


@dataclass(frozen=True)
class Libraries:
    scripts: list[str]
    styles: list[str]
    licences: list[tuple[str, str, str]]


def _text(name: str) -> str:
    return (CACHE / "node_modules" / name).read_text(encoding="utf-8")


def fetch() -> None:
    """Runs `npm ci` unless the pinned versions are there already.

    @throws LibrariesMissing without npm, or when npm fails (no network).
    """
    pins = {name: (HERE / name).read_bytes() for name in PINS}
    stamp = CACHE / "complete"
    if stamp.exists() and all((CACHE / name).exists() and (CACHE / name).read_bytes() == pins[name] for name in PINS):
        return
    npm = shutil.which("npm")
    if npm is None:
        raise LibrariesMissing("npm is missing, which fetches the report's libraries once; apt-get install npm")
    stamp.unlink(missing_ok=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    for name, content in pins.items():
        (CACHE / name).write_bytes(content)
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(command, cwd=CACHE, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise LibrariesMissing(f"npm ci in {CACHE} failed with status {done.returncode}: {lines[0]}")
    stamp.touch()


def load() -> Libraries:
    """The libraries as text, fetched if need be.

    @throws LibrariesMissing when they cannot be had.
    """
    fetch()
    try:
        return Libraries(
            [_text(name) for name in SCRIPTS],
            [_text(name) for name in STYLES],
            [(name, licence, "\n".join(_text(file) for file in files)) for name, licence, files in LICENCES],
        )
    except OSError as error:
        (CACHE / "complete").unlink(missing_ok=True)
        raise LibrariesMissing(f"{error.filename} is missing; run again to fetch it") from error
