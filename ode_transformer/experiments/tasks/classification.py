"""Sentence classification, fairseq's ``sentence_prediction``, by accuracy; recipes give the number of classes."""

from collections.abc import Sequence
from typing import Any

from ..metrics import accuracy, glue
from .task import Scored, Task, predicted, prediction


def _scored(recipe: Any, lines: Sequence[str], subset: str, metric: str) -> Scored:
    golds, taken, _ = map(list, zip(*(line.split("\t") for line in lines), strict=True))
    units = glue.units(metric, golds, taken)
    return Scored(accuracy.SIGNATURE, units, lambda sums: 100 * sums[0] / sums[1], golds)


TASK = Task(
    name="classification",
    section="validate",
    flags=lambda recipe: ["--task", "sentence_prediction_by_length"],
    evaluation=prediction(["classify"], ["score"]),
    metrics=lambda recipe: ["accuracy"],
    outputs=predicted(accuracy.read),
    scored=_scored,
)
