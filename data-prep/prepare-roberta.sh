#!/usr/bin/env bash
# Prepare a published RoBERTa (Liu et al. 2019): its checkpoint, its dictionary, and its segmentation of text.
#
# Usage: data-prep/prepare-roberta.sh [options]
#   --size base|large   size of the model (default: base)
#   --out DIR           default: data-bin/roberta.base
#   --dry-run           print the commands only
#
# RAW_DIR names a folder with roberta.base.tar.gz (or large), encoder.json and vocab.bpe; by default they are downloaded
# from URL_ROBERTA and URL_GPT2_BPE (default: fairseq's addresses). Nobody published their SHA-256, but a list in
# ARCHIVES_SHA256 may have it. DIR holds model.pt, dict.txt, encoder.json and vocab.bpe: use it as the --like of other
# scripts, and DIR/model.pt for `ode-transformer warm-start`.
set -euo pipefail
# shellcheck source=data-prep/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

size=base needs+=(tar sha256sum)
options 'size=base|large' -- "$@"
name=roberta.$size
begin size="$size"
archive=roberta.$size.tar.gz
raw=$text
if [[ -n ${RAW_DIR:-} ]]; then
    raw=$(absolute "$RAW_DIR")
    for file in "$archive" encoder.json vocab.bpe; do
        [[ -f $raw/$file || $dry_run -eq 1 ]] || die "RAW_DIR=$RAW_DIR: has no $file"
    done
else
    run mkdir -p "$raw"
    download "${URL_ROBERTA:-https://dl.fbaipublicfiles.com/fairseq/models}/$archive" "$raw/$archive"
    for file in encoder.json vocab.bpe; do
        download "${URL_GPT2_BPE:-https://dl.fbaipublicfiles.com/fairseq/gpt2_bpe}/$file" "$raw/$file"
    done
fi
for file in "$archive" encoder.json vocab.bpe; do known_archive "$raw/$file"; done
run mkdir -p "$out.part"
run tar -xzf "$raw/$archive" -C "$out.part" --strip-components 1
run cp "$raw/encoder.json" "$raw/vocab.bpe" "$out.part"
finish
