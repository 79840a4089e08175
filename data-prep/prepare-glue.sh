#!/usr/bin/env bash
# Prepare a task of GLUE (Wang et al. 2019) for fairseq's task sentence_prediction.
#
# Usage: data-prep/prepare-glue.sh TASK [options]
#   TASK            cola, sst-2, mrpc, qqp, sts-b, mnli, qnli or rte
#   --like DIR      cut text as the folder of a pretrained model says (default: data-bin/text-imdb): binarized text of
#                   prepare-text.sh, or prepare-roberta.sh's; roberta.base, roberta.large, text-bert, text-imdb and
#                   text-imdb-4k (of 4,000 symbols) are prepared if they are not there
#   --generated N   no GLUE, but N generated examples in its layout, for rehearsals
#   --out DIR       default: data-bin/glue/TASK, with the name of --like appended
#   --workers N     processes that binarize (default: 2)
#   --dry-run       print the commands only
#
# RAW_DIR names a folder with the published archives unpacked in it, CoLA, SST-2, MRPC and so on; or
# ODE_TRANSFORMER_DATA one with glue/ or glue.tar.xz; without either, the task's archive is downloaded from URL_GLUE
# (for MRPC, the list of the development set, and the text from URL_MRPC; default: the addresses of GLUE's own script),
# and compared with the SHA-256 in ARCHIVES_SHA256 (default: data-prep/checksums/archives.sha256). Of CoLA the authors'
# own archive serves as well: its development sets together are GLUE's. MNLI's matched sets are valid and test, its
# mismatched ones valid1 and test1; test2 is the diagnostic set, MNLI/AX.tsv or diagnostic/diagnostic.tsv. Without a
# test set, none is made. The models that --like prepares come from folders of their own: ROBERTA_DIR and IMDB_DIR are
# passed as RAW_DIR to prepare-roberta.sh and to prepare-text.sh --imdb, and TEXT_INPUT is the text of text-bert.
set -euo pipefail
# shellcheck source=data-prep/encoders.sh
source "$(dirname "${BASH_SOURCE[0]}")/encoders.sh"

task='' like='' generated='' workers=2
options task=word like=text {generated,workers}=number -- "$@"
[[ -n $task ]] || die "a task is needed: cola, sst-2, mrpc, qqp, sts-b, mnli, qnli or rte; see --help"
choice TASK "$task" cola sst-2 mrpc qqp sts-b mnli qnli rte
like=$(absolute "${like:-$root/data-bin/text-imdb}")
name=glue/$task${generated:+.generated}.$(basename "$like")
begin_like task="$task" ${generated:+generated="$generated"}
# fetch VARIABLE URL FILE: download a published file to $text/download, from the address in VARIABLE or from URL.
fetch() {
    local file=$text/download/$3
    download "${!1:-$2}/$3" "$file" || die "$3: $tried, and the download failed; $1 names another address"
    known_archive "$file"
}
# Put the text of the task into $folder: an archive with a folder in it, or MRPC's three files.
fetch_glue() {
    local url=https://dl.fbaipublicfiles.com/glue/data archive file
    local -A archives=([cola]=CoLA [sst-2]=SST-2 [qqp]=QQP-clean [sts-b]=STS-B [mnli]=MNLI [qnli]=QNLIv2 [rte]=RTE)
    if [[ -d $folder ]]; then return; fi
    run mkdir -p "$text/download"
    if [[ $task == mrpc ]]; then
        fetch URL_GLUE "$url" mrpc_dev_ids.tsv
        for file in msr_paraphrase_{train,test}.txt; do
            fetch URL_MRPC https://dl.fbaipublicfiles.com/senteval/senteval_data "$file"
        done
        run mkdir -p "$folder.part/MRPC"
        run cp "$text"/download/{mrpc_dev_ids.tsv,msr_paraphrase_{train,test}.txt} "$folder.part/MRPC"
    else
        archive=${archives[$task]}.zip
        fetch URL_GLUE "$url" "$archive"
        if [[ $task == mnli ]]; then fetch URL_GLUE "$url" AX.tsv; fi
        run python -m zipfile -e "$text/download/$archive" "$folder.part" ||
            die "$text/download/$archive: could not be unpacked, it is cut off or damaged; remove it and start again"
        if [[ $task == mnli ]]; then run cp "$text/download/AX.tsv" "$folder.part/MNLI"; fi
    fi
    run mv "$folder.part" "$folder"
}
if [[ -n $generated ]]; then
    folder=$text/generated
    once "$folder" python -m ode_transformer dataset reading "glue-$task" --articles "$generated" \
        --output-dir "$folder.part"
else
    find_set glue "$text/glue"
    if [[ -z $folder ]]; then
        folder=$text/unpacked
        fetch_glue
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
finish
