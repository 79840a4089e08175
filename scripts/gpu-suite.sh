#!/usr/bin/env bash
# What only a GPU can show: checks in every precision, the benchmark, then real training, several runs at once: the tiny
# systems at full budget on Multi30k, and Table 5 of the ODE Transformer on the Penn Treebank. Needs no network; needs
# Multi30k in the folder that ODE_TRANSFORMER_DATA names, and leaves Table 5 out where it has no ptb.
#
# Usage: scripts/gpu-suite.sh [options]
#   --minutes N        stop after so long; the next call goes on where this one stopped, the checks from their beginning
#                      (default: 9)
#   --jobs N           systems that train at once on the GPU (default: 4)
#   --runs DIR         where checkpoints go (default: runs/gpu)
#   --out DIR          where the small result files go (default: results)
#   --systems "A B"    recipes, or cells of Table 5 such as ptb/rk4-2.released.seed-3 (default: every recipe of
#                      multi30k-full that starts from nothing; all cells, three seeds, both forms)
#   --precisions "A B" to train in, of fp32 fp16 bf16 amp (default: "fp32 fp16")
#   --bench "A B"      precisions to benchmark in, or "" for none (default: fp16)
#   --cpu              rehearse without a GPU, with --set
#   --set "FLAGS"      more flags of fairseq-train, to rehearse: "--max-update 20"; with --runs and --out of its own
#   --dry-run          print what would be run
#
# DIR gets gpu-checks.txt, a record of every contest of the benchmark, bench/CONTEST.cuda-PRECISION.json, and one of
# every finished run, SYSTEM.json, or SYSTEM.PRECISION.json of others than fp32; what is there is not done again. The end
# of the output says what is done and what is left.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

minutes=9 jobs=4 runs='' out='' systems='' precisions='fp32 fp16' bench=fp16 cpu=0 flags=() dry_run=0
while [[ $# -gt 0 ]]; do
    case $1 in
    -h | --help) usage; exit 0 ;;
    --minutes) minutes=$(argument --minutes "$@"); shift ;;
    --jobs) jobs=$(argument --jobs "$@"); shift ;;
    --runs) runs=$(absolute "$(argument --runs "$@")"); shift ;;
    --out) out=$(absolute "$(argument --out "$@")"); shift ;;
    --systems) systems=$(argument --systems "$@"); shift ;;
    --precisions) precisions=$(argument --precisions "$@"); shift ;;
    --bench) bench=${2?--bench needs precisions}; shift ;;
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
for precision in $precisions $bench; do
    [[ $precision =~ ^(fp32|fp16|bf16|amp)$ ]] || die "precision $precision: must be of fp32, fp16, bf16, amp"
done
[[ ${#flags[@]} -eq 0 || (-n $runs && -n $out) ]] || die "--set needs --runs and --out: a rehearsal is no result"
runs=${runs:-$(absolute "$root/runs/gpu")} out=${out:-$root/results}
cd "$root"
python=$(type -P python || type -P python3) # a program, for timeout
# All cells of Table 5, if the data are there: ptb/SYSTEM-LAYERS[.released].seed-N
cells() {
    local data=${ODE_TRANSFORMER_DATA:-}
    if [[ ! -e $root/data-bin/ptb && ! -e $data/ptb && ! -e $data/ptb.tar.xz ]]; then return; fi
    local seed system layers form
    for seed in 1 2 3; do
        for layers in 1 2; do
            for form in '' .released; do
                for system in residual rk2 rk2-unit rk2-learnable rk4; do echo "ptb/$system-$layers$form.seed-$seed"; done
            done
        done
    done
}
if [[ -z $systems ]]; then
    systems=$(python -m ode_transformer recipe list | grep '^multi30k-full/' | grep -v -e -warm- -e -longer-)
    systems+=" $(cells)"
fi
options=() gpus=0 started=0
if [[ $cpu -eq 1 ]]; then
    options=(--cpu)
elif [[ $dry_run -eq 0 ]]; then
    gpus=$(gpu_count)
    [[ $gpus -gt 0 ]] || die "no GPU is there; rehearse with --cpu"
fi
deadline=$((SECONDS + minutes * 60))
for tool in fairseq-train fairseq-generate fairseq-preprocess; do
    command -v "$tool" >/dev/null || die "$tool is not on PATH; installed with pip --target DIR, it lies in DIR/bin"
done
python -c 'import sacrebleu, sacremoses, subword_nmt, yaml' || die "the module named above is missing"
IFS=', ' read -ra devices <<<"${CUDA_VISIBLE_DEVICES:-$(seq -s ' ' 0 $((gpus > 0 ? gpus - 1 : 0)))}"

# The name of a run's files: multi30k-full/macaron-tiny fp16 -> multi30k-full.macaron-tiny.fp16
label() { basename "${1//\//.}.$2" | sed 's/^\.*//'; }

# The precisions that it can be trained in: scripts/ptb.sh knows two, and fairseq takes bf16 for a TPU with its own models.
known() {
    case $1 in
    ptb/*) echo '^fp(32|16)$' ;;
    */transformer-*) echo '^(fp32|fp16|amp)$' ;;
    *) echo . ;;
    esac
}

# Its record. A recipe of one's own has a path for a name, and goes by the last part of it.
record() {
    local name=${1##*.yaml/} suffix=
    if [[ $1 == *.yaml ]]; then name=$(basename "$1" .yaml); fi
    if [[ $2 != fp32 ]]; then suffix=.$2; fi
    echo "$out/$name$suffix.json"
}

start() {
    local command=(scripts/reproduce.sh "$1")
    if [[ $1 =~ ^ptb/(.+)-([12])(.released)?.seed-([0-9]+)$ ]]; then
        command=(scripts/ptb.sh "${BASH_REMATCH[1]}" --layers "${BASH_REMATCH[2]}" --seed "${BASH_REMATCH[4]}")
        if [[ -n ${BASH_REMATCH[3]} ]]; then command+=(--form released); fi
    fi
    command+=(--run-dir "$runs/$(label "$1" "$2")" --record "$(record "$1" "$2")" "${options[@]}")
    if [[ $2 != fp32 ]]; then command+=("--$2"); fi
    command+=(-- "${flags[@]}")
    if [[ $dry_run -eq 1 ]]; then
        printf '%q ' "${command[@]}"
        echo
        return
    fi
    mkdir -p "$runs/$(label "$1" "$2")"
    # A GPU a run, in turn. When the time is over, timeout stops the run with all its processes.
    export CUDA_VISIBLE_DEVICES=${devices[started % ${#devices[@]}]}
    started=$((started + 1))
    timeout "$((deadline - SECONDS))" "${command[@]}" >>"$runs/$(label "$1" "$2")/suite.log" 2>&1 &
    running[$!]="$1 $2"
}

declare -A running=()
failed=0
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
if [[ $dry_run -eq 0 ]]; then
    mkdir -p "$out" "$runs"
    # What is over when the time is over, timeout's 124, is left for the next call.
    if [[ $cpu -eq 0 && ! -f $out/gpu-checks.txt ]]; then
        echo "== checks" >&2
        status=0
        several=() # at a time, where pytest-xdist is installed
        if "$python" -c 'import xdist' 2>/dev/null; then several=(-n "$jobs"); fi
        timeout "$((deadline - SECONDS))" "$python" -m pytest -q -p no:cacheprovider "${several[@]}" tests/gpu \
            >"$out/gpu-checks.failed.txt" 2>&1 || status=$?
        if [[ $status -eq 0 ]]; then
            mv "$out/gpu-checks.failed.txt" "$out/gpu-checks.txt"
        elif [[ $status -ne 124 ]]; then
            tail -n 40 "$out/gpu-checks.failed.txt" >&2
            failed=1
        fi
    fi
    if [[ $cpu -eq 0 ]]; then
        for precision in $bench; do
            if [[ $((deadline - SECONDS)) -lt 20 ]]; then break; fi
            echo "== benchmark, $precision" >&2
            status=0
            timeout "$((deadline - SECONDS))" "$python" -m ode_transformer bench suite \
                --device cuda --precision "$precision" --missing --directory "$out/bench" || status=$?
            if [[ $status -ne 0 && $status -ne 124 ]]; then failed=1; fi
        done
    fi
    # The data once, before several runs want them.
    for system in $systems; do
        if [[ $system == ptb/* ]]; then text='data-prep/prepare-ptb.sh'; else text=$(recipe_commands "$system" prepare); fi
        echo "$text"
    done | sort -u | while read -r text; do eval "run $text" </dev/null; done
fi

for precision in $precisions; do
    for system in $systems; do
        if [[ -f $(record "$system" "$precision") || ! $precision =~ $(known "$system") ]]; then continue; fi
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
if [[ $dry_run -eq 1 ]]; then exit; fi
for pid in "${!running[@]}"; do
    status=0
    wait "$pid" || status=$?
    if [[ $status -ne 0 && $status -ne 124 ]]; then # 124: its time was over
        failed=1
        read -r system precision <<<"${running[$pid]}"
        echo "failed: $system $precision" >&2
        tail -n 20 "$runs/$(label "$system" "$precision")/suite.log" >&2
    fi
done

left=0
if [[ $cpu -eq 0 && ! -f $out/gpu-checks.txt ]]; then
    left=1
    echo "left: the checks (see $out/gpu-checks.failed.txt)"
fi
if [[ $cpu -eq 0 ]]; then
    for precision in $bench; do
        if ! python -m ode_transformer bench suite --device cuda --precision "$precision" --missing --list \
            --directory "$out/bench"; then left=$((left + 1)); fi
    done
fi
for precision in $precisions; do
    for system in $systems; do
        if [[ ! $precision =~ $(known "$system") ]]; then continue; fi
        if [[ -f $(record "$system" "$precision") ]]; then
            echo "done: $system $precision"
        else
            left=$((left + 1))
            echo "left: $system $precision (log: $runs/$(label "$system" "$precision")/suite.log)"
        fi
    done
done
if [[ $left -eq 0 ]]; then echo "all done"; elif [[ $failed -eq 0 ]]; then echo "$left left; call again"; fi
if [[ $failed -eq 1 ]]; then die "something failed, see above"; fi
