#!/usr/bin/env bash
# Prepare a task of GLUE (Wang et al. 2019) for fairseq's task sentence_prediction.
#
# Usage: data-prep/prepare-glue.sh TASK [options]
#   TASK            cola, sst-2, mrpc, qqp, sts-b, mnli, qnli or rte
#   --like DIR      cut text as the folder of a pretrained model says (default: data-bin/text-imdb): binarized text of
#                   prepare-text.sh, or prepare-roberta.sh's; roberta.base, roberta.large, text-bert, text-imdb and
#                   text-imdb-4k (of 4,000 symbols) are prepared if they are not there, from folders of their own:
#                   ROBERTA_DIR and IMDB_DIR stand for RAW_DIR there, TEXT_INPUT is the text of text-bert
#   --generated N   no GLUE, but N generated examples in its layout, for rehearsals
#
# RAW_DIR: TASK's published archive, such as CoLA.zip, of MNLI with AX.tsv, or CoLA, SST-2, MRPC and so on unpacked;
# ODE_TRANSFORMER_DATA: glue; URL_GLUE, and for MRPC, whose development set is a list, URL_MRPC. The authors' own CoLA
# serves as well, unpacked to CoLA/raw: its development sets together are GLUE's. MNLI's matched sets are valid and test,
# its mismatched ones valid1 and test1; test2 is the diagnostic set, MNLI/AX.tsv or diagnostic/diagnostic.tsv. DIR is by
# default data-bin/glue/TASK.LIKE.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

task='' like='' generated='' workers=''
options task=word like=text {generated,workers}=number -- "$@"
[[ $task == @(cola|sst-2|mrpc|qqp|sts-b|mnli|qnli|rte) ]] ||
    die "TASK $task: must be one of cola sst-2 mrpc qqp sts-b mnli qnli rte; see --help"
begin_like "glue/$task" text-imdb task="$task" ${generated:+generated="$generated"}
if [[ -z $generated ]]; then
    declare -A archives=([cola]=CoLA [sst-2]=SST-2 [qqp]=QQP-clean [sts-b]=STS-B [mnli]=MNLI [qnli]=QNLIv2 [rte]=RTE)
    file=${archives[$task]:-}.zip # none of MRPC
    unpacked_there=${file%.zip} unpacked_there=${unpacked_there%@(-clean|v2)}
    find_set glue
    url=${URL_GLUE:-https://dl.fbaipublicfiles.com/glue/data}
    if [[ -z $folder && $task == mrpc ]]; then
        fetch URL_GLUE MRPC/mrpc_dev_ids.tsv "$url/mrpc_dev_ids.tsv"
        for file in msr_paraphrase_{train,test}.txt; do
            fetch URL_MRPC "MRPC/$file" "${URL_MRPC:-https://dl.fbaipublicfiles.com/senteval/senteval_data}/$file"
        done
        folder=$text/download
    elif [[ -z $folder || (-f $folder/$file && ! -d $folder/$unpacked_there) ]]; then
        RAW_DIR=$folder URL_GLUE=$url/$file unpack GLUE "$file" ''
        if [[ $task == mnli ]]; then
            RAW_DIR=$folder fetch URL_GLUE AX.tsv "$url/AX.tsv"
            run cp "$archive" "$unpacked/MNLI"
        fi
        folder=$unpacked
    fi
fi
into "$text/symbols" dataset glue "$task" "$folder" --like "$like"
if [[ $task == sts-b ]]; then labels=(--copy-labels); else labels=(); fi
binarise "$text/symbols" "${labels[@]}" --dictionary "$like/dict.txt"
