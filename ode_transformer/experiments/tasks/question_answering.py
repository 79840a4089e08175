"""SQuAD: spans of paragraphs that answer questions, by our ``span_prediction``; exact match and F1."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..metrics import squad
from .task import OURS, Scored, Step, Task, flags


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


def _scored(recipe: Any, folder: Path, subset: str) -> Scored:
    import numpy as np

    from .. import recipes
    from ..squad import golds, questions, read_answers

    tree = questions(recipes.ROOT / recipe.data.directory, subset)
    gold, (answers, no_answer) = golds(tree), read_answers(folder / "answers" / subset)
    compared = squad.compare(gold, answers, tree["version"])
    values, _ = squad.counted(compared, answers, no_answer if tree["version"] == "2.0" else None, "f1")
    units = np.array([[value, 1] for value in values.values()])
    signature = f"percent; SQuAD {tree['version']}, {len(gold)} questions"
    return Scored("f1", signature, units, lambda sums: 100 * sums[0] / sums[1], gold)


TASK = Task(
    name="question_answering",
    section="validate",
    flags=lambda recipe: ["--task", "span_prediction"],
    evaluation=_evaluation,
    metrics=lambda recipe: ["exact_match", "f1"],
    scored=_scored,
)
