"""F0.5 of corrections by MaxMatch (Dahlmeier and Ng 2012).

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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import OdeTransformerError
from ...files import sha256, write_lines
from ..text import m2
from .metric import Examples, Metric

EXAMPLE = "'python2 /opt/m2scorer/scripts/m2scorer.py'"


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
    sentences = list(m2.read(path))
    if not sentences:
        raise OdeTransformerError(f"{path}: no line S of a sentence; must be an M2 file")
    return Counter(edit.kind for each in sentences for edit in each.edits.get(0, []) if edit.kind != "noop")


METRICS = (  # without statistics of sentences, which the official scorer does not print
    Metric("m2_precision", "M2 precision", "precision", entry="m2", needs=("edits",)),
    Metric("m2_recall", "M2 recall", "recall", entry="m2", needs=("edits",)),
    Metric("m2", "M2 F0.5", "f", needs=("edits",), whole=entry),
)
