#!/usr/bin/env bash
# Prepare RACE (Lai et al. 2017) for fairseq's task sentence_ranking: articles, and questions with each of four options.
#
# Usage: data-prep/prepare-race.sh [options]
#   --like DIR      cut text as the folder of a pretrained model says (default: data-bin/roberta.large), see
#                   prepare-glue.sh
#   --generated N   no RACE, but N generated articles of each level in its layout, for rehearsals
#   --out DIR       default: data-bin/race, with the name of --like appended
#   --workers N     processes that binarize (default: 2)
#   --dry-run       print the commands only
#
# RAW_DIR names a folder with RACE.tar.gz, or RACE/ unpacked; ODE_TRANSFORMER_DATA one with race/ or race.tar.xz, and RACE/
# in it; without either RACE.tar.gz is downloaded from URL_RACE (default: its authors' address). Nobody published its
# SHA-256, but a list in ARCHIVES_SHA256 may have it. The test set is test, its articles for middle schools alone are
# test1, those for high schools test2. ROBERTA_DIR, IMDB_DIR and TEXT_INPUT are for the models that
# --like prepares, see prepare-glue.sh.
set -euo pipefail
# shellcheck source=data-prep/encoders.sh
source "$(dirname "${BASH_SOURCE[0]}")/encoders.sh"

like='' generated='' workers=2 again='' stale='' needs+=(tar)
options like=text {generated,workers}=number -- "$@"
like=$(absolute "${like:-$root/data-bin/roberta.large}")
name=race${generated:+.generated}.$(basename "$like")
begin_like generated="$generated"
if [[ -n $generated ]]; then
    folder=$text/generated
    once "$folder" python -m ode_transformer dataset reading race --articles "$generated" --output-dir "$folder.part"
else
    find_set race "$text/race"
    if [[ -z $folder || ! -d $folder/RACE ]]; then
        archive=${folder:-$text/download}/RACE.tar.gz
        if [[ -z $folder ]]; then
            if [[ $dry_run -eq 0 ]]; then mkdir -p "$text/download"; fi
            download "${URL_RACE:-https://www.cs.cmu.edu/~glai1/data/race/RACE.tar.gz}" "$archive" ||
                die "RACE.tar.gz: $tried, and the download failed; URL_RACE names another address"
            again="; delete $archive to download it again"
        fi
        [[ -f $archive || $dry_run -eq 1 ]] || die "$folder: has neither RACE nor RACE.tar.gz"
        known_archive "$archive"
        folder=$text/unpacked
        stale="; delete $folder before another archive is tried"
        if [[ ! -d $folder ]]; then
            if [[ -e $folder.part ]]; then run rm -r "$folder.part"; fi
            run mkdir -p "$folder.part"
            run tar -xzf "$archive" -C "$folder.part" ||
                die "$archive: could not be unpacked, it is cut off or damaged$again"
            [[ -d $folder.part/RACE || $dry_run -eq 1 ]] || die "$archive: holds no folder RACE$again"
            run mv "$folder.part" "$folder"
        fi
    fi
fi
once "$text/symbols" python -m ode_transformer dataset race "$folder/RACE" --like "$like" \
    --output-dir "$text/symbols.part" ||
    die "$folder/RACE: could not be read and cut into symbols, as said above$stale$again"
binarise_inputs train valid test test1 test2
run mkdir -p "$out.part/label"
for split in train valid test test1 test2; do run cp "$text/symbols/$split.label" "$out.part/label"; done
finish
