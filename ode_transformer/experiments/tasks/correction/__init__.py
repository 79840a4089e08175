"""Grammatical error correction with fairseq's task ``translation``, from sentences to corrected sentences.

The folder of binarized data also holds the sentences of a test set, ``raw/SUBSET.source``, and either human
corrections, ``raw/SUBSET.ref0`` and so on, for GLEU, or human edits, ``raw/SUBSET.m2``, for F0.5.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

from .... import paths
from ...metrics import Examples
from ...text.lines import read_all
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


def _examples(
    recipe: Recipe, corrections: Sequence[str], subset: str, folder: Optional[Path]
) -> tuple[Sequence[str], Examples]:
    prefix = paths.ROOT / recipe.data.directory / "raw" / subset
    sources = read_all(f"{prefix}.source")
    if subset in recipe.score.edits:
        return corrections, Examples(sources=sources, edits=f"{prefix}.m2")
    references = [read_all(f"{prefix}.ref{i}") for i in range(recipe.score.references)]
    return corrections, Examples(references, sources)


def _metrics(recipe: Recipe) -> list[str]:
    return ["m2", "errant", "gleu"]


TASK = by_decoding("correction", _options, _metrics, _examples, provides=replace(OF_TEXT, edits="M2"))
