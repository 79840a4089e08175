"""What a run is: ``run.json`` in its folder, written when its training begins.

It holds the recipe, seed, precision and devices, the command without the words that say where it runs, the model as
fairseq resolved it, the checkpoint that training starts from, hashes of the dictionaries, and under ``places`` the
hardware and versions of every start. Records, comparisons and the runner read it; nothing else says what a run is.

torch and fairseq are imported by the functions that need them.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from ... import machine, plugins
from ...errors import OdeTransformerError
from ...files import read_json, sha256, write_json
from .. import recipes
from ..schema import count, lacks, one_of

if TYPE_CHECKING:
    from omegaconf import DictConfig

KEYS = (
    *("recipe", "given", "task", "scale", "seed", "precision", "command", "start", "data", "flags", "generate"),
    *("dictionaries", "parameters", "model", "places", "devices"),
)
_RUN = {
    **dict.fromkeys(KEYS, lambda _: ""),
    **dict.fromkeys(("recipe", "given", "task", "scale", "data"), (None, str)),
    **dict.fromkeys(("command", "flags"), (None, [str])),
    "seed": (None, int),
    "precision": (None, one_of(*recipes.PRECISIONS)),
    "start": (None, {"file": str, "sha256": str}),
    "generate": (None, dict),
    "dictionaries": (None, {str: str}),
    "parameters": (None, {"all": count, "trained": count}),
    "model": (None, dict),
    "places": (None, [{"where": [str], "hardware": dict, "versions": dict}]),
    "devices": (None, count),
    "plugin": (..., {"name": str, "sha256": str}),
}


class RunError(OdeTransformerError):
    """A run that cannot be started or resumed; the message names the folder and the reason."""


class OtherRunError(RunError):
    """The folder of a run holds another run."""


def check_folder(path: str | Path) -> None:
    """Refuse a folder whose path fairseq takes apart or interprets.

    Raises:
        RunError: the path holds such a character.
    """
    if {":", "\\", "$"} & set(str(path)):
        raise RunError(f"{path}: a run's folder must hold no colon, backslash or $, which fairseq interprets")


def folder_of(path: str) -> str:
    """A folder as the commands of a run name it: from the top of the repository if it lies there, else absolute."""
    absolute = Path(os.path.abspath(path))  # without .., so that it does not depend on a folder beside the way
    return str(absolute.relative_to(recipes.ROOT)) if absolute.is_relative_to(recipes.ROOT) else str(absolute)


def read(run_dir: str | Path) -> Optional[dict[str, Any]]:
    """What ``run.json`` says, or None where no training began.

    Raises:
        RunError: it cannot be read, or an older version of this package trained there.
    """
    folder = Path(run_dir)
    if not (folder / "run.json").exists():
        if (folder / "train.command").exists():
            raise RunError(
                f"{run_dir} was made by an older version of this package: it has train.command and no run.json. Finish "
                "it with that version, or take another --run-dir"
            )
        return None
    run = read_json(folder / "run.json", RunError)
    if wrong := lacks(run, _RUN):
        raise RunError(f"{folder / 'run.json'}: is not what ode-transformer run writes: {wrong}")
    return run


def check_recipe(run: dict[str, Any], run_dir: str | Path, recipe: "recipes.Recipe") -> None:
    """Check that a folder's run is one of this recipe, under its name and of its scale.

    Raises:
        OtherRunError: it is of another one.
    """

    def named(name: str, scale: str) -> str:
        return f"{name} --scale small" if scale == "small" else name

    asked = named(recipe.name, recipe.scale)
    trained = named(run["recipe"], run["scale"])
    if trained != asked:
        raise OtherRunError(
            f"{run_dir} holds a run of {trained}, not of {asked}; name the former, or take another --run-dir"
        )


def check_file(run: dict[str, Any], run_dir: str | Path, recipe: "recipes.Recipe") -> None:
    """Check that the run in a folder named after a recipe is of that recipe's file, not of one of the same name.

    A file that is no longer where it was may have been moved, and is not taken for another.

    Raises:
        OtherRunError: it is of another file.
    """
    if run["given"] != recipe.given and recipes.is_there(run["given"]):
        raise OtherRunError(
            f"{run_dir} holds a run of {run['given']}, not of {recipe.given}, which has the same name; rename a file, "
            "or take another --run-dir"
        )


def read_stamps(run_dir: str | Path) -> dict[str, dict[str, Any]]:
    """The stamps of a run's finished steps, in the order in which they were finished."""
    path = Path(run_dir) / "steps.json"
    stamps = read_json(path, RunError) if path.exists() else {}
    if wrong := lacks(stamps, {str: {"command": [str], "line": str, "seconds": float}}):
        raise RunError(f"{path}: is not what ode-transformer run writes: {wrong}")
    return stamps


def dictionaries(data: str | Path) -> dict[str, str]:
    """The SHA-256 of every dictionary of a folder of binarized data, those of its parts included."""
    folder = Path(data)
    return {p.relative_to(folder).as_posix(): sha256(p) for p in sorted(folder.rglob("dict*.txt"))}


def model_options(config: "DictConfig") -> dict[str, Any]:
    """The options of the model of a command that fairseq has resolved.

    Stock architectures are described by a plain namespace of all flags: those of the other sections are left out.
    """
    from omegaconf import OmegaConf

    if OmegaConf.is_config(config.model):
        return OmegaConf.to_container(config.model)
    others = {key for name in config if name != "model" and config[name] for key in config[name]}
    return {key: value for key, value in vars(config.model).items() if key not in others}


def search(recipe: "recipes.Recipe") -> Optional[dict[str, Any]]:
    """The search of a recipe, as flags of ``fairseq-generate``; None for a task that does not translate."""
    return recipe.generate and {
        **recipe.generate.flags,
        "beam": recipe.generate.beam,
        "lenpen": recipe.generate.lenpen,
    }


def note_search(run_dir: str | Path, recipe: "recipes.Recipe") -> None:
    """Note in ``run.json`` the search that made the translations, if the recipe's has changed since training."""
    run = read(run_dir)
    if run is not None and run["generate"] != search(recipe):
        write_json(Path(run_dir) / "run.json", {**run, "generate": search(recipe)})


def describe(
    recipe: "recipes.Recipe",
    command: Sequence[str],
    config: "DictConfig",
    start: Optional[str],
    flags: Sequence[str] = (),
) -> dict[str, Any]:
    """What ``run.json`` is to say of a training that begins.

    Args:
        recipe: what is trained.
        command: without the words that say where it runs.
        config: the command as fairseq resolved it.
        start: the checkpoint that training starts from, if it does.
        flags: those of ``fairseq-train`` that the user added to the recipe's.
    """
    precision = next((name for name in recipes.PRECISIONS[1:] if config.common.get(name)), "fp32")
    return {
        "recipe": recipe.name,
        "given": recipe.given,
        "task": recipe.task,
        "scale": recipe.scale,
        "seed": config.common.seed,
        "precision": precision,
        "command": list(command),
        "start": start and {"file": start, "sha256": sha256(recipes.ROOT / start)},
        "data": recipe.data.directory,  # from the top of the repository
        "flags": list(flags),
        "generate": search(recipe),  # flags of fairseq-generate, as `ode-transformer translate` takes them
        "dictionaries": dictionaries(recipes.ROOT / recipe.data.directory),
        # through JSON, since fairseq's enumerations are strings of its own
        "parameters": parameters(config),
        "model": json.loads(json.dumps(model_options(config), default=str)),
        "places": [],
        **({"plugin": plugins.described(recipes.ROOT / recipe.user_dir)} if recipe.user_dir else {}),
    }


def parameters(config: "DictConfig") -> dict[str, int]:
    """How many parameters the model has, and how many of them are trained.

    Raises:
        RunError: it cannot be built with these flags, on these data.
    """
    from fairseq import tasks

    try:
        model = tasks.setup_task(config.task).build_model(config.model)
    except OdeTransformerError:
        raise
    except (OSError, ValueError, AssertionError) as error:
        raise RunError(f"the model cannot be built: {error or type(error).__name__}") from error
    counts = [(p.numel(), p.requires_grad) for p in model.parameters()]
    return {"all": sum(n for n, _ in counts), "trained": sum(n for n, trained in counts if trained)}


def begin(run_dir: str | Path, run: dict[str, Any], devices: int, words: Sequence[str]) -> None:
    """Note a start of the training, here and now, on so many devices, and write ``run.json``."""
    run["places"].append({"where": list(words), **machine.here_and_now()})
    write_json(Path(run_dir) / "run.json", {**run, "devices": devices})
