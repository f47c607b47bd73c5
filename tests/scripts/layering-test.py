#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""core <- model <- helper <- scratch: who may include whom, and what no room may do."""
import os
import re
import sys

sys.dont_write_bytecode = True
import source_tree as tree

MODULE = "contrib/topoopt/"
ROOMS = ["core", "model", "helper", "scratch"]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]', re.M)
# Neither may a library end the program or talk to the terminal: that is scratch's.
EXIT = re.compile(r"(?<!\w)(?:std::)?(?:exit|quick_exit|abort)\s*\(")  # _exit after fork is another matter
PRINT = re.compile(r"\bstd::(?:cout|cerr|clog)\b|(?<![\w:.])(?:std::)?(?:printf|puts)\s*\(")


def room_of(path):
    """Room of a file of the repository, None if it is in none."""
    if path.startswith(MODULE):
        room = path[len(MODULE):].split("/")[0]
        return room if room in ROOMS else None
    return "scratch" if path.startswith("scratch/") else None


def without_comments(text):
    """Comments and string literals blanked, lines kept."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def check(path, text, own_headers):
    """Faults of one file. own_headers: name of a model or helper header -> its room."""
    room = room_of(path)
    faults = []
    for match in INCLUDE.finditer(text):
        name = match.group(2)
        where = f"{path}:{text.count(chr(10), 0, match.start()) + 1}"
        target = None
        if name.startswith("topoopt/"):
            target = name.split("/")[1]
            if target not in ROOMS:
                faults.append(f"{where}: {name} is in no room")
                continue
            if not os.path.exists(os.path.join(tree.SOURCE, "contrib", name)):
                faults.append(f"{where}: {name} does not exist")
        elif name.startswith("ns3/"):
            target = own_headers.get(name[len("ns3/"):])
            if room == "core":
                faults.append(f"{where}: core includes ns-3 ({name})")
        elif match.group(1) == '"':
            target = own_headers.get(os.path.basename(name))
            if target is None and room != "scratch":
                faults.append(f'{where}: "{name}" is no header of this project: use <...>, or its path')
        if target is not None and ROOMS.index(target) > ROOMS.index(room):
            faults.append(f"{where}: {room} includes {target} ({name})")
        if room == "model" and name.startswith(("yaml-cpp/", "nlohmann/")):
            faults.append(f"{where}: model includes a parser ({name})")
        if room in ("core", "model", "helper") and name == "iostream":
            faults.append(f"{where}: {room} includes <iostream>")
    if room != "scratch":
        code = without_comments(text)
        for what, pattern in (("ends the program", EXIT), ("prints", PRINT)):
            for match in pattern.finditer(code):
                line = code.count("\n", 0, match.start()) + 1
                faults.append(f"{path}:{line}: {room} {what} ({match.group().strip()})")
    return faults


def self_test():
    """The check must find what it is for."""
    headers = {"server.h": "model", "runner.h": "helper"}
    cases = [
        ("core/a.cc", '#include "ns3/server.h"\n', "core includes"),
        ("core/a.cc", "#include <ns3/node.h>\n", "core includes ns-3"),
        ("model/a.cc", '#include "ns3/runner.h"\n', "model includes helper"),
        ("model/a.cc", '#include "runner.h"\n', "model includes helper"),
        ("model/a.cc", "#include <yaml-cpp/yaml.h>\n", "model includes a parser"),
        ("core/a.cc", "#include <iostream>\n", "includes <iostream>"),
        ("core/a.cc", '#include "topoopt/helper/runner.h"\n', "core includes helper"),
        ("helper/a.cc", "void f() { exit(2); }\n", "ends the program"),
        ("model/a.cc", 'void f() { std::printf("x"); }\n', "prints"),
    ]
    for path, text, expected in cases:
        faults = check(MODULE + path, text, headers)
        if not any(expected in fault for fault in faults):
            sys.exit(f"self test: {path} {text!r} gave {faults}, not '{expected}'")
    fine = '// exit(1)\n#include "ns3/server.h"\n#include "ns3/node.h"\nvoid f() { m.exit_code(); g("abort()"); }\n'
    if check(MODULE + "helper/a.cc", fine, headers):
        sys.exit("self test: a clean file was blamed")


def main():
    self_test()
    sources = [p for p in tree.files() if tree.is_cpp(p) and room_of(p)]
    own_headers = {os.path.basename(p): room_of(p) for p in sources
                   if p.endswith(".h") and room_of(p) in ("model", "helper")}
    faults = []
    for path in sources:
        faults += check(path, tree.read(path), own_headers)
    if not sources:
        faults.append("no sources found")
    tree.finish(faults)


main()
