"""Summarisation, fairseq's task ``translation`` of texts: ROUGE, beside that of their first sentences."""

from collections.abc import Sequence
from pathlib import Path

from .. import recipes
from .task import Scored, Step, Task
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


def _scored(recipe: "recipes.Recipe", folder: Path, subset: str) -> Scored:
    import numpy as np

    from ..metrics import rouge
    from ..metrics.translations import read_generate_output, read_lines

    summaries, _ = read_generate_output(translations(str(folder), subset))
    references = read_lines(recipes.ROOT / recipe.data.directory / "tok" / f"{subset}.target")
    found = rouge.each(summaries, references)[:, [rouge.KINDS.index("rougeLsum")]]
    units = np.hstack([found, np.ones_like(found)])
    return Scored("rougeL", rouge.signature(), units, lambda sums: sums[0] / sums[1], references)


TASK = Task(
    name="summarisation",
    section="generate",
    flags=task_flags,
    evaluation=_evaluation,
    metrics=lambda recipe: ["rouge1", "rouge2", "rougeL"],
    scored=_scored,
)
