#!/usr/bin/env bash
# Prepare ListOps: generated nested lists of digits with operators, classified by their value; nothing to download.
#
# Usage: data-prep/prepare-listops.sh [options]
#   --out DIR          default: data-bin/listops; the text goes to DIR.text beside it
#   --train N, --valid N, --test N   expressions (default: 96000, 2000, 2000)
#   --shortest N, --longest N        symbols per expression (default: 500, 2000)
#   --seed N           seed of the generator (default: 1)
#   --dry-run          print the commands only
#
# DIR is complete if it exists; a second run does nothing, and refuses other settings.
set -euo pipefail
# shellcheck source=data-prep/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
needs+=(fairseq-preprocess)

name=listops train=96000 valid=2000 test=2000 shortest=500 longest=2000 seed=1
options {train,valid,test,shortest,longest,seed}=number -- "$@"
begin train="$train" valid="$valid" test="$test" shortest="$shortest" longest="$longest" seed="$seed"
run python -m ode_transformer listops "$text" --train "$train" --valid "$valid" --test "$test" \
    --shortest "$shortest" --longest "$longest" --seed "$seed"
for part in input0 label; do
    run fairseq-preprocess --only-source --destdir "$out.part/$part" \
        --trainpref "$text/train.$part" --validpref "$text/valid.$part" --testpref "$text/test.$part"
done
finish
