#!/usr/bin/env bash
# Prepare Multi30k (29,000 image captions): from raw or segmented text to what fairseq-train reads.
#
# Usage: data-prep/prepare-multi30k.sh --pair PAIR --segmentation SEGMENTATION [options]
#   --pair en-de|de-en|en-fr       source and target language
#   --segmentation own|published   own: raw text is lower-cased, normalised and tokenised as Moses does, and joint BPE
#                                  is learned on the training text; published: the files of Wu et al. (2021), which
#                                  were made that way, are taken as they are
#   --out DIR                      default: data-bin/multi30k-SEGMENTATION.PAIR; the text goes to DIR.text beside it
#   --workers N                    processes of fairseq-preprocess (default: one a processor)
#   --max-tokens N                 lines with more tokens are reported, and dropped from training text with
#                                  --segmentation own, like pairs with an empty side (default: 250)
#   --dry-run                      print the commands only
# With --segmentation own:
#   --bpe subword-nmt|sentencepiece  (default: subword-nmt)
#   --merges N                     BPE merges; with sentencepiece the size of its vocabulary (default: 10000)
#   --cased                        keep capital letters; the literature does not
#
# Where the text comes from, the first that is set or there:
#   RAW_DIR                   a folder of raw text, train.en and so on, plain or .gz, here or in its sub-folder raw;
#                             with --segmentation published, of train.en, valid.en, test.2016.en, test.2017.en,
#                             test.coco.en, here or in its sub-folder bpe10k-en-de (or -fr)
#   ODE_TRANSFORMER_DATA      a folder that holds multi30k/ or multi30k.tar.xz, with raw/ and bpe10k-en-de/ in it
#   URL_MULTI30K              where train.en.gz and so on are downloaded from, raw text only (default: the data set's
#                             repository). The segmented files have no address that can be relied on.
#
# DIR is complete once it is there. It holds the binarised data (test: 2016 flickr, test1: 2017 flickr, test2: 2017
# mscoco, test3: 2018 flickr where the text has it), the BPE codes, the raw text of the test sets in raw/ and their
# tokenised references in tok/, for scoring, and manifest.json, which says how all of it was made. A second run does
# nothing; one that was stopped goes on.
set -euo pipefail
# shellcheck source=data-prep/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

pair='' segmentation='' out='' bpe=subword-nmt merges=10000 lowercase=yes max_tokens=250
workers=$(nproc)
while [[ $# -gt 0 ]]; do
    case $1 in
    -h | --help) usage; exit 0 ;;
    --pair) pair=$(argument --pair "$@"); shift ;;
    --segmentation) segmentation=$(argument --segmentation "$@"); shift ;;
    --out) out=$(absolute "$(argument --out "$@")"); shift ;;
    --bpe) bpe=$(argument --bpe "$@"); shift ;;
    --merges) merges=$(argument --merges "$@"); shift ;;
    --max-tokens) max_tokens=$(argument --max-tokens "$@"); shift ;;
    --workers) workers=$(argument --workers "$@"); shift ;;
    --cased) lowercase=no ;;
    --dry-run) print_only ;;
    *) die "unknown option $1; see --help" ;;
    esac
    shift
done
choice --pair "$pair" en-de de-en en-fr
choice --segmentation "$segmentation" own published
choice --bpe "$bpe" subword-nmt sentencepiece
positive --merges "$merges"
positive --max-tokens "$max_tokens"
positive --workers "$workers"
[[ $segmentation == own || "$bpe $merges $lowercase" == "subword-nmt 10000 yes" ]] ||
    die "--bpe, --merges and --cased are for --segmentation own: the published text has its own"

url=${URL_MULTI30K:-https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw}
source=${pair%-*} target=${pair#*-}
languages=("$source" "$target")
published=bpe10k-en-de # serves both directions
if [[ $pair == en-fr ]]; then published=bpe10k-en-fr; fi
out=${out:-$root/data-bin/multi30k-$segmentation.$pair}
text=$out.text
[[ $text != *,* ]] || die "--out $out: must hold no comma, which separates files for fairseq-preprocess"
splits=(train val test_2016_flickr test_2017_flickr test_2017_mscoco)
settings=(pair="$pair" segmentation="$segmentation" bpe="$bpe" merges="$merges" lowercase="$lowercase"
    max_tokens="$max_tokens")

# The name of a split in the published segmentation.
published_name() {
    case $1 in
    val) echo valid ;;
    test_2016_flickr) echo test.2016 ;;
    test_2017_flickr) echo test.2017 ;;
    test_2017_mscoco) echo test.coco ;;
    *) echo "$1" ;;
    esac
}

# Compare copies with the checksums of the published files: verify [--warn] FOLDER FILE=NAME...
verify() { run "${text_tool[@]}" verify --checksums "$checksums/multi30k.sha256" "$@"; }

# A file of the raw text into $text/raw.
download_raw() {
    local file=$text/raw/$1
    if [[ -e $file ]]; then return; fi
    if [[ ! -d $text/download ]]; then run mkdir -p "$text/download"; fi
    download "$url/$1.gz" "$text/download/$1.gz" || die "multi30k: $tried, and the download from $url/$1.gz failed"
    run cp "$text/download/$1.gz" "$file.part.gz"
    run gzip -df "$file.part.gz"
    verify "$text/raw" "$1.part=raw/$1" || die "$text/download/$1.gz is not the published file; move it away to retry"
    run mv "$file.part" "$file"
}

# --- Is it done already, and with these settings?
alone "$out"
if [[ -e $out ]]; then
    "${text_tool[@]}" settings "$out/manifest.json" "${settings[@]}" --required
    # Where the text is at hand, one that changed since then has to be noticed.
    if [[ -z ${RAW_DIR:-} || ! -d $text ]]; then echo "$out is complete" >&2; exit; fi
elif [[ $dry_run -eq 0 ]]; then
    "${text_tool[@]}" settings "$text/settings.json" "${settings[@]}"
fi

# --- The text, into $text/raw or $text/bpe
if [[ ! -d $text/raw ]]; then run mkdir -p "$text/raw"; fi
find_set multi30k "$text/unpacked"
names=()
if [[ $segmentation == own ]]; then
    raw=$folder
    if [[ -d $folder/raw || ! -d $folder ]]; then raw=$folder/raw; fi
    if [[ -z $folder || -e $raw/test_2018_flickr.$target || -e $raw/test_2018_flickr.$target.gz ]]; then
        splits+=(test_2018_flickr)
    fi
    for split in "${splits[@]}"; do
        for lang in "${languages[@]}"; do
            names+=("$split.$lang=raw/$split.$lang")
            if [[ -n $folder ]]; then
                copy_text "$raw/$split.$lang" "$text/raw/$split.$lang"
            else
                download_raw "$split.$lang"
            fi
        done
    done
    raw=$text/raw
else
    [[ -n $folder ]] || die "multi30k: $tried; the published segmentation has no address to download it from"
    segmented=$folder
    if [[ -d $folder/$published || ! -d $folder ]]; then segmented=$folder/$published; fi
    if [[ ! -d $text/bpe ]]; then run mkdir -p "$text/bpe"; fi
    copy_text "$segmented/code" "$text/codes"
    for split in "${splits[@]}"; do
        for lang in "${languages[@]}"; do
            file=$(published_name "$split").$lang
            names+=("$split.$lang=$published/$file")
            copy_text "$segmented/$file" "$text/bpe/$split.$lang"
        done
    done
fi
if [[ -e $out ]]; then echo "$out is complete" >&2; exit; fi

# --- Checks and segmentation, into $text/bpe
files=(--langs "${languages[@]}" --splits "${splits[@]}")
model=codes
if [[ $bpe == sentencepiece ]]; then model=sentencepiece.model; fi
if [[ $segmentation == published ]]; then
    verify --warn "$text/bpe" "${names[@]}"
    run "${text_tool[@]}" check "$text/bpe" "${files[@]}" --max-tokens "$max_tokens"
else
    if [[ -n $folder ]]; then verify --warn "$text/raw" "${names[@]}"; fi
    run "${text_tool[@]}" check "$text/raw" "${files[@]}"
    options=(--normalise)
    if [[ $lowercase == yes ]]; then options+=(--lowercase first); fi
    once "$text/tok" "${text_tool[@]}" tokenise "$text/raw" "${files[@]}" "${options[@]}" --output-dir "$text/tok.part"
    once "$text/clean" "${text_tool[@]}" clean "$text/tok" "${files[@]}" --drop-from train --max-tokens "$max_tokens" \
        --output-dir "$text/clean.part"
    if [[ $bpe == subword-nmt ]]; then
        learn_bpe "$merges" "$text/clean"
        apply_bpe "$text/bpe" "$text/clean" "${splits[@]}"
    else
        once "$text/$model" "${text_tool[@]}" learn-sentencepiece --vocab-size "$merges" --output "$text/$model.part" \
            --input "$text/clean/train.$source" "$text/clean/train.$target"
        once "$text/bpe" "${text_tool[@]}" apply-sentencepiece "$text/clean" "${files[@]}" --model "$text/$model" \
            --output-dir "$text/bpe.part"
    fi
fi

# --- The raw text of the test sets, which the published segmentation lacks
if [[ $segmentation == published ]]; then
    for split in "${splits[@]:2}"; do
        for raw in "$segmented/raw" "$segmented/../raw"; do
            for lang in "${languages[@]}"; do
                if [[ -e $raw/$split.$lang || -e $raw/$split.$lang.gz ]]; then
                    copy_text "$raw/$split.$lang" "$text/raw/$split.$lang"
                fi
            done
        done
    done
fi

# --- Binarisation
tok=-
if [[ $segmentation == own ]]; then tok=$text/tok; fi
binarise multi30k "$origin" "$model" "$tok" "${splits[@]}"
