"""What describes prepared text and binarized data: their settings, and the manifest."""

import argparse
import hashlib
import itertools
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...files import copy_file, read_json, sha256, write_json, write_lines
from ...version import installed
from ..schema import count, lacks
from . import binarised
from .binarised import count_tokens, numbered
from .checksums import as_mapping
from .lines import TextError, count_lines, read_lines
from .tokenisation import languages, tokeniser_of, tokeniser_options

PACKAGES = ("fairseq-fixed", "sacremoses", "subword-nmt", "sentencepiece")
MODEL_FILES = ("codes", "sentencepiece.model")  # of what subword-nmt learned, and SentencePiece
NEEDED = ("dict.*.txt", *MODEL_FILES)  # what translating takes of binarized data
COMPARED = 1_000  # sentences of binarized text whose units are compared
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


def settings(args: argparse.Namespace) -> None:
    """Succeed if the file holds these settings, write them if there is no file, and otherwise name the differences."""
    if args.file.exists() or args.required:
        check_settings(args.file, as_mapping(args.settings))
    else:
        write_json(args.file, versioned(as_mapping(args.settings)))


def setting(args: argparse.Namespace) -> None:
    """Print what the file of finished data says of a setting, an empty line if nothing."""
    print(_held(args.file).get(args.name, ""))


def _held(file: Path) -> dict[str, Any]:
    if not file.exists():
        raise TextError(f"{file.parent} was not made, or not finished, by this command; take another --out")
    held = read_mapping(file)
    return held.get("settings", held)


def check_settings(file: Path, settings: Mapping[str, str]) -> None:
    """Compare settings with those in a ``settings.json`` or ``manifest.json``.

    Raises:
        TextError: there is no such file, or settings differ; the message names them.
    """
    wanted, held = versioned(settings), _held(file)
    differ = [
        f"{k} {held.get(k)} there, {wanted.get(k)} now" for k in {**held, **wanted} if held.get(k) != wanted.get(k)
    ]
    if differ:
        raise TextError(
            f"{file.parent} was made with other settings ({'; '.join(differ)}); take another --out, or remove it "
            "(all but its folder download, if there is one)"
        )


def versioned(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings with the version of prepared text."""
    return {"text_version": VERSION, **settings}


def references(args: argparse.Namespace) -> None:
    """Copy what decoding and scoring need to binarized data: the BPE model, and the test sets, raw and tokenized."""
    text, data, (source, target) = args.text_dir, args.data_dir, args.langs
    for name in (*MODEL_FILES, "archives.sha256"):
        if (text / name).exists():
            copy_file(text / name, data / name)
    for folder in ("raw", "tok"):
        (data / folder).mkdir(exist_ok=True)
    for name, split in list(numbered(args.splits).items())[2:]:
        count = count_lines(text / "bpe" / f"{split}.{target}")
        # References as words, because fairseq's have <<unk>> for words that its dictionary lacks.
        words = text / "tok" / f"{split}.{target}"
        if words.exists():
            copy_file(words, data / "tok" / f"{name}.{target}")
        else:
            units = read_lines(text / "bpe" / f"{split}.{target}")
            write_lines(data / "tok" / f"{name}.{target}", (re.sub("@@( |$)", "", line) for line in units))
        for lang in (source, target):
            raw = text / "raw" / f"{split}.{lang}"
            if not raw.parent.exists():
                continue
            if not raw.exists():
                print(f"no raw text of {raw.name}: scores will use the detokenized text", file=sys.stderr)
            elif count_lines(raw) != count:
                print(f"{raw} has another number of lines than the segmented text: left out", file=sys.stderr)
            else:
                copy_file(raw, data / "raw" / f"{name}.{lang}")


def manifest(args: argparse.Namespace) -> dict[str, Any]:
    """The manifest of a folder of binarized data: its content, and how it was made.

    Raises:
        TextError: the text is not parallel, or is empty; or the errors of :func:`count_tokens`.
    """
    splits = numbered(args.splits)
    data: Path = args.data_dir
    counts, segmented = {}, {}
    for split, name in splits.items():
        files = [args.text_dir / f"{name}.{lang}" for lang in args.langs]
        (lines, digest), (others, other_digest) = map(_lines_and_digest, files)
        if lines != others:
            raise TextError(f"{files[0]} has {lines} lines, {files[1]} has {others}: must be parallel")
        if not lines:
            raise TextError(f"{files[0]} and {files[1]} are empty")
        segmented |= {f"segmented/{files[0].name}": digest, f"segmented/{files[1].name}": other_digest}
        prefix = data / f"{split}.{'-'.join(args.langs)}"
        tokens = {lang: count_tokens(Path(f"{prefix}.{lang}"), lines) for lang in args.langs}
        unknown = {lang: binarised.unknown(Path(f"{prefix}.{lang}"))[0] for lang in args.langs}
        counts[split] = {"lines": lines, "tokens": tokens, "unknown": unknown}
    settings = versioned(as_mapping(args.settings))
    # The four special symbols are not in the file.
    symbols = {lang: count_lines(data / f"dict.{lang}.txt") + 4 for lang in args.langs}
    versions = {"python": platform.python_version(), **installed(PACKAGES)}
    kept = _hashes(data, *NEEDED, "raw/*", "tok/*", "archives.sha256")
    return {
        "set": args.set,
        "source_lang": args.langs[0],
        "target_lang": args.langs[1],
        "source": args.source,
        "splits": splits,
        "counts": counts,  # tokens are subword units
        "symbols": symbols,
        "settings": settings,
        # How the model's input is tokenized; null if unknown.
        "tokenise": None if args.tokenise is None else tokeniser_of(args.tokenise),
        "sha256": kept | segmented,
        "versions": versions,
    }


def _hashes(data: Path, *patterns: str) -> dict[str, str]:
    """The SHA-256 of the files of a folder that match a pattern, by their names."""
    found = sorted(path for pattern in patterns for path in data.glob(pattern))
    return {path.relative_to(data).as_posix(): sha256(path) for path in found}


def describe(args: argparse.Namespace) -> None:
    """Write the manifest of data that fairseq-preprocess made, so that models trained on them translate raw text."""
    path = args.dir / "manifest.json"
    if path.exists():
        raise TextError(f"{path}: is there already; remove it to describe the data anew")
    if all((args.dir / name).is_file() for name in MODEL_FILES):
        raise TextError(f"{args.dir}: holds {' and '.join(MODEL_FILES)}, must hold one of them, or none")
    if unknown := [lang for lang in args.langs if not args.plain and lang not in languages()]:
        raise TextError(
            f"--langs {unknown[0]}: sacremoses does not know it, must be one of {', '.join(sorted(languages()))}; or "
            "--plain, if the text was not tokenized"
        )
    for lang in args.langs:
        if not (args.dir / f"dict.{lang}.txt").is_file():
            raise TextError(f"{args.dir / f'dict.{lang}.txt'}: no such file; a folder of binarized data has it")
    _check_units(args.dir, args.langs)
    manifest = {
        "set": args.dir.name,
        "source_lang": args.langs[0],
        "target_lang": args.langs[1],
        "tokenise": tokeniser_options(args),
        "sha256": _hashes(args.dir, *NEEDED),
    }
    write_json(path, manifest)
    from .pipeline import Pipeline  # which imports this module

    print(f"{path}: {Pipeline.of(args.dir)}")


def _check_units(folder: Path, langs: Sequence[str]) -> None:
    """Compare the units of binarized text with those that the codes beside it make of its words.

    Raises:
        TextError: more than 1 in 100 sentences differ, or there are no codes for the units in the dictionary.
    """
    from .pipeline import MODELS, joined  # which imports this module
    from .subwords import segmented

    segmentation = next((name for name, file in MODELS.items() if file and (folder / file).is_file()), "none")
    model = folder / (MODELS[segmentation] or "")
    for lang in langs:
        if segmentation == "none":
            _check_words(folder / f"dict.{lang}.txt")
            continue
        prefixes = [path.with_suffix("") for path in sorted(folder.glob(f"*.{'-'.join(langs)}.{lang}.idx"))]
        # Training text comes last: it can be segmented at random.
        for prefix in sorted(prefixes, key=lambda prefix: prefix.name.startswith("train"))[:1]:
            text = binarised.text_of(prefix, folder / f"dict.{lang}.txt")
            known = [line for line in itertools.islice(text, COMPARED) if "<unk>" not in line.split()]
            again = segmented([joined(line, segmentation) for line in known], segmentation, model)
            differ = [pair for pair in zip(known, again, strict=True) if pair[0] != pair[1]]
            if len(differ) > len(known) / 100:
                there, here = differ[0]
                raise TextError(
                    f"{prefix}: {len(differ)} of {len(known)} sentences are segmented otherwise by {model.name} beside "
                    f"them, such as {there!r}, by {model.name} {here!r}. The data were made with other codes, or with "
                    "a vocabulary or glossaries of subword-nmt, which translating does not know: segment the text "
                    "without them, binarize and train again"
                )


def _check_words(dictionary: Path) -> None:
    """Check that at most 1 in 100 symbols of a dictionary have the marks of subword units."""
    symbols = binarised.symbols_of(dictionary)
    units = [symbol for symbol in symbols if symbol.endswith("@@") or symbol.startswith("\u2581")]
    if len(units) > len(symbols) / 100:
        raise TextError(
            f"{dictionary}: holds subword units, such as {units[0]!r}, but no model of them is beside it: put "
            f"subword-nmt's there as {MODEL_FILES[0]}, or SentencePiece's as {MODEL_FILES[1]}"
        )


def _lines_and_digest(path: Path) -> tuple[int, str]:
    """The number of lines of a file and its SHA-256, in one pass."""
    count, digest, last = 0, hashlib.sha256(), b"\n"
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
            count += block.count(b"\n")
            last = block[-1:]
    return count + (last != b"\n"), digest.hexdigest()


def write_manifest(args: argparse.Namespace) -> None:
    """Check binarized data, write the manifest of their folder, and print its numbers."""
    found = manifest(args)
    write_json(args.data_dir / "manifest.json", found)
    for split, name in found["splits"].items():
        lines, tokens, unknown = (found["counts"][split][key] for key in ("lines", "tokens", "unknown"))
        shown = ", ".join(f"{lang} {n:,} ({unknown[lang] / max(n, 1):.2%} unknown)" for lang, n in tokens.items())
        print(f"{split:<6} {name:<18} {lines:>7,} pairs   subword units: {shown}")
        for lang, n in tokens.items():
            binarised.warn_of_unknown(f"{name}.{lang}", unknown[lang], n)
    print(f"vocabulary, with the 4 special symbols: {', '.join(f'{k} {v:,}' for k, v in found['symbols'].items())}")


def intact(args: argparse.Namespace) -> None:
    """Check that the dictionaries and codes of binarized data are those that its manifest names."""
    read_manifest(args.dir)


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
