#!/usr/bin/env bash
# Prepare a task of GLUE (Wang et al. 2019) for fairseq's task sentence_prediction.
#
# Usage: data-prep/prepare-glue.sh TASK [options]
#   TASK            cola, sst-2, mrpc, qqp, sts-b, mnli, qnli or rte
#   --like DIR      cut text as the folder of a pretrained model says (default: data-bin/text-imdb): binarized text of
#                   prepare-text.sh, or prepare-roberta.sh's; roberta.base, roberta.large, text-bert, text-imdb and
#                   text-imdb-4k (of 4,000 symbols) are prepared if they are not there
#   --generated N   no GLUE, but N generated examples in its layout, for rehearsals
#   --out DIR       default: data-bin/glue/TASK, with the name of --like behind it
#   --workers N     processes that binarise (default: 2)
#   --dry-run       print the commands only
#
# RAW_DIR names a folder with the published archives unpacked in it, CoLA, SST-2, MRPC and so on; or ODE_TRANSFORMER_DATA
# one with glue/ or glue.tar.xz. Of CoLA the authors' own archive serves as well: its development sets together are
# GLUE's. MNLI's matched sets are valid and test, its mismatched ones valid1 and test1. Without a test set, none is made.
# What --like prepares has folders of its own: ROBERTA_DIR and IMDB_DIR are RAW_DIR to prepare-roberta.sh and to
# prepare-text.sh --imdb, and TEXT_INPUT is the text of text-bert.
set -euo pipefail
# shellcheck source=data-prep/encoders.sh
source "$(dirname "${BASH_SOURCE[0]}")/encoders.sh"

task='' like='' generated='' workers=2
options task=word like=text {generated,workers}=number -- "$@"
[[ -n $task ]] || die "a task is needed: cola, sst-2, mrpc, qqp, sts-b, mnli, qnli or rte; see --help"
choice TASK "$task" cola sst-2 mrpc qqp sts-b mnli qnli rte
like=$(absolute "${like:-$root/data-bin/text-imdb}")
name=glue/$task${generated:+.generated}.$(basename "$like")
begin task="$task" like="$(basename "$like")" ${generated:+generated="$generated"}
pretrained "$like"
if [[ -n $generated ]]; then
    folder=$text/generated
    once "$folder" python -m ode_transformer dataset reading "glue-$task" --articles "$generated" \
        --output-dir "$folder.part"
else
    find_set glue "$text/glue"
    if [[ -z $folder ]]; then
        [[ $dry_run -eq 1 ]] || die "GLUE is not there ($tried); it is published at https://gluebenchmark.com/tasks"
        folder=RAW_DIR
    fi
fi
once "$text/symbols" python -m ode_transformer glue prepare "$task" "$folder" --like "$like" \
    --output-dir "$text/symbols.part"
prefixes() { # of the files of a kind of split, as fairseq-preprocess takes them: prefixes valid input0
    local found=() file
    for file in "$text/symbols/$1"*."$2"; do
        if [[ -f $file ]]; then found+=("${file%."$2"}.$2"); fi
    done
    local IFS=,
    echo "${found[*]}"
}
for part in input0 input1 label; do
    if [[ $dry_run -eq 0 && ! -f $text/symbols/train.$part ]]; then continue; fi
    if [[ $part == label && $task == sts-b ]]; then
        run mkdir -p "$out.part/label"
        run cp "$text/symbols/train.label" "$text/symbols/valid.label" "$out.part/label"
        continue
    fi
    words=(--only-source --trainpref "$text/symbols/train.$part" --validpref "$(prefixes valid "$part")")
    test_prefixes=$(prefixes test "$part")
    if [[ -n $test_prefixes ]]; then words+=(--testpref "$test_prefixes"); fi
    if [[ $part != label ]]; then words+=(--srcdict "$like/dict.txt"); fi
    run fairseq-preprocess "${words[@]}" --destdir "$out.part/$part" --workers "$workers"
done
run "${text_tool[@]}" settings "$out.part/manifest.json" "${settings[@]}"
run mv "$out.part" "$out"
