"""The files that a run leaves, and their readers: ``run.json`` describes the run, ``steps.json`` its finished steps,
``scores/SUBSET.json`` the scores of a test set, and a record all of these; :mod:`.logs` reads ``train.log``.

Imports neither torch nor fairseq.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

from ...errors import OdeTransformerError
from ...files import read_json
from ...schema import checked_json, count, lacks, one_of
from ..metrics import METRICS
from ..recipe import PRECISIONS, SCALES, Recipe

_RUN = {
    **dict.fromkeys(("recipe", "given", "task", "data"), str),
    "command": [str],
    "flags": [str],
    "scale": one_of(*SCALES),
    "seed": int,
    "precision": one_of(*PRECISIONS),
    "start": (None, {"file": str, "sha256": str, "source": (..., str)}),
    "generate": (None, dict),
    "dictionaries": {str: str},
    "training_text": (..., {str: str}),
    "parameters": {"all": count, "trained": count},
    "model": dict,
    "places": [{"where": [str], "hardware": dict, "versions": dict}],
    "devices": count,
    "plugin": (..., {"name": str, "sha256": str}),
}

# The form of a record. Records of the first versions lack some keys.
_ENTRY = {"num_updates": count, str: float}  # a point of a curve
_HARDWARE = {"gpus": (..., None, [str])}
_TRAINING = {
    "curve": [{"num_updates": (..., count), str: float}],
    "progress": (..., [_ENTRY]),
    "validation": (..., [_ENTRY]),
    "seconds": float,
    "interruptions": (..., count),
    "ended": (..., str),
    "out_of_memory": (..., count),
    "parameters": count,
    "trained_on": (..., [{"hardware": _HARDWARE}]),
}

_METRICS: dict[str, Any] = {
    "accuracy": {
        "classes": (..., [str]),
        "confusion": (..., [[count]]),
        "report": (..., {str: {"precision": float, "recall": float, "f1": float, "examples": count}}),
    }
}
for _metric in METRICS.values():
    _METRICS.setdefault(_metric.entry or _metric.name, {}).update({_metric.key: float, "signature": (..., str)})
_SCORES = {name: (..., None, form) for name, form in _METRICS.items()}
SCORES = {**_SCORES, "source": (..., {**_SCORES, "label": str})}
"""The scores of a test set."""

RECORD = {
    **dict.fromkeys(("recipe", "task", "scale", "description", "command"), str),
    "precision": one_of(*PRECISIONS),
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


ANOTHER = "rename the run's folder or, for a single run, choose another --run-dir"
"""The remedy where a folder holds another run."""

_NOT_OURS = "is not what ode-transformer run writes"


class RunError(OdeTransformerError):
    """A run that cannot be started or resumed; the message names the folder and the reason."""


class RecordError(OdeTransformerError):
    """A run lacks something that a record needs; the message names the file and what is missing."""


def read_run(run_dir: str | Path) -> Optional[dict[str, Any]]:
    """Return the content of ``run.json``, or None if no training began."""
    path = Path(run_dir) / "run.json"
    if not path.exists():
        return None
    run = checked_json(path, _RUN, _NOT_OURS, RunError)
    if not run["places"]:
        raise RunError(f"{path}: {_NOT_OURS}: it has no places")
    return run


def read_stamps(run_dir: str | Path) -> dict[str, dict[str, Any]]:
    """Return the stamps of a run's finished steps, in the order in which they were finished."""
    path, form = Path(run_dir) / "steps.json", {str: {"command": [str], "line": str, "seconds": float}}
    return checked_json(path, form, _NOT_OURS, RunError) if path.exists() else {}


def check_recipe(run: dict[str, Any], run_dir: str | Path, recipe: Recipe) -> None:
    """Check that the run in a folder has the name and the scale of a recipe."""
    both = ((run["recipe"], run["scale"]), (recipe.name, recipe.scale))
    trained, asked = (f"{name} --scale small" if scale == "small" else name for name, scale in both)
    if trained != asked:
        raise RunError(f"{run_dir} holds a run of {trained}, not of {asked}; name the former, or {ANOTHER}")


def decoding_flags(recipe: Recipe) -> Optional[dict[str, Any]]:
    """Return the flags of ``fairseq-generate`` for a recipe; None for a task that does not translate."""
    return recipe.generate and {**recipe.generate.flags, "beam": recipe.generate.beam, "lenpen": recipe.generate.lenpen}


def check_scores(recipe: Recipe, run_dir: Path) -> None:
    """Check that the scores of a run are those of the model and the outputs in its folder."""
    stamps = read_stamps(run_dir)
    if stamps and (old := [subset for subset in recipe.subsets if f"score {subset}" not in stamps]):
        raise RecordError(
            f"{run_dir}: the score of {old[0]} is missing, or older than the averaged model or its outputs; score "
            f"them again with ode-transformer run {recipe.given}, the same options and --run-dir {run_dir}"
        )


def read_record(path: Path) -> dict[str, Any]:
    """Return the record in a file of ``ode-transformer record``."""
    return check_record(read_json(path, RecordError), path)


def check_record(found: Any, path: Path) -> dict[str, Any]:
    """Return the content of a file, if it has the form of a record."""
    wrong = lacks(found, RECORD)
    if not wrong and not (found["seeds"] and any("num_updates" in entry for entry in found["training"]["curve"])):
        wrong = "it has no seed, or no number of updates"
    if wrong:
        raise RecordError(f"{path}: is not what ode-transformer record writes: {wrong}")
    return found


def read_scores(path: Path) -> dict[str, Any]:
    """Return the scores of a test set in a file of ``ode-transformer score``."""
    return checked_json(path, SCORES, "is not what ode-transformer score writes", RecordError)


def curve_points(training: Mapping[str, Any], key: str) -> list[tuple[int, float]]:
    """Return a training curve, (updates, value), as it was logged by updates, otherwise by epochs.

    Args:
        training: the entry ``training`` of a record.
        key: ``train_`` or ``valid_``, and the name of a value, such as ``valid_ppl``.
    """
    kind, _, name = key.partition("_")
    finer = training.get({"train": "progress", "valid": "validation"}[kind]) or []
    by_updates = [(entry["num_updates"], entry[name]) for entry in finer if name in entry]
    return by_updates or [(e["num_updates"], e[key]) for e in training["curve"] if key in e and "num_updates" in e]


def translations_beside(path: Path, test_set: str) -> Path:
    """Return the file beside a record with the outputs of a test set: translations, or other outputs of the task."""
    return path.with_name(f"{path.name.removesuffix('.json')}.{test_set}.txt")
