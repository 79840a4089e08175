"""Descriptions of prepared text and binarized data: their settings, and the manifest."""

import platform
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...files import copy_file, read_json, sha256, write_json, write_lines
from ...schema import count, lacks
from ...version import installed_versions
from . import binarised
from .binarised import numbered
from .joining import JOIN, MODEL_FILES
from .lines import TextError, count_lines, read_lines

PACKAGES = ("fairseq-fixed", "sacremoses", "subword-nmt", "sentencepiece")
NEEDED = ("dict.*.txt", *MODEL_FILES)  # the files of binarized data that translation needs
VERSION = "3"  # the version of the prepared text; data of another version are refused


def text_beside(data: Path) -> Path:
    """Return the folder of the text that data are made of."""
    return data.with_name(f"{data.name}.text")


def read_mapping(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file of a preparation.

    Raises:
        TextError: the file cannot be read, or does not hold a mapping.
    """
    held = read_json(path, TextError)
    if not isinstance(held, dict):
        raise TextError(f"{path}: must be a mapping; remove its folder and prepare the data again")
    return held


def held_settings(file: Path) -> dict[str, str]:
    """Return the settings in a ``settings.json`` or ``manifest.json``.

    Raises:
        TextError: the file is missing, or holds no settings.
    """
    if not file.exists():
        raise TextError(
            f"{file.parent} was not made, or not finished, by this command; remove it, or choose another --out"
        )
    held = read_mapping(file)
    settings = held.get("settings", held)
    if not settings or lacks(settings, {str: str}):
        raise TextError(f"{file.parent} was not made by this command; choose another --out")
    return settings


def check_settings(
    file: Path, settings: Mapping[str, str], required: bool = False, options: Mapping[str, str] = {}
) -> None:
    """Compare settings with those in a ``settings.json`` or ``manifest.json``.

    The settings are written if there is no file, or if its settings differ and nothing was made with them.

    Args:
        file: the file of earlier settings.
        settings: the current settings, as text; the setting of a file is its SHA-256.
        required: whether the file must exist.
        options: the names of settings in messages, by the first word of their keys.

    Raises:
        TextError: the file is required and missing, or settings differ; the message names them.
    """
    wanted = versioned(settings)
    if not (required or file.exists()):
        write_json(file, wanted)
        return
    held = held_settings(file)
    different = {name: name.split() for name in {**held, **wanted} if held.get(name) != wanted.get(name)}
    if different and {path.name for path in file.parent.iterdir()} <= {"settings.json", "download"}:
        write_json(file, wanted)  # nothing was made with the earlier settings
    elif different:
        differ = [
            _difference(options.get(word.rstrip("0123456789"), word), which, held.get(name), wanted.get(name))
            for name, (word, *which) in different.items()  # test1 is a second test set
            if not which or word not in different  # whose files differ, too
        ]
        raise TextError(
            f"{file.parent} was made with other settings ({'; '.join(differ)}); choose another --out, or remove it "
            "(all but its folder download, if there is one)"
        )


def _difference(option: str, which: Sequence[str], *values: str | None) -> str:
    """Describe how a setting differs, but do not show the hash of a file."""
    if any(value and re.fullmatch("[0-9a-f]{64}", value) for value in values):
        return f"{' '.join([option, *which[-1:]])}: another file than then"
    was, is_ = ("not given" if value in ("", "None", None) else value for value in values)
    return f"{option}: {was} then, {is_} now"


def versioned(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings with the version of prepared text."""
    return {"text_version": VERSION, **settings}


def keep_references(text: Path, data: Path, splits: Sequence[str], langs: Sequence[str]) -> None:
    """Copy what decoding and scoring need to binarized data: the subword model, and the test sets, raw and tokenized.

    The sub-folders ``raw``, ``tok`` and ``bpe`` of ``text`` hold the text.
    """
    for name in (*MODEL_FILES, "archives.sha256"):
        if (text / name).exists():
            copy_file(text / name, data / name)
    for name, split in list(numbered(splits).items())[2:]:
        units, words = (text / folder / f"{split}.{langs[1]}" for folder in ("bpe", "tok"))
        # References as words, because fairseq's have <<unk>> for words that its dictionary lacks.
        if words.exists():
            copy_file(words, data / "tok" / f"{name}.{langs[1]}")
        else:
            write_lines(data / "tok" / f"{name}.{langs[1]}", map(JOIN["subword_nmt"], read_lines(units)))
        for lang in langs if (text / "raw").exists() else ():
            raw = text / "raw" / f"{split}.{lang}"
            if not raw.exists():
                print(f"no raw text of {raw.name}: scores will use the detokenized text", file=sys.stderr)
            elif count_lines(raw) != count_lines(units):
                print(f"{raw} has another number of lines than the segmented text: left out", file=sys.stderr)
            else:
                copy_file(raw, data / "raw" / f"{name}.{lang}")


def write_manifest(
    text: Path,
    data: Path,
    splits: Sequence[str],
    langs: Sequence[str],
    *,
    name: str,
    source: str,
    settings: Mapping[str, str],
    tokenise: Mapping[str, Any] | None,
) -> None:
    """Check binarized data, write their manifest, and print the sizes of splits and vocabularies.

    Args:
        text, data, splits, langs: as for :func:`.binarise`.
        name: the name of the data set.
        source: a description of where the text came from.
        settings: all settings on which the data depend.
        tokenise: the options of the ``Tokeniser`` of the model's input; None if they are unknown.

    Raises:
        TextError: the text is empty; or as in :func:`.unknown`.
    """
    counts, segmented = {}, {}
    for split, its in numbered(splits).items():
        files = [text / f"{its}.{lang}" for lang in langs]
        if not (lines := count_lines(files[0])):
            raise TextError(f"{files[0]} is empty")
        segmented |= {f"segmented/{file.name}": sha256(file) for file in files}
        found = {lang: binarised.unknown(data / f"{split}.{'-'.join(langs)}.{lang}", lines) for lang in langs}
        unknown, tokens = ({lang: both[i] for lang, both in found.items()} for i in (0, 1))
        counts[split] = {"lines": lines, "tokens": tokens, "unknown": unknown}
        shown = ", ".join(f"{lang} {n:,} ({unknown[lang] / max(n, 1):.2%} unknown)" for lang, n in tokens.items())
        print(f"{split:<6} {its:<18} {lines:>7,} pairs   subword units: {shown}")
        for lang in langs:
            binarised.warn_of_unknown(f"{its}.{lang}", *found[lang])
    # The four special symbols are not in the file.
    symbols = {lang: count_lines(data / f"dict.{lang}.txt") + 4 for lang in langs}
    print(f"vocabulary, with the 4 special symbols: {', '.join(f'{k} {v:,}' for k, v in symbols.items())}")
    manifest = {
        "set": name,
        "source_lang": langs[0],
        "target_lang": langs[1],
        "source": source,
        "splits": numbered(splits),
        "counts": counts,  # tokens are subword units
        "symbols": symbols,
        "settings": versioned(settings),
        # How the model's input is tokenized; null if unknown.
        "tokenise": tokenise,
        "sha256": hashes_in(data, *NEEDED, "raw/*", "tok/*", "archives.sha256") | segmented,
        "versions": {"python": platform.python_version(), **installed_versions(PACKAGES)},
    }
    write_json(data / "manifest.json", manifest)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of binarized data.

    Raises:
        TextError: there is no manifest, it has another form, or a dictionary or subword model beside it is missing or
            has changed.
        OSError: a dictionary or subword model cannot be read.
    """
    held = read_mapping(folder / "manifest.json")
    held.setdefault("sha256", {})  # generated data have none; their settings describe them
    if wrong := lacks(held, {"sha256": {str: str}, "counts": (..., {str: {"lines": (..., count)}})}):
        raise TextError(f"{folder / 'manifest.json'}: is not a manifest: its {wrong}")
    for name, digest in held["sha256"].items():
        needed = name in MODEL_FILES or re.fullmatch(r"dict\.[\w-]+\.txt", name)
        if needed and not (folder / name).exists():
            raise TextError(f"{folder / name}: is missing, must be the file that manifest.json names")
        if needed and sha256(folder / name) != digest:
            raise TextError(f"{folder / name} has changed since the data were binarized: prepare them again")
    return held


def hashes_in(data: Path, *patterns: str) -> dict[str, str]:
    """Return the SHA-256 of the files of a folder that match a pattern, by their relative paths."""
    found = sorted(path for pattern in patterns for path in data.glob(pattern))
    return {path.relative_to(data).as_posix(): sha256(path) for path in found}
