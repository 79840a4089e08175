"""Subword units: BPE by subword-nmt, or SentencePiece."""

import importlib
import itertools
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from ...files import regular, sha256, whole
from . import segmentation
from .binarised import SPECIAL
from .lines import TextError, read_lines
from .parallel import in_chunks, in_parallel, process

ODD = re.compile("|".join((*SPECIAL, "@@")))  # what the units of some words could be taken for
KNOWN_WORDS = 1_000_000  # words whose segmentation a process remembers


def learn(segmentation: str, files: Sequence[Path], size: int, model: Path, workers: int = 1) -> None:
    """Learn joint subword units of files, by ``subword-nmt`` or ``sentencepiece``.

    Args:
        segmentation: which of the two.
        files: the training text.
        size: merges of BPE, or the vocabulary size of SentencePiece.
        model: the file for what is learned.
        workers: the number of processes.
    """
    {"subword-nmt": learn_bpe, "sentencepiece": learn_sentencepiece}[segmentation](files, size, model, workers)


def learn_bpe(files: Sequence[Path], size: int, model: Path, workers: int) -> None:
    """Learn joint BPE with subword-nmt from the word counts of files."""
    from tqdm import tqdm

    library = importlib.import_module("subword_nmt.learn_bpe")
    library.tqdm = partial(tqdm, disable=None)  # no bar unless standard error is a terminal
    words: Counter[str] = Counter()
    for path in files:
        chunks = in_chunks(read_lines(path, bar=f"count words of {path.name}"))
        for found in in_parallel(_count_words, chunks, workers):
            words.update(found)
    with whole(model) as file:
        library.learn_bpe(_taken(words), file, size, is_dict=True)


def _taken(words: Counter[str]) -> Iterator[str]:
    """Take every word with its count, so that subword-nmt's copy of them replaces ours; their order has no effect."""
    while words:
        word, count = words.popitem()
        yield f"{word} {count}"


def _count_words(lines: list[str]) -> Counter[str]:
    return Counter(word for line in lines for word in line.strip("\r ").split(" ") if word)


def apply(segmentation: str, folder: Path, output: Path, names: Iterable[str], model: Path, workers: int = 1) -> None:
    """Segment files of a folder into another folder with what was learned, as :func:`process` does it."""
    work = partial(segmented, segmentation=segmentation, model=model)
    process(f"segment by {segmentation}", folder, output, names, work, workers)


def _units(codes: Path, lines: list[str]) -> list[str]:
    bpe = _bpe(codes, sha256(codes))
    if len(bpe.cache) > KNOWN_WORDS:
        bpe.cache.clear()
    return [
        bpe.process_line(line)
        if not ODD.search(line)
        else " ".join(_unambiguous(bpe.process_line(word)) for word in line.split(" ") if word)
        for line in lines
    ]


def _unambiguous(units: str) -> str:
    """The units of a word, the last one taken apart if it could be a symbol of the model, or not end the word."""
    last = units.rpartition(" ")[2]
    return f"{units[:-1]}@@ {units[-1]}" if last in SPECIAL or last.endswith("@@") else units


@cache
def _bpe(codes: Path, digest: str) -> Any:
    """The codes in a file, cached while the file is the same."""
    from subword_nmt.apply_bpe import BPE

    path = regular(codes)
    try:
        with path.open(encoding="utf-8") as file:
            return BPE(file)
    except (ValueError, SystemExit) as error:  # subword-nmt prints the line that it cannot read, and ends
        raise TextError(f"{codes}: is not a file of subword-nmt codes") from error


def learn_sentencepiece(files: Sequence[Path], size: int, model: Path, workers: int) -> None:
    """Learn a SentencePiece BPE model on tokenized text; every character is a unit if there is room for all."""

    def learn(coverage: float) -> None:
        lines = itertools.chain.from_iterable(map(read_lines, files))
        # The text is normalized and tokenized already; "identity" leaves its words unchanged for the scores.
        segmentation.learn(lines, size, workers, model, "identity", coverage)

    try:
        learn(1.0)
    except segmentation.SegmentationError as error:
        if "required_chars" not in str(error):
            raise
        # SentencePiece's advice for writing systems of thousands of characters, such as the Chinese.
        print(f"{error}; leaving out the rarest .05% of the text's characters", file=sys.stderr)
        learn(0.9995)


def _sentencepieces(model: Path, lines: list[str]) -> list[str]:
    rows = _sentencepiece(model, sha256(model)).encode(lines, out_type=str)
    # A piece that would be a symbol of the model is taken apart.
    return [" ".join(f"{piece[:-1]} {piece[-1]}" if piece in SPECIAL else piece for piece in row) for row in rows]


@cache
def _sentencepiece(model: Path, digest: str) -> Any:
    """The model in a file, cached while the file is the same."""
    return segmentation.sentencepiece_model(model)


def segmented(lines: list[str], segmentation: str, model: Path | None) -> list[str]:
    """Words -> subword units, by ``subword-nmt`` or ``sentencepiece`` and its model.

    With ``none`` they are unchanged, except that words that are symbols of the model are unknown ones, as they were
    when the data were binarized. Units are never symbols.
    """
    if segmentation == "none":
        return [" ".join("<unk>" if word in SPECIAL else word for word in line.split(" ")) for line in lines]
    return {"subword-nmt": _units, "sentencepiece": _sentencepieces}[segmentation](model, lines)
