#!/usr/bin/env bash
# Train a recipe; a run that was interrupted continues from its last checkpoint. A recipe that starts from another's
# checkpoint trains that one first, in its usual folder, in the same precision and on as many of the devices as divide its
# batches, but without the flags after --.
#
# Usage: scripts/train.sh RECIPE [options of `ode-transformer run`] [-- more flags of fairseq-train]
#   such as --run-dir DIR, --seed N, --devices N, --cpu, --fp16, --torchrun, --dry-run; `ode-transformer run --help`
#
# Under Slurm, `srun scripts/train.sh RECIPE -- --distributed-port 29500`, a task per node or a task per GPU: fairseq's
# own engine reads the job's variables. Data must have been prepared before.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
handed_on "a recipe" "$@"
tool run "$1" --until train "${@:2}"
