"""Recipes for human readers: their descriptions, and the commands of their steps."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Optional

from ...errors import OdeTransformerError, counted
from .. import recipes
from . import command_lines, plan, runner
from .training import TrainingPlace


def list_recipes(prefix: str = "", paper: bool = False) -> None:
    """Print the names and descriptions of recipes.

    Args:
        prefix: list only recipes whose names begin with it (default: all).
        paper: list only recipes that reproduce a row of a paper.
    """
    found = recipes.listed(prefix, paper=paper)
    width = max(map(len, found))
    print("\n".join(f"{name:{width}}  {description}" for name, description in found.items()))


def show(name: str, scale: str = "full", seed: Optional[int] = None) -> None:
    """Print a recipe's description, the paper's numbers, the cost of its runs, and all commands.

    Args:
        name: a name from ``ode-transformer recipe list``, or a YAML file, FILE.yaml or FILE.yaml/ROW.
        scale: of the recipe.
        seed: of training.
    """
    recipe = recipes.load(name, scale=scale, seed=seed)
    devices = (recipe.devices if recipe.scale == "full" else None) or 1  # the paper's
    place = TrainingPlace(devices=devices, precision=recipe.train.precision)
    steps = runner.listing(runner.steps(recipe, place))
    print("\n".join(map(_wrapped, [*(f"# {line}" for line in _about(recipe, place)), *steps.splitlines()])))


def _wrapped(line: str) -> str:
    """Return a comment or a command in lines of about 120 characters; the shell reads those of a command as one."""
    fill = partial(textwrap.fill, width=118, break_long_words=False, break_on_hyphens=False)
    if line.startswith("#"):
        return fill(line, subsequent_indent="#   ")
    if '"' in line:  # quotes within quotes
        return line
    held = re.sub(r"'[^']*'", lambda quoted: quoted[0].replace(" ", "\0"), line)
    return fill(held, subsequent_indent="    ").replace("\n", " \\\n").replace("\0", " ")


def _about(recipe: recipes.Recipe, place: TrainingPlace) -> Iterator[str]:
    """Yield a recipe's description: the paper's numbers and hardware, the size of an update, our choices, the cost."""
    yield f"{recipe.name}: {recipe.description}"
    if recipe.scale == "small":
        yield "A rehearsal on little text, of the same architecture and depth but narrow: no result of the paper."
        return
    for paper in recipe.paper:
        found = [f"{value} {metric} on {t}" for t, scores in paper.scores.items() for metric, value in scores.items()]
        found += [f"{paper.parameters} parameters"] if paper.parameters else []
        found += [f"trained for {paper.updates}"] if paper.updates else []
        yield f"paper: {', '.join(found)} ({paper.table}, {paper.row})"
    if recipe.hardware:
        yield f"hardware: {recipe.hardware}"
    batches, units = recipe.train.batches, {"max-tokens": "tokens", "batch-size": "examples"}
    sizes = [f"up to {recipe.train.flags[k]:,} {unit}" for k, unit in units.items() if recipe.train.flags.get(k)]
    yield (
        f"an update: {batches} batch{'es' * (batches > 1)} of {' and '.join(sizes)}; on "
        f"{counted(place.devices, 'GPU')} each takes {batches / place.devices:g}, in {place.precision}"
    )
    if recipe.seeds:
        yield f"seeds: {', '.join(map(str, recipe.seeds))}"
    if recipe.search:
        space = replace(recipe.search, seeds=recipe.search.seeds or recipe.seeds or [recipe.own_seed])
        parts = {**space.values, "seeds": space.seeds}
        said = "; ".join(f"{name} {', '.join(map(str, values))}" for name, values in parts.items())
        yield f"search: {said} ({counted(space.trainings, 'training')}, `ode-transformer grid {recipe.given}`)"
    yield from (f"note: {line}" for line in recipe.note.splitlines())
    yield f"plan: {plan.line([recipe] * max(1, len(recipe.seeds)))}"


def check(files: Sequence[str] = ()) -> None:
    """Check recipes and their flags, and print the names of the recipes.

    Args:
        files: recipe files, or rows of them (default: all recipes of this package).
    """
    for name in recipes.names(files):
        recipe = recipes.load(name)
        steps = runner.steps(recipe, TrainingPlace())
        try:
            command_lines.check(steps)
        except OdeTransformerError as error:
            raise recipes.RecipeError(f"{name}: {error}") from error
        print(recipe.name)
