#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""scripts/packages.txt names the package of every header, Python module and tool that the tree uses.

Packages are asked of dpkg on the machine at hand; without dpkg the test is skipped.
"""
import ast
import glob
import importlib.util
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
import source_tree as tree

INCLUDE = re.compile(r"^\s*#\s*include\s*<([^>]+)>", re.M)
# Commands that are in no minimal Debian: word in a script -> package.
TOOLS = {"cmake": "cmake", "ctest": "cmake", "ninja": "ninja-build", "clang-format": "clang-format",
         "clang-tidy": "clang-tidy", "ccache": "ccache", "g++": "build-essential", "make": "build-essential",
         "doxygen": "doxygen", "mpirun": "openmpi-bin", "gzip": None, "run-clang-tidy": "clang-tidy",
         "clang++": "clang", "gnuplot": "gnuplot-nox", "dot": "graphviz"}
# These scripts look for their tool themselves and say what to install; nobody needs them to run or test.
OPTIONAL = {"scripts/tidy": {"clang-tidy"}, "scripts/doc": {"doxygen"},
            "tests/scripts/doc-test.sh": {"doxygen"}}
# Headers with a compiled library behind them, which dpkg -S of the header does not show.
LIBRARIES = {"boost/iostreams/": "libboost-iostreams-dev", "boost/program_options": "libboost-program-options-dev"}
NAMESPACES = {"google"}
# What ns-3's CMake package looks for besides itself.
ALWAYS = {"libns3-dev", "ns3", "libgsl-dev", "libsqlite3-dev", "libxml2-dev", "cmake", "ninja-build", "build-essential"}


def listed():
    text = re.sub(r"#.*", "", tree.read("scripts/packages.txt"))
    return set(text.split())


def header_directories():
    answer = subprocess.run(["g++", "-E", "-x", "c++", "-", "-v"], input="", capture_output=True, text=True,
                            check=True).stderr
    block = answer.split("#include <...> search starts here:")[1].split("End of search list.")[0]
    return [line.strip() for line in block.strip().split("\n")]


def owners_of(paths):
    """Path -> names of the packages that own it, for all paths in one call."""
    spellings = {}
    for path in paths:
        # dpkg knows files by the names they had before /lib and /bin moved below /usr.
        real = os.path.realpath(path)
        for name in (path, real, re.sub(r"^/usr(?=/lib|/bin)", "", real)):
            spellings.setdefault(name, []).append(path)
    owners = {path: [] for path in paths}
    answer = subprocess.run(["dpkg", "-S"] + sorted(spellings), capture_output=True, text=True).stdout
    for line in answer.splitlines():
        packages, _, name = line.partition(": ")
        for path in spellings.get(name, []):
            owners[path] += [package.split(":")[0].strip() for package in packages.split(", ")]
    return owners


def is_base(package):
    """Part of build-essential or of Python itself."""
    return bool(re.match(r"(libstdc\+\+-\d+-dev|libc6-dev|libgcc-\d+-dev|linux-libc-dev|(lib)?python3[\d.]*"
                         r"(-minimal|-stdlib|-dev)?)$", package))


def python_modules(path):
    def short(name):
        """Of a namespace that several packages share, the part below it."""
        words = name.split(".")
        return ".".join(words[:2] if words[0] in NAMESPACES else words[:1])

    names = set()
    for node in ast.walk(ast.parse(tree.read(path), path)):
        if isinstance(node, ast.Import):
            names |= {short(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(short(node.module if "." in node.module else f"{node.module}.{node.names[0].name}"))
    return names


def main():
    if not shutil.which("dpkg"):
        print("no dpkg here")
        sys.exit(77)
    known = listed()
    faults = [f"scripts/packages.txt: {name} is missing (ns-3's CMake package needs it)" for name in
              sorted(ALWAYS - known)]
    sources = tree.files()
    own_modules = {os.path.splitext(os.path.basename(p))[0] for p in sources if p.endswith(".py")}
    own_modules |= {os.path.basename(os.path.dirname(p)) for p in sources if p.endswith(".py")}
    directories = header_directories()
    users = {}
    for path in sources:
        if tree.is_cpp(path):
            for name in INCLUDE.findall(tree.read(path)):
                users.setdefault(("header", name), path)
        elif tree.is_python(path):
            for name in python_modules(path) - own_modules - set(sys.stdlib_module_names):
                users.setdefault(("module", name), path)
    where = {}
    for (kind, name), path in sorted(users.items()):
        if kind == "header":
            found = [p for d in directories for p in glob.glob(os.path.join(d, glob.escape(name)))]
        else:
            spec = importlib.util.find_spec(name)
            found = [spec.origin] if spec and spec.origin else []
        if found:
            where[kind, name] = found[0]
        else:
            faults.append(f"{path}: {kind} {name} is not on this machine")
        for prefix, package in LIBRARIES.items():
            if kind == "header" and name.startswith(prefix) and package not in known:
                faults.append(f"{path}: {name} needs {package}, which scripts/packages.txt lacks")
    owners = owners_of(sorted(set(where.values())))
    # A default package (libboost-dev) stands for the versioned one that it pulls in.
    pulled = subprocess.run(["dpkg-query", "-W", "-f=${Depends}\n"] + sorted(known), capture_output=True,
                            text=True).stdout
    pulled = set(re.findall(r"[a-z0-9][a-z0-9.+-]+", re.sub(r"\([^)]*\)", "", pulled)))
    for (kind, name), file in where.items():
        packages = owners[file]
        path = users[kind, name]
        if not packages:
            faults.append(f"{path}: {kind} {name} ({file}) comes from no package")
        elif not any(package in known | pulled or is_base(package) for package in packages):
            faults.append(f"{path}: {kind} {name} is in {'/'.join(packages)}, which scripts/packages.txt lacks")
    for path in sources:
        if not tree.is_shell(path):
            continue
        code = re.sub(r"(^|\s)#.*", "", tree.read(path))
        for tool, package in TOOLS.items():
            used = re.search(rf"(?<![\w./-]){re.escape(tool)}(?![\w./-])", code)
            if used and package and package not in known | OPTIONAL.get(path, set()):
                faults.append(f"{path}: uses {tool} of {package}, which scripts/packages.txt lacks")
    doubled = [name for name in known if tree.read("scripts/packages.txt").split().count(name) > 1]
    faults += [f"scripts/packages.txt: {name} twice" for name in sorted(doubled)]
    if not users:
        faults.append("no includes found")
    tree.finish(faults)


main()
