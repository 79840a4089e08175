#!/usr/bin/env bash
# Train a recipe; a run that was stopped goes on from its last checkpoint.
#
# Usage: scripts/train.sh RECIPE [options] [-- more flags of fairseq-train]
#   RECIPE             a name that `ode-transformer recipe list` prints, or a YAML file
#   --run-dir DIR      where checkpoints and the log go (default: runs/RECIPE)
#   --devices N        devices that train together; the update frequency follows from it, so that an update sees
#                      as much text on any number (default: the GPUs of this machine or Slurm job, or 1 on a CPU)
#   --cpu              do not use GPUs
#   --fp16, --bf16, --amp   half precision (default: fp32)
#   --torchrun         start the processes with torchrun instead of fairseq; environment variable NNODES, NODE_RANK
#                      and MASTER_ADDR, MASTER_PORT for several machines
#   --dry-run          print the command only
#
# Under Slurm, `srun scripts/train.sh RECIPE -- --distributed-port 29500`, a task a node or a task a GPU:
# fairseq's own engine reads the job's variables.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

recipe='' run_dir='' devices='' precision=fp32 cpu=0 torchrun=0 dry_run=0
while [[ $# -gt 0 ]]; do
    case $1 in
    -h | --help) usage; exit 0 ;;
    --run-dir) run_dir=$(absolute "$(argument --run-dir "$@")"); shift ;;
    --devices) devices=$(argument --devices "$@"); shift ;;
    --cpu) cpu=1 ;;
    --fp16 | --bf16 | --amp) precision=${1#--} ;;
    --torchrun) torchrun=1 ;;
    --dry-run) dry_run=1 ;;
    --) shift; break ;;
    -*) die "unknown option $1; see --help" ;;
    *) [[ -z $recipe ]] || die "one recipe, got $recipe and $1"; recipe=$(recipe_name "$1") ;;
    esac
    shift
done
[[ -n $recipe ]] || die "a recipe is needed; see --help"
cd "$root"

gpus=0
if [[ $cpu -eq 0 ]] && command -v nvidia-smi >/dev/null; then
    gpus=$(python -c 'import torch; print(torch.cuda.device_count())')
fi
nodes=${SLURM_NNODES:-${NNODES:-1}}
if [[ -z $devices ]]; then devices=$((gpus > 0 ? gpus * nodes : 1)); fi
[[ $devices =~ ^[1-9][0-9]*$ ]] || die "--devices $devices: must be a positive number"

text=$(recipe_commands "$recipe" train --devices "$devices" --precision "$precision" ${run_dir:+--run-dir "$run_dir"})
command=()
eval "command=($text)"
command+=("$@")
if [[ $cpu -eq 1 ]]; then command+=(--cpu); fi
if [[ $torchrun -eq 1 ]]; then
    [[ $gpus -gt 0 ]] || die "--torchrun needs GPUs: fairseq divides by their number"
    command=(torchrun --nnodes "$nodes" --node_rank "${NODE_RANK:-0}" --nproc_per_node "$((devices / nodes))"
        --master_addr "${MASTER_ADDR:-127.0.0.1}" --master_port "${MASTER_PORT:-29500}"
        --no_python "${command[@]}")
fi
if [[ $gpus -eq 0 ]]; then
    # glibc gives every freed tensor back to the system and faults it in again; keeping them makes training on a
    # CPU 1.5 times faster or more. Child processes inherit it.
    export MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=4294967296 MALLOC_TOP_PAD_=268435456
fi
if [[ $dry_run -eq 1 ]]; then
    run() { printf '%q ' "$@"; echo; }
    run "${command[@]}"
    exit
fi
run_dir=${run_dir:-$(run_dir_of "$recipe")}
mkdir -p "$run_dir"
run "${command[@]}" 2>&1 | tee -a "$run_dir/train.log"
