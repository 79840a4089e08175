"""F0.5 of corrections by ERRANT (Bryant et al. 2017), an optional package with a model of spaCy.

MaxMatch counts differently (:mod:`.m2`), and its numbers cannot be compared with these.
"""

import importlib.metadata
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import OdeTransformerError, install_command
from ...files import copy_file, write_lines
from . import m2
from .metric import Examples, Metric

PROGRAMS = ("errant_parallel", "errant_m2", "errant_compare")
MODEL = "en_core_web_sm"  # which ERRANT loads


def installed() -> bool:
    """Whether ERRANT's programs are on the search path."""
    return all(map(shutil.which, PROGRAMS))


def signature(*_: Any) -> str:
    """Return the signature of the score."""
    needed = f"{install_command('errant')}, and python -m spacy download {MODEL}"
    if not installed():
        raise OdeTransformerError(f"ERRANT's programs {', '.join(PROGRAMS)} were not found; {needed}")
    try:
        names = {"ERRANT": "errant", "spaCy": "spacy", MODEL: MODEL}
        versions = ", ".join(f"{label} {importlib.metadata.version(name)}" for label, name in names.items())
    except importlib.metadata.PackageNotFoundError as error:
        raise OdeTransformerError(f"ERRANT's package {error.name} is not installed; {needed}") from error
    return f"{versions}, span-based correction, F0.5, percent"


def entry(corrections: Sequence[str], examples: Examples, edits: str | Path | None = None) -> dict[str, Any]:
    """Return ``precision``, ``recall`` and ``f`` (F0.5) of tokenized corrections, in percent, and ``signature``.

    ERRANT classifies the human edits anew. ``edits`` is the file ``NAME.m2`` for the edits of the corrections, for
    pictures of their types; the human ones, with the same types, go to ``NAME.gold.m2``.
    """
    right, wrong, missed = sums = counts(corrections, examples, edits).sum(0)
    shares = right / (right + wrong) if wrong else 1.0, right / (right + missed) if missed else 1.0, f05(sums) / 100
    percent = [round(100 * round(float(share), 4), 2) for share in shares]  # ERRANT prints four decimals
    return {**dict(zip(("precision", "recall", "f"), percent, strict=True)), "signature": signature()}


def files(edits: str | Path) -> tuple[Path, Path]:
    """Return the files of edits that :func:`entry` writes: ``NAME.m2``, and ``NAME.gold.m2`` of the human ones."""
    return Path(edits), Path(edits).with_suffix(".gold.m2")


def counts(corrections: Sequence[str], examples: Examples, edits: str | Path | None = None) -> np.ndarray:
    """Return the true positives, false positives and false negatives of each sentence, (sentences, 3).

    With several annotators, each sentence is scored against the one for whom the F0.5 of all sentences so far is
    highest. ``edits`` is as for :func:`entry`.
    """
    found = parse_sentences(_compare(corrections, examples, edits))
    if len(found) != len(corrections):
        raise OdeTransformerError(f"errant_compare -v printed counts of {len(found)} of {len(corrections)} sentences")
    return np.array(found)


def f05(sums: np.ndarray) -> float:
    """Return F0.5 in percent, from the sums of :func:`counts`, (3,)."""
    right, wrong, missed = sums
    weighted = 1.25 * right
    whole = weighted + wrong + 0.25 * missed
    return float(100 * weighted / whole) if whole else 100.0  # as ERRANT, if there are no edits


def _compare(corrections: Sequence[str], examples: Examples, edits: str | Path | None) -> str:
    """Return what ``errant_compare -v`` prints."""
    signature()  # which names what is not installed
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: str(Path(folder) / name) for name in ("source", "corrections", "edits.m2", "gold.m2")}
        for name, lines in (("source", examples.sources), ("corrections", corrections)):
            write_lines(paths[name], lines)
        words = ["-orig", paths["source"], "-cor", paths["corrections"], "-out", paths["edits.m2"]]
        m2.run([PROGRAMS[0], *words])
        m2.run([PROGRAMS[1], "-auto", examples.edits, "-out", paths["gold.m2"]])
        text = m2.run([PROGRAMS[2], "-hyp", paths["edits.m2"], "-ref", paths["gold.m2"], "-v"])
        if edits:
            for name, path in zip(("edits.m2", "gold.m2"), files(edits), strict=True):
                copy_file(paths[name], path)
    return text


def parse_sentences(text: str) -> list[tuple[int, ...]]:
    """Return the true positives, false positives and false negatives of each sentence, from ``errant_compare -v``."""
    printed = re.findall(
        r"^SENTENCE (\d+) - (HYP \d+) - (REF \d+)\n.*\n.*\nLocal TP/FP/FN +: (\d+) (\d+) (\d+)$", text, re.M
    )
    found = {tuple(words[:3]): tuple(map(int, words[3:])) for words in printed}
    chosen = re.findall(r"^\^\^ (HYP \d+), (REF \d+) chosen for sentence (\d+)$", text, re.M)
    return [found[sentence, system, annotator] for system, annotator, sentence in chosen]


METRIC = Metric(
    "errant",
    "ERRANT F0.5",
    "f",
    needs=("edits", "sources"),
    statistics=counts,
    score=f05,
    signature=signature,
    whole=entry,
)
