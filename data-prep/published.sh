# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # variables are set by and for the scripts that source this
# Shared by the preparation of the papers' other tasks, whose data sets `ode-transformer dataset` reads. To be sourced.
# shellcheck source=data-prep/archives.sh
source "$(dirname "${BASH_SOURCE[0]}")/archives.sh"

more_help() { shared_help && echo && echo "$archives_help"; }

# published SET MEMBER NAME FILE URL: set $folder to where a set lies: in RAW_DIR or ODE_TRANSFORMER_DATA, if MEMBER is
# in it; else in the archive FILE, of RAW_DIR or downloaded from URL, which URL_NAME replaces.
published() {
    local inner
    find_set "$1" "$text/unpacked/$1"
    if [[ -n $folder && ($dry_run -eq 1 || -e $folder/$2) ]]; then return; fi
    [[ -z $folder || -n ${RAW_DIR:-} ]] || die "$folder: holds no $2"
    unpack "$3" "$4" "$5"
    folder=$unpacked
    if [[ ! -e $folder/$2 ]]; then # an archive of a repository has a folder around all
        for inner in "$unpacked"/*/; do
            if [[ -e $inner$2 ]]; then folder=${inner%/} && break; fi
        done
    fi
    [[ $dry_run -eq 1 || -e $folder/$2 ]] || die "$4: holds no $2; remove $unpacked before another is tried"
}

# The reviews of IMDB, in $folder/aclImdb.
published_imdb() {
    published imdb aclImdb IMDB aclImdb_v1.tar.gz https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz
}

# binarise_labelled TEXT: make $out of the files of TEXT: symbols with a dictionary, classes with one of their own.
binarise_labelled() {
    local part
    for part in input0 label; do binarise_part "$part" "$1" train valid test; done
    if [[ $dry_run -eq 1 || -e $1/sentencepiece.model ]]; then run cp "$1/sentencepiece.model" "$out.part"; fi
    finish
}

# first_words N FROM TO: copy a folder of text, of sources the first N words alone. As `once` calls it, set -e has no
# effect in it.
first_words() {
    local file
    mkdir -p "$3" || return
    for file in "$2"/*.target; do cp "$file" "$3" || return; done
    for file in "$2"/*.source; do cut -d ' ' -f "-$1" "$file" >"$3/${file##*/}" || return; done
}

# first_units N FILE: leave of each line of a file the first N units alone.
first_units() {
    cut -d ' ' -f "-$1" "$2" >"$2.part" || return
    mv "$2.part" "$2"
}

# binarise_pairs TEST...: from $text/tok, where train and valid are as well, to $out, with joint BPE. Of the targets of
# the test sets $test_units units are taken, if it is set: fairseq-generate refuses longer ones than the model has
# positions for, though it does not need them.
binarise_pairs() {
    local source=source target=target folder=$text/tok test
    once "$text/clean" "${text_tool[@]}" clean "$folder" --langs source target --splits train valid "$@" \
        --drop-from train --max-tokens "$max_tokens" --output-dir "$text/clean.part"
    folder=$text/clean
    if [[ -n ${words:-} ]]; then
        once "$text/words" first_words "$words" "$folder" "$text/words.part"
        folder=$text/words
    fi
    once "$text/codes" "${text_tool[@]}" learn-subword-nmt --input "$folder"/train.{source,target} --size "$merges" \
        --workers "$workers" --output "$text/codes.part"
    run "${text_tool[@]}" apply-subword-nmt "$folder" --langs source target --splits train valid "$@" \
        --model "$text/codes" --workers "$workers" --output-dir "$text/bpe"
    if [[ -n ${test_units:-} ]]; then
        for test in "$@"; do run first_units "$test_units" "$text/bpe/$test.target"; done
    fi
    binarise "$name" "$origin" train valid "$@"
}
