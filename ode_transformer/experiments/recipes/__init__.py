"""Recipes: YAML files that define how a result is produced. ``docs/recipes.md`` describes their keys.

A file holds one recipe or, with ``rows``, one per row, like a table of a paper: the settings of the row are merged key
by key into those of the file, and these into those of the files that it extends. Files whose name begins with an
underscore are only bases for others, not recipes.

A recipe is code, like a Makefile, which ``ode-transformer run`` executes; listing, checking and showing recipes
executes nothing. Imports neither torch nor fairseq.
"""

import argparse
import shlex
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any, Optional

from ... import plugins
from ...paths import ROOT
from ...schema import lacks
from ..arguments import nearest
from ..metrics import METRICS
from ..recipe import (  # noqa: F401
    PRECISIONS,
    SCALES,
    Paper,
    Recipe,
    RecipeError,
    Score,
    SearchSpace,
    build,
    default_run_dir,
    divisors,
    is_name,
)
from ..tasks import TASKS
from . import files
from .files import CONFIGS, group, groups, is_there, listed, names  # noqa: F401

SEED_LIMIT = 2**31  # fairseq adds the number of the epoch to a seed, and NumPy takes seeds below 2^32
MOST_BATCHES = 100_000  # per update; all its divisors are possible numbers of devices
OWN_FLAGS = {
    "update-freq": "is set by train.batches and --devices",
    "distributed-world-size": "is set by --devices",
    "save-dir": "is set by --run-dir",
    "user-dir": "is set by the recipe's user_dir, or by --user-dir before the --",
    **dict.fromkeys(
        ("restore-file", "reset-optimizer", "reset-dataloader", "reset-lr-scheduler", "reset-meters"),
        "would apply again whenever the run is resumed; start from a checkpoint by train.start or finetune-from-model",
    ),
}
"""Flags of ``fairseq-train`` that only the run itself may set, and why."""


def quoted(name: str) -> list[Paper]:
    """Return the rows of a group that its paper took from others."""
    return build(list[Paper], group(name).get("quoted", []), name, "quoted")


def load(name: str, *, scale: str = "full", seed: Optional[int] = None, before: tuple[str, ...] = ()) -> Recipe:
    """Read and check a recipe.

    Args:
        name: the recipe's name below ``CONFIGS``, or the path of a YAML file, ``FILE.yaml`` or ``FILE.yaml/ROW``.
        scale: ``full``, or ``small`` for a rehearsal: a narrow model of the same layers, on small data, for few
            updates.
        seed: a seed other than the recipe's.
        before: the recipes that start from this one.
    """
    try:
        return _load(name, scale, seed, before)
    except RecipeError as error:
        if plugin := plugins.missing(user_dir(name)):
            raise RecipeError(f"{error} (it needs the plugin {plugin}: give --user-dir, its folder)") from error
        raise


def user_dir(name: str) -> str:
    """Return the folder of a recipe's plugin, relative to the top of the repository if it lies there; empty if none.

    Nothing else of the recipe is checked, since it may need the plugin.
    """
    path, _, row = files.find(name)
    tree = files.read(path)
    found = {**tree, **tree.get("rows", {}).get(row, {})}.get("user_dir")
    return found if isinstance(found, str) else ""


def _load(name: str, scale: str, seed: Optional[int], before: tuple[str, ...]) -> Recipe:
    path, title, row = files.find(name)
    tree = files.read(path)
    rows = tree.pop("rows", {"": {}})
    tree.pop("quoted", None)
    if row not in rows:
        if row:
            raise RecipeError(f"{path}: row {row} {nearest(row, list(rows), few=99)}")
        raise RecipeError(f"{path}: name one of its rows, as {name.rstrip('/')}/ROW: {', '.join(rows)}")
    described = files.described(rows[row], tree)
    tree = files.merge(tree, rows[row] | ({"description": described} if described else {}))
    if tree.get("task", "translation") not in tuple(TASKS):  # determines the file of the rehearsal
        raise RecipeError(f"{path}: task {tree['task']!r}: must be one of {', '.join(TASKS)}")
    own = tree.pop("small", None) or {}
    if not isinstance(own, dict):
        raise RecipeError(f"{path}: small must be a mapping, got {own!r}")
    if scale == "small":
        tree = files.small(tree, own, path)
    elsewhere = not path.is_relative_to(CONFIGS)
    given = f"{path}/{row}".rstrip("/") if elsewhere else title
    if given in before:
        raise RecipeError(f"{path}: train.start: {' -> '.join((*before, given))}: must not lead back")
    tree["user_dir"] = tree.get("user_dir") or plugins.current()
    recipe = replace(build(Recipe, tree, str(path), ""), name=title, given=given, scale=scale, seed=seed)
    if wrong := next(_errors(recipe), ""):
        raise RecipeError(f"{path}: {wrong}")
    if start := recipe.train.start:
        named = start.recipe if "/" in start.recipe else f"{given.rpartition('/')[0]}/{start.recipe}"
        if ".yaml" in start.recipe:  # found as a plugin is, whatever the current folder
            places = [str(folder / start.recipe) for folder in (path.parent, ROOT)]
            named = next(filter(files.is_there, places), places[0])
        other = load(named, scale=scale, seed=recipe.start_seed, before=(*before, given))
        recipe = replace(recipe, train=replace(recipe.train, start=replace(start, recipe=other.given)))
        if other.data != recipe.data and not start.other_data:
            raise RecipeError(
                f"{path}: train.start.recipe {named!r} uses other data; if that is meant, set train.start.other_data"
            )
    return replace(recipe, seed=None) if seed == recipe.own_seed else recipe


def _errors(recipe: Recipe) -> Iterator[str]:
    """Yield the errors of a recipe. Only the first is meaningful: later checks rely on earlier ones."""
    for errors in (_evaluation_errors, _name_errors, _training_errors, _score_errors, search_errors):
        yield from errors(recipe)


def _invalid_values(option: str, values: Iterable[Any], valid: Collection[Any]) -> Iterator[str]:
    """Yield an error for each of an option's values that is not valid."""
    for value in values:
        if value not in valid:
            yield f"{option} {value!r}: must be one of {', '.join(map(str, valid))}"


def _evaluation_errors(recipe: Recipe) -> Iterator[str]:
    """Yield the errors of the section that evaluates the task."""
    task = TASKS[recipe.task]
    for section in ("generate", "validate"):
        wanted = section == task.section
        if wanted != (getattr(recipe, section) is not None):
            yield f"{section} {'is missing' if wanted else f'is of another task than {recipe.task}'}"
    if task.options and recipe.validate:
        yield from _invalid_values("validate.flags", recipe.validate.flags, task.options)
        if wrong := lacks(recipe.validate.flags, task.options, "validate.flags"):
            yield wrong
    for key in ("source", "target"):
        if recipe.generate and not getattr(recipe.data, key):
            yield f"data.{key} is missing"
    if not recipe.subsets:
        yield f"{task.section}.subsets: must have at least one test set, got none"
    if len(set(recipe.subsets.values())) < len(recipe.subsets):
        yield f"subsets: must have different names, got {', '.join(recipe.subsets.values())}"


def _name_errors(recipe: Recipe) -> Iterator[str]:
    """Yield the errors of names that become names of files, and of the command that prepares the data."""
    start = recipe.train.start
    named = {"name": recipe.name.split("/"), "subsets": [*recipe.subsets, *recipe.subsets.values()]}
    named |= {"train.start.checkpoint": [start.checkpoint]} if start else {}
    for key, found in named.items():
        for part in found:
            if not isinstance(part, str) or not is_name(part):
                yield (
                    f"{key} {part!r}: must be letters, digits, blanks and .,=+-_, begin with a letter, a digit or _, "
                    "have at most 200 bytes, and name no folders"
                )
    try:
        words = shlex.split(recipe.data.prepare)
    except ValueError:
        words = []
    if not words:
        yield f"data.prepare {recipe.data.prepare!r}: must be a command"
    for word in (*words, recipe.data.directory):
        if word.startswith("~"):
            yield f"data: {word}: no shell reads the ~ here; write the name of the folder out"


def _training_errors(recipe: Recipe) -> Iterator[str]:
    """Yield the errors of the training, of its seeds and devices, and of the checkpoints that are averaged."""
    train, average = recipe.train, recipe.average.wanted
    yield from _invalid_values("train.precision", [train.precision], PRECISIONS)
    if not 1 <= train.batches <= MOST_BATCHES:
        yield f"train.batches must be from 1 to {MOST_BATCHES:,}, got {train.batches}"
    for flag, why in OWN_FLAGS.items():
        if flag in train.flags:
            yield f"train.flags.{flag}: {why}"
    for flag in ("batch-size", "max-epoch", "max-tokens", "max-update", "seed", "total-num-update", "warmup-updates"):
        if type(value := train.flags.get(flag)) not in (int, type(None)):
            yield f"train.flags.{flag} {value!r}: must be a whole number, without quotation marks"
    for seed in (recipe.trained_seed, *recipe.seeds):
        if not 0 <= seed < SEED_LIMIT:
            yield f"seed {seed}: must be 0 or more and less than 2^31"
    if recipe.devices is not None and recipe.scale == "full":
        yield from _invalid_values("devices", [recipe.devices], divisors(recipe))
    if len(average) != 1 or average[0][1] < 1:
        got = ", ".join(f"{kind} {count}" for kind, count in average) or "none"
        yield f"average needs one of last_epochs, last_updates, best, at least 1; got {got}"


def _score_errors(recipe: Recipe) -> Iterator[str]:
    """Yield the errors of ``score``, and of the scores of the paper."""
    task, score, flags = TASKS[recipe.task], recipe.score, recipe.train.flags
    if score.plain and (score.compound_split or score.join_hyphens):
        yield "score.plain: excludes compound_split and join_hyphens, which need tokenized text"
    if score.compound_split and recipe.data.target != "de":
        yield f"score.compound_split is for German targets, got target {recipe.data.target!r}"
    yield from _invalid_values("score.edits", score.edits, recipe.subsets)
    for subset in recipe.subsets if recipe.task == "correction" and score.references < 1 else ():
        if subset not in score.edits:
            yield f"score.references must be at least 1 for {subset}, which has no edits, got {score.references}"
    if recipe.validate and score != Score(metrics=score.metrics if task.provides.labels else []):
        yield f"score: is for tasks that generate text, score.metrics also for those of labels; not for {recipe.task}"
    fitting = [name for name, its in METRICS.items() if its.fits(task.provides)]
    yield from _invalid_values("score.metrics", score.metrics, fitting)
    for name in score.metrics if task.provides.labels else ():
        if METRICS[name].label_kind == "binary" and (classes := flags.get("num-classes")) != 2:
            yield f"score.metrics {name!r}: is of two classes, 0 and 1, and train.flags.num-classes is {classes}"
        if METRICS[name].label_kind == "numbers" and not flags.get("regression-target"):
            yield f"score.metrics {name!r}: is of numbers, which a model predicts by train.flags.regression-target"
    for paper in recipe.paper if recipe.scale == "full" else ():
        for test_set, scores in paper.scores.items():
            if test_set not in recipe.subsets.values():
                yield f"paper.scores {test_set!r}: none of {list(recipe.subsets.values())}"
            yield from _invalid_values("paper.scores", scores, METRICS)


def search_errors(recipe: Recipe) -> Iterator[str]:
    """Yield the errors of the search space, and of seeds that are there twice."""
    search = recipe.search
    if search and recipe.task != "glue":
        yield f"search: is for the task glue, got {recipe.task}"
    for flag, values in search.values.items() if search else ():
        if not values or len(set(map(str, values))) < len(values) or {type(v) for v in values} - {int, float, str}:
            yield f"search.values.{flag} {values!r}: must be different numbers or words, at least one"
    for key, seeds in (("seeds", recipe.seeds), ("search.seeds", search.seeds if search else [])):
        if len(set(seeds)) < len(seeds):
            yield f"{key} {seeds!r}: must be different numbers"


def run_options(recipe: Recipe) -> list[str]:
    """Return the options that select the recipe's run on a command line."""
    scale = ["--scale", recipe.scale] if recipe.scale != "full" else []
    seed = seed_option(recipe)
    return scale + (["--seed", str(seed)] if seed is not None else [])


def seed_option(recipe: Recipe) -> Optional[int]:
    """Return the seed that selects the recipe's run on a command line; None if its default run is meant."""
    return recipe.own_seed if recipe.seed is None and recipe.seeds else recipe.seed  # the default is all of ``seeds``


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that select a run of a recipe."""
    parser.add_argument(
        "--scale",
        type=str.lower,
        choices=SCALES,
        default="full",
        help="small: a rehearsal, narrow and with few updates (default: full)",
    )
    parser.add_argument("--seed", metavar="N", type=int, help="seed of the training (default: the recipe's)")
