#!/usr/bin/env bash
# Prepare a mixture of real German-English text (Tatoeba, news, Multi30k, Europarl, TED and more, 245 thousand pairs): a
# substitute of IWSLT14's size for when that is not available. It is not a published benchmark.
#
# Usage: data-prep/prepare-deen-mix.sh [options]
#
# ODE_TRANSFORMER_DATA: deen_mix, with train.{de,en}; iwslt14, with test.raw.{de,en}; newstest, with en-de/newstest2014.
# Normalized, tokenized, lower-cased; pairs of 1 to 175 tokens with a ratio of at most 1.5; every 100th for validation.
# test is IWSLT14's test set (6,750 pairs), test1 newstest2014 (3,003): neither is in the training text.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

name=deen-mix source=de target=en merges=10000
corpus_options -- "$@"
corpus protocol=iwslt14

set_of deen_mix
files+=(--add train "$folder"/train.{de,en})
set_of iwslt14
files+=(--add test "$folder"/test.raw.{de,en})
set_of newstest
files+=(--add test1 "$folder"/en-de/newstest2014.{de,en})
prepare_raw "--normalize --lowercase last" --straight-quotes '' "${files[@]}" --splits train valid test test1 \
    --max-tokens 175 --ratio 1.5 --every 100
compare "training and validation text" "$text/raw/train.en" 255417
compare "IWSLT14's test set" "$out/tok/test.en" 6750
compare newstest2014 "$out/tok/test1.en" 3003
