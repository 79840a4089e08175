"""The metrics of GLUE: accuracy, Matthews' correlation, F1, and Pearson's and Spearman's correlations, in percent.

fairseq's criterion ``sentence_prediction`` takes them over a whole subset, by scikit-learn and SciPy, where the
training had ``--report-mcc``, ``--report-acc-and-f1`` or ``--report-pearson-and-spearman``.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import validation

LOGGED = {"accuracy": "accuracy", "matthews": "mcc", "f1": "f1", "pearson": "pearson", "spearman": "spearman"}
"""What ``fairseq-validate`` logs of each."""

SIGNATURE = "percent; fairseq-validate, one decimal"


def take(log: Path, subset: str, metrics: Sequence[str]) -> dict[str, Any]:
    """The scores of a subset from what ``fairseq-validate --log-format json`` printed.

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
    scores = {metric: {"value": float(found[-1][LOGGED[metric]]), "signature": SIGNATURE} for metric in metrics}
    return scores | {"loss": float(found[-1]["loss"])}
