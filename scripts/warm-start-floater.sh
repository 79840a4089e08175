#!/usr/bin/env bash
# Go on from a trained Transformer with FLOATER: writes its first checkpoint, then trains.
#
# Usage: scripts/warm-start-floater.sh CHECKPOINT DATA --save-dir DIR [options] -- FLAGS
#   CHECKPOINT         of stock fairseq's Transformer, of any age; the paper takes the best on the validation set
#   DATA               the binarised data that it was trained with
#   --save-dir DIR     where checkpoints go; DIR/start.pt is the first, equal to the Transformer
#   --arch ARCH        default: floater_base
#   --dry-run          print the commands only
#   FLAGS              of fairseq-train: criterion, optimiser, batch, schedule. The paper halves the peak learning rate,
#                      trains ten more epochs (--max-epoch 10), and averages the last five checkpoints. What the model
#                      needs beside ARCH, shared embeddings, activation, dropout and so on, is taken from CHECKPOINT;
#                      FLAGS come after it, and win
#
# A run that was stopped goes on from its last checkpoint.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

checkpoint='' data='' save_dir='' arch=floater_base dry_run=0
while [[ $# -gt 0 ]]; do
    case $1 in
    -h | --help) usage; exit 0 ;;
    --save-dir) save_dir=$(absolute "$(argument --save-dir "$@")"); shift ;;
    --arch) arch=$(argument --arch "$@"); shift ;;
    --dry-run) dry_run=1 ;;
    --) shift; break ;;
    -*) die "unknown option $1; see --help" ;;
    *)
        if [[ -z $checkpoint ]]; then checkpoint=$(absolute "$1");
        elif [[ -z $data ]]; then # several folders with colons between
            data=$(IFS=:; for part in $1; do absolute "$part"; done | paste -sd:)
        else die "one CHECKPOINT and one DATA, got $1 besides"; fi
        ;;
    esac
    shift
done
[[ -n $data ]] || die "a CHECKPOINT and a DATA folder are needed; see --help"
[[ -n $save_dir ]] || die "--save-dir is needed; see --help"
cd "$root"
start=(python -m ode_transformer warm-start "$checkpoint" --arch "$arch" --data "$data" --output "$save_dir/start.pt"
    -- "$@")
train=(fairseq-train "$data" --user-dir ode_transformer --arch "$arch" --finetune-from-model "$save_dir/start.pt"
    --save-dir "$save_dir")
if [[ $dry_run -eq 1 ]]; then
    printf '%q ' "${start[@]}"
    printf '\n'
    printf '%q ' "${train[@]}" "$@"
    printf '# and before these FLAGS those that the first command names\n'
    exit
fi
updates=$(python -m ode_transformer resume "$save_dir")
if [[ $updates -eq 0 ]]; then
    report=$(run "${start[@]}")
    echo "$report"
    sed -n 's/^fairseq-train needs: //p' <<<"$report" >"$save_dir/start.flags.part"
    mv "$save_dir/start.flags.part" "$save_dir/start.flags"
fi
needed=()
# xargs reads the quotes that keep a word together.
if [[ -e $save_dir/start.flags ]]; then mapfile -d '' needed < <(xargs -r printf '%s\0' <"$save_dir/start.flags"); fi
# glibc then keeps freed memory, which makes training on a CPU 1.5 times faster or more.
if [[ " $* " == *" --cpu "* ]]; then
    export MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=4294967296 MALLOC_TOP_PAD_=268435456
fi
run "${train[@]}" "${needed[@]}" "$@"
