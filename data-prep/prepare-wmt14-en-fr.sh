#!/usr/bin/env bash
# Prepare WMT14 English-French (36 million pairs), as fairseq does: tokenized, every 1,333rd pair for validation, joint
# BPE, pairs of 1 to 250 units of a ratio up to 1.5. The text takes 100 GB.
#
# Usage: data-prep/prepare-wmt14-en-fr.sh [options]
#
# RAW_DIR: training-parallel-europarl-v7.tgz, training-parallel-commoncrawl.tgz, training-parallel-un.tgz,
# training-parallel-nc-v9.tgz, training-giga-fren.tar, test-full.tgz; URL_EUROPARL, URL_COMMONCRAWL, URL_UN,
# URL_NEWS_COMMENTARY, URL_GIGA, URL_TEST. test is newstest2014 in full, 3,003 sentences.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

name=wmt14.en-fr source=en target=fr merges=40000
corpus_options -- "$@"
corpus protocol=fairseq

statmt=https://www.statmt.org
add_pair train EUROPARL training-parallel-europarl-v7.tgz $statmt/wmt13 training/europarl-v7.fr-en.{en,fr}
add_pair train COMMONCRAWL training-parallel-commoncrawl.tgz $statmt/wmt13 commoncrawl.fr-en.{en,fr}
add_pair train UN training-parallel-un.tgz $statmt/wmt13 un/undoc.2000.fr-en.{en,fr}
add_pair train NEWS_COMMENTARY training-parallel-nc-v9.tgz $statmt/wmt14 training/news-commentary-v9.fr-en.{en,fr}
add_pair train GIGA training-giga-fren.tar $statmt/wmt10 giga-fren.release2.fixed.{en,fr}.gz
add_pair test TEST test-full.tgz $statmt/wmt14 test-full/newstest2014-fren-{src.en,ref.fr}.sgm
prepare_raw --aggressive --straight-quotes "--normalize --printable" "${files[@]}" --splits train valid test \
    --counted units --max-tokens 250 --ratio 1.5 --every 1333
if [[ $merges -eq 40000 ]]; then # other units leave other pairs
    compare training "$text/bpe/train.fr" 35762532
    compare validation "$text/bpe/valid.fr" 26822
fi
compare newstest2014 "$out/tok/test.fr" 3003
