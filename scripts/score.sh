#!/usr/bin/env bash
# Score translations: tokenized BLEU, the same after compound splitting, sacreBLEU and chrF, side by side and labeled.
#
# Usage: scripts/score.sh --generate-output FILE --target-lang LANG [options of `ode-transformer score`]
#        scripts/score.sh --hyp FILE --ref FILE --target-lang LANG [options of `ode-transformer score`]
#
# "tokenized BLEU" is what Moses' multi-bleu.perl prints for the same files, to the last digit.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
handed_on "" "$@"
tool score "$@"
