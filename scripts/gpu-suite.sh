#!/usr/bin/env bash
# Run what needs a GPU: trainings, several at a time, and beside them checks and the contest with stock fairseq.
#
# Usage: scripts/gpu-suite.sh [--minutes N] [--jobs N] [--dry-run] [other options of `ode-transformer gpu-suite`]
#
# Finished work is not repeated: call the script until no training is left and contest.json has every round.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
handed_on "" "$@"
tool gpu-suite "$@"
