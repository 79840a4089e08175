#!/usr/bin/env bash
# From nothing to a translation system and its BLEU: generate a small German-English corpus, train a Macaron Net on
# it, average, translate the held-out sentences, score them, and show ten translations (about 5 minutes on two cores).
#
# Usage: scripts/quickstart.sh [--run-dir DIR] [--seed N]
#   --run-dir DIR      where the run's files go (default: runs/quickstart/macaron-tiny)
#   --seed N           seed of the training, if not 1 (it appends .seed-N to the default of --run-dir)
#
# A second call continues where the first was interrupted, or shows its result again.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
handed_on "" "$@"
tool quickstart "$@"
