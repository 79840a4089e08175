#!/usr/bin/env bash
# Prepare the Penn Treebank as Mikolov et al. (2011) processed it, for fairseq's task language_modeling.
#
# Usage: data-prep/prepare-ptb.sh [options]
#
# 42,068 sentences for training, 3,370 for validation, 3,761 for testing. The ODE Transformer paper says 88K for training,
# from an unknown source. The corpus may not be redistributed, so it is not downloaded.
# RAW_DIR: ptb.train.txt, ptb.valid.txt and ptb.test.txt, one sentence per line; ODE_TRANSFORMER_DATA: ptb.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

name=ptb workers=2
options workers=number -- "$@"
begin text=mikolov
find_set ptb
[[ -n $folder || -n $dry_run ]] ||
    die "the Penn Treebank is not there ($tried); it cannot be downloaded, see --help"
folder=${folder:-RAW_DIR}
known_text ptb.sha256 "$folder"/ptb.{train,valid,test}.txt
run mkdir -p "$text/words"
for split in train valid test; do run cp --force "$folder/ptb.$split.txt" "$text/words/$split"; done
binarise "$text/words"
