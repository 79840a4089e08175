"""SQuAD: spans of paragraphs that answer questions, by our ``span_prediction``; exact match and F1."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Optional

from .... import paths
from ...metrics import Examples
from ..task import OURS, Step, Task, flags
from . import answers


def _evaluation(recipe: Any, run_dir: str, where: Sequence[str]) -> list[Step]:
    model, data, found = f"{run_dir}/average.pt", recipe.data.directory, []
    given = {name.replace("-", "_"): value for name, value in recipe.validate.flags.items()}
    for subset in recipe.subsets:
        output = f"{run_dir}/answers/{subset}"
        command = [*OURS, "squad", "predict", model, "--data", data, "--subset", subset]
        command += ["--output-dir", output, *flags(recipe.validate.flags)]
        about = {"subset": subset, "output_dir": Path(output), "cpu": "--cpu" in where}
        call = partial(answers.write_answers, Path(model), Path(data), **about, **given)
        found.append(Step("validate", command, [model], [f"{output}/predictions.json"], subset, where, call=call))
    for subset in recipe.subsets:
        read, output = f"{run_dir}/answers/{subset}", f"{run_dir}/scores/{subset}.json"
        command = [*OURS, "squad", "score", read, "--data", data, "--subset", subset, "--output", output]
        call = partial(answers.write_scores, Path(read), Path(data), subset, Path(output))
        found.append(Step("score", command, [f"{read}/predictions.json"], [output], subset, call=call))
    return found


def _outputs(recipe: Any, folder: Path, subset: str) -> list[str]:
    """Of each question its name, its answer, and the score of there being none, or null: in JSON."""
    found, no_answer = answers.read_answers(folder / "answers" / subset)
    return [json.dumps([name, answer, (no_answer or {}).get(name)]) for name, answer in found.items()]


def _examples(recipe: Any, lines: Sequence[str], subset: str, folder: Optional[Path]) -> tuple[Sequence[str], Examples]:
    tree = answers.questions(paths.ROOT / recipe.data.directory, subset)
    return lines, Examples(questions=(tree["version"], answers.golds(tree)))


TASK = Task(
    name="question_answering",
    section="validate",
    flags=lambda recipe: ["--task", "span_prediction"],
    evaluation=_evaluation,
    metrics=lambda recipe: ["exact_match", "f1"],
    outputs=_outputs,
    examples=_examples,
)
