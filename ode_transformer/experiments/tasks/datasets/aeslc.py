"""AESLC (Zhang and Tetreault 2019): e-mails of Enron and their subject lines, 14,436 to train on.

The published layout is ``enron_subject_line/{train,dev,test}/NAME.subject``: the body, a sentence per line, then a line
``@subject`` and the subject. Behind it ``dev`` and ``test`` have three annotators' subjects, which nothing here reads.
"""

from collections.abc import Iterator
from pathlib import Path

from ....errors import OdeTransformerError
from ....files import read_text
from .pairs import Pair

SPLITS = {"train": "train", "valid": "dev", "test": "test"}
SUBJECT = "@subject"


def read(folder: Path) -> dict[str, Iterator[Pair]]:
    """The e-mails by split: body and subject.

    Args:
        folder: ``enron_subject_line``.

    Raises:
        OdeTransformerError: while they are read: a folder is missing or empty, or a file is no e-mail with its subject.
    """
    return {name: _emails(folder / part) for name, part in SPLITS.items()}


def _emails(folder: Path) -> Iterator[Pair]:
    paths = sorted(folder.glob("*.subject"))
    if not paths:
        raise OdeTransformerError(f"{folder}: no such folder, or no e-mail NAME.subject in it")
    for path in paths:
        lines = read_text(path).split("\n")
        if SUBJECT not in lines:
            raise OdeTransformerError(f"{path}: must have a line {SUBJECT} behind the body")
        end = lines.index(SUBJECT)
        subject = next((line for line in lines[end + 1 :] if line.strip()), "")
        pair = Pair(*(" ".join(text.split()) for text in (" ".join(lines[:end]), subject)))
        if not all(pair) or pair.target.startswith("@ann"):
            raise OdeTransformerError(f"{path}: must have a body and a subject")
        yield pair
