#!/usr/bin/env bash
# Prepare CNN/DailyMail, not anonymized, as See et al. (2017) did: 287,227 stories to be summarized to their highlights.
#
# Usage: data-prep/prepare-cnndm.sh [options]
#   --words N          use only the first N words of each article (default: 500)
#   --merges N         joint BPE merges (default: 30000)
#
# RAW_DIR: cnn_stories.tgz and dailymail_stories.tgz, or cnn/stories and dailymail/stories; and See et al.'s all_train.txt,
# all_val.txt and all_test.txt; ODE_TRANSFORMER_DATA: cnndm. URL_CNN, URL_DAILYMAIL, whose default may want a browser,
# URL_CNNDM_LISTS. The paper counts 287,226 stories to train on; 114 of them have no article, and are left out.
# Lower-cased, and tokenized as Moses does, where See et al. took Stanford's tokenizer; ROUGE hardly sees the difference.
# The references are the highlights as published, in DIR/raw, with tabs between them. fairseq-generate is given the first
# 1,000 units of them, since it refuses test sets with longer targets than the model has positions for.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

name=cnndm source=source target=target words=500 merges=30000 test_units=1000 workers=''
options {words,merges,workers}=number -- "$@"
begin words="$words" merges="$merges" highlights=tabs test_units="$test_units"
url=${URL_CNNDM_LISTS:-https://raw.githubusercontent.com/abisee/cnn-dailymail/master/url_lists}
find_set cnndm
lists=$text/lists # some may be downloaded
run mkdir -p "$lists"
for file in all_{train,val,test}.txt; do
    RAW_DIR=$folder fetch URL_CNNDM_LISTS "$file" "$url/$file"
    run cp "$archive" "$lists"
done
drive='https://drive.google.com/uc?export=download&id='
published cnndm cnn/stories CNN cnn_stories.tgz "${drive}0BwmD_VLjROrfTHk4NFg2SndKcjQ"
cnn=$folder/cnn/stories
published cnndm dailymail/stories DAILYMAIL dailymail_stories.tgz "${drive}0BwmD_VLjROrfM1BxdkxVaTY2bWs"
into "$text/raw" dataset cnndm "$cnn" "$folder/dailymail/stories" --lists "$lists"
compare "training stories" "$text/raw/train.target" 287227
compare "validation stories" "$text/raw/valid.target" 13368
compare "test stories" "$text/raw/test.target" 11490
prepare --splits train valid test --language en --tokenize="--lowercase last --normalize" --max-tokens 100000 \
    --words "$words" --size "$merges" --test-units "$test_units" \
    --beside tok/test.source="$text/tok/test.source" # for the score of its first sentences
