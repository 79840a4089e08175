"""Accuracy, the percentage of correctly classified examples, with the confusion matrix and a report by class."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import OdeTransformerError
from ..text.lines import read_all
from .metric import Examples, Metric, percent

SIGNATURE = "percent of examples"
UNDEFINED = "not a number"
"""The predicted class if a score of the model is not a number; names of classes have no blanks."""


def entry(golds: Sequence[str], predicted: Sequence[str]) -> dict[str, Any]:
    """Return the entry in a record of predicted classes, each perhaps ``UNDEFINED``.

    It has ``value``, in percent, NaN if a prediction is ``UNDEFINED``, and ``signature``; ``examples``; ``classes``,
    the names; ``confusion``, for every class the number of its examples predicted as each class; ``report``, for every
    class its ``precision``, ``recall`` and ``f1`` in percent and the number of its ``examples``.
    """
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    golds, predicted, classes = list(golds), list(predicted), sorted({*golds, *predicted})
    confusion = confusion_matrix(golds, predicted, labels=classes)
    *scores, _ = precision_recall_fscore_support(golds, predicted, labels=classes, zero_division=0.0)
    columns = [*(100 * np.array(scores)).tolist(), confusion.sum(1).tolist()]
    return {
        "value": math.nan if UNDEFINED in predicted else 100 * float(confusion.trace()) / len(golds),
        "signature": SIGNATURE,
        "examples": len(golds),
        "classes": classes,
        "confusion": confusion.tolist(),
        "report": {
            name: dict(zip(("precision", "recall", "f1", "examples"), row, strict=True))
            for name, row in zip(classes, zip(*columns, strict=True), strict=True)
        },
    }


def read(path: str | Path) -> tuple[list[str], list[str]]:
    """Return the labels and the predicted labels in a file of ``ode-transformer predict``."""
    rows = [line.split("\t") for line in read_all(path)]
    if odd := [number for number, row in enumerate(rows, 1) if len(row) not in (2, 3)]:
        raise OdeTransformerError(
            f"{path}: line {odd[0]}: must be a label, the predicted label and perhaps a probability, separated by tabs"
        )
    return [row[0] for row in rows], [row[1] for row in rows]


def statistics(outputs: Sequence[str], examples: Examples) -> list[tuple[float, int]]:
    """Return whether each prediction is right, and 1; NaN for all if one is ``UNDEFINED``."""
    undefined = math.nan if UNDEFINED in outputs else 0.0
    return [(undefined + (gold == one), 1) for gold, one in zip(examples.labels, outputs, strict=True)]


METRIC = Metric(
    "accuracy",
    "accuracy",
    needs=("labels",),
    statistics=statistics,
    score=percent,
    signature=SIGNATURE,
    whole=lambda outputs, examples: entry(examples.labels, outputs),
)
