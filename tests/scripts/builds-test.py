#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Every build of the program writes the same tables, byte for byte, with trains on and off.

TOPOOPT_BUILDS lists the build directories (scripts/test sets it); skipped with fewer than two, since a build that
lies about need not be of these sources.
"""
import os
import sys
import unittest

sys.dont_write_bytecode = True
import cli_fixture as fixture
from cli_fixture import ProgramTest, tables

PROGRAMS = [os.path.join(d, "topoopt") for d in os.environ.get("TOPOOPT_BUILDS", "").split(":") if d]


class Builds(ProgramTest):
    def test_the_same_tables(self):
        scenario = os.path.join(fixture.SOURCE, "scenarios/quickstart.yaml")
        expected = None
        for number, program in enumerate(PROGRAMS):
            fixture.PROGRAM = program
            for trains in ("on", "off"):
                out = self.path(f"{number}-{trains}")
                self.run_ok("run", scenario, "-o", out, "--set", "engine.trains=" + trains)
                found = tables(out)
                self.assertGreaterEqual(len(found), 15)
                expected = expected or found
                for name in sorted(expected.keys() | found.keys()):
                    self.assertEqual(expected.get(name), found.get(name), f"{program} trains {trains}: {name}")


if __name__ == "__main__":
    if len(PROGRAMS) < 2:
        print("TOPOOPT_BUILDS names fewer than two builds")
        sys.exit(77)
    unittest.main(verbosity=1)
