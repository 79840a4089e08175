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

from ...errors import OdeTransformerError, install
from ...files import write_lines, write_text
from . import programs

PROGRAMS = ("errant_parallel", "errant_m2", "errant_compare")
MODEL = "en_core_web_sm"  # which ERRANT loads


def installed() -> bool:
    """Whether ERRANT's programs are there."""
    return all(map(shutil.which, PROGRAMS))


def take(sources: Sequence[str], corrections: Sequence[str], gold: str, edits: str | None = None) -> dict[str, Any]:
    """Score tokenized corrections with ERRANT.

    Args:
        sources: tokenized sentences before correction.
        corrections: after it.
        gold: the annotated sentences, an M2 file; its edits are typed anew by ERRANT.
        edits: where the corrections' edits are to be kept, ``NAME.m2``, for pictures of their types; those of the gold
            file, in the same types, go to ``NAME.gold.m2``.

    Returns:
        ``precision``, ``recall``, ``f`` (F0.5), in percent, and ``signature``.

    Raises:
        OdeTransformerError: ERRANT or its model is not installed, or it fails.
    """
    needed = f"in the clone: {install('errant')}, and python -m spacy download {MODEL}"
    if not installed():
        raise OdeTransformerError(f"ERRANT's programs {', '.join(PROGRAMS)} are not there; {needed}")
    try:
        names = {"ERRANT": "errant", "spaCy": "spacy", MODEL: MODEL}
        versions = ", ".join(f"{label} {importlib.metadata.version(name)}" for label, name in names.items())
    except importlib.metadata.PackageNotFoundError as error:
        raise OdeTransformerError(f"ERRANT's package {error.name} is not installed; {needed}") from error
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: str(Path(folder) / name) for name in ("source", "corrections", "edits.m2", "gold.m2")}
        for name, lines in (("source", sources), ("corrections", corrections)):
            write_lines(paths[name], lines)
        words = ["-orig", paths["source"], "-cor", paths["corrections"], "-out", paths["edits.m2"]]
        programs.run([PROGRAMS[0], *words])
        programs.run([PROGRAMS[1], "-auto", gold, "-out", paths["gold.m2"]])
        text = programs.run([PROGRAMS[2], "-hyp", paths["edits.m2"], "-ref", paths["gold.m2"]])
        if edits:
            for name, path in (("edits.m2", Path(edits)), ("gold.m2", Path(edits).with_suffix(".gold.m2"))):
                write_text(path, Path(paths[name]).read_text(encoding="utf-8"))
    return {**parse(text), "signature": f"{versions}, span-based correction, F0.5, percent"}


def parse(text: str) -> dict[str, float]:
    """``precision``, ``recall`` and ``f``, in percent, of what ``errant_compare`` prints.

    Raises:
        OdeTransformerError: it says none of that.
    """
    match = re.search(r"^TP\tFP\tFN\tPrec\tRec\tF0\.5\n\d+\t\d+\t\d+\t([\d.]+)\t([\d.]+)\t([\d.]+)", text, re.M)
    if not match:
        raise OdeTransformerError(f"errant_compare printed no TP, FP, FN, Prec, Rec and F0.5: {text[-300:]!r}")
    percent = [round(100 * float(value), 2) for value in match.groups()]  # it prints four decimals
    return dict(zip(("precision", "recall", "f"), percent, strict=True))
