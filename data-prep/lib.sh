# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154,SC2329  # variables and functions are for the scripts that source this, and set by them
# Shared by the data preparation: options, finding or downloading text, steps that run once. To be sourced.
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

checksums=$share/data-prep/checksums
dry_run=''
out=''

# --- Options

# The options that all scripts have, and those of corpora that `corpus` begins.
more_help() {
    cat <<END

DIR is complete if it exists: a second run does nothing, and refuses other settings; a run that was stopped is resumed.

Further options:
  --out DIR          where the data go; the text goes to DIR.text beside it
${workers+  --workers N        processes (default: ${workers:-one for each processor that may be used})
}${tokeniser+  --merges N         BPE merges (default: $merges)
}  --dry-run          print the commands only

RAW_DIR names a folder with the files of the corpus; ODE_TRANSFORMER_DATA, if the help above names a set, one with SET or
SET.tar.xz. What is not found is downloaded, from URL_NAME if that is set (the address of the file or, where there are
several, of their folder), and compared with its SHA-256 in the list ARCHIVES_SHA256 (default:
data-prep/checksums/archives.sha256), if it is known.
END
}

# options NAME=KIND... -- "$@": read a script's options, and those that all have, into variables of their names. KIND
# is text, number, switch (which sets yes), or the valid values with | between them; NAME=word is not an option but the one
# word that the script takes.
options() {
    local -A kinds=([--out]=text [--dry-run]=switch)
    local _name _kind _value _word='' # as no option is called
    while [[ $1 != -- ]]; do
        if [[ $1 == *=word ]]; then _word=--${1%%=*}; else kinds["--${1%%=*}"]=${1#*=}; fi
        shift
    done
    shift
    while [[ $# -gt 0 ]]; do
        if [[ $1 == -h || $1 == --help ]]; then usage; more_help; exit 0; fi
        [[ -n $1 ]] || die "an empty argument; see --help"
        _name=$1 _kind=${kinds[$1]:-} _value=yes
        if [[ -n $_word && $1 != -* ]]; then _name=$_word _kind=word _value=$1; fi
        case $_kind in
        '') die "unknown option $1; see --help (a value is the next word, without =)" ;;
        switch | word) ;;
        *)
            [[ -n ${2:-} && $2 != --* ]] || die "$1 needs a value"
            _value=$2
            shift
            ;;
        esac
        case $_kind in
        number) [[ $_value =~ ^[1-9][0-9]*$ ]] || die "$_name $_value: must be a positive number" ;;
        *'|'*) [[ "|$_kind|" == *"|$_value|"* ]] || die "$_name $_value: must be one of ${_kind//|/ }" ;;
        esac
        _name=${_name#--}
        printf -v "${_name//-/_}" %s "$_value"
        shift
    done
    if [[ -n $out ]]; then out=$(realpath -ms -- "$out"); fi # a link keeps its name, and the place beside it
    if [[ -n $dry_run ]]; then run() { printf '%q ' "$@"; echo; }; fi # plain commands are printed and none is run
}

# --- Beginning, and work that is done once

# check_raw_dir: refuse a RAW_DIR that does not exist.
check_raw_dir() { [[ -z ${RAW_DIR:-} || -d $RAW_DIR ]] || die "RAW_DIR=$RAW_DIR: no such folder"; }

# begin SETTING...: set $out, by default data-bin/$name, and $text beside it; exit if $out exists and was made with these
# settings.
begin() {
    out=${out:-$root/data-bin/$name}
    text=$out.text
    [[ ${out#"$root"/} != *[,:]* ]] || die "--out $out: must hold no comma and no colon, at which fairseq splits it"
    [[ -e $out ]] || alone "$out" # who may only read complete data need not lock them
    if [[ -e $out ]]; then
        python -m ode_transformer text settings "$out/manifest.json" "$@" --required
        echo "$out is complete" >&2
        exit
    fi
    check_raw_dir
    if [[ -v workers && -z $workers ]]; then
        workers=$(python -c 'from ode_transformer.processors import usable; print(usable())')
    fi
    if [[ -z $dry_run ]]; then python -m ode_transformer text settings "$text/settings.json" "$@"; fi
}

# once FILE COMMAND...: unless FILE exists, run COMMAND, which writes FILE.part, and rename that to FILE. A file that
# exists is therefore complete, and a script that was interrupted can be resumed.
once() {
    if [[ -e $1 ]]; then return; fi
    if [[ -e $1.part ]]; then run rm -r "$1.part" || return; fi
    run "${@:2}" || return # set -e has no effect in a command before ||
    run mv "$1.part" "$1"
}

# into FOLDER WORD...: make a folder, once, by a command of this package.
into() { once "$1" python -m ode_transformer "${@:2}" --output-dir "$1.part"; }

# alone PATH: wait until no other process, this script's killed predecessor's included, works on PATH.
alone() {
    if [[ -n $dry_run ]]; then return; fi
    mkdir -p "$(dirname "$1")"
    exec 8>>"$1.lock"
    flock --nonblock 8 2>/dev/null || case $? in
        1) echo "waiting for another process that prepares $1" >&2 && flock 8 ;;
        127) die "flock is not installed; it is part of util-linux" ;;
        *) echo "warning: $1: this file system has no locks; start no second command there" >&2 ;;
    esac
}

# compare WHAT FILE PUBLISHED [words]: say whether a file has as many lines, or words, as published.
compare() {
    local found unit=${4:-lines}
    if [[ -n $dry_run ]]; then return; fi
    found=$(LC_ALL=C.UTF-8 wc "--$unit" <"$2") # wc of the C locale sees no word in „ or –
    if [[ $found -eq $3 ]]; then
        echo "$1: $found $unit, as published" >&2
    else
        echo "warning: $1: $found $unit, published $3" >&2
    fi
}

# --- Where text comes from

# extract ARCHIVE FOLDER [MEMBER or option of tar...]: unpack an archive to a folder, once; links could lead elsewhere.
extract() {
    if [[ $1 == *.zip ]]; then
        once "$2" python -m zipfile -e "$1" "$2.part"
    else
        once "$2" tar -xf "$1" --one-top-level="$2.part" "${@:3}"
    fi || die "$1: could not be unpacked. If it is cut off or damaged, replace it and start again"
    [[ -n $dry_run || -z $(find "$2" ! -type f ! -type d) ]] || { rm -r "$2" && die "$1: holds links, pipes or devices"; }
}

# find_set NAME: set $folder to the folder of a set and $origin to where it comes from: $RAW_DIR,
# $ODE_TRANSFORMER_DATA/NAME, or $ODE_TRANSFORMER_DATA/NAME.tar.xz, which is unpacked; otherwise $folder is empty.
# $tried describes in words what was looked for.
find_set() {
    local data=${ODE_TRANSFORMER_DATA:-}
    folder='' origin=download
    tried="RAW_DIR is not set, ODE_TRANSFORMER_DATA is not set"
    if [[ -n ${RAW_DIR:-} ]]; then
        folder=$(realpath -m -- "$RAW_DIR") origin=RAW_DIR
    elif [[ -n $data ]]; then
        [[ -d $data ]] || die "ODE_TRANSFORMER_DATA=$data: no such folder"
        tried="RAW_DIR is not set, neither $data/$1 nor $data/$1.tar.xz is there"
        if [[ -d $data/$1 ]]; then
            folder=$(realpath -m -- "$data/$1") origin=ODE_TRANSFORMER_DATA
        elif [[ -f $data/$1.tar.xz ]]; then
            folder=$text/unpacked/$1/$1 origin=ODE_TRANSFORMER_DATA
            extract "$data/$1.tar.xz" "$text/unpacked/$1"
        fi
    fi
}

# set_of NAME: as find_set, for a set that cannot be downloaded, and is another than that of RAW_DIR.
set_of() {
    RAW_DIR='' find_set "$1"
    [[ -n $folder ]] || die "$1: ${tried#*, }${2:-}" # RAW_DIR is of another set
}

# download URL FILE: fetch a file, and resume a download that was interrupted. Fails if the file cannot be fetched.
download() {
    if [[ -e $2 ]]; then return; fi
    [[ -n $dry_run ]] || command -v curl >/dev/null || die "curl is not installed, which downloads $1"
    run curl --fail --location --retry 3 --progress-bar --create-dirs --continue-at - --output "$2.part" "$1" || {
        [[ $? == @(22|33|36) && -e $2.part ]] || return 1 # the server cannot go on in the middle, or behind the end
        run curl --fail --location --retry 3 --progress-bar --output "$2.part" "$1" || return 1
    }
    run mv "$2.part" "$2"
}

# known_archive ARCHIVE: compare an archive with its published SHA-256, if one is known, and record it.
known_archive() {
    local list=${ARCHIVES_SHA256:-$checksums/archives.sha256} file=${1##*/} sum known
    if [[ -n $dry_run ]]; then return; fi
    [[ -f $list ]] || die "ARCHIVES_SHA256=$list: no such file"
    read -r sum _ < <(sha256sum "$1")
    known=$(awk -v file="$file" '$2 == file && $1 != "-" { known = $1 } END { print known }' "$list")
    if [[ -z $known ]]; then
        echo "$file: SHA-256 $sum; no published one is known" >&2
    elif [[ $sum != "$known" ]]; then
        die "$1 has SHA-256 $sum, the published $file $known; remove it, or name a list of your own in ARCHIVES_SHA256"
    fi
    if ! grep -qsx "$sum  $file" "$text/archives.sha256"; then echo "$sum  $file" >>"$text/archives.sha256"; fi
}

# known_text LIST FILE...: warn of texts, plain or .gz, that are not the published ones; downloaded, they are refused.
known_text() {
    local file sum
    if [[ -n $dry_run ]]; then return; fi
    for file in "${@:2}"; do
        [[ -f $file ]] || die "$file: no such file; --help says what RAW_DIR must hold"
        read -r sum _ < <(zcat --force "$file" | sha256sum)
        if grep -q "^$sum " "$checksums/$1"; then continue; fi
        [[ $file != "$text"/download/* ]] || die "$file: is not the published file; remove it and start again"
        echo "warning: $file is not the published file" >&2
    done
}

# copy_units CODES SPLIT=FILE...: take text that is segmented already, FILE.LANGUAGE in the folder of its codes.
copy_units() {
    local split lang
    run mkdir -p "$text/bpe"
    once "$text/codes" cp "$1" "$text/codes.part"
    for split in "${@:2}"; do
        for lang in "$source" "$target"; do
            once "$text/bpe/${split%%=*}.$lang" cp "${1%/*}/${split#*=}.$lang" "$text/bpe/${split%%=*}.$lang.part"
        done
    done
}

# fetch VARIABLE FILE URL: set $archive to $RAW_DIR/FILE if it is there, or to FILE as downloaded from URL, which
# VARIABLE says.
fetch() {
    if [[ -f ${RAW_DIR:-}/$2 ]]; then
        archive=$(realpath -m -- "$RAW_DIR")/$2
    else
        if [[ -n ${RAW_DIR:-} ]]; then echo "$RAW_DIR: holds no $2, so it is downloaded from $3" >&2; fi
        archive=$text/download/$2
        download "$3" "$archive" ||
            die "$2: the download from $3 failed; what was downloaded is kept, and resumed next time. $1 names another" \
                "address (see --help), RAW_DIR a folder with the file"
    fi
    known_archive "$archive"
}

# unpack NAME FILE URL [MEMBER or option of tar...]: set $unpacked to a folder with the members of an archive:
# $RAW_DIR/FILE, or a download, from $URL_NAME if that is set.
unpack() {
    local variable=URL_$1 archive
    unpacked=$text/unpacked/$2
    if [[ -e $unpacked ]]; then return; fi
    fetch "$variable" "$2" "${!variable:-$3}"
    extract "$archive" "$unpacked" "${@:4}"
}

# add_pair SPLIT NAME FILE ADDRESS MEMBER MEMBER: let $files say that two members of an archive, of ADDRESS/FILE, are of a
# split; of one archive with several splits, call unpack once instead.
files=()
add_pair() {
    unpack "$2" "$3" "$4/$3" "$5" "$6"
    files+=(--add "$1" "$unpacked/$5" "$unpacked/$6")
}

# published SET MEMBER NAME FILE URL [option of tar]: set $folder to where a set lies: in RAW_DIR or ODE_TRANSFORMER_DATA,
# if MEMBER is in it; else in the archive FILE, of RAW_DIR or downloaded from URL, which URL_NAME replaces.
published() {
    find_set "$1"
    if [[ -n $folder && (-n $dry_run || -e $folder/$2) ]]; then return; fi
    [[ -z $folder || -n ${RAW_DIR:-} ]] || die "$folder: holds no $2"
    unpack "${@:3}"
    folder=$unpacked
    [[ -n $dry_run || -e $folder/$2 ]] ||
        die "$4: holds no $2; remove $unpacked, and $text/download/$4 if it is there, before another is tried"
}

# labelled SET MEMBER TRAIN TEST: make $out of a set whose texts have classes, in $folder/MEMBER, of TRAIN and TEST examples.
labelled() {
    into "$text/$level" dataset "$1" "$folder/$2" --valid "$valid" --level "$level" --size "$size" --workers "$workers"
    compare "training and validation examples" <(cat "$text/$level"/{train,valid}.label 2>/dev/null) "$3"
    compare "test examples" "$text/$level/test.label" "$4"
    binarise "$text/$level"
}

# The reviews of IMDB, in $folder/aclImdb.
published_imdb() {
    published imdb aclImdb IMDB aclImdb_v1.tar.gz https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz
}

# --- From text to binarized data

# prepare OPTION...: make $out of the parallel text in $text, or of the files that the options name.
prepare() {
    run python -m ode_transformer text prepare "$out" --name "$name" --source "$origin" --langs "$source" "$target" \
        --workers "$workers" "$@"
}

# binarise FOLDER OPTION...: make $out of a folder of examples in one language; its other files are copied.
binarise() { run python -m ode_transformer text binarize "$out" "$@" --workers "${workers:-1}"; }

# corpus_options NAME=KIND... -- "$@": read the options of the script, and those of corpora that Moses' rules tokenize.
corpus_options() {
    tokeniser=sacremoses workers=''
    options merges=number workers=number "$@"
}

# corpus [SETTING...]: begin with these settings, and those that all such corpora have.
corpus() {
    origin=${RAW_DIR:+RAW_DIR}
    origin=${origin:-download}
    begin "$@" tokeniser="$tokeniser" merges="$merges"
}

# prepare_raw ALL HELD TRAIN OPTION...: make $out of raw text that is tokenized with the flags ALL, and with HELD or
# TRAIN, for training text alone. With $earlier set to yes, as by an earlier Moses, which split fewer full stops off.
prepare_raw() {
    local all=$1
    if [[ ${earlier:-no} == yes ]]; then all+=" --old-full-stop"; fi
    prepare --tokenize="$all $2" --tokenize-train="$all $3" --size "$merges" "${@:4}"
}

# --- Text in the symbols of a pretrained model

# other VARIABLE SCRIPT ARGUMENT...: call another script of this folder. Its RAW_DIR is the value of VARIABLE, or none of
# an empty name: ours names a folder of another set.
other() { run env "RAW_DIR=${1:+${!1:-}}" "$share/data-prep/$2" "${@:3}"; }

# pretrained FOLDER: prepare the folder of a pretrained model that is known by its name; if it is there, the script checks
# that it was made so, except where it would need the text that it was made of.
pretrained() {
    case $(basename "$1") in
    roberta.base | roberta.large) other ROBERTA_DIR prepare-roberta.sh --size "${1##*.}" --out "$1" ;;
    text-imdb) other IMDB_DIR prepare-text.sh --imdb --out "$1" ;;
    text-imdb-4k) other IMDB_DIR prepare-text.sh --imdb --size 4000 --out "$1" ;;
    text-bert) [[ -e $1 ]] || other '' prepare-text.sh --size 32700 --split-sentences --out "$1" ;; # of TEXT_INPUT
    esac
    [[ -f $1/dict.txt || -n $dry_run ]] || die "--like $1: has no dict.txt"
}

# begin_like NAME LIKE SETTING...: prepare $like, by default data-bin/LIKE, then begin data called NAME.LIKE with these
# settings, its name, and the SHA-256 of its dictionary. Data that are complete do not need $like any more. With
# $generated, $folder gets so many generated texts, in the layout of NAME.
begin_like() {
    local sum=''
    like=$(realpath -ms -- "${like:-$root/data-bin/$2}")
    name=$1${generated:+.generated}.$(basename "$like")
    out=${out:-$root/data-bin/$name}
    if [[ ! -e $out ]]; then check_raw_dir && pretrained "$like"; fi
    if [[ -f $like/dict.txt ]]; then
        read -r sum _ < <(sha256sum "$like/dict.txt")
    elif [[ -e $out ]]; then
        sum=$(sed -n 's/^ *"dictionary": "\(.*\)",*$/\1/p' "$out/manifest.json" 2>/dev/null) || true # which begin refuses
    fi
    begin "${@:3}" like="$(basename "$like")" dictionary="$sum"
    if [[ -n $generated ]]; then
        folder=$text/generated
        into "$folder" dataset reading "${1/\//-}" --articles "$generated"
    fi
}
