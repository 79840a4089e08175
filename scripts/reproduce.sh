#!/usr/bin/env bash
# Run a whole recipe: data, training, averaging, decoding, scoring, and a record of all of it.
#
# Usage: scripts/reproduce.sh RECIPE [options] [-- more flags of fairseq-train]
#   RECIPE             a name that `ode-transformer recipe list` prints; or a YAML file, FILE.yaml or FILE.yaml/ROW
#   --run-dir DIR      where the run's files go (default: runs/RECIPE)
#   --record FILE      where the record goes (default: DIR/record.json)
#   --scale small      a rehearsal of the recipe: its own layers, narrow, on Multi30k, for few updates
#   --seed N           another seed than the recipe's; where files go changes with it
#   --devices N, --cpu, --fp16, --bf16, --amp, --torchrun   as for scripts/train.sh; fp32 on all GPUs by default
#   --trained          the training was done with scripts/train.sh, on other machines perhaps: go on from there
#   --dry-run          print the commands only
#
# Steps that are done are not done again: a run that was stopped goes on where it was.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

recipe='' run_dir='' variant=() record='' dry_run=0 trained=0 devices='' cpu=''
train_options=() show_options=() generate_options=()
while [[ $# -gt 0 ]]; do
    case $1 in
    -h | --help) usage; exit 0 ;;
    --run-dir) run_dir=$(absolute "$(argument --run-dir "$@")"); shift ;;
    --scale | --seed) variant+=("$1" "$(argument "$1" "$@")"); shift ;;
    --record) record=$(absolute "$(argument --record "$@")"); shift ;;
    --devices)
        devices=$(argument --devices "$@")
        train_options+=(--devices "$devices")
        shift
        ;;
    --fp16 | --bf16 | --amp) train_options+=("$1") show_options+=(--precision "${1#--}") ;;
    --cpu) cpu=' --cpu' train_options+=(--cpu) generate_options+=(--cpu) ;;
    --torchrun) train_options+=(--torchrun) ;;
    --trained) trained=1 ;;
    --dry-run) dry_run=1 ;;
    --) shift; break ;;
    -*) die "unknown option $1; see --help" ;;
    *) [[ -z $recipe ]] || die "one recipe, got $recipe and $1"; recipe=$(recipe_name "$1") ;;
    esac
    shift
done
[[ -n $recipe ]] || die "a recipe is needed; see --help"
cd "$root"
if [[ $dry_run -eq 1 ]]; then
    if [[ -z $devices ]]; then
        gpus=0
        if [[ -z $cpu ]]; then gpus=$(gpu_count); fi
        devices=$(python -m ode_transformer recipe devices "$recipe" "${variant[@]}" "$gpus")
    fi
    show_options+=(--devices "$devices" ${run_dir:+--run-dir "$run_dir"})
    text=$(python -m ode_transformer recipe show "$recipe" "${variant[@]}" "${show_options[@]}")
    while IFS= read -r line; do
        case $line in
        fairseq-train\ *) line+="$(if [[ $# -gt 0 ]]; then printf ' %q' "$@"; fi)$cpu" ;;
        fairseq-generate\ *) line+=$cpu ;;
        scripts/train.sh\ *) line+=" ${train_options[*]}" ;;
        esac
        echo "$line"
    done <<<"$text"
    echo
    run_dir=${run_dir:-$(run_dir_of "$recipe" "${variant[@]}")}
    echo "# record, of what these scripts leave behind"
    printf '%q ' python -m ode_transformer record "$recipe" "${variant[@]}" --run-dir "$run_dir" --output "${record:-$run_dir/record.json}"
    echo
    exit
fi
prepare=$(recipe_commands "$recipe" "${variant[@]}" prepare)
run_dir=${run_dir:-$(run_dir_of "$recipe" "${variant[@]}")}
mkdir -p "$run_dir/scores"
alone_in "$run_dir"
export ODE_TRANSFORMER_COMMANDS=$run_dir/commands.log

step() { printf '\n== %s: %s\n' "$recipe" "$1" >&2; }

# A finished step leaves a stamp; a step that is done anew takes away those of the steps after it.
finished() { [[ -f $run_dir/.$1 ]]; }
finish() { write_whole "$run_dir/.$1" "${2:-}"; }

step data
eval "run $prepare"

step training
if [[ $trained -eq 1 ]]; then
    [[ -e $run_dir/.trained ]] || die "--trained: $run_dir holds no finished training"
fi
if ! finished train; then rm -f "$run_dir/.average" "$run_dir/.generate"; fi
if [[ $trained -eq 1 || $(cat "$run_dir/.train" 2>/dev/null) == '*' ]]; then
    finish train '*'
else # if it is trained, asks whether it is the same run
    scripts/train.sh "$recipe" "${variant[@]}" --run-dir "$run_dir" "${train_options[@]}" -- "$@"
    finish train
fi
step averaging
if ! finished average; then
    rm -f "$run_dir/.generate"
    scripts/average.sh "$recipe" "${variant[@]}" --run-dir "$run_dir"
    finish average
fi
step decoding
if ! finished generate; then
    scripts/generate.sh "$recipe" "${variant[@]}" --run-dir "$run_dir" -- "${generate_options[@]}"
    finish generate
fi
step scoring
while read -r line; do
    command=()
    eval "command=($line)"
    file=${command[2]##*/generate-} # --generate-output DIR/generate/generate-SUBSET.txt
    run "${command[@]}"
    run "${command[@]}" --json >"$run_dir/scores/${file%.txt}.json.tmp"
    mv "$run_dir/scores/${file%.txt}.json.tmp" "$run_dir/scores/${file%.txt}.json"
done < <(recipe_commands "$recipe" "${variant[@]}" score --run-dir "$run_dir")
ODE_TRANSFORMER_COMMANDS='' run python -m ode_transformer record "$recipe" "${variant[@]}" --run-dir "$run_dir" \
    --output "${record:-$run_dir/record.json}"
