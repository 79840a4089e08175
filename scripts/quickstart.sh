#!/usr/bin/env bash
# From nothing to a translation system and its BLEU: generate a small German-English corpus, train a Macaron Net on
# it, average, translate the held-out sentences, score them, and show ten translations. Some five minutes on two cores.
#
# Usage: scripts/quickstart.sh [--run-dir DIR] [--seed N]
#   --run-dir DIR      where the run's files go (default: runs/quickstart/macaron-tiny)
#   --seed N           another seed of the training than 1 (default of --run-dir: with .seed-N behind)
#
# A second run goes on where the first was stopped, and shows its result again if it was not.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

run_dir='' seed=()
while [[ $# -gt 0 ]]; do
    case $1 in
    -h | --help) usage; exit 0 ;;
    --run-dir) run_dir=$(absolute "$(argument --run-dir "$@")"); shift ;;
    --seed) seed=(--seed "$(argument --seed "$@")"); shift ;;
    *) die "unknown option $1; see --help" ;;
    esac
    shift
done
cd "$root"
SECONDS=0
run_dir=${run_dir:-$(run_dir_of quickstart/macaron-tiny "${seed[@]}")}
scripts/reproduce.sh quickstart/macaron-tiny --run-dir "$run_dir" "${seed[@]}"
printf '\nTen held-out sentences, their translations, and what is right:\n'
# Lines S, T, D of fairseq-generate, ordered by sentence.
grep -E '^[STD]-' "$run_dir/generate/generate-test.txt" | sed 's/^\(.\)-\([0-9]*\)/\2\t\1/' | sort -s -n -k1,1 |
    awk -F'\t' '$1 < 10 { name["S"] = "source"; name["T"] = "right"; name["D"] = "ours"
        if ($2 == "S") print ""; printf "%-7s %s\n", name[$2], $NF }'
printf '\n%s\n' "$(python - "$run_dir/scores/test.json" <<'PYTHON'
import json, sys
score = json.load(open(sys.argv[1], encoding="utf-8"))
print(f"BLEU {score['tokenised']['bleu']:.2f} on {score['sentences']} held-out sentences")
PYTHON
); this call took ${SECONDS} seconds"
