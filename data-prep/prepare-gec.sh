#!/usr/bin/env bash
# Prepare sentences with errors and without: learners' corpora (NUCLE, Lang-8 and others), or errors made in correct
# English; tested on CoNLL-2014 and JFLEG.
#
# Usage: data-prep/prepare-gec.sh --errors published|generated [options]
#   --errors published   the M2 files of RAW_DIR, pairs without errors left out; validation is held out of NUCLE
#   --errors generated   errors made in the English of the mixture of prepare-deen-mix.sh, or of CLEAN, a file of correct
#                        English with a sentence per line; validation is JFLEG's development set
#   --merges N           joint BPE merges (default: 30000; generated: 8000)
# With --errors generated:
#   --sentences N        use only the first N sentences of the correct English (default: all)
#   --percent N          probability of an error at a word, of a misspelling half that (default: 30)
#   --seed N             seed of the errors (default: 1)
#
# RAW_DIR: the M2 files of learners' corpora, exactly one of them NUCLE's: its name contains nucle, as in the data of
# BEA-2019, or is conll14st-preprocessed.m2 (release 3.2) or conll13st-preprocessed.m2 (2.x). NUCLE and Lang-8 must be
# requested with a form; BEA-2019 also has FCE and W&I+LOCNESS. ODE_TRANSFORMER_DATA: gec, with jfleg/{dev,test} and
# conll14/official-2014.combined.m2; and deen_mix for generated errors.
# All text is tokenized already, or tokenized like the Penn Treebank, with straight quotation marks. Training pairs
# whose sentence is in CoNLL-2014 or JFLEG are left out. test is CoNLL-2014, test1 JFLEG's test set, test2 its
# development set; their sentences, corrections and edits are in DIR/raw.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

errors='' merges='' sentences='' percent='' seed='' source=source target=target workers=''
options 'errors=published|generated' {merges,sentences,percent,seed,workers}=number -- "$@"
[[ -n $errors ]] || die "--errors is needed: published or generated; see --help"
[[ ${percent:-0} -lt 100 ]] || die "--percent $percent: must be below 100"
name=gec-$errors
if [[ $errors == published ]]; then
    merges=${merges:-30000}
    [[ -z $sentences$percent$seed ]] || die "--sentences, --percent and --seed: are options of --errors generated"
    begin errors="$errors" merges="$merges" quotes=straight
    [[ -n ${RAW_DIR:-} || -n $dry_run ]] ||
        die "RAW_DIR is not set: NUCLE and Lang-8 cannot be downloaded without a form; see --help, or take --errors generated"
    train=(--m2 "$(realpath -m -- "${RAW_DIR:-RAW_DIR}")") from=RAW_DIR
else
    merges=${merges:-8000} percent=${percent:-30} seed=${seed:-1}
    from=CLEAN clean=${CLEAN:-}
    [[ -z $clean || -f $clean ]] || die "CLEAN=$clean: no such file"
    begin errors="$errors" merges="$merges" quotes=straight sentences="${sentences:-all}" percent="$percent" seed="$seed" \
        ${clean:+clean="$(sha256sum <"$clean" | cut -d ' ' -f 1)"}
    if [[ -z $clean ]]; then
        set_of deen_mix "; CLEAN may name a file of correct English"
        clean=$folder/train.en from=$origin
    fi
    train=(--clean "$clean" --seed "$seed" --rate "$(printf '0.%02d' "$percent")" ${sentences:+--sentences "$sentences"})
fi
set_of gec "; the test sets have to be there"
origin=$from
into "$text/tok" dataset gec "${train[@]}" --jfleg "$folder/jfleg" --conll14 "$folder/conll14/official-2014.combined.m2"
if [[ $errors == published && -z $dry_run ]]; then
    echo "training pairs: $(wc --lines <"$text/tok/train.target"); the paper has 827 thousand" >&2
fi
compare CoNLL-2014 "$text/tok/conll14.source" 1312
compare "JFLEG's test set" "$text/tok/jfleg.source" 747

# The sentences of the test sets, and what people made of them.
beside=("raw/test.m2=$text/tok/conll14.m2" "raw/test.source=$text/tok/conll14.source")
for kind in source ref{0,1,2,3}; do
    beside+=("raw/test1.$kind=$text/tok/jfleg.$kind" "raw/test2.$kind=$text/tok/jfleg-dev.$kind")
done
prepare --start tok --splits train valid conll14 jfleg jfleg-dev --size "$merges" --beside "${beside[@]}"
