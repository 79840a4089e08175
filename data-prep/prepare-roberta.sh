#!/usr/bin/env bash
# Prepare a published RoBERTa (Liu et al. 2019): its checkpoint, its dictionary, and its segmentation of text.
#
# Usage: data-prep/prepare-roberta.sh [options]
#   --size base|large   size of the model (default: base)
#
# RAW_DIR: roberta.base.tar.gz (or large), encoder.json and vocab.bpe; URL_ROBERTA, URL_GPT2_BPE.
# DIR, by default data-bin/roberta.base, holds model.pt, dict.txt, encoder.json and vocab.bpe: use it as the --like of
# other scripts, and DIR/model.pt for `ode-transformer warm-start`.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

size=base
options 'size=base|large' -- "$@"
name=roberta.$size
begin size="$size"
segmentation=()
for file in encoder.json vocab.bpe; do
    fetch URL_GPT2_BPE "$file" "${URL_GPT2_BPE:-https://dl.fbaipublicfiles.com/fairseq/gpt2_bpe}/$file"
    segmentation+=("$archive")
done
fetch URL_ROBERTA "$name.tar.gz" "${URL_ROBERTA:-https://dl.fbaipublicfiles.com/fairseq/models}/$name.tar.gz"
extract "$archive" "$text/data" --strip-components=1
run cp "${segmentation[@]}" "$text/data"
run cp "$text/settings.json" "$text/data/manifest.json"
run mv "$text/data" "$out"
