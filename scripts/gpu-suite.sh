#!/usr/bin/env bash
# What only a GPU can show: checks in every precision, the benchmark, then real training, several runs at once.
#
# Usage: scripts/gpu-suite.sh [--minutes N] [--jobs N] [--dry-run] [other options of `ode-transformer gpu-suite`]
#
# What is done is not done again: call it until it says that all is done.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
handed_on "" "$@"
tool gpu-suite "$@"
