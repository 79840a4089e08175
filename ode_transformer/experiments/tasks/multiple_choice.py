"""RACE: which of several texts is right, by fairseq's ``sentence_ranking``; accuracy."""

from collections.abc import Sequence
from typing import Any

from .task import Step, Task, flags

NAME = "sentence_ranking"  # of fairseq's task and of its criterion


def _evaluation(recipe: Any, run_dir: str, where: Sequence[str]) -> list[Step]:
    model, found = f"{run_dir}/average.pt", []
    for subset in recipe.subsets:
        log = f"{run_dir}/validate/{subset}.log"
        command = ["fairseq-validate", recipe.data.directory, "--user-dir", "ode_transformer"]
        # Without the criterion, fairseq does not know the name of the head.
        command += ["--task", NAME, "--criterion", NAME, "--path", model]
        command += ["--valid-subset", subset, *flags(recipe.validate.flags), "--required-batch-size-multiple", "1"]
        command += ["--log-format", "json", "--no-progress-bar"]
        found.append(Step("validate", command, [model], [log], subset, where, log=log))
    for subset in recipe.subsets:
        log, output = f"{run_dir}/validate/{subset}.log", f"{run_dir}/scores/{subset}.json"
        command = ["python", "-m", "ode_transformer", "glue", "score", "--validation-log", log, "--subset", subset]
        found.append(Step("score", [*command, "--metrics", "accuracy", "--output", output], [log], [output], subset))
    return found


TASK = Task(
    name="multiple_choice",
    section="validate",
    flags=lambda recipe: ["--task", NAME],
    evaluation=_evaluation,
    metrics=lambda recipe: ["accuracy"],
)
