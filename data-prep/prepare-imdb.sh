#!/usr/bin/env bash
# Prepare IMDB's reviews (Maas et al. 2011: 25,000 to train on, 25,000 to test), classified as positive or negative.
#
# Usage: data-prep/prepare-imdb.sh [options]
#   --level subword|characters   what the symbols are (default: subword)
#   --size N                     size of the subword vocabulary (default: 16000)
#   --valid N                    training reviews held out for validation, half of each class (default: 2500)
#
# RAW_DIR: aclImdb/ or aclImdb_v1.tar.gz; ODE_TRANSFORMER_DATA: imdb; URL_IMDB.
# Training reviews that a copy has put aside in aclImdb/val are training reviews again.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

level=subword size=16000 valid=2500 workers=''
options 'level=subword|characters' {size,valid,workers}=number -- "$@"
out=${out:-$root/data-bin/imdb-$level}
begin level="$level" size="$size" valid="$valid"
published_imdb
labelled imdb aclImdb 25000 25000
