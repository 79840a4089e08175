"""What a run is: ``run.json`` in its folder, written when its training begins.

It holds the recipe, seed, precision and devices, the command without the words that say where it runs, the model as
fairseq resolved it, the checkpoint that training starts from, hashes of the dictionaries, and under ``places`` the
hardware and versions of every start. Records, comparisons and the runner read it; nothing else says what a run is.

torch and fairseq are imported by the functions that need them.
"""

import functools
import heapq
import itertools
import json
import math
import platform
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from ... import processors
from ...errors import OdeTransformerError
from ...files import read_json, sha256, write_json
from ...version import __version__, installed
from .. import recipes
from ..schema import count, lacks, one_of
from . import flags as command_lines

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
}
PACKAGES = ("torch", "fairseq-fixed", "numpy", "sacrebleu", "sacremoses", "subword-nmt", "sentencepiece")


class RunError(OdeTransformerError):
    """A run that cannot be started or resumed; the message names the folder and the reason."""


class OtherRunError(RunError):
    """The folder of a run holds another run."""


def hardware() -> dict[str, Any]:
    """Processor, cores that this process may take, memory in GiB, and GPUs of this machine."""
    import torch

    model = re.search(r"model name\s*: (.*)", processors.text("/proc/cpuinfo"))
    memory = re.search(r"MemTotal:\s*(\d+)", processors.text("/proc/meminfo"))
    return {
        "processor": model[1] if model else platform.processor() or platform.machine(),
        "cores": processors.usable(),
        "memory_gib": round(int(memory[1]) / 2**20) if memory else None,
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
    }


@functools.cache
def commit() -> str:
    """The commit of the code that this process runs, ``+`` if its files differ from it; empty if that is unknown."""
    root = recipes.ROOT
    if not (root / ".git").exists():  # installed, perhaps into another project's repository
        return ""
    words = ["git", "-C", root, "describe", "--always", "--exclude=*", "--dirty=+"]
    try:
        done = subprocess.run(words, capture_output=True, text=True)
    except OSError:  # no git here
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def versions() -> dict[str, str]:
    """Python, this package with its commit, and what numbers depend on."""
    found = {"python": platform.python_version(), "ode_transformer": __version__}
    if commit():
        found["commit"] = commit()
    return found | installed(PACKAGES)


def here_and_now() -> dict[str, Any]:
    """``hardware`` and ``versions``."""
    return {"hardware": hardware(), "versions": versions()}


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


def configuration(words: Sequence[str]) -> "DictConfig":
    """What fairseq makes of the flags of ``fairseq-train``, to be called from the top of the repository.

    Raises:
        FlagError: it refuses them.
    """
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    read = command_lines.parsed(["fairseq-train", *words])
    try:
        return convert_namespace_to_omegaconf(read)
    except ValueError as error:
        raise command_lines.FlagError(f"fairseq-train refuses its flags: {error}") from error


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
    run["places"].append({"where": list(words), **here_and_now()})
    write_json(Path(run_dir) / "run.json", {**run, "devices": devices})


def check_average(recipe: "recipes.Recipe", config: "DictConfig") -> str:
    """Whether training will leave the checkpoints that are to be averaged, before it begins.

    Returns:
        what may leave fewer of them, as only training can tell; empty if nothing may.

    Raises:
        RunError: there will be too few, or none if the recipe averages fewer; the message names the flags.
    """
    ((kind, count),) = recipe.average.wanted
    needed = 1 if recipe.average.fewer else count
    checkpoint, optimization = config.checkpoint, config.optimization
    some, updates_kept = checkpoint.keep_interval_updates_pattern != -1, checkpoint.keep_interval_updates
    limits = {  # that hold without counting; best 1 is checkpoint_best.pt, which is kept
        "last_epochs": {
            "--no-epoch-checkpoints": 0 if checkpoint.no_epoch_checkpoints else math.inf,
            "--keep-last-epochs": checkpoint.keep_last_epochs if checkpoint.keep_last_epochs > 0 else math.inf,
        },
        "last_updates": {
            "--save-interval-updates": math.inf if checkpoint.save_interval_updates > 0 else 0,
            "--keep-interval-updates": math.inf if some or updates_kept <= 0 else updates_kept,
        },
        "best": {
            "--disable-validation": 0 if config.dataset.disable_validation else math.inf,
            "--keep-best-checkpoints": max(checkpoint.keep_best_checkpoints, 0) if count > 1 else math.inf,
        },
    }[kind] | {"--no-save": 0 if checkpoint.no_save else math.inf}
    said = f"average.{kind} {count}: training"
    for flag, most in limits.items():
        if most < needed:
            raise RunError(f"{said} would leave {most} of these checkpoints, by {flag}")
    counted = not _in_epochs(config, needed if kind == "best" else 0)
    per_epoch = updates_per_epoch(config) if counted else 1
    comes, patience = written(config, per_epoch, kind, count), checkpoint.patience
    if comes < needed:
        sections = {"max-update": optimization, "max-epoch": optimization, "validate-after-updates": config.dataset}
        sections |= {"save-interval": checkpoint, "save-interval-updates": checkpoint}
        values = {f"--{flag}": section[flag.replace("-", "_")] for flag, section in sections.items()}
        given = ", ".join(f"{flag} {value}" for flag, value in values.items() if value)
        more = f", with epochs of {per_epoch} update{'s' * (per_epoch > 1)}" if counted else ""
        more += "; an update that ends an epoch has none" if kind == "last_updates" else ""
        raise RunError(f"{said} would leave {comes} of these checkpoints, by {given}{more}")
    if patience > 0 and (least := written(config, per_epoch, kind, count, patience)) < count:
        return f"{said} may leave only {least} of these checkpoints, if --patience {patience} ends it early"
    if optimization.stop_time_hours > 0:
        return f"{said} may leave fewer of these checkpoints, if --stop-time-hours ends it early"
    if kind == "best" and count > 1:
        return f"{said} may leave only 1 of these checkpoints: fairseq writes none that is worse than those it has"
    return ""


def _in_epochs(config: "DictConfig", best: int) -> bool:
    """Whether it does not matter to the checkpoints of a training how many updates its epochs have.

    Args:
        config: of ``fairseq-train``.
        best: how many of the best are needed: one there is after the first epoch, and if training ends in it.
    """
    checkpoint, dataset = config.checkpoint, config.dataset
    if best == 1 and checkpoint.save_interval == dataset.validate_interval == 1 and not dataset.validate_after_updates:
        return True
    by_updates = (checkpoint.save_interval_updates, dataset.validate_interval_updates, dataset.validate_after_updates)
    return not (config.optimization.max_update or any(n > 0 for n in by_updates))


def written(config: "DictConfig", per_epoch: int, kind: str, count: int, patience: int = 0) -> int:
    """How many checkpoints of a kind training writes, at most ``count``: the first ones of fairseq's loop, if not kept.

    Args:
        config: of ``fairseq-train``.
        per_epoch: updates per epoch.
        kind: ``last_epochs``, ``last_updates`` or ``best``. Of the last, those that may be among the best are counted.
        count: how many are enough.
        patience: end after so many validations without a better result than that of the first.
    """
    checkpoint, dataset, optimization = config.checkpoint, config.dataset, config.optimization
    interval, validation = checkpoint.save_interval_updates, dataset.validate_interval_updates
    # Without an end all repeats itself after so many updates.
    period = math.lcm(per_epoch * checkpoint.save_interval, per_epoch * dataset.validate_interval, max(interval, 1))
    end = optimization.max_update or dataset.validate_after_updates + (count + patience + 1) * period
    if optimization.max_epoch:
        end = min(end, optimization.max_epoch * per_epoch)
    moments = heapq.merge(*(range(n, end + 1, n) for n in (per_epoch, interval, validation, end) if n > 0))
    found = validations = 0
    for update, _ in itertools.groupby(moments):
        epoch, within = divmod(update, per_epoch)
        stops, late = update == optimization.max_update, update >= dataset.validate_after_updates
        by_updates = interval > 0 and update % interval == 0
        by_epoch = not within and epoch % checkpoint.save_interval == 0
        saves = by_epoch or stops or (by_updates and late)
        validates = stops or (saves if within else epoch % dataset.validate_interval == 0)
        validates = validates or (validation > 0 and update % validation == 0)
        validates = validates and late and not dataset.disable_validation
        validations += validates
        stops = stops or 0 < patience < validations
        if saves or stops:
            found += {"last_epochs": by_epoch, "last_updates": bool(within) and by_updates, "best": validates}[kind]
        if stops or found >= count:
            break
    return found


def updates_per_epoch(config: "DictConfig") -> int:
    """How many updates an epoch of training has, from the lengths of its sentences."""
    from fairseq import tasks
    from fairseq.data import data_utils

    task = tasks.setup_task(config.task)
    data = config.dataset
    task.load_dataset(data.train_subset, epoch=1, combine=True)
    dataset = task.dataset(data.train_subset)
    with data_utils.numpy_seed(config.common.seed):
        indices = dataset.ordered_indices()
    longest = task.max_positions()
    if longest is not None:
        indices = task.filter_indices_by_size(indices, dataset, longest, True)
    batches = dataset.batch_by_size(
        indices,
        max_tokens=data.max_tokens,
        max_sentences=data.batch_size,
        required_batch_size_multiple=data.required_batch_size_multiple,
    )
    per_update = config.distributed_training.distributed_world_size * config.optimization.update_freq[0]
    return math.ceil(len(batches) / per_update)
