#!/usr/bin/env bash
# Split prepared data by length: train on short sentences, test on long ones, a test set for each bin of lengths
# (FLOATER, Figure 2).
#
# Usage: data-prep/prepare-short-to-long.sh PREPARED [options]
#   PREPARED           a folder that another prepare-*.sh made, with its text in PREPARED.text beside it
#   --out DIR          default: PREPARED.short-to-long
#   --source L, --target L   its languages (default: en, de)
#   --limit N          train on sources of fewer than N symbols (default: 80)
#   --bins "N N ..."   where the bins of longer ones begin; the last has no end (default: "80 100 120 140")
#   --workers N        processes that binarise (default: 2)
#   --dry-run          print the commands only
#
# Lengths are the source's, in symbols as the model sees them. Long pairs come from PREPARED's training text; the
# dictionary is PREPARED's. DIR is complete once it is there; a second run does nothing, and refuses other settings.
set -euo pipefail
# shellcheck source=data-prep/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

prepared='' out='' source=en target=de limit=80 bins='80 100 120 140' workers=2
while [[ $# -gt 0 ]]; do
    case $1 in
    -h | --help) usage; exit 0 ;;
    --out) out=$(absolute "$(argument --out "$@")"); shift ;;
    --source | --target | --bins)
        value=$(argument "$1" "$@")
        declare "${1#--}=$value"
        shift
        ;;
    --limit | --workers)
        value=$(argument "$1" "$@")
        positive "$1" "$value"
        declare "${1#--}=$value"
        shift
        ;;
    --dry-run) print_only ;;
    -*) die "unknown option $1; see --help" ;;
    *) [[ -z $prepared ]] || die "one PREPARED, got $prepared and $1"; prepared=$(absolute "$1") ;;
    esac
    shift
done
[[ -n $prepared ]] || die "PREPARED is needed; see --help"
read -ra begins <<<"$bins"
[[ ${#begins[@]} -gt 0 ]] || die "--bins '$bins': must be one number or more"
for begin in "${begins[@]}"; do positive --bins "$begin"; done
out=${out:-$prepared.short-to-long}
settings=(from="$(basename "$prepared")" limit="$limit" bins="${bins// /-}")
alone "$out"
if [[ -e $out ]]; then
    "${text_tool[@]}" settings "$out/manifest.json" "${settings[@]}" --required
    echo "$out is complete" >&2
    exit
fi
text=$prepared.text train=train valid=valid
if [[ -d $text/bpe ]]; then text=$text/bpe; fi
if [[ -f $prepared/manifest.json ]]; then # its files' names
    read -r train valid < <(python -c 'import json, sys; print(*map(json.load(sys.stdin)["splits"].get, ["train", "valid"]))' \
        <"$prepared/manifest.json")
elif [[ $dry_run -eq 0 ]]; then
    die "$prepared/manifest.json is not there; prepare it first"
fi
if [[ $dry_run -eq 0 ]]; then
    for file in "$prepared/dict.$source.txt" "$prepared/dict.$target.txt" "$text/$train.$source" "$text/$valid.$target"; do
        [[ -f $file ]] || die "$prepared: its $file is not there; prepare it first, or say --source and --target"
    done
fi
if [[ -e $out.part ]]; then run rm -r "$out.part"; fi
run "${text_tool[@]}" short-to-long "$text" --langs "$source" "$target" --splits "$train" "$valid" --limit "$limit" \
    --bins "${begins[@]}" --output-dir "$out.part/text"
mapping=(train=train valid=valid)
prefixes=()
for i in "${!begins[@]}"; do
    name=test${i#0} # test, test1, test2, ...
    prefixes+=("$out.part/text/$name")
    mapping+=("$name=$name")
done
run fairseq-preprocess --source-lang "$source" --target-lang "$target" --srcdict "$prepared/dict.$source.txt" \
    --tgtdict "$prepared/dict.$target.txt" --trainpref "$out.part/text/train" --validpref "$out.part/text/valid" \
    --testpref "$(IFS=,; echo "${prefixes[*]}")" --destdir "$out.part" --workers "$workers"
run mkdir "$out.part/tok"
for prefix in "${prefixes[@]}"; do
    # References as words: fairseq's own have <<unk>> for what its dictionary lacks.
    run sed -nE -e 's/@@( |$)//g' -e "w $out.part/tok/${prefix##*/}.$target" "$prefix.$target"
done
run "${text_tool[@]}" manifest --set short-to-long --source "$(basename "$prepared")" --langs "$source" "$target" \
    --splits "${mapping[@]}" --text-dir "$out.part/text" --data-dir "$out.part" --settings "${settings[@]}"
run mv "$out.part" "$out"
