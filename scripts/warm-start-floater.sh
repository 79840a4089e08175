#!/usr/bin/env bash
# Continue a trained Transformer as FLOATER: write a first checkpoint that equals the Transformer, then train.
#
# Usage: scripts/warm-start-floater.sh CHECKPOINT DATA --save-dir DIR [--arch ARCH] [--dry-run] -- FLAGS
#   `ode-transformer train-from --help` explains them. FLAGS are fairseq-train's: criterion, optimizer, batch, schedule;
#   the paper halves the peak learning rate, trains ten more epochs (--max-epoch 10), and averages the last five
#   checkpoints. A run that was stopped resumes from its last checkpoint.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
handed_on "" "$@"
tool train-from "$@"
