"""F0.5 of corrections by programs of others: MaxMatch (Dahlmeier and Ng 2012) and ERRANT (Bryant et al. 2017).

MaxMatch's official scorer is under the GPL: it is called where ``M2SCORER`` names it, and not copied. ERRANT is an
optional package with a model of spaCy. The two count differently, and their numbers do not go together.
"""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import OdeTransformerError
from ...files import write_text

ERRANT = ("errant_parallel", "errant_m2", "errant_compare")


class M2Error(OdeTransformerError):
    """Corrections that cannot be scored; the message names the program and what it wants or said."""


def scorer() -> list[str]:
    """The command that ``M2SCORER`` names, or nothing where it is not set.

    Raises:
        M2Error: there is no such file.
    """
    path = os.environ.get("M2SCORER", "")
    if path and not Path(path).is_file():
        raise M2Error(f"M2SCORER={path}: no such file; it must be the official scorer's m2scorer, or its m2scorer.py")
    return ([sys.executable, path] if path.endswith(".py") else [path]) if path else []


def max_match(corrections: Sequence[str], gold: str) -> dict[str, Any]:
    """Score tokenised corrections with the official scorer.

    Args:
        corrections: one string per sentence.
        gold: the annotated sentences, an M2 file.

    Returns:
        ``precision``, ``recall``, ``f`` (F0.5), in percent, and ``signature``.

    Raises:
        M2Error: ``M2SCORER`` is not set, or the program fails.
    """
    words = scorer()
    if not words:
        raise M2Error("the M2 score needs M2SCORER, the path of the official scorer's m2scorer")
    with tempfile.TemporaryDirectory() as folder:
        hypotheses = Path(folder) / "corrections"
        write_text(hypotheses, "".join(f"{line}\n" for line in corrections))
        text = _run([*words, str(hypotheses), gold])
    return {**parse_max_match(text), "signature": "official M2 scorer, F0.5, percent"}


def parse_max_match(text: str) -> dict[str, float]:
    """``precision``, ``recall`` and ``f``, in percent, of what the official scorer prints.

    Raises:
        M2Error: it says none of that.
    """
    found = {name: re.search(rf"^{label}\s*:\s*([\d.]+)", text, re.M) for name, label in
             (("precision", "Precision"), ("recall", "Recall"), ("f", r"F_0\.5"))}  # fmt: skip
    if not all(found.values()):
        raise M2Error(f"the M2 scorer printed no Precision, Recall and F_0.5: {text[-300:]!r}")
    return {name: 100 * float(match[1]) for name, match in found.items()}


def has_errant() -> bool:
    """Whether ERRANT's programs are there."""
    return all(map(shutil.which, ERRANT))


def errant(sources: Sequence[str], corrections: Sequence[str], gold: str, edits: str | None = None) -> dict[str, Any]:
    """Score tokenised corrections with ERRANT.

    Args:
        sources: tokenised sentences before correction.
        corrections: after it.
        gold: the annotated sentences, an M2 file; its edits are typed anew by ERRANT.
        edits: where the corrections' edits are to be kept, an M2 file, for pictures of their types.

    Returns:
        ``precision``, ``recall``, ``f`` (F0.5), in percent, and ``signature``.

    Raises:
        M2Error: ERRANT is not installed, or fails.
    """
    if not has_errant():
        raise M2Error(
            f"ERRANT's programs {', '.join(ERRANT)} are not there: pip install 'ode-transformer[errant]', and "
            "python -m spacy download en_core_web_sm"
        )
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: str(Path(folder) / name) for name in ("source", "corrections", "edits.m2", "gold.m2")}
        for name, lines in (("source", sources), ("corrections", corrections)):
            write_text(paths[name], "".join(f"{line}\n" for line in lines))
        words = ["-orig", paths["source"], "-cor", paths["corrections"], "-out", paths["edits.m2"]]
        _run([ERRANT[0], *words])
        _run([ERRANT[1], "-auto", gold, "-out", paths["gold.m2"]])
        text = _run([ERRANT[2], "-hyp", paths["edits.m2"], "-ref", paths["gold.m2"]])
        if edits:
            write_text(edits, Path(paths["edits.m2"]).read_text(encoding="utf-8"))
    version = importlib.metadata.version("errant")
    return {**parse_errant(text), "signature": f"ERRANT {version}, span-based correction, F0.5, percent"}


def parse_errant(text: str) -> dict[str, float]:
    """``precision``, ``recall`` and ``f``, in percent, of what ``errant_compare`` prints.

    Raises:
        M2Error: it says none of that.
    """
    match = re.search(r"^TP\tFP\tFN\tPrec\tRec\tF0\.5\n\d+\t\d+\t\d+\t([\d.]+)\t([\d.]+)\t([\d.]+)", text, re.M)
    if not match:
        raise M2Error(f"errant_compare printed no TP, FP, FN, Prec, Rec and F0.5: {text[-300:]!r}")
    return {name: 100 * float(value) for name, value in zip(("precision", "recall", "f"), match.groups(), strict=True)}


def _run(words: Sequence[str]) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True)
    except OSError as error:
        raise M2Error(f"{words[0]}: {error.strerror}") from error
    if done.returncode:
        last = done.stderr.strip().split("\n")[-1]
        raise M2Error(f"{words[0]} ended with status {done.returncode}: {last}")
    return done.stdout


def types(path: str, annotator: int = 0) -> Counter[str]:
    """How many edits of each type an annotator made, of an M2 file.

    Raises:
        M2Error: no such file, or it holds no sentence.
    """
    found: Counter[str] = Counter()
    sentences = 0
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                fields = line.rstrip("\n").split("|||")
                sentences += line.startswith("S ")
                if line.startswith("A ") and len(fields) == 6 and fields[1] != "noop" and fields[5] == str(annotator):
                    found[fields[1]] += 1
    except (OSError, UnicodeDecodeError) as error:
        raise M2Error(f"{path}: {error}") from error
    if not sentences:
        raise M2Error(f"{path}: no line S of a sentence; must be an M2 file")
    return found
