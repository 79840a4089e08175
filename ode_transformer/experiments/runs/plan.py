"""The cost of runs, by records of the same recipes: updates, disk space, and hours on hardware like this machine's."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ... import machine
from .. import recipes
from ..records import RecordError, read_record

SAME = ("processor", "cores", "gpus")  # the keys in which machines of comparable speed agree
OTHERS = 2  # checkpoints besides those whose number flags limit: the best and the last
BYTES = 12  # per parameter of a checkpoint: the weight and Adam's two moments, in single precision
AVERAGED = 4  # per parameter of an average, which holds weights only


class Cost(NamedTuple):
    """The cost of a run; 0 where it is unknown."""

    updates: int
    gib: float
    hours: float


def line(planned: Sequence[recipes.Recipe], jobs: int = 1) -> str:
    """Describe the total cost of several runs, as far as it is known of all of them.

    Args:
        planned: the recipes of the runs.
        jobs: the number of runs at a time.
    """
    known = functools.cache(lambda given, scale: cost(recipes.load(given, scale=scale)))
    costs = [known(recipe.given, recipe.scale) for recipe in planned]
    parts = [f"{len(costs)} run{'s' * (len(costs) != 1)}"]
    if all(one.updates for one in costs):
        parts.append(f"{sum(one.updates for one in costs):,} updates")
    if all(one.gib for one in costs):
        parts.append(f"about {sum(one.gib for one in costs):.1f} GiB of checkpoints")
    if all(one.hours for one in costs):
        hours = max(sum(one.hours for one in costs) / jobs, *(one.hours for one in costs))
        parts.append(f"about {hours:.1f} hours by records of this hardware")
    return ", ".join(parts)


def cost(recipe: recipes.Recipe) -> Cost:
    """Return the cost of a run of a recipe, by the record of its usual run or else by those in ``results``."""
    found, updates = list(_records(recipe)), recipe.train.flags.get("max-update", 0)
    if not found:
        return Cost(updates, 0.0, 0.0)
    kept, parameters = _kept(recipe.train.flags), found[0]["training"]["parameters"]
    gib = (kept * BYTES + AVERAGED) * parameters / 2**30 if kept else 0.0
    updates = updates or _updates(found[0])
    here = machine.hardware()
    for record in found:
        training = record["training"]
        places = [place["hardware"] for place in training.get("trained_on", [])] or [record["hardware"]]
        cpu = "--cpu" in record["command"].split()
        if not (cpu and here["gpus"]) and all(place.get(key) == here[key] for place in places for key in SAME):
            return Cost(updates, gib, updates * training["seconds"] / 3600 / _updates(record))
    return Cost(updates, gib, 0.0)


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
        its_own = record["scale"] == recipe.scale and not record["flags"]
        if its_own and record["training"]["seconds"] > 0 and _updates(record):
            yield record


def _kept(flags: Mapping[str, Any]) -> int:
    """Return the number of checkpoints that a training leaves; 0 if fairseq keeps all of a kind."""
    there = {
        "keep-last-epochs": not flags.get("no-epoch-checkpoints"),
        "keep-interval-updates": flags.get("save-interval-updates"),
        "keep-best-checkpoints": isinstance(flags.get("keep-best-checkpoints"), int),
    }
    most = [flags.get(flag) for flag, kind in there.items() if kind]
    return OTHERS + sum(most) if all(isinstance(count, int) and count >= 1 for count in most) else 0
