#!/usr/bin/env bash
# Prepare the quickstart's corpus: generated German-English sentences, nothing to download.
#
# Usage: data-prep/prepare-quickstart.sh [options]
#   --seed N           seed of the generator (default: 1)
#
# The units are words, as the corpus has a closed vocabulary. DIR is by default data-bin/quickstart.de-en.
set -euo pipefail
# shellcheck source=data-prep/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

name=quickstart.de-en seed=1
options seed=number -- "$@"
begin seed="$seed"
run python -m ode_transformer corpus "$text" --seed "$seed"
texts=(--langs de en --splits train valid test --text-dir "$text" --data-dir "$out.part")
run "${text_tool[@]}" binarise "${texts[@]}"
run "${text_tool[@]}" manifest "${texts[@]}" --set quickstart --source generated --settings "${settings[@]}" --tokenise=
run mv "$out.part" "$out"
