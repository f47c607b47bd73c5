#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The API reference builds without warnings; skipped where doxygen is not installed.
set -euo pipefail
cd "$TOPOOPT_SOURCE"
command -v doxygen >/dev/null || {
    echo "no doxygen here"
    exit 77
}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
{
    cat contrib/topoopt/doc/Doxyfile
    echo "OUTPUT_DIRECTORY = $out"
} | doxygen -
