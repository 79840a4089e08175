"""The description of a run, ``run.json`` in its folder, written when its training begins.

Records, comparisons and the runner read it; nothing else describes a run.

torch and fairseq are imported by the functions that need them.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from ... import machine, plugins
from ...errors import OdeTransformerError
from ...files import sha256, write_json
from ...paths import folder_of
from .. import recipes, records
from ..records import RunError
from ..text.manifest import hashes_in

if TYPE_CHECKING:
    from omegaconf import DictConfig

_HASHED = {"dictionaries": "**/dict*.txt", "training_text": "**/train*.bin"}  # files whose hashes a run keeps


def run_dir_of(recipe: "recipes.Recipe", given: Optional[str | Path]) -> str:
    """Return the folder of a recipe's run, by default its usual one."""
    folder = folder_of(given) if given else recipes.default_run_dir(recipe)
    if {":", "\\", "$"} & set(folder):
        raise RunError(f"{folder}: a run's folder must hold no colon, backslash or $, which fairseq interprets")
    return folder


def check_file(run: dict[str, Any], run_dir: str | Path, recipe: "recipes.Recipe") -> None:
    """Check that the run in a folder named after a recipe is of that recipe's file, not of one of the same name.

    If the file of the run no longer exists, it may have been moved, and the run is accepted.
    """
    if run["given"] != recipe.given and recipes.is_there(run["given"]):
        raise RunError(
            f"{run_dir} holds a run of {run['given']}, not of {recipe.given}, which has the same name; rename a file, "
            f"or {records.ANOTHER}"
        )


def check_same_data(run: dict[str, Any], run_dir: str | Path, data: str | Path, text: bool = True) -> None:
    """Check that binarized data have the dictionaries, and the training text, that a run was trained with."""
    for key in _HASHED if text else ("dictionaries",):
        then = run.get(key)  # runs of earlier versions have no hashes of the training text
        if then is not None and then != hashes_in(Path(data), _HASHED[key]):
            what = key.replace("_", " ")
            raise RunError(
                f"{run_dir} was trained with other {what} than {data} holds now; restore that, or {records.ANOTHER}"
            )


def model_options(config: "DictConfig") -> dict[str, Any]:
    """Return the options of the model in a resolved configuration of fairseq.

    Stock architectures are described by a plain namespace of all flags, from which those of other sections are left
    out.
    """
    from omegaconf import OmegaConf

    if OmegaConf.is_config(config.model):
        return OmegaConf.to_container(config.model)
    others = {key for name in config if name != "model" and config[name] for key in config[name]}
    return {key: value for key, value in vars(config.model).items() if key not in others}


def note_decoding(run_dir: str | Path, recipe: "recipes.Recipe") -> None:
    """Update the decoding flags in ``run.json`` if the recipe's have changed since training."""
    run = records.read_run(run_dir)
    if run is not None and run["generate"] != records.decoding_flags(recipe):
        write_json(Path(run_dir) / "run.json", {**run, "generate": records.decoding_flags(recipe)})


def describe(
    recipe: "recipes.Recipe",
    command: Sequence[str],
    config: "DictConfig",
    start: Optional[str],
    source: Optional[str] = None,
    flags: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the content of ``run.json`` for a training that begins, from the checkpoint ``start`` if there is one,
    which may have been converted from ``source``.

    The command is without the words that say where it runs, the configuration is what fairseq made of it, and the flags
    are those that the user added to the recipe's.
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
        "start": start and {"file": start, "source": source, "sha256": sha256(recipes.ROOT / start)},
        "data": recipe.data.directory,  # from the top of the repository
        "flags": list(flags),
        "generate": records.decoding_flags(recipe),  # which `ode-transformer translate` takes, too
        **{key: hashes_in(recipes.ROOT / recipe.data.directory, pattern) for key, pattern in _HASHED.items()},
        "parameters": count_parameters(config),
        # through JSON, because fairseq's enumerations are no plain strings
        "model": json.loads(json.dumps(model_options(config), default=str)),
        "places": [],
        **_plugin(recipe.user_dir),
    }


def _plugin(user_dir: str) -> dict[str, Any]:
    return {"plugin": plugins.name_and_hash(recipes.ROOT / user_dir)} if user_dir else {}


def plugin_changed(run: dict[str, Any], user_dir: str) -> bool:
    """Whether the plugin of a run is another than when its training began."""
    now = _plugin(user_dir).get("plugin")
    return bool(now and "plugin" in run and run["plugin"]["sha256"] != now["sha256"])


def count_parameters(config: "DictConfig") -> dict[str, int]:
    """Return the numbers of all and of trained parameters of the model."""
    from fairseq import tasks

    try:
        model = tasks.setup_task(config.task).build_model(config.model)
    except OdeTransformerError:
        raise
    except (OSError, ValueError, AssertionError) as error:
        raise RunError(f"the model cannot be built: {error or type(error).__name__}") from error
    counts = [(p.numel(), p.requires_grad) for p in model.parameters()]
    return {"all": sum(n for n, _ in counts), "trained": sum(n for n, trained in counts if trained)}


def begin(run_dir: str | Path, run: dict[str, Any], devices: int, words: Sequence[str], user_dir: str = "") -> None:
    """Add this machine, and the plugin as it is now, to the places of a training, and write ``run.json``."""
    place = {"where": list(words), **machine.here_and_now(), **_plugin(user_dir)}
    run["places"].append(place)
    write_json(Path(run_dir) / "run.json", {**run, "devices": devices})
