"""Metrics of predicted labels: accuracy, with the confusion matrix and a report by class, and the others of GLUE.

Those are, in percent, Matthews', Pearson's and Spearman's correlations, and F1 of class 1. Each is a function of sums
over the examples, from which the bootstrap takes intervals.
"""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import OdeTransformerError
from ..text.lines import read_all
from .metric import Examples, Metric, percent

SIGNATURE = "percent of examples"  # of the accuracy
PERCENT = "percent"  # of the others
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


def cells(outputs: Sequence[str], examples: Examples) -> np.ndarray:
    """Return whether each example is a true positive, false positive, false negative and true negative of class 1.

    (examples, 4) of 0 and 1; NaN for all examples if an output is ``UNDEFINED``.
    """
    if UNDEFINED in outputs:
        return np.full((len(outputs), 4), np.nan)
    if odd := sorted({*examples.labels, *outputs} - {"0", "1"}):
        raise OdeTransformerError(f"label {odd[0]}: must be 0 or 1 for Matthews' correlation and F1")
    kinds = [("1", "1"), ("0", "1"), ("1", "0"), ("0", "0")]
    return np.array([[pair == kind for kind in kinds] for pair in zip(examples.labels, outputs, strict=True)], float)


def moments(outputs: Sequence[str], examples: Examples, ranked: bool = False) -> np.ndarray:
    """Return 1, x, y, xx, yy and xy for the number x and the predicted number y of each example, less the mean of x.

    With ``ranked``, x and y are ranks. Those of predictions are ranks within one system, which a randomization test
    exchanges without ranking anew.

    (examples, 6); NaN for all examples if an output is ``UNDEFINED``.
    """
    if UNDEFINED in outputs:
        return np.full((len(outputs), 6), np.nan)
    try:
        x, y = (np.array(values, float) for values in (examples.labels, outputs))
    except ValueError as error:
        raise OdeTransformerError(f"{error}; labels must be numbers for a correlation") from error
    if ranked:
        from scipy.stats import rankdata

        x, y = rankdata(x), rankdata(y)
    x, y = x - x.mean(), y - x.mean()  # against cancellation; by one constant, so that systems can be exchanged
    return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)


def f1(sums: np.ndarray) -> float:
    """Return F1 in percent, from the sums of :func:`cells`; 0 if there are no positives."""
    both, false, missed, _ = sums
    return _percent(2 * both, 2 * both + false + missed)


def _matthews(sums: np.ndarray) -> float:
    both, false, missed, neither = sums
    product = (both + false) * (both + missed) * (neither + false) * (neither + missed)
    return _percent(both * neither - false * missed, math.sqrt(product))


def _correlation(sums: np.ndarray) -> float:
    count, x, y, xx, yy, xy = sums
    return _percent(count * xy - x * y, math.sqrt(max((count * xx - x * x) * (count * yy - y * y), 0)))


def _percent(part: float, whole: float) -> float:
    """Return a quotient in percent; 0 if the divisor is 0, as in a correlation with a constant."""
    return float(100 * part / whole) if whole else 0.0


ACCURACY = Metric(
    "accuracy",
    "accuracy",
    needs=("labels",),
    statistics=statistics,
    score=percent,
    signature=SIGNATURE,
    whole=lambda outputs, examples: entry(examples.labels, outputs),
)
_label_metric = partial(Metric, needs=("labels",), signature=PERCENT)
_number_metric = partial(_label_metric, score=_correlation, label_kind="numbers")

MATTHEWS = _label_metric("matthews", "Matthews", statistics=cells, score=_matthews, label_kind="binary")
CORRELATIONS = (
    _number_metric("pearson", "Pearson", statistics=moments),
    _number_metric("spearman", "Spearman", statistics=partial(moments, ranked=True)),
)
