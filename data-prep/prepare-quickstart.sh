#!/usr/bin/env bash
# Prepare the quickstart's corpus: generated German-English sentences, nothing to download.
#
# Usage: data-prep/prepare-quickstart.sh [options]
#   --out DIR      default: data-bin/quickstart.de-en; the text goes to DIR.text beside it
#   --seed N       seed of the generator (default: 1)
#   --dry-run      print the commands only
#
# The units are words, as the corpus has a closed vocabulary. DIR is complete if it exists; a second run does nothing.
set -euo pipefail
# shellcheck source=data-prep/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
needs+=(fairseq-preprocess)

name=quickstart.de-en seed=1
options seed=number -- "$@"
begin seed="$seed"
run python -m ode_transformer corpus "$text" --seed "$seed"
run fairseq-preprocess --source-lang de --target-lang en --destdir "$out.part" \
    --trainpref "$text/train" --validpref "$text/valid" --testpref "$text/test"
run "${text_tool[@]}" manifest --set quickstart --source generated --langs de en --splits train valid test \
    --text-dir "$text" --data-dir "$out.part" --settings "${settings[@]}" --tokenise=
run mv "$out.part" "$out"
