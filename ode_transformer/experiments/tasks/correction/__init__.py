"""Grammatical error correction, fairseq's task ``translation`` from sentences to corrected sentences.

Beside the binarized data are the sentences of a test set, ``raw/SUBSET.source``, and either human corrections,
``raw/SUBSET.ref0`` and so on, for GLEU, or human edits, ``raw/SUBSET.m2``, for F0.5.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Optional

from .... import paths
from ..task import Scored, Step, Task
from ..translation import generated, generation, scoring, task_flags, translations

if TYPE_CHECKING:
    from ...recipes import Recipe


def _evaluation(recipe: "Recipe", run_dir: str, where: Sequence[str]) -> list[Step]:
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


def _scored(recipe: "Recipe", corrections: Sequence[str], subset: str, metric: str) -> Optional[Scored]:
    """Scores by GLEU, with the mean over the references in place of references drawn at random, or by ERRANT's F0.5."""
    from ...metrics import errant, gleu
    from ...text.lines import read_all

    prefix = paths.ROOT / recipe.data.directory / "raw" / subset
    sources, has_edits = read_all(f"{prefix}.source"), subset in recipe.score.edits
    if metric == "gleu" and not has_edits:
        references = [read_all(f"{prefix}.ref{i}") for i in range(recipe.score.references)]
        units = gleu.counts(sources, corrections, references).mean(1)
        return Scored(gleu.SIGNATURE, units, lambda sums: 100 * gleu.of_sums(sums), references)
    if metric == "errant" and has_edits:
        gold = f"{prefix}.m2"
        return Scored(errant.signature(), errant.counts(sources, corrections, gold), errant.of_sums, read_all(gold))
    return None


TASK = Task(
    name="correction",
    section="generate",
    flags=task_flags,
    evaluation=_evaluation,
    metrics=lambda recipe: ["m2", "errant", "gleu"],
    outputs=generated,
    scored=_scored,
)
