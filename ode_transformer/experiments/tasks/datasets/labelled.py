"""Labelled text: what readers of classification sets give, and how it is cut into the symbols that a model reads."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ....errors import OdeTransformerError
from ....files import write_lines
from ...text import segmentation

LEVELS = ("subword", "characters")
BLANK = "\u2581"  # a blank among characters, as SentencePiece writes it


class Example(NamedTuple):
    """A text without line ends, and the name of its class."""

    text: str
    label: str


def plain(text: str) -> str:
    """Text on one line: HTML's line breaks and all white space become single blanks."""
    return " ".join(re.sub(r"<br\s*/?>", " ", text).split())


def characters(text: str) -> str:
    """The characters of a text with blanks between them; its own blanks become ``BLANK``."""
    return " ".join(text.replace(" ", BLANK))


def write(splits: Mapping[str, list[Example]], level: str, size: int, workers: int, folder: Path) -> None:
    """Write ``SPLIT.input0`` and ``SPLIT.label``, as fairseq's task ``sentence_prediction`` calls them, in symbols.

    Args:
        splits: ``train``, ``valid`` and ``test``.
        level: one of ``LEVELS``.
        size: of the subwords' vocabulary, which is learned on ``train``.
        workers: threads of that.
        folder: where they go; with subwords their model, ``sentencepiece.model``, as well.

    Raises:
        OdeTransformerError: a split is empty, or one of its texts has no symbols.
    """
    for name, examples in splits.items():
        if not examples:
            raise OdeTransformerError(f"{name}: no examples")
    folder.mkdir(parents=True, exist_ok=True)
    cut = characters
    if level == "subword":
        texts = (example.text for example in splits["train"])
        segmentation.learn(texts, size, workers, folder / segmentation.OWN[0])
        cut = segmentation.opened(folder)
    units = {name: [cut(example.text) for example in examples] for name, examples in splits.items()}
    for name, texts in units.items():
        if not all(texts):
            raise OdeTransformerError(f"{name}: a text is empty")
    for name, examples in splits.items():
        write_lines(folder / f"{name}.input0", units[name])
        write_lines(folder / f"{name}.label", (example.label for example in examples))
