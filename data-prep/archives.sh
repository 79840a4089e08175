# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # variables are set by and for the scripts that source this
# Shared by the preparation of corpora that are published as archives: fetching and checking them, then the steps from
# raw text to binarised data. To be sourced.
# shellcheck source=data-prep/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# The Moses whose programs --tokeniser moses takes.
moses_commit=fd06cdf026dd9e0396db56a7d93c2f6b446a1e02
moses_files=(tokenizer/{tokenizer,lowercase,normalize-punctuation,remove-non-printing-char}.perl
    share/nonbreaking_prefixes/nonbreaking_prefix.{en,de,fr,ro})

out='' tokeniser=${TOKENISER:-sacremoses} workers=$(nproc)
choice TOKENISER "$tokeniser" sacremoses moses
every=0         # the Nth pair of the training text is held out for validation; 0: none, there is a set
clean=tokens    # what cleaning counts: tokens, before BPE is learned; or units, after it is applied
common=()       # flags of `text.py tokenise` for all text
train_only=()   # and for training text alone

# An option that all of these scripts have: common_option "$@" sets $taken to the number of words it took.
common_option() {
    taken=2
    case $1 in
    -h | --help) usage; exit 0 ;;
    --out) out=$(absolute "$(argument --out "$@")") ;;
    --tokeniser) tokeniser=$(argument --tokeniser "$@") && choice --tokeniser "$tokeniser" sacremoses moses ;;
    --workers) workers=$(argument --workers "$@") && positive --workers "$workers" ;;
    --merges) merges=$(argument --merges "$@") && positive --merges "$merges" ;;
    --dry-run) taken=1 && print_only ;;
    *) die "unknown option $1; see --help" ;;
    esac
}

# begin [SETTING...]: leave if $out is there already and was made with these settings.
begin() {
    out=${out:-$root/data-bin/$name}
    text=$out.text
    [[ $text != *,* ]] || die "--out $out: must hold no comma, which separates files for fairseq-preprocess"
    if [[ $tokeniser == moses ]]; then
        tokeniser=moses-${moses_commit:0:7}
        if [[ -n ${MOSES_DIR:-} ]]; then tokeniser='moses-of-MOSES_DIR'; fi
    fi
    settings=("$@" tokeniser="$tokeniser" merges="$merges")
    alone "$out"
    if [[ -e $out ]]; then
        "${text_tool[@]}" settings "$out/manifest.json" "${settings[@]}" --required
        echo "$out is complete" >&2
        exit
    fi
    need python tar gzip sha256sum subword-nmt fairseq-preprocess
    if [[ $tokeniser == moses* ]]; then need perl; fi
    if [[ $dry_run -eq 0 ]]; then
        "${text_tool[@]}" settings "$text/settings.json" "${settings[@]}"
        mkdir -p "$text/download" "$text/unpacked" "$text/tmp"
        export TMPDIR=$text/tmp # subword-nmt copies the text there
    fi
}

# unpack NAME FILE URL MEMBER...: set $unpacked to a folder with the members of an archive: of $RAW_DIR/FILE; or else
# downloaded, from $URL_NAME if that is set.
unpack() {
    local variable=URL_$1 file=$2 url=$3 archive
    unpacked=$text/unpacked/$file
    shift 3
    if [[ -e $unpacked ]]; then return; fi
    if [[ -n ${RAW_DIR:-} ]]; then
        archive=$(absolute "$RAW_DIR")/$file
        [[ -f $archive || $dry_run -eq 1 ]] || die "RAW_DIR=$RAW_DIR: holds no $file, which $url has"
    else
        archive=$text/download/$file
        download "${!variable:-$url}" "$archive" ||
            die "$file: RAW_DIR is not set, and the download from ${!variable:-$url} failed; what came is kept, and" \
                "goes on next time. $variable names another address"
    fi
    known_archive "$archive"
    if [[ -e $unpacked.part ]]; then run rm -r "$unpacked.part"; fi
    run mkdir -p "$unpacked.part"
    if [[ $file == *.zip ]]; then
        run python -m zipfile -e "$archive" "$unpacked.part"
    else
        run tar -xf "$archive" -C "$unpacked.part" "$@"
    fi || die "$archive: could not be unpacked. If the disk is not full, it is cut off or damaged: remove it and start again"
    run mv "$unpacked.part" "$unpacked"
}

# known_archive ARCHIVE: compare an archive with its published SHA-256, if one is known; note what it is.
known_archive() {
    local list=${ARCHIVES_SHA256:-$checksums/archives.sha256} file=${1##*/} sum
    if [[ $dry_run -eq 1 ]]; then return; fi
    [[ -f $list ]] || die "ARCHIVES_SHA256=$list: no such file"
    sum=$(sha256sum "$1")
    sum=${sum%% *}
    if grep -q "  $file\$" "$list"; then
        grep -qx "$sum  $file" "$list" ||
            die "$1 has SHA-256 $sum, the published $file $(grep "  $file\$" "$list" | cut -d ' ' -f 1); remove it, or" \
                "name a list of your own in ARCHIVES_SHA256"
    else
        echo "$file: SHA-256 $sum; no published one is known" >&2
    fi
    touch "$text/archives.sha256"
    if ! grep -qx "$sum  $file" "$text/archives.sha256"; then echo "$sum  $file" >>"$text/archives.sha256"; fi
}

# Fetch Moses' programs, all from one commit.
fetch_moses() {
    local file
    moses=${MOSES_DIR:-$text/moses/scripts}
    for file in "${moses_files[@]}"; do
        if [[ -n ${MOSES_DIR:-} ]]; then
            [[ -f $moses/$file || $dry_run -eq 1 ]] || die "MOSES_DIR=$MOSES_DIR: holds no $file"
            continue
        fi
        if [[ $dry_run -eq 0 ]]; then mkdir -p "$(dirname "$moses/$file")"; fi
        download "${URL_MOSES:-https://raw.githubusercontent.com/moses-smt/mosesdecoder/$moses_commit}/scripts/$file" \
            "$moses/$file" || die "Moses: the download of $file failed; MOSES_DIR names a folder scripts of your own"
    done
}

# prepare TEST...: from $text/raw to $out. Without $every, raw/valid is the validation set.
prepare() {
    local tests=("$@") held=("$@") options=(--workers "$workers") files=(--langs "$source" "$target")
    if [[ $every -eq 0 ]]; then held=(valid "$@"); fi
    if [[ $tokeniser == moses* ]]; then
        fetch_moses
        options+=(--moses "$moses")
    fi
    options+=("${common[@]}")
    once "$text/tok.test" "${text_tool[@]}" tokenise "$text/raw" "${files[@]}" --splits "${held[@]}" "${options[@]}" \
        --straight-quotes --output-dir "$text/tok.test.part"
    once "$text/tok.train" "${text_tool[@]}" tokenise "$text/raw" "${files[@]}" --splits train "${options[@]}" \
        "${train_only[@]}" --output-dir "$text/tok.train.part"
    local folder=$text/tok.train bpe=$text/bpe mine=(train) limits=(--max-tokens "$max_tokens" --ratio "$ratio")
    if [[ $clean == tokens ]]; then
        once "$text/clean" "${text_tool[@]}" clean "$folder" "${files[@]}" --splits train --drop-from train \
            "${limits[@]}" --output-dir "$text/clean.part"
        folder=$text/clean
    else
        bpe=$text/bpe.all
    fi
    if [[ $every -gt 0 ]]; then
        once "$text/held" "${text_tool[@]}" hold-out "$folder" "${files[@]}" --every "$every" \
            --output-dir "$text/held.part"
        folder=$text/held
        mine=(train valid)
    fi
    learn_bpe "$merges" "$folder"
    apply_bpe "$bpe" "$folder" "${mine[@]}"
    apply_bpe "$bpe" "$text/tok.test" "${held[@]}"
    if [[ $clean == units ]]; then
        once "$text/bpe" "${text_tool[@]}" clean "$bpe" "${files[@]}" --splits train valid "${tests[@]}" \
            --drop-from "${mine[@]}" "${limits[@]}" --output-dir "$text/bpe.part"
    fi
    binarise "$name" "$(origin)" codes "$text/tok.test" train valid "${tests[@]}"
}

# Where the archives came from, in words.
origin() { if [[ -n ${RAW_DIR:-} ]]; then echo RAW_DIR; else echo download; fi; }

# compare WHAT FILE PUBLISHED [words]: say whether a file has as many lines, or words, as published.
compare() {
    local found unit=lines
    if [[ $dry_run -eq 1 ]]; then return; fi
    if [[ ${4:-} == words ]]; then unit=words found=$(wc -w <"$2"); else found=$(wc -l <"$2"); fi
    if [[ $found -eq $3 ]]; then
        echo "$1: $found $unit, as published" >&2
    else
        echo "warning: $1: $found $unit, published $3" >&2
    fi
}
