#!/usr/bin/env bash
# The benchmark: every contest that has no record yet, then the tables of all existing records, and the picture.
#
# Usage: scripts/bench/suite.sh [options] [CONTEST...]
#   CONTEST            such as tiny, base-ode or decoding-base; see `ode-transformer bench suite --help` (default: all)
#   --directory DIR    folder of the existing and the new records (default: results/bench)
#   --device cuda      measure on a GPU (default: cpu)
#   --precision P      fp32, fp16, bf16 or amp (default: fp32)
#
# DIR gets one record per contest, lengths-cpu.json, costs-cpu.png (on a GPU lengths-cuda-fp16.json and so on) and tables.md.
# It takes about an hour on a CPU that should be otherwise idle, and 20 GiB of memory.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

directory=$root/results/bench device=cpu precision=fp32 contests=()
while [[ $# -gt 0 ]]; do
    case $1 in
    -h | --help) usage; exit 0 ;;
    --directory) directory=$(absolute "$(argument --directory "$@")"); shift ;;
    --device) device=$(argument --device "$@"); shift ;;
    --precision) precision=$(argument --precision "$@"); shift ;;
    -*) die "unknown option $1; see --help" ;;
    *) contests+=("$1") ;;
    esac
    shift
done
cd "$root"
bench=(python -m ode_transformer bench)
held=(--device "$device" --precision "$precision" "${contests[@]}")
run "${bench[@]}" suite --missing --directory "$directory" "${held[@]}"
if [[ ${#contests[@]} -gt 0 ]]; then exit; fi
kind=$device suffix=.json
if [[ $device-$precision != cpu-fp32 ]]; then kind+=-$precision; fi
if [[ $kind != cpu ]]; then suffix=.$kind.json; fi
lengths=$directory/lengths-$kind.json
if [[ $precision != amp && ! -e $lengths ]]; then
    run "${bench[@]}" lengths --device "$device" --dtype "$precision" --output "$lengths"
fi
costs=()
for record in "$lengths" "$directory/depth$suffix" "$directory/vocabulary$suffix"; do
    if [[ -e $record ]]; then costs+=("$record"); fi
done
run python -m ode_transformer plot costs "${costs[@]}" --output "$directory/costs-$kind.png"
run "${bench[@]}" table "$directory"/!(lengths-*).json >"$directory/tables.md.part"
mv "$directory/tables.md.part" "$directory/tables.md"
