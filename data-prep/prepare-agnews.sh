#!/usr/bin/env bash
# Prepare AG's news (Zhang et al. 2015: 120,000 articles to train on, 7,600 to test), classified by four topics.
#
# Usage: data-prep/prepare-agnews.sh [options]
#   --level subword|characters   what the symbols are (default: subword)
#   --size N                     size of the subword vocabulary (default: 16000)
#   --valid N                    number of training articles held out for validation, approximately (default: 5000)
#
# RAW_DIR: ag_news_csv/, with train.csv and test.csv as published, or ag_news_csv.tgz; ODE_TRANSFORMER_DATA: agnews;
# URL_AGNEWS (default: a copy; its own address needs a browser).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

level=subword size=16000 valid=5000 workers=''
options 'level=subword|characters' {size,valid,workers}=number -- "$@"
out=${out:-$root/data-bin/agnews-$level}
begin level="$level" size="$size" valid="$valid"
published agnews ag_news_csv AGNEWS ag_news_csv.tgz https://s3.amazonaws.com/fast-ai-nlp/ag_news_csv.tgz
labelled agnews ag_news_csv 120000 7600
