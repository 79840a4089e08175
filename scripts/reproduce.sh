#!/usr/bin/env bash
# Run a whole recipe: data, training, averaging, decoding, scoring, and a record of all of it.
#
# Usage: scripts/reproduce.sh RECIPE [options of `ode-transformer run`] [-- more flags of fairseq-train]
#   such as --run-dir DIR, --record FILE, --scale small, --seeds 1 2 3, --devices N, --cpu, --fp16, --trained,
#   --dry-run; `ode-transformer run --help`
#
# Finished steps are not repeated: a run that was interrupted continues where it was.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
handed_on "a recipe" "$@"
tool run "$@"
