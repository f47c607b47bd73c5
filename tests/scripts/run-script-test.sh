#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# scripts/run from another directory: it builds nothing when all is built, and leaves tables and pictures.
# Only where scripts/test has just built build/release; elsewhere it would start a build of its own.
set -euo pipefail
[ -n "${TOPOOPT_BUILDS-}" ] || {
    echo "not called by scripts/test"
    exit 77
}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out"
fail()
{
    echo "$1" >&2
    cat "$out/log" >&2
    exit 1
}

before=$(stat -c %Y.%s "$TOPOOPT_SOURCE/build/release/topoopt")
begin=$SECONDS
"$TOPOOPT_SOURCE/scripts/run" -o "$out/quick" --set iterations=2 >log 2>&1 || fail "scripts/run ended with $?"
[ $((SECONDS - begin)) -lt 60 ] || fail "it took $((SECONDS - begin)) s"
[ "$before" = "$(stat -c %Y.%s "$TOPOOPT_SOURCE/build/release/topoopt")" ] || fail "it built the program again"
for fabric in topoopt fat-tree ideal-switch; do
    grep -q "^$fabric " log || fail "no row for $fabric"
    [ -s "quick/$fabric/flows.csv" ] || fail "no flows of $fabric"
done
for figure in fct_cdf slowdown_by_size completion; do
    for suffix in png pdf; do
        [ -s "quick/plots/$figure.$suffix" ] || fail "no $figure.$suffix"
    done
done

# A scenario that is refused leaves exit code 2 and no pictures.
status=0
"$TOPOOPT_SOURCE/scripts/run" "$TOPOOPT_SOURCE/scenarios/quickstart.yaml" -o "$out/bad" --set stop=1 >log 2>&1 ||
    status=$?
[ $status -eq 2 ] || fail "a bad stop time gave exit code $status"
[ ! -e bad ] || fail "a refused run left results"
