#!/usr/bin/env bash
#SBATCH --job-name=ode_transformer
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=16
#SBATCH --time=2-00:00:00
#SBATCH --output=slurm-%j.log
# Train a recipe under Slurm, on one machine or several, then average, translate and score on one GPU.
#
# Usage: scripts/slurm/train.sh RECIPE [options of `ode-transformer run`] [-- more flags of fairseq-train]
#   to be given to sbatch, with options of its own before it: sbatch --nodes 2 scripts/slurm/train.sh ode/wmt14-en-de/rk2
#   RECIPE             a name that `ode-transformer recipe list` prints
#
# From the top of the repository. The number of GPUs has to divide the batches of an update, which
# `ode-transformer recipe show RECIPE` prints: sbatch --nodes 2 --gpus-per-node 8 for a recipe of 16. The data must
# be prepared before, on a machine with a network; so must the model that the recipe starts from, if there is one and if
# there are several machines. A job that ran out of time can be submitted again; it resumes where it stopped, on the
# same or a different number of GPUs.
set -euo pipefail
case ${1:-} in
-h | --help) sed -n '2,/^[^#]/{/^#SBATCH/d;s/^# \{0,1\}//;t p;b;:p;p}' "$0"; exit 0 ;;
'' | -*) echo "error: a recipe is needed first, got ${1:-nothing}; see --help" >&2; exit 1 ;;
esac
[[ -n ${SLURM_JOB_ID:-} ]] || { echo "error: to be run with sbatch; scripts/reproduce.sh runs without Slurm" >&2; exit 1; }
cd "${SLURM_SUBMIT_DIR:-.}"

# One task per machine, which starts a process per GPU; fairseq reads the job's machines from Slurm's variables.
port=$((20000 + SLURM_JOB_ID % 20000))
options=()
while [[ $# -gt 0 && $1 != -- ]]; do options+=("$1"); shift; done
export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-}
srun --kill-on-bad-exit=1 scripts/train.sh "${options[@]}" -- --distributed-port "$port" "${@:2}"

# scripts/reproduce.sh finds the training done, and does the rest.
srun --nodes=1 --ntasks=1 scripts/reproduce.sh "${options[@]}" --trained
