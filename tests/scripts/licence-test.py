#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Every source file says its licence in its first lines, and the licence itself is there."""
import os
import sys

sys.dont_write_bytecode = True
import source_tree as tree

LINE = "SPDX-License-Identifier: GPL-2.0-only"


def is_source(path):
    name = os.path.basename(path)
    return (tree.is_cpp(path) or tree.is_python(path) or tree.is_shell(path)
            or name == "CMakeLists.txt" or path.endswith(".cmake"))


def main():
    faults = []
    sources = [path for path in tree.files() if is_source(path)]
    for path in sources:
        head = tree.read(path).split("\n")[:2]
        if not any(line.strip("/*# ") == LINE for line in head):
            faults.append(f"{path}:1: no '{LINE}' in the first two lines")
    text = tree.read("LICENSE")
    if "GNU GENERAL PUBLIC LICENSE" not in text or "Version 2, June 1991" not in text:
        faults.append("LICENSE: not the GPL, version 2")
    if len(sources) < 10:
        faults.append(f"only {len(sources)} sources found")
    tree.finish(faults)


main()
