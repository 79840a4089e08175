#!/usr/bin/env bash
# Prepare ListOps: generated nested lists of digits with operators, classified by their value; nothing to download.
#
# Usage: data-prep/prepare-listops.sh [options]
#   --out DIR          default: data-bin/listops; the text goes to DIR.text beside it
#   --train N, --valid N, --test N   expressions (default: 96000, 2000, 2000)
#   --shortest N, --longest N        symbols of an expression (default: 500, 2000)
#   --seed N           other expressions (default: 1)
#   --dry-run          print the commands only
#
# DIR is complete once it is there; a second run does nothing, and refuses other settings.
set -euo pipefail
# shellcheck source=data-prep/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

out=$root/data-bin/listops train=96000 valid=2000 test=2000 shortest=500 longest=2000 seed=1
while [[ $# -gt 0 ]]; do
    case $1 in
    -h | --help) usage; exit 0 ;;
    --out) out=$(absolute "$(argument --out "$@")"); shift ;;
    --train | --valid | --test | --shortest | --longest | --seed)
        value=$(argument "$1" "$@")
        positive "$1" "$value"
        declare "${1#--}=$value"
        shift
        ;;
    --dry-run) print_only ;;
    *) die "unknown option $1; see --help" ;;
    esac
    shift
done
text=$out.text
settings="--train $train --valid $valid --test $test --shortest $shortest --longest $longest --seed $seed"
alone "$out"
if [[ -e $out ]]; then
    [[ $(cat "$out/settings") == "$settings" ]] ||
        die "$out was made with $(cat "$out/settings"); take another --out for $settings"
    echo "$out is complete" >&2
    exit
fi
if [[ -e $out.part ]]; then run rm -r "$out.part"; fi
read -ra words <<<"$settings"
run python -m ode_transformer listops "$text" "${words[@]}"
for part in input0 label; do
    run fairseq-preprocess --only-source --destdir "$out.part/$part" \
        --trainpref "$text/train.$part" --validpref "$text/valid.$part" --testpref "$text/test.$part"
done
if [[ $dry_run -eq 0 ]]; then printf '%s\n' "$settings" >"$out.part/settings"; fi
run mv "$out.part" "$out"
