#!/usr/bin/env bash
# Average checkpoints, as a recipe says or as the options do.
#
# Usage: scripts/average.sh RECIPE [--run-dir DIR] [--scale small] [--seed N]
#        scripts/average.sh DIR --last-epochs N | --last-updates N | --best N  --output FILE
#   RECIPE             a name that `ode-transformer recipe list` prints, or a YAML file
#   DIR                a folder of checkpoints; see `ode-transformer average --help`
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
handed_on "a recipe or a folder" "$@"
case " $* " in
*' --'@(last-epochs|last-updates|best|output)[\ =]*) tool average "$@" ;;
*) tool run "$1" --from average --until average "${@:2}" ;;
esac
