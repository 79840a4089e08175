"""The metrics of GLUE: accuracy, Matthews' correlation, F1, and Pearson's and Spearman's correlations, in percent.

Each is a function of sums over the examples; the bootstrap's intervals are taken from these. F1 is that of class 1, as
GLUE's.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import OdeTransformerError
from . import accuracy

if TYPE_CHECKING:
    import numpy as np

LOGGED = {"accuracy": "accuracy", "matthews": "mcc", "f1": "f1", "pearson": "pearson", "spearman": "spearman"}
"""What ``fairseq-validate`` logs of each."""

SIGNATURE = "percent"
SAMPLES, SEED = 1000, 12345
BOOTSTRAP = f"2.5th and 97.5th percentiles over {SAMPLES} bootstrap samples of the examples, seed {SEED}"
_BLOCK = 50  # samples that are drawn at a time, to bound the memory


def units(metric: str, golds: Sequence[str], taken: Sequence[str]) -> "np.ndarray":
    """Per-example terms, (examples, columns); the metric is a function of their sums.

    Args:
        metric: a key of ``LOGGED``. For ``spearman`` the terms are of ranks within one system's predictions; a
            randomization test exchanges these ranks, which are not computed anew.
        golds: the label of each example.
        taken: the predicted labels; with an ``accuracy.UNDEFINED`` among them all terms are NaN.

    Raises:
        OdeTransformerError: ``matthews`` and ``f1`` are of other labels than 0 and 1, or a correlation of labels that
            are not numbers.
    """
    import numpy as np

    if accuracy.UNDEFINED in taken:
        return np.full((len(golds), {"accuracy": 2, "matthews": 4, "f1": 4}.get(metric, 6)), np.nan)
    if metric == "accuracy":
        return np.array([[gold == other, 1] for gold, other in zip(golds, taken, strict=True)], float)
    if metric in ("matthews", "f1"):
        if odd := sorted({*golds, *taken} - {"0", "1"}):
            raise OdeTransformerError(f"label {odd[0]}: must be 0 or 1 for {metric}")
        cells = [("1", "1"), ("0", "1"), ("1", "0"), ("0", "0")]
        return np.array([[pair == cell for cell in cells] for pair in zip(golds, taken, strict=True)], float)
    try:
        x, y = (np.array(values, float) for values in (golds, taken))
    except ValueError as error:
        raise OdeTransformerError(f"{error}; labels must be numbers for {metric}") from error
    if metric == "spearman":
        from scipy.stats import rankdata

        x, y = rankdata(x), rankdata(y)
    x, y = x - x.mean(), y - x.mean()  # against cancellation; by one constant, so that systems can be exchanged
    return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)


def value(metric: str, sums: "np.ndarray") -> "np.ndarray":
    """A metric by the sums of its units, (..., columns) -> (...).

    A quotient of 0 and 0 is 0: F1 without a positive, a correlation with a constant.
    """
    import numpy as np

    columns = np.moveaxis(np.asarray(sums, float), -1, 0)
    if metric == "accuracy":
        right, count = columns
        return 100 * right / count
    if metric == "f1":
        both, false, missed, _ = columns
        above, below = 2 * both, 2 * both + false + missed
    elif metric == "matthews":
        both, false, missed, neither = columns
        above = both * neither - false * missed
        below = np.sqrt((both + false) * (both + missed) * (neither + false) * (neither + missed))
    else:
        count, x, y, xx, yy, xy = columns
        above = count * xy - x * y
        below = np.sqrt(np.maximum((count * xx - x * x) * (count * yy - y * y), 0))
    return 100 * np.divide(above, below, out=np.zeros_like(above), where=~(below <= 0))


def score(golds: Sequence[str], taken: Sequence[str], metrics: Sequence[str]) -> dict[str, Any]:
    """Score predictions.

    Returns:
        ``examples``, and of each metric its ``value``, ``signature``, ``interval``, two numbers, and what they are,
        ``bootstrap``.

    Raises:
        OdeTransformerError: the labels do not fit the metric.
    """
    import numpy as np

    examples, random = len(golds), np.random.default_rng(SEED)
    terms = {metric: units(metric, golds, taken) for metric in metrics}
    together = np.hstack(list(terms.values()))
    even = np.full(examples, 1 / examples)
    sums = np.concatenate([random.multinomial(examples, even, _BLOCK) @ together for _ in range(SAMPLES // _BLOCK)])
    scores: dict[str, Any] = {"examples": examples}
    for metric, its in terms.items():
        mine, sums = np.hsplit(sums, [its.shape[1]])
        interval = np.percentile(value(metric, mine), [2.5, 97.5]).tolist()
        found = {"value": float(value(metric, its.sum(0))), "signature": SIGNATURE}
        scores[metric] = found | {"interval": interval, "bootstrap": BOOTSTRAP}
    return scores


def read(path: str) -> tuple[list[str], list[str]]:
    """The labels and predicted labels of ``ode-transformer glue validate``; errors as :func:`.accuracy.columns`."""
    golds, taken = accuracy.columns(path, 2, "a label and the predicted label, separated by a tab")
    return golds, taken
