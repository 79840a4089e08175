#!/usr/bin/env bash
# Run what needs a GPU: checks, the contest with stock fairseq, then trainings, several at a time.
#
# Usage: scripts/gpu-suite.sh [--minutes N] [--jobs N] [--dry-run] [other options of `ode-transformer gpu-suite`]
#
# Finished work is not repeated: call the script until it says that everything is done.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
handed_on "" "$@"
tool gpu-suite "$@"
