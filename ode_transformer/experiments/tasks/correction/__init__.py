"""Grammatical error correction with fairseq's task ``translation``, from sentences to corrected sentences.

The folder of binarized data also holds the sentences of a test set, ``raw/SUBSET.source``, and either human
corrections, ``raw/SUBSET.ref0`` and so on, for GLEU, or human edits, ``raw/SUBSET.m2``, for F0.5.
"""

from dataclasses import replace
from typing import Any

from ..task import OF_TEXT, Recipe
from ..translation import by_decoding, translations


def _options(recipe: Recipe, run_dir: str, subset: str) -> dict[str, Any]:
    prefix = f"{recipe.data.directory}/raw/{subset}"
    options = {"corrections": translations(run_dir, subset), "source": f"{prefix}.source"}
    if subset in recipe.score.edits:
        options |= {"edits": f"{prefix}.m2", "own_edits": f"{run_dir}/edits/{subset}.m2"}
    else:
        options["references"] = [f"{prefix}.ref{i}" for i in range(recipe.score.references)]
    return options


TASK = by_decoding(
    "correction", _options, lambda recipe: ["m2", "errant", "gleu"], provides=replace(OF_TEXT, edits="M2")
)
