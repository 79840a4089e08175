#!/usr/bin/env bash
# Rehearse recipes on a CPU: every step of each, from data to record, on its own architecture made narrow, on Multi30k,
# for thirty updates. What comes out says that a recipe runs, and nothing about its quality.
#
# Usage: scripts/rehearse.sh [options] [RECIPE...]
#   RECIPE             default: all that reproduce a row of a paper
#   --jobs N           so many at a time (default: one a two processors)
#   --output FILE      the outcome of all that were rehearsed so far (default: results/rehearsal.json)
#
# What was rehearsed already is not rehearsed again. A minute or two a recipe; needs Multi30k (ODE_TRANSFORMER_DATA).
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

jobs=$((($(nproc) + 1) / 2)) output=$root/results/rehearsal.json recipes=()
while [[ $# -gt 0 ]]; do
    case $1 in
    -h | --help) usage; exit 0 ;;
    --jobs)
        jobs=$(argument --jobs "$@")
        [[ $jobs =~ ^[1-9][0-9]*$ ]] || die "--jobs $jobs: must be a positive number"
        shift
        ;;
    --output) output=$(absolute "$(argument --output "$@")"); shift ;;
    -*) die "unknown option $1; see --help" ;;
    *) recipes+=("$1") ;;
    esac
    shift
done
cd "$root"
if [[ ${#recipes[@]} -eq 0 ]]; then mapfile -t recipes < <(python -m ode_transformer recipe list --paper); fi

# One recipe; its output goes to a file, the outcome to the terminal.
one() {
    local folder=runs/small/$1
    if [[ -f $folder/record.json ]]; then return; fi
    mkdir -p "$folder"
    SECONDS=0
    if scripts/reproduce.sh "$1" --scale small --cpu >"$folder/rehearsal.log" 2>&1; then
        echo "$1: done in $SECONDS s"
    else
        echo "$1: failed, see $folder/rehearsal.log"
    fi
}
export -f one
# Each recipe's data is prepared once, before several ask for it at a time.
for recipe in "${recipes[@]}"; do
    recipe_commands "$recipe" --scale small prepare
done | sort -u | while read -r line; do eval "run $line" </dev/null; done
# shellcheck disable=SC2016  # the inner shell expands it
printf '%s\n' "${recipes[@]}" | OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} xargs -P "$jobs" -I{} bash -c 'one "$1"' _ {}
run python -m ode_transformer rehearsal "${recipes[@]}" --output "$output"
