"""What a recipe must be besides its form: contradictions, values out of range, names of files that are none."""

import re
import shlex
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from ...schema import lacks
from ..metrics import METRICS
from .schema import OPTIONS, PRECISIONS, SECTIONS, Recipe, RecipeError, divisors

MOST_BATCHES = 100_000  # of an update
OWN_FLAGS = {
    "update-freq": "train.batches and --devices",
    "distributed-world-size": "--devices",
    "save-dir": "--run-dir",
}
"""Flags of ``fairseq-train`` that a run sets itself, and what sets their values."""


def check(recipe: Recipe, path: str) -> None:
    """Check a recipe, but for the one that it starts from.

    Args:
        recipe: the recipe.
        path: its file, for errors.

    Raises:
        RecipeError: it cannot be followed.
    """
    for wrong in _wrong(recipe):
        raise RecipeError(f"{path}: {wrong}")


def _wrong(recipe: Recipe) -> Iterator[str]:
    """What is wrong with a recipe; what comes later may rely on what came before."""
    train, score, search, average = recipe.train, recipe.score, recipe.search, recipe.average.wanted

    def others(option: str, values: Iterable[Any], valid: Collection[Any]) -> Iterator[str]:
        for value in values:
            if value not in valid:
                yield f"{option} {value!r}: must be one of {', '.join(map(str, valid))}"

    for section in ("generate", "validate"):
        wanted = section == SECTIONS[recipe.task]
        if wanted != (getattr(recipe, section) is not None):
            yield f"{section} {'is missing' if wanted else f'is of another task than {recipe.task}'}"
    if options := OPTIONS.get(recipe.task):
        yield from others("validate.flags", recipe.validate.flags, options)
        if wrong := lacks(recipe.validate.flags, options, "validate.flags"):
            yield wrong
    for key in ("source", "target"):
        if recipe.generate and not getattr(recipe.data, key):
            yield f"data.{key} is missing"
    if len(set(recipe.subsets.values())) < len(recipe.subsets):
        yield f"subsets: must have different names, got {', '.join(recipe.subsets.values())}"

    # What files are called after, and the command that prepares the data.
    named = {"name": recipe.name.split("/"), "subsets": [*recipe.subsets, *recipe.subsets.values()]}
    named |= {"train.start.checkpoint": [train.start.checkpoint]} if train.start else {}
    for key, found in named.items():
        for part in found:
            if not isinstance(part, str) or not re.fullmatch(r"\w[\w .,=+-]*", part):
                yield f"{key} {part!r}: must be letters, digits and .,=+-_, and no folders"
    try:
        words = shlex.split(recipe.data.prepare)
        problem = "" if words else "it is empty"
    except ValueError as error:
        problem = str(error)
    if problem:
        yield f"data.prepare {recipe.data.prepare!r}: no command: {problem}"
    for word in (*words, recipe.data.directory):
        if word.startswith("~"):
            yield f"data: {word}: no shell reads the ~ here; write the name of the folder out"

    yield from others("train.precision", [train.precision], PRECISIONS)
    if not 1 <= train.batches <= MOST_BATCHES:
        yield f"train.batches must be at least 1 and at most {MOST_BATCHES}, got {train.batches}"
    for flag, instead in OWN_FLAGS.items():
        if flag in train.flags:
            yield f"train.flags.{flag}: is set by {instead}"
    for flag in ("batch-size", "max-tokens", "max-update"):
        if type(value := train.flags.get(flag)) not in (int, type(None)):
            yield f"train.flags.{flag} {value!r}: must be a whole number, without quotation marks"
    if recipe.devices is not None and recipe.scale == "full":
        yield from others("devices", [recipe.devices], divisors(recipe))
    if len(average) != 1 or average[0][1] < 1:
        got = ", ".join(f"{kind} {count}" for kind, count in average) or "none"
        yield f"average needs one of last_epochs, last_updates, best, at least 1; got {got}"

    if score.plain and (score.compound_split or score.join_hyphens):
        yield "score.plain: excludes compound_split and join_hyphens, which need tokenized text"
    if score.compound_split and recipe.data.target != "de":
        yield f"score.compound_split is for German targets, got target {recipe.data.target!r}"
    yield from others("score.metrics", score.metrics, METRICS)
    for paper in recipe.paper if recipe.scale == "full" else ():
        for test_set, scores in paper.scores.items():
            if test_set not in recipe.subsets.values():
                yield f"paper.scores {test_set!r}: none of {list(recipe.subsets.values())}"
            yield from others("paper.scores", scores, METRICS)

    if search and recipe.task != "glue":
        yield f"search: is for the task glue, got {recipe.task}"
    if search and not search.values:
        yield "search.values: must name one flag or more with its values"
    for flag, values in search.values.items() if search else ():
        if not re.fullmatch(r"[a-z][a-z0-9-]*", str(flag)):
            yield f"search.values {flag!r}: must be a flag of fairseq-train, without dashes before it"
        if not values or len(set(map(str, values))) < len(values) or {type(v) for v in values} - {int, float, str}:
            yield f"search.values.{flag} {values!r}: must be different numbers or words, at least one"
    if search and len(set(search.seeds)) < len(search.seeds):
        yield f"search.seeds {search.seeds!r}: must be different numbers"
