"""SQuAD: spans of paragraphs that answer questions, by our ``span_prediction``; exact match and F1."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from .... import paths
from ...metrics import Examples
from ..task import Recipe, Step, Task, step_of_ours
from . import answers


def _answering(recipe: Recipe, run_dir: str, subset: str, where: Sequence[str]) -> Step:
    model, folder = f"{run_dir}/average.pt", f"{run_dir}/answers/{subset}"
    about = {"": model, "data": recipe.data.directory, "subset": subset, "output_dir": folder, **recipe.validate.flags}
    files = {"inputs": [model], "outputs": [f"{folder}/predictions.json"], "where": where}
    return step_of_ours("validate", subset, ["squad", "predict"], answers.write_answers, about, **files)


def _scoring(recipe: Recipe, run_dir: str, subset: str) -> Step:
    folder, output = f"{run_dir}/answers/{subset}", f"{run_dir}/scores/{subset}.json"
    about = {"": folder, "data": recipe.data.directory, "subset": subset, "output": output}
    files = {"inputs": [f"{folder}/predictions.json"], "outputs": [output]}
    return step_of_ours("score", subset, ["squad", "score"], answers.write_scores, about, **files)


def _outputs(recipe: Recipe, folder: Path, subset: str) -> list[str]:
    """Of each question its name, its answer, and the score of there being none, or null: in JSON."""
    found, no_answer = answers.read_answers(folder / "answers" / subset)
    return [json.dumps([name, answer, (no_answer or {}).get(name)]) for name, answer in found.items()]


def _examples(
    recipe: Recipe, lines: Sequence[str], subset: str, folder: Optional[Path]
) -> tuple[Sequence[str], Examples]:
    tree = answers.questions(paths.ROOT / recipe.data.directory, subset)
    return lines, Examples(questions=(tree["version"], answers.golds(tree)))


TASK = Task(
    name="question_answering",
    flags=lambda recipe: ["--task", "span_prediction"],
    evaluate=_answering,
    score=_scoring,
    metrics=lambda recipe: ["exact_match", "f1"],
    outputs=_outputs,
    examples=_examples,
)
