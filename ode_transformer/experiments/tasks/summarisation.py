"""Summarisation, fairseq's task ``translation`` of texts: ROUGE, beside that of their first sentences."""

from collections.abc import Sequence

from .. import recipes
from .task import Step, Task
from .translation import generation, scoring, task_flags, translations


def _evaluation(recipe: "recipes.Recipe", run_dir: str, where: Sequence[str]) -> list[Step]:
    found = generation(recipe, run_dir, where)
    for subset in recipe.subsets:
        source, reference = (f"{recipe.data.directory}/tok/{subset}.{side}" for side in ("source", "target"))
        words = ["--summaries", translations(run_dir, subset), "--ref", reference]
        if recipe.score.lead:
            words += ["--source", source, "--lead", str(recipe.score.lead)]
        found.append(scoring(recipe, run_dir, subset, words))
    return found


TASK = Task("summarisation", "generate", task_flags, _evaluation, lambda recipe: ["rouge1", "rouge2", "rougeL"])
