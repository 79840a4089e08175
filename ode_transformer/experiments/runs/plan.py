"""The cost of runs, by records of the same recipes: updates, disk space, and hours on hardware like this machine's."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ... import machine
from ...errors import counted
from .. import recipes
from ..records import RecordError, read_record

SAME = ("processor", "cores", "gpus")  # the keys in which machines of comparable speed agree
BYTES = 12  # per parameter of a checkpoint: the weight and Adam's two moments, in single precision


def line(planned: Sequence[recipes.Recipe], jobs: int = 1) -> str:
    """Describe the total cost of several runs, ``jobs`` at a time, as far as it is known of all of them."""
    known = functools.cache(lambda given, scale: cost(recipes.load(given, scale=scale)))
    costs = [known(recipe.given, recipe.scale) for recipe in planned]
    parts = [counted(len(costs), "run")]
    updates, gib, hours = zip(*costs, strict=True)
    if all(updates):
        parts.append(counted(sum(updates), "update"))
    if all(gib):
        parts.append(f"about {sum(gib):.1f} GiB of checkpoints")
    if all(hours):
        parts.append(f"about {max(sum(hours) / jobs, *hours):.1f} hours by records of this hardware")
    return ", ".join(parts)


def cost(recipe: recipes.Recipe) -> tuple[int, float, float]:
    """Return the updates, GiB of checkpoints and hours of a run; 0 where they are unknown.

    They are those of the record of the recipe's usual run, or else of those in ``results``.
    """
    updates, gib = recipe.train.flags.get("max-update", 0), 0.0
    for record in _records(recipe):
        training, here = record["training"], machine.hardware()
        updates = updates or _updates(record)
        gib = gib or _kept(recipe.train.flags) * BYTES * training["parameters"] / 2**30
        places = [place["hardware"] for place in training.get("trained_on", [])] or [record["hardware"]]
        cpu = "--cpu" in record["command"].split()
        if not (cpu and here["gpus"]) and all(place.get(key) == here[key] for place in places for key in SAME):
            return updates, gib, updates * training["seconds"] / 3600 / _updates(record)
    return updates, gib, 0.0


def _kept(flags: Mapping[str, Any]) -> int:
    """Return how many checkpoints a training keeps, the best and the last among them; 0 if those of all epochs."""
    kinds = ("keep-last-epochs", "keep-interval-updates", "keep-best-checkpoints")
    counts = {kind: flags[kind] for kind in kinds if type(flags.get(kind)) is int and flags[kind] > 0}
    return 2 + sum(counts.values()) if "keep-last-epochs" in counts or flags.get("no-epoch-checkpoints") else 0


def _updates(record: Mapping[str, Any]) -> int:
    return max(entry.get("num_updates", 0) for entry in record["training"]["curve"])


def _records(recipe: recipes.Recipe) -> Iterator[dict[str, Any]]:
    """Yield the records of a recipe at its scale, without further flags, that of its usual run first."""
    group, _, row = recipe.name.rpartition("/")
    own = recipes.ROOT / recipes.default_run_dir(recipe) / "record.json"
    others = sorted((recipes.ROOT / "results" / group).glob(f"{row}.*.json"))  # of other seeds and precisions
    for path in (own, recipes.ROOT / "results" / group / f"{row}.json", *others):
        try:
            record = read_record(path)
        except RecordError:  # there is none, or it was made by hand
            continue
        if record["scale"] == recipe.scale and not record["flags"] and _updates(record):
            yield record
