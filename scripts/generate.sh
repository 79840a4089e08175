#!/usr/bin/env bash
# Translate the test sets of a recipe with its averaged checkpoint.
#
# Usage: scripts/generate.sh RECIPE [options] [-- more flags of fairseq-generate]
#   RECIPE             a name that `ode-transformer recipe list` prints, or a YAML file
#   --run-dir DIR      where average.pt is and generate/ goes (default: runs/RECIPE)
#   --scale small, --seed N   of which run of the recipe, as for scripts/train.sh
#   --checkpoint FILE  another checkpoint, or an ensemble a.pt:b.pt
#   --output FOLDER    where translations go (default: DIR/generate, which scripts/reproduce.sh scores; needed with
#                      --checkpoint, and with flags other than --cpu)
#
# Translations end up in FOLDER/generate-SUBSET.txt.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

recipe='' run_dir='' variant=() checkpoint='' output='' paths=()
while [[ $# -gt 0 ]]; do
    case $1 in
    -h | --help) usage; exit 0 ;;
    --run-dir) run_dir=$(absolute "$(argument --run-dir "$@")"); shift ;;
    --scale | --seed) variant+=("$1" "$(argument "$1" "$@")"); shift ;;
    --checkpoint) checkpoint=$(argument --checkpoint "$@"); shift ;;
    --output) output=$(absolute "$(argument --output "$@")"); shift ;;
    --) shift; break ;;
    -*) die "unknown option $1; see --help" ;;
    *) [[ -z $recipe ]] || die "one recipe, got $recipe and $1"; recipe=$(recipe_name "$1") ;;
    esac
    shift
done
[[ -n $recipe ]] || die "a recipe is needed; see --help"
if [[ $# -gt 0 && $* != --cpu || -n $checkpoint ]]; then
    [[ -n $output ]] || die "--output is needed with --checkpoint or flags: DIR/generate is of the recipe as it is"
fi
if [[ -n $checkpoint ]]; then
    IFS=: read -ra files <<<"$checkpoint"
    for file in "${files[@]}"; do
        [[ -f $file ]] || die "--checkpoint $checkpoint: no file $file"
        paths+=("$(absolute "$file")")
    done
    set -- --path "$(IFS=:; echo "${paths[*]}")" "$@"
fi
cd "$root"
text=$(recipe_commands "$recipe" "${variant[@]}" generate ${run_dir:+--run-dir "$run_dir"})
run_dir=${run_dir:-$(run_dir_of "$recipe" "${variant[@]}")}
[[ -n $checkpoint || -f $run_dir/average.pt ]] || die "$run_dir/average.pt is not there; run scripts/average.sh first"
[[ -z $output || ! -e $output ]] || die "--output $output: is there already"
output=${output:-$run_dir/generate}
# Whole, of an architecture that is known here, and of these dictionaries: others of the same size decode to garbage.
command=()
eval "command=($(head -n 1 <<<"$text"))"
python -m ode_transformer check "${paths[@]:-$run_dir/average.pt}" --data "${command[1]}"
# Into a folder beside: fairseq writes as it goes, and what is in the folder of the right name is whole.
rm -rf "$output.part"
while read -r line; do
    command=()
    eval "command=($line)"
    run "${command[@]}" --results-path "$output.part" "$@" </dev/null
done <<<"$text"
rm -rf "$output"
mv "$output.part" "$output"
for file in "$output"/generate-*.txt; do echo "$file"; done
