"""The manifest of data that fairseq-preprocess made, from the user's description of the text, which is checked."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...files import write_json
from . import binarised
from .joining import MARK, MODEL_FILES, SEGMENTATIONS
from .lines import TextError
from .manifest import NEEDED, hashes_in
from .subwords import segmented
from .tokenisation import Tokeniser

COMPARED = 1_000  # sentences of binarized text whose units are compared


def describe(data: Path, langs: Sequence[str], tokenise: Mapping[str, Any]) -> Path:
    """Write the manifest of data that fairseq-preprocess made, so that models trained on them translate raw text.

    Args:
        data: the folder of binarized data, with ``dict.LANGUAGE.txt`` and ``codes`` or ``sentencepiece.model``.
        langs: source and target language.
        tokenise: the options of the ``Tokeniser`` that made the text.
    """
    path = data / "manifest.json"
    if path.exists():
        raise TextError(f"{path}: already exists; remove it to describe the data anew")
    if all((data / name).is_file() for name in MODEL_FILES):
        raise TextError(f"{data}: holds {' and '.join(MODEL_FILES)}, must hold one of them, or none")
    for lang in langs:
        Tokeniser(lang, **tokenise).tokenise([])  # which must know the language
    _check_units(data, langs)
    about = {"set": data.name, "source_lang": langs[0], "target_lang": langs[1], "tokenise": tokenise}
    write_json(path, {**about, "sha256": hashes_in(data, *NEEDED)})
    return path


def _check_units(folder: Path, langs: Sequence[str]) -> None:
    """Check that the model beside binarized text segments 99 in 100 of its sentences into the same units, and that a
    dictionary of subword units has one."""
    found = (name for name, its in SEGMENTATIONS.items() if its.model and (folder / its.model).is_file())
    segmentation = next(found, "none")
    model, join = folder / SEGMENTATIONS[segmentation].model, SEGMENTATIONS[segmentation].join
    for lang in langs:
        symbols = binarised.symbols_of(folder / f"dict.{lang}.txt")
        if segmentation == "none":
            units = [symbol for symbol in symbols if symbol.endswith("@@") or symbol.startswith(MARK)]
            if len(units) > len(symbols) / 100:
                raise TextError(
                    f"{folder}/dict.{lang}.txt: holds subword units, such as {units[0]!r}, but no model of them is "
                    f"beside it: put subword-nmt's there as {MODEL_FILES[0]}, or SentencePiece's as {MODEL_FILES[1]}"
                )
            continue
        prefixes = [path.with_suffix("") for path in sorted(folder.glob(f"*.{'-'.join(langs)}.{lang}.idx"))]
        # Training text comes last: it can be segmented at random.
        for prefix in sorted(prefixes, key=lambda prefix: prefix.name.startswith("train"))[:1]:
            text = binarised.text_of(prefix, folder / f"dict.{lang}.txt")
            known = [line for line in itertools.islice(text, COMPARED) if "<unk>" not in line.split()]
            again = segmented([join(line) for line in known], segmentation, model)
            differ = [pair for pair in zip(known, again, strict=True) if pair[0] != pair[1]]
            if len(differ) > len(known) / 100:
                there, here = differ[0]
                raise TextError(
                    f"{prefix}: {len(differ)} of {len(known)} sentences are segmented otherwise by {model.name} beside "
                    f"them, such as {there!r}, by {model.name} {here!r}. The data were made with other codes, or with "
                    "a vocabulary or glossaries of subword-nmt, which translating does not know"
                )
