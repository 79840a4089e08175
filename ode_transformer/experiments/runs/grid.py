"""``ode-transformer grid``: train over a search space, such as that of a paper.

It says which run is best by the development set, and the median over seeds at every point of the space.
"""

import argparse
import itertools
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import OdeTransformerError
from ...files import write_json
from .. import cli, recipes
from ..metrics.glue import LOGGED
from ..tasks.glue import TASK
from . import OtherRunError, processes, records, runner

# What fairseq chooses a checkpoint by, --best-checkpoint-metric, as the metrics that it is the mean of.
_CHOSEN = {logged: (metric,) for metric, logged in LOGGED.items()} | {
    "acc_and_f1": ("accuracy", "f1"),
    "pearson_and_spearman": ("pearson", "spearman"),
}


def selection(recipe: recipes.Recipe) -> tuple[str, ...]:
    """The metrics by whose mean runs of a recipe are compared: those by which it chooses among its checkpoints."""
    return _CHOSEN.get(recipe.train.flags.get("best-checkpoint-metric"), tuple(TASK.metrics(recipe)))


def schedule(row: Mapping[str, Any], chosen: Mapping[str, str]) -> dict[str, str]:
    """A row's learning rate schedule, adapted to a point of a grid.

    Larger batches make fewer updates of the same examples, and more epochs make more; the warm-up stays the same
    fraction of all updates. Values that the point itself gives are kept.

    Args:
        row: flags of the row.
        chosen: flags of the point.

    Returns:
        ``total-num-update`` and ``warmup-updates``, where they change.

    Raises:
        OdeTransformerError: a value is not a number, or is not positive.
    """

    def number(flag: str) -> float:
        try:
            value = float(chosen[flag])
        except ValueError:
            value = 0.0
        if not 0 < value < math.inf:
            raise OdeTransformerError(f"--values {flag} {chosen[flag]}: must be a positive number")
        return value

    before = row.get("total-num-update")
    if not before:
        return {}
    total = before
    if "total-num-update" in chosen:
        total = number("total-num-update")
    elif row.get("max-epoch"):  # else a row trains for so many updates, whatever their size
        if "batch-size" in chosen and row.get("batch-size"):
            total = total * row["batch-size"] / number("batch-size")
        if "max-epoch" in chosen:
            total = total * number("max-epoch") / row["max-epoch"]
    new = {"total-num-update": total, "warmup-updates": row.get("warmup-updates", 0) * total / before}
    return {flag: str(round(n)) for flag, n in new.items() if flag not in chosen and round(n) != row.get(flag, 0)}


def chosen_space(
    recipe: recipes.Recipe, values: Mapping[str, Sequence[str]], seeds: Sequence[int] | None
) -> recipes.Search:
    """The search space that the options give; what they leave out comes from the recipe.

    Raises:
        OdeTransformerError: no option gives a space, and the recipe has neither a search nor several seeds.
    """
    own = recipe.search or recipes.Search({})
    seeds = seeds or own.seeds or recipe.seeds
    if not (values or own.values or seeds):
        raise OdeTransformerError(
            f"{recipe.name}: has no search; must be given --values FLAG VALUE ... or --seeds SEED ..."
        )
    return recipes.Search(values or own.values, seeds or [recipe.own_seed])


def _spelt(value: Any) -> str:
    """One spelling of a number, 5e-05 for 5e-5, so that a point is found again; other words as they are."""
    try:
        number = float(value)
    except ValueError:
        return str(value)
    return str(int(number)) if number.is_integer() else str(number)


# Options of ode-transformer run that a grid sets itself, with their names in its arguments.
_OWN = {"--run-dir": "run_dir", "--seeds": "seeds", "--until": "last", "--record": "record", "--dry-run": "dry_run"}


def run_options(given: str, options: Sequence[str]) -> argparse.Namespace:
    """The options of ``ode-transformer run`` that every run of a grid has.

    Args:
        given: the recipe, as the user names it.
        options: the words after ``--``.

    Raises:
        OdeTransformerError: they are not options, or are options that a grid sets itself.
    """
    parser = argparse.ArgumentParser(prog="ode-transformer grid ... --")
    runner.add_arguments(parser)
    args = parser.parse_args([given, *options])
    if args.recipe != [given]:
        raise OdeTransformerError(f"-- {args.recipe[-1]}: must be an option of ode-transformer run")
    for option, name in _OWN.items():
        if getattr(args, name) != parser.get_default(name):
            raise OdeTransformerError(
                f"-- {option}: is not for a grid, which chooses the folder, seed and steps of each run"
            )
    return args


def home_of(recipe: recipes.Recipe, args: argparse.Namespace) -> Path:
    """The folder of the runs of a grid; rehearsals and precisions other than the recipe's have folders of their own.

    Args:
        recipe: in its scale.
        args: of :func:`run_options`.
    """
    precision = args.precision or ("fp32" if args.cpu else recipe.train.precision)  # as the runner has it
    name = Path(recipes.default_run_dir(recipe)).relative_to("runs")
    suffix = "" if precision == recipe.train.precision else f".{precision}"
    return recipes.ROOT / "runs" / "grids" / f"{name}{suffix}"


def train(recipe: recipes.Recipe, space: recipes.Search, options: Sequence[str], home: Path) -> list[dict]:
    """Train a recipe at every point of a grid with every seed, where that is not done yet.

    Args:
        recipe: of the task ``glue``.
        space: the values of flags, whose combinations are the points, and the seeds of every point.
        options: more options of ``ode-transformer run``, such as ``--cpu``.
        home: the folder of the runs, of :func:`home_of`.

    Returns:
        for every point its ``flags``, the ``schedule`` of the learning rate that follows from them, and for each seed
        the validation set's ``scores``, of the checkpoint that the recipe chooses: None where a score is not a
        number, no scores where the training diverged.

    Raises:
        OdeTransformerError: a run failed for another reason.
    """
    points, subset = [], next(iter(recipe.subsets))
    for chosen in itertools.product(*space.values.values()):
        flags = dict(zip(space.values, map(_spelt, chosen), strict=True))
        follows = schedule(recipe.train.flags, flags)
        where = ",".join(f"{flag}={value}" for flag, value in flags.items()) or "point"
        scores = []
        for seed in space.seeds:
            folder = home / where / f"seed-{seed}"
            words = ["run", recipe.given, "--seed", str(seed), "--run-dir", str(folder), "--until", "score", *options]
            words += ["--", *(word for flag, value in (flags | follows).items() for word in (f"--{flag}", value))]
            try:
                cli.call(words)
            except OdeTransformerError as error:
                if isinstance(error, OtherRunError) or not _diverged(folder):
                    raise OdeTransformerError(f"{folder}: {error}") from error
                scores.append({})
                continue
            found = records.read_scores(folder / "scores" / f"{subset}.json")
            found = {metric: found[metric]["value"] for metric in LOGGED if metric in found}
            scores.append({metric: value if math.isfinite(value) else None for metric, value in found.items()})
        points.append({"flags": flags, "schedule": follows, "seeds": list(space.seeds), "scores": scores})
    return points


def _diverged(folder: Path) -> bool:
    """Whether a training has ended with losses, or has only had scores, that are not numbers: none was the best."""
    try:
        log = (folder / "train.log").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    last = records.processes(log)[-1]
    if re.search(r"FloatingPointError: (?!.*gradients are inconsistent)", last):  # which is no divergence
        return True
    return (folder / "checkpoint_last.pt").is_file() and not (folder / "checkpoint_best.pt").is_file()


def summary(points: Sequence[Mapping[str, Any]], metrics: Sequence[str]) -> str:
    """The median over seeds at every point, and the best run of all; a run without a score is below all others.

    Args:
        points: what :func:`train` returned.
        metrics: what runs are compared by, the mean of several.
    """

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``ode-transformer grid``."""
    parser.add_argument("recipe", metavar="RECIPE", help="of the task glue")
    parser.add_argument(
        "--values", nargs="+", action="append", default=[], metavar=("FLAG", "VALUE"),
        help="a flag of fairseq-train, without dashes, and its values; repeat for a grid (default: the recipe's)",
    )  # fmt: skip
    parser.add_argument(
        "--seeds", metavar="N", nargs="+", type=int, help="the seeds of every point (default: the recipe's)"
    )
    parser.add_argument("--output", metavar="FILE", help="a JSON file for all scores")
    parser.epilog = "Words after -- are options of ode-transformer run, such as --cpu."


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer grid``; the exit status."""
    values: dict[str, list[str]] = {}
    for flag, *of in args.values:
        if not of:
            raise OdeTransformerError(f"--values {flag}: must name one value or more")
        if flag in values:
            raise OdeTransformerError(f"--values {flag}: is given twice; must be given once, with all its values")
        values[flag] = of
    options = run_options(args.recipe, args.flags)
    recipe = recipes.load(args.recipe, scale=options.scale)
    if recipe.task != "glue":
        raise OdeTransformerError(f"{args.recipe}: has task {recipe.task}, must have task glue")
    space = chosen_space(recipe, values, args.seeds)
    count = f"{space.trainings // len(space.seeds)} points, {len(space.seeds)} seeds: {space.trainings} trainings"
    processes.say(f"{recipe.name}: {count}, less those that are done")
    points = train(recipe, space, args.flags, home_of(recipe, options))
    if args.output:
        write_json(args.output, points)
    print(summary(points, selection(recipe)))
    return 0
