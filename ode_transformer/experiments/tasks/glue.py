"""GLUE: sentences, or pairs of them, by fairseq's ``sentence_prediction``; the metrics are those of the task."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..metrics import glue
from .task import Scored, Step, Task, flags

_REPORTED = {
    "report-mcc": ["matthews"],
    "report-acc-and-f1": ["accuracy", "f1"],
    "report-pearson-and-spearman": ["pearson", "spearman"],
}


def _metrics(recipe: Any) -> list[str]:
    reported = [metrics for flag, metrics in _REPORTED.items() if recipe.train.flags.get(flag)]
    return reported[0] if reported else ["accuracy"]


def _evaluation(recipe: Any, run_dir: str, where: Sequence[str]) -> list[Step]:
    model, found = f"{run_dir}/average.pt", []
    ours = ("python", "-m", "ode_transformer", "glue")
    for subset in recipe.subsets:
        output = predictions(run_dir, subset)
        command = [*ours, "validate", model, "--data", recipe.data.directory, "--subset", subset, "--output", output]
        found.append(Step("validate", [*command, *flags(recipe.validate.flags)], [model], [output], subset, where))
    for subset in recipe.subsets:
        read, output = predictions(run_dir, subset), f"{run_dir}/scores/{subset}.json"
        command = [*ours, "score", "--predictions", read, "--metrics", *_metrics(recipe), "--output", output]
        found.append(Step("score", command, [read], [output], subset))
    return found


def predictions(run_dir: str, subset: str) -> str:
    """The file of predicted labels for a subset."""
    return f"{run_dir}/validate/{subset}.tsv"


def _scored(recipe: Any, folder: Path, subset: str) -> Scored:
    metric, (golds, taken) = _metrics(recipe)[-1], glue.read(predictions(str(folder), subset))
    return Scored(
        metric, glue.SIGNATURE, glue.units(metric, golds, taken), lambda sums: float(glue.value(metric, sums)), golds
    )


TASK = Task(
    name="glue",
    section="validate",
    flags=lambda recipe: ["--task", "sentence_prediction"],
    evaluation=_evaluation,
    metrics=_metrics,
    scored=_scored,
)
