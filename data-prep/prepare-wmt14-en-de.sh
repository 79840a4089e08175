#!/usr/bin/env bash
# Prepare WMT14 English-German (4.5 million pairs), in one of the versions that papers use.
#
# Usage: data-prep/prepare-wmt14-en-de.sh [options]
#   --version V        news-commentary-v9    as WMT14 distributed it, and Vaswani et al. took it (default)
#                      news-commentary-v12   with the later news commentary, fairseq's own default
#                      scaling-nmt           the tokenised and segmented archive of Ott et al. 2018 (WMT16's text)
#   --out DIR          default: data-bin/wmt14.en-de.VERSION; the text goes to DIR.text beside it
#   --tokeniser sacremoses|moses   moses: the perl programs, bit for bit as published (default: TOKENISER, or
#                      sacremoses)
#   --merges N         BPE merges (default: 40000)
#   --validation newstest2013|held-out   held-out: every 100th pair, fairseq's default (default: newstest2013)
#   --clean units|tokens   pairs of 1 to 250 units of a ratio up to 1.5, as fairseq does; or of 1 to 80 tokens before
#                      BPE is learned, of a ratio up to 9, as Moses does when asked for 1 to 80 (default: units)
#   --no-aggressive    do not split words at hyphens (tokenizer.perl without -a)
#   --workers N        processes (default: one a processor)
#   --dry-run          print the commands only
# With --version scaling-nmt only --version, --out, --workers and --dry-run have a meaning.
#
# Where things come from:
#   RAW_DIR            a folder with the archives: training-parallel-europarl-v7.tgz, training-parallel-commoncrawl.tgz,
#                      training-parallel-nc-v9.tgz (or -nc-v12), dev.tgz, test-full.tgz; for scaling-nmt
#                      wmt16_en_de.tar.gz, test-full.tgz, dev.tgz; else they are downloaded
#   URL_EUROPARL, URL_COMMONCRAWL, URL_NEWS_COMMENTARY, URL_DEV, URL_TEST, URL_SCALING_NMT   addresses of their own
#   ARCHIVES_SHA256    a list of SHA-256 sums to check archives with (default: data-prep/checksums/archives.sha256)
#   MOSES_DIR, URL_MOSES   Moses' folder scripts, or where one commit of Moses is (default: a pinned one)
#
# test is newstest2014 in full (3,003 sentences; 63,078 German tokens without -a), test1 newstest2013 (3,000).
# DIR is complete once it is there; a second run does nothing, one that was stopped goes on.
set -euo pipefail
# shellcheck source=data-prep/archives.sh
source "$(dirname "${BASH_SOURCE[0]}")/archives.sh"

source=en target=de merges=40000 version=news-commentary-v9 validation=newstest2013 aggressive=yes
clean=units given=()
while [[ $# -gt 0 ]]; do
    taken=2
    case $1 in --validation | --clean | --no-aggressive | --tokeniser | --merges) given+=("$1") ;; esac
    case $1 in
    --version) version=$(argument --version "$@") ;;
    --validation) validation=$(argument --validation "$@") ;;
    --clean) clean=$(argument --clean "$@") ;;
    --no-aggressive) aggressive=no taken=1 ;;
    *) common_option "$@" ;;
    esac
    shift "$taken"
done
choice --version "$version" news-commentary-v9 news-commentary-v12 scaling-nmt
choice --validation "$validation" newstest2013 held-out
choice --clean "$clean" units tokens
if [[ $version == scaling-nmt ]]; then
    [[ ${#given[@]} -eq 0 ]] || die "${given[*]}: has no meaning for --version scaling-nmt, whose text is published"
    clean=published aggressive=no tokeniser=published merges=32000
fi
name=wmt14.en-de.$version
if [[ $clean == units ]]; then max_tokens=250 ratio=1.5; else max_tokens=80 ratio=9; fi
if [[ $validation == held-out ]]; then every=100; fi
if [[ $aggressive == yes ]]; then common=(--aggressive); fi
train_only=(--normalise --printable)
begin version="$version" validation="$validation" clean="$clean" aggressive="$aggressive"

statmt=https://www.statmt.org
unpack TEST test-full.tgz $statmt/wmt14/test-full.tgz test-full
test=("$unpacked/test-full/newstest2014-deen-src.en.sgm" "$unpacked/test-full/newstest2014-deen-ref.de.sgm")
unpack DEV dev.tgz $statmt/wmt14/dev.tgz dev
dev=("$unpacked/dev/newstest2013.en" "$unpacked/dev/newstest2013.de")

if [[ $version == scaling-nmt ]]; then
    unpack SCALING_NMT wmt16_en_de.tar.gz \
        'https://drive.usercontent.google.com/download?id=0B_bZck-ksdkpM25jRUN2X2UxMm8&export=download&confirm=t'
    once "$text/raw" "${text_tool[@]}" gather --langs en de --add newstest2014 "${test[@]}" --add newstest2013 \
        "${dev[@]}" --output-dir "$text/raw.part"
    files=()
    for split in train.tok.clean.bpe.32000 newstest2013.tok.bpe.32000 newstest2014.tok.bpe.32000; do
        files+=(--add "${split%%.*}" "$unpacked/$split.en" "$unpacked/$split.de")
    done
    once "$text/bpe" "${text_tool[@]}" gather --langs en de "${files[@]}" --output-dir "$text/bpe.part"
    once "$text/codes" cp "$unpacked/bpe.32000" "$text/codes.part"
    dictionary=(--nwordssrc 32768 --nwordstgt 32768)
    binarise "$name" "$(origin)" codes - train newstest2013 newstest2014 newstest2013
else
    unpack EUROPARL training-parallel-europarl-v7.tgz $statmt/wmt13/training-parallel-europarl-v7.tgz \
        training/europarl-v7.de-en.{en,de}
    corpora=("$unpacked/training/europarl-v7.de-en")
    unpack COMMONCRAWL training-parallel-commoncrawl.tgz $statmt/wmt13/training-parallel-commoncrawl.tgz \
        commoncrawl.de-en.{en,de}
    corpora+=("$unpacked/commoncrawl.de-en")
    if [[ $version == news-commentary-v9 ]]; then
        news=training-parallel-nc-v9.tgz url=$statmt/wmt14
    else
        news=training-parallel-nc-v12.tgz url=https://data.statmt.org/wmt17/translation-task
    fi
    unpack NEWS_COMMENTARY $news $url/$news training/"$version".de-en.{en,de}
    corpora+=("$unpacked/training/$version.de-en")
    files=(--add test "${test[@]}" --add test1 "${dev[@]}")
    if [[ $every -eq 0 ]]; then files+=(--add valid "${dev[@]}"); fi
    for corpus in "${corpora[@]}"; do files+=(--add train "$corpus.en" "$corpus.de"); done
    once "$text/raw" "${text_tool[@]}" gather --langs en de "${files[@]}" --output-dir "$text/raw.part"
    prepare test test1
fi
compare newstest2014 "$out/tok/test.de" 3003
compare newstest2013 "$out/tok/test1.de" 3000
if [[ $aggressive == no ]]; then
    compare "German tokens of newstest2014, which scores call ref_len" "$out/tok/test.de" 63078 words
fi
