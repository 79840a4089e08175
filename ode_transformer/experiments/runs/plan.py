"""The cost of runs: updates, and disk space by records of the same recipes."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import recipes
from ..records import RecordError, read_record

OTHERS = 2  # checkpoints besides those whose number flags limit: the best and the last
BYTES = 12  # per parameter of a checkpoint: the weight and Adam's two moments, in single precision
AVERAGED = 4  # per parameter of an average, which holds weights only


def line(planned: Sequence[recipes.Recipe]) -> str:
    """Describe the total cost of the runs of recipes, as far as it is known of all of them."""
    known = functools.cache(lambda given, scale: cost(recipes.load(given, scale=scale)))
    costs = [known(recipe.given, recipe.scale) for recipe in planned]
    parts = [f"{len(costs)} run{'s' * (len(costs) != 1)}"]
    if all(updates for updates, _ in costs):
        parts.append(f"{sum(updates for updates, _ in costs):,} updates")
    if all(gib for _, gib in costs):
        parts.append(f"about {sum(gib for _, gib in costs):.1f} GiB of checkpoints")
    return ", ".join(parts)


def cost(recipe: recipes.Recipe) -> tuple[int, float]:
    """Return the updates and the GiB of checkpoints of a run of a recipe, 0 where they are unknown.

    The record of the recipe's usual run tells them, or else one in ``results``.
    """
    kept, updates = _kept(recipe.train.flags), recipe.train.flags.get("max-update", 0)
    training = next(_trainings(recipe), None)
    if training is None:
        return updates, 0.0
    gib = (kept * BYTES + AVERAGED) * training["parameters"] / 2**30 if kept else 0.0
    return updates or max(entry.get("num_updates", 0) for entry in training["curve"]), gib


def _trainings(recipe: recipes.Recipe) -> Iterator[dict[str, Any]]:
    """Yield the trainings in a recipe's records at its scale, without further flags, that of its usual run first."""
    group, _, row = recipe.name.rpartition("/")
    own = recipes.ROOT / recipes.default_run_dir(recipe) / "record.json"
    others = sorted((recipes.ROOT / "results" / group).glob(f"{row}.*json"))  # of any seed and precision
    for path in (own, *others):
        try:
            record = read_record(path)
        except RecordError:  # there is none, or it was made by hand
            continue
        if record["scale"] == recipe.scale and not record["flags"]:
            yield record["training"]


def _kept(flags: Mapping[str, Any]) -> int:
    """Return the number of checkpoints that a training leaves; 0 if fairseq keeps all of a kind."""
    there = {
        "keep-last-epochs": not flags.get("no-epoch-checkpoints"),
        "keep-interval-updates": flags.get("save-interval-updates"),
        "keep-best-checkpoints": isinstance(flags.get("keep-best-checkpoints"), int),
    }
    most = [flags.get(flag) for flag, kind in there.items() if kind]
    return OTHERS + sum(most) if all(isinstance(count, int) and count >= 1 for count in most) else 0
