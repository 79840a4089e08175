"""F0.5 of corrections by ERRANT (Bryant et al. 2017), an optional package with a model of spaCy.

MaxMatch counts differently (:mod:`.m2`), and its numbers cannot be compared with these.
"""

import importlib.metadata
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import OdeTransformerError, install_command
from ...files import copy_file, write_lines
from . import m2
from .metric import Metric

if TYPE_CHECKING:
    import numpy as np

PROGRAMS = ("errant_parallel", "errant_m2", "errant_compare")
MODEL = "en_core_web_sm"  # which ERRANT loads


def installed() -> bool:
    """Whether ERRANT's programs are on the search path."""
    return all(map(shutil.which, PROGRAMS))


def signature() -> str:
    """Return the signature of the score.

    Raises:
        OdeTransformerError: ERRANT or its model is not installed.
    """
    needed = f"{install_command('errant')}, and python -m spacy download {MODEL}"
    if not installed():
        raise OdeTransformerError(f"ERRANT's programs {', '.join(PROGRAMS)} were not found; {needed}")
    try:
        names = {"ERRANT": "errant", "spaCy": "spacy", MODEL: MODEL}
        versions = ", ".join(f"{label} {importlib.metadata.version(name)}" for label, name in names.items())
    except importlib.metadata.PackageNotFoundError as error:
        raise OdeTransformerError(f"ERRANT's package {error.name} is not installed; {needed}") from error
    return f"{versions}, span-based correction, F0.5, percent"


def entry(
    sources: Sequence[str], corrections: Sequence[str], gold: str, edits: str | Path | None = None
) -> dict[str, Any]:
    """Score tokenized corrections with ERRANT.

    Args:
        sources: the tokenized sentences before correction.
        corrections: the corrected sentences.
        gold: the M2 file of annotated sentences, whose edits ERRANT classifies anew.
        edits: the file ``NAME.m2`` for the edits of the corrections, for pictures of their types; those of the gold
            file, with the same types, go to ``NAME.gold.m2``.

    Returns:
        ``precision``, ``recall``, ``f`` (F0.5), in percent, and ``signature``.

    Raises:
        OdeTransformerError: ERRANT or its model is not installed, or it fails.
    """
    return {**parse(_compare(sources, corrections, gold, edits)), "signature": signature()}


def files(edits: str | Path) -> tuple[Path, Path]:
    """Return the files of edits that :func:`entry` writes: ``NAME.m2``, and ``NAME.gold.m2`` of the gold file."""
    return Path(edits), Path(edits).with_suffix(".gold.m2")


def counts(sources: Sequence[str], corrections: Sequence[str], gold: str) -> "np.ndarray":
    """Return the true positives, false positives and false negatives of each sentence, (sentences, 3).

    With several annotators, each sentence is scored against the one for whom the F0.5 of all sentences so far is
    highest.

    Args:
        sources, corrections, gold: as for :func:`entry`.

    Raises:
        OdeTransformerError: ERRANT or its model is not installed, or it fails.
    """
    import numpy as np

    found = parse_sentences(_compare(sources, corrections, gold, None, "-v"))
    if len(found) != len(sources):
        raise OdeTransformerError(f"errant_compare -v printed counts of {len(found)} of {len(sources)} sentences")
    return np.array(found)


def f05(sums: "np.ndarray") -> float:
    """Return F0.5 in percent, from the sums of :func:`counts`, (3,)."""
    right, wrong, missed = sums
    weighted = 1.25 * right
    whole = weighted + wrong + 0.25 * missed
    return float(100 * weighted / whole) if whole else 100.0  # as ERRANT, if there are no edits


def _compare(
    sources: Sequence[str], corrections: Sequence[str], gold: str, edits: str | Path | None, *flags: str
) -> str:
    """Return what ``errant_compare`` prints."""
    signature()  # which names what is not installed
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: str(Path(folder) / name) for name in ("source", "corrections", "edits.m2", "gold.m2")}
        for name, lines in (("source", sources), ("corrections", corrections)):
            write_lines(paths[name], lines)
        words = ["-orig", paths["source"], "-cor", paths["corrections"], "-out", paths["edits.m2"]]
        m2.run([PROGRAMS[0], *words])
        m2.run([PROGRAMS[1], "-auto", gold, "-out", paths["gold.m2"]])
        text = m2.run([PROGRAMS[2], "-hyp", paths["edits.m2"], "-ref", paths["gold.m2"], *flags])
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


def parse(text: str) -> dict[str, float]:
    """Return ``precision``, ``recall`` and ``f``, in percent, from the output of ``errant_compare``.

    Raises:
        OdeTransformerError: the output does not hold them.
    """
    match = re.search(r"^TP\tFP\tFN\tPrec\tRec\tF0\.5\n\d+\t\d+\t\d+\t([\d.]+)\t([\d.]+)\t([\d.]+)", text, re.M)
    if not match:
        raise OdeTransformerError(f"errant_compare printed no TP, FP, FN, Prec, Rec and F0.5: {text[-300:]!r}")
    percent = [round(100 * float(value), 2) for value in match.groups()]  # it prints four decimals
    return dict(zip(("precision", "recall", "f"), percent, strict=True))


METRIC = Metric(
    "errant",
    "ERRANT F0.5",
    "f",
    needs=("edits", "sources"),
    statistics=lambda outputs, examples: counts(examples.sources, outputs, examples.edits),
    score=f05,
    signature=lambda outputs, examples: signature(),
    whole=lambda outputs, examples: entry(examples.sources, outputs, examples.edits),
)
