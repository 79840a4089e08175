#!/usr/bin/env bash
# Prepare IWSLT14 German-English (TED talks, 160 thousand pairs), as fairseq and the Macaron paper do: tokenized, pairs
# of 1 to 175 tokens of a ratio up to 1.5, lower-cased, every 23rd pair for validation, joint BPE, joined dictionary.
#
# Usage: data-prep/prepare-iwslt14-de-en.sh [options]
#
# RAW_DIR: de-en.tgz; URL_IWSLT14 (default: fairseq's copy).
# The test set is dev2010, TEDX dev2012, tst2010, tst2011, tst2012 in this order, 6,750 pairs. Its English side has
# 131,156 tokens, and equals the published text letter for letter, with Moses' programs and without.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

name=iwslt14.de-en source=de target=en merges=10000
corpus_options -- "$@"
corpus protocol=fairseq

unpack IWSLT14 de-en.tgz http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz de-en
files=(--add train "$unpacked"/de-en/train.tags.de-en.{de,en})
for part in TED.dev2010 TEDX.dev2012 TED.tst2010 TED.tst2011 TED.tst2012; do
    files+=(--add test "$unpacked/de-en/IWSLT14.$part.de-en".{de,en}.xml)
done
prepare_raw "--lowercase last" --straight-quotes '' "${files[@]}" --splits train valid test \
    --max-tokens 175 --ratio 1.5 --every 23
compare training "$text/bpe/train.en" 160239
compare validation "$text/bpe/valid.en" 7283
compare test "$text/bpe/test.en" 6750
compare "English tokens of the test set, which scores call ref_len" "$out/tok/test.en" 131156 words
