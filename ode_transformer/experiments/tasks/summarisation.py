"""Summarization with fairseq's task ``translation``, scored by ROUGE, beside the ROUGE of the texts' first sentences.

Beside the binarized data lie the references of a test set as they were published, ``raw/SUBSET.target``, whose
sentences may have tabs between them, and the tokenized texts, ``tok/SUBSET.source``.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ... import paths
from .task import Scored, Step, Task
from .translation import generated, generation, scoring, task_flags, translations

if TYPE_CHECKING:
    from ..recipes import Recipe


def _evaluation(recipe: "Recipe", run_dir: str, where: Sequence[str]) -> list[Step]:
    found = generation(recipe, run_dir, where)
    for subset in recipe.subsets:
        words = ["--summaries", translations(run_dir, subset), "--ref", _references(recipe, subset)]
        if recipe.score.lead:
            words += ["--source", f"{recipe.data.directory}/tok/{subset}.source", "--lead", str(recipe.score.lead)]
        found.append(scoring(recipe, run_dir, subset, words))
    return found


def _references(recipe: "Recipe", subset: str) -> str:
    return f"{recipe.data.directory}/raw/{subset}.target"


def _scored(recipe: "Recipe", summaries: Sequence[str], subset: str, metric: str) -> Scored:
    import numpy as np

    from ..metrics import METRICS, rouge
    from ..text.lines import read_all

    references = read_all(paths.ROOT / _references(recipe, subset))
    found = rouge.each(summaries, references)[:, [rouge.KINDS.index(METRICS[metric].key)]]
    units = np.hstack([found, np.ones_like(found)])
    return Scored(rouge.signature(), units, lambda sums: sums[0] / sums[1], references)


TASK = Task(
    name="summarisation",
    section="generate",
    flags=task_flags,
    evaluation=_evaluation,
    metrics=lambda recipe: ["rouge1", "rouge2", "rougeL"],
    outputs=generated,
    scored=_scored,
)
