"""GLUE: sentences, or pairs of them, by fairseq's ``sentence_prediction``; the metrics are those of the task."""

from collections.abc import Callable, Sequence
from typing import Any

from .task import Step, Task, flags

NAME = "sentence_prediction"  # of fairseq's task and of its criterion
_REPORTED = {
    "report-mcc": ["matthews"],
    "report-acc-and-f1": ["accuracy", "f1"],
    "report-pearson-and-spearman": ["pearson", "spearman"],
}


def _metrics(recipe: Any) -> list[str]:
    reported = [metrics for flag, metrics in _REPORTED.items() if recipe.train.flags.get(flag)]
    return reported[0] if reported else ["accuracy"]


def validated(name: str, metrics: Callable[[Any], list[str]]) -> Callable[[Any, str, Sequence[str]], list[Step]]:
    """The steps of a task of fairseq's with a head that its criterion of the same name trains.

    Args:
        name: of both.
        metrics: of a recipe, those that the criterion logs.
    """

    def steps(recipe: Any, run_dir: str, where: Sequence[str]) -> list[Step]:
        model, found = f"{run_dir}/average.pt", []
        for subset in recipe.subsets:
            log = f"{run_dir}/validate/{subset}.log"
            command = ["fairseq-validate", recipe.data.directory, "--user-dir", "ode_transformer"]
            # Without the criterion, fairseq does not know the name of the head.
            command += ["--task", name, "--criterion", name, "--path", model]
            command += ["--valid-subset", subset, *flags(recipe.validate.flags), "--required-batch-size-multiple", "1"]
            command += ["--log-format", "json", "--no-progress-bar"]
            found.append(Step("validate", command, [model], [log], subset, where, log=log))
        for subset in recipe.subsets:
            log, output = f"{run_dir}/validate/{subset}.log", f"{run_dir}/scores/{subset}.json"
            command = ["python", "-m", "ode_transformer", "glue", "score", "--validation-log", log, "--subset", subset]
            command += ["--metrics", *metrics(recipe), "--output", output]
            found.append(Step("score", command, [log], [output], subset))
        return found

    return steps


TASK = Task("glue", "validate", lambda recipe: ["--task", NAME], validated(NAME, _metrics), _metrics)
