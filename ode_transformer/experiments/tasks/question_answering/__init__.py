"""SQuAD: spans of paragraphs that answer questions, by our ``span_prediction``; exact match and F1."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

from .... import paths
from ...metrics import Examples
from ..task import OURS, Step, Task, flags


def _evaluation(recipe: Any, run_dir: str, where: Sequence[str]) -> list[Step]:
    model, found = f"{run_dir}/average.pt", []
    for subset in recipe.subsets:
        output = f"{run_dir}/answers/{subset}"
        command = [*OURS, "squad", "predict", model, "--data", recipe.data.directory, "--subset", subset]
        command += ["--output-dir", output, *flags(recipe.validate.flags)]
        found.append(Step("validate", command, [model], [f"{output}/predictions.json"], subset, where))
    for subset in recipe.subsets:
        answers, output = f"{run_dir}/answers/{subset}", f"{run_dir}/scores/{subset}.json"
        command = [*OURS, "squad", "score", answers, "--data", recipe.data.directory, "--subset", subset]
        command += ["--output", output]
        found.append(Step("score", command, [f"{answers}/predictions.json"], [output], subset))
    return found


def _outputs(recipe: Any, folder: Path, subset: str) -> list[str]:
    """Of each question its name, its answer, and the score of there being none, or null: in JSON."""
    from .answers import read_answers

    answers, no_answer = read_answers(folder / "answers" / subset)
    return [json.dumps([name, answer, (no_answer or {}).get(name)]) for name, answer in answers.items()]


def _examples(recipe: Any, lines: Sequence[str], subset: str, folder: Optional[Path]) -> tuple[Sequence[str], Examples]:
    from .answers import golds, questions

    tree = questions(paths.ROOT / recipe.data.directory, subset)
    return lines, Examples(questions=(tree["version"], golds(tree)))


TASK = Task(
    name="question_answering",
    section="validate",
    flags=lambda recipe: ["--task", "span_prediction"],
    evaluation=_evaluation,
    metrics=lambda recipe: ["exact_match", "f1"],
    outputs=_outputs,
    examples=_examples,
)
