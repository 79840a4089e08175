# shellcheck shell=bash
# shellcheck disable=SC2034,SC2329  # variables and functions are for the scripts that source this
# Shared by the data preparation: finding or downloading text, steps that run once. To be sourced.
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

checksums=$root/data-prep/checksums
dry_run=0

# Print the plain commands from here on and run none.
print_only() {
    dry_run=1
    run() { printf '%q ' "$@"; echo; }
}

# The text work that is not another program's: sub-commands that check, tokenise and so on.
text_tool=(python "$root/ode_transformer/text.py")

# One of a set of values, or an error that names the option: choice --name VALUE VALID...
choice() {
    local option=$1 value=$2 valid
    shift 2
    for valid in "$@"; do
        if [[ $value == "$valid" ]]; then return; fi
    done
    die "$option $value: must be one of $*"
}

# A positive number, or an error that names the option: positive --name VALUE
positive() { [[ $2 =~ ^[1-9][0-9]*$ ]] || die "$1 $2: must be a positive number"; }

# once FILE COMMAND...: unless FILE is there, run COMMAND, which writes FILE.part, then give it its name. What is there
# is therefore whole, and a script that was stopped goes on where it was.
once() {
    local file=$1
    shift
    if [[ -e $file ]]; then return; fi
    run "$@"
    run mv "$file.part" "$file"
}

# find_set NAME WORK: set $folder to the folder of a set and $origin to where it comes from: $RAW_DIR,
# $ODE_TRANSFORMER_DATA/NAME, or $ODE_TRANSFORMER_DATA/NAME.tar.xz, unpacked into WORK; else $folder is empty.
# $tried says in words what was looked for.
find_set() {
    local data=${ODE_TRANSFORMER_DATA:-}
    folder='' origin=download
    tried="RAW_DIR is not set, ODE_TRANSFORMER_DATA is not set"
    if [[ -n ${RAW_DIR:-} ]]; then
        [[ -d $RAW_DIR ]] || die "RAW_DIR=$RAW_DIR: no such folder"
        folder=$(absolute "$RAW_DIR") origin=RAW_DIR
    elif [[ -n $data ]]; then
        [[ -d $data ]] || die "ODE_TRANSFORMER_DATA=$data: no such folder"
        tried="RAW_DIR is not set, neither $data/$1 nor $data/$1.tar.xz is there"
        if [[ -d $data/$1 ]]; then
            folder=$(absolute "$data/$1") origin=ODE_TRANSFORMER_DATA
        elif [[ -f $data/$1.tar.xz ]]; then
            folder=$2/$1 origin=ODE_TRANSFORMER_DATA
            if [[ ! -d $2 ]]; then
                run mkdir -p "$2.part"
                run tar -xJf "$data/$1.tar.xz" -C "$2.part"
                run mv "$2.part" "$2"
            fi
            [[ -d $folder || $dry_run -eq 1 ]] || die "$data/$1.tar.xz holds no folder $1"
        fi
    fi
}

# copy_text SOURCE FILE: copy SOURCE, or SOURCE.gz unpacked, to FILE. A FILE that is there has to hold the same.
copy_text() {
    local source=$1 file=$2
    if [[ ! -f $source && ! -f $source.gz && $dry_run -eq 0 ]]; then die "$source: no such file, nor $source.gz"; fi
    if [[ -e $file ]]; then
        if [[ -f $source ]]; then cmp -s "$source" "$file"; else gzip -dc "$source.gz" | cmp -s - "$file"; fi ||
            die "$source is not what it was: it differs from $file, its copy; take another --out"
    elif [[ -f $source.gz && ! -f $source ]]; then
        run cp "$source.gz" "$file.part.gz"
        run gzip -df "$file.part.gz"
        run mv "$file.part" "$file"
    else
        once "$file" cp "$source" "$file.part"
    fi
}

# download URL FILE: fetch a file; what came before an interruption is kept and continued. Fails if it does not come.
download() {
    if [[ -e $2 ]]; then return; fi
    if command -v curl >/dev/null; then
        run curl --fail --location --retry 3 --progress-bar --continue-at - --output "$2.part" "$1" || return 1
    elif command -v wget >/dev/null; then
        run wget --tries 3 --continue --output-document "$2.part" "$1" || return 1
    else
        die "$1: downloading needs curl or wget"
    fi
    run mv "$2.part" "$2"
}
