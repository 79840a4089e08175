# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154,SC2329  # variables and functions are for the scripts that source this, and set by them
# Shared by the data preparation: finding or downloading text, steps that run once. To be sourced.
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

checksums=$root/data-prep/checksums
dry_run=0
joined=yes dictionary=() # more flags of fairseq-preprocess

# Print the plain commands from here on and run none.
print_only() {
    dry_run=1
    run() { printf '%q ' "$@"; echo; }
}

# The text work that is not another program's: sub-commands that check, tokenise and so on.
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
        run curl --fail --location --retry 3 --progress-bar --continue-at - --output "$2.part" "$1" || {
            [[ $? -eq 33 ]] || return 1 # the server cannot go on in the middle
            run rm "$2.part"
            run curl --fail --location --retry 3 --progress-bar --output "$2.part" "$1" || return 1
        }
    elif command -v wget >/dev/null; then
        run wget --tries 3 --continue --output-document "$2.part" "$1" || return 1
    else
        die "$1: downloading needs curl or wget"
    fi
    run mv "$2.part" "$2"
}

# alone PATH: wait until no other process, this script's killed predecessor's included, works on PATH.
alone() {
    if [[ $dry_run -eq 1 ]]; then return; fi
    need flock
    mkdir -p "$(dirname "$1")"
    exec 8>>"$1.lock"
    if ! flock --nonblock 8; then
        echo "waiting for another process that prepares $1" >&2
        flock 8
    fi
}

# need PROGRAM...: an error that names the programs that are not installed.
need() {
    local program
    for program in "$@"; do
        command -v "$program" >/dev/null || die "$program is needed and not installed"
    done
}

# The steps that every corpus takes once its text is tokenised, on files of $text, for $source and $target.

# learn_bpe MERGES FOLDER: learn joint BPE on FOLDER/train, into $text/codes.
learn_bpe() {
    once "$text/codes" subword-nmt learn-joint-bpe-and-vocab --input "$2/train.$source" "$2/train.$target" \
        --symbols "$1" --output "$text/codes.part" --write-vocabulary "$text/vocab.$source" "$text/vocab.$target" \
        --num-workers "$workers"
}

# apply_bpe OUTPUT FOLDER SPLIT...: segment files of FOLDER; in one process, since subword-nmt with several loses the
# lines of one that fails, and says nothing.
apply_bpe() {
    local output=$1 folder=$2 split lang
    shift 2
    if [[ ! -d $output ]]; then run mkdir -p "$output"; fi
    for split in "$@"; do
        for lang in "$source" "$target"; do
            once "$output/$split.$lang" subword-nmt apply-bpe --codes "$text/codes" --input "$folder/$split.$lang" \
                --output "$output/$split.$lang.part"
        done
    done
}

# binarise SET ORIGIN MODEL TOK TRAIN VALID TEST...: make $out of the files of $text/bpe with a joined dictionary, in a
# folder beside it that gets its name when all is there ($joined is no: with a dictionary a language). For scoring it keeps the references as words, from the folder
# TOK, or if that is - by joining the units of BPE, and the raw text of $text/raw.
binarise() {
    local set=$1 origin=$2 model=$3 tok=$4 train=$5 valid=$6 i split name lang
    shift 6
    local mapping=(train="$train" valid="$valid") prefixes=("${@/#/$text/bpe/}")
    if [[ -e $out.part ]]; then run rm -r "$out.part"; fi
    if [[ $joined == yes ]]; then dictionary+=(--joined-dictionary); fi
    run fairseq-preprocess --source-lang "$source" --target-lang "$target" "${dictionary[@]}" \
        --trainpref "$text/bpe/$train" --validpref "$text/bpe/$valid" --testpref "$(IFS=,; echo "${prefixes[*]}")" \
        --destdir "$out.part" --workers "$workers"
    run cp "$text/$model" "$out.part/$model"
    run mkdir "$out.part/raw" "$out.part/tok"
    i=0
    for split in "$@"; do
        name='test'
        if [[ $i -gt 0 ]]; then name=test$i; fi
        i=$((i + 1))
        mapping+=("$name=$split")
        # References as words: fairseq's own have <<unk>> for what its dictionary lacks.
        if [[ $tok == - ]]; then
            run sed -nE -e 's/@@( |$)//g' -e "w $out.part/tok/$name.$target" "$text/bpe/$split.$target"
        else
            run cp "$tok/$split.$target" "$out.part/tok/$name.$target"
        fi
        for lang in "$source" "$target"; do
            if [[ ! -e $text/raw/$split.$lang && $dry_run -eq 0 ]]; then
                echo "no raw text of $split.$lang: scores will use the tokenised text, detokenised" >&2
            elif [[ $dry_run -eq 0 && $(wc -l <"$text/raw/$split.$lang") -ne $(wc -l <"$text/bpe/$split.$lang") ]]; then
                echo "the raw text of $split.$lang has another number of lines than the segmented: left out" >&2
            else
                run cp "$text/raw/$split.$lang" "$out.part/raw/$name.$lang"
            fi
        done
    done
    if [[ -e $text/archives.sha256 ]]; then run cp "$text/archives.sha256" "$out.part/archives.sha256"; fi
    run "${text_tool[@]}" manifest --set "$set" --source "$origin" --langs "$source" "$target" \
        --splits "${mapping[@]}" --text-dir "$text/bpe" --data-dir "$out.part" --settings "${settings[@]}"
    run mv "$out.part" "$out"
}
