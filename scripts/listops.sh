#!/usr/bin/env bash
# Train an encoder on ListOps and keep its curve: prepares the data, trains, writes a record.
#
# Usage: scripts/listops.sh ARCH [options] [-- more flags of fairseq-train]
#   ARCH               transevolve_small_fullff_1, transevolve_small_randomff_1, transformer_small, or another encoder
#   --data DIR         default: data-bin/listops, made by data-prep/prepare-listops.sh if it is not there
#   --run-dir DIR      where checkpoints and the log go (default: runs/listops/ARCH)
#   --record FILE      where the record goes (default: DIR/record.json)
#   --updates N        training updates of 32 expressions (default: 5000, as the Long Range Arena)
#   --warmup N         updates of rising learning rate (default: the paper's 8000, or a tenth of --updates if that is
#                      less; the peak stays)
#   --interval N       updates between validations, and checkpoints (default: 250)
#   --cpu, --fp16      as for scripts/train.sh
#   --dry-run          print the commands only
#
# A run that was stopped goes on from its last checkpoint.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

arch='' data=$root/data-bin/listops run_dir='' record='' updates=5000 warmup='' interval=250 extra=() dry_run=0
while [[ $# -gt 0 ]]; do
    case $1 in
    -h | --help) usage; exit 0 ;;
    --data) data=$(absolute "$(argument --data "$@")"); shift ;;
    --run-dir) run_dir=$(absolute "$(argument --run-dir "$@")"); shift ;;
    --record) record=$(absolute "$(argument --record "$@")"); shift ;;
    --updates) updates=$(argument --updates "$@"); shift ;;
    --warmup) warmup=$(argument --warmup "$@"); shift ;;
    --interval) interval=$(argument --interval "$@"); shift ;;
    --cpu) keep_freed_memory; extra+=("$1") ;;
    --fp16) extra+=("$1") ;;
    --dry-run) dry_run=1 ;;
    --) shift; break ;;
    -*) die "unknown option $1; see --help" ;;
    *) [[ -z $arch ]] || die "one ARCH, got $arch and $1"; arch=$1 ;;
    esac
    shift
done
[[ -n $arch ]] || die "an ARCH is needed; see --help"
if [[ -z $warmup && $updates =~ ^[1-9][0-9]*$ ]]; then
    warmup=$((updates < 80000 ? (updates + 9) / 10 : 8000))
fi
for option in updates warmup interval; do
    [[ ${!option} =~ ^[1-9][0-9]*$ ]] || die "--$option ${!option}: must be a positive number"
done
run_dir=${run_dir:-$(absolute "$root/runs/listops/$arch")}
cd "$root"
# The peak of the paper's learning rate for encoders, 0.5 d^-1/2 min(step^-1/2, step 8000^-3/2), d = 256.
command=(fairseq-train "$data" --user-dir ode_transformer --task sentence_prediction --num-classes 10
    --criterion sentence_prediction --arch "$arch" --max-positions 2048 --dropout 0.1
    --optimizer fused_adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0
    --lr 0.000349 --lr-scheduler inverse_sqrt --warmup-updates "$warmup" --warmup-init-lr 1e-07
    --distributed-world-size 1 --batch-size 32 --required-batch-size-multiple 1 --max-update "$updates" --seed 1
    --save-dir "$run_dir" --no-epoch-checkpoints
    --validate-interval-updates "$interval" --save-interval-updates "$interval" --keep-interval-updates 1
    --log-format json --log-interval 50 --no-progress-bar
    "${extra[@]}" "$@")
if [[ $dry_run -eq 1 ]]; then
    printf '%q ' data-prep/prepare-listops.sh --out "$data"
    printf '\n'
    printf '%q ' "${command[@]}"
    printf '\n'
    exit
fi
[[ -e $data ]] || run data-prep/prepare-listops.sh --out "$data"
train_alone "$run_dir" "${command[@]}"
run python -m ode_transformer curve "$run_dir" --output "${record:-$run_dir/record.json}"
