#!/usr/bin/env bash
# Prepare the quickstart's corpus: generated German-English sentences, nothing to download.
#
# Usage: data-prep/prepare-quickstart.sh [options]
#   --out DIR      default: data-bin/quickstart.de-en; the text goes to DIR.text beside it
#   --seed N       another corpus (default: 1)
#   --dry-run      print the commands only
#
# Words are the units: the corpus has a closed vocabulary. DIR is complete once it is there; a second run does nothing.
set -euo pipefail
# shellcheck source=data-prep/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

out=$root/data-bin/quickstart.de-en seed=1
while [[ $# -gt 0 ]]; do
    case $1 in
    -h | --help) usage; exit 0 ;;
    --out) out=$(absolute "$(argument --out "$@")"); shift ;;
    --seed) seed=$(argument --seed "$@"); shift ;;
    --dry-run) print_only ;;
    *) die "unknown option $1; see --help" ;;
    esac
    shift
done
alone "$out"
if [[ -e $out ]]; then
    "${text_tool[@]}" settings "$out/manifest.json" seed="$seed" --required
    echo "$out is complete" >&2
    exit
fi
text=$out.text
if [[ -e $out.part ]]; then run rm -r "$out.part"; fi
run python -m ode_transformer corpus "$text" --seed "$seed"
run fairseq-preprocess --source-lang de --target-lang en --destdir "$out.part" \
    --trainpref "$text/train" --validpref "$text/valid" --testpref "$text/test"
run "${text_tool[@]}" manifest --set quickstart --source generated --langs de en --text-dir "$text" \
    --splits train=train valid=valid test=test --data-dir "$out.part" --settings seed="$seed"
run mv "$out.part" "$out"
