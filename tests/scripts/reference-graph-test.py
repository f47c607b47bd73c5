#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""traces/reference-small.fbuf is what scripts/make-reference-graph makes, to the byte."""
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import source_tree as tree

COMMITTED = os.path.join(tree.SOURCE, "traces", "reference-small.fbuf")


def main():
    with tempfile.TemporaryDirectory() as directory:
        made = os.path.join(directory, "made.fbuf")
        subprocess.run([os.path.join(tree.SOURCE, "scripts", "make-reference-graph"), made],
                       check=True)
        with open(made, "rb") as a, open(COMMITTED, "rb") as b:
            if a.read() != b.read():
                print("traces/reference-small.fbuf differs from what its script makes")
                return 1
    return 0


sys.exit(main())
