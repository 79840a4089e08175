"""What a run is: ``run.json`` in its folder, written when its training begins.

It holds the recipe, seed, precision and devices, the command without the words that say where it runs, the model as
fairseq resolved it, the checkpoint that training starts from, hashes of the dictionaries, and under ``places`` the
hardware and versions of every start. Records, comparisons and the runner read it; nothing else says what a run is.

torch and fairseq are imported by the functions that need them.
"""

import contextlib
import functools
import importlib.metadata
import json
import math
import platform
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from .. import processors
from ..errors import OdeTransformerError
from ..files import read_json, sha256, write_json
from ..version import __version__
from . import recipes

if TYPE_CHECKING:
    from omegaconf import DictConfig

KEYS = (
    *("recipe", "given", "task", "scale", "seed", "precision", "command", "start", "data", "flags", "generate"),
    *("dictionaries", "parameters", "model", "places", "devices"),
)
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
def commit(clone: Optional[str | Path] = None) -> str:
    """The commit of a clone, ``+`` if its files differ from it; empty if that is unknown.

    Args:
        clone: its folder; by default that of the code that this process runs.
    """
    root = Path(clone or recipes.ROOT)
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


def installed(packages: Iterable[str]) -> dict[str, str]:
    """The versions of those packages that are installed."""
    found = {}
    for package in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


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
    missing = [key for key in KEYS if key not in run] if isinstance(run, dict) else list(KEYS)
    kinds = {"command": list, "dictionaries": dict, "parameters": dict, "places": list, "data": str, "generate": dict}
    for key, kind in kinds.items():
        if not missing and run.get(key) is not None and not isinstance(run[key], kind):
            missing.append(f"a {kind.__name__} of {key}")
    if missing:
        raise RunError(f"{folder / 'run.json'}: is not what ode-transformer run writes, it lacks {', '.join(missing)}")
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
    if not isinstance(stamps, dict) or not all(
        isinstance(stamp, dict) and {"command", "line", "seconds"} <= set(stamp) for stamp in stamps.values()
    ):
        raise RunError(f"{path}: is not what ode-transformer run writes")
    return stamps


def configuration(words: Sequence[str]) -> "DictConfig":
    """What fairseq makes of the flags of ``fairseq-train``, to be called from the top of the repository.

    Raises:
        RunError: it refuses them; what it says is in the message, or stands above it.
    """
    from fairseq import options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    from .. import models  # noqa: F401  registers the architectures

    parser = options.get_training_parser()
    try:
        return convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, list(words)))
    except OdeTransformerError:
        raise
    except SystemExit as error:
        raise RunError("fairseq-train refuses its flags, see above") from error
    except (ValueError, SyntaxError) as error:  # --lr 0,001; --fp16 with --bf16
        raise RunError(f"fairseq-train refuses its flags: {error}") from error


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


def check_average(recipe: "recipes.Recipe", config: "DictConfig") -> None:
    """Whether training will leave the checkpoints that are to be averaged, before it begins.

    Raises:
        RunError: it will not; the message names the flags.
    """
    wanted, checkpoint, optimization = recipe.average, config.checkpoint, config.optimization
    epochs, updates = optimization.max_epoch or math.inf, optimization.max_update or math.inf

    def enough(kind: str, wanted: int, comes: float, why: str) -> None:
        if comes < wanted:
            raise RunError(f"average.{kind} {wanted}: training would leave {comes:g} of these checkpoints, by {why}")

    def kept(limit: int) -> float:
        return math.inf if limit <= 0 else limit

    if wanted.best and wanted.best > 1:
        enough("best", wanted.best, max(checkpoint.keep_best_checkpoints, 0), "--keep-best-checkpoints")
    if wanted.last_epochs:
        enough("last_epochs", wanted.last_epochs, kept(checkpoint.keep_last_epochs), "--keep-last-epochs")
        enough("last_epochs", wanted.last_epochs, epochs // checkpoint.save_interval, "--max-epoch")
        if checkpoint.no_epoch_checkpoints:
            enough("last_epochs", wanted.last_epochs, 0, "--no-epoch-checkpoints")
        if updates < math.inf:
            per_epoch = updates_per_epoch(config)
            why = f"--max-update {updates} with {per_epoch} updates per epoch"
            enough("last_epochs", wanted.last_epochs, updates // per_epoch // checkpoint.save_interval, why)
    if wanted.last_updates:
        interval = checkpoint.save_interval_updates
        enough("last_updates", wanted.last_updates, kept(checkpoint.keep_interval_updates), "--keep-interval-updates")
        enough("last_updates", wanted.last_updates, math.inf if interval else 0, "--save-interval-updates")
        if updates == math.inf and epochs < math.inf:
            updates = epochs * updates_per_epoch(config)
        # At the end of an epoch fairseq writes the epoch's checkpoint instead: an upper bound.
        enough("last_updates", wanted.last_updates, updates // interval, f"{updates:g} updates in all")


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
