"""What a recipe must be besides its form: contradictions, values out of range, names of files that are none."""

import re
import shlex
from typing import Any

from ...schema import lacks
from ..metrics import METRICS
from .schema import OPTIONS, PRECISIONS, SECTIONS, Average, Recipe, RecipeError, divisors

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
    _check_evaluation(recipe, path)
    _check_files(recipe, path)
    _check_train(recipe, path)
    _check_average(recipe.average, path)
    _check_score(recipe, path)
    if recipe.search:
        _check_search(recipe, path)
    if recipe.scale == "full":
        _check_paper(recipe, path)


def _must(path: str, option: str, value: Any, valid: Any) -> None:
    if value not in valid:
        raise RecipeError(f"{path}: {option} {value!r}: must be one of {', '.join(map(str, valid))}")


def _check_files(recipe: Recipe, path: str) -> None:
    """The command that prepares the data, and what files are called after."""
    named = {"name": recipe.name.split("/"), "subsets": [*recipe.subsets, *recipe.subsets.values()]}
    named |= {"train.start.checkpoint": [recipe.train.start.checkpoint]} if recipe.train.start else {}
    for key, found in named.items():
        for part in found:
            if not isinstance(part, str) or not re.fullmatch(r"\w[\w .,=+-]*", part):
                raise RecipeError(f"{path}: {key} {part!r}: must be letters, digits and .,=+-_, and no folders")
    try:
        if not (words := shlex.split(recipe.data.prepare)):
            raise ValueError("it is empty")
    except ValueError as error:
        raise RecipeError(f"{path}: data.prepare {recipe.data.prepare!r}: no command: {error}") from error
    if literal := [word for word in (*words, recipe.data.directory) if word.startswith("~")]:
        raise RecipeError(f"{path}: data: {literal[0]}: no shell reads the ~ here; write the name of the folder out")


def _check_evaluation(recipe: Recipe, path: str) -> None:
    for section in ("generate", "validate"):
        wanted = section == SECTIONS[recipe.task]
        if wanted != (getattr(recipe, section) is not None):
            is_ = "is missing" if wanted else f"is of another task than {recipe.task}"
            raise RecipeError(f"{path}: {section} {is_}")
    if options := OPTIONS.get(recipe.task):
        for flag in recipe.validate.flags:
            _must(path, "validate.flags", flag, options)
        if wrong := lacks(recipe.validate.flags, options, "validate.flags"):
            raise RecipeError(f"{path}: {wrong}")
    if recipe.generate:
        for key in ("source", "target"):
            if not getattr(recipe.data, key):
                raise RecipeError(f"{path}: data.{key} is missing")
    if len(set(recipe.subsets.values())) < len(recipe.subsets):
        raise RecipeError(f"{path}: subsets: must have different names, got {', '.join(recipe.subsets.values())}")


def _check_train(recipe: Recipe, path: str) -> None:
    train = recipe.train
    _must(path, "train.precision", train.precision, PRECISIONS)
    if not 1 <= train.batches <= MOST_BATCHES:
        raise RecipeError(f"{path}: train.batches must be at least 1 and at most {MOST_BATCHES}, got {train.batches}")
    for flag, instead in OWN_FLAGS.items():
        if flag in train.flags:
            raise RecipeError(f"{path}: train.flags.{flag}: is set by {instead}")
    for flag in ("batch-size", "max-tokens", "max-update"):
        if type(value := train.flags.get(flag)) not in (int, type(None)):
            raise RecipeError(f"{path}: train.flags.{flag} {value!r}: must be a whole number, without quotation marks")
    if recipe.devices is not None and recipe.scale == "full":
        _must(path, "devices", recipe.devices, divisors(recipe))


def _check_average(average: Average, path: str) -> None:
    if len(average.wanted) != 1 or average.wanted[0][1] < 1:
        got = ", ".join(f"{kind} {count}" for kind, count in average.wanted) or "none"
        raise RecipeError(f"{path}: average needs one of last_epochs, last_updates, best, at least 1; got {got}")


def _check_score(recipe: Recipe, path: str) -> None:
    score = recipe.score
    if score.plain and (score.compound_split or score.join_hyphens):
        raise RecipeError(f"{path}: score.plain: excludes compound_split and join_hyphens, which need tokenized text")
    if score.compound_split and recipe.data.target != "de":
        raise RecipeError(f"{path}: score.compound_split is for German targets, got target {recipe.data.target!r}")
    for metric in score.metrics:
        _must(path, "score.metrics", metric, METRICS)


def _check_paper(recipe: Recipe, path: str) -> None:
    for paper in recipe.paper:
        for test_set, scores in paper.scores.items():
            if test_set not in recipe.subsets.values():
                raise RecipeError(f"{path}: paper.scores {test_set!r}: none of {list(recipe.subsets.values())}")
            for metric in scores:
                _must(path, "paper.scores", metric, METRICS)


def _check_search(recipe: Recipe, path: str) -> None:
    if recipe.task != "glue":
        raise RecipeError(f"{path}: search: is for the task glue, got {recipe.task}")
    if not recipe.search.values:
        raise RecipeError(f"{path}: search.values: must name one flag or more with its values")
    for flag, values in recipe.search.values.items():
        said = f"{path}: search.values"
        if not re.fullmatch(r"[a-z][a-z0-9-]*", str(flag)):
            raise RecipeError(f"{said} {flag!r}: must be a flag of fairseq-train, without dashes before it")
        if not values or len(set(map(str, values))) < len(values) or {type(v) for v in values} - {int, float, str}:
            raise RecipeError(f"{said}.{flag} {values!r}: must be different numbers or words, at least one")
    if len(set(recipe.search.seeds)) < len(recipe.search.seeds):
        raise RecipeError(f"{path}: search.seeds {recipe.search.seeds!r}: must be different numbers")
