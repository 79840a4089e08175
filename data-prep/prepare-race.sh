#!/usr/bin/env bash
# Prepare RACE (Lai et al. 2017) for fairseq's task sentence_ranking: articles, and questions with each of four options.
#
# Usage: data-prep/prepare-race.sh [options]
#   --like DIR      cut text as the folder of a pretrained model says (default: data-bin/roberta.large), see
#                   prepare-glue.sh
#   --generated N   no RACE, but N generated articles of each level in its layout, for rehearsals
#
# RAW_DIR names a folder with RACE.tar.gz, or RACE/ unpacked; ODE_TRANSFORMER_DATA one with race/ or race.tar.xz, and RACE/
# in it; without either RACE.tar.gz is downloaded from URL_RACE (default: its authors' address). Nobody published its
# SHA-256, but a list in ARCHIVES_SHA256 may have it. The test set is test, its articles for middle schools alone are
# test1, those for high schools test2. ROBERTA_DIR, IMDB_DIR and TEXT_INPUT are for the models that
# --like prepares, see prepare-glue.sh. DIR is by default data-bin/race, with the name of --like appended.
set -euo pipefail
# shellcheck source=data-prep/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

like='' generated='' workers='' needs+=(tar)
options like=text {generated,workers}=number -- "$@"
like=$(absolute "${like:-$root/data-bin/roberta.large}")
name=race${generated:+.generated}.$(basename "$like")
begin_like generated="$generated"
if [[ -n $generated ]]; then
    folder=$text/generated
    once "$folder" python -m ode_transformer dataset reading race --articles "$generated" --output-dir "$folder.part"
else
    published race RACE RACE RACE.tar.gz https://www.cs.cmu.edu/~glai1/data/race/RACE.tar.gz
fi
once "$text/symbols" python -m ode_transformer dataset race "$folder/RACE" --like "$like" --output-dir "$text/symbols.part"
binarise --folder "$text/symbols" --copy-labels --dictionary "$like/dict.txt"
