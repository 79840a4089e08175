#!/usr/bin/env bash
# Translate the test sets of a recipe with its averaged checkpoint, or with others.
#
# Usage: scripts/generate.sh RECIPE [--run-dir DIR] [--scale small] [--seed N] [--cpu]
#        scripts/generate.sh RECIPE [--checkpoint FILE] --output FOLDER [options] [-- more flags of fairseq-generate]
#   RECIPE             a name that `ode-transformer recipe list` prints, or a YAML file
#   --checkpoint FILE  another checkpoint, or an ensemble a.pt:b.pt
#   --output FOLDER    where these translations go; those of the first form go to the run's own folder, which is scored
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
handed_on "a recipe" "$@"
case " $* " in
*' --'@(output|checkpoint)[\ =]* | *' -- '*) tool generate "$@" ;;
*) tool run "$1" --from generate --until generate "${@:2}" ;;
esac
