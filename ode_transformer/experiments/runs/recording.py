"""Records of runs: the recipe, hardware, versions and results.

A record is a small JSON file that is written from the files of a finished run: its log, its scores, its data's
manifest. Nothing in it is typed by hand.
"""

import os
import re
import shlex
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Optional

from ... import machine, paths
from ...files import read_json, sha256, write_json, write_lines
from .. import recipes, records
from ..records import RecordError, check_scores, logs, read_scores, translations_beside
from ..tasks import TASKS
from . import check_same_data

FOLDERS = ("ODE_TRANSFORMER_DATA", "RAW_DIR", "ROBERTA_DIR", "WIKITEXT_DIR", "IMDB_DIR")  # variables that name one


def record(recipe: recipes.Recipe, run_dir: Path) -> dict[str, Any]:
    """Return the record of a finished run.

    Settings are read from the run's files, not from the recipe, which the command line may have overridden.
    """
    from ... import checkpoints

    if (run := records.read_run(run_dir)) is None:
        raise RecordError(f"{run_dir / 'run.json'}: no such file; ode-transformer run writes it when training begins")
    records.check_recipe(run, run_dir, recipe)
    check_scores(recipe, run_dir)
    scores = {
        test_set: read_scores(run_dir / "scores" / f"{subset}.json") for subset, test_set in recipe.subsets.items()
    }
    data = recipes.ROOT / recipe.data.directory
    if data.is_dir():  # otherwise the record does not describe the data
        check_same_data(run, run_dir, data)
    manifest = data / "manifest.json"
    averaged = checkpoints.load(run_dir / "average.pt")
    hashes = {"average.pt": sha256(run_dir / "average.pt")}
    if run["start"]:
        hashes["start"] = run["start"]["sha256"]
    # Folders differ between machines, so names replace them.
    folders = {run_dir: recipes.default_run_dir(recipe), paths.SHARE: "."}
    folders |= {paths.ROOT / recipe.user_dir: Path(recipe.user_dir).name} if recipe.user_dir else {}
    folders |= {paths.PACKAGE: paths.PACKAGE.name, paths.ROOT: "."}
    folders |= {Path(os.environ[name]): f"${name}" for name in FOLDERS if os.environ.get(name)}
    portable = partial(_without_folders, folders)
    return {
        "recipe": recipe.name,
        "task": recipe.task,
        "scale": recipe.scale,
        "description": recipe.description,
        "seeds": [run["seed"]],
        "precision": run["precision"],
        "flags": [*map(portable, run["flags"])],
        "devices": run["devices"],
        "scores": scores,
        "paper": [vars(paper) for paper in recipe.paper],
        "averaged": averaged.get("averaged_from", []),
        "training": _training(run, logs.read_log(run_dir / "train.log")),
        "command": portable(shlex.join([*run["command"], *run["places"][-1]["where"]])),
        "commands": [
            {"command": portable(stamp["line"]), "seconds": stamp["seconds"]}
            for key, stamp in records.read_stamps(run_dir).items()
            if key not in ("train", "record")  # the training is above, with the time in its log
        ],
        "model": run["model"],
        **({"plugin": run["plugin"]} if "plugin" in run else {}),
        "sha256": hashes,
        "data": read_json(manifest) if manifest.is_file() else None,
        **machine.here_and_now(),
    }


def _training(run: Mapping[str, Any], log: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of a record on the training, from the contents of ``run.json`` and ``train.log``."""
    several, lacked = len(log["validation"]) > len(log["curve"]), log["out_of_memory"]
    if lacked:
        said = "each time fairseq left out an update, or a part of it; the record notes this"
        print(f"warning: out of memory on a GPU, times logged: {lacked}; {said}", file=sys.stderr)
    kept = ("hardware", "versions", "plugin")
    places = [{key: place[key] for key in kept if key in place} for place in run["places"]]
    return {
        "parameters": run["parameters"]["all"],
        "trained_parameters": run["parameters"]["trained"],
        "curve": log["curve"],
        **({"progress": log["training"], "validation": log["validation"]} if several else {}),
        "seconds": log["seconds"],
        "interruptions": log["interruptions"],
        "ended": log["ended"],
        **({"out_of_memory": lacked} if lacked else {}),
        "trained_on": [place for i, place in enumerate(places) if place not in places[:i]],
    }


def _without_folders(folders: Mapping[Path, str], text: str) -> str:
    """Return a text with names in place of the paths of folders."""
    for folder, name in folders.items():
        for path in {str(folder), str(folder.absolute()), str(folder.resolve())} - {"."}:
            text = re.sub(rf"(?<![\w./-]){re.escape(path)}(?![^/\s])", lambda _, name=name: name, text)
    return text


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
        name: the recipe of the finished run.
        output: the JSON file to write.
        run_dir: the run's folder (default: runs/RECIPE).
        scale: of the recipe.
        seed: of the run.
        translations: also keep the system's outputs (detokenized translations, summaries, corrections or predictions)
            in a text file per test set beside the record, so that systems can be compared when the run is deleted.
    """
    recipe = recipes.load(name, scale=scale, seed=seed)
    folder = Path(run_dir or recipes.ROOT / recipes.default_run_dir(recipe))
    outputs = TASKS[recipe.task].outputs
    if translations and outputs is None:
        kept = ", ".join(name for name, task in TASKS.items() if task.outputs)
        raise RecordError(f"--translations: {recipe.name} is of task {recipe.task}; must be one of {kept}")
    content = record(recipe, folder)
    if translations:
        beside = {test_set: translations_beside(Path(output), test_set) for test_set in recipe.subsets.values()}
        for subset, test_set in recipe.subsets.items():
            write_lines(beside[test_set], outputs(recipe, folder, subset))
        content["translations"] = {test_set: sha256(path) for test_set, path in beside.items()}
    write_json(output, content)
    print(output)
