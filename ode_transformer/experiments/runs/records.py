"""Records of runs: what was run, on what, with which versions, and what came out.

A record is a small JSON file that is written from the files of a finished run: its log, its scores, its data's
manifest. Nothing in it is typed by hand.
"""

import argparse
import contextlib
import os
import re
import shlex
from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from ... import machine, paths
from ...errors import OdeTransformerError
from ...files import read_json, regular, sha256, write_json, write_lines
from .. import recipes, runs
from ..fairseq_output import entries
from ..metrics import METRICS
from ..schema import MOST, count, lacks, one_of
from ..tasks import TASKS
from .terminal import DIVERGED

FOLDERS = ("ODE_TRANSFORMER_DATA", "RAW_DIR", "MOSES_DIR", "ROBERTA_DIR", "WIKITEXT_DIR", "IMDB_DIR")  # that name one

# The form of a record. Records of the first versions lack some keys.
_ENTRY = {"num_updates": count, str: float}  # of a curve
_HARDWARE = {"gpus": (..., None, [str])}
_TRAINING = {
    "curve": [{"num_updates": (..., count), str: float}],
    "progress": (..., [_ENTRY]),
    "validation": (..., [_ENTRY]),
    "seconds": float,
    "parameters": count,
    "trained_on": (..., [{"hardware": _HARDWARE}]),
}
_CLASSES = {
    "classes": (..., [str]),
    "confusion": (..., [[count]]),
    "report": (..., {str: {"precision": float, "recall": float, "f1": float, "examples": count}}),
}
_METRICS: dict[str, Any] = {"accuracy": {**_CLASSES}}
for _metric in METRICS.values():
    _METRICS.setdefault(_metric.entry or _metric.name, {}).update({_metric.key: float, "signature": (..., str)})
_SCORES = {name: (..., None, form) for name, form in _METRICS.items()}
SCORES = {**_SCORES, "source": (..., {**_SCORES, "label": str})}
"""The scores of a test set."""

RECORD = {
    **dict.fromkeys(("recipe", "task", "scale", "description", "command"), str),
    "precision": one_of(*recipes.PRECISIONS),
    "seeds": [int],
    "flags": [str],
    "paper": [{"scores": {str: {str: float}}}],
    "averaged": list,
    "scores": {str: SCORES},
    "training": _TRAINING,
    "devices": count,
    "hardware": _HARDWARE,
    "versions": dict,
    "commands": (..., [{"command": str}]),
    "translations": (..., {str: str}),
    "sha256": (..., {str: str}),
}

TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"  # at the beginning of each line that fairseq logs


class RecordError(OdeTransformerError):
    """A run lacks something that a record needs; the message names the file and what is missing."""


def curve_points(training: Mapping[str, Any], key: str) -> list[tuple[int, float]]:
    """A curve of a training, (updates, value): as it was logged by updates, otherwise by epochs.

    Args:
        training: what a record of a run has under ``training``.
        key: ``train_`` or ``valid_``, and the name of a value, such as ``valid_ppl``.
    """
    kind, _, name = key.partition("_")
    finer = training.get({"train": "progress", "valid": "validation"}[kind]) or []
    by_updates = [(entry["num_updates"], entry[name]) for entry in finer if name in entry]
    return by_updates or [(e["num_updates"], e[key]) for e in training["curve"] if key in e and "num_updates" in e]


def processes(text: str) -> list[str]:
    """What each process of a training wrote to its log: the first and, after interruptions, those that resumed it."""
    beginning = rf"(?={TIME} \| INFO \| fairseq_cli\.train \| \{{)"  # its configuration
    return re.split(beginning, text)[1:] or [text]


def _seconds(lines: str) -> float:
    """The time from the configuration of a process to the last progress that it logged."""
    times = re.findall(rf"({TIME}) \| INFO \| (?:fairseq_cli\.train \| \{{|train_inner|train|valid)", lines)
    stamps = [datetime.fromisoformat(time) for time in times]
    # fairseq logs local time, which is set back at the end of daylight saving time.
    return sum(max(0.0, (later - stamp).total_seconds()) for stamp, later in pairwise(stamps))


def read_log(path: Path) -> dict[str, Any]:
    """Read fairseq's JSON lines of progress from a log of ``fairseq-train --log-format json``.

    Returns:
        ``curve``, a list with an entry per epoch (training and validation loss, perplexity or accuracy, gradient norm,
        words per second, updates); ``training`` and ``validation``, the same by updates, each time that it was logged;
        ``seconds``, the processes' time in all.

    Raises:
        RecordError: it is no such log, or no epoch was finished.
    """
    try:
        text = regular(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}") from error
    curve: dict[int, dict[str, Any]] = {}
    steps: dict[str, dict[int, dict[str, float]]] = {"train_inner": {}, "valid": {}}
    for kind, values in entries(text, "train_inner", "train", "valid"):
        try:
            updates, epoch = int(values["num_updates"]), int(values["epoch"])
            kept = {k: float(values[k]) for k in ("loss", "ppl", "accuracy", "gnorm", "wps") if k in values}
            if not 0 <= updates < MOST:
                raise ValueError(f"num_updates {updates}")
        except (KeyError, ValueError, TypeError, OverflowError) as error:
            raise RecordError(
                f"{path}: an entry of {kind} lacks a number that fairseq-train writes: {error!r}"
            ) from error
        if kind in steps:
            steps[kind][updates] = {"num_updates": updates, **{k: v for k, v in kept.items() if k != "wps"}}
        if kind != "train_inner":
            entry = curve.setdefault(epoch, {"epoch": epoch})
            if kind == "train":
                entry["num_updates"] = updates
            entry |= {f"{kind}_{k}": v for k, v in kept.items() if kind == "train" or k != "wps"}
    curve = {epoch: entry for epoch, entry in curve.items() if "num_updates" in entry}  # others did not end
    if not curve:
        raise RecordError(f"{path}: no log of fairseq-train --log-format json with a finished epoch")
    try:
        seconds = sum(map(_seconds, processes(text)))
    except ValueError as error:
        raise RecordError(f"{path}: has a date that there is not: {error}") from error
    return {
        "curve": [curve[epoch] for epoch in sorted(curve)],
        "training": [steps["train_inner"][n] for n in sorted(steps["train_inner"])],
        "validation": [steps["valid"][n] for n in sorted(steps["valid"])],
        # Not by fairseq's own clock, "wall", which stands at 0 in a training that was resumed within an epoch.
        "seconds": seconds,
    }


def divergence(path: Path) -> str:
    """What a log says of a training that ended because it diverged: the update and the last numbers; else empty.

    The update and the learning rate are those of ``crash.pt``, which fairseq leaves beside it, if it can be read.
    """
    from ... import checkpoints

    text = processes(path.read_text(encoding="utf-8", errors="replace"))[-1] if path.is_file() else ""
    if not DIVERGED.search(text):
        return ""
    reported = [values for _, values in entries(text, "train_inner", "train")]
    found = reported[-1] if reported else {}
    with contextlib.suppress(OdeTransformerError, LookupError, TypeError):
        state = checkpoints.load(path.with_name("crash.pt"))
        found |= {"num_updates": state["optimizer_history"][-1]["num_updates"]}
        found |= {"lr": state["last_optimizer_state"]["param_groups"][0]["lr"]}
    names = {"num_updates": "updates", "lr": "learning rate", "gnorm": "gradient norm of the last report"}
    numbers = ", ".join(f"{name} {found[key]}" for key, name in names.items() if key in found)
    return (
        f"the training diverged, its gradients are no longer finite numbers ({numbers or 'before the first report'}); "
        "take a lower --lr, more --warmup-updates or a lower --clip-norm"
    )


def check_scores(recipe: recipes.Recipe, run_dir: Path) -> None:
    """Check that the scores of a run belong to the model and the outputs that are in its folder now.

    Raises:
        RecordError: a step before the scores was done again, but the scores were not.
        RunError: ``steps.json`` cannot be read.
    """
    stamps = runs.read_stamps(run_dir)
    if stamps and (old := [subset for subset in recipe.subsets if f"score {subset}" not in stamps]):
        raise RecordError(
            f"{run_dir}: the score of {old[0]} is missing, or older than the averaged model or its outputs; score "
            f"them again with ode-transformer run {recipe.given}, the same options and --run-dir {run_dir}"
        )


def record(recipe: recipes.Recipe, run_dir: Path) -> dict[str, Any]:
    """Gather the record of a finished run.

    What was run is read from what it left, not from the recipe, which the command line may have overridden.

    Args:
        recipe: what was run.
        run_dir: its folder, with ``run.json``, ``steps.json``, ``train.log``, ``average.pt`` and
            ``scores/SUBSET.json``.

    Raises:
        RecordError: a score is missing or older than the outputs that it scores, or a file cannot be read.
        RunError: ``run.json`` cannot be read, or is of another recipe.
        CheckpointError: the averaged checkpoint cannot be read.
    """
    from ... import checkpoints

    run = runs.read(run_dir)
    if run is not None:
        runs.check_recipe(run, run_dir, recipe)
    check_scores(recipe, run_dir)
    scores = {}
    for subset, test_set in recipe.subsets.items():
        scores[test_set] = read_scores(run_dir / "scores" / f"{subset}.json")
    if run is None:
        raise RecordError(f"{run_dir / 'run.json'}: not there; ode-transformer run writes it when training begins")
    manifest = recipes.ROOT / recipe.data.directory / "manifest.json"
    averaged = checkpoints.load(run_dir / "average.pt")
    hashes = {"average.pt": sha256(run_dir / "average.pt")}
    if run["start"]:
        hashes["start"] = run["start"]["sha256"]
    # Folders differ between machines, and are replaced by names.
    folders = {run_dir: recipes.default_run_dir(recipe), paths.SHARE: ".", paths.ROOT: "."}
    folders |= {Path(os.environ[name]): f"${name}" for name in FOLDERS if os.environ.get(name)}

    def plain(text: str) -> str:
        for folder, name in folders.items():
            for path in {str(folder), str(folder.absolute()), str(folder.resolve())} - {"."}:
                text = re.sub(rf"(?<![\w./-]){re.escape(path)}(?![^/\s])", lambda _, name=name: name, text)
        return text

    log = read_log(run_dir / "train.log")
    several = len(log["validation"]) > len(log["curve"])
    stamps = runs.read_stamps(run_dir)
    places = [{key: place[key] for key in ("hardware", "versions")} for place in run["places"]]
    return {
        "recipe": recipe.name,
        "task": recipe.task,
        "scale": recipe.scale,
        "description": recipe.description,
        "seeds": [run["seed"]],
        "precision": run["precision"],
        "flags": run["flags"],
        "devices": run["devices"],
        "scores": scores,
        "paper": [vars(paper) for paper in recipe.paper],
        "averaged": averaged.get("averaged_from", []),
        "training": {
            "parameters": run["parameters"]["all"],
            "trained_parameters": run["parameters"]["trained"],
            "curve": log["curve"],
            **({"progress": log["training"], "validation": log["validation"]} if several else {}),
            "seconds": log["seconds"],
            "trained_on": [place for i, place in enumerate(places) if place not in places[:i]],
        },
        "command": plain(shlex.join([*run["command"], *run["places"][-1]["where"]])),
        "commands": [
            {"command": plain(stamp["line"]), "seconds": stamp["seconds"]}
            for key, stamp in stamps.items()
            if key not in ("train", "record")  # the former is above, its time in the log whatever stopped it
        ],
        "model": run["model"],
        "sha256": hashes,
        "data": read_json(manifest) if manifest.is_file() else None,
        **machine.here_and_now(),
    }


def read_record(path: Path) -> dict[str, Any]:
    """A record that :func:`record` made.

    Raises:
        RecordError: it cannot be read, or lacks what such a record has.
    """
    return check_record(read_json(path, RecordError), path)


def check_record(found: Any, path: Path) -> dict[str, Any]:
    """The content of a file, if it is that of a record.

    Raises:
        RecordError: it lacks what a record of a run has.
    """
    wrong = lacks(found, RECORD)
    if not wrong and not found["seeds"]:
        wrong = "seeds must be one or more"
    if not wrong and not any("num_updates" in entry for entry in found["training"]["curve"]):
        wrong = "training.curve has no number of updates"
    wrong = wrong or next(filter(None, (_odd_classes(name, one) for name, one in found["scores"].items())), "")
    if wrong:
        raise RecordError(f"{path}: is not what ode-transformer record writes: {wrong}")
    return found


def _odd_classes(test_set: str, scores: dict[str, Any]) -> str:
    """What is wrong with a classifier's matrix, whose rows and columns are its classes."""
    accuracy = scores.get("accuracy") or {}
    if not _CLASSES.keys() & accuracy.keys():
        return ""
    if missing := sorted(_CLASSES.keys() - accuracy.keys()):
        return f"scores.{test_set}.accuracy.{missing[0]} is missing"
    sizes = {len(accuracy["confusion"]), *map(len, accuracy["confusion"])}
    return "" if sizes == {len(accuracy["classes"])} else f"scores.{test_set}.accuracy.confusion must be of its classes"


def read_scores(path: Path) -> dict[str, Any]:
    """The scores of a test set that ``ode-transformer score`` wrote.

    Raises:
        RecordError: they cannot be read, or are of another form.
    """
    scores = read_json(path, RecordError)
    if wrong := lacks(scores, SCORES):
        raise RecordError(f"{path}: is not what ode-transformer score writes: {wrong}")
    return scores


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``ode-transformer record``."""
    parser.add_argument("recipe", metavar="RECIPE", help="the recipe of a finished run")
    recipes.add_variant(parser)
    parser.add_argument("--run-dir", metavar="DIR", help="the run's folder (default: runs/<recipe>)")
    parser.add_argument("--output", metavar="FILE", required=True, help="the JSON file to write")
    parser.add_argument(
        "--translations",
        action="store_true",
        help="also write the system's output for each test set beside the record, one text file per test set, which "
        "`ode-transformer compare` reads when the run has been deleted: detokenized translations, summaries, "
        "corrections or predictions",
    )


def main(args: argparse.Namespace) -> int:
    """Run ``ode-transformer record``; the exit status."""
    recipe = recipes.load(args.recipe, scale=args.scale, seed=args.seed)
    run_dir = Path(args.run_dir or recipes.ROOT / recipes.default_run_dir(recipe))
    if args.translations and TASKS[recipe.task].outputs is None:
        kept = ", ".join(name for name, task in TASKS.items() if task.outputs)
        raise RecordError(f"--translations: {recipe.name} is of task {recipe.task}; must be one of {kept}")
    content = record(recipe, run_dir)
    if args.translations:
        content["translations"] = _write_translations(recipe, run_dir, Path(args.output))
    write(Path(args.output), content)
    return 0


def _write_translations(recipe: recipes.Recipe, run_dir: Path, output: Path) -> dict[str, str]:
    """Write what the system made of every test set beside a record; the SHA-256 of each file."""
    hashes = {}
    for subset, test_set in recipe.subsets.items():
        path = translations_beside(output, test_set)
        write_lines(path, TASKS[recipe.task].outputs(recipe, run_dir, subset))
        hashes[test_set] = sha256(path)
    return hashes


def translations_beside(path: Path, test_set: str) -> Path:
    """The file beside a record of what the system made of a test set: translations, or what its task has for them."""
    return path.with_name(f"{path.name.removesuffix('.json')}.{test_set}.txt")


def write(output: Path, content: dict[str, Any]) -> None:
    """Write a JSON file whole or not at all, and print where it is."""
    write_json(output, content)
    print(output)
