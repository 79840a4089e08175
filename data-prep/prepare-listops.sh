#!/usr/bin/env bash
# Prepare ListOps: generated nested lists of digits with operators, classified by their value; nothing to download.
#
# Usage: data-prep/prepare-listops.sh [options]
#   --train N, --valid N, --test N   expressions (default: 96000, 2000, 2000)
#   --shortest N, --longest N        symbols per expression (default: 500, 2000)
#   --seed N           seed of the generator (default: 1)
#
# DIR is by default data-bin/listops.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

name=listops train=96000 valid=2000 test=2000 shortest=500 longest=2000 seed=1
options {train,valid,test,shortest,longest,seed}=number -- "$@"
begin train="$train" valid="$valid" test="$test" shortest="$shortest" longest="$longest" seed="$seed"
once "$text/symbols" python -m ode_transformer dataset listops "$text/symbols.part" --train "$train" --valid "$valid" \
    --test "$test" --shortest "$shortest" --longest "$longest" --seed "$seed"
binarise "$text/symbols"
