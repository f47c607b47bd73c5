#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Nothing in the tree that belongs to one machine, one moment, or nowhere."""
import os
import re
import sys

sys.dont_write_bytecode = True
import source_tree as tree

LARGEST = 1_000_000
# Spelled in pieces, lest this file be its own first finding.
MACHINE_PATH = re.compile("(?<![\\w.~}-])/(" + "|".join(["home", "work", "root", "Users", "mnt"]) + ")/[\\w.-]+")
LEFTOVER = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" * 3, "HA" + "CK"]) + r")\b")
CONFLICT = re.compile(r"^(<{7} |>{7} )", re.M)
# Paths of the repository that documents speak of.
MENTION = re.compile(r"(?<![\w./-])((?:contrib|scratch|scenarios|traces|tests|scripts)/[\w./-]*[\w-])")
BINARY = (".png", ".pdf", ".gz", ".fbuf", ".et", ".npz")


def place(path, text, match):
    return f"{path}:{text.count(chr(10), 0, match.start()) + 1}"


def check_text(path, text):
    faults = []
    for what, pattern in (("machine path", MACHINE_PATH), ("leftover", LEFTOVER),
                          ("merge conflict", CONFLICT)):
        faults += [f"{place(path, text, m)}: {what} '{m.group().strip()}'"
                   for m in pattern.finditer(text)]
    if text and not text.endswith("\n"):
        faults.append(f"{path}: no newline at the end")
    if tree.is_cpp(path) or path.endswith((".py", ".yaml", ".txt", ".sh")):
        for number, line in enumerate(text.split("\n"), 1):
            if line != line.rstrip():
                faults.append(f"{path}:{number}: blanks at the end of the line")
            if "\t" in line and (tree.is_cpp(path) or path.endswith((".py", ".yaml"))):
                faults.append(f"{path}:{number}: tab")
    return faults


def check_mentions(path, text):
    """Every path of ours that a document names exists (build products and patterns aside)."""
    faults = []
    for match in MENTION.finditer(text):
        name = match.group(1)
        after = text[match.end():match.end() + 1]
        if re.search(r"[A-Z]{4,}", name.replace("README", "")) or after in ("*", "{", "<"):
            continue
        if not os.path.exists(os.path.join(tree.SOURCE, name)):
            faults.append(f"{place(path, text, match)}: {name} does not exist")
    return faults


def self_test():
    bad = ["see /" + "work/x", "TO" + "DO: later", "a \n", "<" * 7 + " HEAD\n", "no end"]
    for text in bad:
        if not check_text("a.py", text):
            sys.exit(f"self test: nothing found in {text!r}")
    if check_text("a.py", "root = a/work/b\nhttps://x.org/home/y\n"):
        sys.exit("self test: a clean text was blamed")
    if not check_mentions("a.md", "see scripts/none-such\n"):
        sys.exit("self test: a missing file was not found")


def main():
    self_test()
    faults = []
    for path in tree.files():
        full = os.path.join(tree.SOURCE, path)
        if os.path.islink(full):
            faults.append(f"{path}: a symbolic link")
            continue
        size = os.path.getsize(full)
        if size > LARGEST:
            faults.append(f"{path}: {size} bytes, more than {LARGEST}")
        if tree.interpreter(path) and not os.access(full, os.X_OK):
            faults.append(f"{path}: begins with #! but is not executable")
        if path.endswith(BINARY):
            continue
        text = tree.read(path)
        if path != "LICENSE":
            faults += check_text(path, text)
        if path.endswith((".md", ".rst")):
            faults += check_mentions(path, text)
    tree.finish(faults)


main()
