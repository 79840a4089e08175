#!/usr/bin/env bash
# Prepare the quickstart's corpus: generated German-English sentences, nothing to download.
#
# Usage: data-prep/prepare-quickstart.sh [options]
#   --seed N           seed of the generator (default: 1)
#
# The units are words, as the corpus has a closed vocabulary. DIR is by default data-bin/quickstart.de-en.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

name=quickstart.de-en source=de target=en origin=generated seed=1
options seed=number -- "$@"
begin seed="$seed"
once "$text/bpe" python -m ode_transformer dataset corpus "$text/bpe.part" --seed "$seed"
name=quickstart workers=1
prepare --start bpe --tokenize= --splits train valid test --separate-dictionaries
