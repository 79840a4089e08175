"""Accuracy: the percentage of examples whose class is the predicted one; with it what becomes of each class."""

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ...errors import OdeTransformerError

SIGNATURE = "percent of examples"


class AccuracyError(OdeTransformerError):
    """Predictions that cannot be scored; the message names the file and the line."""


def take(golds: Sequence[str], taken: Sequence[str]) -> dict[str, Any]:
    """Score predictions.

    Args:
        golds: the class of each example.
        taken: the class that it is taken for.

    Returns:
        ``value``, in percent, and ``signature``; ``examples``; ``classes``, the names; ``confusion``, for every class
        how many of its examples are taken for each; ``report``, by class its ``precision``, ``recall`` and ``f1`` in
        percent and the number of its ``examples``.
    """
    pairs = Counter(zip(golds, taken, strict=True))
    classes = sorted({*golds, *taken})
    confusion = [[pairs[gold, other] for other in classes] for gold in classes]
    report = {}
    for i, name in enumerate(classes):
        right, have, called = confusion[i][i], sum(confusion[i]), sum(row[i] for row in confusion)
        report[name] = {
            "precision": _percent(right, called),
            "recall": _percent(right, have),
            "f1": _percent(2 * right, have + called),
            "examples": have,
        }
    correct = sum(row[i] for i, row in enumerate(confusion))
    return {
        "value": _percent(correct, len(golds)),
        "signature": SIGNATURE,
        "examples": len(golds),
        "classes": classes,
        "confusion": confusion,
        "report": report,
    }


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


def read(path: str) -> tuple[list[str], list[str]]:
    """Classes and classes taken of a file of ``ode-transformer classify``.

    Raises:
        AccuracyError: it is no such file.
        ScoringError: no such file, not UTF-8, or empty.
    """
    from .translations import read_lines

    rows = [line.split("\t") for line in read_lines(path)]
    if odd := [number for number, row in enumerate(rows, 1) if len(row) != 3]:
        raise AccuracyError(f"{path}: line {odd[0]}: must be a class, the class taken and a probability, with tabs")
    return [row[0] for row in rows], [row[1] for row in rows]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer score`` for classifiers."""
    parser.add_argument("--predictions", metavar="FILE", help="what ode-transformer classify wrote")


def score_files(args: argparse.Namespace) -> dict[str, Any]:
    """The scores that ``ode-transformer score`` is asked for."""
    found = take(*read(args.predictions))
    return {"accuracy": found, "sentences": found["examples"]}


def report(result: dict[str, Any]) -> str:
    """What :func:`score_files` returned as lines for people."""
    found = result["accuracy"]
    lines = [f"{'accuracy':<20}{found['value']:7.2f}   ({found['signature']}, {found['examples']} in all)"]
    lines.append(f"{'class':<20}{'precision':>10}{'recall':>10}{'F1':>10}{'examples':>10}")
    for name, values in found["report"].items():
        numbers = "".join(f"{values[key]:10.2f}" for key in ("precision", "recall", "f1"))
        lines.append(f"{name:<20}{numbers}{values['examples']:10d}")
    return "\n".join(lines)
