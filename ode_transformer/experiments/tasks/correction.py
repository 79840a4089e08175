"""Grammatical error correction, fairseq's task ``translation`` of sentences to what they should be.

Beside the binarised data lie the sentences of a test set, ``raw/SUBSET.source``, and either corrections by people,
``raw/SUBSET.ref0`` and so on, for GLEU, or their edits, ``raw/SUBSET.m2``, for F0.5.
"""

from collections.abc import Sequence

from .. import recipes
from .task import Step, Task
from .translation import generation, scoring, task_flags, translations


def _evaluation(recipe: "recipes.Recipe", run_dir: str, where: Sequence[str]) -> list[Step]:
    found = generation(recipe, run_dir, where)
    for subset in recipe.subsets:
        prefix = f"{recipe.data.directory}/raw/{subset}"
        words = ["--corrections", translations(run_dir, subset), "--source", f"{prefix}.source"]
        if subset in recipe.score.edits:
            words += ["--edits", f"{prefix}.m2", "--own-edits", f"{run_dir}/edits/{subset}.m2"]
        else:
            words += ["--references", *(f"{prefix}.ref{i}" for i in range(recipe.score.references))]
        found.append(scoring(recipe, run_dir, subset, words))
    return found


TASK = Task("correction", "generate", task_flags, _evaluation, lambda recipe: ["gleu", "m2", "errant"])
