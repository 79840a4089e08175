#!/usr/bin/env bash
# Prepare WMT14 English-German (4.5 million pairs), in one of the versions that papers use.
#
# Usage: data-prep/prepare-wmt14-en-de.sh [options]
#   --version V        news-commentary-v9    as distributed by WMT14 and used by Vaswani et al. (default)
#                      news-commentary-v12   with the later news commentary, the default of fairseq
#                      wmt16                 the text of Ott et al. 2018 ("Scaling NMT"): WMT16's corpora, tokenized, 1 to
#                                            80 tokens, 32,000 merges, validated on newstest2013
#   --validation newstest2013|held-out   held-out: every 100th pair, fairseq's default (default: newstest2013)
#   --clean units|tokens   pairs of 1 to 250 units of a ratio up to 1.5, as fairseq does; or of 1 to 80 tokens before
#                      BPE is learned, of a ratio up to 9, as Moses does when asked for 1 to 80 (default: units)
# --validation, --clean and --merges have no meaning for wmt16, which is one text. Words of the others are split at hyphens.
#
# RAW_DIR: training-parallel-europarl-v7.tgz, training-parallel-commoncrawl.tgz, training-parallel-nc-v9.tgz (or -nc-v11,
# -nc-v12), dev.tgz, test-full.tgz; URL_EUROPARL, URL_COMMONCRAWL, URL_NEWS_COMMENTARY, URL_DEV, URL_TEST. For wmt16 also
# the original text of Ott et al., wmt16_en_de.tar.gz, which has no address any more (URL_SCALING_NMT). Without it its
# text is made again with the steps of google/seq2seq's wmt16_en_de.sh, with joint BPE: from the same corpora, with the
# rules of Moses at that time, which did not split the full stop off an abbreviation at the end of a line. Other rules
# that Moses has changed since may differ, and so the merges; the script warns if the numbers of pairs differ.
# test is newstest2014 in full (3,003 sentences; 63,078 German tokens in wmt16), test1 newstest2013 (3,000).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

source=en target=de merges=40000 version=news-commentary-v9 validation=newstest2013 clean=units no_aggressive=no
corpus_options 'version=news-commentary-v9|news-commentary-v12|wmt16' 'validation=newstest2013|held-out' \
    'clean=units|tokens' -- "$@"
name=wmt14.en-de.$version splits=(train valid test test1) flags=(--aggressive --straight-quotes "--normalize --printable") more=()
out=${out:-$root/data-bin/$name}
if [[ $version == wmt16 ]]; then
    [[ "$validation $clean $merges" == 'newstest2013 units 40000' ]] ||
        die "--validation, --clean, --merges: have no meaning for --version wmt16, which is one text"
    clean=tokens no_aggressive=yes merges=32000 earlier=yes flags=('' '' '') more=(--symbols 32768)
    if [[ -e $out ]]; then # existing data keep their kind
        if grep -qs '"tokeniser": "published"' "$out/manifest.json"; then tokeniser=published; fi
    elif [[ -f ${RAW_DIR:-}/wmt16_en_de.tar.gz || -n ${URL_SCALING_NMT:-} ]]; then
        tokeniser=published
    fi
fi
if [[ $clean == units ]]; then more+=(--counted units --max-tokens 250 --ratio 1.5); else more+=(--max-tokens 80 --ratio 9); fi
if [[ $validation == held-out ]]; then more+=(--every 100); fi
corpus version="$version" validation="$validation" clean="$clean" no-aggressive="$no_aggressive"

statmt=https://www.statmt.org
add_pair test TEST test-full.tgz $statmt/wmt14 test-full/newstest2014-deen-{src.en,ref.de}.sgm
add_pair test1 DEV dev.tgz $statmt/wmt14 dev/newstest2013.{en,de}
if [[ $validation == newstest2013 ]]; then files+=(--add valid "${files[@]: -2}"); fi

if [[ $tokeniser == published ]]; then
    unpack SCALING_NMT wmt16_en_de.tar.gz "${URL_SCALING_NMT:-}"
    copy_units "$unpacked/bpe.32000" {train=train.tok.clean,{valid,test1}=newstest2013.tok,test=newstest2014.tok}.bpe.32000
    origin+=", wmt16_en_de.tar.gz"
    prepare "${files[@]}" --start bpe --splits "${splits[@]}" "${more[@]:0:2}"
else
    add_pair train EUROPARL training-parallel-europarl-v7.tgz $statmt/wmt13 training/europarl-v7.de-en.{en,de}
    add_pair train COMMONCRAWL training-parallel-commoncrawl.tgz $statmt/wmt13 commoncrawl.de-en.{en,de}
    case $version in
    *-v9) from=$statmt/wmt14 news=training/$version ;;
    *-v12) from=https://data.statmt.org/wmt17/translation-task news=training/$version ;;
    wmt16) from=https://data.statmt.org/wmt16/translation-task news=training-parallel-nc-v11/news-commentary-v11 ;;
    esac
    add_pair train NEWS_COMMENTARY "training-parallel-nc-${news##*-}.tgz" "$from" "$news".de-en.{en,de}
    prepare_raw "${flags[@]}" "${files[@]}" --splits "${splits[@]}" "${more[@]}"
fi
compare newstest2014 "$out/tok/test.de" 3003
compare newstest2013 "$out/tok/test1.de" 3000
if [[ $version == wmt16 ]]; then
    compare training "$text/bpe/train.de" 4500966
    compare "German tokens of newstest2014, which scores call ref_len" "$out/tok/test.de" 63078 words
fi
