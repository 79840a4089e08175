# shellcheck shell=bash
# Shared by the scripts: where things are, saying what is run, and errors. To be sourced.
shopt -s extglob

# The folder of data-prep and scripts, and that of runs and data-bin: the top of the clone or, where they are part of an
# installed package, the current folder.
share=$(CDPATH='' cd -- "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
root=$share
if [[ ${share##*/} == _share ]]; then root=$PWD; fi
# The environment that `make` creates serves where none is active; one in the current folder is not ours.
if [[ -z ${VIRTUAL_ENV:-} && -x $share/.venv/bin/python ]]; then PATH=$share/.venv/bin:$PATH; fi
if ! command -v python >/dev/null; then python() { python3 "$@"; }; fi

# fairseq and hydra print warnings about each other at every start.
export PYTHONWARNINGS=${PYTHONWARNINGS:-ignore}
# From a clone the package is found wherever a command is run.
if [[ $root == "$share" ]]; then export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}; fi
# Another clone that a script is called from must not win.
export PYTHONSAFEPATH=1

# Leave with a message: the option, the value, the valid set.
die() {
    echo "error: $*" >&2
    exit 1
}

# Print the header comment of the calling script, its usage.
usage() { sed -n '2,/^[^#]/{s/^# \{0,1\}//;t p;b;:p;p}' "$0"; }

# Print a plain command in a form that can be typed.
show() { echo "+ $(sed "s/'\([A-Za-z0-9_.,:=/@%+-]\+\)'/\1/g" <<<"${*@Q}")" >&2; }

# Print a plain command, then run it.
run() { show "$@" && "$@"; }

# handed_on WHAT ARGUMENT...: show the usage if that is asked for; see that WHAT comes first, unless it is empty.
handed_on() {
    if [[ ${2:-} == -h || ${2:-} == --help ]]; then usage; exit 0; fi
    [[ -z $1 || ($# -gt 1 && $2 != -*) ]] || die "$1 is needed first, got ${2:-nothing}; see --help"
}

# The command of this package, in place of the script.
tool() {
    show python -m ode_transformer "$@"
    exec "$(type -P python || type -P python3)" -m ode_transformer "$@"
}
