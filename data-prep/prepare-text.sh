#!/usr/bin/env bash
# Prepare plain text for masked language models: fairseq's task masked_lm, and masked_lm_pairs.
#
# Usage: data-prep/prepare-text.sh [options]
#   --input PATH[:PATH...]   files whose documents are separated by empty lines, or folders of .txt files, one document
#                            each (default: the variable TEXT_INPUT)
#   --imdb                   instead of --input, the training reviews of IMDB, cut into sentences
#   --valid PATH[:PATH...]   the text for validation (default: every 200th document of the input)
#   --held-out N             without --valid, every N-th document instead
#   --split-sentences        split lines, which hold several sentences each
#   --like DIR               cut text as the folder of a pretrained model says (see prepare-roberta.sh); else subwords
#                            are learned on the training text
#   --size N                 symbols to learn (default: 16000)
#
# DIR is by default data-bin/text, with --imdb data-bin/text-imdb. It also holds the segmentation, so that it can be the
# --like of another script. IMDB's reviews come from where prepare-imdb.sh finds them, or downloads them from.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

input='' imdb='' valid='' split_sentences='' like='' size=16000 held_out='' workers=2
options {input,valid,like}=text {imdb,split-sentences}=switch {size,held-out,workers}=number -- "$@"
name=text
if [[ -n $imdb ]]; then
    [[ -z $input ]] || die "--imdb: is another text than --input $input"
    name=text-imdb split_sentences=yes
elif [[ -z ${input:=${TEXT_INPUT:-}} ]]; then
    [[ -n $dry_run ]] ||
        die "--input is needed, or TEXT_INPUT: your text, such as that of Wikipedia; or --imdb; see --help"
    input=TEXT_INPUT
fi
[[ -z $like || $size == 16000 ]] || die "--size $size: cannot be combined with --like $like, whose symbols are used"
begin input="$input" valid="$valid" like="$like" size="$size" split_sentences="$split_sentences" \
    ${held_out:+held_out="$held_out"}
if [[ -n $input ]]; then
    IFS=: read -ra inputs <<<"$input"
else
    published_imdb
    inputs=("$folder"/aclImdb/train/{neg,pos}) # not unsup, nor the lists of addresses
    if [[ -d $folder/aclImdb/val ]]; then inputs+=("$folder"/aclImdb/val/{neg,pos}); fi
fi
IFS=: read -ra valids <<<"$valid"
into "$text/symbols" dataset documents "${inputs[@]}" --size "$size" --workers "$workers" \
    ${held_out:+--held-out "$held_out"} ${valid:+--valid "${valids[@]}"} ${split_sentences:+--split-sentences} \
    ${like:+--like "$like"}
binarise "$text/symbols" ${like:+--dictionary "$like/dict.txt"}
