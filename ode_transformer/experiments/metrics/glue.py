"""The metrics of GLUE besides accuracy, in percent: Matthews', Pearson's and Spearman's correlations, and F1.

Each is a function of sums over the examples, from which the bootstrap takes intervals. F1 is that of class 1, as
in GLUE.
"""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from ...errors import OdeTransformerError
from . import accuracy
from .metric import Examples, Metric

SIGNATURE = "percent"


def cells(outputs: Sequence[str], examples: Examples) -> np.ndarray:
    """Return whether each example is a true positive, false positive, false negative and true negative of class 1.

    (examples, 4) of 0 and 1; NaN for all examples if an output is ``UNDEFINED``.
    """
    if accuracy.UNDEFINED in outputs:
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
    if accuracy.UNDEFINED in outputs:
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


_label_metric = partial(Metric, needs=("labels",), signature=SIGNATURE)
_number_metric = partial(_label_metric, score=_correlation, label_kind="numbers")

MATTHEWS = _label_metric("matthews", "Matthews", statistics=cells, score=_matthews, label_kind="binary")
CORRELATIONS = (
    _number_metric("pearson", "Pearson", statistics=moments),
    _number_metric("spearman", "Spearman", statistics=partial(moments, ranked=True)),
)
