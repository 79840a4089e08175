# shellcheck shell=bash
# shellcheck disable=SC2154  # variables are set by the scripts that source this
# Shared by the preparation of what encoders read, text in the symbols of a pretrained model. To be sourced.
# shellcheck source=data-prep/published.sh
source "$(dirname "${BASH_SOURCE[0]}")/published.sh"
needs+=(sha256sum)

# other VARIABLE SCRIPT ARGUMENT...: call another script of this folder. Its RAW_DIR is the value of VARIABLE, or none of an empty name:
# ours names a folder of another set.
other() { run env "RAW_DIR=${1:+${!1:-}}" "$share/data-prep/$2" "${@:3}"; }

# pretrained FOLDER: prepare the folder of a pretrained model that is known by its name; if it is there, the script checks
# that it was made so.
pretrained() {
    case $(basename "$1") in
    roberta.base | roberta.large) other ROBERTA_DIR prepare-roberta.sh --size "${1##*.}" --out "$1" ;;
    text-imdb) other IMDB_DIR prepare-text.sh --imdb --out "$1" ;;
    text-imdb-4k) other IMDB_DIR prepare-text.sh --imdb --size 4000 --out "$1" ;;
    text-bert) other '' prepare-text.sh --size 32700 --split-sentences --out "$1" ;; # of TEXT_INPUT
    esac
    [[ -f $1/dict.txt || $dry_run -eq 1 ]] || die "--like $1: has no dict.txt"
}

# begin_like SETTING...: prepare $like, then begin with these settings, its name, and the SHA-256 of its dictionary. Data
# that are complete do not need $like any more.
begin_like() {
    local sum=''
    out=${out:-$root/data-bin/$name}
    if [[ ! -e $out ]]; then pretrained "$like"; fi
    if [[ -f $like/dict.txt ]]; then
        read -r sum _ < <(sha256sum "$like/dict.txt")
    elif [[ -e $out ]]; then
        sum=$("${text_tool[@]}" setting "$out/manifest.json" dictionary)
    fi
    begin "$@" like="$(basename "$like")" dictionary="$sum"
    dictionary=(--dictionary "$like/dict.txt")
}

# binarise_inputs SPLIT...: make $out.part of every input of $text/symbols, with the dictionary of $like.
binarise_inputs() {
    local part=0
    while [[ -f $text/symbols/train.input$part || ($dry_run -eq 1 && $part -lt 2) ]]; do
        binarise_part "input$part" "$text/symbols" "$@"
        part=$((part + 1))
    done
}
