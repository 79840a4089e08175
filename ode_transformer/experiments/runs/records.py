"""Records of runs: what was run, on what, with which versions, and what came out.

A record is a small JSON file that is written from the files of a finished run: its log, its scores, its data's
manifest. Nothing in it is typed by hand.
"""

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

from ... import machine, paths
from ...errors import OdeTransformerError
from ...files import read_json, sha256, write_json, write_lines
from .. import recipes, runs
from ..metrics import METRICS
from ..schema import count, lacks, one_of
from ..tasks import TASKS
from . import logs

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
    if run is None:
        raise RecordError(f"{run_dir / 'run.json'}: not there; ode-transformer run writes it when training begins")
    scores = {}
    for subset, test_set in recipe.subsets.items():
        scores[test_set] = read_scores(run_dir / "scores" / f"{subset}.json")
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

    log = logs.read_log(run_dir / "train.log")
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
        **({"plugin": run["plugin"]} if "plugin" in run else {}),
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


def write_record(
    name: str,
    output: str | Path,
    *,
    run_dir: Optional[str | Path] = None,
    scale: str = "full",
    seed: Optional[int] = None,
    translations: bool = False,
) -> None:
    """Write the record of a finished run, and print its file.

    Args:
        name: of the run's recipe.
        output: the JSON file to write.
        run_dir: the run's folder; by default the recipe's.
        scale: of the recipe.
        seed: of the run.
        translations: also write the system's output for each test set beside the record, a text file each.
    """
    recipe = recipes.load(name, scale=scale, seed=seed)
    folder = Path(run_dir or recipes.ROOT / recipes.default_run_dir(recipe))
    if translations and TASKS[recipe.task].outputs is None:
        kept = ", ".join(name for name, task in TASKS.items() if task.outputs)
        raise RecordError(f"--translations: {recipe.name} is of task {recipe.task}; must be one of {kept}")
    content = record(recipe, folder)
    if translations:
        content["translations"] = _write_translations(recipe, folder, Path(output))
    write(Path(output), content)


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
