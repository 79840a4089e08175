#!/usr/bin/env bash
# Prepare RACE (Lai et al. 2017) for fairseq's task sentence_ranking: articles, and questions with each of four options.
#
# Usage: data-prep/prepare-race.sh [options]
#   --like DIR      cut text as the folder of a pretrained model says (default: data-bin/roberta.large), which is prepared
#                   as prepare-glue.sh says
#   --generated N   no RACE, but N generated articles of each level in its layout, for rehearsals
#
# RAW_DIR: RACE/ or RACE.tar.gz; ODE_TRANSFORMER_DATA: race; URL_RACE.
# The test set is test, its articles for middle schools alone are test1, those for high schools test2. DIR is by default
# data-bin/race.LIKE.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

like='' generated='' workers=''
options like=text {generated,workers}=number -- "$@"
begin_like race roberta.large generated="$generated"
if [[ -z $generated ]]; then
    published race RACE RACE RACE.tar.gz https://www.cs.cmu.edu/~glai1/data/race/RACE.tar.gz
fi
into "$text/symbols" dataset race "$folder/RACE" --like "$like"
binarise "$text/symbols" --copy-labels --dictionary "$like/dict.txt"
