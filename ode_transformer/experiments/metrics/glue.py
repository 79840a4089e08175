"""The metrics of GLUE: accuracy, Matthews' correlation, F1, and Pearson's and Spearman's correlations, in percent.

Each is a function of sums over the examples; the bootstrap's intervals are taken from these. F1 is that of class 1, as
GLUE's. What fairseq's criterion logs with ``--report-acc-and-f1`` is the F1 of the second class of its dictionary,
which is sorted by frequency: of MRPC, class 0.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import OdeTransformerError
from . import validation

if TYPE_CHECKING:
    import numpy as np

LOGGED = {"accuracy": "accuracy", "matthews": "mcc", "f1": "f1", "pearson": "pearson", "spearman": "spearman"}
"""What ``fairseq-validate`` logs of each."""

LOG_SIGNATURE = "percent; fairseq-validate, one decimal"
SAMPLES, SEED = 1000, 12345
SIGNATURE = f"percent; interval: 95 % of {SAMPLES} bootstrap samples of the examples, seed {SEED}"


class GlueMetricError(OdeTransformerError):
    """Predictions that cannot be scored; the message names the file or the label."""


def units(metric: str, golds: Sequence[str], taken: Sequence[str]) -> "np.ndarray":
    """The numbers of each example by whose sums a metric is given, (examples, columns).

    Args:
        metric: a key of ``LOGGED``. Of ``spearman`` they are ranks among all these examples.
        golds: the label of each example.
        taken: the predicted labels.

    Raises:
        GlueMetricError: ``matthews`` and ``f1`` are of other labels than 0 and 1, or a correlation of labels that are
            not numbers.
    """
    import numpy as np

    if metric == "accuracy":
        return np.array([[gold == other, 1] for gold, other in zip(golds, taken, strict=True)], float)
    if metric in ("matthews", "f1"):
        if odd := sorted({*golds, *taken} - {"0", "1"}):
            raise GlueMetricError(f"label {odd[0]}: must be 0 or 1 for {metric}")
        cells = [("1", "1"), ("0", "1"), ("1", "0"), ("0", "0")]
        return np.array([[pair == cell for cell in cells] for pair in zip(golds, taken, strict=True)], float)
    try:
        x, y = (np.array(values, float) for values in (golds, taken))
    except ValueError as error:
        raise GlueMetricError(f"{error}; labels must be numbers for {metric}") from error
    if metric == "spearman":
        from scipy.stats import rankdata

        x, y = rankdata(x), rankdata(y)
    x, y = x - x.mean(), y - y.mean()  # against cancellation
    return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)


def value(metric: str, sums: "np.ndarray") -> "np.ndarray":
    """A metric by the sums of its units, (..., columns) -> (...); 0 where it has no value, as in scikit-learn."""
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
    return 100 * np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def score(golds: Sequence[str], taken: Sequence[str], metrics: Sequence[str]) -> dict[str, Any]:
    """Score predictions.

    Returns:
        ``examples``, and of each metric its ``value``, ``signature`` and ``interval``, two numbers between which it is
        in 95 % of the bootstrap samples.

    Raises:
        GlueMetricError: the labels are not such as the metric needs.
    """
    import numpy as np

    examples = len(golds)
    times = np.random.default_rng(SEED).multinomial(examples, np.full(examples, 1 / examples), SAMPLES)
    scores: dict[str, Any] = {"examples": examples}
    for metric in metrics:
        its = units(metric, golds, taken)
        low, high = np.percentile(value(metric, times @ its), [2.5, 97.5])
        found = float(value(metric, its.sum(0)))
        scores[metric] = {"value": found, "signature": SIGNATURE, "interval": [float(low), float(high)]}
    return scores


def read(path: str) -> tuple[list[str], list[str]]:
    """The labels and predicted labels in a file that ``ode-transformer glue validate`` wrote.

    Raises:
        GlueMetricError: the file has another form.
        ScoringError: there is no such file, or it is empty or not UTF-8.
    """
    from .translations import read_lines

    rows = [line.split("\t") for line in read_lines(path)]
    if odd := [number for number, row in enumerate(rows, 1) if len(row) != 2]:
        raise GlueMetricError(f"{path}: line {odd[0]}: must be a label and the predicted label, separated by a tab")
    return [row[0] for row in rows], [row[1] for row in rows]


def take(log: Path, subset: str, metrics: Sequence[str]) -> dict[str, Any]:
    """The scores of a subset from what ``fairseq-validate --log-format json`` printed, for other tasks than GLUE's.

    Returns:
        of each metric its ``value`` and ``signature``; and ``loss``, in bits.

    Raises:
        ValidationError: no such file, no entry of the subset, or one without a metric.
    """
    from ..records import entries

    try:
        found = [values for _, values in entries(log.read_text(encoding="utf-8", errors="replace"), subset)]
    except OSError as error:
        raise validation.ValidationError(f"{log}: {error.strerror}") from error
    if not found:
        raise validation.ValidationError(f"{log}: no entry of subset {subset}; was it cut short?")
    missing = [metric for metric in metrics if LOGGED[metric] not in found[-1]]
    if missing:
        raise validation.ValidationError(f"{log}: no {missing[0]} of subset {subset}: the criterion does not log it")
    scores = {metric: {"value": float(found[-1][LOGGED[metric]]), "signature": LOG_SIGNATURE} for metric in metrics}
    return scores | {"loss": float(found[-1]["loss"])}
