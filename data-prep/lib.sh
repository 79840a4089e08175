# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154,SC2329  # variables and functions are for the scripts that source this, and set by them
# Shared by the data preparation: options, finding or downloading text, steps that run once. To be sourced.
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

checksums=$share/data-prep/checksums
dry_run=0
out='' settings=() needs=(python)
joined=yes dictionary=() # more flags of binarise
tokenised=() # --tokenise=FLAGS, if the tokenization of the text is known, for the manifest

# The options that all scripts have.
shared_help() {
    cat <<END

DIR is complete if it exists: a second run does nothing, and refuses other settings; a run that was stopped is resumed.

Further options:
  --out DIR          where the data go; the text goes to DIR.text beside it
${workers+  --workers N        processes (default: ${workers:-one for each processor that may be used})
}  --dry-run          print the commands only
  --downloads        print only the names of the files that would be downloaded, one per line
END
}

# Scripts may replace it.
more_help() { shared_help; }

# Print the plain commands from here on and run none.
print_only() {
    dry_run=1
    run() { printf '%q ' "$@"; echo; }
}

# Print the names of the files that would be downloaded from here on, and run nothing but other scripts of this folder,
# which do likewise.
print_downloads() {
    dry_run=1 workers=1 # without a look at the processors
    download() { if [[ ! -e $2 ]]; then echo "${2##*/}"; fi; }
    run() {
        local asked=()
        if [[ $1 == env && $2 == RAW_DIR=* ]]; then asked=("$1" "$2") && shift 2; fi
        if [[ ${1%/*} == "$share/data-prep" ]]; then "${asked[@]}" "$1" --downloads "${@:2}"; fi
    }
}

# The text work that is not another program's: sub-commands that check, tokenize and so on.
text_tool=(python -m ode_transformer text)

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

# options NAME=KIND... -- "$@": read a script's options, and those that all have, into variables of their names. KIND
# is text, number, switch (which sets yes), or the valid values with | between them; NAME=word is not an option but the one
# word that the script takes.
options() {
    local -A kinds=([--out]=text)
    local _name _kind _value _valid # as no option is called
    while [[ $1 != -- ]]; do
        kinds["--${1%%=*}"]=${1#*=}
        shift
    done
    shift
    while [[ $# -gt 0 ]]; do
        case $1 in
        -h | --help) usage; exit 0 ;;
        --dry-run) print_only; shift; continue ;;
        --downloads) print_downloads; shift; continue ;;
        esac
        [[ -n $1 ]] || die "an empty argument; see --help"
        _name=$1 _kind=${kinds[$1]:-} _value=yes
        if [[ $1 != -* ]]; then
            for _name in "${!kinds[@]}"; do
                if [[ ${kinds[$_name]} == word ]]; then _kind=word _value=$1; break; fi
            done
        fi
        case $_kind in
        '') die "unknown option $1; see --help" ;;
        switch | word) ;;
        *) _value=$(argument "$1" "$@"); shift ;;
        esac
        case $_kind in
        number) positive "$_name" "$_value" ;;
        *'|'*) IFS='|' read -ra _valid <<<"$_kind"; choice "$_name" "$_value" "${_valid[@]}" ;;
        esac
        _name=${_name#--}
        printf -v "${_name//-/_}" %s "$_value"
        shift
    done
    if [[ -n $out ]]; then out=$(absolute "$out"); fi
}

# begin [SETTING...]: set $out, by default data-bin/$name, and $text beside it; exit if $out exists and was made with
# these settings. Without settings none are stored.
begin() {
    out=${out:-$root/data-bin/$name}
    text=$out.text settings=("$@")
    [[ $text != *,* ]] || die "--out $out: must hold no comma, which separates values for fairseq-hydra-train"
    alone "$out"
    if [[ -e $out ]]; then
        if [[ $# -gt 0 ]]; then "${text_tool[@]}" settings "$out/manifest.json" "$@" --required; fi
        if [[ -d $text ]]; then changed; fi
        echo "$out is complete" >&2
        exit
    fi
    need "${needs[@]}"
    if [[ -v workers && -z $workers ]]; then
        workers=$(python -c 'from ode_transformer.processors import usable; print(usable())')
    fi
    if [[ $dry_run -eq 0 && $# -gt 0 ]]; then "${text_tool[@]}" settings "$text/settings.json" "$@"; fi
    if [[ -e $out.part ]]; then run rm -r "$out.part"; fi
}

# Note the settings in $out.part, and rename it to $out.
finish() {
    run "${text_tool[@]}" settings "$out.part/manifest.json" "${settings[@]}"
    run mv "$out.part" "$out"
}

# A check of data that are complete; scripts may replace it.
changed() { :; }

# once FILE COMMAND...: unless FILE exists, run COMMAND, which writes FILE.part, and rename that to FILE. A file that
# exists is therefore complete, and a script that was interrupted can be resumed.
once() {
    local file=$1
    shift
    if [[ -e $file ]]; then return; fi
    if [[ -e $file.part ]]; then run rm -r "$file.part" || return; fi
    run "$@" || return # set -e has no effect in a command before ||
    run mv "$file.part" "$file"
}

# raw_dir_exists: an error unless RAW_DIR, which is set, is a folder.
raw_dir_exists() { [[ -d $RAW_DIR ]] || die "RAW_DIR=$RAW_DIR: no such folder"; }

# find_set NAME WORK: set $folder to the folder of a set and $origin to where it comes from: $RAW_DIR,
# $ODE_TRANSFORMER_DATA/NAME, or $ODE_TRANSFORMER_DATA/NAME.tar.xz, unpacked into WORK; otherwise $folder is empty.
# $tried describes in words what was looked for.
find_set() {
    local data=${ODE_TRANSFORMER_DATA:-}
    folder='' origin=download
    tried="RAW_DIR is not set, ODE_TRANSFORMER_DATA is not set"
    if [[ -n ${RAW_DIR:-} ]]; then
        raw_dir_exists
        folder=$(absolute "$RAW_DIR") origin=RAW_DIR
    elif [[ -n $data ]]; then
        [[ -d $data ]] || die "ODE_TRANSFORMER_DATA=$data: no such folder"
        tried="RAW_DIR is not set, neither $data/$1 nor $data/$1.tar.xz is there"
        if [[ -d $data/$1 ]]; then
            folder=$(absolute "$data/$1") origin=ODE_TRANSFORMER_DATA
        elif [[ -f $data/$1.tar.xz ]]; then
            folder=$2/$1 origin=ODE_TRANSFORMER_DATA
            if [[ ! -d $2 ]]; then
                need tar xz
                run mkdir -p "$2.part"
                run tar -xJf "$data/$1.tar.xz" -C "$2.part" ||
                    die "$data/$1.tar.xz: could not be unpacked. If the disk is not full, it is cut off or damaged"
                run mv "$2.part" "$2"
            fi
            [[ -d $folder || $dry_run -eq 1 ]] || die "$data/$1.tar.xz holds no folder $1"
        fi
    fi
}

# download URL FILE: fetch a file, and resume a download that was interrupted. Fails if the file cannot be fetched.
download() {
    if [[ -e $2 ]]; then return; fi
    if command -v curl >/dev/null; then
        run curl --fail --location --retry 3 --progress-bar --continue-at - --output "$2.part" "$1" || {
            [[ $? -eq 33 ]] || return 1 # the server cannot go on in the middle
            run rm "$2.part" || return 1
            run curl --fail --location --retry 3 --progress-bar --output "$2.part" "$1" || return 1
        }
    elif command -v wget >/dev/null; then
        run wget --tries 3 --continue --output-document "$2.part" "$1" || return 1
    else
        die "$1: downloading needs curl or wget"
    fi
    run mv "$2.part" "$2"
}

# known_archive ARCHIVE: compare an archive with its published SHA-256, if one is known, and record it.
known_archive() {
    local list=${ARCHIVES_SHA256:-$checksums/archives.sha256} file=${1##*/} sum known='' of name
    if [[ $dry_run -eq 1 ]]; then return; fi
    [[ -f $list ]] || die "ARCHIVES_SHA256=$list: no such file"
    read -r sum _ < <(sha256sum "$1")
    while read -r of name _ || [[ -n $of ]]; do
        if [[ $name == "$file" && $of != - ]]; then known=$of; fi
    done <"$list"
    if [[ -z $known ]]; then
        echo "$file: SHA-256 $sum; no published one is known" >&2
    elif [[ $sum != "$known" ]]; then
        die "$1 has SHA-256 $sum, the published $file $known; remove it, or name a list of your own in ARCHIVES_SHA256"
    fi
    if ! grep -qsx "$sum  $file" "$text/archives.sha256"; then echo "$sum  $file" >>"$text/archives.sha256"; fi
}

# fetch VARIABLE FILE URL: set $archive to $RAW_DIR/FILE if it is there, or to FILE as downloaded from URL, which
# VARIABLE says.
fetch() {
    if [[ -n ${RAW_DIR:-} ]]; then raw_dir_exists; fi
    if [[ -f ${RAW_DIR:-}/$2 ]]; then
        archive=$(absolute "$RAW_DIR")/$2
    else
        if [[ -n ${RAW_DIR:-} ]]; then echo "RAW_DIR=$RAW_DIR: holds no $2, so it is downloaded from $3" >&2; fi
        archive=$text/download/$2
        run mkdir -p "${archive%/*}"
        download "$3" "$archive" ||
            die "$2: the download from $3 failed; what was downloaded is kept, and resumed next time. $1 names another" \
                "address, RAW_DIR a folder with the file"
    fi
    known_archive "$archive"
}

# alone PATH: wait until no other process, this script's killed predecessor's included, works on PATH.
alone() {
    if [[ $dry_run -eq 1 ]]; then return; fi
    need flock
    mkdir -p "$(dirname "$1")"
    while [[ ! $1.lock -ef /proc/self/fd/8 ]]; do # whoever had it may have removed it
        exec 8>>"$1.lock"
        if ! flock --nonblock 8; then
            echo "waiting for another process that prepares $1" >&2
            flock 8
        fi
    done
}

# need PROGRAM...: an error that names the programs that are not installed.
need() {
    local program
    for program in "$@"; do
        command -v "$program" >/dev/null || die "$program is needed and not installed"
    done
}

# binarise_one FOLDER SPLIT=FILE...: binarize text of one language, with the dictionary of $dictionary if that is set.
binarise_one() {
    run "${text_tool[@]}" binarise-monolingual "${@:2}" --data-dir "$1" --workers "${workers:-1}" "${dictionary[@]}"
}

# binarise_part PART FOLDER SPLIT...: make $out.part/PART of the files FOLDER/SPLIT.PART.
binarise_part() {
    local split texts=()
    for split in "${@:3}"; do texts+=("$split=$2/$split.$1"); done
    binarise_one "$out.part/$1" "${texts[@]}"
}

# beside FOLDER: put further files into the folder of binarized data; scripts may replace it.
beside() { :; }

# binarise SET ORIGIN TRAIN VALID TEST...: make $out of the files of $text/bpe with a joined dictionary, in a folder
# beside it that is renamed when it is complete (with $joined set to no, with one dictionary per language).
binarise() {
    local set=$1 origin=$2 texts=(--langs "$source" "$target" --splits "${@:3}" --text-dir)
    if [[ $joined == yes ]]; then dictionary+=(--joined-dictionary); fi
    run "${text_tool[@]}" binarise "${texts[@]}" "$text/bpe" --data-dir "$out.part" --workers "$workers" "${dictionary[@]}"
    run "${text_tool[@]}" references "${texts[@]}" "$text" --data-dir "$out.part"
    beside "$out.part"
    run "${text_tool[@]}" manifest "${texts[@]}" "$text/bpe" --data-dir "$out.part" --set "$set" --source "$origin" \
        --settings "${settings[@]}" "${tokenised[@]}"
    run mv "$out.part" "$out"
}
