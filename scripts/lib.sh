# shellcheck shell=bash
# Shared by the scripts: where things are, saying what is run, and errors. To be sourced.
set -euo pipefail
shopt -s extglob

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# The environment that `make` creates serves where none is active.
if [[ -z ${VIRTUAL_ENV:-} && -x $root/.venv/bin/python ]]; then PATH=$root/.venv/bin:$PATH; fi
if ! command -v python >/dev/null; then python() { python3 "$@"; }; fi

# fairseq and hydra warn about each other at every start.
export PYTHONWARNINGS=${PYTHONWARNINGS:-ignore}
# From a clone the package is found wherever a command is run.
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}

# Leave with a message: the option, the value, the valid set.
die() {
    echo "error: $*" >&2
    exit 1
}

# Print the header comment of the calling script: its usage.
usage() { sed -n '2,/^[^#]/{s/^# \{0,1\}//;t p;b;:p;p}' "$0"; }

# Print a plain command as one could type it, then run it. One that succeeds joins those of the run, with its seconds.
run() {
    local line begun=$SECONDS
    line=$(sed "s/'\([A-Za-z0-9_.,:=/@%+-]\+\)'/\1/g" <<<"${*@Q}")
    echo "+ $line" >&2
    "$@" || return
    if [[ -n ${ODE_TRANSFORMER_COMMANDS:-} ]]; then
        echo "$((SECONDS - begun)) $line" >>"$ODE_TRANSFORMER_COMMANDS"
    fi
}

# note_where RUN_DIR: have the log of a training say where it goes on, and with which versions.
note_where() { python -m ode_transformer where >>"$1/train.log"; }

# begun RUN_DIR: whether a training left something there that must not be mixed with another's.
begun() {
    local files=("$1"/checkpoint*.pt)
    [[ -e $1/.trained || -e ${files[0]} ]]
}

# write_whole FILE TEXT: write a file beside first; several processes may, on several machines.
write_whole() {
    local part=$1.part.${SLURM_PROCID:-${NODE_RANK:-0}}.$$
    printf '%s\n' "$2" >"$part" && mv "$part" "$1"
}

# alone_in RUN_DIR: wait until no other process works there, a killed predecessor's children included.
alone_in() {
    if [[ ${ODE_TRANSFORMER_ALONE_IN:-} == "$1" ]]; then return; fi # the script that called this one is
    exec 9>>"$1/.lock"
    if ! flock --nonblock 9; then
        echo "waiting for another process in $1" >&2
        flock 9
    fi
    export ODE_TRANSFORMER_ALONE_IN=$1
}

# other_run RUN_DIR: leave, since it was made by another command.
other_run() {
    die "$1 holds another run; take another --run-dir. It was made by:
$(cat "$1/train.command" 2>/dev/null || echo 'other means than these scripts')"
}

# has_its_updates RUN_DIR RANK COMMAND...: whether there is nothing left to train; fairseq would train one update more. All
# machines ask, and the first mends what a kill has cut.
has_its_updates() {
    local run_dir=$1 rank=$2 look=() updates last=''
    shift 2
    if [[ ! -e $run_dir/checkpoint_last.pt ]]; then return 1; fi
    if [[ $rank -ne 0 ]]; then look=(--look); fi
    updates=$(python -m ode_transformer resume "$run_dir" "${look[@]}") || die "$run_dir cannot be gone on from"
    while [[ $# -gt 1 ]]; do
        if [[ $1 == --max-update ]]; then last=$2; fi
        shift
    done
    [[ -n $last && $updates -ge $last ]] || return 1
    echo "$run_dir has its $updates updates" >&2
}

# train_alone RUN_DIR COMMAND...: train, once; where it was stopped it goes on.
train_alone() {
    local run_dir=$1 line
    shift
    mkdir -p "$run_dir"
    alone_in "$run_dir"
    line=$(printf '%q ' "$@")
    if ! begun "$run_dir"; then
        rm -f "$run_dir/train.log" # of nothing that is left
        write_whole "$run_dir/train.command" "$line"
    elif [[ $line != "$(cat "$run_dir/train.command" 2>/dev/null)" ]]; then
        other_run "$run_dir"
    fi
    if [[ -e $run_dir/.trained ]]; then return; fi
    if ! has_its_updates "$run_dir" 0 "$@"; then
        note_where "$run_dir"
        run "$@" 2>&1 | tee -a "$run_dir/train.log"
    fi
    write_whole "$run_dir/.trained" ''
}

# The value of an option, or an error that names it: value=$(argument --name "$@")
argument() {
    [[ $# -ge 3 && $3 != --* ]] || die "$1 needs a value"
    printf '%s' "$3"
}

# An absolute path, so that it stays the same after `cd "$root"`.
absolute() { realpath -m -- "$1"; }

# A recipe given as a path keeps its meaning; a name stays a name.
recipe_name() { if [[ $1 == *.yaml || $1 == *.yaml/* ]]; then absolute "$1"; else printf '%s' "$1"; fi; }

# The plain commands of a step: recipe_commands NAME [options] STEP [options], one a line, quoted for the shell.
recipe_commands() { python -m ode_transformer recipe command "$@"; }

# Where the run of a recipe goes by default, links resolved: run_dir_of NAME [options]
run_dir_of() {
    local found
    found=$(python -m ode_transformer recipe run-dir "$@") || return
    absolute "$root/$found"
}

# How many GPUs are here.
gpu_count() { python -c 'import torch; print(torch.cuda.device_count())'; }

# Training on a CPU: glibc gives every freed tensor back to the system and faults it in again; keeping them makes it 1.5
# times faster or more. Child processes inherit it.
keep_freed_memory() {
    export MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=4294967296 MALLOC_TOP_PAD_=268435456
}
