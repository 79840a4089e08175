#!/usr/bin/env bash
# Prepare WMT16 English-Romanian (Europarl and SETimes, 610 thousand pairs): normalized, tokenized, pairs of 1 to 80
# tokens of a ratio up to 9, joint BPE, a dictionary per language; validated on newsdev2016.
#
# Usage: data-prep/prepare-wmt16-en-ro.sh [options]
#   --romanian raw|normalised|stripped   Romanian text and references: as they are; with commas for cedillas;
#                      also without diacritics (default: normalised). BLEU differs by points between them.
#   --delight DIR      use the text of DeLight, 602 thousand pairs, as the ODE Transformer paper does. DIR is the folder
#                      of binarized data that DeLight published (dict.en.txt, train.en-ro.en.bin and so on); its address
#                      is in DeLight's notes on WMT'16 En-Ro. --romanian and --merges are then ignored.
#
# RAW_DIR: training-parallel-ep-v8.tgz, en-ro.txt.zip (SETimes, of OPUS), dev-romanian-updated.tgz, test.tgz;
# URL_EUROPARL, URL_SETIMES, URL_DEV, URL_TEST. test is newstest2016, 1,999 sentences.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

source=en target=ro merges=32000 romanian=normalised delight=''
corpus_options 'romanian=raw|normalised|stripped' delight=text -- "$@"
if [[ -n $delight ]]; then
    delight=$(realpath -m -- "$delight") name=wmt16.en-ro.delight tokeniser=published merges=published
    [[ -f $delight/dict.ro.txt || -n $dry_run ]] || die "--delight $delight: holds no dict.ro.txt"
    corpus romanian=published
    into "$text/bpe" text unbinarize "$delight" --langs en ro --splits train valid test
    origin="DeLight's binarized data"
    prepare --start bpe --splits train valid test --dictionaries "$delight"/dict.{en,ro}.txt
    exit
fi
name=wmt16.en-ro.$romanian
corpus romanian="$romanian"

wmt16=https://data.statmt.org/wmt16/translation-task
add_pair train EUROPARL training-parallel-ep-v8.tgz $wmt16 training-parallel-ep-v8/europarl-v8.ro-en.{en,ro}
add_pair train SETIMES en-ro.txt.zip https://object.pouta.csc.fi/OPUS-SETIMES/v2/moses SETIMES.en-ro.{en,ro}
add_pair valid DEV dev-romanian-updated.tgz $wmt16 dev/newsdev2016-enro-{src.en,ref.ro}.sgm
add_pair test TEST test.tgz $wmt16 test/newstest2016-enro-{src.en,ref.ro}.sgm
prepare_raw --normalize --straight-quotes '' "${files[@]}" --romanian "$romanian" --splits train valid test \
    --max-tokens 80 --ratio 9 --separate-dictionaries
compare newsdev2016 "$text/bpe/valid.ro" 1999
compare newstest2016 "$out/tok/test.ro" 1999
