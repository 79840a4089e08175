"""GLUE: sentences, or pairs of them, by fairseq's ``sentence_prediction``; the metrics are those of the task."""

from collections.abc import Sequence
from typing import Any

from ..metrics import glue
from .task import Scored, Task, predicted, prediction

_REPORTED = {
    "report-mcc": ["matthews"],
    "report-acc-and-f1": ["accuracy", "f1"],
    "report-pearson-and-spearman": ["pearson", "spearman"],
}


def _flags(recipe: Any) -> list[str]:
    """fairseq's own task, unless the recipe swaps the texts of pairs."""
    return ["--task", "sentence_prediction_of_pairs" if recipe.train.flags.get("swap-pairs") else "sentence_prediction"]


def _metrics(recipe: Any) -> list[str]:
    reported = [metrics for flag, metrics in _REPORTED.items() if recipe.train.flags.get(flag)]
    return reported[0] if reported else ["accuracy"]


def _scored(recipe: Any, lines: Sequence[str], subset: str, metric: str) -> Scored:
    golds, taken = map(list, zip(*(line.split("\t") for line in lines), strict=True))
    return Scored(glue.SIGNATURE, glue.units(metric, golds, taken), lambda sums: float(glue.value(metric, sums)), golds)


TASK = Task(
    name="glue",
    section="validate",
    flags=_flags,
    evaluation=prediction(["glue", "validate"], ["glue", "score"], lambda recipe: ["--metrics", *_metrics(recipe)]),
    metrics=_metrics,
    outputs=predicted(glue.read),
    scored=_scored,
)
