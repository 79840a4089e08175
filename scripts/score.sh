#!/usr/bin/env bash
# Score translations: tokenised BLEU, the same after compound splitting, sacreBLEU and chrF, side by side.
#
# Usage: scripts/score.sh --generate-output FILE --target-lang LANG [options]
#        scripts/score.sh --hyp FILE --ref FILE --target-lang LANG [options]
#   --generate-output FILE   what fairseq-generate printed or left in its --results-path
#   --hyp FILE, --ref FILE   tokenised translations and references, a sentence a line; --ref also wins over the
#                            references in --generate-output
#   --target-lang LANG       the language of the translations, such as de
#   --reference FILE         references as they were before tokenisation, for sacreBLEU and chrF; without them the
#                            tokenised ones are detokenised, and the label says so
#   --lowercase              sacreBLEU and chrF ignore case (case:lc), for systems that know lower case only;
#                            the tokenised scores compare the tokens as they are
#   --compound-split         add BLEU after compound splitting; German only
#   --join-hyphens           of text that tokenizer.perl -a made: "a @-@ b" is "a-b" before the score is taken
#   --remove-bpe [subword_nmt|sentencepiece|none]
#                            join subword units first, where fairseq-generate ran without --post-process; without
#                            this option subword units are an error
#   --json                   print one JSON object
#
# "tokenised BLEU" is what Moses' multi-bleu.perl prints for the same files, to the last digit.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case ${1:-} in
-h | --help) usage; exit 0 ;;
'') die "nothing to score; see --help" ;;
esac
run python -m ode_transformer score "$@"
