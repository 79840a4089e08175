#!/usr/bin/env bash
# Average checkpoints, as a recipe says or as the options do.
#
# Usage: scripts/average.sh RECIPE [--run-dir DIR] [--scale small] [--seed N]
#        scripts/average.sh DIR --last-epochs N | --last-updates N | --best N  --output FILE
#   RECIPE             a name that `ode-transformer recipe list` prints, or a YAML file
#   --run-dir DIR      where its checkpoints are and average.pt goes (default: runs/RECIPE)
#   --scale small, --seed N   of which run of the recipe, as for scripts/train.sh
#   DIR                a folder of checkpoints
#   --last-epochs N    the newest N of checkpointE.pt
#   --last-updates N   the newest N of checkpoint_E_U.pt
#   --best N           the best N that --keep-best-checkpoints kept; 1 is checkpoint_best.pt
#   --output FILE      the file to write; an old one stays until the new one is whole
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

what='' run_dir='' variant=() output='' which=()
while [[ $# -gt 0 ]]; do
    case $1 in
    -h | --help) usage; exit 0 ;;
    --run-dir) run_dir=$(absolute "$(argument --run-dir "$@")"); shift ;;
    --scale | --seed) variant+=("$1" "$(argument "$1" "$@")"); shift ;;
    --last-epochs | --last-updates | --best) which+=("$1" "$(argument "$1" "$@")"); shift ;;
    --output) output=$(absolute "$(argument --output "$@")"); shift ;;
    -*) die "unknown option $1; see --help" ;;
    *) [[ -z $what ]] || die "one recipe or folder, got $what and $1"; what=$1 ;;
    esac
    shift
done
[[ -n $what ]] || die "a recipe or a folder is needed; see --help"
[[ ${#which[@]} -gt 0 || -z $output ]] || die "--output is for a folder with --last-epochs, --last-updates or --best"
[[ ${#which[@]} -eq 0 || -z $run_dir ]] || die "--run-dir is for a recipe; $what is taken for a folder"
if [[ ${#which[@]} -gt 0 ]]; then
    [[ -n $output ]] || die "--output is needed"
    what=$(absolute "$what")
    cd "$root"
    run python -m ode_transformer average "$what" "${which[@]}" --output "$output"
else
    what=$(recipe_name "$what")
    cd "$root"
    text=$(recipe_commands "$what" "${variant[@]}" average ${run_dir:+--run-dir "$run_dir"})
    eval "run $text"
fi
