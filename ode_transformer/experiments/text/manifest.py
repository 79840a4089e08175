"""Descriptions of prepared text and binarized data: their settings, and the manifest."""

import platform
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...files import copy_file, read_json, sha256, write_json, write_lines
from ...schema import count, lacks
from ...version import installed
from . import binarised
from .binarised import numbered
from .joining import JOIN, MODEL_FILES
from .lines import TextError, count_lines, read_lines

PACKAGES = ("fairseq-fixed", "sacremoses", "subword-nmt", "sentencepiece")
NEEDED = ("dict.*.txt", *MODEL_FILES)  # what translating takes of binarized data
VERSION = "3"  # the version of the prepared text; data of another version are refused


def read_mapping(path: Path) -> dict[str, Any]:
    """The content of a JSON file of a preparation.

    Raises:
        TextError: it cannot be read, or is no mapping.
    """
    held = read_json(path, TextError)
    if not isinstance(held, dict):
        raise TextError(f"{path}: must be a mapping; remove its folder and prepare the data again")
    return held


def held_settings(file: Path) -> dict[str, str]:
    """Return the settings in a ``settings.json`` or ``manifest.json``.

    Raises:
        TextError: there is no such file, or it holds none.
    """
    if not file.exists():
        raise TextError(f"{file.parent} was not made, or not finished, by this command; choose another --out")
    held = read_mapping(file)
    if not isinstance(settings := held.get("settings", held), dict):
        raise TextError(f"{file}: its settings must be a mapping, got {str(settings)[:60]!r}; prepare the data again")
    return settings


def check_settings(
    file: Path, settings: Mapping[str, str], required: bool = False, options: Mapping[str, str] = {}
) -> None:
    """Compare settings with those in a ``settings.json`` or ``manifest.json``; write them if there is no file.

    Args:
        file: the settings of what is there.
        settings: those of now, as text; a file's is its SHA-256.
        required: whether there must be a file.
        options: what messages call the settings, by the first word of their names.

    Raises:
        TextError: there is no file that is ``required``, or settings differ; the message names them.
    """
    wanted = versioned(settings)
    if not (required or file.exists()):
        write_json(file, wanted)
        return
    held = held_settings(file)
    if not all(isinstance(value, str) for value in held.values()):
        raise TextError(f"{file.parent} was not made by this command; choose another --out")
    different = {name: name.split() for name in {**held, **wanted} if held.get(name) != wanted.get(name)}
    if different and {path.name for path in file.parent.iterdir()} <= {"settings.json", "download"}:
        write_json(file, wanted)  # of the earlier ones nothing was made
    elif different:
        differ = [
            _difference(options.get(word.rstrip("0123456789"), word), which, held.get(name), wanted.get(name))
            for name, (word, *which) in different.items()  # test1 is a second test set
            if not which or word not in different  # whose files are others, of course
        ]
        raise TextError(
            f"{file.parent} was made with other settings ({'; '.join(differ)}); choose another --out, or remove it "
            "(all but its folder download, if there is one)"
        )


def _difference(option: str, which: Sequence[str], *values: str | None) -> str:
    """How a setting differs, in words; a file is not described by its hash."""
    if any(value and re.fullmatch("[0-9a-f]{64}", value) for value in values):
        return f"{' '.join([option, *which[-1:]])}: another file than then"
    was, is_ = ("not given" if value in ("", "None", None) else value for value in values)
    return f"{option}: {was} then, {is_} now"


def versioned(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings with the version of prepared text."""
    return {"text_version": VERSION, **settings}


def keep_references(text: Path, data: Path, splits: Sequence[str], langs: Sequence[str]) -> None:
    """Copy what decoding and scoring need to binarized data: the BPE model, and the test sets, raw and tokenized.

    ``raw``, ``tok`` and ``bpe`` of the folder ``text`` hold the text.
    """
    for name in (*MODEL_FILES, "archives.sha256"):
        if (text / name).exists():
            copy_file(text / name, data / name)
    for folder in ("raw", "tok"):
        (data / folder).mkdir(exist_ok=True)
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
    """Check binarized data, write the manifest of their folder, its content and how it was made, and print its numbers.

    Args:
        text, data, splits, langs: as for :func:`.binarise`.
        name: of the data set.
        source: where the text came from, in words.
        settings: all that the data depend on.
        tokenise: the options of a ``Tokeniser`` that made the model's input, if they are known.

    Raises:
        TextError: the text is empty; or the errors of :func:`.unknown`, as where it is not parallel.
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
        "versions": {"python": platform.python_version(), **installed(PACKAGES)},
    }
    write_json(data / "manifest.json", manifest)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of binarized data.

    Raises:
        TextError: there is no manifest, or the dictionaries and codes beside it are not those that it names.
        OSError: one of these files cannot be read.
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
    """The SHA-256 of the files of a folder that match a pattern, by their names."""
    found = sorted(path for pattern in patterns for path in data.glob(pattern))
    return {path.relative_to(data).as_posix(): sha256(path) for path in found}
