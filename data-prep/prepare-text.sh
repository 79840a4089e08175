#!/usr/bin/env bash
# Prepare plain text for masked language models: fairseq's task masked_lm, and masked_lm_pairs.
#
# Usage: data-prep/prepare-text.sh [options]
#   --input PATH[:PATH...]   files whose documents are separated by empty lines, or folders of .txt files, one document
#                            each (default: the variable TEXT_INPUT)
#   --imdb                   instead of --input, the training reviews of IMDB, cut into sentences
#   --valid PATH[:PATH...]   the text for validation (default: every 200th document of the input)
#   --split-sentences        split lines, which hold several sentences each
#   --like DIR               cut text as the folder of a pretrained model says (see prepare-roberta.sh); else subwords
#                            are learned on the training text
#   --size N                 symbols to learn (default: 16000)
#   --out DIR                default: data-bin/text, with --imdb data-bin/text-imdb; without any text, one that was made
#                            before with the same options will do
#   --workers N              processes that binarize (default: 2)
#   --dry-run                print the commands only
#
# IMDB's reviews come from RAW_DIR, a folder with aclImdb/ in it, or from ODE_TRANSFORMER_DATA, one with imdb/ or
# imdb.tar.xz. DIR is complete once it exists; it also holds the segmentation, so that it can be the --like of
# another script.
set -euo pipefail
# shellcheck source=data-prep/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
needs+=(fairseq-preprocess)

input='' imdb='' valid='' split_sentences='' like='' size=16000 workers=2
options {input,valid,like}=text {imdb,split-sentences}=switch {size,workers}=number -- "$@"
name=text
if [[ -n $imdb ]]; then
    [[ -z $input ]] || die "--imdb: is another text than --input $input"
    name=text-imdb split_sentences=yes
elif [[ -z ${input:=${TEXT_INPUT:-}} ]]; then
    needed="--input is needed, or TEXT_INPUT: your text, such as that of Wikipedia; or --imdb; see --help"
    if [[ -e ${out:=$root/data-bin/$name} ]]; then # made of what was said then
        input=$("${text_tool[@]}" setting "$out/manifest.json" input)
        [[ -n $input ]] || die "$out: was made of no --input, but perhaps of IMDB's reviews; $needed"
    else
        [[ $dry_run -eq 1 ]] || die "$needed"
        input=TEXT_INPUT
    fi
fi
begin input="$input" valid="$valid" like="$like" size="$size" split_sentences="$split_sentences"
inputs=() valids=()
if [[ -n $input ]]; then
    IFS=: read -ra inputs <<<"$input"
else
    find_set imdb "$text/imdb"
    if [[ -z $folder ]]; then
        [[ $dry_run -eq 1 ]] || die "IMDB's reviews are not there ($tried); or say --input, see --help"
        folder=RAW_DIR
    fi
    inputs=("$folder/aclImdb/train")
    if [[ -d $folder/aclImdb/val ]]; then inputs+=("$folder/aclImdb/val"); fi
fi
more=(--size "$size" --workers "$workers")
if [[ -n $valid ]]; then
    IFS=: read -ra valids <<<"$valid"
    more+=(--valid "${valids[@]}")
fi
if [[ -n $split_sentences ]]; then more+=(--split-sentences); fi
how=$text/symbols
if [[ -n $like ]]; then
    how=$like more+=(--like "$like") dictionary=(--srcdict "$like/dict.txt")
fi
once "$text/symbols" python -m ode_transformer documents "${inputs[@]}" "${more[@]}" --output-dir "$text/symbols.part"
run fairseq-preprocess --only-source "${dictionary[@]}" --trainpref "$text/symbols/train" \
    --validpref "$text/symbols/valid" --destdir "$out.part" --workers "$workers"
for file in sentencepiece.model encoder.json vocab.bpe; do
    if [[ -f $how/$file ]]; then run cp "$how/$file" "$out.part"; fi
done
finish
