#!/usr/bin/env bash
# Prepare Multi30k (29,000 image captions): from raw or segmented text to what fairseq-train reads.
#
# Usage: data-prep/prepare-multi30k.sh --pair PAIR --segmentation SEGMENTATION [options]
#   --pair en-de|de-en|en-fr       source and target language
#   --segmentation own|published   own: raw text is lower-cased, normalized and tokenized as Moses does, and joint BPE
#                                  is learned on the training text; published: the files of Wu et al. (2021), which
#                                  were made that way, are taken as they are
#
# RAW_DIR: all of train.en and so on, plain or .gz, there or in raw/; with --segmentation published code, train.en,
# valid.en, test.2016.en, test.2017.en, test.coco.en, there or in bpe10k-en-de/ (or -fr), which have no address that can
# be relied on. ODE_TRANSFORMER_DATA: multi30k, with both in it; URL_MULTI30K, raw text only.
# test is 2016 flickr, test1 2017 flickr, test2 2017 mscoco, test3 2018 flickr if the text has it. DIR is by default
# data-bin/multi30k-SEGMENTATION.PAIR.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

name=multi30k pair='' segmentation='' merges=10000 earlier=yes
corpus_options 'pair=en-de|de-en|en-fr' 'segmentation=own|published' -- "$@"
[[ -n $pair && -n $segmentation ]] || die "--pair and --segmentation are needed; see --help"
[[ $segmentation == own || $merges -eq 10000 ]] || die "--merges is for --segmentation own: the published text has its own"
source=${pair%-*} target=${pair#*-}
out=${out:-$root/data-bin/multi30k-$segmentation.$pair}
corpus pair="$pair" segmentation="$segmentation" bpe=subword-nmt cased=no max_tokens=250

url=${URL_MULTI30K:-https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw}
splits=(train val test_2016_flickr test_2017_flickr test_2017_mscoco)
find_set multi30k
raw=$folder
if [[ -d $folder/raw || ! -d $folder ]]; then raw=$folder/raw; fi
if [[ $segmentation == published ]]; then
    [[ -n $folder ]] || die "multi30k: $tried; the published segmentation has no address to download it from"
    published=bpe10k-en-de # of both directions
    if [[ $pair == en-fr ]]; then published=bpe10k-en-fr; fi
    if [[ -d $folder/$published || ! -d $folder ]]; then folder+=/$published; fi
    copy_units "$folder/code" {train=train,val=valid,test_2016_flickr=test.2016,test_2017_flickr=test.2017,test_2017_mscoco=test.coco}
    known_text multi30k.sha256 "$text/codes" "$text/bpe"/*
elif [[ -z $folder || -e $raw/test_2018_flickr.$target || -e $raw/test_2018_flickr.$target.gz ]]; then
    splits+=(test_2018_flickr)
fi
for split in "${splits[@]}"; do
    texts=()
    for lang in "$source" "$target"; do
        file=$raw/$split.$lang
        if [[ -z $folder ]]; then
            file=$text/download/$split.$lang.gz
            download "$url/${file##*/}" "$file" || die "multi30k: $tried, and the download from $url/${file##*/} failed"
        elif [[ -e $file.gz ]]; then
            file+=.gz
        fi
        texts+=("$file")
    done
    # Beside the published segmentation, the raw text of test sets is taken if it is there.
    if [[ $segmentation == published && ($split != test* || ! -e ${texts[0]} || ! -e ${texts[1]}) ]]; then continue; fi
    known_text multi30k.sha256 "${texts[@]}"
    files+=(--add "$split" "${texts[@]}")
done
if [[ $segmentation == own ]]; then
    prepare_raw "--normalize --lowercase first" '' '' "${files[@]}" --splits "${splits[@]}" --max-tokens 250
else
    prepare "${files[@]}" --start bpe --splits "${splits[@]}" --tokenize="--normalize --lowercase first --old-full-stop"
fi
