"""M2 files: tokenized sentences with the edits of their annotators (Dahlmeier and Ng 2012)."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ...errors import OdeTransformerError, counted
from .lines import read_lines

NO_CORRECTION = ("noop", "UNK", "Um")
"""Types of edits without a correction: there is no error, or the annotator could not correct it."""


class Edit(NamedTuple):
    """An annotator's replacement of some tokens."""

    start: int  # the first replaced token; -1 for the edit "no error"
    end: int  # the one behind the last
    kind: str  # the type of the error, or noop
    text: str  # the correction; -NONE- or empty to delete the tokens


class Annotated(NamedTuple):
    """A sentence, and its edits by the number of the annotator."""

    tokens: list[str]
    edits: dict[int, list[Edit]]


def read(path: Path) -> Iterator[Annotated]:
    """Yield the sentences of an M2 file.

    Lines ``S`` are tokenized sentences, lines ``A START END|||TYPE|||CORRECTION|||...|||ANNOTATOR`` the edits of the
    sentence before, in tokens. A sentence ends at an empty line or, after edits, at the next sentence. A CORRECTION may
    hold bars itself.
    """
    sentence: Annotated | None = None
    for number, line in enumerate([*read_lines(path), ""], 1):
        if re.match(r"S(\s|$)", line) and (sentence is None or sentence.edits):
            if sentence is not None:
                yield sentence
            sentence = Annotated(line[1:].split(), {})
        elif line.startswith("A ") and sentence is not None:
            try:
                rest, _, _, annotator = line[2:].rsplit("|||", 3)
                span, kind, text = rest.split("|||", 2)
                start, end = map(int, span.split())
                its = sentence.edits.setdefault(int(annotator), [])
            except ValueError as error:
                raise OdeTransformerError(
                    f"{path}: line {number}: must be A START END|||TYPE|||...|||ANNOTATOR"
                ) from error
            if kind not in NO_CORRECTION and not 0 <= start <= end <= len(sentence.tokens):
                tokens = counted(len(sentence.tokens), "token")
                raise OdeTransformerError(f"{path}: line {number}: edit {start} {end} of a sentence of {tokens}")
            its.append(Edit(start, end, kind, text))
        elif not line.strip():
            if sentence is not None:
                yield sentence
            sentence = None
        else:
            raise OdeTransformerError(
                f"{path}: line {number}: must be a line S (sentence), a line A (edit) after it, or empty, as in M2"
            )
