"""Labelled text: what readers of classification sets give, and how it is cut into the symbols that a model reads."""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from ...errors import OdeTransformerError
from ..text import write_lines

LEVELS = ("subword", "characters")
BLANK = "\u2581"  # a blank among characters, as SentencePiece writes it
LONGEST = 100_000  # bytes of a text; SentencePiece skips longer ones


class DatasetError(OdeTransformerError):
    """A data set that cannot be read; the message names the file and what is expected."""


class Example(NamedTuple):
    """A text without line ends, and the name of its class."""

    text: str
    label: str


def plain(text: str) -> str:
    """Text on one line: HTML's line breaks and all white space become single blanks."""
    return " ".join(re.sub(r"<br\s*/?>", " ", text).split())


def characters(texts: Iterable[str]) -> list[str]:
    """Texts as characters with blanks between them; their own blanks become ``BLANK``."""
    return [" ".join(text.replace(" ", BLANK)) for text in texts]


def subwords(texts: list[str], size: int, workers: int, model: Path) -> Callable[[Iterable[str]], list[str]]:
    """Learn SentencePiece's BPE on texts, lower-cased; the function that cuts texts into its units.

    Args:
        texts: those to train on.
        size: of the vocabulary, at most.
        workers: threads.
        model: the file to write.
    """
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_prefix=str(model.with_suffix("")),
        vocab_size=size,
        num_threads=workers,
        hard_vocab_limit=False,
        model_type="bpe",
        normalization_rule_name="nmt_nfkc_cf",  # which lower-cases
        max_sentence_length=LONGEST,
        minloglevel=1,
    )
    model.with_suffix(".vocab").unlink()
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(model))
    return lambda texts: [" ".join(units) for units in pieces.encode(list(texts), out_type=str)]


def write(splits: Mapping[str, list[Example]], level: str, size: int, workers: int, folder: Path) -> None:
    """Write ``SPLIT.input0`` and ``SPLIT.label``, as fairseq's task ``sentence_prediction`` calls them, in symbols.

    Args:
        splits: ``train``, ``valid`` and ``test``.
        level: one of ``LEVELS``.
        size: of the subwords' vocabulary, which is learned on ``train``.
        workers: threads of that.
        folder: where they go; with subwords their model, ``sentencepiece.model``, as well.

    Raises:
        DatasetError: a split is empty, or one of its texts is.
    """
    for name, examples in splits.items():
        if not examples or not all(example.text for example in examples):
            raise DatasetError(f"{name}: {'a text is empty' if examples else 'no examples'}")
    folder.mkdir(parents=True, exist_ok=True)
    cut = characters
    if level == "subword":
        texts = [example.text for example in splits["train"]]
        cut = subwords(texts, size, workers, folder / "sentencepiece.model")
    for name, examples in splits.items():
        write_lines(folder / f"{name}.input0", cut(example.text for example in examples))
        write_lines(folder / f"{name}.label", (example.label for example in examples))
