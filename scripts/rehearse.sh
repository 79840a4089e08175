#!/usr/bin/env bash
# Rehearse recipes on a CPU: every step of each, from data to record, with a narrow version of its own architecture, on
# little text, for thirty updates. The result says that a recipe runs, and nothing about its quality.
#
# Usage: scripts/rehearse.sh [RECIPE...] [--jobs N] [--output FILE]
#   see `ode-transformer rehearsal --help`
#
# A recipe that was rehearsed already is skipped. It takes a minute or two per recipe and needs Multi30k
# (ODE_TRANSFORMER_DATA).
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
handed_on "" "$@"
tool rehearsal "$@"
