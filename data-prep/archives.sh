# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # variables are set by and for the scripts that source this
# Shared by the preparation of parallel corpora: fetching and checking archives, then the steps from raw text to
# binarized data. To be sourced.
# shellcheck source=data-prep/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# The Moses whose programs --tokeniser moses takes.
moses_commit=fd06cdf026dd9e0396db56a7d93c2f6b446a1e02
moses_files=(tokenizer/{tokenizer,lowercase,normalize-punctuation,remove-non-printing-char}.perl
    share/nonbreaking_prefixes/nonbreaking_prefix.{en,de,fr,ro})

tokeniser=${TOKENISER:-sacremoses} workers=''
choice TOKENISER "$tokeniser" sacremoses moses
every=0                # the Nth pair of the training text is held out for validation; 0: none, there is a set
valid=valid            # its name
clean=tokens           # what cleaning counts: tokens, before BPE is learned; or units, after it is applied
bpe=subword-nmt        # or sentencepiece
earlier=no             # yes: the published text is of an earlier Moses, which split fewer full stops off
common=()              # flags of `text tokenise` for all text
train_only=()          # for training text alone
held_only=(--straight-quotes) # and for all other

# The options that all of them have.
more_help() {
    shared_help
    cat <<END
  --merges N         BPE merges (default: $merges)
  --tokeniser sacremoses|moses   moses: the perl programs themselves (default: TOKENISER, or sacremoses)

$archives_help
  MOSES_DIR, URL_MOSES   Moses' folder scripts, or where one commit of Moses is (default: a pinned one)
END
}
archives_help='  ARCHIVES_SHA256    a list of SHA-256 sums to check archives with (default: data-prep/checksums/archives.sha256)'

# corpus_options NAME=KIND... -- "$@": read the options of the script, and those that all have.
corpus_options() { options 'tokeniser=sacremoses|moses' merges=number workers=number "$@"; }

# corpus [SETTING...]: exit if $out exists and was made with these settings, and with those that all have.
corpus() {
    if [[ $earlier == yes ]]; then
        [[ $tokeniser != moses ]] || die "--tokeniser moses: must be sacremoses, because this text was tokenized by an earlier Moses"
        common+=(--old-full-stop)
    elif [[ $tokeniser == moses ]]; then
        tokeniser=moses-${moses_commit:0:7}
        if [[ -n ${MOSES_DIR:-} ]]; then tokeniser='moses-of-MOSES_DIR'; fi
    fi
    needs=(tar gzip sha256sum "${needs[@]}")
    if [[ $tokeniser == moses* ]]; then needs+=(perl); fi
    begin "$@" tokeniser="$tokeniser" merges="$merges"
    if [[ $dry_run -eq 0 ]]; then mkdir -p "$text/download" "$text/unpacked"; fi
}

# unpack NAME FILE URL MEMBER...: set $unpacked to a folder with the members of an archive: $RAW_DIR/FILE, or a
# download, from $URL_NAME if that is set.
unpack() {
    local variable=URL_$1 archive
    unpacked=$text/unpacked/$2
    if [[ -e $unpacked ]]; then return; fi
    fetch "$variable" "$2" "${!variable:-$3}"
    if [[ -e $unpacked.part ]]; then run rm -r "$unpacked.part"; fi
    run mkdir -p "$unpacked.part"
    if [[ $2 == *.zip ]]; then
        run python -m zipfile -e "$archive" "$unpacked.part"
    else
        run tar -xf "$archive" -C "$unpacked.part" "${@:4}"
    fi || die "$archive: could not be unpacked. If the disk is not full, it is cut off or damaged: remove it and start again"
    run mv "$unpacked.part" "$unpacked"
}

# gather FLAG...: join files of corpora into $text/raw.
gather() {
    once "$text/raw" "${text_tool[@]}" gather --langs "$source" "$target" "$@" --output-dir "$text/raw.part"
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

# segment FOLDER SPLIT...: learn BPE on FOLDER/train, and segment files of FOLDER into $units.
segment() {
    local model=$text/codes
    if [[ $bpe == sentencepiece ]]; then model=$text/sentencepiece.model; fi
    once "$model" "${text_tool[@]}" "learn-$bpe" --input "$1/train.$source" "$1/train.$target" --size "$merges" \
        --workers "$workers" --output "$model.part"
    run "${text_tool[@]}" "apply-$bpe" "$1" --langs "$source" "$target" --splits "${@:2}" --model "$model" \
        --workers "$workers" --output-dir "$units"
}

# prepare TEST...: from $text/raw to $out. Without $every, raw/$valid is the validation set.
prepare() {
    local held=("$@") all=(train "$valid" "$@") folder=$text/tok units=$text/bpe drop=(train)
    local files=(--langs "$source" "$target") options=(--workers "$workers" --output-dir "$text/tok")
    if [[ $every -eq 0 ]]; then held=("$valid" "$@"); else drop=(train "$valid"); fi
    if [[ $tokeniser == moses* ]]; then
        fetch_moses
        options+=(--moses "$moses")
    fi
    options+=("${common[@]}")
    tokenised=(--tokenise="${common[*]} ${held_only[*]}")
    run "${text_tool[@]}" tokenise "$text/raw" "${files[@]}" --splits "${held[@]}" "${options[@]}" "${held_only[@]}"
    run "${text_tool[@]}" tokenise "$text/raw" "${files[@]}" --splits train "${options[@]}" "${train_only[@]}"
    local limits=(--max-tokens "$max_tokens" ${ratio:+--ratio "$ratio"})
    if [[ $clean == tokens ]]; then
        once "$text/clean" "${text_tool[@]}" clean "$folder" "${files[@]}" --splits train "${held[@]}" \
            --drop-from train "${limits[@]}" --output-dir "$text/clean.part"
        folder=$text/clean
    else
        units=$text/bpe.all
    fi
    if [[ $every -gt 0 ]]; then
        once "$text/held" "${text_tool[@]}" hold-out "$folder" "${files[@]}" --splits "${held[@]}" --every "$every" \
            --output-dir "$text/held.part"
        folder=$text/held
    fi
    segment "$folder" "${all[@]}"
    if [[ $clean == units ]]; then
        once "$text/bpe" "${text_tool[@]}" clean "$units" "${files[@]}" --splits "${all[@]}" --drop-from "${drop[@]}" \
            "${limits[@]}" --output-dir "$text/bpe.part"
    fi
    binarise "$name" "$(origin)" "${all[@]}"
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
