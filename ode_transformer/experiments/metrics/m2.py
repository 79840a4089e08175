"""M2 files, tokenized sentences with the edits of their annotators, and F0.5 by MaxMatch (Dahlmeier and Ng 2012).

The official scorer is under the GPL and needs Python 2, so that it is called, by the command in ``M2SCORER``, and not
copied. ERRANT counts differently (:mod:`.errant`), and its numbers cannot be compared with these.
"""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import OdeTransformerError, counted
from ...files import sha256, write_lines
from ..text.lines import read_lines
from .metric import Examples, Metric

EXAMPLE = "'python2 /opt/m2scorer/scripts/m2scorer.py'"
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


def scorer() -> list[str]:
    """Return the words of the command in ``M2SCORER``; none if it is not set."""
    return shlex.split(os.environ.get("M2SCORER", ""))


def entry(corrections: Sequence[str], examples: Examples) -> dict[str, Any]:
    """Return ``precision``, ``recall`` and ``f`` (F0.5) of tokenized corrections, in percent, and ``signature``."""
    words = scorer()
    if not words:
        raise OdeTransformerError(f"the M2 score needs M2SCORER, the command of the official scorer, such as {EXAMPLE}")
    with tempfile.TemporaryDirectory() as folder:
        hypotheses = Path(folder) / "corrections"
        write_lines(hypotheses, corrections)
        text = run([*words, str(hypotheses), examples.edits])
    # The scorer does not say its version: a hash of the file that is called stands for it.
    file = [Path(path) for path in (shutil.which(words[0]), *words[1:]) if path and Path(path).is_file()][-1].resolve()
    signature = f"official M2 scorer, {file.name} of SHA-256 {sha256(file)[:8]}, F0.5, percent"
    return {**parse(text), "signature": signature}


def run(words: Sequence[str]) -> str:
    """Run a scorer that is not part of this package, and return its output."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode:
        last = done.stderr.strip().split("\n")[-1]
        raise OdeTransformerError(f"{shlex.join(words)}: ended with status {done.returncode}: {last}")
    return done.stdout


def parse(text: str) -> dict[str, float]:
    """Return ``precision``, ``recall`` and ``f``, in percent, from the three lines that the official scorer prints."""
    labels = {"precision": "Precision   ", "recall": "Recall      ", "f": r"F_0\.5       "}
    match = re.fullmatch("".join(rf"{label}: (?P<{name}>[01]\.\d{{4}})\n" for name, label in labels.items()), text)
    if not match:
        raise OdeTransformerError(
            f"the M2 scorer must print Precision, Recall and F_0.5 in three lines, not: {text[-300:]!r}"
        )
    return {name: round(100 * float(match[name]), 2) for name in labels}


def types(path: Path) -> Counter[str]:
    """Return how many edits of each type annotator 0 made in an M2 file."""
    sentences = list(read(path))
    if not sentences:
        raise OdeTransformerError(f"{path}: no line S of a sentence; must be an M2 file")
    return Counter(edit.kind for each in sentences for edit in each.edits.get(0, []) if edit.kind != "noop")


METRICS = (  # without statistics of sentences, which the official scorer does not print
    Metric("m2_precision", "M2 precision", "precision", entry="m2", needs=("edits",)),
    Metric("m2_recall", "M2 recall", "recall", entry="m2", needs=("edits",)),
    Metric("m2", "M2 F0.5", "f", needs=("edits",), whole=entry),
)
