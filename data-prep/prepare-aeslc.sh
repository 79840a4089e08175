#!/usr/bin/env bash
# Prepare AESLC (Zhang and Tetreault 2019: 14,436 e-mails of Enron), to be summarized to their subject lines.
#
# Usage: data-prep/prepare-aeslc.sh [options]
#   --words N          use only the first N words of each e-mail (default: 400)
#   --merges N         joint BPE merges (default: 8000)
#
# RAW_DIR: enron_subject_line/ or AESLC.tar.gz, of the set's repository; ODE_TRANSFORMER_DATA: aeslc; URL_AESLC.
# Lower-cased and tokenized. Development and test e-mails are scored against the subject that they had.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

name=aeslc source=source target=target words=400 merges=8000 workers=''
options {words,merges,workers}=number -- "$@"
begin words="$words" merges="$merges"
published aeslc enron_subject_line AESLC AESLC.tar.gz https://github.com/ryanzhumich/AESLC/archive/master.tar.gz \
    --strip-components=1 # a folder around all
into "$text/raw" dataset aeslc "$folder/enron_subject_line"
compare "training e-mails" "$text/raw/train.target" 14436
compare "development e-mails" "$text/raw/valid.target" 1960
compare "test e-mails" "$text/raw/test.target" 1906
prepare --splits train valid test --language en --tokenize="--lowercase last --normalize" --max-tokens 100000 \
    --words "$words" --size "$merges" --beside tok/test.source="$text/tok/test.source" # for the score of its first sentences
