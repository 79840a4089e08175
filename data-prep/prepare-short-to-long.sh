#!/usr/bin/env bash
# Split prepared data by length: train on short sentences, and test on long ones, with one test set per bin of lengths
# (FLOATER, Figure 2).
#
# Usage: data-prep/prepare-short-to-long.sh PREPARED [options]
#   PREPARED           a folder that another prepare-*.sh made, with its text in PREPARED.text beside it
#   --prepared-by COMMAND   makes PREPARED if it does not exist, with --out PREPARED; a script of this
#                      repository, named from its top, or any other program; words with blanks are quoted
#   --source L, --target L   its languages (default: en, de)
#   --limit N          train on sources of fewer than N subword units (default: 80)
#   --bins "N N ..."   the shortest length of each bin; the last has no upper limit (default: "80 100 120 140")
#
# Lengths are those of the source, in subword units. Long pairs come from PREPARED's training text, and the dictionary is
# PREPARED's. DIR is by default PREPARED.short-to-long.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

prepared='' prepared_by='' source=en target=de limit=80 bins='80 100 120 140' workers=''
options prepared=word prepared-by=text source=text target=text limit=number bins=text workers=number -- "$@"
[[ -n $prepared ]] || die "PREPARED is needed; see --help"
prepared=$(realpath -ms -- "$prepared")
read -ra begins <<<"$bins"
out=${out:-$prepared.short-to-long}
begin from="$(basename "$prepared")" source="$source" target="$target" limit="$limit" bins="${bins// /-}"
if [[ -n $prepared_by && ! -e $prepared ]]; then
    words=$(xargs printf '%s\n' <<<"$prepared_by") || die "--prepared-by $prepared_by: must be words, with quotes closed"
    mapfile -t words <<<"$words"
    if [[ -f $share/${words[0]} ]]; then words[0]=$share/${words[0]}; fi
    run "${words[@]}" --out "$prepared"
fi
name=short-to-long origin=$(basename "$prepared")
into "$text/bpe" text short-to-long "$prepared" --langs "$source" "$target" --limit "$limit" --bins "${begins[@]}"
tests=(test)
for ((i = 1; i < ${#begins[@]}; i++)); do tests+=("test$i"); done
prepare --start bpe --splits train valid "${tests[@]}" --dictionaries "$prepared"/dict.{"$source","$target"}.txt
