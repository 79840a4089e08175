#!/usr/bin/env bash
# Prepare Multi30k (29,000 image captions): from raw or segmented text to what fairseq-train reads.
#
# Usage: data-prep/prepare-multi30k.sh --pair PAIR --segmentation SEGMENTATION [options]
#   --pair en-de|de-en|en-fr       source and target language
#   --segmentation own|published   own: raw text is lower-cased, normalized and tokenized as Moses does, and joint BPE
#                                  is learned on the training text; published: the files of Wu et al. (2021), which
#                                  were made that way, are taken as they are
# With --segmentation own:
#   --max-tokens N                 leave out training pairs with more tokens on a side (default: 250)
#   --bpe subword-nmt|sentencepiece  with sentencepiece, --merges is the vocabulary size (default: subword-nmt)
#   --cased                        keep capital letters; the literature does not
#
# RAW_DIR: train.en and so on, plain or .gz, there or in raw/; with --segmentation published train.en, valid.en,
# test.2016.en, test.2017.en, test.coco.en, there or in bpe10k-en-de/ (or -fr), which have no address that can be relied
# on. ODE_TRANSFORMER_DATA: multi30k, with both in it; URL_MULTI30K, raw text only.
# test is 2016 flickr, test1 2017 flickr, test2 2017 mscoco, test3 2018 flickr if the text has it. DIR is by default
# data-bin/multi30k-SEGMENTATION.PAIR.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

name=multi30k pair='' segmentation='' merges=10000 cased=no max_tokens=250 earlier=yes
corpus_options 'pair=en-de|de-en|en-fr' 'segmentation=own|published' 'bpe=subword-nmt|sentencepiece' cased=switch \
    max-tokens=number -- "$@"
[[ -n $pair && -n $segmentation ]] || die "--pair and --segmentation are needed; see --help"
[[ $segmentation == own || "$bpe $merges $cased" == "subword-nmt 10000 no" ]] ||
    die "--bpe, --merges and --cased are for --segmentation own: the published text has its own"
source=${pair%-*} target=${pair#*-}
out=${out:-$root/data-bin/multi30k-$segmentation.$pair}
url=${URL_MULTI30K:-https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw}
flags=--normalise
if [[ $cased == no ]]; then flags+=" --lowercase first"; fi
splits=(train val test_2016_flickr test_2017_flickr test_2017_mscoco)
declare -A called=() # what published files are called otherwise
published=raw into=raw
if [[ $segmentation == published ]]; then
    called=([val]=valid [test_2016_flickr]=test.2016 [test_2017_flickr]=test.2017 [test_2017_mscoco]=test.coco)
    published=bpe10k-en-de into=bpe # of both directions
    if [[ $pair == en-fr ]]; then published=bpe10k-en-fr; fi
fi

# copy_text FOLDER INTO FILE=NAME...: copy files of FOLDER to $text/INTO, and name the unpublished ones.
copy_text() {
    run "${text_tool[@]}" verify "$1" "${@:3}" --checksums "$checksums/multi30k.sha256" --output-dir "$text/$2" ${warn:+"$warn"}
}

# Take the files of the text into $text.
take_text() {
    local split lang file names=() from warn=--warn
    find_set multi30k "$text/unpacked/multi30k"
    from=$folder
    if [[ -d $folder/$published || ! -d $folder ]]; then from=$folder/$published; fi
    if [[ $segmentation == published ]]; then
        [[ -n $folder ]] || die "multi30k: $tried; the published segmentation has no address to download it from"
        names+=("../codes=$published/code")
    elif [[ -z $folder || -e $from/test_2018_flickr.$target || -e $from/test_2018_flickr.$target.gz ]]; then
        splits+=(test_2018_flickr)
    fi
    for split in "${splits[@]}"; do
        for lang in "$source" "$target"; do names+=("$split.$lang=$published/${called[$split]:-$split}.$lang"); done
    done
    if [[ -z $folder ]]; then
        from=$text/download warn=''
        for file in "${names[@]#*/}"; do
            download "$url/$file.gz" "$from/$file.gz" ||
                die "multi30k: $tried, and the download from $url/$file.gz failed"
        done
    fi
    copy_text "$from" $into "${names[@]}"
}

# If the data are complete and the text is available, check that it has not changed since.
changed() { if [[ -n ${RAW_DIR:-} ]]; then take_text; fi; }

corpus pair="$pair" segmentation="$segmentation" bpe="$bpe" cased="$cased" max_tokens="$max_tokens"
take_text
if [[ $segmentation == own ]]; then
    prepare_raw "$flags" '' '' --splits "${splits[@]}" --max-tokens "$max_tokens"
    exit
fi
# The raw text of the test sets, which the published segmentation lacks, if it is available.
for raw in "$folder/raw" "$folder/../raw"; do
    names=()
    for split in "${splits[@]:2}"; do
        for lang in "$source" "$target"; do
            if [[ -e $raw/$split.$lang || -e $raw/$split.$lang.gz ]]; then names+=("$split.$lang=raw/$split.$lang"); fi
        done
    done
    if [[ ${#names[@]} -gt 0 ]]; then warn=--warn copy_text "$raw" raw "${names[@]}"; fi
done
prepare --start bpe --splits "${splits[@]}" --tokenise="$flags --old-full-stop"
