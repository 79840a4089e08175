#!/usr/bin/env bash
# Prepare SQuAD (Rajpurkar et al. 2016, 2018) for our task span_prediction: questions with windows of their paragraphs.
#
# Usage: data-prep/prepare-squad.sh [options]
#   --version 1.1|2.0      2.0 has questions without an answer (default: 1.1)
#   --like DIR             cut text as the folder of a pretrained model says (default: data-bin/roberta.large), which is
#                          prepared as prepare-glue.sh says
#   --max-symbols N        maximum symbols of a question with a window (default: 512)
#   --stride N             symbols from the beginning of a window to the beginning of the next (default: 128)
#   --longest-question N   symbols; longer questions are truncated (default: 64)
#   --generated N          no SQuAD, but N generated paragraphs in its layout, for rehearsals
#
# RAW_DIR: train-v1.1.json and dev-v1.1.json (or v2.0); ODE_TRANSFORMER_DATA: squad; URL_SQUAD. DIR is by default
# data-bin/squad-1.1.LIKE.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

version=1.1 like='' max_symbols=512 stride=128 longest_question=64 generated='' workers=''
options 'version=1.1|2.0' like=text {max-symbols,stride,longest-question,generated,workers}=number -- "$@"
begin_like "squad-$version" roberta.large version="$version" max_symbols="$max_symbols" stride="$stride" \
    longest_question="$longest_question" generated="$generated"
if [[ -z $generated ]]; then find_set squad; fi
archives=()
for file in {train,dev}-v"$version".json; do
    archive=$folder/$file
    if [[ -z $generated ]]; then
        RAW_DIR=$folder fetch URL_SQUAD "$file" "${URL_SQUAD:-https://rajpurkar.github.io/SQuAD-explorer/dataset}/$file"
    fi
    archives+=("$archive")
done
into "$text/symbols" dataset squad "${archives[@]}" --like "$like" --max-symbols "$max_symbols" \
    --stride "$stride" --longest-question "$longest_question"
binarise "$text/symbols" --dictionary "$like/dict.txt"
