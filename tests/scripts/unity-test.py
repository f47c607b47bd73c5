#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Files that are compiled several at a time (build_fast in CMakeLists.txt) share their anonymous namespaces.

Which files meet changes with every file that is added, so no two of a target may give one name to different things.
"""
import re
import sys

sys.dont_write_bytecode = True
import source_tree as tree

# What build_fast is told to take several files of at a time.
TARGETS = {"topoopt-core": r"contrib/topoopt/core/.*\.cc", "topoopt": r"contrib/topoopt/(model|helper)/.*\.cc",
           "core-tests": r"tests/core/.*\.cc"}
BLOCK = re.compile(r"^namespace\n\{\n(.*?)^\} // namespace$", re.M | re.S)
TYPE = re.compile(r"^(?:template <[^\n]*>\n)?(?:(?:struct|class|enum class|enum) (\w+)(?: final)?[^;\n]*$|using (\w+) =)", re.M)
CONSTANT = re.compile(r"^const(?:expr)? [\w:<>,*& ]*?\b(\w+)(?:\[[^\]]*\])?(?: =|\{|;)", re.M)
FUNCTION = re.compile(r"^(?!TEST|RC_)(\w+)\(([^{;]*?)\)\n\{", re.M | re.S)


def names(text):
    """(name, what it is) at the top of anonymous namespaces; functions with the types of their parameters."""
    for block in BLOCK.findall(text):
        for match in TYPE.finditer(block):
            yield match.group(1) or match.group(2), "type"
        for match in CONSTANT.finditer(block):
            yield match.group(1), "constant"
        for match in FUNCTION.finditer(block):
            types = re.sub(r"\b\w+(?=,|$)", "", re.sub(r"\s+", " ", match.group(2)))
            yield match.group(1), f"function({types})"


def clashes(files):
    """Faults of a target. files: (path, text)"""
    first = {}
    faults = []
    for path, text in files:
        for name, what in names(text):
            for other, where in first.get(name, {}).items():
                both_functions = what.startswith("function") and other.startswith("function")
                if where != path and (what == other or not both_functions):
                    faults.append(f"{path}: {name} is in the anonymous namespace of {where}, too")
            first.setdefault(name, {}).setdefault(what, path)
    return faults


def self_test():
    def file(body):
        return f"namespace topoopt\n{{\nnamespace\n{{\n{body}\n}} // namespace\n}}\n"

    function = "int\nTwice(int a)\n{\n    return 2 * a;\n}"
    assert clashes([("a", file(function)), ("b", file(function.replace("int a", "double a")))]) == []
    assert len(clashes([("a", file(function)), ("b", file(function.replace("int a", "int b")))])) == 1
    assert len(clashes([("a", file(function)), ("b", file("struct Twice\n{\n};"))])) == 1
    assert len(clashes([("a", file("constexpr int kTwo = 2;")), ("b", file("const double kTwo = 2;"))])) == 1
    assert clashes([("a", file("using Row = int;")), ("b", file("using Line = int;"))]) == []
    assert clashes([("a", function), ("b", function)]) == []  # no anonymous namespace: the linker tells


self_test()
found = []
for target, pattern in TARGETS.items():
    files = [(path, tree.read(path)) for path in tree.files() if re.fullmatch(pattern, path)]
    if not files:
        found.append(f"{target}: no files match {pattern}")
    found += clashes(files)
tree.finish(found)
