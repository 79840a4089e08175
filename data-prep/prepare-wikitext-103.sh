#!/usr/bin/env bash
# Prepare WikiText-103 (Merity et al. 2017) for a published RoBERTa, and that RoBERTa as a FLOATER whose flow is zero.
#
# Usage: data-prep/prepare-wikitext-103.sh [options]
#   --size base|large   size of the RoBERTa (default: base)
#
# WIKITEXT_DIR, or RAW_DIR unless it is of another set, as where a row starts from this one: wiki.train.raw and
# wiki.valid.raw; URL_WIKITEXT. ROBERTA_DIR stands for RAW_DIR where RoBERTa is prepared, in data-bin/roberta.base;
# `ode-transformer warm-start` makes floater.pt of its model.pt. DIR is by default data-bin/wikitext-103.roberta.base.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

size=base workers=2
options 'size=base|large' workers=number -- "$@"
out=${out:-$root/data-bin/wikitext-103.roberta.$size}
roberta=$root/data-bin/roberta.$size
if [[ -e $out && -f $roberta/floater.pt ]]; then
    grep -qs "roberta\.$size" "$out/manifest.json" || die "$out: is of other data; choose another --out"
    echo "$out is complete" >&2
    exit
fi
check_raw_dir
if [[ -e ${RAW_DIR:-}/wiki.train.raw ]]; then from=${WIKITEXT_DIR:-$RAW_DIR}; else from=${WIKITEXT_DIR:-}; fi
if [[ -z $from ]]; then
    text=$out.text
    alone "$text/unpacked"
    unpack WIKITEXT wikitext-103-raw-v1.zip https://wikitext.smerity.com/wikitext-103-raw-v1.zip
    from=$unpacked/wikitext-103-raw
fi
[[ -n $dry_run || -e $from/wiki.train.raw && -e $from/wiki.valid.raw ]] ||
    die "$from: must hold wiki.train.raw and wiki.valid.raw; WIKITEXT_DIR names the folder of WikiText-103"
pretrained "$roberta"
once "$roberta/floater.pt" python -m ode_transformer warm-start "$roberta/model.pt" --arch "floater_roberta_$size" \
    --output "$roberta/floater.pt.part"
other '' prepare-text.sh --input "$from/wiki.train.raw" --valid "$from/wiki.valid.raw" --like "$roberta" --out "$out" \
    --workers "$workers"
