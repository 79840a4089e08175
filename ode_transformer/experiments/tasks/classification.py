"""Sentence classification, fairseq's ``sentence_prediction``, by accuracy; recipes give the number of classes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..metrics import accuracy
from .task import Scored, Step, Task, flags


def _evaluation(recipe: Any, run_dir: str, where: Sequence[str]) -> list[Step]:
    model, found = f"{run_dir}/average.pt", []
    ours = ("python", "-m", "ode_transformer")
    for subset in recipe.subsets:
        output = predictions(run_dir, subset)
        command = [*ours, "classify", model, "--data", recipe.data.directory, "--subset", subset, "--output", output]
        found.append(Step("validate", [*command, *flags(recipe.validate.flags)], [model], [output], subset, where))
    for subset in recipe.subsets:
        read, output = predictions(run_dir, subset), f"{run_dir}/scores/{subset}.json"
        command = [*ours, "score", "--predictions", read, "--output", output]
        found.append(Step("score", command, [read], [output], subset))
    return found


def predictions(run_dir: str, subset: str) -> str:
    """The file of predicted classes for a subset."""
    return f"{run_dir}/validate/{subset}.tsv"


def _scored(recipe: Any, folder: Path, subset: str) -> Scored:
    import numpy as np

    golds, taken = accuracy.read(predictions(str(folder), subset))
    units = np.array([[gold == other, 1] for gold, other in zip(golds, taken, strict=True)], float)
    return Scored("accuracy", accuracy.SIGNATURE, units, lambda sums: 100 * sums[0] / sums[1], golds)


TASK = Task(
    name="classification",
    section="validate",
    flags=lambda recipe: ["--task", "sentence_prediction_by_length"],
    evaluation=_evaluation,
    metrics=lambda recipe: ["accuracy"],
    scored=_scored,
)
