"""Sentence classification, fairseq's ``sentence_prediction``, by accuracy; recipes give the number of classes."""

from pathlib import Path
from typing import Any

from ..metrics import accuracy
from .task import Scored, Task, prediction, predictions


def _scored(recipe: Any, folder: Path, subset: str) -> Scored:
    import numpy as np

    golds, taken = accuracy.read(predictions(str(folder), subset))
    units = np.array([[gold == other, 1] for gold, other in zip(golds, taken, strict=True)], float)
    return Scored("accuracy", accuracy.SIGNATURE, units, lambda sums: 100 * sums[0] / sums[1], golds)


TASK = Task(
    name="classification",
    section="validate",
    flags=lambda recipe: ["--task", "sentence_prediction_by_length"],
    evaluation=prediction(["classify"], ["score"]),
    metrics=lambda recipe: ["accuracy"],
    scored=_scored,
)
