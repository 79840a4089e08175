"""F0.5 of corrections by programs of others: MaxMatch (Dahlmeier and Ng 2012) and ERRANT (Bryant et al. 2017).

MaxMatch's official scorer is under the GPL and wants Python 2: the command that ``M2SCORER`` holds is called, and
nothing is copied. ERRANT is an optional package with a model of spaCy. The two count differently, and their numbers
cannot be compared.
"""

import importlib.metadata
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import OdeTransformerError
from ...files import write_lines, write_text

ERRANT = ("errant_parallel", "errant_m2", "errant_compare")
EXAMPLE = "'python2 /opt/m2scorer/scripts/m2scorer.py'"
TIMEOUT = 3600  # seconds; MaxMatch takes very long over a sentence with little in common with its source


class M2Error(OdeTransformerError):
    """Corrections that cannot be scored; the message names the program and what it wants or said."""


def scorer() -> list[str]:
    """The words of the command that ``M2SCORER`` holds, or nothing where it is not set.

    Raises:
        M2Error: it is no command line, or its program is not there.
    """
    command = os.environ.get("M2SCORER", "")
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise M2Error(f"M2SCORER={command}: {error}") from error
    if words and not shutil.which(words[0]):
        raise M2Error(f"M2SCORER={command}: {words[0]} is no program; it must be a command, such as {EXAMPLE}")
    return words


def max_match(corrections: Sequence[str], gold: str) -> dict[str, Any]:
    """Score tokenized corrections with the official scorer.

    Args:
        corrections: one string per sentence.
        gold: the annotated sentences, an M2 file.

    Returns:
        ``precision``, ``recall``, ``f`` (F0.5), in percent, and ``signature``.

    Raises:
        M2Error: ``M2SCORER`` is not set, or the program fails, takes too long or prints something else.
    """
    words = scorer()
    if not words:
        raise M2Error(f"the M2 score needs M2SCORER, the command of the official scorer, such as {EXAMPLE}")
    with tempfile.TemporaryDirectory() as folder:
        hypotheses = Path(folder) / "corrections"
        write_lines(hypotheses, corrections)
        text = _run([*words, str(hypotheses), gold])
    return {**parse_max_match(text), "signature": "official M2 scorer, F0.5, percent"}


def parse_max_match(text: str) -> dict[str, float]:
    """``precision``, ``recall`` and ``f``, in percent, of the three lines that the official scorer prints.

    Raises:
        M2Error: it prints anything else.
    """
    labels = {"precision": "Precision   ", "recall": "Recall      ", "f": r"F_0\.5       "}
    match = re.fullmatch("".join(rf"{label}: (?P<{name}>[01]\.\d{{4}})\n" for name, label in labels.items()), text)
    if not match:
        raise M2Error(f"the M2 scorer must print Precision, Recall and F_0.5 in three lines, not: {text[-300:]!r}")
    return {name: 100 * float(match[name]) for name in labels}


def has_errant() -> bool:
    """Whether ERRANT's programs are there."""
    return all(map(shutil.which, ERRANT))


def errant(sources: Sequence[str], corrections: Sequence[str], gold: str, edits: str | None = None) -> dict[str, Any]:
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
            write_lines(paths[name], lines)
        words = ["-orig", paths["source"], "-cor", paths["corrections"], "-out", paths["edits.m2"]]
        _run([ERRANT[0], *words])
        _run([ERRANT[1], "-auto", gold, "-out", paths["gold.m2"]])
        text = _run([ERRANT[2], "-hyp", paths["edits.m2"], "-ref", paths["gold.m2"]])
        if edits:
            for name, path in (("edits.m2", Path(edits)), ("gold.m2", Path(edits).with_suffix(".gold.m2"))):
                write_text(path, Path(paths[name]).read_text(encoding="utf-8"))
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
    """What a program prints; whatever ends the wait for it ends it as well, with all that it has started."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    try:
        process = subprocess.Popen(words, encoding="utf-8", errors="replace", process_group=0, **pipes)
    except OSError as error:
        raise M2Error(f"{words[0]}: {error.strerror}") from error
    with process:
        try:
            out, errors = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired as error:
            raise M2Error(f"{shlex.join(words)}: did not end within {TIMEOUT} seconds, and was stopped") from error
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        last = errors.strip().split("\n")[-1]
        raise M2Error(f"{shlex.join(words)}: ended with status {process.returncode}: {last}")
    return out


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
