# SPDX-License-Identifier: GPL-2.0-only
"""The files of the source tree, for the checks in this directory."""
import os
import sys

SOURCE = os.environ.get("TOPOOPT_SOURCE") or os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# What .gitignore leaves out, and git itself.
_IGNORED_TOP = {".git", "build", "results", "out"}
_IGNORED = {"__pycache__"}


def files():
    """Paths of all files, relative to SOURCE, sorted."""
    found = []
    for directory, names, leaves in os.walk(SOURCE):
        top = os.path.samefile(directory, SOURCE)
        names[:] = sorted(n for n in names
                          if n not in _IGNORED and not (top and n in _IGNORED_TOP))
        for leaf in leaves:
            if not (top and leaf in _IGNORED_TOP) and not leaf.endswith(".pyc"):
                found.append(os.path.relpath(os.path.join(directory, leaf), SOURCE))
    return sorted(found)


def read(path):
    """Text of a file, bytes that are not UTF-8 replaced."""
    with open(os.path.join(SOURCE, path), encoding="utf-8", errors="replace") as handle:
        return handle.read()


def is_cpp(path):
    return path.endswith((".h", ".cc"))


def interpreter(path):
    """What a #! line runs, as a word ("python3", "bash", "sh"), "" if there is none."""
    with open(os.path.join(SOURCE, path), "rb") as handle:
        first = handle.readline().decode("utf-8", "replace")
    if not first.startswith("#!"):
        return ""
    words = first[2:].split()
    return os.path.basename(words[-1] if words[0].endswith("/env") else words[0])


def is_python(path):
    return path.endswith(".py") or interpreter(path).startswith("python")


def is_shell(path):
    return path.endswith(".sh") or interpreter(path) in ("sh", "bash")


def finish(faults):
    """Prints the faults and ends the program: 1 if there are any."""
    for fault in faults:
        print(fault)
    print(f"{len(faults)} fault(s)")
    sys.exit(1 if faults else 0)
