#!/usr/bin/env bash
# Train a recipe; a run that was stopped goes on from its last checkpoint. A recipe that starts from another's
# checkpoint trains that one first, in its usual place: in the same precision and on the same devices, but without the
# flags behind --.
#
# Usage: scripts/train.sh RECIPE [options] [-- more flags of fairseq-train]
#   RECIPE             a name that `ode-transformer recipe list` prints; or a YAML file, FILE.yaml or FILE.yaml/ROW
#   --run-dir DIR      where checkpoints and the log go (default: runs/RECIPE)
#   --scale small      a rehearsal of the recipe: its own layers, narrow, on Multi30k, for few updates
#   --seed N           another seed than the recipe's; where files go changes with it
#   --devices N        devices that train together; the update frequency follows from it, so that an update sees as
#                      much text on any number (default: as many GPUs as the recipe can use, or 1 on a CPU; under
#                      Slurm or with NNODES all of the job's)
#   --cpu              do not use GPUs
#   --fp16, --bf16, --amp   half precision (default: fp32)
#   --torchrun         start the processes with torchrun instead of fairseq; for several machines, environment
#                      variables NNODES, NODE_RANK (or Slurm's), MASTER_ADDR and MASTER_PORT
#   --dry-run          print the command only
#
# Under Slurm, `srun scripts/train.sh RECIPE -- --distributed-port 29500`, a task a node or a task a GPU:
# fairseq's own engine reads the job's variables.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

recipe='' run_dir='' variant=() devices='' precision=fp32 cpu=0 torchrun=0 dry_run=0 first_options=()
while [[ $# -gt 0 ]]; do
    case $1 in
    -h | --help) usage; exit 0 ;;
    --run-dir) run_dir=$(absolute "$(argument --run-dir "$@")"); shift ;;
    --scale | --seed) variant+=("$1" "$(argument "$1" "$@")"); shift ;;
    --devices) devices=$(argument --devices "$@") first_options+=(--devices "$devices"); shift ;;
    --cpu) cpu=1 first_options+=(--cpu) ;;
    --fp16 | --bf16 | --amp) precision=${1#--} first_options+=("$1") ;;
    --torchrun) torchrun=1 first_options+=(--torchrun) ;;
    --dry-run) dry_run=1 ;;
    --) shift; break ;;
    -*) die "unknown option $1; see --help" ;;
    *) [[ -z $recipe ]] || die "one recipe, got $recipe and $1"; recipe=$(recipe_name "$1") ;;
    esac
    shift
done
[[ -n $recipe ]] || die "a recipe is needed; see --help"
[[ -z $devices || $devices =~ ^[1-9][0-9]*$ ]] || die "--devices $devices: must be a positive number"
[[ $cpu -eq 0 || ${devices:-1} -eq 1 ]] || die "--devices $devices: with --cpu one process trains"
cd "$root"

gpus=0
if [[ $cpu -eq 0 ]]; then gpus=$(gpu_count); fi
nodes=${SLURM_NNODES:-${NNODES:-1}}
if [[ -z $devices ]]; then
    if [[ $nodes -gt 1 || ${SLURM_NTASKS:-1} -gt 1 ]]; then
        devices=$((${SLURM_NTASKS:-0} > nodes ? SLURM_NTASKS : nodes * (gpus > 0 ? gpus : 1)))
    else
        devices=$(python -m ode_transformer recipe devices "$recipe" "${variant[@]}" "$gpus")
    fi
fi
[[ $((devices % nodes)) -eq 0 ]] || die "--devices $devices: cannot be dealt evenly to $nodes nodes"

# A command without what says where it runs, how an update is dealt to devices, and the folder that it lies in.
identity() { sed -E 's/ --(distributed-port|distributed-world-size|update-freq|save-dir) [^ ]+//g' <<<"$1"; }

run_dir=${run_dir:-$(run_dir_of "$recipe" "${variant[@]}")}
rank=${SLURM_PROCID:-${NODE_RANK:-0}}
text=$(recipe_commands "$recipe" "${variant[@]}" train --devices "$devices" --precision "$precision" --run-dir "$run_dir")
command=()
eval "command=($text)"
data=${command[1]}
command+=("$@")
line=$(printf '%q ' "${command[@]}") # what is trained; below, where
if [[ $cpu -eq 1 ]]; then command+=(--cpu); fi
# With a port, fairseq takes all GPUs of a job of a task a node, whatever it is told.
if [[ " $* " == *" --distributed-port "* && ${SLURM_NTASKS:-1} -le $nodes && $gpus -gt 0 ]]; then
    [[ $devices -eq $((nodes * gpus)) ]] ||
        die "--devices $devices: the job has $nodes x $gpus GPUs, and all would train; ask Slurm for as many as are to"
fi
if [[ $torchrun -eq 1 ]]; then
    [[ $gpus -gt 0 ]] || die "--torchrun needs GPUs: fairseq divides by their number"
    command=(torchrun --nnodes "$nodes" --node_rank "${SLURM_NODEID:-${NODE_RANK:-0}}"
        --nproc_per_node "$((devices / nodes))" --master_addr "${MASTER_ADDR:-127.0.0.1}"
        --master_port "${MASTER_PORT:-29500}" --no_python "${command[@]}")
fi
if [[ $gpus -eq 0 ]]; then keep_freed_memory; fi
# What the recipe starts from, if it does not start from nothing.
start=$(recipe_commands "$recipe" "${variant[@]}" start --run-dir "$run_dir")
start=$(sed "/^scripts\/train.sh /s/$/ ${first_options[*]}/" <<<"$start")
if [[ $dry_run -eq 1 ]]; then
    if [[ -n $start ]]; then printf '%s\n' "$start"; fi
    env | { grep '^MALLOC_' || true; } | sort
    printf '%q ' "${command[@]}"
    echo
    exit
fi

# The data that the dictionary was made for?
if [[ -e $data/manifest.json ]]; then python -m ode_transformer text intact "$data"; fi

# The same run, or another that must not be mixed with it?
mkdir -p "$run_dir"
if [[ $nodes -eq 1 && ${SLURM_NTASKS:-1} -eq 1 ]]; then alone_in "$run_dir"; fi
if [[ -d $data ]]; then
    dictionaries=$(cd "$data" && sha256sum -- dict.*.txt)
    if ! begun "$run_dir" || [[ ! -e $run_dir/dictionaries.sha256 ]]; then
        write_whole "$run_dir/dictionaries.sha256" "$dictionaries"
    elif [[ $dictionaries != "$(cat "$run_dir/dictionaries.sha256")" ]]; then
        die "$run_dir was trained with other dictionaries than $data holds now; take another --run-dir"
    fi
fi
if ! begun "$run_dir"; then
    write_whole "$run_dir/train.command" "$line"
    if [[ $rank -eq 0 ]]; then rm -f "$run_dir/train.log"; fi # of nothing that is left
elif [[ $(identity "$line") != "$(identity "$(cat "$run_dir/train.command" 2>/dev/null)")" ]]; then
    other_run "$run_dir"
elif [[ -e $run_dir/.trained ]]; then
    echo "$run_dir is trained" >&2
    exit
fi
if has_its_updates "$run_dir" "$rank" "${command[@]}"; then
    if [[ $rank -eq 0 ]]; then write_whole "$run_dir/.trained" ''; fi
    exit
fi
if [[ $rank -eq 0 ]]; then export ODE_TRANSFORMER_COMMANDS=$run_dir/commands.log; fi
if [[ -n $start && ! -e $run_dir/checkpoint_last.pt ]]; then
    from=$(sed -nE 's/.* --finetune-from-model ([^ ]+) .*/\1/p' <<<"$line")
    if [[ $nodes -gt 1 ]]; then
        [[ -e $from ]] || die "$from: not there; on several nodes it has to be made before, by:
$start"
    else
        while read -r line; do
            first=()
            eval "first=($line)"
            if [[ ${first[0]} == scripts/train.sh ]]; then
                # Trained as it was, on whatever devices, it serves.
                if [[ -e $(run_dir_of "${first[@]:1:${#first[@]}-1-${#first_options[@]}}")/.trained ]]; then continue; fi
            fi
            run "${first[@]}" </dev/null
        done <<<"$start"
    fi
fi
if [[ $rank -eq 0 ]]; then note_where "$run_dir"; fi
# Not among the commands of the record, which has it, and its time, whatever stopped it.
ODE_TRANSFORMER_COMMANDS='' run "${command[@]}" 2>&1 | tee -a "$run_dir/train.log"
if [[ $rank -eq 0 ]]; then write_whole "$run_dir/.trained" ''; fi
