#!/usr/bin/env bash
# What only a GPU can show: checks in every precision, then real training of the tiny systems at full budget, several
# at once. Needs no network; needs Multi30k in the folder that ODE_TRANSFORMER_DATA names.
#
# Usage: scripts/gpu-suite.sh [options]
#   --minutes N        stop after so long; the next call goes on where this one stopped (default: 9)
#   --jobs N           systems that train at once on the GPU (default: 4)
#   --runs DIR         where checkpoints go (default: runs/gpu)
#   --out DIR          where the small result files go (default: results/gpu)
#   --systems "A B"    recipes (default: every recipe of multi30k-full)
#   --precisions "A B" of fp32 fp16 bf16 amp (default: "fp32 fp16")
#   --cpu              rehearse without a GPU, with --set
#   --set "FLAGS"      more flags of fairseq-train, to rehearse: "--max-update 20"
#   --dry-run          print what would be run
#
# DIR gets checks.txt and a record SYSTEM.PRECISION.json for every finished run; the end of the output says what is
# done and what is left.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

minutes=9 jobs=4 runs=$root/runs/gpu out=$root/results/gpu systems='' precisions='fp32 fp16' cpu=0 flags=() dry_run=0
while [[ $# -gt 0 ]]; do
    case $1 in
    -h | --help) usage; exit 0 ;;
    --minutes) minutes=$(argument --minutes "$@"); shift ;;
    --jobs) jobs=$(argument --jobs "$@"); shift ;;
    --runs) runs=$(absolute "$(argument --runs "$@")"); shift ;;
    --out) out=$(absolute "$(argument --out "$@")"); shift ;;
    --systems) systems=$(argument --systems "$@"); shift ;;
    --precisions) precisions=$(argument --precisions "$@"); shift ;;
    --cpu) cpu=1 ;;
    --set) read -ra flags <<<"${2:?--set needs flags}"; shift ;;
    --dry-run) dry_run=1 ;;
    *) die "unknown option $1; see --help" ;;
    esac
    shift
done
for option in minutes jobs; do
    [[ ${!option} =~ ^[1-9][0-9]*$ ]] || die "--$option ${!option}: must be a positive number"
done
for precision in $precisions; do
    [[ $precision =~ ^(fp32|fp16|bf16|amp)$ ]] || die "--precisions $precision: must be of fp32, fp16, bf16, amp"
done
cd "$root"
if [[ -z $systems ]]; then systems=$(python ode_transformer/recipes.py list | grep '^multi30k-full/'); fi
options=() gpus=0 started=0
if [[ $cpu -eq 1 ]]; then
    options=(--cpu)
elif [[ $dry_run -eq 0 ]]; then
    gpus=$(python -c 'import torch; print(torch.cuda.device_count())')
    [[ $gpus -gt 0 ]] || die "no GPU is there; rehearse with --cpu"
fi
deadline=$((SECONDS + minutes * 60))

# The name of a run's files: multi30k-full/macaron-tiny fp16 -> multi30k-full.macaron-tiny.fp16
label() { printf '%s.%s' "${1//\//.}" "$2"; }

start() {
    local command=(scripts/reproduce.sh "$1" --run-dir "$runs/$(label "$1" "$2")"
        --record "$out/$(label "$1" "$2").json" "${options[@]}")
    if [[ $2 != fp32 ]]; then command+=("--$2"); fi
    command+=(-- "${flags[@]}")
    if [[ $dry_run -eq 1 ]]; then
        printf '%q ' "${command[@]}"
        echo
        return
    fi
    mkdir -p "$runs/$(label "$1" "$2")"
    # A GPU a run, in turn. When the time is over, timeout stops the run with all its processes.
    CUDA_VISIBLE_DEVICES=$((started++ % (gpus > 0 ? gpus : 1))) timeout "$((deadline - SECONDS))" \
        "${command[@]}" >>"$runs/$(label "$1" "$2")/suite.log" 2>&1 &
}

if [[ $dry_run -eq 0 ]]; then
    mkdir -p "$out" "$runs"
    if [[ ! -f $out/checks.txt ]]; then
        echo "== checks" >&2
        if ! python -m pytest -q -p no:cacheprovider tests/gpu >"$out/checks.txt.tmp" 2>&1; then
            cat "$out/checks.txt.tmp" >&2
        fi
        mv "$out/checks.txt.tmp" "$out/checks.txt"
        tail -n 1 "$out/checks.txt"
    fi
    # The data once, before several runs want them.
    for system in $systems; do
        text=$(recipe_commands "$system" prepare)
        eval "run $text"
    done
fi

for precision in $precisions; do
    for system in $systems; do
        if [[ -f $out/$(label "$system" "$precision").json ]]; then continue; fi
        while [[ $(jobs -rp | wc -l) -ge $jobs && $SECONDS -lt $deadline ]]; do sleep 1; done
        if [[ $((deadline - SECONDS)) -lt 20 && $dry_run -eq 0 ]]; then break 2; fi
        echo "== $system $precision" >&2
        start "$system" "$precision"
    done
done
# Progress while they run.
while [[ -n $(jobs -rp) ]]; do
    sleep 10
    for log in "$runs"/*/train.log; do
        if [[ -f $log ]]; then
            printf '%s %s\n' "$(basename "$(dirname "$log")")" \
                "$(grep -o '"num_updates": "[0-9]*"' "$log" | tail -n 1)" >&2
        fi
    done
done
wait || true
if [[ $dry_run -eq 1 ]]; then exit; fi

left=0
for precision in $precisions; do
    for system in $systems; do
        if [[ -f $out/$(label "$system" "$precision").json ]]; then
            echo "done: $system $precision"
        else
            left=$((left + 1))
            echo "left: $system $precision (log: $runs/$(label "$system" "$precision")/suite.log)"
        fi
    done
done
if [[ $left -gt 0 ]]; then echo "$left left; call again"; else echo "all done"; fi
