"""The way from raw text to the subword units of a model, and back, as the manifest of the model's data describes it.

Imports neither torch nor fairseq.
"""

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...files import sha256, write_json
from . import binarised
from .detokenisation import detokenise
from .lines import TextError
from .manifest import NEEDED, hashes_in, read_manifest
from .subwords import MARK, MODEL_FILES, SEGMENTATIONS, segmentation_by
from .tokenisation import Tokeniser

COMPARED = 1_000  # sentences of binarized text whose units are compared


@dataclass(frozen=True)
class Pipeline:
    """The way from raw text to subword units, and back."""

    tokeniser: Tokeniser
    source: str  # the languages
    target: str
    segmentation: str = "none"  # one of SEGMENTATIONS
    model: Path = Path()  # the file that the segmentation learned, if any

    @classmethod
    def of(cls, folder: Path) -> "Pipeline":
        """Return the pipeline of a folder of binarized data, or of a bundle."""
        path = folder / "manifest.json"
        if not path.is_file():
            raise TextError(
                f"{path}: no such file; it describes how the data of the model were prepared, and is in their folder "
                "(--data). For data of fairseq-preprocess, or their export, `ode-transformer text describe` writes it"
            )
        manifest = read_manifest(folder)
        options = manifest.get("tokenise")
        if options is None:
            raise TextError(
                f"{path}: does not say how text was tokenized: the data are not for translation, or were prepared "
                "elsewhere or by an older version of this package"
            )
        try:
            how = Tokeniser(**options), manifest["source_lang"], manifest["target_lang"]
        except (KeyError, TypeError) as error:
            raise TextError(f"{path}: is not of this version: {error}") from error
        segmentation = segmentation_by(manifest["sha256"])
        return cls(*how, segmentation, folder / SEGMENTATIONS[segmentation].model)

    @property
    def identity(self) -> tuple[Any, ...]:
        """A value that is equal for equal pipelines, wherever their files are."""
        model = "" if self.segmentation == "none" else sha256(self.model)
        return self.tokeniser, self.source, self.target, self.segmentation, model

    def units(self, lines: Sequence[str]) -> list[str]:
        """Return the subword units of raw sentences, separated by single spaces."""
        tokens = self.tokeniser.tokenise(lines, self.source)
        return SEGMENTATIONS[self.segmentation].segment(tokens, self.model)

    def plain_text(self, lines: Sequence[str]) -> list[str]:
        """Return detokenized text for subword units separated by spaces."""
        words = [SEGMENTATIONS[self.segmentation].join(line) for line in lines]
        return words if self.tokeniser.plain else detokenise(words, self.target)

    def ends_word(self, units: Sequence[str], i: int) -> bool:
        """Whether unit ``i`` ends a word."""
        if self.segmentation == "sentencepiece":
            return i + 1 == len(units) or units[i + 1].startswith(MARK)
        return self.segmentation == "none" or not units[i].endswith("@@")

    def __str__(self) -> str:
        made = "as it is" if self.tokeniser.plain else "tokenized with Moses' rules"
        case = "" if self.tokeniser.lowercase == "no" else ", lower-cased"
        return f"{self.source} to {self.target}, text {made}{case}, units by {self.segmentation}"


def describe(data: Path, langs: Sequence[str], **how: Any) -> str:
    """Write the manifest of data that fairseq-preprocess made, so that models trained on them translate raw text.

    Args:
        data: the folder of binarized data, with ``dict.LANGUAGE.txt`` and ``codes`` or ``sentencepiece.model``.
        langs: source and target language.
        how: the fields of the ``Tokeniser`` that made the text.

    Returns:
        the path of the manifest, and the pipeline that it describes.
    """
    tokeniser, path = Tokeniser(**how), data / "manifest.json"
    if path.exists():
        raise TextError(f"{path}: already exists; remove it to describe the data anew")
    models = [name for name in MODEL_FILES if (data / name).is_file()]
    if len(models) > 1:
        raise TextError(f"{data}: holds {' and '.join(models)}, must hold one of them, or none")
    for lang in langs:
        tokeniser.tokenise([], lang)  # which must know the language
        if models:
            _check_units(data, langs, lang, models[0])
        else:
            _check_words(data / f"dict.{lang}.txt")
    about = {"set": data.name, "source_lang": langs[0], "target_lang": langs[1], "tokenise": asdict(tokeniser)}
    write_json(path, {**about, "sha256": hashes_in(data, *NEEDED)})
    return f"{path}: {Pipeline.of(data)}"


def _check_words(dictionary: Path) -> None:
    """Check that a dictionary is of words, fewer than one in a hundred of which look like subword units."""
    symbols = binarised.symbols_of(dictionary)
    units = [symbol for symbol in symbols if symbol.endswith("@@") or symbol.startswith(MARK)]
    if len(units) > len(symbols) / 100:
        raise TextError(
            f"{dictionary}: holds subword units, such as {units[0]!r}, but no model of them is beside it: put "
            f"subword-nmt's there as {MODEL_FILES[0]}, or SentencePiece's as {MODEL_FILES[1]}"
        )


def _check_units(folder: Path, langs: Sequence[str], lang: str, model: str) -> None:
    """Check that the model beside binarized text segments 99 in 100 of its sentences into the same units."""
    how = SEGMENTATIONS[segmentation_by([model])]
    prefixes = [path.with_suffix("") for path in sorted(folder.glob(f"*.{'-'.join(langs)}.{lang}.idx"))]
    # Training text comes last: it can be segmented at random.
    for prefix in sorted(prefixes, key=lambda prefix: prefix.name.startswith("train"))[:1]:
        text = binarised.text_of(prefix, folder / f"dict.{lang}.txt")
        known = [line for line in itertools.islice(text, COMPARED) if "<unk>" not in line.split()]
        again = how.segment(list(map(how.join, known)), folder / model)
        differ = [pair for pair in zip(known, again, strict=True) if pair[0] != pair[1]]
        if len(differ) > len(known) / 100:
            there, here = differ[0]
            raise TextError(
                f"{prefix}: {len(differ)} of {len(known)} sentences are segmented otherwise by {model} beside them, "
                f"such as {there!r}, by {model} {here!r}. The data were made with other codes, or with a vocabulary or "
                "glossaries of subword-nmt, which translating does not know"
            )
