"""Recipes: YAML files that say how a number is made.

A recipe names its task, data, training, averaging, evaluation and the numbers that the paper prints. A file holds one
recipe or, with ``rows``, one per row, as a table of a paper does: each row is what the file says and, key by key, what
the row says besides. ``extends``, in a file or a row, names one or more files to start from, relative to the file or
among this package's recipes; what is said later wins, and replaces a mapping of ``ALTERNATIVES`` as a whole. Files
whose name begins with an underscore are only extended by others and are not recipes. ``small`` gives the settings of
the recipe's rehearsal, in addition to those of all rehearsals of its task. ``quoted`` lists rows of the paper's tables
that it took from others. ``user_dir`` is the folder of a plugin, relative to the file or to the top of the repository.
``search`` is the space from which the settings of a row were chosen.

The form is the dataclasses of :mod:`.schema`; :mod:`.runner` makes the steps of a recipe.

A recipe is code, like a Makefile: ``data.prepare`` is a command, flags name files to read and folders to write, and
``ode-transformer run`` runs them all. Read a stranger's before you run it. Listing, checking and showing recipes runs
nothing.

Imports neither torch nor fairseq.
"""

import argparse
from dataclasses import replace
from typing import Optional

from ... import plugins
from ...paths import ROOT  # noqa: F401  others read recipes.ROOT
from . import checks, files
from .checks import OWN_FLAGS  # noqa: F401  this room's interface, as the following
from .files import CONFIGS, added_to, group, groups, is_there, listed, names  # noqa: F401
from .schema import (  # noqa: F401
    PRECISIONS,
    SCALES,
    SECTIONS,
    Paper,
    Recipe,
    RecipeError,
    Score,
    Search,
    Start,
    build,
    default_run_dir,
    divisors,
)

LONGEST_CHAIN = 8  # of recipes that start from each other


def quoted(name: str) -> list[Paper]:
    """The rows of a group that the paper took from others."""
    return build(list[Paper], group(name).get("quoted", []), name, "quoted")


def load(name: str, *, scale: str = "full", seed: Optional[int] = None, _before: tuple[str, ...] = ()) -> Recipe:
    """Read and check a recipe.

    Args:
        name: its name below ``CONFIGS``, or the path of a YAML file, ``FILE.yaml`` or ``FILE.yaml/ROW``.
        scale: ``full``, or ``small``, a rehearsal: the row's own layers, narrow, on Multi30k, for few updates.
        seed: a seed other than the recipe's.

    Raises:
        RecipeError: no such recipe, an unknown or missing key, a value of the wrong type, a contradiction.
    """
    if scale not in SCALES:
        raise RecipeError(f"--scale {scale}: must be one of {', '.join(SCALES)}")
    try:
        return _load(name, scale, seed, _before)
    except RecipeError as error:
        if plugin := plugins.missing(user_dir(name)):
            raise RecipeError(f"{error} (it needs the plugin {plugin}: give --user-dir, its folder)") from error
        raise


def user_dir(name: str) -> str:
    """The folder of the plugin that a recipe names, from the top of the repository if it lies there; empty if it names
    none. What the recipe asks for may be the plugin's, so that nothing else is checked.

    Raises:
        RecipeError: no such recipe.
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
        which = f"no row {row!r}; there are" if row else f"name one of its rows, as {name.rstrip('/')}/ROW"
        raise RecipeError(f"{path}: {which}: {', '.join(rows)}")
    described = files.described(rows[row], tree)
    tree = files.merge(tree, rows[row] | ({"description": described} if described else {}))
    if tree.get("task", "translation") not in tuple(SECTIONS):  # by which _small chooses a file
        raise RecipeError(f"{path}: task {tree['task']!r}: must be one of {', '.join(SECTIONS)}")
    own = tree.pop("small", {})
    if not isinstance(own, dict):
        raise RecipeError(f"{path}: small must be a mapping, got {own!r}")
    if scale == "small":
        tree = files.merge(files.small(tree, path), own)
    elsewhere = not path.is_relative_to(CONFIGS)
    given = f"{path}/{row}".rstrip("/") if elsewhere else title
    tree["user_dir"] = tree.get("user_dir") or plugins.current()
    tree |= {"given": given, "scale": scale, "seed": seed}
    recipe = build(Recipe, {"name": title, **tree}, str(path), "")
    checks.check(recipe, str(path))
    if start := recipe.train.start:
        named = start.recipe if "/" in start.recipe else f"{given.rpartition('/')[0]}/{start.recipe}"
        chain = (*before, given)  # of recipes that start from each other
        if named in chain:
            circle = " -> ".join((*chain, named))
            raise RecipeError(f"{path}: train.start: recipes must not start from each other in a circle: {circle}")
        if len(chain) > LONGEST_CHAIN:
            raise RecipeError(
                f"{path}: train.start: a chain of more than {LONGEST_CHAIN} recipes, {' -> '.join(chain)}"
            )
        recipe = replace(recipe, train=replace(recipe.train, start=replace(start, recipe=named)))
        other = load(named, scale=scale, seed=recipe.start_seed, _before=chain)
        if other.data != recipe.data and not start.other_data:
            raise RecipeError(f"{path}: train.start.recipe {named!r} uses other data")
    return replace(recipe, seed=None) if seed == recipe.own_seed else recipe


def variant(recipe: Recipe) -> list[str]:
    """The options of commands that say which run of a recipe is meant."""
    scale = ["--scale", recipe.scale] if recipe.scale != "full" else []
    seed = variant_seed(recipe)
    return scale + (["--seed", str(seed)] if seed is not None else [])


def variant_seed(recipe: Recipe) -> Optional[int]:
    """The seed that says which run of a recipe is meant; None where no other is."""
    return recipe.own_seed if recipe.seed is None and recipe.seeds else recipe.seed  # one of its several


def add_variant(parser: argparse.ArgumentParser) -> None:
    """The flags that say which run of a recipe is meant."""
    parser.add_argument("--scale", type=str.lower, choices=SCALES, default="full", help="small: a rehearsal")
    parser.add_argument("--seed", metavar="N", type=int, help="seed of training (default: the recipe's)")
