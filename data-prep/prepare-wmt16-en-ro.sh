#!/usr/bin/env bash
# Prepare WMT16 English-Romanian (Europarl and SETimes, 610 thousand pairs): normalised, tokenised, pairs of 1 to 80
# tokens of a ratio up to 9, joint BPE, a dictionary a language; validated on newsdev2016.
#
# Usage: data-prep/prepare-wmt16-en-ro.sh [options]
#   --romanian raw|normalised|stripped   of Romanian text, references alike: as it is; cedillas become commas;
#                      and diacritics go (default: normalised). BLEU differs by points: compare like with like.
#   --out DIR          default: data-bin/wmt16.en-ro.ROMANIAN; the text goes to DIR.text beside it
#   --tokeniser sacremoses|moses   moses: the perl programs, bit for bit as published (default: TOKENISER, or
#                      sacremoses)
#   --merges N         BPE merges (default: 32000)
#   --workers N        processes (default: one a processor)
#   --dry-run          print the commands only
#
# Where things come from:
#   RAW_DIR            a folder with the archives training-parallel-ep-v8.tgz, en-ro.txt.zip (SETimes, of OPUS),
#                      dev-romanian-updated.tgz, test.tgz; else they are downloaded
#   URL_EUROPARL, URL_SETIMES, URL_DEV, URL_TEST   addresses of their own
#   ARCHIVES_SHA256    a list of SHA-256 sums to check archives with (default: data-prep/checksums/archives.sha256)
#   MOSES_DIR, URL_MOSES   Moses' folder scripts, or where one commit of Moses is (default: a pinned one)
#
# test is newstest2016, 1,999 sentences.
# DIR is complete once it is there; a second run does nothing, one that was stopped goes on.
set -euo pipefail
# shellcheck source=data-prep/archives.sh
source "$(dirname "${BASH_SOURCE[0]}")/archives.sh"

source=en target=ro merges=32000 romanian=normalised max_tokens=80 ratio=9
while [[ $# -gt 0 ]]; do
    taken=2
    case $1 in
    --romanian) romanian=$(argument --romanian "$@") ;;
    *) common_option "$@" ;;
    esac
    shift "$taken"
done
choice --romanian "$romanian" raw normalised stripped
name=wmt16.en-ro.$romanian
common=(--normalise) joined=no
begin romanian="$romanian"

wmt16=https://data.statmt.org/wmt16/translation-task
unpack EUROPARL training-parallel-ep-v8.tgz $wmt16/training-parallel-ep-v8.tgz \
    training-parallel-ep-v8/europarl-v8.ro-en.{en,ro}
corpus=$unpacked/training-parallel-ep-v8/europarl-v8.ro-en
files=(--add train "$corpus.en" "$corpus.ro")
unpack SETIMES en-ro.txt.zip https://object.pouta.csc.fi/OPUS-SETIMES/v2/moses/en-ro.txt.zip
files+=(--add train "$unpacked/SETIMES.en-ro.en" "$unpacked/SETIMES.en-ro.ro")
unpack DEV dev-romanian-updated.tgz $wmt16/dev-romanian-updated.tgz dev
files+=(--add valid "$unpacked/dev/newsdev2016-enro-src.en.sgm" "$unpacked/dev/newsdev2016-enro-ref.ro.sgm")
unpack TEST test.tgz $wmt16/test.tgz test
files+=(--add test "$unpacked/test/newstest2016-enro-src.en.sgm" "$unpacked/test/newstest2016-enro-ref.ro.sgm")
once "$text/raw" "${text_tool[@]}" gather --langs en ro "${files[@]}" --romanian "$romanian" \
    --output-dir "$text/raw.part"
prepare test
compare newsdev2016 "$text/bpe/valid.ro" 1999
compare newstest2016 "$out/tok/test.ro" 1999
