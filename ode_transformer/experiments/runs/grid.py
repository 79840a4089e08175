"""``ode-transformer grid``: train over a search space, such as that of a paper.

It prints the median over seeds at every point of the space, and the best run by the validation set.
"""

import contextlib
import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

from ...errors import OdeTransformerError, counted
from ...files import write_json
from ...paths import folder_of
from .. import recipes, records
from ..metrics import METRICS
from ..records import logs
from ..tasks.glue import TASK
from . import plan, processes, runner, training

# The metrics of which each value of fairseq's --best-checkpoint-metric is the mean.
_CHOSEN = {
    **{name: (name,) for name in ("accuracy", "f1", "pearson", "spearman")},
    "mcc": ("matthews",),
    "acc_and_f1": ("accuracy", "f1"),
    "pearson_and_spearman": ("pearson", "spearman"),
}


def selection(recipe: recipes.Recipe) -> tuple[str, ...]:
    """Return the metrics by whose mean runs are compared: those that select the best checkpoint, or else the task's."""
    return _CHOSEN.get(recipe.train.flags.get("best-checkpoint-metric"), tuple(TASK.metrics(recipe)))


def schedule(row: Mapping[str, Any], chosen: Mapping[str, str]) -> dict[str, str]:
    """Return the flags of a recipe's learning rate schedule that change at a point of a grid with some flags.

    Larger batches make fewer updates of the same examples, and more epochs make more; the warmup stays the same
    fraction of all updates. Values that the point itself gives are kept.
    """
    if not (before := row.get("total-num-update")):
        return {}
    total = before
    if "total-num-update" in chosen:
        total = float(chosen["total-num-update"])
    elif row.get("max-epoch"):  # otherwise the number of updates is fixed
        if "batch-size" in chosen and row.get("batch-size"):
            total = total * row["batch-size"] / float(chosen["batch-size"])
        if "max-epoch" in chosen:
            total = total * float(chosen["max-epoch"]) / row["max-epoch"]
    new = {"total-num-update": total, "warmup-updates": row.get("warmup-updates", 0) * total / before}
    return {flag: str(round(n)) for flag, n in new.items() if flag not in chosen and round(n) != row.get(flag, 0)}


def _spelt(value: Any) -> str:
    """Return one spelling for a number, 5e-05 for 5e-5, so that a point is found again, and other words unchanged."""
    try:
        number = float(value)
    except ValueError:
        return str(value)
    return str(int(number)) if number.is_integer() else str(number)


def home_of(recipe: recipes.Recipe, place: training.TrainingPlace) -> Path:
    """Return the folder of a grid's runs; rehearsals, and precisions other than the recipe's, have their own."""
    name = Path(recipes.default_run_dir(recipe)).relative_to("runs")
    suffix = "" if place.precision == recipe.train.precision else f".{place.precision}"
    return recipes.ROOT / "runs" / "grids" / f"{name}{suffix}"


def train(
    recipe: recipes.Recipe, space: recipes.SearchSpace, place: training.TrainingPlace, jobs: int = 1
) -> list[dict[str, Any]]:
    """Train a recipe at every point of a grid with every seed, where that is not done yet.

    Returns:
        for every point its ``flags``, the learning rate ``schedule`` that follows from them, the ``seeds``, and for
        each seed the ``scores`` on the validation set of the checkpoint that the recipe chooses: None where a score is
        not a number, no scores where the training diverged.
    """
    points, found = [], []
    of_seeds = [recipes.load(recipe.given, scale=recipe.scale, seed=seed) for seed in space.seeds]
    for chosen in itertools.product(*space.values.values()):
        flags = dict(zip(space.values, map(_spelt, chosen), strict=True))
        try:
            follows = schedule(recipe.train.flags, flags)
        except (ValueError, ArithmeticError) as error:
            raise OdeTransformerError(f"--values: the schedule follows from {flags}: {error}") from error
        where = home_of(recipe, place) / (",".join(f"{flag}={value}" for flag, value in flags.items()) or "point")
        more = [word for flag, value in (flags | follows).items() for word in (f"--{flag}", value)]
        its = replace(place, flags=(*place.flags, *more))
        folders = [where / f"seed-{seed}" for seed in space.seeds]
        for of_seed, folder in zip(of_seeds, folders, strict=True):
            found.append(runner.Run(of_seed, its, folder_of(folder), last="score"))
        points.append({"flags": flags, "schedule": follows, "seeds": list(space.seeds), "folders": folders})
    with contextlib.chdir(recipes.ROOT), processes.terminable(resumable=True):
        for one in found:  # first, lest an earlier run in the folder that diverged be taken for this one
            one.check_own()
        # One that diverged would do so again, and ends with an error, so that no stamp says that it is done.
        left = [one for one in found if not (one.begun and logs.divergence(one.folder / "train.log"))]
        for run_dir, error in runner.run_all(left, jobs).items():
            if not _diverged(recipes.ROOT / run_dir):
                raise OdeTransformerError(runner.message(run_dir, error)) from error
    for point in points:
        point["scores"] = [_scores(folder, next(iter(recipe.subsets))) for folder in point.pop("folders")]
    return points


def _scores(folder: Path, subset: str) -> dict[str, Optional[float]]:
    """Return the scores of a run; none if its training diverged."""
    path = folder / "scores" / f"{subset}.json"
    if not path.is_file():
        return {}
    scores = records.read_scores(path)
    found = {name: value for name, its in METRICS.items() if (value := its.value(scores)) is not None}
    return {metric: value if math.isfinite(value) else None for metric, value in found.items()}


def _diverged(folder: Path) -> bool:
    """Whether a training's gradients became infinite or NaN, or it has no best checkpoint as no score is a number."""
    unscored = (folder / "checkpoint_last.pt").is_file() and not (folder / "checkpoint_best.pt").is_file()
    return unscored or bool(logs.divergence(folder / "train.log"))


def summary(points: Sequence[Mapping[str, Any]], metrics: Sequence[str]) -> str:
    """Return the median over seeds at every point, and the best run; a run without a score ranks below all others."""

    def value(scores: Mapping[str, Any]) -> float:
        found = [scores.get(metric) for metric in metrics]
        return -math.inf if None in found else statistics.fmean(found)

    def shown(value: float) -> str:
        return f"{value:g}" if math.isfinite(value) else "diverged"

    lines, best, what = [], (-math.inf, "best: none, every run diverged"), " and ".join(metrics)
    for point in points:
        values = [value(scores) for scores in point["scores"]]
        where = " ".join(f"{flag}={value}" for flag, value in point["flags"].items())
        lines.append(f"{where}: {what} median {shown(statistics.median(values))} of {', '.join(map(shown, values))}")
        for seed, found in zip(point["seeds"], values, strict=True):
            if found > best[0]:
                best = (found, f"best: {what} {found:g} with {where} seed={seed}")
    return "\n".join([*lines, best[1]])


def search(
    name: str,
    values: Sequence[Sequence[str]] = (),
    *,
    seeds: Sequence[int] = (),
    output: Optional[str | Path] = None,
    scale: str = "full",
    jobs: int = 1,
    flags: Sequence[str] = (),
    **place: Any,
) -> None:
    """Train over a search space; print the medians over seeds and the best run.

    Args:
        name: a recipe of the task ``glue``.
        values: a flag of fairseq-train, without dashes, and its values; may be repeated (default: the recipe's search).
        seeds: seeds of the trainings at every point (default: the recipe's).
        output: JSON file for all scores.
        scale: small: a rehearsal, narrow and with few updates.
        jobs: number of runs at a time, each with its own GPUs (--devices; by default, an equal share) or its share of
            the cores.
        flags: of fairseq-train, which all runs have.
        place: arguments of :func:`.training.place_here`.
    """
    runner.load_plugins([name])
    recipe = recipes.load(name, scale=scale)
    given = {flag: [*map(_spelt, its)] for flag, *its in values}
    if len(given) < len(values):
        raise OdeTransformerError("--values: every flag must be given once, with all its values")
    training.check_names(given, "--values")
    own = recipe.search or recipes.SearchSpace({})
    space = recipes.SearchSpace(given or own.values, seeds or own.seeds or recipe.seeds or [recipe.own_seed])
    if not (space.values or seeds or own.seeds or recipe.seeds):
        raise OdeTransformerError(f"{name}: has no search; must be given --values FLAG VALUE ... or --seeds SEED ...")
    if wrong := next(recipes.search_errors(replace(recipe, search=space)), ""):
        raise OdeTransformerError(f"{name}: {wrong}")
    points, seeds = counted(space.trainings // len(space.seeds), "point"), counted(len(space.seeds), "seed")
    every = counted(space.trainings, "training")
    processes.say(f"{recipe.name}: {points}, {seeds}: {every}, less those that are done")
    if not (space.values or flags):  # of others, the records tell nothing
        processes.say(plan.line([recipe] * space.trainings, jobs))
    points = train(recipe, space, training.place_here(recipe, jobs=jobs, flags=flags, **place), jobs)
    if output:
        write_json(output, points)
    print(summary(points, selection(recipe)))
