"""SQuAD: spans of paragraphs that answer questions, by our ``span_prediction``; exact match and F1."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .... import paths
from ...metrics import squad
from ..task import OURS, Scored, Step, Task, flags


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


def _scored(recipe: Any, lines: Sequence[str], subset: str, metric: str) -> Scored:
    import numpy as np

    from .answers import golds, questions

    tree, rows = questions(paths.ROOT / recipe.data.directory, subset), list(map(json.loads, lines))
    gold, answers = golds(tree), {name: answer for name, answer, _ in rows}
    no_answer = {name: score for name, _, score in rows if score is not None} or None
    compared = squad.compare(gold, answers, tree["version"])
    values, threshold = squad.counted(compared, answers, no_answer if tree["version"] == "2.0" else None, metric)
    units = np.array([[value, 1] for value in values.values()])
    signature = squad.signature(tree["version"], len(gold), threshold)
    return Scored(signature, units, lambda sums: 100 * sums[0] / sums[1], gold)


TASK = Task(
    name="question_answering",
    section="validate",
    flags=lambda recipe: ["--task", "span_prediction"],
    evaluation=_evaluation,
    metrics=lambda recipe: ["exact_match", "f1"],
    outputs=_outputs,
    scored=_scored,
)
